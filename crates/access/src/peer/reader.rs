//! The program that reads a password from its askpass program.
//!
//! sudo(8), ssh(1) and git(1) start an askpass program and read the password from its output. Any process can start an
//! askpass program, so the kernel's data decides: the parent must be one of these programs, as the system's
//! administrator has installed it, and only the parent may read the output. The command `git` itself receives none,
//! because `git credential fill` prints it. A process of the same user can still read the memory of ssh and git.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::lineage::{self, Process};
use super::table::Proc;

/// Programs that receive passwords. The last two belong to git.
const RECEIVERS: [&str; 6] = ["sudo", "ssh", "ssh-add", "ssh-keygen", "git-remote-http", "git-remote-https"];

/// Variables that load other code into a program, or make git print what it sends.
const DIVERTING_VARIABLES: [&str; 5] =
    ["LD_PRELOAD=", "LD_AUDIT=", "GIT_TRACE_CURL=", "GIT_TRACE_REDACT=", "GIT_CURL_VERBOSE="];

/// Maximum length of a command line, in characters.
const MAX_COMMAND_CHARS: usize = 300;

/// A program that reads a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordReader {
    /// Name of the program.
    pub program: String,
    /// Its command line.
    pub command: String,
    /// Id of the terminal or step that started the program, if steplatch did.
    pub origin: Option<String>,
}

/// Reason for giving no password to a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReaderRefusal {
    /// The process that asks is unknown, or its parent is.
    #[error("the program that asks for a password is unknown: it has exited, or /proc hides it")]
    Unknown,
    /// The parent is not a program that receives passwords.
    #[error(
        "'{0}' asked for a password, and only sudo, ssh and the transports of git receive one; at the prompt of another \
         program in a terminal, wait with request_secret"
    )]
    OtherProgram(String),
    /// The user can change the program.
    #[error("'{0}' asked for a password, and its file can be changed by others than root")]
    Replaceable(String),
    /// Another process controls the program, or variables extend it.
    #[error(
        "'{0}' asked for a password while another process traces it, or with one of the variables LD_PRELOAD, LD_AUDIT, \
         GIT_TRACE_CURL, GIT_TRACE_REDACT and GIT_CURL_VERBOSE"
    )]
    Controlled(String),
    /// Another process may read the password.
    #[error("'{0}' asked for a password, and the output of its askpass program goes elsewhere, or also elsewhere")]
    Shared(String),
}

/// Inspects the askpass process `pid` with this start time. Blocks while it reads descriptors of all processes.
pub(crate) fn read(pid: i32, started: u64) -> Result<PasswordReader, ReaderRefusal> {
    let known = lineage::read(&Proc, pid).known;
    let [own, parent, ..] = &known[..] else { return Err(ReaderRefusal::Unknown) };
    if own.started != started {
        return Err(ReaderRefusal::Unknown);
    }
    let program = check_program(parent.pid)?;
    check_output(pid, parent.pid, &program)?;
    // The data belongs to the parent only if it still is the parent.
    let now = lineage::read(&Proc, pid).known;
    if now.get(..2) != known.get(..2) {
        return Err(ReaderRefusal::Unknown);
    }
    let origin = known.iter().find_map(|process: &Process| process.evidence.mark.clone());
    Ok(PasswordReader { program, command: command_line(parent.pid), origin })
}

/// Returns the name of a process, if it receives passwords.
fn check_program(pid: i32) -> Result<String, ReaderRefusal> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| ReaderRefusal::Unknown)?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let executable = format!("/proc/{pid}/exe");
    let (name, is_replaceable) = match fs::read_link(&executable) {
        Ok(path) => {
            let file = fs::metadata(&executable).map_err(|_| ReaderRefusal::Unknown)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, file.uid() != 0 || file.mode() & 0o022 != 0)
        }
        // The kernel hides the file of a program that runs with the rights of root.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let is_root = field("Uid:").and_then(|ids| ids.split_whitespace().nth(1)) == Some("0");
            (field("Name:").unwrap_or_default().to_owned(), !is_root)
        }
        Err(_) => return Err(ReaderRefusal::Unknown),
    };
    if !RECEIVERS.contains(&name.as_str()) {
        return Err(ReaderRefusal::OtherProgram(name));
    }
    if is_replaceable {
        return Err(ReaderRefusal::Replaceable(name));
    }
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    let is_diverted =
        variables.any(|variable| DIVERTING_VARIABLES.iter().any(|name| variable.starts_with(name.as_bytes())));
    if is_diverted || field("TracerPid:") != Some("0") {
        return Err(ReaderRefusal::Controlled(name));
    }
    Ok(name)
}

/// Fails unless the standard output of a process is a pipe, of which its parent only has the other end.
fn check_output(pid: i32, parent: i32, program: &str) -> Result<(), ReaderRefusal> {
    let shared = || ReaderRefusal::Shared(program.to_owned());
    let output = fs::read_link(format!("/proc/{pid}/fd/1")).map_err(|_| ReaderRefusal::Unknown)?;
    if !output.to_string_lossy().starts_with("pipe:[") {
        return Err(shared());
    }
    let processes = fs::read_dir("/proc").map_err(|_| ReaderRefusal::Unknown)?.flatten();
    let mut others = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    match others.any(|other| other != pid && other != parent && has_open(other, &output)) {
        true => Err(shared()),
        false => Ok(()),
    }
}

fn has_open(pid: i32, target: &Path) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|open| open == target)
}

fn command_line(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ");
    words.trim().chars().take(MAX_COMMAND_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::peer::table::start_time;

    fn spawn(script: &str) -> (Child, i32) {
        let mut shell = Command::new("sh");
        let child = shell.args(["-c", script]).stdout(Stdio::piped()).stdin(Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        (child, pid)
    }

    #[test]
    fn only_known_programs_receive_a_password() {
        let (mut child, pid) = spawn("read -r line");
        let started = start_time(pid).unwrap();
        // The parent is this test.
        let refusal = read(pid, started).unwrap_err();
        assert!(matches!(refusal, ReaderRefusal::OtherProgram(_)), "{refusal:?}");
        assert_eq!(read(pid, started + 1), Err(ReaderRefusal::Unknown), "another process with the same id");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(read(pid, started), Err(ReaderRefusal::Unknown));
    }

    #[test]
    fn output_that_others_read_receives_no_password() {
        let (mut child, pid) = spawn("read -r line");
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(check_output(pid, own, "ssh"), Ok(()), "this process only has the other end");
        let shared = Err(ReaderRefusal::Shared("ssh".to_owned()));
        assert_eq!(check_output(pid, 1, "ssh"), shared, "the reader is another process than the parent");
        child.kill().unwrap();
        child.wait().unwrap();
        let file = tempfile::tempfile().unwrap();
        let mut child = Command::new("sleep").arg("1000").stdout(file).spawn().unwrap();
        assert_eq!(check_output(i32::try_from(child.id()).unwrap(), own, "ssh"), shared, "a file");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
