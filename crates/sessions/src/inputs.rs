//! Reading the log of a terminal's inputs.

use steplatch_access::Redactor;
use steplatch_clock::system_iso8601;
use steplatch_protocol::{InputKind, InputRecord, ReadInputs, ReadInputsReply};
use steplatch_terminal::{CommandOutcome, InputContext, LoggedAction, LoggedInput, LoggedText, Reason};

use crate::sessions::Sessions;
use crate::trouble::SessionError;

impl Sessions {
    /// Returns what was asked of a terminal, with secrets redacted.
    pub async fn inputs(&self, verb: ReadInputs) -> ReadInputsReply {
        let session_id = verb.session_id.clone();
        match self.try_inputs(verb).await {
            Ok(reply) => reply,
            Err(trouble) => {
                let error = Some(self.words(&session_id, trouble).await);
                ReadInputsReply { session_id, error, ..ReadInputsReply::default() }
            }
        }
    }

    pub(crate) async fn try_inputs(&self, verb: ReadInputs) -> Result<ReadInputsReply, SessionError> {
        let terminal = self.find(&verb.session_id).await?;
        let inputs = terminal.inputs(verb.from.unwrap_or(0)).await?;
        let secrets = self.secrets.within(terminal.id());
        let most = verb.limit.map_or(usize::MAX, |limit| limit as usize);
        // The newest ones.
        let from = inputs.len().saturating_sub(most);
        let inputs = inputs.into_iter().skip(from).map(|input| record(input, &secrets)).collect();
        Ok(ReadInputsReply { success: true, session_id: terminal.id().to_string(), inputs, error: None })
    }
}

fn record(logged: LoggedInput, secrets: &Redactor) -> InputRecord {
    let LoggedInput { number, at, by, offset, context, screen, directory, took, action } = logged;
    let (context, row) = match context {
        InputContext::Prompt => ("prompt", None),
        InputContext::FullScreen => ("full_screen", None),
        InputContext::Password { row } => ("password", Some(row)),
        InputContext::Program { row } => ("program", Some(row)),
    };
    let masked = |text: LoggedText| {
        let text = secrets.masked(text.text);
        Some(text).filter(|text| !text.is_empty())
    };
    let cut = is_cut(&action);
    let record = InputRecord {
        number,
        timestamp: system_iso8601(at),
        by: by.map(|by| secrets.masked(by)),
        offset,
        context: context.to_owned(),
        row: row.filter(|row| !row.is_empty()).map(|row| secrets.masked(row)),
        screen: screen.map(|screen| secrets.masked_screen(screen)),
        directory: directory.map(|directory| secrets.masked(directory)),
        elapsed_time: took.map(|took| (took.as_secs_f64() * 1e3).round() / 1e3),
        cut,
        ..InputRecord::default()
    };
    match action {
        LoggedAction::Typed { text, keys } => {
            InputRecord { kind: InputKind::Typed, text: masked(text), keys, ..record }
        }
        LoggedAction::Attached { bytes } => InputRecord { kind: InputKind::Attached, text: masked(bytes), ..record },
        LoggedAction::Hidden { entered } => {
            let keys = if entered { vec!["enter".to_owned()] } else { Vec::new() };
            InputRecord { kind: InputKind::Hidden, keys, ..record }
        }
        LoggedAction::Command { command, directory, outcome } => {
            let record = InputRecord {
                kind: InputKind::Command,
                text: masked(command),
                working_directory: directory.map(|directory| secrets.masked(directory)),
                ..record
            };
            with_outcome(record, outcome, secrets)
        }
        LoggedAction::Entered { line, outcome } => {
            let record = InputRecord { kind: InputKind::Entered, text: line.and_then(masked), ..record };
            with_outcome(record, outcome, secrets)
        }
        LoggedAction::Waited { patterns, reason, matched, until } => InputRecord {
            kind: InputKind::Wait,
            pattern: matched
                .as_ref()
                .and_then(|(index, _)| patterns.get(*index))
                .map(|one| secrets.masked(one.clone())),
            patterns: patterns.into_iter().map(|pattern| secrets.masked(pattern)).collect(),
            reason: Some(word(reason).to_owned()),
            match_text: matched.and_then(|(_, text)| masked(text)),
            output_end: Some(until),
            ..record
        },
        LoggedAction::Resized(size) => {
            InputRecord { kind: InputKind::Resize, cols: Some(size.cols), rows: Some(size.rows), ..record }
        }
        LoggedAction::Signalled(signal) => InputRecord { kind: InputKind::Signal, signal: Some(signal), ..record },
    }
}

fn with_outcome(record: InputRecord, outcome: Option<CommandOutcome>, secrets: &Redactor) -> InputRecord {
    match outcome {
        None => InputRecord { reason: Some("running".to_owned()), ..record },
        Some(CommandOutcome::Ended { exit_code, begin, end }) => InputRecord {
            reason: Some("ended".to_owned()),
            exit_code,
            output_begin: Some(begin),
            output_end: Some(end),
            ..record
        },
        Some(CommandOutcome::Left { asked, begin }) => InputRecord {
            reason: Some(if asked { "asked" } else { "timeout" }.to_owned()),
            output_begin: Some(begin),
            ..record
        },
        Some(CommandOutcome::Refused(error)) => {
            InputRecord { reason: Some("refused".to_owned()), error: Some(secrets.masked(error)), ..record }
        }
    }
}

fn is_cut(action: &LoggedAction) -> bool {
    match action {
        LoggedAction::Typed { text, .. }
        | LoggedAction::Attached { bytes: text }
        | LoggedAction::Command { command: text, .. } => text.cut,
        LoggedAction::Entered { line, .. } => line.as_ref().is_some_and(|line| line.cut),
        LoggedAction::Hidden { .. }
        | LoggedAction::Waited { .. }
        | LoggedAction::Resized(_)
        | LoggedAction::Signalled(_) => false,
    }
}

fn word(reason: Reason) -> &'static str {
    match reason {
        Reason::Match => "match",
        Reason::Prompt => "prompt",
        Reason::Exit => "exit",
        Reason::Quiet => "quiet",
        Reason::Input => "input",
        Reason::Timeout => "timeout",
    }
}
