//! The tools of the product, with what a definition asks about them at hand: to generate their schemas for each machine
//! takes longer than to simulate it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};
use steplatch_actions::{TerminalTools, verb};
use steplatch_workflow::{Problem, ToolCatalog};

/// The tools of [`TerminalTools`]. It does not check parameters: a test does this for every action.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CachedTools;

/// Facts about a tool.
struct Tool {
    takes_session: bool,
    /// Parameters that are text or consist of texts.
    texts: Vec<String>,
}

static TOOLS: LazyLock<BTreeMap<String, Tool>> = LazyLock::new(|| {
    let facts = |tool: String| {
        let schema = verb(&tool).map(|verb| (verb.parameters)()).unwrap_or_default();
        let params = schema["properties"].as_object().into_iter().flat_map(|params| params.keys());
        let texts = params.filter(|param| TerminalTools.takes_text(&tool, param)).cloned().collect();
        (tool.clone(), Tool { takes_session: TerminalTools.takes_session(&tool), texts })
    };
    TerminalTools.tools().into_iter().map(facts).collect()
});

impl ToolCatalog for CachedTools {
    fn tools(&self) -> Vec<String> {
        TOOLS.keys().cloned().collect()
    }

    fn check(&self, _: &str, _: &Map<String, Value>) -> Vec<Problem> {
        Vec::new()
    }

    fn fields(&self, tool: &str) -> Option<Vec<String>> {
        TerminalTools.fields(tool)
    }

    fn takes_session(&self, tool: &str) -> bool {
        TOOLS.get(tool).is_some_and(|tool| tool.takes_session)
    }

    fn has_judges(&self) -> bool {
        TerminalTools.has_judges()
    }

    fn takes_text(&self, tool: &str, param: &str) -> bool {
        TOOLS.get(tool).is_some_and(|tool| tool.texts.iter().any(|text| text == param))
    }
}
