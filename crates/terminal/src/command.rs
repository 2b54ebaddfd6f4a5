//! One command in a live shell: the request and its outcome.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use unicode_width::UnicodeWidthStr as _;

use crate::exchange::{describe_draft, describe_foreground};
use crate::integration::{Kind, quoted};
use crate::limit::Limit;
use crate::line_limit::LineTooLong;
use crate::process::Exit;
use crate::refusal::{TerminalClosed, changed};
use crate::terminal::write_lock::LockHolder;

/// A command to run in a live shell, see [`Terminal::run`](crate::Terminal::run).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommandRequest {
    /// The command, in the shell's own language: one line or many. The command runs unchanged: the shell does not
    /// correct it, and expands no history, abbreviations or global aliases. The shell expands other aliases, and stores
    /// the command in its history.
    pub command: String,
    /// The directory to change to first. The shell stays there. If the change fails, the command does not run.
    pub working_directory: Option<String>,
    /// Maximum time to wait for the end of the command. The command keeps running after that.
    pub timeout: Duration,
    /// Limit of the output to return.
    pub limit: Limit,
    /// True to return when the command waits for typed input. The command keeps running.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub input: bool,
    /// True to integrate an inner shell without marks first: the terminal types one line at the prompt of that shell.
    /// The output excludes this line. An empty command only integrates the shell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub integrate: bool,
    /// The id of the step that this command belongs to, for the ledger of the terminal host.
    pub step: Option<String>,
    /// The client or run, for the log of inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The gate of a person's approval of the command. The terminal refuses the command if the terminal's state has
    /// changed since then, see [`Terminal::record_state`](crate::Terminal::record_state).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_at: Option<String>,
}

/// The outcome of a command.
///
/// At the prompt of a program without marks (an interpreter, a debugger, a shell without the integration) the command
/// is an entry, and its outcome has no exit code.
///
/// The output has no escape sequences, and `\n` for `\r\n`; its last line may have no line end. Overwritten lines
/// (progress bars) have their final content. The output excludes the alternate screen and includes the output of
/// background jobs in the meantime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandResult {
    /// The output, or its beginning if text is missing.
    pub output: String,
    /// The end of the output, if text between is missing.
    pub tail: Option<String>,
    /// Bytes of text missing after `output`.
    pub left_out: u64,
    /// Offset to continue reading from if text is missing; otherwise the offset after the output.
    pub next: u64,
    /// Offset of the oldest stored output, if the command printed more.
    pub dropped_before: Option<u64>,
    /// The exit code of the last command. `None` if the shell reported none: the command still runs, or another program
    /// replaced the shell.
    pub exit_code: Option<i32>,
    /// True if the time limit passed and the command still runs.
    pub timed_out: bool,
    /// Exit of the shell itself, if the command ended it.
    pub ended: Option<Exit>,
    /// The program that took the place of the shell, as after `exec`.
    pub replaced_by: Option<String>,
    /// The lines of an entry that were not typed, because the program did not return to its prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_entered: Option<String>,
    /// The input that the running command waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<InputRequest>,
    /// True if the shell is at its prompt again without a report of the command's end. The shell's hook was removed, or
    /// a user setting skipped the hook and possibly the command. The output ends before the prompt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unreported: bool,
    /// True if the shell's output goes through a pipe, as after `exec > >(tee log)`. Some output may arrive later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_piped: bool,
    /// True if the command ended at a prompt that may be a shell's and reports no exit codes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lacks_exit_code: bool,
    /// Start offset of the output.
    pub offset: u64,
    /// Offset after the output.
    pub end: u64,
    /// Version of the screen at the end of the command, see [`View::version`](crate::View::version). None from a host
    /// of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

impl CommandResult {
    /// Returns the result of a command that has printed nothing, with the offset at its beginning.
    pub(crate) fn without_output(offset: u64) -> Self {
        Self {
            output: String::new(),
            tail: None,
            left_out: 0,
            next: offset,
            dropped_before: None,
            exit_code: None,
            timed_out: false,
            ended: None,
            replaced_by: None,
            not_entered: None,
            asks: None,
            is_unreported: false,
            is_piped: false,
            lacks_exit_code: false,
            offset,
            end: offset,
            version: None,
        }
    }
}

/// A program that waits for typed input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRequest {
    /// The name, if known.
    pub program: Option<String>,
    /// True if the program draws the whole screen, like editors and pagers.
    pub full_screen: bool,
    /// True if the program reads a line without showing it, as for a password.
    pub password: bool,
    /// The rows of the screen.
    pub screen: String,
}

impl InputRequest {
    /// Returns whether the program is a shell. Ignores `full_screen`, because an ended program may have left it on.
    #[must_use]
    pub fn is_of_shell(&self) -> bool {
        self.program.as_deref().is_some_and(is_shell_name)
    }
}

/// Reason why a command was not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum RunError {
    /// The foreground program is not a shell that reports when a command begins and ends.
    #[error(
        "no shell that reports the end of a command is at its prompt{}; type into it as into any program, and wait for \
         its output", describe_foreground(.program.as_deref())
    )]
    NotIntegrated {
        /// Program in the foreground.
        program: Option<String>,
    },
    /// Another command is running.
    #[error("the shell is busy{}; wait for its prompt, or interrupt it", describe_foreground(.program.as_deref()))]
    Busy {
        /// Program in the foreground.
        program: Option<String>,
    },
    /// Text was typed at the prompt and not entered.
    #[error("{} at the prompt and not entered; enter it, or give it up with Ctrl-C", describe_draft(.text))]
    HalfTyped {
        /// The typed text.
        text: String,
    },
    /// The terminal has changed since a person approved the command.
    #[error("{}", changed(.0))]
    Changed(String),
    /// The command contains a character that is a key to a shell rather than text.
    #[error("the command contains the control character U+{0:04X}, which cannot be entered as text")]
    Control(u32),
    /// The shell could not change to the directory; the command was not run.
    #[error("the shell cannot change to {directory}; the command was not run. Its message: {shell_message}")]
    #[serde(rename = "NoFolder")]
    CannotChangeDirectory {
        /// The directory, as requested.
        #[serde(rename = "folder")]
        directory: String,
        /// The shell's message.
        #[serde(rename = "said")]
        shell_message: String,
    },
    /// A quote, a bracket or a block is not closed. The terminal has removed the entered text.
    #[error("the command is incomplete: the shell waits for the rest, such as a closing quote or 'done'")]
    Incomplete,
    /// The program waits for the rest of the entry and does not discard it at Ctrl-C, as sqlite3.
    #[error(
        "the entry is incomplete, and its program does not discard it at Ctrl-C: it waits for the rest after '{row}'; \
         type the rest with send_input, such as the closing quote"
    )]
    Unfinished {
        /// The row of the cursor.
        row: String,
    },
    /// The command contains a `!` that the shell may expand from its history. The shell received nothing.
    #[error(
        "the shell may replace the '!' in the command by a word of its history, so nothing was typed; use integrate: \
         true, which prevents it, put a backslash before the '!', or quote it with single quotes (csh ignores them)"
    )]
    Expanded,
    /// The line editor of the shell would draw a line over several rows, with an echo that cannot be separated from the
    /// output. The shell received nothing.
    #[error(
        "a line of the command does not fit into the {cols} columns of the terminal, and its echo could not be \
         separated from the output, so nothing was typed; put the command in a file (or, in fish and zsh, use \
         integrate: true)"
    )]
    Wrapped {
        /// Columns of the terminal.
        cols: u16,
    },
    /// A line of the command would be truncated.
    #[error(transparent)]
    LineTooLong(#[from] LineTooLong),
    /// The entry has an empty line. For the program at the prompt, an empty line is a separate command.
    #[error(
        "nothing was typed: the entry has an empty line, and for {program}, an empty line is {meaning}; remove it, or \
         send the entry in parts"
    )]
    EmptyLine {
        /// The program.
        program: String,
        /// The meaning of an empty line.
        meaning: String,
    },
    /// The shell accepted the text and ran nothing: it has a syntax error, or contains no command.
    #[error("the shell ran nothing: {}", if .shell_message.is_empty() { "it contains no command, such as a comment alone" } else { .shell_message })]
    NothingRan {
        /// The shell's message; empty if there was none.
        #[serde(rename = "said")]
        shell_message: String,
    },
    /// A line of the command has a syntax error, and the shell ran the lines after it.
    #[error(
        "a line of the command has a syntax error, and the shell ran the lines after it. Its message: {shell_message}"
    )]
    PartlyRan {
        /// The shell's message.
        #[serde(rename = "said")]
        shell_message: String,
    },
    /// The started shell or program did not reach a prompt within the time limit.
    #[error(
        "no prompt appeared in time{}; nothing was typed: wait for it with await_output, or read the screen",
        describe_foreground(.program.as_deref())
    )]
    NoPrompt {
        /// Program in the foreground.
        program: Option<String>,
    },
    /// The limit of input that the program has not read is reached.
    #[error("its program does not read: {waiting} bytes of earlier input are still waiting")]
    Full {
        /// Unread bytes.
        waiting: usize,
    },
    /// The request integrates a shell, but no shell replied at the prompt.
    #[error(
        "no shell answered at the prompt, so it is not integrated; run the command without integrate, or type it and \
         wait for its output"
    )]
    Unintegrated,
    /// The shell ended while the terminal typed the line that sets up its marks; with `set -e`, any error ends a shell.
    /// The command was not run.
    #[error(
        "the shell at the prompt ended while its marks were set up, so the command was not run; another shell may be at the \
         prompt now: look at the screen before the next command"
    )]
    ShellEnded,
    /// The request names a directory, but the terminal cannot change to it first: the program at the prompt reports no
    /// commands.
    #[error(
        "working_directory requires a shell that reports its commands; integrate the shell, or change the directory \
         within the command"
    )]
    NoDirectory,
    /// The program has ended.
    #[error("its program has ended")]
    Ended(Option<Exit>),
    /// The step ran a command before, and its result is no longer stored. Only hosts of older versions report this.
    #[error("this step already ran and is not repeated; its result is no longer stored")]
    Forgotten,
    /// Another client holds the terminal.
    #[error("{} holds the terminal", .0.name)]
    Held(LockHolder),
    /// The terminal has closed.
    #[error(transparent)]
    Gone(#[from] TerminalClosed),
}

/// Returns the lines of a command in the form to enter, or the character that cannot be entered.
pub(crate) fn normalize(command: &str) -> Result<String, RunError> {
    let text = command.replace("\r\n", "\n");
    // This excludes ESC, the first character of the end of a paste.
    let control = text.chars().find(|character| character.is_control() && !matches!(character, '\n' | '\t'));
    match control {
        Some(control) => Err(RunError::Control(u32::from(control))),
        None => Ok(text.trim_end_matches('\n').to_owned()),
    }
}

/// Returns the command that changes to `directory`, or the character in it that cannot be entered.
pub(crate) fn cd_command(directory: &str, kind: Kind) -> Result<String, RunError> {
    // `cd -` means the previous directory.
    let directory = if directory.starts_with('-') { format!("./{directory}") } else { directory.to_owned() };
    let word = quoted(&directory, kind).into_string().expect("quoted UTF-8 is UTF-8");
    // Call the builtin, because an alias or a function of the user may change to another directory and succeed.
    let cd = match kind {
        Kind::Bash => "\\builtin cd",
        Kind::Zsh => "\\builtin \\cd",
        Kind::Fish => "builtin cd",
        Kind::Posix => "\\command cd",
    };
    normalize(&format!("{cd} -- {word}"))
}

/// Editor of the line at a shell's prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Editor {
    TakesPastes,
    /// A line editor that receives no paste markers.
    TakesKeys,
    /// No editor: the kernel passes each entered line on.
    None,
}

/// Returns whether `name` is the name of a shell.
pub(crate) fn is_shell_name(name: &str) -> bool {
    const SHELLS: &[&str] = &[
        "ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "ksh93", "mksh", "oksh", "rbash", "sh", "tcsh", "yash",
        "zsh",
    ];
    SHELLS.contains(&name.trim_start_matches('-'))
}

/// Returns whether a name refers to busybox, or to its shell.
pub(crate) fn is_busybox(name: &str) -> bool {
    matches!(name.trim_start_matches('-'), "busybox" | "ash")
}

/// Returns whether the line editor of a shell draws `text`, typed after `columns_before`, with an echo that cannot be
/// separated from output: fish and busybox break a line at the width of the terminal, and zsh shows only a part of a
/// text that exceeds the screen.
pub(crate) fn is_broken_by_editor(text: &str, shell: &str, columns_before: usize, cols: u16, rows: u16) -> bool {
    let rows_of = |line: &str| (columns_before + line.width()) / usize::from(cols.max(1)) + 1;
    let is_wrapped = || text.lines().any(|line| rows_of(line) > 1);
    match shell.trim_start_matches('-') {
        "fish" => is_wrapped(),
        "zsh" => text.lines().map(rows_of).sum::<usize>() > usize::from(rows),
        name => is_busybox(name) && is_wrapped(),
    }
}

/// Returns whether a shell may replace a part of `text` by words of its history: at a `!`, or at an initial `^`. `None`
/// stands for any shell.
pub(crate) fn may_expand(text: &str, shell: Option<&str>) -> bool {
    let quotes_protect = match shell.map(|name| name.trim_start_matches('-')) {
        Some("dash" | "ash" | "busybox" | "ksh" | "ksh93" | "mksh" | "oksh" | "yash" | "fish" | "nu" | "pwsh") => {
            return false;
        }
        Some("csh" | "tcsh") => false,
        _ => true,
    };
    if text.starts_with('^') {
        return true;
    }
    let mut characters = text.chars().peekable();
    let (mut in_single, mut in_double) = (false, false);
    while let Some(character) = characters.next() {
        match character {
            '\'' if !in_double => in_single = !in_single,
            _ if in_single && quotes_protect => {}
            '\\' => drop(characters.next()),
            '"' if !in_single => in_double = !in_double,
            '!' if characters.peek().is_some_and(|next| !matches!(next, ' ' | '\t' | '\n' | '=' | '(')) => return true,
            _ => {}
        }
    }
    false
}

/// The key that makes bash execute the line without expansion of its history, see `integration/bash.sh`.
const BASH_PLAIN_LINE: &[u8] = b"\x1b\x1fh";

/// The key that makes zsh enter the line without expansion of its history, see `integration/zshenv.zsh`.
const ZSH_ENTER: &[u8] = b"\x1b\x1fe";

/// The key that starts a paste in zsh with the builtin widget, even if a plugin has replaced it; see
/// `integration/zshenv.zsh`.
const ZSH_PASTE: &[u8] = b"\x1b\x1fp";

/// Returns the keys that enter `text`, a result of [`normalize`]. Only shells that a terminal starts bind the
/// keys of the integration; inner shells do not.
pub(crate) fn keys(text: &str, kind: Kind, editor: Editor, is_inner: bool) -> Vec<u8> {
    let mut keys = Vec::with_capacity(text.len() + 16);
    let has_integration_keys = !is_inner && editor != Editor::None;
    if kind == Kind::Bash && has_integration_keys && text.contains(['!', '^']) {
        keys.extend_from_slice(BASH_PLAIN_LINE);
    }
    if editor == Editor::None {
        keys.extend(text.bytes().map(|byte| if byte == b'\n' { b'\r' } else { byte }));
    } else if editor == Editor::TakesPastes {
        // A paste is one edit for any number of lines.
        keys.extend_from_slice(if kind == Kind::Zsh && has_integration_keys { ZSH_PASTE } else { b"\x1b[200~" });
        keys.extend(text.bytes().map(|byte| if byte == b'\n' { b'\r' } else { byte }));
        if kind == Kind::Fish && is_inner && !text.ends_with('\\') {
            // fish replaces an abbreviation before the cursor.
            keys.push(b' ');
        }
        keys.extend_from_slice(b"\x1b[201~");
    } else {
        for byte in text.bytes() {
            // Ctrl-V takes the next key as a character.
            if matches!(byte, b'\n' | b'\t') {
                keys.push(0x16);
            }
            keys.push(byte);
        }
    }
    match kind {
        Kind::Zsh if has_integration_keys => keys.extend_from_slice(ZSH_ENTER),
        // The integration's key for Enter reports an incomplete command, see `integration/fish.fish`.
        Kind::Fish if has_integration_keys => keys.extend_from_slice(b"\x1b\x18e"),
        _ => keys.push(b'\r'),
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_character_is_refused_and_named() {
        assert_eq!(normalize("a\r\nb\tc\n\n").unwrap(), "a\nb\tc");
        for (command, number) in [("a\x1b[201~b", 0x1b), ("\0", 0), ("a\rb", 0xd), ("\u{9b}", 0x9b), ("\x7f", 0x7f)] {
            assert_eq!(normalize(command), Err(RunError::Control(number)), "{command:?}");
        }
    }

    #[test]
    fn directory_with_special_characters_is_quoted() {
        assert_eq!(cd_command("/tmp/it's", Kind::Bash).unwrap(), r"\builtin cd -- '/tmp/it'\''s'");
        assert_eq!(cd_command("-", Kind::Fish).unwrap(), "builtin cd -- './-'");
    }

    #[test]
    fn multi_line_command_is_pasted_at_once() {
        let typed = |kind, editor| keys("a\n\tb", kind, editor, false);
        assert_eq!(typed(Kind::Zsh, Editor::TakesPastes), b"\x1b\x1fpa\r\tb\x1b[201~\x1b\x1fe");
        assert_eq!(typed(Kind::Bash, Editor::None), b"a\r\tb\r");
        assert_eq!(typed(Kind::Zsh, Editor::None), b"a\r\tb\r");
        assert_eq!(typed(Kind::Bash, Editor::TakesKeys), b"a\x16\n\x16\tb\r");
        assert_eq!(keys("a!b", Kind::Bash, Editor::TakesPastes, false), b"\x1b\x1fh\x1b[200~a!b\x1b[201~\r");
        assert_eq!(keys("a!b", Kind::Bash, Editor::TakesPastes, true), b"\x1b[200~a!b\x1b[201~\r");
        assert_eq!(keys("gco", Kind::Fish, Editor::TakesPastes, true), b"\x1b[200~gco \x1b[201~\r");
    }

    #[test]
    fn wrapped_lines_of_line_editors_are_predicted() {
        let wide = "x".repeat(100);
        for (shell, text, is_broken) in [
            ("fish", "short", false),
            ("fish", wide.as_str(), true),
            ("-ash", wide.as_str(), true),
            ("busybox", wide.as_str(), true),
            ("busybox", "short\nshort", false),
            ("zsh", wide.as_str(), false),
            ("zsh", &wide.repeat(8), true),
            ("zsh", &"x\n".repeat(10), false),
            ("zsh", &"x\n".repeat(11), true),
            ("bash", &wide.repeat(80), false),
            ("ksh", &wide.repeat(80), false),
        ] {
            assert_eq!(is_broken_by_editor(text, shell, 2, 80, 10), is_broken, "{shell} {}", text.len());
        }
    }

    #[test]
    fn history_expansion_in_a_word_is_found() {
        for (text, shell, expands) in [
            ("echo a!b", Some("bash"), true),
            ("echo \"a!b\"", Some("zsh"), true),
            ("echo 'a!b'", Some("zsh"), false),
            ("echo \"it's !b\"", Some("bash"), true),
            ("echo 'a!b'", Some("tcsh"), true),
            ("echo a\\!b", Some("tcsh"), false),
            ("echo hi !", Some("bash"), false),
            ("[ a != b ] && ! false", Some("bash"), false),
            ("echo !!", Some("dash"), false),
            ("echo !!", Some("ssh"), true),
            ("echo !!", None, true),
            ("^a^b", Some("-bash"), true),
            ("grep ^a f", Some("bash"), false),
        ] {
            assert_eq!(may_expand(text, shell), expands, "{text:?} in {shell:?}");
        }
    }
}
