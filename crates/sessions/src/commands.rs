//! Single commands with their exact output, and variables of a live shell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use steplatch_access::Caller;
use steplatch_host::{HostedTerminal, PlacePolicy, TerminalError, WaitRequest};
use steplatch_ids::TerminalId;
use steplatch_protocol::{
    ExitTerminal, GetVariables, GetVariablesReply, OmittedOutput, OpenTerminal, RunCommand, RunCommandReply,
    SetVariables, SetVariablesReply, VariableInfo,
};
use steplatch_terminal::{
    CommandRequest, CommandResult, InputRequest, InputWait, Limit, Reason, RunError, Signal, Target, Until, Variable,
    VariablesError,
};
use tokio::time::Instant;

use super::error::{SessionError, describe_holder};
use crate::sessions::{DEFAULT_REPLY_CHARS, MAX_VALUE_BYTES, Sessions, incomplete_text};

/// Maximum time limit of a command.
const MAX_TIMEOUT_SECONDS: f64 = 3600.0;

/// Minimum time limit of a command.
const MIN_TIMEOUT_SECONDS: f64 = 0.1;

/// Variables of a shell for one command. They keep programs from waiting for a person.
const UNATTENDED_VARIABLES: &[(&str, &str)] =
    &[("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_EDITOR", "true"), ("DEBIAN_FRONTEND", "noninteractive")];

/// Error of a command whose end the shell has not reported.
const UNREPORTED_END_TEXT: &str = "the shell is at its prompt again and has not reported how the command ended, or whether it ran: its \
     hooks for that are gone, or a setting skips them, such as a DEBUG trap with extdebug; look at what the command was to do, \
     and open a new session for the next one";

/// Error of a command whose output may be incomplete.
const PIPED_OUTPUT_TEXT: &str = "the shell prints through a pipe, as after 'exec > >(tee log)', so a part of the output may be missing here \
     and come later; look at the screen, or enter 'exec >/dev/tty 2>&1' first";

/// Failure of a shell to report its variables, as a whole sentence.
#[derive(Debug)]
pub enum ShellQueryError {
    /// A command is running; the shell can report its variables once the command has ended.
    Busy(String),
    /// Another error. Waiting does not resolve it.
    Otherwise(String),
}

impl Sessions {
    /// Runs one command, only once for the same `step`.
    #[boxed]
    pub async fn run_command(&self, caller: &Arc<Caller>, verb: RunCommand, step: Option<String>) -> RunCommandReply {
        let began = Instant::now();
        let reply = match verb.session_id.clone().filter(|session| !session.is_empty()) {
            Some(_) if verb.environment.as_ref().is_some_and(|variables| !variables.is_empty()) => failure_reply(
                "environment is for a new shell, without session_id; set variables in this one with the command"
                    .to_owned(),
            ),
            Some(session) => match self.find_for_input_with_key(caller, &session).await {
                Ok((terminal, key)) => {
                    self.count_input(caller, key.as_ref(), verb.command.len()).await;
                    let reply = self.run_in_terminal(caller, &terminal, verb, step).await;
                    let name = (session != terminal.id().as_str()).then_some(session);
                    RunCommandReply { name, ..reply }
                }
                Err(error) => self.failure_reply_for(&session, error, step.as_deref()).await,
            },
            None => self.run_in_fresh_shell(caller, verb, step).await,
        };
        RunCommandReply { elapsed_time: began.elapsed().as_secs_f64(), ..reply }
    }

    /// Runs a command in a new shell. Closes the shell of a run's step once the run has stored the result, and any
    /// other shell immediately.
    async fn run_in_fresh_shell(
        &self,
        caller: &Arc<Caller>,
        verb: RunCommand,
        step: Option<String>,
    ) -> RunCommandReply {
        let began = Instant::now();
        let Some(timeout) = command_timeout(&verb) else { return failure_reply(timeout_error(verb.timeout)) };
        let open = OpenTerminal {
            shell: "bash".to_owned(),
            working_directory: verb.working_directory.clone(),
            environment: Some(self.shell_variables(caller, verb.environment.clone())),
            host: verb.host.clone(),
            cols: 120,
            rows: 40,
            wait_ready: true,
            ..OpenTerminal::default()
        };
        let is_settled_later = caller.run.is_some() && step.is_some();
        // If the caller drops the request, no client knows of this shell, so close it.
        let mut closing = CloseOnDrop { sessions: self.clone(), caller: caller.clone(), step: None, session_id: None };
        closing.step = step.clone().filter(|_| !is_settled_later);
        // Opening and running happen only once: a repeated request finds the same shell, and the result of the command.
        let terminal = match self.try_open(caller, open, step.clone(), PlacePolicy::ForCommand(timeout)).await {
            Ok((terminal, _)) => terminal,
            Err(error) => {
                closing.step = None;
                return self.failure_reply_for("", error, step.as_deref()).await;
            }
        };
        let session_id = terminal.id().to_string();
        closing.session_id = (!is_settled_later).then(|| session_id.clone());
        let remaining = timeout.saturating_sub(began.elapsed()).as_secs_f64().max(MIN_TIMEOUT_SECONDS);
        let verb = RunCommand { working_directory: None, timeout: remaining, ..verb };
        let reply = self.run_in_terminal(caller, &terminal, verb, step).await;
        // From here on, this function closes the shell or leaves it to the caller.
        (closing.step, closing.session_id) = (None, None);
        if reply.timed_out || reply.awaiting_input {
            return RunCommandReply { session_id: Some(session_id), ..reply };
        }
        if reply.truncated && self.end_and_keep(&session_id).await {
            // The omitted output stays readable until the grace period of the terminal ends.
            return RunCommandReply { session_id: Some(session_id), ..reply };
        }
        if !is_settled_later {
            self.exit(caller, ExitTerminal { session_id, ..ExitTerminal::default() }).await;
        }
        RunCommandReply { session_id: None, offset: None, ..reply }
    }

    async fn failure_reply_for(&self, session: &str, error: SessionError, step: Option<&str>) -> RunCommandReply {
        let outcome_unknown = error.outcome_unknown(self.is_repeated(step));
        RunCommandReply { outcome_unknown, ..failure_reply(self.describe_error(session, error).await) }
    }

    /// Returns the variables of a shell for one command.
    fn shell_variables(&self, caller: &Caller, added: Option<BTreeMap<String, String>>) -> BTreeMap<String, String> {
        let mut variables = if self.policy.opens_pagers() { BTreeMap::new() } else { unattended_variables(caller) };
        variables.extend(added.into_iter().flatten());
        variables
    }

    /// Ends the shell of a terminal and leaves its output readable. Returns whether that was possible.
    async fn end_and_keep(&self, session_id: &str) -> bool {
        match self.find(session_id).await {
            Ok(terminal) => terminal.signal(Signal::HUP).await.is_ok(),
            Err(_) => false,
        }
    }

    async fn run_in_terminal(
        &self,
        caller: &Caller,
        terminal: &HostedTerminal,
        verb: RunCommand,
        step: Option<String>,
    ) -> RunCommandReply {
        let integrate = verb.integrate.unwrap_or_else(|| self.policy.integrates());
        if verb.command.trim().is_empty() && verb.integrate != Some(true) {
            return failure_reply("command is empty".to_owned());
        }
        let Some(timeout) = command_timeout(&verb) else { return failure_reply(timeout_error(verb.timeout)) };
        let is_value = caller.run.is_some() && verb.limit.is_none();
        let limit = match verb.limit {
            Some(limit) => Limit::HeadAndTail(limit as usize),
            None if is_value => Limit::Head(MAX_VALUE_BYTES),
            None => Limit::HeadAndTail(DEFAULT_REPLY_CHARS),
        };
        let typed_line = verb.command.lines().last().map(str::to_owned);
        let request = CommandRequest {
            command: verb.command,
            working_directory: verb.working_directory,
            timeout,
            limit,
            // The command of a run has no client that could answer a question.
            input: caller.reader().is_some(),
            integrate,
            step,
            by: caller.label(),
            approved_at: caller.approved_at.clone(),
        };
        let session_id = Some(terminal.id().to_string());
        let step = request.step.clone();
        let began = Instant::now();
        let mut result = terminal.run(request.clone()).await;
        if let Err(TerminalError::Refused(RunError::Busy { .. })) = result
            && caller.run.is_some()
            && wait_for_prompt(terminal, request.timeout.saturating_sub(began.elapsed())).await
        {
            let timeout = request.timeout.saturating_sub(began.elapsed());
            result = terminal.run(CommandRequest { timeout, ..request }).await;
        }
        // A run does not receive the question of a program that it did not start.
        let input_request = match &result {
            Err(TerminalError::Refused(error)) if caller.run.is_none() => input_request_in_front(terminal, error).await,
            _ => None,
        };
        match result {
            Ok(result) => {
                self.record_typed(caller, terminal, result.offset, typed_line);
                // The client has read this output; its next read begins after it.
                if let Some(reader) = caller.reader() {
                    self.readers.update_reading(reader, terminal.id(), |reading| {
                        reading.offset = Some(reading.offset.unwrap_or(0).max(result.end));
                        reading.version = result.version;
                    });
                }
                let is_whole = !is_value || result.left_out == 0 && result.output.len() <= MAX_VALUE_BYTES;
                if caller.run.is_some() && !(is_whole && result.dropped_before.is_none()) {
                    return incomplete_output(session_id, &result);
                }
                let question = if result.timed_out { find_question_row(terminal).await } else { None };
                let mut reply = self.to_reply(terminal, result);
                if let Some(row) = question {
                    let row = self.secrets.within(terminal.id()).masked(row);
                    reply.awaiting_input = true;
                    let advice = match caller.run {
                        Some(_) => "a dialogue answers it",
                        None => "type it with send_input, or interrupt the command with keys: [\"ctrl-c\"]",
                    };
                    reply.error = Some(format!("timed out: the command waits for input at '{row}'; {advice}"));
                }
                reply
            }
            Err(TerminalError::Refused(RunError::Held(holder))) => {
                RunCommandReply { session_id, ..failure_reply(describe_holder(&holder)) }
            }
            Err(TerminalError::Refused(_)) if let Some(input_request) = input_request => RunCommandReply {
                session_id,
                awaiting_input: true,
                password: input_request.password,
                error: Some(format!("the command was not entered: {}", describe_input_request(&input_request))),
                screen_content: Some(self.secrets.within(terminal.id()).masked_screen(input_request.screen)),
                ..RunCommandReply::default()
            },
            Err(TerminalError::Refused(error @ RunError::NotIntegrated { .. })) => {
                let error = format!("{error}: send_input and await_output");
                RunCommandReply { session_id, ..failure_reply(error) }
            }
            // The text at the prompt and the shell's message are output.
            Err(TerminalError::Refused(error)) => {
                let secrets = self.secrets.within(terminal.id());
                // The terminal closed during the command, or a host of an older version has discarded the result.
                let outcome_unknown = matches!(error, RunError::Gone(_) | RunError::Forgotten).then_some(true);
                RunCommandReply { session_id, outcome_unknown, ..failure_reply(secrets.masked(error.to_string())) }
            }
            Err(TerminalError::HostRequest(error)) => {
                self.failure_reply_for(terminal.id().as_str(), error.into(), step.as_deref()).await
            }
        }
    }

    fn to_reply(&self, terminal: &HostedTerminal, result: CommandResult) -> RunCommandReply {
        let session_id = Some(terminal.id().to_string());
        let request = result.asks;
        let error = match (&result.ended, &result.replaced_by) {
            (Some(exit), _) => Some(format!("the command ended the shell, with exit code {}", exit.code)),
            (None, Some(program)) => Some(format!("{program} replaced the shell")),
            (None, None) if result.timed_out => Some(
                "timed out; the command is still running: wait with await_output until: prompt, or type into it with \
                 send_input"
                    .to_owned(),
            ),
            (None, None) if result.is_unreported => Some(UNREPORTED_END_TEXT.to_owned()),
            (None, None) if result.is_piped && request.is_none() => Some(PIPED_OUTPUT_TEXT.to_owned()),
            (None, None) => request.as_ref().map(describe_input_request),
        };
        let error = match &result.not_entered {
            Some(lines) => Some(not_entered_text(lines, error)),
            None => error,
        };
        let secrets = self.secrets.within(terminal.id());
        let password = request.as_ref().is_some_and(|request| request.password);
        let awaiting_input = request.is_some();
        let screen_content =
            request.filter(|request| request.full_screen).map(|request| secrets.masked_screen(request.screen));
        let (head, tail) = self.secrets.within(terminal.id()).masked_cut(result.output, result.tail);
        let truncated = result.left_out > 0 || result.dropped_before.is_some();
        let omitted = truncated.then_some(OmittedOutput {
            bytes: result.left_out,
            offset: result.next,
            tail,
            lost_before: result.dropped_before,
        });
        RunCommandReply {
            success: !result.timed_out
                && !awaiting_input
                && !result.is_unreported
                && !result.is_piped
                && result.replaced_by.is_none()
                && result.not_entered.is_none(),
            session_id,
            // Exactly as printed, with or without a final line end.
            output: head,
            omitted,
            exit_code: result.exit_code,
            timed_out: result.timed_out,
            elapsed_time: 0.0,
            error,
            offset: Some(result.offset),
            truncated,
            name: None,
            awaiting_input,
            password,
            screen_content,
            outcome_unknown: result.is_unreported.then_some(true),
            exit_code_unknown: result.lacks_exit_code && result.exit_code.is_none(),
        }
    }

    /// Reads variables of the shell in a terminal.
    #[boxed]
    pub async fn variables(&self, verb: GetVariables) -> GetVariablesReply {
        match self.query_variables(&verb).await {
            Ok((terminal, variables)) => {
                let secrets = self.secrets.within(&terminal);
                let info = |variable: Variable| VariableInfo {
                    value: secrets.masked(variable.value),
                    exported: variable.exported,
                };
                let variables = variables.into_iter().map(|(name, variable)| (name, variable.map(info))).collect();
                GetVariablesReply { success: true, variables, error: None }
            }
            Err(ShellQueryError::Busy(error) | ShellQueryError::Otherwise(error)) => {
                GetVariablesReply { error: Some(error), ..GetVariablesReply::default() }
            }
        }
    }

    /// Reads variables like [`Self::variables`], but with unmasked secrets, for a caller that does not show them.
    #[boxed]
    pub async fn unmasked_variables(
        &self,
        verb: &GetVariables,
    ) -> Result<BTreeMap<String, Option<String>>, ShellQueryError> {
        let (_, variables) = self.query_variables(verb).await?;
        Ok(variables.into_iter().map(|(name, variable)| (name, variable.map(|variable| variable.value))).collect())
    }

    async fn query_variables(
        &self,
        verb: &GetVariables,
    ) -> Result<(TerminalId, BTreeMap<String, Option<Variable>>), ShellQueryError> {
        let error = match self.find(&verb.session_id).await {
            Ok(terminal) => match terminal.variables(verb.names.clone()).await {
                Ok(variables) => return Ok((terminal.id().clone(), variables.into_iter().collect())),
                Err(TerminalError::Refused(busy @ VariablesError::Busy { .. })) => {
                    return Err(ShellQueryError::Busy(busy.to_string()));
                }
                Err(error) => error.into(),
            },
            Err(error) => error,
        };
        Err(ShellQueryError::Otherwise(self.describe_error(&verb.session_id, error).await))
    }

    /// Sets variables of the shell in a terminal.
    #[boxed]
    pub async fn set_variables(&self, caller: &Caller, verb: SetVariables) -> SetVariablesReply {
        let set = async {
            let terminal = self.find_for_input(caller, &verb.session_id).await?;
            if let Some(gate) = &caller.approved_at {
                match terminal.check_state(gate.clone()).await {
                    Err(TerminalError::Refused(what)) => {
                        return Err(RunError::Changed(what).to_string().into());
                    }
                    // A host of an older version has recorded no state.
                    Ok(()) | Err(TerminalError::HostRequest(_)) => {}
                }
            }
            let values = verb.variables.into_iter().collect();
            Ok::<_, SessionError>(terminal.set_variables(values, verb.export).await?)
        };
        let error = self.failure(&verb.session_id, set.await).await;
        SetVariablesReply { success: error.is_none(), error }
    }
}

/// Returns the reply to a step of a run whose output exceeds the maximum size of a value. It has no output and no exit
/// code, so that no later step mistakes a part for all output.
fn incomplete_output(session_id: Option<String>, result: &CommandResult) -> RunCommandReply {
    let status = match result.exit_code {
        Some(code) => format!("the command ended with exit code {code}"),
        None if result.timed_out => "the command still runs".to_owned(),
        None => "the command was run".to_owned(),
    };
    let what = format!("{status}, and its output of {} bytes", result.end.saturating_sub(result.offset));
    let advice = "redirect it to a file (get_file reads one), or keep only its head and tail with limit";
    RunCommandReply {
        session_id,
        timed_out: result.timed_out,
        offset: Some(result.offset),
        truncated: true,
        ..failure_reply(incomplete_text(&what, result.dropped_before, advice))
    }
}

/// Returns the variables of [`UNATTENDED_VARIABLES`] that the caller's environment does not set.
fn unattended_variables(caller: &Caller) -> BTreeMap<String, String> {
    let is_set = |name: &str| caller.environment.iter().any(|(key, _)| key == name);
    let unset = UNATTENDED_VARIABLES.iter().filter(|(name, _)| !is_set(name));
    unset.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Abandons the step of a client and closes the shell of its command when the request is dropped.
struct CloseOnDrop {
    sessions: Sessions,
    caller: Arc<Caller>,
    step: Option<String>,
    session_id: Option<String>,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        // When the daemon itself ends, the caller reconnects to the next daemon and finds its shell.
        if self.sessions.is_leaving_all() {
            return;
        }
        if let Some(step) = self.step.take() {
            self.sessions.give_up(&step);
        }
        if let (Some(session_id), Ok(runtime)) = (self.session_id.take(), tokio::runtime::Handle::try_current()) {
            let (sessions, caller) = (self.sessions.clone(), self.caller.clone());
            runtime.spawn(async move {
                sessions.exit(&caller, ExitTerminal { session_id, ..ExitTerminal::default() }).await;
            });
        }
    }
}

/// Describes a command that waits for input, and the next action.
fn describe_input_request(request: &InputRequest) -> String {
    let program = request.program.as_ref().map_or("the command".to_owned(), |program| format!("'{program}'"));
    let what = match request {
        InputRequest { password: true, .. } => {
            "asks for a password; let a person enter it with request_secret, or type it with send_input and secret: true"
        }
        InputRequest { full_screen: true, .. } if request.is_of_shell() => {
            "waits for input on a full screen, which a program that has ended may have left on: leave it with input_text: \
             \"tput rmcup\\n\"; type with send_input"
        }
        InputRequest { full_screen: true, .. } => "controls the screen and waits for keys; press them with send_input",
        _ => "waits for input; type it with send_input",
    };
    format!(
        "{program} {what} (until: prompt waits for the end of the command), or interrupt it with keys: [\"ctrl-c\"]"
    )
}

/// Returns the last row of the screen, if the foreground program waits for input there.
async fn find_question_row(terminal: &HostedTerminal) -> Option<String> {
    let view = terminal.view(false).await.ok().filter(|view| view.awaiting_input == Some(true))?;
    view.screen.lines().rev().map(str::trim).find(|row| !row.is_empty()).map(str::to_owned)
}

/// Returns the input request of the foreground program, such as an editor, a pager or an interpreter, if it is the
/// reason that a command was refused.
async fn input_request_in_front(terminal: &HostedTerminal, error: &RunError) -> Option<InputRequest> {
    let (RunError::Busy { program } | RunError::NotIntegrated { program }) = error else { return None };
    let view = terminal.view(false).await.ok().filter(|view| view.awaiting_input == Some(true))?;
    let full_screen = view.modes.alternate_screen;
    Some(InputRequest { program: program.clone(), full_screen, password: view.password, screen: view.screen })
}

/// Describes the untyped lines of an entry and the reason.
fn not_entered_text(lines: &str, reason: Option<String>) -> String {
    let count = lines.split('\n').count();
    let (what, verb) = if count == 1 { ("line".to_owned(), "was") } else { (format!("{count} lines"), "were") };
    let reason = reason.map_or_else(String::new, |reason| format!("; {reason}"));
    format!(
        "the last {what} of the entry {verb} not typed, because the program did not return to its prompt before{reason}"
    )
}

/// Waits until the shell of a terminal is at its prompt, before a command of a run, because the last state may have
/// matched output of a command that is still running. Returns false if the prompt does not appear.
async fn wait_for_prompt(terminal: &HostedTerminal, timeout: Duration) -> bool {
    let wait = WaitRequest {
        patterns: Vec::new(),
        target: Target::Output,
        since: None,
        until: Until::Prompt,
        input: Some(InputWait::Known),
        timeout,
        by: None,
        ..WaitRequest::default()
    };
    terminal.wait(wait).await.is_ok_and(|(waited, _)| waited.reason == Reason::Prompt)
}

/// Returns the time limit of a command; `None` if it is out of bounds.
fn command_timeout(verb: &RunCommand) -> Option<Duration> {
    let is_valid = (MIN_TIMEOUT_SECONDS..=MAX_TIMEOUT_SECONDS).contains(&verb.timeout);
    is_valid.then(|| Duration::from_secs_f64(verb.timeout))
}

fn timeout_error(seconds: f64) -> String {
    format!("timeout must be between {MIN_TIMEOUT_SECONDS} and {MAX_TIMEOUT_SECONDS} seconds, not {seconds}")
}

fn failure_reply(error: String) -> RunCommandReply {
    RunCommandReply { error: Some(error), ..RunCommandReply::default() }
}
