//! Identity nodes. A call returns its input.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_workflow::Problem;

use super::NodeSettings;
use crate::context::CallContext;
use crate::node::{read_object, schema_of};
use crate::outcome::ExecutorOutcome;

/// Returns its input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {}

impl NodeSettings for Identity {
    fn read(fields: &Map<String, Value>, common_keys: &[String], problems: &mut Vec<Problem>) -> Option<Self> {
        read_object(fields, "", "an identity node", common_keys, problems)
    }

    fn schema() -> Value {
        schema_of::<Self>()
    }

    async fn perform(&self, context: &CallContext<'_>) -> ExecutorOutcome {
        ExecutorOutcome::success(context.call.input.clone())
    }
}
