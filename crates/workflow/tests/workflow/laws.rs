//! Laws that hold for every machine and every sequence of inputs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use steplatch_workflow::{
    Decision, Definition, Effect, Event, History, Input, LogEntry, NONE_OF_THESE, Outcome, Start, Timestamp, decide,
    execution_log, resume,
};

use crate::generated::{RandomOutcome, machines, next_input, random_outcomes, starts};
use crate::machine::Tools;

/// Returns the step of an effect if the run waits for its outcome.
fn awaited_step(effect: &Effect) -> Option<String> {
    match effect {
        Effect::Perform { step, .. }
        | Effect::Sleep { step, .. }
        | Effect::StartRun { step, .. }
        | Effect::Answer { step, .. }
        | Effect::OpenGate { step, .. }
        | Effect::SetVariables { step, .. }
        | Effect::ReadVariables { step, .. } => Some(step.to_string()),
        Effect::ExpireGate { .. }
        | Effect::PauseChild { .. }
        | Effect::ResumeChild { .. }
        | Effect::Abandon { .. }
        | Effect::ArmDeadline { .. }
        | Effect::DisarmDeadline
        | Effect::CloseTerminal { .. }
        | Effect::CloseOpened { .. } => None,
    }
}

/// Returns the names of the steps that a run waits for, in a state or in several branches.
fn awaited_step_names(history: &History) -> Vec<String> {
    let current = history.current().map(|current| &current.step);
    let exchange = history.exchange().map(|exchange| &exchange.step);
    let gate = history.gate().map(|gate| &gate.step);
    let waiting: Vec<_> = [current, exchange, gate].into_iter().flatten().collect();
    assert!(waiting.len() <= 1, "a run waits for one thing at a time, not {waiting:?}");
    let of_current = || history.awaited_steps().iter().map(ToString::to_string).collect();
    if current.is_some() { of_current() } else { waiting.iter().map(ToString::to_string).collect() }
}

/// Returns whether an effect must never be performed twice.
fn must_not_repeat(effect: &Effect) -> bool {
    match effect {
        Effect::Perform { tool, .. } => matches!(tool.as_str(), "send_input" | "open_terminal" | "run_command"),
        Effect::StartRun { .. } => true,
        _ => false,
    }
}

/// Returns the ids of the terminals that effects close.
fn closed_terminals(effects: &[Effect]) -> BTreeSet<String> {
    let close = effects.iter().filter_map(|effect| match effect {
        Effect::CloseTerminal { session_id } => Some(session_id.clone()),
        _ => None,
    });
    close.collect()
}

/// Gives an opening a unique id, like a real one, and returns it. A failed opening may still name a terminal.
fn assign_terminal_id(outcome: &mut Outcome, number: usize) -> String {
    let id = format!("term_opened_{number}");
    if let Outcome::Finished { result } = outcome {
        result.insert("session_id".to_owned(), id.clone().into());
    }
    id
}

/// A world with a daemon that may stop at any instant, while the journal and the ledgers remain.
struct World {
    definition: Definition,
    start: Start,
    journal: Vec<Event>,
    /// The effects that must not be performed twice, by step.
    ledger: BTreeMap<String, Effect>,
    /// Number of times that each such effect was performed.
    done: BTreeMap<String, u32>,
    /// The terminal that each step opened, even if the run never learned of that terminal.
    opened: BTreeMap<String, String>,
    closed: BTreeSet<String>,
    now: Timestamp,
    random_outcomes: std::iter::Cycle<std::vec::IntoIter<RandomOutcome>>,
    crashes: std::vec::IntoIter<bool>,
}

impl World {
    fn crash(&mut self) -> bool {
        self.crashes.next().unwrap_or(false)
    }

    /// Performs effects as the daemon would, after their events are in the journal. `None` if it stops in between.
    fn perform(&mut self, history: &History, effects: &[Effect]) -> Option<Vec<Input>> {
        let mut inputs = Vec::new();
        for effect in effects {
            if self.crash() {
                return None;
            }
            match effect {
                Effect::CloseTerminal { session_id } => drop(self.closed.insert(session_id.clone())),
                Effect::CloseOpened { step } => self.closed.extend(self.opened.get(&step.to_string()).cloned()),
                _ => {}
            }
            let Some(step) = awaited_step(effect) else { continue };
            assert!(awaited_step_names(history).contains(&step), "the request is in the journal");
            let random_outcome = self.random_outcomes.next().expect("a cycle never ends");
            let mut brought = match effect {
                Effect::Answer { step, outcome } => Input::Outcome { step: step.clone(), outcome: outcome.clone() },
                Effect::StartRun { step, .. } => {
                    Input::Outcome { step: step.clone(), outcome: random_outcome.outcome().clone() }
                }
                _ => next_input(history, &random_outcome),
            };
            if let (Effect::Perform { tool, params, .. }, Input::Outcome { outcome, .. }) = (effect, &mut brought) {
                match (tool.as_str(), &*outcome) {
                    ("open_terminal", _) if !self.opened.contains_key(&step) => {
                        let id = assign_terminal_id(outcome, self.opened.len());
                        self.opened.insert(step.clone(), id);
                    }
                    ("exit_terminal", Outcome::Finished { result }) if result.get("success") == Some(&true.into()) => {
                        self.closed.extend(params.get("session_id").and_then(|id| id.as_str()).map(str::to_owned));
                    }
                    _ => {}
                }
            }
            if must_not_repeat(effect) {
                match self.ledger.get(&step) {
                    Some(before) => {
                        assert_eq!(without_limit(before), without_limit(effect), "a repeated request is the same");
                        assert!(
                            limit_of(effect) <= limit_of(before),
                            "a repeated request has no more time than before"
                        );
                        // The effect began, but its outcome was lost.
                        if let Input::Outcome { outcome, .. } = &mut brought {
                            *outcome = Outcome::Unknown;
                        }
                    }
                    None => {
                        self.ledger.insert(step.clone(), effect.clone());
                        *self.done.entry(step).or_default() += 1;
                    }
                }
            }
            inputs.push(brought);
        }
        if self.crash() { None } else { Some(inputs) }
    }

    /// Runs to the end through every crash and returns the history in the journal.
    fn run(&mut self, mut interruption: Option<(u8, Input)>) -> History {
        let (mut history, mut next) = (History::new(), VecDeque::from([Input::Start(self.start.clone())]));
        // A daemon that resumes a run performs the effects requested in the journal before it takes any input.
        let mut resumes = false;
        for turn in 0..10_000u32 {
            self.now = self.now.after(Duration::from_millis(10));
            if let Some((after, input)) = interruption.take() {
                if u32::from(after) <= turn && history.started_at().is_some() && !resumes {
                    next = VecDeque::from([input]);
                } else {
                    interruption = Some((after, input));
                }
            }
            let effects = match next.pop_front() {
                Some(input) => {
                    let Decision { events, effects } = decide(&self.definition, &history, input, self.now);
                    if self.crash() {
                        next.clear();
                        // The daemon stopped before writing, so the decision is lost.
                        history = History::from_iter(&self.journal);
                        resume(&history, self.now)
                    } else {
                        history.extend(&events);
                        self.journal.extend(events);
                        effects
                    }
                }
                None => resume(&history, self.now),
            };
            let performed = self.perform(&history, &effects);
            resumes = performed.is_none();
            match performed {
                Some(inputs) if history.is_over() => {
                    assert_eq!(inputs, [], "an ended run requests nothing");
                    return history;
                }
                Some(inputs) => {
                    next.extend(inputs);
                    let is_idle = next.is_empty();
                    if is_idle && history.paused().is_some() && awaited_step_names(&history).is_empty() {
                        // Nothing is in progress, and the run is resumed.
                        next.push_back(Input::Resume { by: "ana".into(), above: false });
                    } else if is_idle && history.started_at().is_none() {
                        // The caller restarts a run that did not begin, and a run with a lost deadline keeps waiting.
                        next.push_back(Input::Start(self.start.clone()));
                    }
                }
                None => {
                    next.clear();
                    history = History::from_iter(&self.journal);
                    if history.started_at().is_none() {
                        next.push_back(Input::Start(self.start.clone()));
                    }
                }
            }
        }
        panic!("the run does not end: {history:?}");
    }
}

/// Returns an effect without its time limit.
fn without_limit(effect: &Effect) -> Effect {
    let mut effect = effect.clone();
    if let Effect::Perform { limit, .. } | Effect::StartRun { limit, .. } | Effect::Sleep { limit, .. } = &mut effect {
        *limit = None;
    }
    effect
}

fn limit_of(effect: &Effect) -> Option<Duration> {
    match effect {
        Effect::Perform { limit, .. } | Effect::StartRun { limit, .. } | Effect::Sleep { limit, .. } => *limit,
        _ => None,
    }
}

fn interruptions() -> impl Strategy<Value = Option<(u8, Input)>> {
    let cancel = Just(Input::Cancel { reason: "enough".into() });
    let pause = Just(Input::Pause { by: "somebody".into(), above: false });
    prop::option::of((0u8..12, prop_oneof![cancel, pause, Just(Input::DeadlinePassed)]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn run_ends_within_its_limit_and_replays_identically(
        document in machines(), start in starts(), script in prop::collection::vec(random_outcomes(), 1..8),
    ) {
        let definition = Definition::parse(&document, &Tools).expect("generated machines are valid");
        // A finally state and its successors may be executed in addition.
        let max_states = start.limits.max_states() + 20;
        let mut history = History::new();
        let mut log: Vec<Event> = Vec::new();
        let (mut decided, mut asked) = (Vec::new(), BTreeSet::new());
        let mut input = Input::Start(start);
        let mut script = script.into_iter().cycle();
        let mut now = Timestamp(0);
        loop {
            let decision = decide(&definition, &history, input.clone(), now);
            prop_assert!(!decision.events.is_empty(), "an awaited input has an effect");
            history.extend(&decision.events);
            decided.push((log.len(), input, now, decision.clone()));
            log.extend(decision.events);
            prop_assert!(history.states_executed() <= max_states);
            let waited = awaited_step_names(&history);
            if waited.is_empty() {
                break;
            }
            // The awaited effects were performed, and would be repeated after a restart.
            asked.extend(decision.effects.iter().filter_map(awaited_step));
            prop_assert!(waited.iter().all(|step| asked.contains(step)));
            prop_assert_eq!(resume(&history, now).iter().filter_map(awaited_step).collect::<Vec<_>>(), waited);
            now.0 += 1_000;
            input = next_input(&history, &script.next().expect("a cycle never ends"));
        }
        prop_assert!(history.is_over());
        // Each state has its end and perhaps a gate. The shell comes before the first state and after the last.
        let branches = log.iter().filter(|event| matches!(event, Event::BranchBegan { .. })).count();
        prop_assert!(decided.len() <= 2 * max_states as usize + branches + 5);

        // Folding the same prefix of the history again, also from its stored form, gives the same decision.
        let stored = serde_json::to_string(&log).expect("events serialize");
        let reread_log: Vec<Event> = serde_json::from_str(&stored).expect("the stored form is readable");
        prop_assert_eq!(&reread_log, &log);
        for (length, input, now, expected) in decided {
            let folded = History::from_iter(&reread_log[..length]);
            prop_assert_eq!(folded.events_applied(), length);
            prop_assert_eq!(decide(&definition, &folded, input, now), expected);
        }
        prop_assert_eq!(History::from_iter(&log), history);
        // Every executed state is in the log, in order.
        let reported = execution_log(&log).iter().filter(|entry| matches!(entry, LogEntry::Execution { .. })).count();
        prop_assert_eq!(reported, log.iter().filter(|event| matches!(event, Event::StateCompleted { .. })).count());
    }

    #[test]
    fn ended_run_closes_every_terminal_it_left_open(
        document in machines(), start in starts(), script in prop::collection::vec(random_outcomes(), 0..6), cancel in any::<bool>(),
    ) {
        let definition = Definition::parse(&document, &Tools).expect("generated machines are valid");
        let mut history = History::new();
        let mut last = decide(&definition, &history, Input::Start(start), Timestamp(0));
        history.extend(&last.events);
        let mut script = script.into_iter();
        while !history.is_over() {
            let input = script.next().map_or_else(
                || if cancel || history.gate().is_some() {
                    Input::Cancel { reason: "enough".into() }
                } else {
                    Input::DeadlinePassed
                },
                |random_outcome| next_input(&history, &random_outcome),
            );
            last = decide(&definition, &history, input, Timestamp(1));
            history.extend(&last.events);
        }
        let closed = closed_terminals(&last.effects);
        // A terminal with a failed opening is closed as well.
        prop_assert!(history.open_terminals().iter().all(|open| closed.contains(open)), "{:?}", closed);
    }

    #[test]
    fn crash_at_any_instant_repeats_nothing_and_the_run_ends(
        document in machines(), start in starts(), outcomes in prop::collection::vec(random_outcomes(), 1..8),
        crashes in prop::collection::vec(prop::bool::weighted(0.3), 0..60), interruption in interruptions(),
    ) {
        let definition = Definition::parse(&document, &Tools).expect("generated machines are valid");
        let mut world = World {
            definition, start, journal: Vec::new(), ledger: BTreeMap::new(), done: BTreeMap::new(),
            opened: BTreeMap::new(), closed: BTreeSet::new(), now: Timestamp(0), random_outcomes: outcomes.into_iter().cycle(), crashes: crashes.into_iter(),
        };
        let history = world.run(interruption);
        prop_assert_eq!(History::from_iter(&world.journal), history.clone());
        // For each step, the journal has at most one effect, performed once.
        let entered: Vec<String> = world.journal.iter().filter_map(|event| match event {
            Event::StateEntered { step, .. } | Event::VariablesAsked { step, .. } | Event::BranchBegan { step, .. } => Some(step.to_string()),
            _ => None,
        }).collect();
        prop_assert_eq!(entered.iter().collect::<BTreeSet<_>>().len(), entered.len());
        for (step, times) in &world.done {
            prop_assert_eq!(*times, 1);
            prop_assert!(entered.contains(step), "{} was performed but not recorded", step);
        }
        for (step, opened) in &world.opened {
            prop_assert!(world.closed.contains(opened), "{} of {} stays open", opened, step);
        }
    }

    #[test]
    fn misdirected_and_late_inputs_are_ignored(
        document in machines(), start in starts(), script in prop::collection::vec(random_outcomes(), 0..6),
    ) {
        let definition = Definition::parse(&document, &Tools).expect("generated machines are valid");
        let mut history = History::new();
        history.extend(&decide(&definition, &history, Input::Start(start.clone()), Timestamp(0)).events);
        for random_outcome in script {
            if history.is_over() {
                break;
            }
            let unknown_step: steplatch_ids::StepId = "run_0123456789abcdef/nobody/9".parse().expect("the step id is valid");
            let strangers = [
                Input::Outcome { step: unknown_step.clone(), outcome: Outcome::Unknown },
                Input::GateAnswered { step: unknown_step, choice: NONE_OF_THESE.into(), by: "nobody".into() },
                Input::Start(start.clone()),
            ];
            for stranger in strangers {
                prop_assert_eq!(decide(&definition, &history, stranger, Timestamp(1)), Decision::default());
            }
            let input = next_input(&history, &random_outcome);
            let decision = decide(&definition, &history, input.clone(), Timestamp(1));
            history.extend(&decision.events);
            // Repeating the same answer comes too late.
            prop_assert_eq!(decide(&definition, &history, input, Timestamp(2)), Decision::default());
        }
        history.extend(&decide(&definition, &history, Input::Cancel { reason: "enough".into() }, Timestamp(3)).events);
        prop_assert!(history.is_over());
        for input in [Input::DeadlinePassed, Input::Cancel { reason: "again".into() }, Input::Start(start)] {
            prop_assert_eq!(decide(&definition, &history, input, Timestamp(4)), Decision::default());
        }
    }
}
