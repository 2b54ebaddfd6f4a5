//! The events of a run's history.
//!
//! Histories store events. New fields need a default. The meaning of an existing field changes only together with
//! [`SEMANTICS_VERSION`].

mod branch;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_clock::Timestamp;
use steplatch_ids::{RunId, StepId};

use crate::gateless::GatelessNames;
use crate::question::Question;
use crate::repair::Proposal;
use crate::time;
pub use branch::{Branch, Continuation};

/// The choice that a gate offers in addition to the descriptions.
pub const NONE_OF_THESE: &str = "none of these";

/// The version of the rules that a new run follows to its end. Increment the version when the decisions on the same
/// history change, and keep the old behaviour for older runs in `rules.rs`.
pub const SEMANTICS_VERSION: u32 = 6;

/// Serialization of a shared value like the value itself.
pub(crate) mod shared {
    use std::sync::Arc;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use serde_json::Value;

    pub(crate) fn serialize<S: Serializer>(value: &Arc<Value>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Value>, D::Error> {
        Value::deserialize(deserializer).map(Arc::new)
    }
}

/// One entry of a history.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run began. Always the first entry.
    Started {
        /// Time of the event.
        at: Timestamp,
        /// The run's id.
        run: RunId,
        /// The whole document, so that changes in the library do not affect the run.
        #[serde(with = "shared")]
        definition: Arc<Value>,
        /// The initial variables.
        variables: Map<String, Value>,
        /// The terminal passed to the run.
        session_id: Option<String>,
        /// The limits of the run.
        limits: Limits,
        /// True if the run's terminals stay open when it fails.
        keep_terminals: bool,
        /// True if the library saves nested workflows when they complete. False in runs that began under version 3.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        save_on_success: bool,
        /// The version of the rules that the run follows.
        semantics_version: u32,
        /// The step of the parent run that started this run.
        parent: Option<StepId>,
        /// Depth below the outermost run.
        #[serde(default, skip_serializing_if = "is_zero")]
        depth: u32,
        /// Workflows, nodes and graphs that the run starts by name and that never ask a person.
        #[serde(default, skip_serializing_if = "GatelessNames::is_empty")]
        gateless: GatelessNames,
    },
    /// The run entered a state and requested its action.
    StateEntered {
        /// Time of the event.
        at: Timestamp,
        /// The state, and the number of the visit to it.
        step: StepId,
        /// The requested tool.
        tool: String,
        /// The tool's parameters, with all variables replaced.
        params: Map<String, Value>,
        /// Time limit of the state; `None` if the action has its own limit.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "time::optional_seconds")]
        limit: Option<Duration>,
    },
    /// The action of a state ended.
    StateCompleted {
        /// Time of the event.
        at: Timestamp,
        /// The state, and the number of the visit to it.
        step: StepId,
        /// The outcome.
        outcome: Outcome,
        /// Time that the action took.
        #[serde(with = "time::seconds")]
        elapsed: Duration,
    },
    /// A state begins its executions: one execution for each of these items. The next entry of the state is for the
    /// first item.
    ItemsBegan {
        /// Time of the event.
        at: Timestamp,
        /// The state.
        state: String,
        /// The variable of the current item.
        name: String,
        /// The items.
        items: Vec<Value>,
    },
    /// A rule answered a question of a dialogue. Recorded before the answer is typed.
    QuestionAnswered {
        /// Time of the event.
        at: Timestamp,
        /// The state of the dialogue, and the number of the visit to it.
        step: StepId,
        /// The question and its answer.
        answer: DialogueAnswer,
    },
    /// The driver read the screen of the run's terminal, because a condition has a pattern and the result of the action
    /// has no text. Recorded before the end of the state.
    ScreenRead {
        /// Time of the event.
        at: Timestamp,
        /// The step whose conditions need the screen.
        step: StepId,
        /// The terminal.
        session_id: String,
        /// The screen of the terminal; `None` if reading failed.
        screen: Option<String>,
    },
    /// A transition was chosen.
    Transitioned {
        /// Time of the event.
        at: Timestamp,
        /// The state that the run leaves.
        from: String,
        /// The next state.
        to: String,
        /// Description of the condition that held.
        because: String,
    },
    /// A gate opened. A person or an agent chooses the next state there.
    GateOpened {
        /// Time of the event.
        at: Timestamp,
        /// The step whose end is judged.
        step: StepId,
        /// The choices.
        choices: Vec<Choice>,
        /// Branch to take if the answer is that no choice holds.
        otherwise: Branch,
        /// Basis of the answer: the result of the state's action.
        context: Map<String, Value>,
    },
    /// A gate was answered.
    GateAnswered {
        /// Time of the event.
        at: Timestamp,
        /// The step of the gate.
        step: StepId,
        /// The choice.
        choice: String,
        /// Person or agent that chose.
        by: By,
    },
    /// The action of a state opened a gate.
    GateAsked {
        /// Time of the event.
        at: Timestamp,
        /// The requesting step.
        step: StepId,
        /// The question.
        question: Question,
        /// Deadline of a valid answer.
        expires_at: Option<Timestamp>,
        /// Basis of the answer.
        context: Map<String, Value>,
        /// Ids of the terminals that a person sees. Absent if an older version or another engine opened the gate.
        terminals: Option<Vec<String>>,
    },
    /// The gate of a state's action had no answer in time.
    GateExpired {
        /// Time of the event.
        at: Timestamp,
        /// The step of the gate.
        step: StepId,
    },
    /// A gate no longer needs an answer, because the run ends, or continues with a patched machine.
    GateCancelled {
        /// Time of the event.
        at: Timestamp,
        /// The step of the gate.
        step: StepId,
    },
    /// A patch of the machine was proposed at a gate that asks where the run continues. A person decides on the patch
    /// first. The answer is an [`Event::GateAnswered`] of this step. If it accepts the patch, the run continues with
    /// the patched document.
    PatchProposed {
        /// Time of the event.
        at: Timestamp,
        /// The name of the question; its place is not a state.
        step: StepId,
        /// The patch.
        proposal: Box<Proposal>,
        /// The ids of the terminals that a person sees, as for [`Event::GateAsked`].
        terminals: Option<Vec<String>>,
    },
    /// The library saved a patched machine as its current version, or refused it. Follows the answer that accepts the
    /// patch.
    PatchSaved {
        /// Time of the event.
        at: Timestamp,
        /// The name of the question.
        step: StepId,
        /// The version in the library.
        version: Option<u32>,
        /// The error of a refusal.
        error: Option<String>,
    },
    /// The child run that a state requested has begun.
    ChildStarted {
        /// Time of the event.
        at: Timestamp,
        /// The step that started the child.
        step: StepId,
        /// The name of the child's workflow.
        workflow: String,
    },
    /// The run that a state started ended, or was cancelled because its parent stopped waiting.
    ChildEnded {
        /// Time of the event.
        at: Timestamp,
        /// The step that started the child.
        step: StepId,
        /// The name of the child's workflow.
        workflow: String,
        /// End of the child run.
        end: ChildEnd,
        /// The error, if the child did not complete.
        error: Option<String>,
    },
    /// A branch of a `parallel` begins. Recorded before the start of its run.
    BranchBegan {
        /// Time of the event.
        at: Timestamp,
        /// The part of the step that identifies the branch.
        step: StepId,
        /// The name of the branch, if it has one.
        name: Option<String>,
    },
    /// A branch of a `parallel` ended.
    BranchEnded {
        /// Time of the event.
        at: Timestamp,
        /// The part of the step that identifies the branch.
        step: StepId,
        /// The name of the branch, if it has one.
        name: Option<String>,
        /// The result fields of the branch's run.
        result: Map<String, Value>,
    },
    /// The run that a state started waits for an answer, directly or through a child.
    ChildWaits {
        /// Time of the event.
        at: Timestamp,
        /// The step that started the child.
        step: StepId,
    },
    /// The child run no longer waits for an answer.
    ChildGoesOn {
        /// Time of the event.
        at: Timestamp,
        /// The step that started the child.
        step: StepId,
    },
    /// The run requested the driver to set or to read variables of the contract in the shell.
    VariablesAsked {
        /// Time of the event.
        at: Timestamp,
        /// Identifier of the request. Its place is a side of the contract, not a state.
        step: StepId,
        /// The terminal of the shell.
        session_id: String,
        /// Purpose of the request.
        purpose: Purpose,
        /// The variables to set, with their values.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        set: BTreeMap<String, String>,
        /// The variables to read.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        read: Vec<String>,
        /// The next state if the contract holds; `None` if the run then completes.
        then: Option<String>,
    },
    /// The shell answered, or was not available.
    VariablesTold {
        /// Time of the event.
        at: Timestamp,
        /// The step of the request.
        step: StepId,
        /// The answer.
        answer: ShellAnswer,
    },
    /// The run checked one side of the contract.
    ContractChecked {
        /// Time of the event.
        at: Timestamp,
        /// The side.
        side: Side,
        /// The variables that are set, with their values; secrets are hidden.
        values: BTreeMap<String, String>,
        /// True if the run may continue.
        holds: bool,
        /// The error, even if the run may continue.
        error: Option<String>,
        /// Arguments from defaults or from the shell, with the values for `{NAME}`. In runs that began before version
        /// 5, only arguments without an export.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        substituted: BTreeMap<String, String>,
    },
    /// The run paused. An action in progress continues to its end.
    Paused {
        /// Time of the event.
        at: Timestamp,
        /// Requester of the pause.
        by: String,
        /// True if the parent run requested the pause.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        above: bool,
    },
    /// An action ended during a pause of the run, and its continuation was deferred.
    HeldBack {
        /// Time of the event.
        at: Timestamp,
        /// The deferred continuation.
        onward: Continuation,
    },
    /// The run resumed.
    Resumed {
        /// Time of the event.
        at: Timestamp,
        /// Requester of the resumption.
        by: String,
    },
    /// The run is about to end, and executes its finally state first.
    FinallyBegan {
        /// Time of the event.
        at: Timestamp,
        /// End of the run after the finally state.
        end: Branch,
    },
    /// The driver read the screens of the run's terminals, because the run has failed. Recorded before the end of the
    /// run, and before its finally state.
    ScreensKept {
        /// Time of the event.
        at: Timestamp,
        /// The screens. The screen of the run's current terminal is the first.
        screens: Vec<LastScreen>,
    },
    /// The run completed.
    Completed {
        /// Time of the event.
        at: Timestamp,
    },
    /// The run failed.
    Failed {
        /// Time of the event.
        at: Timestamp,
        /// The kind of failure.
        reason: FailureReason,
        /// The error, as a sentence without a full stop.
        error: String,
    },
    /// The run was cancelled.
    Cancelled {
        /// Time of the event.
        at: Timestamp,
        /// The requester's reason.
        reason: String,
    },
}

// serde requires this signature.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

// serde requires this signature.
impl Event {
    /// Returns the time of the event.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        match self {
            Self::Started { at, .. }
            | Self::StateEntered { at, .. }
            | Self::StateCompleted { at, .. }
            | Self::ItemsBegan { at, .. }
            | Self::QuestionAnswered { at, .. }
            | Self::ScreenRead { at, .. }
            | Self::Transitioned { at, .. }
            | Self::GateOpened { at, .. }
            | Self::GateAnswered { at, .. }
            | Self::GateAsked { at, .. }
            | Self::GateExpired { at, .. }
            | Self::GateCancelled { at, .. }
            | Self::PatchProposed { at, .. }
            | Self::PatchSaved { at, .. }
            | Self::ChildStarted { at, .. }
            | Self::ChildEnded { at, .. }
            | Self::BranchBegan { at, .. }
            | Self::BranchEnded { at, .. }
            | Self::ChildWaits { at, .. }
            | Self::ChildGoesOn { at, .. }
            | Self::VariablesAsked { at, .. }
            | Self::VariablesTold { at, .. }
            | Self::ContractChecked { at, .. }
            | Self::Paused { at, .. }
            | Self::HeldBack { at, .. }
            | Self::Resumed { at, .. }
            | Self::FinallyBegan { at, .. }
            | Self::ScreensKept { at, .. }
            | Self::Completed { at }
            | Self::Failed { at, .. }
            | Self::Cancelled { at, .. } => *at,
        }
    }
}

/// The screen of a terminal at the failure of its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastScreen {
    /// The terminal.
    pub session_id: String,
    /// The end of the terminal's screen.
    pub screen: String,
}

impl LastScreen {
    /// Maximum number of screens that a run keeps.
    pub const MAX_PER_RUN: usize = 8;
    /// Maximum number of kept lines of a screen.
    const MAX_LINES: usize = 50;
    /// Maximum number of kept characters of a screen.
    const MAX_CHARS: usize = 4000;

    /// Returns the record of a screen, truncated to the end of the screen.
    #[must_use]
    pub fn new(session_id: String, screen: &str) -> Self {
        let lines: Vec<&str> = screen.trim_end().lines().collect();
        let end = lines[lines.len().saturating_sub(Self::MAX_LINES)..].join("\n");
        let length = end.chars().count();
        Self { session_id, screen: end.chars().skip(length.saturating_sub(Self::MAX_CHARS)).collect() }
    }
}

/// The answer to a question of a program, in a dialogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DialogueAnswer {
    /// The index of the answering rule.
    pub rule: u32,
    /// Text that the rule's pattern matched, at most 200 characters.
    pub match_text: String,
    /// The groups of the match, by number and by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub groups: Map<String, Value>,
    /// The offset after the question in the terminal's output, where the search for the next question begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// The typed text. Empty for a secret, because the secret is computed again for each input.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub input_text: String,
    /// Keys to press after the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// True if the text is a secret.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
}

/// Person or agent that answered a gate, and the front-end of the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredBy", into = "StoredBy")]
pub struct By {
    /// The name of the person or agent.
    pub name: String,
    /// The front-end of the answer, such as `cli`; `None` in records of older versions.
    pub surface: Option<String>,
    /// Proof that a person answered; `None` if an agent may answer, and in records of older versions.
    pub proof: Option<Proof>,
    /// The digest of the displayed question, if the answer contained it.
    pub shown: Option<String>,
    /// The signature of the answer, if the proof is a passkey.
    pub signed: Option<Box<SignedAnswer>>,
    /// The weakest proof that the gate accepted; `None` if an agent may answer, and in records of older versions.
    pub required: Option<Proof>,
    /// The reason of the answer, on one line.
    pub reason: Option<String>,
}

/// A signature of an answer by a passkey, with all data to verify it again. Bytes are in URL-safe base64.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedAnswer {
    /// The public key: an uncompressed point of P-256.
    pub public_key: String,
    /// The person's name for the passkey.
    pub passkey: String,
    /// The origin of the signing page.
    pub origin: String,
    /// The signed answer.
    pub answer: String,
    /// The number of the choice, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<usize>,
    /// The client data that the browser collected.
    pub client_data: String,
    /// The data of the authenticator.
    pub authenticator_data: String,
    /// The signature of the client data and the authenticator data.
    pub signature: String,
}

/// Proof that a person answered a gate, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// No proof, except that the answer did not arrive by a route that agents use.
    #[default]
    None,
    /// A dialog of an MCP client. The client reports that a person accepted it.
    Dialog,
    /// The controlling terminal of the answering process. The process is in the foreground. Not a steplatch terminal.
    Terminal,
    /// The approver's passphrase.
    Passphrase,
    /// The signature of the question and the answer by a passkey, whose device verified the person.
    Passkey,
}

impl Proof {
    /// All proofs, the weakest first.
    pub const ALL: [Self; 5] = [Self::None, Self::Dialog, Self::Terminal, Self::Passphrase, Self::Passkey];

    /// Returns the name of the proof in settings and histories.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Dialog => "dialog",
            Self::Terminal => "terminal",
            Self::Passphrase => "passphrase",
            Self::Passkey => "passkey",
        }
    }
}

/// The stored form of [`By`]. Older histories have only the name, as a string.
#[serde_with_macros::skip_serializing_none]
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredBy {
    Who(String),
    Whole {
        who: String,
        through: Option<String>,
        proof: Option<Proof>,
        shown: Option<String>,
        signed: Option<Box<SignedAnswer>>,
        required: Option<Proof>,
        reason: Option<String>,
    },
}

impl From<StoredBy> for By {
    fn from(stored: StoredBy) -> Self {
        match stored {
            StoredBy::Who(name) => Self { name, ..Self::default() },
            StoredBy::Whole { who: name, through: surface, proof, shown, signed, required, reason } => {
                Self { name, surface, proof, shown, signed, required, reason }
            }
        }
    }
}

impl From<By> for StoredBy {
    fn from(by: By) -> Self {
        match by {
            By { name, surface: None, proof: None, shown: None, signed: None, required: None, reason: None } => {
                Self::Who(name)
            }
            By { name: who, surface: through, proof, shown, signed, required, reason } => {
                Self::Whole { who, through, proof, shown, signed, required, reason }
            }
        }
    }
}

impl By {
    /// Returns an answer with its reason, as in `stop, because a test fails`. `None` if it has no reason. Of a form, only
    /// the reason is returned.
    #[must_use]
    pub fn decision(&self, answer: &str) -> Option<String> {
        let reason = self.reason.as_deref()?;
        let answer = if answer.starts_with('{') { "answered" } else { answer };
        Some(format!("{answer}, because {reason}"))
    }
}

impl From<&str> for By {
    fn from(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

impl std::fmt::Display for By {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.surface {
            Some(surface) => write!(out, "{} ({surface})", self.name),
            None => out.write_str(&self.name),
        }
    }
}

/// One choice of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The condition that this choice confirms.
    pub description: String,
    /// The state that the choice leads to.
    pub next_state: String,
    /// True if only a person may make this choice: it leads past a gate for a person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_person: bool,
}

/// A side of a contract with the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Variables that must be set before the first state.
    Arguments,
    /// Variables that must be set after the last state.
    ReturnValues,
}

impl Side {
    /// Returns the place of this side's steps. No state has such a name.
    pub(crate) fn place(self) -> &'static str {
        match self {
            Self::Arguments => "@arguments",
            Self::ReturnValues => "@return_values",
        }
    }
}

/// The purpose of a request to the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Export the initial arguments.
    ExportGiven,
    /// Read the other arguments.
    ReadArguments,
    /// Export defaults of unset arguments.
    ExportDefaults,
    /// Read the return values.
    ReadReturnValues,
}

impl Purpose {
    /// Returns the side of the contract that the request serves.
    #[must_use]
    pub fn side(self) -> Side {
        match self {
            Self::ExportGiven | Self::ReadArguments | Self::ExportDefaults => Side::Arguments,
            Self::ReadReturnValues => Side::ReturnValues,
        }
    }
}

/// The result of a request to set or to read variables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ShellAnswer {
    /// The request succeeded.
    Told {
        /// The values of the read variables, by name; `None` for an unset variable.
        #[serde(default)]
        values: BTreeMap<String, Option<String>>,
    },
    /// The shell was not available, or refused the request.
    Failed {
        /// The error, as a sentence without a full stop.
        error: String,
    },
}

/// Reason for a run's failure, as a code for callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// An action did not succeed, and no transition applied.
    ActionFailed,
    /// A state ended with an unexpected result, and the answer at the gate let the run fail.
    Unexpected,
    /// The run exceeded its maximum number of states, or a state its maximum number of visits.
    TooManyStates,
    /// The run exceeded its time limit.
    TimedOut,
    /// A pattern did not compile after the replacement of its variables, or took too much work.
    BadPattern,
    /// The parameters of an action were invalid after the replacement of their variables.
    BadParameters,
    /// A placeholder has no value.
    UnresolvedVariable,
    /// A required argument is not set, or an argument does not match its schema.
    ArgumentsInvalid,
    /// A required return value was not set, or does not match its schema.
    ReturnValuesInvalid,
    /// The history is at a state that the definition does not have.
    UnknownState,
}

/// End of a child run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildEnd {
    /// The run completed.
    Completed,
    /// The run failed.
    Failed,
    /// The run was cancelled, directly or through its parent.
    Cancelled,
}

/// The outcome of an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// The action returned a result, successful or not.
    Finished {
        /// The fields of the result.
        result: Map<String, Value>,
    },
    /// The time limit of the state passed first.
    TimedOut,
    /// The daemon stopped while the action was in progress. The action may have happened or not.
    Unknown,
}

impl Outcome {
    /// Returns the result fields for conditions and variables. `success` is always present.
    pub(crate) fn result(&self, state: &str, tool: &str, limit: Option<Duration>) -> Cow<'_, Map<String, Value>> {
        let mut fields = Map::new();
        match self {
            Self::Finished { result } if result.contains_key("success") => return Cow::Borrowed(result),
            Self::Finished { result } => {
                fields.clone_from(result);
                fields.insert("success".into(), true.into());
            }
            Self::TimedOut => {
                let after = limit.map(|limit| format!(" after {}", time::seconds_text(limit))).unwrap_or_default();
                fields.insert("success".into(), false.into());
                fields.insert("timeout_occurred".into(), true.into());
                fields.insert("error".into(), format!("State '{state}' timed out{after}").into());
            }
            Self::Unknown => {
                let error = format!(
                    "It is not known whether '{tool}' happened: the daemon, the terminal or its host ended in the meantime"
                );
                fields.insert("success".into(), false.into());
                fields.insert("outcome_unknown".into(), true.into());
                fields.insert("error".into(), error.into());
            }
        }
        Cow::Owned(fields)
    }
}

/// The limits of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "LimitsRecord", into = "LimitsRecord")]
pub struct Limits {
    max_states: u32,
    execution_timeout: Duration,
}

/// A limit outside its allowed range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidLimits {
    /// Too few or too many states.
    #[error("max_states must be from 1 to 1000, not {0}")]
    MaxStates(u32),
    /// Too little or too much time.
    #[error("execution_timeout must be from 1 to 7200 seconds, not {0}")]
    ExecutionTimeout(f64),
}

impl Limits {
    /// Returns limits for the number of executed states (1 to 1000) and the duration in seconds (1 to 7200).
    ///
    /// # Errors
    /// If a limit is outside its allowed range.
    pub fn new(max_states: u32, execution_timeout_seconds: f64) -> Result<Self, InvalidLimits> {
        if !(1..=1000).contains(&max_states) {
            return Err(InvalidLimits::MaxStates(max_states));
        }
        if !(1.0..=7200.0).contains(&execution_timeout_seconds) {
            return Err(InvalidLimits::ExecutionTimeout(execution_timeout_seconds));
        }
        Ok(Self { max_states, execution_timeout: Duration::from_secs_f64(execution_timeout_seconds) })
    }

    /// Returns the maximum number of states that the run may execute.
    #[must_use]
    pub fn max_states(&self) -> u32 {
        self.max_states
    }

    /// Returns the time limit of the run.
    #[must_use]
    pub fn execution_timeout(&self) -> Duration {
        self.execution_timeout
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_states: 100, execution_timeout: Duration::from_secs(1800) }
    }
}

/// The stored form of [`Limits`].
#[derive(Serialize, Deserialize)]
struct LimitsRecord {
    max_states: u32,
    execution_timeout: f64,
}

impl TryFrom<LimitsRecord> for Limits {
    type Error = InvalidLimits;

    fn try_from(record: LimitsRecord) -> Result<Self, InvalidLimits> {
        Self::new(record.max_states, record.execution_timeout)
    }
}

impl From<Limits> for LimitsRecord {
    fn from(limits: Limits) -> Self {
        Self { max_states: limits.max_states, execution_timeout: limits.execution_timeout.as_secs_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::json;

    #[test]
    fn limits_stay_within_their_bounds_even_when_stored() {
        assert_eq!(Limits::new(0, 1.0), Err(InvalidLimits::MaxStates(0)));
        assert_eq!(Limits::new(1001, 1.0), Err(InvalidLimits::MaxStates(1001)));
        assert!(Limits::new(1, f64::NAN).is_err());
        assert_eq!(
            Limits::new(1, 0.5).unwrap_err().to_string(),
            "execution_timeout must be from 1 to 7200 seconds, not 0.5"
        );
        assert_eq!(
            serde_json::to_value(Limits::default()).unwrap(),
            json!({"max_states": 100, "execution_timeout": 1800.0})
        );
        assert!(serde_json::from_value::<Limits>(json!({"max_states": 5000, "execution_timeout": 1.0})).is_err());
    }

    #[test]
    fn events_round_trip_through_their_stored_form() {
        let step: StepId = "run_0123456789abcdef/build/2".parse().unwrap();
        let events = [
            Event::StateEntered {
                at: Timestamp(1),
                step: step.clone(),
                tool: "send_input".into(),
                params: Map::new(),
                limit: Some(Duration::from_millis(500)),
            },
            Event::StateCompleted {
                at: Timestamp(2),
                step,
                outcome: Outcome::TimedOut,
                elapsed: Duration::from_micros(123_456),
            },
        ];
        let stored = serde_json::to_string_pretty(&events).unwrap();
        expect![[r#"
            [
              {
                "event": "state_entered",
                "at": 1,
                "step": "run_0123456789abcdef/build/2",
                "tool": "send_input",
                "params": {},
                "limit": 0.5
              },
              {
                "event": "state_completed",
                "at": 2,
                "step": "run_0123456789abcdef/build/2",
                "outcome": {
                  "kind": "timed_out"
                },
                "elapsed": 0.123456
              }
            ]"#]]
        .assert_eq(&stored);
        assert_eq!(serde_json::from_str::<Vec<Event>>(&stored).unwrap(), events);
    }
}
