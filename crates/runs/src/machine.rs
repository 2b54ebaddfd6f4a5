//! State machines: recording and performing the decisions of the crate `workflow`.

mod act;
mod begin;
pub(crate) mod contract;
mod definitions;
mod gate;
mod history;
mod mirror;
mod outcome;
mod rehearsal;
mod report;
mod run;

pub(crate) use act::{Action, perform};
pub(crate) use begin::{MachineLaunch, Rerun, complete_variables, prepare};
pub(crate) use definitions::DefinitionCache;
pub(crate) use gate::closed_gate;
pub(crate) use history::keeps_terminals;
pub(crate) use outcome::{outcome, value};
pub(crate) use rehearsal::rehearsal_report;
pub(crate) use report::{MAX_TEXT_CHARS, build_report, next_step, shorten};
pub(crate) use run::{MachineRun, TERMINAL, sessions_at_gate};
