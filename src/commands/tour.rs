//! `steplatch tour`: the page `docs/tour.md`, step by step, with its commands run in a separate directory.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::{Command, ExitCode};

use clap::Args;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};
use tokio::signal::unix::{SignalKind, signal};

use super::docs::without_link_targets;
use crate::failure::Failure;
use crate::print::{self, QUIET, STRONG};

/// Try terminals, workflows and gates in ten minutes
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Tour {}

const HELP: &str = "\
It needs a terminal, runs in a new directory and removes it at the end.
'steplatch docs tour' shows the same as a page.";

/// The page. Its sections are the steps, and the lines of its blocks in `sh` are the commands.
const PAGE: &str = include_str!("../../docs/tour.md");

/// Files in the directory of the tour.
const FILES: [(&str, &str); 3] = [
    ("setup.sh", include_str!("../../examples/capture/setup.sh")),
    ("release.json", include_str!("../../examples/tour/release.json")),
    ("repair.json", include_str!("../../examples/tour/repair.json")),
];

/// Maximum width of the text, in columns.
const MAX_TEXT_COLUMNS: usize = 80;

const PROMPT: &str = "$ ";

/// A section of the page.
struct Step<'a> {
    heading: &'a str,
    parts: Vec<Part<'a>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    /// A paragraph in one line, without the targets of its links.
    Paragraph(String),
    Command(&'a str),
}

/// Returns the sections of a page. The text before the first section is for readers of the page.
fn steps(page: &str) -> Vec<Step<'_>> {
    page.split("\n## ")
        .skip(1)
        .map(|section| {
            let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
            let mut parts = Vec::new();
            // Every second part is code.
            for (index, text) in body.split("```").enumerate() {
                match text.split_once('\n') {
                    Some((language, commands)) if index % 2 == 1 => {
                        let is_shell = language.split(' ').next() == Some("sh");
                        parts.extend(commands.lines().filter(|_| is_shell).map(Part::Command));
                    }
                    _ => {
                        let paragraphs = text.split("\n\n").map(|text| text.split_whitespace().collect::<Vec<_>>());
                        let paragraphs = paragraphs.filter(|words| !words.is_empty());
                        parts.extend(paragraphs.map(|words| Part::Paragraph(without_link_targets(&words.join(" ")))));
                    }
                }
            }
            Step { heading, parts }
        })
        .collect()
}

/// Decision of the person at a command.
enum Decision {
    GoOn,
    Leave,
}

/// Shows the rest of the proposed command after the typed text.
struct Proposal {
    command: String,
}

impl Hinter for Proposal {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.command.strip_prefix(line).filter(|rest| !rest.is_empty()).map(str::to_owned)
    }
}

impl Highlighter for Proposal {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        match print::is_coloured() {
            true => Cow::Owned(format!("{QUIET}{hint}{QUIET:#}")),
            false => Cow::Borrowed(hint),
        }
    }
}

impl Completer for Proposal {
    type Candidate = String;
}

impl Validator for Proposal {}

impl Helper for Proposal {}

/// The shell of the tour.
struct Guide {
    editor: Editor<Proposal, DefaultHistory>,
    /// The directory of the commands.
    directory: tempfile::TempDir,
    search_path: OsString,
    state_directory: Option<OsString>,
}

impl Tour {
    /// Runs the tour with the given state directory, or with the default one.
    pub(super) fn run(self, state_directory: Option<&Path>) -> Result<ExitCode, Failure> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Err(Failure::usage("the tour needs a terminal; 'steplatch docs tour' shows it as a page"));
        }
        // With a handler, Ctrl-C reaches only the command.
        let _interrupted = signal(SignalKind::interrupt())?;
        let mut guide = Guide::begin(state_directory)?;
        let columns = print::width().unwrap_or(MAX_TEXT_COLUMNS).min(MAX_TEXT_COLUMNS);
        print::remark("Enter runs the proposed command; type another one as you like, 'skip' or 'quit'");
        let steps = steps(PAGE);
        for (index, step) in steps.iter().enumerate() {
            print::line(format!(
                "\n{STRONG}{}{STRONG:#}  {QUIET}{} of {}{QUIET:#}",
                step.heading,
                index + 1,
                steps.len()
            ))?;
            for part in &step.parts {
                match part {
                    Part::Paragraph(text) => print::line(format!("\n{}", print::wrapped(text, columns).join("\n")))?,
                    Part::Command(command) => {
                        if let Decision::Leave = guide.propose(command)? {
                            print::remark(
                                "if it is still open, close the terminal with: steplatch terminal close tour",
                            );
                            return Ok(ExitCode::SUCCESS);
                        }
                    }
                }
            }
        }
        print::line("")?;
        print::remark("this was the tour; its directory is removed, and its runs stay in: steplatch runs list");
        Ok(ExitCode::SUCCESS)
    }
}

impl Guide {
    fn begin(state_directory: Option<&Path>) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("steplatch-tour-").tempdir()?;
        for (name, text) in FILES {
            std::fs::write(directory.path().join(name), text)?;
        }
        // The program may have another name, or a directory that is not searched.
        let programs = directory.path().join(".bin");
        std::fs::create_dir(&programs)?;
        std::os::unix::fs::symlink(std::env::current_exe()?, programs.join("steplatch"))?;
        let searched = std::env::var_os("PATH").unwrap_or_default();
        let search_path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&searched)));
        let editor = Editor::new().map_err(io::Error::other)?;
        Ok(Self {
            editor,
            directory,
            search_path: search_path.map_err(io::Error::other)?,
            state_directory: state_directory.map(|directory| directory.as_os_str().to_owned()),
        })
    }

    /// Proposes a command and runs lines of the person, until the command has succeeded or is skipped.
    fn propose(&mut self, command: &str) -> Result<Decision, Failure> {
        self.editor.set_helper(Some(Proposal { command: command.to_owned() }));
        print::line("")?;
        loop {
            let line = match self.editor.readline(PROMPT) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => return Ok(Decision::Leave),
                Err(error) => return Err(io::Error::other(error).into()),
            };
            let line = match line.trim() {
                "quit" | "exit" => return Ok(Decision::Leave),
                "skip" => return Ok(Decision::GoOn),
                "" => {
                    // The editor removes the proposal from the line.
                    print::bytes(format!("\x1b[A\r{PROMPT}{command}\x1b[K\n").as_bytes())?;
                    command
                }
                typed => typed,
            };
            // Ignore the result, because a line that is not kept can be typed again.
            let _ = self.editor.add_history_entry(line);
            if self.execute(line)? && line == command {
                return Ok(Decision::GoOn);
            }
        }
    }

    /// Runs a line of sh in this terminal. Prints its exit code if it failed, and returns whether it succeeded.
    fn execute(&self, line: &str) -> Result<bool, Failure> {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(self.directory.path()).env("PATH", &self.search_path);
        if let Some(directory) = &self.state_directory {
            shell.env("STEPLATCH_STATE_DIR", directory);
        }
        let status = shell.status().map_err(|error| Failure::system("'sh' cannot be run", &error))?;
        if !status.success() {
            print::remark(&status.to_string());
        }
        Ok(status.success())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::commands::Arguments;

    #[test]
    fn sections_are_steps_and_block_lines_are_commands() {
        let page = "# Title\n\nIntro.\n\n## One\n\nA [link\nof](x.md) two\nlines.\n\nMore.\n\n```sh answer=\"1\"\na\nb\n```\n\n```text\nc\n```\n";
        let steps = steps(page);
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].heading, "One");
        let paragraph = |text: &str| Part::Paragraph(text.to_owned());
        let parts = [paragraph("A link of two lines."), paragraph("More."), Part::Command("a"), Part::Command("b")];
        assert_eq!(steps[0].parts, parts);
    }

    #[test]
    fn page_commands_exist_in_the_program() {
        let steps = steps(PAGE);
        let parts = steps.iter().flat_map(|step| &step.parts);
        let commands = parts.filter_map(|part| if let Part::Command(command) = part { Some(*command) } else { None });
        let commands: Vec<&str> = commands.filter(|command| command.starts_with("steplatch ")).collect();
        assert!(commands.len() > 10, "{commands:?}");
        for command in commands {
            let words = shell_words::split(command.split(" > ").next().unwrap()).unwrap();
            Arguments::command().try_get_matches_from(words).unwrap_or_else(|error| panic!("{command}: {error}"));
        }
    }
}
