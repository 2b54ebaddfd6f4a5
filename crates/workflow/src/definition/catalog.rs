//! The part of the tool catalog that a definition needs.

use serde_json::{Map, Value};

use super::Problem;

/// The tools that a state may name, provided by the component that performs them.
pub trait ToolCatalog {
    /// Returns the names of all tools. `sleep` and `run_workflow` are not among them: they belong to
    /// every machine.
    fn tools(&self) -> Vec<String>;

    /// Checks the parameters of one of these tools if they are literal.
    ///
    /// A string with a `{` may turn out to be anything, so it passes. A missing session passes too: the run fills it
    /// in. The pointers of the problems begin at the parameters (`/timeout`).
    fn check(&self, tool: &str, params: &Map<String, Value>) -> Vec<Problem>;

    /// Returns the JSON Schema of a tool's parameters, whose description is that of the tool.
    fn schema(&self, tool: &str) -> Option<Value> {
        let _ = tool;
        None
    }

    /// Returns the known fields of a tool's result: `None` where it may have any.
    fn fields(&self, tool: &str) -> Option<Vec<String>> {
        let _ = tool;
        None
    }

    /// Returns whether the tool works on a terminal, named by its parameter `session_id`.
    fn takes_session(&self, tool: &str) -> bool;

    /// Returns whether the daemon can open a gate for a described condition.
    fn has_judges(&self) -> bool {
        false
    }

    /// Returns whether a parameter is text, or consists of texts.
    ///
    /// `"{exit_code}"` then becomes `"0"`; elsewhere it keeps the variable's type and becomes `0`.
    fn takes_text(&self, tool: &str, param: &str) -> bool {
        let _ = (tool, param);
        false
    }
}
