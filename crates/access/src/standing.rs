//! Standing of the process that opened a connection, as a person or a program.
//!
//! Steplatch opens terminals and starts programs for agents. Every process in such a terminal or program is treated as
//! an agent, and so is a process with unknown ancestors. Every other process of the user is treated as the user; only the
//! approver's passphrase proves more.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::Uid;
use steplatch_host::Hosts;
use steplatch_ids::StepId;
use tokio::sync::{Semaphore, watch};

use crate::peer::{self, Cut, Lineage, Location, PasswordReader, Peer, Program, ReaderRefusal};

/// Reason why a caller is not considered a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PersonRefusal {
    /// The client does not claim to be a person.
    #[error(
        "This gate waits for a person: they answer it with 'steplatch gates list' and 'steplatch gates answer', in a \
         terminal of their own"
    )]
    Agent,
    /// The client runs in a terminal of the daemon.
    #[error(
        "This gate waits for a person, and this command runs in a terminal that steplatch keeps, where an agent may type; \
         answer it in a terminal of your own"
    )]
    InTerminal,
    /// The daemon started the process, or one of its ancestors.
    #[error(
        "This gate waits for a person, and this command was started by steplatch, for a node or in a terminal that it kept; \
         answer it in a terminal of your own"
    )]
    Started,
    /// The origin of the process is unknown.
    #[error(
        "This gate waits for a person, and the origin of this command is unknown: it has exited, or has too many ancestors; \
         answer it in a terminal of your own"
    )]
    Unknown,
    /// The kernel hides the origin of the process. Only the approver's passphrase proves a person here.
    #[error(
        "This gate waits for a person, and this system hides processes of other users (hidepid), so the origin of this \
         command is unknown; set a passphrase with 'steplatch approver set', which proves a person instead"
    )]
    Hidden,
    /// The caller connects over the network from this computer, and the kernel does not show its process.
    #[error(
        "This gate waits for a person, and the client on this computer that sent this over the network is unknown; answer it \
         in a terminal of your own"
    )]
    UnknownClient,
}

impl PersonRefusal {
    /// Returns the name of the caller in a history, regardless of the name that the caller states.
    pub(crate) fn caller(self) -> &'static str {
        match self {
            Self::Agent => "an agent",
            Self::InTerminal => "a program in a kept terminal",
            Self::Started => "a program of a node",
            Self::Unknown | Self::Hidden | Self::UnknownClient => "an unknown program",
        }
    }
}

/// Maximum number of concurrent process inspections. An inspection is fast unless the kernel blocks it.
const MAX_INSPECTIONS: usize = 16;

/// Maximum time of an inspection, including the wait for its slot. A later result is considered unknown.
const INSPECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The daemon and its terminal hosts. Their descendants are not considered persons.
#[derive(Debug, Clone)]
pub struct OwnProcesses {
    hosts: Hosts,
    inspection_slots: Arc<Semaphore>,
    /// This process, unless its own threads are clients, as in tests.
    daemon: Option<i32>,
}

impl OwnProcesses {
    /// Returns the processes of `hosts`, and this process if `is_separate`: no client runs in this process then.
    pub fn new(hosts: Hosts, is_separate: bool) -> Self {
        let daemon = i32::try_from(std::process::id()).ok().filter(|_| is_separate);
        Self { hosts, inspection_slots: Arc::new(Semaphore::new(MAX_INSPECTIONS)), daemon }
    }

    /// Inspects processes on a thread that serves no connections. `None` if that takes too long.
    async fn inspect<T: Send + 'static>(&self, inspection: impl FnOnce(&Self) -> T + Send + 'static) -> Option<T> {
        let inspection_result = async {
            let slot = self.inspection_slots.clone().acquire_owned().await.ok()?;
            let own_processes = self.clone();
            let task = tokio::task::spawn_blocking(move || {
                let result = inspection(&own_processes);
                drop(slot);
                result
            });
            task.await.ok()
        };
        tokio::time::timeout(INSPECTION_TIMEOUT, inspection_result).await.ok().flatten()
    }

    fn current_processes(&self) -> Processes {
        let own_pid = std::process::id();
        let hosts = self.hosts.processes().into_iter().filter(|pid| self.daemon.is_some() || *pid != own_pid);
        Processes { hosts: hosts.filter_map(|pid| i32::try_from(pid).ok()).collect(), daemon: self.daemon }
    }

    /// Returns the reason for not treating a network client at this address as a person, if there is one. Blocks while
    /// it inspects every process.
    fn judge_address(&self, address: SocketAddr) -> Option<PersonRefusal> {
        match peer::at_address(address) {
            Location::Elsewhere => None,
            Location::Here(clients) if clients.is_empty() => Some(PersonRefusal::UnknownClient),
            Location::Here(clients) => {
                let processes = self.current_processes();
                clients.iter().find_map(|client| judge(&client.lineage, &processes))
            }
        }
    }
}

/// The ids of the daemon's processes at one moment.
#[derive(Debug, Clone, Default)]
struct Processes {
    hosts: Vec<i32>,
    daemon: Option<i32>,
}

/// Returns the reason for not treating a process as a person's, if there is one.
fn judge(lineage: &Lineage, processes: &Processes) -> Option<PersonRefusal> {
    let known = &lineage.known;
    let by_parent = known.iter().find_map(|process| {
        if processes.hosts.contains(&process.pid) {
            return Some(PersonRefusal::InTerminal);
        }
        if processes.daemon == Some(process.pid) {
            return Some(PersonRefusal::Started);
        }
        // A mark outlives the process that set it. Any value counts.
        let mark = process.evidence.mark.as_ref()?;
        Some(if mark.parse::<StepId>().is_ok() { PersonRefusal::Started } else { PersonRefusal::InTerminal })
    });
    let by_group = || known.iter().any(|process| process.evidence.may_be_in_group).then_some(PersonRefusal::Started);
    by_parent.or_else(by_group).or(match lineage.cut {
        None => None,
        Some(Cut::Hidden) => Some(PersonRefusal::Hidden),
        Some(Cut::Gone | Cut::TooDeep | Cut::Changing) => Some(PersonRefusal::Unknown),
    })
}

/// The result of inspecting the process that opened a connection.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    /// Reason why the process is not a person, if there is one.
    pub(crate) refusal: Option<PersonRefusal>,
    pub(crate) program: Program,
    /// True if the process is in the foreground of its controlling terminal.
    pub(crate) has_terminal: bool,
    /// The id and the start time of the process, if it is known.
    process: Option<(i32, u64)>,
}

impl Verdict {
    /// The verdict on a client in this process.
    const INTERNAL: Self = Self { refusal: None, program: Program::Ours, has_terminal: false, process: None };
    const UNKNOWN: Self =
        Self { refusal: Some(PersonRefusal::Unknown), program: Program::Unknown, has_terminal: false, process: None };
}

/// The standing of a process that opened a connection, as a person or not: a verdict in progress, or final.
#[derive(Debug, Clone)]
pub struct Standing {
    user: Uid,
    /// `None` for a client in this process.
    inspection: Option<Inspection>,
}

#[derive(Debug, Clone)]
struct Inspection {
    verdict: watch::Receiver<Option<Verdict>>,
    own_processes: OwnProcesses,
}

impl Standing {
    /// Returns the standing of a client in this process. The daemon trusts its claims.
    pub fn internal() -> Self {
        Self { user: Uid::current(), inspection: None }
    }

    /// Begins to inspect the process of `user` that has just opened a connection, identified by its id and a handle.
    pub fn for_process(user: u32, process: Option<(i32, OwnedFd)>, own_processes: OwnProcesses) -> Self {
        let (verdict_sender, verdict) = watch::channel(None);
        let inspection = Inspection { verdict, own_processes: own_processes.clone() };
        tokio::spawn(async move {
            let result = own_processes.inspect(move |own_processes| {
                let (process, handle) = process?;
                let peer = Peer::read(process, Some(&handle));
                let refusal = judge(&peer.lineage, &own_processes.current_processes());
                let process = peer.lineage.known.first().map(|process| (process.pid, process.started));
                Some(Verdict { refusal, program: peer.program, has_terminal: peer.has_terminal, process })
            });
            verdict_sender.send_replace(Some(result.await.flatten().unwrap_or(Verdict::UNKNOWN)));
        });
        Self { user: Uid::from_raw(user), inspection: Some(inspection) }
    }

    /// Returns the user of the process.
    pub(crate) fn user(&self) -> Uid {
        self.user
    }

    /// Returns the verdict on the process once it is final.
    pub(crate) async fn verdict(&self) -> Verdict {
        let Some(inspection) = &self.inspection else { return Verdict::INTERNAL };
        let mut verdict = inspection.verdict.clone();
        // A failed inspection proves nothing.
        verdict.wait_for(Option::is_some).await.ok().and_then(|verdict| verdict.clone()).unwrap_or(Verdict::UNKNOWN)
    }

    /// Returns the program that reads the output of the process, which is an askpass program.
    ///
    /// # Errors
    /// If that program receives no passwords.
    pub(crate) async fn password_reader(&self) -> Result<PasswordReader, ReaderRefusal> {
        let inspection = self.inspection.as_ref().ok_or(ReaderRefusal::Unknown)?;
        let verdict = self.verdict().await;
        let (pid, started) = verdict.process.ok_or(ReaderRefusal::Unknown)?;
        if verdict.program != Program::Ours {
            return Err(ReaderRefusal::Unknown);
        }
        let read = inspection.own_processes.inspect(move |_| peer::read_password_reader(pid, started)).await;
        read.unwrap_or(Err(ReaderRefusal::Unknown))
    }

    /// Returns the reason for not treating a client of this process at a network address as a person, if there is one.
    pub(crate) async fn client_refusal(&self, address: SocketAddr) -> Option<PersonRefusal> {
        let own_processes = &self.inspection.as_ref()?.own_processes;
        own_processes
            .inspect(move |own_processes| own_processes.judge_address(address))
            .await
            .unwrap_or(Some(PersonRefusal::UnknownClient))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::{Evidence, Process};

    fn process(pid: i32) -> Process {
        Process { pid, started: 1, evidence: Evidence::default() }
    }

    /// Returns the lineage of a process with this parent, a child of the first process.
    fn child_of(parent: Process) -> Lineage {
        Lineage { known: vec![process(40), parent, process(1)], cut: None }
    }

    fn own_processes() -> Processes {
        Processes { hosts: vec![20], daemon: Some(30) }
    }

    #[test]
    fn unknown_caller_is_not_a_person() {
        for cut in [Cut::Gone, Cut::TooDeep, Cut::Changing] {
            assert_eq!(
                judge(&Lineage { cut: Some(cut), ..child_of(process(35)) }, &own_processes()),
                Some(PersonRefusal::Unknown)
            );
        }
        assert_eq!(judge(&child_of(process(35)), &own_processes()), None);
    }

    #[test]
    fn visible_ancestors_count_if_others_are_hidden() {
        let hidden = |parent: i32| Lineage { cut: Some(Cut::Hidden), ..child_of(process(parent)) };
        assert_eq!(judge(&hidden(35), &own_processes()), Some(PersonRefusal::Hidden));
        assert_eq!(judge(&hidden(20), &own_processes()), Some(PersonRefusal::InTerminal));
    }

    #[test]
    fn descendants_of_host_or_daemon_are_not_a_person() {
        let refusal = |pid: i32| judge(&child_of(process(pid)), &own_processes());
        assert_eq!((refusal(20), refusal(30)), (Some(PersonRefusal::InTerminal), Some(PersonRefusal::Started)));
        let daemon = Lineage { known: vec![process(30)], cut: None };
        assert_eq!(judge(&daemon, &own_processes()), Some(PersonRefusal::Started), "the daemon itself is not a person");
    }

    #[test]
    fn mark_on_any_ancestor_counts() {
        for (mark, expected) in [
            ("term_k7q2m8x4rd", PersonRefusal::InTerminal),
            ("forged", PersonRefusal::InTerminal),
            ("host", PersonRefusal::InTerminal),
            ("run_k7q2m8x4rd3tv5ab/ask/1", PersonRefusal::Started),
        ] {
            let evidence = Evidence { mark: Some(mark.to_owned()), may_be_in_group: true };
            let marked = Process { evidence, ..process(35) };
            assert_eq!(judge(&child_of(marked), &Processes::default()), Some(expected), "{mark:?}");
        }
    }

    #[test]
    fn group_counts_after_the_daemon_has_exited() {
        let grouped = Process { evidence: Evidence { mark: None, may_be_in_group: true }, ..process(35) };
        assert_eq!(judge(&child_of(grouped), &Processes::default()), Some(PersonRefusal::Started));
    }
}
