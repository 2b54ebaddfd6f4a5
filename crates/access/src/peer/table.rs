//! The kernel's data on processes: proc_pid_stat(5), proc_pid_environ(5).

use std::fs::{self, File};
use std::io::{self, Read as _};

use steplatch_terminal::TERMINAL_VARIABLE;

use super::group;
use super::mounts::mounts;

/// Maximum size of an environment, in bytes: the limit of Linux (`_STK_LIM / 4 * 3`).
const MAX_ENVIRONMENT_BYTES: u64 = 6 * 1024 * 1024;

/// A process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    /// Id of the parent, or 0 if the parent is invisible from here.
    pub(super) parent: i32,
    /// Start time, in clock ticks since the system start.
    pub(super) started: u64,
    /// True if the first thread has exited. The process remains the parent of its children while other threads run.
    pub(super) has_exited: bool,
}

/// Evidence that steplatch started a process, or one of its ancestors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// Mark that steplatch sets in the environment of processes that it starts, if the initial environment is readable.
    pub(crate) mark: Option<String>,
    /// True if the process is in the cgroup of a daemon, or if file descriptors or memory ran out during the read.
    pub(crate) may_be_in_group: bool,
}

/// The list of all processes. It may change during a read.
pub(super) trait ProcessTable {
    /// Returns the status of a process, if it exists. An exited process exists until its parent reaps it.
    fn status(&self, pid: i32) -> Option<Status>;

    /// Returns whether the table omits processes of other users.
    fn hides_others(&self) -> bool;

    /// Returns the evidence that steplatch started a process.
    fn evidence(&self, pid: i32) -> Evidence;
}

/// The process table of this computer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Proc;

impl ProcessTable for Proc {
    fn status(&self, pid: i32) -> Option<Status> {
        parse_status(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn hides_others(&self) -> bool {
        fs::read_to_string("/proc/self/mountinfo").is_ok_and(|mounts| hides_others(&mounts))
    }

    fn evidence(&self, pid: i32) -> Evidence {
        let mut environment = Vec::new();
        let read_result = File::open(format!("/proc/{pid}/environ"))
            .and_then(|file| file.take(MAX_ENVIRONMENT_BYTES).read_to_end(&mut environment));
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"));
        // A read that failed for lack of resources may have missed the evidence.
        let is_starved = read_result.as_ref().err().is_some_and(is_resource_shortage);
        let may_be_in_group = match groups {
            Ok(groups) => group::is_daemon_group(&groups),
            Err(error) => is_resource_shortage(&error),
        };
        Evidence {
            mark: read_result.ok().and_then(|_| parse_mark(&environment)),
            may_be_in_group: may_be_in_group || is_starved,
        }
    }
}

/// Returns whether an error is a shortage of file descriptors or memory. Such an error reveals nothing about the
/// process.
fn is_resource_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn parse_status(stat: &str) -> Option<Status> {
    // The name may contain parentheses; field 3, the state, follows the last one.
    let (_, fields_text) = stat.rsplit_once(')')?;
    let mut fields = fields_text.split_whitespace();
    let (state, parent) = (fields.next()?, fields.next()?);
    let started = fields.nth(17)?;
    let has_exited = matches!(state, "Z" | "X" | "x");
    Some(Status { parent: parent.parse().ok()?, started: started.parse().ok()?, has_exited })
}

/// Returns whether `/proc` is mounted with `hidepid`, by the list of mounts: proc(5).
fn hides_others(mountinfo: &str) -> bool {
    let is_hiding = |option: &str| option.strip_prefix("hidepid=").is_some_and(|value| !["0", "off"].contains(&value));
    // The last mount hides earlier mounts.
    let proc_mount = mounts(mountinfo).rfind(|mount| mount.mount_point == "/proc");
    proc_mount.is_some_and(|mount| mount.options.split(',').any(is_hiding))
}

/// Returns the start time of a process, in clock ticks since the system start.
#[cfg(test)]
pub(super) fn start_time(pid: i32) -> Option<u64> {
    Proc.status(pid).map(|status| status.started)
}

/// Returns whether a process is in the foreground of its controlling terminal.
pub(super) fn is_in_foreground_of_terminal(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| is_in_foreground(&stat))
}

/// Reads fields 5, 7 and 8: the process group, the terminal, and the group that has its foreground.
fn is_in_foreground(stat: &str) -> bool {
    let Some((_, fields_text)) = stat.rsplit_once(')') else { return false };
    let fields: Vec<&str> = fields_text.split_whitespace().take(6).collect();
    matches!(fields[..], [_, _, group, _, terminal, foreground] if terminal != "0" && group == foreground)
}

fn parse_mark(environment: &[u8]) -> Option<String> {
    let mut entries = environment.split(|byte| *byte == 0);
    let mark = entries.find_map(|entry| entry.strip_prefix(TERMINAL_VARIABLE.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(mark).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_parsed_with_any_program_name() {
        let stat =
            "4711 (a) S 1 (b) S 20 4711 4711 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 88123 1000 200 18446744073709551615";
        let status = Status { parent: 20, started: 88123, has_exited: false };
        assert_eq!(parse_status(stat), Some(status));
        assert_eq!(parse_status(&stat.replace("(b) S", "(b) Z")), Some(Status { has_exited: true, ..status }));
        assert_eq!(parse_status("4711 (a) S"), None);
    }

    #[test]
    fn other_users_processes_are_hidden_by_mount_option() {
        let mount = |options: &str| format!("20 1 0:20 / /proc rw,nosuid shared:5 - proc proc {options}\n");
        assert!(hides_others(&mount("rw,hidepid=2")) && hides_others(&mount("rw,hidepid=invisible,gid=4")));
        assert!(!hides_others(&mount("rw")) && !hides_others(&mount("rw,hidepid=0")) && !hides_others(""));
        assert!(!hides_others("20 1 0:20 / /other rw - proc proc rw,hidepid=2\n"));
    }

    #[test]
    fn process_must_be_in_the_foreground_of_its_terminal() {
        let stat = |group: u32, terminal: u32| format!("4711 (a) b) S 20 {group} 4700 {terminal} 4711 4194560 1 0");
        assert!(is_in_foreground(&stat(4711, 34816)));
        assert!(!is_in_foreground(&stat(4712, 34816)), "another group is in the foreground");
        assert!(!is_in_foreground(&stat(4711, 0)), "the process has no terminal");
    }

    #[test]
    fn own_process_has_an_older_parent() {
        let own_pid = i32::try_from(std::process::id()).unwrap();
        let status = Proc.status(own_pid).unwrap();
        assert!(Proc.status(status.parent).unwrap().started <= status.started);
        assert_eq!(Proc.status(i32::MAX), None);
    }

    #[test]
    fn mark_is_read_from_its_variable_only() {
        let environment = b"A=1\0STEPLATCH_TERMINALS=no\0STEPLATCH_TERMINAL=term_x\0B=STEPLATCH_TERMINAL=y\0";
        assert_eq!(parse_mark(environment).as_deref(), Some("term_x"));
        assert_eq!(parse_mark(b"B=STEPLATCH_TERMINAL=y\0"), None);
    }
}
