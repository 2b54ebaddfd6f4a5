//! Instructions to agents: a block in the Markdown file that a client reads, with advice on when to use these tools.
//!
//! The file belongs to its users; only the lines between the two marks change.

use std::ops::Range;

use super::edit::Outcome;
use super::text::{Splice, Unreadable, apply_splices, line_end, line_start, next_line};

/// The line before the block.
const BEGIN: &str = "<!-- steplatch: removed again by 'steplatch setup --remove' -->";

/// The beginning of that line, in all versions.
const BEGIN_MARK: &str = "<!-- steplatch:";

/// The line after the block.
const END: &str = "<!-- /steplatch -->";

/// The lines between the marks.
const ADVICE: &str = "\
## Terminals and procedures: steplatch

- Use the steplatch tools instead of the built-in shell for programs that ask questions, stay open or take minutes:
  installers, ssh, REPLs, debuggers, dev servers, releases. `open_terminal`, then `send_input` with until=\"prompt\".
- Commands that end by themselves within seconds are fine in the built-in shell.
- Before a task of several steps, look at `list_workflows`: what worked once is run again with `run_workflow`.
- A password, a passphrase or a gate for a person is theirs. Say what waits and where; never answer for them.
";

/// Adds the block to the text of a file, or replaces it.
///
/// # Errors
/// If the marks are incomplete.
pub(crate) fn add(text: &str) -> Result<(Outcome, String), Unreadable> {
    let line_end = line_end(text);
    let block = format!("{BEGIN}\n{ADVICE}{END}\n").replace('\n', line_end);
    if let Some(range) = find_block(text)? {
        let previous = &text[range.clone()];
        if previous.trim_end() == block.trim_end() {
            return Ok((Outcome::Kept, text.to_owned()));
        }
        let previous = previous.to_owned();
        return Ok((Outcome::Changed { previous }, apply_splices(text, vec![Splice::new(range, block)])));
    }
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => line_end,
        _ => &line_end.repeat(2),
    };
    Ok((Outcome::Added, format!("{text}{gap}{block}")))
}

/// Removes the block and the empty line before it.
///
/// # Errors
/// If the marks are incomplete.
pub(crate) fn remove(text: &str) -> Result<(Outcome, String), Unreadable> {
    let Some(range) = find_block(text)? else { return Ok((Outcome::Absent, text.to_owned())) };
    let before = line_start(text, range.start.saturating_sub(1));
    let start = if text[before..range.start].trim().is_empty() { before } else { range.start };
    Ok((Outcome::Removed, apply_splices(text, vec![Splice::new(start..range.end, "")])))
}

/// Returns the lines of the block with its marks.
fn find_block(text: &str) -> Result<Option<Range<usize>>, Unreadable> {
    let at_line = |mark: &str, from: usize| {
        let found = text[from..].match_indices(mark).map(|(position, _)| from + position);
        found.into_iter().find(|position| line_start(text, *position) == *position)
    };
    let Some(start) = at_line(BEGIN_MARK, 0) else { return Ok(None) };
    let Some(end) = at_line(END, start) else {
        return Err(Unreadable::at(text, start, format!("the block has no end, a line '{END}'")));
    };
    if let Some(second) = at_line(BEGIN_MARK, start + 1) {
        return Err(Unreadable::at(text, second, "there is a second block; remove one of them"));
    }
    Ok(Some(start..next_line(text, end)))
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
            assert!(added.starts_with(text.trim_end()) && added.trim_end().ends_with(END), "{added:?}");
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
            (format!("a\n{BEGIN}\nb\n"), "line 2, column 1: the block has no end, a line '<!-- /steplatch -->'"),
            (format!("{block}{block}"), "there is a second block"),
        ] {
            for refused in [add(&text), remove(&text)] {
                let refused = refused.unwrap_err().to_string();
                assert!(refused.contains(problem), "{refused}");
            }
        }
    }

    #[test]
    fn block_is_short_and_names_existing_tools() {
        let (_, block) = add("").unwrap();
        assert!(block.lines().count() <= 12, "{block}");
        let named = block.split('`').skip(1).step_by(2);
        assert!(named.clone().count() >= 4);
        for tool in named {
            assert!(VERBS.iter().any(|verb| verb.tool == Some(tool)), "{tool}");
        }
    }
}
