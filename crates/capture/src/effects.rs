//! What commands do: which programs they run, and whether it can be taken back. A captured machine runs nothing without a
//! person's yes that cannot be taken back, or of which that is not known.
//!
//! `shell` reads lines by the grammar of shells, `programs` knows programs, and `sql` statements for databases. What is
//! not seen is not known: a program that is not listed, one that is computed, code of another language, a line that cannot
//! be read. Files of the project are not read: a script that is run by its name, a target of `make`, a script of `npm` is
//! judged by its name and its arguments alone, and named as unseen.

mod programs;
mod shell;
mod sql;
#[cfg(test)]
mod tests;

use serde_json::Value;
use steplatch_workflow::substitute::marked;
use steplatch_workflow::{Definition, State, Weakening, tool};

use shell::Judge;

/// Stands in a line for the value of a variable.
const MARK: char = '\u{e000}';

/// The most characters of an input that a sentence shows.
const MAX_SHOWN_CHARS: usize = 120;

/// Effect of a command, as far as it is known. The later ones count more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Effect {
    /// It is known to be reversible: it shows something, adds something, or changes what is easily changed back.
    #[default]
    Reversible,
    /// Not known. It counts as irreversible wherever something is decided.
    Unknown,
    /// It is known to be irreversible.
    Irreversible,
}

/// Judgement of a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Judgement {
    pub(crate) effect: Effect,
    /// The part of the line that has this effect.
    pub(crate) because: String,
    /// Programs of the project that it runs, whose files are not read.
    pub(crate) unseen: Vec<String>,
}

impl Judgement {
    /// Returns the reason for which a person is asked first, if there is one.
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
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_SHOWN_CHARS).collect()
}

/// What reads a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A shell at its prompt.
    Shell,
    /// The client of a database.
    Database,
    /// Any other program that asks.
    Program,
}

/// Returns what reads the lines behind one that began a program.
pub(crate) fn reader_behind(line: &str) -> Reader {
    let judge = Judge::of(line);
    let last = judge.programs.last().map(String::as_str).unwrap_or_default();
    if programs::is_database_client(last) {
        Reader::Database
    } else if programs::opens_shell(last) && judge.judgement.unseen.is_empty() {
        Reader::Shell
    } else {
        Reader::Program
    }
}

/// Judges what is typed for a reader.
///
/// An answer to a program is no line of a shell: nothing is known of it but what cannot be taken back in any program.
pub(crate) fn judge(line: &str, reader: Reader) -> Judgement {
    match reader {
        Reader::Shell => Judge::of(line).judgement,
        Reader::Database => {
            let mut judge = Judge::of("");
            judge.sql(line);
            judge.finish()
        }
        Reader::Program => {
            let judgement = Judge::of(line).judgement;
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

/// Names what states of a patched machine type, if they are new or type something else, that cannot be taken back or of
/// which that is not known. Nobody did it at the capture, so what was not seen is not known here.
#[must_use]
pub fn irreversible_inputs(before: &Definition, after: &Definition) -> Vec<Weakening> {
    let action = |definition: &Definition, name: &str| {
        definition
            .document()
            .pointer(&format!("/states/{}/action", name.replace('~', "~0").replace('/', "~1")))
            .cloned()
    };
    let differs = |state: &&State| action(before, state.name()) != action(after, state.name());
    let named = |state: &State| {
        let (name, params) = (state.name(), state.action().params());
        let param = |name: &str| params.get(name).and_then(Value::as_str).map(str::to_owned);
        let mut texts: Vec<(String, bool)> = Vec::new();
        match state.action().tool() {
            tool::GATE | tool::AWAIT_OUTPUT | tool::FAIL | tool::RETURN | tool::SET | tool::SLEEP => return None,
            tool::RUN_COMMAND => texts.extend(param("command").map(|line| (line, true))),
            tool::OPEN_TERMINAL => {
                texts.extend(param("shell").map(|line| (line, true)));
                let words =
                    params.get("command").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
                let words: Vec<String> = words.map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
                texts.push((words.join(" "), true));
            }
            _ => {
                let mut all = Vec::new();
                params.values().for_each(|value| texts_in(value, &mut all));
                texts.extend(all.into_iter().map(|text| (text.to_owned(), false)));
            }
        }
        let reasons = texts.into_iter().filter_map(|(text, is_line)| {
            // A value that is not quoted may be any text.
            let mut is_quoted = true;
            let line = marked(&text, |written| {
                is_quoted &= written.ends_with("|sh}");
                MARK
            });
            let reader = if is_line { Reader::Shell } else { Reader::Program };
            let mut judgement = judge(&line, reader);
            if is_line && (!is_quoted || !judgement.unseen.is_empty()) && judgement.effect < Effect::Unknown {
                judgement.because = excerpt(&text);
                judgement.effect = Effect::Unknown;
            }
            judgement.because = judgement.because.replace(MARK, "{…}");
            judgement.reason()
        });
        let reason = reasons.min_by_key(|reason| !reason.contains("cannot"))?;
        let state = if before.state(name).is_none() { "the new state" } else { "the state" };
        Some(Weakening { place: format!("/states/{name}/action"), what: format!("{state} '{name}': {reason}") })
    };
    after.states().iter().filter(differs).filter_map(named).collect()
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
    Judge::of(command).programs
}
