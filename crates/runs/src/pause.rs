//! Runs that somebody lets rest, and lets go on.

use std::sync::Arc;
use std::time::Duration;

use steplatch_access::Caller;
use steplatch_protocol::{PauseWorkflow, PauseWorkflowReply, ResumeWorkflow};
use steplatch_workflow::Input;

use super::run::{Progress, Run, RunState};
use crate::runs::Runs;

/// How long what is wanted may take to be written down.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

impl Runs {
    /// Has a run begin nothing new until it is resumed. One that is paused stays so.
    pub async fn pause(&self, caller: &Caller, verb: PauseWorkflow) -> PauseWorkflowReply {
        let by = caller.who().await;
        let input = Input::Pause { by: by.clone(), above: false };
        self.tell(&verb.run_id, input, |before, now| match (&before.paused, &now.paused) {
            (Some(pause), _) => Ok(format!("Run was already paused by {}", pause.by)),
            (None, Some(_)) => Ok("Run paused: what is in flight ends, and nothing new begins".to_owned()),
            (None, None) => Err(()),
        })
        .await
    }

    /// Has a paused run go on.
    pub async fn resume(&self, caller: &Caller, verb: ResumeWorkflow) -> PauseWorkflowReply {
        let input = Input::Resume { by: caller.who().await, above: false };
        self.tell(&verb.run_id, input, |before, now| match (&before.paused, &now.paused) {
            (None, _) => Ok("Run is not paused".to_owned()),
            // It may be complete by now.
            (Some(_), None) if now.state != RunState::Cancelled => Ok("Run goes on".to_owned()),
            (Some(_), _) => Err(()),
        })
        .await
    }

    /// Tells a run something, and says what came of it once `outcome` knows.
    async fn tell(
        &self,
        id: &str,
        input: Input,
        outcome: impl Fn(&Progress, &Progress) -> Result<String, ()>,
    ) -> PauseWorkflowReply {
        match self.try_tell(id, input, outcome).await {
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

    async fn try_tell(
        &self,
        id: &str,
        input: Input,
        outcome: impl Fn(&Progress, &Progress) -> Result<String, ()>,
    ) -> Result<(Arc<Run>, String), (Option<Arc<Run>>, String)> {
        let run = self.find(id).await.map_err(|error| (None, error))?;
        let before = run.progress();
        let over = |state: &str| format!("Run was already over: {state}");
        let refused = |error: String| Err((Some(run.clone()), error));
        if before.state.is_over() {
            return refused(over(before.state.name()));
        }
        if !run.is_driven() {
            return refused(before.trouble.unwrap_or_else(|| "the run does not go on".to_owned()));
        }
        run.tell(input);
        run.reaches(|now| outcome(&before, now).is_ok() || now.state.is_over(), TAKEN_WITHIN).await;
        let now = run.progress();
        match outcome(&before, &now) {
            Ok(message) => Ok((run, message)),
            _ if now.state.is_over() => refused(over(now.state.name())),
            _ => {
                let why = now.trouble.map(|trouble| format!(": {trouble}")).unwrap_or_default();
                refused(format!("what is wanted of the run is not written down yet{why}; look with get_run"))
            }
        }
    }
}
