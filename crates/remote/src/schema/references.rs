//! Detection of circular and exploding references in a schema, before its compilation.
//!
//! Twenty definitions with two references to the next definition each expand to a million schemas, and a definition
//! with a reference to itself expands endlessly.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::keyword::{Kind, kind};

/// Maximum number of schemas after following all references.
const MAX_SCHEMAS: u64 = 10_000;
/// Maximum depth of nested schemas, after following all references.
const MAX_DEPTH: usize = 100;

/// The expanded schema exceeds [`MAX_SCHEMAS`] or [`MAX_DEPTH`].
#[derive(Debug)]
pub(super) struct TooLarge;

/// Returns the JSON Pointers (RFC 6901) of references that lead to another document, to nothing, or in a circle.
pub(super) fn unusable_references(schema: &Value) -> Result<BTreeSet<String>, TooLarge> {
    let mut nodes = SchemaNodes { by_pointer: BTreeMap::new(), unusable: BTreeSet::new() };
    collect(schema, String::new(), &mut nodes.by_pointer);
    let mut depth = 0;
    let pointers: Vec<String> = nodes.by_pointer.keys().cloned().collect();
    for pointer in pointers {
        nodes.expand(&pointer, &mut depth)?;
    }
    Ok(nodes.unusable)
}

/// Returns the pointer to a member of the value at a pointer.
pub(super) fn child_pointer(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// A schema within the document.
struct SchemaNode<'a> {
    reference: Option<&'a str>,
    /// Pointers of the schemas in it, without definitions.
    parts: Vec<String>,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Unvisited,
    /// Being expanded. A reference to it is circular.
    Expanding,
    Expanded {
        size: u64,
        height: usize,
    },
}

struct SchemaNodes<'a> {
    by_pointer: BTreeMap<String, SchemaNode<'a>>,
    /// Pointers of references that are not followed.
    unusable: BTreeSet<String>,
}

fn collect<'a>(schema: &'a Value, pointer: String, nodes: &mut BTreeMap<String, SchemaNode<'a>>) {
    let mut node = SchemaNode { reference: None, parts: Vec::new(), state: State::Unvisited };
    if let Value::Object(fields) = schema {
        node.reference = fields.get("$ref").and_then(Value::as_str);
        for (keyword, value) in fields {
            let keyword_pointer = format!("{pointer}/{keyword}");
            let mut add = |schema, pointer: String| {
                if !matches!(keyword.as_str(), "$defs" | "definitions") {
                    node.parts.push(pointer.clone());
                }
                collect(schema, pointer, nodes);
            };
            match (kind(keyword), value) {
                (Some(Kind::Schema), Value::Object(_)) => add(value, keyword_pointer),
                // In older schemas, `items` may be a list.
                (Some(Kind::Schemas | Kind::Schema), Value::Array(schemas)) => {
                    for (index, schema) in schemas.iter().enumerate() {
                        add(schema, format!("{keyword_pointer}/{index}"));
                    }
                }
                (Some(Kind::NamedSchemas), Value::Object(named)) => {
                    for (name, schema) in named {
                        add(schema, child_pointer(&keyword_pointer, name));
                    }
                }
                _ => {}
            }
        }
    }
    nodes.insert(pointer, node);
}

impl SchemaNodes<'_> {
    /// Returns the number of schemas in the expansion of the schema at a pointer, and their depth.
    fn expand(&mut self, pointer: &str, depth: &mut usize) -> Result<(u64, usize), TooLarge> {
        let node = self.by_pointer.get_mut(pointer).expect("collect() inserted all pointers");
        if let State::Expanded { size, height } = node.state {
            return Ok((size, height));
        }
        node.state = State::Expanding;
        let parts = std::mem::take(&mut node.parts);
        let target = node.reference.map(parse_reference);
        if *depth == MAX_DEPTH {
            return Err(TooLarge);
        }
        *depth += 1;
        let (mut size, mut height) = (1_u64, 0);
        let mut followed = Vec::new();
        if let Some(target) = target {
            match target.filter(|target| self.can_follow(target)) {
                Some(target) => followed.push(target),
                None => {
                    self.unusable.insert(format!("{pointer}/$ref"));
                }
            }
        }
        for part in parts.iter().chain(&followed) {
            let (part_size, part_height) = self.expand(part, depth)?;
            size = size.saturating_add(part_size);
            height = height.max(part_height);
        }
        *depth -= 1;
        height += 1;
        if size > MAX_SCHEMAS || height > MAX_DEPTH {
            return Err(TooLarge);
        }
        let node = self.by_pointer.get_mut(pointer).expect("collect() inserted all pointers");
        node.state = State::Expanded { size, height };
        Ok((size, height))
    }

    fn can_follow(&self, target: &str) -> bool {
        self.by_pointer.get(target).is_some_and(|node| !matches!(node.state, State::Expanding))
    }
}

/// Parses a reference within the document as a JSON Pointer, see RFC 6901, 6.
fn parse_reference(reference: &str) -> Option<String> {
    let fragment = reference.strip_prefix('#')?;
    let mut bytes = Vec::new();
    let mut encoded = fragment.bytes();
    while let Some(byte) = encoded.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(encoded.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).ok()
}
