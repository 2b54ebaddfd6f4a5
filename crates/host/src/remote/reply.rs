//! Checks of the replies of remote hosts.
//!
//! A terminal host on this computer runs this program. On a remote host it may be any program, and its replies may
//! contain impossible values: a screen of 65,535 columns, a match that ends before it begins, a name that contains a
//! path. Other components rely on valid values. This module replaces control characters in texts; any other invalid
//! value is an error of the request.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde_json::Value;
use steplatch_files::{DirectoryEntry, FileDigest, FileError, FileFacts, FilePiece, FileWritten, is_entry_name};
use steplatch_ids::TerminalId;
use steplatch_terminal::{
    Closed, CommandOutcome, CommandResult, Description, Excerpt, Exit, Handover, InputContext, InputError, LockHolder,
    LoggedAction, LoggedInput, LoggedText, NotedState, OutputRecording, Picture, RecordedChange, RunError, ScreenDelta,
    ScreenUpdate, Sent, Size, Variable, VariablesError, View, Waited, is_link_address,
};

use crate::wire::{AttachReply, InvalidPattern, OpenRefused, OpenedTerminal, Stage};

/// Maximum offset in the output of a terminal, so that sums of a few offsets fit into 64 bits.
const MAX_OFFSET: u64 = 1 << 60;

/// Maximum length of a file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 60;

/// Maximum length in bytes of a title, a name or a directory; longer ones are cut.
const MAX_LABEL_BYTES: usize = 4096;

/// Maximum distance of a time from the year 1970.
const MAX_TIME: Duration = Duration::from_secs(1900 * 365 * 86_400);

const IMPOSSIBLE_TIME: Reason = "a time that no clock shows";

/// Maximum length of the text at a prompt, of the lines that were not entered, and of a note, in bytes.
const MAX_TEXT_BYTES: usize = 128 << 10;

/// Maximum length of the reason of a refusal, in bytes.
const MAX_REASON_BYTES: usize = 128 << 10;

/// Maximum length of a match and of each group in it, in bytes.
const MAX_MATCH_BYTES: usize = 4 << 20;

/// Maximum number of rows of a picture: the rows of the largest screen, and as many above it.
const MAX_PICTURE_ROWS: usize = 2000;

/// Maximum number of bytes of a cell's text: a character and its combining marks.
const MAX_CELL_BYTES: usize = 256;

/// Maximum number of entries of a list.
const MAX_ENTRIES: usize = 10_000;

/// Maximum number of entries of a directory, the same as on this computer.
const MAX_DIRECTORY_ENTRIES: usize = steplatch_files::MAX_DIRECTORY_ENTRIES;

/// Maximum number of groups of a match.
const MAX_GROUPS: usize = 1000;

/// Reason why a reply is invalid, as a noun phrase.
pub(crate) type Reason = &'static str;

/// A reply of a terminal host.
pub(crate) trait Reply: DeserializeOwned + Send + 'static {
    /// Returns the reply with cleaned texts.
    ///
    /// # Errors
    /// If the reply has an impossible value.
    fn checked(self) -> Result<Self, Reason> {
        Ok(self)
    }

    /// Returns whether no text has more characters than were requested.
    fn is_within(&self, _max_chars: usize) -> bool {
        true
    }
}

macro_rules! unchecked {
    ($($reply:ty),* $(,)?) => {$(impl Reply for $reply {})*};
}

/// Implements [`Reply`] for reasons of refusals: limits the length of the reasons, and makes each of their texts one
/// line.
macro_rules! reason {
    ($($reply:ty),* $(,)?) => {$(impl Reply for $reply {
        fn checked(self) -> Result<Self, Reason> {
            ensure(self.to_string().len() <= MAX_REASON_BYTES, "a reason that is too long")?;
            let unreadable = |_| "a reason that cannot be read";
            let mut texts = serde_json::to_value(self).map_err(unreadable)?;
            check_texts(&mut texts)?;
            serde_json::from_value(texts).map_err(unreadable)
        }
    })*};
}

/// Makes each text in a value one line without disguising characters, and checks the times in the value.
fn check_texts(value: &mut Value) -> Result<(), Reason> {
    match value {
        Value::String(text) => {
            *text = text.replace('\n', "⏎");
            replace(text, is_disguise);
            Ok(())
        }
        Value::Array(values) => values.iter_mut().try_for_each(check_texts),
        Value::Object(fields) => {
            let seconds = fields.get("secs_since_epoch").and_then(Value::as_u64);
            ensure(seconds.is_none_or(|seconds| seconds < MAX_TIME.as_secs()), IMPOSSIBLE_TIME)?;
            fields.values_mut().try_for_each(check_texts)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

// These types have no texts that need cleaning.
unchecked!((), bool, u64, TerminalId, Exit, Stage, FileDigest, FilePiece);
reason!(StateChange, InvalidPattern, OpenRefused, InputError, RunError, VariablesError, FileError);

impl Reply for String {
    fn checked(self) -> Result<Self, Reason> {
        Ok(cleaned(self))
    }

    fn is_within(&self, max_chars: usize) -> bool {
        is_text_within(self, max_chars)
    }
}

impl<T: Reply> Reply for Option<T> {
    fn checked(self) -> Result<Self, Reason> {
        self.map(T::checked).transpose()
    }
}

impl<T: Reply, E: Reply> Reply for Result<T, E> {
    fn checked(self) -> Result<Self, Reason> {
        Ok(match self {
            Ok(reply) => Ok(reply.checked()?),
            Err(refused) => Err(refused.checked()?),
        })
    }

    fn is_within(&self, max_chars: usize) -> bool {
        self.as_ref().map_or(true, |reply| reply.is_within(max_chars))
    }
}

impl<A: Reply, B: Reply> Reply for (A, B) {
    fn checked(self) -> Result<Self, Reason> {
        Ok((self.0.checked()?, self.1.checked()?))
    }
}

/// Difference of a terminal from its recorded state.
#[derive(Debug, serde::Serialize, serde::Deserialize, thiserror::Error)]
#[serde(transparent)]
#[error("{0}")]
pub(crate) struct StateChange(pub(crate) String);

/// Limits and checks of a list of replies.
pub(crate) trait Listed: Reply {
    const MAX: usize = MAX_ENTRIES;

    fn check_all(_: &[Self]) -> Result<(), Reason> {
        Ok(())
    }
}

impl<T: Listed> Reply for Vec<T> {
    fn checked(self) -> Result<Self, Reason> {
        ensure(self.len() <= T::MAX, "a list that is too long")?;
        T::check_all(&self)?;
        self.into_iter().map(T::checked).collect()
    }

    fn is_within(&self, max_chars: usize) -> bool {
        self.iter().all(|reply| reply.is_within(max_chars))
    }
}

impl Listed for String {}

impl Listed for LoggedInput {
    fn check_all(inputs: &[Self]) -> Result<(), Reason> {
        let is_in_order = |pair: &[Self]| pair[0].number < pair[1].number;
        ensure(inputs.first().is_none_or(|first| first.number > 0), "an input with the number 0")?;
        ensure(inputs.windows(2).all(is_in_order), "a log of inputs that is not in order")
    }
}

impl Listed for Description {}
impl Listed for (String, Option<Variable>) {}

impl Listed for DirectoryEntry {
    const MAX: usize = MAX_DIRECTORY_ENTRIES;

    fn check_all(entries: &[Self]) -> Result<(), Reason> {
        // Skip names that are not UTF-8, because they may look alike. Copies skip them, too.
        let mut names: Vec<&str> =
            entries.iter().filter(|entry| entry.kind.is_some()).map(|entry| entry.name.as_str()).collect();
        names.sort_unstable();
        ensure(names.windows(2).all(|pair| pair[0] != pair[1]), "a directory with two entries of one name")
    }
}

fn ensure(is_possible: bool, reason: Reason) -> Result<(), Reason> {
    if is_possible { Ok(()) } else { Err(reason) }
}

fn is_text_within(text: &str, max_chars: usize) -> bool {
    text.len() <= max_chars || text.chars().count() <= max_chars
}

fn check_offset(offset: u64) -> Result<(), Reason> {
    ensure(offset <= MAX_OFFSET, "an offset that no output has")
}

fn check_range(begin: u64, end: u64) -> Result<(), Reason> {
    check_offset(end)?;
    ensure(begin <= end, "a range that ends before it begins")
}

/// Checks that a time has a year of four digits, so that it can be formatted.
fn check_time(time: SystemTime) -> Result<(), Reason> {
    ensure(is_time(time), IMPOSSIBLE_TIME)
}

fn is_time(time: SystemTime) -> bool {
    let (before, after) = (time.duration_since(UNIX_EPOCH), UNIX_EPOCH.duration_since(time));
    before.or(after).is_ok_and(|distance| distance < MAX_TIME)
}

fn check_size(size: Size) -> Result<(), Reason> {
    ensure(size.checked().is_some(), "a size that no terminal has")
}

/// Replaces control characters other than line ends. Valid texts do not contain such characters.
fn clean(text: &mut String) {
    replace(text, |sign| sign.is_control() && !matches!(sign, '\n' | '\t' | '\r' | '\u{8}'));
}

fn cleaned(mut text: String) -> String {
    clean(&mut text);
    text
}

/// Makes a text one short line without disguising characters.
pub(crate) fn label(mut text: String) -> String {
    replace(&mut text, is_disguise);
    text.truncate(text.floor_char_boundary(MAX_LABEL_BYTES));
    text
}

/// Returns whether a character affects the text around it: a control character, a line end, or a change of direction.
fn is_disguise(sign: char) -> bool {
    sign.is_control()
        || matches!(sign, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn replace(text: &mut String, is_wrong: impl Fn(char) -> bool) {
    if text.chars().any(&is_wrong) {
        *text = text.chars().map(|sign| if is_wrong(sign) { char::REPLACEMENT_CHARACTER } else { sign }).collect();
    }
}

/// Replaces control characters of a coloured screen, except in sequences that set colours.
fn clean_but_for_colours(text: &mut String) {
    let mut clean = String::with_capacity(text.len());
    let mut parts = text.split('\x1b');
    clean.push_str(&cleaned(parts.next().unwrap_or_default().to_owned()));
    for part in parts {
        let parameters = part.strip_prefix('[').unwrap_or_default();
        let length = parameters.bytes().take_while(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':')).count();
        let is_colour = parameters.as_bytes().get(length) == Some(&b'm');
        clean.push(if is_colour { '\x1b' } else { char::REPLACEMENT_CHARACTER });
        clean.push_str(&cleaned(part.to_owned()));
    }
    *text = clean;
}

/// Checks a text that quotes an input.
fn clean_quote(text: Option<String>) -> Result<Option<String>, Reason> {
    ensure(text.as_ref().is_none_or(|text| text.len() <= MAX_TEXT_BYTES), "a text that is too long")?;
    Ok(text.map(cleaned))
}

impl Reply for View {
    fn checked(mut self) -> Result<Self, Reason> {
        clean(&mut self.screen);
        check_view(self)
    }
}

/// A [`View`] whose screen has colours.
#[derive(Debug, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct ColouredView(pub(crate) View);

impl Reply for ColouredView {
    fn checked(mut self) -> Result<Self, Reason> {
        clean_but_for_colours(&mut self.0.screen);
        Ok(Self(check_view(self.0)?))
    }
}

fn check_view(view: View) -> Result<View, Reason> {
    check_size(view.size)?;
    check_offset(view.end)?;
    let cells = usize::from(view.size.cols) * usize::from(view.size.rows);
    let rows = view.screen.bytes().filter(|byte| *byte == b'\n').count();
    let is_within = view.screen.len() <= cells * MAX_CELL_BYTES && rows <= usize::from(view.size.rows);
    ensure(is_within, "a screen that is larger than its size")?;
    let mut cursor = view.cursor;
    cursor.row = cursor.row.min(view.size.rows - 1);
    cursor.col = cursor.col.min(view.size.cols);
    Ok(View {
        cursor,
        title: label(view.title),
        cwd: view.cwd.map(label),
        name: view.name.map(label),
        typed: clean_quote(view.typed)?,
        ..view
    })
}

impl Reply for Picture {
    fn checked(mut self) -> Result<Self, Reason> {
        let height = self.rows.len();
        check_picture(&mut self, height)?;
        Ok(self)
    }
}

/// Checks a picture of `height` rows.
fn check_picture(picture: &mut Picture, height: usize) -> Result<(), Reason> {
    let cols = picture.cols;
    ensure((1..=*Size::BOUNDS.end()).contains(&cols), "a picture without columns, or with too many")?;
    ensure((1..=MAX_PICTURE_ROWS).contains(&height), "a picture without rows, or with too many")?;
    ensure(picture.palette.len() <= 256, "a palette with too many colours")?;
    picture.cursor = picture.cursor.filter(|cursor| usize::from(cursor.row) < height && cursor.col < cols);
    for row in &mut picture.rows {
        let mut end = 0;
        for run in row {
            ensure(run.cols > 0 && run.col >= end, "cells on top of each other")?;
            end = run.col.checked_add(run.cols).filter(|end| *end <= cols).ok_or("cells beside the screen")?;
            ensure(run.text.len() <= usize::from(run.cols) * MAX_CELL_BYTES, "more text than fits in its cells")?;
            replace(&mut run.text, char::is_control);
            run.link = run.link.take().filter(|link| is_link_address(link));
        }
    }
    Ok(())
}

impl Reply for ScreenUpdate {
    fn checked(mut self) -> Result<Self, Reason> {
        self.title = label(self.title);
        self.picture = self.picture.checked()?;
        Ok(self)
    }
}

impl Reply for ScreenDelta {
    fn checked(mut self) -> Result<Self, Reason> {
        let height = self.height;
        ensure(Size::BOUNDS.contains(&height), "a size that no terminal has")?;
        match &self.rows {
            Some(rows) => {
                ensure(rows.len() == self.update.picture.rows.len(), "rows without their numbers")?;
                ensure(rows.windows(2).all(|pair| pair[0] < pair[1]), "rows that are not in order")?;
                ensure(rows.last().is_none_or(|last| *last < height), "rows below the screen")?;
            }
            None => ensure(self.update.picture.rows.len() == usize::from(height), "rows that are missing")?,
        }
        self.update.title = label(self.update.title);
        check_picture(&mut self.update.picture, height.into())?;
        Ok(self)
    }
}

impl Reply for Excerpt {
    fn checked(mut self) -> Result<Self, Reason> {
        [self.left_out, self.next].into_iter().chain(self.dropped_before).try_for_each(check_offset)?;
        clean(&mut self.head);
        clean(&mut self.before);
        self.tail = self.tail.map(cleaned);
        if let Some(rows) = &mut self.rows {
            ensure(rows.len() <= MAX_PICTURE_ROWS, "more rows than are asked for")?;
            rows.iter_mut().for_each(|line| replace(&mut line.text, char::is_control));
        }
        Ok(self)
    }

    fn is_within(&self, max_chars: usize) -> bool {
        [Some(&self.head), self.tail.as_ref()].into_iter().flatten().all(|text| is_text_within(text, max_chars))
    }
}

impl Reply for Sent {
    fn checked(mut self) -> Result<Self, Reason> {
        check_offset(self.offset)?;
        self.view = self.view.checked()?;
        Ok(self)
    }
}

impl Reply for Waited {
    fn checked(mut self) -> Result<Self, Reason> {
        check_offset(self.offset)?;
        self.missed_before.map_or(Ok(()), check_offset)?;
        if let Some(found) = &mut self.found {
            found.range.as_ref().map_or(Ok(()), |found| check_range(found.start, found.end))?;
            ensure(found.groups.len() <= MAX_GROUPS, "a match with too many groups")?;
            let max_length = found.groups.iter().flatten().chain([&found.text]).map(String::len).max();
            ensure(max_length.is_none_or(|max_length| max_length <= MAX_MATCH_BYTES), "a match that is too long")?;
            clean(&mut found.text);
            found.groups.iter_mut().flatten().for_each(clean);
        }
        self.replaced_by = self.replaced_by.map(label);
        Ok(self)
    }
}

impl Reply for CommandResult {
    fn checked(mut self) -> Result<Self, Reason> {
        check_range(self.offset, self.end)?;
        [self.left_out, self.next].into_iter().chain(self.dropped_before).try_for_each(check_offset)?;
        clean(&mut self.output);
        self.tail = self.tail.map(cleaned);
        self.not_entered = clean_quote(self.not_entered)?;
        self.replaced_by = self.replaced_by.map(label);
        if let Some(asks) = &mut self.asks {
            clean(&mut asks.screen);
            asks.program = asks.program.take().map(label);
        }
        Ok(self)
    }

    fn is_within(&self, max_chars: usize) -> bool {
        [Some(&self.output), self.tail.as_ref()].into_iter().flatten().all(|text| is_text_within(text, max_chars))
    }
}

impl Reply for Description {
    fn checked(self) -> Result<Self, Reason> {
        check_size(self.size)?;
        [self.created, self.last_activity].into_iter().try_for_each(check_time)?;
        Ok(Self {
            command: label(self.command),
            name: self.name.map(label),
            opened_by: self.opened_by.map(label),
            title: label(self.title),
            cwd: self.cwd.map(label),
            holder: self.holder.map(LockHolder::checked).transpose()?,
            ..self
        })
    }
}

impl Reply for LockHolder {
    fn checked(self) -> Result<Self, Reason> {
        check_time(self.since)?;
        Ok(Self { name: label(self.name), ..self })
    }
}

impl Reply for Handover {
    fn checked(mut self) -> Result<Self, Reason> {
        check_range(self.from, self.to)?;
        check_time(self.until)?;
        self.holder = self.holder.checked()?;
        self.note = clean_quote(self.note)?;
        Ok(self)
    }
}

impl Reply for NotedState {
    fn checked(self) -> Result<Self, Reason> {
        Ok(match self {
            Self::Shell { traps } => {
                ensure(traps.len() <= MAX_ENTRIES, "more traps than there are events")?;
                Self::Shell { traps: traps.into_iter().map(label).collect() }
            }
            Self::Program { program } => Self::Program { program: program.map(label) },
            Self::Unknown { reason } => Self::Unknown { reason: label(reason) },
        })
    }
}

impl Reply for (String, Option<Variable>) {}

impl Reply for Closed {
    fn checked(mut self) -> Result<Self, Reason> {
        ensure(self.survivors.len() <= MAX_ENTRIES, "a list that is too long")?;
        for survivor in &mut self.survivors {
            survivor.name = label(std::mem::take(&mut survivor.name));
        }
        Ok(self)
    }
}

impl Reply for LoggedInput {
    fn checked(mut self) -> Result<Self, Reason> {
        check_offset(self.offset)?;
        check_time(self.time)?;
        self.client = self.client.map(label);
        self.screen = self.screen.map(cleaned);
        self.highlighted.iter_mut().for_each(clean);
        self.directory = self.directory.map(label);
        if let InputContext::Password { row } | InputContext::Program { row } = &mut self.context {
            clean(row);
        }
        match &mut self.action {
            // Keep the control characters of typed input, because they are keys.
            LoggedAction::Typed { keys, .. } => keys.iter_mut().for_each(|key| replace(key, is_disguise)),
            LoggedAction::Attached { .. } | LoggedAction::Hidden { .. } => {}
            LoggedAction::Command { command, directory, outcome } => {
                clean(&mut command.text);
                *directory = directory.take().map(label);
                check_outcome(outcome.as_mut())?;
            }
            LoggedAction::Entered { line, outcome } => {
                if let Some(LoggedText { text, .. }) = line {
                    clean(text);
                }
                check_outcome(outcome.as_mut())?;
            }
            LoggedAction::Waited { patterns, matched, until, .. } => {
                check_offset(*until)?;
                patterns.iter_mut().for_each(clean);
                if let Some((_, LoggedText { text, .. })) = matched {
                    clean(text);
                }
            }
            LoggedAction::Resized(to) => check_size(*to)?,
            LoggedAction::Signalled(_) => {}
        }
        Ok(self)
    }
}

fn check_outcome(outcome: Option<&mut CommandOutcome>) -> Result<(), Reason> {
    match outcome {
        None => Ok(()),
        Some(CommandOutcome::Refused(reason)) => {
            replace(reason, is_disguise);
            Ok(())
        }
        Some(CommandOutcome::Ended { begin, end, .. }) => check_range(*begin, *end),
        Some(CommandOutcome::Left { begin, .. }) => check_offset(*begin),
    }
}

impl Reply for OpenedTerminal {
    fn checked(self) -> Result<Self, Reason> {
        ensure(self.pid > 0, "a program without a process")?;
        Ok(self)
    }
}

impl Reply for AttachReply {
    fn checked(self) -> Result<Self, Reason> {
        check_size(self.size)?;
        Ok(self)
    }
}

impl Reply for OutputRecording {
    fn checked(self) -> Result<Self, Reason> {
        for event in &self.events {
            ensure(Duration::from_millis(event.at_millis) < MAX_TIME, IMPOSSIBLE_TIME)?;
            if let RecordedChange::Resized(size) = event.change {
                check_size(size)?;
            }
        }
        Ok(self)
    }
}

impl Reply for DirectoryEntry {
    fn checked(self) -> Result<Self, Reason> {
        ensure(is_entry_name(&self.name), "a directory with an entry whose name is not a name of a file")?;
        ensure(self.size <= MAX_FILE_BYTES, "a file that is larger than any file system")?;
        Ok(self)
    }
}

impl Reply for FileFacts {
    fn checked(self) -> Result<Self, Reason> {
        ensure(self.size <= MAX_FILE_BYTES, "a file that is larger than any file system")?;
        // Omit a time that cannot be formatted; a file may have any time.
        let modified = self.modified.filter(|modified| is_time(*modified));
        Ok(Self { path: label(self.path), mode: self.mode & 0o7777, modified, ..self })
    }
}

impl Reply for FileWritten {
    fn checked(self) -> Result<Self, Reason> {
        Ok(Self { path: label(self.path), mode: self.mode & 0o7777, ..self })
    }
}
