//! Rules in the JSON documents of clients: a client calls the tools of steplatch that only read without asking.
//!
//! The file belongs to the client and its users; everything else stays unchanged.

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde_json::{Value, json};
use steplatch_protocol::VERBS;

use super::edit::Outcome;
use super::json;
use super::text::{Unreadable, split_mark};

/// The rules of a client.
#[derive(Debug)]
pub(super) struct JsonRules {
    /// The names of the properties that lead to the rules.
    path: &'static [&'static str],
    /// The text before the name of a tool in a rule.
    prefix: &'static str,
    form: RuleForm,
    /// The property with rules in the notation of a newer version. It is not edited.
    newer: Option<&'static str>,
    /// True if the client rejects comments and trailing commas.
    strict: bool,
}

/// The form of the rules.
#[derive(Debug, Clone, Copy)]
enum RuleForm {
    /// A list of the tools to call without asking.
    List,
    /// An existing list of this kind. An absent list stays absent, because its presence has another effect.
    ExistingList,
    /// An object with one property for each tool, with this value.
    Property(fn() -> Value),
}

/// Claude Code (<https://code.claude.com/docs/en/permissions>).
pub(super) const CLAUDE: JsonRules = JsonRules {
    path: &["permissions", "allow"],
    prefix: "mcp__steplatch__",
    form: RuleForm::List,
    newer: None,
    strict: true,
};

/// Cursor (<https://cursor.com/docs/reference/permissions>). A list in this file replaces the application's list.
pub(super) const CURSOR: JsonRules = JsonRules {
    path: &["mcpAllowlist"],
    prefix: "steplatch:",
    form: RuleForm::ExistingList,
    newer: None,
    strict: false,
};

/// OpenCode (<https://opencode.ai/v1/docs/permissions/>). The last rule that matches a tool applies.
pub(super) const OPENCODE: JsonRules = JsonRules {
    path: &["permission"],
    prefix: "steplatch_",
    form: RuleForm::Property(|| json!("allow")),
    newer: Some("permissions"),
    strict: false,
};

/// Zed (<https://zed.dev/docs/ai/tool-permissions>).
pub(super) const ZED: JsonRules = JsonRules {
    path: &["agent", "tool_permissions", "tools"],
    prefix: "mcp:steplatch:",
    form: RuleForm::Property(|| json!({"default": "allow"})),
    newer: None,
    strict: false,
};

/// Returns the tools that only read.
pub(super) fn reading_tools() -> impl Iterator<Item = &'static str> {
    VERBS.iter().filter(|verb| verb.traits.read_only).filter_map(|verb| verb.tool)
}

impl JsonRules {
    /// Adds the missing rules to the text of a file.
    ///
    /// # Errors
    /// If the client could not read the text, or has something else in the place of the rules.
    pub(super) fn allow_reading(&self, text: &str) -> Result<(Outcome, String), Unreadable> {
        let (mark, text) = split_mark(text);
        let (outcome, text) = match self.form {
            RuleForm::List => self.allow_in_list(text),
            RuleForm::ExistingList if self.list(&self.parse(text)?).is_none() => Ok((Outcome::Absent, text.to_owned())),
            RuleForm::ExistingList => self.allow_in_list(text),
            RuleForm::Property(value) => self.allow_in_object(text, &value()),
        }?;
        Ok((outcome, format!("{mark}{text}")))
    }

    /// Removes the rules about this server from the text of a file and containers that become empty.
    ///
    /// # Errors
    /// If the client could not read the text.
    pub(super) fn remove(&self, text: &str) -> Result<(Outcome, String), Unreadable> {
        let (mark, text) = split_mark(text);
        let (outcome, text) = match self.form {
            RuleForm::List | RuleForm::ExistingList => self.remove_from_list(text),
            RuleForm::Property(value) => self.remove_from_object(text, &value()),
        }?;
        Ok((outcome, format!("{mark}{text}")))
    }

    /// Returns the rules of all tools that only read.
    fn reading_rules(&self) -> impl Iterator<Item = String> {
        reading_tools().map(|tool| format!("{}{tool}", self.prefix))
    }

    /// Returns whether a rule of a list is about this server.
    fn is_own(&self, rule: &str) -> bool {
        // The name of another server may begin with this one.
        rule.starts_with(self.prefix) || rule == self.prefix.trim_end_matches(['_', ':'])
    }

    fn allow_in_list(&self, text: &str) -> Result<(Outcome, String), Unreadable> {
        let root = self.parse(text)?;
        let (name, parents) = self.path.split_last().expect("a path has names");
        let allowed = || {
            let mut parents = parents.iter();
            let object =
                parents.try_fold(root.object_value_or_create()?, |object, name| object.object_value_or_create(name));
            object?.array_value_or_create(name)
        };
        let Some(allowed) = allowed() else {
            return Err(Unreadable::without_place(format!("'{}' is not a list in an object", self.path.join("."))));
        };
        let known: Vec<String> = rules(&allowed).map(|(_, rule)| rule).collect();
        let missing_rules: Vec<String> = self.reading_rules().filter(|rule| !known.contains(rule)).collect();
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

    fn remove_from_list(&self, text: &str) -> Result<(Outcome, String), Unreadable> {
        let root = self.parse(text)?;
        let Some((mut containers, list)) = self.list(&root) else { return Ok((Outcome::Absent, text.to_owned())) };
        let own_rules: Vec<_> = rules(&list).filter(|(_, rule)| self.is_own(rule)).map(|(node, _)| node).collect();
        if own_rules.is_empty() {
            return Ok((Outcome::Absent, text.to_owned()));
        }
        own_rules.into_iter().for_each(CstNode::remove);
        if list.elements().is_empty() && matches!(self.form, RuleForm::List) {
            containers.pop().into_iter().for_each(CstObjectProp::remove);
            for container in containers.into_iter().rev() {
                if container.object_value().is_some_and(|object| object.properties().is_empty()) {
                    container.remove();
                }
            }
        }
        Ok((Outcome::Removed, root.to_string()))
    }

    fn allow_in_object(&self, text: &str, value: &Value) -> Result<(Outcome, String), Unreadable> {
        let document = self.value(text)?;
        let present = self.path.iter().fold(&document, |value, name| &value[*name]);
        // One word for all tools of all servers.
        if present == value {
            return Ok((Outcome::Kept, text.to_owned()));
        }
        if let Some(newer) = self.newer.filter(|newer| document.get(newer).is_some()) {
            return Err(Unreadable::without_place(format!(
                "its rules in '{newer}' have a newer notation; add rules for the tools that only read by hand"
            )));
        }
        let missing: Vec<(String, Value)> =
            self.reading_rules().filter(|rule| present.get(rule).is_none()).map(|rule| (rule, value.clone())).collect();
        if missing.is_empty() {
            return Ok((Outcome::Kept, text.to_owned()));
        }
        let new_text = json::add_properties(text, self.strict, self.path, &missing)?;
        let mut expected = document;
        let rules = self.path.iter().fold(&mut expected, |value, name| &mut value[*name]);
        for (rule, value) in missing {
            rules[rule] = value;
        }
        self.checked(Outcome::Added, new_text, &expected)
    }

    fn remove_from_object(&self, text: &str, value: &Value) -> Result<(Outcome, String), Unreadable> {
        let mut document = self.value(text)?;
        let present = self.path.iter().fold(&document, |value, name| &value[*name]);
        // Another value is a choice of the user. The name of another server may begin with this one.
        let is_own = |name: &str| {
            let tool = name.strip_prefix(self.prefix);
            tool.is_some_and(|tool| VERBS.iter().any(|verb| verb.tool == Some(tool)))
        };
        let properties = present.as_object().into_iter().flatten();
        let own_rules: Vec<String> = properties
            .filter(|(name, present)| is_own(name) && *present == value)
            .map(|(name, _)| name.clone())
            .collect();
        if own_rules.is_empty() {
            return Ok((Outcome::Absent, text.to_owned()));
        }
        let new_text = json::remove_properties(text, self.strict, self.path, &own_rules)?;
        let rules = self.path.iter().fold(&mut document, |value, name| &mut value[*name]);
        for rule in own_rules {
            rules.as_object_mut().map(|rules| rules.shift_remove(&rule));
        }
        // Comments keep a container that has nothing else.
        let kept = self.value(&new_text)?;
        remove_empty(&mut document, &kept, self.path);
        self.checked(Outcome::Removed, new_text, &document)
    }

    /// Returns the outcome if the new text has the expected value: the edit made the intended change and no other.
    fn checked(&self, outcome: Outcome, text: String, expected: &Value) -> Result<(Outcome, String), Unreadable> {
        if self.value(&text).is_ok_and(|value| value == *expected) {
            return Ok((outcome, text));
        }
        let path = self.path.join(".");
        Err(Unreadable::without_place(format!("'{path}' cannot be changed without other changes; edit it by hand")))
    }

    fn value(&self, text: &str) -> Result<Value, Unreadable> {
        Ok(json::value(text, self.strict)?.unwrap_or_else(|| json!({})))
    }

    fn parse(&self, text: &str) -> Result<CstRootNode, Unreadable> {
        CstRootNode::parse(text, &json::options(self.strict)).map_err(|error| json::unreadable(text, &error))
    }

    /// Returns the list, and the properties that lead to it.
    fn list(&self, root: &CstRootNode) -> Option<(Vec<CstObjectProp>, CstArray)> {
        let (name, parents) = self.path.split_last().expect("a path has names");
        let mut containers = Vec::new();
        let mut object: CstObject = root.object_value()?;
        for name in parents {
            let property = object.get(name)?;
            object = property.object_value()?;
            containers.push(property);
        }
        let property = object.get(name)?;
        let list = property.array_value()?;
        containers.push(property);
        Some((containers, list))
    }
}

/// Removes the containers on a path that are empty, from the inside out, unless another document has them.
fn remove_empty(document: &mut Value, other: &Value, path: &[&str]) {
    let [name, below @ ..] = path else { return };
    let Some(inner) = document.get_mut(*name) else { return };
    remove_empty(inner, &other[*name], below);
    if inner.as_object().is_some_and(serde_json::Map::is_empty) && other.get(*name).is_none() {
        document.as_object_mut().map(|document| document.shift_remove(*name));
    }
}

/// Returns the texts of a list.
fn rules(list: &CstArray) -> impl Iterator<Item = (CstNode, String)> {
    let text = |node: CstNode| Some((node.clone(), node.as_string_lit()?.decoded_value().ok()?));
    list.elements().into_iter().filter_map(text)
}

#[cfg(test)]
mod tests {
    use super::super::entry::NAME;
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
            let (outcome, allowed) = CLAUDE.allow_reading(text).unwrap();
            assert_eq!(outcome, Outcome::Added, "{text}");
            let value: serde_json::Value = serde_json::from_str(&allowed).unwrap();
            let rules: Vec<&str> =
                value["permissions"]["allow"].as_array().unwrap().iter().map(|rule| rule.as_str().unwrap()).collect();
            assert!(rules.contains(&"mcp__steplatch__get_screen_content"), "{allowed}");
            assert!(!rules.iter().any(|rule| rule.contains("send_input") || rule.contains("run_command")), "{allowed}");
            assert_eq!(CLAUDE.allow_reading(&allowed).unwrap(), (Outcome::Kept, allowed.clone()));
            let (outcome, removed) = CLAUDE.remove(&allowed).unwrap();
            assert_eq!(outcome, Outcome::Removed, "{text}");
            let parsed = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| serde_json::json!({}));
            let (before, after): (serde_json::Value, serde_json::Value) = (parsed(text), parsed(&removed));
            assert_eq!(before, after, "{removed}");
            assert_eq!(CLAUDE.remove(&removed).unwrap(), (Outcome::Absent, removed.clone()));
        }
        for text in ["[]", "{\"permissions\": []}", "{\"permissions\": {\"allow\": {}}}", "{\"permissions\": "] {
            assert!(CLAUDE.allow_reading(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rules_name_this_server() {
        for rules in [&CLAUDE, &CURSOR, &OPENCODE, &ZED] {
            assert!(rules.prefix.contains(NAME), "{rules:?}");
        }
    }

    #[test]
    fn properties_for_reading_tools_are_added_last_and_removed_with_comments_kept() {
        for (rules, before) in [
            (
                &OPENCODE,
                "{\n  // mine\n  \"permission\": {\n    \"*\": \"ask\", // always\n    \"bash\": {\"git *\": \"allow\"}\n  }\n}\n",
            ),
            (&OPENCODE, "{\n  \"permission\": {\n    \"steplatch_other_list_runs\": \"allow\",\n  },\n}\n"),
            (&OPENCODE, "{\"permission\": {\"*\": \"ask\"}, \"theme\": \"dark\"}"),
            (&OPENCODE, "{\n  \"theme\": \"dark\"\n}\n"),
            (&OPENCODE, "\u{feff}{\r\n  \"permission\": {\r\n    \"edit\": \"deny\"\r\n  }\r\n}\r\n"),
            (
                &ZED,
                "// Zed settings\n{\n  \"agent\": {\n    \"tool_permissions\": {\n      \"default\": \"confirm\", // mine\n    },\n  },\n}\n",
            ),
            (
                &ZED,
                "{\n  \"agent\": {\n    \"tool_permissions\": {\n      \"tools\": {\n        \"terminal\": {\"default\": \"deny\"}\n      }\n    }\n  }\n}\n",
            ),
        ] {
            let (outcome, allowed) = rules.allow_reading(before).unwrap();
            assert_eq!(outcome, Outcome::Added, "{before}");
            let value = rules.value(split_mark(&allowed).1).unwrap();
            let present = rules.path.iter().fold(&value, |value, name| &value[*name]).as_object().unwrap();
            assert_eq!(present.keys().next_back().cloned(), rules.reading_rules().last(), "{allowed}");
            assert!(present.contains_key(&format!("{}get_screen_content", rules.prefix)), "{allowed}");
            assert!(!allowed.contains("send_input") && !allowed.contains("run_command"), "{allowed}");
            assert_eq!(allowed.contains('\r'), before.contains('\r'), "{allowed:?}");
            assert_eq!(rules.allow_reading(&allowed).unwrap(), (Outcome::Kept, allowed.clone()));
            let (outcome, removed) = rules.remove(&allowed).unwrap();
            assert_eq!(outcome, Outcome::Removed);
            // The comma that precedes a container stays or goes with it.
            let text = |text: &str| text.replace([',', ' ', '\n'], "");
            assert_eq!(text(&removed), text(before));
            assert_eq!(rules.remove(&removed).unwrap(), (Outcome::Absent, removed.clone()));
        }
        // The user's choice for a tool stays, and so does a single word for all tools.
        let chosen = "{\"permission\": {\"steplatch_list_runs\": \"ask\"}}";
        let (_, allowed) = OPENCODE.allow_reading(chosen).unwrap();
        assert!(allowed.contains("\"steplatch_list_runs\": \"ask\""), "{allowed}");
        assert_eq!(OPENCODE.remove(&allowed).unwrap(), (Outcome::Removed, chosen.to_owned()));
        let all = "{\"permission\": \"allow\"}";
        assert_eq!(OPENCODE.allow_reading(all).unwrap(), (Outcome::Kept, all.to_owned()));
        let newer = "{\"permissions\": [{\"action\": \"*\", \"resource\": \"*\", \"effect\": \"ask\"}]}";
        assert!(OPENCODE.allow_reading(newer).unwrap_err().to_string().contains("newer notation"));
        let refusal = OPENCODE.allow_reading("{\"permission\": \"ask\"}").unwrap_err().to_string();
        assert_eq!(refusal, "line 1, column 16: 'permission' is not an object");
    }

    #[test]
    fn list_with_another_effect_is_extended_but_not_created() {
        for absent in ["", "{}\n", "{\n  // none\n}\n", "{\"terminalAllowlist\": [\"git\"]}"] {
            assert_eq!(CURSOR.allow_reading(absent).unwrap(), (Outcome::Absent, absent.to_owned()));
        }
        for before in ["{\"mcpAllowlist\": []}", "{\n  \"mcpAllowlist\": [\n    \"github:*\", // theirs\n  ],\n}\n"] {
            let (outcome, allowed) = CURSOR.allow_reading(before).unwrap();
            assert_eq!(outcome, Outcome::Added);
            assert!(allowed.contains("\"steplatch:get_screen_content\""), "{allowed}");
            assert_eq!(CURSOR.allow_reading(&allowed).unwrap(), (Outcome::Kept, allowed.clone()));
            let (outcome, removed) = CURSOR.remove(&allowed).unwrap();
            assert_eq!(outcome, Outcome::Removed);
            assert_eq!(CURSOR.value(&removed).unwrap(), CURSOR.value(before).unwrap(), "the list stays: {removed}");
            assert_eq!(removed.contains("// theirs"), before.contains("// theirs"));
        }
    }
}
