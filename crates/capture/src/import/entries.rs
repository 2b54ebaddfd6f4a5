//! The entries of a log, from the inputs of a recording. An entry has typed text only if the output shows the text.

use steplatch_protocol::{InputKind, InputRecord};

use super::echo::{MASKS, end_of_pasted_echo, has_pieces, is_echo, is_on_screen, rest_of_line};
use super::edit::{EditedLine, named_keys};
use super::reader::{RawInput, Recorded};
use super::secrets::{Secrets, mask_echo};
use super::{MAX_PRINTED_BYTES, floor_boundary, is_same_prompt, requests_secret, shorten};
use crate::session_log::Moment;

/// Maximum distance of the next line's echo after a pasted line, in bytes.
const MAX_PASTE_BYTES: usize = 64 << 10;

/// Maximum number of inputs before or after an input that may be parts of one typed value.
const MAX_PARTS: usize = 64;

/// Returns the log entries, and the number of inputs that are not visible in the output.
pub(super) fn log_entries(recorded: Recorded, is_shell: bool) -> (Vec<Moment>, usize) {
    let Recorded { text, mut inputs, exit, .. } = recorded;
    for input in &mut inputs {
        input.line_begin = floor_boundary(&text, input.line_begin);
        input.begin = floor_boundary(&text, input.begin).max(input.line_begin);
    }
    let prompt = inputs.iter().find(|input| input.size.is_none()).map(|input| input.row.clone()).unwrap_or_default();
    let is_prompt = |index: usize, row: &str| if is_shell { is_same_prompt(&prompt, row) } else { index == 0 };
    let at_prompt: Vec<bool> = inputs
        .iter()
        .enumerate()
        .map(|(index, input)| !input.is_full_screen && input.size.is_none() && is_prompt(index, &input.row))
        .collect();
    // Drop a final `exit`, because a machine closes its terminal itself.
    let final_exit = inputs.iter().rposition(|input| input.size.is_none()).filter(|last| is_shell && at_prompt[*last]);
    let final_exit = final_exit.filter(|last| matches!(inputs[*last].text.trim(), "exit" | "logout" | "\x04"));
    if let Some(index) = final_exit {
        inputs[index].text.clear();
    }
    let mut writer = EntryWriter {
        text: &text,
        inputs: &inputs,
        at_prompt: &at_prompt,
        is_shell,
        exit,
        echo_end: 0,
        secrets: Secrets::default(),
        hidden_count: 0,
        moments: Vec::new(),
    };
    for index in 0..inputs.len() {
        writer.add_input(index);
    }
    let last_row = text.rsplit('\n').next().unwrap_or_default();
    let is_at_prompt =
        is_shell && (final_exit.is_some() || !prompt.trim().is_empty() && is_same_prompt(&prompt, last_row));
    if is_at_prompt && !writer.moments.is_empty() {
        writer.moments.push(final_prompt_entry(&inputs, text.len()));
    }
    let EntryWriter { mut moments, secrets, hidden_count, .. } = writer;
    secrets.mask(&mut moments);
    for (index, moment) in moments.iter_mut().enumerate() {
        moment.input.number = index as u64 + 1;
    }
    (moments, hidden_count)
}

/// Returns the entry of the prompt at the end of a recording.
fn final_prompt_entry(inputs: &[RawInput], end: usize) -> Moment {
    let input = InputRecord {
        kind: InputKind::Wait,
        context: "prompt".to_owned(),
        timestamp: format_timestamp(inputs.last().map_or(0.0, |last| last.last_output_seconds.max(last.seconds))),
        offset: end as u64,
        reason: Some("prompt".to_owned()),
        ..InputRecord::default()
    };
    Moment { input, printed: String::new(), output: None }
}

/// An input, as far as it can be reconstructed from the output.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reconstruction {
    /// Text that the output shows, followed by keys.
    Typed { text: String, keys: Vec<String> },
    /// Text that the output does not show.
    Hidden { is_entered: bool },
}

/// Writer of the entries of a log.
struct EntryWriter<'r> {
    text: &'r str,
    inputs: &'r [RawInput],
    at_prompt: &'r [bool],
    is_shell: bool,
    exit: Option<i32>,
    /// End of the echo of the previous input.
    echo_end: usize,
    secrets: Secrets,
    hidden_count: usize,
    moments: Vec<Moment>,
}

impl EntryWriter<'_> {
    fn begin_of_input(&self, index: usize) -> usize {
        self.inputs.get(index).map_or(self.text.len(), |input| input.begin)
    }

    fn text_between(&self, begin: usize, end: usize) -> &str {
        self.text.get(begin..end).unwrap_or_default()
    }

    /// Adds the entries of an input.
    fn add_input(&mut self, index: usize) {
        let input = &self.inputs[index];
        if self.is_enter_of_text(index) {
            return;
        }
        let row = input.screen.as_deref().map_or_else(|| input.row.clone(), question_row);
        let mut record = InputRecord {
            timestamp: format_timestamp(input.seconds),
            offset: input.begin as u64,
            row: Some(row),
            screen: input.screen.clone(),
            elapsed_time: Some((input.last_output_seconds - input.seconds).max(0.0)),
            ..InputRecord::default()
        };
        let printed = self.text_between(input.begin, self.begin_of_input(index + 1)).to_owned();
        if let Some((cols, rows)) = input.size {
            (record.kind, record.cols, record.rows) = (InputKind::Resize, Some(cols), Some(rows));
            self.moments.push(Moment { input: record, printed: shorten(&printed), output: None });
            return;
        }
        let line = EditedLine::from_input(&input.text);
        let reconstructed = if input.is_full_screen {
            self.reconstruct_full_screen(index)
        } else {
            self.reconstruct_line(index, &line)
        };
        if reconstructed == (Reconstruction::Typed { text: String::new(), keys: Vec::new() }) {
            return;
        }
        let is_hidden = matches!(reconstructed, Reconstruction::Hidden { .. });
        let context = match (self.at_prompt[index], input.is_full_screen, is_hidden) {
            (true, ..) => "prompt",
            (_, true, _) => "full_screen",
            (_, _, true) => "password",
            _ => "program",
        };
        context.clone_into(&mut record.context);
        match reconstructed {
            Reconstruction::Typed { text, keys } => (record.text, record.keys) = (Some(text), keys),
            Reconstruction::Hidden { is_entered } => {
                record.kind = InputKind::Hidden;
                record.keys = vec!["enter".to_owned(); usize::from(is_entered)];
            }
        }
        let printed = if is_hidden { self.record_secrets(index, &line, &printed) } else { printed };
        let is_entered = self.at_prompt[index] && line.is_entered;
        let entered_line = is_entered.then(|| self.entered_line(index, &record, &printed));
        let printed = if is_entered { String::new() } else { shorten(&printed) };
        self.moments.push(Moment { input: record, printed, output: None });
        self.moments.extend(entered_line);
    }

    /// Records the values of a hidden input as secrets and returns the output without them.
    fn record_secrets(&mut self, index: usize, line: &EditedLine, printed: &str) -> String {
        let input = &self.inputs[index];
        let row = if input.is_full_screen { input.screen.as_deref().unwrap_or_default() } else { &input.row };
        self.hidden_count += usize::from(!requests_secret(row));
        let whole_line = EditedLine::from_input(&self.whole_line(index));
        for line in [line, &whole_line] {
            self.secrets.add(&line.text);
            line.pieces.iter().for_each(|piece| self.secrets.add(piece));
            if input.is_full_screen {
                // The first keys may be commands.
                let suffixes = line.text.char_indices().skip(1).take(2).map(|(start, _)| &line.text[start..]);
                suffixes.for_each(|suffix| self.secrets.add(suffix));
            }
        }
        mask_echo(&line.text, printed)
    }

    /// Returns the whole line of an input, up to Enter: a value may be typed in parts.
    fn whole_line(&self, index: usize) -> String {
        let ends_line = |input: &&RawInput| input.text.ends_with(['\r', '\n', '\x03', '\x04']);
        let before = self.inputs[..index].iter().rev().take(MAX_PARTS).take_while(|input| !ends_line(input)).count();
        let after = self.inputs[index..].iter().take(MAX_PARTS).take_while(|input| !ends_line(input)).count();
        let end = (index + after + 1).min(self.inputs.len());
        let texts = |inputs: &[RawInput]| inputs.iter().map(|input| input.text.as_str()).collect::<String>();
        let before = texts(&self.inputs[index - before..index]);
        let after = texts(&self.inputs[index..end]);
        // An input, and therefore a secret, has at most this length.
        let begin = floor_boundary(&before, before.len().saturating_sub(MAX_PRINTED_BYTES));
        format!("{}{}", &before[begin..], &after[..floor_boundary(&after, 2 * MAX_PRINTED_BYTES)])
    }

    /// Reconstructs an input to a line editor.
    fn reconstruct_line(&mut self, index: usize, line: &EditedLine) -> Reconstruction {
        let input = &self.inputs[index];
        let with_newline = |text: &str| if line.is_entered { format!("{text}\n") } else { text.to_owned() };
        let end = line.end.map(str::to_owned);
        let (line_rest, line_end) = rest_of_line(self.text, input.line_begin, input.column);
        let is_pasted = index > 0 && {
            let before = &self.inputs[index - 1];
            (before.line_begin, before.column) == (input.line_begin, input.column) && before.size.is_none()
        };
        if line.is_plain() {
            if line.text.trim().is_empty() {
                return Reconstruction::Typed { text: with_newline(&line.text), keys: end.into_iter().collect() };
            }
            let next = self.inputs[index..].iter().find(|next| next.line_begin > input.line_begin);
            let limit = next.map_or(self.text.len(), |next| next.begin);
            let echo = if is_pasted {
                let from = self.echo_end.max(input.begin);
                let limit = limit.min(floor_boundary(self.text, from + MAX_PASTE_BYTES));
                end_of_pasted_echo(self.text, from, limit, &input.row, &line.text)
            } else {
                is_echo(line_rest, &line.text).then_some(line_end)
            };
            let Some(echo_end) = echo else { return Reconstruction::Hidden { is_entered: line.is_entered } };
            self.echo_end = (echo_end + 1).min(self.text.len());
            return Reconstruction::Typed { text: with_newline(&line.text), keys: end.into_iter().collect() };
        }
        let has_echo = !is_pasted && has_pieces(line_rest, &line.pieces);
        let echoed_line = line_rest.trim_end();
        // An unnamed key may have inserted a character.
        if !has_echo || line.has_unknown_key && echoed_line.trim_matches(MASKS).is_empty() {
            return Reconstruction::Hidden { is_entered: line.is_entered };
        }
        self.echo_end = (line_end + 1).min(self.text.len());
        let enter = line.is_entered.then(|| "enter".to_owned());
        let keys: Vec<String> = line.keys.iter().cloned().chain(enter).chain(end).collect();
        let is_completed = line.is_entered && (self.at_prompt[index] || line.keys.iter().any(|key| key == "tab"));
        match line.pieces.as_slice() {
            // The editor completed the line, so it differs from the keys.
            _ if is_completed && !echoed_line.is_empty() => {
                Reconstruction::Typed { text: with_newline(echoed_line), keys: Vec::new() }
            }
            [] if !line.has_unknown_key => Reconstruction::Typed { text: String::new(), keys },
            [piece] if input.text.starts_with(piece.as_str()) && is_echo(line_rest, piece) && !line.has_unknown_key => {
                Reconstruction::Typed { text: piece.clone(), keys }
            }
            _ => Reconstruction::Hidden { is_entered: line.is_entered },
        }
    }

    /// Reconstructs an input to a full-screen program: either text or keys; the reader has split them.
    fn reconstruct_full_screen(&self, index: usize) -> Reconstruction {
        let input = &self.inputs[index];
        if let Some(keys) = named_keys(&input.text) {
            return Reconstruction::Typed { text: String::new(), keys };
        }
        if !input.text.starts_with(|character: char| !character.is_control()) {
            // Some terminals send characters as escape sequences.
            return if is_motion(&input.text) {
                Reconstruction::Typed { text: input.text.clone(), keys: Vec::new() }
            } else {
                Reconstruction::Hidden { is_entered: input.text.ends_with(['\r', '\n']) }
            };
        }
        let is_entered = self.is_entered_on_screen(index);
        let before = input.screen.as_deref().unwrap_or_default();
        let after = self.inputs.get(index + 1).and_then(|next| next.screen.as_deref()).unwrap_or_default();
        if input.screen.is_some() && is_on_screen(&input.text, before, after, &input.drawn) {
            Reconstruction::Typed {
                text: format!("{}{}", input.text, if is_entered { "\n" } else { "" }),
                keys: Vec::new(),
            }
        } else {
            Reconstruction::Hidden { is_entered }
        }
    }

    /// Returns whether Enter alone follows text for a full-screen program.
    fn is_entered_on_screen(&self, index: usize) -> bool {
        let next = self.inputs.get(index + 1);
        next.is_some_and(|next| next.is_full_screen && matches!(next.text.as_str(), "\r" | "\n"))
    }

    /// Returns whether an input is the Enter after text for a full-screen program.
    fn is_enter_of_text(&self, index: usize) -> bool {
        let before = index.checked_sub(1).map(|before| &self.inputs[before]);
        let is_text = |input: &RawInput| {
            input.is_full_screen && input.text.starts_with(|character: char| !character.is_control())
        };
        before.is_some_and(is_text) && self.is_entered_on_screen(index - 1)
    }

    /// Returns the entry of a line that a shell accepted.
    fn entered_line(&self, index: usize, record: &InputRecord, printed: &str) -> Moment {
        let input = &self.inputs[index];
        let next = (index + 1..self.inputs.len()).find(|next| self.at_prompt[*next]);
        let output_end = next.map(|next| self.begin_of_input(next)).or_else(|| self.exit.map(|_| self.text.len()));
        let output = self.text_between(input.begin, output_end.unwrap_or(self.text.len()));
        let output = output.split_once('\n').map_or("", |(_, rest)| rest);
        // Drop the trailing prompt; it is not part of the output.
        let output = if next.is_some() { output.rsplit_once('\n').map_or("", |(rest, _)| rest) } else { output };
        let inputs = &self.inputs[index..next.unwrap_or(self.inputs.len())];
        let last_output_seconds = inputs.last().map_or(0.0, |last| last.last_output_seconds);
        let line = record.text.as_ref().map(|text| text.trim_end_matches('\n').to_owned());
        let record = InputRecord {
            kind: InputKind::Entered,
            context: "prompt".to_owned(),
            text: line,
            keys: Vec::new(),
            reason: Some(if output_end.is_some() { "ended" } else { "running" }.to_owned()),
            elapsed_time: Some((last_output_seconds - input.seconds).max(0.0)),
            output_begin: output_end.map(|_| input.begin as u64),
            output_end: output_end.map(|end| end as u64),
            exit_code: self.exit.filter(|_| next.is_none() && !self.is_shell),
            ..record.clone()
        };
        Moment { input: record, printed: shorten(printed), output: Some(shorten(output)) }
    }
}

/// Returns the row of a screen that asks a question, if there is one.
fn question_row(screen: &str) -> String {
    let rows: Vec<&str> = screen.lines().map(crate::question::without_frame).collect();
    let is_question = |row: &&&str| row.trim_end().ends_with(['?', ':']);
    let row = rows.iter().rfind(|row| requests_secret(row)).or_else(|| rows.iter().rfind(is_question));
    row.map(|row| row.trim().to_owned()).unwrap_or_default()
}

/// Returns whether the sequences are only cursor and function keys, without encoded characters.
fn is_motion(sequences: &str) -> bool {
    let mut parts = sequences.split('\x1b').skip(1);
    parts.all(|part| {
        let is_modified = part.starts_with("[27;");
        let end = part.trim_end_matches(|character: char| character.is_control()).chars().next_back();
        !is_modified && end.is_some_and(|end| matches!(end, 'A'..='H' | 'P'..='S' | 'Z' | '~'))
    })
}

/// Formats seconds since the start of a recording as ISO 8601, counted from 1970-01-01.
fn format_timestamp(seconds: f64) -> String {
    let milliseconds = (seconds.clamp(0.0, 86_399.0) * 1000.0) as u64;
    let (seconds, fraction) = (milliseconds / 1000, milliseconds % 1000);
    format!("1970-01-01T{:02}:{:02}:{:02}.{fraction:03}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
