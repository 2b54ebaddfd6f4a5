//! Runs of remote workflows: ordinary runs whose work a service performs.
//!
//! The journal has every request to the service and every answer, each written before the daemon acts on it. The daemon
//! never repeats a start without a recorded answer, because its outcome is unknown, and reports show it as unknown.

mod answer;
mod begin;
mod entry;
mod outer;
mod run;
mod state;
mod turns;
mod views;

pub(super) use begin::RemoteLaunch;
pub(super) use run::RemoteRun;
pub(super) use views::{event, outcome_of, remote_ids, report, result_of};
