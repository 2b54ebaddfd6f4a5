//! Terminals of a gate: the description that a person sees, with their origins and last inputs.
//!
//! The effect of an approved command depends on the state of its terminal. So the host records the state when the gate
//! opens, and compares it before the first input after the answer.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use steplatch_host::{AskError, HostedTerminal};
use steplatch_protocol::{InputKind, InputRecord, ReadInputs, visible};
use steplatch_terminal::NotedState;

use crate::error::SessionError;
use crate::sessions::Sessions;

/// Maximum number of described terminals; further ones are only counted.
const MAX_TERMINALS: usize = 4;

/// Maximum number of shown inputs of a terminal.
const MAX_INPUTS: u32 = 8;

/// Maximum length of a shown input, in characters.
const MAX_INPUT_CHARS: usize = 160;

/// Time limit for the description of one terminal.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for the descriptions of all terminals of a gate.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(12);

/// Prefix of a line that states why a terminal is not compared.
pub const NOT_COMPARED: &str = "not compared before the next input: ";

/// A terminal that a run uses when a gate opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedTerminal {
    /// The id or name.
    pub session: String,
    /// True if the run itself opened the terminal.
    pub is_own: bool,
}

/// The terminals that a person sees at a gate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShownTerminals {
    /// Descriptions of the terminals, if any.
    pub text: Option<String>,
    /// The ids of the terminals. After the answer, the run acts only in these terminals, and in terminals that it
    /// opens.
    pub ids: Vec<String>,
}

impl Sessions {
    /// Records the states of terminals for a gate and describes them with masked secrets. `computed` holds expressions
    /// for the names of further terminals. These names are known only after the answer.
    #[boxed]
    pub async fn describe_asked(&self, gate: &str, terminals: &[AskedTerminal], computed: &[String]) -> ShownTerminals {
        let (mut lines, mut ids) = (Vec::new(), Vec::new());
        let describing = self.describe_all(gate, terminals, &mut lines, &mut ids);
        // A timeout does not prevent the gate from opening.
        if tokio::time::timeout(QUESTION_TIMEOUT, describing).await.is_err() {
            lines.push(format!("{NOT_COMPARED}terminals of the run do not answer, so the run does not act in them"));
        }
        if !computed.is_empty() {
            let names = visible(&computed.join(", "));
            lines.push(format!("{names} is known only later: it is one of these, or one that the run opens itself"));
        }
        ShownTerminals { text: (!lines.is_empty()).then(|| lines.join("\n")), ids }
    }

    /// Describes terminals and adds the ids of the found ones.
    async fn describe_all(
        &self,
        gate: &str,
        terminals: &[AskedTerminal],
        lines: &mut Vec<String>,
        ids: &mut Vec<String>,
    ) {
        let mut unlisted = Vec::new();
        for asked in terminals {
            let terminal = match self.find(&asked.session).await {
                Ok(terminal) if ids.iter().any(|known| known == terminal.id().as_str()) => continue,
                Ok(terminal) => terminal,
                Err(SessionError::HostRequest(AskError::Refused(_))) => continue,
                Err(_) => {
                    lines.push(format!("{NOT_COMPARED}'{}' does not answer", visible(&asked.session)));
                    continue;
                }
            };
            if ids.len() < MAX_TERMINALS {
                let Some(description) = self.describe_one(gate, asked, &terminal).await else { continue };
                lines.push(description);
            } else {
                // Record the state of terminals that are only named, too. Omit a terminal that does not answer.
                let recorded = tokio::time::timeout(REPORT_TIMEOUT, terminal.record_state(gate.to_owned())).await;
                if !matches!(recorded, Ok(Ok(_))) {
                    continue;
                }
                unlisted.push(match asked.session == terminal.id().as_str() {
                    true => asked.session.clone(),
                    false => format!("{} '{}'", terminal.id(), asked.session),
                });
            }
            ids.push(terminal.id().to_string());
        }
        if !unlisted.is_empty() {
            lines.push(visible(&format!("and {} more terminals of the run: {}", unlisted.len(), unlisted.join(", "))));
        }
    }

    /// Returns the id of the terminal that currently has this id or name.
    ///
    /// # Errors
    /// If there is no such terminal, or its host does not answer.
    #[boxed]
    pub async fn id_of(&self, session: &str) -> Result<String, String> {
        match self.find(session).await {
            Ok(terminal) => Ok(terminal.id().to_string()),
            Err(error) => Err(self.describe_error(session, error).await),
        }
    }

    async fn describe_one(&self, gate: &str, asked: &AskedTerminal, terminal: &HostedTerminal) -> Option<String> {
        let description = tokio::time::timeout(REPORT_TIMEOUT, terminal.describe()).await.ok()?.ok()?;
        let secrets = self.secrets.within(terminal.id());
        let name = description.name.as_deref().map(|name| format!(" '{name}'")).unwrap_or_default();
        let host = self.machine_of(terminal.id().as_str()).map(|host| format!(" on host {host}")).unwrap_or_default();
        let by = match (asked.is_own, description.opened_by) {
            (true, _) => "this run".to_owned(),
            (false, Some(by)) => by,
            (false, None) => "an unnamed program".to_owned(),
        };
        let directory =
            description.cwd.map(|directory| format!(", in {}", secrets.masked(directory))).unwrap_or_default();
        let command = secrets.masked(description.command);
        let mut lines = vec![visible(&format!("{}{name} ({command}){host}, opened by {by}{directory}", terminal.id()))];
        let inputs = self.last_inputs(terminal).await;
        lines.push(match inputs.is_empty() {
            true => "nothing was typed there so far".to_owned(),
            false => format!("typed there last: {}", inputs.join("; ")),
        });
        lines.extend(describe_noted_state(
            tokio::time::timeout(REPORT_TIMEOUT, terminal.record_state(gate.to_owned())).await.ok(),
        ));
        Some(lines.join("\n  "))
    }

    /// Returns the last inputs of a terminal, oldest first, as lines with their authors.
    async fn last_inputs(&self, terminal: &HostedTerminal) -> Vec<String> {
        let verb = ReadInputs { session_id: terminal.id().to_string(), ..ReadInputs::default() };
        let Ok(reply) = self.try_inputs(verb).await else { return vec!["not known".to_owned()] };
        let mut lines: Vec<String> =
            reply.inputs.into_iter().rev().filter_map(input_line).take(MAX_INPUTS as usize).collect();
        lines.reverse();
        lines
    }
}

/// Returns an input as one line; `None` for an entry without typed text.
fn input_line(input: InputRecord) -> Option<String> {
    let text = match input.kind {
        InputKind::Typed | InputKind::Attached | InputKind::Command | InputKind::Entered => {
            let keys = input.keys.iter().map(|key| format!("<{key}>")).collect::<String>();
            let text = format!("{}{keys}", input.text.unwrap_or_default().trim_end());
            if text.is_empty() { return None } else { text }
        }
        InputKind::Hidden => "a hidden line".to_owned(),
        InputKind::Signal => format!("signal {}", input.signal.unwrap_or_default()),
        InputKind::Wait | InputKind::Resize => return None,
    };
    let ellipsis = if text.chars().count() > MAX_INPUT_CHARS { "…" } else { "" };
    let text: String = text.chars().take(MAX_INPUT_CHARS).collect();
    let by = input.by.map(|by| format!(" ({})", visible(&by))).unwrap_or_default();
    Some(format!("{}{ellipsis}{by}", visible(&text)))
}

/// Describes the parts of the terminal that are compared before the next input.
fn describe_noted_state(state: Option<Result<NotedState, AskError>>) -> Vec<String> {
    match state {
        Some(Ok(NotedState::Shell { traps })) => {
            let mut lines = vec![
                "its directory, variables, functions, aliases, traps, keys and open files are compared before the next input"
                    .to_owned(),
            ];
            if !traps.is_empty() {
                let traps = visible(&traps.join(", "));
                lines.push(format!("it runs commands automatically at {traps}, which may change the input"));
            }
            lines
        }
        Some(Ok(NotedState::Program { program })) => {
            let program = visible(&program.unwrap_or_else(|| "a program".to_owned()));
            vec![format!(
                "{NOT_COMPARED}the state of '{program}', which waits for input; only that it is the same program"
            )]
        }
        Some(Ok(NotedState::Unknown { reason })) => vec![format!("{NOT_COMPARED}{}", visible(&reason))],
        Some(Err(error)) => vec![format!("{NOT_COMPARED}{}", visible(&error.to_string()))],
        None => vec![format!("{NOT_COMPARED}it does not answer")],
    }
}
