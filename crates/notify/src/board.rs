//! The decision which notifications are due: from the rules, the occasions and the time.
//!
//! Pure. The caller stores the [`BoardState`] before it begins a delivery, so that each notification arrives at least
//! once, whenever the process is killed. A repeated delivery has the same id.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use steplatch_clock::Timestamp;

use crate::occasion::{Kind, Observation, Occasion};
use crate::rule::{Rule, Way};

/// Maximum number of deliveries of one rule that wait. The oldest one is dropped.
const MAX_PENDING: usize = 500;

/// Maximum number of deliveries of one rule at the same time.
const MAX_IN_FLIGHT: usize = 4;

/// Delay before the first repetition of a failed delivery, which doubles up to the maximum.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// Time after which a delivery that fails is given up.
const MAX_RETRY_TIME: Duration = Duration::from_secs(86_400);

/// Time for which the ends of runs are remembered. A run that ended up to this long before the last known moment may
/// not have been seen.
const OVERLAP: Duration = Duration::from_secs(120);

/// The reason of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The first notification.
    First,
    /// The second notification.
    Reminder,
    /// The occasion is over.
    Withdrawn,
    /// A test by a person.
    Test,
}

impl Phase {
    /// Returns the name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Reminder => "reminder",
            Self::Withdrawn => "withdrawn",
            Self::Test => "test",
        }
    }
}

/// A delivery of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The reason of the delivery.
    pub phase: Phase,
    /// The occasion.
    pub occasion: Occasion,
    /// Time of the decision.
    pub decided: Timestamp,
    /// Time of the next attempt.
    pub due: Timestamp,
    /// Number of failed attempts.
    #[serde(default)]
    pub attempts: u32,
    /// Identifier of the delivered notification, which this one replaces or withdraws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<u32>,
}

impl Delivery {
    /// Returns the identity of the delivery among those of its rule.
    fn key(&self) -> (String, Phase) {
        (self.occasion.id(), self.phase)
    }
}

/// The result of the last delivery of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Time of the result.
    pub at: Timestamp,
    /// Kind of the occasion.
    pub kind: Kind,
    /// The failure, unless the delivery succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Announcements of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Announcement {
    at: Timestamp,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_reminded: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    receipt: Option<u32>,
}

/// The state of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RuleState {
    /// Time at which the rule was added. Ends of earlier runs do not concern it.
    since: Timestamp,
    /// The announced occasions, by their ids.
    #[serde(default)]
    announced: BTreeMap<String, Announcement>,
    /// Deliveries that have not succeeded, in the order of their decisions.
    #[serde(default)]
    pending: Vec<Delivery>,
    #[serde(default)]
    last: Option<Outcome>,
    /// Number of deliveries that were given up or dropped.
    #[serde(default)]
    failures: u64,
}

/// The stored state of a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardState {
    /// Version of this form.
    version: u32,
    /// Ends of runs before this time have been seen.
    seen_until: Timestamp,
    /// The open occasions.
    #[serde(default)]
    open: Vec<Occasion>,
    /// The rules, by their names.
    #[serde(default)]
    rules: BTreeMap<String, RuleState>,
}

impl BoardState {
    /// Version of the stored form. Raise it when an older build would misread the state.
    const VERSION: u32 = 1;

    /// Returns the state of a daemon without an earlier one.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self { version: Self::VERSION, seen_until: now, open: Vec::new(), rules: BTreeMap::new() }
    }

    /// Reads a stored state. `None` if it is damaged, or of a newer version.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|state: &Self| state.version == Self::VERSION)
    }
}

/// The rules, the open occasions and the pending deliveries.
#[derive(Debug)]
pub struct Board {
    rules: Vec<Rule>,
    zone: TimeZone,
    state: BoardState,
    /// Deliveries that have begun, by rule.
    in_flight: BTreeMap<String, BTreeSet<(String, Phase)>>,
    /// True while the end of a run is recorded soon after it happens, and all earlier ones have been recorded.
    ends_are_current: bool,
    /// True if the state differs from the stored one.
    is_changed: bool,
}

impl Board {
    /// Creates a board from a stored state, without rules.
    #[must_use]
    pub fn new(state: BoardState, zone: TimeZone) -> Self {
        let (rules, in_flight) = (Vec::new(), BTreeMap::new());
        Self { rules, zone, state, in_flight, ends_are_current: false, is_changed: false }
    }

    /// Returns the rules.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Replaces the rules. The state of a rule is that of the earlier rule with its name. Returns the names of removed
    /// rules with their numbers of dropped deliveries.
    pub fn configure(&mut self, rules: Vec<Rule>, now: Timestamp) -> Vec<(String, usize)> {
        let mut removed = Vec::new();
        self.state.rules.retain(|name, state| {
            let is_kept = rules.iter().any(|rule| rule.name == *name);
            if !is_kept {
                removed.push((name.clone(), state.pending.len()));
            }
            is_kept
        });
        self.is_changed |= !removed.is_empty();
        for rule in &rules {
            let known = self.state.rules.entry(rule.name.clone());
            // The clock may have been ahead.
            known.and_modify(|state| state.since = state.since.min(now)).or_insert_with(|| {
                self.is_changed = true;
                let (announced, pending) = (BTreeMap::new(), Vec::new());
                RuleState { since: now, announced, pending, last: None, failures: 0 }
            });
        }
        self.rules = rules;
        removed
    }

    /// Begins a list of the ends of runs. Returns the time from which on ends may not have been seen.
    pub fn begin_list_of_ends(&mut self, now: Timestamp) -> Timestamp {
        self.ends_are_current = false;
        // The clock may have been ahead.
        self.state.seen_until = self.state.seen_until.min(now);
        self.state.seen_until
    }

    /// Ends the list: from now on, each end is recorded when it happens.
    pub fn finish_list_of_ends(&mut self) {
        self.ends_are_current = true;
    }

    /// Sets the open occasions of a scope: those that `is_in_scope` accepts. Occasions that are no longer open are
    /// withdrawn.
    pub fn observe(&mut self, is_in_scope: impl Fn(&Occasion) -> bool, observations: Vec<Observation>, now: Timestamp) {
        let mut known = Vec::new();
        let mut open = Vec::new();
        for occasion in std::mem::take(&mut self.state.open) {
            if is_in_scope(&occasion) { known.push(occasion) } else { open.push(occasion) }
        }
        for Observation { kind, key, since, subject } in observations {
            let position = known.iter().position(|known| {
                known.kind == kind && known.key == key && since.is_none_or(|since| since == known.since)
            });
            match position {
                Some(position) => {
                    let occasion = Occasion { subject, ..known.swap_remove(position) };
                    open.push(occasion);
                }
                None => {
                    self.is_changed = true;
                    open.push(Occasion { kind, key, since: since.unwrap_or(now), subject });
                }
            }
        }
        self.state.open = open;
        for closed in known {
            self.withdraw(&closed, now);
        }
    }

    fn withdraw(&mut self, closed: &Occasion, now: Timestamp) {
        self.is_changed = true;
        let id = closed.id();
        for rule in &self.rules {
            let Some(state) = self.state.rules.get_mut(&rule.name) else { continue };
            let Some(announcement) = state.announced.remove(&id) else { continue };
            let in_flight = self.in_flight.get(&rule.name);
            // A webhook receives every event. Elsewhere, a late notification only disturbs.
            if !matches!(rule.way, Way::Webhook { .. }) {
                let has_begun = |delivery: &Delivery| in_flight.is_some_and(|begun| begun.contains(&delivery.key()));
                state.pending.retain(|delivery| delivery.occasion.id() != id || has_begun(delivery));
            }
            let may_be_shown = announcement.receipt.is_some()
                || !matches!(rule.way, Way::Desktop)
                || state.pending.iter().any(|delivery| delivery.occasion.id() == id);
            if rule.way.withdraws() && may_be_shown {
                let delivery =
                    Delivery { receipt: announcement.receipt, ..new_delivery(Phase::Withdrawn, closed, now) };
                push(&rule.name, state, delivery);
            }
        }
    }

    /// Records the end of a run. Each rule announces it once.
    pub fn record_end(&mut self, end: Observation, now: Timestamp) {
        let Observation { kind, key, since, subject } = end;
        let occasion = Occasion { kind, key, since: since.unwrap_or(now), subject };
        let id = occasion.id();
        for rule in self.rules.iter().filter(|rule| rule.concerns(&occasion)) {
            let Some(state) = self.state.rules.get_mut(&rule.name) else { continue };
            // An end may be recorded long after it happened, if the computer slept: only listed ends may be known.
            let is_known = !self.ends_are_current && occasion.since < self.state.seen_until;
            if is_known || occasion.since < state.since || state.announced.contains_key(&id) {
                continue;
            }
            self.is_changed = true;
            let announcement = Announcement { at: now, has_reminded: true, receipt: None };
            state.announced.insert(id.clone(), announcement);
            let due = rule.quiet.map_or(now, |quiet| quiet.end_after(now, &self.zone));
            push(&rule.name, state, Delivery { due, ..new_delivery(Phase::First, &occasion, now) });
        }
    }

    /// Announces the open occasions that are due.
    pub fn advance(&mut self, now: Timestamp) {
        for rule in &self.rules {
            let Some(state) = self.state.rules.get_mut(&rule.name) else { continue };
            for occasion in self.state.open.iter().filter(|occasion| rule.concerns(occasion)) {
                if announcement_time(rule, state, occasion, now, &self.zone).is_none_or(|at| at > now) {
                    continue;
                }
                self.is_changed = true;
                let announcement = state.announced.get_mut(&occasion.id());
                let receipt = announcement.as_ref().and_then(|announcement| announcement.receipt);
                let phase = if announcement.is_some() { Phase::Reminder } else { Phase::First };
                match announcement {
                    Some(announcement) => announcement.has_reminded = true,
                    None => {
                        let announcement = Announcement { at: now, has_reminded: false, receipt: None };
                        state.announced.insert(occasion.id(), announcement);
                    }
                }
                push(&rule.name, state, Delivery { receipt, ..new_delivery(phase, occasion, now) });
            }
        }
    }

    /// Returns true if the state differs from that of the last call of [`Self::state_to_store`].
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Returns the state to store before the next delivery begins.
    pub fn state_to_store(&mut self, now: Timestamp) -> &BoardState {
        self.is_changed = false;
        self.state.seen_until = self.state.seen_until.min(now);
        if self.ends_are_current {
            let overlap = i64::try_from(OVERLAP.as_micros()).unwrap_or(0);
            self.state.seen_until = self.state.seen_until.max(Timestamp(now.0 - overlap));
        }
        let seen_until = self.state.seen_until;
        let open: BTreeSet<String> = self.state.open.iter().map(Occasion::id).collect();
        for state in self.state.rules.values_mut() {
            state.announced.retain(|id, announcement| open.contains(id) || announcement.at >= seen_until);
        }
        &self.state
    }

    /// Returns the deliveries that are due, each with its rule, and marks them as begun. A delivery waits for earlier
    /// ones of its occasion.
    pub fn begin_due(&mut self, now: Timestamp) -> Vec<(Rule, Delivery)> {
        let mut due = Vec::new();
        for rule in &self.rules {
            let Some(state) = self.state.rules.get(&rule.name) else { continue };
            let begun = self.in_flight.entry(rule.name.clone()).or_default();
            for delivery in first_of_occasions(&state.pending) {
                let due_at = attempt_time(rule, delivery, now, &self.zone);
                if begun.len() < MAX_IN_FLIGHT && due_at <= now && begun.insert(delivery.key()) {
                    due.push((rule.clone(), delivery.clone()));
                }
            }
        }
        due
    }

    /// Records the result of a delivery. Returns true if it is given up.
    pub fn finish(
        &mut self,
        rule: &str,
        delivery: &Delivery,
        result: Result<Option<u32>, String>,
        now: Timestamp,
    ) -> bool {
        if let Some(begun) = self.in_flight.get_mut(rule) {
            begun.remove(&delivery.key());
        }
        let repeats = self.rules.iter().any(|known| known.name == rule && known.way.repeats());
        // The rule may have been removed in the meantime.
        let Some(state) = self.state.rules.get_mut(rule) else { return false };
        self.is_changed = true;
        let error = result.as_ref().err().cloned();
        state.last = Some(Outcome { at: now, kind: delivery.occasion.kind, error });
        let id = delivery.occasion.id();
        let position = state.pending.iter().position(|pending| pending.key() == delivery.key());
        match (result, position) {
            (Ok(receipt), position) => {
                position.map(|position| state.pending.remove(position));
                if let (Some(receipt), Some(announcement)) = (receipt, state.announced.get_mut(&id)) {
                    announcement.receipt = Some(receipt);
                }
                for later in state.pending.iter_mut().filter(|pending| pending.occasion.id() == id) {
                    later.receipt = receipt.or(later.receipt);
                }
                false
            }
            (Err(_), Some(position)) if repeats && now.since(delivery.decided) < MAX_RETRY_TIME => {
                let pending = &mut state.pending[position];
                let pause = RETRY_PAUSES.0.saturating_mul(1 << pending.attempts.min(16)).min(RETRY_PAUSES.1);
                (pending.attempts, pending.due) = (pending.attempts + 1, now.after(pause));
                false
            }
            (Err(_), position) => {
                position.map(|position| state.pending.remove(position));
                state.failures += 1;
                true
            }
        }
    }

    /// Returns the next time at which the board may decide something.
    #[must_use]
    pub fn next_time(&self, now: Timestamp) -> Option<Timestamp> {
        let times = self.rules.iter().filter_map(|rule| {
            let state = self.state.rules.get(&rule.name)?;
            let begun = self.in_flight.get(&rule.name);
            let has_begun = |delivery: &&Delivery| begun.is_some_and(|begun| begun.contains(&delivery.key()));
            let is_full = begun.is_some_and(|begun| begun.len() >= MAX_IN_FLIGHT);
            let occasions = self.state.open.iter().filter(|occasion| rule.concerns(occasion));
            let announcements =
                occasions.filter_map(|occasion| announcement_time(rule, state, occasion, now, &self.zone));
            let deliveries = first_of_occasions(&state.pending)
                .filter(|delivery| !is_full && !has_begun(delivery))
                .map(|delivery| attempt_time(rule, delivery, now, &self.zone));
            announcements.chain(deliveries).min()
        });
        times.min()
    }

    /// Returns the last result, the number of pending deliveries, the earliest pending one and the number of failures
    /// of a rule.
    #[must_use]
    pub fn status(&self, rule: &str) -> Option<(Option<&Outcome>, usize, Option<&Delivery>, u64)> {
        let state = self.state.rules.get(rule)?;
        Some((state.last.as_ref(), state.pending.len(), state.pending.first(), state.failures))
    }
}

/// Returns the time of the next announcement of an open occasion, from `now` on. `None` if there is none.
fn announcement_time(
    rule: &Rule,
    state: &RuleState,
    occasion: &Occasion,
    now: Timestamp,
    zone: &TimeZone,
) -> Option<Timestamp> {
    let at = match (state.announced.get(&occasion.id()), rule.remind_after) {
        (None, _) => occasion.since.end_of(rule.delay(occasion), now),
        (Some(announced), Some(span)) if !announced.has_reminded => announced.at.end_of(span.0, now),
        (Some(_), _) => return None,
    };
    Some(rule.quiet.map_or(at, |quiet| quiet.end_after(at.max(now), zone)))
}

/// Returns the time of the next attempt of a delivery. Quiet hours delay all but withdrawals.
fn attempt_time(rule: &Rule, delivery: &Delivery, now: Timestamp, zone: &TimeZone) -> Timestamp {
    match (delivery.phase, rule.quiet) {
        (Phase::First | Phase::Reminder | Phase::Test, Some(quiet)) => quiet.end_after(delivery.due.max(now), zone),
        (Phase::Withdrawn, _) | (_, None) => delivery.due,
    }
}

/// Returns the first delivery of each occasion. Later ones wait for its end.
fn first_of_occasions(pending: &[Delivery]) -> impl Iterator<Item = &Delivery> {
    let mut seen = BTreeSet::new();
    pending
        .iter()
        .filter(move |Delivery { occasion, .. }| seen.insert((occasion.kind, occasion.key.as_str(), occasion.since)))
}

fn new_delivery(phase: Phase, occasion: &Occasion, now: Timestamp) -> Delivery {
    Delivery { phase, occasion: occasion.clone(), decided: now, due: now, attempts: 0, receipt: None }
}

/// Adds a delivery. If too many wait, the oldest one is dropped, because the newest ones are the most useful.
fn push(rule: &str, state: &mut RuleState, delivery: Delivery) {
    if state.pending.len() >= MAX_PENDING {
        let dropped = state.pending.remove(0);
        state.failures += 1;
        let occasion = dropped.occasion.id();
        tracing::warn!(rule, occasion, "{MAX_PENDING} notifications wait; the oldest one is dropped");
    }
    state.pending.push(delivery);
}

#[cfg(test)]
mod tests;
