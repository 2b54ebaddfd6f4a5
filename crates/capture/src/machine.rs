//! Capture of a machine from logs, and the states of the machine.

use std::collections::{BTreeMap, BTreeSet};

use jiff::ToSpan as _;
use jiff::civil::Date;
use serde_json::{Map, Value, json};
use steplatch_protocol::InputKind;
use steplatch_workflow::substitute::literal;

use crate::act::Act;
use crate::alignment::{Alignment, Difference, align, question_name};
use crate::effects::{Judgement, Reader, judge, reader_after};
use crate::menu::{ANOTHER_ENTRY, Menu, PrintedMenu};
use crate::provenance::{DIRECTORIES, Extraction, OTHER_ROWS, find_extractions, has_word, is_data, unread_numbers};
use crate::question::{
    Leeway, escape, general_pattern, landmark, matches_in, names_subject, question, replace_varying_words,
    without_frame,
};
use crate::session_log::{KnownFacts, MASK, SessionLog};
use crate::template::{Binding, Use, typed_template};
use crate::turn::{Ending, NextRead, Turn, read_turns, seconds_between};
use crate::{CaptureRequest, CapturedMachine, GoldenStep, Guess, OmittedInput, noise};

/// Minimum and maximum time limit of a state, in seconds.
const MIN_WAIT_SECONDS: f64 = 30.0;
const MAX_WAIT_SECONDS: f64 = 3600.0;

/// Time limit of a state, as a multiple of its recorded time.
const WAIT_FACTOR: f64 = 5.0;

/// Name of the failing state after a person answered no.
const DECLINED: &str = "declined";

/// Maximum number of states of a machine, without its final states.
const MAX_STATES: usize = 97;

/// Returns the machine that repeats the actions of these logs. Never fails: the result lists the omitted inputs.
#[must_use]
pub fn capture(logs: &[SessionLog], facts: &KnownFacts, request: &CaptureRequest) -> CapturedMachine {
    let (mut all_turns, mut omitted_inputs) = read_logs(logs);
    let request = &mut CaptureRequest { argument_values: argument_names(&request.argument_values), ..request.clone() };
    let arguments =
        request.argument_values.iter().map(|(name, value)| Binding { value: value.clone(), name: name.clone() });
    // An argument may have the name of a known directory.
    let is_argument = |name: &str| request.argument_values.iter().any(|(argument, _)| argument == name);
    let directories = directory_bindings(facts).into_iter().filter(|binding| !is_argument(&binding.name));
    let bindings: Vec<Binding> = arguments.chain(directories).filter(|binding| !binding.value.is_empty()).collect();
    let (other_turns, _) = read_logs(&request.compare_with);
    let alignment = align_turns(&all_turns, &other_turns, &bindings, facts, request);
    let arguments = alignment.arguments.iter().map(|argument| (argument.name.clone(), argument.value.clone()));
    request.argument_values.extend(arguments);
    for turn in
        all_turns.iter_mut().filter(|turn| request.argument_values.iter().any(|(_, value)| *value == turn.answer))
    {
        turn.mark_answer_as_data();
    }
    let mut known_values = bindings.clone();
    known_values.extend(alignment.bindings());
    let extractions = find_extractions(&all_turns, &known_values, facts);
    let reasons = noise_reasons(&all_turns, &extractions, request);
    omitted_inputs.extend(noise::omitted_inputs(&all_turns, &reasons));
    let is_directory = |name: &String| DIRECTORIES.contains(&name.as_str());
    let mut writer = MachineWriter {
        logs,
        facts: facts.clone(),
        bindings,
        untyped_arguments: request
            .argument_values
            .iter()
            .map(|(name, _)| name.clone())
            .filter(|name| !is_directory(name))
            .collect(),
        alignment,
        other_turns,
        used_variables: BTreeMap::new(),
        secrets: Vec::new(),
        last_typed_secrets: vec![None; logs.len()],
        prompt_lines: vec![String::new(); logs.len()],
        last_questions: vec![String::new(); logs.len()],
        chosen_labels: vec![String::new(); logs.len()],
        states: Vec::new(),
        state_names: Names::default(),
        secret_names: Names::default(),
        open_ends: open_ends(&all_turns, logs.len()),
        captured: CapturedMachine { omitted_inputs, ..CapturedMachine::default() },
    };
    writer.add_open_states(&all_turns);
    writer.captured.undecided.extend(overlaps(&all_turns));
    let undecided = std::mem::take(&mut writer.alignment.undecided);
    writer.captured.undecided.extend(undecided);
    let unread_numbers = unread_numbers(&all_turns);
    let mut screens_before: Vec<Option<String>> = vec![None; logs.len()];
    for (index, turn) in all_turns.iter().enumerate() {
        if reasons[index].is_none() {
            writer.select_bindings(index);
            let previous = all_turns[..index].iter().rev().find(|previous| previous.log_index == turn.log_index);
            let judgement = writer.add_gate(turn, previous.map(|previous| &previous.ending));
            let first = writer.states.len();
            writer.add_turn(turn, screens_before.get(turn.log_index).cloned().flatten().as_deref());
            writer.add_guess_of_project_programs(first, &judgement);
            if let Some(state) = writer.states.get(first).map(|state| state.name.clone()) {
                for (number, row) in &unread_numbers[index] {
                    let reason =
                        format!("an earlier output had it as well, in '{row}'; numbers below 100 are not read");
                    writer.add_guess(&state, format!("'{number}' is typed unchanged"), reason);
                }
            }
            writer.add_differences(index, first);
        }
        if let Some(last_question) = writer.last_questions.get_mut(turn.log_index) {
            noise::question(turn).unwrap_or_default().clone_into(last_question);
        }
        if let Some(chosen) = writer.chosen_labels.get_mut(turn.log_index) {
            let label = match &turn.menu {
                Menu::Printed(menu) if menu.is_numbered => menu.label.as_str(),
                Menu::None | Menu::Printed(_) | Menu::Mentioned(_) | Menu::TooLarge(_) | Menu::Drawn { .. } => "",
            };
            label.clone_into(chosen);
        }
        if let Some(screen) = screens_before.get_mut(turn.log_index) {
            *screen = if let Ending::Screen(rows) = &turn.ending { Some(rows.clone()) } else { None };
        }
        // The machine cannot read the output of an omitted turn.
        for extraction in extractions.iter().filter(|extraction| extraction.source == index && reasons[index].is_none())
        {
            writer.add_extraction(extraction, turn);
        }
    }
    writer.add_file_checks(&request.expected_files);
    writer.finish(request)
}

/// Returns the turns of all logs in the order of their inputs, and the omitted inputs.
fn read_logs(logs: &[SessionLog]) -> (Vec<Turn>, Vec<OmittedInput>) {
    let (mut all_turns, mut omitted_inputs): (Vec<Turn>, Vec<OmittedInput>) = (Vec::new(), Vec::new());
    for (index, log) in logs.iter().enumerate() {
        let (turns, omitted) = read_turns(index, log);
        all_turns.extend(turns);
        omitted_inputs.extend(omitted);
    }
    for log in 0..logs.len() {
        remove_rows_above_prompts(&mut all_turns, log);
    }
    all_turns.sort_by(|a, b| (&a.timestamp, a.log_index, a.number).cmp(&(&b.timestamp, b.log_index, b.number)));
    (all_turns, omitted_inputs)
}

/// Removes the rows above the prompts of an interpreter, because they are results. Such a prompt has no word, is not a
/// frame, occurs several times, and follows a row that is not a question.
fn remove_rows_above_prompts(turns: &mut [Turn], log_index: usize) {
    let prompt = |turn: &Turn| match &turn.ending {
        Ending::Question(line)
            if turn.log_index == log_index && !has_word(&escape(line)) && !without_frame(line).is_empty() =>
        {
            Some(line.trim().to_owned())
        }
        _ => None,
    };
    let prompts: Vec<String> = turns.iter().filter_map(prompt).collect();
    for turn in turns.iter_mut() {
        let is_repeated = |line: String| prompts.iter().filter(|prompt| **prompt == line).count() > 1;
        let follows_question = turn.rows_above.last().is_some_and(|row| row.ends_with(['?', ':']));
        if !follows_question && prompt(turn).is_some_and(is_repeated) {
            turn.rows_above.clear();
        }
    }
}

/// Returns the reason to omit each turn, if there is one.
fn noise_reasons(turns: &[Turn], extractions: &[Extraction], request: &CaptureRequest) -> Vec<Option<String>> {
    noise::reasons(turns, request.keep_read_only_commands, |turn| {
        extractions.iter().any(|extraction| extraction.source == turn)
    })
}

/// Aligns the turns with the turns of the other capture in the request.
fn align_turns(
    turns: &[Turn],
    other_turns: &[Turn],
    bindings: &[Binding],
    facts: &KnownFacts,
    request: &CaptureRequest,
) -> Alignment {
    if request.compare_with.is_empty() {
        return Alignment::default();
    }
    let procedure_turns = |turns: &[Turn], extractions: &[Extraction]| -> Vec<usize> {
        let reasons = noise_reasons(turns, extractions, request);
        (0..turns.len()).filter(|turn| reasons[*turn].is_none()).collect()
    };
    let extractions = find_extractions(turns, bindings, facts);
    let other_extractions = find_extractions(other_turns, bindings, facts);
    // A value that comes from the output of only one capture is a choice, so it becomes an argument.
    let is_read = |value: &str, extractions: &[Extraction]| {
        extractions.iter().any(|found| found.is_read && found.binding.value == value)
    };
    let is_known = |value: &str, other: &str| {
        bindings.iter().any(|binding| binding.value == value)
            || (is_read(value, &extractions) && is_read(other, &other_extractions))
    };
    align(
        (turns, &procedure_turns(turns, &extractions)),
        (other_turns, &procedure_turns(other_turns, &other_extractions)),
        is_known,
    )
}

/// Returns the values with valid argument names: upper-case letters, digits and `_`.
fn argument_names(values: &[(String, String)]) -> Vec<(String, String)> {
    let name = |name: &str| {
        let name: String = name
            .chars()
            .map(|character| if character.is_ascii_alphanumeric() { character.to_ascii_uppercase() } else { '_' })
            .take(MAX_ARGUMENT_CHARS)
            .collect();
        if name.starts_with(|first: char| first.is_ascii_uppercase()) { name } else { format!("INPUT_{name}") }
    };
    values.iter().map(|(given_name, value)| (name(given_name), value.clone())).collect()
}

/// Maximum number of characters of a requested name in an argument name.
const MAX_ARGUMENT_CHARS: usize = 50;

/// Returns the known directories, as variables that a run takes from its client's environment.
fn directory_bindings(facts: &KnownFacts) -> Vec<Binding> {
    let directories = [(&facts.directory, "PWD"), (&facts.home, "HOME")];
    let is_known = |value: &str| value.len() > 2 && value.starts_with('/');
    let known = directories.into_iter().filter(|(value, _)| is_known(value));
    known.map(|(value, name)| Binding { value: value.clone(), name: name.to_owned() }).collect()
}

/// A state of the machine, without its transitions.
struct DraftState {
    name: String,
    tool: &'static str,
    params: Map<String, Value>,
    /// Condition of the transition to the next state.
    condition: Value,
    timeout: Option<f64>,
}

/// Unique names.
#[derive(Debug, Default)]
struct Names {
    used_names: BTreeSet<String>,
    /// The next number to append to a name, by base name.
    next_numbers: BTreeMap<String, usize>,
}

impl Names {
    fn is_taken(&self, name: &str) -> bool {
        self.used_names.contains(name)
    }

    /// Returns the base name, with a number if it is in use.
    fn free_name(&self, base: &str) -> String {
        let first = self.next_numbers.get(base).copied().unwrap_or(2);
        let numbered = (first..).map(|number| format!("{base}_{number}"));
        std::iter::once(base.to_owned()).chain(numbered).find(|name| !self.is_taken(name)).unwrap_or_default()
    }

    /// Takes the free name with this base.
    fn take(&mut self, base: &str) -> String {
        let name = self.free_name(base);
        if let Some(number) = name.strip_prefix(base).and_then(|suffix| suffix.strip_prefix('_')?.parse::<usize>().ok())
        {
            self.next_numbers.insert(base.to_owned(), number + 1);
        }
        self.used_names.insert(name.clone());
        name
    }
}

/// Writer of the states of a machine, turn by turn.
struct MachineWriter<'r> {
    logs: &'r [SessionLog],
    /// Known text of the host, and the printed words that vary in the current turn.
    facts: KnownFacts,
    /// The values that variables replace in the current turn.
    bindings: Vec<Binding>,
    /// The arguments whose values were not typed so far.
    untyped_arguments: BTreeSet<String>,
    /// Differences from the other capture.
    alignment: Alignment,
    /// The turns of the other capture.
    other_turns: Vec<Turn>,
    /// The variables that the machine uses, with their values.
    used_variables: BTreeMap<String, String>,
    secrets: Vec<SecretArgument>,
    /// The secret that the last turn typed, by log.
    last_typed_secrets: Vec<Option<usize>>,
    /// The last line typed at a prompt, by log.
    prompt_lines: Vec<String>,
    /// The question at the end of the last turn, by log.
    last_questions: Vec<String>,
    /// The label of the menu entry that the next answer chooses by its number, by log.
    chosen_labels: Vec<String>,
    states: Vec<DraftState>,
    state_names: Names,
    secret_names: Names,
    /// The logs that end within a program.
    open_ends: Vec<usize>,
    captured: CapturedMachine,
}

/// A secret argument.
struct SecretArgument {
    name: String,
    /// The row before the first input of the secret.
    row: String,
    /// The last line typed at a prompt before the secret.
    prompt_line: String,
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

impl MachineWriter<'_> {
    fn add_guess(&mut self, state: &str, guess: impl Into<String>, reason: impl Into<String>) {
        self.captured.guesses.push(Guess { state: state.to_owned(), guess: guess.into(), reason: reason.into() });
    }

    /// Selects the variables and the varying words for the states of a turn.
    fn select_bindings(&mut self, turn: usize) {
        let arguments = &self.alignment.arguments;
        self.bindings.retain(|binding| !arguments.iter().any(|argument| argument.name == binding.name));
        self.bindings
            .extend(arguments.iter().filter(|argument| argument.turns.contains(&turn)).map(Difference::binding));
        self.facts.varying = self.alignment.varying.get(&turn).cloned().unwrap_or_default();
    }

    /// Adds a guess for each argument that a turn introduced and reports each pattern of its states, starting at `first`,
    /// that the other capture did not print.
    fn add_differences(&mut self, turn: usize, first: usize) {
        let Some(index) = self.alignment.pairs.get(&turn).and_then(|other| self.other_turns.get(*other)) else {
            return;
        };
        let (mut guesses, mut undecided) = (Vec::new(), Vec::new());
        let states = self.states.get(first..).unwrap_or_default();
        for argument in self.alignment.arguments.iter().filter(|argument| argument.turns.first() == Some(&turn)) {
            guesses.push(Guess {
                state: states.first().map(|state| state.name.clone()).unwrap_or_default(),
                guess: format!("'{}' is the argument {}", argument.value, argument.name),
                reason: format!("'{}' was typed in the other capture", argument.other_value),
            });
        }
        if let (Act::Command { output: printed, .. }, Some(command)) = (&index.act, states.first())
            && let Some(golden) = self.captured.golden.iter_mut().find(|golden| golden.state == command.name)
            && !self.alignment.is_same_output(&golden.prints, printed)
        {
            golden.varies = true;
            guesses.push(Guess {
                state: command.name.clone(),
                guess: "its output may differ between runs".to_owned(),
                reason: "the other capture had different output".to_owned(),
            });
        }
        for state in states {
            let Some(pattern) = state.params.get("pattern").and_then(Value::as_str) else { continue };
            if !self.alignment.is_found_in(pattern, index) {
                let sentence =
                    format!("state '{}' waits for /{pattern}/, which the other capture did not print", state.name);
                undecided.push(sentence);
            }
        }
        self.captured.guesses.extend(guesses);
        self.captured.undecided.extend(undecided);
    }

    /// Adds a state under a unique name and returns the name.
    fn add_state(&mut self, base: &str, tool: &'static str, params: Map<String, Value>, condition: Value) -> String {
        let name = self.state_names.take(&slug(base));
        self.states.push(DraftState { name: name.clone(), tool, params, condition, timeout: None });
        name
    }

    /// Returns the name that a new state with this base would get.
    fn free_name(&self, base: &str) -> String {
        self.state_names.free_name(&slug(base))
    }

    /// Returns the base name of the state for a line at a prompt: the line without the known directories.
    fn line_state_name(&self, line: &str) -> String {
        let directories: Vec<Binding> =
            self.bindings.iter().filter(|binding| DIRECTORIES.contains(&binding.name.as_str())).cloned().collect();
        typed_template(line, &directories, Use::Plain).0.replace("{PWD}", "").replace("{HOME}", "")
    }

    /// Returns the base name of the state for an answer: from its argument, the entry that it chooses, or its text. If
    /// the answer is empty, or the name is in use, the name comes from the question.
    fn answer_state_name(&self, log_index: usize, text: &str, keys: &[String]) -> String {
        if let Some(argument) = self.bindings.iter().find(|binding| binding.value == text.trim()) {
            return format!("answer {}", argument.name);
        }
        if let Some(label) = self.chosen_labels.get(log_index).filter(|label| !label.is_empty()) {
            return format!("choose {label}");
        }
        let name = format!("answer {}", answer_name(text, keys));
        let is_taken = self.state_names.is_taken(&slug(&name));
        let question = self
            .last_questions
            .get(log_index)
            .filter(|question| !question.is_empty() && (text.trim().is_empty() || is_taken));
        question.map_or(name, |question| format!("answer {}", question_name(question, |_| false)))
    }

    fn add_golden_step(&mut self, state: &str, prints: &str, exit_code: Option<i32>) {
        let golden =
            GoldenStep { state: state.to_owned(), prints: prints.to_owned(), exit_code, ..GoldenStep::default() };
        self.captured.golden.push(golden);
    }

    /// Returns the parameter for the terminal of a log, if there are several terminals.
    fn session_parameter(&self, log_index: usize) -> Option<Value> {
        (self.logs.len() > 1).then(|| format!("{{{}_session_id}}", open_state_name(log_index)).into())
    }

    /// Adds the states that open the terminals.
    fn add_open_states(&mut self, turns: &[Turn]) {
        for (index, log) in self.logs.iter().enumerate() {
            if !turns.iter().any(|turn| turn.log_index == index) && self.logs.len() > 1 {
                continue;
            }
            let shell = if log.shell.is_empty() { "bash" } else { &log.shell };
            let mut params = Map::from_iter([("shell".to_owned(), Value::from(literal(shell)))]);
            let initial = log.moments.iter().find_map(|moment| moment.input.directory.as_deref());
            let directory = initial.unwrap_or(&log.directory);
            let name = open_state_name(index);
            if !directory.is_empty() && directory != self.facts.directory {
                let (template, names) = typed_template(directory, &self.bindings, Use::Plain);
                self.record_used_variables(&names);
                if names.is_empty() {
                    self.add_guess(
                        &name,
                        format!("it always starts in {directory}"),
                        "the terminal was opened there; add PWD to inputs to make it an argument",
                    );
                }
                params.insert("working_directory".to_owned(), template.into());
            } else if !directory.is_empty() {
                self.add_guess(
                    &name,
                    "it starts in the directory of its caller",
                    format!("it was captured in {directory}"),
                );
            }
            let name = self.add_state(&name, "open_terminal", params, "success".into());
            self.add_golden_step(&name, "", None);
        }
    }

    /// Returns whether a log comes from a recording by another program.
    fn is_imported(&self) -> bool {
        self.logs.iter().any(|log| log.is_imported)
    }

    fn record_used_variables(&mut self, names: &[String]) {
        for name in names {
            let value = self.bindings.iter().find(|binding| binding.name == *name).map(|binding| binding.value.clone());
            self.used_variables.insert(name.clone(), value.unwrap_or_default());
        }
    }

    /// Returns the template of text typed at a prompt or into a program.
    fn typed_text(&mut self, state: &str, text: &str, is_at_prompt: bool) -> String {
        let usage = if is_at_prompt { Use::Shell } else { Use::Plain };
        let (template, names) = typed_template(text, &self.bindings, usage);
        self.record_used_variables(&names);
        self.untyped_arguments.retain(|name| !names.contains(name));
        let facts = self.facts.clone();
        for (name, value) in [("host name", &facts.host), ("user name", &facts.user)] {
            if value.len() >= 3 && typed_template(text, &[value_binding(value)], Use::Plain).1.len() == 1 {
                let sentence =
                    format!("state '{state}' types the {name} '{value}': add it to inputs to make it an argument");
                self.captured.undecided.push(sentence);
            }
        }
        template
    }

    /// Reports a typed date on or near the day of the input, because the next run may be on another day.
    fn report_date(&mut self, state: &str, typed: &str, turn: &Turn) {
        let Some(day) = parse_day(&turn.timestamp) else { return };
        // The log has the day in UTC. The day in the host's time zone differs by at most one day, and the days before
        // and after it by at most two.
        let days = (-2..=2).filter_map(|days| day.checked_add(days.days()).ok());
        let mut forms = days.flat_map(date_forms);
        if let Some(form) = forms.find(|form| contains_number(typed, form)) {
            let sentence = format!("state '{state}' types the date '{form}': add it to inputs to make it an argument");
            self.captured.undecided.push(sentence);
        }
    }

    /// Adds a gate before an irreversible or unknown input. `previous` is the state of the program before the input.
    fn add_gate(&mut self, turn: &Turn, previous: Option<&Ending>) -> Judgement {
        let (text, reader) = match &turn.act {
            Act::Command { command, .. } if turn.at_prompt => (command.as_str(), Reader::Shell),
            // A line at the prompt of another program.
            Act::Command { command, .. } => (command.as_str(), self.reader_at(turn.log_index, previous)),
            Act::Typed { text, .. } if turn.at_prompt => (text.trim_end(), Reader::Shell),
            Act::Typed { text, .. } => (text.trim_end(), self.reader_at(turn.log_index, previous)),
            Act::Hidden { .. } => return Judgement::default(),
        };
        let judgement = judge(text, reader);
        let Some(reason) = judgement.reason() else { return judgement };
        let (template, names) = typed_template(text, &self.bindings, Use::Plain);
        self.record_used_variables(&names);
        let params =
            json!({"prompt": format!("Run this? {template}"), "choices": ["yes", "no"], "answered_by": "human"});
        let params = params.as_object().cloned().unwrap_or_default();
        let name = self.add_state("confirm", "gate", params, json!({"field_equals": {"answer": "yes"}}));
        let yes = GoldenStep { state: name.clone(), answer: Some("yes".to_owned()), ..GoldenStep::default() };
        self.captured.golden.push(yes);
        self.add_guess(&name, "a person is asked first", reason);
        judgement
    }

    /// Returns the reader of an answer: a shell of another machine or a database client at its prompt, or else the
    /// program.
    fn reader_at(&self, log_index: usize, previous: Option<&Ending>) -> Reader {
        let Some(Ending::Question(line)) = previous else { return Reader::Program };
        let prompt = line.trim_end();
        match self.prompt_lines.get(log_index).map(|line| reader_after(line)) {
            Some(Reader::Shell) if prompt.ends_with(['$', '#', '%', '~']) || prompt.ends_with("~>") => Reader::Shell,
            Some(Reader::Database) if prompt.ends_with(['>', '#']) => Reader::Database,
            _ => Reader::Program,
        }
    }

    /// Adds a guess for the programs of the project that a turn runs without a gate.
    fn add_guess_of_project_programs(&mut self, first: usize, judgement: &Judgement) {
        let Some(state) = self.states.get(first).map(|state| state.name.clone()) else { return };
        if judgement.reason().is_none() && !judgement.project_programs.is_empty() {
            let programs = judgement.project_programs.join("', '");
            self.add_guess(
                &state,
                "no person is asked first",
                format!("the file of '{programs}' is not read; its name and arguments do not indicate an irreversible effect"),
            );
        }
    }

    fn add_turn(&mut self, turn: &Turn, screen: Option<&str>) {
        if turn.at_prompt
            && let Some(line) = self.prompt_lines.get_mut(turn.log_index)
        {
            match &turn.act {
                Act::Command { command: text, .. } | Act::Typed { text, .. } => text.trim().clone_into(line),
                Act::Hidden { .. } => line.clear(),
            }
        }
        let previous_secret = self.last_typed_secrets.get_mut(turn.log_index).and_then(Option::take);
        match &turn.act {
            Act::Command { command, directory, exit_code, output } => {
                self.add_command(turn, command, directory.as_deref(), *exit_code, output);
            }
            Act::Typed { text, keys } => {
                let base = if turn.at_prompt {
                    self.line_state_name(text)
                } else {
                    self.answer_state_name(turn.log_index, text, keys)
                };
                let name = self.free_name(&base);
                let template = self.typed_text(&name, text, turn.at_prompt);
                self.report_date(&name, &template, turn);
                let line_count = text.trim_end().lines().count();
                if line_count > 1 {
                    self.add_guess(
                        &name,
                        format!("it types {line_count} lines at once"),
                        "they were typed at once; questions of the program between them are not compared",
                    );
                }
                if turn.key_count > 1 {
                    self.add_guess(
                        &name,
                        format!("it presses {} keys at once", turn.key_count),
                        "not every key had a question; questions of the program between them are not compared",
                    );
                }
                let mut params = Map::new();
                if !template.is_empty() || keys.is_empty() {
                    params.insert("input_text".to_owned(), template.into());
                }
                if !keys.is_empty() {
                    params.insert("keys".to_owned(), json!(keys));
                }
                self.add_input(turn, &base, params, screen);
            }
            Act::Hidden { entered, row } => {
                let (secret, base) = self.secret_argument(turn.log_index, row, previous_secret);
                let text = format!("{{{secret}}}{}", if *entered { "\n" } else { "" });
                let params =
                    Map::from_iter([("input_text".to_owned(), text.into()), ("secret".to_owned(), true.into())]);
                self.add_input(turn, &base, params, screen);
            }
        }
    }

    /// Returns the name of the secret argument typed after a row, and the base name of its state. The log has no
    /// values, so equal questions mean equal secrets. `previous` is the secret that the previous turn typed.
    fn secret_argument(&mut self, log_index: usize, row: &str, previous: Option<usize>) -> (String, String) {
        let row = row.trim();
        let line = self.prompt_lines.get(log_index).cloned().unwrap_or_default();
        let repeated = previous
            .filter(|previous| self.secrets.get(*previous).is_some_and(|secret| requests_again(row, &secret.row)));
        let is_same = |secret: &SecretArgument| secret.row == row && (secret.prompt_line == line || names_owner(row));
        let known = self.secrets.iter().position(is_same);
        let (index, reason, base) = match (repeated, known) {
            (Some(index), _) => (index, Some("the question requests the secret again"), "repeat"),
            (None, Some(index)) => (index, Some("the same question requested it"), "give again"),
            (None, None) => (self.secrets.len(), None, "give"),
        };
        if reason.is_none() {
            let name = self.secret_names.take(secret_kind(row).map_or("SECRET", |(_, name)| name));
            self.secrets.push(SecretArgument { name, row: row.to_owned(), prompt_line: line });
        }
        let name = self.secrets.get(index).map(|secret| secret.name.clone()).unwrap_or_default();
        let base = format!("{base} {name}");
        let state = self.free_name(&base);
        if let Some(reason) = reason {
            self.add_guess(&state, format!("it is {name} again"), reason);
        } else if let Some(other) = self.secrets[..index].iter().find(|secret| secret.row == row) {
            let other = other.name.clone();
            self.add_guess(
                &state,
                format!("{name} is a different secret from {other}"),
                "a different command requested it",
            );
        }
        if let Some(last_typed) = self.last_typed_secrets.get_mut(log_index) {
            *last_typed = Some(index);
        }
        (name, base)
    }

    fn add_command(
        &mut self,
        turn: &Turn,
        command: &str,
        directory: Option<&str>,
        exit_code: Option<i32>,
        output: &str,
    ) {
        let base = self.line_state_name(command);
        let name = self.free_name(&base);
        let command = self.typed_text(&name, command, turn.at_prompt);
        self.report_date(&name, &command, turn);
        let mut params = Map::from_iter([("command".to_owned(), Value::from(command))]);
        if let Some(directory) = directory {
            let directory = self.typed_text(&name, directory, false);
            params.insert("working_directory".to_owned(), directory.into());
        }
        params.insert("timeout".to_owned(), json!(wait_seconds(turn.elapsed)));
        if exit_code.is_none() && !self.is_imported() {
            // Make a shell report its exit codes. The parameter does not affect an interpreter.
            params.insert("integrate".to_owned(), true.into());
        }
        self.set_terminal(&mut params, turn);
        let expected = exit_code.filter(|code| *code != 0);
        let condition = expected.map_or("success".into(), |code| json!({"field_equals": {"exit_code": code}}));
        let name = self.add_state(&base, "run_command", params, condition);
        if let Some(code) = expected {
            self.add_guess(
                &name,
                format!("exit code {code} is expected"),
                "the command ended with it in the capture, and was not repeated",
            );
        }
        let exit_code = self.expected_exit_code(&name, exit_code);
        self.add_golden_step(&name, output, exit_code);
        for wait in &turn.waits {
            let pattern = self.client_pattern(&name, &wait.pattern);
            let name = self.add_wait_state(turn, &name, Wait::pattern(pattern));
            self.add_golden_step(&name, output, None);
        }
    }

    /// Returns the recorded exit code, or 0 for an imported recording without exit codes.
    fn expected_exit_code(&mut self, state: &str, recorded: Option<i32>) -> Option<i32> {
        if recorded.is_some() || !self.is_imported() {
            return recorded;
        }
        self.add_guess(state, "exit code 0 is expected", "the recording has no exit codes");
        Some(0)
    }

    fn set_terminal(&self, params: &mut Map<String, Value>, turn: &Turn) {
        if let Some(session) = self.session_parameter(turn.log_index) {
            params.insert("session_id".to_owned(), session);
        }
    }

    /// Returns a pattern of the client with variables in place of values.
    fn client_pattern(&mut self, state: &str, pattern: &str) -> String {
        // A pattern may contain a value literally, or escaped.
        let printable = self.printable_bindings();
        let escaped_bindings =
            printable.iter().map(|binding| Binding { value: escape(&binding.value), ..binding.clone() });
        let mut bindings: Vec<Binding> = escaped_bindings.chain(printable.iter().cloned()).collect();
        bindings.retain(|binding| !DIRECTORIES.contains(&binding.name.as_str()));
        let (template, names) = crate::template::template(pattern, &bindings, Use::Pattern, literal);
        self.record_used_variables(&names);
        self.add_guess(state, format!("it waits for /{pattern}/"), "the client waited for it in the capture");
        replace_varying_words(template, &self.facts)
    }

    /// Adds the state of an input, and the waits after it.
    fn add_input(&mut self, turn: &Turn, base: &str, mut params: Map<String, Value>, screen: Option<&str>) {
        self.set_terminal(&mut params, turn);
        let seconds = wait_seconds(turn.elapsed);
        let name = self.add_state(base, "send_input", params, "success".into());
        let index = self.states.len() - 1;
        let mut waits = self.waits_after(turn, &name, screen);
        let exit_code = match turn.ending {
            Ending::Prompt { exit_code } if self.is_imported() => exit_code.or(Some(0)),
            Ending::Prompt { exit_code } => exit_code,
            _ => None,
        };
        self.add_golden_step(&name, &turn.printed, exit_code.filter(|_| waits.len() <= 1));
        require_reading_mode(turn, &mut waits);
        if waits.first().is_some_and(|wait| !wait.on_screen) {
            let wait = waits.remove(0);
            let state = &mut self.states[index];
            state.params.extend(wait.params.into_iter().map(|(name, value)| (name.to_owned(), value)));
            state.params.insert("timeout".to_owned(), json!(seconds));
            state.params.insert("stop_at_input".to_owned(), true.into());
            state.condition = wait.condition;
            // The default limit of an action other than a wait is 30 seconds.
            state.timeout = Some(seconds + 5.0);
        }
        for wait in waits {
            let is_on_screen = wait.on_screen;
            let name = self.add_wait_state(turn, &name, wait);
            let screen = match (&turn.ending, &turn.menu) {
                (Ending::Screen(rows), _) => Some(rows.clone()),
                (_, Menu::Drawn { rows, .. }) if is_on_screen => Some(rows.join("\n")),
                _ => None,
            };
            self.add_golden_step(&name, screen.as_ref().unwrap_or(&turn.printed), exit_code);
        }
    }

    fn add_wait_state(&mut self, turn: &Turn, base: &str, wait: Wait) -> String {
        let mut params: Map<String, Value> =
            wait.params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        if wait.on_screen {
            params.insert("target".to_owned(), "screen".into());
        }
        if !wait.on_screen || params.contains_key("reads") {
            params.insert("stop_at_input".to_owned(), true.into());
        }
        params.insert("timeout".to_owned(), json!(wait_seconds(turn.elapsed)));
        self.set_terminal(&mut params, turn);
        self.add_state(&format!("after {base}"), "await_output", params, wait.condition)
    }

    /// Returns the waits after an input: first the waits of the client, then a wait for the state of the program at the
    /// next input.
    fn waits_after(&mut self, turn: &Turn, state: &str, screen: Option<&str>) -> Vec<Wait> {
        let mut waits = Vec::new();
        for wait in &turn.waits {
            let pattern = self.client_pattern(state, &wait.pattern);
            // The text on a full screen may not be contiguous in the output.
            let on_screen = matches!(&turn.ending, Ending::Screen(rows) if matches_in(&wait.pattern, rows));
            waits.push(Wait { on_screen, ..Wait::pattern(pattern) });
        }
        let is_covered = turn.waits.last().is_some_and(|wait| wait.reaches_input);
        match &turn.ending {
            Ending::Prompt { exit_code } => {
                let exit_code = self.expected_exit_code(state, *exit_code);
                let condition = match exit_code {
                    Some(code) => json!({"field_equals": {"reason": "prompt", "exit_code": code}}),
                    None => json!({"field_equals": {"reason": "prompt"}}),
                };
                waits.push(Wait { params: vec![("until", "prompt".into())], condition, on_screen: false });
            }
            Ending::Question(_) | Ending::Password(_) | Ending::Screen(_)
                if let Menu::Drawn { rows, output_rows, is_last, highlighted } = &turn.menu =>
            {
                // The rows of a choice must equal the recorded rows.
                let leeway = if turn.leeway == Leeway::Data { Leeway::Data } else { Leeway::Nothing };
                let (output, rows) = rows.split_at(*output_rows);
                let bindings = self.printable_bindings();
                let pattern = crate::question::rows(output, rows, &bindings, &self.facts, leeway, *is_last);
                self.record_variables_in(&pattern);
                self.add_guess(
                    state,
                    "the screen must have the same rows in the same order",
                    "they were on the screen at the next input",
                );
                let mut wait = Wait { on_screen: true, ..Wait::pattern(pattern) };
                if !highlighted.is_empty() {
                    let templates = highlighted.iter().map(|text| typed_template(text, &bindings, Use::Plain));
                    let (texts, names): (Vec<String>, Vec<Vec<String>>) = templates.unzip();
                    self.record_used_variables(&names.concat());
                    let sentence = format!("'{}' must be highlighted on the screen", highlighted.join("', '"));
                    self.add_guess(state, sentence, "it was at the next input");
                    wait.params.push(("highlighted", texts.into()));
                }
                waits.push(wait);
            }
            // The client may have waited for a part of the question, such as `[y/N]` or `: `.
            Ending::Question(line) | Ending::Password(line) if !line.trim().is_empty() => {
                let bindings = self.printable_bindings();
                let pattern = question(line, &bindings, &self.facts, turn.leeway);
                if pattern.is_empty() {
                    waits.push(self.quiet_wait(state));
                    return waits;
                }
                let has_menu = matches!(&turn.menu, Menu::Printed(_));
                if !names_subject(line) && !has_menu && turn.rows_above.is_empty() {
                    self.add_guess(
                        state,
                        "nearly any question may be answered",
                        format!("many questions end with '{}'; the line above it is not compared", line.trim()),
                    );
                }
                // If a question does not name its subject, the rows above it do.
                let pattern = match names_subject(line) || has_menu || turn.rows_above.is_empty() {
                    true => pattern,
                    false => {
                        let rows =
                            turn.rows_above.iter().map(|row| general_pattern(row, &bindings, &self.facts, turn.leeway));
                        format!(r"^[^\S\n]*{}\s*\n{pattern}", rows.collect::<Vec<_>>().join(r"\s*\n\s*"))
                    }
                };
                let is_argument = self.bindings.iter().any(|binding| binding.value == turn.answer);
                let wait = match &turn.menu {
                    Menu::Printed(menu) if menu.is_numbered || !is_argument => {
                        self.menu_wait(state, menu, &bindings, &pattern)
                    }
                    // The answer may repeat a value that the program printed in this row.
                    Menu::Mentioned(row) if is_data(&turn.answer) && !is_argument => {
                        let sentence = format!("the row '{row}' must be unchanged");
                        self.add_guess(state, sentence, "the next input contains a value of it");
                        let row = general_pattern(row, &bindings, &self.facts, Leeway::Nothing);
                        Wait::pattern(format!(r"^[^\S\n]*{row}\s*\n(?:.*\n)*?{pattern}"))
                    }
                    Menu::Mentioned(row) => {
                        let reason = format!("it contains '{}', and may be an entry of a menu", turn.answer);
                        self.add_guess(state, format!("the row '{row}' is not compared"), reason);
                        Wait::pattern(pattern)
                    }
                    Menu::None | Menu::Printed(_) | Menu::TooLarge(_) | Menu::Drawn { .. } => Wait::pattern(pattern),
                };
                // The client waited for the same pattern.
                if waits.iter().any(|earlier| earlier.params == wait.params) {
                    return waits;
                }
                if let Some(pattern) = wait.params.first().and_then(|(_, pattern)| pattern.as_str()) {
                    self.record_variables_in(pattern);
                    self.add_guess(
                        state,
                        format!("it waits for /{pattern}/"),
                        "it was the last line before the next input",
                    );
                }
                waits.push(wait);
            }
            Ending::Screen(rows) => match landmark(screen.or(turn.screen.as_deref()), rows) {
                Some(row) => {
                    if let Menu::TooLarge(count) = turn.menu {
                        self.add_guess(
                            state,
                            "the next key is pressed independently of the other rows",
                            format!("{count} rows are too many to compare"),
                        );
                    }
                    let pattern = general_pattern(row, &self.printable_bindings(), &self.facts, turn.leeway);
                    self.record_variables_in(&pattern);
                    self.add_guess(
                        state,
                        format!("it waits for /{pattern}/ on the screen"),
                        "the row was new at the next input",
                    );
                    let params = vec![("pattern", pattern.into())];
                    waits.push(Wait { params, condition: "success".into(), on_screen: true });
                }
                None => waits.push(self.quiet_wait(state)),
            },
            Ending::Silent(row) => {
                let pattern = row.pattern(&self.printable_bindings(), &self.facts);
                self.record_variables_in(&pattern);
                self.add_guess(
                    state,
                    "the program must wait for input without output",
                    "nothing was printed before the next input",
                );
                if turn.next_read == NextRead::None {
                    let condition = json!({"field_equals": {"reason": "input"}, "pattern_match": pattern});
                    waits.push(Wait { params: vec![("until", "input".into())], condition, on_screen: false });
                } else {
                    // A match counts only while the program reads in the recorded mode.
                    waits.push(Wait { on_screen: true, ..Wait::pattern(pattern) });
                }
            }
            Ending::Question(_) | Ending::Password(_) if is_covered => {}
            Ending::Question(_) | Ending::Password(_) | Ending::Open if !turn.waits.is_empty() => {}
            Ending::Question(_) | Ending::Password(_) | Ending::Open => {
                let wait = self.quiet_wait(state);
                waits.push(wait);
            }
        }
        waits
    }

    /// Returns the wait for a menu with numbers, and for the question below it.
    fn menu_wait(&mut self, state: &str, menu: &PrintedMenu, bindings: &[Binding], question: &str) -> Wait {
        let pattern = format!("{}{question}", menu.pattern(bindings, &self.facts));
        let sentence = format!("the menu must have the entry '{}', and its other rows unchanged", menu.entry());
        self.add_guess(state, sentence, "the next input chooses it by its number");
        let wait = Wait::pattern(pattern);
        if menu.may_have_same_key() {
            self.add_guess(state, "another row above the menu may have the same number", "one had it in the capture");
        }
        if !menu.excludes_same_key() {
            return wait;
        }
        let condition = json!({"success": true, "field_equals": {format!("groups.{ANOTHER_ENTRY}"): null}});
        Wait { condition, ..wait }
    }

    /// Returns the values that the output of a program may contain now: typed values, values from an output, and
    /// directories. Output does not depend on a value before its first input.
    fn printable_bindings(&self) -> Vec<Binding> {
        let printable = self.bindings.iter().filter(|binding| !self.untyped_arguments.contains(&binding.name));
        printable.cloned().collect()
    }

    /// Records the variables of a pattern as used.
    fn record_variables_in(&mut self, pattern: &str) {
        let is_used = |binding: &Binding| pattern.contains(&format!("{{{}|regex}}", binding.name));
        let names: Vec<String> =
            self.bindings.iter().filter(|binding| is_used(binding)).map(|binding| binding.name.clone()).collect();
        self.record_used_variables(&names);
    }

    fn quiet_wait(&mut self, state: &str) -> Wait {
        self.add_guess(state, "it waits until the output is quiet", "no text indicated that the program was ready");
        let condition = json!({"field_equals": {"reason": "quiet"}});
        Wait { params: vec![("until", "quiet".into())], condition, on_screen: false }
    }

    /// Adds the state that reads a value from the output of a turn.
    fn add_extraction(&mut self, extraction: &Extraction, turn: &Turn) {
        self.record_variables_in(&extraction.pattern);
        let state = self.states.last().map(|state| state.name.clone()).unwrap_or_default();
        let groups = OTHER_ROWS.into_iter().filter(|name| extraction.pattern.contains(&format!("(?P<{name}>")));
        let nulls: Map<String, Value> = groups.map(|name| (format!("groups.{name}"), Value::Null)).collect();
        let condition = json!({"success": true, "field_equals": nulls});
        let name = self.add_wait_state(
            turn,
            &extraction.binding.name,
            Wait { condition, ..Wait::pattern(extraction.pattern.clone()) },
        );
        let value = &extraction.binding.value;
        let reason = format!("'{value}' was printed there before it was typed");
        let guess = match extraction.is_read {
            true => format!("{{{}}} is read from the output of '{state}'", extraction.binding.name),
            false => format!("'{value}' is typed only if '{state}' prints the same rows"),
        };
        let suffix = if extraction.is_read { "" } else { ", and other rows look like its row" };
        self.add_guess(&name, guess, format!("{reason}{suffix}"));
        let prints = if let Act::Command { output, .. } = &turn.act { output } else { &turn.printed };
        self.add_golden_step(&name, prints, None);
        if extraction.is_read {
            self.bindings.push(extraction.binding.clone());
        }
    }

    /// Adds a check for each file that must exist.
    fn add_file_checks(&mut self, files: &[String]) {
        self.bindings.extend(self.alignment.bindings());
        for file in files {
            let (file, names) = typed_template(file, &self.bindings, Use::Plain);
            self.record_used_variables(&names);
            let command = format!("test -e '{}'", file.replace('\'', r"'\''"));
            let name = self.add_state(
                "check file",
                "run_command",
                Map::from_iter([("command".to_owned(), command.into())]),
                "success".into(),
            );
            self.add_golden_step(&name, "", Some(0));
        }
    }

    /// Reports missing parts of the logs: their beginnings, the ends of long texts, and secrets within texts.
    fn report_incomplete_logs(&mut self) {
        for log in self.logs {
            let is_input = |kind| !matches!(kind, InputKind::Wait | InputKind::Resize | InputKind::Entered);
            let first = log.moments.iter().find(|moment| is_input(moment.input.kind));
            if let Some(first) = first.filter(|first| first.input.context != "prompt") {
                let (terminal, number) = (&log.terminal, first.input.number);
                self.report_incomplete(format!(
                    "in {terminal}, the capture begins inside a program, with input {number}; begin with the line that started the program"
                ));
            }
            for moment in log.moments.iter().filter(|moment| moment.input.cut) {
                let number = moment.input.number;
                self.captured.undecided.push(format!("input {number} was too long: its end is missing in the log"));
            }
        }
        let types_mask = |state: &&DraftState| {
            let text = |name: &str| state.params.get(name).and_then(Value::as_str).unwrap_or_default();
            text("input_text").contains(MASK) || text("command").contains(MASK)
        };
        let masked: Vec<String> = self.states.iter().filter(types_mask).map(|state| state.name.clone()).collect();
        for state in masked {
            self.report_incomplete(format!(
                "state '{state}' types text with an unknown secret: replace {MASK} by an argument with secret: true"
            ));
        }
    }

    fn report_incomplete(&mut self, sentence: String) {
        self.captured.is_incomplete = true;
        self.captured.undecided.push(sentence);
    }

    fn finish(mut self, request: &CaptureRequest) -> CapturedMachine {
        if self.states.len() > MAX_STATES {
            let omitted = self.states.len() - MAX_STATES;
            self.report_incomplete(format!(
                "a machine has at most 100 states: the last {omitted} are missing; capture the session in parts"
            ));
            self.states.truncate(MAX_STATES);
            let names: Vec<String> = self.states.iter().map(|state| state.name.clone()).collect();
            self.captured.golden.retain(|step| names.contains(&step.state));
        }
        for index in std::mem::take(&mut self.open_ends) {
            let terminal = &self.logs[index].terminal;
            let sentence =
                format!("a program still ran in {terminal} at the end of the capture; the workflow also ends there");
            self.captured.undecided.push(sentence);
        }
        self.report_incomplete_logs();
        if self.is_imported() {
            for guess in &mut self.captured.guesses {
                guess.reason.push_str("; imported, lower trust");
            }
            let sentence = "the workflow was imported; verify it with steplatch workflow prove before you use it";
            self.captured.undecided.push(sentence.to_owned());
        }
        if self.states.iter().all(|state| state.tool == "open_terminal") {
            self.captured.undecided.push("only the opening of a terminal was captured".to_owned());
        }
        if self.states.last().is_none_or(|last| last.condition != "success") {
            self.add_state("done", "return", Map::from_iter([("result".to_owned(), json!({}))]), Value::Null);
        }
        let has_gate = self.states.iter().any(|state| state.tool == "gate");
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
        if has_gate {
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
        let arguments = arguments(request, &self.facts, &self.used_variables, &self.secrets);
        if !arguments.is_empty() {
            definition.insert("arguments".to_owned(), arguments.into());
        }
        definition.insert("initial_state".to_owned(), names.first().cloned().unwrap_or_default().into());
        definition.insert("states".to_owned(), states.into());
        for (name, value) in &request.argument_values {
            if !self.used_variables.contains_key(name) {
                let sentence = format!("the input '{name}' ('{value}') was never typed, so it is not an argument");
                self.captured.undecided.push(sentence);
            }
        }
        let values = std::mem::take(&mut self.used_variables).into_iter().filter(|(_, value)| !value.is_empty());
        let is_argument =
            |name: &String| definition.get("arguments").is_some_and(|arguments| arguments.get(name).is_some());
        let argument_values = values.filter(|(name, _)| is_argument(name)).collect();
        CapturedMachine { argument_values, definition: definition.into(), ..self.captured }
    }
}

/// Words in questions for secrets, each with the name of the argument.
const SECRET_KINDS: [(&str, &str); 6] = [
    ("passphrase", "PASSPHRASE"),
    ("pass phrase", "PASSPHRASE"),
    ("password", "PASSWORD"),
    ("token", "TOKEN"),
    ("code", "CODE"),
    ("pin", "PIN"),
];

/// Makes the last wait before an answer require that the program reads input in the recorded mode.
fn require_reading_mode(turn: &Turn, waits: &mut [Wait]) {
    let has_pattern = |wait: &&mut Wait| wait.params.iter().any(|(name, _)| *name == "pattern");
    let Some(wait) = waits.last_mut().filter(has_pattern) else { return };
    if let Some(reads) = turn.next_read.parameter() {
        wait.params.push(("reads", reads.into()));
    }
}

fn secret_kind(row: &str) -> Option<(&'static str, &'static str)> {
    let row = row.to_ascii_lowercase();
    SECRET_KINDS.into_iter().find(|(word, _)| row.contains(word))
}

/// Words of a question that requests the previous secret again.
const REPEAT_WORDS: [&str; 11] = [
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

/// Returns whether a question requests the secret of the previous question again.
fn requests_again(row: &str, previous_row: &str) -> bool {
    let lower = row.to_ascii_lowercase().replace("re-", "re");
    let has_repeat_word =
        lower.split(|character: char| !character.is_ascii_alphabetic()).any(|word| REPEAT_WORDS.contains(&word));
    // A confirmation code is not a repeated password.
    let [kind, previous_kind] = [row, previous_row].map(|row| secret_kind(row).map(|(_, name)| name));
    has_repeat_word && (kind.is_none() || previous_kind.is_none() || kind == previous_kind)
}

/// Words in questions for secrets that do not name the owner of the secret.
const GENERIC_SECRET_WORDS: [&str; 22] = [
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

/// Returns whether a question names the owner of the secret, such as `[sudo] password for ana:`.
fn names_owner(row: &str) -> bool {
    let lower = row.to_ascii_lowercase();
    let mut words = lower.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.any(|word| !GENERIC_SECRET_WORDS.contains(&word) && !REPEAT_WORDS.contains(&word))
}

fn value_binding(value: &str) -> Binding {
    Binding { value: value.to_owned(), name: "value".to_owned() }
}

/// Returns the arguments of a machine: given values, directories of its client, and secrets.
fn arguments(
    request: &CaptureRequest,
    facts: &KnownFacts,
    used_variables: &BTreeMap<String, String>,
    secrets: &[SecretArgument],
) -> Map<String, Value> {
    let mut arguments = Map::new();
    for (name, value) in request.argument_values.iter().filter(|(name, _)| used_variables.contains_key(name)) {
        let value = json!({"description": format!("Such as {}", literal(value)), "export": false});
        arguments.insert(name.clone(), value);
    }
    for (name, description) in [("PWD", "The directory to work in"), ("HOME", "The home directory")] {
        let is_input = arguments.contains_key(name);
        if used_variables.contains_key(name) && !is_input {
            arguments.insert(name.to_owned(), json!({"description": description, "export": false}));
        }
    }
    for SecretArgument { name, row, .. } in secrets {
        let is_same = |word: &&str| general_pattern(word, &[], facts, Leeway::Data) == escape(word);
        let words = row.split_whitespace().map(|word| if is_same(&word) { word } else { "…" });
        let row = words.collect::<Vec<_>>().join(" ");
        let description = format!("Typed at: {}", literal(row.trim()));
        arguments.insert(name.clone(), json!({"description": description, "secret": true}));
    }
    arguments
}

/// Returns the logs whose last input went to a program that still runs.
fn open_ends(turns: &[Turn], logs: usize) -> Vec<usize> {
    let is_open = |log: &usize| {
        let last = turns.iter().rev().find(|turn| turn.log_index == *log);
        last.is_some_and(|turn| !matches!(turn.ending, Ending::Prompt { .. }))
    };
    (0..logs).filter(is_open).collect()
}

/// Returns a sentence for each command that overlaps with input to another terminal. The machine waits for the end of
/// the command first.
fn overlaps(turns: &[Turn]) -> Vec<String> {
    let mut sentences = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        let (Act::Command { command, .. }, Some(elapsed)) = (&turn.act, turn.elapsed) else { continue };
        let during = turns[index + 1..].iter().take_while(|later| {
            seconds_between(&turn.timestamp, &later.timestamp).is_some_and(|between| between < elapsed)
        });
        if during.into_iter().any(|later| later.log_index != turn.log_index) {
            sentences.push(format!(
                "'{command}' was still running when another terminal got input; the workflow waits for its end first"
            ));
        }
    }
    sentences
}

fn open_state_name(log_index: usize) -> String {
    if log_index == 0 { "open".to_owned() } else { format!("open_{}", log_index + 1) }
}

/// Returns the day of a timestamp (ISO 8601, UTC).
fn parse_day(timestamp: &str) -> Option<Date> {
    timestamp.split_once('T')?.0.parse().ok()
}

/// Returns the common forms of a typed date.
fn date_forms(day: Date) -> [String; 6] {
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

/// Returns whether text contains a number that is not part of a longer number.
fn contains_number(text: &str, number: &str) -> bool {
    let is_digit = |character: Option<char>| character.is_some_and(|character| character.is_ascii_digit());
    text.match_indices(number).any(|(start, _)| {
        !is_digit(text[..start].chars().next_back()) && !is_digit(text[start + number.len()..].chars().next())
    })
}

/// Returns the time limit of a state that took `elapsed` seconds.
fn wait_seconds(elapsed: Option<f64>) -> f64 {
    let seconds = (elapsed.unwrap_or(0.0) * WAIT_FACTOR).clamp(MIN_WAIT_SECONDS, MAX_WAIT_SECONDS);
    (seconds / 10.0).ceil() * 10.0
}

/// Returns the text of an answer, or its first key.
fn answer_name(text: &str, keys: &[String]) -> String {
    let text = text.trim();
    if text.is_empty() { keys.first().cloned().unwrap_or_else(|| "enter".to_owned()) } else { text.to_owned() }
}

/// Maximum state name length, in characters.
const MAX_NAME_CHARS: usize = 32;

/// Returns the name of a state from the first words of text.
fn slug(text: &str) -> String {
    let mut name = String::new();
    for word in text.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).take(4)
    {
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
