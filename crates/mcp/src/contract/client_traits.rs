//! Treatment of tools and replies by known clients.
//!
//! Measured on 2026-12-01 with the real programs and a stand-in for their models, which received the requests: Claude
//! Code 2.1, Codex 0.171, Gemini CLI 0.61, OpenCode 1.18, Copilot CLI 1.0. All of them pass on the text of a reply that
//! has no structured content. If there is both, Copilot CLI passes on both.

use super::app::{APP_EXTENSION, APP_MIME_TYPE};
use crate::offer::ClientContext;

/// Treatment of tools and replies by a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClientTraits {
    /// The client loads the definition of a tool when its model needs it, so that a long list costs little.
    pub(super) loads_tools_on_demand: bool,
    /// The client passes the text of a reply to its model. It needs neither structured content nor its schema.
    pub(super) reads_text: bool,
    /// The client shows apps, which read structured content.
    pub(super) shows_apps: bool,
}

/// The known clients, by the names that they give themselves.
const KNOWN_CLIENTS: [(&str, ClientTraits); 5] = [
    ("claude-code", ClientTraits { loads_tools_on_demand: true, reads_text: true, shows_apps: false }),
    ("codex-mcp-client", ClientTraits { loads_tools_on_demand: false, reads_text: true, shows_apps: false }),
    ("copilot-cli", ClientTraits { loads_tools_on_demand: true, reads_text: true, shows_apps: false }),
    ("gemini-cli-mcp-client", ClientTraits { loads_tools_on_demand: false, reads_text: true, shows_apps: false }),
    ("opencode", ClientTraits { loads_tools_on_demand: false, reads_text: true, shows_apps: false }),
];

impl ClientTraits {
    /// Returns the traits of a client. An unknown client loads all tools and reads structured content.
    pub(super) fn new(client: &ClientContext<'_>) -> Self {
        let name = client.name();
        let known = KNOWN_CLIENTS.iter().find(|(known, _)| Some(*known) == name.as_deref());
        let mut traits = known.map(|(_, traits)| *traits).unwrap_or_default();
        if client.shows_apps(APP_EXTENSION, APP_MIME_TYPE) {
            traits = Self { reads_text: false, shows_apps: true, ..traits };
        }
        traits
    }
}
