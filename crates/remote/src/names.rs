//! Names of the workflows' tools. Clients and models remember these names.
//!
//! A name comes from a workflow's title and, if needed, its id. A workflow keeps its name while its title is unchanged,
//! even if other workflows appear or disappear.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use crate::entry::to_hexadecimal;

/// Prefix of all names.
pub const PREFIX: &str = "workflow_";
/// Maximum length of a name.
const MAX_NAME_CHARS: usize = 64;
/// Length of the shortest suffix. The length of each suffix is a multiple of this length.
const MIN_SUFFIX_CHARS: usize = 8;

/// A workflow, identified among the workflows of all services.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Name of the service.
    pub remote: String,
    /// Id of the workflow at the service.
    pub id: String,
}

impl Key {
    /// Creates the key of a workflow.
    #[must_use]
    pub fn new(remote: impl Into<String>, id: impl Into<String>) -> Self {
        Self { remote: remote.into(), id: id.into() }
    }
}

/// Returns a title as part of a name: lower case, only `[a-z0-9_]`, without consecutive, leading or trailing `_`. The
/// result may be empty.
#[must_use]
pub fn slug(title: &str) -> String {
    let mut slug = String::new();
    for character in title.chars().flat_map(char::to_lowercase) {
        if character.is_ascii_alphanumeric() {
            slug.push(character);
        } else if !slug.is_empty() && !slug.ends_with('_') {
            slug.push('_');
        }
    }
    slug.truncate(slug.trim_end_matches('_').len());
    slug
}

/// Assigns a name to each of the entries (a workflow and its title).
///
/// - A workflow in `known` keeps its name as long as its title still results in that name; a changed title results in a
///   new name.
/// - No other workflow receives a name in `known`, even while its owner is not among the entries.
/// - No workflow receives a name in `taken`. That list takes precedence over `known`, so it must not contain names that
///   yield to a workflow that has them already.
/// - The title of only one entry results in a name without a suffix. All other names have a suffix derived from the id.
///
/// The names are unique, `[a-z0-9_]`, at most 64 characters, and depend only on the set of entries, not on their order.
/// Of several entries with the same key, the entry whose title sorts first is used.
#[must_use]
pub fn assign<'a>(
    known: &BTreeMap<Key, String>,
    taken: &BTreeSet<String>,
    entries: impl IntoIterator<Item = (Key, &'a str)>,
) -> BTreeMap<Key, String> {
    let mut bases: BTreeMap<Key, String> = BTreeMap::new();
    let mut sorted: Vec<(Key, &str)> = entries.into_iter().collect();
    sorted.sort_unstable();
    for (key, title) in sorted {
        bases.entry(key).or_insert_with(|| slug(title));
    }
    let mut base_counts: BTreeMap<&str, usize> = BTreeMap::new();
    for base in bases.values() {
        *base_counts.entry(base).or_default() += 1;
    }

    let mut used = taken.clone();
    let mut assigned = BTreeMap::new();
    for (key, base) in &bases {
        let Some(name) = known.get(key) else { continue };
        // If `known` has one name for two workflows, the first workflow keeps it.
        if may_have_name(name, key, base) && used.insert(name.clone()) {
            assigned.insert(key.clone(), name.clone());
        }
    }
    used.extend(known.values().cloned());
    for (key, base) in &bases {
        if assigned.contains_key(key) || base.is_empty() || base_counts[base.as_str()] > 1 {
            continue;
        }
        let name = unsuffixed_name(base, MAX_NAME_CHARS);
        if used.insert(name.clone()) {
            assigned.insert(key.clone(), name);
        }
    }
    for (key, base) in &bases {
        if !assigned.contains_key(key) {
            let name = suffixed_names(key, base).find(|name| used.insert(name.clone()));
            assigned.insert(key.clone(), name.expect("the series of names is endless"));
        }
    }
    assigned
}

/// Returns whether this name is possible for a workflow with this title.
fn may_have_name(name: &str, key: &Key, base: &str) -> bool {
    const MAX_TRIED_SUFFIXES: usize = 16;
    (!base.is_empty() && name == unsuffixed_name(base, MAX_NAME_CHARS))
        || suffixed_names(key, base).take(MAX_TRIED_SUFFIXES).any(|possible| possible == name)
}

/// Returns the name for a slug, in at most `max_chars` characters.
fn unsuffixed_name(base: &str, max_chars: usize) -> String {
    let name = format!("{PREFIX}{base}");
    name[..name.len().min(max_chars)].trim_end_matches('_').to_owned()
}

/// Returns an endless series of names with suffixes of increasing length, up to the maximum, because other workflows
/// may have the earlier names.
fn suffixed_names(key: &Key, base: &str) -> impl Iterator<Item = String> {
    let max_suffix_units = (MAX_NAME_CHARS - PREFIX.len()) / MIN_SUFFIX_CHARS;
    (0_usize..).map(move |index| {
        // No name of a service contains a zero byte, so two different keys never give the same text.
        let Key { remote, id } = key;
        let hash = match index.checked_sub(max_suffix_units) {
            None => Sha256::digest(format!("{remote}\0{id}")),
            Some(round) => Sha256::digest(format!("{remote}\0{id}\0{round}")),
        };
        let suffix = &to_hexadecimal(&hash)[..(index + 1).min(max_suffix_units) * MIN_SUFFIX_CHARS];
        format!("{}_{suffix}", unsuffixed_name(base, MAX_NAME_CHARS - suffix.len() - 1))
    })
}

#[cfg(test)]
mod tests;
