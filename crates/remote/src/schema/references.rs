//! The expansion of references within a schema, which could make a small schema endless.
//!
//! Twenty definitions that each refer to the next one twice are a schema with a million parts, and one that refers to
//! itself has no end. This module finds both before the compilation.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::clean::{Kind, kind};

/// Maximum number of schemas after following all references.
const MAX_SCHEMAS: u64 = 10_000;
/// Maximum depth of schemas in schemas, with the references followed.
const MAX_DEPTH: usize = 100;

/// Following the references exceeds the bound.
#[derive(Debug)]
pub(super) struct TooMany;

/// Returns the places of references (as JSON Pointers, RFC 6901) that lead to another document, to nothing, or in a
/// circle back to themselves.
pub(super) fn to_leave_out(schema: &Value) -> Result<BTreeSet<String>, TooMany> {
    let mut places = Places { all: BTreeMap::new(), left_out: BTreeSet::new() };
    collect(schema, String::new(), &mut places.all);
    let mut path = 0;
    let pointers: Vec<String> = places.all.keys().cloned().collect();
    for pointer in pointers {
        places.size(&pointer, &mut path)?;
    }
    Ok(places.left_out)
}

/// Returns the pointer to a member of what a pointer leads to.
pub(super) fn below(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// A schema at its place.
struct Place<'a> {
    reference: Option<&'a str>,
    /// Schemas in it that count whenever it does.
    parts: Vec<String>,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    New,
    /// Its count is in progress; a reference to it is circular.
    Begun,
    Counted {
        size: u64,
        height: usize,
    },
}

struct Places<'a> {
    all: BTreeMap<String, Place<'a>>,
    left_out: BTreeSet<String>,
}

fn collect<'a>(schema: &'a Value, at: String, all: &mut BTreeMap<String, Place<'a>>) {
    let mut place = Place { reference: None, parts: Vec::new(), state: State::New };
    if let Value::Object(fields) = schema {
        place.reference = fields.get("$ref").and_then(Value::as_str);
        for (keyword, value) in fields {
            let here = format!("{at}/{keyword}");
            let mut take = |schema, pointer: String| {
                if !matches!(keyword.as_str(), "$defs" | "definitions") {
                    place.parts.push(pointer.clone());
                }
                collect(schema, pointer, all);
            };
            match (kind(keyword), value) {
                (Some(Kind::Schema), Value::Object(_)) => take(value, here),
                // In older schemas, `items` may be a list.
                (Some(Kind::Schemas | Kind::Schema), Value::Array(schemas)) => {
                    for (index, schema) in schemas.iter().enumerate() {
                        take(schema, format!("{here}/{index}"));
                    }
                }
                (Some(Kind::NamedSchemas), Value::Object(named)) => {
                    for (name, schema) in named {
                        take(schema, below(&here, name));
                    }
                }
                _ => {}
            }
        }
    }
    all.insert(at, place);
}

impl Places<'_> {
    /// Returns to how many schemas the one at a pointer expands, and their depth.
    fn size(&mut self, at: &str, path: &mut usize) -> Result<(u64, usize), TooMany> {
        let place = self.all.get_mut(at).expect("only places that were collected are counted");
        if let State::Counted { size, height } = place.state {
            return Ok((size, height));
        }
        place.state = State::Begun;
        let parts = std::mem::take(&mut place.parts);
        let target = place.reference.map(target);
        if *path == MAX_DEPTH {
            return Err(TooMany);
        }
        *path += 1;
        let (mut size, mut height) = (1_u64, 0);
        let mut followed = Vec::new();
        if let Some(target) = target {
            match target.filter(|target| self.is_to_follow(target)) {
                Some(target) => followed.push(target),
                None => {
                    self.left_out.insert(format!("{at}/$ref"));
                }
            }
        }
        for part in parts.iter().chain(&followed) {
            let (more, high) = self.size(part, path)?;
            size = size.saturating_add(more);
            height = height.max(high);
        }
        *path -= 1;
        height += 1;
        if size > MAX_SCHEMAS || height > MAX_DEPTH {
            return Err(TooMany);
        }
        let place = self.all.get_mut(at).expect("it was there");
        place.state = State::Counted { size, height };
        Ok((size, height))
    }

    fn is_to_follow(&self, target: &str) -> bool {
        self.all.get(target).is_some_and(|place| !matches!(place.state, State::Begun))
    }
}

/// Returns the pointer that a reference within the document is, see RFC 6901, 6.
fn target(reference: &str) -> Option<String> {
    let fragment = reference.strip_prefix('#')?;
    let mut bytes = Vec::new();
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).ok()
}
