//! Treatment of tools and replies by known clients.
//!
//! Measured on 2026-12-01 with the real programs and a stand-in for their models, which received the requests: Claude
//! Code 2.1, Codex 0.171, Gemini CLI 0.61, OpenCode 1.18, Copilot CLI 1.0. All of them pass on the text of a reply that
//! has no structured content. If there is both, Copilot CLI passes on both.

/// Treatment of tools and replies by a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClientTraits {
    /// The client loads the definition of a tool when its model needs it, so that a long list costs little.
    pub(super) loads_tools_on_demand: bool,
    /// The client passes the text of a reply to its model. It needs neither structured content nor its schema.
    pub(super) reads_text: bool,
}

/// The known clients, by the names that they give themselves.
const KNOWN_CLIENTS: [(&str, ClientTraits); 5] = [
    ("claude-code", ClientTraits { loads_tools_on_demand: true, reads_text: true }),
    ("codex-mcp-client", ClientTraits { loads_tools_on_demand: false, reads_text: true }),
    ("copilot-cli", ClientTraits { loads_tools_on_demand: true, reads_text: true }),
    ("gemini-cli-mcp-client", ClientTraits { loads_tools_on_demand: false, reads_text: true }),
    ("opencode", ClientTraits { loads_tools_on_demand: false, reads_text: true }),
];

impl ClientTraits {
    /// Returns the traits of the client with this name. An unknown client loads all tools and reads structured content.
    pub(super) fn by_name(name: Option<&str>) -> Self {
        let known = KNOWN_CLIENTS.iter().find(|(known, _)| Some(*known) == name);
        known.map(|(_, traits)| *traits).unwrap_or_default()
    }
}
