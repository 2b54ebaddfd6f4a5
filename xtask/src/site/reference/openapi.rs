//! The routes of the HTTP API.

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::schema::{escape, format_cell, names, property_table, row};

const INTRODUCTION: &str = "\
# Routes of the HTTP API

Every route, its parameters and its reply, from the OpenAPI document that `GET /api/openapi.json` returns.
[Over HTTP](../http.md) explains tokens, errors and events.
";

/// Makes the page from the recorded document. Routes are in sections by their first tag.
pub(super) fn page(document: &str) -> anyhow::Result<String> {
    let document: Value = serde_json::from_str(document).context("The OpenAPI document is not JSON.")?;
    let paths = document["paths"].as_object().context("The OpenAPI document has no paths.")?;
    let mut sections: Vec<(&str, String)> = Vec::new();
    for (path, operations) in paths {
        let operations = operations.as_object().with_context(|| format!("{path} has no operations."))?;
        for (method, operation) in operations {
            let tag = operation["tags"][0].as_str().unwrap_or("other");
            let text = route(path, method, operation);
            match sections.iter_mut().find(|(name, _)| *name == tag) {
                Some((_, section)) => section.push_str(&text),
                None => sections.push((tag, text)),
            }
        }
    }
    if sections.is_empty() {
        bail!("The OpenAPI document has no operation.");
    }
    let sections = sections.into_iter().map(|(tag, text)| format!("\n## {tag}\n{text}"));
    Ok(INTRODUCTION.to_owned() + &sections.collect::<String>())
}

/// Returns the section of a route.
fn route(path: &str, method: &str, operation: &Value) -> String {
    let mut text = format!("\n### `{} {path}`\n", method.to_uppercase());
    let (summary, description) = (operation["summary"].as_str(), operation["description"].as_str());
    if let Some(summary) = summary {
        text.push_str(&format!("\n{}.\n", escape(summary)));
    }
    if let Some(description) = description.filter(|description| Some(*description) != summary) {
        text.push_str(&format!("\n{}\n", escape(description)));
    }
    if let Some(parameters) = operation["parameters"].as_array().filter(|parameters| !parameters.is_empty()) {
        text.push_str("\n| parameter | type | default | |\n|---|---|---|---|\n");
        text.extend(parameters.iter().filter_map(parameter));
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if let Some(table) = property_table(body, "field of the body") {
        text.push_str(&format!("\n{table}"));
    }
    if let Some(reply) = reply(operation) {
        text.push_str(&format!("\nReply: {reply}.\n"));
    }
    text
}

/// Returns the row of a parameter in the path or the query.
fn parameter(parameter: &Value) -> Option<String> {
    let name = parameter["name"].as_str()?;
    let mut schema = parameter["schema"].as_object().cloned().unwrap_or_default();
    let place = parameter["in"].as_str().filter(|place| *place != "query");
    let place = place.map(|place| format!(" (in the {place})")).unwrap_or_default();
    let description = parameter["description"].as_str().unwrap_or_default();
    schema.insert("description".to_owned(), format!("{description}{place}").into());
    Some(row(name, &Value::Object(schema), parameter["required"] == true))
}

/// Returns the fields or the type of a successful reply.
fn reply(operation: &Value) -> Option<String> {
    let content = operation["responses"]["200"]["content"].as_object()?;
    let (media_type, reply) = content.iter().next()?;
    let fields = reply["schema"]["properties"].as_object().map(names);
    Some(fields.unwrap_or_else(|| format_cell(&format!("`{media_type}`"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_has_parameters_and_reply_fields() {
        let document = r#"{"paths": {"/runs/{id}": {"get": {"tags": ["runs"], "summary": "Show a run",
            "parameters": [{"name": "id", "in": "path", "required": true, "description": "The run",
                            "schema": {"type": "string"}}],
            "responses": {"200": {"content": {"application/json": {"schema": {"properties": {"run": {}}}}}}}}}}}"#;
        let expected = "\n## runs\n\n### `GET /runs/{id}`\n\nShow a run.\n\n| parameter | type | default | |\n\
                        |---|---|---|---|\n| `id` | string | required | The run (in the path) |\n\nReply: `run`.\n";
        assert_eq!(page(document).unwrap().strip_prefix(INTRODUCTION), Some(expected));
    }
}
