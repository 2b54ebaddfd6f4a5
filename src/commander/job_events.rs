//! Handling of news about calls: events, questions, ends.

use std::io;
use std::time::Instant;

use serde_json::Value;
use steplatch_protocol::{NodeReply, RunEvent};

use super::conversation::{Conversation, WAITING};
use super::format;
use super::line::Target;
use super::session::{PendingText, State};
use super::work::{JobEvent, Outcome};
use crate::child_runs::child;
use crate::commands::graphs;
use crate::failure::{FAILED, Failure, USAGE};
use crate::print::{QUIET, visible};

impl Conversation<'_> {
    /// Handles news about a call.
    pub(super) fn handle_event(&mut self, news: JobEvent) -> Result<(), Failure> {
        match news {
            JobEvent::Run(number, run) => {
                self.screen.lines.change_words(|words| words.runs.push(run.clone()));
                if self.foreground.is_some_and(|foreground| foreground.number == number && foreground.ending) {
                    self.work.cancel(run.clone());
                }
                self.session.entry_mut(number).run = Some(run);
            }
            JobEvent::Event(number, event) => self.show_event(number, &event)?,
            JobEvent::Asks(number, gate) => {
                self.code = WAITING;
                let watched = self.foreground.is_some_and(|foreground| foreground.number == number);
                if watched {
                    self.still()?;
                    self.foreground = None;
                } else if self.screen.is_interactive() {
                    // A script answers in a later line.
                    self.move_to_background()?;
                }
                if self.session.add_question(*gate, Some(number), watched) {
                    self.show_question()?;
                } else {
                    let target = visible(&self.session.entry(number).target.to_string());
                    self.screen
                        .print_remark(&format!("::{number} {target} asks something too, after this question"))?;
                }
            }
            JobEvent::Over(number, outcome) => self.handle_end(number, &outcome)?,
        }
        Ok(())
    }

    fn show_event(&mut self, number: usize, event: &RunEvent) -> io::Result<()> {
        let gate = event.data.get("gate_id").and_then(Value::as_str).unwrap_or_default();
        let before = self.current_gate();
        match event.event_type.as_str() {
            "gate_answered" | "gate_timeout" | "gate_cancelled" => drop(self.session.settled(gate)),
            // At the end of a state or of a function's call, the runs that it started have ended.
            "state_completed" if self.session.entry(number).run.as_ref() == Some(&event.run_id) => {
                self.session.are_over(number, |run| run != event.run_id);
            }
            "nested_workflow_completed" | "nested_workflow_failed" | "nested_workflow_cancelled" => {
                self.session.are_over(number, |run| Some(run) == child(event));
            }
            _ => {}
        }
        let asks_next = before != self.current_gate();
        self.still()?;
        let watched = self.foreground.is_some_and(|foreground| foreground.number == number);
        // A call in the background appears with its number.
        let mark = if watched || !self.screen.is_interactive() { String::new() } else { format!("::{number} ") };
        let lines = self.views.get_mut(&number).map(|view| view.event_lines(event, mark.len())).unwrap_or_default();
        let entry = self.session.entry(number);
        if !entry.quiet || (event.is_last() && entry.run.as_ref() == Some(&event.run_id)) {
            let lines: Vec<String> = lines.into_iter().map(|line| format!("{QUIET}{mark}{QUIET:#}{line}")).collect();
            self.screen.print_lines(&lines)?;
        }
        if asks_next { self.show_question() } else { Ok(()) }
    }

    /// Returns the gate of the current question.
    fn current_gate(&self) -> Option<String> {
        self.session.current_question().map(|question| question.asking.gate().gate_id.clone())
    }

    /// Stores the result of a call, shows it, and continues the lines that needed it.
    pub(super) fn handle_end(&mut self, number: usize, outcome: &Outcome) -> Result<(), Failure> {
        self.still()?;
        self.views.remove(&number);
        // The message about the interruption is on the screen already.
        if !matches!(self.session.entry(number).state, State::Coming | State::Waits) {
            return Ok(());
        }
        let before = self.current_gate();
        let (target, input) = (self.session.entry(number).target.clone(), self.session.entry(number).input.clone());
        let value = outcome.value(&target, &input);
        let success = value["success"] == true;
        self.session.store_result(number, value, Instant::now());
        self.show_end(number, &target, outcome)?;
        if self.foreground.is_some_and(|foreground| foreground.number == number) {
            self.foreground = None;
            self.code = if success { 0 } else { FAILED };
        }
        if before != self.current_gate() {
            self.show_question()?;
        }
        self.resume_waiting_lines()
    }

    fn show_end(&mut self, number: usize, target: &Target, outcome: &Outcome) -> io::Result<()> {
        let State::Done { took, .. } = self.session.entry(number).state else { return Ok(()) };
        let end = |error: Option<&str>| format::end(number, target, error, took);
        match outcome {
            Outcome::Node(reply) => {
                self.screen.print_output(number, &reply.output)?;
                self.screen.print_remarks(&format::beside(reply))?;
                self.screen.print_remarks(&graphs::steps(reply))?;
                self.show_node_end(reply, &end(failed(reply)))
            }
            // The last event has shown how the run ended.
            Outcome::Run(_) => self.screen.print_remarks(&[format!("  {QUIET}its result is ::{number}{QUIET:#}")]),
            Outcome::Nothing(error) if self.screen.is_interactive() => self.screen.print_lines(&[end(Some(error))]),
            Outcome::Nothing(error) => self.screen.print_error(error),
        }
    }

    fn show_node_end(&mut self, reply: &NodeReply, end: &str) -> io::Result<()> {
        match failed(reply) {
            Some(error) if !self.screen.is_interactive() => self.screen.print_error(error),
            _ => self.screen.print_remarks(&[end.to_owned()]),
        }
    }

    /// Executes the lines that waited for a result which is available now.
    fn resume_waiting_lines(&mut self) -> Result<(), Failure> {
        for (pending, value) in self.session.ready() {
            match (pending, value) {
                (PendingText::Call(number), Ok(value)) => self.starts(number, value),
                (PendingText::Call(number), Err(error)) => self.handle_end(number, &Outcome::Nothing(error))?,
                (pending, Ok(value)) => self.later.push_back((pending, value)),
                (_, Err(error)) => self.fails(&error, USAGE)?,
            }
        }
        Ok(())
    }
}

/// Returns the reason that a node failed, if it did.
fn failed(reply: &NodeReply) -> Option<&str> {
    (!reply.success).then(|| reply.error.as_deref().unwrap_or("it failed without a reason"))
}
