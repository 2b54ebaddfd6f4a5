//! Reads and sets the variables of a live shell without visible traces.
//!
//! The integration defines a shell function that runs a request file, writes its output to an answer file, and then
//! prints a mark. A shell calls it at its prompt: zsh and fish on a signal, bash on a key sequence that no keyboard
//! sends, because bash defers signals until the end of a line. bash draws its prompt again afterwards. Its output in
//! the meantime is a [`Redraw`]: it goes to the screen, where it changes nothing, and not to the history.
//!
//! The files are in the integration's private directory, readable by their owner only, and are removed at the end of
//! the exchange. A request contains only checked names and quoted values, so it runs no foreign code.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::integration::{IntegrationSession, Kind, quoted};
use crate::refusal::TerminalClosed;
use crate::shell_state::ShellState;
use crate::terminal::write_lock::LockHolder;

/// The key that bash's integration binds to its function, see `integration/bash.sh`.
pub(crate) const BASH_KEY: &[u8] = b"\x1b\x1fs";

/// Time limit for the answer of a shell. An answer usually takes milliseconds, but seconds for a long value on a busy
/// machine.
pub(crate) const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a request and of an answer, in bytes.
pub(crate) const MAX_EXCHANGE_BYTES: usize = 4 << 20;

/// A variable of a live shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// The value. The shell joins the elements of an array or a list: bash and zsh with the first character of `IFS`,
    /// fish with a space, or a colon for a path. U+FFFD replaces bytes that are not UTF-8.
    pub value: String,
    /// True if programs inherit it.
    pub exported: bool,
}

/// Reason why reading or setting variables failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum VariablesError {
    /// The name is not a valid variable name, or is reserved for the integration.
    #[error("'{0}' is not a valid variable name: use letters, digits and _, and do not begin with a digit")]
    Name(String),
    /// The value contains a NUL character.
    #[error("the value for '{0}' contains a NUL, which no variable can hold")]
    Value(String),
    /// Another client holds the terminal.
    #[error("{} holds the terminal", .0.name)]
    Held(LockHolder),
    /// The foreground program is not a shell that answers.
    #[error("no shell with steplatch's integration is at its prompt{}", describe_foreground(.program.as_deref()))]
    NotIntegrated {
        /// Program in the foreground.
        program: Option<String>,
    },
    /// A command runs, and the shell answers only at its prompt.
    #[error("the shell is busy{}; it answers only at its prompt", describe_foreground(.program.as_deref()))]
    Busy {
        /// Program in the foreground.
        program: Option<String>,
    },
    /// The prompt has unentered text. A request to this shell would destroy the text.
    #[error("{} at the prompt and not entered; enter it, or give it up with Ctrl-C", describe_draft(.text))]
    HalfTyped {
        /// The typed text.
        text: String,
    },
    /// The signal handler of the integration was removed, so the shell cannot receive the request.
    #[error("the shell does not answer: the signal handler of the integration was removed")]
    #[serde(rename = "Deaf")]
    NoHandler,
    /// The request cannot be typed into an inner shell, because it is too long, or a value contains control characters.
    #[error("the values cannot be typed into this shell: they are too long, or contain control characters")]
    NotTypeable,
    /// The shell did not answer in time.
    #[error("the shell did not answer within {} s", EXCHANGE_TIMEOUT.as_secs())]
    Unanswered,
    /// The request or the answer is longer than `MAX_EXCHANGE_BYTES`.
    #[error("the values are longer than {} MB together", MAX_EXCHANGE_BYTES >> 20)]
    TooLong,
    /// The shell refused to set these variables: they are read-only, arrays, or special.
    #[error("the shell refused to set {}", .0.join(", "))]
    Refused(Vec<String>),
    /// Writing or reading the files of the exchange failed.
    #[error("failed to write the request or read the answer: {0}")]
    System(String),
    /// The program has ended.
    #[error("its program has ended")]
    Ended,
    /// The terminal has closed.
    #[error(transparent)]
    Gone(#[from] TerminalClosed),
}

/// Describes the foreground program, for the end of a sentence.
pub(crate) fn describe_foreground(program: Option<&str>) -> String {
    program.map(|program| format!(", '{program}' runs in the foreground")).unwrap_or_default()
}

/// Describes the typed text at the prompt, for the beginning of a sentence. The effect of some keys is unknown.
pub(crate) fn describe_draft(text: &str) -> String {
    if text.is_empty() { "something may be typed".into() } else { format!("'{text}' is typed") }
}

/// Checks that a request may name the variable `name`.
pub(crate) fn check_name(name: &str) -> Result<(), VariablesError> {
    let mut characters = name.chars();
    let has_valid_start = characters.next().is_some_and(|first| first == '_' || first.is_ascii_alphabetic());
    let has_valid_rest = characters.all(|character| character == '_' || character.is_ascii_alphanumeric());
    if has_valid_start && has_valid_rest && name.len() <= 200 && !name.starts_with("__steplatch") {
        Ok(())
    } else {
        Err(VariablesError::Name(name.chars().take(60).collect()))
    }
}

/// A request to a shell, in its own language.
#[derive(Debug, Clone)]
pub(crate) struct QueryScript {
    statements: Vec<String>,
    kind: Kind,
    /// True if the shell writes a second file with state that a function does not see: traps and parameters in bash,
    /// disabled patterns in zsh.
    has_outer_state: bool,
}

impl QueryScript {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { statements: Vec::new(), kind, has_outer_state: false }
    }

    /// Adds the commands that report a variable. The caller has checked the name.
    pub(crate) fn query(&mut self, name: &str) {
        // Four fields, each ended by NUL: the name, a mark if the variable is set, the attributes, the value.
        let line = match self.kind {
            Kind::Bash => {
                format!("\\builtin printf '%s\\0' {name} \"${{{name}[*]+1}}\" \"${{{name}@a}}\" \"${{{name}[*]}}\"")
            }
            Kind::Zsh => {
                format!("\\builtin \\printf '%s\\0' {name} \"${{{name}+1}}\" \"${{(t){name}}}\" \"${{{name}}}\"")
            }
            Kind::Fish => format!(
                "builtin printf '%s\\0' {name} (set -q {name}; and builtin echo 1; or builtin echo) \
                 (set -qx {name}; and builtin echo x; or builtin echo) \"${name}\""
            ),
            Kind::Posix => format!(
                "\\command printf '%s\\0' {name} \"${{{name}+1}}\" \
                 \"$(case \"$(\\command export -p)\" in *\"export {name}=\"*|*\"declare -x {name}=\"*) \\command echo x;; esac)\" \"${name}\""
            ),
        };
        self.statements.push(line);
    }

    /// Adds the commands that set a variable, unless it is an array or read-only. The caller has checked the name.
    pub(crate) fn set(&mut self, name: &str, value: &str, exports: bool) {
        let value = quoted(value, self.kind).into_string().expect("quoted UTF-8 is UTF-8");
        let assignment = match (self.kind, exports) {
            // An alias may replace a reserved word of the shell, so use none.
            (Kind::Bash, _) => {
                let options = if exports { "-gx" } else { "-g" };
                format!(
                    "__steplatch_a=${{{name}@a}}; \\builtin test -n \"${{__steplatch_a//[^aAr]/}}\" \
                     || \\builtin declare {options} {name}="
                )
            }
            (Kind::Zsh, _) => {
                let options = if exports { "-gx" } else { "-g" };
                format!(
                    "[[ ${{(t){name}}} == *(readonly|array|association)* ]] || \\builtin \\typeset {options} {name}="
                )
            }
            (Kind::Fish, false) => format!("set -g {name} "),
            (Kind::Fish, true) => format!("set -gx {name} "),
            (Kind::Posix, false) => format!("{name}="),
            (Kind::Posix, true) => format!("\\export {name}="),
        };
        self.statements.push(format!("{assignment}{value}"));
    }

    /// Adds the commands that report the [state](crate::shell_state) that a command line depends on. An inner shell
    /// receives no such request.
    pub(crate) fn state(&mut self) {
        let script = match self.kind {
            Kind::Bash => include_str!("integration/state.bash"),
            Kind::Zsh => include_str!("integration/state.zsh"),
            Kind::Fish => include_str!("integration/state.fish"),
            Kind::Posix => "",
        };
        self.statements.push(script.to_owned());
        self.has_outer_state = matches!(self.kind, Kind::Bash | Kind::Zsh);
    }

    /// Returns the content of the request file.
    fn file(&self) -> Vec<u8> {
        self.statements.iter().flat_map(|statement| [statement.as_bytes(), b"\n"]).flatten().copied().collect()
    }

    /// Returns the request as one line to type. A value may contain line ends.
    pub(crate) fn line(&self) -> String {
        self.statements.join("; ")
    }

    /// Returns the kind of shell whose language it uses.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }
}

/// Name and value of a variable, as reported by a shell; no value for an unset variable.
pub(crate) type VariableReport = (String, Option<Variable>);

/// Parses an answer; see [`QueryScript::query`].
pub(crate) fn parse_answer(answer: &[u8], kind: Kind) -> Vec<VariableReport> {
    let fields: Vec<&[u8]> = answer.split(|&byte| byte == 0).collect();
    let lossy = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    let variables = fields.chunks_exact(4).map(|fields| {
        let exported = match kind {
            Kind::Zsh => fields[2].split(|&byte| byte == b'-').any(|word| word == b"export"),
            Kind::Bash | Kind::Fish | Kind::Posix => fields[2].contains(&b'x'),
        };
        let variable = Variable { value: lossy(fields[3]), exported };
        (lossy(fields[0]), (!fields[1].is_empty()).then_some(variable))
    });
    variables.collect()
}

/// The files of an exchange, removed at its end.
#[derive(Debug)]
pub(crate) struct ExchangeFiles {
    request: PathBuf,
    answer: PathBuf,
    /// File with the state that a function does not see.
    outer_state: Option<PathBuf>,
    kind: Kind,
}

impl ExchangeFiles {
    /// Writes a request and an empty answer.
    pub(crate) fn write(session: &IntegrationSession, script: &QueryScript) -> Result<Self, VariablesError> {
        let text = script.file();
        if text.len() > MAX_EXCHANGE_BYTES {
            return Err(VariablesError::TooLong);
        }
        let Some(prefix) = &session.files else { return Err(VariablesError::NoHandler) };
        let with_suffix = |suffix: &str| {
            let mut path = OsString::from(prefix.as_os_str());
            path.push(suffix);
            PathBuf::from(path)
        };
        let outer_state = script.has_outer_state.then(|| with_suffix(".apart"));
        let files =
            Self { request: with_suffix(".request"), answer: with_suffix(".answer"), outer_state, kind: script.kind };
        let create = |path: &PathBuf| {
            // An interrupted exchange may have left this file.
            let _ = fs::remove_file(path);
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
        };
        let empty = std::iter::once(&files.answer).chain(&files.outer_state);
        let written = empty
            .map(create)
            .try_for_each(|created| created.map(drop))
            .and_then(|()| create(&files.request)?.write_all(&text));
        written.map_err(|error| VariablesError::System(error.to_string()))?;
        Ok(files)
    }

    /// Reads the answer of the shell.
    pub(crate) fn read(&self) -> Result<Vec<VariableReport>, VariablesError> {
        Ok(parse_answer(&read_bounded(&self.answer)?, self.kind))
    }

    /// Reads the state that the shell has reported.
    pub(crate) fn read_state(&self) -> Result<ShellState, VariablesError> {
        let outer_state = self.outer_state.as_ref().map(read_bounded).transpose()?;
        let (traps, patterns) = match self.kind {
            Kind::Zsh => (None, outer_state),
            Kind::Bash | Kind::Fish | Kind::Posix => (outer_state, None),
        };
        let state = ShellState::parse(&read_bounded(&self.answer)?, traps.as_deref());
        let mut state = state.ok_or(VariablesError::Unanswered)?;
        state.add_patterns(&patterns.unwrap_or_default());
        Ok(state)
    }
}

/// Reads a file of at most `MAX_EXCHANGE_BYTES`.
fn read_bounded(path: &PathBuf) -> Result<Vec<u8>, VariablesError> {
    let read = || -> io::Result<Vec<u8>> {
        let mut answer = Vec::new();
        fs::File::open(path)?.take(MAX_EXCHANGE_BYTES as u64 + 1).read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer = read().map_err(|error| VariablesError::System(error.to_string()))?;
    if answer.len() > MAX_EXCHANGE_BYTES { Err(VariablesError::TooLong) } else { Ok(answer) }
}

impl Drop for ExchangeFiles {
    fn drop(&mut self) {
        // Ignore errors, because the files may have been removed already.
        let _ = fs::remove_file(&self.request);
        let _ = fs::remove_file(&self.answer);
        if let Some(outer_state) = &self.outer_state {
            let _ = fs::remove_file(outer_state);
        }
    }
}

/// Finds the output of bash for an exchange, from the clearing of its prompt to the end of the new prompt.
#[derive(Debug)]
pub(crate) struct Redraw {
    answer_mark: Vec<u8>,
    prompt_mark: Vec<u8>,
    buffer: Vec<u8>,
}

/// Result of [`Redraw::hold`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HoldResult {
    /// The prompt is not back yet.
    NotYet,
    /// The output before the redraw, the redraw, and the output after it.
    Redrawn([Vec<u8>; 3]),
    /// Output that is too long for a prompt.
    Other(Vec<u8>),
}

impl Redraw {
    /// Maximum size of a redrawn prompt, in bytes.
    const MAX_PROMPT_BYTES: usize = 256 * 1024;

    pub(crate) fn new(nonce: &str) -> Self {
        let mark = |letter: char| format!("\x1b]133;{letter};k={nonce}\x07").into_bytes();
        Self { answer_mark: mark('V'), prompt_mark: mark('B'), buffer: Vec::new() }
    }

    /// Holds output back until the redraw is complete.
    pub(crate) fn hold(&mut self, bytes: &[u8]) -> HoldResult {
        self.buffer.extend_from_slice(bytes);
        let answer_start = memchr::memmem::find(&self.buffer, &self.answer_mark);
        let Some(answer_start) = answer_start else { return self.check_length() };
        let answer_end = answer_start + self.answer_mark.len();
        let Some(prompt_offset) = memchr::memmem::find(&self.buffer[answer_end..], &self.prompt_mark) else {
            return self.check_length();
        };
        let output_after = self.buffer.split_off(answer_end + prompt_offset + self.prompt_mark.len());
        // The shell clears the line first. Output before that comes from another program.
        let redraw_start = memchr::memmem::rfind(&self.buffer[..answer_start], b"\r\x1b[K").unwrap_or(0);
        let redraw = self.buffer.split_off(redraw_start);
        HoldResult::Redrawn([std::mem::take(&mut self.buffer), redraw, output_after])
    }

    fn check_length(&mut self) -> HoldResult {
        if self.buffer.len() > Self::MAX_PROMPT_BYTES { HoldResult::Other(self.give_up()) } else { HoldResult::NotYet }
    }

    /// Returns the held output if no redraw follows.
    pub(crate) fn give_up(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }
}

/// Splits output at the mark of an answer; `None` without a mark.
pub(crate) fn split_at_answer_mark<'a>(bytes: &'a [u8], nonce: &str) -> Option<(&'a [u8], &'a [u8])> {
    let mark = format!("\x1b]133;V;k={nonce}\x07");
    let mark_start = memchr::memmem::find(bytes, mark.as_bytes())?;
    Some((&bytes[..mark_start], &bytes[mark_start + mark.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_are_refused() {
        for name in ["PATH", "_", "a1", "__x"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", "1a", "a-b", "a b", "a[0]", "é", "$(id)", "__steplatch_key", &"a".repeat(201)] {
            assert!(matches!(check_name(name), Err(VariablesError::Name(_))), "{name}");
        }
    }

    #[test]
    fn answer_shows_set_and_exported_variables() {
        let variable = |value: &str, exported| Some(Variable { value: value.into(), exported });
        let reported = parse_answer(b"A\x001\x00ix\x00one\ntwo\x00B\x00\x00\x00\x00C\x001\x00\x00\xff\x00", Kind::Bash);
        let expected = [("A", variable("one\ntwo", true)), ("B", None), ("C", variable("\u{fffd}", false))];
        assert_eq!(reported, expected.map(|(name, variable)| (name.to_owned(), variable)));
        let reported = parse_answer(b"A\x001\x00scalar-export-special\x00\x00B\x001\x00scalar\x00x\x00", Kind::Zsh);
        let expected = [("A", variable("", true)), ("B", variable("x", false))];
        assert_eq!(reported, expected.map(|(name, variable)| (name.to_owned(), variable)));
        assert_eq!(parse_answer(b"A\x001\x00", Kind::Fish), [], "a truncated answer is ignored");
    }

    #[test]
    fn redraw_is_found_wherever_it_is_cut() {
        let stream = b"job done\r\n\r\x1b[K\r\x1b]133;V;k=n\x07$ \x1b]133;B;k=n\x07typed";
        for cut in 0..stream.len() {
            let mut redraw = Redraw::new("n");
            let result = match redraw.hold(&stream[..cut]) {
                HoldResult::NotYet => redraw.hold(&stream[cut..]),
                early => {
                    let HoldResult::Redrawn([before, redrawn, mut after]) = early else { panic!("{early:?}") };
                    after.extend_from_slice(&stream[cut..]);
                    HoldResult::Redrawn([before, redrawn, after])
                }
            };
            let HoldResult::Redrawn([before, redrawn, after]) = result else { panic!("cut at {cut}: {result:?}") };
            assert_eq!((before.as_slice(), after.as_slice()), (b"job done\r\n".as_slice(), b"typed".as_slice()));
            assert!(redrawn.starts_with(b"\r\x1b[K") && redrawn.ends_with(b"B;k=n\x07"));
        }
    }

    #[test]
    fn flood_is_not_a_redraw() {
        let mut redraw = Redraw::new("n");
        let flood = vec![b'x'; Redraw::MAX_PROMPT_BYTES + 1];
        assert_eq!(redraw.hold(&flood), HoldResult::Other(flood));
    }
}
