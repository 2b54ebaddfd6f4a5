//! The target of a connection, as known before connecting.
//!
//! `ssh -G` reports what the user's configuration makes of a destination, and `ssh-keygen -F` its known keys. Both read
//! files only. The target states the facts that neither can report: a connection that another `ssh` shares, unchecked
//! keys.

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

/// Maximum length of the output of one of them, in bytes.
const MAX_ANSWER_BYTES: u64 = 256 << 10;

/// The machine that connections to a host lead to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostTarget {
    /// The configured destination.
    pub ssh: String,
    /// The user, the machine and the port that `ssh` makes of it.
    pub address: Option<String>,
    /// The machine or the command that it goes through.
    pub through: Option<String>,
    /// The fingerprints of the known keys of the machine, sorted.
    pub keys: Vec<String>,
    /// All that `ssh` makes of the destination, a line for each option.
    pub options: String,
    /// The unknown parts, a sentence each.
    pub unknown: Vec<String>,
    /// Settings with which a connection begins, so that it leads here even if the configuration changes.
    pub fixed: FixedConnection,
}

/// Settings of a connection that come from the lookup of its destination, and not from the configuration again.
///
/// `ssh` that connects reads the configuration anew, and parts of it (`Match exec`) may give another result than at the
/// lookup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FixedConnection {
    /// Options of `ssh`, as `NAME=VALUE`.
    pub options: Vec<String>,
    /// The lines of the known keys, of which the machine must have one; empty without known keys, or if `ssh` accepts
    /// any key.
    pub known_keys: String,
}

impl HostTarget {
    /// Returns the configured target, without further facts.
    #[must_use]
    pub fn configured(host: &RemoteHostConfig) -> Self {
        Self { ssh: host.ssh.clone(), unknown: vec!["where it leads is not known".to_owned()], ..Self::default() }
    }

    /// Asks `ssh`, with the arguments of a connection, and `ssh-keygen`.
    ///
    /// # Errors
    /// If one of them does not answer in time, or is killed. Then its report is missing.
    pub(super) async fn ask(
        host: &RemoteHostConfig,
        ssh: &OsString,
        options: impl Iterator<Item = OsString>,
    ) -> Result<Self, ConnectFailure> {
        let silent = |what: &str, error: &str| {
            ConnectFailure::Connection(format!("{what} does not report where '{}' leads: {error}", host.ssh))
        };
        let arguments =
            [ssh.clone(), "-G".into()].into_iter().chain(options).chain(["--".into(), host.ssh.clone().into()]);
        let report = output(arguments.collect()).await.map_err(|error| silent("ssh -G", &error.to_string()))?;
        if report.is_empty() {
            let unknown = vec!["ssh did not report where it leads (ssh -G)".to_owned()];
            return Ok(Self { ssh: host.ssh.clone(), unknown, ..Self::default() });
        }
        let mut target = Self { ssh: host.ssh.clone(), ..Self::read(&report) };
        let mut known = String::new();
        for file in known_hosts_files(&report) {
            let name = known_name(&report);
            let arguments = ["ssh-keygen", "-F", &name, "-f", file].map(OsString::from);
            let found = match output(arguments.to_vec()).await {
                Err(NoReport::Start(SpawnError::NotFound(_))) => String::new(),
                found => found.map_err(|error| silent("ssh-keygen -F", &error.to_string()))?,
            };
            known.push_str(&key_lines(&found));
        }
        // The report shows the keys that the connection begins with.
        if let Some(file) = file_of(&known) {
            let arguments = ["ssh-keygen", "-l", "-F", &known_name(&report), "-f"].map(OsString::from);
            let arguments = arguments.into_iter().chain([file.as_os_str().to_owned()]).collect();
            let listed = output(arguments).await.map_err(|error| silent("ssh-keygen -l", &error.to_string()))?;
            target.keys.extend(fingerprints(&listed));
        }
        target.fixed = FixedConnection { options: fixed_options(&report), known_keys: known };
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

    /// Returns whether the keys in files are those that a connection accepts.
    fn checks_keys(&self, report: &str) -> bool {
        let asks = option(report, "stricthostkeychecking").is_none_or(|value| matches!(value, "ask" | "true" | "yes"));
        let is_command = option(report, "knownhostscommand").is_some_and(|command| command != "none");
        asks && !is_command && !self.keys.is_empty()
    }

    /// Reads a report of `ssh -G`.
    fn read(report: &str) -> Self {
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
    /// Returns the arguments of `ssh`, and the file that they name, which its drop removes.
    ///
    /// # Errors
    /// If the write of the file fails.
    pub(super) fn arguments(&self) -> std::io::Result<(Vec<OsString>, Option<TempPath>)> {
        let mut options = self.options.clone();
        let mut file = None;
        if !self.known_keys.is_empty() {
            let written =
                file_of(&self.known_keys).ok_or_else(|| std::io::Error::other("no temporary file can be made"))?;
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

/// Returns the options that say where a connection leads, as a report of `ssh -G` has them.
fn fixed_options(report: &str) -> Vec<String> {
    let is_set = |value: &&str| !value.is_empty() && *value != "none";
    let value = |name: &str| option(report, name).filter(is_set);
    let (Some(machine), Some(port), Some(user)) = (value("hostname"), value("port"), value("user")) else {
        return Vec::new();
    };
    // `ssh` expands a value again.
    let machine = machine.replace('%', "%%");
    let through = match (value("proxyjump"), value("proxycommand")) {
        (Some(jump), _) => format!("ProxyJump={jump}"),
        (None, command) => format!("ProxyCommand={}", command.unwrap_or("none")),
    };
    let shared = format!("ControlPath={}", value("controlpath").unwrap_or("none"));
    let alias = value("hostkeyalias").map(|alias| format!("HostKeyAlias={alias}"));
    // The name in the report is the canonical one.
    let canonical = "CanonicalizeHostname=no".to_owned();
    let place = [format!("HostName={machine}"), format!("Port={port}"), format!("User={user}")];
    place.into_iter().chain([through, shared, canonical]).chain(alias).collect()
}

/// Returns the lines of keys in what `ssh-keygen -F` prints.
fn key_lines(report: &str) -> String {
    report.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect()
}

/// Writes keys into a separate file that only the user reads; `None` if there are none, or the write fails.
fn file_of(keys: &str) -> Option<TempPath> {
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
        let at = words.iter().position(|word| word.starts_with("SHA256:"))?;
        let kind = at.checked_sub(1).and_then(|before| words.get(before))?;
        Some(format!("{kind} {}", words[at]))
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
async fn output(arguments: Vec<OsString>) -> Result<String, NoReport> {
    let environment = std::env::vars_os().collect();
    let spec = PipedSpec { arguments, folder: "/".into(), environment, stdin: Stdin::Nothing, family: None };
    let asking = async {
        let mut program = Programs::new().start(spec).await.map_err(NoReport::Start)?;
        let mut report = Vec::new();
        let out: Option<Box<dyn AsyncRead + Send + Unpin>> = program.take_stdout().map(|out| Box::new(out) as _);
        let out = out.ok_or(NoReport::Unreadable)?;
        out.take(MAX_ANSWER_BYTES).read_to_end(&mut report).await.map_err(|_| NoReport::Unreadable)?;
        // A part of a report names another target, or fewer keys. A shell around the program reports a signal by such a code.
        let exit = program.wait().await.map_err(|_| NoReport::Unreadable)?;
        if (129..255).contains(&exit.code) {
            return Err(NoReport::Killed);
        }
        String::from_utf8(report).map_err(|_| NoReport::Unreadable)
    };
    tokio::time::timeout(ANSWER_TIMEOUT, asking).await.unwrap_or(Err(NoReport::Late))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "user ana\nhostname build.example.com\nport 2222\nproxyjump none\ncontrolpath none\n\
        stricthostkeychecking ask\nuserknownhostsfile /h/known_hosts /h/known_hosts2\nglobalknownhostsfile /etc/known\n";

    #[test]
    fn a_report_says_where_a_destination_leads_and_what_is_not_known() {
        let target = HostTarget::read(REPORT);
        assert_eq!(target.address.as_deref(), Some("ana@build.example.com:2222"));
        assert_eq!((target.through, target.unknown), (None, Vec::new()));
        assert_eq!(known_name(REPORT), "[build.example.com]:2222");
        assert_eq!(known_hosts_files(REPORT).collect::<Vec<_>>(), ["/h/known_hosts", "/h/known_hosts2", "/etc/known"]);
        let shared = REPORT.replace("controlpath none", "controlpath /tmp/s").replace("checking ask", "checking false");
        let unknown = HostTarget::read(&shared.replace("proxyjump none", "proxyjump gate")).unknown;
        assert_eq!(unknown.len(), 2, "{unknown:?}");
        assert_eq!(known_name(&format!("{REPORT}hostkeyalias box\n")), "box");
        assert_eq!(HostTarget::read("").unknown, ["where it leads is not known"]);
    }

    #[test]
    fn a_connection_is_begun_with_what_was_reported() {
        let options = fixed_options(REPORT);
        let place = ["HostName=build.example.com", "Port=2222", "User=ana", "ProxyCommand=none", "ControlPath=none"];
        assert_eq!(options[..5], place);
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
    async fn a_program_that_was_killed_has_reported_nothing() {
        for (script, expected) in [
            ("kill -KILL $$", None),
            ("echo user ana; kill -TERM $$", None),
            ("echo user ana; sh -c 'kill -KILL $$'; exit $?", None),
            ("exit 255", Some("")),
            ("echo found; exit 1", Some("found\n")),
            ("echo user ana", Some("user ana\n")),
        ] {
            let report = output(["sh", "-c", script].map(OsString::from).to_vec()).await;
            assert_eq!(report.ok().as_deref(), expected, "{script}");
        }
    }

    #[tokio::test]
    async fn a_condition_that_knows_its_caller_changes_nothing_of_what_was_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        // It holds where ssh is not asked for its configuration.
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
        let target = HostTarget::ask(&host, &"ssh".into(), options()).await.unwrap();
        assert_eq!(target.address.as_deref(), Some("ana@build.example.com:2222"));
        assert_eq!((target.keys.len(), target.unknown.len()), (1, 0), "{target:?}");
        // What a connection would use, as the real program reads it.
        let (fixed, _file) = target.fixed.arguments().unwrap();
        let begun = |fixed: Vec<OsString>| async {
            // The argument -G is hidden from the condition by the one before it.
            let asked = ["ssh".into(), "-TG".into()].into_iter().chain(fixed).chain(options());
            output(asked.chain(["box".into()]).collect()).await.expect("ssh answers")
        };
        let (free, fixed) = (begun(Vec::new()).await, begun(fixed).await);
        assert_eq!((option(&free, "hostname"), option(&free, "port")), (Some("evil.example.com"), Some("2292")));
        assert_eq!((option(&fixed, "hostname"), option(&fixed, "port")), (Some("build.example.com"), Some("2222")));
        assert!(!known_hosts_files(&fixed).any(|file| file.contains("evil_keys")), "{fixed}");
    }

    #[test]
    fn fingerprints_have_their_kind() {
        let report = "# Host box found: line 1 \nbox ED25519 SHA256:abc \n# Host box found: line 2\n|1|x= RSA SHA256:def user@x\n";
        assert_eq!(fingerprints(report).collect::<Vec<_>>(), ["ED25519 SHA256:abc", "RSA SHA256:def"]);
    }

    #[tokio::test]
    async fn the_users_ssh_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config");
        std::fs::write(&config, "Host box\n  HostName build.example.com\n  User ana\n  Port 2222\n").unwrap();
        let host = RemoteHostConfig { name: "build".to_owned(), ssh: "box".to_owned() };
        let options = || ["-F".into(), config.clone().into()].into_iter();
        let target = HostTarget::ask(&host, &"ssh".into(), options()).await.unwrap();
        assert_eq!((target.ssh.as_str(), target.address.as_deref()), ("box", Some("ana@build.example.com:2222")));
        std::fs::write(&config, "Host box\n  HostName elsewhere.example.com\n  User ana\n  Port 2222\n").unwrap();
        assert_ne!(HostTarget::ask(&host, &"ssh".into(), options()).await.unwrap().options, target.options);
        let missing = HostTarget::ask(&host, &"/no/ssh".into(), options()).await.unwrap_err();
        assert!(missing.is_passing() && missing.to_string().contains("where 'box' leads"), "{missing}");
    }

    /// A missing answer does not count as an answer that nothing is known.
    #[tokio::test]
    async fn an_ssh_that_does_not_answer_in_time_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let ssh = folder.path().join("ssh");
        let host = RemoteHostConfig { name: "build".to_owned(), ssh: "box".to_owned() };
        tokio::time::pause();
        for (script, why) in [("exec sleep 1000", "did not answer within 5 s")] {
            std::fs::write(&ssh, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&ssh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            let error = HostTarget::ask(&host, &ssh.clone().into(), std::iter::empty()).await.unwrap_err();
            assert!(error.is_passing() && error.to_string().contains(why), "{error}");
        }
    }
}
