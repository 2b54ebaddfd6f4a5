//! The part of the tool catalog that a definition needs.

use serde_json::{Map, Value};

use super::Problem;

/// The tools that a state may name, provided by the component that performs them.
pub trait ToolCatalog {
    /// Returns the names of all tools, without [`MACHINE_TOOLS`](crate::tool::MACHINE_TOOLS).
    fn tools(&self) -> Vec<String>;

    /// Checks the literal parameters of a tool.
    ///
    /// A string with a `{` is accepted, because its value is not known yet. A missing session is accepted, because the
    /// run supplies it. The pointers of the problems begin at the parameters (`/timeout`).
    fn check(&self, tool: &str, params: &Map<String, Value>) -> Vec<Problem>;

    /// Returns the JSON Schema of a tool's parameters. The description of the schema describes the tool.
    fn schema(&self, tool: &str) -> Option<Value> {
        let _ = tool;
        None
    }

    /// Returns the known fields of a tool's result; `None` if any field is possible.
    fn fields(&self, tool: &str) -> Option<Vec<String>> {
        let _ = tool;
        None
    }

    /// Returns whether the tool works on a terminal, named by its parameter `session_id`.
    fn takes_session(&self, tool: &str) -> bool;

    /// Returns whether the daemon can open a gate for a condition with a description.
    fn has_judges(&self) -> bool {
        false
    }

    /// Returns whether a parameter is a string or consists of strings.
    ///
    /// In such a parameter, `"{exit_code}"` becomes the string `"0"`; in others it becomes the number `0`.
    fn takes_text(&self, tool: &str, param: &str) -> bool {
        let _ = (tool, param);
        false
    }
}
