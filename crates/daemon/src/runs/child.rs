//! Runs that a run starts: they are runs like any other, and end with their parent.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use steplatch_ids::StepId;
use steplatch_store::Journal;
use steplatch_workflow::{Child, ChildWorkflow, Definition, Event, History, Input, Outcome, Start, child_outcome};

use super::catalog::TerminalTools;
use super::event::read;
use super::{Beginning, Run, Shared};
use crate::caller::Caller;

/// How long the end of a cancelled child is waited for.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Starts the run that a step asks for, waits for its end, and returns what it came to. A step that started one
/// before waits for that one.
///
/// The future has a name for its type because a run's driver performs this, and this starts a driver.
pub(super) fn perform(
    shared: Arc<Shared>,
    caller: Arc<Caller>,
    step: StepId,
    child: Child,
    limit: Option<Duration>,
) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
    Box::pin(async move {
        let run = match shared.started_by(&step) {
            Some(run) => run,
            None => match begin(&shared, &caller, step, child).await {
                Ok(run) => run,
                Err(error) => return refused(error),
            },
        };
        // Whoever stops waiting for the child, stops the child.
        let watched = Watched(run.clone());
        if !watched.0.over_within(limit).await {
            give_up(&watched.0).await;
            return Outcome::TimedOut;
        }
        let records = match shared.journal.read(&run.id, 1).await {
            Ok(records) => records,
            Err(error) => return refused(format!("what became of run {} can not be read: {error}", run.id)),
        };
        let events: Vec<Event> = records.iter().filter_map(read).collect();
        let progress = run.progress();
        match child_outcome(&History::from_iter(&events), progress.state.name()) {
            Outcome::Finished { mut result } => {
                result.insert("workflow_name".to_owned(), run.workflow.clone().into());
                // One that could not be written down has no history that says so.
                if let Some(error) = progress.error {
                    result.insert("error".to_owned(), error.into());
                }
                Outcome::Finished { result }
            }
            other => other,
        }
    })
}

/// Cancels a run and waits until it has left nothing behind.
pub(super) async fn give_up(run: &Run) {
    cancel(run);
    run.over(ENDS_WITHIN).await;
}

fn cancel(run: &Run) {
    // One that is over, or ends just now, needs no end.
    let _ = run.inputs.send(Input::Cancel { reason: "the run that started it went on without it".to_owned() });
}

/// A run that is cancelled when nobody waits for it any more.
struct Watched(Arc<Run>);

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.0.progress().state.is_over() {
            cancel(&self.0);
        }
    }
}

async fn begin(shared: &Arc<Shared>, caller: &Arc<Caller>, step: StepId, child: Child) -> Result<Arc<Run>, String> {
    let document = match child.workflow {
        ChildWorkflow::Inline(document) => document,
        ChildWorkflow::Named(name) => shared.named.find(caller, &name)?,
    };
    let definition = Definition::parse(&document, &TerminalTools)
        .map_err(|problems| format!("the workflow is not valid:\n{problems}"))?;
    if let Some(session) = &child.session_id {
        shared.sessions.exists(session).await?;
    }
    let variables = child.variables.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
    let beginning = Beginning { definition, variables, parent: Some(step) };
    Ok(shared.begin(caller, beginning, |run, variables, parent| Start {
        run,
        session_id: child.session_id,
        variables,
        limits: child.limits,
        keep_terminals: child.keep_terminals,
        parent,
        depth: child.depth,
    }))
}

fn refused(error: String) -> Outcome {
    let fields = [("success".to_owned(), false.into()), ("error".to_owned(), error.into())];
    Outcome::Finished { result: Map::from_iter(fields) }
}
