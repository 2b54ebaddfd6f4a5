//! The computers of a world: their terminal hosts, and the relay for connections from the daemon's computer.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use steplatch_host::{
    Channel, ConnectFailure, DialFuture, HostRequest, HostStarter, Identity, RemoteHostConfig, Transport, serve,
};
use steplatch_liar::{MARK, frame};
use steplatch_terminal::{Options, Terminals};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::process::Process;
use crate::stage::{HostTerminals, Stage};

/// Maximum number of open terminals of a computer: low, so that open requests wait.
const MAX_TERMINALS: usize = 4;

/// Interval of a relay's checks for a terminal host.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A terminal host: its process and its sockets.
#[derive(Debug)]
pub(crate) struct HostProcess {
    /// Number of the host within the schedule, counted from 1.
    pub(crate) number: usize,
    pub(crate) computer: usize,
    pub(crate) process: Process,
    /// The listener that daemons connect to. The world forwards each connection to `host_socket`.
    pub(crate) daemon_listener: Option<UnixListener>,
    pub(crate) host_socket: PathBuf,
}

impl HostProcess {
    /// Starts the terminal host of a computer. The host listens at `host_socket`.
    pub(crate) fn start(
        stage: &Arc<Stage>,
        (number, computer): (usize, usize),
        daemon_listener: Option<UnixListener>,
        host_socket: PathBuf,
    ) -> Self {
        let listener = UnixListener::bind(&host_socket).expect("the socket path is free");
        listener.set_nonblocking(true).expect("the socket supports non-blocking mode");
        let simulation = Arc::new(HostTerminals { stage: stage.clone(), host: number });
        let process = Process::start(stage.now(), move || async move {
            let options = Options { max_terminals: MAX_TERMINALS, simulation: Some(simulation), ..Options::default() };
            let terminals = Terminals::new(options).expect("the terminals start");
            let listener = tokio::net::UnixListener::from_std(listener).expect("the listener is valid");
            let identity = Identity { version: env!("CARGO_PKG_VERSION").to_owned() };
            serve(listener, terminals, identity, Arc::default()).await.expect("the host serves");
        });
        Self { number, computer, process, daemon_listener, host_socket }
    }
}

/// Requests of processes to the world.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Listeners of the terminal hosts that a daemon requests on its computer.
    pub(crate) hosts: Mutex<Vec<UnixListener>>,
    /// The world's ends of new connections to the remote computer.
    pub(crate) dials: Mutex<Vec<UnixStream>>,
    /// Sockets of new workers.
    pub(crate) workers: Mutex<Vec<UnixStream>>,
    pub(crate) remote: Mutex<RemoteComputer>,
}

/// The remote computer, as its relays see it.
#[derive(Debug, Default)]
pub(crate) struct RemoteComputer {
    /// Name and socket of the terminal host, if one runs.
    pub(crate) host: Option<(String, PathBuf)>,
    /// True if a relay waits for the start of a terminal host.
    pub(crate) wants_host: bool,
}

/// Starts the terminal hosts of the daemon's computer.
#[derive(Debug)]
pub(crate) struct Hosts(pub(crate) Arc<Requests>);

impl HostStarter for Hosts {
    fn start(&self, listener: UnixListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        self.0.hosts.lock().push(listener);
        Ok(())
    }
}

/// Connects to the remote computer.
#[derive(Debug)]
pub(crate) struct Link(pub(crate) Arc<Requests>);

impl Transport for Link {
    fn dial<'a>(&'a self, _: &'a RemoteHostConfig, _: &'a str) -> DialFuture<'a> {
        Box::pin(async move {
            let connect = || {
                let (daemon_end, link_end) = UnixStream::pair()?;
                self.0.dials.lock().push(link_end);
                Channel::from_stream(daemon_end, ())
            };
            connect().map_err(|error| ConnectFailure::Connection(error.to_string()))
        })
    }
}

/// Relays a connection to the terminal host of the remote computer: a model of `steplatch host --stdio`, whose threads
/// would ignore the simulated clock.
pub(crate) async fn relay(stream: UnixStream, requests: Arc<Requests>) {
    // Ignore an error, because the other side detects the end of the connection.
    let _ = try_relay(stream, &requests).await;
}

async fn try_relay(stream: UnixStream, requests: &Requests) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let mut stream = tokio::net::UnixStream::from_std(stream)?;
    let version = env!("CARGO_PKG_VERSION");
    stream.write_all(format!("{MARK}{}\n", json!({ "version": version })).as_bytes()).await?;
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        line.push(stream.read_u8().await?);
    }
    let request: serde_json::Value = serde_json::from_slice(&line)?;
    let (name, socket) = loop {
        let host = requests.remote.lock().host.clone();
        match host {
            Some(host) if request.get("open").is_none_or(|name| name == host.0.as_str()) => break host,
            None if request == "open_current" => {
                requests.remote.lock().wants_host = true;
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            _ => return stream.write_all(b"\"gone\"\n").await,
        }
    };
    let mut host = tokio::net::UnixStream::connect(socket).await?;
    let body = rmp_serde::to_vec_named(&HostRequest::Link).map_err(io::Error::other)?;
    host.write_all(&frame(1, &body)).await?;
    let mut answer = vec![0; host.read_u32().await? as usize];
    host.read_exact(&mut answer).await?;
    let reply = json!({"open": {"socket": name, "is_current": true, "others": []}});
    stream.write_all(format!("{reply}\n").as_bytes()).await?;
    tokio::io::copy_bidirectional(&mut stream, &mut host).await.map(drop)
}
