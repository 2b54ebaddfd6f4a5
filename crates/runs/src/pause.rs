//! Pausing and resuming runs.

use std::sync::Arc;
use std::time::Duration;

use steplatch_access::Caller;
use steplatch_protocol::{PauseWorkflow, PauseWorkflowReply, ResumeWorkflow};
use steplatch_workflow::Input;

use super::run::{Disposition, Run, RunStatus};
use crate::runs::Runs;

/// How long a driver may take to store a pause or a resumption.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

impl Runs {
    /// Pauses a run: it starts nothing new until it is resumed. Pausing a paused run changes nothing.
    pub async fn pause(&self, caller: &Caller, verb: PauseWorkflow) -> PauseWorkflowReply {
        let input = Input::Pause { by: caller.who().await, above: false };
        let unchanged =
            |now: &RunStatus| now.paused.as_ref().map(|pause| format!("Run was already paused by {}", pause.by));
        self.request(&verb.run_id, input, "Run paused: what is in flight ends, and nothing new begins", unchanged).await
    }

    /// Resumes a paused run.
    pub async fn resume(&self, caller: &Caller, verb: ResumeWorkflow) -> PauseWorkflowReply {
        let input = Input::Resume { by: caller.who().await, above: false };
        let unchanged = |now: &RunStatus| now.paused.is_none().then(|| "Run is not paused".to_owned());
        self.request(&verb.run_id, input, "Run goes on", unchanged).await
    }

    /// Sends an input to a run. The message of the reply is `done` if the input is stored, or `unchanged` if the run
    /// ignores it.
    async fn request(
        &self,
        id: &str,
        input: Input,
        done: &str,
        unchanged: impl Fn(&RunStatus) -> Option<String>,
    ) -> PauseWorkflowReply {
        match self.try_request(id, input, done, unchanged).await {
            Ok((run, message)) => {
                let progress = run.progress();
                PauseWorkflowReply {
                    success: true,
                    run_id: run.id.to_string(),
                    state: progress.state.name().to_owned(),
                    paused: progress.pause(&self.shared.secrets),
                    message,
                    error: None,
                }
            }
            Err((run, error)) => PauseWorkflowReply {
                run_id: id.to_owned(),
                state: run.map(|run| run.state().name().to_owned()).unwrap_or_default(),
                error: Some(error),
                ..PauseWorkflowReply::default()
            },
        }
    }

    async fn try_request(
        &self,
        id: &str,
        input: Input,
        done: &str,
        unchanged: impl Fn(&RunStatus) -> Option<String>,
    ) -> Result<(Arc<Run>, String), (Option<Arc<Run>>, String)> {
        let run = self.find(id).await.map_err(|error| (None, error.to_string()))?;
        let before = run.progress();
        let over = |state: &str| format!("Run was already over: {state}");
        let refused = |error: String| Err((Some(run.clone()), error));
        if before.state.is_over() {
            return refused(over(before.state.name()));
        }
        if !run.is_driven() {
            return refused(before.trouble.unwrap_or_else(|| "the run does not go on".to_owned()));
        }
        let disposition = run.request(input, TAKEN_WITHIN).await;
        let now = run.progress();
        match disposition {
            Some(Disposition::Recorded) => Ok((run, done.to_owned())),
            _ if now.state.is_over() => refused(over(now.state.name())),
            Some(Disposition::Ignored) => match unchanged(&now) {
                Some(message) => Ok((run, message)),
                None => refused("The run is being cancelled".to_owned()),
            },
            None => {
                let why = now.trouble.map(|trouble| format!(": {trouble}")).unwrap_or_default();
                refused(format!("what is wanted of the run is not written down yet{why}; look with get_run"))
            }
        }
    }
}
