//! The target of a connection, determined before connecting.
//!
//! `ssh -G` reports the options for a destination in the user's configuration, and `ssh-keygen -F` its known keys.
//! These commands only read files. The target lists the facts that the commands cannot report, such as a connection
//! that another `ssh` shares, or unchecked keys.

use std::ffi::OsString;
use std::io::Write as _;
use std::time::Duration;

use steplatch_terminal::{PipedSpec, Programs, SpawnError, Stdin};
use tempfile::TempPath;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::RemoteHostConfig;
use super::failure::ConnectFailure;

/// Time limit of one program.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum length of the output of one program.
const MAX_ANSWER_BYTES: u64 = 256 << 10;

/// Machine that connections to a host lead to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostTarget {
    /// The configured destination.
    pub ssh: String,
    /// User, machine and port that `ssh` determines for the destination.
    pub address: Option<String>,
    /// Machine or command that carries the connection.
    pub through: Option<String>,
    /// The fingerprints of the known keys of the machine, sorted.
    pub keys: Vec<String>,
    /// All options of `ssh` for the destination, one on each line.
    pub options: String,
    /// The unknown parts, a sentence each.
    pub unknown: Vec<String>,
    /// Settings of the connection, so that it leads to this target even if the configuration changes.
    pub fixed: FixedConnection,
}

/// Settings of a connection from the lookup of its destination.
///
/// Fixed options override the configuration. `ssh` reads the configuration again when it connects, and parts of it
/// (`Match exec`) may then have another result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FixedConnection {
    /// Options of `ssh`, as `NAME=VALUE`.
    pub options: Vec<String>,
    /// Lines of the known keys; the machine must have one of these keys. Empty if none is known, or `ssh` accepts any
    /// key.
    pub known_keys: String,
}

impl HostTarget {
    /// Returns a target with only the configured destination.
    #[must_use]
    pub fn configured(host: &RemoteHostConfig) -> Self {
        Self { ssh: host.ssh.clone(), unknown: vec!["where it leads is not known".to_owned()], ..Self::default() }
    }

    /// Queries `ssh`, with the arguments of a connection, and `ssh-keygen`.
    ///
    /// # Errors
    /// If a program does not answer in time, or is killed, so that its report is missing.
    pub(super) async fn query(
        host: &RemoteHostConfig,
        ssh: &OsString,
        options: impl Iterator<Item = OsString>,
    ) -> Result<Self, ConnectFailure> {
        let no_report_error = |what: &str, error: &str| {
            ConnectFailure::Connection(format!("{what} does not report where '{}' leads: {error}", host.ssh))
        };
        let arguments =
            [ssh.clone(), "-G".into()].into_iter().chain(options).chain(["--".into(), host.ssh.clone().into()]);
        let report =
            run_for_output(arguments.collect()).await.map_err(|error| no_report_error("ssh -G", &error.to_string()))?;
        if report.is_empty() {
            let unknown = vec!["ssh did not report where it leads (ssh -G)".to_owned()];
            return Ok(Self { ssh: host.ssh.clone(), unknown, ..Self::default() });
        }
        let mut target = Self { ssh: host.ssh.clone(), ..Self::parse(&report) };
        let mut known_keys = String::new();
        for file in known_hosts_files(&report) {
            let name = known_name(&report);
            let arguments = ["ssh-keygen", "-F", &name, "-f", file].map(OsString::from);
            let found = match run_for_output(arguments.to_vec()).await {
                Err(NoReport::Start(SpawnError::NotFound(_))) => String::new(),
                found => found.map_err(|error| no_report_error("ssh-keygen -F", &error.to_string()))?,
            };
            known_keys.push_str(&key_lines(&found));
        }
        // List the fingerprints of the keys that the connection will use.
        if let Some(file) = write_key_file(&known_keys) {
            let arguments = ["ssh-keygen", "-l", "-F", &known_name(&report), "-f"].map(OsString::from);
            let arguments = arguments.into_iter().chain([file.as_os_str().to_owned()]).collect();
            let key_report = run_for_output(arguments)
                .await
                .map_err(|error| no_report_error("ssh-keygen -l", &error.to_string()))?;
            target.keys.extend(fingerprints(&key_report));
        }
        target.fixed = FixedConnection { options: fixed_options(&report), known_keys };
        if !target.checks_keys(&report) {
            target.fixed.known_keys.clear();
        }
        target.keys.sort();
        target.keys.dedup();
        if target.keys.is_empty() {
            target.unknown.push("its key is not known here yet".to_owned());
        }
        Ok(target)
    }

    /// Returns whether a connection accepts only the known keys in files.
    fn checks_keys(&self, report: &str) -> bool {
        let asks = option(report, "stricthostkeychecking").is_none_or(|value| matches!(value, "ask" | "true" | "yes"));
        let is_command = option(report, "knownhostscommand").is_some_and(|command| command != "none");
        asks && !is_command && !self.keys.is_empty()
    }

    /// Parses a report of `ssh -G`.
    fn parse(report: &str) -> Self {
        let value = |name: &str| option(report, name).filter(|value| *value != "none");
        let address = match (value("user"), value("hostname"), value("port")) {
            (Some(user), Some(machine), Some(port)) => Some(format!("{user}@{machine}:{port}")),
            _ => None,
        };
        let mut unknown = Vec::new();
        if address.is_none() {
            unknown.push("where it leads is not known".to_owned());
        }
        if let Some(socket) = value("controlpath") {
            unknown.push(format!("a connection that is shared at {socket} leads where the ssh that shares it does"));
        }
        if value("stricthostkeychecking").is_some_and(|value| !matches!(value, "ask" | "true" | "yes")) {
            unknown.push("a key that is not known is accepted (StrictHostKeyChecking)".to_owned());
        }
        if value("knownhostscommand").is_some() {
            unknown.push("a command says which keys are known (KnownHostsCommand)".to_owned());
        }
        let mut options: Vec<&str> = report.lines().collect();
        options.sort_unstable();
        let through = value("proxyjump").or_else(|| value("proxycommand")).map(str::to_owned);
        Self { address, through, options: options.join("\n"), unknown, ..Self::default() }
    }
}

impl FixedConnection {
    /// Returns the arguments of `ssh`, and the temporary file of known keys that they name, if any.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn arguments(&self) -> std::io::Result<(Vec<OsString>, Option<TempPath>)> {
        let mut options = self.options.clone();
        let mut file = None;
        if !self.known_keys.is_empty() {
            let written = write_key_file(&self.known_keys)
                .ok_or_else(|| std::io::Error::other("no temporary file can be made"))?;
            options.extend([
                format!("UserKnownHostsFile=\"{}\"", written.display()),
                "GlobalKnownHostsFile=/dev/null".to_owned(),
                "KnownHostsCommand=none".to_owned(),
                "StrictHostKeyChecking=yes".to_owned(),
            ]);
            file = Some(written);
        }
        Ok((options.into_iter().flat_map(|option| ["-o".into(), option.into()]).collect(), file))
    }
}

/// Returns the options in a report of `ssh -G` that determine a connection's target.
fn fixed_options(report: &str) -> Vec<String> {
    let is_set = |value: &&str| !value.is_empty() && *value != "none";
    let value = |name: &str| option(report, name).filter(is_set);
    let (Some(machine), Some(port), Some(user)) = (value("hostname"), value("port"), value("user")) else {
        return Vec::new();
    };
    // Escape `%`, because `ssh` expands the value again.
    let machine = machine.replace('%', "%%");
    let through = match (value("proxyjump"), value("proxycommand")) {
        (Some(jump), _) => format!("ProxyJump={jump}"),
        (None, command) => format!("ProxyCommand={}", command.unwrap_or("none")),
    };
    let shared = format!("ControlPath={}", value("controlpath").unwrap_or("none"));
    let alias = value("hostkeyalias").map(|alias| format!("HostKeyAlias={alias}"));
    // The report has the canonical name already.
    let canonical = "CanonicalizeHostname=no".to_owned();
    let address = [format!("HostName={machine}"), format!("Port={port}"), format!("User={user}")];
    address.into_iter().chain([through, shared, canonical]).chain(alias).collect()
}

/// Returns the lines of keys in a report of `ssh-keygen -F`.
fn key_lines(report: &str) -> String {
    report.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect()
}

/// Writes keys into a temporary file that only the user can read. `None` if there are no keys, or the write fails.
fn write_key_file(keys: &str) -> Option<TempPath> {
    if keys.is_empty() {
        return None;
    }
    let mut file = tempfile::Builder::new().prefix("steplatch-keys-").tempfile().ok()?;
    file.write_all(keys.as_bytes()).ok()?;
    Some(file.into_temp_path())
}

/// Returns the value of an option in a report of `ssh -G`.
fn option<'r>(report: &'r str, name: &str) -> Option<&'r str> {
    report.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::trim)
}

/// Returns the files of known keys.
fn known_hosts_files(report: &str) -> impl Iterator<Item = &str> {
    let files = ["userknownhostsfile", "globalknownhostsfile"].into_iter().filter_map(|name| option(report, name));
    files.flat_map(str::split_whitespace)
}

/// Returns the name of the machine in files of known keys.
fn known_name(report: &str) -> String {
    let machine = option(report, "hostname").unwrap_or_default();
    match (option(report, "hostkeyalias").filter(|alias| *alias != "none"), option(report, "port")) {
        (Some(alias), _) => alias.to_owned(),
        (None, Some(port)) if port != "22" => format!("[{machine}]:{port}"),
        (None, _) => machine.to_owned(),
    }
}

/// Returns the kinds and fingerprints in a report of `ssh-keygen -l -F`.
fn fingerprints(report: &str) -> impl Iterator<Item = String> {
    report.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let index = words.iter().position(|word| word.starts_with("SHA256:"))?;
        let kind = index.checked_sub(1).and_then(|before| words.get(before))?;
        Some(format!("{kind} {}", words[index]))
    })
}

/// Reason why a program reported nothing.
#[derive(Debug, thiserror::Error)]
enum NoReport {
    #[error(transparent)]
    Start(SpawnError),
    #[error("it did not answer within {} s", ANSWER_TIMEOUT.as_secs())]
    Late,
    #[error("its report cannot be read")]
    Unreadable,
    #[error("it was killed before its report was complete")]
    Killed,
}

/// Returns the output of a program.
async fn run_for_output(arguments: Vec<OsString>) -> Result<String, NoReport> {
    let environment = std::env::vars_os().collect();
    let spec = PipedSpec { arguments, directory: "/".into(), environment, stdin: Stdin::Nothing, family: None };
    let report = async {
        let mut program = Programs::new().start(spec).await.map_err(NoReport::Start)?;
        let mut report = Vec::new();
        let out: Option<Box<dyn AsyncRead + Send + Unpin>> = program.take_stdout().map(|out| Box::new(out) as _);
        let out = out.ok_or(NoReport::Unreadable)?;
        out.take(MAX_ANSWER_BYTES).read_to_end(&mut report).await.map_err(|_| NoReport::Unreadable)?;
        // An incomplete report could name another target. A shell around the program reports a signal with such a code.
        let exit = program.wait().await.map_err(|_| NoReport::Unreadable)?;
        if (129..255).contains(&exit.code) {
            return Err(NoReport::Killed);
        }
        String::from_utf8(report).map_err(|_| NoReport::Unreadable)
    };
    tokio::time::timeout(ANSWER_TIMEOUT, report).await.unwrap_or(Err(NoReport::Late))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "user ana\nhostname build.example.com\nport 2222\nproxyjump none\ncontrolpath none\n\
        stricthostkeychecking ask\nuserknownhostsfile /h/known_hosts /h/known_hosts2\nglobalknownhostsfile /etc/known\n";

    #[test]
    fn report_names_destination_and_unknowns() {
        let target = HostTarget::parse(REPORT);
        assert_eq!(target.address.as_deref(), Some("ana@build.example.com:2222"));
        assert_eq!((target.through, target.unknown), (None, Vec::new()));
        assert_eq!(known_name(REPORT), "[build.example.com]:2222");
        assert_eq!(known_hosts_files(REPORT).collect::<Vec<_>>(), ["/h/known_hosts", "/h/known_hosts2", "/etc/known"]);
        let shared = REPORT.replace("controlpath none", "controlpath /tmp/s").replace("checking ask", "checking false");
        let unknown = HostTarget::parse(&shared.replace("proxyjump none", "proxyjump gate")).unknown;
        assert_eq!(unknown.len(), 2, "{unknown:?}");
        assert_eq!(known_name(&format!("{REPORT}hostkeyalias box\n")), "box");
        assert_eq!(HostTarget::parse("").unknown, ["where it leads is not known"]);
    }

    #[test]
    fn connection_uses_the_reported_options() {
        let options = fixed_options(REPORT);
        let address = ["HostName=build.example.com", "Port=2222", "User=ana", "ProxyCommand=none", "ControlPath=none"];
        assert_eq!(options[..5], address);
        assert_eq!(fixed_options(&REPORT.replace("proxyjump none", "proxyjump gate"))[3], "ProxyJump=gate");
        assert_eq!(fixed_options("proxyjump none\n"), [""; 0], "nothing is known");
        let zone = REPORT.replace("build.example.com", "fe80::1%eth0");
        assert_eq!(fixed_options(&zone)[0], "HostName=fe80::1%%eth0");
        let known_keys = key_lines("# Host box found: line 1\nbox ssh-ed25519 AAAA\n");
        let (arguments, file) = FixedConnection { options: Vec::new(), known_keys }.arguments().unwrap();
        assert_eq!(std::fs::read_to_string(file.unwrap()).unwrap(), "box ssh-ed25519 AAAA\n");
        assert!(arguments.contains(&"StrictHostKeyChecking=yes".into()), "{arguments:?}");
        assert!(FixedConnection::default().arguments().unwrap().0.is_empty());
    }

    #[tokio::test]
    async fn output_of_a_killed_program_is_ignored() {
        for (script, expected) in [
            ("kill -KILL $$", None),
            ("echo user ana; kill -TERM $$", None),
            ("echo user ana; sh -c 'kill -KILL $$'; exit $?", None),
            ("exit 255", Some("")),
            ("echo found; exit 1", Some("found\n")),
            ("echo user ana", Some("user ana\n")),
        ] {
            let report = run_for_output(["sh", "-c", script].map(OsString::from).to_vec()).await;
            assert_eq!(report.ok().as_deref(), expected, "{script}");
        }
    }

    #[tokio::test]
    async fn caller_dependent_condition_does_not_change_the_report() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        // The condition holds only if ssh is not asked for its configuration.
        let condition = "tr '\\0' ' ' </proc/$PPID/cmdline | grep -q -- ' -G ' && exit 1\nexit 0\n";
        std::fs::write(path("condition"), condition).unwrap();
        let config = format!(
            "Match originalhost box exec \"exec sh {}\"\n  HostName evil.example.com\n  Port 2292\n  UserKnownHostsFile {}\nHost box\n  \
             HostName build.example.com\n  User ana\n  Port 2222\n  UserKnownHostsFile {}\n",
            path("condition").display(),
            path("evil_keys").display(),
            path("keys").display()
        );
        std::fs::write(path("config"), config).unwrap();
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
        std::fs::write(path("keys"), format!("[build.example.com]:2222 {key}\n")).unwrap();
        let host = RemoteHostConfig { name: "build".to_owned(), ssh: "box".to_owned() };
        let options = || ["-F".into(), path("config").into()].into_iter();
        let target = HostTarget::query(&host, &"ssh".into(), options()).await.unwrap();
        assert_eq!(target.address.as_deref(), Some("ana@build.example.com:2222"));
        assert_eq!((target.keys.len(), target.unknown.len()), (1, 0), "{target:?}");
        // The settings of a connection, as read by the real program.
        let (fixed, _file) = target.fixed.arguments().unwrap();
        let connection_report = |fixed: Vec<OsString>| async {
            // The preceding argument hides -G from the condition.
            let arguments = ["ssh".into(), "-TG".into()].into_iter().chain(fixed).chain(options());
            run_for_output(arguments.chain(["box".into()]).collect()).await.expect("ssh reports its options")
        };
        let (free, fixed) = (connection_report(Vec::new()).await, connection_report(fixed).await);
        assert_eq!((option(&free, "hostname"), option(&free, "port")), (Some("evil.example.com"), Some("2292")));
        assert_eq!((option(&fixed, "hostname"), option(&fixed, "port")), (Some("build.example.com"), Some("2222")));
        assert!(!known_hosts_files(&fixed).any(|file| file.contains("evil_keys")), "{fixed}");
    }

    #[test]
    fn fingerprints_include_their_kind() {
        let report = "# Host box found: line 1 \nbox ED25519 SHA256:abc \n# Host box found: line 2\n|1|x= RSA SHA256:def user@x\n";
        assert_eq!(fingerprints(report).collect::<Vec<_>>(), ["ED25519 SHA256:abc", "RSA SHA256:def"]);
    }

    #[tokio::test]
    async fn target_uses_the_ssh_configuration_of_the_user() {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("config");
        std::fs::write(&config, "Host box\n  HostName build.example.com\n  User ana\n  Port 2222\n").unwrap();
        let host = RemoteHostConfig { name: "build".to_owned(), ssh: "box".to_owned() };
        let options = || ["-F".into(), config.clone().into()].into_iter();
        let target = HostTarget::query(&host, &"ssh".into(), options()).await.unwrap();
        assert_eq!((target.ssh.as_str(), target.address.as_deref()), ("box", Some("ana@build.example.com:2222")));
        std::fs::write(&config, "Host box\n  HostName elsewhere.example.com\n  User ana\n  Port 2222\n").unwrap();
        assert_ne!(HostTarget::query(&host, &"ssh".into(), options()).await.unwrap().options, target.options);
        let missing = HostTarget::query(&host, &"/no/ssh".into(), options()).await.unwrap_err();
        assert!(missing.is_temporary() && missing.to_string().contains("where 'box' leads"), "{missing}");
    }

    /// A missing report differs from a report that nothing is known.
    #[tokio::test]
    async fn unresponsive_ssh_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let ssh = directory.path().join("ssh");
        let host = RemoteHostConfig { name: "build".to_owned(), ssh: "box".to_owned() };
        tokio::time::pause();
        for (script, expected) in [("exec sleep 1000", "did not answer within 5 s")] {
            std::fs::write(&ssh, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&ssh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            let error = HostTarget::query(&host, &ssh.clone().into(), std::iter::empty()).await.unwrap_err();
            assert!(error.is_temporary() && error.to_string().contains(expected), "{error}");
        }
    }
}
