//! The rule about time: each step, call and run ends within its own limit.
//!
//! A daemon that is down, stopped or waiting for its disk ends nothing. So an end may be delayed by the preceding
//! outages, and by [`ALLOWANCE_MS`] for preceding writes of the journal.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use steplatch_ids::{RunId, StepId};
use steplatch_workflow::{Event, Outcome, Timestamp};

use crate::disk::MAX_WRITE_MS;
use crate::machines::STATE_TIMEOUT;
use crate::stage::MAX_PAUSE_MS;
use crate::world::START_TIME;

/// Allowed delay of an end, in milliseconds: a decision waits for the writes of up to three earlier decisions of its
/// run and child runs, and for terminals that open and close.
const ALLOWANCE_MS: u64 = 3 * MAX_WRITE_MS + 4 * MAX_PAUSE_MS;

/// Actions that may wait for a free terminal, or for other actions.
const WAITING_TOOLS: [&str; 5] = ["open_terminal", "run_command", "run_graph", "run_workflow", "parallel"];

/// A period of the daemon's inability to act.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outage {
    pub(crate) from: Duration,
    pub(crate) until: Duration,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the milliseconds from one time to another.
fn millis_between(from: Timestamp, to: Timestamp) -> u64 {
    to.0.saturating_sub(from.0).max(0).unsigned_abs() / 1000
}

/// A step, call or run that has ended.
struct EndedItem<'a> {
    name: &'a dyn std::fmt::Display,
    from: Timestamp,
    to: Timestamp,
    /// The limit, in milliseconds.
    limit: u64,
}

impl EndedItem<'_> {
    /// Returns the broken rule if the item exceeded its limit.
    fn check_limit(&self, outages: &[Outage]) -> Option<String> {
        let (from, to) = (millis_between(START_TIME, self.from), millis_between(START_TIME, self.to));
        let overlap = |outage: &Outage| millis(outage.until).min(to).saturating_sub(millis(outage.from).max(from));
        let allowed = self.limit + ALLOWANCE_MS + outages.iter().map(overlap).sum::<u64>();
        let elapsed = to - from;
        (elapsed > allowed).then(|| format!("{} took {elapsed} ms, although its limit is {} ms", self.name, self.limit))
    }
}

/// Returns the broken rule of a step or a run that exceeded its limit, or that timed out although no action takes as
/// long as its limit.
pub(crate) fn find_broken_limit(journal: &BTreeMap<RunId, Vec<Event>>, outages: &[Outage]) -> Option<String> {
    journal.iter().find_map(|(run, events)| check_run(run, events, outages))
}

fn check_run(run: &RunId, events: &[Event], outages: &[Outage]) -> Option<String> {
    let mut entered: BTreeMap<&StepId, (Timestamp, &str, Option<u64>)> = BTreeMap::new();
    let (mut started, mut gate_millis) = (None, 0);
    for event in events {
        match event {
            Event::Started { at, limits, .. } => started = Some((*at, limits.execution_timeout().as_millis())),
            Event::StateEntered { at, step, tool, params, limit } => {
                // The limit of a command restarts with each daemon.
                let command_limit = params.get("timeout").filter(|_| outages.is_empty()).and_then(Value::as_f64);
                let limit = limit.map(|limit| limit.as_secs_f64()).or(command_limit);
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below two hours")]
                entered.insert(step, (*at, tool, limit.map(|seconds| (seconds * 1000.0) as u64)));
            }
            Event::GateAnswered { at, step, .. } => {
                if let Some((from, ..)) = entered.get(step) {
                    gate_millis += millis_between(*from, *at);
                }
            }
            Event::StateCompleted { at, step, outcome, .. } => {
                let Some((from, tool, limit)) = entered.remove(step) else { continue };
                if *outcome == Outcome::TimedOut
                    && limit.is_some_and(|limit| limit >= STATE_TIMEOUT * 1000)
                    && !WAITING_TOOLS.contains(&tool)
                {
                    return Some(format!("{step} ({tool}) took its whole limit, although no action takes that long"));
                }
                let violation =
                    limit.and_then(|limit| EndedItem { name: step, from, to: *at, limit }.check_limit(outages));
                if violation.is_some() {
                    return violation;
                }
            }
            Event::Completed { at, .. } | Event::Failed { at, .. } | Event::Cancelled { at, .. } => {
                let (from, limit) = started?;
                let limit = u64::try_from(limit).unwrap_or(u64::MAX / 2) + gate_millis;
                return EndedItem { name: run, from, to: *at, limit }.check_limit(outages);
            }
            _ => {}
        }
    }
    None
}
