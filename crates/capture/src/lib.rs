//! Capture of terminal sessions as machines.
//!
//! [`capture`] takes input logs with the output of the programs, and returns a machine that performs the same
//! actions, with a reason for each assumption. Pure: no clock, no files, no terminals.
//!
//! The modules, in order of execution: `turn` pairs each input with its outcome, `noise` selects inputs to omit,
//! `alignment` compares with another capture of the same procedure, `template` and `provenance` replace values with
//! variables, `question`, `menu` and `drawing` turn prompts of programs into patterns, and `machine` writes the states.
//! `golden` is the recording that a proof compares with. `variation` removes text that differs between runs.

mod act;
mod alignment;
mod comparison;
mod drawing;
mod effects;
#[cfg(test)]
mod fuzz;
mod golden;
mod import;
#[cfg(test)]
mod laws;
mod machine;
mod menu;
mod noise;
#[cfg(test)]
mod procedures;
mod provenance;
mod question;
#[cfg(test)]
mod questions;
mod session_log;
mod template;
mod turn;
mod typed_ahead;
mod variation;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use comparison::{compare_runs, run_steps};
pub use effects::{irreversible_action, irreversible_inputs, programs_in_command};
pub use golden::{Golden, GoldenError, GoldenHeader, GoldenStep, Proof};
pub use import::{
    ImportedRecording, RecordedScreen, ScriptFiles, ScriptLogs, Timeline, TimelineEvent, expect_script,
    import_recording, script_files, script_recording,
};
pub use machine::capture;
pub use session_log::{KnownFacts, Moment, SessionLog};
pub use variation::remove_volatile_text;

/// Options of a capture, in addition to the logs.
#[derive(Debug, Clone, Default)]
pub struct CaptureRequest {
    /// Name of the workflow.
    pub name: Option<String>,
    /// Purpose of the workflow.
    pub description: Option<String>,
    /// Values that become arguments, by the argument's name.
    pub argument_values: Vec<(String, String)>,
    /// True to keep read-only commands such as `ls`.
    pub keep_read_only_commands: bool,
    /// Files that must exist at the end.
    pub expected_files: Vec<String>,
    /// Logs of another execution of the same procedure, in the order of the terminals. Differences become arguments, or
    /// text that the waits generalise.
    pub compare_with: Vec<SessionLog>,
}

/// A captured machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CapturedMachine {
    /// The machine, as a document.
    pub definition: Value,
    /// Assumptions, state by state.
    pub guesses: Vec<Guess>,
    /// Inputs that the machine omits.
    #[serde(rename = "left_out")]
    pub omitted_inputs: Vec<OmittedInput>,
    /// Decisions that a person or an agent must make.
    pub undecided: Vec<String>,
    /// True if the machine must be edited before it can run: a logged string is truncated, or the log starts inside a
    /// program. See `undecided`.
    pub is_incomplete: bool,
    /// The recorded values of its arguments, without secrets.
    #[serde(rename = "inputs")]
    pub argument_values: Vec<(String, String)>,
    /// Recorded actions of the states, in order.
    pub golden: Vec<GoldenStep>,
}

/// An assumption about a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Guess {
    /// The state.
    pub state: String,
    /// The assumption.
    pub guess: String,
    /// Evidence for the assumption.
    pub reason: String,
}

/// An input that the machine omits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OmittedInput {
    /// The input.
    pub input: String,
    /// The reason.
    pub reason: String,
}
