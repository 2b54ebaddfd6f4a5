//! A run of a remote workflow that is on an outer engine: its service does the work, this daemon drives it, and the
//! engine follows it, so that people see and cancel it there, and a run that the engine decides can wait for it.

use steplatch_workflow::{EngineAnswer, EngineTask, FunctionInput, Input};
use tokio::sync::oneshot;

use super::run::RemoteRun;
use super::turns::Standing;
use crate::engine::{Handled, RunKind as _};
use crate::outer::{Mirror, MirrorMessage};

impl RemoteRun {
    /// Returns whether the run above, which the engine decides, has continued without this one while it began. (`&mut`:
    /// a run is not `Sync`.)
    pub(super) async fn is_left_alone(&mut self) -> bool {
        let shared = &self.recorder.shared;
        let Some(step) = self.recorder.about.parent.as_ref().filter(|_| self.mirror.is_some()) else { return false };
        shared.outer.is_left(step) || matches!(shared.find(&step.run).await, Ok(Some(above)) if above.state().is_over())
    }

    /// Handles a message of the engine. Returns false when this daemon must no longer drive the run.
    pub(super) async fn receive(&mut self, message: MirrorMessage) -> bool {
        match message {
            MirrorMessage::Started(started) => {
                self.show_trouble(started.err());
                true
            }
            MirrorMessage::Lost(how) => {
                let reason = Mirror::lost(&how);
                !matches!(self.input_recorded(Input::Cancel { reason }).await, Handled::Lost)
            }
            MirrorMessage::Task(task, reply) => {
                self.show_trouble(None);
                self.take_task(task, reply).await
            }
            // It has no events of the engine. The sender learns that it has no driver for them.
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
                            FunctionInput::Passed { input } if !self.is_over() => self.input_recorded(*input).await,
                            // The call that follows the run has ended; this turn reports why.
                            _ => Handled::Ignored,
                        };
                        if matches!(handled, Handled::Lost) {
                            return false;
                        }
                        taken.push(matches!(handled, Handled::Recorded));
                    }
                }
                // The journal answers for a run that has ended: it has the outcome.
                if !self.is_over() {
                    self.turns.end(turn, taken, self.standing(), reply);
                }
                true
            }
            EngineTask::Call { number, .. } => {
                let standing = self.standing();
                self.turns.follow(number, &standing, reply);
                true
            }
            // It starts no runs, and has no effects of a machine.
            EngineTask::BeginRun { .. }
            | EngineTask::Perform { .. }
            | EngineTask::ReadScreens { .. }
            | EngineTask::Record => true,
        }
    }

    /// Reports the standing of the run to the engine, if that has changed.
    pub(super) fn report_standing(&mut self) {
        let standing = self.standing();
        self.turns.note_standing(&standing);
    }

    fn standing(&self) -> Standing {
        let progress = self.progress();
        let status = self.state.there.as_ref().and_then(|there| there.status.clone());
        Standing {
            // The engine stores it as plain text, for its lists.
            status: self.recorder.shared.secrets.masked(status.unwrap_or_else(|| progress.state.name().to_owned())),
            gate: progress.asks_elsewhere,
            waits: progress.waits(),
            paused: progress.paused.map(|pause| pause.by),
            is_over: self.is_over(),
        }
    }

    fn show_trouble(&mut self, trouble: Option<String>) {
        if Mirror::set_trouble(&mut self.mirror, trouble) {
            self.publish();
        }
    }
}
