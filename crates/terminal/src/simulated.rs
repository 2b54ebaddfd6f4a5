//! Terminals without programs, for simulations of the layers above them.
//!
//! A simulated terminal answers the requests of a [`Terminal`](crate::Terminal) like a shell at its prompt whose
//! commands print one line. The simulation reports each effect at the time of the effect, with a delay before and
//! after, so that other events may occur in the meantime.

use std::fmt;
use std::time::Duration;

use steplatch_ids::TerminalId;
use tokio::sync::mpsc;

use crate::command::{CommandRequest, CommandResult, RunError};
use crate::exchange::VariablesError;
use crate::output_log::OutputRecording;
use crate::screen::{Cursor, Modes};
use crate::terminal::{Closed, Description, Excerpt, Input, Lifecycle, Request, Sent, View};
use crate::wait::{PatternMatch, Reason, Until, Wait, Waited};

/// The line that a simulated command prints.
pub const SIMULATED_OUTPUT: &str = "ok";

/// The process id of a simulated program.
pub(crate) const SIMULATED_PID: i32 = 1;

/// The line that starts a program that asks questions.
const QUESTIONS_COMMAND: &str = "./install";

/// Number of the program's questions. Each typed line answers one question.
const QUESTION_COUNT: u32 = 2;

/// An effect in a simulated terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimulatedEffect {
    /// The terminal opened.
    Open,
    /// The shell began a command.
    Run,
    /// The program received typed input.
    Type,
    /// The terminal closed.
    Close,
}

/// The simulation of a simulated terminal.
pub trait Simulation: fmt::Debug + Send + Sync {
    /// Returns the time until the next action of a program.
    fn delay(&self) -> Duration;

    /// Records an effect in a terminal. `step` is the step that requested it, except for a close.
    fn record(&self, effect: SimulatedEffect, terminal: &TerminalId, step: Option<&str>);
}

/// Serves the requests of a terminal until it closes.
pub(crate) async fn run(
    description: Description,
    mut requests: mpsc::UnboundedReceiver<Request>,
    simulation: &dyn Simulation,
    life: Lifecycle,
) {
    let mut shell = SimulatedShell { description, simulation, offset: 0, open_questions: 0 };
    while let Some(request) = requests.recv().await {
        if let Request::Close(_, reply) = request {
            life.close();
            tokio::time::sleep(simulation.delay()).await;
            simulation.record(SimulatedEffect::Close, &shell.description.id, None);
            // Ignore the error here and below, because a disconnected client needs no reply.
            let _ = reply.send(Closed { exit: None, survivors: Vec::new() });
            return;
        }
        shell.answer(request).await;
    }
}

struct SimulatedShell<'a> {
    description: Description,
    simulation: &'a dyn Simulation,
    /// Offset after all output.
    offset: u64,
    /// Open questions of the running program.
    open_questions: u32,
}

impl SimulatedShell<'_> {
    async fn answer(&mut self, request: Request) {
        match request {
            Request::Send(input, reply) => {
                tokio::time::sleep(self.simulation.delay()).await;
                // A cancelled step types nothing.
                if !reply.is_closed() {
                    let sent = self.type_input(&input);
                    tokio::time::sleep(self.simulation.delay()).await;
                    let _ = reply.send(Ok(sent));
                }
            }
            Request::Run(request, reply) => {
                tokio::time::sleep(self.simulation.delay()).await;
                if !reply.is_closed() {
                    let result = self.run_command(request).await;
                    let _ = reply.send(result);
                }
            }
            Request::Wait(wait, _, reply) => {
                tokio::time::sleep(self.simulation.delay().min(wait.timeout)).await;
                let _ = reply.send((self.waited(&wait), self.view()));
            }
            Request::Ready(_, timeout, reply) => {
                tokio::time::sleep(self.simulation.delay().min(timeout)).await;
                let _ = reply.send(self.view());
            }
            Request::View(_, reply) => drop(reply.send(self.view())),
            Request::Read(_, _, reply) => {
                drop(reply.send(Excerpt::from_text(SIMULATED_OUTPUT.to_owned(), self.offset)));
            }
            Request::Describe(reply) => drop(reply.send(self.description.clone())),
            Request::Inputs(_, reply) => drop(reply.send(Vec::new())),
            Request::Recording(reply) => drop(reply.send(OutputRecording::default())),
            Request::Pieces(_, _, reply) => drop(reply.send(Vec::new())),
            Request::Exchange(reply) => drop(reply.send(Err(VariablesError::NotIntegrated { program: None }))),
            Request::Script(_, reply) => drop(reply.send(Err(VariablesError::NotIntegrated { program: None }))),
            Request::InnerShell(reply) => drop(reply.send(None)),
            Request::InputSettings(reply) => drop(reply.send(None)),
            Request::Waiter(reply) => drop(reply.send(None)),
            Request::ClearLine(_, reply) => drop(reply.send(Ok(()))),
            Request::Resize(size, reply) => {
                self.description.size = size;
                let _ = reply.send(());
            }
            Request::Signal(_, reply) => drop(reply.send(Ok(()))),
            Request::Hold(_, _, reply) => drop(reply.send(Ok(()))),
            Request::GiveBack(_, _, reply) => drop(reply.send(())),
            Request::HandedBack(reply) => drop(reply.send(None)),
            // There is no screen: drop the reply channel, so that the requester notices.
            Request::Forget(_)
            | Request::Picture(_)
            | Request::Scrollback(..)
            | Request::WatchScreen(_)
            | Request::Attach(_)
            | Request::Close(..) => {}
        }
    }

    fn type_input(&mut self, input: &Input) -> Sent {
        self.simulation.record(SimulatedEffect::Type, &self.description.id, input.step.as_deref());
        self.open_questions = match input.text.trim_end() {
            QUESTIONS_COMMAND => QUESTION_COUNT,
            _ => self.open_questions.saturating_sub(1),
        };
        let offset = self.print();
        Sent { offset, version: None, line: None, view: (!input.without_view).then(|| self.view()) }
    }

    async fn run_command(&mut self, request: CommandRequest) -> Result<CommandResult, RunError> {
        self.simulation.record(SimulatedEffect::Run, &self.description.id, request.step.as_deref());
        let duration = self.simulation.delay();
        let timed_out = duration > request.timeout;
        tokio::time::sleep(duration.min(request.timeout)).await;
        let offset = self.print();
        Ok(CommandResult {
            output: format!("{SIMULATED_OUTPUT}\n"),
            next: self.offset,
            end: self.offset,
            exit_code: (!timed_out).then_some(0),
            timed_out,
            ..CommandResult::without_output(offset)
        })
    }

    /// Prints the output of a command and returns the offset before it.
    fn print(&mut self) -> u64 {
        let offset = self.offset;
        self.offset += SIMULATED_OUTPUT.len() as u64 + 1;
        offset
    }

    fn waited(&self, wait: &Wait) -> Waited {
        let is_at_prompt = wait.until == Until::Prompt && self.open_questions == 0;
        let found = (!is_at_prompt && !wait.patterns.is_empty()).then(|| PatternMatch {
            pattern: 0,
            text: SIMULATED_OUTPUT.to_owned(),
            groups: Vec::new(),
            range: None,
            in_echo: false,
        });
        let reason = match &found {
            Some(_) => Reason::Match,
            None if is_at_prompt => Reason::Prompt,
            None => Reason::Quiet,
        };
        Waited {
            reason,
            found,
            offset: self.offset,
            exit: None,
            gave_up: None,
            missed_before: None,
            replaced_by: None,
            ran_nothing: false,
        }
    }

    fn view(&self) -> View {
        View {
            screen: SIMULATED_OUTPUT.to_owned(),
            cursor: Cursor { row: 0, col: 0, visible: true },
            modes: Modes::default(),
            title: String::new(),
            size: self.description.size,
            busy: Some(self.open_questions > 0),
            exit_code: Some(0).filter(|_| self.open_questions == 0),
            exit: None,
            end: self.offset,
            handed_back: false,
            cwd: None,
            awaiting_input: Some(true),
            password: false,
            typed: None,
            name: self.description.name.clone(),
            version: None,
        }
    }
}
