//! Runs of remote workflows: runs like any other, whose work is done by a service.
//!
//! The journal has what the service was asked and what it said, each before anything
//! is done because of it. A start is asked for at most once: what came of one that no
//! answer was written down for is not known, and is said to be so.

mod answer;
mod begin;
mod entry;
mod run;
mod state;
mod told;

pub(super) use begin::RemoteLaunch;
pub(super) use run::RemoteRun;
pub(super) use told::{event, outcome_of, report, result_of, there};
