//! The log of a terminal's inputs.

use async_recursion::async_recursion as boxed;
use steplatch_access::Redactor;
use steplatch_clock::system_iso8601;
use steplatch_protocol::{InputKind, InputRecord, ReadInputs, ReadInputsReply};
use steplatch_terminal::{CommandOutcome, InputContext, LoggedAction, LoggedInput, LoggedText, Reason};

use crate::error::SessionError;
use crate::sessions::Sessions;

impl Sessions {
    /// Returns the inputs of a terminal, with secrets redacted.
    #[boxed]
    pub async fn inputs(&self, verb: ReadInputs) -> ReadInputsReply {
        let session_id = verb.session_id.clone();
        match self.try_inputs(verb).await {
            Ok(reply) => reply,
            Err(error) => {
                let error = Some(self.describe_error(&session_id, error).await);
                ReadInputsReply { session_id, error, ..ReadInputsReply::default() }
            }
        }
    }

    pub(crate) async fn try_inputs(&self, verb: ReadInputs) -> Result<ReadInputsReply, SessionError> {
        let terminal = self.find(&verb.session_id).await?;
        // Read all inputs, because a secret may begin before the requested inputs.
        let mut inputs = terminal.inputs(0).await?;
        let secrets = self.secrets.within(terminal.id());
        mask_typed(&mut inputs, &secrets);
        let from = verb.from.unwrap_or(0);
        inputs.retain(|input| input.number >= from);
        let limit = verb.limit.map_or(usize::MAX, |limit| limit as usize);
        // Keep the newest inputs.
        let skipped = inputs.len().saturating_sub(limit);
        let inputs = inputs.into_iter().skip(skipped).map(|input| to_input_record(input, &secrets)).collect();
        Ok(ReadInputsReply { success: true, session_id: terminal.id().to_string(), inputs, error: None })
    }
}

/// Hides secrets in typed text. Includes secrets over several inputs, and parts of secrets at the beginning of the log
/// or at the cut end of a text.
fn mask_typed(inputs: &mut [LoggedInput], secrets: &Redactor) {
    let is_cut_off = inputs.first().is_some_and(|oldest| oldest.number > 1);
    let mut joined = String::new();
    let mut ranges = Vec::new();
    for input in inputs.iter() {
        let begin = joined.len();
        match &input.action {
            LoggedAction::Typed { text, keys } => {
                joined.push_str(&text.text);
                ranges.push(begin..joined.len());
                if !keys.is_empty() {
                    // A key ends the typed text, because a secret has no line end.
                    joined.push('\n');
                }
            }
            LoggedAction::Attached { bytes } => {
                joined.push_str(&bytes.text);
                ranges.push(begin..joined.len());
            }
            _ => {}
        }
    }
    let reach = secrets.reach();
    let texts = inputs.iter_mut().filter_map(|input| match &mut input.action {
        LoggedAction::Typed { text, .. } | LoggedAction::Attached { bytes: text } => Some(text),
        _ => None,
    });
    for (index, (text, range)) in texts.zip(ranges).enumerate() {
        // A secret that overlaps the text is within this window.
        let begin = joined.floor_char_boundary(range.start.saturating_sub(reach));
        let end = joined.ceil_char_boundary((range.end + reach).min(joined.len()));
        text.text = secrets.masked_portion(&joined[begin..end], range.start - begin..range.end - begin);
        if text.cut || (index == 0 && is_cut_off) {
            text.text = secrets.masked_fragment(std::mem::take(&mut text.text));
        }
    }
}

fn to_input_record(logged: LoggedInput, secrets: &Redactor) -> InputRecord {
    let LoggedInput {
        number,
        time,
        client,
        offset,
        context,
        screen,
        highlighted,
        awaited,
        reads_lines,
        directory,
        duration,
        action,
    } = logged;
    let (context, row) = match context {
        InputContext::Prompt => ("prompt", None),
        InputContext::FullScreen => ("full_screen", None),
        InputContext::Password { row } => ("password", Some(row)),
        InputContext::Program { row } => ("program", Some(row)),
    };
    let masked = |LoggedText { text, cut }: LoggedText| {
        let text = if cut { secrets.masked_fragment(text) } else { secrets.masked(text) };
        Some(text).filter(|text| !text.is_empty())
    };
    let cut = is_cut(&action);
    let record = InputRecord {
        number,
        timestamp: system_iso8601(time),
        by: client.map(|client| secrets.masked(client)),
        offset,
        context: context.to_owned(),
        row: row.filter(|row| !row.is_empty()).map(|row| secrets.masked_fragment(row)),
        screen: screen.map(|screen| secrets.masked_screen(screen)),
        highlighted: highlighted.into_iter().map(|text| secrets.masked_fragment(text)).collect(),
        awaited,
        reads_lines,
        directory: directory.map(|directory| secrets.masked(directory)),
        elapsed_time: duration.map(|duration| (duration.as_secs_f64() * 1e3).round() / 1e3),
        cut,
        ..InputRecord::default()
    };
    match action {
        LoggedAction::Typed { text, keys } => {
            // The name of a mouse action may have a text of the screen.
            let keys = keys.into_iter().map(|key| if key.len() > 1 { secrets.masked(key) } else { key }).collect();
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
            add_outcome(record, outcome, secrets)
        }
        LoggedAction::Entered { line, outcome } => {
            let record = InputRecord { kind: InputKind::Entered, text: line.and_then(masked), ..record };
            add_outcome(record, outcome, secrets)
        }
        LoggedAction::Waited { patterns, reason, matched, until } => InputRecord {
            kind: InputKind::Wait,
            pattern: matched
                .as_ref()
                .and_then(|(index, _)| patterns.get(*index))
                .map(|pattern| secrets.masked(pattern.clone())),
            patterns: patterns.into_iter().map(|pattern| secrets.masked(pattern)).collect(),
            reason: Some(reason_name(reason).to_owned()),
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

fn add_outcome(record: InputRecord, outcome: Option<CommandOutcome>, secrets: &Redactor) -> InputRecord {
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

fn reason_name(reason: Reason) -> &'static str {
    match reason {
        Reason::Match => "match",
        Reason::Prompt => "prompt",
        Reason::Exit => "exit",
        Reason::Quiet => "quiet",
        Reason::Input => "input",
        Reason::Timeout => "timeout",
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn logged(number: u64, action: LoggedAction) -> LoggedInput {
        let context = InputContext::Program { row: String::new() };
        let (client, screen, awaited, directory, duration) = (None, None, None, None, None);
        LoggedInput {
            number,
            time: SystemTime::UNIX_EPOCH,
            client,
            offset: 0,
            context,
            screen,
            highlighted: Vec::new(),
            awaited,
            reads_lines: false,
            directory,
            duration,
            action,
        }
    }

    fn typed(text: &str, keys: &[&str]) -> LoggedAction {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        LoggedAction::Typed { text: LoggedText { text: text.to_owned(), cut: false }, keys }
    }

    /// Returns the text of the entries, with secrets masked.
    fn shown_texts(mut inputs: Vec<LoggedInput>, secrets: &Redactor) -> Vec<String> {
        mask_typed(&mut inputs, secrets);
        inputs.into_iter().map(|input| to_input_record(input, secrets).text.unwrap_or_default()).collect()
    }

    fn secrets() -> Redactor {
        let secrets = Redactor::default();
        secrets.add("hunter2-is-long");
        secrets
    }

    #[test]
    fn secret_split_over_inputs_is_hidden_in_each() {
        let attached = |text: &str| LoggedAction::Attached { bytes: LoggedText { text: text.to_owned(), cut: false } };
        let inputs = vec![
            logged(1, typed("login hun", &[])),
            logged(2, LoggedAction::Signalled(2)),
            logged(3, typed("ter2-is", &[])),
            logged(4, attached("-long\recho ä")),
        ];
        assert_eq!(shown_texts(inputs, &secrets()), ["login ••••••", "", "••••••", "••••••\recho ä"]);
        let apart = vec![logged(1, typed("hun", &["enter"])), logged(2, typed("ter2-is-long", &[]))];
        // Masked like a text divided by line ends.
        assert_eq!(shown_texts(apart, &secrets()), ["••••••", "••••••"]);
    }

    #[test]
    fn remainder_of_a_cut_secret_is_hidden() {
        let secrets = secrets();
        let cut = LoggedAction::Command {
            command: LoggedText { text: "login hunter2-is".to_owned(), cut: true },
            directory: None,
            outcome: None,
        };
        assert_eq!(shown_texts(vec![logged(1, cut)], &secrets), ["login ••••••"]);
        // The beginning of the log was dropped.
        assert_eq!(shown_texts(vec![logged(9, typed("is-long\n", &[]))], &secrets), ["••••••\n"]);
        for (row, expected) in
            [("2-is-long more? ", "•••••• more? "), ("ter2-is", "••••••"), ("key? hunter2", "key? ••••••")]
        {
            let context = InputContext::Program { row: row.to_owned() };
            let input = LoggedInput { context, ..logged(1, typed("", &[])) };
            assert_eq!(to_input_record(input, &secrets).row.as_deref(), Some(expected));
        }
    }

    #[test]
    fn secret_is_hidden_wherever_it_is_split() {
        let text = "x hunter2-is-long y";
        for at in 0..text.len() {
            for to in at..text.len() {
                let pieces = [&text[..at], &text[at..to], &text[to..]];
                let inputs = pieces.iter().zip(1..).map(|(piece, number)| logged(number, typed(piece, &[]))).collect();
                let reported = shown_texts(inputs, &secrets()).concat();
                let rest = reported.replace("••••••", "");
                assert!(rest == "x  y", "{pieces:?}: {reported}");
            }
        }
    }
}
