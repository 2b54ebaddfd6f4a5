//! The states of a captured machine, and the capture itself.

use std::collections::{BTreeMap, BTreeSet};

use jiff::ToSpan as _;
use jiff::civil::Date;
use serde_json::{Map, Value, json};
use steplatch_protocol::InputKind;
use steplatch_workflow::substitute::literal;

use crate::against::{Alignment, Difference, align, name_of_question};
use crate::effects::{Judgement, Reader, judge, reader_behind};
use crate::menu::{ANOTHER_ENTRY, Menu, PrintedMenu};
use crate::provenance::{Extraction, OTHER_ROWS, extractions};
use crate::question::{
    Leeway, escaped, general, landmark, names_subject, question, stands_in, varying_words, without_classes,
};
use crate::session_log::{KnownFacts, MASK, SessionLog};
use crate::template::{Binding, Use, typed};
use crate::turn::{Act, Ending, Turn, seconds_between, turns};
use crate::{CaptureRequest, Captured, GoldenStep, Guess, LeftOut, noise};

/// Minimum time that a state waits, in seconds, and the maximum.
const MIN_WAIT_SECONDS: f64 = 30.0;
const MAX_WAIT_SECONDS: f64 = 3600.0;

/// Factor by which a state's wait exceeds its recorded time.
const WAIT_FACTOR: f64 = 5.0;

/// The state that a run fails in where a person said no.
const DECLINED: &str = "declined";

/// Maximum number of states of a machine, without those that it ends with.
const MAX_STATES: usize = 97;

/// Returns the machine that does what these logs show. Never fails: the reply names what it leaves out.
#[must_use]
pub fn capture(logs: &[SessionLog], facts: &KnownFacts, request: &CaptureRequest) -> Captured {
    let (mut all, mut left_out) = turns_of(logs);
    let request = &mut CaptureRequest { inputs: argument_names(&request.inputs), ..request.clone() };
    let inputs = request.inputs.iter().map(|(name, value)| Binding { value: value.clone(), name: name.clone() });
    // An input may give another directory the name of a known one.
    let is_given = |name: &str| request.inputs.iter().any(|(given, _)| given == name);
    let known = known(facts).into_iter().filter(|binding| !is_given(&binding.name));
    let bindings: Vec<Binding> = inputs.chain(known).filter(|binding| !binding.value.is_empty()).collect();
    let (others, _) = turns_of(&request.compare_with);
    let alignment = aligned(&all, &others, &bindings, facts, request);
    let arguments = alignment.arguments.iter().map(|one| (one.name.clone(), one.value.clone()));
    request.inputs.extend(arguments);
    for turn in all.iter_mut().filter(|turn| request.inputs.iter().any(|(_, value)| *value == turn.answer)) {
        turn.note_given();
    }
    let mut known_values = bindings.clone();
    known_values.extend(alignment.bindings());
    let found = extractions(&all, &known_values, facts);
    let reasons = noise_of(&all, &found, request);
    left_out.extend(noise::left_out(&all, &reasons));
    let is_directory = |name: &String| DIRECTORIES.contains(&name.as_str());
    let mut writer = Writer {
        logs,
        facts: facts.clone(),
        bindings,
        untyped: request.inputs.iter().map(|(name, _)| name.clone()).filter(|name| !is_directory(name)).collect(),
        alignment,
        others,
        used: BTreeMap::new(),
        secrets: Vec::new(),
        typed_secrets: vec![None; logs.len()],
        lines: vec![String::new(); logs.len()],
        asked: vec![String::new(); logs.len()],
        chosen: vec![String::new(); logs.len()],
        states: Vec::new(),
        state_names: Names::default(),
        secret_names: Names::default(),
        open_ends: open_ends(&all, logs.len()),
        captured: Captured { left_out, ..Captured::default() },
    };
    writer.open(&all);
    writer.captured.undecided.extend(overlaps(&all));
    let undecided = std::mem::take(&mut writer.alignment.undecided);
    writer.captured.undecided.extend(undecided);
    let mut before: Vec<Option<String>> = vec![None; logs.len()];
    for (index, turn) in all.iter().enumerate() {
        if reasons[index].is_none() {
            writer.begin(index);
            let previous = all[..index].iter().rev().find(|previous| previous.log == turn.log);
            let judgement = writer.gate(turn, previous.map(|previous| &previous.ending));
            let first = writer.states.len();
            writer.turn(turn, before.get(turn.log).cloned().flatten().as_deref());
            writer.name_unseen(first, &judgement);
            writer.compare(index, first);
        }
        if let Some(asked) = writer.asked.get_mut(turn.log) {
            noise::question(turn).unwrap_or_default().clone_into(asked);
        }
        if let Some(chosen) = writer.chosen.get_mut(turn.log) {
            let label = match &turn.menu {
                Menu::Printed(menu) if menu.is_usual => menu.label.as_str(),
                Menu::None | Menu::Printed(_) | Menu::Mentioned(_) | Menu::TooLarge(_) | Menu::Drawn { .. } => "",
            };
            label.clone_into(chosen);
        }
        if let Some(screen) = before.get_mut(turn.log) {
            *screen = if let Ending::Screen(rows) = &turn.ending { Some(rows.clone()) } else { None };
        }
        // The machine cannot read the output of an attempt outside it.
        for one in found.iter().filter(|one| one.source == index && reasons[index].is_none()) {
            writer.extraction(one, turn);
        }
    }
    writer.expect(&request.expects);
    writer.finish(request)
}

/// Returns the turns of all logs in the order of their inputs, and the inputs that are none.
fn turns_of(logs: &[SessionLog]) -> (Vec<Turn>, Vec<LeftOut>) {
    let (mut all, mut left_out): (Vec<Turn>, Vec<LeftOut>) = (Vec::new(), Vec::new());
    for (index, log) in logs.iter().enumerate() {
        let (turns, not_turns) = turns(index, log);
        all.extend(turns);
        left_out.extend(not_turns);
    }
    for turns in 0..logs.len() {
        forget_rows_above_prompts(&mut all, turns);
    }
    all.sort_by(|one, other| (&one.timestamp, one.log, one.number).cmp(&(&other.timestamp, other.log, other.number)));
    (all, left_out)
}

/// Forgets the rows above the prompts of an interpreter, which are results: signs without a word that stand there several times,
/// below a row that does not ask.
fn forget_rows_above_prompts(turns: &mut [Turn], log: usize) {
    let prompt = |turn: &Turn| match &turn.ending {
        Ending::Question(line) if turn.log == log && !has_word(&escaped(line)) => Some(line.trim().to_owned()),
        _ => None,
    };
    let prompts: Vec<String> = turns.iter().filter_map(prompt).collect();
    for turn in turns.iter_mut() {
        let is_repeated = |line: String| prompts.iter().filter(|one| **one == line).count() > 1;
        let asks = turn.above.last().is_some_and(|row| row.ends_with(['?', ':']));
        if !asks && prompt(turn).is_some_and(is_repeated) {
            turn.above.clear();
        }
    }
}

/// Returns for each turn the reason for leaving it out, if there is one.
fn noise_of(turns: &[Turn], found: &[Extraction], request: &CaptureRequest) -> Vec<Option<String>> {
    noise::reasons(turns, request.keep_read_only_commands, |turn| found.iter().any(|one| one.source == turn))
}

/// Aligns the turns with those of the capture that the request compares with.
fn aligned(
    turns: &[Turn],
    others: &[Turn],
    bindings: &[Binding],
    facts: &KnownFacts,
    request: &CaptureRequest,
) -> Alignment {
    if request.compare_with.is_empty() {
        return Alignment::default();
    }
    let kept = |turns: &[Turn], found: &[Extraction]| -> Vec<usize> {
        let reasons = noise_of(turns, found, request);
        (0..turns.len()).filter(|turn| reasons[*turn].is_none()).collect()
    };
    let found = extractions(turns, bindings, facts);
    let other_found = extractions(others, bindings, facts);
    // A value that comes from the output in one capture only is a choice: an argument.
    let is_read = |value: &str, found: &[Extraction]| found.iter().any(|one| one.is_read && one.binding.value == value);
    let is_known = |value: &str, other: &str| {
        bindings.iter().any(|binding| binding.value == value)
            || (is_read(value, &found) && is_read(other, &other_found))
    };
    align((turns, &kept(turns, &found)), (others, &kept(others, &other_found)), is_known)
}

/// Returns inputs under the names that arguments of machines may have: upper-case letters, digits and `_`.
fn argument_names(inputs: &[(String, String)]) -> Vec<(String, String)> {
    let name = |name: &str| {
        let name: String = name
            .chars()
            .map(|sign| if sign.is_ascii_alphanumeric() { sign.to_ascii_uppercase() } else { '_' })
            .take(MAX_ARGUMENT_CHARS)
            .collect();
        if name.starts_with(|first: char| first.is_ascii_uppercase()) { name } else { format!("INPUT_{name}") }
    };
    inputs.iter().map(|(given, value)| (name(given), value.clone())).collect()
}

/// Maximum characters that the name of an argument takes from a given name.
const MAX_ARGUMENT_CHARS: usize = 50;

/// The variables of the directories known before any input.
pub(crate) const DIRECTORIES: [&str; 2] = ["PWD", "HOME"];

/// Returns known text of the machine and its user, as variables that a run takes from its client's environment.
fn known(facts: &KnownFacts) -> Vec<Binding> {
    let bindings = [(&facts.directory, "PWD"), (&facts.home, "HOME")];
    let is_known = |value: &str| value.len() > 2 && value.starts_with('/');
    let known = bindings.into_iter().filter(|(value, _)| is_known(value));
    known.map(|(value, name)| Binding { value: value.clone(), name: name.to_owned() }).collect()
}

/// A state of the machine, without the way on.
struct DraftState {
    name: String,
    tool: &'static str,
    params: Map<String, Value>,
    /// Condition of the way to the next state.
    condition: Value,
    timeout: Option<f64>,
}

/// Names of which no two are the same.
#[derive(Debug, Default)]
struct Names {
    taken: BTreeSet<String>,
    /// The number behind the next name with this beginning.
    numbers: BTreeMap<String, usize>,
}

impl Names {
    fn is_taken(&self, name: &str) -> bool {
        self.taken.contains(name)
    }

    /// Returns the name, with a number behind it where it is in use.
    fn free(&self, base: &str) -> String {
        let first = self.numbers.get(base).copied().unwrap_or(2);
        let numbered = (first..).map(|number| format!("{base}_{number}"));
        std::iter::once(base.to_owned()).chain(numbered).find(|name| !self.is_taken(name)).unwrap_or_default()
    }

    /// Takes that name.
    fn take(&mut self, base: &str) -> String {
        let name = self.free(base);
        if let Some(number) = name.strip_prefix(base).and_then(|rest| rest.strip_prefix('_')?.parse::<usize>().ok()) {
            self.numbers.insert(base.to_owned(), number + 1);
        }
        self.taken.insert(name.clone());
        name
    }
}

struct Writer<'r> {
    logs: &'r [SessionLog],
    /// Known text of the machine, and printed words that change in the current turn.
    facts: KnownFacts,
    /// The values that variables stand for in the current turn.
    bindings: Vec<Binding>,
    /// The inputs without a typed value so far.
    untyped: BTreeSet<String>,
    /// Differences from the other capture.
    alignment: Alignment,
    /// The turns of that capture.
    others: Vec<Turn>,
    /// The variables that a text has in place of a value.
    used: BTreeMap<String, String>,
    secrets: Vec<SecretArgument>,
    /// The secret that the turn before typed, by log.
    typed_secrets: Vec<Option<usize>>,
    /// The running line at a prompt, by log.
    lines: Vec<String>,
    /// The question that the turn before ended with, by log.
    asked: Vec<String>,
    /// The label of the entry of a menu that the next answer chooses by its number, by log.
    chosen: Vec<String>,
    states: Vec<DraftState>,
    state_names: Names,
    secret_names: Names,
    /// The logs that end within a program.
    open_ends: Vec<usize>,
    captured: Captured,
}

/// A secret argument.
struct SecretArgument {
    name: String,
    /// The row before its first input.
    row: String,
    /// The line at a prompt that ran then.
    line: String,
}

/// A state's wait.
struct Wait {
    params: Vec<(&'static str, Value)>,
    condition: Value,
    on_screen: bool,
}

impl Wait {
    fn pattern(pattern: String) -> Self {
        Self { params: vec![("pattern", pattern.into())], condition: "success".into(), on_screen: false }
    }
}

impl Writer<'_> {
    fn guess(&mut self, state: &str, guess: impl Into<String>, reason: impl Into<String>) {
        self.captured.guesses.push(Guess { state: state.to_owned(), guess: guess.into(), reason: reason.into() });
    }

    /// Sets which values stand for variables, and which words change, in the states of a turn.
    fn begin(&mut self, turn: usize) {
        let arguments = &self.alignment.arguments;
        self.bindings.retain(|binding| !arguments.iter().any(|argument| argument.name == binding.name));
        self.bindings.extend(arguments.iter().filter(|one| one.turns.contains(&turn)).map(Difference::binding));
        self.facts.varying = self.alignment.varying.get(&turn).cloned().unwrap_or_default();
    }

    /// Says which arguments a turn brought in, and names what its states, from `first` on, wait for and the other capture
    /// did not print.
    fn compare(&mut self, turn: usize, first: usize) {
        let Some(other) = self.alignment.pairs.get(&turn).and_then(|other| self.others.get(*other)) else { return };
        let (mut guesses, mut undecided) = (Vec::new(), Vec::new());
        let states = self.states.get(first..).unwrap_or_default();
        for argument in self.alignment.arguments.iter().filter(|argument| argument.turns.first() == Some(&turn)) {
            guesses.push(Guess {
                state: states.first().map(|state| state.name.clone()).unwrap_or_default(),
                guess: format!("'{}' is the argument {}", argument.value, argument.name),
                reason: format!("'{}' was typed in the other capture", argument.other),
            });
        }
        if let (Act::Command { output: printed, .. }, Some(command)) = (&other.act, states.first())
            && let Some(golden) = self.captured.golden.iter_mut().find(|golden| golden.state == command.name)
            && !self.alignment.is_same_output(&golden.prints, printed)
        {
            golden.varies = true;
            guesses.push(Guess {
                state: command.name.clone(),
                guess: "its output may differ from one time to the next".to_owned(),
                reason: "the other capture printed something else".to_owned(),
            });
        }
        for state in states {
            let Some(pattern) = state.params.get("pattern").and_then(Value::as_str) else { continue };
            if !self.alignment.is_found_in(pattern, other) {
                let sentence =
                    format!("state '{}' waits for /{pattern}/, which the other capture did not print", state.name);
                undecided.push(sentence);
            }
        }
        self.captured.guesses.extend(guesses);
        self.captured.undecided.extend(undecided);
    }

    /// Adds a state under a name that no other has, and returns the name.
    fn add(&mut self, base: &str, tool: &'static str, params: Map<String, Value>, condition: Value) -> String {
        let name = self.state_names.take(&slug(base));
        self.states.push(DraftState { name: name.clone(), tool, params, condition, timeout: None });
        name
    }

    /// Returns the name of a new state under `base`.
    fn free_name(&self, base: &str) -> String {
        self.state_names.free(&slug(base))
    }

    /// Returns the text for the name of the state of a line at a prompt: the line without the directories that it is
    /// in.
    fn name_of_line(&self, line: &str) -> String {
        let directories: Vec<Binding> =
            self.bindings.iter().filter(|binding| DIRECTORIES.contains(&binding.name.as_str())).cloned().collect();
        typed(line, &directories, Use::Plain).0.replace("{PWD}", "").replace("{HOME}", "")
    }

    /// Returns the text for the name of the state of an answer: the argument that it is, the entry that it chooses, or
    /// its text. For an answer that only confirms what stands there, or that came before, the text is its question.
    fn name_of_answer(&self, log: usize, text: &str, keys: &[String]) -> String {
        if let Some(argument) = self.bindings.iter().find(|binding| binding.value == text.trim()) {
            return format!("answer {}", argument.name);
        }
        if let Some(label) = self.chosen.get(log).filter(|label| !label.is_empty()) {
            return format!("choose {label}");
        }
        let name = format!("answer {}", subject(text, keys));
        let is_taken = self.state_names.is_taken(&slug(&name));
        let asked = self.asked.get(log).filter(|asked| !asked.is_empty() && (text.trim().is_empty() || is_taken));
        asked.map_or(name, |asked| format!("answer {}", name_of_question(asked, |_| false)))
    }

    fn golden(&mut self, state: &str, prints: &str, exit_code: Option<i32>) {
        let golden =
            GoldenStep { state: state.to_owned(), prints: prints.to_owned(), exit_code, ..GoldenStep::default() };
        self.captured.golden.push(golden);
    }

    /// Returns the terminal of a turn as a parameter, where there are several.
    fn session(&self, log: usize) -> Option<Value> {
        (self.logs.len() > 1).then(|| format!("{{{}_session_id}}", open_state(log)).into())
    }

    /// Adds the states that open the terminals.
    fn open(&mut self, turns: &[Turn]) {
        for (index, log) in self.logs.iter().enumerate() {
            if !turns.iter().any(|turn| turn.log == index) && self.logs.len() > 1 {
                continue;
            }
            let shell = if log.shell.is_empty() { "bash" } else { &log.shell };
            let mut params = Map::from_iter([("shell".to_owned(), Value::from(literal(shell)))]);
            let begin = log.moments.iter().find_map(|moment| moment.input.directory.as_deref());
            let directory = begin.unwrap_or(&log.directory);
            let name = open_state(index);
            if !directory.is_empty() && directory != self.facts.directory {
                let (template, names) = typed(directory, &self.bindings, Use::Plain);
                self.note_used(&names);
                if names.is_empty() {
                    self.guess(
                        &name,
                        format!("it always starts in {directory}"),
                        "the terminal was opened there; PWD in inputs makes it an argument",
                    );
                }
                params.insert("working_directory".to_owned(), template.into());
            } else if !directory.is_empty() {
                self.guess(
                    &name,
                    "it starts in the directory of its caller",
                    format!("it was captured in {directory}"),
                );
            }
            let name = self.add(&name, "open_terminal", params, "success".into());
            self.golden(&name, "", None);
        }
    }

    /// Returns whether a log comes from a recording by another program.
    fn is_imported(&self) -> bool {
        self.logs.iter().any(|log| log.is_imported)
    }

    fn note_used(&mut self, names: &[String]) {
        for name in names {
            let value = self.bindings.iter().find(|binding| binding.name == *name).map(|binding| binding.value.clone());
            self.used.insert(name.clone(), value.unwrap_or_default());
        }
    }

    /// Returns the template of a text typed at a prompt or into a program.
    fn typed(&mut self, state: &str, text: &str, at_prompt: bool) -> String {
        let usage = if at_prompt { Use::Shell } else { Use::Plain };
        let (template, names) = typed(text, &self.bindings, usage);
        self.note_used(&names);
        self.untyped.retain(|name| !names.contains(name));
        let facts = self.facts.clone();
        for (name, value) in [("host name", &facts.host), ("user name", &facts.user)] {
            if value.len() >= 3 && crate::template::typed(text, &[binding(value)], Use::Plain).1.len() == 1 {
                let sentence =
                    format!("state '{state}' types the {name} '{value}': add it to inputs to make it an argument");
                self.captured.undecided.push(sentence);
            }
        }
        template
    }

    /// Names a date in typed text, where it is the day of the input, or one beside it: the next run is on another day.
    fn note_date(&mut self, state: &str, typed: &str, turn: &Turn) {
        let Some(day) = date(&turn.timestamp) else { return };
        // The log has the day in UTC. That of the host, in any time zone, and the one before or behind it are at most two
        // days from it.
        let days = (-2..=2).filter_map(|days| day.checked_add(days.days()).ok());
        let mut forms = days.flat_map(forms_of_date);
        if let Some(form) = forms.find(|form| contains_number(typed, form)) {
            let sentence = format!("state '{state}' types the date '{form}': add it to inputs to make it an argument");
            self.captured.undecided.push(sentence);
        }
    }

    /// Adds a gate before an input that cannot be undone, or of which that is unknown. `asked` is the program's state
    /// before it.
    fn gate(&mut self, turn: &Turn, asked: Option<&Ending>) -> Judgement {
        let (text, reader) = match &turn.act {
            Act::Command { command, .. } if turn.at_prompt => (command.as_str(), Reader::Shell),
            // An entry at the prompt of another program.
            Act::Command { command, .. } => (command.as_str(), self.reader(turn.log, asked)),
            Act::Typed { text, .. } if turn.at_prompt => (text.trim_end(), Reader::Shell),
            Act::Typed { text, .. } => (text.trim_end(), self.reader(turn.log, asked)),
            Act::Hidden { .. } => return Judgement::default(),
        };
        let judgement = judge(text, reader);
        let Some(reason) = judgement.reason() else { return judgement };
        let (template, names) = typed(text, &self.bindings, Use::Plain);
        self.note_used(&names);
        let params =
            json!({"prompt": format!("Run this? {template}"), "choices": ["yes", "no"], "answered_by": "human"});
        let params = params.as_object().cloned().unwrap_or_default();
        let name = self.add("confirm", "gate", params, json!({"field_equals": {"answer": "yes"}}));
        let yes = GoldenStep { state: name.clone(), answer: Some("yes".to_owned()), ..GoldenStep::default() };
        self.captured.golden.push(yes);
        self.guess(&name, "a person is asked first", reason);
        judgement
    }

    /// Returns what reads an answer: the shell of another machine and the client of a database, at their prompts, or a
    /// program that asks.
    fn reader(&self, log: usize, asked: Option<&Ending>) -> Reader {
        let Some(Ending::Question(line)) = asked else { return Reader::Program };
        let prompt = line.trim_end();
        match self.lines.get(log).map(|line| reader_behind(line)) {
            Some(Reader::Shell) if prompt.ends_with(['$', '#', '%', '~']) || prompt.ends_with("~>") => Reader::Shell,
            Some(Reader::Database) if prompt.ends_with(['>', '#']) => Reader::Database,
            _ => Reader::Program,
        }
    }

    /// Names the programs with unread files that a turn runs without a gate.
    fn name_unseen(&mut self, first: usize, judgement: &Judgement) {
        let Some(state) = self.states.get(first).map(|state| state.name.clone()) else { return };
        if judgement.reason().is_none() && !judgement.unseen.is_empty() {
            let programs = judgement.unseen.join("', '");
            self.guess(
                &state,
                "no person is asked first",
                format!("the file behind '{programs}' is not read: its name and arguments say nothing of what cannot be taken back"),
            );
        }
    }

    fn turn(&mut self, turn: &Turn, screen: Option<&str>) {
        if turn.at_prompt
            && let Some(line) = self.lines.get_mut(turn.log)
        {
            match &turn.act {
                Act::Command { command: text, .. } | Act::Typed { text, .. } => text.trim().clone_into(line),
                Act::Hidden { .. } => line.clear(),
            }
        }
        let typed_before = self.typed_secrets.get_mut(turn.log).and_then(Option::take);
        match &turn.act {
            Act::Command { command, directory, exit_code, output } => {
                self.command(turn, command, directory.as_deref(), *exit_code, output);
            }
            Act::Typed { text, keys } => {
                let base =
                    if turn.at_prompt { self.name_of_line(text) } else { self.name_of_answer(turn.log, text, keys) };
                let name = self.free_name(&base);
                let template = self.typed(&name, text, turn.at_prompt);
                self.note_date(&name, &template, turn);
                let line_count = text.trim_end().lines().count();
                if line_count > 1 {
                    self.guess(
                        &name,
                        format!("it types {line_count} lines at once"),
                        "they were typed so: what the program asks between them is not compared",
                    );
                }
                if turn.key_count > 1 {
                    self.guess(
                        &name,
                        format!("it presses {} keys at once", turn.key_count),
                        "no question was printed for each of them: what the program asks between them is not compared",
                    );
                }
                let mut params = Map::new();
                if !template.is_empty() || keys.is_empty() {
                    params.insert("input_text".to_owned(), template.into());
                }
                if !keys.is_empty() {
                    params.insert("keys".to_owned(), json!(keys));
                }
                self.input(turn, &base, params, screen);
            }
            Act::Hidden { entered, row } => {
                let (secret, base) = self.secret(turn.log, row, typed_before);
                let text = format!("{{{secret}}}{}", if *entered { "\n" } else { "" });
                let params =
                    Map::from_iter([("input_text".to_owned(), text.into()), ("secret".to_owned(), true.into())]);
                self.input(turn, &base, params, screen);
            }
        }
    }

    /// Returns the name of the secret argument typed behind a row, and the text for the name of its state. The log has
    /// no values: the questions decide which secrets are the same. `before` is the secret typed right before.
    fn secret(&mut self, log: usize, row: &str, before: Option<usize>) -> (String, String) {
        let row = row.trim();
        let line = self.lines.get(log).cloned().unwrap_or_default();
        let repeated = before.filter(|before| self.secrets.get(*before).is_some_and(|one| repeats(row, &one.row)));
        let is_same = |one: &SecretArgument| one.row == row && (one.line == line || says_whose(row));
        let known = self.secrets.iter().position(is_same);
        let (index, reason, base) = match (repeated, known) {
            (Some(index), _) => (index, Some("the question asks to type it again"), "repeat"),
            (None, Some(index)) => (index, Some("the same question asked for it"), "give again"),
            (None, None) => (self.secrets.len(), None, "give"),
        };
        if reason.is_none() {
            let name = self.secret_names.take(kind_of_secret(row).map_or("SECRET", |(_, name)| name));
            self.secrets.push(SecretArgument { name, row: row.to_owned(), line });
        }
        let name = self.secrets.get(index).map(|one| one.name.clone()).unwrap_or_default();
        let base = format!("{base} {name}");
        let state = self.free_name(&base);
        if let Some(reason) = reason {
            self.guess(&state, format!("it is {name} again"), reason);
        } else if let Some(other) = self.secrets[..index].iter().find(|one| one.row == row) {
            let other = other.name.clone();
            self.guess(&state, format!("{name} is another secret than {other}"), "another command asked for it");
        }
        if let Some(typed) = self.typed_secrets.get_mut(log) {
            *typed = Some(index);
        }
        (name, base)
    }

    fn command(&mut self, turn: &Turn, command: &str, directory: Option<&str>, exit_code: Option<i32>, output: &str) {
        let base = self.name_of_line(command);
        let name = self.free_name(&base);
        let command = self.typed(&name, command, turn.at_prompt);
        self.note_date(&name, &command, turn);
        let mut params = Map::from_iter([("command".to_owned(), Value::from(command))]);
        if let Some(directory) = directory {
            let directory = self.typed(&name, directory, false);
            params.insert("working_directory".to_owned(), directory.into());
        }
        params.insert("timeout".to_owned(), json!(limit(turn.elapsed)));
        self.in_terminal(&mut params, turn);
        let expected = exit_code.filter(|code| *code != 0);
        let condition = expected.map_or("success".into(), |code| json!({"field_equals": {"exit_code": code}}));
        let name = self.add(&base, "run_command", params, condition);
        if let Some(code) = expected {
            self.guess(
                &name,
                format!("exit code {code} is expected"),
                "it had that when it was captured and was not done again",
            );
        }
        let exit_code = self.exit_code(&name, exit_code);
        self.golden(&name, output, exit_code);
        for wait in &turn.waits {
            let pattern = self.pattern_of_client(&name, &wait.pattern);
            let name = self.await_output(turn, &name, Wait::pattern(pattern));
            self.golden(&name, output, None);
        }
    }

    /// Returns the exit code of a recording; 0 where it has no exit code of any command.
    fn exit_code(&mut self, state: &str, recorded: Option<i32>) -> Option<i32> {
        if recorded.is_some() || !self.is_imported() {
            return recorded;
        }
        self.guess(state, "exit code 0 is expected", "the recording has no exit codes");
        Some(0)
    }

    fn in_terminal(&self, params: &mut Map<String, Value>, turn: &Turn) {
        if let Some(session) = self.session(turn.log) {
            params.insert("session_id".to_owned(), session);
        }
    }

    /// Returns a pattern of the client, with values as variables.
    fn pattern_of_client(&mut self, state: &str, pattern: &str) -> String {
        // In a pattern, a value may stand as it is, or escaped.
        let known = self.shown_bindings();
        let escapes = known.iter().map(|binding| Binding { value: escaped(&binding.value), ..binding.clone() });
        let mut bindings: Vec<Binding> = escapes.chain(known.iter().cloned()).collect();
        bindings.retain(|binding| !DIRECTORIES.contains(&binding.name.as_str()));
        let (template, names) = crate::template::template(pattern, &bindings, Use::Pattern, literal);
        self.note_used(&names);
        self.guess(state, format!("it waits for /{pattern}/"), "that was waited for when it was captured");
        varying_words(template, &self.facts)
    }

    /// Adds an input with the waits behind it.
    fn input(&mut self, turn: &Turn, base: &str, mut params: Map<String, Value>, screen: Option<&str>) {
        self.in_terminal(&mut params, turn);
        let seconds = limit(turn.elapsed);
        let name = self.add(base, "send_input", params, "success".into());
        let index = self.states.len() - 1;
        let mut waits = self.waits(turn, &name, screen);
        let exit_code = match turn.ending {
            Ending::Prompt { exit_code } if self.is_imported() => exit_code.or(Some(0)),
            Ending::Prompt { exit_code } => exit_code,
            _ => None,
        };
        self.golden(&name, &turn.printed, exit_code.filter(|_| waits.len() <= 1));
        note_reading(turn, &mut waits);
        if waits.first().is_some_and(|wait| !wait.on_screen) {
            let wait = waits.remove(0);
            let state = &mut self.states[index];
            state.params.extend(wait.params.into_iter().map(|(name, value)| (name.to_owned(), value)));
            state.params.insert("timeout".to_owned(), json!(seconds));
            state.params.insert("stop_at_input".to_owned(), true.into());
            state.condition = wait.condition;
            // Without one, an action other than a wait has 30 seconds.
            state.timeout = Some(seconds + 5.0);
        }
        for wait in waits {
            let is_on_screen = wait.on_screen;
            let name = self.await_output(turn, &name, wait);
            let screen = match (&turn.ending, &turn.menu) {
                (Ending::Screen(rows), _) => Some(rows.clone()),
                (_, Menu::Drawn { rows, .. }) if is_on_screen => Some(rows.join("\n")),
                _ => None,
            };
            self.golden(&name, screen.as_ref().unwrap_or(&turn.printed), exit_code);
        }
    }

    fn await_output(&mut self, turn: &Turn, base: &str, wait: Wait) -> String {
        let mut params: Map<String, Value> =
            wait.params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        if wait.on_screen {
            params.insert("target".to_owned(), "screen".into());
        }
        if !wait.on_screen || params.contains_key("reads") {
            params.insert("stop_at_input".to_owned(), true.into());
        }
        params.insert("timeout".to_owned(), json!(limit(turn.elapsed)));
        self.in_terminal(&mut params, turn);
        self.add(&format!("after {base}"), "await_output", params, wait.condition)
    }

    /// Returns the waits behind an input, in order of trust: what the client waited for, then what the program did at
    /// the time of the next input.
    fn waits(&mut self, turn: &Turn, state: &str, screen: Option<&str>) -> Vec<Wait> {
        let mut waits = Vec::new();
        for wait in &turn.waits {
            let pattern = self.pattern_of_client(state, &wait.pattern);
            // The drawing of a full-screen program need not be one text in its output.
            let on_screen = matches!(&turn.ending, Ending::Screen(rows) if stands_in(&wait.pattern, rows));
            waits.push(Wait { on_screen, ..Wait::pattern(pattern) });
        }
        let is_covered = turn.waits.last().is_some_and(|wait| wait.reaches_input);
        match &turn.ending {
            Ending::Prompt { exit_code } => {
                let exit_code = self.exit_code(state, *exit_code);
                let condition = match exit_code {
                    Some(code) => json!({"field_equals": {"reason": "prompt", "exit_code": code}}),
                    None => json!({"field_equals": {"reason": "prompt"}}),
                };
                waits.push(Wait { params: vec![("until", "prompt".into())], condition, on_screen: false });
            }
            Ending::Question(_) | Ending::Password(_) | Ending::Screen(_)
                if let Menu::Drawn { rows, is_last, highlighted } = &turn.menu =>
            {
                // The rows of the choice must be the recorded ones.
                let leeway = if turn.leeway == Leeway::Data { Leeway::Data } else { Leeway::Nothing };
                let pattern = crate::question::rows(rows, &self.shown_bindings(), &self.facts, leeway, *is_last);
                self.note_used_in(&pattern);
                self.guess(
                    state,
                    "the screen must have the same rows in the same order",
                    "they stood there when input went on",
                );
                let mut wait = Wait { on_screen: true, ..Wait::pattern(pattern) };
                if !highlighted.is_empty() {
                    let bindings = self.shown_bindings();
                    let templates = highlighted.iter().map(|text| typed(text, &bindings, Use::Plain));
                    let (texts, names): (Vec<String>, Vec<Vec<String>>) = templates.unzip();
                    self.note_used(&names.concat());
                    let sentence = format!("'{}' must stand out on the screen", highlighted.join("', '"));
                    self.guess(state, sentence, "it did when input went on");
                    wait.params.push(("highlighted", texts.into()));
                }
                waits.push(wait);
            }
            // A client may have waited for less than the question, such as `[y/N]` or `: `.
            Ending::Question(line) | Ending::Password(line) if !line.trim().is_empty() => {
                let bindings = self.shown_bindings();
                let pattern = question(line, &bindings, &self.facts, turn.leeway);
                if pattern.is_empty() {
                    waits.push(self.quiet(state));
                    return waits;
                }
                let has_menu = matches!(&turn.menu, Menu::Printed(_));
                if !names_subject(line) && !has_menu && turn.above.is_empty() {
                    self.guess(
                        state,
                        "nearly any question may be answered",
                        format!("'{}' stands below many: the line above it is not compared", line.trim()),
                    );
                }
                // What such a question is about stands above it.
                let pattern = match names_subject(line) || has_menu || turn.above.is_empty() {
                    true => pattern,
                    false => {
                        let rows = turn.above.iter().map(|row| general(row, &bindings, &self.facts, turn.leeway));
                        format!(r"^[^\S\n]*{}\s*\n{pattern}", rows.collect::<Vec<_>>().join(r"\s*\n\s*"))
                    }
                };
                let is_given = self.bindings.iter().any(|binding| binding.value == turn.answer);
                let wait = match &turn.menu {
                    Menu::Printed(menu) if menu.is_usual || !is_given => self.menu(state, menu, &bindings, &pattern),
                    Menu::Mentioned(row) => {
                        let reason = format!("'{}' stands there, too, and may be an entry of a menu", turn.answer);
                        self.guess(state, format!("the row '{row}' is not compared"), reason);
                        Wait::pattern(pattern)
                    }
                    Menu::None | Menu::Printed(_) | Menu::TooLarge(_) | Menu::Drawn { .. } => Wait::pattern(pattern),
                };
                // The client waited for the same.
                if waits.iter().any(|known| known.params == wait.params) {
                    return waits;
                }
                if let Some(pattern) = wait.params.first().and_then(|(_, pattern)| pattern.as_str()) {
                    self.note_used_in(pattern);
                    self.guess(state, format!("it waits for /{pattern}/"), "the line stood there when input went on");
                }
                waits.push(wait);
            }
            Ending::Screen(rows) => match landmark(screen.or(turn.screen.as_deref()), rows) {
                Some(row) => {
                    if let Menu::TooLarge(count) = turn.menu {
                        self.guess(
                            state,
                            "the next key is pressed whatever the other rows show",
                            format!("{count} rows are too many to be compared"),
                        );
                    }
                    let pattern = general(row, &self.shown_bindings(), &self.facts, turn.leeway);
                    self.note_used_in(&pattern);
                    self.guess(
                        state,
                        format!("it waits for /{pattern}/ on the screen"),
                        "the row was new when input went on",
                    );
                    let params = vec![("pattern", pattern.into())];
                    waits.push(Wait { params, condition: "success".into(), on_screen: true });
                }
                None => waits.push(self.quiet(state)),
            },
            Ending::Silent(row) => {
                let pattern = row.pattern(&self.shown_bindings(), &self.facts);
                self.note_used_in(&pattern);
                self.guess(
                    state,
                    "the program must read without having printed anything",
                    "nothing was printed until input went on",
                );
                let condition = json!({"field_equals": {"reason": "input"}, "pattern_match": pattern});
                waits.push(Wait { params: vec![("until", "input".into())], condition, on_screen: false });
            }
            Ending::Question(_) | Ending::Password(_) if is_covered => {}
            Ending::Question(_) | Ending::Password(_) | Ending::Open if !turn.waits.is_empty() => {}
            Ending::Question(_) | Ending::Password(_) | Ending::Open => {
                let wait = self.quiet(state);
                waits.push(wait);
            }
        }
        waits
    }

    /// Returns the wait for a menu that is chosen from by a number, and for the question below it.
    fn menu(&mut self, state: &str, menu: &PrintedMenu, bindings: &[Binding], question: &str) -> Wait {
        let pattern = format!("{}{question}", menu.pattern(bindings, &self.facts));
        let sentence = format!("the menu must have the entry '{}' and its other rows as they are", menu.entry());
        self.guess(state, sentence, "the next input chooses it by its number");
        let wait = Wait::pattern(pattern);
        if menu.may_have_another() {
            self.guess(state, "another row above the menu may have the same number", "one did when it was captured");
        }
        if !menu.finds_another() {
            return wait;
        }
        let condition = json!({"success": true, "field_equals": {format!("groups.{ANOTHER_ENTRY}"): null}});
        Wait { condition, ..wait }
    }

    /// Returns the values that may stand in what a program shows now: the typed ones, the ones from an output, and the
    /// directories. Output before the first input of a value does not depend on it.
    fn shown_bindings(&self) -> Vec<Binding> {
        let shown = self.bindings.iter().filter(|binding| !self.untyped.contains(&binding.name));
        shown.cloned().collect()
    }

    /// Notes the variables of a pattern as used.
    fn note_used_in(&mut self, pattern: &str) {
        let named = |binding: &Binding| pattern.contains(&format!("{{{}|regex}}", binding.name));
        let names: Vec<String> =
            self.bindings.iter().filter(|binding| named(binding)).map(|binding| binding.name.clone()).collect();
        self.note_used(&names);
    }

    fn quiet(&mut self, state: &str) -> Wait {
        self.guess(
            state,
            "it waits until nothing is printed for a moment",
            "nothing showed that the program was ready",
        );
        let condition = json!({"field_equals": {"reason": "quiet"}});
        Wait { params: vec![("until", "quiet".into())], condition, on_screen: false }
    }

    /// Adds the state that reads a value off what a turn printed.
    fn extraction(&mut self, one: &Extraction, turn: &Turn) {
        self.note_used_in(&one.pattern);
        let state = self.states.last().map(|state| state.name.clone()).unwrap_or_default();
        let groups = OTHER_ROWS.into_iter().filter(|name| one.pattern.contains(&format!("(?P<{name}>")));
        let nulls: Map<String, Value> = groups.map(|name| (format!("groups.{name}"), Value::Null)).collect();
        let condition = json!({"success": true, "field_equals": nulls});
        let name = self.await_output(turn, &one.binding.name, Wait { condition, ..Wait::pattern(one.pattern.clone()) });
        let value = &one.binding.value;
        let reason = format!("'{value}' was printed there before it was typed");
        let guess = match one.is_read {
            true => format!("{{{}}} is read off the output of '{state}'", one.binding.name),
            false => format!("'{value}' is typed as it was, only where '{state}' prints the same rows"),
        };
        let alike = if one.is_read { "" } else { ", and other rows look like its own" };
        self.guess(&name, guess, format!("{reason}{alike}"));
        let prints = if let Act::Command { output, .. } = &turn.act { output } else { &turn.printed };
        self.golden(&name, prints, None);
        if one.is_read {
            self.bindings.push(one.binding.clone());
        }
    }

    /// Adds the checks of the files that must be there.
    fn expect(&mut self, files: &[String]) {
        self.bindings.extend(self.alignment.bindings());
        for file in files {
            let (file, names) = typed(file, &self.bindings, Use::Plain);
            self.note_used(&names);
            let command = format!("test -e '{}'", file.replace('\'', r"'\''"));
            let name = self.add(
                "check file",
                "run_command",
                Map::from_iter([("command".to_owned(), command.into())]),
                "success".into(),
            );
            self.golden(&name, "", Some(0));
        }
    }

    /// Names what the logs do not have: their beginnings, the ends of long texts, secrets within texts.
    fn decide_about_logs(&mut self) {
        for log in self.logs {
            let is_input = |kind| !matches!(kind, InputKind::Wait | InputKind::Resize | InputKind::Entered);
            let first = log.moments.iter().find(|moment| is_input(moment.input.kind));
            if let Some(first) = first.filter(|first| first.input.context != "prompt") {
                let (terminal, number) = (&log.terminal, first.input.number);
                self.incomplete(format!(
                    "in {terminal} the capture begins within a program, with input {number}: begin with the line that started it"
                ));
            }
            for moment in log.moments.iter().filter(|moment| moment.input.cut) {
                let number = moment.input.number;
                self.captured
                    .undecided
                    .push(format!("the end of input {number} is missing in the log: it was too long"));
            }
        }
        let types_mask = |state: &&DraftState| {
            let text = |name: &str| state.params.get(name).and_then(Value::as_str).unwrap_or_default();
            text("input_text").contains(MASK) || text("command").contains(MASK)
        };
        let masked: Vec<String> = self.states.iter().filter(types_mask).map(|state| state.name.clone()).collect();
        for state in masked {
            self.incomplete(format!(
                "state '{state}' types a part that was a secret and is not known: put an argument with secret: true in place of {MASK}"
            ));
        }
    }

    fn incomplete(&mut self, sentence: String) {
        self.captured.is_incomplete = true;
        self.captured.undecided.push(sentence);
    }

    fn finish(mut self, request: &CaptureRequest) -> Captured {
        if self.states.len() > MAX_STATES {
            let left = self.states.len() - MAX_STATES;
            self.incomplete(format!(
                "a machine has at most 100 states: the last {left} are missing; capture the session in parts"
            ));
            self.states.truncate(MAX_STATES);
            let kept: Vec<String> = self.states.iter().map(|state| state.name.clone()).collect();
            self.captured.golden.retain(|step| kept.contains(&step.state));
        }
        for index in std::mem::take(&mut self.open_ends) {
            let terminal = &self.logs[index].terminal;
            let sentence =
                format!("a program still ran in {terminal} when it was captured: the workflow ends there, too");
            self.captured.undecided.push(sentence);
        }
        self.decide_about_logs();
        if self.is_imported() {
            for guess in &mut self.captured.guesses {
                guess.reason.push_str("; imported, lower trust");
            }
            let sentence = "the workflow was imported: prove it with steplatch workflow prove before you rely on it";
            self.captured.undecided.push(sentence.to_owned());
        }
        if self.states.iter().all(|state| state.tool == "open_terminal") {
            self.captured.undecided.push("nothing was captured but the opening of a terminal".to_owned());
        }
        if self.states.last().is_none_or(|last| last.condition != "success") {
            self.add("done", "return", Map::from_iter([("result".to_owned(), json!({}))]), Value::Null);
        }
        let asks = self.states.iter().any(|state| state.tool == "gate");
        let mut states = Map::new();
        let names: Vec<String> = self.states.iter().map(|state| state.name.clone()).collect();
        for (index, state) in self.states.into_iter().enumerate() {
            let mut document = json!({"action": {"tool": state.tool, "params": state.params}});
            if let Some(next) = names.get(index + 1) {
                document["transitions"] = json!([{"condition": state.condition, "next_state": next}]);
                if state.tool == "gate" {
                    document["transitions"] = json!([{"condition": state.condition, "next_state": next}, {"condition": {}, "next_state": DECLINED}]);
                }
            }
            if let Some(timeout) = state.timeout {
                document["timeout"] = json!(timeout);
            }
            if matches!(state.tool, "run_command" | "send_input" | "await_output") {
                document["on_unknown"] = "ask".into();
            }
            states.insert(state.name, document);
        }
        if asks {
            states.insert(
                DECLINED.to_owned(),
                json!({"action": {"tool": "fail", "params": {"message": "A person said no"}}}),
            );
        }
        let mut definition = Map::new();
        if let Some(name) = &request.name {
            definition.insert("name".to_owned(), name.as_str().into());
        }
        if let Some(description) = &request.description {
            definition.insert("description".to_owned(), description.as_str().into());
        }
        let arguments = arguments(request, &self.facts, &self.used, &self.secrets);
        if !arguments.is_empty() {
            definition.insert("arguments".to_owned(), arguments.into());
        }
        definition.insert("initial_state".to_owned(), names.first().cloned().unwrap_or_default().into());
        definition.insert("states".to_owned(), states.into());
        for (name, value) in &request.inputs {
            if !self.used.contains_key(name) {
                let sentence = format!("the value of the input '{name}' ('{value}') was not typed: it is no argument");
                self.captured.undecided.push(sentence);
            }
        }
        let inputs = std::mem::take(&mut self.used).into_iter().filter(|(_, value)| !value.is_empty());
        let is_argument = |name: &String| definition.get("arguments").is_some_and(|all| all.get(name).is_some());
        let inputs = inputs.filter(|(name, _)| is_argument(name)).collect();
        Captured { inputs, definition: definition.into(), ..self.captured }
    }
}

/// Words that questions for secrets have, and the names of arguments for them.
const KINDS_OF_SECRETS: [(&str, &str); 6] = [
    ("passphrase", "PASSPHRASE"),
    ("pass phrase", "PASSPHRASE"),
    ("password", "PASSWORD"),
    ("token", "TOKEN"),
    ("code", "CODE"),
    ("pin", "PIN"),
];

/// Lets the last wait before an answer end only where the program reads that answer, and as it read it then.
fn note_reading(turn: &Turn, waits: &mut [Wait]) {
    let has_pattern = |wait: &&mut Wait| wait.params.iter().any(|(name, _)| *name == "pattern");
    let Some(wait) = waits.last_mut().filter(has_pattern) else { return };
    if let Some(reads) = turn.reads.parameter() {
        wait.params.push(("reads", reads.into()));
    }
}

fn kind_of_secret(row: &str) -> Option<(&'static str, &'static str)> {
    let row = row.to_ascii_lowercase();
    KINDS_OF_SECRETS.into_iter().find(|(word, _)| row.contains(word))
}

/// Words of a question that requests the secret before it once more.
const REPEATING: [&str; 11] = [
    "again",
    "confirm",
    "confirmation",
    "confirming",
    "reenter",
    "repeat",
    "repeating",
    "retype",
    "retyping",
    "verify",
    "verifying",
];

/// Returns whether a question requests once more the secret typed right before it, at the question `before`.
fn repeats(row: &str, before: &str) -> bool {
    let lower = row.to_ascii_lowercase().replace("re-", "re");
    let asks_again = lower.split(|sign: char| !sign.is_ascii_alphabetic()).any(|word| REPEATING.contains(&word));
    // A code that confirms a login is no password.
    let [kind, kind_before] = [row, before].map(|row| kind_of_secret(row).map(|(_, name)| name));
    asks_again && (kind.is_none() || kind_before.is_none() || kind == kind_before)
}

/// Words of questions for secrets that do not name the owner of the secret.
const OF_ANY_SECRET: [&str; 22] = [
    "a",
    "again",
    "code",
    "current",
    "enter",
    "existing",
    "for",
    "is",
    "key",
    "login",
    "new",
    "old",
    "pass",
    "passphrase",
    "password",
    "phrase",
    "pin",
    "please",
    "secret",
    "the",
    "token",
    "your",
];

/// Returns whether a question names the owner of the secret, as `[sudo] password for ana:`.
fn says_whose(row: &str) -> bool {
    let lower = row.to_ascii_lowercase();
    let mut words = lower.split(|sign: char| !sign.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.any(|word| !OF_ANY_SECRET.contains(&word) && !REPEATING.contains(&word))
}

fn binding(value: &str) -> Binding {
    Binding { value: value.to_owned(), name: "value".to_owned() }
}

/// Returns the arguments of a machine: the inputs, the secrets, and what it takes from its client's environment.
fn arguments(
    request: &CaptureRequest,
    facts: &KnownFacts,
    used: &BTreeMap<String, String>,
    secrets: &[SecretArgument],
) -> Map<String, Value> {
    let mut arguments = Map::new();
    for (name, value) in request.inputs.iter().filter(|(name, _)| used.contains_key(name)) {
        let value = json!({"description": format!("Such as {}", literal(value)), "export": false});
        arguments.insert(name.clone(), value);
    }
    for (name, description) in [("PWD", "The directory to work in"), ("HOME", "The home directory")] {
        let is_input = arguments.contains_key(name);
        if used.contains_key(name) && !is_input {
            arguments.insert(name.to_owned(), json!({"description": description, "export": false}));
        }
    }
    for SecretArgument { name, row, .. } in secrets {
        let is_same = |word: &&str| general(word, &[], facts, Leeway::Data) == escaped(word);
        let words = row.split_whitespace().map(|word| if is_same(&word) { word } else { "…" });
        let row = words.collect::<Vec<_>>().join(" ");
        let description = format!("Typed at: {}", literal(row.trim()));
        arguments.insert(name.clone(), json!({"description": description, "secret": true}));
    }
    arguments
}

/// Returns the logs whose last input went to a program that had not ended.
fn open_ends(turns: &[Turn], logs: usize) -> Vec<usize> {
    let is_open = |log: &usize| {
        let last = turns.iter().rev().find(|turn| turn.log == *log);
        last.is_some_and(|turn| !matches!(turn.ending, Ending::Prompt { .. }))
    };
    (0..logs).filter(is_open).collect()
}

/// Names commands with an input in another terminal during them: the machine runs them to their ends first.
fn overlaps(turns: &[Turn]) -> Vec<String> {
    let mut sentences = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        let (Act::Command { command, .. }, Some(elapsed)) = (&turn.act, turn.elapsed) else { continue };
        let during = turns[index + 1..].iter().take_while(|later| {
            seconds_between(&turn.timestamp, &later.timestamp).is_some_and(|between| between < elapsed)
        });
        if during.into_iter().any(|later| later.log != turn.log) {
            sentences.push(format!(
                "'{command}' still ran when something was typed in another terminal: the workflow runs it to its end first"
            ));
        }
    }
    sentences
}

/// Returns whether a pattern has a word of three letters or more, without those of its classes and variables.
pub(crate) fn has_word(pattern: &str) -> bool {
    let plain = without_classes(pattern).replace(r"\Z", "");
    plain.split(|sign: char| !sign.is_alphabetic()).any(|word| word.chars().count() > 2)
}

fn open_state(log: usize) -> String {
    if log == 0 { "open".to_owned() } else { format!("open_{}", log + 1) }
}

/// Returns the day of a moment (ISO 8601, UTC).
fn date(timestamp: &str) -> Option<Date> {
    timestamp.split_once('T')?.0.parse().ok()
}

/// Returns the usual forms of a typed day.
fn forms_of_date(day: Date) -> [String; 6] {
    let (year, month, day) = (format!("{:04}", day.year()), format!("{:02}", day.month()), format!("{:02}", day.day()));
    [
        format!("{year}-{month}-{day}"),
        format!("{year}{month}{day}"),
        format!("{year}/{month}/{day}"),
        format!("{day}.{month}.{year}"),
        format!("{month}/{day}/{year}"),
        format!("{day}/{month}/{year}"),
    ]
}

/// Returns whether a text has a number that is not part of a longer one.
fn contains_number(text: &str, number: &str) -> bool {
    let is_digit = |sign: Option<char>| sign.is_some_and(|sign| sign.is_ascii_digit());
    text.match_indices(number)
        .any(|(at, _)| !is_digit(text[..at].chars().next_back()) && !is_digit(text[at + number.len()..].chars().next()))
}

/// Returns the wait of a state that took so many seconds.
fn limit(elapsed: Option<f64>) -> f64 {
    let seconds = (elapsed.unwrap_or(0.0) * WAIT_FACTOR).clamp(MIN_WAIT_SECONDS, MAX_WAIT_SECONDS);
    (seconds / 10.0).ceil() * 10.0
}

/// Returns what an answer is about: its text, or its first key.
fn subject(text: &str, keys: &[String]) -> String {
    let text = text.trim();
    if text.is_empty() { keys.first().cloned().unwrap_or_else(|| "enter".to_owned()) } else { text.to_owned() }
}

/// Maximum characters of a state's name that come from a text.
const MAX_NAME_CHARS: usize = 32;

/// Returns a name of a state made of the first words of a text.
fn slug(text: &str) -> String {
    let mut name = String::new();
    for word in text.split(|sign: char| !sign.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).take(4) {
        if !name.is_empty() && name.len() + word.len() + 1 > MAX_NAME_CHARS {
            break;
        }
        if !name.is_empty() {
            name.push('_');
        }
        name.extend(word.chars().take(MAX_NAME_CHARS).flat_map(char::to_lowercase));
    }
    if name.is_empty() { "step".to_owned() } else { name }
}
