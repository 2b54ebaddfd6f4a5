//! Requests to a daemon by an engine that decides elsewhere, and the answers.
//!
//! Of a machine, such an engine calls [`decide`](crate::decide) itself, and has the effects performed by the daemon
//! that has the terminals. A function continues in the daemon, which has its interpreter; the engine has its calls
//! performed, keeps its times, starts its nested runs, and reports their outcomes. The engine stores these types: new
//! fields need a default.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steplatch_ids::StepId;

use crate::decide::{Effect, Input};
use crate::event::{Event, Outcome};

/// A request to a daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum EngineTask {
    /// Perform an effect.
    Perform {
        /// The effect.
        effect: Box<Effect>,
        /// True for a possible repetition. Then the terminal host's knowledge of the step is the answer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeated: bool,
    },
    /// Read screens of terminals.
    ReadScreens {
        /// The terminals.
        sessions: Vec<String>,
    },
    /// Record the events that come with the request, and nothing else.
    Record,
    /// Continue a function with inputs, and report what it waits for then.
    Advance {
        /// The number of the turn: a repeated request has the same one, and the same answer.
        turn: u64,
        /// Inputs since the last turn, in order.
        inputs: Vec<FunctionInput>,
    },
    /// Perform a call of a function.
    Call {
        /// Number of the call within the run.
        number: u64,
        /// True if another request for it may have reached a daemon.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeated: bool,
    },
    /// Begin the run that a call of a function starts.
    BeginRun {
        /// Number of the call within the run.
        number: u64,
    },
}

/// Input of a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "happened", rename_all = "snake_case")]
pub enum FunctionInput {
    /// A call has ended.
    Called {
        /// Number of the call.
        number: u64,
        /// Its outcome, as the daemon returned it.
        outcome: Value,
    },
    /// A timer has ended.
    TimerEnded {
        /// Id of the timer.
        id: String,
    },
    /// The run that a call started has ended, or nothing waits for it any longer.
    RunEnded {
        /// Number of the call.
        number: u64,
        /// True if the time limit of the call has passed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        late: bool,
        /// Reason that the engine has no result of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The deadline has passed that the function had last.
    DeadlinePassed,
    /// An input that runs of every kind take.
    Passed {
        /// The input.
        input: Box<Input>,
    },
}

/// Something that a function waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionWork {
    /// Its name within the run, used once.
    pub id: String,
    /// Kind of the work.
    pub kind: FunctionWorkKind,
}

/// Work of an engine for a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FunctionWorkKind {
    /// Have a call performed by the daemon.
    Call {
        /// Number of the call within the run.
        number: u64,
    },
    /// Wait.
    Timer {
        /// Duration of the wait.
        after: Duration,
    },
    /// Start a run, and wait for its end.
    Run {
        /// Number of the call within the run.
        number: u64,
        /// The step of the run.
        step: StepId,
        /// Time limit of the wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<Duration>,
    },
}

/// Work that a function waits for after a turn.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionTurn {
    /// True if `begun` has all that it waits for: the daemon has reported nothing before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// Work that it waits for since this turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begun: Vec<FunctionWork>,
    /// The names for which it no longer waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,
    /// For each of the turn's inputs, in their order: true if it had an effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<bool>,
    /// Maximum time until its next turn, because a time limit may have passed.
    pub deadline: Option<Duration>,
    /// The name of its last open call, for lists.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shown: String,
    /// True if its own gate is open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gate: bool,
    /// True if it waits for a person, at its own gate or at one of a run below it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// Requester of its present pause.
    pub paused: Option<String>,
    /// The outcome of the run for the one above it, once it has ended.
    pub over: Option<Outcome>,
}

/// The answer to an [`EngineTask`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum EngineAnswer {
    /// An input follows from the effect.
    Input {
        /// The input of the run.
        input: Input,
    },
    /// The effect starts a run: these are its first events.
    Begun {
        /// The name of its workflow.
        workflow: String,
        /// The first events; a function has none.
        events: Vec<Event>,
        /// True if it is a function.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        function: bool,
    },
    /// A function has made a turn.
    Advanced {
        /// Work that it waits for.
        turn: Box<FunctionTurn>,
    },
    /// A call of a function has ended.
    Called {
        /// Its outcome, for [`FunctionInput::Called`].
        outcome: Value,
    },
    /// The screens, in the order of the request. An unreadable screen is missing.
    Screens {
        /// The screens.
        screens: Vec<Option<String>>,
    },
    /// The end, and nothing follows.
    Done,
}

// serde requires this signature.
