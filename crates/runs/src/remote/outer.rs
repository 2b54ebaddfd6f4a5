//! Remote runs on an outer engine: the service does the work, this daemon drives the run, and the
//! engine mirrors it. It can be seen and cancelled in the engine, and a run decided by the engine can wait for it.

use steplatch_workflow::{EngineAnswer, EngineTask, FunctionInput, Input};
use tokio::sync::oneshot;

use super::run::RemoteRun;
use super::turns::ReportedStatus;
use crate::engine::{Handled, RunKind as _};
use crate::outer::{Mirror, MirrorMessage};

impl RemoteRun {
    /// Returns whether the parent run, which the engine decides, continued without this run while it started. (`&mut`:
    /// a run is not `Sync`.)
    pub(super) async fn is_abandoned_by_parent(&mut self) -> bool {
        let shared = &self.recorder.shared;
        let Some(step) = self.recorder.about.parent.as_ref().filter(|_| self.mirror.is_some()) else { return false };
        shared.outer.is_left(step) || matches!(shared.find(&step.run).await, Ok(Some(above)) if above.state().is_over())
    }

    /// Handles a message of the engine. Returns false when this daemon must no longer drive the run.
    pub(super) async fn receive(&mut self, message: MirrorMessage) -> bool {
        match message {
            MirrorMessage::Started(started) => {
                self.set_error(started.err());
                true
            }
            MirrorMessage::Lost(cause) => {
                let reason = Mirror::lost(&cause);
                !matches!(self.record_input(Input::Cancel { reason }).await, Handled::Lost)
            }
            MirrorMessage::Task(task, reply) => {
                self.set_error(None);
                self.take_task(task, reply).await
            }
            // A remote run has no engine events. The dropped reply tells the sender so.
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
                            // The call that follows the run has ended; this turn reports the reason.
                            _ => Handled::Ignored,
                        };
                        if matches!(handled, Handled::Lost) {
                            return false;
                        }
                        taken.push(matches!(handled, Handled::Recorded));
                    }
                }
                // For a run that has ended, the outcome is read from the journal.
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
            // The engine stores it unencrypted and shows it in lists.
            status: self.recorder.shared.secrets.masked(status.unwrap_or_else(|| progress.state.name().to_owned())),
            gate: progress.open_gate,
            waits: progress.waits(),
            paused: progress.paused.map(|pause| pause.by),
            is_over: self.is_over(),
        }
    }

    fn set_error(&mut self, trouble: Option<String>) {
        if Mirror::set_error(&mut self.mirror, trouble) {
            self.publish();
        }
    }
}
