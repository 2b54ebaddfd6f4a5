//! The help of every command.

use anyhow::bail;

const INTRODUCTION: &str = "\
# Help of every command

The text that `steplatch COMMAND --help` prints, for each command. [The command line](../command_line.md) has an
example of each.
";

/// Makes the page from the recorded help texts. Each help text begins with a heading.
pub(super) fn page(document: &str) -> anyhow::Result<String> {
    let mut page = INTRODUCTION.to_owned();
    let texts = sections(document);
    if texts.is_empty() {
        bail!("The recorded help has no heading '## '.");
    }
    for text in texts {
        let (command, help) = text.split_once('\n').unwrap_or((text, ""));
        page.push_str(&format!("\n## {command}\n\n````text\n{}\n````\n", help.trim_matches('\n')));
    }
    Ok(page)
}

/// Returns the sections of the document. A section begins with `## `.
fn sections(document: &str) -> Vec<&str> {
    let document = document.strip_prefix("## ").unwrap_or_default();
    document.split("\n## ").filter(|text| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_headings_and_blocks() {
        let page = page("## steplatch\n\nUsage: steplatch\n\n## steplatch run\n\nRun\n").unwrap();
        let expected =
            "\n## steplatch\n\n````text\nUsage: steplatch\n````\n\n## steplatch run\n\n````text\nRun\n````\n";
        assert_eq!(page.strip_prefix(INTRODUCTION), Some(expected));
    }
}
