//! Verbs about the page: the tickets that open it in a browser, and the sessions of browsers that are logged in.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A secret of a login: a ticket or half of a session. Its debug output is redacted.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PageSecret(pub String);

impl fmt::Debug for PageSecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("PageSecret(…)")
    }
}

/// Get a ticket with which a browser logs in to the page once. Only a person in their own terminal gets one.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct OpenPage {
    /// Address of the page at http://localhost. If set, a file is written that redirects a browser to this address with
    /// the ticket. The part after its `#` follows the ticket
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<PageSecret>,
}

/// The ticket.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct OpenPageReply {
    /// True if a ticket was issued
    pub success: bool,
    /// The ticket
    pub ticket: Option<PageSecret>,
    /// File that redirects to the address with the ticket. Only its owner can read it, and it is removed once the
    /// ticket is used or has expired
    pub file: Option<String>,
    /// Seconds until the ticket expires
    #[serde(default)]
    pub expires_seconds: u64,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Get a read-only link to a terminal, for another person. Only a person in their own terminal gets one.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ShareTerminal {
    /// Id or name of the terminal
    pub session_id: String,
    /// Seconds until the link expires (default: one hour; at most 7 days)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// The link.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ShareTerminalReply {
    /// True if the link was created
    pub success: bool,
    /// Id of the link, needed to revoke it
    pub share_id: Option<String>,
    /// Ticket, which several browsers may use
    pub ticket: Option<PageSecret>,
    /// Id of the terminal
    pub session_id: Option<String>,
    /// Expiry time of the link (ISO 8601, UTC)
    pub expires: Option<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Exchange a ticket for a session.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct BeginPageSession {
    /// The ticket
    pub ticket: PageSecret,
    /// Name that the browser gives itself
    #[serde(default)]
    pub browser: String,
}

/// The session. Both halves together authenticate it.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct BeginPageSessionReply {
    /// True if the session began
    pub success: bool,
    /// Id of the session
    pub session_id: Option<String>,
    /// Half that the browser keeps as a cookie, which all ports of its host receive
    pub cookie: Option<PageSecret>,
    /// Half that only pages of the origin can read
    pub half: Option<PageSecret>,
    /// Seconds until the session expires, regardless of use
    #[serde(default)]
    pub expires_seconds: u64,
    /// The only terminal that the session may show
    pub terminal: Option<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Check both halves of a session, and record its use.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CheckPageSession {
    /// The half in the cookie
    pub cookie: PageSecret,
    /// The half that only the origin can read
    pub half: PageSecret,
    /// True if a session of a read-only link is accepted
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_link: bool,
}

/// Result of the check.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CheckPageSessionReply {
    /// True if both halves belong to one session
    pub success: bool,
    /// True if the cookie belongs to a session
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cookie_is_known: bool,
    /// Id of the session
    pub session_id: Option<String>,
    /// The only terminal that the session may show
    pub terminal: Option<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// List the browsers that are logged in to the page.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListPageSessions {}

/// The sessions, most recently used first.
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
    /// Id of the link
    pub share_id: String,
    /// Id of the terminal
    pub session_id: String,
    /// Creation time (ISO 8601, UTC)
    pub began: String,
    /// Expiry time (ISO 8601, UTC)
    pub expires: String,
    /// Number of browsers that use the link
    pub browsers: usize,
}

/// A browser that is logged in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageSessionInfo {
    /// Id of the session
    pub session_id: String,
    /// Name that the browser gives itself
    pub browser: String,
    /// Login time (ISO 8601, UTC)
    pub began: String,
    /// Time of the last use (ISO 8601, UTC), accurate to a few minutes
    pub used: String,
    /// Expiry time if the session is not used (ISO 8601, UTC)
    pub expires: String,
}

/// End one page session or read-only link, or all of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct EndPageSessions {
    /// Id of the session or link, or the beginning of it; without it, all are ended
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Number of ended sessions.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct EndPageSessionsReply {
    /// True if the named session, or every session, has ended
    pub success: bool,
    /// Number of ended sessions
    #[serde(default)]
    pub ended: usize,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_serialized_but_not_in_debug_output() {
        let verb = BeginPageSession { ticket: PageSecret("abc123".to_owned()), browser: String::new() };
        assert!(serde_json::to_string(&verb).unwrap().contains("abc123"));
        assert!(!format!("{verb:?}").contains("abc"));
    }
}
