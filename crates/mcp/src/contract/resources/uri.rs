//! Parsing and writing of the URIs of resources.

use std::fmt;

/// The parsed URI of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    /// A part of a terminal.
    Terminal {
        /// Id or name of the terminal.
        id: String,
        part: Part,
    },
    /// A run, by its id.
    Run(String),
    /// The events of a run.
    Events {
        run: String,
        /// Number of the first event.
        from_seq: Option<u64>,
    },
    /// A saved workflow, by its name.
    Workflow(String),
}

/// A part of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Screen,
    /// The output, starting at a position.
    History {
        offset: Option<u64>,
    },
}

impl Address {
    pub(super) fn terminal(id: &str, part: Part) -> Self {
        Self::Terminal { id: id.to_owned(), part }
    }

    /// Parses a URI. `None` if no resource can have it.
    pub(super) fn parse(uri: &str) -> Option<Self> {
        let (scheme, target) = uri.split_once("://")?;
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let number = |name: &str| match query {
            None => Some(None),
            Some(query) => query.strip_prefix(name)?.strip_prefix('=')?.parse().ok().map(Some),
        };
        let (name, part) = path.split_once('/').map_or((path, None), |(name, part)| (name, Some(part)));
        let name = decode(name).filter(|name| !name.is_empty())?;
        match (scheme, part, query) {
            ("terminal", Some("screen"), None) => Some(Self::Terminal { id: name, part: Part::Screen }),
            ("terminal", Some("history"), _) => {
                Some(Self::Terminal { id: name, part: Part::History { offset: number("offset")? } })
            }
            ("run", None, None) => Some(Self::Run(name)),
            ("run", Some("events"), _) => Some(Self::Events { run: name, from_seq: number("from_seq")? }),
            ("workflow", None, None) => Some(Self::Workflow(name)),
            _ => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let query = |f: &mut fmt::Formatter<'_>, name: &str, value: &Option<u64>| match value {
            Some(value) => write!(f, "?{name}={value}"),
            None => Ok(()),
        };
        match self {
            Self::Terminal { id, part: Part::Screen } => write!(f, "terminal://{}/screen", encode(id)),
            Self::Terminal { id, part: Part::History { offset } } => {
                write!(f, "terminal://{}/history", encode(id))?;
                query(f, "offset", offset)
            }
            Self::Run(run) => write!(f, "run://{}", encode(run)),
            Self::Events { run, from_seq } => {
                write!(f, "run://{}/events", encode(run))?;
                query(f, "from_seq", from_seq)
            }
            Self::Workflow(name) => write!(f, "workflow://{}", encode(name)),
        }
    }
}

/// Percent-encodes a name as a part of a URI (RFC 3986, section 2.1).
fn encode(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

/// Decodes a part of a URI. `None` if it is malformed or not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut encoded = text.bytes();
    while let Some(byte) = encoded.next() {
        bytes.push(match byte {
            b'%' => {
                let digit =
                    |byte: Option<u8>| char::from(byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit(encoded.next())? * 16 + digit(encoded.next())?
            }
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_formatted() {
        for (uri, address) in [
            ("terminal://t1/screen", Address::terminal("t1", Part::Screen)),
            ("terminal://my%20shell%2F1/history", Address::terminal("my shell/1", Part::History { offset: None })),
            ("terminal://t1/history?offset=70", Address::terminal("t1", Part::History { offset: Some(70) })),
            ("run://run_x", Address::Run("run_x".to_owned())),
            ("run://run_x/events", Address::Events { run: "run_x".to_owned(), from_seq: None }),
            ("run://run_x/events?from_seq=3", Address::Events { run: "run_x".to_owned(), from_seq: Some(3) }),
            ("workflow://%C3%A4", Address::Workflow("ä".to_owned())),
        ] {
            assert_eq!(Address::parse(uri).as_ref(), Some(&address), "{uri}");
            assert_eq!(address.to_string(), uri);
        }
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        for uri in [
            "",
            "terminal://",
            "terminal:///screen",
            "terminal://t1",
            "terminal://t1/screen?offset=1",
            "terminal://t1/history?offset=",
            "terminal://t1/history?offset=-1",
            "terminal://t1/history?limit=1",
            "run://run_x/events/1",
            "run://run_x?from_seq=1",
            "workflow://a/b",
            "workflow://%",
            "workflow://%zz",
            "workflow://%ff",
            "file:///etc/passwd",
        ] {
            assert_eq!(Address::parse(uri), None, "{uri}");
        }
    }
}
