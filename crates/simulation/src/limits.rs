//! The rule about time: each step, call and run ends within its own limit.
//!
//! A daemon that is down, stopped or waits for its disk ends nothing, so an end may come later by the outages in
//! between, and by [`ALLOWANCE`] for the writes of the journal before it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use steplatch_ids::{RunId, StepId};
use steplatch_workflow::{Event, Outcome, Timestamp};

use crate::disk::MAX_WRITE_MS;
use crate::machines::STATE_TIMEOUT;
use crate::stage::MAX_PAUSE_MS;
use crate::world::START;

/// Delay of an end that is no mistake, in milliseconds: a decision waits for the writes of up to three earlier ones, of
/// the run itself and of the runs below it, and for terminals that open and close.
const ALLOWANCE: u64 = 3 * MAX_WRITE_MS + 4 * MAX_PAUSE_MS;

/// Actions that may wait for a place among the terminals, or for other actions.
const WAITING: [&str; 5] = ["open_terminal", "run_command", "run_graph", "run_workflow", "parallel"];

/// A time in which the daemon could not act.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outage {
    pub(crate) from: Duration,
    pub(crate) until: Duration,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns milliseconds.
fn since(from: Timestamp, to: Timestamp) -> u64 {
    to.0.saturating_sub(from.0).max(0).unsigned_abs() / 1000
}

/// A step, call or run that has ended.
struct Ended<'a> {
    name: &'a dyn std::fmt::Display,
    from: Timestamp,
    to: Timestamp,
    /// The limit, in milliseconds.
    limit: u64,
}

impl Ended<'_> {
    /// Returns the broken rule if it took too long.
    fn is_late(&self, outages: &[Outage]) -> Option<String> {
        let (from, to) = (since(START, self.from), since(START, self.to));
        let within = |outage: &Outage| millis(outage.until).min(to).saturating_sub(millis(outage.from).max(from));
        let allowed = self.limit + ALLOWANCE + outages.iter().map(within).sum::<u64>();
        let took = to - from;
        (took > allowed).then(|| format!("{} took {took} ms, and its limit is {} ms", self.name, self.limit))
    }
}

/// Returns the broken rule of a step or a run that took longer than its limit, or that ended with its limit although
/// nothing took as long.
pub(crate) fn broken(journal: &BTreeMap<RunId, Vec<Event>>, outages: &[Outage]) -> Option<String> {
    journal.iter().find_map(|(run, events)| of_machine(run, events, outages))
}

fn of_machine(run: &RunId, events: &[Event], outages: &[Outage]) -> Option<String> {
    let mut entered: BTreeMap<&StepId, (Timestamp, &str, Option<u64>)> = BTreeMap::new();
    let (mut started, mut at_gates) = (None, 0);
    for event in events {
        match event {
            Event::Started { at, limits, .. } => started = Some((*at, limits.execution_timeout().as_millis())),
            Event::StateEntered { at, step, tool, params, limit } => {
                // The limit of a command begins anew with each daemon.
                let own = params.get("timeout").filter(|_| outages.is_empty()).and_then(Value::as_f64);
                let limit = limit.map(|limit| limit.as_secs_f64()).or(own);
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below two hours")]
                entered.insert(step, (*at, tool, limit.map(|seconds| (seconds * 1000.0) as u64)));
            }
            Event::GateAnswered { at, step, .. } => {
                if let Some((from, ..)) = entered.get(step) {
                    at_gates += since(*from, *at);
                }
            }
            Event::StateCompleted { at, step, outcome, .. } => {
                let Some((from, tool, limit)) = entered.remove(step) else { continue };
                if *outcome == Outcome::TimedOut
                    && limit.is_some_and(|limit| limit >= STATE_TIMEOUT * 1000)
                    && !WAITING.contains(&tool)
                {
                    return Some(format!("{step} ({tool}) took its whole limit, and nothing takes as long"));
                }
                let late = limit.and_then(|limit| Ended { name: step, from, to: *at, limit }.is_late(outages));
                if late.is_some() {
                    return late;
                }
            }
            Event::Completed { at, .. } | Event::Failed { at, .. } | Event::Cancelled { at, .. } => {
                let (from, limit) = started?;
                let limit = u64::try_from(limit).unwrap_or(u64::MAX / 2) + at_gates;
                return Ended { name: run, from, to: *at, limit }.is_late(outages);
            }
            _ => {}
        }
    }
    None
}
