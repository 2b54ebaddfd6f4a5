//! Answers of the terminal to printed queries: cursor position, device attributes, colours.
//!
//! A program receives an answer as input, like a key. No program reads the answer to a query in a file that `cat`
//! prints, because the shell would read the answer as a command. So the terminal holds an answer until a program may
//! read it. The answer belongs to the process group in the foreground at the query: the terminal drops it when another
//! group takes the foreground.

use std::collections::VecDeque;
use std::time::Duration;

use rustix::process::Pid;
use tokio::time::Instant;

use crate::process::Reading;

/// Maximum number of bytes held for a program that does not read byte by byte yet. New answers replace older ones.
const MAX_HELD_BYTES: usize = 4096;

/// Maximum number of bytes that wait until the terminal has read all printed output.
const MAX_WAITING_BYTES: usize = 256 * 1024;

/// Maximum time to hold an answer for a program that does not read byte by byte yet.
const MAX_HOLD_TIME: Duration = Duration::from_secs(2);

/// Maximum time to wait for the prompt after the end of a command, on a busy machine. After that, the terminal types
/// the answer to a query that the shell itself printed in a function for its prompt.
pub(super) const SHELL_PROMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum time to wait for the mark of a command's end when its shell is in the foreground again. Output arrives a
/// moment after a change of the modes, because the kernel forwards it in the background.
pub(super) const COMMAND_END_TIMEOUT: Duration = Duration::from_millis(200);

/// Delay before the first check of a program that sent a query in canonical mode. The delay doubles for each further
/// check.
const FIRST_CHECK_DELAY: Duration = Duration::from_millis(5);

/// State of the terminal's reader when there is no unread output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    /// The process group in the foreground.
    pub(super) group: Option<Pid>,
    /// Reading unit of the program, if the terminal reports it.
    pub(super) reading: Option<Reading>,
    /// The shell, if it reports its prompts and its own group is in the foreground.
    pub(super) shell: Option<ShellReader>,
}

/// A shell in the foreground.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShellReader {
    /// True if the shell shows a prompt.
    pub(super) at_prompt: bool,
    /// Maximum time to wait for its prompt.
    pub(super) prompt_timeout: Duration,
}

/// Answers to the output of one read.
#[derive(Debug)]
struct Answer {
    bytes: Vec<u8>,
    /// The process group in the foreground at the query.
    group: Option<Pid>,
    since: Instant,
}

/// The answers of one terminal that wait for a reader.
#[derive(Debug, Default)]
pub(super) struct Answers {
    waiting: VecDeque<Answer>,
    /// Length of the waiting answers, in bytes.
    waiting_bytes: usize,
    /// Start of the wait for the shell's prompt.
    prompt_due_since: Option<Instant>,
    /// Time of the next check of the reader.
    next_check: Option<Instant>,
    /// Delay between the next check and the following one.
    check_delay: Duration,
}

impl Answers {
    /// Adds answers to queries printed now, with this process group in the foreground.
    pub(super) fn add(&mut self, bytes: Vec<u8>, group: Option<Pid>, now: Instant) {
        if bytes.is_empty() {
            return;
        }
        (self.next_check, self.check_delay) = (Some(now), FIRST_CHECK_DELAY);
        self.waiting_bytes += bytes.len();
        self.waiting.push_back(Answer { bytes, group, since: now });
        self.keep_newest(MAX_WAITING_BYTES);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the time of the next scheduled check of the reader.
    pub(super) fn next_check(&self) -> Option<Instant> {
        self.next_check
    }

    /// Postpones the check of the reader because there is unread output.
    pub(super) fn postpone(&mut self, now: Instant) {
        self.next_check = Some(now + FIRST_CHECK_DELAY);
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
                self.next_check = (!self.is_empty()).then(|| now + self.check_delay);
                self.check_delay *= 2;
                Vec::new()
            }
            (Some(Reading::Keys), Some(shell)) if shell.at_prompt => {
                self.clear();
                Vec::new()
            }
            (Some(Reading::Keys), Some(shell)) => {
                let due = *self.prompt_due_since.get_or_insert(now) + shell.prompt_timeout;
                if now >= due {
                    return self.take_all();
                }
                self.keep_newest(MAX_HELD_BYTES);
                self.next_check = Some(due);
                Vec::new()
            }
            _ => self.take_all(),
        }
    }

    fn take_all(&mut self) -> Vec<u8> {
        let answers = std::mem::take(self);
        answers.waiting.into_iter().flat_map(|answer| answer.bytes).collect()
    }

    fn retain(&mut self, is_kept: impl Fn(&Answer) -> bool) {
        self.waiting.retain(is_kept);
        self.waiting_bytes = self.waiting.iter().map(|answer| answer.bytes.len()).sum();
    }

    /// Drops the oldest answers until at most `max_bytes` bytes remain.
    fn keep_newest(&mut self, max_bytes: usize) {
        while self.waiting_bytes > max_bytes
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.waiting_bytes -= oldest.bytes.len();
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

    /// A program of group 7 with this way of reading.
    fn program(reading: Reading) -> Reader {
        Reader { group: group(7), reading: Some(reading), shell: None }
    }

    /// The shell of group 7.
    fn shell(reading: Reading, at_prompt: bool) -> Reader {
        Reader { shell: Some(ShellReader { at_prompt, prompt_timeout: SHELL_PROMPT_TIMEOUT }), ..program(reading) }
    }

    fn with_answer(now: Instant) -> Answers {
        let mut answers = Answers::default();
        answers.add(ANSWER.to_vec(), group(7), now);
        answers
    }

    #[test]
    fn byte_reading_program_is_answered_at_once() {
        let now = Instant::now();
        for reader in
            [program(Reading::Bytes), program(Reading::Keys), Reader { reading: None, ..program(Reading::Bytes) }]
        {
            let mut answers = with_answer(now);
            assert_eq!(answers.take_due(reader, now), ANSWER);
            assert!(answers.is_empty() && answers.next_check().is_none() && answers.take_due(reader, now).is_empty());
        }
    }

    #[test]
    fn program_in_the_shells_group_is_answered_at_its_prompt() {
        let now = Instant::now();
        // A picker started by a key binding, or `read` in a function.
        assert_eq!(with_answer(now).take_due(shell(Reading::Bytes, true), now), ANSWER);
    }

    #[test]
    fn shell_at_its_prompt_is_never_answered() {
        let now = Instant::now();
        let mut answers = with_answer(now);
        assert!(answers.take_due(shell(Reading::Keys, true), now).is_empty());
        assert!(answers.is_empty() && answers.take_due(program(Reading::Bytes), now).is_empty());
    }

    #[test]
    fn answer_goes_only_to_the_program_that_asked() {
        let now = Instant::now();
        let mut answers = with_answer(now);
        assert!(answers.take_due(program(Reading::Lines), now).is_empty() && !answers.is_empty());
        let other_reader = Reader { group: group(8), ..program(Reading::Bytes) };
        assert!(answers.take_due(other_reader, now).is_empty() && answers.is_empty() && answers.next_check().is_none());
    }

    #[test]
    fn program_is_answered_once_it_reads_bytes() {
        let mut now = Instant::now();
        let mut answers = with_answer(now);
        for _ in 0..5 {
            now = answers.next_check().unwrap();
            assert!(answers.take_due(program(Reading::Lines), now).is_empty());
        }
        assert_eq!(answers.take_due(program(Reading::Bytes), now), ANSWER);
    }

    #[test]
    fn checks_of_a_line_reading_program_stop() {
        let mut now = Instant::now();
        let mut answers = with_answer(now);
        let mut looks = 0;
        while let Some(look) = answers.next_check() {
            now = look;
            assert!(answers.take_due(program(Reading::Lines), now).is_empty());
            looks += 1;
        }
        assert!((5..15).contains(&looks), "{looks}");
        assert!(answers.is_empty());
    }

    #[test]
    fn shell_has_time_to_show_its_prompt() {
        let now = Instant::now();
        let mut answers = with_answer(now);
        assert!(answers.take_due(shell(Reading::Keys, false), now).is_empty());
        assert_eq!(answers.next_check(), Some(now + SHELL_PROMPT_TIMEOUT));
        assert!(answers.take_due(shell(Reading::Keys, true), now).is_empty() && answers.is_empty());
        let (mut answers, later) = (with_answer(now), now + MAX_HOLD_TIME / 2);
        assert!(answers.take_due(shell(Reading::Lines, false), now).is_empty());
        assert!(
            answers.take_due(shell(Reading::Keys, false), later).is_empty(),
            "time counts from the moment the shell reads keys"
        );
        assert_eq!(
            answers.take_due(shell(Reading::Keys, false), later + SHELL_PROMPT_TIMEOUT),
            ANSWER,
            "the shell itself printed the query"
        );
    }

    #[test]
    fn newest_answers_are_held_and_a_reader_gets_all() {
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
        let delivered = held.take_due(program(Reading::Bytes), now);
        assert!(delivered.len() <= MAX_HELD_BYTES && delivered.ends_with(b"\x1b[99999;1R"), "{}", delivered.len());
    }
}
