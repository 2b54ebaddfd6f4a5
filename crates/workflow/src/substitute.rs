//! Replacement of variables in texts, in one pass.
//!
//! `{name}` becomes the variable's text. `{name|sh}`, `{name|json}` and `{name|regex}` become its quoted form, and
//! `{{name}}` the literal `{name}`. Where variables allow it, `{name.part}` becomes a part of a value. `{secret:NAME}`
//! becomes the value of an initial secret of the run.
//!
//! Everything else stays unchanged, including unknown names, so that `${HOME}`, `a{2,3}`, `{a,b}` and `{{.Names}}`
//! work. [`unresolved`] finds placeholders that must have a value. `${NAME}` also stays if the workflow's contract
//! makes `NAME` a variable of the shell. The text of a variable is not searched again: text from a terminal cannot
//! inject a placeholder.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::path::value_at_path;

/// Prefix of the variable name of a secret.
pub(crate) const SECRET: &str = "secret:";

/// Source of variable values.
pub trait Lookup {
    /// Returns the value of the variable with this name, if there is one.
    fn get(&self, name: &str) -> Option<&Value>;

    /// Returns whether the shell expands `${name}`, even if the variable has a value.
    fn belongs_to_shell(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Returns whether `{name.part}` is a placeholder for a part of the value of `name`.
    fn has_paths(&self) -> bool {
        false
    }

    /// Returns the fields of the last result that show a person what happened.
    fn evidence(&self) -> Map<String, Value> {
        Map::new()
    }
}

/// A placeholder in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placeholder<'t> {
    /// The name of the variable, with the path into it.
    pub(crate) name: &'t str,
    /// True for `${name}`: left to the shell if the shell has such a variable.
    pub(crate) is_for_shell: bool,
    /// True for `${name}` and `%{name}`. They stay unchanged if the name is unknown, because they may be intended for a
    /// program.
    pub(crate) may_stay: bool,
}

impl<'t> Placeholder<'t> {
    /// Returns whether the placeholder refers to a secret. A run cannot start without the secrets of its definition.
    pub(crate) fn is_secret(&self) -> bool {
        self.name.starts_with(SECRET)
    }

    /// Returns the name of the variable, without the path into it.
    pub(crate) fn root(&self) -> &'t str {
        self.name.split('.').next().unwrap_or(self.name)
    }
}

/// One part of text.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'t> {
    /// Text without placeholders.
    Text(&'t str),
    /// `{{name}}`. Becomes `{name}`.
    Escaped(&'t str),
    /// `{name}` or `{name|filter}`.
    Variable { source: &'t str, name: &'t str, filter: Option<Filter> },
}

/// Quoting of a value in a placeholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filter {
    /// For a POSIX shell.
    Sh,
    /// As JSON.
    Json,
    /// As a pattern that matches the text.
    Regex,
}

/// Returns whether text has any placeholder.
pub(crate) fn has_placeholder(text: &str) -> bool {
    split_pieces(text, true).iter().any(|piece| !matches!(piece, Piece::Text(_)))
}

/// Returns the placeholders of text, including placeholders with paths.
pub(crate) fn placeholders(text: &str) -> impl Iterator<Item = Placeholder<'_>> {
    placeholders_in(split_pieces(text, true))
}

fn placeholders_in(pieces: Vec<Piece<'_>>) -> impl Iterator<Item = Placeholder<'_>> {
    let mut preceding_character = None;
    pieces.into_iter().filter_map(move |piece| {
        let character = preceding_character.take();
        match piece {
            Piece::Variable { name, filter, .. } => {
                let character = character.filter(|_| filter.is_none());
                let (is_for_shell, may_stay) = (character == Some('$'), matches!(character, Some('$' | '%')));
                Some(Placeholder { name, is_for_shell, may_stay })
            }
            Piece::Text(text) => {
                preceding_character = text.chars().next_back();
                None
            }
            Piece::Escaped(_) => None,
        }
    })
}

/// Returns the name of the first placeholder in the texts of a value that has no value and must not stay unchanged.
pub(crate) fn unresolved<'t>(template: &'t Value, variables: &dyn Lookup) -> Option<&'t str> {
    texts_in(template).into_iter().find_map(|text| unresolved_in(text, variables))
}

/// Same as [`unresolved`], for one text.
pub(crate) fn unresolved_in<'t>(text: &'t str, variables: &dyn Lookup) -> Option<&'t str> {
    unresolved_except(text, variables, |_| false)
}

/// Same as [`unresolved_in`], but ignores variables that get their values later.
pub(crate) fn unresolved_except<'t>(
    text: &'t str,
    variables: &dyn Lookup,
    is_later: impl Fn(&str) -> bool,
) -> Option<&'t str> {
    let mut placeholders = placeholders_in(split_pieces(text, variables.has_paths()));
    // In runs of older definitions, `{secret:NAME}` is plain text.
    let may_stay =
        |placeholder: &Placeholder<'_>| placeholder.may_stay || placeholder.is_secret() || is_later(placeholder.root());
    placeholders
        .find(|placeholder| find(variables, placeholder.name).is_none() && !may_stay(placeholder))
        .map(|placeholder| placeholder.name)
}

/// Returns the value of a variable, or the part of a value at the path in the name.
fn find<'v>(variables: &'v dyn Lookup, name: &str) -> Option<&'v Value> {
    variables.get(name).or_else(|| {
        let (root, path) = name.split_once('.')?;
        value_at_path(variables.get(root)?, path)
    })
}

/// Returns text with its variables replaced.
#[must_use]
pub fn text(template: &str, variables: &dyn Lookup) -> String {
    let mut replaced = String::with_capacity(template.len());
    for piece in split_pieces(template, variables.has_paths()) {
        match piece {
            Piece::Text(text) | Piece::Escaped(text) => replaced.push_str(text),
            Piece::Variable { source, name, filter: None }
                if replaced.ends_with('$') && variables.belongs_to_shell(name) =>
            {
                replaced.push_str(source);
            }
            Piece::Variable { source, name, filter } => match find(variables, name) {
                Some(value) => replaced.push_str(&filtered(value, filter)),
                None => replaced.push_str(source),
            },
        }
    }
    replaced
}

/// A reference in text to a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretReference<'t> {
    /// Name of the secret.
    pub name: &'t str,
    /// True if a filter quotes the value.
    pub is_quoted: bool,
}

/// Returns the references of text to secrets.
///
/// # Errors
/// Returns the beginning of a text that resembles a reference and is none.
pub fn secret_references(text: &str) -> Result<BTreeSet<SecretReference<'_>>, &str> {
    let mut references = BTreeSet::new();
    for piece in split_pieces(text, true) {
        match piece {
            Piece::Variable { name, filter, .. } => {
                let name = name.strip_prefix(SECRET);
                references.extend(name.map(|name| SecretReference { name, is_quoted: filter.is_some() }));
            }
            Piece::Text(plain) => {
                if let Some((_, rest)) = plain.split_once("{secret:") {
                    let length = rest.find(['}', ' ', '\n']).unwrap_or(rest.len()).min(rest.ceil_char_boundary(40));
                    return Err(&rest[..length]);
                }
            }
            Piece::Escaped(_) => {}
        }
    }
    Ok(references)
}

/// Returns whether a line of text consists of references to secrets only.
#[must_use]
pub fn has_line_of_secrets(text: &str) -> bool {
    let mut marked = String::with_capacity(text.len());
    for piece in split_pieces(text, true) {
        match piece {
            Piece::Variable { name, .. } if name.starts_with(SECRET) => marked.push('\u{0}'),
            Piece::Variable { source: text, .. } | Piece::Text(text) | Piece::Escaped(text) => marked.push_str(text),
        }
    }
    let is_secret =
        |line: &str| line.contains('\u{0}') && line.chars().all(|sign| sign == '\u{0}' || sign.is_whitespace());
    marked.split(['\n', '\r']).any(is_secret)
}

/// Returns text with its secrets replaced, by name. Everything else stays unchanged, except that `{{secret:NAME}}`
/// becomes `{secret:NAME}`.
#[must_use]
pub fn with_secrets(text: &str, secrets: &BTreeMap<String, String>) -> String {
    let mut replaced = String::with_capacity(text.len());
    for piece in split_pieces(text, true) {
        match piece {
            Piece::Text(text) => replaced.push_str(text),
            Piece::Escaped(inside) if inside[1..].starts_with(SECRET) => replaced.push_str(inside),
            Piece::Escaped(inside) => replaced.extend(["{", inside, "}"]),
            Piece::Variable { source, name, filter } => {
                match name.strip_prefix(SECRET).and_then(|name| secrets.get(name)) {
                    Some(value) => replaced.push_str(&filtered(&Value::from(value.as_str()), filter)),
                    None => replaced.push_str(source),
                }
            }
        }
    }
    replaced
}

/// Returns text with a mark in place of each placeholder. `mark` receives the source of the placeholder: `{name|sh}`.
#[must_use]
pub fn marked<'t>(template: &'t str, mut mark: impl FnMut(&'t str) -> char) -> String {
    let mut text = String::with_capacity(template.len());
    for piece in split_pieces(template, true) {
        match piece {
            Piece::Text(plain) | Piece::Escaped(plain) => text.push_str(plain),
            Piece::Variable { source, .. } => text.push(mark(source)),
        }
    }
    text
}

/// Returns a template that always gives `text`: the braces of apparent placeholders are doubled.
#[must_use]
pub fn literal(text: &str) -> String {
    let mut template = String::with_capacity(text.len());
    for piece in split_pieces(text, true) {
        match piece {
            Piece::Text(text) => template.push_str(text),
            Piece::Variable { source, .. } => template.extend(["{", source, "}"]),
            Piece::Escaped(inside) => template.extend(["{{", inside, "}}"]),
        }
    }
    template
}

/// Returns a value with the variables of all its strings replaced.
///
/// With `keep_types`, a string that consists only of `{name}` becomes the variable's value: a number stays a number.
#[must_use]
pub fn value(template: &Value, variables: &dyn Lookup, keep_types: bool) -> Value {
    match template {
        Value::String(template) => {
            if keep_types
                && let [Piece::Variable { name, filter: None, .. }] = split_pieces(template, variables.has_paths())[..]
            {
                return find(variables, name).cloned().unwrap_or_else(|| template.clone().into());
            }
            Value::String(text(template, variables))
        }
        Value::Array(items) => items.iter().map(|item| value(item, variables, keep_types)).collect(),
        Value::Object(fields) => {
            let field = |(name, field): (&String, &Value)| (name.clone(), value(field, variables, keep_types));
            Value::Object(fields.iter().map(field).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
    }
}

/// Returns all texts in a value.
pub(crate) fn texts_in(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts_in).collect(),
        Value::Object(fields) => fields.values().flat_map(texts_in).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// Returns the text form of a value: a string unchanged, an empty text for null, JSON for other values.
#[must_use]
pub fn as_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the quoted forms of `text` that do not contain it. To hide text, hide these forms too.
#[must_use]
pub fn filtered_forms(text: &str) -> Vec<String> {
    let value = Value::from(text);
    let forms = [Filter::Sh, Filter::Json, Filter::Regex].map(|filter| filtered(&value, Some(filter)));
    // If a filter only adds quotes, it is enough to hide the text itself.
    let differs = |form: &String| !form.contains(text);
    let mut forms: Vec<String> = forms.into_iter().filter(differs).collect();
    forms.dedup();
    forms
}

fn filtered(value: &Value, filter: Option<Filter>) -> String {
    match filter {
        None => as_text(value),
        Some(Filter::Sh) => shell_quoted(&as_text(value)),
        Some(Filter::Json) => value.to_string(),
        Some(Filter::Regex) => steplatch_pattern::escape(&as_text(value)),
    }
}

fn shell_quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        text.to_owned()
    } else {
        // Inside single quotes, only the closing quote is special.
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Splits text at its placeholders. With `allows_paths`, `{name.part}` is a placeholder.
fn split_pieces(text: &str, allows_paths: bool) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut start, mut position) = (0, 0);
    while let Some(offset) = text[position..].find('{') {
        position += offset;
        let Some((piece, length)) = parse_placeholder(&text[position..], allows_paths) else {
            position += 1;
            continue;
        };
        if start < position {
            pieces.push(Piece::Text(&text[start..position]));
        }
        pieces.push(piece);
        position += length;
        start = position;
    }
    if start < text.len() {
        pieces.push(Piece::Text(&text[start..]));
    }
    pieces
}

/// Parses a placeholder at the start of `text` and returns it with its length.
fn parse_placeholder(text: &str, allows_paths: bool) -> Option<(Piece<'_>, usize)> {
    if let Some(inside) = text.strip_prefix("{{")
        && let Some((_, _, length)) = name_and_filter(inside, allows_paths)
        && inside[length..].starts_with("}}")
    {
        return Some((Piece::Escaped(&text[1..length + 3]), length + 4));
    }
    let (name, filter, length) = name_and_filter(text.strip_prefix('{')?, allows_paths)?;
    let source = text.get(..length + 2).filter(|source| source.ends_with('}'))?;
    Some((Piece::Variable { source, name, filter }, source.len()))
}

/// Parses `name` or `name|filter` at the start of `text` and returns the parts with their total length.
fn name_and_filter(text: &str, allows_paths: bool) -> Option<(&str, Option<Filter>, usize)> {
    let part_length = |text: &str| {
        let is_part = |character: char| character.is_alphanumeric() || character == '_' || character == '-';
        text.find(|character| !is_part(character)).unwrap_or(text.len())
    };
    let prefix = if text.starts_with(SECRET) { SECRET.len() } else { 0 };
    let mut end = prefix + part_length(&text[prefix..]);
    if prefix > 0 && end == prefix {
        return None;
    }
    let name = &text[..end];
    // A number in braces is a repetition in a pattern. No variable has a number as its name.
    if name.starts_with('-') || name.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    while allows_paths
        && prefix == 0
        && let Some(rest) = text[end..].strip_prefix('.')
    {
        match part_length(rest) {
            0 => return None,
            length => end += 1 + length,
        }
    }
    let name = &text[..end];
    for (word, filter) in [("|sh", Filter::Sh), ("|json", Filter::Json), ("|regex", Filter::Regex)] {
        if text[end..].strip_prefix(word).is_some_and(|rest| rest.starts_with('}')) {
            return Some((name, Some(filter), end + word.len()));
        }
    }
    Some((name, None, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, json};

    impl Lookup for Map<String, Value> {
        fn get(&self, name: &str) -> Option<&Value> {
            Map::get(self, name)
        }
    }

    fn variables() -> Map<String, Value> {
        let known = json!({
            "user": "ana", "quoted": "it's $HOME", "empty": "", "count": 3, "ratio": 1.5, "ready": true, "none": null,
            "list": [1, "a"], "sneaky": "{user} {{user}}", "1st": "first", "my-var": "dashed", "dots": "a.b"
        });
        known.as_object().expect("the value is an object").clone()
    }

    #[test]
    fn only_placeholders_are_replaced() {
        for (template, expected) in [
            ("hello {user}", "hello ana"),
            ("{user}{user}", "anaana"),
            ("{count}/{ratio}/{ready}/{none}/{list}", "3/1.5/true//[1,\"a\"]"),
            ("{1st} {my-var}", "first dashed"),
            // Unknown names, and text that only resembles a name.
            ("${HOME} {nobody} {}", "${HOME} {nobody} {}"),
            ("a{2} a{2,3} {a,b} { user } {user", "a{2} a{2,3} {a,b} { user } {user"),
            ("awk '{print $1}'", "awk '{print $1}'"),
            ("docker ps --format '{{.Names}}'", "docker ps --format '{{.Names}}'"),
            (r#"{"a": {"b": {count}}}"#, r#"{"a": {"b": 3}}"#),
            // Escapes.
            ("{{user}} {{nobody}} {{user|sh}}", "{user} {nobody} {user|sh}"),
            ("{{user}", "{ana"),
            ("{user}}", "ana}"),
            // Filters.
            ("echo {quoted|sh} {user|sh} {empty|sh}", r"echo 'it'\''s $HOME' ana ''"),
            ("{quoted|json} {count|json} {none|json}", r#""it's $HOME" 3 null"#),
            ("^{dots|regex}$", r"^a\.b$"),
            ("{user|upper} {user|} {nobody|sh} {user|shell}", "{user|upper} {user|} {nobody|sh} {user|shell}"),
            // A single pass.
            ("{sneaky}", "{user} {{user}}"),
        ] {
            assert_eq!(text(template, &variables()), expected, "{template}");
        }
    }

    #[test]
    fn single_variable_keeps_its_type_if_allowed() {
        let template =
            json!({"n": "{count}", "t": "{count}s", "l": ["{ready}", "{nobody}"], "k": 7, "j": "{count|json}"});
        assert_eq!(
            value(&template, &variables(), true),
            json!({"n": 3, "t": "3s", "l": [true, "{nobody}"], "k": 7, "j": "3"})
        );
        assert_eq!(
            value(&template, &variables(), false),
            json!({"n": "3", "t": "3s", "l": ["true", "{nobody}"], "k": 7, "j": "3"})
        );
    }

    /// Variables with paths into their values.
    struct WithPaths(Map<String, Value>);

    impl Lookup for WithPaths {
        fn get(&self, name: &str) -> Option<&Value> {
            self.0.get(name)
        }

        fn has_paths(&self) -> bool {
            true
        }
    }

    #[test]
    fn path_reaches_into_a_value_if_variables_allow_it() {
        let known =
            json!({"wait_groups": {"1": "1.2", "patch": "3"}, "items": [{"id": 7}], "user": "ana", "a.b": "dots"});
        let variables = WithPaths(known.as_object().expect("the value is an object").clone());
        for (template, expected) in [
            ("v{wait_groups.1}.{wait_groups.patch}", "v1.2.3"),
            ("{items.0.id} {items.0.id|sh} {a.b}", "7 7 dots"),
            ("{items.1} {user.name} {nobody.x}", "{items.1} {user.name} {nobody.x}"),
            (
                "{{wait_groups.1}} {wait_groups.} {.1} {1.2} {wait_groups..1}",
                "{wait_groups.1} {wait_groups.} {.1} {1.2} {wait_groups..1}",
            ),
        ] {
            assert_eq!(text(template, &variables), expected, "{template}");
        }
        assert_eq!(value(&json!("{items.0}"), &variables, true), json!({"id": 7}));
        assert_eq!(text("{user.name} {{user.name}}", &variables.0), "{user.name} {{user.name}}");
    }

    #[test]
    fn unresolved_placeholder_is_found_unless_program_output() {
        let missing = |template: Value| unresolved(&template, &variables()).map(str::to_owned);
        for unchanged in [
            json!("{user} {{nobody}} ${HOME} %{http_code} a{2} {} { user } {a,b} {print $1} {{.Names}} {none}"),
            json!({"a": ["{count}", 3, null, true], "{nobody}": 1}),
        ] {
            assert_eq!(missing(unchanged.clone()), None, "{unchanged}");
        }
        for (template, name) in [
            (json!("ssh {user}@{nobody}"), "nobody"),
            (json!(["{user}", {"deep": "{count} {nobody|sh}"}]), "nobody"),
            (json!("${nobody|sh}"), "nobody"),
            (json!("$ {nobody}"), "nobody"),
            (json!("{user}{{user}}{nobody}"), "nobody"),
        ] {
            assert_eq!(missing(template.clone()).as_deref(), Some(name), "{template}");
        }
        let names: Vec<_> = placeholders("${A} %{B} {C.1} x{D|sh}")
            .map(|placeholder| (placeholder.root(), placeholder.is_for_shell, placeholder.may_stay))
            .collect();
        assert_eq!(names, [("A", true, true), ("B", false, true), ("C", false, false), ("D", false, false)]);
    }

    #[test]
    fn pattern_with_repetitions_has_no_placeholder() {
        for plain in [r"\d{3}", "a{2,}", "{", "{}", "x{,3}", "{.Names}", "{-a}"] {
            assert!(!has_placeholder(plain), "{plain}");
        }
        for template in ["{user}", "^{{user}}", "a{2}{user|regex}"] {
            assert!(has_placeholder(template), "{template}");
        }
    }

    proptest! {
        #[test]
        fn variable_values_are_never_expanded(inner in ".*") {
            let mut variables = variables();
            variables.insert("inner".into(), inner.clone().into());
            prop_assert_eq!(text("<{inner}>", &variables), format!("<{inner}>"));
        }

        #[test]
        fn unknown_names_leave_a_text_without_escapes_unchanged(template in r"[a-z{}|$ ,0-9é]*") {
            prop_assume!(!template.contains("{{"));
            prop_assert_eq!(text(&template, &Map::new()), template);
        }

        #[test]
        fn template_preserves_every_byte(template in ".*") {
            let rejoined: usize = split_pieces(&template, true).iter().map(|piece| match piece {
                Piece::Text(text) => text.len(),
                Piece::Escaped(text) => text.len() + 2,
                Piece::Variable { source, .. } => source.len(),
            }).sum();
            prop_assert_eq!(rejoined, template.len());
        }

        #[test]
        fn quoted_text_is_one_word_for_a_shell(words in "[a-z '\"$\\\\;|&<>(){}*?\n]*") {
            let quoted = shell_quoted(&words);
            // Read back by the shell's rules for single quotes and backslashes.
            let (mut parsed, mut inside, mut characters) = (String::new(), false, quoted.chars());
            while let Some(character) = characters.next() {
                match character {
                    '\'' => inside = !inside,
                    '\\' if !inside => parsed.extend(characters.next()),
                    other => {
                        prop_assert!(inside || other.is_ascii_alphanumeric());
                        parsed.push(other);
                    }
                }
            }
            prop_assert!(!inside);
            prop_assert_eq!(parsed, words);
        }
    }
}
