//! Ends all processes that a terminal started.
//!
//! Closing a terminal hangs up its session, but processes can ignore that: `nohup`, `setsid`, a daemon
//! that forks twice. Three properties in `/proc` identify the family: the session, the ancestors, and a
//! variable in the initial environment. The family receives increasingly strong signals until no
//! process remains, or the report lists the remaining ones by name. A process without any of these
//! properties belongs to the family if no other terminal can have started it; otherwise the report
//! only lists it.

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
use super::system::watched;

/// A process that did not end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// Its process id.
    pub pid: i32,
    /// Its name, as the kernel reports it.
    pub name: String,
    /// True if its origin is unknown: it may belong to another terminal, and received no signal.
    pub doubtful: bool,
}

#[derive(Debug, Clone)]
struct Process {
    parent: i32,
    session: i32,
    name: String,
    started: Ticks,
    /// True if it has ended and its parent has not reaped it.
    ended: bool,
}

/// The program that a terminal was opened with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionLeader {
    /// Its process id, which is also the id of its session.
    pub(crate) pid: Pid,
    /// True if it has ended and was reaped, so that another process may get its number.
    pub(crate) collected: bool,
}

/// Ends every process of the terminal `id`.
///
/// `first` is the signal to begin with; then come SIGTERM and SIGKILL. Returns the remaining processes.
pub(crate) async fn end_all(
    leader: SessionLeader,
    id: String,
    first: Option<Signal>,
    kin: OrphanMatcher,
) -> Vec<Survivor> {
    end_known(Some(leader), id, first, Some(kin)).await
}

/// Ends the processes that a former process started under `id`: all that carry its mark, with their descendants.
pub(crate) async fn end_left(id: String) -> Vec<Survivor> {
    end_known(None, id, Some(Signal::TERM), None).await
}

async fn end_known(
    leader: Option<SessionLeader>,
    id: String,
    first: Option<Signal>,
    kin: Option<OrphanMatcher>,
) -> Vec<Survivor> {
    let polite = [(first.unwrap_or(Signal::HUP), 400), (Signal::TERM, 400)];
    let firm = [(Signal::KILL, 1000), (Signal::KILL, 1000)];
    let steps = polite.into_iter().filter(|_| first != Some(Signal::KILL)).chain(firm);
    // A known process belongs to the family even after the end of its parent.
    let mut seen: BTreeMap<i32, PidHandle> = BTreeMap::new();
    for (signal, patience) in steps {
        seen.retain(|_, member| member.lives());
        let known = seen.keys().copied().collect();
        for pid in family(leader, &id, known, kin.as_ref()).await.members.into_keys() {
            if !seen.contains_key(&pid)
                && let Some(member) = PidHandle::open(pid)
            {
                seen.insert(pid, member);
            }
        }
        if seen.is_empty() {
            break;
        }
        for member in seen.values() {
            member.signal(signal);
            // A stopped process handles a signal only after it continues.
            member.signal(Signal::CONT);
        }
        let deadline = Instant::now() + Duration::from_millis(patience);
        for member in seen.values() {
            if timeout_at(deadline, member.ended()).await.is_err() {
                break;
            }
        }
    }
    seen.retain(|_, member| member.lives());
    let left = family(leader, &id, seen.into_keys().collect(), kin.as_ref()).await;
    let survivors = left.members.into_iter().map(|member| (member, false));
    let survivors = survivors.chain(left.doubtful.into_iter().map(|process| (process, true)));
    survivors.map(|((pid, process), doubtful)| Survivor { pid, name: process.name, doubtful }).collect()
}

/// One process, held by a descriptor, so that no other one can get its number.
struct PidHandle {
    pidfd: AsyncFd<OwnedFd>,
}

impl PidHandle {
    fn open(pid: i32) -> Option<Self> {
        let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::NONBLOCK).ok()?;
        Some(Self { pidfd: watched(pidfd).ok()? })
    }

    fn signal(&self, signal: Signal) {
        // It may have ended, or not be ours to signal; the next look at the family shows it.
        let _ = pidfd_send_signal(self.pidfd.get_ref(), signal);
    }

    fn lives(&self) -> bool {
        // Its descriptor becomes readable when it ends, see pidfd_open(2).
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut polled = [PollFd::new(self.pidfd.get_ref(), PollFlags::IN)];
        !matches!(poll(&mut polled, Some(&NOW)), Ok(1..))
    }

    async fn ended(&self) {
        let _ = self.pidfd.readable().await;
    }
}

/// Criteria that distinguish the orphans of a terminal from those of others.
#[derive(Debug, Clone)]
pub(crate) struct OrphanMatcher {
    pub(super) family: Arc<OrphanOrigin>,
    pub(super) orphans: Orphans,
}

/// The processes of a terminal.
#[derive(Debug, Default)]
struct TerminalProcesses {
    members: BTreeMap<i32, Process>,
    /// Processes that may belong to another terminal.
    doubtful: BTreeMap<i32, Process>,
}

async fn family(
    leader: Option<SessionLeader>,
    id: &str,
    mut known: BTreeSet<i32>,
    kin: Option<&OrphanMatcher>,
) -> TerminalProcesses {
    let mark = format!("{TERMINAL_VARIABLE}={id}");
    let looked_up = tokio::task::spawn_blocking(processes).await;
    let mut processes = looked_up.unwrap_or_default();
    let mut doubtful = BTreeMap::new();
    if let Some(kin) = kin {
        for (&pid, process) in processes.iter().filter(|(pid, process)| {
            !process.ended
                && process.parent == us()
                && kin.orphans.includes(**pid)
                && !is_marked(**pid)
                && !serves_others(**pid, &process.name)
        }) {
            match kin.family.claim(process.started) {
                Claim::No => {}
                Claim::Sure => drop(known.insert(pid)),
                Claim::Shared => drop(doubtful.insert(pid, process.clone())),
            }
        }
    }
    // A daemon started within a terminal keeps what is not of this terminal.
    processes.retain(|pid, process| !serves_others(*pid, &process.name));
    let members = members(&processes, leader, known, |pid| carries(pid, &mark));
    processes.retain(|pid, process| members.contains(pid) && !process.ended);
    doubtful.retain(|pid, _| !processes.contains_key(pid));
    TerminalProcesses { members: processes, doubtful }
}

/// Returns whether a process is a daemon or a terminal host like us, which lives for more than one terminal. Its name
/// and its arguments are its own words, so it has to execute our program.
fn serves_others(pid: i32, name: &str) -> bool {
    const OURS: &str = "steplatch";
    name == OURS
        && executes_our_program(pid)
        && std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
            let mut words = line.split(|&byte| byte == 0).skip(1);
            words.next() == Some(b"daemon") && matches!(words.next(), Some(b"serve" | b"host" | b"start"))
        })
}

/// Returns whether a process executes the file that this one executes, or one that has replaced it, or that it has
/// replaced: of an upgrade, both stay what they are.
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
        // Nothing proves it.
        _ => false,
    }
}

fn us() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(0)
}

/// Returns the start time of a process, if it is there.
pub(super) fn started(pid: Pid) -> Option<Ticks> {
    let line = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    Some(parse_stat(&line)?.started)
}

/// Returns the processes that belong to a terminal, given all processes of the system and the known members.
fn members(
    processes: &BTreeMap<i32, Process>,
    leader: Option<SessionLeader>,
    known: BTreeSet<i32>,
    marked: impl Fn(i32) -> bool,
) -> BTreeSet<i32> {
    let us = us();
    let mut members = known;
    members.extend(processes.iter().filter_map(|(&pid, process)| {
        let Some(leader) = leader else {
            // Its parent has ended, and its origin is otherwise unknown.
            return (pid != us && marked(pid)).then_some(pid);
        };
        let session = leader.pid.as_raw_nonzero().get();
        let of_session = pid == session || process.session == session;
        let adopted = (process.parent == us || process.parent == 1) && pid != us;
        // A reaped process's number may be a foreign process's, which does not carry the mark.
        ((of_session && !leader.collected) || ((of_session || adopted) && marked(pid))).then_some(pid)
    }));
    // Descendants, wherever they went: until a pass finds no new one.
    loop {
        let more: Vec<i32> = processes
            .iter()
            .filter(|(pid, process)| members.contains(&process.parent) && !members.contains(*pid))
            .map(|(&pid, _)| pid)
            .collect();
        if more.is_empty() {
            return members;
        }
        members.extend(more);
    }
}

fn carries(pid: i32, mark: &str) -> bool {
    has_entry(pid, |entry| entry == mark.as_bytes())
}

/// Returns whether a process carries the mark of a terminal, whichever that is.
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

/// Parses a line of `/proc/PID/stat`, see proc_pid_stat(5). The name is in parentheses and may contain some itself, so
/// the fields count from the last one.
fn parse_stat(line: &str) -> Option<Process> {
    let (head, tail) = line.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut fields = tail.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    // Fields 7 to 21 are between.
    let started = fields.nth(15)?.parse().ok()?;
    Some(Process { parent, session, name: name.to_owned(), started, ended: matches!(state, "Z" | "X") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(parent: i32, session: i32) -> Process {
        Process { parent, session, name: String::new(), started: 0, ended: false }
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let process = parse_stat("42 (a) S (b) Z 7 42 41 34816 42 4194304 1 2 3 4 5 6 7 8 20 0 1 0 777 9").unwrap();
        assert_eq!((process.name.as_str(), process.parent, process.session), ("a) S (b", 7, 41));
        assert_eq!(process.started, 777);
        assert!(process.ended);
    }

    #[test]
    fn the_family_is_session_descendants_and_marked_orphans() {
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
        let leader = SessionLeader { pid: Pid::from_raw(10).unwrap(), collected: false };
        let members = members(&processes, Some(leader), BTreeSet::new(), |pid| pid == 13);
        assert_eq!(members.into_iter().collect::<Vec<_>>(), [10, 11, 12, 13, 14, 15]);
    }

    #[test]
    fn a_stranger_with_the_number_of_a_leader_that_was_collected_is_left_alone() {
        let processes = BTreeMap::from([(1, process(0, 1)), (10, process(1, 10)), (11, process(1, 10))]);
        let leader = SessionLeader { pid: Pid::from_raw(10).unwrap(), collected: true };
        let members = members(&processes, Some(leader), BTreeSet::new(), |pid| pid == 11);
        assert_eq!(members.into_iter().collect::<Vec<_>>(), [11], "only who carries the mark");
    }
}
