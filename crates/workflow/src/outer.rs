//! Requests to a daemon by an engine that decides elsewhere, and the answers.
//!
//! For a machine, such an engine calls [`decide`](crate::decide) itself, and the daemon with the terminals performs the
//! effects. A function runs in the daemon, because the daemon has the interpreter. The engine requests the function's
//! calls, runs its timers, starts its nested runs, and reports the outcomes. The engine stores these types: new fields
//! need a default.

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
        /// True if the effect may already have been requested. The terminal host's record of the step is then the
        /// answer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeated: bool,
    },
    /// Read screens of terminals.
    ReadScreens {
        /// The terminals.
        sessions: Vec<String>,
    },
    /// Only record the events that come with the request.
    Record,
    /// Continue a function with inputs, and report the work that it waits for afterwards.
    Advance {
        /// The number of the turn. A repeated request has the same number, and gets the same answer.
        turn: u64,
        /// Inputs since the last turn, in order.
        inputs: Vec<FunctionInput>,
    },
    /// Perform a call of a function.
    Call {
        /// Number of the call within the run.
        number: u64,
        /// True if an earlier request for the call may have reached a daemon.
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
        /// The outcome of the call, as the daemon returned it.
        outcome: Value,
    },
    /// A timer has ended.
    TimerEnded {
        /// Id of the timer.
        id: String,
    },
    /// The run that a call started has ended, or the engine no longer waits for it.
    RunEnded {
        /// Number of the call.
        number: u64,
        /// True if the time limit of the call has passed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        late: bool,
        /// Reason the engine has no result of the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The last deadline of the function has passed.
    DeadlinePassed,
    /// An input that runs of all kinds accept.
    Passed {
        /// The input.
        input: Box<Input>,
    },
}

/// A piece of work that a function waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionWork {
    /// The unique id of the work within the run.
    pub id: String,
    /// Kind of the work.
    pub kind: FunctionWorkKind,
}

/// Kind of work that an engine does for a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FunctionWorkKind {
    /// Request a call from the daemon.
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
    /// True if `begun` has all work that the function waits for, because this is the daemon's first report.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// Work that the function waits for since this turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begun: Vec<FunctionWork>,
    /// The ids of work that the function no longer waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,
    /// For each input of the turn, in order: true if it had an effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<bool>,
    /// Maximum time until the next turn, when a time limit of the function passes.
    pub deadline: Option<Duration>,
    /// The name of the last open call, for lists of runs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shown: String,
    /// True if a gate of the function is open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gate: bool,
    /// True if the function waits for a person, at its own gate or at a gate of a run below.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// Requester of the current pause.
    pub paused: Option<String>,
    /// The outcome of the run for its parent run, once it has ended.
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
    /// The effect started a run.
    Begun {
        /// The name of the run's workflow.
        workflow: String,
        /// The first events; a function has none.
        events: Vec<Event>,
        /// True if the workflow is a function.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        function: bool,
    },
    /// A function has made a turn.
    Advanced {
        /// The turn, with the work that the function waits for.
        turn: Box<FunctionTurn>,
    },
    /// A call of a function has ended.
    Called {
        /// The outcome of the call, for [`FunctionInput::Called`].
        outcome: Value,
    },
    /// The screens, in the order of the request. An unreadable screen is missing.
    Screens {
        /// The screens.
        screens: Vec<Option<String>>,
    },
    /// The request is done, and no input follows.
    Done,
}

// serde requires this signature.
