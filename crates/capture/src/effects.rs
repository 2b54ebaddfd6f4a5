//! Effects of commands: the programs that they run, and whether their effects can be undone. A captured machine asks a
//! person before each irreversible or unknown command.
//!
//! `shell` parses shell lines; `readers` finds text that other shells parse differently. `programs` judges programs by
//! their rows in `table`, `paths` judges written files, and `sql` judges statements for databases. An unlisted or
//! computed program, option or operand, code in another language and an unparsable line have an unknown effect. Project
//! files are not read: a script, or a target of `make` or `npm`, is judged by its name and arguments, and is listed in
//! the judgement.

mod paths;
mod programs;
mod readers;
mod shell;
mod sql;
mod table;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};
use steplatch_pattern::Alternatives;
use steplatch_protocol::visible;
use steplatch_workflow::substitute::marked;
use steplatch_workflow::{Definition, State, Weakening, tool};

pub(crate) use programs::starts_with_stem;
use shell::Judge;

/// Placeholder in a line for the value of a variable.
const VALUE_PLACEHOLDER: char = '\u{e000}';

/// Maximum number of characters that a sentence quotes from an input.
const MAX_SHOWN_CHARS: usize = 120;

/// Effect of a command. Among several effects, the latest variant counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Effect {
    /// Known to be reversible: the command shows or adds something, or makes a change that is easy to undo.
    #[default]
    Reversible,
    /// Unknown. Every decision treats it as irreversible.
    Unknown,
    /// Known to be irreversible.
    Irreversible,
}

/// Judgement of a line: its effect, with the evidence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Judgement {
    pub(crate) effect: Effect,
    /// The part of the line that has this effect.
    pub(crate) evidence: String,
    /// Programs of the project that the line runs. Their files are not read.
    pub(crate) project_programs: Vec<String>,
}

impl Judgement {
    /// Returns the reason to ask a person before the command, if there is one.
    pub(crate) fn reason(&self) -> Option<String> {
        let evidence = &self.evidence;
        match self.effect {
            Effect::Reversible => None,
            Effect::Unknown => Some(format!("it is not known whether '{evidence}' can be taken back")),
            Effect::Irreversible => Some(format!("'{evidence}' cannot be taken back")),
        }
    }
}

/// Returns the beginning of text as one line, for a sentence about it.
fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The program that reads a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A shell at its prompt.
    Shell,
    /// The client of a database.
    Database,
    /// Any other program that reads input.
    Program,
}

/// Returns the reader of the lines after a line that started a program.
pub(crate) fn reader_after(line: &str) -> Reader {
    let judge = Judge::from_line(line);
    let last = judge.programs.last().map(String::as_str).unwrap_or_default();
    if programs::is_database_client(last) {
        Reader::Database
    } else if programs::opens_shell(last) && judge.judgement.project_programs.is_empty() {
        Reader::Shell
    } else {
        Reader::Program
    }
}

/// Judges text typed for a reader.
///
/// Text for [`Reader::Program`] is irreversible if a shell or a database would make it so, and otherwise reversible.
pub(crate) fn judge(line: &str, reader: Reader) -> Judgement {
    match reader {
        Reader::Shell => Judge::from_line(line).judgement,
        Reader::Database => {
            let mut judge = Judge::from_line("");
            judge.judge_sql(line);
            judge.finish()
        }
        Reader::Program => {
            let judgement = Judge::from_line(line).judgement;
            if judgement.effect == Effect::Irreversible {
                return judgement;
            }
            let is_destructive = sql::is_destructive(line);
            let evidence = excerpt(line);
            let effect = if is_destructive { Effect::Irreversible } else { Effect::Reversible };
            Judgement { effect, evidence, project_programs: Vec::new() }
        }
    }
}

/// Returns the irreversible and unknown inputs of states that a patch adds or changes, and the changed defaults of
/// exported arguments. The capture did not record these inputs, so programs of the project count as unknown.
#[must_use]
pub fn irreversible_inputs(before: &Definition, after: &Definition) -> Vec<Weakening> {
    let mut weakenings = environment_weakenings(before, after);
    weakenings.extend(state_weakenings(before, after));
    weakenings
}

/// Returns the new default values of exported arguments that may change the effects of programs.
fn environment_weakenings(before: &Definition, after: &Definition) -> Vec<Weakening> {
    let value_of = |definition: &Definition, name: &str| {
        let argument = definition.arguments().iter().find(|argument| argument.name() == name)?;
        argument.is_exported().then(|| argument.default().map(str::to_owned)).flatten()
    };
    let weakenings = after.arguments().iter().filter_map(|argument| {
        let value = value_of(after, argument.name())
            .filter(|value| value_of(before, argument.name()).as_ref() != Some(value))?;
        let line = assignment(argument.name(), &value.into());
        let reason = judge(&format!("{line} true"), Reader::Shell).reason()?;
        let what = format!("programs get {}: {reason}", excerpt(&line));
        Some(Weakening { path: format!("/arguments/{}", argument.name()), what })
    });
    weakenings.collect()
}

fn assignment(name: &str, value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    format!("{name}={}", quoted(&text))
}

/// Returns the reason if an input of a state is irreversible.
#[must_use]
pub fn irreversible_action(definition: &Definition, state: &str) -> Option<String> {
    let inputs = state_inputs(definition, definition.state(state)?).into_iter();
    let judgement = inputs
        .map(|(text, reader)| judge_input(&text, reader))
        .find(|judgement| judgement.effect == Effect::Irreversible)?;
    Some(format!("state '{state}': {}", judgement.reason()?))
}

/// Judges an input of a state, whose placeholders stand for unknown values.
fn judge_input(text: &str, reader: Reader) -> Judgement {
    // An unquoted value may be any text.
    let mut is_quoted = true;
    let line = marked(text, |placeholder| {
        is_quoted &= placeholder.ends_with("|sh}");
        VALUE_PLACEHOLDER
    });
    let is_line = reader == Reader::Shell;
    let (mut judgement, file_in_named_home) = match reader {
        Reader::Shell => {
            let judge = Judge::from_line(&line);
            (judge.judgement, judge.file_in_named_home)
        }
        Reader::Database | Reader::Program => (judge(&line, reader), None),
    };
    if is_line && has_editing_keys(text) {
        (judgement.effect, judgement.evidence) = (judgement.effect.max(Effect::Unknown), excerpt(&visible(text)));
    }
    // The home directory of the user is an argument of a captured machine.
    if let Some(file) = file_in_named_home.filter(|_| judgement.effect < Effect::Unknown) {
        (judgement.effect, judgement.evidence) = (Effect::Unknown, excerpt(&file));
    }
    if is_line && (!is_quoted || !judgement.project_programs.is_empty()) && judgement.effect < Effect::Unknown {
        judgement.evidence = excerpt(text);
        judgement.effect = Effect::Unknown;
    }
    judgement.evidence = judgement.evidence.replace(VALUE_PLACEHOLDER, "{…}");
    judgement
}

fn state_weakenings(before: &Definition, after: &Definition) -> Vec<Weakening> {
    let weakening = |state: &State| {
        let name = state.name();
        let inputs = state_inputs(after, state);
        if before.state(name).is_some_and(|known| state_inputs(before, known) == inputs) {
            return None;
        }
        let opaque_reason = opaque_action_reason(state)
            .filter(|_| before.state(name).is_none_or(|known| known.action().params() != state.action().params()));
        let judgements = inputs.into_iter().map(|(text, reader)| judge_input(&text, reader));
        let reasons = opaque_reason.into_iter().chain(judgements.filter_map(|judgement| judgement.reason()));
        let reason = reasons.min_by_key(|reason| !reason.contains("cannot"))?;
        let state = if before.state(name).is_none() { "the new state" } else { "the state" };
        Some(Weakening { path: format!("/states/{name}/action"), what: format!("{state} '{name}': {reason}") })
    };
    after.states().iter().filter_map(weakening).collect()
}

/// Returns the reason to ask before an action whose text does not show its effect: a file transfer, a call of a
/// procedure, or an action on a remote host.
fn opaque_action_reason(state: &State) -> Option<String> {
    let (name, params) = (state.action().tool(), state.action().params());
    let action = match name {
        // Without a file to write, the action only reads.
        tool::GET_FILE if !params.contains_key("to") && !params.contains_key("host") => None,
        tool::PUT_FILE | tool::GET_FILE => {
            let files = ["path", "from", "to"].iter().filter_map(|name| params.get(*name)?.as_str());
            Some(format!("{name} {}", files.collect::<Vec<_>>().join(" ")))
        }
        _ if tool::CALLS.contains(&name) || matches!(name, tool::RUN_WORKFLOW | tool::PARALLEL) => {
            let callee = ["node", "graph", "workflow_name", "name"].iter().find_map(|name| params.get(*name)?.as_str());
            Some(format!("{name} {}", callee.unwrap_or_default()).trim_end().to_owned())
        }
        _ => params.get("host").and_then(Value::as_str).map(|host| format!("{name} on the host {host}")),
    };
    let judgement =
        |text: String| Judgement { effect: Effect::Unknown, evidence: excerpt(&text), project_programs: Vec::new() };
    action.and_then(|text| judgement(text).reason())
}

/// Returns whether text has keys that change or replace the line in a line editor. A Tab within a line completes a
/// word; a Tab before the first word is white space.
fn has_editing_keys(text: &str) -> bool {
    let completes = |line: &str| line.trim_start_matches([' ', '\t']).contains('\t');
    text.chars().any(|character| character.is_control() && !matches!(character, '\n' | '\r' | '\t'))
        || text.split(['\n', '\r']).any(completes)
}

/// Returns the text that keys type into a shell, and true if there are keys other than characters and Enter.
fn typed_text(keys: &Value) -> (String, bool) {
    let (mut text, mut has_others) = (String::new(), false);
    for key in keys.as_array().into_iter().flatten().filter_map(Value::as_str) {
        match key {
            "enter" | "return" => text.push('\n'),
            "space" => text.push(' '),
            "ctrl-c" | "ctrl-d" | "escape" | "esc" => {}
            key if key.chars().count() == 1 => text.push_str(key),
            _ => has_others = true,
        }
    }
    (text, has_others)
}

/// Returns the texts that a state types, executes or passes to a tool, each with its reader.
fn state_inputs(definition: &Definition, state: &State) -> Vec<(String, Reader)> {
    let params = state.action().params();
    let param = |name: &str| params.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut inputs = Vec::new();
    match state.action().tool() {
        tool::GATE | tool::AWAIT_OUTPUT | tool::FAIL | tool::RETURN | tool::SET | tool::SLEEP => return inputs,
        tool::RUN_COMMAND => inputs.extend(param("command").map(|line| (line, Reader::Shell))),
        tool::OPEN_TERMINAL => {
            inputs.extend(param("shell").map(|line| (line, Reader::Shell)));
            let words = params.get("command").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            let words: Vec<String> = words.map(quoted).collect();
            inputs.push((words.join(" "), Reader::Shell));
        }
        tool::SEND_INPUT | tool::DIALOGUE => {
            let rules = params.get("rules").and_then(Value::as_array).into_iter().flatten();
            let answers = rules.filter_map(|rule| rule.get("type")).filter_map(Value::as_str).map(str::to_owned);
            let (keys_text, has_other_keys) = params.get("keys").map(typed_text).unwrap_or_default();
            let in_shell = may_be_read_by_shell(definition, state.name());
            if in_shell && has_other_keys {
                inputs.push((format!("{keys_text}\u{1b}"), Reader::Shell));
            }
            let typed = format!("{}{keys_text}", param("input_text").unwrap_or_default());
            for text in answers.chain((!typed.is_empty()).then_some(typed)) {
                // Enter is a carriage return, too.
                let text = text.replace('\r', "\n");
                if in_shell {
                    inputs.push((text, Reader::Shell));
                } else if let Some((first, rest)) = text.split_once('\n') {
                    // The program may exit after the first line, so that a shell reads the other lines.
                    inputs.extend([(first.to_owned(), Reader::Program), (rest.to_owned(), Reader::Shell)]);
                } else {
                    inputs.push((text, Reader::Program));
                }
            }
        }
        _ => {
            let mut texts = Vec::new();
            params.values().for_each(|value| collect_texts(value, &mut texts));
            inputs.extend(texts.into_iter().map(|text| (text.to_owned(), Reader::Program)));
        }
    }
    if let Some(Value::Object(environment)) = params.get("environment") {
        let variables =
            environment.iter().map(|(name, value)| (format!("{} true", assignment(name, value)), Reader::Shell));
        inputs.extend(variables);
    }
    inputs
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns whether a shell may read the text that a state types. False if every path to the state ends at the question
/// of a program that waits for input.
fn may_be_read_by_shell(definition: &Definition, name: &str) -> bool {
    let (mut visited, mut pending, mut is_reached) = (vec![name], vec![name], false);
    while let Some(name) = pending.pop() {
        for state in definition.states() {
            let is_fallback = [state.on_timeout(), state.on_exhausted()].contains(&Some(name));
            if !is_fallback && state.transitions().iter().all(|transition| transition.next_state() != name) {
                continue;
            }
            is_reached = true;
            let is_passive =
                matches!(state.action().tool(), tool::GATE | tool::SLEEP | tool::SET | "get_screen_content");
            if !is_passive && (is_fallback || !ends_at_question(state.action().params())) {
                return true;
            }
            if is_passive && !visited.contains(&state.name()) {
                visited.push(state.name());
                pending.push(state.name());
            }
        }
    }
    let entries = [Some(definition.initial_state()), definition.finally_state()];
    !is_reached || entries.into_iter().flatten().any(|entry| visited.contains(&entry))
}

/// Returns whether an action waits until a program reads input after a question that is not a shell prompt.
fn ends_at_question(params: &Map<String, Value>) -> bool {
    let pattern = params.get("pattern").and_then(Value::as_str).map(|pattern| marked(pattern, |_| VALUE_PLACEHOLDER));
    let alternatives = pattern.and_then(|pattern| Alternatives::parse(&pattern).ok());
    params.contains_key("reads")
        && alternatives
            .is_some_and(|alternatives| alternatives.iter().all(|alternative| is_question(alternative.as_str())))
}

/// Returns whether an alternative of a pattern ends like a question, and not like a shell prompt. An end that is not
/// plain text, such as a class, may match a prompt.
fn is_question(alternative: &str) -> bool {
    let mut rest = alternative;
    let is_anchor = |rest: &str| rest.ends_with('$') && !rest.ends_with(r"\$");
    while let Some(shorter) = [r"\Z", " *", r"\s*", " +", " "]
        .into_iter()
        .find_map(|end| rest.strip_suffix(end))
        .or_else(|| rest.strip_suffix('$').filter(|_| is_anchor(rest)))
    {
        rest = shorter;
    }
    let mut characters = rest.chars().rev();
    match (characters.next(), characters.next()) {
        (Some(character), Some('\\')) => "?:)].!,;".contains(character),
        (Some(character), _) => character == ':' || character == '!' || character.is_alphanumeric(),
        (None, _) => false,
    }
}

fn collect_texts<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| collect_texts(field, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the distinct names of the programs that a shell line runs, without directories. Omits builtins.
#[must_use]
pub fn programs_in_command(command: &str) -> Vec<String> {
    Judge::from_line(command).programs
}
