//! Approvals of Codex: the tools of steplatch that only read, in the settings of its entry
//! (<https://developers.openai.com/codex/config-reference/>).
//!
//! Codex calls tools that declare themselves read-only without asking. The approvals keep this behaviour if the entry
//! has another default (`default_tools_approval_mode`). The removal of the entry also removes the approvals.

use serde_json::{Value, json};

use super::edit::Outcome;
use super::entry::NAME;
use super::rules::reading_tools;
use super::text::{Unreadable, split_mark};
use super::toml::{self, SERVERS, TOOLS};

/// The setting of a tool, and the value that keeps Codex from asking.
const MODE: &str = "approval_mode";
const APPROVE: &str = "approve";

/// Adds the missing approvals to the text of a file. A mode that the user chose for a tool stays.
///
/// # Errors
/// If the text has no entry, or the change would affect other parts.
pub(super) fn allow_reading(text: &str) -> Result<(Outcome, String), Unreadable> {
    let (mark, text) = split_mark(text);
    let tools: Vec<&str> = reading_tools().collect();
    let new_text = toml::set_for_tools(text, &tools, MODE, &json!(APPROVE))?;
    if new_text == text {
        return Ok((Outcome::Kept, format!("{mark}{text}")));
    }
    let mut expected = toml::value(text)?;
    for tool in tools {
        let mode = &mut expected[SERVERS][NAME][TOOLS][tool][MODE];
        if *mode == Value::Null {
            *mode = json!(APPROVE);
        }
    }
    if toml::value(&new_text).is_ok_and(|value| value == expected) {
        return Ok((Outcome::Added, format!("{mark}{new_text}")));
    }
    Err(Unreadable::without_place(format!(
        "the tools of the entry '{NAME}' cannot be changed without other changes of the file; edit them by hand"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(text: &str) -> Vec<(String, String)> {
        let value = toml::value(text).unwrap();
        let tools = value[SERVERS][NAME][TOOLS].as_object().unwrap();
        tools.iter().map(|(tool, settings)| (tool.clone(), settings[MODE].as_str().unwrap().to_owned())).collect()
    }

    #[test]
    fn approvals_are_added_to_the_entry_in_any_notation() {
        for text in [
            "[mcp_servers.steplatch]\ncommand = 'x'\n",
            "model = 'o'\n\n[mcp_servers.steplatch]\ncommand = 'x'\n\n[projects.'/srv']\ntrust_level = 'trusted'",
            "[mcp_servers.steplatch]\r\ncommand = 'x'\r\n\r\n[mcp_servers.steplatch.tools.list_runs]\r\nlimit = 3\r\n",
            "[mcp_servers.steplatch]\ncommand = 'x'\n[mcp_servers.steplatch.tools]\n# mine\nlist_runs = { limit = 3 }\n",
            "[mcp_servers]\nsteplatch = { command = 'x' }\n",
            "[mcp_servers.steplatch]\ncommand = 'x'\ntools = {}\n",
            "mcp_servers = { steplatch = { command = 'x', tools = { list_runs = { limit = 3 } } } }\n",
            "mcp_servers.steplatch.command = 'x'\n",
        ] {
            let (outcome, approved) = allow_reading(text).unwrap();
            assert_eq!(outcome, Outcome::Added, "{text}");
            let modes = modes(&approved);
            assert_eq!(modes.len(), reading_tools().count(), "{approved}");
            assert!(modes.iter().all(|(tool, mode)| mode == APPROVE && tool != "send_input"), "{approved}");
            // Everything else stays in its order.
            let mut unmatched = approved.chars();
            assert!(text.chars().all(|character| unmatched.any(|other| other == character)), "{approved}");
            assert_eq!(approved.replace("\r\n", "").contains('\n'), !text.contains('\r'), "{approved:?}");
            assert_eq!(allow_reading(&approved).unwrap(), (Outcome::Kept, approved));
        }
    }

    #[test]
    fn chosen_mode_stays_and_a_missing_entry_is_an_error() {
        let text = "[mcp_servers.steplatch]\ncommand = 'x'\n\n[mcp_servers.steplatch.tools.list_runs]\napproval_mode = 'prompt'\n";
        let (_, approved) = allow_reading(text).unwrap();
        assert!(approved.starts_with(text), "{approved}");
        assert!(modes(&approved).contains(&("list_runs".to_owned(), "prompt".to_owned())), "{approved}");
        for (text, problem) in [
            ("", "it has no entry 'steplatch'"),
            ("mcp_servers.a.command = 'x'\n", "it has no entry 'steplatch'"),
            ("[mcp_servers]\nsteplatch = 1\n", "line 2, column 13: 'steplatch' is not a table"),
            ("[mcp_servers.steplatch]\ntools = 1\n", "line 2, column 9: 'tools' is not a table"),
            (
                "[mcp_servers.steplatch]\ntools.list_runs.limit = 1\n",
                "the tools of the entry 'steplatch' cannot be changed without other changes of the file; edit them by hand",
            ),
        ] {
            assert_eq!(allow_reading(text).unwrap_err().to_string(), problem);
        }
    }
}
