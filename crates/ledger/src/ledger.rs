//! The table of effects.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::effect::{Effect, EffectKey, names_step};

/// Bounds of a ledger. Effects in progress stay, and so do names of effects that their requesters still settle, because
/// a repeated request must not perform them again.
#[derive(Debug, Clone, Copy)]
pub struct LedgerLimits {
    /// Maximum number of stored names of finished effects. Effects that their requester still settles do not count.
    pub max_names: usize,
    /// Maximum size of the stored results, in bytes. The newest result stays, regardless of its size.
    pub max_result_bytes: usize,
}

/// State of a known effect.
#[derive(Debug, PartialEq, Eq)]
pub enum EffectState<'a, P, R> {
    /// In progress.
    Performing(&'a mut P),
    /// Performed, with this result.
    Performed(&'a R),
    /// Begun earlier, with a result that never arrived or was dropped. No process may perform it again.
    Unknown,
}

/// Effects by the steps that request them. `P` describes an effect in progress, `R` is a result.
#[derive(Debug)]
pub struct Ledger<P, R> {
    limits: LedgerLimits,
    entries: BTreeMap<EffectKey, Entry<P, R>>,
    /// Finished effects that no requester still has to settle, oldest first.
    ended: VecDeque<EffectKey>,
    /// Effects with a stored result, by result number.
    results: BTreeMap<u64, EffectKey>,
    next_result: u64,
    result_bytes: usize,
    /// Number of effects that their requesters still have to settle.
    unsettled: usize,
    /// Settled names, as [`names_step`] takes them, and the order of their settlement.
    settled: BTreeSet<String>,
    settlement_order: VecDeque<String>,
}

#[derive(Debug)]
struct Entry<P, R> {
    state: State<P, R>,
    settlement: Settlement,
}

/// State of the report that the requester of an effect has stored its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settlement {
    /// The requester sends no such report.
    Unreported,
    /// The requester will report it.
    Pending,
    /// The requester has reported it, or has abandoned the effect.
    Settled,
}

#[derive(Debug)]
enum State<P, R> {
    Performing(P),
    Performed { result: R, bytes: usize, number: u64 },
    Unknown,
}

impl<P, R> Ledger<P, R> {
    /// Returns an empty ledger.
    #[must_use]
    pub fn new(limits: LedgerLimits) -> Self {
        Self {
            limits,
            entries: BTreeMap::new(),
            ended: VecDeque::new(),
            results: BTreeMap::new(),
            next_result: 0,
            result_bytes: 0,
            unsettled: 0,
            settled: BTreeSet::new(),
            settlement_order: VecDeque::new(),
        }
    }

    /// Returns the state of an effect. `None` if the effect never began, the caller withdrew it, or its name was
    /// dropped long after its end. If the requester settled the step before it requested an effect, the effect is
    /// unknown, because the step is abandoned.
    pub fn find(&mut self, key: &EffectKey) -> Option<EffectState<'_, P, R>> {
        if !self.entries.contains_key(key) && self.is_settled(&key.step) {
            return Some(EffectState::Unknown);
        }
        self.entries.get_mut(key).map(|entry| match &mut entry.state {
            State::Performing(performing) => EffectState::Performing(performing),
            State::Performed { result, .. } if entry.settlement != Settlement::Settled => {
                EffectState::Performed(result)
            }
            State::Performed { .. } | State::Unknown => EffectState::Unknown,
        })
    }

    /// Returns the result of an effect, also of a settled opening: its terminal may still have to close.
    pub fn stored_result(&self, key: &EffectKey) -> Option<&R> {
        match &self.entries.get(key)?.state {
            State::Performed { result, .. } => Some(result),
            State::Performing(_) | State::Unknown => None,
        }
    }

    /// Returns whether a step has an effect, or is settled.
    #[must_use]
    pub fn has_step(&self, step: &str) -> bool {
        self.is_settled(step) || !self.step_keys(step).is_empty()
    }

    fn is_settled(&self, step: &str) -> bool {
        let mut prefixes = step.match_indices('/').map(|(at, _)| &step[..=at]);
        self.settled.contains(step) || prefixes.any(|prefix| self.settled.contains(prefix))
    }

    /// Adds an effect that begins now and that [`Self::find`] does not find. `is_settled_later` is true if the
    /// requester calls [`Self::settle`] once it has stored the result.
    pub fn begin(&mut self, key: EffectKey, is_settled_later: bool, performing: P) {
        let settlement = if is_settled_later { Settlement::Pending } else { Settlement::Unreported };
        let replaced = self.entries.insert(key, Entry { state: State::Performing(performing), settlement });
        debug_assert!(replaced.is_none(), "the effect has already begun");
        self.unsettled += usize::from(is_settled_later);
    }

    /// Records the result of an effect in progress. `bytes` is the size of the result. Returns the description of the
    /// effect's progress; `None` if the effect is not in progress.
    pub fn finish(&mut self, key: &EffectKey, result: R, bytes: usize) -> Option<P> {
        let is_settled = self.entries.get(key).is_some_and(|entry| entry.settlement == Settlement::Settled);
        if is_settled && key.effect != Effect::Open {
            return self.lose(key);
        }
        let number = self.next_result;
        let performing = self.end(key, State::Performed { result, bytes, number })?;
        self.next_result += 1;
        self.result_bytes += bytes;
        self.results.insert(number, key.clone());
        while self.result_bytes > self.limits.max_result_bytes && self.results.len() > 1 {
            let Some(oldest) = self.results.first_entry().map(|oldest| oldest.get().clone()) else { break };
            self.drop_result(&oldest);
        }
        Some(performing)
    }

    /// Records that the result of an effect in progress will never arrive. Returns the description of its progress.
    pub fn lose(&mut self, key: &EffectKey) -> Option<P> {
        self.end(key, State::Unknown)
    }

    /// Forgets an effect in progress that has changed nothing, so that a later request performs it. Returns the
    /// description of its progress.
    pub fn withdraw(&mut self, key: &EffectKey) -> Option<P> {
        if !matches!(self.entries.get(key)?.state, State::Performing(_)) {
            return None;
        }
        let entry = self.entries.remove(key)?;
        self.unsettled -= usize::from(entry.settlement == Settlement::Pending);
        match entry.state {
            State::Performing(performing) => Some(performing),
            State::Performed { .. } | State::Unknown => None,
        }
    }

    /// Records that the requester of `steps`, as [`names_step`] takes it, no longer needs their results, because it has
    /// stored the results, or has abandoned the steps. A request that arrives late finds the steps unknown and performs
    /// nothing.
    pub fn settle(&mut self, steps: &str) {
        for key in self.step_keys(steps) {
            if key.effect != Effect::Open {
                self.drop_result(&key);
            }
            if let Some(entry) = self.entries.get_mut(&key) {
                let previous = std::mem::replace(&mut entry.settlement, Settlement::Settled);
                let is_finished = !matches!(entry.state, State::Performing(_));
                if previous == Settlement::Pending {
                    self.unsettled -= 1;
                    if is_finished {
                        self.keep_name(key);
                    }
                }
            }
        }
        if self.settled.insert(steps.to_owned()) {
            self.settlement_order.push_back(steps.to_owned());
        }
        if self.settlement_order.len() > self.limits.max_names
            && let Some(oldest) = self.settlement_order.pop_front()
        {
            self.settled.remove(&oldest);
        }
    }

    /// Returns whether an effect exists that its requester will settle.
    #[must_use]
    pub fn has_unsettled(&self) -> bool {
        self.unsettled > 0
    }

    /// Returns whether an effect exists whose requester sends no report, and may request it again.
    #[must_use]
    pub fn has_unreported(&self) -> bool {
        self.entries.values().any(|entry| entry.settlement == Settlement::Unreported)
    }

    /// Returns the steps with unsettled effects of requesters that settle later, each once, in order.
    #[must_use]
    pub fn unsettled(&self) -> Vec<String> {
        let unsettled = self.entries.iter().filter(|(_, entry)| entry.settlement == Settlement::Pending);
        let mut steps: Vec<String> = unsettled.map(|(key, _)| key.step.clone()).collect();
        steps.dedup();
        steps
    }

    /// Returns the effects in progress.
    pub fn performing(&mut self) -> impl Iterator<Item = (&EffectKey, &mut P)> {
        self.entries.iter_mut().filter_map(|(key, entry)| match &mut entry.state {
            State::Performing(performing) => Some((key, performing)),
            State::Performed { .. } | State::Unknown => None,
        })
    }

    fn step_keys(&self, steps: &str) -> Vec<EffectKey> {
        let following = self.entries.range(EffectKey::new(Effect::Open, steps)..).map(|(key, _)| key);
        following.take_while(|key| names_step(steps, &key.step)).cloned().collect()
    }

    fn end(&mut self, key: &EffectKey, state: State<P, R>) -> Option<P> {
        let entry = self.entries.get_mut(key)?;
        if !matches!(entry.state, State::Performing(_)) {
            return None;
        }
        let State::Performing(performing) = std::mem::replace(&mut entry.state, state) else { return None };
        if entry.settlement != Settlement::Pending {
            self.keep_name(key.clone());
        }
        Some(performing)
    }

    /// Stores the name of an ended effect and drops the oldest one.
    fn keep_name(&mut self, key: EffectKey) {
        self.ended.push_back(key);
        if self.ended.len() > self.limits.max_names
            && let Some(oldest) = self.ended.pop_front()
        {
            self.drop_result(&oldest);
            self.entries.remove(&oldest);
        }
    }

    /// Drops the result of an effect, if there is one, and keeps its name.
    fn drop_result(&mut self, key: &EffectKey) {
        if let Some(entry) = self.entries.get_mut(key)
            && let State::Performed { bytes, number, .. } = entry.state
        {
            self.result_bytes -= bytes;
            self.results.remove(&number);
            entry.state = State::Unknown;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test a panic is the message")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: LedgerLimits = LedgerLimits { max_names: 4, max_result_bytes: 100 };

    fn run(step: &str) -> EffectKey {
        EffectKey::new(Effect::Run, step)
    }

    fn perform(ledger: &mut Ledger<u32, u32>, key: &EffectKey, result: u32, bytes: usize) {
        ledger.begin(key.clone(), true, 0);
        assert_eq!(ledger.finish(key, result, bytes), Some(0));
    }

    #[test]
    fn effect_is_performed_and_its_name_stays_after_settling() {
        let mut ledger = Ledger::new(LIMITS);
        let key = run("run/a/1");
        assert_eq!(ledger.find(&key), None);
        ledger.begin(key.clone(), true, 7);
        assert_eq!(ledger.find(&key), Some(EffectState::Performing(&mut 7)));
        assert_eq!(ledger.finish(&key, 1, 10), Some(7));
        assert_eq!(ledger.finish(&key, 2, 10), None, "an effect ends only once");
        assert_eq!(ledger.find(&key), Some(EffectState::Performed(&1)));
        assert_eq!(ledger.unsettled(), ["run/a/1"]);
        ledger.settle("run/a/1");
        assert_eq!(ledger.find(&key), Some(EffectState::Unknown), "a late request does not repeat the effect");
        assert!(!ledger.has_unsettled());
    }

    #[test]
    fn unchanged_effect_can_be_repeated_but_a_lost_one_cannot() {
        let mut ledger = Ledger::<u32, u32>::new(LIMITS);
        let key = run("a");
        ledger.begin(key.clone(), true, 1);
        assert_eq!(ledger.withdraw(&key), Some(1));
        assert_eq!(ledger.find(&key), None);
        assert!(!ledger.has_unsettled());
        ledger.begin(key.clone(), false, 2);
        assert_eq!(ledger.lose(&key), Some(2));
        assert_eq!(ledger.find(&key), Some(EffectState::Unknown));
        assert_eq!(ledger.withdraw(&key), None);
    }

    #[test]
    fn step_is_settled_alone_and_run_with_all_its_steps() {
        let mut ledger = Ledger::new(LedgerLimits { max_names: 100, ..LIMITS });
        for step in ["r/a/1", "r/a/1/2", "r/a/10", "r/a/1-b", "q/a"] {
            perform(&mut ledger, &run(step), 1, 1);
        }
        ledger.settle("r/a/1");
        assert_eq!(ledger.unsettled(), ["q/a", "r/a/1-b", "r/a/1/2", "r/a/10"]);
        ledger.settle("r/");
        assert_eq!(ledger.unsettled(), ["q/a"]);
    }

    #[test]
    fn request_after_settling_performs_nothing() {
        let mut ledger = Ledger::<u32, u32>::new(LIMITS);
        ledger.settle("r/a/1");
        ledger.settle("q/");
        assert_eq!(ledger.find(&run("r/a/1")), Some(EffectState::Unknown));
        assert_eq!(ledger.find(&run("q/b/1/2")), Some(EffectState::Unknown));
        assert_eq!(ledger.find(&run("r/a/1/2")), None, "a state named a/1 has steps of its own");
        for step in 0..LIMITS.max_names {
            ledger.settle(&step.to_string());
        }
        assert_eq!(ledger.find(&run("q/b/1/2")), None, "the oldest settled name was evicted");
    }

    #[test]
    fn evicted_results_still_have_known_effects() {
        let mut ledger = Ledger::new(LIMITS);
        for (number, step) in (1..).zip(["a", "b", "c"]) {
            perform(&mut ledger, &run(step), number, 60);
        }
        assert_eq!(ledger.find(&run("a")), Some(EffectState::Unknown));
        assert_eq!(ledger.find(&run("b")), Some(EffectState::Unknown));
        assert_eq!(ledger.find(&run("c")), Some(EffectState::Performed(&3)));
        perform(&mut ledger, &run("d"), 4, 1000);
        assert_eq!(ledger.find(&run("d")), Some(EffectState::Performed(&4)), "the newest result stays");
        for step in ["e", "f", "g", "h"] {
            perform(&mut ledger, &run(step), 5, 0);
        }
        assert_eq!(ledger.find(&run("a")), Some(EffectState::Unknown), "an unsettled effect keeps its name");
        for step in ["a", "b", "c", "d", "e"] {
            ledger.settle(step);
        }
        // A settled effect is known twice: as an effect, and by its step.
        let oldest = ledger.ended.front().map(|key| key.step.as_str());
        assert_eq!(oldest, Some("b"), "the name of the oldest settled effect was dropped");
    }

    proptest! {
        /// In any order of operations, an effect that began is never unknown while its name fits, and the sums agree.
        #[test]
        fn sums_match_the_entries(operations in prop::collection::vec((0_u8..5, 0_u8..6, 0_usize..80), 0..200)) {
            let mut ledger = Ledger::<u8, u8>::new(LIMITS);
            for (operation, step, bytes) in operations {
                let key = run(&format!("r/{step}"));
                match operation {
                    0 if ledger.find(&key).is_none() => ledger.begin(key, step % 2 == 0, step),
                    1 => drop(ledger.finish(&key, step, bytes)),
                    2 => drop(ledger.lose(&key)),
                    3 => drop(ledger.withdraw(&key)),
                    _ => ledger.settle(&key.step),
                }
                let sizes = ledger.entries.values().map(|entry| match entry.state {
                    State::Performed { bytes, .. } => bytes,
                    _ => 0,
                });
                prop_assert_eq!(sizes.sum::<usize>(), ledger.result_bytes);
                let finished_count = ledger.entries.values().filter(|entry| !matches!(entry.state, State::Performing(_))).count();
                let pending = ledger.entries.values().filter(|entry| {
                    entry.settlement == Settlement::Pending && !matches!(entry.state, State::Performing(_))
                });
                prop_assert!(ledger.ended.len() <= LIMITS.max_names);
                prop_assert_eq!(finished_count, ledger.ended.len() + pending.count());
                prop_assert_eq!(ledger.unsettled().is_empty(), !ledger.has_unsettled());
                let results = ledger.entries.values().filter(|entry| matches!(entry.state, State::Performed { .. })).count();
                prop_assert_eq!(results, ledger.results.len());
                prop_assert!(ledger.result_bytes <= LIMITS.max_result_bytes || results == 1);
            }
        }
    }
}
