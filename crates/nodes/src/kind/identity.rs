//! Identity nodes, which return their input.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_workflow::Problem;

use super::NodeSettings;
use crate::context::CallContext;
use crate::node::{checked, schema_of};
use crate::outcome::ExecutorOutcome;

/// Returns its input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {}

impl NodeSettings for Identity {
    fn read(own: &Map<String, Value>, common: &[String], problems: &mut Vec<Problem>) -> Option<Self> {
        checked(own, "", "an identity node", common, problems)
    }

    fn schema() -> Value {
        schema_of::<Self>()
    }

    async fn perform(&self, context: &CallContext<'_>) -> ExecutorOutcome {
        ExecutorOutcome::success(context.call.input.clone())
    }
}
