//! Printing, in one place: colour where it means something and somebody sees it.
//!
//! `anstream` drops colours where the output is no terminal or `NO_COLOR` is set.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const QUIET: Style = Style::new().dimmed();
pub(crate) const STRONG: Style = Style::new().bold();

/// Sends logs to standard error, which is where nothing else reads them from.
pub(crate) fn logs_to_stderr(verbose: bool) {
    let usual = if verbose { "info,steplatch=debug,rmcp=warn" } else { "warn,rmcp=error" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("STEPLATCH_LOG").unwrap_or_else(|_| usual.into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false).init();
}

/// Prints a line on standard output.
pub(crate) fn line(text: impl Display) -> io::Result<()> {
    writeln!(anstream::stdout().lock(), "{text}")
}

/// Prints a text as it is, without an end of line of ours.
pub(crate) fn exactly(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Prints a value as JSON on standard output.
pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
    writeln!(io::stdout().lock(), "{text}")
}

/// Prints what went wrong on standard error.
pub(crate) fn error(message: &str) {
    // Where even that can not be written, nobody reads it.
    let _ = writeln!(anstream::stderr().lock(), "{BAD}error:{BAD:#} {message}");
}

/// Prints a remark on standard error.
pub(crate) fn note(message: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{QUIET}{message}{QUIET:#}");
}

/// The width of the terminal that standard output is, if it is one.
pub(crate) fn width() -> Option<usize> {
    let out = io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// A time as people say it: `340 µs`, `12 ms`, `1.2 s`, `3 min 5 s`.
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

/// Text on one line: line ends and other control characters as symbols.
pub(crate) fn visible(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\n' | '\r' => '⏎',
            '\t' => '⇥',
            '\u{7f}' => '␡',
            control if control < ' ' => char::from_u32(0x2400 + u32::from(control)).unwrap_or('␀'),
            other if other.is_control() => '·',
            other => other,
        })
        .collect()
}

/// Text cut to so many columns, with an ellipsis where something is missing.
pub(crate) fn fitted(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used >= columns {
            break;
        }
        out.push(character);
    }
    out.push('…');
    out
}

/// Text filled up with blanks to so many columns.
pub(crate) fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

/// Rows of cells as aligned columns, two blanks between them and none at the end.
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
    fn times_are_said_as_people_say_them() {
        let said = |micros| duration(Duration::from_micros(micros));
        assert_eq!(said(340), "340 µs");
        assert_eq!(said(12_345), "12 ms");
        assert_eq!(said(1_234_567), "1.2 s");
        assert_eq!(said(185_000_000), "3 min 5 s");
    }

    #[test]
    fn control_characters_are_shown_and_long_text_is_cut() {
        assert_eq!(visible("ls\t-l\n\u{3}"), "ls⇥-l⏎␃");
        assert_eq!(fitted("abcdef", 4), "abc…");
        assert_eq!(fitted("漢字漢字", 5), "漢字…");
        assert_eq!(fitted("abc", 3), "abc");
    }

    #[test]
    fn a_table_is_aligned_by_what_is_seen() {
        let rows = [["漢", "x"], ["abc", "y"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "漢   x\nabc  y");
    }
}
