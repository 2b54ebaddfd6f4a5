//! The parser of a condition in a definition: an object with keys, or a word.

use serde_json::Value;

use super::Condition;
use super::test::{PatternText, Test, Word};
use crate::definition::{
    CONDITION_KEYS, CONDITION_WORDS, Diagnostics, JsonPath, MAX_DESCRIPTION_CHARS, ToolCatalog, kind,
    suggestion_or_known,
};
use crate::event::NONE_OF_THESE;

impl Condition {
    /// Reads the condition of a transition; `pattern` is the transition's own pattern. Returns `None` for an invalid
    /// condition.
    pub(crate) fn read(
        diagnostics: &mut Diagnostics,
        tools: &dyn ToolCatalog,
        place: &JsonPath<'_>,
        pattern: Option<&JsonPath<'_>>,
    ) -> Option<Self> {
        match place.value {
            Value::String(word) => read_word(diagnostics, word, place, pattern),
            Value::Object(_) => {
                if let Some(pattern) = pattern {
                    let message =
                        "'pattern' belongs to a condition that is a word, write it as 'pattern_match' in the object";
                    diagnostics.error(&pattern.pointer, message);
                }
                read_object(diagnostics, tools, place)
            }
            other => {
                let message = format!("a condition must be an object or a word, not {}", kind(other));
                diagnostics.error(&place.pointer, message);
                None
            }
        }
    }
}

fn read_object(diagnostics: &mut Diagnostics, tools: &dyn ToolCatalog, place: &JsonPath<'_>) -> Option<Condition> {
    let object = diagnostics.read_object(place, "a condition", &CONDITION_KEYS)?;
    let mut description = None;
    let tests: Vec<_> = object
        .iter()
        .filter(|(_, place)| !place.value.is_null())
        .map(|(key, place)| {
            if key == "description" {
                description = Some(read_description(diagnostics, tools, &place)?);
                return Some(Vec::new());
            }
            Test::read(key, &place, diagnostics)
        })
        .collect();
    let tests = tests.into_iter().collect::<Option<Vec<_>>>()?.concat();
    Some(Condition { tests, description })
}

fn read_word(
    diagnostics: &mut Diagnostics,
    name: &str,
    place: &JsonPath<'_>,
    pattern: Option<&JsonPath<'_>>,
) -> Option<Condition> {
    let word = Word::from_name(name);
    if let Some(pattern) = pattern.filter(|_| !word.is_some_and(Word::takes_pattern)) {
        diagnostics.error(&pattern.pointer, format!("condition \"{name}\" takes no 'pattern'"));
    }
    let Some(word) = word else {
        let suggestion = suggestion_or_known(name, CONDITION_WORDS.iter().map(String::as_str));
        diagnostics.error(&place.pointer, format!("unknown condition \"{name}\"{suggestion}"));
        return None;
    };
    let test = word.test(|| {
        let Some(pattern) = pattern else {
            diagnostics.error(&place.pointer, format!("condition \"{name}\" requires a 'pattern'"));
            return None;
        };
        PatternText::read(pattern, "'pattern'", diagnostics)
    })?;
    Some(Condition { tests: vec![test], description: None })
}

/// Reads the description of a condition that a gate judges.
fn read_description(diagnostics: &mut Diagnostics, tools: &dyn ToolCatalog, place: &JsonPath<'_>) -> Option<String> {
    if !tools.has_judges() {
        let message = "a condition with 'description' is not supported by this version";
        diagnostics.error(&place.pointer, message);
        return None;
    }
    let description = diagnostics.read_text(place, "'description'")?;
    let length = description.chars().count();
    if description.trim().is_empty() || length > MAX_DESCRIPTION_CHARS {
        let message = format!(
            "'description' must have 1 to {MAX_DESCRIPTION_CHARS} characters and not only spaces, not {length}"
        );
        diagnostics.error(&place.pointer, message);
        return None;
    }
    if description == NONE_OF_THESE {
        let message = format!("'{NONE_OF_THESE}' is always offered as a choice");
        diagnostics.error(&place.pointer, message);
        return None;
    }
    Some(description.to_owned())
}
