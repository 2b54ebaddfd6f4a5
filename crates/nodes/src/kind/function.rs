//! Function nodes: calls of a function in Python syntax. The daemon performs these nodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_workflow::Problem;

use super::NodeSettings;
use crate::node::{read_object, schema_of};

/// Calls a function in Python syntax.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Function {
    /// Name of the function
    pub function: String,
    /// Source text that defines the function (default: the file that declares the node)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Name of the source in error messages
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl NodeSettings for Function {
    const IS_PERFORMED_HERE: bool = false;

    fn read(fields: &Map<String, Value>, common_keys: &[String], problems: &mut Vec<Problem>) -> Option<Self> {
        read_object(fields, "", "a function node", common_keys, problems)
    }

    fn schema() -> Value {
        schema_of::<Self>()
    }
}
