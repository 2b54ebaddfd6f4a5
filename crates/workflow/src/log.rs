//! A run, retold for its reader.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::event::{Event, Side};
use crate::history::{CurrentStep, History};
use crate::tool;

/// One entry of an execution log.
// Nearly every other entry is the large one: boxing it would save nothing.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum LogEntry {
    /// The arguments were checked.
    PreExecutionValidation {
        /// The arguments that are set.
        variables: BTreeMap<String, String>,
        /// Whether the run may begin.
        success: bool,
        /// What is wrong.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// When, in seconds since the Unix epoch.
        timestamp: f64,
    },
    /// The return values were checked.
    PostExecutionValidation {
        /// The return values that are set.
        variables: BTreeMap<String, String>,
        /// Whether the run is complete.
        success: bool,
        /// What is wrong.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// When, in seconds since the Unix epoch.
        timestamp: f64,
    },
    /// A state's action came to its end.
    Execution {
        /// The state.
        state: String,
        /// The action.
        tool: String,
        /// Its parameters, all variables replaced.
        params: Map<String, Value>,
        /// What it returned.
        result: Map<String, Value>,
        /// The variables after it: the initial and the standard ones, and those of this state. What earlier
        /// states returned stands in their own entries.
        variables_after: Map<String, Value>,
        /// Whether the action succeeded.
        tool_success: bool,
        /// How long it took, in seconds.
        elapsed_time: f64,
        /// When it ended, in seconds since the Unix epoch.
        timestamp: f64,
    },
    /// The run went from one state to another.
    Transition {
        /// The state it left.
        state: String,
        /// The state it went to.
        next_state: String,
        /// The condition that held, in words.
        because: String,
        /// When, in seconds since the Unix epoch.
        timestamp: f64,
    },
    /// The run broke off.
    Error {
        /// The last state that was executed, if any was.
        #[serde(skip_serializing_if = "Option::is_none")]
        state: Option<String>,
        /// What happened.
        error: String,
        /// When, in seconds since the Unix epoch.
        timestamp: f64,
    },
}

/// Returns the execution log of a run, from its first event on.
#[must_use]
pub fn execution_log<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<LogEntry> {
    let mut told = Told::default();
    events.into_iter().filter_map(|event| told.next(event)).collect()
}

/// A history that is told while it is folded, one event after the other.
#[derive(Debug, Default)]
pub struct Told {
    history: History,
}

impl Told {
    /// Takes over one more event. Returns its entry in the log, if it has one.
    pub fn next(&mut self, event: &Event) -> Option<LogEntry> {
        // An end of a state is told with the beginning that it belongs to, which folding it forgets.
        let begun = match event {
            Event::StateCompleted { step, .. } => {
                self.history.current().filter(|current| current.step == *step).cloned()
            }
            _ => None,
        };
        self.history.apply(event);
        entry(event, begun, &self.history)
    }

    /// Returns the history so far.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }
}

fn entry(event: &Event, begun: Option<CurrentStep>, history: &History) -> Option<LogEntry> {
    let timestamp = event.at().as_seconds();
    match event {
        Event::Started { .. }
        | Event::StateEntered { .. }
        | Event::ScreenRead { .. }
        | Event::GateOpened { .. }
        | Event::GateAnswered { .. }
        | Event::GateAsked { .. }
        | Event::GateExpired { .. }
        | Event::GateCancelled { .. }
        | Event::ChildStarted { .. }
        | Event::ChildEnded { .. }
        | Event::ChildWaits { .. }
        | Event::Paused { .. }
        | Event::HeldBack { .. }
        | Event::Resumed { .. }
        | Event::ChildGoesOn { .. }
        | Event::VariablesAsked { .. }
        | Event::VariablesTold { .. }
        | Event::Completed { .. } => None,
        Event::ContractChecked { side, values, holds, error, .. } => {
            let (variables, success, error) = (values.clone(), *holds, error.clone());
            Some(match side {
                Side::Arguments => LogEntry::PreExecutionValidation { variables, success, error, timestamp },
                Side::ReturnValues => LogEntry::PostExecutionValidation { variables, success, error, timestamp },
            })
        }
        Event::StateCompleted { outcome, elapsed, .. } => {
            let CurrentStep { step, tool, params, limit, .. } = begun?;
            let result = outcome.result(&step.place, &tool, limit).into_owned();
            Some(LogEntry::Execution {
                variables_after: history.variables().to_map_after(&step.place, &result),
                state: step.place,
                tool,
                params,
                tool_success: tool::succeeded(&result),
                result,
                elapsed_time: elapsed.as_secs_f64(),
                timestamp,
            })
        }
        Event::Transitioned { from, to, because, .. } => Some(LogEntry::Transition {
            state: from.clone(),
            next_state: to.clone(),
            because: because.clone(),
            timestamp,
        }),
        Event::Failed { error, .. } => Some(failure(history, error.clone(), timestamp)),
        Event::Cancelled { reason, .. } => Some(failure(history, format!("Cancelled: {reason}"), timestamp)),
    }
}

fn failure(history: &History, error: String, timestamp: f64) -> LogEntry {
    LogEntry::Error { state: history.last_state().map(str::to_owned), error, timestamp }
}
