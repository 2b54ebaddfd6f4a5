//! A proposed patch of a run's machine, with the information for the person who decides.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Weakening;
use super::legible::value_text;
use crate::decide::continuation_choices;
use crate::definition::Definition;
use crate::event::{Choice, shared};
use crate::gateless::GatelessNames;

/// The answer that accepts the patch. The run then asks again where it continues.
pub const ACCEPT_AND_ASK: &str = "accept, then ask where the run goes on";

/// The answer that leaves the machine unchanged.
pub const DECLINE: &str = "decline";

/// A checked patch to the machine of a run that stopped at a screen which the machine does not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// The state that the run waits in.
    pub state: String,
    /// The whole document with the patch applied.
    #[serde(with = "shared")]
    pub definition: Arc<Value>,
    /// The patch (RFC 6902).
    pub patch: Value,
    /// The author's reason for the patch.
    pub reason: String,
    /// Author of the proposal.
    pub by: String,
    /// The changed lines of the document.
    pub difference: String,
    /// Weakenings by the patch, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weakens: Vec<String>,
    /// The completed checks, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checked: Vec<String>,
    /// The answers that accept the patch and continue the run in a state.
    pub choices: Vec<Choice>,
}

impl Proposal {
    /// Creates a proposal from a machine that [`super::patched`] returned, for a run that waits in `state`.
    /// `difference` has the changed lines, and `checked` the completed checks.
    #[must_use]
    pub fn new(
        patched: &Definition,
        state: &str,
        patch: Value,
        (reason, by): (String, String),
        difference: String,
        (weakens, checked): (&[Weakening], Vec<String>),
    ) -> Self {
        // A person answers, so no name needs to be gateless.
        let choices = patched.state(state).map(|state| continuation_choices(patched, state, &GatelessNames::default()));
        let own_choices = choices.unwrap_or_default().into_iter().take(2);
        let to_accepting_choice =
            |choice: Choice| Choice { description: format!("accept, and {}", choice.description), ..choice };
        Self {
            state: state.to_owned(),
            definition: patched.shared_document(),
            patch,
            reason,
            by,
            difference,
            weakens: weakens.iter().map(ToString::to_string).collect(),
            checked,
            choices: own_choices.map(to_accepting_choice).collect(),
        }
    }

    /// Returns whether an answer accepts the patch.
    #[must_use]
    pub fn is_accepted_by(&self, answer: &str) -> bool {
        answer == ACCEPT_AND_ASK || self.choices.iter().any(|choice| choice.description == answer)
    }

    /// Returns the question.
    #[must_use]
    pub fn prompt(&self) -> String {
        let weakens = match &self.weakens[..] {
            [] => String::new(),
            [only] => format!(" It weakens the workflow: {only}."),
            several => format!(" It weakens the workflow in {} ways: {}.", several.len(), several.join("; ")),
        };
        let Self { state, reason, by, .. } = self;
        // Quote the reason, so that it cannot look like a part of the question.
        let reason = value_text(&Value::from(reason.as_str()));
        format!(
            "{by} proposes a patch of the workflow in state '{state}', with the reason {reason}.{weakens} Is it accepted?"
        )
    }

    /// Returns the possible answers.
    pub fn answers(&self) -> impl Iterator<Item = &str> {
        self.choices.iter().map(|choice| choice.description.as_str()).chain([ACCEPT_AND_ASK, DECLINE])
    }

    /// Returns the context of the gate, without the screen.
    #[must_use]
    pub fn context(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        add("reason", self.reason.as_str().into());
        add("proposed_by", self.by.as_str().into());
        add("difference", self.difference.as_str().into());
        if !self.weakens.is_empty() {
            add("weakens", self.weakens.join("\n").into());
        }
        add("checked", self.checked.join("\n").into());
        fields
    }
}
