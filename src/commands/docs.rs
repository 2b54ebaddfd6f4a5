//! `steplatch docs`: the pages of the documentation, for a terminal.

#[cfg(test)]
mod command_lines;

use std::process::ExitCode;

use clap::Args;

use super::bundle::Bundle;
use crate::failure::Failure;
use crate::pager;
use crate::print::STRONG;

/// List the pages of the documentation, or show one
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Docs {
    /// Page that is shown
    #[arg(value_name = "PAGE", value_parser = PAGES.names())]
    page: Option<String>,
    /// Print JSON, with the text of the page in Markdown
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  steplatch docs
  steplatch docs machines
  steplatch docs debugger";

/// The pages, in the order of reading, in Markdown.
const PAGES: Bundle = Bundle {
    list_key: "pages",
    summary_key: "title",
    summarize: title,
    remark: "show one with: steplatch docs PAGE",
    texts: &[
        ("tour", include_str!("../../docs/tour.md")),
        ("dev-server", include_str!("../../docs/how-to/dev-server.md")),
        ("debugger", include_str!("../../docs/how-to/debugger.md")),
        ("installer", include_str!("../../docs/how-to/installer.md")),
        ("ssh", include_str!("../../docs/how-to/ssh.md")),
        ("release-gate", include_str!("../../docs/how-to/release-gate.md")),
        ("nightly-job", include_str!("../../docs/how-to/nightly-job.md")),
        ("capture-and-repair", include_str!("../../docs/how-to/capture-and-repair.md")),
        ("command_line", include_str!("../../docs/command_line.md")),
        ("mcp", include_str!("../../docs/mcp.md")),
        ("machines", include_str!("../../docs/machines.md")),
        ("machines_reference", include_str!("../../docs/machines_reference.md")),
        ("project", include_str!("../../docs/project.md")),
        ("functions", include_str!("../../docs/functions.md")),
        ("capture", include_str!("../../docs/capture.md")),
        ("gates", include_str!("../../docs/gates.md")),
        ("secrets", include_str!("../../docs/secrets.md")),
        ("notifications", include_str!("../../docs/notifications.md")),
        ("services", include_str!("../../docs/services.md")),
        ("schedules", include_str!("../../docs/schedules.md")),
        ("page", include_str!("../../docs/page.md")),
        ("ui", include_str!("../../docs/ui.md")),
        ("commander", include_str!("../../docs/commander.md")),
        ("hosts", include_str!("../../docs/hosts.md")),
        ("remote", include_str!("../../docs/remote.md")),
        ("http", include_str!("../../docs/http.md")),
        ("temporal", include_str!("../../docs/temporal.md")),
        ("settings", include_str!("../../docs/settings.md")),
        ("operation", include_str!("../../docs/operation.md")),
    ],
};

/// Returns the heading of a page.
fn title(markdown: &str) -> String {
    markdown.lines().next().unwrap_or_default().trim_start_matches("# ").to_owned()
}

impl Docs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        PAGES.print(self.page.as_deref(), self.json, |text| pager::show(&rendered_lines(text)))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the lines of a page: bold headings, indented code, and links without their targets.
fn rendered_lines(markdown: &str) -> Vec<String> {
    let mut lines = Vec::new();
    // Every second part is code.
    for (index, part) in markdown.split("```").enumerate() {
        if index % 2 == 1 {
            // The first line names the language.
            lines.extend(part.lines().skip(1).map(|line| format!("  {line}").trim_end().to_owned()));
            continue;
        }
        let text = without_link_targets(part);
        for line in text.trim_matches('\n').lines() {
            let heading = line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'));
            lines.push(heading.map_or_else(|| line.to_owned(), |heading| format!("{STRONG}{heading}{STRONG:#}")));
        }
        lines.push(String::new());
    }
    lines
}

/// Returns text with `text` in place of `[text](target)`, or `text (target)` for an address. Images are omitted.
pub(super) fn without_link_targets(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('[') {
        let (before, link) = rest.split_at(start);
        let middle = link.find("](").filter(|middle| !link[1..*middle].contains('['));
        let Some((middle, end)) = middle.and_then(|middle| Some((middle, middle + link[middle..].find(')')?))) else {
            plain.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            continue;
        };
        let (label, target) = (&link[1..middle], &link[middle + 2..end]);
        rest = &link[end + 1..];
        if let Some(before) = before.strip_suffix('!') {
            plain.push_str(before);
            continue;
        }
        plain.push_str(before);
        plain.push_str(label);
        if target.starts_with("http") {
            plain.push_str(&format!(" ({target})"));
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lose_their_targets_and_code_stays() {
        let page = "# Gates\n\nSee [the\npage](page.md#x) and [MCP](https://example.org).\n![a](b.png)\n\n```sh\na[0](1)\n```\n\nEnd `x[1]`.\n";
        let bold = format!("{STRONG}Gates{STRONG:#}");
        let expected =
            [&bold, "", "See the", "page and MCP (https://example.org).", "", "  a[0](1)", "End `x[1]`.", ""];
        let lines = rendered_lines(page);
        assert_eq!(lines, expected);
    }

    #[test]
    fn every_user_page_is_listed_and_has_a_title() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let entries = ["", "how-to"].into_iter().flat_map(|name| std::fs::read_dir(directory.join(name)).unwrap());
        let files = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let files = files.filter_map(|file| Some(file.strip_suffix(".md")?.to_owned()));
        // These pages are for people who evaluate or change the program, or are tables of contents.
        let mut files: Vec<String> =
            files.filter(|name| !["benchmarks", "conformance", "SUMMARY", "README"].contains(&&**name)).collect();
        files.sort();
        let mut page_names: Vec<String> = PAGES.texts.iter().map(|(name, _)| (*name).to_owned()).collect();
        page_names.sort();
        assert_eq!(files, page_names);
        for (name, text) in PAGES.texts {
            assert!(text.starts_with("# ") && text.matches("```").count() % 2 == 0, "{name}");
        }
    }
}
