//! Repairs of a machine: a patch to its document, and the weakenings that the patch causes.
//!
//! A JSON Patch (RFC 6902) can repair a run that stopped at a screen unknown to its machine. The patched machine must
//! be valid, and [`weakenings`] lists the changes that a person should review.

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

/// Maximum depth of a document: the limit of the JSON parser.
const MAX_DOCUMENT_DEPTH: usize = 127;

/// Reason a patch is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PatchError {
    /// The patch is not a JSON Patch.
    #[error(
        "this is not a JSON Patch (RFC 6902), a list such as [{{\"op\": \"replace\", \"path\": \"/states/NAME/…\", \"value\": …}}]: {0}"
    )]
    NotAPatch(String),
    /// The patch is too long.
    #[error("a patch has at most {MAX_OPERATIONS} operations and {MAX_PATCH_BYTES} bytes")]
    TooLong,
    /// An operation of the patch does not fit the workflow.
    #[error("the patch does not fit the workflow: {0}")]
    DoesNotFit(String),
    /// The patched document exceeds the limits for reading.
    #[error("the patched workflow has more than {MAX_DOCUMENT_BYTES} bytes or {MAX_DOCUMENT_DEPTH} levels")]
    TooLarge,
    /// The patch changes nothing.
    #[error("the patch changes nothing")]
    Nothing,
    /// The patch changes the name, so it would create another workflow.
    #[error("a patch keeps the name of the workflow; save the workflow under another name with create_workflow")]
    Name,
    /// The patched machine is not valid.
    #[error("the patched workflow is not valid:\n{0}")]
    Invalid(Problems),
    /// The run has no value for an argument.
    #[error("the patch adds the argument '{0}', for which this run has no value; add a default")]
    NewArgument(String),
    /// The patch would reveal a secret.
    #[error("the patch would show the secret argument '{0}'; keep secret: true")]
    SecretShown(String),
    /// The patch removes the state that the run waits in.
    #[error("the patch removes the state '{0}', in which the run waits")]
    StateGone(String),
}

/// Returns a document with the operations of a patch applied. A copy may double the document, so its size and
/// depth are checked after each operation.
fn apply_operations(document: &Value, operations: &json_patch::Patch) -> Result<Value, PatchError> {
    let mut document = document.clone();
    for operation in &operations.0 {
        json_patch::patch(&mut document, std::slice::from_ref(operation))
            .map_err(|error| PatchError::DoesNotFit(error.to_string()))?;
        if !is_within_bounds(&document) {
            // Drop the document level by level, because the destructor of a deep document would recurse too deeply.
            let mut pending = vec![document];
            while let Some(value) = pending.pop() {
                match value {
                    Value::Array(items) => pending.extend(items),
                    Value::Object(fields) => pending.extend(fields.into_iter().map(|(_, value)| value)),
                    _ => {}
                }
            }
            return Err(PatchError::TooLarge);
        }
    }
    Ok(document)
}

/// Returns whether a document is within the limits on length and depth. The length is a lower bound of its JSON length.
fn is_within_bounds(document: &Value) -> bool {
    let (mut bytes, mut pending) = (0, vec![(document, 1)]);
    while let Some((value, depth)) = pending.pop() {
        if depth > MAX_DOCUMENT_DEPTH || bytes > MAX_DOCUMENT_BYTES {
            return false;
        }
        bytes += 1;
        match value {
            Value::String(text) => bytes += text.len(),
            Value::Array(items) => pending.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => {
                bytes += fields.keys().map(String::len).sum::<usize>();
                pending.extend(fields.values().map(|value| (value, depth + 1)));
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
    let document = apply_operations(definition.document(), &operations)?;
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
