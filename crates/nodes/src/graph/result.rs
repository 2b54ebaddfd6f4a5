//! The result of a graph, built from its progress.

use serde_json::{Map, Value, json};

use super::event::Ending;
use super::progress::{Progress, Status, StepProgress};
use super::{Graph, StepOutcome};
use crate::node::Node;
use crate::outcome::{ErrorType, ExecutorOutcome, Failure};
use crate::result::NodeResult;

/// Returns the result of a graph. An unfinished graph gives its outputs so far, and a failure.
#[must_use]
pub fn result(node: &Node, graph: &Graph, progress: &Progress) -> NodeResult {
    let input = progress.input.as_deref().cloned().unwrap_or_default();
    let failure = match progress.ended {
        Some(true) => None,
        Some(false) => Some(first_failure(progress)),
        None => Some(Failure::new(ErrorType::Interrupted, "The graph was stopped before it finished.")),
    };
    NodeResult::from_outcome(node, input, outcome(graph, progress, failure))
}

fn outcome(graph: &Graph, progress: &Progress, failure: Option<Failure>) -> ExecutorOutcome {
    let final_step = graph.plan.final_step();
    let steps: Map<String, Value> =
        progress.steps.iter().map(|step| (step.id.to_string(), Value::Object(step_fields(step)))).collect();
    let order: Vec<Value> = progress.started_steps.iter().map(|step| step.as_str().into()).collect();
    let output = progress.steps[final_step].output().cloned().unwrap_or_default();
    ExecutorOutcome { output, failure, attributes: Map::new() }
        .with("steps", steps)
        .with("execution_order", order)
        .with("final_step_id", graph.steps[final_step].id.as_str())
}

/// Returns the failure of the first failed step, with the number of other failed steps.
fn first_failure(progress: &Progress) -> Failure {
    let failed: Vec<(&StepProgress, &String)> = progress
        .started_steps
        .iter()
        .filter_map(|id| progress.steps.iter().find(|step| step.id == *id))
        .filter_map(|step| match &step.status {
            Status::Ended(Ending::Failed { error, .. }) => Some((step, error)),
            _ => None,
        })
        .collect();
    let Some((step, error)) = failed.first() else {
        return Failure::new(ErrorType::Step, "A step failed.");
    };
    let suffix = match failed.len() - 1 {
        0 => String::new(),
        1 => " One more step failed.".to_owned(),
        more => format!(" {more} more steps failed."),
    };
    Failure::new(ErrorType::Step, format!("Step '{}' failed: {error}{suffix}", step.id))
}

fn step_fields(step: &StepProgress) -> Map<String, Value> {
    let mut fields = match step.result().map(serde_json::to_value) {
        Some(Ok(Value::Object(result))) => result,
        _ => Map::new(),
    };
    let status = match &step.status {
        Status::Ended(Ending::Completed) => "completed",
        Status::Ended(Ending::Skipped { value }) => {
            fields.insert("output".to_owned(), value.clone());
            "skipped"
        }
        Status::Ended(Ending::Failed { error, error_type }) => {
            fields.insert("error".to_owned(), error.as_str().into());
            fields.insert("error_type".to_owned(), json!(error_type));
            "failed"
        }
        Status::Ended(Ending::NotRun { because }) => {
            fields.insert("error".to_owned(), format!("Step '{because}', on which it depends, failed.").into());
            "not_run"
        }
        Status::Running { .. } => "running",
        Status::Waiting | Status::Again | Status::Fallback | Status::Delayed { .. } | Status::Returned => "waiting",
    };
    if matches!(step.last_outcome.as_deref(), Some(StepOutcome::TimedOut | StepOutcome::Unknown))
        || !fields.contains_key("success")
    {
        fields.insert("success".to_owned(), false.into());
    }
    fields.insert("status".to_owned(), status.into());
    fields.insert("attempts".to_owned(), step.attempts.into());
    fields
}
