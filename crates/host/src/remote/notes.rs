//! Notes about terminals on remote hosts for the next daemon: a file per machine in the state directory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use steplatch_ids::TerminalId;
use steplatch_ledger::names_step;
use steplatch_link::SessionId;
use steplatch_terminal::{Description, Size, Spec};

use crate::records;
use crate::wire::is_of_run;

/// The notes of one machine.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct MachineNotes {
    /// Client id of this installation on the machine, in hexadecimal. Also the name of its directory there.
    pub(crate) client: String,
    /// Destination of the machine with the terminals.
    pub(crate) ssh: String,
    /// Last known state of the terminals that this installation has opened, by the socket of their host.
    pub(crate) terminals: BTreeMap<String, Vec<Description>>,
    /// Requests for terminals that are open, and unanswered requests, by their steps.
    #[serde(default)]
    pub(crate) openings: BTreeMap<String, Opening>,
    /// Sockets of the hosts that write a file for a step of a run, by unsettled step.
    #[serde(default)]
    pub(crate) writes: BTreeMap<String, String>,
}

/// A request for a terminal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Opening {
    /// Socket of the host that received the request.
    pub(crate) socket: String,
    /// Time of the first request.
    pub(crate) since: SystemTime,
    /// The terminal, once the machine has reported it.
    pub(crate) terminal: Option<TerminalId>,
    /// Requested name of the terminal.
    pub(crate) name: Option<String>,
    pub(crate) command: String,
    pub(crate) opened_by: Option<String>,
    pub(crate) size: Size,
    /// True once the run of the step has stored the result.
    #[serde(default)]
    pub(crate) is_settled: bool,
}

/// Returns the client id of this installation on a machine from the notes in `directory`, if any.
#[must_use]
pub fn client_on(directory: &Path, name: &str) -> Option<String> {
    MachineNotes::read_existing(directory, name).map(|notes| notes.client)
}

/// Maximum number of noted openings; the oldest unanswered ones are dropped.
const MAX_OPENINGS: usize = 10_000;

impl Opening {
    /// Returns the note of a request that begins now.
    pub(crate) fn new(socket: &str, spec: &Spec) -> Self {
        Self {
            socket: socket.to_owned(),
            since: SystemTime::now(),
            terminal: None,
            name: spec.name.clone(),
            command: spec.command.clone(),
            opened_by: spec.opened_by.clone(),
            size: spec.size,
            is_settled: false,
        }
    }

    /// Describes the terminal from its request.
    pub(crate) fn description(&self, id: TerminalId, pid: i32) -> Description {
        Description {
            name: self.name.clone(),
            opened_by: self.opened_by.clone(),
            pid,
            ..Description::new(id, self.command.clone(), self.size, self.since)
        }
    }
}

impl MachineNotes {
    /// Reads the notes of a machine, or creates new ones.
    pub(crate) fn read(directory: &Path, name: &str) -> Self {
        let new = || Self { client: hex(SessionId::random().0), ..Self::default() };
        Self::read_existing(directory, name).unwrap_or_else(new)
    }

    /// Reads the notes of a machine, if there are any.
    fn read_existing(directory: &Path, name: &str) -> Option<Self> {
        rmp_serde::from_slice(&fs::read(notes_file(directory, name)).ok()?).ok()
    }

    /// Writes the notes atomically.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        records::replace(&notes_file(directory, name), self)
    }

    /// Removes the notes of a machine.
    pub(crate) fn remove(directory: &Path, name: &str) {
        // Ignore the error, because the machine may have no notes.
        let _ = fs::remove_file(notes_file(directory, name));
    }

    /// Returns the identity of the client to the machine.
    pub(crate) fn client_id(&self) -> SessionId {
        let mut bytes = [0; 16];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = self
                .client
                .get(2 * index..2 * index + 2)
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                .unwrap_or(0);
        }
        SessionId(bytes)
    }

    /// Records a request for a terminal. Keeps the note of an earlier request of the step. Returns whether it is the
    /// first request.
    pub(crate) fn begin(&mut self, step: &str, opening: Opening) -> bool {
        if self.openings.contains_key(step) {
            return false;
        }
        while self.openings.len() >= MAX_OPENINGS {
            let unanswered = self.openings.iter().filter(|(_, opening)| opening.terminal.is_none());
            let Some(oldest) = unanswered.min_by_key(|(_, opening)| opening.since).map(|(step, _)| step.clone()) else {
                break;
            };
            self.openings.remove(&oldest);
        }
        self.openings.insert(step.to_owned(), opening);
        true
    }

    /// Records the terminal that a step has opened.
    ///
    /// # Errors
    /// If the step has another terminal, or another step has opened the terminal.
    pub(crate) fn record_opened(&mut self, step: &str, id: &TerminalId, pid: i32) -> Result<(), &'static str> {
        let is_known = self.has(id);
        let Some(opening) = self.openings.get_mut(step) else { return Err("the answer to another request") };
        match &opening.terminal {
            Some(known) if known == id => return Ok(()),
            Some(_) => return Err("another terminal for a step than before"),
            None if is_known => return Err("the id of a terminal that was opened before"),
            None => {}
        }
        opening.terminal = Some(id.clone());
        let description = opening.description(id.clone(), pid);
        self.terminals.entry(opening.socket.clone()).or_default().push(description);
        Ok(())
    }

    /// Returns the socket of the host that received a step's request.
    pub(crate) fn socket_of(&self, step: &str) -> Option<&str> {
        let opening = self.openings.get(step).map(|opening| opening.socket.as_str());
        opening.or_else(|| self.writes.get(step).map(String::as_str))
    }

    /// Returns the noted sockets.
    pub(crate) fn sockets(&self) -> BTreeSet<String> {
        let with_terminals = self.terminals.iter().filter(|(_, terminals)| !terminals.is_empty());
        let openings = self.openings.values().map(|opening| &opening.socket);
        with_terminals.map(|(socket, _)| socket).chain(openings).chain(self.writes.values()).cloned().collect()
    }

    /// Records that the daemon has stored the results of `steps` (see [`names_step`]), or has abandoned the steps.
    /// `is_known` recognises the sockets of running hosts. Returns whether the notes have changed.
    pub(crate) fn settle(&mut self, steps: &str, is_known: impl Fn(&str) -> bool) -> bool {
        let mut is_changed = false;
        self.openings.retain(|step, opening| {
            if !names_step(steps, step) || opening.is_settled {
                return true;
            }
            is_changed = true;
            opening.is_settled = true;
            is_known(&opening.socket)
        });
        self.writes.retain(|step, _| {
            let is_settled = names_step(steps, step);
            is_changed |= is_settled;
            !is_settled
        });
        is_changed
    }

    /// Returns the unsettled steps whose hosts have ended. `is_known` recognises the sockets of running hosts.
    pub(crate) fn lost_steps(&self, is_known: impl Fn(&str) -> bool) -> Vec<String> {
        let openings = self.openings.iter().filter(|(_, opening)| !opening.is_settled);
        let steps = openings.map(|(step, opening)| (step, &opening.socket)).chain(&self.writes);
        steps.filter(|(_, socket)| !is_known(socket)).map(|(step, _)| step.clone()).collect()
    }

    /// Returns whether the notes have this terminal.
    pub(crate) fn has(&self, id: &TerminalId) -> bool {
        self.terminals.values().flatten().any(|terminal| terminal.id == *id)
    }

    /// Updates the changeable state of a host's terminals from its list. Removes and returns the terminals of `before`
    /// that are not listed, because they have closed.
    pub(crate) fn update(
        &mut self,
        socket: &str,
        before: &[TerminalId],
        mut listed: HashMap<TerminalId, Description>,
    ) -> Vec<TerminalId> {
        let mut closed = Vec::new();
        let terminals = self.terminals.entry(socket.to_owned()).or_default();
        terminals.retain_mut(|known| match listed.remove(&known.id) {
            Some(reported) => {
                *known = as_requested(known, reported);
                true
            }
            None if before.contains(&known.id) => {
                closed.push(known.id.clone());
                false
            }
            None => true,
        });
        self.openings.retain(|_, opening| opening.terminal.as_ref().is_none_or(|id| !closed.contains(id)));
        closed
    }

    /// Removes a terminal. Returns whether the notes contained it.
    pub(crate) fn forget(&mut self, id: &TerminalId) -> bool {
        self.openings.retain(|_, opening| opening.terminal.as_ref() != Some(id));
        let before = self.terminals.values().map(Vec::len).sum::<usize>();
        self.terminals.values_mut().for_each(|terminals| terminals.retain(|terminal| terminal.id != *id));
        before != self.terminals.values().map(Vec::len).sum::<usize>()
    }

    /// Removes and returns the terminals of an ended host. Keeps unsettled steps of runs, so that no other host
    /// performs them again.
    pub(crate) fn forget_host(&mut self, socket: &str) -> Vec<TerminalId> {
        self.openings.retain(|step, opening| opening.socket != socket || (is_of_run(step) && !opening.is_settled));
        self.terminals.remove(socket).unwrap_or_default().into_iter().map(|terminal| terminal.id).collect()
    }

    /// Returns the last known state of the terminal with this id or name, and the socket of its host.
    pub(crate) fn find(&self, id_or_name: &str) -> Option<(String, Description)> {
        let is_match = |terminal: &&Description| {
            terminal.id.as_str() == id_or_name || terminal.name.as_deref() == Some(id_or_name)
        };
        self.terminals
            .iter()
            .find_map(|(socket, terminals)| Some((socket.clone(), terminals.iter().find(is_match)?.clone())))
    }
}

/// Returns a reported description with the noted properties of the request, because a remote machine must not change
/// them.
pub(crate) fn as_requested(noted: &Description, reported: Description) -> Description {
    let Description { id, command, name, opened_by, created, .. } = noted.clone();
    Description { id, command, name, opened_by, created, ..reported }
}

fn notes_file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.machine"))
}

fn hex(bytes: [u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "run_0123456789abcdef";

    fn opening(socket: &str) -> Opening {
        Opening {
            socket: socket.to_owned(),
            since: SystemTime::UNIX_EPOCH,
            terminal: None,
            name: None,
            command: "bash".to_owned(),
            opened_by: None,
            size: Size::default(),
            is_settled: false,
        }
    }

    #[test]
    fn steps_of_an_ended_host_are_known_until_results_are_stored() {
        let mut notes = MachineNotes::default();
        let [first, second, third] = ["a/1", "b/1", "c/1"].map(|step| format!("{RUN}/{step}"));
        assert!(is_of_run(&first));
        notes.begin(&first, opening("one.sock"));
        notes.begin(&second, opening("two.sock"));
        notes.begin("a-client", opening("one.sock"));
        notes.writes.insert(third.clone(), "one.sock".to_owned());
        let is_known = |socket: &str| socket == "two.sock";
        notes.forget_host("one.sock");
        assert_eq!(notes.socket_of(&first), Some("one.sock"));
        assert_eq!(notes.socket_of(&third), Some("one.sock"));
        assert_eq!(notes.socket_of("a-client"), None, "a client does not repeat it after the end of its daemon");
        assert_eq!(notes.lost_steps(is_known), [first.clone(), third.clone()]);
        assert!(notes.settle(&first, is_known) && notes.settle(&second, is_known) && !notes.settle(&first, is_known));
        assert_eq!(notes.socket_of(&first), None);
        assert_eq!(notes.socket_of(&second), Some("two.sock"), "its terminal may be open");
        assert!(notes.settle(&format!("{RUN}/"), is_known));
        assert_eq!(notes.socket_of(&third), None);
        notes.forget_host("two.sock");
        assert_eq!(notes.socket_of(&second), None);
    }

    #[test]
    fn notes_are_read_back_and_damaged_notes_start_over() {
        let directory = tempfile::tempdir().unwrap();
        let notes = MachineNotes::read(directory.path(), "build");
        assert_eq!(notes.client.len(), 32);
        assert_eq!(hex(notes.client_id().0), notes.client);
        notes.write(directory.path(), "build").unwrap();
        assert_eq!(MachineNotes::read(directory.path(), "build").client, notes.client);
        fs::write(notes_file(directory.path(), "build"), "no notes").unwrap();
        assert_ne!(MachineNotes::read(directory.path(), "build").client, notes.client);
        MachineNotes::remove(directory.path(), "build");
        assert!(!notes_file(directory.path(), "build").exists());
    }
}
