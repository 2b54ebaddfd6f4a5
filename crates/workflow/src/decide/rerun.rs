//! A run that begins at a state of an earlier run, and takes over the earlier run's events before that state.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use steplatch_clock::Timestamp;
use steplatch_ids::StepId;

use super::{Decision, DecisionBuilder, Effect, Start, started_event};
use crate::definition::Definition;
use crate::event::{Event, Outcome};
use crate::history::{Gate, History};
use crate::question::AnsweredBy;

/// Reason a run cannot take over the results of an earlier run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TakeOverError {
    /// The run has fewer visits to the state.
    #[error("the run has not entered state '{state}'{}; it entered: {}", if *.visit > 1 { format!(" {visit} times") } else { String::new() }, .entered.join(", "))]
    NotEntered {
        /// The state.
        state: String,
        /// The visit.
        visit: u32,
        /// The states that the run entered, in order.
        entered: Vec<String>,
    },
    /// A person answered a question before the state.
    #[error(
        "a person answered a question of the run before state '{state}', and the answer is for that run alone; begin at \
         '{from}' or before it"
    )]
    Approved {
        /// The state.
        state: String,
        /// The state with the question.
        from: String,
    },
    /// The machine was patched before the state.
    #[error(
        "the workflow was repaired before state '{state}'; begin at '{from}' or before it, or run the workflow as it is now"
    )]
    Repaired {
        /// The state.
        state: String,
        /// The state with the repair.
        from: String,
    },
    /// The state was entered as the finally state.
    #[error("state '{0}' came after the end of the run, as its finally state")]
    Finally(String),
    /// A state with recorded results has changed.
    #[error(
        "state '{changed}' came before '{state}' and has changed, so its result may differ now; begin at '{changed}' or before it"
    )]
    Changed {
        /// The state to begin at.
        state: String,
        /// The state that has changed.
        changed: String,
    },
    /// The arguments, the host or the initial state have changed.
    #[error(
        "the start of the workflow differs now: its {0} changed, so the recorded results may be invalid; run the whole workflow again"
    )]
    OtherBeginning(&'static str),
    /// The definition no longer has the state.
    #[error("the workflow no longer has the state '{0}'")]
    Unknown(String),
}

/// The part of an earlier run that another run takes over.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedPart {
    /// The events between the start and the entry of the state.
    events: Vec<Event>,
    /// The first state of the new run.
    state: String,
    /// The rules that the events follow.
    semantics_version: u32,
}

impl RecordedPart {
    /// Returns the number of events in this part.
    #[must_use]
    pub fn event_count(&self) -> usize {
        self.events.len()
    }

    /// Returns the part of a run before visit number `visit` to a state. `events` are all events of the run. The states
    /// of the part must be the same in `definition`.
    ///
    /// # Errors
    ///
    /// If there is no such visit, or another run must not take over the part.
    pub fn before(events: &[Event], definition: &Definition, state: &str, visit: u32) -> Result<Self, TakeOverError> {
        let is_entry = |step: &StepId| step.place == state && step.visit == visit;
        let Some(end) = events.iter().position(|event| entered_step(event).is_some_and(is_entry)) else {
            let mut entered: Vec<_> = events.iter().filter_map(entered_step).map(|step| step.place.clone()).collect();
            entered.dedup();
            return Err(TakeOverError::NotEntered { state: state.to_owned(), visit, entered });
        };
        let state = state.to_owned();
        if definition.state(&state).is_none() {
            return Err(TakeOverError::Unknown(state));
        }
        let (earlier, document) = (events.get(..end).unwrap_or_default(), definition.document());
        let mut history = History::new();
        let mut last_state = state.clone();
        for event in earlier {
            match event {
                Event::Started { definition: before, .. } => {
                    let changed =
                        ["initial_state", "arguments", "host"].into_iter().find(|key| before[*key] != document[*key]);
                    if let Some(changed) = changed {
                        return Err(TakeOverError::OtherBeginning(changed));
                    }
                }
                Event::StateEntered { step, .. } => {
                    let before = history.definition().map(|before| &before["states"][&step.place]);
                    if before != Some(&document["states"][&step.place]) {
                        return Err(TakeOverError::Changed { state, changed: step.place.clone() });
                    }
                    last_state.clone_from(&step.place);
                }
                Event::GateAnswered { choice, .. }
                    if history.gate().is_some_and(|gate| is_for_person(gate, choice)) =>
                {
                    return Err(TakeOverError::Approved { state, from: last_state });
                }
                // A child run has waited for an answer, possibly of a person.
                Event::ChildWaits { .. } => return Err(TakeOverError::Approved { state, from: last_state }),
                Event::PatchProposed { .. } => return Err(TakeOverError::Repaired { state, from: last_state }),
                Event::FinallyBegan { .. } => return Err(TakeOverError::Finally(state)),
                _ => {}
            }
            history.apply(event);
        }
        let semantics_version = history.semantics_version();
        Ok(Self { events: earlier.iter().skip(1).cloned().collect(), state, semantics_version })
    }

    /// Returns the number of the last visit to a state; 1 if the run has not entered the state.
    #[must_use]
    pub fn last_visit(events: &[Event], state: &str) -> u32 {
        let visits = events.iter().filter_map(entered_step).filter(|step| step.place == state).map(|step| step.visit);
        visits.max().unwrap_or(1)
    }

    /// Returns the recorded events, without the start.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the terminals that the part leaves open, each with the state that opened it. `events` are all events of
    /// the run.
    #[must_use]
    pub fn open_terminals(&self, events: &[Event]) -> Vec<(String, Option<String>)> {
        let history = History::from_iter(events.iter().take(self.events.len() + 1));
        let opened_by = |session: &str| {
            self.events.iter().find_map(|event| match event {
                Event::StateCompleted { step, outcome: Outcome::Finished { result }, .. } => {
                    let session_id = result.get("session_id").and_then(Value::as_str);
                    session_id.is_some_and(|session_id| session_id == session).then(|| step.place.clone())
                }
                _ => None,
            })
        };
        let terminals = history.terminals();
        let mut sessions: Vec<&str> = terminals.open().iter().map(String::as_str).collect();
        sessions.extend(
            terminals.current_terminal().filter(|session| !terminals.open().iter().any(|open| open == session)),
        );
        sessions.into_iter().map(|session| (session.to_owned(), opened_by(session))).collect()
    }

    /// Returns the names of the states that the earlier run executed after the part. `events` are all its events.
    #[must_use]
    pub fn states_to_repeat<'e>(&self, events: &'e [Event]) -> BTreeSet<&'e str> {
        let later = events.get(self.events.len() + 1..).unwrap_or_default();
        later.iter().filter_map(entered_step).map(|step| step.place.as_str()).collect()
    }

    /// Returns the events with `now` as their time, because the clock of the new run begins then.
    fn events_at(self, now: Timestamp) -> Vec<Event> {
        let events = self.events.into_iter().map(|event| {
            let mut value = json!(event);
            value["at"] = json!(now);
            serde_json::from_value(value).unwrap_or(event)
        });
        events.collect()
    }
}

/// Returns the step of an event that enters a state.
fn entered_step(event: &Event) -> Option<&StepId> {
    match event {
        Event::StateEntered { step, .. } => Some(step),
        _ => None,
    }
}

/// Returns whether only a person may make a choice at a gate.
fn is_for_person(gate: &Gate, choice: &str) -> bool {
    gate.answered_by() == AnsweredBy::Human || gate.choices_for_person().contains(&choice)
}

/// Returns the first decision of a run that begins at a state of an earlier run.
#[must_use]
pub fn begin_from(definition: &Definition, start: Start, part: RecordedPart, now: Timestamp) -> Decision {
    let after = start.limits.execution_timeout();
    let mut started = started_event(definition, start, now);
    if let Event::Started { semantics_version, .. } = &mut started {
        *semantics_version = part.semantics_version;
    }
    let (mut events, state) = (vec![started], part.state.clone());
    events.extend(part.events_at(now));
    let history = History::from_iter(&events);
    let mut builder = DecisionBuilder::new(definition, &history, now);
    builder.decision.effects.push(Effect::ArmDeadline { after });
    let Decision { events: entered, effects } = builder.approach(&state, history.variables(), history.terminals());
    events.extend(entered);
    Decision { events, effects }
}
