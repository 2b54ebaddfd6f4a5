//! Exchanges of requests and answers with the shell, see [`exchange`](crate::exchange).

use rustix::process::Signal;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Task;
use crate::exchange::{BASH_KEY, EXCHANGE_TIMEOUT, HoldResult, Redraw, VariablesError, split_at_answer_mark};
use crate::integration::{IntegrationSession, Kind};
use crate::process::has_signal_handler;
use crate::transcript::Mark;

/// A request that the shell has not answered yet.
pub(super) struct Exchanging {
    reply: oneshot::Sender<Result<(), VariablesError>>,
    pub(super) deadline: Instant,
    nonce: String,
    /// Output held back while bash draws its prompt again.
    redraw: Option<Redraw>,
}

impl Task {
    /// Makes the shell run the written request and replies at its end.
    pub(super) fn begin_exchange(&mut self, reply: oneshot::Sender<Result<(), VariablesError>>) {
        let integration = match self.check_exchange_ready() {
            Ok(integration) => integration,
            // Ignore the error, because the caller may have disconnected.
            Err(error) => return drop(reply.send(Err(error))),
        };
        let redraw = match integration.kind {
            Kind::Bash => {
                self.outgoing.extend(BASH_KEY.iter().copied());
                Some(Redraw::new(&integration.nonce))
            }
            Kind::Zsh | Kind::Fish | Kind::Posix => {
                if rustix::process::kill_process(self.child.pid(), Signal::USR1).is_err() {
                    return drop(reply.send(Err(VariablesError::Ended)));
                }
                None
            }
        };
        let deadline = Instant::now() + EXCHANGE_TIMEOUT;
        self.exchanging = Some(Exchanging { reply, deadline, nonce: integration.nonce, redraw });
        self.write_input();
    }

    /// Checks that the shell can answer a request now and returns its integration session.
    pub(super) fn check_exchange_ready(&self) -> Result<IntegrationSession, VariablesError> {
        if self.is_over() {
            return Err(VariablesError::Ended);
        }
        self.write_lock.admits(None).map_err(VariablesError::Held)?;
        let Some(integration) = self.shell.integration.clone().filter(|_| self.shell.is_reporting()) else {
            let program = self.foreground_name();
            // The shell has not shown its first prompt.
            let is_starting = self.shell.integration.is_some() && !self.shell.is_replaced();
            return Err(match is_starting {
                true => VariablesError::Busy { program },
                false => VariablesError::NotIntegrated { program },
            });
        };
        if !self.shell.is_idle() || self.is_typing_itself() || !self.outgoing.is_empty() {
            return Err(if self.shell.is_replaced() {
                VariablesError::NotIntegrated { program: self.foreground_name() }
            } else {
                VariablesError::Busy { program: self.foreground_name() }
            });
        }
        match integration.kind {
            // An inner shell receives a typed line.
            _ if self.shell.is_inner => Ok(integration),
            // bash would redraw the prompt with the typed text, and the history would have that text twice.
            Kind::Bash => match self.typed_line() {
                Some(text) => Err(VariablesError::HalfTyped { text }),
                None => Ok(integration),
            },
            // The signal would end a shell without the integration's handler.
            Kind::Zsh | Kind::Fish | Kind::Posix => {
                let pid = self.child.pid().as_raw_nonzero().get();
                if has_signal_handler(pid, Signal::USR1.as_raw()) == Some(true) {
                    Ok(integration)
                } else {
                    Err(VariablesError::NoHandler)
                }
            }
        }
    }

    /// Processes output during an exchange. Returns the parts that are ordinary output.
    pub(super) fn split_redraw(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let Some(exchanging) = &mut self.exchanging else { return vec![bytes.to_vec()] };
        match &mut exchanging.redraw {
            None => match split_at_answer_mark(bytes, &exchanging.nonce) {
                Some((before, after)) => {
                    let parts = vec![before.to_vec(), after.to_vec()];
                    self.end_exchange(Ok(()));
                    parts
                }
                None => vec![bytes.to_vec()],
            },
            Some(redraw) => match redraw.hold(bytes) {
                HoldResult::NotYet => Vec::new(),
                HoldResult::Other(all) => {
                    self.end_exchange(Err(VariablesError::Unanswered));
                    vec![all]
                }
                HoldResult::Redrawn([before, redrawn, after]) => {
                    self.end_exchange(Ok(()));
                    // Draw earlier output first.
                    self.take_in_all(&before);
                    // A redrawn prompt contains no query.
                    self.begin_screen_version();
                    self.intake.draw(&redrawn, &mut Vec::new());
                    vec![after]
                }
            },
        }
    }

    /// Processes the mark of an answer that [`Self::split_redraw`] missed because it arrived in two portions.
    pub(super) fn follow_exchange(&mut self, mark: &Mark) {
        if *mark == Mark::Answered && self.exchanging.as_ref().is_some_and(|exchanging| exchanging.redraw.is_none()) {
            self.end_exchange(Ok(()));
        }
    }

    /// Ends an exchange after its time limit, or after the end of the shell.
    pub(super) fn check_exchange(&mut self) {
        let Some(exchanging) = &self.exchanging else { return };
        let outcome = if self.is_over() {
            VariablesError::Ended
        } else if Instant::now() >= exchanging.deadline {
            VariablesError::Unanswered
        } else {
            return;
        };
        let held = self.end_exchange(Err(outcome));
        self.take_in_all(&held);
    }

    /// Ends the exchange and returns the held output.
    fn end_exchange(&mut self, outcome: Result<(), VariablesError>) -> Vec<u8> {
        let Some(mut exchanging) = self.exchanging.take() else { return Vec::new() };
        // Ignore the error, because the caller may have disconnected.
        let _ = exchanging.reply.send(outcome);
        exchanging.redraw.as_mut().map(Redraw::give_up).unwrap_or_default()
    }
}
