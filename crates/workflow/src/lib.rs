//! The rules of machine workflows, as pure functions.
//!
//! Owns the machine workflow: its [`Definition`], the [`Event`]s of a run, the [`History`] that the events fold into,
//! and [`decide`]. [`decide`] returns the events and effects that follow from an input. The daemon's driver calls
//! [`decide`], appends the events, performs the effects and returns their outcomes as inputs.
//!
//! Nothing in this crate waits, reads a clock, opens a file or draws a random number. The same definition, history and
//! input always give the same decision, even on replay.

mod child;
mod child_outcome;
mod condition;
mod contract;
mod decide;
mod definition;
mod dialogue;
mod event;
mod form;
mod gateless;
mod groups;
mod history;
mod items;
pub mod line_diff;
mod log;
mod outer;
mod parallel;
mod path;
mod question;
mod rehearsal;
mod repair;
mod result;
mod rules;
pub mod substitute;
mod terminals_ahead;
mod time;
pub mod tool;
mod variables;

pub use steplatch_clock::Timestamp;

pub use child::{Child, ChildWorkflow, MAX_LEVELS};
pub use child_outcome::{
    LOG_OMITTED, MAX_CHILD_LOG_BYTES, MAX_CHILD_VARIABLES_BYTES, OMITTED_VARIABLES, child_outcome,
};
pub use condition::{Condition, ConditionError};
pub use contract::{
    Contract, ContractVariable, InvalidVariables, ValueSchema, contract_variables, is_environment_variable,
    workflow_signature,
};
pub use decide::{
    Decision, Effect, Input, RecordedPart, Start, TakeOverError, accepted_patch, asks_about_patch, begin_from, decide,
    resume, wants_last_screens, wants_screen,
};
pub use definition::{
    Action, Definition, MAX_DOCUMENT_BYTES, PossibleOutcomes, Problem, Problems, Severity, State, ToolCatalog,
    Transition, action_reference, documentation, schema, secret_variable, suggestion, suggestion_or_known,
};
pub use dialogue::{Conversation, DialogueScript};
pub use event::{
    Branch, By, ChildEnd, Choice, Continuation, DialogueAnswer, Event, FailureReason, InvalidLimits, LastScreen,
    Limits, NONE_OF_THESE, Outcome, Proof, Purpose, SEMANTICS_VERSION, ShellAnswer, Side, SignedAnswer,
};
pub use form::{Field, Form, InvalidField};
pub use gateless::{CalledName, GatelessNames, may_ask_person};
pub use history::{CurrentStep, Exchange, Gate, GateRequest, History, PatchSaving, Pause, RECORDED, Repair, Status};
pub use log::{CheckedVariable, LogBuilder, LogEntry, ValidationResult, VariableStatus, execution_log};
pub use outer::{EngineAnswer, EngineTask, FunctionInput, FunctionTurn, FunctionWork, FunctionWorkKind};
pub use question::{AnsweredBy, InvalidApprovers, Question, read_approvers};
pub use rehearsal::{Rehearsal, RehearsalEnd, RehearsalStep, Source, Stubs, rehearse};
pub use repair::{ACCEPT_AND_ASK, DECLINE, PatchError, Proposal, Weakening, patched, weakenings};
pub use substitute::filtered_forms;
pub use terminals_ahead::{TerminalsAhead, terminals_ahead};
pub use variables::Variables;
