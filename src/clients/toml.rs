//! Server entries in TOML (<https://toml.io/en/v1.0.0>), as stored by Codex: tables in `mcp_servers`.
//!
//! The parser reports the position of each value and each header; a change is a few splices. A new entry is a table at
//! the end of the file, where it cannot split another table.

use std::ops::Range;

use serde::Serialize as _;
use serde_json::Value;
use toml::de::{DeTable, DeValue};
use toml::ser::ValueSerializer;

use super::entry::{FoundEntry, NAME};
use super::json::Change;
use super::text::{Splice, Unreadable, apply_splices, is_blank, line_end, line_start, next_line};

/// The table that contains the servers.
pub(super) const SERVERS: &str = "mcp_servers";

/// The table of an entry that contains the settings of its tools.
pub(super) const TOOLS: &str = "tools";

type Item<'a> = toml::Spanned<DeValue<'a>>;

/// Returns the document as a value.
pub(super) fn value(text: &str) -> Result<Value, Unreadable> {
    let table: toml::Table = text.parse().map_err(|error| unreadable(text, &error))?;
    serde_json::to_value(table).map_err(|error| Unreadable::without_place(error.to_string()))
}

/// Returns the steplatch entry, if there is one.
pub(super) fn find(text: &str) -> Result<Option<FoundEntry>, Unreadable> {
    let document = parse(text)?;
    let Some(servers) = servers(text, &document)? else { return Ok(None) };
    let Some((_, entry)) = get(servers, NAME) else { return Ok(None) };
    if entry.get_ref().is_table() {
        return Ok(Some(FoundEntry::from_value(&value(text)?[SERVERS][NAME])));
    }
    Err(Unreadable::at(text, entry.span().start, format!("the entry '{NAME}' is not a table")))
}

/// Returns the text with the change applied.
pub(super) fn change(text: &str, change: Change<'_>) -> Result<String, Unreadable> {
    let document = parse(text)?;
    let servers = servers(text, &document)?;
    // TOML does not permit the extension of an inline table.
    let braces = get(document.get_ref(), SERVERS).map(|(_, item)| item.span()).filter(|span| is_inline(text, span));
    let entry = servers.and_then(|servers| get(servers, NAME));
    let splices = match (change, entry) {
        (Change::Add(entry), None) => vec![match braces {
            Some(braces) => {
                let comma = if servers.is_none_or(DeTable::is_empty) { " " } else { "," };
                Splice::insert(braces.start + 1, format!(" {NAME} = {}{comma}", format_line(entry)))
            }
            None => append_entry(text, entry),
        }],
        (Change::Set(properties), Some((_, entry))) => {
            properties.iter().filter_map(|(name, value)| set(text, entry, name, value)).collect()
        }
        (Change::Remove, Some((key, entry))) => match braces {
            Some(braces) => vec![remove_from_line(text, key.start..entry.span().end, &braces)],
            None => remove_lines(text, entry),
        },
        _ => Vec::new(),
    };
    Ok(apply_splices(text, splices))
}

/// Returns the text with a setting for each of these tools of the entry. An existing setting stays.
///
/// # Errors
/// If the text is not TOML, or has no entry with a table of tools.
pub(super) fn set_for_tools(text: &str, tools: &[&str], name: &str, value: &Value) -> Result<String, Unreadable> {
    let document = parse(text)?;
    let entry = servers(text, &document)?.and_then(|servers| get(servers, NAME));
    let Some((_, entry)) = entry else {
        return Err(Unreadable::without_place(format!("it has no entry '{NAME}'")));
    };
    let known = match get(table(text, entry, NAME)?, TOOLS) {
        Some((_, item)) => Some((item, table(text, item, TOOLS)?)),
        None => None,
    };
    let mut splices = Vec::new();
    let mut missing = Vec::new();
    for tool in tools {
        match known.and_then(|(_, known)| get(known, tool)) {
            None => missing.push(*tool),
            Some((_, item)) if get(table(text, item, tool)?, name).is_some() => {}
            Some((_, item)) => splices.extend(set(text, item, name, value)),
        }
    }
    let settings = serde_json::json!({ name: value });
    match known {
        _ if missing.is_empty() => {}
        Some((item, known)) if is_inline(text, &item.span()) => {
            let fields: Vec<String> =
                missing.iter().map(|tool| format!(" {tool} = {}", format_line(&settings))).collect();
            let comma = if known.is_empty() { " " } else { "," };
            splices.push(Splice::insert(item.span().start + 1, format!("{}{comma}", fields.join(","))));
        }
        None if is_inline(text, &entry.span()) => {
            let tools = missing.into_iter().map(|tool| (tool.to_owned(), settings.clone())).collect();
            splices.extend(set(text, entry, TOOLS, &Value::Object(tools)));
        }
        _ => {
            let (end, value) = (line_end(text), format_line(value));
            let tables =
                missing.iter().map(|tool| format!("[{SERVERS}.{NAME}.{TOOLS}.{tool}]{end}{name} = {value}{end}"));
            splices.push(Splice::insert(text.len(), gap_before_table(text) + &tables.collect::<String>()));
        }
    }
    Ok(apply_splices(text, splices))
}

fn unreadable(text: &str, error: &toml::de::Error) -> Unreadable {
    match error.span() {
        Some(span) => Unreadable::at(text, span.start, error.message()),
        None => Unreadable::without_place(error.message()),
    }
}

fn parse(text: &str) -> Result<toml::Spanned<DeTable<'_>>, Unreadable> {
    DeTable::parse(text).map_err(|error| unreadable(text, &error))
}

fn servers<'a, 'b>(
    text: &str,
    document: &'b toml::Spanned<DeTable<'a>>,
) -> Result<Option<&'b DeTable<'a>>, Unreadable> {
    match get(document.get_ref(), SERVERS) {
        None => Ok(None),
        Some((_, item)) => table(text, item, SERVERS).map(Some),
    }
}

/// Returns the table with this name.
fn table<'a, 'b>(text: &str, item: &'b Item<'a>, name: &str) -> Result<&'b DeTable<'a>, Unreadable> {
    match item.get_ref() {
        DeValue::Table(table) => Ok(table),
        _ => Err(Unreadable::at(text, item.span().start, format!("'{name}' is not a table"))),
    }
}

/// Returns the value of this name, and the position of its key.
fn get<'a, 'b>(table: &'b DeTable<'a>, name: &str) -> Option<(Range<usize>, &'b Item<'a>)> {
    table.iter().find(|(key, _)| key.get_ref() == name).map(|(key, item)| (key.span(), item))
}

fn is_inline(text: &str, span: &Range<usize>) -> bool {
    text[span.clone()].starts_with('{')
}

/// Formats a value on one line.
fn format_line(value: &Value) -> String {
    let mut out = String::new();
    value.serialize(ValueSerializer::new(&mut out)).expect("an entry has only strings, and lists and tables of them");
    out
}

/// Returns the text with a table of an array of tables appended; `fields` are texts.
pub(crate) fn with_table(text: &str, array: &str, fields: &[(&str, &str)]) -> String {
    let entry = fields.iter().map(|(name, text)| ((*name).to_owned(), Value::from(*text))).collect();
    apply_splices(text, vec![append_table(text, &format!("[[{array}]]"), &Value::Object(entry))])
}

/// Returns the text without the first table of an array whose `field` is `name`; `None` if there is no such table.
///
/// # Errors
/// If the text is not TOML, or the array does not consist of tables with their own headers.
pub(crate) fn without_table(text: &str, array: &str, field: &str, name: &str) -> Result<Option<String>, Unreadable> {
    let document = parse(text)?;
    let Some((_, item)) = get(document.get_ref(), array) else { return Ok(None) };
    let DeValue::Array(tables) = item.get_ref() else {
        return Err(Unreadable::at(text, item.span().start, format!("'{array}' is not an array of tables")));
    };
    let is_wanted = |table: &&Item<'_>| match table.get_ref() {
        DeValue::Table(fields) => get(fields, field).is_some_and(|(_, value)| value.get_ref().as_str() == Some(name)),
        _ => false,
    };
    match tables.iter().find(is_wanted) {
        None => Ok(None),
        Some(table) if is_inline(text, &table.span()) => {
            let problem = format!("'{array}' is on one line; remove '{name}' from it by hand");
            Err(Unreadable::at(text, table.span().start, problem))
        }
        Some(table) => Ok(Some(apply_splices(text, remove_lines(text, table)))),
    }
}

/// Returns the splice that appends the entry as a table.
fn append_entry(text: &str, entry: &Value) -> Splice {
    append_table(text, &format!("[{SERVERS}.{NAME}]"), entry)
}

/// Returns the splice that appends a table below this header.
fn append_table(text: &str, header: &str, entry: &Value) -> Splice {
    let end = line_end(text);
    let gap = gap_before_table(text);
    let fields = entry.as_object().into_iter().flatten();
    let lines: String = fields.map(|(name, value)| format!("{name} = {}{end}", format_line(value))).collect();
    Splice::insert(text.len(), format!("{gap}{header}{end}{lines}"))
}

/// Returns the line ends between the text and a table after it.
fn gap_before_table(text: &str) -> String {
    let end = line_end(text);
    match text {
        _ if is_blank(text) => String::new(),
        _ if !text.ends_with('\n') => format!("{end}{end}"),
        _ => end.to_owned(),
    }
}

/// Returns the splice that sets a property of the entry.
fn set(text: &str, entry: &Item<'_>, name: &str, value: &Value) -> Option<Splice> {
    let DeValue::Table(table) = entry.get_ref() else { return None };
    if let Some((_, item)) = get(table, name) {
        return Some(Splice::new(item.span(), format_line(value)));
    }
    let span = entry.span();
    if is_inline(text, &span) {
        let comma = if table.is_empty() { " " } else { "," };
        return Some(Splice::insert(span.start + 1, format!(" {name} = {}{comma}", format_line(value))));
    }
    // Below the header. An entry without a header has dotted keys, and already has one of the properties.
    let position = next_line(text, span.end);
    let end = line_end(text);
    let gap = if text[..position].ends_with('\n') { "" } else { end };
    Some(Splice::insert(position, format!("{gap}{name} = {}{end}", format_line(value))))
}

/// Returns the splices that remove the lines of an entry.
fn remove_lines(text: &str, entry: &Item<'_>) -> Vec<Splice> {
    let mut lines = Vec::new();
    collect_lines(text, entry, &mut lines);
    lines.sort_by_key(|line| line.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for line in lines {
        match joined.last_mut() {
            Some(last) if line.start <= last.end => last.end = last.end.max(line.end),
            _ => joined.push(line),
        }
    }
    joined.into_iter().map(|lines| Splice::new(without_gap(text, lines), "")).collect()
}

/// Collects the lines of a value: of a table with a header, from the header to its last value.
fn collect_lines(text: &str, item: &Item<'_>, lines: &mut Vec<Range<usize>>) {
    let span = item.span();
    let item_lines = line_start(text, span.start)..next_line(text, span.end);
    match item.get_ref() {
        DeValue::Table(table) if !is_inline(text, &span) => {
            let mut nested = Vec::new();
            table.iter().for_each(|(_, item)| collect_lines(text, item, &mut nested));
            if text[span].starts_with('[') {
                // Comments between the values of the table belong to the table. Subtables have their own headers, and
                // may be anywhere.
                let direct = table.iter().filter(|(_, item)| !has_header(text, item));
                let end = direct.map(|(_, item)| next_line(text, last_end(item))).max().unwrap_or(item_lines.end);
                lines.push(item_lines.start..end.max(item_lines.end));
            }
            lines.extend(nested);
        }
        _ => lines.push(item_lines),
    }
}

/// Returns whether a value is a table with a header, or consists of such tables.
fn has_header(text: &str, item: &Item<'_>) -> bool {
    let span = item.span();
    match item.get_ref() {
        DeValue::Table(_) if is_inline(text, &span) => false,
        DeValue::Table(table) => text[span].starts_with('[') || table.iter().any(|(_, item)| has_header(text, item)),
        _ => false,
    }
}

/// Returns the end of the last part of an item.
fn last_end(item: &Item<'_>) -> usize {
    let nested_end = match item.get_ref() {
        DeValue::Table(table) => table.iter().map(|(_, item)| last_end(item)).max(),
        _ => None,
    };
    nested_end.unwrap_or(0).max(item.span().end)
}

/// Returns the lines, with the empty line before them if an empty line or the end follows.
fn without_gap(text: &str, lines: Range<usize>) -> Range<usize> {
    let previous_line = line_start(text, lines.start.saturating_sub(1));
    let gap_before = previous_line < lines.start && is_blank(&text[previous_line..lines.start]);
    let gap_after = is_blank(&text[lines.end..next_line(text, lines.end)]);
    if gap_before && gap_after { previous_line..lines.end } else { lines }
}

/// Returns the splice that removes an entry within braces, with one comma.
fn remove_from_line(text: &str, entry: Range<usize>, braces: &Range<usize>) -> Splice {
    let after = &text[entry.end..braces.end];
    let trimmed = after.trim_start();
    if trimmed.starts_with(',') {
        return Splice::new(entry.start..entry.end + (after.len() - trimmed.len()) + 1, "");
    }
    let before = text[braces.start..entry.start].trim_end();
    let start = if before.ends_with(',') { braces.start + before.len() - 1 } else { entry.start };
    Splice::new(start..entry.end, "")
}
