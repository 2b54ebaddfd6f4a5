//! Repairs of a machine: a patch to its document, and what the patch weakens.
//!
//! A run that stopped at a screen that its machine does not know may be repaired by a JSON Patch (RFC 6902). The patched
//! machine has to be valid, and everything in it that a person should look at twice is named by [`weakenings`].

mod alternatives;
mod paths;
mod proposal;
mod weakening;

use serde_json::Value;

use crate::definition::{Definition, Problems, ToolCatalog};
pub use proposal::{ACCEPT_AND_ASK, DECLINE, Proposal};
pub use weakening::{Weakening, weakenings};

/// The most bytes of a patch.
const LONGEST: usize = 64 * 1024;

/// The most operations of a patch.
const MOST_OPERATIONS: usize = 200;

/// Why a patch is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PatchError {
    /// It is no JSON Patch.
    #[error(
        "this is no JSON Patch (RFC 6902), a list such as [{{\"op\": \"replace\", \"path\": \"/states/NAME/…\", \"value\": …}}]: {0}"
    )]
    NotAPatch(String),
    /// It is too long.
    #[error("a patch has at most {MOST_OPERATIONS} operations and {LONGEST} bytes")]
    TooLong,
    /// One of its operations does not fit the workflow.
    #[error("the patch does not fit the workflow: {0}")]
    DoesNotFit(String),
    /// It changes nothing.
    #[error("the patch changes nothing")]
    Nothing,
    /// It changes the name: the repaired workflow would be another one.
    #[error("a patch keeps the name of the workflow; save the workflow under another name with create_workflow")]
    Name,
    /// The patched machine is not valid.
    #[error("the patched workflow is not valid:\n{0}")]
    Invalid(Problems),
    /// The run has no value for an argument.
    #[error("the patch adds the argument '{0}', which this run has no value for; give it a default")]
    NewArgument(String),
    /// A secret would be shown.
    #[error("the patch makes the secret argument '{0}' one that is shown; a repair can not")]
    SecretShown(String),
    /// The state that the run waits in is gone.
    #[error("the run waits in state '{0}', which the patch takes away")]
    StateGone(String),
}

/// Returns a machine with a patch applied, for a run that waits in `state`.
///
/// # Errors
/// When the patch is malformed, does not fit, or makes a machine that is not valid or that the run cannot go on with.
pub fn patched(
    definition: &Definition,
    state: &str,
    patch: &Value,
    tools: &dyn ToolCatalog,
) -> Result<Definition, PatchError> {
    if patch.as_array().is_some_and(|operations| operations.len() > MOST_OPERATIONS)
        || patch.to_string().len() > LONGEST
    {
        return Err(PatchError::TooLong);
    }
    let operations: json_patch::Patch =
        serde_json::from_value(patch.clone()).map_err(|error| PatchError::NotAPatch(error.to_string()))?;
    let mut document = definition.document().clone();
    json_patch::patch(&mut document, &operations).map_err(|error| PatchError::DoesNotFit(error.to_string()))?;
    if document == *definition.document() {
        return Err(PatchError::Nothing);
    }
    let patched = Definition::parse(&document, tools).map_err(PatchError::Invalid)?;
    if patched.name() != definition.name() {
        return Err(PatchError::Name);
    }
    if patched.state(state).is_none() {
        return Err(PatchError::StateGone(state.to_owned()));
    }
    for argument in patched.arguments() {
        let before = definition.arguments().iter().find(|known| known.name() == argument.name());
        match before {
            Some(before) if before.is_secret() && !argument.is_secret() => {
                return Err(PatchError::SecretShown(argument.name().to_owned()));
            }
            None if argument.default().is_none() => return Err(PatchError::NewArgument(argument.name().to_owned())),
            _ => {}
        }
    }
    Ok(patched)
}
