//! Addition and removal of hosts in the user's file. The rest of the file stays unchanged, including comments and
//! order.

use std::path::{Path, PathBuf};

use steplatch_host::RemoteHostConfig;

use super::hosts::{HOST, check_destination, check_host_name};
use super::{BadSettings, Settings};
use crate::clients::file::{FileError, replace};
use crate::clients::text::Unreadable;
use crate::clients::toml::{with_table, without_table};

/// Error of a failed change; the file is unchanged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostsFileError {
    /// The directory of the file is unknown.
    #[error("the directory of the configuration is unknown: set HOME or XDG_CONFIG_HOME")]
    UnknownDirectory,
    /// The name or the destination is invalid.
    #[error("'{0}' {1}")]
    Invalid(String, String),
    /// Another host has the name.
    #[error("host '{name}' exists already, with ssh = \"{ssh}\"; remove it first with: steplatch hosts remove {name}")]
    Taken {
        /// The name.
        name: String,
        /// Destination of the other host.
        ssh: String,
    },
    /// No host has the name.
    #[error("there is no host '{name}' in {}", .path.display())]
    Unknown {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// The file is invalid, or would be invalid after the change.
    #[error("{0}")]
    Settings(BadSettings),
    /// The text of the file cannot be changed.
    #[error("{}: {error}", .path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// The problem.
        error: Unreadable,
    },
    /// Reading or replacing the file failed.
    #[error("the configuration was not changed: {0}")]
    File(#[from] FileError),
}

/// Checks the name and the destination of a host.
///
/// # Errors
/// If a setting is invalid.
pub(crate) fn check(host: &RemoteHostConfig) -> Result<(), HostsFileError> {
    check_host_name(&host.name).map_err(|reason| HostsFileError::Invalid(host.name.clone(), reason))?;
    check_destination(&host.ssh).map_err(|reason| HostsFileError::Invalid(host.ssh.clone(), reason))
}

/// Adds a host. Returns the file, and true if the host is new. An existing host with the same destination is
/// not new.
///
/// # Errors
/// If the name, the destination or the file is invalid, the name already exists, or writing the file fails.
pub(crate) fn add(host: &RemoteHostConfig) -> Result<(PathBuf, bool), HostsFileError> {
    check(host)?;
    let path = super::file().ok_or(HostsFileError::UnknownDirectory)?;
    let is_new = replace(&path, true, |text| add_to_text(&path, text.unwrap_or_default(), host))?;
    Ok((path, is_new))
}

/// Removes a host. Returns the file.
///
/// # Errors
/// If the file has no such host, or cannot be changed.
pub(crate) fn remove(name: &str) -> Result<PathBuf, HostsFileError> {
    let path = super::file().ok_or(HostsFileError::UnknownDirectory)?;
    replace(&path, true, |text| {
        let text = text.unwrap_or_default();
        let remaining_text = without_table(text, HOST, "name", name);
        let remaining_text = remaining_text.map_err(|error| HostsFileError::Text { path: path.clone(), error })?;
        let to_unknown = || HostsFileError::Unknown { name: name.to_owned(), path: path.clone() };
        Ok::<_, HostsFileError>(((), remaining_text.ok_or_else(to_unknown)?))
    })?;
    Ok(path)
}

/// Adds a host to the text. Returns whether this changes the text, and the new text.
fn add_to_text(path: &Path, text: &str, host: &RemoteHostConfig) -> Result<(bool, String), HostsFileError> {
    // Read only the file, because problems of the environment do not matter here.
    let parse = |text: &str| {
        Settings::read(Some((path.to_owned(), text.to_owned())), |_| None).map_err(HostsFileError::Settings)
    };
    let hosts = parse(text)?.hosts;
    if let Some(existing) = hosts.iter().find(|existing| existing.config.name == host.name) {
        return match existing.config.ssh == host.ssh {
            true => Ok((false, text.to_owned())),
            false => Err(HostsFileError::Taken { name: host.name.clone(), ssh: existing.config.ssh.clone() }),
        };
    }
    let extended = with_table(text, HOST, &[("name", &host.name), ("ssh", &host.ssh)]);
    parse(&extended)?;
    Ok((true, extended))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, ssh: &str) -> RemoteHostConfig {
        RemoteHostConfig { name: name.to_owned(), ssh: ssh.to_owned() }
    }

    fn with(text: &str, name: &str, ssh: &str) -> Result<(bool, String), String> {
        add_to_text(Path::new("/c.toml"), text, &host(name, ssh)).map_err(|error| error.to_string())
    }

    fn remaining_text(text: &str, name: &str) -> Result<Option<String>, String> {
        without_table(text, HOST, "name", name).map_err(|error| error.to_string())
    }

    #[test]
    fn host_is_added_at_the_end_and_removed_alone() {
        let before = "# mine\n[terminals]\nmax = 7\n";
        let (changed, first) = with(before, "build", "ana@box").unwrap();
        assert!(changed);
        assert_eq!(first, format!("{before}\n[[host]]\nname = \"build\"\nssh = \"ana@box\"\n"));
        let (_, second) = with(&first, "gw", "router").unwrap();
        assert_eq!(with(&second, "gw", "router").unwrap(), (false, second.clone()));
        assert_eq!(
            remaining_text(&second, "build").unwrap().unwrap(),
            format!("{before}\n[[host]]\nname = \"gw\"\nssh = \"router\"\n")
        );
        assert_eq!(remaining_text(&second, "gw").unwrap().unwrap(), first);
        assert_eq!(remaining_text(&first, "build").unwrap().unwrap(), before);
        assert_eq!(remaining_text(&first, "other").unwrap(), None);
        assert_eq!(with("", "a", "b").unwrap().1, "[[host]]\nname = \"a\"\nssh = \"b\"\n");
    }

    #[test]
    fn taken_name_and_invalid_file_change_nothing() {
        let one_host = "[[host]]\nname = 'a'\nssh = 'b'\n";
        assert!(with(one_host, "a", "c").unwrap_err().contains("steplatch hosts remove a"));
        assert!(with("[[host]\n", "a", "b").unwrap_err().starts_with("/c.toml: "));
        assert!(
            with("host = [{name = 'x', ssh = 'y'}]\n", "a", "b").is_err(),
            "an array on one line has no more tables"
        );
        assert!(remaining_text("host = [{name = 'x', ssh = 'y'}]\n", "x").unwrap_err().contains("by hand"));
    }
}
