//! What definitions were when a run began.
//!
//! What a person approves is what they could read then: a definition that is another one by now is not executed. Digests are
//! kept, not copies: a run names what was changed and goes no further there. They go with the caller from a run to those below
//! it, and are written down with what a run needs to go on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steplatch_library::Signature;

/// The digests of the definitions that a run refers to when it begins, by name; nothing where a name had no meaning. A name that
/// is not here was not referred to, or came into being later as the value of a computed name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pins {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) workflows: BTreeMap<String, Option<Signature>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) nodes: BTreeMap<String, Option<Signature>>,
}

impl Pins {
    pub(crate) fn is_empty(&self) -> bool {
        self.workflows.is_empty() && self.nodes.is_empty()
    }

    /// Returns a digest of all of it; nothing where the run refers to nothing.
    pub(crate) fn signature(&self) -> Option<Signature> {
        let text = || serde_json::to_string(self).unwrap_or_default();
        (!self.is_empty()).then(|| Signature::of_text(&text()))
    }

    /// Returns a digest of it with the nodes that the run was given.
    pub(crate) fn signature_with(&self, nodes: &[Value]) -> Option<Signature> {
        let text = || serde_json::to_string(&(self, nodes)).unwrap_or_default();
        (!self.is_empty() || !nodes.is_empty()).then(|| Signature::of_text(&text()))
    }

    /// Whether a name was referred to and meant no workflow.
    pub(crate) fn has_no_workflow(&self, name: &str) -> bool {
        self.workflows.get(name) == Some(&None)
    }

    /// Checks what a name of a workflow means now.
    ///
    /// # Errors
    /// In a whole sentence, when it meant something else at the start of the run.
    pub(crate) fn check_workflow(&self, name: &str, now: &Signature) -> Result<(), String> {
        check("Workflow", &self.workflows, name, now)
    }

    /// Checks what a name of a node means now.
    ///
    /// # Errors
    /// In a whole sentence, when it meant something else at the start of the run.
    pub(crate) fn check_node(&self, id: &str, now: &Signature) -> Result<(), String> {
        check("Node", &self.nodes, id, now)
    }
}

fn check(what: &str, pinned: &BTreeMap<String, Option<Signature>>, name: &str, now: &Signature) -> Result<(), String> {
    let how = match pinned.get(name) {
        Some(Some(pinned)) if pinned != now => "was changed",
        Some(None) => "was added",
        Some(Some(_)) | None => return Ok(()),
    };
    Err(format!(
        "{what} '{name}' {how} after this run was started, and a run does only what it was started with. Start it again to use \
         the new definition"
    ))
}
