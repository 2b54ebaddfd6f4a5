//! Serving over HTTP, for the commands that do: where, for whom, and until when.

use std::net::{IpAddr, SocketAddr};

use clap::Args;
use rustix::process::{Resource, getrlimit, setrlimit};
use steplatch_http::{Options, Server, Token, token_file};
use steplatch_protocol::{Hello, Place, Steady, ensure_private};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;
use crate::{front, print};

/// The variable that holds a token, instead of the file.
const TOKEN_VARIABLE: &str = "STEPLATCH_HTTP_TOKEN";

/// Descriptors that are no connections.
const OTHER_DESCRIPTORS: u64 = 128;

/// Where to listen, and whose requests are answered.
#[derive(Debug, Args)]
pub(crate) struct Listening {
    /// Port to listen on; 0 takes any that is free
    #[arg(long, default_value_t = 7878)]
    port: u16,

    /// Address to listen on; any other than this machine's own can be reached by others
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    host: String,

    /// A name that requests may call this server by, besides its own, such as that of a proxy before it
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,

    /// An origin whose pages may send requests from a browser
    #[arg(long, value_name = "URL")]
    allow_origin: Vec<String>,
}

/// A server that listens, and how it is entered.
pub(crate) struct Listens {
    pub(crate) server: Server,
    pub(crate) daemon: Steady,
    /// Its address, for people.
    pub(crate) url: String,
    /// The token, when it was made just now.
    pub(crate) token: Option<String>,
    /// Where the token is, unless it came with the environment.
    pub(crate) token_file: Option<std::path::PathBuf>,
}

impl Listening {
    /// Listens, as `name` to the daemon of `place`. Nothing is answered yet.
    pub(crate) async fn listen(self, place: &Place, name: &str) -> Result<Listens, Failure> {
        let (token, made, file) = match std::env::var(TOKEN_VARIABLE) {
            Ok(given) if !given.is_empty() => {
                let token = Token::given(&given, TOKEN_VARIABLE).map_err(|error| Failure::usage(error.to_string()))?;
                (token, None, None)
            }
            Err(std::env::VarError::NotUnicode(_)) => {
                return Err(Failure::usage(format!("{TOKEN_VARIABLE} is not text")));
            }
            _ => {
                ensure_private(place.state()).map_err(|error| Failure::work(error.to_string()))?;
                let (token, made) = Token::of(place.state()).map_err(|error| Failure::work(error.to_string()))?;
                (token, made, Some(token_file(place.state())))
            }
        };
        let hello = front::hello(name);
        // What is opened inherits this environment; the token is not for it.
        let environment = hello.environment.map(|mut all| {
            all.remove(TOKEN_VARIABLE);
            all
        });
        let daemon = Steady::new(place.clone(), front::starter()?, Hello { environment, ..hello });
        let options = Options {
            host: self.host,
            port: self.port,
            allowed_hosts: self.allow_host,
            allowed_origins: self.allow_origin,
            most_connections: most_connections(),
        };
        let server = Server::bind(&options, token, daemon.clone()).await;
        let server = server.map_err(|error| Failure::usage(error.to_string()))?;
        let address = server.address();
        if !address.ip().is_loopback() {
            print::note(&format!(
                "others can reach {address}: what is sent is not encrypted, so put a proxy with TLS before it, and allow its \
                 name with --allow-host"
            ));
        }
        Ok(Listens { server, daemon, url: format!("http://{}", shown(address)), token: made, token_file: file })
    }
}

/// An address that can be opened: one that stands for all of this machine is none.
fn shown(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => std::net::Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Raises the limit of open files as far as it goes, and returns how many connections it leaves room for.
fn most_connections() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let wanted = Options::default().most_connections;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
    match getrlimit(Resource::Nofile).current {
        Some(limit) => {
            usize::try_from(limit.saturating_sub(OTHER_DESCRIPTORS)).map_or(wanted, |room| room.clamp(1, wanted))
        }
        None => wanted,
    }
}

/// Waits until somebody ends this program: ctrl-c, or SIGTERM.
pub(crate) async fn told_to_end() -> Result<(), Failure> {
    let failed = |error| Failure::system("signals can not be heard", &error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
