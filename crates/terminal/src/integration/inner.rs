//! Nested shells: the integration of a shell within `ssh`, `su`, `docker exec` or another shell.
//!
//! Another program starts such a shell, so the shell reads no file of ours. The terminal types two short lines at the
//! shell's prompt instead: the first queries the kind of the shell, and the second sets up the marks. [`HiddenTyping`]
//! removes the shell's answers from the output. Lines begin with a space, so that most shells do not store them in
//! their history. The scripts for bash and fish also remove them.
//!
//! Each line has fewer than 1,000 characters, the limit of busybox.

use std::fmt::Write as _;

use super::{IntegrationSession, Kind, quoted, random};

const BASH: &str = include_str!("inner/bash.sh");
const ZSH: &str = include_str!("inner/zsh.zsh");
const FISH: &str = include_str!("inner/fish.fish");
const POSIX: &str = include_str!("inner/posix.sh");

/// Creates a session for an inner shell of unknown kind.
pub(crate) fn new_inner_session() -> IntegrationSession {
    IntegrationSession { kind: Kind::Posix, nonce: random(), files: None }
}

/// printf(1) in every shell, regardless of the user's aliases and functions: quotes prevent aliases, even global ones,
/// and `command` skips functions. This runs the program in zsh and fish, and the builtin elsewhere.
const PRINTF: &str = "'command' 'printf'";

/// Returns the line that queries the kind of a shell. All shells except the csh family understand it.
pub(crate) fn kind_line(nonce: &str) -> String {
    // The pipe runs `eval` in a subshell, so `set +u` does not change the options of the shell.
    const QUERY: &str = "'eval' 'set +u 2>/dev/null; \"command\" \"printf\" \"%s,%s,%s\" \"$ZSH_VERSION\" \
         \"$BASH_VERSION\" \"$FISH_VERSION\"' | 'command' 'cat'";
    frame_with_marks(PRINTF, nonce, QUERY)
}

/// Returns the kind of shell that an answer to [`kind_line`] names.
pub(crate) fn kind_from_answer(answer: &str) -> Kind {
    let mut versions = answer.split(',');
    let mut next = || versions.next().unwrap_or_default().trim();
    let [zsh, bash, fish] = [next(), next(), next()];
    // bash before 4.4 has no PS0 to mark the beginning of a command.
    let has_ps0 = || {
        let mut numbers = bash.split('.').map_while(|number| number.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(4), Some(4))
    };
    if !zsh.is_empty() {
        Kind::Zsh
    } else if !fish.is_empty() {
        Kind::Fish
    } else if !bash.is_empty() && has_ps0() {
        Kind::Bash
    } else {
        Kind::Posix
    }
}

/// Returns the line that sets up the marks of a shell.
pub(crate) fn marks_line(kind: Kind, nonce: &str) -> String {
    let script = match kind {
        Kind::Bash => BASH,
        Kind::Zsh => ZSH,
        Kind::Fish => FISH,
        Kind::Posix => POSIX,
    };
    let statements: Vec<&str> = script.lines().filter(|line| !line.starts_with('#')).collect();
    let statements = statements.join("; ").replace("KEY", nonce);
    // A shell expands aliases when it reads a line, so turn aliases off first and let `eval` read the statements.
    let without_aliases = match kind {
        Kind::Bash => "__steplatch_shopts=$BASHOPTS; \\builtin shopt -u expand_aliases; \\builtin eval ",
        Kind::Zsh => {
            "__steplatch_aliased=1; \\builtin \\test -o aliases && __steplatch_aliased=0; \\builtin \\setopt no_aliases; \
             \\builtin \\eval "
        }
        Kind::Fish | Kind::Posix => return frame_with_marks(printf_command(kind), nonce, &statements),
    };
    let statements = quoted(statements, kind).into_string().expect("quoted UTF-8 is UTF-8");
    frame_with_marks(printf_command(kind), nonce, &format!("{without_aliases}{statements}"))
}

/// Returns the line that makes an inner shell run a script of one line and report its output.
pub(crate) fn script_line(agreed: &IntegrationSession, script: &str) -> String {
    let forget = if agreed.kind == Kind::Bash { "__steplatch_forget; " } else { "" };
    frame_with_marks(printf_command(agreed.kind), &agreed.nonce, &format!("{forget}{script}"))
}

/// Returns the command for printf(1) in a shell of this kind: the builtin if it is known to exist.
fn printf_command(kind: Kind) -> &'static str {
    match kind {
        Kind::Bash | Kind::Zsh => "\\builtin \\printf",
        Kind::Fish => "builtin printf",
        Kind::Posix => PRINTF,
    }
}

/// Adds marks around the output of a line.
fn frame_with_marks(printf: &str, nonce: &str, script: &str) -> String {
    let mut line = String::from(" ");
    let mark = |end: &str| format!("{printf} \"\\033]133;V{end};k={nonce}\\007\"");
    let _ = write!(line, "{}; {script}; {}", mark(";b"), mark(""));
    line
}

/// Output held back from the typed line until the next prompt.
#[derive(Debug)]
pub(crate) struct HiddenTyping {
    begin: Vec<u8>,
    end: Vec<u8>,
    prompt: Option<[Vec<u8>; 2]>,
    held: Vec<u8>,
}

/// Output of a shell for a hidden line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HiddenAnswer {
    /// Output of the line itself, with `\n` as line ends.
    pub(crate) answer: Vec<u8>,
    /// The last line of the following prompt. Empty if prompts have no marks yet.
    pub(crate) prompt: Vec<u8>,
    /// Output after that prompt.
    pub(crate) rest: Vec<u8>,
}

impl HiddenTyping {
    /// Maximum number of bytes to hold back: the longest answer, and the shell's echo of the line.
    const MAX_HELD_BYTES: usize = 8 << 20;

    /// Creates an empty state. `has_prompt_marks` is true if the following prompt carries marks.
    pub(crate) fn new(nonce: &str, has_prompt_marks: bool) -> Self {
        let mark = |text: &str| format!("\x1b]133;{text};k={nonce}\x07").into_bytes();
        let prompt = has_prompt_marks.then(|| [mark("A"), mark("B")]);
        Self { begin: mark("V;b"), end: mark("V"), prompt, held: Vec::new() }
    }

    /// Processes output. Returns the answer when the prompt is back.
    pub(crate) fn hold(&mut self, bytes: &[u8]) -> Option<HiddenAnswer> {
        let searched = self.held.len().saturating_sub(self.begin.len());
        self.held.extend_from_slice(bytes);
        // Most portions are an echo without marks and cannot complete the answer.
        if self.prompt.is_some() && memchr::memchr(b'\x07', &self.held[searched..]).is_none() {
            return None;
        }
        let begin = memchr::memmem::find(&self.held, &self.begin)? + self.begin.len();
        let end = begin + memchr::memmem::find(&self.held[begin..], &self.end)?;
        let after_answer = end + self.end.len();
        let (prompt, rest) = match &self.prompt {
            None => {
                // The prompt usually arrives in one piece. The next hidden line absorbs the rest of it.
                let has_prompt_text = self.held[after_answer..].iter().any(u8::is_ascii_graphic);
                has_prompt_text.then_some((after_answer..after_answer, self.held.len()))?
            }
            Some([start_mark, end_mark]) => {
                let prompt_end = after_answer + memchr::memmem::find(&self.held[after_answer..], end_mark)?;
                let prompt_start = memchr::memmem::rfind(&self.held[after_answer..prompt_end], start_mark)?
                    + after_answer
                    + start_mark.len();
                let line = memchr::memrchr(b'\n', &self.held[prompt_start..prompt_end])
                    .map_or(prompt_start, |at| prompt_start + at + 1);
                (line..prompt_end, prompt_end + end_mark.len())
            }
        };
        let mut answer = Vec::with_capacity(end - begin);
        let bytes = &self.held[begin..end];
        for (at, byte) in bytes.iter().enumerate() {
            // Drop the `\r` that the kernel puts before each `\n`.
            if *byte != b'\r' || bytes.get(at + 1) != Some(&b'\n') {
                answer.push(*byte);
            }
        }
        Some(HiddenAnswer { answer, prompt: self.held[prompt].to_vec(), rest: self.held[rest..].to_vec() })
    }

    /// Returns whether the held output contains a mark with `nonce`.
    pub(crate) fn has_mark_of(&self, nonce: &str) -> bool {
        let key = format!("k={nonce}");
        memchr::memmem::find_iter(&self.held, b"\x1b]133;").any(|at| {
            let mark = &self.held[at..];
            let mark = &mark[..memchr::memchr(b'\x07', mark).unwrap_or(0)];
            memchr::memmem::find(mark, key.as_bytes()).is_some()
        })
    }

    /// Returns whether the output is too long for an answer.
    pub(crate) fn is_too_long(&self) -> bool {
        self.held.len() > Self::MAX_HELD_BYTES
    }

    /// Returns the held output if no answer follows.
    pub(crate) fn give_up(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_BUSYBOX_LINE_BYTES: usize = 1000;

    #[test]
    fn lines_are_short_single_lines_for_every_shell() {
        let nonce = random();
        for kind in [Kind::Bash, Kind::Zsh, Kind::Posix, Kind::Fish] {
            let line = marks_line(kind, &nonce);
            assert!(line.starts_with(' ') && !line.contains('\n') && !line.contains("KEY"), "{line}");
            assert!(kind != Kind::Posix || line.len() < MAX_BUSYBOX_LINE_BYTES, "{}", line.len());
            assert!(kind != Kind::Bash || !line.contains('!'), "bash expands an exclamation mark: {line}");
        }
        assert!(kind_line(&nonce).len() < 300);
    }

    #[test]
    fn shells_are_recognised_by_their_versions() {
        let answers = [
            (",5.2.15(1)-release,", Kind::Bash),
            (",4.4.20(1)-release,", Kind::Bash),
            (",10.0.1,", Kind::Bash),
            (",4.3.48(1)-release,", Kind::Posix),
            (",3.2.57(1)-release,", Kind::Posix),
            ("5.9,,", Kind::Zsh),
            (",,3.6.0", Kind::Fish),
            (",,", Kind::Posix),
            ("", Kind::Posix),
        ];
        for (answer, kind) in answers {
            assert_eq!(kind_from_answer(answer), kind, "{answer:?}");
        }
    }

    #[test]
    fn answer_is_found_wherever_it_is_cut() {
        let stream = b" printf \"x\"\r\n\x1b]133;V;b;k=n\x07one\r\ntwo\r\r\n\x1b]133;V;k=n\x07\x1b]133;D;0;k=n\x07\
            \x1b]133;A;k=n\x07first\r\n$ \x1b]133;B;k=n\x07typed";
        for cut in 0..=stream.len() {
            let mut typing = HiddenTyping::new("n", true);
            let mut found = typing.hold(&stream[..cut]);
            if found.is_none() {
                found = typing.hold(&stream[cut..]);
            } else if let Some(found) = &mut found {
                found.rest.extend_from_slice(&stream[cut..]);
            }
            let expected =
                HiddenAnswer { answer: b"one\ntwo\r\n".to_vec(), prompt: b"$ ".to_vec(), rest: b"typed".to_vec() };
            assert_eq!(found, Some(expected), "cut at {cut}");
        }
    }

    #[test]
    fn mark_of_another_shell_is_found_once_complete() {
        let mut typing = HiddenTyping::new("n", false);
        typing.hold(b"typed k=other\r\n\x1b]133;D;0;k=other;n=1");
        assert!(!typing.has_mark_of("other"));
        typing.hold(b"\x07");
        assert!(typing.has_mark_of("other") && !typing.has_mark_of("n"));
    }

    #[test]
    fn first_answer_comes_with_an_unmarked_prompt() {
        let mut typing = HiddenTyping::new("n", false);
        assert_eq!(
            typing.hold(b"\x1b]133;V;b;k=n\x07,5.2,\x1b]133;V;k=n\x07\r\n"),
            None,
            "the prompt has not arrived yet"
        );
        let answer = typing.hold(b"$ ").unwrap();
        assert_eq!((answer.answer.as_slice(), answer.prompt.as_slice()), (b",5.2,".as_slice(), b"".as_slice()));
        let mut typing = HiddenTyping::new("n", true);
        typing.hold(b"ZSH_VERSION: Undefined variable.\r\n% ");
        assert_eq!(typing.give_up(), b"ZSH_VERSION: Undefined variable.\r\n% ");
    }
}
