//! What an engine that decides elsewhere asks of a daemon, and the answers.
//!
//! Such an engine calls [`decide`](crate::decide) itself, and has the effects performed by the daemon that has the
//! terminals. These types are stored by the engine: fields may be added with a default.

use serde::{Deserialize, Serialize};

use crate::decide::{Effect, Input};
use crate::event::Event;

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
        /// The first events.
        events: Vec<Event>,
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
