//! What a daemon notes of its terminals on other machines, so that the next one finds them: a file for each machine in the state
//! directory.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use steplatch_ids::TerminalId;
use steplatch_link::SessionId;
use steplatch_terminal::{Description, Size};

/// The notes of one machine.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct MachineNotes {
    /// The client that this installation is to the machine, in hexadecimal: also the name of its directory there.
    pub(crate) client: String,
    /// The destination at which the terminals are.
    pub(crate) ssh: String,
    /// The terminals that this installation has opened, by the socket of the host that keeps them, as they were last seen.
    pub(crate) terminals: BTreeMap<String, Vec<Description>>,
    /// Requests for terminals, by their steps: of terminals that are open, and of those whose answer has not come.
    #[serde(default)]
    pub(crate) openings: BTreeMap<String, Opening>,
}

/// A request for a terminal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Opening {
    /// The socket of the host that it was sent to.
    pub(crate) socket: String,
    /// When it was sent first.
    pub(crate) since: SystemTime,
    /// The terminal, once the machine has reported it.
    pub(crate) terminal: Option<TerminalId>,
    /// The terminal as it was requested.
    pub(crate) name: Option<String>,
    pub(crate) command: String,
    pub(crate) opened_by: Option<String>,
    pub(crate) size: Size,
}

/// Maximum number of openings that are noted. The oldest one without an answer is forgotten first.
const MAX_OPENINGS: usize = 10_000;

impl Opening {
    /// Describes the terminal before the machine does.
    fn description(&self, id: TerminalId, pid: i32) -> Description {
        Description {
            id,
            command: self.command.clone(),
            name: self.name.clone(),
            opened_by: self.opened_by.clone(),
            created: self.since,
            last_activity: self.since,
            pid,
            title: String::new(),
            size: self.size,
            busy: None,
            exit_code: None,
            exit: None,
            viewers: 0,
            holder: None,
            cwd: None,
            awaiting_input: None,
            password: false,
        }
    }
}

impl MachineNotes {
    /// Reads the notes of a machine, or makes new ones.
    pub(crate) fn read(folder: &Path, name: &str) -> Self {
        let noted = fs::read(file(folder, name)).ok().and_then(|bytes| rmp_serde::from_slice(&bytes).ok());
        noted.unwrap_or_else(|| Self { client: hex(SessionId::random().0), ..Self::default() })
    }

    /// Writes the notes, whole or not at all.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let target = file(folder, name);
        let bytes = rmp_serde::to_vec_named(self).map_err(io::Error::other)?;
        let mut written = tempfile::NamedTempFile::new_in(folder)?;
        written.write_all(&bytes)?;
        written.persist(target)?;
        Ok(())
    }

    /// Removes the notes of a machine.
    pub(crate) fn remove(folder: &Path, name: &str) {
        // A machine without notes needs no removal.
        let _ = fs::remove_file(file(folder, name));
    }

    /// Returns the identity of the client to the machine.
    pub(crate) fn client_id(&self) -> SessionId {
        let mut bytes = [0; 16];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = self.client.get(2 * at..2 * at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).unwrap_or(0);
        }
        SessionId(bytes)
    }

    /// Notes that a terminal is requested. A request that is repeated stays as it was first.
    pub(crate) fn begin(&mut self, step: &str, opening: Opening) {
        while self.openings.len() >= MAX_OPENINGS {
            let unanswered = self.openings.iter().filter(|(_, opening)| opening.terminal.is_none());
            let Some(oldest) = unanswered.min_by_key(|(_, opening)| opening.since).map(|(step, _)| step.clone()) else {
                break;
            };
            self.openings.remove(&oldest);
        }
        self.openings.entry(step.to_owned()).or_insert(opening);
    }

    /// Notes the terminal that a step has opened.
    ///
    /// # Errors
    /// When the step has another terminal, or the terminal was opened by another step.
    pub(crate) fn opened(&mut self, step: &str, id: &TerminalId, pid: i32) -> Result<(), &'static str> {
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

    /// Whether a terminal is one of this machine.
    pub(crate) fn has(&self, id: &TerminalId) -> bool {
        self.terminals.values().flatten().any(|terminal| terminal.id == *id)
    }

    /// Updates the terminals of a host by its list: nothing but what changes while a terminal is open. Those of `before` that are not
    /// listed were closed. Returns them.
    pub(crate) fn update(
        &mut self,
        socket: &str,
        before: &[TerminalId],
        mut listed: HashMap<TerminalId, Description>,
    ) -> Vec<TerminalId> {
        let mut closed = Vec::new();
        let terminals = self.terminals.entry(socket.to_owned()).or_default();
        terminals.retain_mut(|known| match listed.remove(&known.id) {
            Some(now) => {
                let Description { id, command, name, opened_by, created, .. } = known.clone();
                *known = Description { id, command, name, opened_by, created, ..now };
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

    /// Forgets a terminal. Returns whether it was known.
    pub(crate) fn forget(&mut self, id: &TerminalId) -> bool {
        self.openings.retain(|_, opening| opening.terminal.as_ref() != Some(id));
        let before = self.terminals.values().map(Vec::len).sum::<usize>();
        self.terminals.values_mut().for_each(|terminals| terminals.retain(|terminal| terminal.id != *id));
        before != self.terminals.values().map(Vec::len).sum::<usize>()
    }

    /// Forgets the terminals of a host that has ended, and returns them.
    pub(crate) fn forget_host(&mut self, socket: &str) -> Vec<TerminalId> {
        self.openings.retain(|_, opening| opening.socket != socket);
        self.terminals.remove(socket).unwrap_or_default().into_iter().map(|terminal| terminal.id).collect()
    }

    /// Returns the terminal with this id or name, and the socket of its host.
    pub(crate) fn find(&self, id_or_name: &str) -> Option<(String, TerminalId)> {
        let is_it = |terminal: &&Description| {
            terminal.id.as_str() == id_or_name || terminal.name.as_deref() == Some(id_or_name)
        };
        self.terminals
            .iter()
            .find_map(|(socket, terminals)| Some((socket.clone(), terminals.iter().find(is_it)?.id.clone())))
    }
}

fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.machine"))
}

fn hex(bytes: [u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written_and_damaged_ones_begin_anew() {
        let folder = tempfile::tempdir().unwrap();
        let notes = MachineNotes::read(folder.path(), "build");
        assert_eq!(notes.client.len(), 32);
        assert_eq!(hex(notes.client_id().0), notes.client);
        notes.write(folder.path(), "build").unwrap();
        assert_eq!(MachineNotes::read(folder.path(), "build").client, notes.client);
        fs::write(file(folder.path(), "build"), "no notes").unwrap();
        assert_ne!(MachineNotes::read(folder.path(), "build").client, notes.client);
        MachineNotes::remove(folder.path(), "build");
        assert!(!file(folder.path(), "build").exists());
    }
}
