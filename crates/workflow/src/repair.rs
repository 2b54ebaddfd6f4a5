//! Repairs of a machine: a patch to its document, and what the patch weakens.
//!
//! A JSON Patch (RFC 6902) may repair a run that stopped at a screen that its machine does not know. The patched
//! machine has to be valid, and [`weakenings`] names everything in it that a person should look at twice.

mod alternatives;
mod legible;
pub(crate) mod paths;
mod proposal;
mod unchecked;
mod weakening;

use serde_json::Value;

use crate::definition::{Definition, MAX_DOCUMENT_BYTES, Problems, ToolCatalog};
pub use proposal::{ACCEPT_AND_ASK, DECLINE, Proposal};
pub use weakening::{Weakening, weakenings};

/// Maximum number of bytes of a patch.
const MAX_PATCH_BYTES: usize = 64 * 1024;

/// Maximum number of operations of a patch.
const MAX_OPERATIONS: usize = 200;

/// Maximum depth of a document, as the reader of JSON has it.
const MAX_DOCUMENT_DEPTH: usize = 127;

/// Reason for refusing a patch.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PatchError {
    /// It is no JSON Patch.
    #[error(
        "this is no JSON Patch (RFC 6902), a list such as [{{\"op\": \"replace\", \"path\": \"/states/NAME/…\", \"value\": …}}]: {0}"
    )]
    NotAPatch(String),
    /// It is too long.
    #[error("a patch has at most {MAX_OPERATIONS} operations and {MAX_PATCH_BYTES} bytes")]
    TooLong,
    /// One of its operations does not fit the workflow.
    #[error("the patch does not fit the workflow: {0}")]
    DoesNotFit(String),
    /// The document grows beyond the limit for reading.
    #[error("the patch makes a workflow of more than {MAX_DOCUMENT_BYTES} bytes or {MAX_DOCUMENT_DEPTH} levels")]
    TooLarge,
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
    /// The patch would show a secret.
    #[error("the patch makes the secret argument '{0}' one that is shown; a repair cannot")]
    SecretShown(String),
    /// The state that the run waits in is gone.
    #[error("the run waits in state '{0}', which the patch takes away")]
    StateGone(String),
}

/// Returns a document with the operations of a patch applied. A copy may double the document, so this checks its size
/// and depth behind each operation.
fn applied(document: &Value, operations: &json_patch::Patch) -> Result<Value, PatchError> {
    let mut document = document.clone();
    for operation in &operations.0 {
        let one = std::slice::from_ref(operation);
        json_patch::patch(&mut document, one).map_err(|error| PatchError::DoesNotFit(error.to_string()))?;
        if !is_within_bounds(&document) {
            // Takes a document that is too deep apart level by level: its destructor is recursive.
            let mut open = vec![document];
            while let Some(value) = open.pop() {
                match value {
                    Value::Array(items) => open.extend(items),
                    Value::Object(fields) => open.extend(fields.into_iter().map(|(_, value)| value)),
                    _ => {}
                }
            }
            return Err(PatchError::TooLarge);
        }
    }
    Ok(document)
}

/// Returns whether a document stays within the length and depth of documents in files, by its values and texts.
fn is_within_bounds(document: &Value) -> bool {
    let (mut bytes, mut open) = (0, vec![(document, 1)]);
    while let Some((value, depth)) = open.pop() {
        if depth > MAX_DOCUMENT_DEPTH || bytes > MAX_DOCUMENT_BYTES {
            return false;
        }
        bytes += 1;
        match value {
            Value::String(text) => bytes += text.len(),
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => {
                bytes += fields.keys().map(String::len).sum::<usize>();
                open.extend(fields.values().map(|value| (value, depth + 1)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    bytes <= MAX_DOCUMENT_BYTES
}

/// Returns a machine with a patch applied, for a run that waits in `state`.
///
/// # Errors
/// If the patch is malformed or does not fit, or its machine is invalid or cannot continue the run.
pub fn patched(
    definition: &Definition,
    state: &str,
    patch: &Value,
    tools: &dyn ToolCatalog,
) -> Result<Definition, PatchError> {
    if patch.as_array().is_some_and(|operations| operations.len() > MAX_OPERATIONS)
        || patch.to_string().len() > MAX_PATCH_BYTES
    {
        return Err(PatchError::TooLong);
    }
    let operations: json_patch::Patch =
        serde_json::from_value(patch.clone()).map_err(|error| PatchError::NotAPatch(error.to_string()))?;
    let document = applied(definition.document(), &operations)?;
    if legible::is_same(Some(&document), Some(definition.document())) {
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
