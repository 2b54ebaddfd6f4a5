//! Answers of the terminal to printed queries: cursor position, device attributes, colours.
//!
//! An answer reaches the program as input, like a key. A query in a file that `cat` prints
//! has no program that reads the answer: the shell would take it for a command. So the terminal holds
//! an answer until a program may read it. The answer belongs to the process group in the foreground
//! at the query: the terminal drops it when another group takes the foreground.

use std::collections::VecDeque;
use std::time::Duration;

use rustix::process::Pid;
use tokio::time::Instant;

use crate::process::Reading;

/// Maximum bytes held for a program that does not read byte by byte yet. Older answers make room for newer ones.
const MAX_HELD_BYTES: usize = 4096;

/// Maximum bytes that wait until the terminal has read all printed output.
const MAX_WAITING_BYTES: usize = 256 * 1024;

/// Maximum time of holding an answer for a program that does not read byte by byte yet.
const MAX_HOLD_TIME: Duration = Duration::from_secs(2);

/// Time limit for the prompt of a shell whose command has ended, on a busy machine. The answer to a query that the
/// shell itself prints then, in a function for its prompt, comes after that.
pub(super) const PROMPT_COMES: Duration = Duration::from_secs(1);

/// Time limit for reading the end of a command whose shell has the terminal back. Output of a program arrives a moment
/// later than a change of the modes, because the kernel passes it on in the background.
pub(super) const END_COMES: Duration = Duration::from_millis(200);

/// Time until the first check of a program that sent a query while the terminal collected lines. The time doubles for
/// each further check.
const FIRST_LOOK: Duration = Duration::from_millis(5);

/// Knowledge about the reader of the terminal, when there is no unread output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    /// The process group in the foreground.
    pub(super) group: Option<Pid>,
    /// Mode in which it reads, if the terminal reports it.
    pub(super) reading: Option<Reading>,
    /// The shell, if it reports its prompts and its own group has the foreground.
    pub(super) shell: Option<ShellReader>,
}

/// A shell that has the terminal.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShellReader {
    /// True if it shows a prompt.
    pub(super) at_prompt: bool,
    /// Time limit for its prompt.
    pub(super) prompt_comes: Duration,
}

/// Answers to the output of one read.
#[derive(Debug)]
struct Answer {
    bytes: Vec<u8>,
    /// The process group that had the terminal then.
    group: Option<Pid>,
    since: Instant,
}

/// The answers of one terminal that wait for a reader.
#[derive(Debug, Default)]
pub(super) struct Answers {
    waiting: VecDeque<Answer>,
    /// Length of the waiting answers, in bytes.
    length: usize,
    /// Time since which the shell's prompt is expected.
    prompt_due_since: Option<Instant>,
    /// Time of the next check of the reader, and the pause until the following one.
    inspect_at: Option<Instant>,
    step: Duration,
}

impl Answers {
    /// Adds answers to queries printed at this moment, while this process group had the terminal.
    pub(super) fn add(&mut self, bytes: Vec<u8>, group: Option<Pid>, now: Instant) {
        if bytes.is_empty() {
            return;
        }
        (self.inspect_at, self.step) = (Some(now), FIRST_LOOK);
        self.length += bytes.len();
        self.waiting.push_back(Answer { bytes, group, since: now });
        self.keep_newest(MAX_WAITING_BYTES);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the time of the next scheduled check of the reader.
    pub(super) fn inspect_at(&self) -> Option<Instant> {
        self.inspect_at
    }

    /// Postpones the check of the reader, because output remains to be read.
    pub(super) fn postpone(&mut self, now: Instant) {
        self.inspect_at = Some(now + FIRST_LOOK);
    }

    /// Drops the waiting answers.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the answers to type now.
    pub(super) fn take_due(&mut self, reader: Reader, now: Instant) -> Vec<u8> {
        self.retain(|answer| answer.group == reader.group);
        if self.is_empty() {
            self.clear();
            return Vec::new();
        }
        match (reader.reading, reader.shell) {
            (Some(Reading::Lines), _) => {
                self.prompt_due_since = None;
                self.retain(|answer| now.duration_since(answer.since) < MAX_HOLD_TIME);
                self.keep_newest(MAX_HELD_BYTES);
                self.inspect_at = (!self.is_empty()).then(|| now + self.step);
                self.step *= 2;
                Vec::new()
            }
            (Some(Reading::Keys), Some(shell)) if shell.at_prompt => {
                self.clear();
                Vec::new()
            }
            (Some(Reading::Keys), Some(shell)) => {
                let due = *self.prompt_due_since.get_or_insert(now) + shell.prompt_comes;
                if now >= due {
                    return self.all();
                }
                self.keep_newest(MAX_HELD_BYTES);
                self.inspect_at = Some(due);
                Vec::new()
            }
            _ => self.all(),
        }
    }

    fn all(&mut self) -> Vec<u8> {
        let all = std::mem::take(self);
        all.waiting.into_iter().flat_map(|answer| answer.bytes).collect()
    }

    fn retain(&mut self, holds: impl Fn(&Answer) -> bool) {
        self.waiting.retain(holds);
        self.length = self.waiting.iter().map(|answer| answer.bytes.len()).sum();
    }

    /// Drops the oldest until the rest has at most `bound` bytes.
    fn keep_newest(&mut self, bound: usize) {
        while self.length > bound
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.length -= oldest.bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] = b"\x1b[1;1R";

    fn group(id: i32) -> Option<Pid> {
        Pid::from_raw(id)
    }

    /// A program of group 7 that reads like this.
    fn program(reading: Reading) -> Reader {
        Reader { group: group(7), reading: Some(reading), shell: None }
    }

    /// The shell of group 7.
    fn shell(reading: Reading, at_prompt: bool) -> Reader {
        Reader { shell: Some(ShellReader { at_prompt, prompt_comes: PROMPT_COMES }), ..program(reading) }
    }

    fn with_answer(now: Instant) -> Answers {
        let mut answers = Answers::default();
        answers.add(ANSWER.to_vec(), group(7), now);
        answers
    }

    #[test]
    fn a_program_that_reads_bytes_is_answered_at_once() {
        let now = Instant::now();
        for reader in
            [program(Reading::Bytes), program(Reading::Keys), Reader { reading: None, ..program(Reading::Bytes) }]
        {
            let mut answers = with_answer(now);
            assert_eq!(answers.take_due(reader, now), ANSWER);
            assert!(answers.is_empty() && answers.inspect_at().is_none() && answers.take_due(reader, now).is_empty());
        }
    }

    #[test]
    fn a_program_in_the_shell_s_own_group_is_answered_at_its_prompt() {
        let now = Instant::now();
        // A picker of a key binding, or `read` in a function.
        assert_eq!(with_answer(now).take_due(shell(Reading::Bytes, true), now), ANSWER);
    }

    #[test]
    fn a_shell_at_its_prompt_is_answered_nothing_then_or_later() {
        let now = Instant::now();
        let mut answers = with_answer(now);
        assert!(answers.take_due(shell(Reading::Keys, true), now).is_empty());
        assert!(answers.is_empty() && answers.take_due(program(Reading::Bytes), now).is_empty());
    }

    #[test]
    fn the_answer_to_one_program_is_never_given_to_another() {
        let now = Instant::now();
        let mut answers = with_answer(now);
        assert!(answers.take_due(program(Reading::Lines), now).is_empty() && !answers.is_empty());
        let other = Reader { group: group(8), ..program(Reading::Bytes) };
        assert!(answers.take_due(other, now).is_empty() && answers.is_empty() && answers.inspect_at().is_none());
    }

    #[test]
    fn a_program_that_asks_before_it_reads_bytes_is_answered_when_it_does() {
        let mut now = Instant::now();
        let mut answers = with_answer(now);
        for _ in 0..5 {
            now = answers.inspect_at().unwrap();
            assert!(answers.take_due(program(Reading::Lines), now).is_empty());
        }
        assert_eq!(answers.take_due(program(Reading::Bytes), now), ANSWER);
    }

    #[test]
    fn a_program_that_reads_lines_is_not_looked_at_for_ever() {
        let mut now = Instant::now();
        let mut answers = with_answer(now);
        let mut looks = 0;
        while let Some(look) = answers.inspect_at() {
            now = look;
            assert!(answers.take_due(program(Reading::Lines), now).is_empty());
            looks += 1;
        }
        assert!((5..15).contains(&looks), "{looks}");
        assert!(answers.is_empty());
    }

    #[test]
    fn a_shell_that_has_the_terminal_back_has_a_moment_to_show_its_prompt() {
        let now = Instant::now();
        let mut answers = with_answer(now);
        assert!(answers.take_due(shell(Reading::Keys, false), now).is_empty());
        assert_eq!(answers.inspect_at(), Some(now + PROMPT_COMES));
        assert!(answers.take_due(shell(Reading::Keys, true), now).is_empty() && answers.is_empty());
        let (mut answers, later) = (with_answer(now), now + MAX_HOLD_TIME / 2);
        assert!(answers.take_due(shell(Reading::Lines, false), now).is_empty());
        assert!(
            answers.take_due(shell(Reading::Keys, false), later).is_empty(),
            "it counts from when the shell reads keys"
        );
        assert_eq!(answers.take_due(shell(Reading::Keys, false), later + PROMPT_COMES), ANSWER, "it asked by itself");
    }

    #[test]
    fn the_newest_answers_are_held_and_a_reader_gets_all() {
        let now = Instant::now();
        let flood = || {
            let mut answers = Answers::default();
            for number in 0..100_000 {
                answers.add(format!("\x1b[{number};1R").into_bytes(), group(7), now);
            }
            answers
        };
        let all = flood().take_due(program(Reading::Bytes), now).len();
        assert!((10 * MAX_HELD_BYTES..=MAX_WAITING_BYTES).contains(&all), "{all}");
        let mut held = flood();
        assert!(held.take_due(program(Reading::Lines), now).is_empty());
        let given = held.take_due(program(Reading::Bytes), now);
        assert!(given.len() <= MAX_HELD_BYTES && given.ends_with(b"\x1b[99999;1R"), "{}", given.len());
    }
}
