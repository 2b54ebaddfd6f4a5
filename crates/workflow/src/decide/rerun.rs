//! A run that begins at a state of an earlier run, and takes over what that run recorded before it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use steplatch_clock::Timestamp;

use super::{Decision, DecisionBuilder, Effect, Start, started};
use crate::definition::Definition;
use crate::event::{Event, Outcome};
use crate::history::History;

/// Failure to take over the results of an earlier run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TakeOverError {
    /// The run has not entered the state so often.
    #[error("the run has not entered state '{state}'{}; it entered: {}", if *.visit > 1 { format!(" {visit} times") } else { String::new() }, .entered.join(", "))]
    NotEntered {
        /// The state.
        state: String,
        /// The visit.
        visit: u32,
        /// The states that it entered, in their order.
        entered: Vec<String>,
    },
    /// A person decided something before the state.
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
    /// The state belongs to the end of a run.
    #[error("state '{0}' came after the end of the run, as its finally state")]
    Finally(String),
    /// A state with recorded results is another one now.
    #[error(
        "state '{changed}' came before '{state}' and has changed, so its result may be another one now; begin at '{changed}' or before it"
    )]
    Changed {
        /// The state to begin at.
        state: String,
        /// The state that has changed.
        changed: String,
    },
    /// The definition has no such state any more.
    #[error("the workflow has no state '{0}' any more")]
    Unknown(String),
}

/// The part of an earlier run that another run takes over.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedPart {
    /// The events between the start and the entry of the state.
    events: Vec<Event>,
    /// The state at which the other run begins.
    state: String,
    /// The rules that the events follow.
    semantics_version: u32,
}

impl RecordedPart {
    /// Returns the part of a run, given by all its events, before the entry number `visit` of a state. The states of
    /// that part must be the same in `definition`.
    ///
    /// # Errors
    ///
    /// If there is no such entry, or another run must not take over the part.
    pub fn before(events: &[Event], definition: &Definition, state: &str, visit: u32) -> Result<Self, TakeOverError> {
        let entered = |event: &Event| match event {
            Event::StateEntered { step, .. } => Some((step.place.clone(), step.visit)),
            _ => None,
        };
        let Some(end) =
            events.iter().position(|event| entered(event).is_some_and(|entry| entry == (state.into(), visit)))
        else {
            let mut states: Vec<String> = events.iter().filter_map(entered).map(|(place, _)| place).collect();
            states.dedup();
            return Err(TakeOverError::NotEntered { state: state.to_owned(), visit, entered: states });
        };
        let state = state.to_owned();
        if definition.state(&state).is_none() {
            return Err(TakeOverError::Unknown(state));
        }
        let earlier = events.get(1..end).unwrap_or_default();
        let mut last_entered = state.clone();
        for event in earlier {
            let from = last_entered.clone();
            match event {
                Event::StateEntered { step, .. } if !is_unchanged(events, definition, &step.place) => {
                    return Err(TakeOverError::Changed { state, changed: step.place.clone() });
                }
                Event::StateEntered { step, .. } => last_entered.clone_from(&step.place),
                // A run below it has waited for an answer, maybe that of a person.
                Event::ChildWaits { .. } => return Err(TakeOverError::Approved { state, from }),
                Event::PatchProposed { .. } => return Err(TakeOverError::Repaired { state, from }),
                Event::FinallyBegan { .. } => return Err(TakeOverError::Finally(state)),
                _ => {}
            }
        }
        let history = History::from_iter(events.iter().take(end));
        match history.approved_at() {
            Some(gate) => Err(TakeOverError::Approved { state, from: gate.place.clone() }),
            None => {
                let semantics_version = history.semantics_version();
                Ok(Self { events: earlier.to_vec(), state, semantics_version })
            }
        }
    }

    /// Returns the recorded events, without the start.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the terminals that the part leaves open, each with the state that opened it.
    #[must_use]
    pub fn open_terminals(&self, started: &Event) -> Vec<(String, Option<String>)> {
        let history = History::from_iter([started].into_iter().chain(&self.events));
        let opened_by = |session: &str| {
            self.events.iter().find_map(|event| match event {
                Event::StateCompleted { step, outcome: Outcome::Finished { result }, .. } => {
                    let opened = result.get("session_id").and_then(Value::as_str);
                    opened.is_some_and(|opened| opened == session).then(|| step.place.clone())
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

    /// Returns the names of the states that the earlier run executed from the state on, given all its events.
    #[must_use]
    pub fn states_to_repeat<'e>(&self, events: &'e [Event]) -> BTreeSet<&'e str> {
        let later = events.get(self.events.len() + 1..).unwrap_or_default();
        let entered = later.iter().filter_map(|event| match event {
            Event::StateEntered { step, .. } => Some(step.place.as_str()),
            _ => None,
        });
        entered.collect()
    }

    /// Returns the part as it is recorded in the run that takes it over at `now`: the clock of that run begins then.
    fn stamped(self, now: Timestamp) -> Vec<Event> {
        let stamped = self.events.into_iter().map(|event| {
            let mut value = json!(event);
            value["at"] = json!(now);
            serde_json::from_value(value).unwrap_or(event)
        });
        stamped.collect()
    }
}

/// Returns whether a state is the same in the definition of a run, given by its events, and in another one.
fn is_unchanged(events: &[Event], definition: &Definition, state: &str) -> bool {
    let Some(Event::Started { definition: before, .. }) = events.first() else { return false };
    let document = definition.document();
    before["states"][state] == document["states"][state] && before["initial_state"] == document["initial_state"]
}

/// Returns the first decision of a run that begins at a state of an earlier one.
#[must_use]
pub fn begin_from(definition: &Definition, start: Start, part: RecordedPart, now: Timestamp) -> Decision {
    let after = start.limits.execution_timeout();
    let mut started = started(definition, start, now);
    if let Event::Started { semantics_version, .. } = &mut started {
        *semantics_version = part.semantics_version;
    }
    let (mut events, state) = (vec![started], part.state.clone());
    events.extend(part.stamped(now));
    let history = History::from_iter(&events);
    let mut builder = DecisionBuilder::new(definition, &history, now);
    builder.decision.effects.push(Effect::ArmDeadline { after });
    let Decision { events: entered, effects } = builder.approach(&state, history.variables(), history.terminals());
    events.extend(entered);
    Decision { events, effects }
}
