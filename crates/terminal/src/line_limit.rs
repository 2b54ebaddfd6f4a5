//! Limits on the length of a typed line, set by the kernel or by a line editor.
//!
//! Measures the lines in typed bytes. Pure: the caller reads the mode of the terminal.

use serde::{Deserialize, Serialize};

/// Maximum length of a line on a pseudo-terminal in canonical mode, in bytes, without its end. The kernel drops further
/// input up to the end of the line; see "canonical mode" in termios(3).
pub(crate) const MAX_LINE_BYTES: usize = 4095;

/// Maximum length of a line in the line editor of busybox, in bytes: `FEATURE_EDITING_MAX_LEN` of its configuration,
/// 1024 by default, less the terminator and some reserve.
pub(crate) const MAX_BUSYBOX_LINE_BYTES: usize = 1000;

/// A line that would not arrive as typed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error(
    "nothing was typed: a line of {bytes} bytes is longer than the {} that {}, and the rest would be lost; put the text in a \
     file, or send shorter lines",
    .max_bytes.unwrap_or(MAX_LINE_BYTES), describe_reader(.relay.as_deref(), .max_bytes.is_some())
)]
pub struct LineTooLong {
    /// Length of the longest line with the unentered text before it, in bytes.
    pub bytes: usize,
    /// The program that forwards the line to another terminal, such as ssh. The reader of the line is unknown then.
    pub relay: Option<String>,
    /// The limit of the shell's line editor, if the editor drops the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
}

fn describe_reader(relay: Option<&str>, is_editor: bool) -> String {
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
    // Ends of lines and of input and keys that cancel or erase a line.
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0x03 | 0x04 | 0x15);
    let mut lines = typed.split(is_line_end).map(<[u8]>::len);
    let first = before + lines.next().unwrap_or(0);
    lines.fold(first, usize::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_line_includes_the_text_before_it() {
        assert_eq!(longest_line(0, b""), 0);
        assert_eq!(longest_line(3, b"abc"), 6);
        assert_eq!(longest_line(3, b"a\rabcde\nab"), 5);
        assert_eq!(longest_line(9, b"\x15abc\r"), 9);
        assert_eq!(longest_line(1, "\u{e9}\r".as_bytes()), 3, "bytes, not characters");
    }

    #[test]
    fn overlong_line_is_refused_with_its_length_and_a_remedy() {
        let error = LineTooLong { bytes: 6000, relay: Some("ssh".to_owned()), max_bytes: None }.to_string();
        assert!(error.contains("6000 bytes") && error.contains("4095") && error.contains("'ssh'"), "{error}");
        assert!(error.contains("put the text in a file"), "{error}");
        let error = LineTooLong { bytes: 1500, relay: None, max_bytes: Some(MAX_BUSYBOX_LINE_BYTES) }.to_string();
        assert!(error.contains("the 1000 that the line editor of busybox takes, and"), "{error}");
        let relayed_error =
            LineTooLong { bytes: 1500, relay: Some("ssh".to_owned()), max_bytes: Some(MAX_BUSYBOX_LINE_BYTES) };
        assert!(
            relayed_error.to_string().contains("of busybox takes, which may read behind 'ssh', and"),
            "{relayed_error}"
        );
    }
}
