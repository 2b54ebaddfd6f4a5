//! Effects of commands: the programs that they run, and whether these can be undone. A captured machine runs nothing
//! without a person's yes that cannot be undone, or of which that is unknown.
//!
//! `shell` reads lines by the grammar of shells, `programs` judges programs by their rows in `table`, and `sql` statements
//! for databases. The effect of an unlisted or computed program, option or operand, of code in another language and of an
//! unreadable line is unknown. This module does not read files of the project: name and arguments decide about a script, a target of `make` and a script
//! of `npm`, and the judgement lists them as unseen.

mod programs;
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

pub(crate) use programs::has_beginning;
use shell::Judge;

/// Stands in a line for the value of a variable.
const MARK: char = '\u{e000}';

/// The most characters of an input that a sentence shows.
const MAX_SHOWN_CHARS: usize = 120;

/// Effect of a command, as far as known. The later ones count more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Effect {
    /// Known as reversible: it shows something, adds something, or makes a change that is easy to undo.
    #[default]
    Reversible,
    /// Not known. It counts as irreversible in every decision.
    Unknown,
    /// Known as irreversible.
    Irreversible,
}

/// Judgement of a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Judgement {
    pub(crate) effect: Effect,
    /// The part of the line that has this effect.
    pub(crate) because: String,
    /// Programs of the project that it runs, with unread files.
    pub(crate) unseen: Vec<String>,
}

impl Judgement {
    /// Returns the reason to ask a person first, if there is one.
    pub(crate) fn reason(&self) -> Option<String> {
        let because = &self.because;
        match self.effect {
            Effect::Reversible => None,
            Effect::Unknown => Some(format!("it is not known whether '{because}' can be taken back")),
            Effect::Irreversible => Some(format!("'{because}' cannot be taken back")),
        }
    }
}

/// Returns the beginning of a text on one line: a sentence about it has no others.
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

/// Returns what reads the lines behind one that began a program.
pub(crate) fn reader_behind(line: &str) -> Reader {
    let judge = Judge::from_line(line);
    let last = judge.programs.last().map(String::as_str).unwrap_or_default();
    if programs::is_database_client(last) {
        Reader::Database
    } else if programs::opens_shell(last) && judge.judgement.unseen.is_empty() {
        Reader::Shell
    } else {
        Reader::Program
    }
}

/// Judges text typed for a reader.
///
/// An answer to a program is no line of a shell: its only known effects are irreversible in every program.
pub(crate) fn judge(line: &str, reader: Reader) -> Judgement {
    match reader {
        Reader::Shell => Judge::from_line(line).judgement,
        Reader::Database => {
            let mut judge = Judge::from_line("");
            judge.sql(line);
            judge.finish()
        }
        Reader::Program => {
            let judgement = Judge::from_line(line).judgement;
            if judgement.effect == Effect::Irreversible {
                return judgement;
            }
            let takes_away = sql::takes_away(line);
            let because = excerpt(line);
            let effect = if takes_away { Effect::Irreversible } else { Effect::Reversible };
            Judgement { effect, because, unseen: Vec::new() }
        }
    }
}

/// Names inputs of a patched machine's states, if the states are new or type something else, that are irreversible, or
/// for which that is unknown; and the new values of its arguments that programs get. The capture did not make them, so
/// unseen text is unknown here.
#[must_use]
pub fn irreversible_inputs(before: &Definition, after: &Definition) -> Vec<Weakening> {
    let mut found = new_environment(before, after);
    found.extend(inputs_of_states(before, after));
    found
}

/// Names new default values of exported arguments that decide what programs do.
fn new_environment(before: &Definition, after: &Definition) -> Vec<Weakening> {
    let value_of = |definition: &Definition, name: &str| {
        let argument = definition.arguments().iter().find(|argument| argument.name() == name)?;
        argument.is_exported().then(|| argument.default().map(str::to_owned)).flatten()
    };
    let named = after.arguments().iter().filter_map(|argument| {
        let value = value_of(after, argument.name())
            .filter(|value| value_of(before, argument.name()).as_ref() != Some(value))?;
        let line = assignment(argument.name(), &value.into());
        let reason = judge(&format!("{line} true"), Reader::Shell).reason()?;
        let what = format!("programs get {}: {reason}", excerpt(&line));
        Some(Weakening { place: format!("/arguments/{}", argument.name()), what })
    });
    named.collect()
}

fn assignment(name: &str, value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    format!("{name}={}", quoted(&text))
}

fn inputs_of_states(before: &Definition, after: &Definition) -> Vec<Weakening> {
    let named = |state: &State| {
        let name = state.name();
        let inputs = inputs(after, state);
        if before.state(name).is_some_and(|known| self::inputs(before, known) == inputs) {
            return None;
        }
        let acts = unread_action(state)
            .filter(|_| before.state(name).is_none_or(|known| known.action().params() != state.action().params()));
        let reasons = acts.into_iter().chain(inputs.into_iter().filter_map(|(text, reader)| {
            // An unquoted value may be any text.
            let mut is_quoted = true;
            let line = marked(&text, |written| {
                is_quoted &= written.ends_with("|sh}");
                MARK
            });
            let mut judgement = judge(&line, reader);
            if reader == Reader::Shell && has_editing_keys(&text) {
                (judgement.effect, judgement.because) =
                    (judgement.effect.max(Effect::Unknown), excerpt(&visible(&text)));
            }
            let is_line = reader == Reader::Shell;
            if is_line && (!is_quoted || !judgement.unseen.is_empty()) && judgement.effect < Effect::Unknown {
                judgement.because = excerpt(&text);
                judgement.effect = Effect::Unknown;
            }
            judgement.because = judgement.because.replace(MARK, "{…}");
            judgement.reason()
        }));
        let reason = reasons.min_by_key(|reason| !reason.contains("cannot"))?;
        let state = if before.state(name).is_none() { "the new state" } else { "the state" };
        Some(Weakening { place: format!("/states/{name}/action"), what: format!("{state} '{name}': {reason}") })
    };
    after.states().iter().filter_map(named).collect()
}

/// Returns the reason of an action that does more than a line says: files, procedures and other machines.
fn unread_action(state: &State) -> Option<String> {
    let (name, params) = (state.action().tool(), state.action().params());
    let what = match name {
        // Without another file to write, it only reads.
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
    let judgement = |what: String| Judgement { effect: Effect::Unknown, because: excerpt(&what), unseen: Vec::new() };
    what.and_then(|what| judgement(what).reason())
}

/// Returns whether a text has keys with which a line editor changes the line, or takes another one.
fn has_editing_keys(text: &str) -> bool {
    text.chars().any(|sign| sign.is_control() && !matches!(sign, '\n' | '\r' | '\t'))
}

/// Returns what keys type into a shell, and whether they are more than characters and Enter.
fn typed_by_keys(keys: &Value) -> (String, bool) {
    let (mut text, mut is_more) = (String::new(), false);
    for key in keys.as_array().into_iter().flatten().filter_map(Value::as_str) {
        match key {
            "enter" | "return" => text.push('\n'),
            "space" => text.push(' '),
            "ctrl-c" | "ctrl-d" | "escape" | "esc" => {}
            key if key.chars().count() == 1 => text.push_str(key),
            _ => is_more = true,
        }
    }
    (text, is_more)
}

/// Returns what a state types, runs or hands over, with what reads it.
fn inputs(definition: &Definition, state: &State) -> Vec<(String, Reader)> {
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
            let written = rules.filter_map(|rule| rule.get("type")).filter_map(Value::as_str).map(str::to_owned);
            let (by_keys, has_more) = params.get("keys").map(typed_by_keys).unwrap_or_default();
            let in_shell = may_be_read_by_shell(definition, state.name());
            if in_shell && has_more {
                inputs.push((format!("{by_keys}\u{1b}"), Reader::Shell));
            }
            let typed = format!("{}{by_keys}", param("input_text").unwrap_or_default());
            for text in written.chain((!typed.is_empty()).then_some(typed)) {
                // Enter is a carriage return, too.
                let text = text.replace('\r', "\n");
                if in_shell {
                    inputs.push((text, Reader::Shell));
                } else if let Some((first, rest)) = text.split_once('\n') {
                    // The program may have ended by then.
                    inputs.extend([(first.to_owned(), Reader::Program), (rest.to_owned(), Reader::Shell)]);
                } else {
                    inputs.push((text, Reader::Program));
                }
            }
        }
        _ => {
            let mut texts = Vec::new();
            params.values().for_each(|value| texts_in(value, &mut texts));
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

/// Returns whether a shell may read what a state types: unless each way to the state ends with the question of a program that reads.
fn may_be_read_by_shell(definition: &Definition, name: &str) -> bool {
    let (mut seen, mut open, mut is_reached) = (vec![name], vec![name], false);
    while let Some(name) = open.pop() {
        for state in definition.states() {
            let leads_late = [state.on_timeout(), state.on_exhausted()].contains(&Some(name));
            if !leads_late && state.transitions().iter().all(|one| one.next_state() != name) {
                continue;
            }
            is_reached = true;
            let is_passive =
                matches!(state.action().tool(), tool::GATE | tool::SLEEP | tool::SET | "get_screen_content");
            if !is_passive && (leads_late || !ends_at_question(state.action().params())) {
                return true;
            }
            if is_passive && !seen.contains(&state.name()) {
                seen.push(state.name());
                open.push(state.name());
            }
        }
    }
    let begins = [Some(definition.initial_state()), definition.finally_state()];
    !is_reached || begins.into_iter().flatten().any(|begin| seen.contains(&begin))
}

/// Returns whether an action ends where a program reads the answer to a question that is no prompt of a shell.
fn ends_at_question(params: &Map<String, Value>) -> bool {
    let pattern = params.get("pattern").and_then(Value::as_str).map(|pattern| marked(pattern, |_| MARK));
    let all = pattern.and_then(|pattern| Alternatives::parse(&pattern).ok());
    params.contains_key("reads") && all.is_some_and(|all| all.iter().all(|one| is_question(one.as_str())))
}

/// Returns whether an alternative of a pattern ends as questions do, and no prompt of a shell does. An end that this
/// does not read, such as a class, may be a prompt.
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
    let mut signs = rest.chars().rev();
    match (signs.next(), signs.next()) {
        (Some(sign), Some('\\')) => "?:)].!,;".contains(sign),
        (Some(sign), _) => sign == ':' || sign == '!' || sign.is_alphanumeric(),
        (None, _) => false,
    }
}

fn texts_in<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts_in(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| texts_in(field, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the programs that a line of a shell runs, each once: without directories, and without what shells do
/// themselves.
#[must_use]
pub fn programs(command: &str) -> Vec<String> {
    Judge::from_line(command).programs
}
