//! Terminal text for a capture: the log of inputs, and the output between its entries.

use std::ops::Range;

use async_recursion::async_recursion as boxed;
use steplatch_access::Redactor;
use steplatch_capture::{Moment, SessionLog};
use steplatch_protocol::{InputKind, InputRecord, ReadInputs};

use crate::error::SessionError;
use crate::sessions::Sessions;

/// Maximum number of characters of the output after one entry; longer output is cut in the middle.
const MAX_ENTRY_CHARS: usize = 32 << 10;

/// Text that the host writes in place of the middle of a long piece.
const CUT_TEXT: &str = "\n…\n";

/// Range of log entries to capture.
#[derive(Debug, Clone, Default)]
pub struct CaptureRange {
    /// The number of the first entry.
    pub from: Option<u64>,
    /// The number of the last entry.
    pub to: Option<u64>,
    /// Only entries since this time (ISO 8601, UTC).
    pub since: Option<String>,
    /// Only this number of the newest inputs at a prompt, with the entries after them.
    pub last: Option<u32>,
}

impl Sessions {
    /// Returns the log of a terminal, with secrets redacted.
    ///
    /// # Errors
    /// A message, if there is no such terminal or its log cannot be read.
    #[boxed]
    pub async fn session_log(&self, session_id: &str, part: CaptureRange) -> Result<SessionLog, String> {
        match self.try_session_log(session_id, part).await {
            Ok(log) => Ok(log),
            Err(error) => Err(self.describe_error(session_id, error).await),
        }
    }

    async fn try_session_log(&self, session_id: &str, part: CaptureRange) -> Result<SessionLog, SessionError> {
        let terminal = self.find(session_id).await?;
        let verb = ReadInputs { session_id: session_id.to_owned(), from: part.from, limit: None };
        let mut inputs = self.try_inputs(verb).await?.inputs;
        let end_index = part.to.map(|to| inputs.partition_point(|input| input.number <= to));
        let end_offset = end_index.and_then(|index| inputs.get(index)).map(|input| input.offset);
        inputs.truncate(end_index.unwrap_or(inputs.len()));
        if let Some(since) = part.since {
            inputs.retain(|input| input.timestamp >= since);
        }
        if let Some(last) = part.last {
            inputs.drain(..last_lines_start(&inputs, last as usize));
        }
        let description = terminal.describe().await?;
        let secrets = self.secrets.within(terminal.id());
        let end_offsets = inputs.iter().skip(1).map(|input| input.offset).chain([end_offset.unwrap_or(u64::MAX)]);
        let mut ranges: Vec<(u64, u64)> = inputs.iter().map(|input| input.offset).zip(end_offsets).collect();
        let outputs: Vec<Option<usize>> = inputs.iter().map(|input| add_output_range(input, &mut ranges)).collect();
        let pieces = terminal.pieces(ranges, MAX_ENTRY_CHARS).await?;
        let pieces: Vec<String> = pieces.into_iter().map(|piece| mask_piece(piece, &secrets)).collect();
        // A secret may extend over two inputs.
        let text_of_all = pieces[..inputs.len().min(pieces.len())].concat();
        let mut end = 0;
        let entry_range = |piece: &String| {
            let begin = end;
            end += piece.len();
            begin..end
        };
        let entry_ranges: Vec<Range<usize>> = pieces.iter().take(inputs.len()).map(entry_range).collect();
        let text = |index: usize| match entry_ranges.get(index) {
            Some(entry_range) => secrets.masked_portion(&text_of_all, entry_range.clone()),
            None => pieces.get(index).cloned().unwrap_or_default(),
        };
        let moments = inputs.into_iter().zip(outputs).enumerate();
        let moments =
            moments.map(|(index, (input, output))| Moment { input, printed: text(index), output: output.map(text) });
        Ok(SessionLog {
            terminal: terminal.id().to_string(),
            shell: secrets.masked(description.command),
            directory: description.cwd.map(|directory| secrets.masked(directory)).unwrap_or_default(),
            moments: moments.collect(),
            is_imported: false,
        })
    }
}

/// Returns the start index of the newest `count` lines at a prompt.
fn last_lines_start(inputs: &[InputRecord], count: usize) -> usize {
    let is_line = |input: &InputRecord| match input.kind {
        InputKind::Command => true,
        InputKind::Typed | InputKind::Attached | InputKind::Hidden => input.context == "prompt",
        InputKind::Entered | InputKind::Wait | InputKind::Resize | InputKind::Signal => false,
    };
    let lines = inputs.iter().enumerate().filter(|(_, input)| is_line(input)).map(|(index, _)| index);
    let lines: Vec<usize> = lines.collect();
    lines.len().checked_sub(count).and_then(|from| lines.get(from).copied()).unwrap_or(if count == 0 {
        inputs.len()
    } else {
        0
    })
}

/// Masks the secrets of a piece of output, including secrets over several lines and secrets that the cut divides.
fn mask_piece(piece: String, secrets: &Redactor) -> String {
    match piece.split_once(CUT_TEXT) {
        Some((head, tail)) => {
            let (head, tail) = secrets.masked_cut(head.to_owned(), Some(tail.to_owned()));
            let (head, tail) = (secrets.masked_screen(head), secrets.masked_screen(tail.unwrap_or_default()));
            format!("{head}{CUT_TEXT}{tail}")
        }
        None => secrets.masked_screen(piece),
    }
}

/// Adds the range of a command's output and returns its index.
fn add_output_range(input: &InputRecord, ranges: &mut Vec<(u64, u64)>) -> Option<usize> {
    let is_command = matches!(input.kind, InputKind::Command | InputKind::Entered);
    let range = input.output_begin.zip(input.output_end).filter(|_| is_command)?;
    ranges.push(range);
    Some(ranges.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multi_line_secret_is_hidden_in_a_piece() {
        let secrets = Redactor::default();
        secrets.add("hunter2-is-long");
        let piece = |text: &str| mask_piece(text.to_owned(), &secrets);
        // Rows keep their width; each part of a cut piece is a mask.
        for (printed, hidden, masked) in [
            ("the key hunter2-is-long\n", "the key ••••••\n", "the key ••••••\n"),
            (
                "the key hunter2-\nis-long\nthat is all\n",
                "the key ••••••••\n•••••••\nthat is all\n",
                "the key ••••••\n••••••\nthat is all\n",
            ),
            ("hunter\n2-is-l\nong", "••••••\n••••••\n•••", "••••••\n••••••\n••••••"),
            ("ä hunter2-is\n-long\nb hunter2-is-long", "ä ••••••••••\n•••••\nb ••••••", "ä ••••••\n••••••\nb ••••••"),
            ("hunter\nno\n", "hunter\nno\n", "hunter\nno\n"),
        ] {
            assert_eq!(piece(printed), hidden);
            let cut = format!("{printed}{CUT_TEXT}end");
            assert_eq!(piece(&cut), format!("{masked}{CUT_TEXT}end"));
        }
    }
}
