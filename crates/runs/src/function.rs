//! Runs of functions: their start, their progress and their reports.
//!
//! The function itself, in a worker, decides what happens next. Every request of the function and every answer to it is
//! an entry in the same journal as the entries of machines, with its own tag. The driver writes an entry before it acts
//! on it.

mod begin;
mod calls;
mod child;
mod decide;
mod entry;
mod gate;
mod history;
mod node;
mod open_calls;
mod outer_work;
mod perform;
mod run;
mod views;
mod work;

pub(crate) use begin::choose_workflow;
pub(super) use begin::{FunctionLocation, RunArguments};
pub(super) use child::{ChildFunctionLaunch, begin_saved, node_call_result, return_value, run_outcome};
pub(super) use gate::closed_gate;
pub(super) use run::{FunctionRun, OwnFile};
pub(super) use views::{event, report};
