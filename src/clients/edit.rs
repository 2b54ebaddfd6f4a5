//! What becomes of a configuration, decided before anything is written.

use serde_json::{Value, json};

use super::entry::{Found, NAME, Ours};
use super::json::{self, Change};
use super::text::Unreadable;
use super::{Format, Surroundings, toml};

/// What somebody wants of a configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wish<'a> {
    /// That it starts this program.
    Have(&'a Ours),
    /// That it has no entry of ours.
    Lack,
}

/// What was done, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There was none, and now there is.
    Added,
    /// It said something else.
    Changed {
        /// What it said.
        before: String,
    },
    /// It says so already.
    Kept,
    /// It connects over HTTP, which somebody chose.
    KeptUrl(String),
    /// There was one, and now there is none.
    Removed,
    /// There was none.
    Absent,
}

/// Returns what `wish` comes to and the text that it needs, for the text of a file or none.
///
/// # Errors
/// When the text is not what the client reads, or can not be changed without changing something else.
pub(crate) fn edited(
    format: Format,
    text: &str,
    wish: Wish<'_>,
    around: &Surroundings,
) -> Result<(Outcome, String), Unreadable> {
    // What some editors put before everything is no part of it.
    let (mark, text) = match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    };
    let entry;
    let differences;
    let (outcome, change) = match (wish, find_in(format, text)?) {
        (Wish::Lack, None) => (Outcome::Absent, None),
        (Wish::Lack, Some(_)) => (Outcome::Removed, Some(Change::Remove)),
        (Wish::Have(ours), None) => {
            entry = ours.entry(format);
            (Outcome::Added, Some(Change::Add(&entry)))
        }
        (Wish::Have(_), Some(Found { command: None, url: Some(url), .. })) => (Outcome::KeptUrl(url), None),
        (Wish::Have(ours), Some(found)) => {
            differences = found.differences(ours, around);
            match differences.is_empty() {
                true => (Outcome::Kept, None),
                false => (Outcome::Changed { before: found.told() }, Some(Change::Set(&differences))),
            }
        }
    };
    let Some(change) = change else { return Ok((outcome, format!("{mark}{text}"))) };
    let new = match format {
        Format::Json(shape) => json::change(text, shape, change)?,
        Format::Toml => toml::change(text, change)?,
    };
    // The change was made in the text; that it is the one that was meant, and no other, is seen in the values.
    let meant = meant(format, value(format, text)?, change);
    if value(format, &new).is_ok_and(|value| is_same(format, value, meant)) {
        return Ok((outcome, format!("{mark}{new}")));
    }
    Err(Unreadable::whole(format!(
        "the entry '{NAME}' can not be changed by itself in what is written there; do it by hand"
    )))
}

/// Returns our entry in the text of a file, if there is one.
///
/// # Errors
/// When the text is not what the client reads.
pub(crate) fn found(format: Format, text: &str) -> Result<Option<Found>, Unreadable> {
    find_in(format, text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn find_in(format: Format, text: &str) -> Result<Option<Found>, Unreadable> {
    match format {
        Format::Json(shape) => json::find(text, shape),
        Format::Toml => toml::find(text),
    }
}

fn value(format: Format, text: &str) -> Result<Value, Unreadable> {
    match format {
        Format::Json(shape) => Ok(json::value(text, shape)?.unwrap_or_else(|| json!({}))),
        Format::Toml => toml::value(text),
    }
}

/// Whether two documents say the same of their servers, and of all else.
fn is_same(format: Format, mut one: Value, mut other: Value) -> bool {
    if matches!(format, Format::Toml) {
        // A table that is made of headers is there as long as something is in it.
        for document in [&mut one, &mut other] {
            if document[toml::SERVERS].as_object().is_some_and(serde_json::Map::is_empty) {
                document.as_object_mut().map(|document| document.shift_remove(toml::SERVERS));
            }
        }
    }
    one == other
}

/// The value that a document has after a change.
fn meant(format: Format, mut document: Value, change: Change<'_>) -> Value {
    let servers = match format {
        Format::Json(shape) => shape.servers,
        Format::Toml => toml::SERVERS,
    };
    match change {
        Change::Add(entry) => document[servers][NAME] = entry.clone(),
        Change::Set(properties) => {
            for (name, value) in properties {
                document[servers][NAME][*name] = value.clone();
            }
        }
        Change::Remove => {
            document[servers].as_object_mut().map(|servers| servers.shift_remove(NAME));
        }
    }
    document
}
