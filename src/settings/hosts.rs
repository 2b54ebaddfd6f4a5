//! Remote hosts: `[[host]]` tables of the user's configuration file.
//!
//! ```toml
//! [[host]]
//! name = "build"
//! ssh = "ana@build.example.com"   # or an alias of ~/.ssh/config
//! ```

use std::path::Path;

use serde_json::json;
use steplatch_host::RemoteHostConfig;

use super::{Origin, Problem, SettingRow};

/// Key of the hosts in the file, and prefix of their keys in the list of settings.
pub(super) const HOST: &str = "host";

/// Keys of a host table.
const KEYS: [(&str, &str); 2] =
    [("name", "name of a remote host for terminals"), ("ssh", "ssh destination of the host")];

/// Maximum length of a destination.
const MAX_DESTINATION_BYTES: usize = 255;

/// A host, with the origin of its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostSetting {
    /// The configuration.
    pub(crate) config: RemoteHostConfig,
    origin: Origin,
}

impl HostSetting {
    /// Returns the settings of the host for a list of settings.
    pub(crate) fn rows(&self) -> impl Iterator<Item = SettingRow> {
        let (_, description) = KEYS[1];
        std::iter::once(SettingRow {
            name: format!("{HOST}.{}.ssh", self.config.name),
            value: json!(self.config.ssh),
            origin: self.origin.clone(),
            description,
        })
    }
}

/// Checks the name of a host. The name is used in commands and as a file name.
///
/// # Errors
/// Returns the reason, as the end of a sentence that begins with the name.
pub(crate) fn check_host_name(name: &str) -> Result<(), String> {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let is_name = (1..=64).contains(&name.len()) && name.bytes().all(is_name_byte) && !name.starts_with(['.', '-']);
    match name {
        "local" | "localhost" => Err("is reserved for this computer; choose another name".to_owned()),
        _ if is_name => Ok(()),
        _ => Err("must be 1 to 64 letters, digits, '.', '-' or '_', and begin with a letter or a digit".to_owned()),
    }
}

/// Checks an ssh destination. A leading hyphen is invalid, because `ssh` would parse it as an option.
///
/// # Errors
/// Returns the reason, as the end of a sentence that begins with the destination.
pub(crate) fn check_destination(ssh: &str) -> Result<(), String> {
    let is_plain = ssh.chars().all(|sign| !sign.is_whitespace() && !sign.is_control());
    match (1..=MAX_DESTINATION_BYTES).contains(&ssh.len()) && is_plain && !ssh.starts_with('-') {
        true => Ok(()),
        false => Err("must be an ssh destination, such as user@host or an alias from ~/.ssh/config".to_owned()),
    }
}

/// The hosts of the configuration, and the problems in it.
#[derive(Default)]
pub(super) struct HostSettings {
    pub(super) hosts: Vec<HostSetting>,
    pub(super) problems: Vec<Problem>,
    pub(super) unknown_keys: Vec<Problem>,
}

impl HostSettings {
    /// Reads the value of [`HOST`] in the file.
    pub(super) fn read_file(&mut self, path: &Path, value: &toml::Value) {
        let file = path.display().to_string();
        let Some(tables) = super::tables(value) else {
            let problem = super::not_tables_problem("a host", HOST);
            return self.problems.push(Problem { location: file, problem });
        };
        for (position, table) in tables.into_iter().enumerate() {
            let number = position + 1;
            let to_problem = |problem: String| Problem { location: file.clone(), problem };
            for key in table.keys().filter(|key| !KEYS.iter().any(|(known, _)| known == key)) {
                let hint = super::suggestion(key, KEYS.iter().map(|(known, _)| *known));
                self.unknown_keys.push(to_problem(format!("'{key}' is not a setting of host {number}{hint}")));
            }
            let text = |key: &str| match table.get(key) {
                Some(toml::Value::String(text)) => Ok(text.clone()),
                Some(value) => Err(to_problem(format!("{key} of host {number} must be a string, not {value}"))),
                None => Err(to_problem(format!("{key} of host {number} is missing"))),
            };
            let (name, ssh) = match (text("name"), text("ssh")) {
                (Ok(name), Ok(ssh)) => (name, ssh),
                (name, ssh) => {
                    self.problems.extend(name.err().into_iter().chain(ssh.err()));
                    continue;
                }
            };
            let name_problem = check_host_name(&name)
                .map_err(|reason| to_problem(format!("the name '{name}' of host {number} {reason}")));
            let destination_problem =
                check_destination(&ssh).map_err(|reason| to_problem(format!("ssh of host '{name}' {reason}")));
            let is_known = self.hosts.iter().any(|known| known.config.name == name);
            let duplicate_problem =
                is_known.then(|| to_problem(format!("two hosts are called '{name}'; give one of them another name")));
            let problems: Vec<_> =
                name_problem.err().into_iter().chain(destination_problem.err()).chain(duplicate_problem).collect();
            if problems.is_empty() {
                let config = RemoteHostConfig { name, ssh };
                self.hosts.push(HostSetting { config, origin: Origin::File(path.to_owned()) });
            }
            self.problems.extend(problems);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, read_problems};

    #[test]
    fn hosts_are_read_and_listed() {
        let text = "[[host]]\nname = 'build'\nssh = 'ana@box'\n\n[[host]]\nname = 'router.1'\nssh = 'gw'\nshh = 'x'\n";
        let settings = read(text, &[]).unwrap();
        let hosts: Vec<(&str, &str)> =
            settings.hosts.iter().map(|host| (host.config.name.as_str(), host.config.ssh.as_str())).collect();
        assert_eq!(hosts, [("build", "ana@box"), ("router.1", "gw")]);
        assert_eq!(settings.configuration().hosts.len(), 2);
        assert_eq!(settings.unknown[0].to_string(), "/c.toml: 'shh' is not a setting of host 2; did you mean 'ssh'?");
        let row = settings.hosts[0].rows().next().unwrap();
        assert_eq!((row.name.as_str(), row.origin.to_string().as_str()), ("host.build.ssh", "/c.toml"));
    }

    #[test]
    fn all_problems_with_hosts_are_reported_at_once() {
        let text = "\
[[host]]
name = 'a b'
ssh = '-oProxyCommand=x'

[[host]]
ssh = 7

[[host]]
name = 'x'
ssh = 'y'

[[host]]
name = 'x'
ssh = 'two words'

[[host]]
name = 'local'
ssh = 'z'
";
        let all = read_problems(text, &[]).join("\n");
        for part in [
            "the name 'a b' of host 1 must be 1 to 64",
            "ssh of host 'a b' must be an ssh destination",
            "name of host 2 is missing",
            "ssh of host 2 must be a string, not 7",
            "ssh of host 'x' must be an ssh destination",
            "two hosts are called 'x'",
            "the name 'local' of host 5 is reserved for this computer",
        ] {
            assert!(all.contains(part), "no {part:?} in:\n{all}");
        }
        assert_eq!(
            read_problems("[host]\nname = 'x'\n", &[]),
            ["/c.toml: a host is a separate table, which begins with [[host]]"]
        );
    }
}
