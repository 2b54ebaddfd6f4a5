//! Handling of events about calls: events of runs, questions, ends.

use std::io;
use std::time::Instant;

use serde_json::Value;
use steplatch_protocol::{NodeReply, RunEvent};

use super::conversation::{Conversation, WAITING_EXIT_CODE};
use super::format;
use super::line::Target;
use super::session::{PendingText, State};
use super::work::{JobEvent, Outcome};
use crate::child_runs::child;
use crate::commands::graphs;
use crate::failure::{FAILED, Failure, USAGE};
use crate::print::{QUIET, visible};

impl Conversation<'_> {
    /// Handles an event about a call.
    pub(super) fn handle_event(&mut self, event: JobEvent) -> Result<(), Failure> {
        match event {
            JobEvent::Run(number, run) => {
                self.screen.lines.change_words(|words| words.runs.push(run.clone()));
                if self.foreground.is_some_and(|foreground| foreground.number == number && foreground.is_cancelled) {
                    self.work.cancel(run.clone());
                }
                self.session.entry_mut(number).run = Some(run);
            }
            JobEvent::Event(number, event) => self.show_event(number, &event)?,
            JobEvent::GateOpened(number, gate) => {
                self.exit_code = WAITING_EXIT_CODE;
                let in_foreground = self.foreground.is_some_and(|foreground| foreground.number == number);
                if in_foreground {
                    self.stop_animation()?;
                    self.foreground = None;
                } else if self.screen.is_interactive() {
                    // A script keeps waiting and answers in a later line.
                    self.move_to_background()?;
                }
                if self.session.add_question(*gate, Some(number), in_foreground) {
                    self.show_question()?;
                } else {
                    let target = visible(&self.session.entry(number).target.to_string());
                    self.screen.print_remark(&format!("::{number} {target} has a question too, after this one"))?;
                }
            }
            JobEvent::Ended(number, outcome) => self.handle_end(number, &outcome)?,
        }
        Ok(())
    }

    fn show_event(&mut self, number: usize, event: &RunEvent) -> io::Result<()> {
        let gate = event.data.get("gate_id").and_then(Value::as_str).unwrap_or_default();
        let previous_gate = self.current_gate();
        match event.event_type.as_str() {
            "gate_answered" | "gate_timeout" | "gate_cancelled" => drop(self.session.remove_question(gate)),
            // When a state or a call of a function ends, the runs that it started have ended.
            "state_completed" if self.session.entry(number).run.as_ref() == Some(&event.run_id) => {
                self.session.remove_ended_questions(number, |run| run != event.run_id);
            }
            "nested_workflow_completed" | "nested_workflow_failed" | "nested_workflow_cancelled" => {
                self.session.remove_ended_questions(number, |run| Some(run) == child(event));
            }
            _ => {}
        }
        let gate_changed = previous_gate != self.current_gate();
        self.stop_animation()?;
        let in_foreground = self.foreground.is_some_and(|foreground| foreground.number == number);
        // Lines about a call in the background begin with its number.
        let mark = if in_foreground || !self.screen.is_interactive() { String::new() } else { format!("::{number} ") };
        let lines = self.views.get_mut(&number).map(|view| view.event_lines(event, mark.len())).unwrap_or_default();
        let entry = self.session.entry(number);
        if !entry.quiet || (event.is_last() && entry.run.as_ref() == Some(&event.run_id)) {
            let lines: Vec<String> = lines.into_iter().map(|line| format!("{QUIET}{mark}{QUIET:#}{line}")).collect();
            self.screen.print_lines(&lines)?;
        }
        if gate_changed { self.show_question() } else { Ok(()) }
    }

    /// Returns the gate of the current question.
    fn current_gate(&self) -> Option<String> {
        self.session.current_question().map(|question| question.asking.gate().gate_id.clone())
    }

    /// Stores and shows the result of a call and continues the lines that needed the result.
    pub(super) fn handle_end(&mut self, number: usize, outcome: &Outcome) -> Result<(), Failure> {
        self.stop_animation()?;
        self.views.remove(&number);
        // The message about the interruption is already on the screen.
        if !matches!(self.session.entry(number).state, State::Running | State::Waiting) {
            return Ok(());
        }
        let previous_gate = self.current_gate();
        let (target, input) = (self.session.entry(number).target.clone(), self.session.entry(number).input.clone());
        let value = outcome.value(&target, &input);
        let success = value["success"] == true;
        self.session.store_result(number, value, Instant::now());
        self.show_end(number, &target, outcome)?;
        if self.foreground.is_some_and(|foreground| foreground.number == number) {
            self.foreground = None;
            self.exit_code = if success { 0 } else { FAILED };
        }
        if previous_gate != self.current_gate() {
            self.show_question()?;
        }
        self.resume_waiting_lines()
    }

    fn show_end(&mut self, number: usize, target: &Target, outcome: &Outcome) -> io::Result<()> {
        let State::Done { took, .. } = self.session.entry(number).state else { return Ok(()) };
        let end = |error: Option<&str>| format::end_line(number, target, error, took);
        match outcome {
            Outcome::Node(reply) => {
                self.screen.print_output(number, &reply.output)?;
                self.screen.print_remarks(&format::stderr_lines(reply))?;
                self.screen.print_remarks(&graphs::steps(reply))?;
                self.show_node_end(reply, &end(failure_reason(reply)))
            }
            // The last event has shown the outcome of the run.
            Outcome::Run(_) => self.screen.print_remarks(&[format!("  {QUIET}its result is ::{number}{QUIET:#}")]),
            Outcome::Nothing(error) if self.screen.is_interactive() => self.screen.print_lines(&[end(Some(error))]),
            Outcome::Nothing(error) => self.screen.print_error(error),
        }
    }

    fn show_node_end(&mut self, reply: &NodeReply, end: &str) -> io::Result<()> {
        match failure_reason(reply) {
            Some(error) if !self.screen.is_interactive() => self.screen.print_error(error),
            _ => self.screen.print_remarks(&[end.to_owned()]),
        }
    }

    /// Continues the lines whose awaited results are now available.
    fn resume_waiting_lines(&mut self) -> Result<(), Failure> {
        for (pending, value) in self.session.take_ready_texts() {
            match (pending, value) {
                (PendingText::Call(number), Ok(value)) => self.start_call(number, value),
                (PendingText::Call(number), Err(error)) => self.handle_end(number, &Outcome::Nothing(error))?,
                (pending, Ok(value)) => self.ready_texts.push_back((pending, value)),
                (_, Err(error)) => self.show_failure(&error, USAGE)?,
            }
        }
        Ok(())
    }
}

/// Returns the reason for the failure of a node, if it failed.
fn failure_reason(reply: &NodeReply) -> Option<&str> {
    (!reply.success).then(|| reply.error.as_deref().unwrap_or("it failed without a reason"))
}
