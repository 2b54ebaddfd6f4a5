//! Runs of functions: how they begin, go on, and are told.
//!
//! What happens next is decided by the function itself, in a worker. Everything that
//! it asks and is answered is an entry in the same journal as those of machines, of a
//! kind of its own, and written before anything is done because of it.

mod begin;
mod cancel;
mod child;
mod entry;
mod frame;
mod gate;
mod history;
mod inline;
mod node;
mod open_calls;
mod perform;
mod run;
mod told;
mod work;

pub(super) use begin::{FunctionLocation, RunArguments};
pub(super) use child::{ChildFunctionLaunch, begin_saved, outcome_of, result_of, returned};
pub(super) use gate::closed_gate;
pub(super) use run::{FunctionRun, OwnFile};
pub(super) use told::{event, report};
pub(super) use work::{due, until};
