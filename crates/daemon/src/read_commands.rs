//! Commands that only read: the user's list of them, and their execution without a shell.
//!
//! A client may allow the tool for them once, because it runs nothing outside the list. The list is a statement of the
//! user: the daemon checks the words of a command, and not its effects.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use steplatch_access::{Caller, Redactor};
use steplatch_protocol::{ReadCommand, ReadCommandReply};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

/// Maximum size of one stream of a command, in bytes. A command that prints more is ended.
const MAX_STREAM_BYTES: usize = 4 << 20;

/// Maximum length of a returned text, in bytes.
const MAX_TEXT_BYTES: usize = 20_000;

/// Variables that keep programs from opening a pager, drawing, and taking locks.
const VARIABLES: [(&str, &str); 4] =
    [("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_OPTIONAL_LOCKS", "0"), ("TERM", "dumb")];

/// One entry of the list: the words of a command.
///
/// `*` stands for exactly one argument, and a final `**` for any number of them; none of these may begin with `-`, since
/// options can make a reading command write. Other words are compared as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedCommand {
    words: Vec<String>,
}

/// Reason why a text is no entry of the list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEntry {
    /// The quotes do not match, or there is no word.
    #[error("'{0}' has no words, or an open quote")]
    Words(String),
    /// The program is a pattern or a relative path.
    #[error("'{0}' does not begin with the name of a program or an absolute path")]
    Program(String),
    /// A word contains a star and other characters, or `**` is not the last one.
    #[error("in '{0}', * and ** are words of their own, and ** is the last one")]
    Star(String),
}

impl FromStr for AllowedCommand {
    type Err = InvalidEntry;

    fn from_str(text: &str) -> Result<Self, InvalidEntry> {
        let text = text.trim();
        let words = shell_words::split(text).unwrap_or_default();
        let Some((program, arguments)) = words.split_first() else { return Err(InvalidEntry::Words(text.to_owned())) };
        if program.is_empty() || program.contains('*') || program.contains('/') && !program.starts_with('/') {
            return Err(InvalidEntry::Program(text.to_owned()));
        }
        let is_misplaced = |(index, word): (usize, &String)| match word.as_str() {
            "**" => index + 1 < arguments.len(),
            "*" => false,
            word => word.contains('*'),
        };
        if arguments.iter().enumerate().any(is_misplaced) {
            return Err(InvalidEntry::Star(text.to_owned()));
        }
        Ok(Self { words })
    }
}

impl fmt::Display for AllowedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = self.words.iter().map(|word| match word.as_str() {
            "*" | "**" => word.clone(),
            word => shell_words::quote(word).into_owned(),
        });
        f.write_str(&quoted.collect::<Vec<_>>().join(" "))
    }
}

impl AllowedCommand {
    /// Parses a list of entries, separated by semicolons or line ends.
    ///
    /// # Errors
    /// If an entry is invalid.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, InvalidEntry> {
        text.split([';', '\n']).filter(|entry| !entry.trim().is_empty()).map(str::parse).collect()
    }

    /// Returns whether a command is an instance of the entry.
    fn permits(&self, command: &[String]) -> bool {
        let is_plain = |word: &String| !word.starts_with('-');
        let (words, has_more) = match self.words.split_last() {
            Some((last, words)) if last == "**" => (words, true),
            _ => (self.words.as_slice(), false),
        };
        let has_length = if has_more { command.len() >= words.len() } else { command.len() == words.len() };
        has_length
            && words
                .iter()
                .zip(command)
                .all(|(word, actual)| if word == "*" { is_plain(actual) } else { word == actual })
            && command[words.len()..].iter().all(is_plain)
    }
}

/// Runs a command of the list and returns its output, with secrets hidden.
pub(crate) async fn run(
    caller: &Caller,
    list: &[AllowedCommand],
    secrets: &Redactor,
    verb: ReadCommand,
) -> ReadCommandReply {
    match try_run(caller, list, &verb).await {
        Ok(ended) => {
            let (output, omitted) = to_text(ended.output, secrets);
            let (error_output, omitted_errors) = to_text(ended.errors, secrets);
            let omitted_bytes = Some(omitted + omitted_errors).filter(|bytes| *bytes > 0);
            ReadCommandReply {
                success: true,
                output,
                error_output,
                exit_code: ended.exit_code,
                omitted_bytes,
                error: ended.signal.map(|signal| format!("signal {signal} ended the command")),
            }
        }
        Err(error) => ReadCommandReply { error: Some(secrets.masked(error)), ..ReadCommandReply::default() },
    }
}

/// Returns the text of a stream, or its beginning, and the number of omitted bytes.
fn to_text(bytes: Vec<u8>, secrets: &Redactor) -> (String, u64) {
    let text = secrets.masked(String::from_utf8_lossy(&bytes).into_owned());
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    let omitted = (text.len() - end) as u64;
    let text = if omitted > 0 { secrets.masked_fragment(text[..end].to_owned()) } else { text };
    (text, omitted)
}

/// A command that has ended by itself.
struct Ended {
    output: Vec<u8>,
    errors: Vec<u8>,
    exit_code: Option<i32>,
    signal: Option<i32>,
}

/// Ends all processes of a command when dropped.
struct ProcessGroup(Option<Pid>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // The group may have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn try_run(caller: &Caller, list: &[AllowedCommand], verb: &ReadCommand) -> Result<Ended, String> {
    if !list.iter().any(|entry| entry.permits(&verb.command)) {
        return Err(describe_refusal(list));
    }
    let timeout = Some(verb.timeout).filter(|seconds| (0.1..=60.0).contains(seconds));
    let timeout = timeout.ok_or("timeout must be between 0.1 and 60 seconds")?;
    let directory = match &verb.working_directory {
        Some(directory) => caller.directory.join(steplatch_sessions::expand_home(directory, caller)),
        None => caller.directory.clone(),
    };
    if !directory.is_dir() {
        return Err(format!("{} is not a directory", directory.display()));
    }
    let (program, arguments) = verb.command.split_first().ok_or("command is empty")?;
    let program = find_program(program, &caller.environment)
        .ok_or_else(|| format!("there is no program '{program}' in the directories of PATH"))?;
    let child = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .envs(caller.environment.iter().map(|(name, value)| (name, value)))
        .envs(VARIABLES)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = child.map_err(|error| format!("the command was not started: {error}"))?;
    let _group = ProcessGroup(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let work = async {
        // A process in the background may still print.
        tokio::try_join!(read_stream(stdout, &mut output), read_stream(stderr, &mut errors))?;
        child.wait().await.map_err(|error| format!("the end of the command is unknown: {error}"))
    };
    let status = tokio::time::timeout(Duration::from_secs_f64(timeout), work)
        .await
        .map_err(|_| format!("the command did not end within {timeout} s and was ended; give a larger timeout"))??;
    Ok(Ended { output, errors, exit_code: status.code(), signal: status.signal() })
}

fn describe_refusal(list: &[AllowedCommand]) -> String {
    let entries: Vec<String> = list.iter().map(ToString::to_string).collect();
    match entries.is_empty() {
        true => {
            "no command is on the list: the user sets mcp.read_commands in the settings; use run_command".to_owned()
        }
        false => format!(
            "the command is not on the user's list and was not run; on it are: {}. * is one argument and ** any number, \
             none an option. Use run_command for other commands",
            entries.join("; ")
        ),
    }
}

async fn read_stream(stream: Option<impl AsyncRead + Unpin>, bytes: &mut Vec<u8>) -> Result<(), String> {
    let Some(stream) = stream else { return Ok(()) };
    let read = stream.take(MAX_STREAM_BYTES as u64 + 1).read_to_end(bytes).await;
    read.map_err(|error| format!("the output of the command cannot be read: {error}"))?;
    match bytes.len() > MAX_STREAM_BYTES {
        true => Err(format!("the command printed more than {} MB and was ended; narrow it", MAX_STREAM_BYTES >> 20)),
        false => Ok(()),
    }
}

/// Finds a program in the absolute directories of PATH. A relative directory would depend on the working directory.
fn find_program(name: &str, environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if name.starts_with('/') {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    let (_, directories) = environment.iter().find(|(variable, _)| variable == "PATH")?;
    let absolute = std::env::split_paths(directories).filter(|directory| directory.is_absolute());
    absolute.map(|directory| directory.join(name)).find(|path| is_program(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(entry: &str, command: &[&str]) -> bool {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        entry.parse::<AllowedCommand>().unwrap().permits(&command)
    }

    #[test]
    fn entry_permits_its_words_and_no_other_options() {
        assert!(permits("git status", &["git", "status"]));
        assert!(permits("git log --oneline **", &["git", "log", "--oneline"]));
        assert!(permits("git log --oneline **", &["git", "log", "--oneline", "main", "src"]));
        assert!(permits("git show *", &["git", "show", "HEAD"]));
        assert!(permits("grep 'a b' *", &["grep", "a b", "file; rm -r /"]));
        for (entry, command) in [
            ("git status", &["git"][..]),
            ("git status", &["git", "status", "-s"]),
            ("git log **", &["git", "log", "--output=x"]),
            ("git log **", &["git", "log", "main", "-n1"]),
            ("git show *", &["git", "show"]),
            ("git show *", &["git", "show", "--ext-diff"]),
            ("git show *", &["git", "show", "HEAD", "HEAD"]),
            ("ls **", &["/bin/ls"]),
            ("ls", &[]),
            ("ls **", &["LS"]),
        ] {
            assert!(!permits(entry, command), "{entry} {command:?}");
        }
    }

    #[test]
    fn list_is_parsed_and_displayed() {
        let list = AllowedCommand::parse_list("git status; grep 'a b' *\n/bin/ls **;").unwrap();
        let texts: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["git status", "grep 'a b' *", "/bin/ls **"]);
        assert_eq!(AllowedCommand::parse_list(" ; ").unwrap(), []);
        for text in ["*", "** a", "./run", "a/b", "git ** log", "git --out=*", "git 'a", "git l*"] {
            assert!(AllowedCommand::parse_list(text).is_err(), "{text}");
        }
    }

    #[test]
    fn program_is_found_in_absolute_directories_only() {
        let environment = |path: &str| [(OsString::from("PATH"), OsString::from(path))];
        assert!(find_program("sh", &environment("/usr/bin:/bin")).is_some());
        assert_eq!(find_program("sh", &environment(".:bin")), None);
        assert_eq!(find_program("/nonexistent/sh", &environment("/bin")), None);
    }
}
