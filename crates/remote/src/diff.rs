//! The difference between two lists of a service.

use std::collections::BTreeMap;

use crate::entry::RemoteWorkflow;

/// Ids of workflows by kind of change, each list sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Ids of new workflows.
    pub added: Vec<String>,
    /// Ids of workflows with a changed title, description or schema.
    pub updated: Vec<String>,
    /// Ids of workflows that are no longer listed.
    pub removed: Vec<String>,
    /// Ids of workflows with the same hash.
    pub unchanged: Vec<String>,
}

impl Changes {
    /// Returns whether anything changed.
    #[must_use]
    pub fn is_any(&self) -> bool {
        !(self.added.is_empty() && self.updated.is_empty() && self.removed.is_empty())
    }
}

/// Compares two lists by ids and hashes.
#[must_use]
pub fn diff(old: &[RemoteWorkflow], new: &[RemoteWorkflow]) -> Changes {
    let by_id = |list: &'_ [RemoteWorkflow]| -> BTreeMap<String, String> {
        list.iter().map(|workflow| (workflow.id.clone(), workflow.hash.clone())).collect()
    };
    let (mut old, mut changes) = (by_id(old), Changes::default());
    for (id, hash) in by_id(new) {
        match old.remove(&id) {
            None => changes.added.push(id),
            Some(old_hash) if old_hash == hash => changes.unchanged.push(id),
            Some(_) => changes.updated.push(id),
        }
    }
    changes.removed.extend(old.into_keys());
    changes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(entries: &[(&str, &str)]) -> Vec<RemoteWorkflow> {
        let parse =
            |(id, description)| RemoteWorkflow::read(&json!({"id": id, "name": "x", "description": description}));
        entries.iter().map(|entry| parse(*entry).expect("an entry")).collect()
    }

    #[test]
    fn workflows_are_compared_by_id_in_any_order() {
        let old = list(&[("kept", "a"), ("gone", "a"), ("other", "a")]);
        let new = list(&[("new", "a"), ("other", "b"), ("kept", "a")]);
        let changes = diff(&old, &new);
        let reported =
            [&changes.added, &changes.updated, &changes.removed, &changes.unchanged].map(|ids| ids.join(" "));
        assert_eq!(reported, ["new", "other", "gone", "kept"]);
        assert!(changes.is_any() && !diff(&new, &new).is_any());
    }
}
