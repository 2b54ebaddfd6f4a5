//! The names of tools, which clients and models remember.
//!
//! A name comes from a workflow's title and, if needed, its id. A workflow keeps its name while its title is unchanged,
//! whatever other workflows appear or disappear.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use crate::entry::hexadecimal;

/// The prefix of all names.
pub const PREFIX: &str = "workflow_";
/// Maximum length of a name.
const MAX_NAME_CHARS: usize = 64;
/// Characters of a suffix; a multiple of it where another name has that.
const SUFFIX: usize = 8;

/// A workflow, among all of all services.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The service.
    pub remote: String,
    /// Its id there.
    pub id: String,
}

impl Key {
    /// Returns the key of this workflow of this service.
    #[must_use]
    pub fn new(remote: impl Into<String>, id: impl Into<String>) -> Self {
        Self { remote: remote.into(), id: id.into() }
    }
}

/// Returns the part of a name that a title gives: lower case, `[a-z0-9_]`, runs of `_` collapsed, none at either end. May be
/// empty.
#[must_use]
pub fn slug(title: &str) -> String {
    let mut slug = String::new();
    for letter in title.chars().flat_map(char::to_lowercase) {
        if letter.is_ascii_alphanumeric() {
            slug.push(letter);
        } else if !slug.is_empty() && !slug.ends_with('_') {
            slug.push('_');
        }
    }
    slug.truncate(slug.trim_end_matches('_').len());
    slug
}

/// Assigns a name to each of the entries (a workflow and its title).
///
/// - A workflow in `known` keeps its name as long as its title still gives it; a changed title gives a new name.
/// - No other workflow receives a name in `known`, even while its owner is not among the entries.
/// - No workflow receives a name in `taken`. It takes precedence over `known`, so it must not contain names that yield
///   to a workflow that has them already.
/// - A title that only one entry has gives the name without a suffix. All others get a suffix from their ids.
///
/// The names are unique, `[a-z0-9_]`, at most 64 characters, and depend on the set of entries only, not on their order.
/// Of entries with the same key the first by title counts.
#[must_use]
pub fn assign<'a>(
    known: &BTreeMap<Key, String>,
    taken: &BTreeSet<String>,
    entries: impl IntoIterator<Item = (Key, &'a str)>,
) -> BTreeMap<Key, String> {
    let mut bases: BTreeMap<Key, String> = BTreeMap::new();
    let mut all: Vec<(Key, &str)> = entries.into_iter().collect();
    all.sort_unstable();
    for (key, title) in all {
        bases.entry(key).or_insert_with(|| slug(title));
    }
    let mut claims: BTreeMap<&str, usize> = BTreeMap::new();
    for base in bases.values() {
        *claims.entry(base).or_default() += 1;
    }

    let mut used = taken.clone();
    let mut given = BTreeMap::new();
    for (key, base) in &bases {
        let Some(name) = known.get(key) else { continue };
        // If the record has two workflows with one name, the first keeps it.
        if could_be(name, key, base) && used.insert(name.clone()) {
            given.insert(key.clone(), name.clone());
        }
    }
    used.extend(known.values().cloned());
    for (key, base) in &bases {
        if given.contains_key(key) || base.is_empty() || claims[base.as_str()] > 1 {
            continue;
        }
        let name = plain(base, MAX_NAME_CHARS);
        if used.insert(name.clone()) {
            given.insert(key.clone(), name);
        }
    }
    for (key, base) in &bases {
        if !given.contains_key(key) {
            let name = suffixed(key, base).find(|name| used.insert(name.clone()));
            given.insert(key.clone(), name.expect("there are suffixes without end"));
        }
    }
    given
}

/// Returns whether this name is possible for a workflow with this title.
fn could_be(name: &str, key: &Key, base: &str) -> bool {
    const TRIED: usize = 16;
    (!base.is_empty() && name == plain(base, MAX_NAME_CHARS))
        || suffixed(key, base).take(TRIED).any(|suffixed| suffixed == name)
}

/// The name that a slug gives, in at most `room` characters.
fn plain(base: &str, room: usize) -> String {
    let name = format!("{PREFIX}{base}");
    name[..name.len().min(room)].trim_end_matches('_').to_owned()
}

/// Names with a suffix: longer and longer ones, then others without end, for when other workflows have the earlier
/// ones.
fn suffixed(key: &Key, base: &str) -> impl Iterator<Item = String> {
    let max_suffix = (MAX_NAME_CHARS - PREFIX.len()) / SUFFIX;
    (0_usize..).map(move |number| {
        // No name of a service contains a zero byte, so two different keys never give the same text.
        let Key { remote, id } = key;
        let hash = match number.checked_sub(max_suffix) {
            None => Sha256::digest(format!("{remote}\0{id}")),
            Some(more) => Sha256::digest(format!("{remote}\0{id}\0{more}")),
        };
        let suffix = &hexadecimal(&hash)[..(number + 1).min(max_suffix) * SUFFIX];
        format!("{}_{suffix}", plain(base, MAX_NAME_CHARS - suffix.len() - 1))
    })
}

#[cfg(test)]
mod tests;
