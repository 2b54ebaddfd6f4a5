//! Agent skills: the name of a skill, and texts in the form that its files have (<https://agentskills.io/specification>).

use std::fmt;
use std::fmt::Write as _;
use std::path::Path;
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::ContractVariable;

/// Maximum length of a name.
const MAX_NAME_CHARS: usize = 64;

/// Name of a skill: lower-case letters and digits, with single hyphens between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillName(String);

/// Error for a directory whose name is not a valid name of a skill.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSkillName {
    /// The path does not end with a name.
    #[error("'{0}' does not name a directory: the directory of a skill has the skill's name")]
    NoName(String),
    /// The name contains characters that the format does not permit.
    #[error(
        "'{name}' is not a valid name of a skill, which is that of its directory: 1 to 64 lower-case letters (a to z), digits, and single \
         hyphens between them, such as '{proposal}'"
    )]
    Shape {
        /// The name.
        name: String,
        /// A similar valid name.
        proposal: String,
    },
}

impl SkillName {
    /// Returns the name of the skill for a workflow: its own name if that is permitted, otherwise a similar one.
    #[must_use]
    pub fn for_workflow(workflow: &str) -> Self {
        workflow.parse().unwrap_or_else(|_| Self(similar_name(workflow)))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the skill in a directory.
    ///
    /// # Errors
    /// If the name of the directory is not a valid name of a skill.
    pub fn from_directory(directory: &Path) -> Result<Self, InvalidSkillName> {
        let name = directory.file_name().ok_or_else(|| InvalidSkillName::NoName(directory.display().to_string()))?;
        name.to_string_lossy().parse()
    }
}

impl FromStr for SkillName {
    type Err = InvalidSkillName;

    fn from_str(name: &str) -> Result<Self, InvalidSkillName> {
        let is_part = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if name.len() <= MAX_NAME_CHARS && name.split('-').all(is_part) {
            return Ok(Self(name.to_owned()));
        }
        let proposal = similar_name(name);
        Err(InvalidSkillName::Shape { name: name.to_owned(), proposal })
    }
}

/// Returns a permitted name that resembles `name`.
fn similar_name(name: &str) -> String {
    let lower_case = name.to_ascii_lowercase();
    let parts = lower_case.split(|character: char| !character.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    let similar: String = parts.collect::<Vec<_>>().join("-").chars().take(MAX_NAME_CHARS).collect();
    let similar = similar.trim_end_matches('-');
    if similar.is_empty() { "my-skill".to_owned() } else { similar.to_owned() }
}

impl fmt::Display for SkillName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Formats text on one line, without characters that some readers of frontmatter treat as markup.
#[must_use]
pub fn plain_text(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|character| match character {
            // YAML permits no noncharacters.
            '<' | '>' | '\u{fffe}' | '\u{ffff}' => ' ',
            character if character.is_control() => ' ',
            character => character,
        })
        .collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Formats text as code for a cell of a table: on one line, without backticks or unescaped separators.
#[must_use]
pub fn table_cell(text: &str) -> String {
    let text = crate::visible(text).replace('`', "'").replace('|', "\\|");
    if text.trim().is_empty() { String::new() } else { format!("`{}`", text.trim()) }
}

/// Formats the arguments of a workflow as a table in Markdown.
#[must_use]
pub fn describe_arguments(arguments: &[ContractVariable]) -> String {
    let mut text = "| name | value | |\n|---|---|---|\n".to_owned();
    for argument in arguments {
        let mut facts = Vec::new();
        match &argument.default {
            Some(default) => facts.push(format!("default {}", table_cell(default))),
            None if argument.required => facts.push("required".to_owned()),
            None => facts.push("optional".to_owned()),
        }
        if let Some(schema) = &argument.schema {
            facts.push(format!("JSON Schema {}", table_cell(&schema.to_string())));
        }
        if argument.secret {
            facts.push("secret".to_owned());
        }
        let description = argument.description.as_deref().map(table_cell).unwrap_or_default();
        // Writing to a String does not fail.
        let _ = writeln!(text, "| `{}` | {} | {description} |", argument.name, facts.join(", "));
    }
    text
}

/// Returns the arguments that an example of a call contains: the required ones, without secrets, and without variables
/// that the environment of every client has.
pub fn example_arguments(arguments: &[ContractVariable]) -> impl Iterator<Item = &ContractVariable> {
    arguments
        .iter()
        .filter(|argument| argument.required && !argument.secret && !matches!(argument.name.as_str(), "PWD" | "HOME"))
}

/// Formats gates as a table in Markdown, from the parameters of their states. `None` without gates.
#[must_use]
pub fn describe_gates<'p>(gates: impl Iterator<Item = &'p Map<String, Value>>) -> Option<String> {
    let rows: String = gates
        .map(|params| {
            let param = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default();
            let choices = params.get("choices").and_then(Value::as_array).into_iter().flatten();
            let choices: Vec<&str> = choices.filter_map(Value::as_str).collect();
            let answerer = match param("answered_by") {
                // A gate without it is for a person.
                "" | "human" => "a person only",
                name if name.contains('{') => "as the run decides",
                _ => "a person or an agent",
            };
            format!("| {} | {} | {answerer} |\n", table_cell(param("prompt")), table_cell(&choices.join(", ")))
        })
        .collect();
    (!rows.is_empty()).then(|| format!("| question | answers | who |\n|---|---|---|\n{rows}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_the_permitted_format() {
        for good in ["a", "release-app", "0", &"x".repeat(64)] {
            assert!(good.parse::<SkillName>().is_ok(), "{good}");
        }
        for (bad, proposal) in [
            ("Release_App", "release-app"),
            ("-a", "a"),
            ("a--b", "a-b"),
            ("a-", "a"),
            ("", "my-skill"),
            ("..", "my-skill"),
            ("é x", "x"),
            (&"ab-".repeat(30), "ab-".repeat(22)[..63].trim_end_matches('-')),
        ] {
            let error = bad.parse::<SkillName>().unwrap_err();
            let InvalidSkillName::Shape { proposal: made, .. } = &error else { panic!("{error}") };
            assert!(made.parse::<SkillName>().is_ok(), "{bad}: {made}");
            assert!(made.starts_with(proposal), "{bad}: {made}");
        }
        assert_eq!(SkillName::from_directory(Path::new("x/release/")).unwrap().to_string(), "release");
        assert!(matches!(SkillName::from_directory(Path::new("/")), Err(InvalidSkillName::NoName(_))));
    }

    #[test]
    fn gate_without_an_answerer_is_for_a_person() {
        let gate = |answered_by: Value| {
            let params = serde_json::json!({"prompt": "Ship?", "choices": ["yes", "no"], "answered_by": answered_by});
            describe_gates([params.as_object().unwrap()].into_iter()).unwrap()
        };
        for (answered_by, answerer) in [
            (Value::Null, "a person only"),
            ("human".into(), "a person only"),
            ("agent".into(), "a person or an agent"),
            ("anyone".into(), "a person or an agent"),
            ("{WHO}".into(), "as the run decides"),
        ] {
            let table = gate(answered_by);
            assert!(table.ends_with(&format!("| `Ship?` | `yes, no` | {answerer} |\n")), "{table}");
        }
        assert_eq!(describe_gates([].into_iter()), None);
    }

    #[test]
    fn plain_text_has_no_characters_that_frontmatter_forbids() {
        assert_eq!(plain_text("a\u{ffff}b\u{fffe}c\n<d>\u{1b}e"), "a b c d e");
    }
}
