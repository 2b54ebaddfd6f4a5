//! Pausing and resuming runs.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use steplatch_access::Caller;
use steplatch_protocol::{PauseWorkflow, PauseWorkflowReply, ResumeWorkflow};
use steplatch_workflow::Input;

use super::run::{Disposition, Run, RunState, RunStatus};
use crate::runs::Runs;

/// Time limit for a driver to store a pause or a resumption.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

impl Runs {
    /// Pauses a run: a paused run starts nothing new until it resumes. Pausing a paused run changes nothing.
    #[boxed]
    pub async fn pause(&self, caller: &Caller, verb: PauseWorkflow) -> PauseWorkflowReply {
        let input = Input::Pause { by: caller.display_name().await, above: false };
        let unchanged =
            |now: &RunStatus| now.paused.as_ref().map(|pause| format!("Run was already paused by {}", pause.by));
        self.request(verb.run_id, input, "Run paused: actions in progress finish, and no new ones start", unchanged)
            .await
    }

    /// Resumes a paused run.
    #[boxed]
    pub async fn resume(&self, caller: &Caller, verb: ResumeWorkflow) -> PauseWorkflowReply {
        let input = Input::Resume { by: caller.display_name().await, above: false };
        let unchanged = |now: &RunStatus| now.paused.is_none().then(|| "Run is not paused".to_owned());
        self.request(verb.run_id, input, "Run resumed", unchanged).await
    }

    /// Sends an input to a run. The message of the reply is `done` for a stored input, or `unchanged` if the run
    /// ignores it.
    async fn request(
        &self,
        run_id: String,
        input: Input,
        done: &str,
        unchanged: impl Fn(&RunStatus) -> Option<String>,
    ) -> PauseWorkflowReply {
        let run = match self.find_by_text(&run_id).await {
            Ok(run) => run,
            Err(error) => {
                return PauseWorkflowReply { run_id, error: Some(error.to_string()), ..PauseWorkflowReply::default() };
            }
        };
        let message = try_request(&run, input, done, unchanged).await;
        let progress = run.progress();
        let state = progress.state.name().to_owned();
        match message {
            Ok(message) => {
                let paused = progress.pause(&self.shared.secrets);
                PauseWorkflowReply { success: true, run_id, state, paused, message, error: None }
            }
            Err(error) => {
                let error = Some(error.to_string());
                PauseWorkflowReply { run_id, state, error, ..PauseWorkflowReply::default() }
            }
        }
    }
}

/// Sends an input to a run. Returns `done` for a stored input, or `unchanged` if the run ignores it.
///
/// # Errors
/// If the run does not accept the input.
async fn try_request(
    run: &Run,
    input: Input,
    done: &str,
    unchanged: impl Fn(&RunStatus) -> Option<String>,
) -> Result<String, RequestError> {
    let before = run.progress();
    if before.state.is_over() {
        return Err(RequestError::Finished { state: before.state });
    }
    if !run.is_driven() {
        return Err(RequestError::Stuck { blocked_reason: before.blocked_reason });
    }
    let disposition = run.request(input, STORE_TIMEOUT).await;
    let now = run.progress();
    match disposition {
        Some(Disposition::Recorded) => Ok(done.to_owned()),
        _ if now.state.is_over() => Err(RequestError::Finished { state: now.state }),
        Some(Disposition::Ignored) => unchanged(&now).ok_or(RequestError::Cancelling),
        None => Err(RequestError::NotStored { blocked_reason: now.blocked_reason }),
    }
}

/// Failure to pause or resume a run.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    /// The run has finished.
    #[error("Run was already over: {}", .state.name())]
    Finished {
        /// Final state of the run.
        state: RunState,
    },
    /// The run has no driver.
    #[error("{}", .blocked_reason.as_deref().unwrap_or("the run does not continue"))]
    Stuck {
        /// Reason that blocks the run, if known.
        blocked_reason: Option<String>,
    },
    /// The run is being cancelled.
    #[error("The run is being cancelled")]
    Cancelling,
    /// The journal has not stored the input yet. It may do so later.
    #[error(
        "the request to the run is not stored yet{}; look with get_run",
        .blocked_reason.as_ref().map(|blocked_reason| format!(": {blocked_reason}")).unwrap_or_default()
    )]
    NotStored {
        /// Reason that blocks the run, if known.
        blocked_reason: Option<String>,
    },
}
