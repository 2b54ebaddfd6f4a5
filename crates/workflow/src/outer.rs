//! What an engine that decides elsewhere asks of a daemon, and the answers.
//!
//! Of a machine, such an engine calls [`decide`](crate::decide) itself, and has the effects performed by the daemon that has
//! the terminals. A function continues in the daemon, which has its interpreter; the engine has its calls performed, keeps its
//! times, starts its nested runs, and brings what became of them back. These types are stored by the engine: fields may be added
//! with a default.

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
        /// Which.
        effect: Box<Effect>,
        /// Whether it may have been performed before: then what the terminal host knows of the step is the answer.
        #[serde(default, skip_serializing_if = "is_false")]
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
        /// What happened since the last turn, in order.
        inputs: Vec<FunctionInput>,
    },
    /// Perform a call of a function.
    Call {
        /// Which call of the run.
        number: u64,
        /// Whether another request for it may have reached a daemon.
        #[serde(default, skip_serializing_if = "is_false")]
        repeated: bool,
    },
    /// Begin the run that a call of a function starts.
    BeginRun {
        /// Which call of the run.
        number: u64,
    },
}

/// What happened to a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "happened", rename_all = "snake_case")]
pub enum FunctionInput {
    /// A call was performed.
    Called {
        /// Which.
        number: u64,
        /// Its outcome, as the daemon returned it.
        outcome: Value,
    },
    /// A timer has ended.
    TimerEnded {
        /// Which.
        id: String,
    },
    /// The run that a call started has ended, or is not waited for any longer.
    RunEnded {
        /// Which call.
        number: u64,
        /// Whether the time limit of the call has passed.
        #[serde(default, skip_serializing_if = "is_false")]
        late: bool,
        /// Why the engine has no result of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The deadline has passed that the function had last.
    DeadlinePassed,
    /// An input that runs of every kind take.
    Passed {
        /// Which.
        input: Box<Input>,
    },
}

/// Something that a function waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionWork {
    /// Its name within the run. It is used once.
    pub id: String,
    /// What is to be done.
    pub kind: FunctionWorkKind,
}

/// What an engine does for a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FunctionWorkKind {
    /// Have a call performed by the daemon.
    Call {
        /// Which call of the run.
        number: u64,
    },
    /// Wait.
    Timer {
        /// How long.
        after: Duration,
    },
    /// Start a run, and wait for its end.
    Run {
        /// Which call of the run.
        number: u64,
        /// The step by which the run is known.
        step: StepId,
        /// How long to wait at the most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<Duration>,
    },
}

/// What a function waits for after a turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionTurn {
    /// Whether `begun` has all that it waits for: the daemon has reported nothing before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub whole: bool,
    /// What it waits for since this turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begun: Vec<FunctionWork>,
    /// The names of what it waits for no longer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,
    /// Which of the turn's inputs had an effect, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<bool>,
    /// After which time it is asked again at the latest, because a time limit may have passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// The name of its last open call, for lists.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shown: String,
    /// Whether a gate of its own is open.
    #[serde(default, skip_serializing_if = "is_false")]
    pub gate: bool,
    /// Whether it waits for a person, at a gate of its own or of a run below it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub waits: bool,
    /// Who has paused it, if it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// The outcome of the run for the one above it, once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Outcome>,
}

/// The answer to an [`EngineTask`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum EngineAnswer {
    /// What follows from the effect.
    Input {
        /// The input of the run.
        input: Input,
    },
    /// The effect starts a run: these are its first events.
    Begun {
        /// The name of its workflow.
        workflow: String,
        /// The first events; a function has none of its own.
        events: Vec<Event>,
        /// Whether it is a function.
        #[serde(default, skip_serializing_if = "is_false")]
        function: bool,
    },
    /// A function has made a turn.
    Advanced {
        /// What it waits for.
        turn: Box<FunctionTurn>,
    },
    /// A call of a function was performed.
    Called {
        /// Its outcome, for [`FunctionInput::Called`].
        outcome: Value,
    },
    /// The screens, in the order of the request. A screen that cannot be read is missing.
    Screens {
        /// The screens.
        screens: Vec<Option<String>>,
    },
    /// It is done, and nothing follows.
    Done,
}

// serde requires this signature.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(value: &bool) -> bool {
    !*value
}
