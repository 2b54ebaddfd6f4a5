//! Live terminals: a program on a pseudo-terminal, its screen, its history, its keys, and waits for its output.
//!
//! Owns every pseudo-terminal of this process, from start to end. Callers hold a [`Terminals`] and get a [`Terminal`]
//! for each id. The parts of a terminal live in a separate task, so that a keystroke, a resize and a read cannot race.
//! Nothing here polls: output, exits and deadlines wake the waiting task.
//!
//! This crate depends neither on workflows nor on the clients' transport.

mod activity;
mod agent_program;
mod characters;
mod command;
mod echo;
mod exchange;
#[cfg(test)]
mod fuzz;
mod guard;
mod hidden_input;
mod history;
mod input_log;
mod intake;
mod integration;
mod keys;
mod label;
mod leftovers;
mod limit;
mod line_limit;
mod lines;
#[doc(hidden)]
pub mod measured;
mod memory;
mod mouse;
mod output_log;
mod pointer;
mod process;
mod prompt;
mod python_entry;
mod question;
mod refusal;
mod replay;
mod screen;
mod shell_state;
#[cfg(feature = "simulation")]
mod simulated;
mod terminal;
mod terminals;
mod transcript;
mod wait;

pub use agent_program::{AgentActivity, AgentStatus};
pub use command::{CommandRequest, CommandResult, InputRequest, RunError};
pub use exchange::{Variable, VariablesError};
pub use hidden_input::{HiddenInputLog, SecretText};
pub use input_log::{CommandOutcome, InputContext, LoggedAction, LoggedInput, LoggedText};
pub use integration::Integration;
pub use keys::UnknownKey;
pub use label::{LabelError, ScreenCell};
pub use limit::Limit;
pub use line_limit::LineTooLong;
pub use lines::settled;
pub use memory::MemoryReturn;
pub use mouse::{MouseAction, MouseInput};
pub use output_log::{OutputRecording, RECORDING_WINDOW_MILLIS, RecordedChange, RecordedOutput};
pub use pointer::PointerError;
pub use process::{Exit, Piped, PipedSpec, ProcessEnd, Programs, SpawnError, Stdin, Survivor, TERMINAL_VARIABLE};
pub use refusal::TerminalClosed;
pub use replay::Replay;
pub use rustix::process::Signal;
pub use screen::{
    Colour, Cursor, CursorCell, CursorShape, Highlight, Modes, MouseReports, Picture, Rgb, Run, Size, Style, Underline,
    highlights, highlights_in_place, is_link_address,
};
pub use shell_state::NotedState;
#[cfg(feature = "simulation")]
pub use simulated::{SIMULATED_OUTPUT, SimulatedEffect, Simulation};
pub use terminal::{
    Attached, Closed, Closing, CommandOutput, Description, Excerpt, Handover, HoldKey, Input, InputError, LockHolder,
    Output, Part, QueryFilter, ScreenDelta, ScreenLine, ScreenUpdate, Sent, Settle, Terminal, View,
};
pub use terminals::{OpenError, Opened, Options, Place, Spec, Terminals};
pub use wait::{InputReading, InputWait, PatternMatch, Quiet, Reason, Target, Until, Wait, Waited};
