//! Converts the declarations of a file in Python syntax to nodes.

use serde_json::{Map, Value};
use steplatch_ids::WorkflowName;
use steplatch_nodes::Node;
use steplatch_protocol::{DeclarationInfo, FileProblem};
use steplatch_python_api::{Declaration, Kind};

use crate::error::DeclarationError;

/// Returns the summary of a declaration.
pub(crate) fn declaration_info(declared: &Declaration) -> DeclarationInfo {
    let Declaration { id, kind, description, line, settings, .. } = declared;
    let from_settings = || settings.get("description").and_then(Value::as_str).map(str::to_owned);
    DeclarationInfo {
        id: id.clone(),
        kind: kind.word().to_owned(),
        description: description.clone().or_else(from_settings),
        line: *line,
    }
}

/// Returns a node or graph as a document for [`Node::parse`]; `None` for a workflow. `file` is the name and text to
/// include for a function. Without a file, the function is in the file that started the run.
pub fn document(declared: &Declaration, file: Option<(&str, &str)>) -> Option<Value> {
    let mut fields: Map<String, Value> = match declared.kind {
        Kind::Workflow => return None,
        Kind::Function => {
            let function = declared.function.as_deref().unwrap_or(&declared.id);
            let file = file.into_iter().flat_map(|(file, text)| [("source", text), ("file", file)]);
            let fields = std::iter::once(("function", function)).chain(file);
            fields.map(|(key, value)| (key.to_owned(), value.into())).collect()
        }
        _ => declared.settings.clone(),
    };
    fields.insert("id".to_owned(), declared.id.clone().into());
    fields.insert("type".to_owned(), declared.kind.word().into());
    if let Some(description) = &declared.description {
        fields.insert("description".to_owned(), description.clone().into());
    }
    Some(Value::Object(fields))
}

/// Parses a node or graph without its context; `None` for a workflow.
///
/// # Errors
///
/// If the declaration is invalid. The error lists the problems, one per line.
pub(crate) fn parse_node(declared: &Declaration, file: &str, text: &str) -> Result<Option<Node>, DeclarationError> {
    let Some(document) = document(declared, Some((file, text))) else {
        let _: WorkflowName = declared.id.parse()?;
        return Ok(None);
    };
    Ok(Some(Node::parse(&document)?))
}

/// Returns the problems of a file's declarations, without the context of a project.
pub(crate) fn problems(declared: &[Declaration], file: &str, text: &str) -> Vec<FileProblem> {
    if declared.is_empty() {
        let message = "it declares nothing; add Workflow(id=…, session=session, fn=…), or a node".to_owned();
        return vec![FileProblem { line: None, message }];
    }
    let problems = declared.iter().filter_map(|declared| {
        let reason = parse_node(declared, file, text).err()?;
        let kind = declaration_info(declared).kind;
        let message = format!("{kind} '{}': {}", declared.id, reason.to_string().replace('\n', "\n  "));
        Some(FileProblem { line: declared.line, message })
    });
    problems.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn file_can_declare_every_kind_of_node_but_identity() {
        let schema = steplatch_nodes::schema();
        let kinds = schema["oneOf"].as_array().into_iter().flatten();
        let nodes: BTreeSet<_> = kinds.filter_map(|kind| kind["properties"]["type"]["const"].as_str()).collect();
        let declared: BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.word()).collect();
        assert_eq!(declared.difference(&nodes).collect::<Vec<_>>(), [&"workflow"]);
        assert_eq!(nodes.difference(&declared).collect::<Vec<_>>(), [&"identity"]);
    }
}
