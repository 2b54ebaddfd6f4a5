//! Verbs about the page: the tickets that open it in a browser, and the sessions of browsers that are logged in.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A secret of a login: a ticket or a half of a session. Its debug output is redacted.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PageSecret(pub String);

impl fmt::Debug for PageSecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("PageSecret(…)")
    }
}

/// Get a ticket, with which a browser logs in to the page once. Only a person in a terminal of their own gets one.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct OpenPage {
    /// The address of the page at http://localhost, to be opened by a file that redirects to it with the ticket; without one no file is
    /// written. The part behind its `#` follows the ticket
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<PageSecret>,
}

/// The ticket.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct OpenPageReply {
    /// True if there is a ticket
    pub success: bool,
    /// The ticket
    pub ticket: Option<PageSecret>,
    /// The file that redirects to the address with the ticket: only its owner reads it, and it is removed once the ticket is used or has
    /// expired
    pub file: Option<String>,
    /// Seconds until it expires
    #[serde(default)]
    pub expires_seconds: u64,
    /// The error and what to do
    pub error: Option<String>,
}

/// Get a read-only link to a terminal, for another person. Only a person in a terminal of their own gets one.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ShareTerminal {
    /// Id or name of the terminal
    pub session_id: String,
    /// Seconds until the link expires: an hour unless given, at most 7 days
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// The link.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ShareTerminalReply {
    /// True if there is a link
    pub success: bool,
    /// Id of the link, with which it is ended
    pub share_id: Option<String>,
    /// The ticket, which several browsers may use
    pub ticket: Option<PageSecret>,
    /// Id of the terminal
    pub session_id: Option<String>,
    /// Time at which it expires (ISO 8601, UTC)
    pub expires: Option<String>,
    /// The error and what to do
    pub error: Option<String>,
}

/// Exchange a ticket for a session.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct BeginPageSession {
    /// The ticket
    pub ticket: PageSecret,
    /// The browser, as it calls itself
    #[serde(default)]
    pub browser: String,
}

/// The session. Both halves together are the proof of it.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct BeginPageSessionReply {
    /// True if the session began
    pub success: bool,
    /// Its id
    pub session_id: Option<String>,
    /// The half that the browser keeps as a cookie, which all ports of its host receive
    pub cookie: Option<PageSecret>,
    /// The half that only pages of the origin can read
    pub half: Option<PageSecret>,
    /// Seconds until it expires, however often it is used
    #[serde(default)]
    pub expires_seconds: u64,
    /// The only terminal that the session may see
    pub terminal: Option<String>,
    /// The error and what to do
    pub error: Option<String>,
}

/// Check both halves of a session, and record its use.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CheckPageSession {
    /// The half in the cookie
    pub cookie: PageSecret,
    /// The half of the origin
    pub half: PageSecret,
    /// True if the session may be that of a read-only link
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_link: bool,
}

/// Result of the check.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CheckPageSessionReply {
    /// True if they are the halves of a session
    pub success: bool,
    /// True if the cookie is the half of a session
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cookie_is_known: bool,
    /// Its id
    pub session_id: Option<String>,
    /// The only terminal that the session may see
    pub terminal: Option<String>,
    /// The error and what to do
    pub error: Option<String>,
}

/// List the browsers that are logged in to the page.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListPageSessions {}

/// The sessions, the most recently used first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListPageSessionsReply {
    /// Always true
    pub success: bool,
    /// The sessions
    pub sessions: Vec<PageSessionInfo>,
    /// The read-only links to terminals
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<PageShareInfo>,
}

/// A read-only link to a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageShareInfo {
    /// Its id
    pub share_id: String,
    /// The terminal
    pub session_id: String,
    /// Time at which it was made (ISO 8601, UTC)
    pub began: String,
    /// Time at which it expires (ISO 8601, UTC)
    pub expires: String,
    /// Number of browsers that use it
    pub browsers: usize,
}

/// A browser that is logged in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageSessionInfo {
    /// Its id
    pub session_id: String,
    /// The browser, as it calls itself
    pub browser: String,
    /// Time of the login (ISO 8601, UTC)
    pub began: String,
    /// Time of the last use (ISO 8601, UTC), to some minutes
    pub used: String,
    /// Time at which it expires if it is not used (ISO 8601, UTC)
    pub expires: String,
}

/// End a session of the page or a read-only link, or all of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct EndPageSessions {
    /// Its id, or the beginning of it; without one all sessions are ended
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Number of sessions that were ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct EndPageSessionsReply {
    /// True if the named session, or every session, has ended
    pub success: bool,
    /// Number of sessions that were ended
    #[serde(default)]
    pub ended: usize,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_sent_but_not_printed() {
        let verb = BeginPageSession { ticket: PageSecret("abc123".to_owned()), browser: String::new() };
        assert!(serde_json::to_string(&verb).unwrap().contains("abc123"));
        assert!(!format!("{verb:?}").contains("abc"));
    }
}
