//! The result of a call of a node: always a value, even for a failed call.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::kind::NodeType;
use crate::node::Node;
use crate::outcome::{ErrorType, ExecutorOutcome, Failure};

/// The result of a call of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeResult {
    /// True if it succeeded.
    pub success: bool,
    /// Output; for a failed call, the output before the failure.
    pub output: Value,
    /// Error message, as a complete sentence.
    pub error: Option<String>,
    /// Kind of the failure.
    pub error_type: Option<ErrorType>,
    /// Kind of the node.
    pub node_type: NodeType,
    /// The node's id.
    pub node_id: String,
    /// The input of the call.
    pub input: Value,
    /// Further attributes, depending on the kind of node.
    pub attributes: Map<String, Value>,
}

/// Result as returned by a function.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Returned {
    output: Value,
    success: Option<bool>,
    error: Option<String>,
    error_type: Option<String>,
    attributes: Option<Map<String, Value>>,
}

impl NodeResult {
    pub(crate) fn from_outcome(node: &Node, input: Value, outcome: ExecutorOutcome) -> Self {
        let (error_type, error) = outcome.failure.map(|failure| (failure.kind, failure.message)).unzip();
        Self {
            success: error.is_none(),
            output: outcome.output,
            error,
            error_type,
            node_type: node.kind.node_type(),
            node_id: node.id.to_string(),
            input,
            attributes: outcome.attributes,
        }
    }

    /// Returns the result of a call that has only an error.
    #[must_use]
    pub fn failed(node: &Node, input: Value, kind: ErrorType, message: impl Into<String>) -> Self {
        Self::from_outcome(node, input, Failure::new(kind, message).into())
    }

    /// Returns the result of a function that returned `output`. An object with `output`, and no other fields than
    /// `success`, `error`, `error_type` and `attributes`, is the result itself. Any other value is the output of a
    /// successful result.
    #[must_use]
    pub fn returned(node: &Node, input: Value, output: Value) -> Self {
        let Ok(Returned { success, output, error, error_type, attributes }) = Returned::deserialize(&output) else {
            return Self::succeeded(node, input, output);
        };
        let parse_error_type = |name: String| serde_json::from_value(name.into()).unwrap_or(ErrorType::Exception);
        let mut result = Self::succeeded(node, input, output);
        result.success = success.unwrap_or(error.is_none());
        result.error = error;
        result.error_type = error_type.map(parse_error_type);
        result.attributes = attributes.unwrap_or_default();
        if !result.success {
            result.error.get_or_insert_with(|| "The function reported a failure.".to_owned());
            result.error_type.get_or_insert(ErrorType::Exception);
        }
        result
    }

    /// Returns the result of a call that succeeded.
    #[must_use]
    pub fn succeeded(node: &Node, input: Value, output: impl Into<Value>) -> Self {
        Self::from_outcome(node, input, ExecutorOutcome::success(output))
    }
}
