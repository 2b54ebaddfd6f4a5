//! Completion of the word at the cursor. Pure: the candidates are parameters.

use super::catalog::Catalog;
use super::help;
use super::line::Kind;
use super::order::{ORDERS, Order};

/// All candidates.
#[derive(Debug, Clone, Default)]
pub(crate) struct Words {
    pub(crate) catalog: Catalog,
    /// Names of all calls, in order.
    pub(crate) call_names: Vec<String>,
    /// Ids of the known runs.
    pub(crate) runs: Vec<String>,
    /// The choices of the current question.
    pub(crate) choices: Vec<String>,
}

/// Returns the start offset of the word at the offset `cursor`, and the completions of the word.
pub(crate) fn candidates(line: &str, cursor: usize, words: &Words) -> (usize, Vec<String>) {
    let before = line.get(..cursor).unwrap_or(line);
    let word_start = before
        .rfind(char::is_whitespace)
        .map_or(0, |blank| blank + before[blank..].chars().next().map_or(1, char::len_utf8));
    let word = &before[word_start..];
    let is_first_word = before[..word_start].trim().is_empty();
    // A reference may begin anywhere in a word.
    if let Some(colons) = word.rfind("::") {
        let found = references(&word[colons + 2..], words);
        return (word_start + colons, found);
    }
    let found: Vec<String> = match word.chars().next() {
        _ if !is_first_word => arguments(before, word, words),
        Some(sign @ ('/' | ':')) => {
            let names = ORDERS.iter().map(|row| format!("{sign}{}", row.names[0]));
            names.filter(|name| name.starts_with(word)).collect()
        }
        Some(sigil) => {
            let mut found = Vec::new();
            for kind in Kind::ALL.into_iter().filter(|kind| kind.sigil() == sigil) {
                let graphs = if kind == Kind::Node { words.catalog.names(Kind::Graph) } else { &[] };
                let names = words.catalog.names(kind).iter().chain(graphs);
                found.extend(names.map(|name| format!("{sigil}{name}")).filter(|name| name.starts_with(word)));
            }
            found.extend(words.choices.iter().filter(|choice| choice.starts_with(word)).cloned());
            found
        }
        None => words.choices.clone(),
    };
    (word_start, found)
}

/// Returns the references that begin with `prefix`: `::last`, the names of all calls, and their numbers.
fn references(prefix: &str, words: &Words) -> Vec<String> {
    if words.call_names.is_empty() {
        return Vec::new();
    }
    let mut all = vec!["last".to_owned()];
    for name in words.call_names.iter().rev() {
        if !all.contains(name) {
            all.push(name.clone());
        }
    }
    all.extend((0..words.call_names.len()).rev().map(|number| number.to_string()));
    all.retain(|name| name.starts_with(prefix));
    all.iter().map(|name| format!("::{name}")).collect()
}

/// Returns the completions of the arguments of a command.
fn arguments(before: &str, word: &str, words: &Words) -> Vec<String> {
    let Some(command) = before.trim_start().strip_prefix(['/', ':']) else { return Vec::new() };
    let name = command.split_whitespace().next().unwrap_or_default();
    let order = ORDERS.iter().find(|row| row.names.contains(&name)).map(|row| row.order);
    let all: Vec<String> = match order {
        Some(Order::Target) => {
            let names =
                |kind: Kind| words.catalog.names(kind).iter().map(move |name| format!("{}{name}", kind.sigil()));
            Kind::ALL.into_iter().flat_map(names).chain(["off".to_owned()]).collect()
        }
        Some(Order::Help) => help::TOPICS.iter().map(|topic| topic.name.to_owned()).collect(),
        Some(Order::Show | Order::Cancel | Order::Foreground | Order::Answer) => words.runs.clone(),
        Some(Order::Runs) => {
            let states = ["running", "waiting", "completed", "failed", "cancelled"].map(str::to_owned);
            states.into_iter().chain(words.catalog.workflows.clone()).collect()
        }
        _ => Vec::new(),
    };
    // A run's id may be typed without its common prefix.
    all.into_iter()
        .filter(|known| {
            known.starts_with(word) || known.strip_prefix("run_").is_some_and(|rest| rest.starts_with(word))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Words {
            catalog: Catalog {
                nodes: list(&["fails", "greet", "identity"]),
                graphs: list(&["grow"]),
                workflows: list(&["release"]),
            },
            call_names: list(&["greet", "release", "greet"]),
            runs: list(&["run_abc", "run_xyz"]),
            choices: Vec::new(),
        }
    }

    #[test]
    fn words_are_completed() {
        let table: [(&str, usize, &[&str]); 15] = [
            ("@", 0, &["@fails", "@greet", "@identity", "@grow"]),
            ("@gr", 0, &["@greet", "@grow"]),
            ("  @gr", 2, &["@greet", "@grow"]),
            ("#", 0, &["#grow"]),
            ("%r", 0, &["%release"]),
            ("/h", 0, &["/help", "/history"]),
            (":q", 0, &[":quit"]),
            ("/help ref", 6, &["references"]),
            ("/show ", 6, &["run_abc", "run_xyz"]),
            ("/fg x", 4, &["run_xyz"]),
            ("/runs w", 6, &["waiting"]),
            ("/target @gr", 8, &["@greet"]),
            ("@greet a(::", 9, &["::last", "::greet", "::release", "::2", "::1", "::0"]),
            ("@greet ::gr", 7, &["::greet"]),
            ("@greet @", 7, &[]),
        ];
        for (line, begins, found) in table {
            assert_eq!(
                candidates(line, line.len(), &words()),
                (begins, found.iter().map(|&name| name.to_owned()).collect()),
                "{line:?}"
            );
        }
    }

    #[test]
    fn question_offers_its_choices() {
        let words = Words { choices: vec!["publish".to_owned(), "stop".to_owned()], ..words() };
        assert_eq!(candidates("", 0, &words).1, ["publish", "stop"]);
        assert_eq!(candidates("p", 1, &words), (0, vec!["publish".to_owned()]));
        assert_eq!(candidates("漢\u{3000}::l", "漢\u{3000}::l".len(), &words), (6, vec!["::last".to_owned()]));
    }
}
