//! The meaning of definitions when a run began.
//!
//! A person approves what they could read at that time, so a definition that has changed since is not executed.
//! Digests are kept, not copies: a run reports the changed definition and stops there. They are passed with the caller
//! from a run to those below it, and are stored with what a run needs to continue.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steplatch_library::Signature;

/// What a name of a definition refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionKind {
    /// A workflow of any kind.
    Workflow,
    /// A node or a graph.
    Node,
}

impl fmt::Display for DefinitionKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Workflow => "Workflow",
            Self::Node => "Node",
        })
    }
}

/// Why a run does not execute a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// The name meant another definition at the start of the run.
    #[error(
        "{kind} '{name}' was changed after this run was started, and a run executes only what it was started with. Start it again \
         to use the new definition"
    )]
    Changed {
        /// What the name refers to.
        kind: DefinitionKind,
        /// The name.
        name: String,
    },
    /// The name meant nothing at the start of the run.
    #[error(
        "{kind} '{name}' was added after this run was started, and a run executes only what it was started with. Start it again \
         to use the new definition"
    )]
    Added {
        /// What the name refers to.
        kind: DefinitionKind,
        /// The name.
        name: String,
    },
    /// No definition of the run refers to the name.
    #[error(
        "{kind} '{name}' did not exist when this run was started, or is in no definition that the run was started with; a run \
         executes only these. Name it there, in run_workflow(\"{name}\") or the parameters of the state"
    )]
    NotReferred {
        /// What the name refers to.
        kind: DefinitionKind,
        /// The name.
        name: String,
    },
}

/// The meaning, at the start of a run, of the definitions that it refers to. Only these are executed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// The digests of what names of workflows meant; `None` for a name that meant none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workflows: BTreeMap<String, Option<Signature>>,
    /// Those of nodes and graphs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, Option<Signature>>,
    /// The digests of definitions nested in these. They may be saved, and be run by name after that.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub inner: BTreeSet<Signature>,
}

impl Pins {
    /// Whether the run refers to nothing.
    fn is_empty(&self) -> bool {
        self.workflows.is_empty() && self.nodes.is_empty()
    }

    /// Returns a digest of all of it; nothing where the run refers to nothing.
    pub fn signature(&self) -> Option<Signature> {
        let text = || serde_json::to_string(self).unwrap_or_default();
        (!self.is_empty()).then(|| Signature::of_text(&text()))
    }

    /// Returns a digest of it with the nodes that the run was given.
    pub fn signature_with(&self, nodes: &[Value]) -> Option<Signature> {
        let text = || serde_json::to_string(&(self, nodes)).unwrap_or_default();
        (!self.is_empty() || !nodes.is_empty()).then(|| Signature::of_text(&text()))
    }

    /// Whether a name was referred to and meant no workflow.
    pub fn has_no_workflow(&self, name: &str) -> bool {
        self.workflows.get(name) == Some(&None)
    }

    /// Whether a node with this name existed.
    pub fn has_node(&self, id: &str) -> bool {
        self.nodes.get(id).is_some_and(Option::is_some)
    }

    /// Checks that a name of a workflow still means the same.
    ///
    /// # Errors
    ///
    /// When it meant something else at the start of the run, or was not referred to.
    pub fn check_workflow(&self, name: &str, now: &Signature) -> Result<(), PinError> {
        if self.inner.contains(now) { Ok(()) } else { check(DefinitionKind::Workflow, &self.workflows, name, now) }
    }

    /// Checks that a name of a node still means the same.
    ///
    /// # Errors
    ///
    /// When it meant something else at the start of the run, or was not referred to.
    pub fn check_node(&self, id: &str, now: &Signature) -> Result<(), PinError> {
        check(DefinitionKind::Node, &self.nodes, id, now)
    }
}

fn check(
    kind: DefinitionKind,
    pinned: &BTreeMap<String, Option<Signature>>,
    name: &str,
    now: &Signature,
) -> Result<(), PinError> {
    let name = name.to_owned();
    match pinned.get(&name) {
        Some(Some(pinned)) if pinned == now => Ok(()),
        Some(Some(_)) => Err(PinError::Changed { kind, name }),
        Some(None) => Err(PinError::Added { kind, name }),
        None => Err(PinError::NotReferred { kind, name }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_there_at_the_start_is_executed() {
        let digest = Signature::of_text;
        let workflows = [("same".to_owned(), Some(digest("1"))), ("absent".to_owned(), None)].into();
        let pins = Pins { workflows, inner: [digest("inner")].into(), ..Pins::default() };
        let told = |name: &str, now: &str| {
            pins.check_workflow(name, &digest(now)).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(told("same", "1"), "");
        assert!(told("same", "2").starts_with("Workflow 'same' was changed after this run was started"));
        assert!(told("absent", "2").starts_with("Workflow 'absent' was added after this run was started"));
        assert!(told("unnamed", "2").contains("is in no definition that the run was started with"));
        assert_eq!(told("saved", "inner"), "", "it was a part of a definition, and may have been saved");
    }
}
