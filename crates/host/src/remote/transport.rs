//! The way to a machine: the user's OpenSSH, as a child process.
//!
//! OpenSSH brings what the user has configured for the machine: keys, agents, jumps, questions. The arguments of the
//! command line only keep a configuration for interactive use out of the way.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steplatch_terminal::{Piped, PipedSpec, Programs, Stdin};
use tempfile::TempPath;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::task::JoinHandle;

use super::RemoteHostConfig;
use super::failure::{ConnectFailure, MISSING};
use super::target::HostTarget;

/// Maximum length of the kept errors that a connection prints, in bytes.
const MAX_ERROR_BYTES: usize = 4 << 10;

/// Time limit of the last errors of a connection that has ended.
const LAST_ERRORS_TIMEOUT: Duration = Duration::from_millis(500);

/// The way to a relay on another machine.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Starts a relay over there for this client, whose directory there has its name.
    ///
    /// # Errors
    /// If not even an attempt is possible. The failure of an attempt shows on a read.
    fn dial<'a>(&'a self, host: &'a RemoteHostConfig, client: &'a str) -> DialFuture<'a>;

    /// Returns the target of a connection to this host now, with the facts from before the connection.
    ///
    /// # Errors
    /// If the report does not come in time.
    fn target<'a>(&'a self, host: &'a RemoteHostConfig) -> TargetFuture<'a> {
        Box::pin(std::future::ready(Ok(HostTarget::configured(host))))
    }

    /// Returns the target of the last connection to this host, from its beginning.
    fn dialed(&self, _: &RemoteHostConfig) -> Option<HostTarget> {
        None
    }
}

/// The future connection to a relay.
pub type DialFuture<'a> = Pin<Box<dyn Future<Output = Result<Channel, ConnectFailure>> + Send + 'a>>;

/// A connection to a relay.
pub struct Channel {
    /// Output of the relay.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// Input of the relay.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// Messages of the connection about itself.
    pub errors: ErrorText,
    /// Its drop ends the connection.
    pub guard: Box<dyn ConnectionGuard>,
}

impl Channel {
    /// Returns the connection over a stream that reports nothing about itself.
    ///
    /// # Errors
    /// If the runtime cannot take the stream.
    pub fn from_stream(stream: UnixStream, guard: impl ConnectionGuard + 'static) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (reader, writer) = tokio::net::UnixStream::from_std(stream)?.into_split();
        Ok(Self {
            reader: Box::new(reader),
            writer: Box::new(writer),
            errors: ErrorText::default(),
            guard: Box::new(guard),
        })
    }
}

/// The future target of a connection.
pub type TargetFuture<'a> = Pin<Box<dyn Future<Output = Result<HostTarget, ConnectFailure>> + Send + 'a>>;

/// Carrier of a connection. Its drop ends the connection.
pub trait ConnectionGuard: Send {
    /// Returns the exit code of the program over there, or 255 if the connection itself failed; none if a program does
    /// not carry the connection, or a signal ended it. Waits for the end of the connection.
    fn exit_code(&mut self) -> Pin<Box<dyn Future<Output = Option<i32>> + Send + '_>> {
        Box::pin(std::future::ready(None))
    }
}

impl ConnectionGuard for () {}

/// An `ssh`, and the file of known keys that it reads.
struct RunningSsh {
    program: Piped,
    _known_keys: Option<TempPath>,
}

impl ConnectionGuard for RunningSsh {
    fn exit_code(&mut self) -> Pin<Box<dyn Future<Output = Option<i32>> + Send + '_>> {
        Box::pin(async { self.program.wait().await.ok().filter(|exit| exit.signal.is_none()).map(|exit| exit.code) })
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Channel").finish_non_exhaustive()
    }
}

/// The end of what a connection prints about itself.
#[derive(Debug, Default)]
pub struct ErrorText {
    text: Arc<Mutex<String>>,
    collecting: Option<JoinHandle<()>>,
}

impl ErrorText {
    /// Collects what `from` prints.
    fn collect(mut from: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let collected = text.clone();
        let collecting = tokio::spawn(async move {
            let mut bytes = vec![0; 1024];
            while let Ok(count @ 1..) = from.read(&mut bytes).await {
                let mut text = collected.lock();
                text.push_str(&String::from_utf8_lossy(&bytes[..count]));
                let surplus = text.len().saturating_sub(MAX_ERROR_BYTES);
                let cut = (surplus..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                text.drain(..cut);
            }
        });
        Self { text, collecting: Some(collecting) }
    }

    /// Returns the whole output, once the connection has ended.
    pub(super) async fn into_text(mut self) -> String {
        if let Some(collecting) = self.collecting.take() {
            // A process that the connection left behind may keep the pipe open.
            let _ = tokio::time::timeout(LAST_ERRORS_TIMEOUT, collecting).await;
        }
        std::mem::take(&mut self.text.lock())
    }
}

/// The user's OpenSSH.
#[derive(Debug)]
pub struct OpenSsh {
    /// The program.
    pub program: OsString,
    /// The version of steplatch to prefer over there.
    pub version: String,
    /// The environment of `ssh`, which makes it pass its questions to this program.
    pub environment: Arc<dyn SshEnvironment>,
    /// Targets of the last connection to each destination.
    pub dialed: DialedTargets,
}

/// Targets of connections at their start, by destination.
#[derive(Debug, Default)]
pub struct DialedTargets(Mutex<HashMap<RemoteHostConfig, HostTarget>>);

/// The environment of `ssh` processes.
pub trait SshEnvironment: fmt::Debug + Send + Sync {
    /// Returns all variables for a connection to this host.
    fn variables(&self, host: &RemoteHostConfig) -> Vec<(OsString, OsString)>;
}

impl Transport for OpenSsh {
    fn dial<'a>(&'a self, host: &'a RemoteHostConfig, client: &'a str) -> DialFuture<'a> {
        Box::pin(async move {
            let target = self.target(host).await?;
            let fixed = target.fixed.arguments();
            let (fixed, keys) = fixed.map_err(|error| ConnectFailure::Connection(error.to_string()))?;
            self.dialed.0.lock().insert(host.clone(), target);
            let mut arguments = vec![self.program.clone()];
            // The first value of an option counts.
            arguments.extend(fixed);
            arguments.extend(ssh_arguments(&host.ssh, &relay_script(&self.version, client)));
            let spec = PipedSpec {
                arguments,
                folder: "/".into(),
                environment: self.environment.variables(host),
                stdin: Stdin::Piped,
                family: None,
            };
            let started = Programs::new().start(spec).await;
            let mut ssh = started.map_err(|error| ConnectFailure::Connection(error.to_string()))?;
            let missing = || ConnectFailure::Connection("a program on pipes has all three of them".to_owned());
            let reader = ssh.take_stdout().ok_or_else(missing)?;
            let writer = ssh.take_stdin().ok_or_else(missing)?;
            let errors = ErrorText::collect(ssh.take_stderr().ok_or_else(missing)?);
            Ok(Channel {
                reader: Box::new(reader),
                writer: Box::new(writer),
                errors,
                guard: Box::new(RunningSsh { program: ssh, _known_keys: keys }),
            })
        })
    }

    fn target<'a>(&'a self, host: &'a RemoteHostConfig) -> TargetFuture<'a> {
        Box::pin(HostTarget::ask(host, &self.program, options().map(OsString::from)))
    }

    fn dialed(&self, host: &RemoteHostConfig) -> Option<HostTarget> {
        self.dialed.0.lock().get(host).cloned()
    }
}

/// Returns the arguments with which `ssh` runs a script for `sh` over there, whatever shell the user has.
#[must_use]
pub fn ssh_arguments(ssh: &str, script: &str) -> Vec<OsString> {
    let command = format!("exec sh -c '{}'", script.replace('\'', r"'\''"));
    options().map(OsString::from).chain(["--".into(), ssh.into(), command.into()]).collect()
}

/// Options for a connection in the background: no terminal, no forwarded ports that a second connection could not have, no
/// command of the configuration in the place of ours, and never the master that the user's own connections depend on.
fn options() -> impl Iterator<Item = &'static str> {
    const OPTIONS: [&str; 6] = [
        "ClearAllForwardings=yes",
        "ControlMaster=no",
        "EscapeChar=none",
        "PermitLocalCommand=no",
        "RemoteCommand=none",
        // Keys that the other machine names would be new ones to a run that knows the machine by the keys before.
        "UpdateHostKeys=no",
    ];
    std::iter::once("-T").chain(OPTIONS.into_iter().flat_map(|option| ["-o", option]))
}

/// The directory of installed versions over there, as its shell expands it.
pub const INSTALLED: &str = "${XDG_DATA_HOME:-$HOME/.local/share}/steplatch/bin";

/// Returns the script that starts the relay: of the same version if the machine has it, else the one in the `PATH`,
/// else any.
fn relay_script(version: &str, client: &str) -> String {
    format!(
        r#"b="{INSTALLED}"; for p in "$b/{version}/steplatch" steplatch "$b"/*/steplatch; do if command -v "$p" >/dev/null 2>&1; then exec "$p" host --stdio --client {client}; fi; done; echo "{MISSING}" >&2; exit 127"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_relay_command_prefers_the_same_version_and_says_what_is_missing() {
        let home = tempfile::tempdir().unwrap();
        let run = || {
            let mut shell = std::process::Command::new("sh");
            let command = ssh_arguments("box", &relay_script("1.2.3", "c0ffee")).pop().unwrap();
            shell.arg("-c").arg(command).env_clear().env("HOME", home.path());
            let said =
                shell.env("PATH", format!("{}:/usr/bin:/bin", home.path().join("path").display())).output().unwrap();
            (said.status.code(), String::from_utf8(said.stdout).unwrap(), String::from_utf8(said.stderr).unwrap())
        };
        assert_eq!(run(), (Some(127), String::new(), format!("{MISSING}\n")));
        let installed = |folder: &str, word: &str| {
            use std::os::unix::fs::PermissionsExt as _;
            let folder = home.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("steplatch"), format!("#!/bin/sh\necho {word} \"$@\"\n")).unwrap();
            std::fs::set_permissions(folder.join("steplatch"), std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        let expected = |word: &str| (Some(0), format!("{word} host --stdio --client c0ffee\n"), String::new());
        installed(".local/share/steplatch/bin/1.0.0", "other");
        assert_eq!(run(), expected("other"));
        installed("path", "path");
        assert_eq!(run(), expected("path"));
        installed(".local/share/steplatch/bin/1.2.3", "same");
        assert_eq!(run(), expected("same"));
    }
}
