//! Actions that open their own terminal, kept until their end is in the journal.
//!
//! The worker that requested an action may disconnect before its end. The next worker repeats the request for the same
//! step, and receives the outcome of the same action. Otherwise, the end of the first request would close the terminal,
//! and the next worker could not repeat the step.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use steplatch_ids::{RunId, StepId};
use steplatch_workflow::{Event, Outcome};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Actions in progress, and finished actions whose end is not recorded yet.
#[derive(Debug, Default)]
pub(crate) struct Openings(Mutex<HashMap<String, Opening>>);

/// An action, in progress or finished. Dropping this aborts the action.
#[derive(Debug)]
struct Opening {
    /// Outcome of the action; `None` while it is in progress.
    outcome: watch::Receiver<Option<Outcome>>,
    task: AbortHandle,
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns whether an action opens a terminal that closes with its request.
pub(super) fn opens_own_terminal(tool: &str, params: &Map<String, Value>) -> bool {
    tool == "open_terminal" || (tool == "run_command" && params.get("session_id").is_none_or(Value::is_null))
}

/// Returns the steps whose ends are among these events.
pub(super) fn ended_steps(events: &[Event]) -> Vec<StepId> {
    let ended_step = |event: &Event| match event {
        Event::StateCompleted { step, .. } => Some(step.clone()),
        _ => None,
    };
    events.iter().filter_map(ended_step).collect()
}

impl Openings {
    /// Performs the action of a step, or joins its existing action. Dropping the future does not stop the action.
    pub(super) async fn perform_or_join(
        &self,
        step: &StepId,
        action: impl Future<Output = Outcome> + Send + 'static,
    ) -> Outcome {
        let mut outcome = {
            let mut openings = self.0.lock();
            let opening = openings.entry(step.to_string()).or_insert_with(|| {
                let (sender, outcome) = watch::channel(None);
                let task = tokio::spawn(async move {
                    sender.send_replace(Some(action.await));
                });
                Opening { outcome, task: task.abort_handle() }
            });
            opening.outcome.clone()
        };
        match outcome.wait_for(Option::is_some).await.map(|outcome| outcome.clone()) {
            Ok(outcome) => outcome.unwrap_or(Outcome::Unknown),
            // The run has finished, or the daemon is stopping.
            Err(_) => Outcome::Unknown,
        }
    }

    /// Removes the actions of these steps, whose ends are in the journal.
    pub(super) fn forget_steps(&self, steps: &[StepId]) {
        let mut openings = self.0.lock();
        for step in steps {
            openings.remove(&step.to_string());
        }
    }

    /// Removes the actions of a run that has finished and aborts its action in progress.
    pub(super) fn forget_run(&self, run: &RunId) {
        let prefix = format!("{run}/");
        self.0.lock().retain(|step, _| !step.starts_with(&prefix));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;
    use tokio::sync::Notify;

    use super::*;

    const STEP: &str = "run_0123456789abcdef/build/2";

    fn finished() -> Outcome {
        Outcome::Finished { result: Map::from_iter([("session_id".to_owned(), json!("term_9j7ayeh6hh"))]) }
    }

    #[tokio::test]
    async fn repeated_request_gets_the_outcome_of_one_action() {
        let (openings, step): (_, StepId) = (Openings::default(), STEP.parse().unwrap());
        let (start_count, resume) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let action = || {
            let (start_count, resume) = (start_count.clone(), resume.clone());
            async move {
                start_count.fetch_add(1, Ordering::Relaxed);
                resume.notified().await;
                finished()
            }
        };
        {
            // The first worker disconnects, and its request is dropped.
            let mut first = std::pin::pin!(openings.perform_or_join(&step, action()));
            assert!(poll_once(first.as_mut()).is_none());
        }
        resume.notify_one();
        assert_eq!(openings.perform_or_join(&step, action()).await, finished());
        // A worker repeats the request if it has lost the reply.
        assert_eq!(openings.perform_or_join(&step, action()).await, finished());
        assert_eq!(start_count.load(Ordering::Relaxed), 1);
        openings.forget_run(&"run_0123456789abcdef".parse().unwrap());
        assert!(openings.0.lock().is_empty());
    }

    #[tokio::test]
    async fn end_of_the_run_aborts_its_action() {
        let (openings, step): (_, StepId) = (Arc::new(Openings::default()), STEP.parse().unwrap());
        let (alive, dropped) = tokio::sync::oneshot::channel::<()>();
        let action = async move {
            let _alive = alive;
            std::future::pending().await
        };
        let waiting = tokio::spawn({
            let openings = openings.clone();
            async move { openings.perform_or_join(&step, action).await }
        });
        tokio::task::yield_now().await;
        openings.forget_run(&"run_0123456789abcdef".parse().unwrap());
        assert_eq!(waiting.await.unwrap(), Outcome::Unknown);
        assert!(dropped.await.is_err());
    }

    #[test]
    fn only_actions_that_open_their_own_terminal_are_kept() {
        let params = |session: Value| Map::from_iter([("session_id".to_owned(), session)]);
        assert!(opens_own_terminal("open_terminal", &Map::new()));
        assert!(
            opens_own_terminal("run_command", &Map::new()) && opens_own_terminal("run_command", &params(Value::Null))
        );
        assert!(
            !opens_own_terminal("run_command", &params(json!("term_9j7ayeh6hh")))
                && !opens_own_terminal("send_input", &Map::new())
        );
    }

    /// Polls a future once.
    fn poll_once<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }
}
