//! View of a run for components other than its driver: header, status, inputs and summary.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_access::Redactor;
use steplatch_clock as clock;
use steplatch_ids::{RunId, StepId};
use steplatch_library::Signature;
use steplatch_protocol::{EngineKind, GateInfo, PauseInfo, RepairInfo, RerunInfo, RunRecord, RunReply};
use steplatch_store::{KnownRun, Summary};
use steplatch_workflow::{Definition, Input, Pause, Timestamp};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::definition_source::{DefinitionSource, LibraryCopy};
use crate::gates::OpenGate;
use crate::kind::Kind;
use crate::machine::shorten;

/// A run, with a driver or from the journal.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) header: RunHeader,
    inputs: RunInbox,
    progress: watch::Receiver<RunStatus>,
    /// Held during the handling of an answer to a gate of the run.
    pub(super) answering: Mutex<()>,
    /// Cancelled by a request to end the run. Long tasks watch it.
    pub(super) cancelling: CancellationToken,
    /// Cancelled once the parent has recorded the result of this run.
    pub(super) result_taken: CancellationToken,
}

/// A message to the driver of a run.
#[derive(Debug)]
pub(super) struct RunInput {
    pub(super) input: Input,
    /// Receives the driver's disposition of the input, once the journal has stored it.
    pub(super) reply: Option<oneshot::Sender<Disposition>>,
}

/// A driver's disposition of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disposition {
    /// The journal has the input.
    Recorded,
    /// The input has no effect in the run's current state.
    Ignored,
}

/// Messages to the driver of a run.
pub(super) type RunInputs = mpsc::UnboundedReceiver<Box<RunInput>>;

/// Sends messages to the driver of a run. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct RunInbox(mpsc::UnboundedSender<Box<RunInput>>);

impl RunInbox {
    pub(super) fn new() -> (Self, RunInputs) {
        let (sender, inputs) = mpsc::unbounded_channel();
        (Self(sender), inputs)
    }

    /// Sends an input. Ignored if the run has no driver.
    pub(super) fn send(&self, input: Input) {
        let _ = self.0.send(Box::new(RunInput { input, reply: None }));
    }

    /// Sends an input and returns the receiver of the driver's disposition. The channel closes if the driver stops
    /// before it handles the input.
    fn request(&self, input: Input) -> oneshot::Receiver<Disposition> {
        let (reply, disposition) = oneshot::channel();
        let _ = self.0.send(Box::new(RunInput { input, reply: Some(reply) }));
        disposition
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// Immutable data of a run, for lists. Stored with the history.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RunHeader {
    /// Name of the workflow.
    pub(super) workflow: String,
    pub(super) started: Timestamp,
    /// Input of the run, with secrets hidden; for a machine, its initial variables.
    #[serde(default)]
    pub(super) input: Value,
    /// Parameters of the run, with secrets hidden.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) params: Map<String, Value>,
    /// Step of another run that started this run.
    pub(super) parent: Option<StepId>,
    /// Digest of the definition.
    pub(super) signature: Option<Signature>,
    /// Digest of the referenced definitions, at the start of the run.
    pub(super) pins: Option<Signature>,
    /// Descriptions of the hosts that the definitions name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) hosts: Vec<String>,
    /// Digest of the request, if the run started under an idempotency key.
    pub(super) request: Option<Signature>,
    /// Earlier run that this run repeats.
    #[serde(rename = "again")]
    pub(super) rerun: Option<RerunInfo>,
    /// Schedule that started the run.
    pub(super) schedule: Option<String>,
    /// Origin of the definition.
    #[serde(default)]
    pub(super) source: DefinitionSource,
    /// Engine that decides the run.
    #[serde(default, skip_serializing_if = "is_own_engine")]
    pub(super) engine: EngineKind,
}

// serde requires this signature.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_own_engine(engine: &EngineKind) -> bool {
    *engine == EngineKind::Sqlite
}

/// The progress of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct RunStatus {
    /// Number of the last entry.
    pub(super) seq: u64,
    pub(super) state: RunState,
    pub(super) ended: Option<Timestamp>,
    pub(super) error: Option<String>,
    /// Python's traceback of the exception in `error`.
    pub(super) traceback: Option<String>,
    /// Result of a completed run, with secrets hidden.
    pub(super) result: Option<Arc<Value>>,
    /// True if `result` is only a part of the result.
    pub(super) result_shortened: bool,
    /// Result with its secrets, for the parent run. Never stored.
    pub(super) returned: Option<Arc<Value>>,
    /// Open gates of the run, the oldest first.
    pub(super) gates: Vec<OpenGate>,
    /// The child runs that wait, directly or because of their descendants.
    pub(super) waiting_children: Vec<RunId>,
    /// True if the run or a descendant needs a person's answer to continue.
    pub(super) asks_person: bool,
    /// True if the run waits for an answer at its service.
    pub(super) open_gate: bool,
    /// Client and time of the current pause.
    pub(super) paused: Option<Pause>,
    /// Copy of the definition in the library, once the run has finished.
    pub(super) library_copy: Option<LibraryCopy>,
    /// The library's reason for not saving the definition of a completed run.
    pub(super) save_error: Option<String>,
    /// True if the run needs the approver's passphrase to continue.
    pub(super) locked: bool,
    /// Reason that currently blocks the run.
    pub(super) blocked_reason: Option<String>,
    /// Accepted patches of the machine, with secrets hidden.
    pub(super) repairs: Vec<RepairInfo>,
    /// The gate for the choice of the run's next state, and the machine that a patch would change.
    pub(super) repairable: Option<(StepId, Arc<Definition>)>,
}

/// The text of a [`Summary`].
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Serialize, Deserialize)]
struct StoredSummary {
    #[serde(flatten)]
    header: RunHeader,
    ended: Option<Timestamp>,
    error: Option<String>,
    traceback: Option<String>,
    /// The result of a completed run, as shown in lists; `None` in data of older daemons.
    #[serde(default, deserialize_with = "deserialize_present", skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    result_shortened: bool,
    #[serde(rename = "kept")]
    library_copy: Option<LibraryCopy>,
    #[serde(rename = "unsaved")]
    save_error: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    repairs: Vec<RepairInfo>,
}

/// Reads a field that is present, possibly null.
fn deserialize_present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Maximum length of a result that lists show in full, in characters of JSON, and of a string in a shortened result.
const MAX_RESULT_CHARS: usize = 1000;
const MAX_RESULT_TEXT_CHARS: usize = 300;

/// Returns a result as lists show it, and true for a shortened result. A shortened result has cut texts, or is the
/// beginning of the result's JSON as a text.
pub(super) fn shorten_for_list(result: &Value) -> (Value, bool) {
    let is_short = |value: &Value| value.to_string().chars().nth(MAX_RESULT_CHARS).is_none();
    if is_short(result) {
        return (result.clone(), false);
    }
    let mut shortened = result.clone();
    shorten(&mut shortened, MAX_RESULT_TEXT_CHARS, "", &mut Vec::new());
    if !is_short(&shortened) {
        shortened = result.to_string().chars().take(MAX_RESULT_TEXT_CHARS).collect::<String>().into();
    }
    (shortened, true)
}

/// The public state of a run.
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

    /// State of a requested run that has not started. Reports never show it: a run in the journal is running.
    pub(super) const PENDING: &str = "pending";

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl RunStatus {
    /// Returns the time and the client of the current pause.
    pub(super) fn pause(&self, secrets: &Redactor) -> Option<PauseInfo> {
        let Pause { since, by, .. } = self.paused.clone()?;
        Some(PauseInfo { since: clock::to_iso8601(since), by: secrets.masked(by) })
    }

    /// Returns whether the run needs an external action to continue, as reported to its ancestors.
    pub(super) fn waits(&self) -> bool {
        self.state == RunState::Waiting || self.paused.as_ref().is_some_and(|pause| !pause.above)
    }

    /// Returns the data that the journal stores next to the history. A finished run stays finished.
    pub(super) fn summary(&self, header: &RunHeader) -> Summary {
        let Self { ended, error, traceback, result, library_copy, save_error, repairs, .. } = self.clone();
        let (result, result_shortened) = result.as_deref().map(shorten_for_list).unzip();
        let result_shortened = self.result_shortened || result_shortened.unwrap_or_default();
        let header = header.clone();
        let summary = StoredSummary {
            header,
            ended,
            error,
            traceback,
            result,
            result_shortened,
            library_copy,
            save_error,
            repairs,
        };
        let ended = self.ended.filter(|_| self.state.is_over());
        Summary {
            state: self.state.name().to_owned(),
            finished_at: ended.map(|ended| u64::try_from(ended.0 / 1000).unwrap_or(0)),
            text: serde_json::to_string(&summary).expect("a summary contains only JSON"),
        }
    }
}

impl RunHeader {
    /// Hides all secrets that the daemon knows so far.
    pub(super) fn mask(&mut self, secrets: &Redactor) {
        secrets.mask_in(&mut self.input);
        secrets.mask_fields(&mut self.params);
    }
}

impl Run {
    /// Returns a run with a driver, and the inputs and status of that driver.
    pub(super) fn driven(id: RunId, header: RunHeader) -> (Self, RunInputs, watch::Sender<RunStatus>) {
        let (inputs, received) = RunInbox::new();
        let (sender, progress) = watch::channel(RunStatus::default());
        (Self::from_parts(id, header, inputs, progress), received, sender)
    }

    /// Returns a run without a driver, from its journal record.
    pub(super) fn from_journal(known: KnownRun) -> Self {
        let KnownRun { run: id, last: seq, summary, .. } = known;
        let (state, summary_parts) = match summary {
            Some(Summary { state, text, .. }) => {
                (RunState::from_name(&state), serde_json::from_str::<StoredSummary>(&text).ok())
            }
            None => (None, None),
        };
        let progress = RunStatus { seq, state: state.unwrap_or_default(), ..RunStatus::default() };
        let (header, progress) = match summary_parts {
            Some(StoredSummary {
                header,
                ended,
                error,
                traceback,
                result,
                result_shortened,
                library_copy,
                save_error,
                repairs,
            }) => {
                let result = result.map(Arc::new);
                (
                    header,
                    RunStatus {
                        ended,
                        error,
                        traceback,
                        result,
                        result_shortened,
                        library_copy,
                        save_error,
                        repairs,
                        ..progress
                    },
                )
            }
            None => {
                let blocked_reason = Some("failed to read the stored data of this run".to_owned());
                let header = RunHeader {
                    workflow: "unknown".to_owned(),
                    started: Timestamp(0),
                    input: Value::Null,
                    params: Map::new(),
                    parent: None,
                    signature: None,
                    pins: None,
                    hosts: Vec::new(),
                    request: None,
                    rerun: None,
                    schedule: None,
                    source: DefinitionSource::Given,
                    engine: EngineKind::Sqlite,
                };
                (header, RunStatus { blocked_reason, ..progress })
            }
        };
        let (inputs, _) = RunInbox::new();
        let (_, progress) = watch::channel(progress);
        Self::from_parts(id, header, inputs, progress)
    }

    /// Returns whether event number `seq` was taken over from an earlier run. Event 1, the start, never is.
    pub(super) fn has_taken_over(&self, seq: u64) -> bool {
        let events = self.header.rerun.as_ref().and_then(|rerun| rerun.taken_over_events).unwrap_or_default();
        (2..=events.saturating_add(1)).contains(&seq)
    }

    fn from_parts(id: RunId, header: RunHeader, inputs: RunInbox, progress: watch::Receiver<RunStatus>) -> Self {
        let (cancelling, result_taken) = (CancellationToken::new(), CancellationToken::new());
        Self { id, header, inputs, progress, answering: Mutex::default(), cancelling, result_taken }
    }

    /// Returns the run with changed progress. Only for a run without a driver.
    pub(super) fn with_changed_progress(self, change: impl FnOnce(RunStatus) -> RunStatus) -> Self {
        let (_, progress) = watch::channel(change(self.progress()));
        Self { progress, ..self }
    }

    pub(super) fn progress(&self) -> RunStatus {
        self.progress.borrow().clone()
    }

    pub(super) fn state(&self) -> RunState {
        self.progress.borrow().state
    }

    pub(super) fn follow(&self) -> watch::Receiver<RunStatus> {
        self.progress.clone()
    }

    pub(super) fn inputs(&self) -> RunInbox {
        self.inputs.clone()
    }

    /// Returns whether the run has a driver.
    pub(super) fn is_driven(&self) -> bool {
        !self.inputs.is_closed() && !self.progress.borrow().locked
    }

    /// Returns the kind of the run and of its history.
    pub(super) fn kind(&self) -> Kind {
        self.header.source.kind()
    }

    /// Sends an input to the run's driver. Ignored if the run has finished.
    pub(super) fn send(&self, input: Input) {
        self.inputs.send(input);
    }

    /// Sends an input to the run's driver and returns the driver's disposition once the journal has stored it. `None`
    /// on timeout, or if the driver leaves the run to the next daemon.
    pub(super) async fn request(&self, input: Input, timeout: Duration) -> Option<Disposition> {
        match tokio::time::timeout(timeout, self.inputs.request(input)).await.ok()? {
            Ok(disposition) => Some(disposition),
            // The driver stopped before it handled this input.
            Err(_) => self.state().is_over().then_some(Disposition::Ignored),
        }
    }

    pub(super) fn cancel(&self, reason: &str) {
        self.send(Input::Cancel { reason: reason.to_owned() });
        self.cancelling.cancel();
    }

    /// Waits until the run has finished, or until the timeout.
    pub(super) async fn wait_until_over(&self, timeout: Duration) {
        self.wait_until(|progress| progress.state.is_over(), timeout).await;
    }

    pub(super) async fn wait_until(&self, condition: impl Fn(&RunStatus) -> bool, timeout: Duration) {
        let mut progress = self.progress.clone();
        let reached = progress.wait_for(|progress| condition(progress));
        // On timeout, the caller reports the current state.
        let _ = tokio::time::timeout(timeout, reached).await;
    }

    /// Waits until the run has finished. Every run ends by its own time limit, unless it waits for an answer.
    pub(super) async fn finished(&self) {
        drop(self.progress.clone().wait_for(|progress| progress.state.is_over()).await);
    }

    /// Returns the part of a report that runs of every kind have, for a run with this progress.
    pub(super) fn reply(&self, progress: &RunStatus, secrets: &Redactor) -> RunReply {
        let ended = progress.ended.unwrap_or_else(clock::now);
        RunReply {
            success: progress.state == RunState::Completed,
            run_id: self.id.to_string(),
            status: progress.state.name().to_owned(),
            workflow_name: Some(self.header.workflow.clone()),
            total_elapsed_time: ended.since(self.header.started).as_secs_f64(),
            paused: progress.pause(secrets),
            error: secrets.masked_if(progress.error.clone().or_else(|| progress.blocked_reason.clone())),
            traceback: secrets.masked_if(progress.traceback.clone()),
            ..RunReply::default()
        }
    }

    /// Returns the record of the run, with the open `gates`, and with the result as lists show it.
    pub(super) fn record(&self, gates: Vec<GateInfo>, secrets: &Redactor) -> RunRecord {
        let progress = self.progress();
        let RunHeader { mut input, mut params, .. } = self.header.clone();
        secrets.mask_in(&mut input);
        secrets.mask_fields(&mut params);
        let (result, shortened) = progress.result.as_deref().map(shorten_for_list).unzip();
        let result = secrets.masked_value(result.unwrap_or_default());
        RunRecord {
            run_id: self.id.to_string(),
            workflow_id: self.header.workflow.clone(),
            state: progress.state.name().to_owned(),
            started_at: clock::to_iso8601(self.header.started),
            completed_at: progress.ended.map(clock::to_iso8601),
            input,
            params,
            result,
            result_shortened: progress.result_shortened || shortened.unwrap_or_default(),
            paused: progress.pause(secrets),
            traceback: secrets.masked_if(progress.traceback),
            error: secrets.masked_if(progress.error.or(progress.blocked_reason)),
            pending_gate: gates.first().cloned(),
            pending_gates: gates,
            parent_run_id: self.header.parent.as_ref().map(|step| step.run.to_string()),
            repairs: progress.repairs,
            again: self.header.rerun.clone(),
            schedule: self.header.schedule.clone(),
            engine: (self.header.engine != EngineKind::Sqlite).then_some(self.header.engine),
            locked: progress.locked,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn list_shows_short_results_fully_and_long_ones_partly() {
        for value in [Value::Null, json!("short"), json!({"a": [1, 2]})] {
            assert_eq!(shorten_for_list(&value), (value.clone(), false));
        }
        let (text, shortened) = shorten_for_list(&json!({"output": "x".repeat(5000), "code": 0}));
        assert!(shortened && text == json!({"output": "x".repeat(MAX_RESULT_TEXT_CHARS), "code": 0}), "{text}");
        let (many, shortened) = shorten_for_list(&json!((0..5000).collect::<Vec<_>>()));
        let head = many.as_str().unwrap();
        let long_text = json!((0..5000).collect::<Vec<_>>()).to_string();
        assert!(shortened && head.len() == MAX_RESULT_TEXT_CHARS && long_text.starts_with(head), "{many}");
    }

    #[test]
    fn summary_of_an_older_daemon_has_no_known_result() {
        let text = r#"{"workflow":"w","started":5,"input":{"a":"b"},"ended":7}"#;
        let reported: StoredSummary = serde_json::from_str(text).unwrap();
        assert_eq!((reported.header.input, reported.result), (json!({"a": "b"}), None));
        let null = text.replace("\"ended\":7", "\"result\":null");
        let reported: StoredSummary = serde_json::from_str(&null).unwrap();
        assert_eq!(reported.result, Some(Value::Null), "a null result is known");
    }
}
