//! Runs of remote workflows: ordinary runs, whose work is done by a service.
//!
//! The journal has every request to the service and every answer, each written before anything is done because of it.
//! A start is requested at most once: if no answer to it was recorded, its outcome is unknown and is reported as
//! unknown.

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
