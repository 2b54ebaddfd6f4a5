//! Worker processes: the internal worker executes functions for the daemon; the other worker connects this host to
//! Temporal.

use std::env;
use std::io::{stdin, stdout};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;
use steplatch_protocol::DaemonPaths;
use steplatch_python::worker;

use crate::clients::{is_program, program_in};
use crate::failure::Failure;
use crate::settings::Settings;

/// Maximum memory of all executions of a worker. Several times the limit of one execution.
const MAX_MEMORY_BYTES: usize = 512 << 20;

/// Name of the worker program for Temporal. It is a separate program because it is large and rarely needed.
const TEMPORAL_WORKER: &str = "steplatch-temporal";

/// Serve this host's terminals and runs to Temporal
///
/// The worker connects with Temporal and with the daemon of this user, and starts the daemon if there is none. It may end at
/// any time: the next one continues its work. Run one on each host; several workers on a host share the work.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Worker {
    /// Address of Temporal
    #[arg(long, value_name = "HOST:PORT")]
    temporal: Option<String>,
    /// Namespace in Temporal [default: default]
    #[arg(long, value_name = "NAME", requires = "temporal")]
    namespace: Option<String>,
    /// Encrypt the connection
    #[arg(long, requires = "temporal")]
    tls: bool,
    /// Certificate of the server's authority (PEM)
    #[arg(long, value_name = "FILE", requires = "temporal")]
    tls_ca: Option<PathBuf>,
    /// Certificate of this client (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["temporal", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate of this client (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["temporal", "tls_cert"])]
    tls_key: Option<PathBuf>,
    /// Name of the server in its certificate
    #[arg(long, value_name = "NAME", requires = "temporal")]
    tls_domain: Option<String>,
    /// File with an API key
    #[arg(long, value_name = "FILE", requires = "temporal")]
    api_key: Option<PathBuf>,
    /// File with the key that seals everything that Temporal stores, the same on all hosts [default: temporal.key in the state
    /// directory, created if it is missing]
    #[arg(long, value_name = "FILE", requires = "temporal")]
    key: Option<PathBuf>,
    /// Name of this host in Temporal [default: a random name, chosen once]
    #[arg(long, value_name = "NAME", requires = "temporal")]
    host: Option<String>,
    /// Seconds without a heartbeat after which a worker counts as lost [default: 10]
    #[arg(long, value_name = "SECONDS", requires = "temporal")]
    lost_after: Option<f64>,
    /// Perform the tasks of this host only, and decide no runs
    #[arg(long, requires = "temporal")]
    tasks_only: bool,
}

const EXAMPLES: &str = "\
Examples:
  temporal server start-dev                            a server for trying it
  steplatch worker --temporal 127.0.0.1:7233           serve this host
  steplatch run deploy.json --on temporal              run a machine there

See docs/temporal.md.";

impl Worker {
    /// Returns whether this is the internal worker: it executes functions for the daemon.
    pub(super) fn is_internal(&self) -> bool {
        self.temporal.is_none()
    }

    /// Replaces this process with the worker for Temporal. Returns only if this fails.
    pub(super) fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let program = find_worker()?;
        let current_program =
            env::current_exe().map_err(|error| Failure::system("the path of this program is unknown", &error))?;
        let mut command = Command::new(&program);
        command.arg("--temporal").arg(self.temporal.unwrap_or_default());
        command.arg("--state-dir").arg(paths.state()).arg("--program").arg(current_program);
        let options = [
            ("--namespace", self.namespace.map(PathBuf::from)),
            ("--tls-ca", self.tls_ca),
            ("--tls-cert", self.tls_cert),
            ("--tls-key", self.tls_key),
            ("--tls-domain", self.tls_domain.map(PathBuf::from)),
            ("--api-key", self.api_key),
            ("--key", self.key),
            ("--host", self.host.map(PathBuf::from)),
            ("--lost-after", self.lost_after.map(|seconds| PathBuf::from(seconds.to_string()))),
        ];
        for (name, value) in options {
            if let Some(value) = value {
                command.arg(name).arg(value);
            }
        }
        for (name, is_set) in [("--tls", self.tls), ("--tasks-only", self.tasks_only)] {
            if is_set {
                command.arg(name);
            }
        }
        let error = command.exec();
        Err(Failure::system(&format!("'{}' cannot be started", program.display()), &error))
    }
}

/// Returns the worker program for Temporal from the settings, from the directory of this program, or from the PATH.
fn find_worker() -> Result<PathBuf, Failure> {
    let settings = Settings::load().map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(program) = settings.temporal_program() {
        return Ok(program);
    }
    let beside =
        env::current_exe().ok().and_then(|current_program| Some(current_program.parent()?.join(TEMPORAL_WORKER)));
    let in_path = || program_in(&env::var_os("PATH").unwrap_or_default(), TEMPORAL_WORKER);
    beside.filter(|program| is_program(program)).or_else(in_path).ok_or_else(|| {
        Failure::usage(format!(
            "'{TEMPORAL_WORKER}' is not installed: it is neither beside this program nor in the PATH. Build it in the sources of Steplatch \
             with: cargo build --release --manifest-path temporal/Cargo.toml, and copy it beside 'steplatch'; or name it in the \
             setting temporal.program"
        ))
    })
}

/// Executes functions for the daemon at the other end of standard input and output, until it disconnects.
pub(super) async fn serve() -> Result<ExitCode, Failure> {
    // The worker must survive the terminal that started the daemon. Ignore a failure, because it is already a session
    // leader.
    let _ = rustix::process::setsid();
    let serve_task = tokio::task::spawn_blocking(|| worker::serve(stdin(), stdout(), MAX_MEMORY_BYTES));
    let result = serve_task.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    result.map_err(|error| {
        Failure::system("only the daemon starts this command; it disconnected, or sent an invalid request", &error)
    })?;
    Ok(ExitCode::SUCCESS)
}
