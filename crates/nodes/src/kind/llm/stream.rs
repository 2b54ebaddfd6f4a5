//! Parser of server-sent events. Returns the data of each event.
//!
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html>

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 4 << 20;

/// Parses events from chunks of bytes, split at any place.
#[derive(Debug, Default)]
pub(super) struct EventParser {
    line: Vec<u8>,
    data: Vec<String>,
    /// True after a carriage return; a following line feed belongs to the same line ending.
    after_carriage_return: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamError {
    LineTooLong,
}

impl EventParser {
    /// Adds bytes and returns the data of the events that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, StreamError> {
        let mut complete = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' if self.after_carriage_return => {}
                b'\n' | b'\r' => complete.extend(self.end_line()),
                _ if self.line.len() == MAX_LINE_BYTES => return Err(StreamError::LineTooLong),
                _ => self.line.push(byte),
            }
            self.after_carriage_return = byte == b'\r';
        }
        Ok(complete)
    }

    fn end_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            return (!data.is_empty()).then(|| data.join("\n"));
        }
        // A complete line contains no split characters.
        let line = String::from_utf8_lossy(&line);
        if let Some(data) = line.strip_prefix("data:") {
            self.data.push(data.strip_prefix(' ').unwrap_or(data).to_owned());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SENT: &str = ": hello\n\ndata: {\"a\":\"é\"}\n\nevent: x\r\ndata:one\r\ndata: two\r\n\r\ndata: [DONE]\n\n";

    #[test]
    fn parser_returns_event_data_and_skips_other_lines() {
        let events = EventParser::default().push(SENT.as_bytes()).unwrap();
        assert_eq!(events, ["{\"a\":\"é\"}", "one\ntwo", "[DONE]"]);
    }

    #[test]
    fn line_beyond_the_limit_is_refused() {
        let mut events = EventParser::default();
        events.push(&vec![b'x'; MAX_LINE_BYTES]).unwrap();
        assert_eq!(events.push(b"x"), Err(StreamError::LineTooLong));
    }

    proptest! {
        #[test]
        fn events_are_parsed_wherever_the_bytes_are_split(size in 1_usize..40) {
            let mut events = EventParser::default();
            let mut all = Vec::new();
            for piece in SENT.as_bytes().chunks(size) {
                all.extend(events.push(piece).unwrap());
            }
            prop_assert_eq!(all, ["{\"a\":\"é\"}", "one\ntwo", "[DONE]"]);
        }
    }
}
