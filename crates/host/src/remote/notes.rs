//! What a daemon notes of its terminals on other machines, so that the next one finds them: a file for each machine in the state
//! directory.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use steplatch_ids::TerminalId;
use steplatch_link::SessionId;
use steplatch_terminal::Description;

/// The notes of one machine.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct MachineNotes {
    /// The client that this installation is to the machine, in hexadecimal: also the name of its directory there.
    pub(crate) client: String,
    /// The destination at which the terminals are.
    pub(crate) ssh: String,
    /// The terminals, by the socket of the host that keeps them, as they were last seen.
    pub(crate) terminals: BTreeMap<String, Vec<Description>>,
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
