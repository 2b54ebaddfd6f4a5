//! The bound that the kernel puts on a line for a program that reads whole lines.
//!
//! Owns the measure of a line in typed bytes. Pure: the caller looks up the mode of the terminal.

use serde::{Deserialize, Serialize};

/// Maximum length of a line that a pseudo-terminal in canonical mode keeps, in bytes, without its end. It drops further
/// input up to the end of the line; see "canonical mode" in termios(3).
pub(crate) const MAX_LINE_BYTES: usize = 4095;

/// Maximum length of a line that the line editor of busybox keeps, in bytes: `FEATURE_EDITING_MAX_LEN` of its
/// configuration, 1024 by default, without the end of the text and some reserve.
pub(crate) const MAX_BUSYBOX_LINE_BYTES: usize = 1000;

/// A line that would not arrive as typed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error(
    "nothing was typed: a line of {bytes} bytes is longer than the {} that {}, and the rest would be lost; put the text in a \
     file, or send shorter lines",
    .max_bytes.unwrap_or(MAX_LINE_BYTES), reader(.relay.as_deref(), .max_bytes.is_some())
)]
pub struct LineTooLong {
    /// Length of the longest line with the unentered text before it, in bytes.
    pub bytes: usize,
    /// The program that passes the line on to another terminal, where that program does not show how the other
    /// terminal's program reads it.
    pub relay: Option<String>,
    /// The bound of a shell's line editor, where that drops the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
}

fn reader(relay: Option<&str>, is_editor: bool) -> String {
    let program = match is_editor {
        true => "the line editor of busybox takes",
        false => "the terminal keeps for a program that reads whole lines",
    };
    match relay {
        None => program.to_owned(),
        Some(relay) => format!("{program}, which may read behind '{relay}'"),
    }
}

/// Returns the length of the longest line in `typed`, in bytes. `before` is the length of the unentered text before it.
pub(crate) fn longest_line(before: usize, typed: &[u8]) -> usize {
    // Ends of lines and of input, and keys that give a line up or take it away.
    let ends = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0x03 | 0x04 | 0x15);
    let mut lines = typed.split(ends).map(<[u8]>::len);
    let first = before + lines.next().unwrap_or(0);
    lines.fold(first, usize::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_line_counts_with_what_stands_before_it() {
        assert_eq!(longest_line(0, b""), 0);
        assert_eq!(longest_line(3, b"abc"), 6);
        assert_eq!(longest_line(3, b"a\rabcde\nab"), 5);
        assert_eq!(longest_line(9, b"\x15abc\r"), 9);
        assert_eq!(longest_line(1, "\u{e9}\r".as_bytes()), 3, "bytes, not characters");
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_with_its_length_and_the_way_out() {
        let error = LineTooLong { bytes: 6000, relay: Some("ssh".to_owned()), max_bytes: None }.to_string();
        assert!(error.contains("6000 bytes") && error.contains("4095") && error.contains("'ssh'"), "{error}");
        assert!(error.contains("put the text in a file"), "{error}");
        let error = LineTooLong { bytes: 1500, relay: None, max_bytes: Some(MAX_BUSYBOX_LINE_BYTES) }.to_string();
        assert!(error.contains("the 1000 that the line editor of busybox takes, and"), "{error}");
        let far = LineTooLong { bytes: 1500, relay: Some("ssh".to_owned()), max_bytes: Some(MAX_BUSYBOX_LINE_BYTES) };
        assert!(far.to_string().contains("of busybox takes, which may read behind 'ssh', and"), "{far}");
    }
}
