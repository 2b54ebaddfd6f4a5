//! The state of a session: calls and their results, calls in progress, and open questions.
//!
//! The state does not depend on the terminal or the daemon: a view reads it, and the conversation executes lines and
//! stores their outcomes in it. The current time is a parameter.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::Value;
use steplatch_protocol::GateInfo;

use crate::gate_prompt::GatePrompt;

use super::line::{self, Line, Target};
use super::order::{self, Order};
use super::reference::{self, PinnedRefs};

/// Maximum size of the stored results, in bytes of JSON. The oldest are removed first; the last one always stays.
const MAX_RESULT_BYTES: usize = 32 << 20;

/// A call. Its index in [`Session::entries`] is its number.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) target: Target,
    /// The run, once it has started.
    pub(crate) run: Option<String>,
    /// True if this conversation started the run, false if it only follows the run.
    pub(crate) started_here: bool,
    /// True if only the questions and the end of the call appear.
    pub(crate) quiet: bool,
    pub(crate) began: Instant,
    /// The input. Moves into the result at the end.
    pub(crate) input: Value,
    pub(crate) state: State,
}

/// The state of a call.
#[derive(Debug)]
pub(crate) enum State {
    /// The call needs results that are not available yet.
    Waiting,
    Running,
    Done {
        result: Value,
        bytes: usize,
        took: Duration,
    },
    /// The call has ended. Its result was dropped to make room for later results.
    Discarded,
}

/// A question to the person.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) asking: GatePrompt,
    /// Number of the call that asks, if this conversation started or followed it.
    pub(crate) entry: Option<usize>,
}

/// The meaning of a line in the current session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ParsedLine {
    Nothing,
    Call(Target, PinnedRefs),
    /// A call in the background.
    BackgroundCall(Target, PinnedRefs),
    Order(String, PinnedRefs),
    /// A line that is only a reference, to the result of this number.
    Look(usize, PinnedRefs),
    /// A line for the current question, with its gate.
    Answer(String, PinnedRefs),
    /// An invalid line, with the reason.
    Invalid(String),
}

/// The use of text that waits for the results of its references.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PendingText {
    /// Make the call of this number.
    Call(usize),
    Order(String),
    /// Show the value from the result of this number.
    Look(usize),
    Answer(String),
}

/// A text with its references resolved.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ResolvedText {
    Ready(Value),
    /// These results are not available yet.
    Missing(Vec<usize>),
}

#[derive(Debug)]
pub(crate) struct Session {
    entries: Vec<Entry>,
    questions: VecDeque<Question>,
    waiting: Vec<(PendingText, PinnedRefs)>,
    /// The target of plain text, unless the text answers a question.
    target: Option<Target>,
    /// Index of the first entry that may still have its result.
    oldest: usize,
    result_bytes: usize,
    max_result_bytes: usize,
}

impl Default for Session {
    fn default() -> Self {
        Self::with_max_result_bytes(MAX_RESULT_BYTES)
    }
}

impl Session {
    /// Creates a session that stores at most `max_result_bytes` bytes of results.
    fn with_max_result_bytes(max_result_bytes: usize) -> Self {
        let (entries, questions, waiting) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { entries, questions, waiting, target: None, oldest: 0, result_bytes: 0, max_result_bytes }
    }

    /// Interprets a line. A line without a sign at its beginning answers the current question.
    pub(crate) fn read(&self, line: &str) -> ParsedLine {
        let gate_prompt = self.current_question().map(|question| &question.asking);
        if let Some(asking) = gate_prompt {
            let gate = asking.gate();
            let answer_with = |text: &str| ParsedLine::Answer(gate.gate_id.clone(), PinnedRefs::plain(text));
            if asking.is_secret() {
                return answer_with(line);
            }
            // A choice may look like a command.
            if gate.choices.iter().any(|choice| choice == line.trim()) {
                return answer_with(line.trim());
            }
            // A blank line may leave a field empty, or leave the question open.
            if line.trim().is_empty() && !asking.can_skip() {
                return answer_with("");
            }
        }
        let names = self.names();
        let pin = |text: &str| reference::parse_references(text, &names);
        let meaning = line::read(line).and_then(|line| match line {
            Line::Nothing => Ok(ParsedLine::Nothing),
            Line::Call { target, text } => Ok(ParsedLine::Call(target, pin(&text)?)),
            Line::Order { word, rest } if order::find(&word) == Ok(Order::Background) && !rest.is_empty() => {
                match self.read(&rest) {
                    ParsedLine::Call(target, text) => Ok(ParsedLine::BackgroundCall(target, text)),
                    ParsedLine::Invalid(error) => Err(error),
                    _ => Err("/bg begins a call of a node, a graph or a workflow, such as /bg %release".to_owned()),
                }
            }
            Line::Order { word, rest } => Ok(ParsedLine::Order(word, pin(&rest)?)),
            Line::Look(text) => {
                let text = pin(&text)?;
                let first = text.numbers().next();
                let notation_hint = "a reference is written ::0, ::-1, ::last or ::NAME; see /help references";
                first.map(|number| ParsedLine::Look(number, text)).ok_or_else(|| notation_hint.to_owned())
            }
            Line::Words(text) => match (gate_prompt, &self.target) {
                (Some(asking), _) => Ok(ParsedLine::Answer(asking.gate().gate_id.clone(), pin(&text)?)),
                (None, Some(target)) => Ok(ParsedLine::Call(target.clone(), pin(&text)?)),
                (None, None) => {
                    Err("no question is open; call a node with @, a graph with # or a workflow with %, and see /help; \
                         /target @NODE sends plain text to one"
                        .to_owned())
                }
            },
        });
        meaning.unwrap_or_else(ParsedLine::Invalid)
    }

    /// Returns the target of plain text.
    pub(crate) fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }

    /// Sets the target of plain text; `None` removes it.
    pub(crate) fn set_target(&mut self, target: Option<Target>) {
        self.target = target;
    }

    /// Returns text with its references resolved, or the numbers of the results that are missing.
    ///
    /// # Errors
    /// If a result does not exist, or lacks the referenced part.
    pub(crate) fn resolve_text(&self, text: &PinnedRefs) -> Result<ResolvedText, String> {
        let is_pending = |number: &usize| matches!(self.entries[*number].state, State::Waiting | State::Running);
        let is_pending: Vec<usize> = text.numbers().filter(is_pending).collect();
        if is_pending.is_empty() {
            text.fill_in(|number| self.result(number)).map(ResolvedText::Ready)
        } else {
            Ok(ResolvedText::Missing(is_pending))
        }
    }

    /// Queues text until all its references have results.
    pub(crate) fn queue_text(&mut self, pending: PendingText, text: PinnedRefs) {
        self.waiting.push((pending, text));
    }

    /// Takes the waiting texts with results for all references, in the order of their input.
    pub(crate) fn take_ready_texts(&mut self) -> Vec<(PendingText, Result<Value, String>)> {
        let mut ready = Vec::new();
        for (pending, text) in std::mem::take(&mut self.waiting) {
            match self.resolve_text(&text) {
                Ok(ResolvedText::Missing(_)) => self.waiting.push((pending, text)),
                Ok(ResolvedText::Ready(value)) => ready.push((pending, Ok(value))),
                Err(error) => ready.push((pending, Err(error))),
            }
        }
        ready
    }

    /// Records the start of a call and returns its number.
    pub(crate) fn begin_call(&mut self, target: Target, started_here: bool, quiet: bool, now: Instant) -> usize {
        self.entries.push(Entry {
            target,
            run: None,
            started_here,
            quiet,
            began: now,
            input: Value::Null,
            state: State::Waiting,
        });
        self.entries.len() - 1
    }

    /// Records that a call has its input and starts.
    pub(crate) fn record_start(&mut self, number: usize, input: Value, now: Instant) {
        let entry = &mut self.entries[number];
        (entry.state, entry.input, entry.began) = (State::Running, input, now);
    }

    /// Stores the result of a call.
    pub(crate) fn store_result(&mut self, number: usize, result: Value, now: Instant) {
        let bytes = serde_json::to_vec(&result).map_or(0, |text| text.len());
        let took = now.saturating_duration_since(self.entries[number].began);
        let entry = &mut self.entries[number];
        (entry.state, entry.input) = (State::Done { result, bytes, took }, Value::Null);
        self.waiting.retain(|(pending, _)| *pending != PendingText::Call(number));
        self.questions.retain(|question| question.entry != Some(number));
        self.result_bytes += bytes;
        while self.result_bytes > self.max_result_bytes && self.oldest < number {
            let oldest = &mut self.entries[self.oldest].state;
            if let State::Done { bytes, .. } = oldest {
                self.result_bytes -= *bytes;
                *oldest = State::Discarded;
            }
            self.oldest += 1;
        }
    }

    pub(crate) fn entry(&self, number: usize) -> &Entry {
        &self.entries[number]
    }

    pub(crate) fn entry_mut(&mut self, number: usize) -> &mut Entry {
        &mut self.entries[number]
    }

    /// Returns all calls with their numbers, the first one first.
    pub(crate) fn entries(&self) -> impl DoubleEndedIterator<Item = (usize, &Entry)> {
        self.entries.iter().enumerate()
    }

    /// Returns the calls in progress, with their numbers.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.entries().filter(|(_, entry)| matches!(entry.state, State::Waiting | State::Running))
    }

    /// Parses the number of a call: `3` or `::3`.
    pub(crate) fn find_by_number(&self, text: &str) -> Option<usize> {
        let number: usize = text.strip_prefix("::").unwrap_or(text).parse().ok()?;
        Some(number).filter(|number| *number < self.entries.len())
    }

    /// Returns the number of the call in progress that has this run.
    pub(crate) fn find_by_run(&self, run: &str) -> Option<usize> {
        self.unfinished().find(|(_, entry)| entry.run.as_deref() == Some(run)).map(|(number, _)| number)
    }

    /// Returns the result of a call that has ended.
    ///
    /// # Errors
    /// If the result is not available yet, or no longer.
    pub(crate) fn result(&self, number: usize) -> Result<&Value, String> {
        match &self.entries[number].state {
            State::Done { result, .. } => Ok(result),
            State::Waiting | State::Running => Err(format!("::{number} is still coming")),
            State::Discarded => Err(format!(
                "::{number} is not kept any more: results of {} MB came after it",
                self.max_result_bytes >> 20
            )),
        }
    }

    /// Returns the names of all calls, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.entries.iter().map(|entry| entry.target.short()).collect()
    }

    /// Adds a question after the others, or before them with `at_front`. Returns whether it has become the current
    /// question. An existing question of the same gate keeps its state.
    pub(crate) fn add_question(&mut self, gate: GateInfo, entry: Option<usize>, at_front: bool) -> bool {
        let position = self.questions.iter().position(|known| known.asking.gate().gate_id == gate.gate_id);
        let known = match position {
            Some(position) if at_front && position > 0 => self.questions.remove(position),
            Some(position) => {
                let known = &mut self.questions[position];
                known.entry = known.entry.or(entry);
                return false;
            }
            None => None,
        };
        let mut question = known.unwrap_or_else(|| Question { asking: GatePrompt::new(gate), entry });
        question.entry = question.entry.or(entry);
        if at_front {
            self.questions.push_front(question);
        } else {
            self.questions.push_back(question);
        }
        at_front || self.questions.len() == 1
    }

    /// Returns the open question of a gate.
    pub(crate) fn question(&mut self, gate: &str) -> Option<&mut Question> {
        self.questions.iter_mut().find(|question| question.asking.gate().gate_id == gate)
    }

    /// Returns the current question. The next line answers it.
    pub(crate) fn current_question(&self) -> Option<&Question> {
        self.questions.front()
    }

    /// Returns the open questions, the current one first.
    pub(crate) fn questions(&self) -> impl Iterator<Item = &Question> {
        self.questions.iter()
    }

    /// Removes the question of a closed gate. Returns the question, and true if it was the current question.
    pub(crate) fn remove_question(&mut self, gate: &str) -> Option<(Question, bool)> {
        let position = self.questions.iter().position(|question| question.asking.gate().gate_id == gate)?;
        self.questions.remove(position).map(|question| (question, position == 0))
    }

    /// Removes the questions of a call whose runs have ended.
    pub(crate) fn remove_ended_questions(&mut self, number: usize, has_ended: impl Fn(&str) -> bool) {
        self.questions.retain(|question| question.entry != Some(number) || !has_ended(&question.asking.gate().run_id));
    }

    /// Removes all questions without answering them and returns their number.
    pub(crate) fn drop_questions(&mut self) -> usize {
        std::mem::take(&mut self.questions).len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steplatch_protocol::AnswerGateReply;

    use super::*;
    use crate::commander::line::Kind;

    fn begin_call(session: &mut Session, name: &str) -> usize {
        let target = Target { kind: Kind::Node, name: name.to_owned() };
        session.begin_call(target, true, false, Instant::now())
    }

    fn store_output(session: &mut Session, number: usize, output: &str) {
        session.record_start(number, Value::Null, Instant::now());
        session.store_result(number, json!({"success": true, "output": output}), Instant::now());
    }

    fn gate(id: &str, choices: &[&str]) -> GateInfo {
        let choices = choices.iter().map(|choice| (*choice).to_owned()).collect();
        GateInfo { gate_id: id.to_owned(), choices, ..GateInfo::default() }
    }

    fn text(session: &Session, line: &str) -> PinnedRefs {
        match session.read(line) {
            ParsedLine::Call(_, text) | ParsedLine::Answer(_, text) | ParsedLine::Look(_, text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn line_with_a_pending_reference_is_ready_once_it_resolves() {
        let mut session = Session::default();
        let slow = begin_call(&mut session, "slow");
        session.record_start(slow, Value::Null, Instant::now());
        let words = text(&session, "@greet ::last and ::slow");
        assert_eq!(session.resolve_text(&words), Ok(ResolvedText::Missing(vec![0, 0])));
        let greet = begin_call(&mut session, "greet");
        session.queue_text(PendingText::Call(greet), words);
        assert!(session.take_ready_texts().is_empty());
        let next = text(&session, "@greet ::last");
        session.queue_text(PendingText::Look(1), next);
        store_output(&mut session, slow, "done");
        assert_eq!(session.take_ready_texts(), [(PendingText::Call(greet), Ok(json!("done and done")))]);
        session.store_result(greet, json!({"success": false, "output": null}), Instant::now());
        let ready = session.take_ready_texts();
        assert!(
            matches!(&ready[..], [(PendingText::Look(1), Err(error))] if error.contains("because it failed")),
            "{ready:?}"
        );
    }

    #[test]
    fn text_answers_only_the_open_question() {
        let mut session = Session::default();
        assert!(matches!(session.read("2"), ParsedLine::Invalid(error) if error.starts_with("no question is open")));
        assert!(session.add_question(gate("a", &["yes", "@no"]), None, false));
        assert!(!session.add_question(gate("b", &[]), Some(0), false), "only one question is current");
        assert!(
            !session.add_question(gate("a", &["yes", "@no"]), None, false) && session.questions().count() == 2,
            "once"
        );
        let answer = |session: &Session, line: &str| match session.read(line) {
            ParsedLine::Answer(gate, text) => (gate, text.fill_in(|_| Err(String::new())).unwrap()),
            other => panic!("{other:?}"),
        };
        assert_eq!(answer(&session, " 1"), ("a".to_owned(), json!("1")));
        assert_eq!(answer(&session, "@no"), ("a".to_owned(), json!("@no")), "a choice takes precedence over a call");
        assert!(matches!(session.read("@greet"), ParsedLine::Call(..)), "calls remain possible");
        assert_eq!(session.read(" "), ParsedLine::Nothing, "an empty line skips the question");
        assert!(matches!(session.remove_question("a"), Some((_, true))) && session.remove_question("a").is_none());
        assert_eq!(answer(&session, "as you like"), ("b".to_owned(), json!("as you like")));
        assert!(
            session.add_question(gate("c", &["first"]), Some(1), true),
            "the question of a watched run comes first"
        );
        assert_eq!(answer(&session, "first"), ("c".to_owned(), json!("first")));
        assert!(
            session.add_question(gate("b", &[]), None, true) && session.questions().count() == 2,
            "or the requested question first"
        );
        session.remove_question("c");
        assert_eq!((session.drop_questions(), session.current_question().is_none()), (1, true));
    }

    // Document 003, line 1152: `other -> Direct input to current target`.
    #[test]
    fn other_text_goes_to_the_current_target_or_a_question() {
        let mut session = Session::default();
        assert!(matches!(session.read("hello"), ParsedLine::Invalid(error) if error.contains("/target @NODE")));
        let greet = Target { kind: Kind::Node, name: "greet".to_owned() };
        session.set_target(Some(greet.clone()));
        let number = begin_call(&mut session, "first");
        store_output(&mut session, number, "one");
        match session.read("hello ::0") {
            ParsedLine::Call(target, text) => {
                assert_eq!(target, greet);
                assert_eq!(text.fill_in(|number| session.result(number)), Ok(json!("hello one")));
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(session.read("/bg hello"), ParsedLine::BackgroundCall(target, _) if target == greet));
        assert!(matches!(session.read("@other x"), ParsedLine::Call(target, _) if target.name == "other"));
        session.add_question(gate("a", &[]), None, false);
        assert!(
            matches!(session.read("hello"), ParsedLine::Answer(gate, _) if gate == "a"),
            "a question precedes the target"
        );
        session.remove_question("a");
        session.set_target(None);
        assert!(matches!(session.read("hello"), ParsedLine::Invalid(_)));
    }

    #[test]
    fn field_may_be_empty_and_passphrase_may_have_any_form() {
        let mut session = Session::default();
        let form = json!({"properties": {"version": {"type": "string"}, "note": {"type": "string"}},
                          "required": ["version"]});
        session.add_question(GateInfo { form: Some(form), ..gate("form", &[]) }, None, false);
        assert_eq!(session.read(""), ParsedLine::Nothing, "a required first field has no value");
        let asking = &mut session.question("form").unwrap().asking;
        assert!(asking.line("1.2").unwrap().is_none());
        assert_eq!(session.read(""), ParsedLine::Answer("form".to_owned(), PinnedRefs::plain("")));
        let asking = &mut session.question("form").unwrap().asking;
        let answer = asking.line("").unwrap().unwrap();
        asking.handle_rejection(answer, &AnswerGateReply { passphrase_wanted: true, ..AnswerGateReply::default() });
        for secret in ["@greet", "/quit", "::0", " two words "] {
            assert_eq!(session.read(secret), ParsedLine::Answer("form".to_owned(), PinnedRefs::plain(secret)));
        }
    }

    #[test]
    fn oldest_results_are_removed_above_the_limit() {
        let most = 1 << 20;
        let mut session = Session::with_max_result_bytes(most);
        let large = "x".repeat(most / 2);
        for name in ["one", "two", "three"] {
            let number = begin_call(&mut session, name);
            store_output(&mut session, number, &large);
        }
        assert!(session.result(0).is_err() && session.result(1).is_err(), "older results are removed above the limit");
        assert!(session.result(2).is_ok());
        let error = session.resolve_text(&text(&session, "@greet ::one")).unwrap_err();
        assert_eq!(error, "::0 is not kept any more: results of 1 MB came after it");
        let number = begin_call(&mut session, "huge");
        store_output(&mut session, number, &"x".repeat(2 * most));
        assert!(session.result(3).is_ok(), "the last result is stored regardless of its size");
    }

    #[test]
    fn calls_are_found_by_number_and_by_run() {
        let mut session = Session::default();
        let number = begin_call(&mut session, "release");
        session.entry_mut(number).run = Some("run_a".to_owned());
        assert_eq!(
            (session.find_by_number("::0"), session.find_by_number("0"), session.find_by_number("1")),
            (Some(0), Some(0), None)
        );
        assert_eq!(session.find_by_run("run_a"), Some(0));
        store_output(&mut session, number, "");
        assert_eq!(session.find_by_run("run_a"), None, "an ended run can be followed again");
    }
}
