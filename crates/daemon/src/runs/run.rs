//! One run, as it is seen from outside of its task.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_ids::{RunId, StepId};
use steplatch_library::Signature;
use steplatch_protocol::{GateInfo, PauseInfo, RunRecord};
use steplatch_store::{KnownRun, Summary};
use steplatch_workflow::{Gate, Input, Pause, Timestamp};
use tokio::sync::{Mutex, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::function::Question;
use super::source::{Kept, Source};
use crate::moment;
use crate::secrets::Secrets;

/// A run that is driven, or what the journal tells of one.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) about: About,
    inputs: mpsc::UnboundedSender<Box<Input>>,
    progress: watch::Receiver<Progress>,
    /// Held while somebody answers what it asks.
    pub(super) answering: Mutex<()>,
    /// Cancelled once somebody wants its end, for who is at something that takes long.
    pub(super) cancelling: CancellationToken,
}

/// What lists tell of a run however far it is. Stored with its history.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct About {
    /// The name of its workflow.
    pub(super) workflow: String,
    pub(super) started: Timestamp,
    /// What it began with, secrets hidden.
    pub(super) input: Map<String, Value>,
    /// The step of another run that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<StepId>,
    /// What its definition does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) signature: Option<Signature>,
    /// Where its definition came from.
    #[serde(default)]
    pub(super) source: Source,
}

/// How far a run is.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// Number of its last entry.
    pub(super) seq: u64,
    pub(super) state: RunState,
    pub(super) ended: Option<Timestamp>,
    pub(super) error: Option<String>,
    /// The question that it waits for.
    pub(super) gate: Option<Gate>,
    /// The questions that it waits for, of a function, the oldest first.
    pub(super) questions: Vec<Question>,
    /// The runs below this one that wait for somebody, themselves or through others below them.
    pub(super) below: Vec<RunId>,
    /// Whether it waits for somebody who answers elsewhere, at the service that does its work.
    pub(super) asks_elsewhere: bool,
    /// Who wants it to go no further for now.
    pub(super) paused: Option<Pause>,
    /// Where its definition is, once it is over.
    pub(super) kept: Option<Kept>,
    /// Why its definition could not be saved, although it completed.
    pub(super) unsaved: Option<String>,
    /// Why it can not go on just now.
    pub(super) trouble: Option<String>,
}

/// The text of a [`Summary`].
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    #[serde(flatten)]
    about: About,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept: Option<Kept>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unsaved: Option<String>,
}

/// The state of a run, as people know it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum RunState {
    #[default]
    Running,
    Waiting,
    Completed,
    Failed,
    Cancelled,
}

impl RunState {
    pub(super) const ALL: [Self; 5] = [Self::Running, Self::Waiting, Self::Completed, Self::Failed, Self::Cancelled];

    pub(super) fn is_over(self) -> bool {
        !matches!(self, Self::Running | Self::Waiting)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// What a run may be called that was asked for and has not begun. Nobody ever sees one: a run is told of once it is
    /// written down, and then it is running.
    pub(super) const PENDING: &str = "pending";

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl Progress {
    /// Tells since when the run is paused, and by whom.
    pub(super) fn pause(&self, secrets: &Secrets) -> Option<PauseInfo> {
        let Pause { since, by, .. } = self.paused.clone()?;
        Some(PauseInfo { since: moment::told(since), by: secrets.masked(by) })
    }

    /// Whether the run stands still until somebody does something about it, which those above it are told.
    pub(super) fn waits(&self) -> bool {
        self.state == RunState::Waiting || self.paused.as_ref().is_some_and(|pause| !pause.above)
    }

    /// Returns what the journal keeps beside the history. One that is finished is finished for good.
    pub(super) fn summary(&self, about: &About) -> Summary {
        let Self { ended, error, kept, unsaved, .. } = self.clone();
        let told = Told { about: about.clone(), ended, error, kept, unsaved };
        let ended = self.ended.filter(|_| self.state.is_over());
        Summary {
            state: self.state.name().to_owned(),
            finished_at: ended.map(|ended| u64::try_from(ended.0 / 1000).unwrap_or(0)),
            text: serde_json::to_string(&told).expect("what is told of a run has only JSON in it"),
        }
    }
}

impl Run {
    /// Returns a run that somebody drives, with what they need for it.
    pub(super) fn driven(
        id: RunId,
        about: About,
    ) -> (Self, mpsc::UnboundedReceiver<Box<Input>>, watch::Sender<Progress>) {
        let (inputs, received) = mpsc::unbounded_channel();
        let (told, progress) = watch::channel(Progress::default());
        let run =
            Self { id, about, inputs, progress, answering: Mutex::default(), cancelling: CancellationToken::new() };
        (run, received, told)
    }

    /// Returns a run that nobody drives, as the journal knows it.
    pub(super) fn told(known: KnownRun) -> Self {
        let KnownRun { run: id, last: seq, summary, .. } = known;
        let (state, told) = match summary {
            Some(Summary { state, text, .. }) => (RunState::named(&state), serde_json::from_str::<Told>(&text).ok()),
            None => (None, None),
        };
        let progress = Progress { seq, state: state.unwrap_or_default(), ..Progress::default() };
        let (about, progress) = match told {
            Some(Told { about, ended, error, kept, unsaved }) => {
                (about, Progress { ended, error, kept, unsaved, ..progress })
            }
            None => {
                let trouble = Some("what is kept about this run can not be read".to_owned());
                let about = About {
                    workflow: "unknown".to_owned(),
                    started: Timestamp(0),
                    input: Map::new(),
                    parent: None,
                    signature: None,
                    source: Source::Given,
                };
                (about, Progress { trouble, ..progress })
            }
        };
        let (inputs, _) = mpsc::unbounded_channel();
        let (_, progress) = watch::channel(progress);
        Self { id, about, inputs, progress, answering: Mutex::default(), cancelling: CancellationToken::new() }
    }

    /// The same with a reason why it does not go on.
    pub(super) fn in_trouble(self, trouble: Option<String>) -> Self {
        if trouble.is_none() {
            return self;
        }
        let (_, progress) = watch::channel(Progress { trouble, ..self.progress() });
        Self { progress, ..self }
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    pub(super) fn state(&self) -> RunState {
        self.progress.borrow().state
    }

    pub(super) fn follow(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    pub(super) fn inputs(&self) -> mpsc::UnboundedSender<Box<Input>> {
        self.inputs.clone()
    }

    /// Whether somebody drives it.
    pub(super) fn is_driven(&self) -> bool {
        !self.inputs.is_closed()
    }

    /// Whether it is the run of a function: its history is of another kind then.
    pub(super) fn is_function(&self) -> bool {
        self.about.source.is_function()
    }

    /// Whether a service does its work: its history is of a third kind then.
    pub(super) fn is_remote(&self) -> bool {
        self.about.source.is_remote()
    }

    /// Gives the run something to answer to; one that is over does not mind.
    pub(super) fn tell(&self, input: Input) {
        let _ = self.inputs.send(Box::new(input));
    }

    pub(super) fn cancel(&self, reason: &str) {
        self.tell(Input::Cancel { reason: reason.to_owned() });
        self.cancelling.cancel();
    }

    /// Waits until the run is over, or the time is up.
    pub(super) async fn over(&self, at_most: Duration) {
        self.reaches(|progress| progress.state.is_over(), at_most).await;
    }

    pub(super) async fn reaches(&self, wanted: impl Fn(&Progress) -> bool, at_most: Duration) {
        let mut progress = self.progress.clone();
        let reached = progress.wait_for(|progress| wanted(progress));
        // Either way the run is as far as it is.
        let _ = tokio::time::timeout(at_most, reached).await;
    }

    /// Waits until the run is over; tells whether it is, once the time is up.
    pub(super) async fn over_within(&self, limit: Option<Duration>) -> bool {
        // No run lasts longer than its own limit, unless somebody is asked.
        match limit {
            Some(limit) => self.over(limit).await,
            None => drop(self.progress.clone().wait_for(|progress| progress.state.is_over()).await),
        }
        self.state().is_over()
    }

    /// Tells of the run, which waits for the answers to `gates`.
    pub(super) fn record(&self, gates: Vec<GateInfo>, secrets: &Secrets) -> RunRecord {
        let progress = self.progress();
        let mut input = self.about.input.clone();
        secrets.mask_fields(&mut input);
        RunRecord {
            run_id: self.id.to_string(),
            workflow_id: self.about.workflow.clone(),
            state: progress.state.name().to_owned(),
            started_at: moment::told(self.about.started),
            completed_at: progress.ended.map(moment::told),
            input,
            paused: progress.pause(secrets),
            error: secrets.masked_if(progress.error.or(progress.trouble)),
            pending_gate: gates.first().cloned(),
            pending_gates: gates,
            parent_run_id: self.about.parent.as_ref().map(|step| step.run.to_string()),
        }
    }
}
