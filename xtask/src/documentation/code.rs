//! Syntax checks of the code blocks in the documentation, by language.
//!
//! Parses the code without executing it: JSON and TOML in this process, Python and shell commands with their own
//! interpreters.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// A language with a syntax check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Json,
    Toml,
    Python,
    Shell,
    /// Commands after `$ `, and their output.
    Console,
}

/// Parses each text of a JSON list and prints a JSON list with an error or null for each.
const PYTHON_CHECK: &str = "\
import ast, json, sys
def error(text):
    try:
        ast.parse(text)
    except SyntaxError as error:
        return f'{error.msg} in line {error.lineno}'
print(json.dumps([error(text) for text in json.load(sys.stdin)]))
";

impl Language {
    /// Returns the language with this name. `None` for a language without a check.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "toml" => Some(Self::Toml),
            "python" | "py" => Some(Self::Python),
            "sh" | "bash" | "shell" => Some(Self::Shell),
            "console" => Some(Self::Console),
            _ => None,
        }
    }
}

/// Returns, for each piece of code in order, its syntax error, if any.
///
/// # Errors
/// If `bash` or `python3` cannot be run.
pub(super) fn errors(pieces: &[(Language, &str)]) -> anyhow::Result<Vec<Option<String>>> {
    // One interpreter parses all Python blocks, because its start takes longer than the rest of the check.
    let python: Vec<&str> =
        pieces.iter().filter(|(language, _)| *language == Language::Python).map(|(_, code)| *code).collect();
    let mut python_errors = python_errors(&python)?.into_iter();
    let error = |&(language, code): &(Language, &str)| match language {
        Language::Json => Ok(serde_json::from_str::<serde_json::Value>(code).err().map(|error| error.to_string())),
        Language::Toml => Ok(code.parse::<toml::Table>().err().map(|error| error.message().to_owned())),
        Language::Python => python_errors.next().context("python3 printed too few results."),
        Language::Shell => shell_error(code),
        Language::Console => shell_error(&typed_commands(code)),
    };
    pieces.iter().map(error).collect()
}

/// Returns the commands of a console session: the lines after `$ `, with their continuation lines after `> `.
fn typed_commands(session: &str) -> String {
    let mut commands = String::new();
    let mut continues = false;
    for line in session.lines() {
        let command = line.strip_prefix("$ ").or_else(|| line.strip_prefix("> ").filter(|_| continues));
        continues = command.is_some();
        if let Some(command) = command {
            commands.push_str(command);
            commands.push('\n');
        }
    }
    commands
}

/// Returns bash's error about commands. Bash parses the commands without executing them. A warning counts as an error,
/// for example about a here-document without an end.
fn shell_error(code: &str) -> anyhow::Result<Option<String>> {
    let output = run_with_input(Command::new("bash").arg("-n").env("LC_ALL", "C"), code)?;
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.lines().next().map(|line| line.trim_start_matches("bash: ").to_owned());
    Ok(message.or_else(|| (!output.status.success()).then(|| output.status.to_string())))
}

fn python_errors(texts: &[&str]) -> anyhow::Result<Vec<Option<String>>> {
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let input = serde_json::to_string(texts)?;
    let output = run_with_input(Command::new("python3").args(["-c", PYTHON_CHECK]), &input)?;
    if !output.status.success() {
        bail!("python3 could not parse: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs a program with `input` on standard input and returns its output.
fn run_with_input(command: &mut Command, input: &str) -> anyhow::Result<std::process::Output> {
    let program = command.get_program().to_owned();
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("{} could not be run.", program.display()))?;
    // Ignore a failure: a program that exits at the first error does not read the rest.
    let _ = child.stdin.take().context("The input of a program is not open.")?.write_all(input.as_bytes());
    Ok(child.wait_with_output()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_is_parsed() {
        let valid_blocks = [
            (Language::Json, "{\"a\": 1}"),
            (Language::Toml, "[a]\nb = 1"),
            (Language::Python, "async def f(ctx):\n    return await ctx.gate('x')"),
            (Language::Shell, "if true; then ls; fi"),
            (Language::Console, "$ echo \\\n> 'a'\nprinted (\n> and"),
        ];
        assert_eq!(errors(&valid_blocks).unwrap(), [const { None }; 5]);
        let invalid_blocks = [
            (Language::Json, "\"a\": 1"),
            (Language::Toml, "[a"),
            (Language::Python, "def f("),
            (Language::Shell, "if true; then"),
            (Language::Shell, "cat <<END\ntext\n"),
            (Language::Console, "$ echo 'a"),
        ];
        let errors = errors(&invalid_blocks).unwrap();
        assert!(errors.iter().all(Option::is_some), "{errors:?}");
    }
}
