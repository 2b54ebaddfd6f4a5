//! The language of comments and names: the rules of CONTRIBUTING, counted.

use std::path::{Path, PathBuf};

use crate::sources::rust_sources;

/// Persons in the place of components. A comment names the component: the driver, the client, the caller.
const PERSONS: [&str; 5] = ["whoever", "somebody", "nobody", "anybody", "everybody"];

/// Participles that do not describe a type.
const PARTICIPLES: [&str; 24] = [
    "Asked", "Began", "Begun", "Called", "Came", "Changed", "Declared", "Found", "Given", "Gone", "Held", "Kept",
    "Known", "Listed", "Loaded", "Looked", "Meant", "Named", "Noted", "Saved", "Seen", "Told", "Wanted", "Watched",
];

/// Words that open a clause. The docs of an item open with a noun phrase or a verb.
const CLAUSES: [&str; 9] = ["What", "Whether", "How", "Why", "When", "Where", "Which", "Who", "That"];

/// Maximum share of doc comments that open with a clause.
const MAX_CLAUSES_PER_CENT: usize = 3;

/// Names of bounds and times that are not the usual ones, such as `MAX_` and `_TIMEOUT`.
const ODD_BOUNDS: [&str; 9] =
    ["LONGEST", "MOST", "SHORTEST", "PATIENCE", "FEW", "ENOUGH", "LEAST", "WIDEST", "DEEPEST"];

/// Phrases with a plain synonym, with their maximum number in 1,000 words of comments.
const PHRASES: [(&[&str], f64); 6] = [
    (&["told"], 0.1),
    (&["is", "said"], 0.1),
    (&["says"], 0.3),
    (&["asked"], 0.6),
    (&["goes", "on"], 0.15),
    (&["is", "over"], 0.15),
];

/// Directories with sources of this project.
const DIRECTORIES: [&str; 4] = ["crates", "src", "tests", "xtask"];

fn all_sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let sources = DIRECTORIES.iter().flat_map(|directory| rust_sources(&root.join(directory)).unwrap());
    let other_sources = sources.filter(|source| !source.ends_with("xtask/src/prose.rs"));
    other_sources.map(|source| (source.clone(), std::fs::read_to_string(source).unwrap())).collect()
}

/// Returns the comment in a line, if there is one. An address with `//` in a string is treated as a comment.
fn comment(line: &str) -> Option<&str> {
    let at = line.find("//")?;
    (!line[..at].contains('"')).then(|| &line[at..])
}

#[test]
fn comments_name_components_instead_of_persons() {
    let (mut words, mut found) = (0, Vec::new());
    for (path, text) in all_sources() {
        for (number, line) in text.lines().enumerate() {
            let Some(comment) = comment(line) else { continue };
            let comment_words =
                comment.split(|character: char| !character.is_alphabetic()).filter(|word| !word.is_empty());
            for word in comment_words {
                words += 1;
                if PERSONS.contains(&word.to_lowercase().as_str()) {
                    found.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
                }
            }
        }
    }
    assert!(words > 50_000, "{words}");
    // A test may give a fake person such a name.
    let share = found.len() as f64 * 1_000.0 / words as f64;
    assert!(share < LIMIT_PER_THOUSAND, "{share:.2} per 1,000 words of comments:\n{}", found.join("\n"));
}

/// Maximum accepted share.
const LIMIT_PER_THOUSAND: f64 = 0.2;

/// Returns the words of all comments, in lower case.
fn comment_words() -> Vec<String> {
    let words = |text: String| {
        let comments: Vec<String> = text.lines().filter_map(comment).map(str::to_lowercase).collect();
        let words = comments.join(" ");
        words.split(|character: char| !character.is_alphabetic()).map(str::to_owned).collect::<Vec<_>>()
    };
    all_sources().into_iter().flat_map(|(_, text)| words(text)).filter(|word| !word.is_empty()).collect()
}

#[test]
fn comments_use_the_plain_word() {
    let words = comment_words();
    for (phrase, limit) in PHRASES {
        let count = words.windows(phrase.len()).filter(|window| window == &phrase).count();
        let share = count as f64 * 1_000.0 / words.len() as f64;
        assert!(share < limit, "{phrase:?}: {share:.2} per 1,000 words of comments, {limit} at most");
    }
}

#[test]
fn docs_open_with_a_noun_or_a_verb() {
    let (mut blocks, mut found) = (0, Vec::new());
    for (path, text) in all_sources() {
        let mut was_doc = false;
        for (number, line) in text.lines().enumerate() {
            let doc = line.trim_start().strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            if let (Some(doc), false) = (doc, was_doc) {
                blocks += 1;
                let first_word = doc.split_whitespace().next().unwrap_or_default();
                if CLAUSES.contains(&first_word) {
                    found.push(format!("{}:{}: {}", path.display(), number + 1, doc.trim()));
                }
            }
            was_doc = doc.is_some();
        }
    }
    assert!(blocks > 10_000, "{blocks}");
    assert!(found.len() * 100 < MAX_CLAUSES_PER_CENT * blocks, "{} of {blocks}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn constants_of_limits_have_the_usual_names() {
    let mut found = Vec::new();
    for (path, text) in all_sources() {
        for line in text.lines() {
            let mut words = line.split(|character: char| !character.is_alphanumeric() && character != '_');
            if let Some(name) = words.find(|word| *word == "const").and_then(|_| words.next())
                && (ODD_BOUNDS.iter().any(|odd| name.starts_with(odd)) || name.ends_with("_WITHIN"))
            {
                found.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(found.len() < 5, "{}", found.join("\n"));
}

#[test]
fn types_are_searchable_nouns() {
    let (mut types, mut found) = (0, Vec::new());
    for (path, text) in all_sources() {
        for line in text.lines() {
            let mut words = line.split(|character: char| !character.is_alphanumeric() && character != '_');
            if words.any(|word| ["struct", "enum", "trait", "type"].contains(&word)) && comment(line).is_none() {
                let Some(name) = words.find(|word| word.starts_with(|first: char| first.is_ascii_uppercase())) else {
                    continue;
                };
                types += 1;
                if PARTICIPLES.contains(&name) {
                    found.push(format!("{}: {name}", path.display()));
                }
            }
        }
    }
    assert!(types > 500, "{types}");
    assert!(found.len() * 100 < types, "{} of {types} types:\n{}", found.len(), found.join("\n"));
}
