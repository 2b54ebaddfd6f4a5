//! Readers of terminal panes: their sections, and the readiness of their programs for input.
//!
//! A pane is the text of a screen or of the newest output, without escapes. The output of programs is meant for people
//! and changes between versions, so these readers look for a few stable markers, and treat everything else as text.
//! All functions are pure.

mod claude_code;
mod frame;
mod gemini_cli;
mod shell;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reader of a program's screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Parser {
    /// A shell: commands at prompts, and their output
    Shell,
    /// Anthropic's Claude Code
    ClaudeCode,
    /// Google's Gemini CLI
    GeminiCli,
}

/// The content of a pane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Sections, from top to bottom.
    pub sections: Vec<Section>,
    /// True if the program waits for its next input. False while it is busy or shows a menu of answers.
    pub is_ready: bool,
}

/// A part of the display of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Kind of the section.
    pub kind: SectionKind,
    /// Text of the section, without the frame that the program draws around it.
    pub text: String,
}

/// The kind of a part of a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionKind {
    /// Typed text.
    Input,
    /// An answer, or output.
    Text,
    /// The program's report of its reasoning.
    Thinking,
    /// A tool that the program uses.
    ToolCall,
    /// The result of a tool.
    ToolResult,
    /// A question with answers to choose from.
    Question,
    /// The program's report of its current work.
    Status,
}

impl Parser {
    /// Reads a pane.
    #[must_use]
    pub fn read(self, pane: &str) -> Reading {
        match self {
            Self::Shell => shell::read(pane),
            Self::ClaudeCode => claude_code::read(pane),
            Self::GeminiCli => gemini_cli::read(pane),
        }
    }
}

impl Reading {
    /// Returns the answer to the last input.
    #[must_use]
    pub fn answer(&self) -> String {
        let last = self.sections.iter().rposition(|section| section.kind == SectionKind::Input);
        let after_input = &self.sections[last.map_or(0, |index| index + 1)..];
        let texts = after_input.iter().filter(|section| section.kind == SectionKind::Text);
        texts.map(|section| section.text.as_str()).collect::<Vec<_>>().join("\n\n")
    }
}

/// Builds sections line by line.
#[derive(Debug, Default)]
struct SectionBuilder {
    sections: Vec<Section>,
    open: Option<(SectionKind, Vec<String>)>,
}

impl SectionBuilder {
    fn begin_section(&mut self, kind: SectionKind, line: &str) {
        self.close_section();
        self.open = Some((kind, vec![line.to_owned()]));
    }

    /// Adds a line to the open section, or to text.
    fn add_line(&mut self, line: &str) {
        match &mut self.open {
            Some((_, lines)) => lines.push(line.to_owned()),
            None if line.trim().is_empty() => {}
            None => self.begin_section(SectionKind::Text, line),
        }
    }

    fn open_kind(&self) -> Option<SectionKind> {
        self.open.as_ref().map(|(kind, _)| *kind)
    }

    fn close_section(&mut self) {
        if let Some((kind, lines)) = self.open.take() {
            let text = dedent(&lines);
            if !text.is_empty() {
                self.sections.push(Section { kind, text });
            }
        }
    }

    fn finish(mut self, is_ready: bool) -> Reading {
        self.close_section();
        Reading { sections: self.sections, is_ready }
    }
}

/// Joins lines: the first unchanged, the others without their common indentation.
fn dedent(lines: &[String]) -> String {
    let (first, following) =
        lines.split_first().map_or(("", &[][..]), |(first, following)| (first.as_str(), following));
    let indent = |line: &&String| line.len() - line.trim_start_matches(' ').len();
    let common_indent =
        following.iter().filter(|line| !line.trim().is_empty()).map(|line| indent(&line)).min().unwrap_or(0);
    let mut text = first.trim_end().to_owned();
    for line in following {
        text.push('\n');
        text.push_str(line.get(common_indent..).unwrap_or_default().trim_end());
    }
    text.trim_matches('\n').to_owned()
}
