//! The language of comments and of type names: what CONTRIBUTING asks for, counted.

use std::path::{Path, PathBuf};

use crate::sources::rust_sources;

/// Persons in the place of components. A comment names the component: the driver, the client, the caller.
const PERSONS: [&str; 5] = ["whoever", "somebody", "nobody", "anybody", "everybody"];

/// Participles that say nothing about what a type is.
const PARTICIPLES: [&str; 24] = [
    "Asked", "Began", "Begun", "Called", "Came", "Changed", "Declared", "Found", "Given", "Gone", "Held", "Kept",
    "Known", "Listed", "Loaded", "Looked", "Meant", "Named", "Noted", "Saved", "Seen", "Told", "Wanted", "Watched",
];

/// Folders with sources of this project.
const FOLDERS: [&str; 4] = ["crates", "src", "tests", "xtask"];

fn all_sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let sources = FOLDERS.iter().flat_map(|folder| rust_sources(&root.join(folder)).unwrap());
    let others = sources.filter(|source| !source.ends_with("xtask/src/prose.rs"));
    others.map(|source| (source.clone(), std::fs::read_to_string(source).unwrap())).collect()
}

/// Returns the comment in a line, if there is one. A `//` in a text counts as one where the text is an address.
fn comment(line: &str) -> Option<&str> {
    let at = line.find("//")?;
    (!line[..at].contains('"')).then(|| &line[at..])
}

#[test]
fn comments_name_components_and_not_persons() {
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
    // In a test, a fake person may be called one.
    let share = found.len() as f64 * 1_000.0 / words as f64;
    assert!(share < LIMIT_PER_THOUSAND, "{share:.2} per 1,000 words of comments:\n{}", found.join("\n"));
}

/// The most that is accepted.
const LIMIT_PER_THOUSAND: f64 = 0.2;

#[test]
fn types_are_nouns_that_a_reader_would_search_for() {
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
