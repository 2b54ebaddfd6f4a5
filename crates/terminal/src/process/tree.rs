//! Ends all processes that a terminal started.
//!
//! The close of a terminal hangs up its session, but processes can ignore that: `nohup`, `setsid`, a daemon that forks
//! twice. Three properties in `/proc` identify the family: the session, the ancestors, and a variable in the initial
//! environment. The family receives increasingly strong signals until no process remains; the report lists the
//! survivors by name. A process without any of these properties belongs to the family if no other terminal can have
//! started it; otherwise the report only lists it.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, timeout_at};

use super::TERMINAL_VARIABLE;
use super::orphans::{Claim, OrphanOrigin, Orphans, Ticks};
use super::system::register_with_reactor;

/// A process that did not exit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// The process id.
    pub pid: i32,
    /// The name, as the kernel reports it.
    pub name: String,
    /// True if the origin of the process is unknown. Such a process may belong to another terminal, and received no
    /// signal.
    pub doubtful: bool,
}

#[derive(Debug, Clone)]
struct Process {
    parent: i32,
    session: i32,
    name: String,
    start_time: Ticks,
    /// True if the process has exited and its parent has not reaped it.
    ended: bool,
}

/// The program that a terminal started at its opening.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionLeader {
    /// The process id, and also the session id.
    pub(crate) pid: Pid,
    /// True if the leader was reaped, so that its id may refer to another process.
    pub(crate) is_reaped: bool,
}

/// Ends every process of the terminal `id`.
///
/// Sends `first`, then SIGTERM, then SIGKILL. Returns the remaining processes.
pub(crate) async fn end_all(
    leader: SessionLeader,
    id: String,
    first: Option<Signal>,
    orphan_matcher: OrphanMatcher,
) -> Vec<Survivor> {
    end_known(Some(leader), id, first, Some(orphan_matcher)).await
}

/// Ends the processes that a former process started under `id`: all processes with its mark, and their descendants.
pub(crate) async fn end_left(id: String) -> Vec<Survivor> {
    end_known(None, id, Some(Signal::TERM), None).await
}

async fn end_known(
    leader: Option<SessionLeader>,
    id: String,
    first: Option<Signal>,
    orphan_matcher: Option<OrphanMatcher>,
) -> Vec<Survivor> {
    let graceful_steps = [(first.unwrap_or(Signal::HUP), 400), (Signal::TERM, 400)];
    let kill_steps = [(Signal::KILL, 1000), (Signal::KILL, 1000)];
    let steps = graceful_steps.into_iter().filter(|_| first != Some(Signal::KILL)).chain(kill_steps);
    // A process found once belongs to the family even after the end of its parent.
    let mut members: BTreeMap<i32, PidHandle> = BTreeMap::new();
    for (signal, wait_millis) in steps {
        members.retain(|_, member| member.is_running());
        let member_ids = members.keys().copied().collect();
        for pid in find_family(leader, &id, member_ids, orphan_matcher.as_ref()).await.members.into_keys() {
            if !members.contains_key(&pid)
                && let Some(member) = PidHandle::open(pid)
            {
                members.insert(pid, member);
            }
        }
        if members.is_empty() {
            break;
        }
        for member in members.values() {
            member.signal(signal);
            // A stopped process handles a signal only after it continues.
            member.signal(Signal::CONT);
        }
        let deadline = Instant::now() + Duration::from_millis(wait_millis);
        for member in members.values() {
            if timeout_at(deadline, member.ended()).await.is_err() {
                break;
            }
        }
    }
    members.retain(|_, member| member.is_running());
    let remaining = find_family(leader, &id, members.into_keys().collect(), orphan_matcher.as_ref()).await;
    let survivors = remaining.members.into_iter().map(|member| (member, false));
    let survivors = survivors.chain(remaining.doubtful.into_iter().map(|process| (process, true)));
    survivors.map(|((pid, process), doubtful)| Survivor { pid, name: process.name, doubtful }).collect()
}

/// A descriptor of a process, so that signals cannot reach another process with the same id.
struct PidHandle {
    pidfd: AsyncFd<OwnedFd>,
}

impl PidHandle {
    fn open(pid: i32) -> Option<Self> {
        let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::NONBLOCK).ok()?;
        Some(Self { pidfd: register_with_reactor(pidfd).ok()? })
    }

    fn signal(&self, signal: Signal) {
        // Ignore the error, because the next search shows that the process has ended or survived.
        let _ = pidfd_send_signal(self.pidfd.get_ref(), signal);
    }

    fn is_running(&self) -> bool {
        // The descriptor becomes readable when the process ends, see pidfd_open(2).
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut polled = [PollFd::new(self.pidfd.get_ref(), PollFlags::IN)];
        !matches!(poll(&mut polled, Some(&NOW)), Ok(1..))
    }

    async fn ended(&self) {
        let _ = self.pidfd.readable().await;
    }
}

/// Criteria that distinguish the orphans of a terminal from other terminals' orphans.
#[derive(Debug, Clone)]
pub(crate) struct OrphanMatcher {
    pub(super) origin: Arc<OrphanOrigin>,
    pub(super) orphans: Orphans,
}

/// The processes of a terminal.
#[derive(Debug, Default)]
struct TerminalProcesses {
    members: BTreeMap<i32, Process>,
    /// Processes that may belong to another terminal.
    doubtful: BTreeMap<i32, Process>,
}

async fn find_family(
    leader: Option<SessionLeader>,
    id: &str,
    mut known: BTreeSet<i32>,
    orphan_matcher: Option<&OrphanMatcher>,
) -> TerminalProcesses {
    let mark = format!("{TERMINAL_VARIABLE}={id}");
    let lookup = tokio::task::spawn_blocking(processes).await;
    let mut processes = lookup.unwrap_or_default();
    let mut doubtful = BTreeMap::new();
    if let Some(orphan_matcher) = orphan_matcher {
        for (&pid, process) in processes.iter().filter(|(pid, process)| {
            !process.ended
                && process.parent == own_pid()
                && orphan_matcher.orphans.includes(**pid)
                && !is_marked(**pid)
                && !is_own_server(**pid, &process.name)
        }) {
            match orphan_matcher.origin.claim(process.start_time) {
                Claim::No => {}
                Claim::Sure => drop(known.insert(pid)),
                Claim::Shared => drop(doubtful.insert(pid, process.clone())),
            }
        }
    }
    // Exclude daemons started within the terminal, because they serve other terminals too.
    processes.retain(|pid, process| !is_own_server(*pid, &process.name));
    let members = members(&processes, leader, known, |pid| has_mark(pid, &mark));
    processes.retain(|pid, process| members.contains(pid) && !process.ended);
    doubtful.retain(|pid, _| !processes.contains_key(pid));
    TerminalProcesses { members: processes, doubtful }
}

/// Returns whether a process is a daemon or a terminal host of this product. Such a process serves more than one
/// terminal. A process can choose its name and arguments, so the process must also execute our program.
fn is_own_server(pid: i32, name: &str) -> bool {
    const OURS: &str = "steplatch";
    name == OURS
        && executes_our_program(pid)
        && std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
            let mut words = line.split(|&byte| byte == 0).skip(1);
            words.next() == Some(b"daemon") && matches!(words.next(), Some(b"serve" | b"host" | b"start"))
        })
}

/// Returns whether a process executes the same file as this process, or an older or newer version of the file from an
/// upgrade.
fn executes_our_program(pid: i32) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    const REPLACED: &str = " (deleted)";
    let file = |process: &str| {
        let link = format!("/proc/{process}/exe");
        let path = std::fs::read_link(&link).ok()?.into_os_string().into_string().ok()?;
        let file = std::fs::metadata(link).ok()?;
        Some((path.trim_end_matches(REPLACED).to_owned(), (file.dev(), file.ino())))
    };
    match (file("self"), file(&pid.to_string())) {
        (Some((our_path, our_file)), Some((path, file))) => path == our_path || file == our_file,
        // A file is unknown.
        _ => false,
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(0)
}

/// Returns the start time of a process, if it exists.
pub(super) fn start_time(pid: Pid) -> Option<Ticks> {
    let line = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    Some(parse_stat(&line)?.start_time)
}

/// Returns the processes that belong to a terminal, given all processes of the system and the known members.
fn members(
    processes: &BTreeMap<i32, Process>,
    leader: Option<SessionLeader>,
    known: BTreeSet<i32>,
    has_mark: impl Fn(i32) -> bool,
) -> BTreeSet<i32> {
    let own_pid = own_pid();
    let mut members = known;
    members.extend(processes.iter().filter_map(|(&pid, process)| {
        let Some(leader) = leader else {
            // Without a leader, only the mark identifies a process.
            return (pid != own_pid && has_mark(pid)).then_some(pid);
        };
        let session = leader.pid.as_raw_nonzero().get();
        let is_in_session = pid == session || process.session == session;
        let is_orphan = (process.parent == own_pid || process.parent == 1) && pid != own_pid;
        // The id of a reaped leader may belong to a foreign process. A foreign process does not carry the mark.
        ((is_in_session && !leader.is_reaped) || ((is_in_session || is_orphan) && has_mark(pid))).then_some(pid)
    }));
    // Add descendants until a pass finds no new one.
    loop {
        let descendants: Vec<i32> = processes
            .iter()
            .filter(|(pid, process)| members.contains(&process.parent) && !members.contains(*pid))
            .map(|(&pid, _)| pid)
            .collect();
        if descendants.is_empty() {
            return members;
        }
        members.extend(descendants);
    }
}

fn has_mark(pid: i32, mark: &str) -> bool {
    has_entry(pid, |entry| entry == mark.as_bytes())
}

/// Returns whether a process carries the mark of any terminal.
fn is_marked(pid: i32) -> bool {
    let variable = TERMINAL_VARIABLE.as_bytes();
    has_entry(pid, |entry| entry.strip_prefix(variable).is_some_and(|rest| rest.starts_with(b"=")))
}

fn has_entry(pid: i32, matches: impl Fn(&[u8]) -> bool) -> bool {
    std::fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.split(|&byte| byte == 0).any(matches))
}

fn processes() -> BTreeMap<i32, Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| Some((pid, parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect()
}

/// Parses a line of `/proc/PID/stat`, see proc_pid_stat(5). The name is in parentheses and may contain parentheses, so
/// the fields are counted from the last parenthesis.
fn parse_stat(line: &str) -> Option<Process> {
    let (head, tail) = line.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut fields = tail.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    // Skip fields 7 to 21.
    let start_time = fields.nth(15)?.parse().ok()?;
    Some(Process { parent, session, name: name.to_owned(), start_time, ended: matches!(state, "Z" | "X") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(parent: i32, session: i32) -> Process {
        Process { parent, session, name: String::new(), start_time: 0, ended: false }
    }

    #[test]
    fn name_with_parentheses_does_not_shift_the_fields() {
        let process = parse_stat("42 (a) S (b) Z 7 42 41 34816 42 4194304 1 2 3 4 5 6 7 8 20 0 1 0 777 9").unwrap();
        assert_eq!((process.name.as_str(), process.parent, process.session), ("a) S (b", 7, 41));
        assert_eq!(process.start_time, 777);
        assert!(process.ended);
    }

    #[test]
    fn family_is_session_descendants_and_marked_orphans() {
        let processes = BTreeMap::from([
            (1, process(0, 1)),
            (10, process(1, 10)),  // the leader
            (11, process(10, 10)), // a job
            (12, process(11, 12)), // setsid, its parent still there
            (13, process(1, 13)),  // forked twice, marked
            (14, process(13, 14)), // its child
            (15, process(1, 10)),  // orphan that stayed in the session
            (20, process(1, 20)),  // of another session
        ]);
        let leader = SessionLeader { pid: Pid::from_raw(10).unwrap(), is_reaped: false };
        let members = members(&processes, Some(leader), BTreeSet::new(), |pid| pid == 13);
        assert_eq!(members.into_iter().collect::<Vec<_>>(), [10, 11, 12, 13, 14, 15]);
    }

    #[test]
    fn reused_leader_pid_is_not_a_member() {
        let processes = BTreeMap::from([(1, process(0, 1)), (10, process(1, 10)), (11, process(1, 10))]);
        let leader = SessionLeader { pid: Pid::from_raw(10).unwrap(), is_reaped: true };
        let members = members(&processes, Some(leader), BTreeSet::new(), |pid| pid == 11);
        assert_eq!(members.into_iter().collect::<Vec<_>>(), [11], "only processes with the mark");
    }
}
