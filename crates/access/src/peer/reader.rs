//! The program that reads a password from its askpass program.
//!
//! sudo(8), ssh(1) and git(1) start an askpass program and read the password from its output. Any process can start an
//! askpass program, so the kernel's data decides. The parent must be one of these programs, as installed by root. Only
//! root can read the output of the askpass program of sudo: sudo creates the pipe. No such proof exists for ssh and git,
//! which run as the user: another process of the user can read the same output, and both send a password to the server
//! of their configuration. The question to the person says so ([`PasswordReader::is_protected`]).
//!
//! The command `git` itself receives no password, because `git credential fill` prints it, and neither do ssh-add(1) and
//! ssh-keygen(1), which hand over the key instead.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::getuid;

use super::lineage::{self, Process};
use super::table::Proc;

/// The program whose pipe proves it.
const SUDO: &str = "sudo";

/// Other programs that receive passwords. The last two belong to git.
const RECEIVERS: [&str; 3] = ["ssh", "git-remote-http", "git-remote-https"];

/// Beginning of variables that load other code. The askpass program of steplatch has none of them.
const LOADER_PREFIX: &str = "LD_";

/// Beginnings of variables that load other code into ssh and git, or make git print what it sends.
const DIVERTING_VARIABLES: [&str; 5] =
    ["LD_PRELOAD=", "LD_AUDIT=", "GIT_TRACE_CURL=", "GIT_TRACE_REDACT=", "GIT_CURL_VERBOSE="];

/// Namespaces in which a program and its files have the same meaning for the daemon.
const NAMESPACES: [&str; 2] = ["mnt", "user"];

/// Maximum size of a command line, in bytes: a longer one cannot be shown to a person.
const MAX_COMMAND_BYTES: usize = 4096;

/// A program that reads a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordReader {
    /// Name of the program.
    pub program: String,
    /// Arguments of the program, without its name.
    pub arguments: Vec<String>,
    /// Id of the terminal or step that started the program, if steplatch did.
    pub origin: Option<String>,
}

impl PasswordReader {
    /// Returns whether no other process of the user can read the password.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.program == SUDO
    }
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
    /// Another process controls the program, or its environment diverts it.
    #[error(
        "'{0}' asked for a password while another process traces it, in another namespace, or with one of the variables \
         LD_PRELOAD, LD_AUDIT, GIT_TRACE_CURL, GIT_TRACE_REDACT and GIT_CURL_VERBOSE"
    )]
    Controlled(String),
    /// Another process may read the password.
    #[error("'{0}' asked for a password, and the output of its askpass program goes elsewhere, or also elsewhere")]
    Shared(String),
    /// The command line is too long for a question.
    #[error("'{0}' asked for a password, and its command is too long to be shown to a person")]
    TooLong(String),
}

/// Inspects the askpass process `pid` with this start time. Blocks while it reads descriptors of all processes.
pub(crate) fn read(pid: i32, started: u64) -> Result<PasswordReader, ReaderRefusal> {
    let known = lineage::read(&Proc, pid).known;
    let [own, parent, ..] = &known[..] else { return Err(ReaderRefusal::Unknown) };
    if own.started != started {
        return Err(ReaderRefusal::Unknown);
    }
    let program = find_program(parent.pid)?;
    let is_traced = |pid: i32| status(pid).is_none_or(|status| status.is_traced);
    if is_traced(pid)
        || is_traced(parent.pid)
        || has_variable(pid, &[LOADER_PREFIX])
        || has_variable(parent.pid, &DIVERTING_VARIABLES)
    {
        return Err(ReaderRefusal::Controlled(program));
    }
    match program.as_str() {
        SUDO => check_output_of_sudo(pid)?,
        _ => check_output(pid, parent.pid, &program)?,
    }
    let arguments = read_arguments(parent.pid).ok_or_else(|| ReaderRefusal::TooLong(program.clone()))?;
    // The data belongs to the parent only if it still is the parent.
    let now = lineage::read(&Proc, pid).known;
    if now.get(..2) != known.get(..2) {
        return Err(ReaderRefusal::Unknown);
    }
    // The process itself may have been started with any mark.
    let origin = known[1..].iter().find_map(|process: &Process| process.evidence.mark.clone());
    Ok(PasswordReader { program, arguments, origin })
}

/// Parts of proc_pid_status(5).
struct Status {
    name: String,
    is_root: bool,
    is_traced: bool,
}

fn status(pid: i32) -> Option<Status> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    Some(Status {
        name: field("Name:")?.to_owned(),
        is_root: field("Uid:")?.split_whitespace().nth(1) == Some("0"),
        is_traced: field("TracerPid:") != Some("0"),
    })
}

/// Returns the name of a process, if it receives passwords.
fn find_program(pid: i32) -> Result<String, ReaderRefusal> {
    let status = status(pid).ok_or(ReaderRefusal::Unknown)?;
    let executable = format!("/proc/{pid}/exe");
    let path = match fs::read_link(&executable) {
        Ok(path) => path,
        // The kernel hides the file of a program that runs with the rights of root. Its pipe proves that it is sudo.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return match status.is_root && status.name == SUDO {
                true => Ok(status.name),
                false => Err(ReaderRefusal::OtherProgram(status.name)),
            };
        }
        Err(_) => return Err(ReaderRefusal::Unknown),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if name != SUDO && !RECEIVERS.contains(&name.as_str()) {
        return Err(ReaderRefusal::OtherProgram(name));
    }
    // In other namespaces, another file may have the name.
    let is_elsewhere = |namespace: &&str| {
        let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/{namespace}")).ok();
        of(&pid.to_string()).is_none_or(|theirs| Some(theirs) != of("self"))
    };
    if NAMESPACES.iter().any(is_elsewhere) {
        return Err(ReaderRefusal::Controlled(name));
    }
    match fs::metadata(&executable) {
        Ok(file) if file.uid() == 0 && file.mode() & 0o022 == 0 => Ok(name),
        _ => Err(ReaderRefusal::Replaceable(name)),
    }
}

/// Returns whether the initial environment of a process has a variable with one of these beginnings. The environment of
/// sudo is hidden, and the dynamic linker ignores it.
fn has_variable(pid: i32, beginnings: &[&str]) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|variable| beginnings.iter().any(|beginning| variable.starts_with(beginning.as_bytes())))
}

/// Fails unless the standard output of a process is a pipe that root has created. Other users cannot open such a pipe
/// again through `/proc`. If this process runs as root, so do all, and the pipe proves nothing.
fn check_output_of_sudo(pid: i32) -> Result<(), ReaderRefusal> {
    let output = output_of(pid)?;
    let owner = fs::metadata(format!("/proc/{pid}/fd/1")).map_err(|_| ReaderRefusal::Unknown)?.uid();
    match is_pipe(&output) && (owner == 0 || getuid().is_root()) {
        true => Ok(()),
        false => Err(ReaderRefusal::Shared(SUDO.to_owned())),
    }
}

/// Fails unless the standard output of a process is a pipe, of which no visible process but the parent has the other
/// end.
fn check_output(pid: i32, parent: i32, program: &str) -> Result<(), ReaderRefusal> {
    let shared = || ReaderRefusal::Shared(program.to_owned());
    let output = output_of(pid)?;
    if !is_pipe(&output) {
        return Err(shared());
    }
    let processes = fs::read_dir("/proc").map_err(|_| ReaderRefusal::Unknown)?.flatten();
    let mut others = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    match others.any(|other| other != pid && other != parent && has_open(other, &output)) {
        true => Err(shared()),
        false => Ok(()),
    }
}

fn output_of(pid: i32) -> Result<std::path::PathBuf, ReaderRefusal> {
    fs::read_link(format!("/proc/{pid}/fd/1")).map_err(|_| ReaderRefusal::Unknown)
}

fn is_pipe(target: &Path) -> bool {
    target.to_string_lossy().starts_with("pipe:[")
}

fn has_open(pid: i32, target: &Path) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|open| open == target)
}

/// Returns the arguments of a process without its name, which it can choose. `None` if they are too long.
fn read_arguments(pid: i32) -> Option<Vec<String>> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    if bytes.len() > MAX_COMMAND_BYTES {
        return None;
    }
    let words = bytes.strip_suffix(b"\0").unwrap_or(&bytes).split(|byte| *byte == 0).skip(1);
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use steplatch_patience::eventually_blocking;

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
        // A test that starts a program at the same time has a copy of the pipe until its execve(2).
        eventually_blocking("only this process has the other end", || check_output(pid, own, "ssh"));
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
