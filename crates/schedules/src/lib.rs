//! Schedules of workflows: a time, a change of files or a request from outside starts a run.
//!
//! A [`Schedule`] names its [`Trigger`] and the rules for missed times and for a run that has not ended. The
//! [`Timetable`] decides from the schedules, the time and the ends of runs which starts are due; it is pure, and its
//! [`TimetableState`] is stored. The daemon starts the runs and keeps the state.

mod schedule;
mod timetable;
mod trigger;

pub use schedule::{InvalidName, MAX_SCHEDULES, MissedPolicy, OverlapPolicy, Schedule, check_name};
pub use timetable::{
    Entry, Firing, FiringError, LastFiring, StartFailure, Step, Timetable, TimetableError, TimetableState,
};
pub use trigger::{InvalidTrigger, Trigger};
