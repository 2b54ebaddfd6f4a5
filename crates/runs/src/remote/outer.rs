//! Remote runs on an outer engine: the service does the work, this daemon drives the run, and the engine mirrors it.
//! The engine shows the run and can cancel it, and the engine's own runs can wait for the run.

use steplatch_workflow::{EngineAnswer, EngineTask, FunctionInput, Input};
use tokio::sync::oneshot;

use super::run::RemoteRun;
use super::turns::ReportedStatus;
use crate::engine::{Handled, RunKind as _};
use crate::outer::{Mirror, MirrorMessage};

impl RemoteRun {
    /// Returns whether the parent run abandoned this run during its start. The engine decides the parent run. (`&mut`:
    /// a run is not `Sync`.)
    pub(super) async fn is_abandoned_by_parent(&mut self) -> bool {
        let shared = &self.recorder.shared;
        let Some(step) = self.recorder.header.parent.as_ref().filter(|_| self.mirror.is_some()) else { return false };
        shared.outer.is_abandoned(step)
            || matches!(shared.find(&step.run).await, Ok(Some(parent)) if parent.state().is_over())
    }

    /// Handles a message of the engine. Returns false when this daemon must no longer drive the run.
    pub(super) async fn receive(&mut self, message: MirrorMessage) -> bool {
        match message {
            MirrorMessage::Started(started) => {
                self.set_blocked_reason(started.err());
                true
            }
            MirrorMessage::Lost(cause) => {
                let reason = Mirror::lost(&cause);
                !matches!(self.record_input(Input::Cancel { reason }).await, Handled::Lost)
            }
            MirrorMessage::Task(task, reply) => {
                self.set_blocked_reason(None);
                self.take_task(task, reply).await
            }
            // A remote run receives no events from the engine. Dropping the reply reports that.
            MirrorMessage::Events(_) => true,
        }
    }

    async fn take_task(&mut self, task: EngineTask, reply: oneshot::Sender<EngineAnswer>) -> bool {
        match task {
            EngineTask::Advance { turn, inputs } => {
                let mut taken = Vec::new();
                if self.turns.is_new(turn) {
                    for input in inputs {
                        let handled = match input {
                            FunctionInput::Passed { input } if !self.is_over() => self.record_input(*input).await,
                            // The call that follows the run has finished; this turn reports the reason.
                            _ => Handled::Ignored,
                        };
                        if matches!(handled, Handled::Lost) {
                            return false;
                        }
                        taken.push(matches!(handled, Handled::Recorded));
                    }
                }
                // The journal provides the outcome of a finished run.
                if !self.is_over() {
                    self.turns.end(turn, taken, self.reported_status(), reply);
                }
                true
            }
            EngineTask::Call { number, .. } => {
                let status = self.reported_status();
                self.turns.follow(number, &status, reply);
                true
            }
            // A remote run starts no child runs and performs no machine effects.
            EngineTask::BeginRun { .. }
            | EngineTask::Perform { .. }
            | EngineTask::ReadScreens { .. }
            | EngineTask::Record => true,
        }
    }

    /// Reports the status of the run to the engine if it has changed.
    pub(super) fn report_status(&mut self) {
        let status = self.reported_status();
        self.turns.record_status(&status);
    }

    fn reported_status(&self) -> ReportedStatus {
        let progress = self.progress();
        let status = self.state.remote.as_ref().and_then(|remote| remote.status.clone());
        ReportedStatus {
            // The engine stores the status unencrypted and shows it in lists.
            status: self.recorder.shared.secrets.masked(status.unwrap_or_else(|| progress.state.name().to_owned())),
            gate: progress.open_gate,
            waits: progress.waits(),
            paused: progress.paused.map(|pause| pause.by),
            is_over: self.is_over(),
        }
    }

    fn set_blocked_reason(&mut self, blocked_reason: Option<String>) {
        if Mirror::set_blocked_reason(&mut self.mirror, blocked_reason) {
            self.publish();
        }
    }
}
