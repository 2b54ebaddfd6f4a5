//! The outcome of a finished machine, for the run that started it.

use serde_json::Value;
use steplatch_workflow::{History, Outcome, child_outcome};

use super::report::shorten;
use crate::child::refused;
use crate::engine_state::Engine;
use crate::result_error::ResultError;
use crate::run::Run;
use crate::seal::Seal;

/// Characters of a variable in the result of a child, at the most: its head and tail are kept. A result is stored with the run
/// above and reported with it; the child's own history has all of it.
const LONGEST_VARIABLE: usize = 500;

/// Returns the outcome of a finished machine, for a machine that waits for it.
pub(crate) async fn outcome(shared: &Engine, run: &Run) -> Outcome {
    let events = match shared.events_of(&run.id, 1, &Seal::default()).await {
        Ok(events) => events,
        Err(error) => return refused(format!("what became of run {} can not be read: {error}", run.id)),
    };
    match child_outcome(&History::from_iter(&events), run.state().name()) {
        Outcome::Finished { mut result } => {
            let progress = run.progress();
            let saving = run.about.source.saving(progress.kept.as_ref(), progress.unsaved.as_deref());
            let mut set = |name: &str, value: Value| drop(result.insert(name.to_owned(), value));
            set("workflow_name", run.about.workflow.clone().into());
            set("workflow_saved", saving.saved.is_some().into());
            // A null overwrites no variable, so `{saved_workflow_name}` is one that was saved.
            set("saved_workflow_name", saving.saved.into());
            if let Some(name) = saving.duplicate_of {
                set("duplicate_of", name.into());
            }
            // The error of a child is the reason of its failure, and this child did not fail.
            if let Some(error) = saving.error {
                set("saving_error", error.into());
            }
            if let Some(variables) = result.get_mut("final_variables") {
                shorten(variables, LONGEST_VARIABLE);
                shared.secrets.mask_in(variables);
            }
            Outcome::Finished { result }
        }
        other => other,
    }
}

/// Returns the result of a completed machine, for a function that waits for it.
///
/// # Errors
///
/// When its history cannot be read, or contains no result.
pub(crate) async fn value(shared: &Engine, run: &Run) -> Result<Value, ResultError> {
    let events = shared.events_of(&run.id, 1, &Seal::default()).await?;
    match child_outcome(&History::from_iter(&events), run.state().name()) {
        Outcome::Finished { result } => Ok(Value::Object(result)),
        _ => Err(ResultError::NoResult),
    }
}
