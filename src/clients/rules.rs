//! Permission rules of Claude Code: the tools of steplatch that only read, which it then calls without asking.
//!
//! The file belongs to the client and its users, and is edited through a syntax tree that keeps everything else.

use jsonc_parser::cst::{CstArray, CstInputValue, CstRootNode};
use steplatch_protocol::VERBS;

use super::edit::Outcome;
use super::entry::NAME;
use super::json;
use super::text::Unreadable;

/// The object and the array in it that contain the rules of Claude Code (<https://code.claude.com/docs/en/permissions>).
const PERMISSIONS: &str = "permissions";
const ALLOW: &str = "allow";

/// Returns the tools that only read.
pub(super) fn reading_tools() -> impl Iterator<Item = &'static str> {
    VERBS.iter().filter(|verb| verb.traits.read_only).filter_map(|verb| verb.tool)
}

/// Returns the rules of all tools that only read.
pub(super) fn reading_rules() -> impl Iterator<Item = String> {
    reading_tools().map(|tool| format!("mcp__{NAME}__{tool}"))
}

/// Returns whether a rule is about this server.
fn is_own(rule: &str) -> bool {
    rule.strip_prefix("mcp__").and_then(|rule| rule.strip_prefix(NAME)).is_some_and(|rest| {
        // The name of another server may begin with this one.
        rest.is_empty() || rest.starts_with("__")
    })
}

/// Adds the missing rules to the text of a file.
///
/// # Errors
/// If the client could not read the text, or has something else in the place of the rules.
pub(super) fn allow_reading(text: &str) -> Result<(Outcome, String), Unreadable> {
    let root = parse(text)?;
    let allowed = || root.object_value_or_create()?.object_value_or_create(PERMISSIONS)?.array_value_or_create(ALLOW);
    let Some(allowed) = allowed() else {
        return Err(Unreadable::without_place(format!("'{PERMISSIONS}.{ALLOW}' is not a list in an object")));
    };
    let known: Vec<String> = rules(&allowed).map(|(_, rule)| rule).collect();
    let missing_rules: Vec<String> = reading_rules().filter(|rule| !known.contains(rule)).collect();
    if missing_rules.is_empty() {
        return Ok((Outcome::Kept, text.to_owned()));
    }
    if known.is_empty() {
        allowed.ensure_multiline();
    }
    for rule in missing_rules {
        allowed.append(CstInputValue::String(rule));
    }
    Ok((Outcome::Added, root.to_string()))
}

/// Removes the rules about this server from the text of a file and containers that become empty.
///
/// # Errors
/// If the client could not read the text.
pub(super) fn remove_rules(text: &str) -> Result<(Outcome, String), Unreadable> {
    let root = parse(text)?;
    let permissions = || root.object_value()?.get(PERMISSIONS);
    let Some(permissions) = permissions() else { return Ok((Outcome::Absent, text.to_owned())) };
    let allowed = || permissions.object_value()?.get(ALLOW);
    let Some((property, list)) = allowed().and_then(|property| Some((property.clone(), property.array_value()?)))
    else {
        return Ok((Outcome::Absent, text.to_owned()));
    };
    let own_rules: Vec<_> = rules(&list).filter(|(_, rule)| is_own(rule)).map(|(node, _)| node).collect();
    if own_rules.is_empty() {
        return Ok((Outcome::Absent, text.to_owned()));
    }
    own_rules.into_iter().for_each(jsonc_parser::cst::CstNode::remove);
    if list.elements().is_empty() {
        property.remove();
    }
    if permissions.object_value().is_some_and(|object| object.properties().is_empty()) {
        permissions.remove();
    }
    Ok((Outcome::Removed, root.to_string()))
}

fn parse(text: &str) -> Result<CstRootNode, Unreadable> {
    // Claude Code accepts no comments there.
    CstRootNode::parse(text, &json::options(true)).map_err(|error| json::unreadable(text, &error))
}

/// Returns the texts of a list.
fn rules(list: &CstArray) -> impl Iterator<Item = (jsonc_parser::cst::CstNode, String)> {
    let text = |node: jsonc_parser::cst::CstNode| Some((node.clone(), node.as_string_lit()?.decoded_value().ok()?));
    list.elements().into_iter().filter_map(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_for_reading_tools_are_added_and_removed_cleanly() {
        for text in [
            "",
            "{}\n",
            "{\n  \"model\": \"opus\"\n}\n",
            "{\"permissions\": {\"deny\": [\"Bash(rm *)\"]}, \"a\": 1}",
            "{\n  \"permissions\": {\n    \"allow\": [\n      \"WebSearch\",\n      \"mcp__steplatchother__x\"\n    ]\n  }\n}\n",
            "{\"permissions\": {\"allow\": [\"WebSearch\"]}}",
        ] {
            let (outcome, allowed) = allow_reading(text).unwrap();
            assert_eq!(outcome, Outcome::Added, "{text}");
            let value: serde_json::Value = serde_json::from_str(&allowed).unwrap();
            let rules: Vec<&str> =
                value[PERMISSIONS][ALLOW].as_array().unwrap().iter().map(|rule| rule.as_str().unwrap()).collect();
            assert!(rules.contains(&"mcp__steplatch__get_screen_content"), "{allowed}");
            assert!(!rules.iter().any(|rule| rule.contains("send_input") || rule.contains("run_command")), "{allowed}");
            assert_eq!(allow_reading(&allowed).unwrap(), (Outcome::Kept, allowed.clone()));
            let (outcome, removed) = remove_rules(&allowed).unwrap();
            assert_eq!(outcome, Outcome::Removed, "{text}");
            let parsed = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| serde_json::json!({}));
            let (before, after): (serde_json::Value, serde_json::Value) = (parsed(text), parsed(&removed));
            assert_eq!(before, after, "{removed}");
            assert_eq!(remove_rules(&removed).unwrap(), (Outcome::Absent, removed.clone()));
        }
        for text in ["[]", "{\"permissions\": []}", "{\"permissions\": {\"allow\": {}}}", "{\"permissions\": "] {
            assert!(allow_reading(text).is_err(), "{text}");
        }
    }
}
