//! The edit of a configuration, computed before any write.

use serde_json::{Value, json};

use super::entry::{FoundEntry, NAME, OwnEntry};
use super::json::{self, Change, Place};
use super::text::{Unreadable, split_mark};
use super::{Format, UserPaths, toml, yaml};

/// The desired state of a configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EditRequest<'a> {
    /// An entry that starts this program.
    Have(&'a OwnEntry),
    /// No steplatch entry.
    Lack,
}

/// The outcome, of a real or a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The file has a new entry.
    Added,
    /// The entry has changed.
    Changed {
        /// The previous entry.
        previous: String,
    },
    /// The entry was correct already.
    Kept,
    /// The entry connects over HTTP, by choice of the user.
    KeptUrl(String),
    /// The entry was removed.
    Removed,
    /// There was no entry.
    Absent,
}

/// Returns the outcome of `request` and the new text, for the text of a file.
///
/// # Errors
/// If the client could not read the text, or the change would affect other parts.
pub(crate) fn edit_text(
    format: Format,
    text: &str,
    request: EditRequest<'_>,
    user_paths: &UserPaths,
) -> Result<(Outcome, String), Unreadable> {
    let (mark, text) = split_mark(text);
    let mut text = text.to_owned();
    let mut total = None;
    for location in locations(format, &text)? {
        let (outcome, new_text) = edit_location(format, location, &text, request, user_paths)?;
        text = new_text;
        total = Some(total.filter(|total| *total != Outcome::Kept).unwrap_or(outcome));
    }
    Ok((total.unwrap_or(Outcome::Absent), format!("{mark}{text}")))
}

/// A table or object that contains servers.
#[derive(Debug, Clone, Copy)]
enum Location {
    Json(Place),
    Toml,
    Yaml,
}

/// Returns the locations of entries, or the location of a new entry.
fn locations(format: Format, text: &str) -> Result<Vec<Location>, Unreadable> {
    match format {
        Format::Json(shape) => Ok(json::places(text, shape)?.into_iter().map(Location::Json).collect()),
        Format::Toml => Ok(vec![Location::Toml]),
        Format::Yaml => Ok(vec![Location::Yaml]),
    }
}

/// Performs the request in one location.
fn edit_location(
    format: Format,
    location: Location,
    text: &str,
    request: EditRequest<'_>,
    user_paths: &UserPaths,
) -> Result<(Outcome, String), Unreadable> {
    let entry;
    let differences;
    let (outcome, change) = match (request, find_in(location, text)?) {
        (EditRequest::Lack, None) => (Outcome::Absent, None),
        (EditRequest::Lack, Some(_)) => (Outcome::Removed, Some(Change::Remove)),
        (EditRequest::Have(own_entry), None) => {
            entry = own_entry.entry(format);
            (Outcome::Added, Some(Change::Add(&entry)))
        }
        (EditRequest::Have(_), Some(FoundEntry { command: None, url: Some(url), .. })) => (Outcome::KeptUrl(url), None),
        (EditRequest::Have(own_entry), Some(found)) => {
            differences = found.differences(format, own_entry, user_paths);
            match differences.is_empty() {
                true => (Outcome::Kept, None),
                false => (Outcome::Changed { previous: found.describe() }, Some(Change::Set(&differences))),
            }
        }
    };
    let Some(change) = change else { return Ok((outcome, text.to_owned())) };
    let new_text = match location {
        Location::Json(place) => json::change(text, place, change)?,
        Location::Toml => toml::change(text, change)?,
        Location::Yaml => yaml::change(text, change)?,
    };
    // The comparison of the values proves that the edit made the intended change and no other.
    let expected = apply_change(location, value(format, text)?, change);
    if value(format, &new_text).is_ok_and(|value| is_same(format, value, expected)) {
        return Ok((outcome, new_text));
    }
    Err(Unreadable::without_place(format!(
        "the entry '{NAME}' cannot be changed without other changes of the file; edit it by hand"
    )))
}

/// Returns whether text contains nothing but an empty list of servers, as after removing the only entry of a file.
pub(crate) fn is_blank(format: Format, text: &str) -> bool {
    let text: String = text.split_whitespace().collect();
    match format {
        Format::Json(shape) => {
            let is_list = |servers: &str| text == format!("{{\"{}\":{servers}}}", shape.servers);
            is_list("{}") || shape.newer.is_some_and(|newer| is_list(&format!("{{\"{newer}\":{{}}}}")))
        }
        Format::Toml => text.is_empty(),
        Format::Yaml => text == format!("{}:{{}}", yaml::SERVERS),
    }
}

/// Returns the steplatch entry in the text of a file, if there is one.
///
/// # Errors
/// If the client could not read the text.
pub(crate) fn find_entry(format: Format, text: &str) -> Result<Option<FoundEntry>, Unreadable> {
    let (_, text) = split_mark(text);
    locations(format, text)?.into_iter().find_map(|location| find_in(location, text).transpose()).transpose()
}

fn find_in(location: Location, text: &str) -> Result<Option<FoundEntry>, Unreadable> {
    match location {
        Location::Json(place) => json::find(text, place),
        Location::Toml => toml::find(text),
        Location::Yaml => yaml::find(text),
    }
}

fn value(format: Format, text: &str) -> Result<Value, Unreadable> {
    match format {
        Format::Json(shape) => Ok(json::value(text, shape.strict)?.unwrap_or_else(|| json!({}))),
        Format::Toml => toml::value(text),
        Format::Yaml => yaml::value(text),
    }
}

/// Returns whether two documents are equal in their servers and in everything else.
fn is_same(format: Format, mut first: Value, mut second: Value) -> bool {
    if matches!(format, Format::Toml) {
        // A table made of headers exists as long as it has content.
        for document in [&mut first, &mut second] {
            if document[toml::SERVERS].as_object().is_some_and(serde_json::Map::is_empty) {
                document.as_object_mut().map(|document| document.shift_remove(toml::SERVERS));
            }
        }
    }
    first == second
}

/// Returns the value of a document after a change.
fn apply_change(location: Location, mut document: Value, change: Change<'_>) -> Value {
    let servers = match location {
        Location::Json(place) => place.path().fold(&mut document, |value, name| &mut value[name]),
        Location::Toml => &mut document[toml::SERVERS],
        Location::Yaml => &mut document[yaml::SERVERS],
    };
    match change {
        Change::Add(entry) => servers[NAME] = entry.clone(),
        Change::Set(properties) => {
            for (name, value) in properties {
                servers[NAME][*name] = value.clone();
            }
        }
        Change::Remove => {
            servers.as_object_mut().map(|servers| servers.shift_remove(NAME));
        }
    }
    document
}
