//! The parameters of saved workflows, as JSON Schemas.

use serde_json::{Map, Value, json};
use steplatch_protocol::{ContractVariable, DescribeWorkflowReply};

/// Returns the schema of a saved workflow's arguments. A machine accepts variables, converted to text; a function
/// accepts any JSON.
pub(super) fn for_workflow(workflow: &DescribeWorkflowReply) -> Value {
    if workflow.kind.as_deref() == Some("function") {
        return json!({
            "type": "object",
            "properties": {"input": {"description": "What ctx.input is; without it, all arguments together"}},
            "additionalProperties": true
        });
    }
    let properties: Map<String, Value> =
        workflow.arguments.iter().map(|variable| (variable.name.clone(), property(variable))).collect();
    let required: Vec<&str> =
        workflow.arguments.iter().filter(|variable| variable.required).map(|variable| variable.name.as_str()).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    // Allow variables that are not in the contract.
    schema["additionalProperties"] = true.into();
    schema
}

fn property(variable: &ContractVariable) -> Value {
    let mut property = match &variable.schema {
        Some(Value::Object(schema)) => schema.clone(),
        _ => Map::new(),
    };
    property.entry("type").or_insert_with(|| "string".into());
    let mut description = variable.description.clone().unwrap_or_default();
    if variable.secret {
        let sentence = "Its value is shown nowhere.";
        description = if description.is_empty() { sentence.to_owned() } else { format!("{description} {sentence}") };
    }
    if !description.is_empty() {
        property.insert("description".to_owned(), description.into());
    }
    if let Some(default) = variable.default.as_ref().filter(|_| !variable.secret) {
        property.insert("default".to_owned(), parse_as(default, property["type"].as_str()));
    }
    Value::Object(property)
}

/// Parses `text` as a value of a type; invalid text remains a string.
fn parse_as(text: &str, kind: Option<&str>) -> Value {
    let parsed = match kind {
        Some("integer") => text.parse::<i64>().ok().map(Value::from),
        Some("number") => text.parse::<f64>().ok().map(Value::from),
        Some("boolean") => text.parse::<bool>().ok().map(Value::from),
        Some("array") => serde_json::from_str::<Value>(text).ok().filter(Value::is_array),
        Some("object") => serde_json::from_str::<Value>(text).ok().filter(Value::is_object),
        _ => None,
    };
    parsed.unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_contract_is_the_schema_of_its_tool() {
        let variable = |name: &str, required, default: Option<&str>, schema: Value| ContractVariable {
            name: name.to_owned(),
            required,
            default: default.map(str::to_owned),
            schema: Some(schema),
            ..ContractVariable::default()
        };
        let secret = ContractVariable { secret: true, ..variable("KEY", true, None, json!({"minLength": 4})) };
        let workflow = DescribeWorkflowReply {
            kind: Some("machine".to_owned()),
            arguments: vec![variable("COUNT", false, Some("3"), json!({"type": "integer"})), secret],
            ..DescribeWorkflowReply::default()
        };
        let expected = json!({
            "type": "object",
            "properties": {
                "COUNT": {"type": "integer", "default": 3},
                "KEY": {"minLength": 4, "type": "string", "description": "Its value is shown nowhere."}
            },
            "required": ["KEY"],
            "additionalProperties": true
        });
        assert_eq!(for_workflow(&workflow), expected);
    }
}
