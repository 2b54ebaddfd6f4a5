//! The keywords of JSON Schema that describe an input.

/// Kind of the value of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Schema,
    Schemas,
    NamedSchemas,
    /// Texts for people and models.
    Text,
    /// A value that arguments are compared with.
    Constant,
    /// A list of such values.
    Constants,
    /// Values that are only informative.
    Hint,
    Pattern,
    Reference,
    /// Numbers, booleans, names of types.
    Plain,
    /// Names of properties.
    Names,
}

/// Returns the kind of a keyword. Supports the keywords of 2020-12 that describe an input, and two keywords of older
/// schemas.
pub(super) fn kind(keyword: &str) -> Option<Kind> {
    Some(match keyword {
        "additionalProperties"
        | "items"
        | "contains"
        | "propertyNames"
        | "not"
        | "if"
        | "then"
        | "else"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Kind::Schema,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Kind::Schemas,
        "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => Kind::NamedSchemas,
        "title" | "description" => Kind::Text,
        "const" => Kind::Constant,
        "enum" => Kind::Constants,
        "default" | "examples" => Kind::Hint,
        "pattern" => Kind::Pattern,
        "$ref" => Kind::Reference,
        "required" => Kind::Names,
        "type" | "format" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf"
        | "minLength" | "maxLength" | "minItems" | "maxItems" | "uniqueItems" | "minContains" | "maxContains"
        | "minProperties" | "maxProperties" | "dependentRequired" | "deprecated" | "readOnly" | "writeOnly" => {
            Kind::Plain
        }
        _ => return None,
    })
}
