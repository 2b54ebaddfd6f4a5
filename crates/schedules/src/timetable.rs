//! The decision which runs to start: from the schedules, the time, and the ends of runs.
//!
//! Pure. The caller stores the [`TimetableState`] before it performs a [`Step`], and starts each run under the key of
//! its [`Firing`], so that a start that a killed process has begun is repeated without a second run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_clock::Timestamp;

use crate::schedule::{MAX_SCHEDULES, MissedPolicy, OverlapPolicy, Schedule};
use crate::trigger::Trigger;

/// Maximum age of a time that is not missed: a restart of the daemon delays a start.
const ON_TIME_TOLERANCE: Duration = Duration::from_secs(60);

/// Maximum number of starts of one schedule that wait.
const MAX_WAITING: usize = 100;

/// Maximum number of remembered keys of requests for one schedule.
const MAX_REMEMBERED_KEYS: usize = 100;

/// Delay before the first repetition of a start that failed for a temporary reason, which doubles up to the maximum.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A decided start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Firing {
    /// Name of the start, unique for the schedule.
    pub key: String,
    /// Time for which the run starts.
    pub scheduled: Timestamp,
    /// Time at which the run starts, at the earliest.
    pub due: Timestamp,
    /// Number of times that this start stands for, besides its own.
    #[serde(default)]
    pub missed: u32,
    /// Arguments of the request that caused the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    /// Number of failed attempts.
    #[serde(default)]
    attempts: u32,
}

impl Firing {
    /// Returns a start that a person, a change of files or a request has caused.
    #[must_use]
    pub fn requested(key: String, arguments: Option<Map<String, Value>>, now: Timestamp) -> Self {
        Self { key, scheduled: now, due: now, missed: 0, arguments, attempts: 0 }
    }
}

/// The result of a start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFiring {
    /// Time for which the run started.
    pub scheduled: Timestamp,
    /// Time of the result.
    pub at: Timestamp,
    /// Number of times that the start stood for, besides its own.
    #[serde(default)]
    pub missed: u32,
    /// The run. `None` if it did not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// `completed`, `failed` or `cancelled` once the run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The reason for not starting a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A schedule with its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The schedule.
    pub schedule: Schedule,
    /// True if the schedule starts nothing by itself.
    #[serde(default)]
    pub is_paused: bool,
    /// The times up to this one have been decided.
    decided_until: Timestamp,
    /// Starts that have not succeeded, in order.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub waiting: VecDeque<Firing>,
    /// The last run, until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<String>,
    /// The last result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastFiring>,
    /// Number of starts that were left out because a run had not ended.
    #[serde(default)]
    pub overlapped: u64,
    /// Number of times without a run because no daemon ran.
    #[serde(default)]
    pub missed: u64,
    /// Number of starts that failed since the last one that succeeded.
    #[serde(default)]
    pub failures: u64,
    /// Keys of the last starts, the oldest first, with their runs.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    remembered: VecDeque<(String, String)>,
    /// State of the files of the trigger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_digest: Option<String>,
    /// The next time of the trigger.
    #[serde(skip)]
    next: Option<Timestamp>,
    /// True while a step of the schedule is performed.
    #[serde(skip)]
    is_busy: bool,
}

impl Entry {
    fn new(schedule: Schedule) -> Self {
        let decided_until = schedule.created;
        let mut entry = Self {
            schedule,
            is_paused: false,
            decided_until,
            waiting: VecDeque::new(),
            active: None,
            last: None,
            overlapped: 0,
            missed: 0,
            failures: 0,
            remembered: VecDeque::new(),
            files_digest: None,
            next: None,
            is_busy: false,
        };
        entry.find_next();
        entry
    }

    fn find_next(&mut self) {
        self.next = self.schedule.trigger.next_after(self.schedule.created, self.decided_until);
    }

    /// Returns the next time at which the schedule starts a run by itself. `None` if it is paused or has no times.
    #[must_use]
    pub fn next_start(&self) -> Option<Timestamp> {
        let next = self.next.filter(|_| !self.is_paused)?;
        Some(next.after(self.schedule.delay_of(next)))
    }

    /// Returns the times of the trigger that have not been decided, also while the schedule is paused.
    pub fn next_times(&self) -> impl Iterator<Item = Timestamp> {
        let Schedule { trigger, created, .. } = &self.schedule;
        std::iter::successors(self.next, |last| trigger.next_after(*created, *last))
    }

    /// Returns true if a start has been decided but not begun.
    #[must_use]
    pub fn is_start_waiting(&self) -> bool {
        self.waiting.len() > usize::from(self.is_busy)
    }

    /// Decides the times of the trigger up to `now`. Returns true if the state has changed.
    fn decide_times(&mut self, now: Timestamp) -> bool {
        if self.decided_until > now {
            // The clock was ahead. The times up to then come again; their keys are the same, so a run of one of them
            // is not repeated.
            self.decided_until = now;
            self.find_next();
            return true;
        }
        if self.is_paused || self.next.is_none_or(|next| next > now) {
            return false;
        }
        let times = self.schedule.trigger.times_between(self.schedule.created, self.decided_until, now);
        let Some(times) = times else {
            self.find_next();
            return false;
        };
        self.decided_until = times.last;
        self.find_next();
        let is_on_time = now.since(times.last) <= ON_TIME_TOLERANCE;
        let scheduled = match self.schedule.missed {
            _ if is_on_time => times.last,
            MissedPolicy::CatchUp => times.first,
            MissedPolicy::Latest => times.last,
            MissedPolicy::Skip => {
                self.missed += u64::from(times.count);
                return true;
            }
        };
        let due = if is_on_time { scheduled.after(self.schedule.delay_of(scheduled)) } else { now };
        self.enqueue(Firing {
            key: scheduled.0.to_string(),
            scheduled,
            due,
            missed: times.count - 1,
            arguments: None,
            attempts: 0,
        });
        true
    }

    fn enqueue(&mut self, firing: Firing) {
        if self.waiting.len() >= MAX_WAITING {
            self.overlapped += 1;
        } else {
            self.waiting.push_back(firing);
        }
    }

    fn remember(&mut self, key: &str, run_id: &str) {
        if self.remembered.len() >= MAX_REMEMBERED_KEYS {
            self.remembered.pop_front();
        }
        self.remembered.push_back((key.to_owned(), run_id.to_owned()));
    }

    /// Returns the run that an earlier start with this key has started.
    #[must_use]
    pub fn run_of(&self, key: &str) -> Option<&str> {
        let found = self.remembered.iter().rev().find(|(known, _)| known == key);
        found.map(|(_, run_id)| run_id.as_str())
    }
}

/// A failure of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// The reason.
    pub error: String,
    /// True if the start is repeated.
    pub is_temporary: bool,
}

/// An effect for the caller to perform.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Start a run. [`Timetable::finish_start`] takes the result.
    Start {
        /// The schedule.
        schedule: Box<Schedule>,
        /// The start.
        firing: Box<Firing>,
    },
    /// Cancel a run. [`Timetable::fail_cancel`] takes a failure, and [`Timetable::record_end`] the end of the run.
    Cancel {
        /// Name of the schedule.
        schedule: String,
        /// The run.
        run_id: String,
    },
    /// Nothing: the start was left out, because this run has not ended.
    LeftOut {
        /// Name of the schedule.
        schedule: String,
        /// The start.
        firing: Box<Firing>,
        /// The run.
        run_id: String,
    },
}

/// A schedule that cannot be added, changed or found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimetableError {
    /// The name is in use.
    #[error("a schedule '{0}' exists; choose another name, or replace it with --replace")]
    Exists(String),
    /// There are too many schedules.
    #[error("there are {MAX_SCHEDULES} schedules; remove one first")]
    TooMany,
    /// There is no schedule with this name.
    #[error("there is no schedule '{name}'{}", list(.names))]
    NotFound {
        /// The name.
        name: String,
        /// The names of all schedules.
        names: Vec<String>,
    },
}

fn list(names: &[String]) -> String {
    match names.is_empty() {
        true => "; add one: steplatch schedule add".to_owned(),
        false => format!("; schedules are {}", names.join(", ")),
    }
}

/// A requested start that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FiringError {
    /// There is no such schedule.
    #[error(transparent)]
    Schedule(#[from] TimetableError),
    /// Too many starts wait.
    #[error("{MAX_WAITING} starts of the schedule '{0}' wait; cancel its run, or remove the schedule")]
    TooMany(String),
}

/// The stored state of a timetable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimetableState {
    /// Version of this form.
    version: u32,
    /// The schedules, by their names.
    #[serde(default)]
    entries: BTreeMap<String, Entry>,
}

impl Default for TimetableState {
    fn default() -> Self {
        Self { version: Self::VERSION, entries: BTreeMap::new() }
    }
}

impl TimetableState {
    /// Version of the stored form. Raise it when an older build would misread the state.
    const VERSION: u32 = 1;

    /// Reads a stored state. `None` if it is damaged, or of a newer version.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|state: &Self| state.version == Self::VERSION)
    }
}

/// The schedules and the starts that are due.
#[derive(Debug, Default)]
pub struct Timetable {
    state: TimetableState,
    /// True if the state differs from the stored one.
    is_changed: bool,
}

impl Timetable {
    /// Creates a timetable from a stored state.
    #[must_use]
    pub fn new(mut state: TimetableState) -> Self {
        state.entries.values_mut().for_each(Entry::find_next);
        Self { state, is_changed: false }
    }

    /// Returns the schedules in the order of their names.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.state.entries.values()
    }

    /// Returns a schedule.
    ///
    /// # Errors
    /// If there is none with this name.
    pub fn entry(&self, name: &str) -> Result<&Entry, TimetableError> {
        self.state.entries.get(name).ok_or_else(|| self.not_found(name))
    }

    fn not_found(&self, name: &str) -> TimetableError {
        TimetableError::NotFound { name: name.to_owned(), names: self.state.entries.keys().cloned().collect() }
    }

    fn entry_mut(&mut self, name: &str) -> Result<&mut Entry, TimetableError> {
        if !self.state.entries.contains_key(name) {
            return Err(self.not_found(name));
        }
        self.is_changed = true;
        Ok(self.state.entries.get_mut(name).expect("the name was found"))
    }

    /// Adds a schedule. A replaced one leaves nothing behind; its run continues.
    ///
    /// # Errors
    /// If the name is in use, unless `replaces`, or there are too many schedules.
    pub fn add(&mut self, schedule: Schedule, replaces: bool) -> Result<&Entry, TimetableError> {
        let exists = self.state.entries.contains_key(&schedule.name);
        if exists && !replaces {
            return Err(TimetableError::Exists(schedule.name));
        }
        if !exists && self.state.entries.len() >= MAX_SCHEDULES {
            return Err(TimetableError::TooMany);
        }
        self.is_changed = true;
        let name = schedule.name.clone();
        self.state.entries.insert(name.clone(), Entry::new(schedule));
        self.entry(&name)
    }

    /// Removes a schedule. Its run continues.
    ///
    /// # Errors
    /// If there is none with this name.
    pub fn remove(&mut self, name: &str) -> Result<Entry, TimetableError> {
        let removed = self.state.entries.remove(name).ok_or_else(|| self.not_found(name))?;
        self.is_changed = true;
        Ok(removed)
    }

    /// Pauses or resumes a schedule. The times of a pause are not missed, and waiting starts are dropped. Returns the
    /// number of dropped starts.
    ///
    /// # Errors
    /// If there is none with this name.
    pub fn set_paused(&mut self, name: &str, is_paused: bool, now: Timestamp) -> Result<usize, TimetableError> {
        let entry = self.entry_mut(name)?;
        // A start that has begun may have started its run.
        let kept = if is_paused { usize::from(entry.is_busy) } else { entry.waiting.len() };
        let dropped = entry.waiting.drain(kept.min(entry.waiting.len())..).count();
        if entry.is_paused && !is_paused {
            entry.decided_until = now;
            entry.find_next();
        }
        entry.is_paused = is_paused;
        Ok(dropped)
    }

    /// Adds a start that a person, a change of files or a request has caused. A start that already waits is not added
    /// again.
    ///
    /// # Errors
    /// If there is no such schedule, or too many of its starts wait.
    pub fn fire(&mut self, name: &str, firing: Firing) -> Result<(), FiringError> {
        let entry = self.entry_mut(name)?;
        if entry.waiting.iter().any(|waiting| waiting.key == firing.key) {
            return Ok(());
        }
        if entry.waiting.len() >= MAX_WAITING {
            return Err(FiringError::TooMany(name.to_owned()));
        }
        entry.waiting.push_back(firing);
        Ok(())
    }

    /// Sets the state of the files of a trigger. Returns true if it was another one before.
    pub fn record_files(&mut self, name: &str, digest: String) -> bool {
        let Ok(entry) = self.entry_mut(name) else { return false };
        let before = entry.files_digest.replace(digest);
        before.is_some() && before != entry.files_digest
    }

    /// Decides the times up to `now`.
    pub fn advance(&mut self, now: Timestamp) {
        for entry in self.state.entries.values_mut() {
            self.is_changed |= entry.decide_times(now);
        }
    }

    /// Returns the steps that are due. The caller stores the state before it performs them.
    pub fn begin_due(&mut self, now: Timestamp) -> Vec<Step> {
        let mut steps = Vec::new();
        for (name, entry) in &mut self.state.entries {
            while !entry.is_busy
                && let Some(firing) = entry.waiting.front().filter(|firing| firing.due <= now)
            {
                match (entry.active.clone(), entry.schedule.overlap) {
                    (Some(_), OverlapPolicy::Queue) => break,
                    (Some(run_id), OverlapPolicy::Skip) => {
                        let firing = Box::new(firing.clone());
                        entry.waiting.pop_front();
                        entry.overlapped += 1;
                        self.is_changed = true;
                        steps.push(Step::LeftOut { schedule: name.clone(), firing, run_id });
                    }
                    (Some(run_id), OverlapPolicy::CancelPrevious) => {
                        // Only the last start is worth a run.
                        let superseded = entry.waiting.iter().take_while(|firing| firing.due <= now).count() - 1;
                        for firing in entry.waiting.drain(..superseded).collect::<Vec<_>>() {
                            entry.overlapped += 1;
                            self.is_changed = true;
                            let (schedule, run_id) = (name.clone(), run_id.clone());
                            steps.push(Step::LeftOut { schedule, firing: Box::new(firing), run_id });
                        }
                        entry.is_busy = true;
                        steps.push(Step::Cancel { schedule: name.clone(), run_id });
                    }
                    (None, _) => {
                        entry.is_busy = true;
                        let (schedule, firing) = (Box::new(entry.schedule.clone()), Box::new(firing.clone()));
                        steps.push(Step::Start { schedule, firing });
                    }
                }
            }
        }
        steps
    }

    /// Records the result of a start. A start that failed for a temporary reason is repeated later. Returns true if the
    /// start is over.
    pub fn finish_start(
        &mut self,
        schedule: &Schedule,
        key: &str,
        result: Result<String, StartFailure>,
        now: Timestamp,
    ) -> bool {
        let Some(entry) = self.state.entries.get_mut(&schedule.name) else { return true };
        // The schedule may have been replaced since the start began.
        if entry.schedule.created != schedule.created {
            return true;
        }
        self.is_changed = true;
        entry.is_busy = false;
        let Some(firing) = entry.waiting.front_mut().filter(|firing| firing.key == key) else { return true };
        if let Err(StartFailure { is_temporary: true, error }) = &result {
            let (first, longest) = RETRY_PAUSES;
            firing.due = now.after(first.saturating_mul(2_u32.saturating_pow(firing.attempts)).min(longest));
            firing.attempts += 1;
            let (scheduled, missed) = (firing.scheduled, firing.missed);
            let error = Some(format!("{error}; it is tried again"));
            entry.last = Some(LastFiring { scheduled, at: now, missed, run_id: None, outcome: None, error });
            return false;
        }
        let firing = entry.waiting.pop_front().expect("the start was found");
        let (run_id, error) = match result {
            Ok(run_id) => (Some(run_id), None),
            Err(failure) => (None, Some(failure.error)),
        };
        entry.failures = if error.is_some() { entry.failures + 1 } else { 0 };
        entry.active.clone_from(&run_id);
        if let Some(run_id) = &run_id {
            entry.remember(key, run_id);
        }
        let Firing { scheduled, missed, .. } = firing;
        entry.last = Some(LastFiring { scheduled, at: now, missed, run_id, outcome: None, error });
        true
    }

    /// Records that a cancellation failed: it is tried again later. After one that succeeded, the start goes ahead once
    /// [`Self::record_end`] has recorded the end of the run.
    pub fn fail_cancel(&mut self, name: &str, run_id: &str, now: Timestamp) {
        let entry = self.state.entries.get_mut(name).filter(|entry| entry.active.as_deref() == Some(run_id));
        let Some(entry) = entry else { return };
        entry.is_busy = false;
        if let Some(firing) = entry.waiting.front_mut() {
            firing.due = now.after(RETRY_PAUSES.0);
        }
    }

    /// Returns the runs that a due start waits for, or is left out for.
    pub fn blocking_runs(&self, now: Timestamp) -> BTreeSet<String> {
        let blocked = self.entries().filter(|entry| !entry.is_busy);
        let blocked = blocked.filter(|entry| entry.waiting.front().is_some_and(|firing| firing.due <= now));
        blocked.filter_map(|entry| entry.active.clone()).collect()
    }

    /// Returns the runs whose end is awaited.
    pub fn active_runs(&self) -> BTreeSet<String> {
        self.state.entries.values().filter_map(|entry| entry.active.clone()).collect()
    }

    /// Records the end of a run.
    pub fn record_end(&mut self, run_id: &str, outcome: &str) {
        for entry in self.state.entries.values_mut().filter(|entry| entry.active.as_deref() == Some(run_id)) {
            self.is_changed = true;
            entry.active = None;
            // The run was cancelled for the next start.
            entry.is_busy = false;
            if let Some(last) = entry.last.as_mut().filter(|last| last.run_id.as_deref() == Some(run_id)) {
                last.outcome = Some(outcome.to_owned());
            }
        }
    }

    /// Returns the time at which the next step may be due, apart from the ends of runs.
    #[must_use]
    pub fn next_time(&self) -> Option<Timestamp> {
        let waits = |entry: &Entry| {
            let is_blocked =
                entry.is_busy || (entry.active.is_some() && entry.schedule.overlap == OverlapPolicy::Queue);
            entry.waiting.front().filter(|_| !is_blocked).map(|firing| firing.due)
        };
        let times = self
            .state
            .entries
            .values()
            .flat_map(|entry| [entry.next.filter(|_| !entry.is_paused), waits(entry)].into_iter().flatten());
        times.min()
    }

    /// Returns true if a schedule watches files.
    #[must_use]
    pub fn watches_files(&self) -> bool {
        self.entries().any(|entry| matches!(entry.schedule.trigger, Trigger::Files { .. }))
    }

    /// Returns true if the state differs from that of the last call of [`Self::state_to_store`].
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Returns the state to store before the next step is performed.
    pub fn state_to_store(&mut self) -> &TimetableState {
        self.is_changed = false;
        &self.state
    }
}

#[cfg(test)]
mod tests;
