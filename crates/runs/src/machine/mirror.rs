//! A machine that an outer engine decides: the daemon forwards inputs to the engine, and receives events.
//!
//! The journal stores the received events in order, each once; gates, reports and lists read the journal. An input is
//! considered recorded once the journal has its resulting events.

use std::collections::BTreeSet;

use serde_json::Value;
use steplatch_ids::{RunId, StepId};
use steplatch_library::Signature;
use steplatch_workflow::{CurrentStep, Decision, Effect, Event, Input, ShellAnswer, decide};

use super::contract;
use super::run::MachineRun;
use crate::child::ABANDONED_REASON;
use crate::engine::{Attempt, Handled, Recorder, RunKind as _};
use crate::kind::Kind;
use crate::outer::{EventBatch, InputEnd, Mirror, MirrorMessage, NOT_SERVED};

impl MachineRun {
    /// Makes the engine start the run, unless the parent starts the run there.
    pub(super) async fn start_in_engine(&mut self, attempt: Attempt) -> bool {
        if let Some(mirror) = &mut self.mirror {
            mirror.start(&self.recorder, attempt);
        }
        self.publish();
        attempt == Attempt::First || self.record(&[]).await
    }

    /// Handles a message of the engine. Returns false when this daemon must no longer drive the run.
    pub(super) async fn receive(&mut self, message: MirrorMessage) -> bool {
        match message {
            MirrorMessage::Events(EventBatch { from, events, reply }) => {
                let is_ours = self.record_new_events(from, events).await;
                if is_ours {
                    // The worker may have disconnected; it repeats the request.
                    let _ = reply.send(self.history.events_applied() as u64);
                }
                is_ours
            }
            MirrorMessage::Started(started) => {
                self.set_blocked_reason(started.err());
                true
            }
            MirrorMessage::Lost(how) => {
                let reason = Mirror::lost(&how);
                let now = self.recorder.shared.clock.now();
                let Decision { events, mut effects } =
                    decide(&self.definition, &self.history, Input::Cancel { reason }, now);
                // The engine sends no further requests, so the host closes the terminals of the run.
                effects.retain(Effect::closes);
                self.is_lost = true;
                let from = self.history.events_applied() as u64;
                if !self.record_new_events(from, events).await {
                    return false;
                }
                self.perform_all(effects, Attempt::First).await;
                true
            }
            // A task of a function. Dropping its reply reports that this run does not perform it.
            MirrorMessage::Task(..) => true,
        }
    }

    /// Passes an input to the engine and records the resulting events.
    pub(super) async fn forward_input(&mut self, input: Input) -> Handled {
        let Recorder { shared, run, .. } = &self.recorder;
        match &input {
            Input::Cancel { reason } => {
                if !shared.outer.cancel(&run.id, reason.clone()) {
                    self.set_blocked_reason(Some(NOT_SERVED.to_owned()));
                }
                return Handled::Unanswered;
            }
            Input::GateAnswered { .. } | Input::Pause { .. } | Input::Resume { .. } => {}
            // The engine decides and observes all other inputs.
            _ => return Handled::Ignored,
        }
        // The key is the same for an answer that is repeated because its first reply was lost, and new for the next
        // pause.
        let key = Signature::of_text(&format!("{}{}", self.history.events_applied(), serde_json::json!(input)));
        let (outer, run) = (shared.outer.clone(), run.id.clone());
        let delivery = async move { outer.pass(&run, key.to_string(), &input).await };
        tokio::pin!(delivery);
        // The engine may need a screen to handle the input, and the run records events before it reads a screen.
        let end = loop {
            let Some(mirror) = &mut self.mirror else { return Handled::Ignored };
            tokio::select! {
                end = &mut delivery => break end,
                message = mirror.inbox.next() => {
                    if !Box::pin(self.receive(message)).await {
                        return Handled::Lost;
                    }
                }
            }
        };
        match end {
            InputEnd::Taken { from, events } => {
                self.set_blocked_reason(None);
                Handled::recorded(self.record_new_events(from, events).await)
            }
            InputEnd::Ignored => Handled::Ignored,
            InputEnd::Unknown(blocked_reason) => {
                self.set_blocked_reason(Some(blocked_reason));
                Handled::Unanswered
            }
        }
    }

    /// Records the events that the journal does not have yet, unless earlier events are missing. Returns false when
    /// this daemon must no longer drive the run.
    async fn record_new_events(&mut self, from: u64, events: Vec<Event>) -> bool {
        let known = self.history.events_applied() as u64;
        let Some(skipped) = known.checked_sub(from).and_then(|skipped| usize::try_from(skipped).ok()) else {
            // Earlier events are missing; the engine sends them again.
            return true;
        };
        let new: Vec<Event> = events.into_iter().skip(skipped).collect();
        if new.is_empty() {
            return true;
        }
        let mut abandoned = self.steps_that_start_runs();
        for event in &new {
            // The daemon must know a secret before any follower of the run can see it.
            for secret in self.secrets_in(event) {
                self.recorder.shared.secrets.add(&secret);
                self.recorder.learn(&secret);
            }
            self.history.apply(event);
            abandoned.extend(self.steps_that_start_runs());
        }
        // The engine keeps the original events; the additions are for people who see the gate here.
        self.add_terminals(&mut new.clone()).await;
        if self.history.approved_at().is_some() || self.recorder.caller.approved_terminals.is_some() {
            self.recorder.shared.outer.set_caller(&self.recorder.run.id, self.approved_caller());
        }
        abandoned.retain(|step| self.history.is_over() || !self.history.awaits_child(step));
        self.abandon_steps(abandoned);
        if let Some(mirror) = &mut self.mirror {
            mirror.blocked_reason = None;
        }
        self.leaves_work = self.is_lost || self.recorder.header.source.changes_library(true);
        self.record(&new).await
    }

    /// Returns the awaited steps that may have started runs.
    fn steps_that_start_runs(&self) -> BTreeSet<StepId> {
        let starts_runs = |current: &CurrentStep| matches!(current.tool.as_str(), "run_workflow" | "parallel");
        match self.history.current().is_some_and(starts_runs) {
            true => self.history.awaited_steps().into_iter().collect(),
            false => BTreeSet::new(),
        }
    }

    /// Cancels the remote workflows of steps that the run no longer waits for. The engine cancels the runs that it
    /// decides, but follows a remote workflow only after its begin in the engine.
    fn abandon_steps(&self, steps: BTreeSet<StepId>) {
        let shared = &self.recorder.shared;
        for step in steps {
            shared.outer.record_abandoned(&step);
            let child = shared.driven(&RunId::started_by(&step));
            if let Some(child) = child.filter(|child| child.kind() == Kind::Remote) {
                child.cancel(ABANDONED_REASON);
            }
        }
    }

    fn secrets_in(&self, event: &Event) -> Vec<String> {
        match event {
            Event::VariablesTold { step, answer: answer @ ShellAnswer::Told { .. }, .. } => {
                let input = Input::ShellAnswered { step: step.clone(), answer: answer.clone() };
                contract::input_secrets(&self.definition, &self.history, &input)
            }
            Event::StateEntered { params, .. } => {
                let is_secret =
                    params.get("secret").is_some_and(|secret| *secret == Value::Bool(true) || *secret == "true");
                let text = params.get("input_text").and_then(Value::as_str).filter(|_| is_secret);
                text.map(str::to_owned).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn set_blocked_reason(&mut self, blocked_reason: Option<String>) {
        if Mirror::set_blocked_reason(&mut self.mirror, blocked_reason) {
            self.publish();
        }
    }
}
