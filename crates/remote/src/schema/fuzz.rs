//! Fuzz target for foreign schemas. The input is a schema, a newline, and arguments.

use serde_json::Value;
use steplatch_fuzz::Target;

use super::{Validator, clean};

#[test]
fn schemas() {
    let target = Target {
        corpus: concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/schemas"),
        dictionary: &[
            "\"type\":\"object\"",
            "\"type\":[\"object\",\"null\"]",
            "\"type\":\"string\"",
            "\"properties\":{",
            "\"patternProperties\":{",
            "\"additionalProperties\":false",
            "\"unevaluatedProperties\":false",
            "\"unevaluatedItems\":false",
            "\"items\":",
            "\"prefixItems\":[",
            "\"additionalItems\":",
            "\"contains\":",
            "\"maxContains\":0",
            "\"allOf\":[",
            "\"anyOf\":[",
            "\"oneOf\":[",
            "\"not\":{}",
            "\"if\":",
            "\"then\":false",
            "\"else\":",
            "\"$ref\":\"#\"",
            "\"$ref\":\"#/$defs/a\"",
            "\"$ref\":\"http://x\"",
            "\"$defs\":{\"a\":{",
            "\"definitions\":{",
            "\"$id\":\"http://x/y\"",
            "\"$anchor\":\"a\"",
            "\"$dynamicRef\":\"#a\"",
            "\"$schema\":\"http://json-schema.org/draft-07/schema#\"",
            "\"enum\":[",
            "\"const\":",
            "\"pattern\":\"^a+$\"",
            "\"pattern\":\"(?=a)\"",
            "\"format\":\"email\"",
            "\"required\":[\"a\"]",
            "\"dependentSchemas\":{",
            "\"dependentRequired\":{\"a\":[\"b\"]}",
            "\"propertyNames\":",
            "\"minimum\":1",
            "\"multipleOf\":0",
            "\"multipleOf\":1e-300",
            "\"minLength\":-1",
            "\"maxLength\":1e3",
            "\"uniqueItems\":true",
            "\"default\":",
            "\"description\":\"\"",
            "\\u200b",
            "true",
            "false",
            "null",
            "{}",
            "[]",
            "~0",
            "~1",
            "%25",
            "\n",
            ",",
        ],
        max_bytes: 3_000,
    };
    target.run(|input| {
        let text = String::from_utf8_lossy(input);
        let (schema, arguments) = text.split_once('\n').unwrap_or((&text, "{}"));
        let Ok(raw) = serde_json::from_str::<Value>(schema) else { return Vec::new() };
        let arguments =
            serde_json::from_str(arguments).unwrap_or_else(|_| serde_json::json!({ "a": [1, "a"], "b": {} }));
        let cleaned = clean(&raw);
        assert_eq!(cleaned.schema["type"], "object");
        let validator = Validator::new(&cleaned.schema).unwrap_or_else(|error| panic!("{error}: {}", cleaned.schema));
        let cleaned_twice = clean(&cleaned.schema);
        assert_eq!(cleaned_twice.schema, cleaned.schema, "cleaning is idempotent");
        assert!(cleaned_twice.notes.is_empty(), "a cleaned schema is unchanged: {:?}", cleaned_twice.notes);
        let violations = validator.validate(&arguments);
        assert!(violations.len() <= 100 && cleaned.notes.len() <= 20);
        assert!(violations.iter().all(|violation| violation.problem.chars().count() <= 301));
        // A raw schema with references may have cycles, and such a schema cannot be compiled.
        if arguments.is_object()
            && !schema.contains("$")
            && let Ok(raw_validator) = Validator::new(&raw)
            && raw_validator.validate(&arguments).is_empty()
        {
            let reported: Vec<String> = violations.iter().map(ToString::to_string).collect();
            assert!(reported.is_empty(), "{raw} became {} for {arguments}: {reported:?}", cleaned.schema);
        }
        let shape = |text: &str| text.split(['"', '\'', ':']).step_by(2).take(3).collect::<String>();
        let problems = violations.iter().map(|violation| shape(&violation.problem));
        let mut kinds: Vec<String> = cleaned.notes.iter().map(|note| shape(note)).chain(problems).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    });
}
