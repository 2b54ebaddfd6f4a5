//! Transport to a machine: the user's OpenSSH, as a child process.
//!
//! OpenSSH uses the user's configuration of the machine: keys, agents, jumps, questions. The arguments only override
//! settings that are meant for interactive use.

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
use super::failure::{ConnectFailure, NOT_INSTALLED_TEXT};
use super::target::HostTarget;

/// Maximum length of the kept error output of a connection.
const MAX_ERROR_BYTES: usize = 4 << 10;

/// Time limit for the last error output of an ended connection.
const LAST_ERRORS_TIMEOUT: Duration = Duration::from_millis(500);

/// Transport to a relay on a remote host.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Starts a relay on the machine for this client.
    ///
    /// # Errors
    /// If no attempt is possible. The failure of an attempt appears when the channel is read.
    fn dial<'a>(&'a self, host: &'a RemoteHostConfig, client: &'a str) -> DialFuture<'a>;

    /// Returns the current target of connections to this host, without connecting.
    ///
    /// # Errors
    /// If the target is not reported in time.
    fn target<'a>(&'a self, host: &'a RemoteHostConfig) -> TargetFuture<'a> {
        Box::pin(std::future::ready(Ok(HostTarget::configured(host))))
    }

    /// Returns the target of the last connection to this host, as determined at its start.
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
    /// Error output of the connection itself.
    pub errors: ErrorText,
    /// Dropping this ends the connection.
    pub guard: Box<dyn ConnectionGuard>,
}

impl Channel {
    /// Returns a channel over a stream without error output.
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

/// Guard of a connection. Dropping it ends the connection.
pub trait ConnectionGuard: Send {
    /// Waits for the end of the connection. Returns the exit code of the remote program, or 255 if the connection
    /// itself failed. `None` if no program carries the connection, or a signal ended it.
    fn exit_code(&mut self) -> Pin<Box<dyn Future<Output = Option<i32>> + Send + '_>> {
        Box::pin(std::future::ready(None))
    }
}

impl ConnectionGuard for () {}

/// A running `ssh`, and the file of known keys that it reads.
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

/// End of the error output of a connection.
#[derive(Debug, Default)]
pub struct ErrorText {
    text: Arc<Mutex<String>>,
    collector_task: Option<JoinHandle<()>>,
}

impl ErrorText {
    /// Collects the output of `from`.
    fn collect(mut from: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let collected = text.clone();
        let collector_task = tokio::spawn(async move {
            let mut bytes = vec![0; 1024];
            while let Ok(count @ 1..) = from.read(&mut bytes).await {
                let mut text = collected.lock();
                text.push_str(&String::from_utf8_lossy(&bytes[..count]));
                let surplus = text.len().saturating_sub(MAX_ERROR_BYTES);
                let cut = (surplus..text.len()).find(|index| text.is_char_boundary(*index)).unwrap_or(0);
                text.drain(..cut);
            }
        });
        Self { text, collector_task: Some(collector_task) }
    }

    /// Returns the whole output, once the connection has ended.
    pub(super) async fn into_text(mut self) -> String {
        if let Some(collector_task) = self.collector_task.take() {
            // With a time limit, because a leftover process may keep the pipe open.
            let _ = tokio::time::timeout(LAST_ERRORS_TIMEOUT, collector_task).await;
        }
        std::mem::take(&mut self.text.lock())
    }
}

/// The user's OpenSSH.
#[derive(Debug)]
pub struct OpenSsh {
    /// The program.
    pub program: OsString,
    /// The version of steplatch to prefer on the machine.
    pub version: String,
    /// The environment that makes `ssh` pass its questions to this program.
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
            // The fixed options come first, because `ssh` uses the first value of an option.
            arguments.extend(fixed);
            arguments.extend(ssh_arguments(&host.ssh, &relay_script(&self.version, client)));
            let spec = PipedSpec {
                arguments,
                directory: "/".into(),
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
        Box::pin(HostTarget::query(host, &self.program, options().map(OsString::from)))
    }

    fn dialed(&self, host: &RemoteHostConfig) -> Option<HostTarget> {
        self.dialed.0.lock().get(host).cloned()
    }
}

/// Returns the arguments of an `ssh` that runs a script in the remote `sh`, independent of the user's shell.
#[must_use]
pub fn ssh_arguments(ssh: &str, script: &str) -> Vec<OsString> {
    let command = format!("exec sh -c '{}'", script.replace('\'', r"'\''"));
    options().map(OsString::from).chain(["--".into(), ssh.into(), command.into()]).collect()
}

/// Returns the options for a connection in the background: no terminal, no forwarded ports (only one connection can
/// have them), and no configured command instead of ours. The background connection is never the master of the user's
/// connections.
fn options() -> impl Iterator<Item = &'static str> {
    const OPTIONS: [&str; 6] = [
        "ClearAllForwardings=yes",
        "ControlMaster=no",
        "EscapeChar=none",
        "PermitLocalCommand=no",
        "RemoteCommand=none",
        // New keys of the machine would look like a different machine to a run that has recorded the old keys.
        "UpdateHostKeys=no",
    ];
    std::iter::once("-T").chain(OPTIONS.into_iter().flat_map(|option| ["-o", option]))
}

/// Directory of installed versions on a remote host, expanded by the remote shell.
pub const INSTALLED: &str = "${XDG_DATA_HOME:-$HOME/.local/share}/steplatch/bin";

/// Returns the script that starts the relay: the same version if it is installed, else the program in the `PATH`, else
/// any installed version.
fn relay_script(version: &str, client: &str) -> String {
    format!(
        r#"b="{INSTALLED}"; for p in "$b/{version}/steplatch" steplatch "$b"/*/steplatch; do if command -v "$p" >/dev/null 2>&1; then exec "$p" host --stdio --client {client}; fi; done; echo "{NOT_INSTALLED_TEXT}" >&2; exit 127"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relay_prefers_the_same_version_and_names_missing_parts() {
        let home = tempfile::tempdir().unwrap();
        let run = || {
            let mut shell = std::process::Command::new("sh");
            let command = ssh_arguments("box", &relay_script("1.2.3", "c0ffee")).pop().unwrap();
            shell.arg("-c").arg(command).env_clear().env("HOME", home.path());
            let output =
                shell.env("PATH", format!("{}:/usr/bin:/bin", home.path().join("path").display())).output().unwrap();
            (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
        };
        assert_eq!(run(), (Some(127), String::new(), format!("{NOT_INSTALLED_TEXT}\n")));
        let installed = |directory: &str, word: &str| {
            use std::os::unix::fs::PermissionsExt as _;
            let directory = home.path().join(directory);
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("steplatch"), format!("#!/bin/sh\necho {word} \"$@\"\n")).unwrap();
            std::fs::set_permissions(directory.join("steplatch"), std::fs::Permissions::from_mode(0o755)).unwrap();
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
