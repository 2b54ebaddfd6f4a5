//! The policy of Gemini CLI for the tools that only read: a block in a file of rules
//! (<https://geminicli.com/docs/reference/policy-engine>).

use super::edit::Outcome;
use super::entry::NAME;
use super::marked_block::MarkedBlock;
use super::rules::reading_tools;
use super::text::Unreadable;

/// The marks of the block.
const BLOCK: MarkedBlock = MarkedBlock {
    begin: "# steplatch: removed again by 'steplatch setup --remove'",
    begin_mark: "# steplatch:",
    end: "# /steplatch",
};

/// Adds the rule to the text of a file, or replaces it.
///
/// # Errors
/// If the marks are incomplete.
pub(super) fn allow_reading(text: &str) -> Result<(Outcome, String), Unreadable> {
    let tools: Vec<String> = reading_tools().map(|tool| format!("  \"{tool}\",\n")).collect();
    let rule = format!(
        "[[rule]]\nmcpName = \"{NAME}\"\ntoolName = [\n{}]\ndecision = \"allow\"\npriority = 100\n",
        tools.concat()
    );
    BLOCK.add(text, &rule)
}

/// Removes the rule.
///
/// # Errors
/// If the marks are incomplete.
pub(super) fn remove_rules(text: &str) -> Result<(Outcome, String), Unreadable> {
    BLOCK.remove(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_is_toml_beside_others_and_is_removed_cleanly() {
        let other_rule = "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"deny\"\npriority = 9\n";
        for before in ["", other_rule] {
            let (outcome, added) = allow_reading(before).unwrap();
            assert_eq!(outcome, Outcome::Added);
            let rules: toml::Table = toml::from_str(&added).unwrap();
            let rule = rules["rule"].as_array().unwrap().last().unwrap();
            assert_eq!((rule["mcpName"].as_str(), rule["decision"].as_str()), (Some(NAME), Some("allow")));
            let tools: Vec<_> =
                rule["toolName"].as_array().unwrap().iter().map(|tool| tool.as_str().unwrap()).collect();
            assert!(tools.contains(&"get_screen_content") && !tools.contains(&"send_input"), "{tools:?}");
            assert_eq!(allow_reading(&added).unwrap(), (Outcome::Kept, added.clone()));
            let older = added.replace("get_screen_content", "older_tool");
            assert!(matches!(allow_reading(&older).unwrap(), (Outcome::Changed { .. }, text) if text == added));
            assert_eq!(remove_rules(&added).unwrap(), (Outcome::Removed, before.to_owned()));
            assert_eq!(remove_rules(before).unwrap().0, Outcome::Absent);
        }
    }
}
