//! Cache of the definitions of machines in progress: each definition is in memory only once.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use steplatch_library::Signature;
use steplatch_workflow::Definition;

/// Definitions by the digest of their documents, including the order of keys, because reports show that order. Holds
/// only weak references.
#[derive(Debug, Default)]
pub(crate) struct DefinitionCache(Mutex<DefinitionIndex>);

#[derive(Debug, Default)]
struct DefinitionIndex {
    by_digest: HashMap<Signature, Weak<Definition>>,
    /// Maximum number of entries before the cache removes entries whose definitions were dropped.
    sweep_threshold: usize,
}

/// Minimum number of entries before a sweep.
const MIN_SWEEP_THRESHOLD: usize = 64;

impl DefinitionCache {
    /// Returns the definition of a machine in progress with the same document, or else `definition`.
    pub(crate) fn share(&self, definition: Definition) -> Arc<Definition> {
        let definition = Arc::new(definition);
        let digest = Signature::of_text(&definition.document().to_string());
        let mut index = self.0.lock();
        if let Some(same) = index.by_digest.get(&digest).and_then(Weak::upgrade) {
            return same;
        }
        index.by_digest.insert(digest, Arc::downgrade(&definition));
        if index.by_digest.len() > index.sweep_threshold.max(MIN_SWEEP_THRESHOLD) {
            index.by_digest.retain(|_, definition| definition.strong_count() > 0);
            index.sweep_threshold = 2 * index.by_digest.len();
        }
        definition
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steplatch_sessions::TerminalTools;

    use super::*;

    fn sleeping(name: &str) -> Definition {
        let document = json!({"name": name, "initial_state": "a",
                              "states": {"a": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}});
        parse(&document)
    }

    fn parse(document: &Value) -> Definition {
        Definition::parse(document, &TerminalTools).unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn concurrent_runs_of_one_document_share_its_definition() {
        let cache = DefinitionCache::default();
        let first = cache.share(sleeping("one"));
        assert!(Arc::ptr_eq(&first, &cache.share(sleeping("one"))));
        assert!(!Arc::ptr_eq(&first, &cache.share(sleeping("two"))));
        let dropped = Arc::downgrade(&first);
        drop(first);
        assert!(dropped.upgrade().is_none(), "the cache holds only weak references");
        cache.share(sleeping("one"));
    }

    #[test]
    fn differently_displayed_documents_are_not_shared() {
        let cache = DefinitionCache::default();
        let (one, other) = (
            r#"{"initial_state":"a","states":{"a":{"action":{"tool":"sleep","params":{"seconds":0}}}}}"#,
            r#"{"states":{"a":{"action":{"params":{"seconds":0},"tool":"sleep"}}},"initial_state":"a"}"#,
        );
        let [one, other] = [one, other].map(|text| parse(&serde_json::from_str(text).unwrap_or_default()));
        assert_eq!(Signature::of_value(one.document()), Signature::of_value(other.document()));
        let one = cache.share(one);
        assert!(!Arc::ptr_eq(&one, &cache.share(other)));
    }

    #[test]
    fn dropped_definitions_leave_the_cache() {
        let cache = DefinitionCache::default();
        let live_definition = cache.share(sleeping("kept"));
        (0..1000).for_each(|number| drop(cache.share(sleeping(&format!("w{number}")))));
        assert!(cache.0.lock().by_digest.len() <= 2 * MIN_SWEEP_THRESHOLD);
        assert!(Arc::ptr_eq(&live_definition, &cache.share(sleeping("kept"))));
    }
}
