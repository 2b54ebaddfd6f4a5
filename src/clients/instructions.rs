//! Instructions to agents: a block in the Markdown file that a client reads, with advice on when to use these tools.
//!
//! The file belongs to its users; only the lines between the two marks change.

use super::edit::Outcome;
use super::marked_block::MarkedBlock;
use super::text::Unreadable;

/// The marks of the block.
const BLOCK: MarkedBlock = MarkedBlock {
    begin: "<!-- steplatch: removed again by 'steplatch setup --remove' -->",
    begin_mark: "<!-- steplatch:",
    end: "<!-- /steplatch -->",
};

/// The lines between the marks.
const ADVICE: &str = "\
## Terminals and procedures: steplatch

- Use the steplatch tools instead of the built-in shell for programs that ask questions, stay open or take minutes:
  installers, ssh, REPLs, debuggers, dev servers, releases. `open_terminal`, then `send_input` with until=\"prompt\".
- Commands that end by themselves within seconds are fine in the built-in shell.
- Before a task of several steps, look at `list_workflows`: what worked once is run again with `run_workflow`.
- A password, a passphrase or a gate for a person is theirs: `request_secret` waits while they type a password. Say what
  waits and where; never answer for them.
";

/// Adds the block to the text of a file, or replaces it.
///
/// # Errors
/// If the marks are incomplete.
pub(crate) fn add(text: &str) -> Result<(Outcome, String), Unreadable> {
    BLOCK.add(text, ADVICE)
}

/// Removes the block and the empty line before it.
///
/// # Errors
/// If the marks are incomplete.
pub(crate) fn remove(text: &str) -> Result<(Outcome, String), Unreadable> {
    BLOCK.remove(text)
}

#[cfg(test)]
mod tests {
    use steplatch_protocol::VERBS;

    use super::*;

    #[test]
    fn block_is_added_and_removed_without_other_changes() {
        for (text, left) in [
            ("", ""),
            ("# Rules\n", "# Rules\n"),
            ("# Rules", "# Rules\n"),
            ("# Rules\r\n\r\nBe brief.\r\n", "# Rules\r\n\r\nBe brief.\r\n"),
            ("see <!-- steplatch: not a mark -->\n\n\n", "see <!-- steplatch: not a mark -->\n\n\n"),
            ("\u{feff}# Rules\n", "\u{feff}# Rules\n"),
        ] {
            let (outcome, added) = add(text).unwrap();
            assert_eq!(outcome, Outcome::Added, "{text:?}");
            assert!(added.starts_with(text.trim_end()) && added.trim_end().ends_with(BLOCK.end), "{added:?}");
            assert_eq!(added.contains('\r'), text.contains('\r'), "{added:?}");
            assert_eq!(add(&added).unwrap(), (Outcome::Kept, added.clone()));
            assert_eq!(remove(&added).unwrap(), (Outcome::Removed, left.to_owned()), "{text:?}");
            assert_eq!(remove(left).unwrap(), (Outcome::Absent, left.to_owned()));
            // An older block is replaced in place.
            let older = added.replace("fine in", "good in") + "\n## More\n";
            let (outcome, new) = add(&older).unwrap();
            assert!(matches!(&outcome, Outcome::Changed { previous } if previous.contains("good in")), "{outcome:?}");
            assert_eq!(new, format!("{added}\n## More\n"));
        }
    }

    #[test]
    fn unterminated_block_and_two_blocks_are_refused() {
        let (_, block) = add("").unwrap();
        for (text, problem) in [
            (
                format!("a\n{}\nb\n", BLOCK.begin),
                "line 2, column 1: the block has no end, a line '<!-- /steplatch -->'",
            ),
            (format!("{block}{block}"), "there is a second block"),
        ] {
            for result in [add(&text), remove(&text)] {
                let result = result.unwrap_err().to_string();
                assert!(result.contains(problem), "{result}");
            }
        }
    }

    #[test]
    fn block_is_short_and_names_existing_tools() {
        let (_, block) = add("").unwrap();
        assert!(block.lines().count() <= 12, "{block}");
        let tool_names = block.split('`').skip(1).step_by(2);
        assert!(tool_names.clone().count() >= 4);
        for tool in tool_names {
            assert!(VERBS.iter().any(|verb| verb.tool == Some(tool)), "{tool}");
        }
    }
}
