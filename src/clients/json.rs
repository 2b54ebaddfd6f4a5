//! Server entries in JSON, with comments and trailing commas where a client accepts them.
//!
//! The parser reports the position of each property. A few splices add, change or remove an entry, so that the order,
//! the comments and the whitespace of everything else stay unchanged.

use std::ops::Range;

use jsonc_parser::ParseOptions;
use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::errors::ParseError;
use serde_json::Value;

use super::entry::{FoundEntry, NAME};
use super::text::{Splice, Unreadable, apply_splices, indentation, is_blank, line_end, line_start};

/// The shape of a client's JSON document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// The property of the document that contains the servers.
    pub(super) servers: &'static str,
    /// The property within that property that contains the entries in the notation of a newer version, if there is one.
    pub(super) newer: Option<&'static str>,
    /// True if the client rejects comments and trailing commas.
    pub(super) strict: bool,
    /// The form of an entry.
    pub(super) entry: EntryForm,
}

/// The properties of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryForm {
    /// The command and its arguments.
    Plain,
    /// The transport, too.
    Typed,
    /// The transport, and the tools that the client offers: all.
    TypedWithTools,
    /// A list with the command and its arguments, for a `local` server.
    CommandList,
    /// The name, the transport, and a limit for each call; the command is `cmd`.
    Extension,
}

/// A change of a document.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change<'a> {
    /// Add an entry.
    Add(&'a Value),
    /// Set some properties of the entry, and keep the others.
    Set(&'a [(&'static str, Value)]),
    /// Remove the entry.
    Remove,
}

/// A place of servers in a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    shape: Shape,
    is_newer: bool,
}

impl Place {
    /// Returns the names that lead to the servers.
    pub(super) fn path(self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.shape.servers).chain(self.shape.newer.filter(|_| self.is_newer))
    }
}

/// Returns the places of entries, or the place of a new entry. If both notations have an entry, returns both entries:
/// one version of the client prefers the older notation, and another version the newer.
pub(super) fn places(text: &str, shape: Shape) -> Result<Vec<Place>, Unreadable> {
    let older = Place { shape, is_newer: false };
    let (Some(newer), Some(root)) = (shape.newer, parse(text, shape.strict)?) else { return Ok(vec![older]) };
    let Some(servers) = servers(text, &root, older)? else { return Ok(vec![older]) };
    let Some(ObjectProp { value: Node::Object(nested), .. }) = find_last(servers, newer) else {
        return Ok(vec![older]);
    };
    // In the older notation, a server may have this name.
    let is_server = ["type", "enabled"]
        .iter()
        .any(|name| find_last(nested, name).is_some_and(|property| !matches!(property.value, Node::Object(_))));
    if is_server {
        return Ok(vec![older]);
    }
    let newer = Place { shape, is_newer: true };
    Ok(match (find_last(servers, NAME).is_some(), find_last(nested, NAME).is_some()) {
        (true, true) => vec![older, newer],
        (true, false) => vec![older],
        (false, _) => vec![newer],
    })
}

/// Returns the document as a value; `None` if the text is empty.
pub(super) fn value(text: &str, strict: bool) -> Result<Option<Value>, Unreadable> {
    Ok(parse(text, strict)?.map(|object| Node::Object(object).into()))
}

/// Returns the steplatch entry, if there is one.
pub(super) fn find(text: &str, place: Place) -> Result<Option<FoundEntry>, Unreadable> {
    let Some(root) = parse(text, place.shape.strict)? else { return Ok(None) };
    let Some(servers) = servers(text, &root, place)? else { return Ok(None) };
    let Some(entry) = find_last(servers, NAME) else { return Ok(None) };
    let Node::Object(_) = &entry.value else {
        return Err(Unreadable::at(text, entry.range.start, format!("the entry '{NAME}' is not an object")));
    };
    Ok(Some(FoundEntry::from_value(&entry.value.clone().into())))
}

/// Returns the text with the change applied.
pub(super) fn change(text: &str, place: Place, change: Change<'_>) -> Result<String, Unreadable> {
    let style = Style::from_text(text);
    let strict = place.shape.strict;
    let root = parse(text, strict)?;
    let servers = match &root {
        Some(root) => servers(text, root, place)?,
        None => None,
    };
    let Some(servers) = servers else {
        let Change::Add(entry) = change else { return Ok(text.to_owned()) };
        let path: Vec<&str> = place.path().collect();
        return add_properties(text, strict, &path, &[(NAME.to_owned(), entry.clone())]);
    };
    let splices = match (change, find_last(servers, NAME)) {
        (Change::Add(entry), None) => style.insert(text, servers, NAME, entry),
        (Change::Remove, Some(entry)) => remove(text, servers, entry),
        (Change::Set(properties), Some(ObjectProp { value: Node::Object(entry), .. })) => {
            // One at a time, because two added properties go to the same position.
            let mut splices = Vec::new();
            for (name, value) in properties {
                match find_last(entry, name) {
                    Some(property) => {
                        let indent = indentation(&text[line_start(text, property.range.start)..]);
                        let indent = property.value.text(text).contains('\n').then_some(indent);
                        let range = property.value.start()..property.value.end();
                        splices.push(Splice::new(range, style.format_value(value, indent)));
                    }
                    None => splices.extend(style.insert(text, entry, name, value)),
                }
            }
            splices
        }
        _ => Vec::new(),
    };
    Ok(apply_splices(text, splices))
}

/// Returns the text with new properties in the object at a path. Creates the object if necessary.
pub(super) fn add_properties(
    text: &str,
    strict: bool,
    path: &[&str],
    properties: &[(String, Value)],
) -> Result<String, Unreadable> {
    let nested = |path: &[&str]| {
        let properties = Value::Object(properties.iter().cloned().collect());
        path.iter().rfold(properties, |value, name| serde_json::json!({ *name: value }))
    };
    let style = Style::from_text(text);
    let Some(root) = parse(text, strict)? else {
        let trimmed = text.trim_end();
        let gap = if trimmed.is_empty() { "" } else { style.line_end };
        return Ok(format!("{trimmed}{gap}{}{}", style.format_value(&nested(path), Some("")), style.line_end));
    };
    let (object, missing) = innermost(text, &root, path)?;
    if let [name, below @ ..] = missing {
        return Ok(apply_splices(text, style.insert(text, object, name, &nested(below))));
    }
    // One at a time, because two added properties go to the same position.
    let mut text = text.to_owned();
    for (name, value) in properties {
        let splices = match parse(&text, strict)? {
            Some(root) => {
                let (object, _) = innermost(&text, &root, path)?;
                Style::from_text(&text).insert(&text, object, name, value)
            }
            None => Vec::new(),
        };
        text = apply_splices(&text, splices);
    }
    Ok(text)
}

/// Returns the text without these properties of the object at a path, and without the objects of the path that become
/// empty.
pub(super) fn remove_properties(
    text: &str,
    strict: bool,
    path: &[&str],
    names: &[String],
) -> Result<String, Unreadable> {
    let mut text = text.to_owned();
    for name in names {
        while let Some(new_text) = remove_property(&text, strict, path, name, false)? {
            text = new_text;
        }
    }
    let mut path = path;
    while let [parents @ .., name] = path {
        let Some(new_text) = remove_property(&text, strict, parents, name, true)? else { break };
        (text, path) = (new_text, parents);
    }
    Ok(text)
}

/// Returns the text without one property of the object at a path. `None` if there is no such property, or if only an
/// empty object is to be removed and the property is not empty.
fn remove_property(
    text: &str,
    strict: bool,
    path: &[&str],
    name: &str,
    only_empty: bool,
) -> Result<Option<String>, Unreadable> {
    let Some(root) = parse(text, strict)? else { return Ok(None) };
    let (object, missing) = innermost(text, &root, path)?;
    let Some(property) = find_last(object, name).filter(|_| missing.is_empty()) else { return Ok(None) };
    let is_empty = matches!(&property.value, Node::Object(object) if is_blank(&text[inner_range(object)]));
    if only_empty && !is_empty {
        return Ok(None);
    }
    Ok(Some(apply_splices(text, remove(text, object, property))))
}

/// Returns the options of the parser; a strict client rejects comments and trailing commas.
pub(super) fn options(is_strict: bool) -> ParseOptions {
    ParseOptions {
        allow_comments: !is_strict,
        allow_trailing_commas: !is_strict,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// Returns an error of the parser, with its place.
pub(super) fn unreadable(text: &str, error: &ParseError) -> Unreadable {
    Unreadable::at(text, error.range().start, error.kind().to_string())
}

/// Parses the document. A document that is not empty must be an object.
fn parse(text: &str, strict: bool) -> Result<Option<Object<'_>>, Unreadable> {
    let parsed = jsonc_parser::parse_to_ast(text, &jsonc_parser::CollectOptions::default(), &options(strict))
        .map_err(|error| unreadable(text, &error))?;
    match parsed.value {
        None => Ok(None),
        Some(Node::Object(object)) => Ok(Some(object)),
        Some(value) => Err(Unreadable::at(text, value.start(), "the document is not an object")),
    }
}

/// Returns the object that contains the servers.
fn servers<'a, 'b>(text: &str, root: &'b Object<'a>, place: Place) -> Result<Option<&'b Object<'a>>, Unreadable> {
    let path: Vec<&str> = place.path().collect();
    let (object, missing) = innermost(text, root, &path)?;
    Ok(missing.is_empty().then_some(object))
}

/// Returns the innermost existing object of a path, and the names of the path that are missing in it.
fn innermost<'a, 'b, 'c>(
    text: &str,
    root: &'b Object<'a>,
    path: &'c [&'c str],
) -> Result<(&'b Object<'a>, &'c [&'c str]), Unreadable> {
    let mut object = root;
    for (depth, name) in path.iter().enumerate() {
        object = match find_last(object, name) {
            None => return Ok((object, &path[depth..])),
            Some(ObjectProp { value: Node::Object(inner), .. }) => inner,
            Some(property) => {
                return Err(Unreadable::at(text, property.value.start(), format!("'{name}' is not an object")));
            }
        };
    }
    Ok((object, &[]))
}

/// Returns the last property of this name, the effective one.
fn find_last<'a, 'b>(object: &'b Object<'a>, name: &str) -> Option<&'b ObjectProp<'a>> {
    object.properties.iter().rev().find(|property| property.name.as_str() == name)
}

/// Returns the range between the braces.
fn inner_range(object: &Object<'_>) -> Range<usize> {
    object.range.start + 1..object.range.end - 1
}

/// Returns the position of the comma after a property, if only whitespace and comments precede it.
fn comma_after(text: &str, mut position: usize, end: usize) -> Option<usize> {
    while position < end {
        let remaining = &text[position..end];
        position += match remaining.as_bytes()[0] {
            b',' => return Some(position),
            b' ' | b'\t' | b'\r' | b'\n' => 1,
            b'/' if remaining.starts_with("//") => remaining.find('\n')?,
            b'/' => remaining.find("*/")? + 2,
            _ => return None,
        };
    }
    None
}

/// The formatting of a document.
struct Style {
    line_end: &'static str,
    /// The indentation of one level.
    indent_unit: String,
    /// True if the document is on one line.
    is_one_line: bool,
}

impl Style {
    fn from_text(text: &str) -> Self {
        // The first indented line with a name is a property of the document.
        let indented = text.lines().find(|line| !indentation(line).is_empty() && line.trim_start().starts_with('"'));
        Self {
            line_end: line_end(text),
            indent_unit: indented.map_or("  ", indentation).to_owned(),
            is_one_line: !text.trim().contains('\n') && !is_blank(text.trim().trim_matches(['{', '}'])),
        }
    }

    /// Formats a value: on one line, or with an `indent`, with one line per property and the closing brace at the
    /// indent.
    fn format_value(&self, value: &Value, indent: Option<&str>) -> String {
        let lead = |indent: &str| format!("{}{indent}", self.line_end);
        match value {
            Value::Object(object) => {
                let inner = indent.map(|indent| format!("{indent}{}", self.indent_unit));
                let line_lead = inner.as_deref().map(lead).unwrap_or_default();
                let fields = object.iter().map(|(name, value)| {
                    format!("{line_lead}{}: {}", Value::from(name.as_str()), self.format_value(value, inner.as_deref()))
                });
                let fields = fields.collect::<Vec<_>>().join(if indent.is_some() { "," } else { ", " });
                format!("{{{fields}{}}}", indent.map(lead).unwrap_or_default())
            }
            Value::Array(values) => {
                format!(
                    "[{}]",
                    values.iter().map(|value| self.format_value(value, None)).collect::<Vec<_>>().join(", ")
                )
            }
            value => value.to_string(),
        }
    }

    /// Returns the splices that add a property at the end of an object, after the comments there.
    fn insert(&self, text: &str, object: &Object<'_>, name: &str, value: &Value) -> Vec<Splice> {
        let inside = inner_range(object);
        let last_end = object.properties.last().map(|property| property.range.end);
        let comma = last_end.and_then(|end| comma_after(text, end, inside.end));
        let after = comma.map_or(last_end.unwrap_or(inside.start), |comma| comma + 1);
        let remaining = &text[after..inside.end];
        let position = after + remaining.trim_end_matches([' ', '\t', '\r', '\n']).len();
        let mut splices = Vec::new();
        let name = Value::from(name);
        let on_one_line = if last_end.is_some() { !text[inside.clone()].contains('\n') } else { self.is_one_line };
        if on_one_line {
            let (prefix, suffix) = match (last_end, comma) {
                (None, _) if position == inside.start => ("", ""),
                (None, _) => (" ", ""),
                (Some(_), None) => (", ", ""),
                (Some(_), Some(_)) => (" ", ","),
            };
            splices
                .push(Splice::insert(position, format!("{prefix}{name}: {}{suffix}", self.format_value(value, None))));
            return splices;
        }
        if let (Some(last_end), None) = (last_end, comma) {
            // If both go to the same position, the comma stays first.
            splices.push(Splice::insert(last_end, ","));
        }
        let outer = indentation(&text[line_start(text, object.range.start)..]);
        let first_on_its_line = object.properties.iter().find_map(|property| {
            let line_begin = &text[line_start(text, property.range.start)..property.range.start];
            is_blank(line_begin).then_some(line_begin)
        });
        let indent = first_on_its_line.map_or_else(|| format!("{outer}{}", self.indent_unit), str::to_owned);
        let end = self.line_end;
        let mut line = format!("{end}{indent}{name}: {}", self.format_value(value, Some(&indent)));
        if comma.is_some() {
            line.push(',');
        }
        if text[position..inside.end].contains('\n') {
            splices.push(Splice::insert(position, line));
        } else {
            // The closing brace gets its own line.
            splices.push(Splice::new(position..inside.end, format!("{line}{end}{outer}")));
        }
        splices
    }
}

/// Returns the splices that remove a property from an object, with its comma and, if the line is otherwise empty, its
/// line.
fn remove(text: &str, object: &Object<'_>, property: &ObjectProp<'_>) -> Vec<Splice> {
    let inside = inner_range(object);
    let (start, mut end) = (property.range.start, property.range.end);
    let mut splices = Vec::new();
    let following_comma = comma_after(text, end, inside.end);
    // Text before the comma belongs to the removed property.
    let adjacent_comma = following_comma.filter(|comma| is_blank(&text[end..*comma]));
    let preceding = object.properties.iter().rfind(|sibling| sibling.range.end <= start);
    let preceding = preceding.and_then(|sibling| comma_after(text, sibling.range.end, start));
    let mut begin = start;
    let is_last = object.properties.last().is_some_and(|property| property.range.start == start);
    match (adjacent_comma, following_comma) {
        (Some(comma), _) => end = comma + 1,
        (None, Some(comma)) => splices.push(Splice::new(comma..comma + 1, "")),
        (None, None) => {
            if let Some(comma) = preceding {
                if is_blank(&text[comma + 1..start]) {
                    begin = comma;
                } else {
                    splices.push(Splice::new(comma..comma + 1, ""));
                }
            }
        }
    }
    let line = line_start(text, begin);
    let blanks_after =
        text[end..inside.end].find(|blank| !matches!(blank, ' ' | '\t')).map_or(inside.end, |at| end + at);
    if begin == start && line > inside.start && is_blank(&text[line..start]) {
        if matches!(text.as_bytes()[blanks_after], b'\r' | b'\n') || (is_last && blanks_after == inside.end) {
            // Removes the previous line's end and keeps this line's end.
            begin = line - 1 - usize::from(text[..line - 1].ends_with('\r'));
            end = if blanks_after == inside.end { end } else { blanks_after };
        }
    } else if begin == start && is_last {
        begin = text[..start].trim_end_matches([' ', '\t']).len();
    } else if begin == start && adjacent_comma.is_some() {
        end = blanks_after;
    }
    let is_only = object.properties.len() == 1;
    if is_only && is_blank(&text[inside.start..begin]) && is_blank(&text[end..inside.end]) && splices.is_empty() {
        return vec![Splice::new(inside, "")];
    }
    splices.push(Splice::new(begin..end, ""));
    splices
}
