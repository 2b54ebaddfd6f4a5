//! Printing to standard output and standard error, with colours on terminals.
//!
//! `anstream` drops colours if the output is not a terminal or `NO_COLOR` is set.

use std::fmt::{Display, Write as _};
use std::io::{self, IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
pub(crate) use steplatch_protocol::visible;
use tracing_subscriber::EnvFilter;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::translation::for_people;

/// Text in place of a secret.
pub(crate) const MASK: &str = "••••••";

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// Style of items that wait for a person.
pub(crate) const WAITS: Style = AnsiColor::Yellow.on_default();
pub(crate) const QUIET: Style = Style::new().dimmed();
pub(crate) const STRONG: Style = Style::new().bold();

/// Environment variable with the filter of logs, in the syntax of `tracing_subscriber::EnvFilter`.
pub(crate) const LOG_VARIABLE: &str = "STEPLATCH_LOG";

/// Default filter of logs. Excludes the MCP library, because it reports the disconnection of a client as an error.
pub(crate) const DEFAULT_LOG_FILTER: &str = "warn,rmcp=error,rmcp::service=off";

/// Function that replaces the filter of logs. `None` restores the filter of the command line.
type FilterSetter = Box<dyn Fn(Option<EnvFilter>) + Send + Sync>;
static FILTER_SETTER: OnceLock<FilterSetter> = OnceLock::new();

/// Initializes logging to standard error.
pub(crate) fn init_logging(is_verbose: bool) {
    let default_filter = if is_verbose { "info,steplatch=debug,rmcp=warn" } else { DEFAULT_LOG_FILTER };
    let filter = EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| default_filter.into());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    // The report of a failed write would itself go to standard error, and panic if that fails.
    let builder = builder.log_internal_errors(false).with_filter_reloading();
    let handle = builder.reload_handle();
    let set_filter = move |filter: Option<EnvFilter>| {
        // Ignore a failure: logging has ended.
        let _ = handle.reload(filter.unwrap_or_else(|| default_filter.into()));
    };
    let _ = FILTER_SETTER.set(Box::new(set_filter));
    builder.init();
}

/// Sets the filter of logs. `None` restores the filter of the command line.
pub(crate) fn set_log_filter(filter: Option<&str>) {
    if let Some(set_filter) = FILTER_SETTER.get() {
        set_filter(filter.and_then(|filter| EnvFilter::try_new(filter).ok()));
    }
}

/// Checks a filter of logs.
pub(crate) fn check_log_filter(filter: &str) -> Result<(), String> {
    EnvFilter::try_new(filter).map(drop).map_err(|error| error.to_string())
}

/// Prints a line on standard output. On a terminal, plain styles have an effect and other control characters do not.
pub(crate) fn line(text: impl Display) -> io::Result<()> {
    let text = text.to_string();
    let text = if io::stdout().is_terminal() { harmless(&text) } else { text };
    writeln!(anstream::stdout().lock(), "{text}")
}

/// Prints a prompt without a line end, so that the answer follows on the same line.
pub(crate) fn ask(question: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    write!(out, "  {QUIET}{question}{QUIET:#} ")?;
    out.flush()
}

/// Prints text from a program or agent without an additional line end. The text is unchanged, unless standard output is
/// a terminal: a terminal would interpret control characters.
pub(crate) fn unchanged(text: &str) -> io::Result<()> {
    match io::stdout().is_terminal() {
        true => bytes(harmless(text).as_bytes()),
        false => bytes(text.as_bytes()),
    }
}

/// Prints bytes unchanged.
pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Returns whether standard output has colours.
pub(crate) fn is_coloured() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// Formats lines like [`line`], for callers that write to the terminal of standard output themselves.
pub(crate) fn as_printed(lines: &[String]) -> String {
    let text: String = lines.iter().map(|line| format!("{}\n", harmless(line))).collect();
    if is_coloured() { text } else { anstream::adapter::strip_str(&text).to_string() }
}

/// Clears the terminal of standard output, including the scrollback.
pub(crate) fn clear() -> io::Result<()> {
    bytes(b"\x1b[H\x1b[2J\x1b[3J")
}

/// Prints a value as JSON on standard output.
pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
    json_text(serde_json::to_string_pretty(value).map_err(io::Error::other)?)
}

/// Prints a value as JSON on one line of standard output.
pub(crate) fn json_line(value: &impl Serialize) -> io::Result<()> {
    json_text(serde_json::to_string(value).map_err(io::Error::other)?)
}

/// Prints JSON. On a terminal, escapes C1 controls and bidirectional characters, because JSON leaves them unchanged.
fn json_text(mut text: String) -> io::Result<()> {
    if io::stdout().is_terminal() && text.chars().any(is_harmful) {
        text = escaped_json(&text);
    }
    writeln!(io::stdout().lock(), "{text}")
}

fn escaped_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match is_harmful(character) {
            true => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
            false => escaped.push(character),
        }
    }
    escaped
}

/// Returns whether a terminal would interpret a character instead of showing it. Line ends and tabs do not count.
pub(crate) fn is_harmful(character: char) -> bool {
    (character.is_control() && !matches!(character, '\n' | '\t')) || changes_direction(character)
}

/// Returns whether a character changes the direction of the text after it, and so can disguise that text.
fn changes_direction(character: char) -> bool {
    matches!(character, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Makes text safe for a terminal: line ends, tabs and plain styles stay, other control characters become symbols.
pub(crate) fn harmless(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    let mut remaining = text;
    let mut is_styled = false;
    while let Some(character) = remaining.chars().next() {
        let after = &remaining[character.len_utf8()..];
        remaining = match character {
            '\r' if after.starts_with('\n') => after,
            '\x1b' if let Some(length) = safe_style_length(after) => {
                harmless.push('\x1b');
                harmless.push_str(&after[..length]);
                is_styled = true;
                &after[length..]
            }
            _ => {
                match is_harmful(character) {
                    true => harmless.push_str(&visible(character.encode_utf8(&mut [0; 4]))),
                    false => harmless.push(character),
                }
                after
            }
        };
    }
    if is_styled && !harmless.ends_with("\x1b[0m") {
        // The next text must not inherit the styles of this text.
        harmless.push_str("\x1b[0m");
    }
    harmless
}

/// Returns the length of the style sequence after an escape if the style hides no text: bold, dim, underlined or a
/// text colour (ECMA-48, 8.3.117, SGR).
fn safe_style_length(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix('[')?;
    let end = parameters.bytes().position(|byte| !byte.is_ascii_digit() && byte != b';')?;
    let is_safe = |parameter: &str| matches!(parameter.parse(), Ok(0..=2 | 4 | 22 | 24 | 31..=37 | 39 | 90..=97));
    let are_safe = parameters[..end].split(';').all(is_safe);
    (parameters.as_bytes()[end] == b'm' && are_safe).then_some(end + 2)
}

/// Formats a number of bytes for people, in units of 1,024.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["B", "KB", "MB", "GB"];
    let exponent = (1..units.len()).take_while(|exponent| bytes >> (10 * exponent) > 0).count();
    let (integer, unit) = (bytes >> (10 * exponent), units[exponent]);
    let tenths = exponent.checked_sub(1).map_or(0, |lower| ((bytes >> (10 * lower)) & 1023) * 10 / 1024);
    if exponent > 0 && integer < 10 { format!("{integer}.{tenths} {unit}") } else { format!("{integer} {unit}") }
}

/// Prints an error for people on standard error, wrapped to its terminal.
pub(crate) fn error(message: &str) {
    const LABEL: &str = "error: ";
    let message = message_rows(&harmless(&for_people(message)), LABEL.len(), width_of(&io::stderr()));
    // Ignore a failure of standard error itself.
    let _ = writeln!(anstream::stderr().lock(), "{BAD}{}{BAD:#} {message}", LABEL.trim_end());
}

/// Prints a remark on standard error, wrapped to its terminal.
pub(crate) fn remark(message: &str) {
    let message = message_rows(&harmless(message), 0, width_of(&io::stderr()));
    let _ = writeln!(anstream::stderr().lock(), "{QUIET}{message}{QUIET:#}");
}

/// Returns the width of standard output, if it is a terminal.
pub(crate) fn width() -> Option<usize> {
    width_of(&io::stdout())
}

/// Returns the width of a stream, if it is a terminal.
fn width_of(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = stream.is_terminal().then(|| rustix::termios::tcgetwinsize(stream).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Formats a duration: `340 µs`, `12 ms`, `1.2 s`, `3 min 5 s`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 0.001 {
        format!("{} µs", time.as_micros())
    } else if seconds < 1.0 {
        format!("{} ms", time.as_millis())
    } else if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60)
    }
}

/// Returns the time between two timestamps in ISO 8601, by default until now. `None` for an invalid timestamp.
pub(crate) fn elapsed_between(begin: &str, end: Option<&str>) -> Option<Duration> {
    let begin: jiff::Timestamp = begin.parse().ok()?;
    let end = end.map_or_else(|| Ok(jiff::Timestamp::now()), str::parse).ok()?;
    // The time is zero if the clock was set back in the meantime.
    Some(Duration::try_from(end.duration_since(begin)).unwrap_or_default())
}

/// Formats a timestamp (ISO 8601) in the time zone of this process: `2026-11-26 16:14:07`.
pub(crate) fn local_time(timestamp: &str) -> String {
    local_time_in(timestamp, &jiff::tz::TimeZone::system())
}

fn local_time_in(timestamp: &str, zone: &jiff::tz::TimeZone) -> String {
    let Ok(time) = timestamp.parse::<jiff::Timestamp>() else { return visible(timestamp) };
    time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Formats a timestamp (ISO 8601): `just now`, `12 min ago`, `3 h ago`, and the date for earlier days.
pub(crate) fn ago(timestamp: &str) -> String {
    ago_at(timestamp, None)
}

/// Formats a timestamp like [`ago`]. `now` replaces the current time.
pub(crate) fn ago_at(timestamp: &str, now: Option<&str>) -> String {
    let Some(time) = elapsed_between(timestamp, now) else { return visible(timestamp) };
    match time.as_secs() {
        0..10 => "just now".to_owned(),
        seconds @ 10..60 => format!("{seconds} s ago"),
        seconds @ 60..3600 => format!("{} min ago", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => local_time(timestamp).split(' ').next().unwrap_or_default().to_owned(),
    }
}

/// Makes each line of text [`visible`]. Lines after the first begin with `indent`.
pub(crate) fn visible_lines(text: &str, indent: &str) -> String {
    let lines: Vec<String> = text.lines().map(visible).collect();
    lines.join(&format!("\n{indent}"))
}

/// Wraps text into lines of at most `max_columns` columns, between words if possible.
pub(crate) fn wrapped(text: &str, max_columns: usize) -> Vec<String> {
    text.lines().flat_map(|line| wrapped_line(&visible(line), max_columns, LongWord::Cut)).collect()
}

/// Handling of a word that is wider than a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LongWord {
    /// The word continues in the next row.
    Cut,
    /// The word stays whole and the terminal wraps it, so that people can copy an address or a path.
    Keep,
}

/// Wraps one line into rows of at most `max_columns` columns, between words if possible.
fn wrapped_line(line: &str, max_columns: usize, long_word: LongWord) -> Vec<String> {
    let mut rows = Vec::new();
    let mut row = String::new();
    for word in line.split(' ') {
        if !row.is_empty() && row.width() + 1 + word.width() > max_columns {
            rows.push(std::mem::take(&mut row));
        }
        if !row.is_empty() {
            row.push(' ');
        }
        match long_word {
            LongWord::Keep => row.push_str(word),
            LongWord::Cut => {
                for character in word.chars() {
                    if row.width() + character.width().unwrap_or(0) > max_columns {
                        rows.push(std::mem::take(&mut row));
                    }
                    row.push(character);
                }
            }
        }
    }
    rows.push(row);
    rows
}

/// Minimum width of wrapped text.
const MIN_WRAP_COLUMNS: usize = 24;

/// Makes text [`visible`] and wraps it if standard output is a terminal. Lines after the first begin with `indent`
/// spaces.
pub(crate) fn hanging(text: &str, indent: usize) -> String {
    let max_columns = width().map_or(usize::MAX, |width| width.saturating_sub(indent).max(MIN_WRAP_COLUMNS));
    wrapped(text, max_columns).join(&format!("\n{}", " ".repeat(indent)))
}

/// Wraps a message after a label of `label` columns to a terminal with `width` columns. Unchanged without a width.
///
/// The rows of the first line are aligned with the first word after the label. The further rows of another line are
/// indented two columns more than the line itself.
fn message_rows(message: &str, label: usize, width: Option<usize>) -> String {
    let Some(width) = width else { return message.to_owned() };
    let mut rows = Vec::new();
    for (index, line) in protect_commands(message).lines().enumerate() {
        let text = line.trim_start_matches(' ');
        let indent = line.len() - text.len();
        let hanging_indent = if index == 0 && label > 0 { label } else { indent + 2 };
        let first_column = if index == 0 { label.max(indent) } else { indent };
        let is_short = first_column + text.width() <= width;
        let room =
            if is_short { width } else { width.saturating_sub(hanging_indent.max(indent)).max(MIN_WRAP_COLUMNS) };
        for (row, words) in wrapped_line(text, room, LongWord::Keep).into_iter().enumerate() {
            rows.push(format!("{}{words}", " ".repeat(if row == 0 { indent } else { hanging_indent })));
        }
    }
    rows.join("\n").replace(NO_BREAK_SPACE, " ")
}

/// Non-breaking space.
const NO_BREAK_SPACE: char = '\u{a0}';

/// Replaces spaces in commands of this program with no-break spaces, so that people can copy the commands.
fn protect_commands(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    let mut is_command = false;
    for word in message.split_inclusive([' ', '\n']) {
        let (name, end) = word.split_at(word.trim_end_matches([' ', '\n']).len());
        is_command = (is_command || name == "steplatch") && !name.ends_with([';', ',', ':', '.']);
        text.push_str(name);
        match end {
            " " if is_command => text.push(NO_BREAK_SPACE),
            end => text.push_str(end),
        }
        is_command &= !end.contains('\n');
    }
    text
}

/// Cuts text to `columns` columns, with an ellipsis if the text is longer.
pub(crate) fn fitted(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut width = 0;
    for character in text.chars() {
        width += character.width().unwrap_or(0);
        if width >= columns {
            break;
        }
        out.push(character);
    }
    out.push('…');
    out
}

/// Pads text with spaces to `columns` columns.
pub(crate) fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

/// Formats rows of cells as aligned lines of at most `columns` columns. The first row is a dimmed head. The column with
/// the index `state` has states of runs or terminals, in colours.
pub(crate) fn list(rows: &[Vec<String>], state: usize, columns: Option<usize>) -> Vec<String> {
    let table = table(rows);
    let lines = table.lines().zip(rows).enumerate().map(|(index, (line, row))| {
        let line = columns.map_or_else(|| line.to_owned(), |columns| fitted(line, columns));
        let Some(word) = row.get(state) else { return line };
        let style = if index == 0 { QUIET } else { state_style(word) };
        // Two spaces precede the state.
        match line.find(&format!("  {word}")) {
            _ if index == 0 => format!("{style}{line}{style:#}"),
            Some(start) if style != Style::new() => {
                let (before, state) = line.split_at(start + 2);
                let (word, after) = state.split_at(word.len());
                format!("{before}{style}{word}{style:#}{after}")
            }
            _ => line,
        }
    });
    lines.collect()
}

/// Returns the colour for a state: waiting for a person, succeeded, failed or cancelled.
fn state_style(state: &str) -> Style {
    let first = state.split([' ', ',']).next().unwrap_or_default();
    match (first, state) {
        ("waiting" | "asks" | "waits" | "held", _) => WAITS,
        ("completed", _) | (_, "exited 0") => GOOD,
        ("failed" | "exited", _) => BAD,
        ("cancelled", _) => QUIET,
        _ => Style::new(),
    }
}

/// Formats rows of cells as columns with two spaces between them and none at the end.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0))
        .collect();
    let lines = rows.iter().map(|row| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| padded(cell, *width)).collect();
        cells.join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_are_replaced() {
        let text = "one\ttwo\r\nthree\rfour\n\x1b]52;c;ZXZpbA==\x07\x1b[2J\u{9b}2J\u{202e}x";
        let shown_text = harmless(text);
        assert_eq!(shown_text, "one\ttwo\nthree⏎four\n␛]52;c;ZXZpbA==␇␛[2J·2J·x");
        assert_eq!(harmless("\x1b[1mstrong\x1b[0m \x1b[8mhidden"), "\x1b[1mstrong\x1b[0m ␛[8mhidden\x1b[0m");
        assert_eq!(harmless("\x1b[31mred"), "\x1b[31mred\x1b[0m", "later output is not red");
        let json = serde_json::to_string(&serde_json::json!({"a": text})).unwrap();
        let escaped = escaped_json(&json);
        assert!(!escaped.chars().any(is_harmful), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap()["a"], text);
    }

    #[test]
    fn list_colours_final_and_waiting_states() {
        let rows = [["ID", "STATE", "ABOUT"], ["a", "failed", "failed twice"], ["b", "running", "x"]]
            .map(|row| row.map(str::to_owned).to_vec());
        let lines = list(&rows, 1, Some(16));
        assert_eq!(lines[0], format!("{QUIET}ID  STATE    AB…{QUIET:#}"));
        assert_eq!(lines[1], format!("a   {BAD}failed{BAD:#}   fa…"));
        assert_eq!(lines[2], "b   running  x");
        assert_eq!(list(&rows, 1, Some(6))[1], "a   f…", "a truncated word has no colour");
    }

    #[test]
    fn durations_have_units() {
        let formatted = |micros| duration(Duration::from_micros(micros));
        assert_eq!(formatted(340), "340 µs");
        assert_eq!(formatted(12_345), "12 ms");
        assert_eq!(formatted(1_234_567), "1.2 s");
        assert_eq!(formatted(185_000_000), "3 min 5 s");
    }

    #[test]
    fn times_are_relative_or_local_dates() {
        let ago_text = |seconds: i64| {
            let timestamp = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds);
            ago(&timestamp.to_string())
        };
        assert_eq!(ago_text(0), "just now");
        assert_eq!(ago_text(-60), "just now", "a future timestamp counts as the present");
        assert_eq!(ago_text(125), "2 min ago");
        assert_eq!(ago_text(7300), "2 h ago");
        assert!(
            ago("2020-02-02T10:00:00.000Z").starts_with("2020-02-0"),
            "earlier days are shown as a date in the local zone"
        );
        let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(-11));
        assert_eq!(local_time_in("2020-02-01T10:00:59.123Z", &zone), "2020-01-31 23:00:59");
        assert_eq!(ago("once\n"), "once⏎");
        let begin = "2020-02-01T10:00:00.000Z";
        assert_eq!(elapsed_between(begin, Some("2020-02-01T10:00:02.500Z")), Some(Duration::from_millis(2500)));
        assert_eq!(elapsed_between(begin, Some("2019-01-01T00:00:00Z")), Some(Duration::ZERO));
        assert_eq!(elapsed_between(begin, Some("soon")), None);
    }

    #[test]
    fn control_characters_are_shown_and_long_text_is_cut() {
        assert_eq!(visible("ls\t-l\n\u{3}"), "ls⇥-l⏎␃");
        assert_eq!(fitted("abcdef", 4), "abc…");
        assert_eq!(fitted("漢字漢字", 5), "漢字…");
        assert_eq!(fitted("abc", 3), "abc");
    }

    #[test]
    fn messages_wrap_between_words_with_a_hanging_indent() {
        let message = "there is no workflow 'nope'; steplatch workflow load saves one\n  nope  a line of its own, which is longer\nend";
        assert_eq!(
            message_rows(message, 7, Some(40)),
            "there is no workflow 'nope';\n       steplatch workflow load saves one\n  nope  a line of its own, which is\n    longer\nend"
        );
        assert_eq!(message_rows(message, 7, None), message, "without a width, lines are not wrapped");
        let command = "detached; the terminal keeps running: steplatch terminal attach shared";
        let rows = "detached; the terminal keeps running:\n  steplatch terminal attach shared";
        assert_eq!(message_rows(command, 0, Some(66)), rows, "a command is not wrapped");
        let address = "open http://127.0.0.1:7080/a/very/long/address here";
        assert_eq!(message_rows(address, 0, Some(30)), "open\n  http://127.0.0.1:7080/a/very/long/address\n  here");
    }

    #[test]
    fn table_is_aligned_by_visible_width() {
        let rows = [["漢", "x"], ["abc", "y"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "漢   x\nabc  y");
    }
}
