//! Common parts of all kinds of runs: their start, driver, storage, recovery and end.
//!
//! A kind of run is a [`RunKind`]: it defines the meaning of the run's entries and their consequences. [`runner`]
//! drives a run, [`recorder`] stores it, [`launch`] starts it and [`recovery`] restores it after a restart. The engine
//! does not depend on any kind.

mod launch;
mod locked_runs;
mod recorder;
mod recovery;
mod recovery_error;
mod runner;
mod start_error;
mod work_clock;

pub(crate) use launch::{LaunchParts, begin_for_step, uncancelled};
pub(crate) use recorder::{ENTRY_VERSION, Recorder};
pub(crate) use recovery::{RecoveredRun, Recovery, StoredRun};
pub(crate) use recovery_error::RecoveryError;
pub(crate) use runner::{Attempt, Handled, RunKind};
pub(crate) use start_error::StartError;
pub(crate) use work_clock::WorkClock;
