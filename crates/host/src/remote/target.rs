//! The machine that a connection leads to, as far as this machine knows before it connects.
//!
//! `ssh -G` reports what the user's configuration makes of a destination, and `ssh-keygen -F` which keys are known for it. Both read
//! files only. What neither can say is said: a connection that another `ssh` shares, keys that are not checked.

use std::ffi::OsString;
use std::time::Duration;

use steplatch_terminal::{PipedSpec, Programs, SpawnError, Stdin};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::RemoteHostConfig;
use super::failure::ConnectFailure;

/// Time limit of one program.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// The most that is read of one of them, in bytes.
const MAX_ANSWER: u64 = 256 << 10;

/// Where connections to a host lead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostTarget {
    /// The destination, as it is configured.
    pub ssh: String,
    /// The user, the machine and the port that `ssh` makes of it.
    pub address: Option<String>,
    /// The machine or the command that it goes through.
    pub through: Option<String>,
    /// The fingerprints of the keys that are known for the machine, sorted.
    pub keys: Vec<String>,
    /// All that `ssh` makes of the destination, a line for each option.
    pub options: String,
    /// The unknown parts, a sentence each.
    pub unknown: Vec<String>,
}

impl HostTarget {
    /// Returns what the configuration says, where nothing more is known.
    #[must_use]
    pub fn configured(host: &RemoteHostConfig) -> Self {
        Self { ssh: host.ssh.clone(), unknown: vec!["where it leads is not known".to_owned()], ..Self::default() }
    }

    /// Asks `ssh`, with the arguments of a connection, and `ssh-keygen`.
    ///
    /// # Errors
    /// When one of them does not answer in time. What it would have reported is not known then.
    pub(super) async fn ask(
        host: &RemoteHostConfig,
        ssh: &OsString,
        options: impl Iterator<Item = OsString>,
    ) -> Result<Self, ConnectFailure> {
        let silent = |what: &str, why: &str| {
            ConnectFailure::Connection(format!("{what} does not report where '{}' leads: {why}", host.ssh))
        };
        let arguments =
            [ssh.clone(), "-G".into()].into_iter().chain(options).chain(["--".into(), host.ssh.clone().into()]);
        let report = output(arguments.collect()).await.map_err(|why| silent("ssh -G", &why.to_string()))?;
        if report.is_empty() {
            let unknown = vec!["ssh did not report where it leads (ssh -G)".to_owned()];
            return Ok(Self { ssh: host.ssh.clone(), unknown, ..Self::default() });
        }
        let mut target = Self { ssh: host.ssh.clone(), ..Self::read(&report) };
        for file in known_hosts_files(&report) {
            let name = known_name(&report);
            let arguments = ["ssh-keygen", "-l", "-F", &name, "-f", file].map(OsString::from);
            let known = match output(arguments.to_vec()).await {
                Err(NoReport::Start(SpawnError::NotFound(_))) => String::new(),
                known => known.map_err(|why| silent("ssh-keygen -F", &why.to_string()))?,
            };
            target.keys.extend(fingerprints(&known));
        }
        target.keys.sort();
        target.keys.dedup();
        if target.keys.is_empty() {
            target.unknown.push("its key is not known here yet".to_owned());
        }
        Ok(target)
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

/// Returns the value of an option in a report of `ssh -G`.
fn option<'r>(report: &'r str, name: &str) -> Option<&'r str> {
    report.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::trim)
}

/// Returns the files of known keys.
fn known_hosts_files(report: &str) -> impl Iterator<Item = &str> {
    let files = ["userknownhostsfile", "globalknownhostsfile"].into_iter().filter_map(|name| option(report, name));
    files.flat_map(str::split_whitespace)
}

/// Returns the name under which the keys of the machine are known.
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

/// Why a program reported nothing.
#[derive(Debug, thiserror::Error)]
enum NoReport {
    #[error(transparent)]
    Start(SpawnError),
    #[error("it did not answer within {} s", ANSWER_TIME.as_secs())]
    Late,
    #[error("its report can not be read")]
    Unreadable,
}

/// Returns what a program prints.
async fn output(arguments: Vec<OsString>) -> Result<String, NoReport> {
    let environment = std::env::vars_os().collect();
    let spec = PipedSpec { arguments, folder: "/".into(), environment, stdin: Stdin::Nothing, family: None };
    let asking = async {
        let mut program = Programs::new().start(spec).await.map_err(NoReport::Start)?;
        let mut report = Vec::new();
        let out: Option<Box<dyn AsyncRead + Send + Unpin>> = program.take_stdout().map(|out| Box::new(out) as _);
        let out = out.ok_or(NoReport::Unreadable)?;
        out.take(MAX_ANSWER).read_to_end(&mut report).await.map_err(|_| NoReport::Unreadable)?;
        String::from_utf8(report).map_err(|_| NoReport::Unreadable)
    };
    tokio::time::timeout(ANSWER_TIME, asking).await.unwrap_or(Err(NoReport::Late))
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

    /// What does not answer is not taken for an answer that nothing is known.
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
