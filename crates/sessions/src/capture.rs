//! What capture reads of a terminal: the log of inputs with what was printed between its entries.

use steplatch_access::Redactor;
use steplatch_capture::{Moment, SessionLog};
use steplatch_host::HostedTerminal;
use steplatch_protocol::{InputKind, InputRecord, ReadInputs};
use steplatch_terminal::{Limit, Part, settled};

use crate::sessions::Sessions;
use crate::trouble::SessionError;

/// The most text of a terminal that is read, in bytes.
const MOST_TEXT: u64 = 8 << 20;

/// The most of it that stands behind one entry: its beginning and its end.
const MOST_AT_ONCE: usize = 64 << 10;

/// Characters that are read at once.
const WINDOW: usize = 1 << 20;

/// Which entries of the log are captured.
#[derive(Debug, Clone, Default)]
pub struct CaptureRange {
    /// The number of the first one.
    pub from: Option<u64>,
    /// The number of the last one.
    pub to: Option<u64>,
    /// Only those since this moment (ISO 8601, UTC).
    pub since: Option<String>,
    /// Only so many of the newest inputs at a prompt, with what followed them.
    pub last: Option<u32>,
}

impl Sessions {
    /// Returns the log of a terminal, with secrets redacted.
    ///
    /// # Errors
    /// In words, where there is no such terminal or it cannot be read.
    pub async fn session_log(&self, session_id: &str, part: CaptureRange) -> Result<SessionLog, String> {
        match self.try_session_log(session_id, part).await {
            Ok(log) => Ok(log),
            Err(trouble) => Err(self.words(session_id, trouble).await),
        }
    }

    async fn try_session_log(&self, session_id: &str, part: CaptureRange) -> Result<SessionLog, SessionError> {
        let terminal = self.find(session_id).await?;
        let verb = ReadInputs { session_id: session_id.to_owned(), from: part.from, limit: None };
        let mut inputs = self.try_inputs(verb).await?.inputs;
        let ends = part.to.map(|to| inputs.partition_point(|input| input.number <= to));
        let behind = ends.and_then(|ends| inputs.get(ends)).map(|input| input.offset);
        inputs.truncate(ends.unwrap_or(inputs.len()));
        if let Some(since) = part.since {
            inputs.retain(|input| input.timestamp >= since);
        }
        if let Some(last) = part.last {
            inputs.drain(..begin_of_last(&inputs, last as usize));
        }
        let description = terminal.describe().await?;
        let begin = inputs.first().map_or(0, |input| input.offset);
        let text = Text::read(&terminal, begin, behind).await?;
        let secrets = self.secrets.within(terminal.id());
        let ends: Vec<u64> =
            inputs.iter().skip(1).map(|input| input.offset).chain([behind.unwrap_or(u64::MAX)]).collect();
        let moments = inputs.into_iter().zip(ends).map(|(input, end)| {
            let printed = text.between(input.offset, end, &secrets);
            let is_command = matches!(input.kind, InputKind::Command | InputKind::Entered);
            let range = input.output_begin.zip(input.output_end).filter(|_| is_command);
            let output = range.map(|(begin, end)| text.between(begin, end, &secrets));
            Moment { input, printed, output }
        });
        Ok(SessionLog {
            terminal: terminal.id().to_string(),
            shell: secrets.masked(description.command),
            directory: description.cwd.map(|directory| secrets.masked(directory)).unwrap_or_default(),
            moments: moments.collect(),
        })
    }
}

/// Returns where the newest so many lines at a prompt begin.
fn begin_of_last(inputs: &[InputRecord], count: usize) -> usize {
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

/// Output as it was printed, from an offset on.
struct Text {
    begin: u64,
    text: String,
}

impl Text {
    /// Reads the output from `begin` on, up to `end` or to [`MOST_TEXT`].
    async fn read(terminal: &HostedTerminal, begin: u64, end: Option<u64>) -> Result<Self, SessionError> {
        let mut read = Self { begin, text: String::new() };
        let stop = end.unwrap_or(u64::MAX).min(begin + MOST_TEXT);
        let mut from = begin;
        while from < stop {
            let excerpt = terminal.read(Part::RawFrom(from), Limit::Head(WINDOW)).await?;
            if let Some(dropped) = excerpt.dropped_before.filter(|dropped| *dropped > from) {
                read = Self { begin: dropped, text: String::new() };
                from = dropped;
            }
            if excerpt.head.is_empty() {
                break;
            }
            read.text.push_str(&excerpt.head);
            from = excerpt.next.max(from + 1);
        }
        Ok(read)
    }

    /// Returns the text between two offsets as it looked in the end, without secrets.
    fn between(&self, begin: u64, end: u64, secrets: &Redactor) -> String {
        let position = |offset: u64| {
            let at = usize::try_from(offset.saturating_sub(self.begin)).unwrap_or(usize::MAX).min(self.text.len());
            (0..=at).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
        };
        let (begin, end) = (position(begin), position(end));
        let portion = secrets.masked_portion(&self.text, begin..end.max(begin));
        settled(&cut(portion))
    }
}

/// Leaves the middle of a long text out.
fn cut(text: String) -> String {
    if text.len() <= MOST_AT_ONCE {
        return text;
    }
    let is_end = |at: &usize| text.is_char_boundary(*at);
    let head = (0..=MOST_AT_ONCE / 2).rev().find(is_end).unwrap_or(0);
    let tail = (text.len() - MOST_AT_ONCE / 2..text.len()).find(is_end).unwrap_or(text.len());
    format!("{}\n…\n{}", &text[..head], &text[tail..])
}
