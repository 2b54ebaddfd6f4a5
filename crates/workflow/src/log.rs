//! The execution log of a run: its history, formatted for readers.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::contract::contract_variables;
use crate::event::{Branch, Event, FailureReason, Purpose, Side};
use crate::history::{CurrentStep, History};
use crate::tool;

/// An entry of an execution log. Its time is the time of its event.
// Nearly half of the entries have the large variant, so boxing would save nothing.
#[allow(clippy::large_enum_variant)]
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum LogEntry {
    /// The check of the arguments.
    PreExecutionValidation {
        /// Result of the check.
        validation_result: ValidationResult,
        /// The arguments that are set.
        variables: BTreeMap<String, String>,
        /// True if the run may begin.
        success: bool,
        /// The error.
        error: Option<String>,
    },
    /// The check of the return values.
    PostExecutionValidation {
        /// Result of the check.
        validation_result: ValidationResult,
        /// The return values that are set.
        variables: BTreeMap<String, String>,
        /// True if the run is complete.
        success: bool,
        /// The error.
        error: Option<String>,
    },
    /// A state's action ended.
    Execution {
        /// The state.
        state: String,
        /// The action.
        tool: String,
        /// The parameters of the action, with all variables replaced.
        params: Map<String, Value>,
        /// The result of the action.
        result: Map<String, Value>,
        /// The variables after the state: the initial variables, the standard variables and the state's own variables.
        /// The results of earlier states are in their own entries.
        variables_after: Map<String, Value>,
        /// True if the action succeeded.
        tool_success: bool,
        /// Duration of the action, in seconds.
        elapsed_time: f64,
    },
    /// The run left a state, or no transition held.
    Transition {
        /// The state that the run left.
        from_state: String,
        /// The next state; `None` if no condition held.
        #[serialize_always]
        to_state: Option<String>,
        /// True if a condition held.
        condition_met: bool,
        /// Description of the condition that held.
        because: Option<String>,
        /// Explanation, if no condition held.
        message: Option<String>,
        /// Same as `from_state`.
        state: String,
        /// Same as `to_state`.
        next_state: Option<String>,
    },
    /// The run failed.
    Error {
        /// The last state, if there is one.
        state: Option<String>,
        /// The error.
        error: String,
    },
}

/// The result of checking one side of a contract.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValidationResult {
    /// True if this side of the contract holds.
    pub valid: bool,
    /// The required variables that are not set, in the order of the document.
    pub missing_vars: Vec<String>,
    /// All variables of this side, in the order of the document.
    pub validation_log: Vec<CheckedVariable>,
    /// The side: `arguments` or `return_values`.
    pub validation_type: Side,
}

/// One checked variable of a contract.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckedVariable {
    /// The name of the variable.
    pub variable: String,
    /// The status of the variable.
    pub status: VariableStatus,
    /// True if the variable must be set and has no default.
    pub required: bool,
}

/// Status of a variable: set or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VariableStatus {
    /// The variable is set.
    Present,
    /// The variable is not set.
    Missing,
}

impl ValidationResult {
    /// Returns the result of checking a side of the contract in `document`. `values` has the variables that are set.
    fn from_check(document: Option<&Value>, side: Side, values: &BTreeMap<String, String>, valid: bool) -> Self {
        let key = match side {
            Side::Arguments => "arguments",
            Side::ReturnValues => "return_values",
        };
        let variables = document.and_then(|document| document.get(key)).map(contract_variables).unwrap_or_default();
        let checked = variables.into_iter().map(|(variable, entry)| CheckedVariable {
            status: if values.contains_key(&variable) { VariableStatus::Present } else { VariableStatus::Missing },
            required: entry["required"] == true,
            variable,
        });
        let validation_log: Vec<CheckedVariable> = checked.collect();
        let missing = |checked: &&CheckedVariable| checked.required && checked.status == VariableStatus::Missing;
        let missing_vars = validation_log.iter().filter(missing).map(|checked| checked.variable.clone()).collect();
        Self { valid, missing_vars, validation_log, validation_type: side }
    }
}

/// Returns the execution log of a run, starting at its first event.
#[must_use]
pub fn execution_log<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<LogEntry> {
    let mut builder = LogBuilder::default();
    events.into_iter().flat_map(|event| builder.next(event)).collect()
}

/// Builder that folds a history into log entries, one event at a time.
#[derive(Debug, Default)]
pub struct LogBuilder {
    history: History,
    /// True if the log has the entry for the last state. No transition of that state held.
    has_end_entry: bool,
}

impl LogBuilder {
    /// Adds an event and returns its log entries: none or one for most events.
    pub fn next(&mut self, event: &Event) -> Vec<LogEntry> {
        // Applying the event removes the current step, but the entry of a finished state needs it.
        let current = match event {
            Event::StateCompleted { step, .. } => {
                self.history.current().filter(|current| current.step == *step).cloned()
            }
            _ => None,
        };
        self.history.apply(event);
        self.end_entry(event).into_iter().chain(entry(event, current, &self.history)).collect()
    }

    /// Returns the entry for the end of the last state, if no transition of that state held. The history has no event
    /// for such an end, so the next event adds the entry.
    fn end_entry(&mut self, event: &Event) -> Option<LogEntry> {
        let is_end = matches!(
            event,
            Event::VariablesAsked { purpose: Purpose::ReadReturnValues, .. }
                | Event::ContractChecked { side: Side::ReturnValues, .. }
                | Event::FinallyBegan {
                    end: Branch::Complete
                        | Branch::Fail { reason: FailureReason::ActionFailed | FailureReason::Unexpected, .. },
                    ..
                }
                | Event::Completed { .. }
                | Event::Failed { reason: FailureReason::ActionFailed | FailureReason::Unexpected, .. }
        );
        let state = self.history.last_state().filter(|_| is_end && !self.has_end_entry)?.to_owned();
        self.has_end_entry = true;
        Some(LogEntry::Transition {
            from_state: state.clone(),
            to_state: None,
            condition_met: false,
            because: None,
            message: Some("No matching transition condition".to_owned()),
            state,
            next_state: None,
        })
    }

    /// Returns the history so far.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }
}

fn entry(event: &Event, current: Option<CurrentStep>, history: &History) -> Option<LogEntry> {
    match event {
        Event::Started { .. }
        | Event::StateEntered { .. }
        | Event::QuestionAnswered { .. }
        | Event::ScreenRead { .. }
        | Event::GateOpened { .. }
        | Event::GateAnswered { .. }
        | Event::GateAsked { .. }
        | Event::GateExpired { .. }
        | Event::GateCancelled { .. }
        | Event::PatchProposed { .. }
        | Event::PatchSaved { .. }
        | Event::ChildStarted { .. }
        | Event::ChildEnded { .. }
        | Event::BranchBegan { .. }
        | Event::BranchEnded { .. }
        | Event::ChildWaits { .. }
        | Event::Paused { .. }
        | Event::HeldBack { .. }
        | Event::Resumed { .. }
        | Event::ChildGoesOn { .. }
        | Event::VariablesAsked { .. }
        | Event::VariablesTold { .. }
        | Event::FinallyBegan { .. }
        | Event::ItemsBegan { .. }
        | Event::ScreensKept { .. }
        | Event::Completed { .. } => None,
        Event::ContractChecked { side, values, holds, error, .. } => {
            let validation_result = ValidationResult::from_check(history.definition(), *side, values, *holds);
            let (variables, success, error) = (values.clone(), *holds, error.clone());
            Some(match side {
                Side::Arguments => LogEntry::PreExecutionValidation { validation_result, variables, success, error },
                Side::ReturnValues => {
                    LogEntry::PostExecutionValidation { validation_result, variables, success, error }
                }
            })
        }
        Event::StateCompleted { outcome, elapsed, .. } => {
            let CurrentStep { step, tool, params, limit, .. } = current?;
            let result = outcome.result(&step.place, &tool, limit).into_owned();
            Some(LogEntry::Execution {
                variables_after: history.variables().to_map_after(&step.place, &result),
                state: step.place,
                tool,
                params,
                tool_success: tool::succeeded(&result),
                result,
                elapsed_time: elapsed.as_secs_f64(),
            })
        }
        Event::Transitioned { from, to, because, .. } => Some(LogEntry::Transition {
            from_state: from.clone(),
            to_state: Some(to.clone()),
            condition_met: true,
            because: Some(because.clone()),
            message: None,
            state: from.clone(),
            next_state: Some(to.clone()),
        }),
        Event::Failed { error, .. } => Some(failure(history, error.clone())),
        Event::Cancelled { reason, .. } => Some(failure(history, format!("Cancelled: {reason}"))),
    }
}

fn failure(history: &History, error: String) -> LogEntry {
    LogEntry::Error { state: history.last_state().map(str::to_owned), error }
}
