//! The difference between a function and its own history.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::progress::State;

/// The first difference between a history and the function's calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Divergence {
    /// The recorded call at this position. `None`: the history has an answer here.
    pub recorded: Option<Call>,
    /// The call of the function at this position. `None`: no further call.
    #[serde(rename = "asked")]
    pub current: Option<Call>,
    /// Description of the function's state, displayed if it makes no call.
    pub instead: String,
}

impl Divergence {
    /// Creates the difference between the recorded call and the call that the function makes in `state`.
    #[must_use]
    pub fn boxed(recorded: Option<Call>, current: Option<Call>, state: &State) -> Box<Self> {
        let instead = match state {
            State::Waiting(_) => "it waits for answers".to_owned(),
            State::Completed(_) => "it is at its end".to_owned(),
            State::Failed(failure) => format!("it fails: {}", failure.summary()),
        };
        Box::new(Self { recorded, current, instead })
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ordinal = self.recorded.iter().chain(&self.current).map(|call| call.ordinal).next().unwrap_or(0);
        write!(f, "the function no longer follows its history, beginning with call {ordinal}.")?;
        match &self.recorded {
            Some(call) => write!(f, "\n  recorded: {}", call.kind.describe())?,
            None => write!(f, "\n  recorded: no call before the next answer")?,
        }
        match &self.current {
            Some(call) => write!(f, "\n  now:      {}", call.kind.describe())?,
            None => write!(f, "\n  now:      no call; {}", self.instead)?,
        }
        write!(f, "\nWas it edited while it ran? Start a new run, or put the file back as it was.")
    }
}

impl std::error::Error for Divergence {}
