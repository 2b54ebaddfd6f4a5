//! The schema of machines, and the parts that it shares with other pages: types and tables of properties.

use anyhow::Context as _;
use serde_json::{Map, Value};

const INTRODUCTION: &str = "\
# Schema of machines

Every key of a machine and every parameter of its actions, from the JSON Schema that `steplatch workflow schema`
prints. [The reference of machines](../machines_reference.md) has the rules.
";

/// Heading of the schema itself, above its definitions.
const MACHINE_HEADING: &str = "Machine";

/// Maximum number of values that a type lists.
const MAX_LISTED_VALUES: usize = 30;

/// Makes the page from the recorded schema.
pub(super) fn page(document: &str) -> anyhow::Result<String> {
    let schema: Value = serde_json::from_str(document).context("The schema is not JSON.")?;
    let definitions = schema["$defs"].as_object().context("The schema has no definitions.")?;
    let mut page = INTRODUCTION.to_owned();
    page.push_str(&section("##", MACHINE_HEADING, &schema));
    for (name, definition) in definitions {
        page.push_str(&section("##", name, definition));
        for action in definition["oneOf"].as_array().into_iter().flatten() {
            let properties = &action["properties"];
            if let Some(tool) = properties["tool"]["const"].as_str() {
                let described = described_as(&properties["params"], &action["description"]);
                page.push_str(&section("###", tool, &described));
            }
        }
    }
    Ok(page)
}

/// Returns a schema with the description of another one.
fn described_as(schema: &Value, description: &Value) -> Value {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    schema.insert("description".to_owned(), description.clone());
    Value::Object(schema)
}

/// Returns the section of a definition: the heading, the description, and the type or the properties.
fn section(level: &str, name: &str, schema: &Value) -> String {
    let mut section = format!("\n{level} {name}\n");
    if let Some(description) = schema["description"].as_str() {
        section.push_str(&format!("\n{}\n", escape(description)));
    }
    if let Some(table) = property_table(schema, "key") {
        section.push_str(&format!("\n{table}"));
    } else if let Some(table) = word_table(schema) {
        section.push_str(&format!("\n{table}"));
    } else if schema["oneOf"].is_null() {
        let described = type_name(schema);
        if described != "any" && described != "object" {
            section.push_str(&format!("\nType: {described}.\n"));
        }
    }
    section
}

/// Returns the table of a definition that lists words.
fn word_table(schema: &Value) -> Option<String> {
    let words = schema["oneOf"].as_array()?;
    let row = |word: &Value| {
        let description = word["description"].as_str().unwrap_or_default();
        Some(format!("| {} | {} |\n", format_code(word["const"].as_str()?), format_cell(description)))
    };
    let rows = words.iter().map(row).collect::<Option<String>>()?;
    Some(format!("| word | |\n|---|---|\n{rows}"))
}

/// Returns the table of the properties of an object. `None` if it has none.
pub(super) fn property_table(schema: &Value, heading: &str) -> Option<String> {
    let properties = schema["properties"].as_object().filter(|properties| !properties.is_empty())?;
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let rows = properties.iter().map(|(name, property)| row(name, property, required.contains(&&**name)));
    Some(format!("| {heading} | type | default | |\n|---|---|---|---|\n{}", rows.collect::<String>()))
}

/// Returns the row of a property.
pub(super) fn row(name: &str, property: &Value, is_required: bool) -> String {
    let declared_default =
        property.get("default").or_else(|| alternatives(property).find_map(|other| other.get("default")));
    let default = match declared_default {
        _ if is_required => "required".to_owned(),
        Some(Value::Null) | None => String::new(),
        Some(default) => format_code(&default.to_string()),
    };
    let description = property["description"].as_str().unwrap_or_default();
    format!("| `{name}` | {} | {default} | {} |\n", type_name(property), format_cell(description))
}

/// Returns the alternative forms of a value. Omits null, and text with a placeholder, because every parameter of a
/// machine accepts such text.
fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    let forms = ["anyOf", "oneOf"].iter().filter_map(|key| schema[key].as_array()).flatten();
    forms.filter(|form| form["type"] != "null" && form["pattern"] != "\\{")
}

/// Returns the name of a type, for people.
pub(super) fn type_name(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let names = values.iter().filter(|value| !value.is_null()).take(MAX_LISTED_VALUES);
        return names.map(|value| format_code(&value.to_string())).collect::<Vec<_>>().join(", ");
    }
    if let Some(value) = schema.get("const") {
        return format_code(&value.to_string());
    }
    if let Some(path) = schema["$ref"].as_str() {
        // A path without a name is the whole schema.
        let definition = path.rsplit('/').next().filter(|name| *name != "#").unwrap_or(MACHINE_HEADING);
        return format!("[{definition}](#{})", definition.to_lowercase());
    }
    let mut names: Vec<String> = alternatives(schema).map(type_name).collect();
    if names.is_empty() {
        let types = match &schema["type"] {
            Value::String(name) => vec![name.as_str()],
            Value::Array(types) => types.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect(),
            _ => Vec::new(),
        };
        names = types.into_iter().map(|name| type_with_items(name, schema)).collect();
    }
    names.dedup();
    if names.is_empty() { "any".to_owned() } else { names.join(" or ") }
}

/// Returns the name of a type with the type of its items.
fn type_with_items(name: &str, schema: &Value) -> String {
    let item_type = |items: &Value| Some(type_name(items)).filter(|name| name != "any");
    match name {
        "array" => item_type(&schema["items"]).map_or_else(|| "list".to_owned(), |items| format!("list of {items}")),
        "object" => match schema["properties"].as_object() {
            Some(properties) => format!("object with {}", names(properties)),
            None => item_type(&schema["additionalProperties"])
                .map_or_else(|| "object".to_owned(), |values| format!("object of {values}")),
        },
        name => name.to_owned(),
    }
}

/// Returns the names of properties.
pub(super) fn names(properties: &Map<String, Value>) -> String {
    properties.keys().map(|name| format_code(name)).collect::<Vec<_>>().join(", ")
}

/// Formats text as a cell of a table.
pub(super) fn format_cell(text: &str) -> String {
    escape(text).replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Escapes HTML and emphasis in text.
pub(super) fn escape(text: &str) -> String {
    text.replace('<', "\\<").replace('*', "\\*")
}

/// Formats text as code, also within a table.
pub(super) fn format_code(text: &str) -> String {
    let text = text.replace('|', "\\|");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_for_people() {
        for (schema, expected) in [
            (r#"{"type": ["string", "null"]}"#, "string"),
            (r#"{"enum": ["a", null, "b"]}"#, "`\"a\"`, `\"b\"`"),
            (r#"{"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "\\{"}, {"type": "null"}]}"#, "integer"),
            (r#"{"anyOf": [{"type": "integer"}, {"type": "string"}]}"#, "integer or string"),
            (r##"{"type": "array", "items": {"$ref": "#/$defs/State"}}"##, "list of [State](#state)"),
            (r##"{"$ref": "#"}"##, "[Machine](#machine)"),
            (r#"{"type": "object", "properties": {"a": {}, "b": {}}}"#, "object with `a`, `b`"),
            (r#"{"type": "object", "additionalProperties": {"type": "string"}}"#, "object of string"),
            (r#"{"type": "object", "additionalProperties": true}"#, "object"),
            ("{}", "any"),
        ] {
            assert_eq!(type_name(&serde_json::from_str(schema).unwrap()), expected, "{schema}");
        }
    }

    #[test]
    fn cell_is_one_line_with_escaped_bars() {
        assert_eq!(format_cell("a | b\n<c> *"), "a \\| b \\<c> \\*");
        assert_eq!(format_code("a`|b"), "`` a`\\|b ``");
    }
}
