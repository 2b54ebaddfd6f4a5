//! The Temporal worker, started by `steplatch worker --temporal`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use steplatch_protocol::{DaemonPaths, Hello};
use steplatch_temporal::worker::{TlsFiles, WorkerSettings, work};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Serve the runs and the terminals of a daemon to Temporal
#[derive(Debug, Parser)]
#[command(name = "steplatch-temporal", version, max_term_width = 100)]
struct Arguments {
    /// Address of Temporal
    #[arg(long, value_name = "HOST:PORT")]
    temporal: String,
    /// Namespace in Temporal
    #[arg(long, default_value = "default")]
    namespace: String,
    /// Encrypt the connection
    #[arg(long)]
    tls: bool,
    /// Certificate of the server's authority (PEM)
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Certificate of this client (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate of this client (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Name of the server in its certificate
    #[arg(long, value_name = "NAME")]
    tls_domain: Option<String>,
    /// File with an API key
    #[arg(long, value_name = "FILE")]
    api_key: Option<PathBuf>,
    /// File with the key that seals everything that Temporal stores; the same on all hosts
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Name of this host in Temporal
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Seconds without a sign of life after which a worker counts as lost
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    lost_after: f64,
    /// Perform the tasks of this host only, and decide no runs
    #[arg(long)]
    tasks_only: bool,
    /// State directory of the daemon
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Program that starts the daemon where there is none
    #[arg(long, value_name = "FILE", hide = true)]
    program: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,steplatch_temporal=info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(run(arguments)),
        Err(error) => Err(error.to_string()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Ignore an error, because there is no other output.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), String> {
    let settings = settings(arguments)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            tokio::select! {
                ended = Box::pin(work(settings)) => ended.map_err(|error| error.to_string()),
                // A worker may end at any time: other workers, or the next one, continue.
                _ = terminated.recv() => Ok(()),
                _ = interrupted.recv() => Ok(()),
            }
        })
        .await
}

fn settings(arguments: Arguments) -> Result<WorkerSettings, String> {
    let paths = DaemonPaths::from_environment(arguments.state_dir.as_deref()).map_err(|error| error.to_string())?;
    let lost_after = Duration::try_from_secs_f64(arguments.lost_after)
        .ok()
        .filter(|lost_after| (Duration::from_millis(500)..Duration::from_secs(3600)).contains(lost_after))
        .ok_or_else(|| "--lost-after is a number of seconds from 0.5 to 3600".to_owned())?;
    let Arguments { tls, tls_ca, tls_cert, tls_key, tls_domain, .. } = arguments;
    let files = TlsFiles { authority: tls_ca, client: tls_cert.zip(tls_key), domain: tls_domain };
    let has_tls_files = files.authority.is_some() || files.client.is_some() || files.domain.is_some();
    let is_encrypted = tls || has_tls_files || arguments.api_key.is_some();
    Ok(WorkerSettings {
        address: arguments.temporal,
        namespace: arguments.namespace,
        tls: is_encrypted.then_some(files),
        api_key: arguments.api_key,
        key: arguments.key.unwrap_or_else(|| paths.state().join("temporal.key")),
        program: arguments.program.unwrap_or_else(|| PathBuf::from("steplatch")),
        hello: Hello { surface: Some("temporal".to_owned()), ..Hello::for_process("steplatch-temporal") },
        paths,
        host: arguments.host,
        lost_after,
        workflows: !arguments.tasks_only,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &[&str]) -> Result<WorkerSettings, String> {
        let arguments = ["steplatch-temporal", "--temporal", "host:7233", "--state-dir", "/state"];
        settings(Arguments::try_parse_from(arguments.iter().chain(options)).map_err(|error| error.to_string())?)
    }

    #[test]
    fn every_option_of_the_connection_is_a_setting() {
        let plain = read(&[]).unwrap();
        assert!(plain.tls.is_none() && plain.api_key.is_none() && plain.workflows);
        assert_eq!(
            (plain.namespace.as_str(), plain.key.as_path()),
            ("default", std::path::Path::new("/state/temporal.key"))
        );
        let all = [
            "--tls-ca",
            "ca",
            "--tls-cert",
            "cert",
            "--tls-key",
            "own",
            "--tls-domain",
            "name",
            "--namespace",
            "team",
            "--api-key",
            "api",
            "--key",
            "shared",
            "--tasks-only",
        ];
        let all = read(&all).unwrap();
        let files = all.tls.unwrap();
        assert_eq!(files.authority, Some(PathBuf::from("ca")));
        assert_eq!(files.client, Some((PathBuf::from("cert"), PathBuf::from("own"))));
        assert_eq!((files.domain.as_deref(), all.namespace.as_str()), (Some("name"), "team"));
        assert_eq!((all.api_key, all.key, all.workflows), (Some("api".into()), PathBuf::from("shared"), false));
    }

    #[test]
    fn key_or_certificate_requires_an_encrypted_connection() {
        let options: [&[&str]; 4] = [&["--tls"], &["--api-key", "api"], &["--tls-ca", "ca"], &["--tls-domain", "name"]];
        for options in options {
            assert!(read(options).unwrap().tls.is_some(), "{options:?}");
        }
        assert!(read(&["--tls-cert", "cert"]).is_err(), "a certificate needs its key");
        assert!(read(&["--lost-after", "0.1"]).is_err() && read(&["--lost-after", "nan"]).is_err());
    }
}
