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
    /// The address of the page at http://localhost, to be opened by a file that goes on to it with the ticket; without one no file is
    /// written. What is behind its `#` follows the ticket
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<PageSecret>,
}

/// The ticket.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct OpenPageReply {
    /// Whether there is one
    pub success: bool,
    /// The ticket
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<PageSecret>,
    /// The file that goes on to the address with the ticket: only its owner reads it, and it is removed once the ticket is used or has
    /// expired
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Seconds until it expires
    #[serde(default)]
    pub expires_seconds: u64,
    /// What went wrong and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct BeginPageSessionReply {
    /// Whether it began
    pub success: bool,
    /// Its id
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The half that the browser keeps as a cookie, which all ports of its host receive
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<PageSecret>,
    /// The half that only pages of the origin can read
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half: Option<PageSecret>,
    /// Seconds until it expires, however often it is used
    #[serde(default)]
    pub expires_seconds: u64,
    /// What went wrong and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Check both halves of a session, and record its use.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CheckPageSession {
    /// The half in the cookie
    pub cookie: PageSecret,
    /// The half of the origin
    pub half: PageSecret,
}

/// Whether they are those of a session.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CheckPageSessionReply {
    /// Whether they are
    pub success: bool,
    /// Its id
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What went wrong and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
}

/// A browser that is logged in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageSessionInfo {
    /// Its id
    pub session_id: String,
    /// The browser, as it calls itself
    pub browser: String,
    /// When it logged in (ISO 8601, UTC)
    pub began: String,
    /// When it was last used (ISO 8601, UTC), to some minutes
    pub used: String,
    /// When it expires if it is not used (ISO 8601, UTC)
    pub expires: String,
}

/// End a session of the page, or all of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct EndPageSessions {
    /// Its id, or the beginning of it; without one all sessions are ended
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// How many sessions were ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct EndPageSessionsReply {
    /// Whether the named session, or every session, is ended
    pub success: bool,
    /// How many were ended
    #[serde(default)]
    pub ended: usize,
    /// What went wrong and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_sent_and_not_printed() {
        let verb = BeginPageSession { ticket: PageSecret("abc123".to_owned()), browser: String::new() };
        assert!(serde_json::to_string(&verb).unwrap().contains("abc123"));
        assert!(!format!("{verb:?}").contains("abc"));
    }
}
