//! HTTP server of a command: the address, the clients and the lifetime.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;
use steplatch_http::{MAX_BODY_BYTES, Options, Server, Token, token_file};
use steplatch_mcp::{HttpOptions, http_service};
use steplatch_protocol::{DaemonPaths, ReconnectingClient, ensure_private};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;
use crate::print::{QUIET, STRONG};
use crate::{daemon_client, print};

/// Environment variable that replaces the token of the file.
const TOKEN_VARIABLE: &str = "STEPLATCH_HTTP_TOKEN";

/// Number of file descriptors reserved for uses other than connections.
const RESERVED_DESCRIPTORS: u64 = 128;

/// Address to listen on and clients with access.
#[derive(Debug, Args)]
#[command(next_help_heading = "Over HTTP")]
pub(crate) struct ListenOptions {
    /// Port to listen on; 0 selects a free port [default: 7878]
    #[arg(long)]
    port: Option<u16>,

    /// Address to listen on; other computers can reach any address but loopback [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,

    /// Additional host name to accept in requests, such as that of a proxy (repeatable)
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,

    /// Web origin whose pages may send requests (repeatable)
    #[arg(long, value_name = "URL")]
    allow_origin: Vec<String>,
}

/// A listening server, with its address and its token.
pub(crate) struct HttpListener {
    /// The server, at first only with MCP.
    pub(crate) server: Server,
    /// Address of the server, for people.
    pub(crate) url: String,
    /// The token, if it is new.
    token: Option<String>,
    /// File with the token, unless the token is from the environment.
    token_file: Option<PathBuf>,
    /// The signals that stop the server.
    pub(crate) signals: StopSignals,
}

/// SIGINT and SIGTERM, which no longer end the process. They are received from the time at which the address is
/// known, because what is printed with it says how to stop the server.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    fn new() -> Result<Self, Failure> {
        let receive = |kind| signal(kind).map_err(|error| Failure::system("signals cannot be received", &error));
        Ok(Self { interrupt: receive(SignalKind::interrupt())?, terminate: receive(SignalKind::terminate())? })
    }
}

impl ListenOptions {
    /// Returns whether the command line has any of these options.
    pub(crate) fn has_options(&self) -> bool {
        let Self { port, host, allow_host, allow_origin } = self;
        port.is_some() || host.is_some() || !allow_host.is_empty() || !allow_origin.is_empty()
    }

    /// Binds the address. The server accepts requests once it is served.
    pub(crate) async fn listen(self, paths: &DaemonPaths) -> Result<HttpListener, Failure> {
        let (token, new_token, file) = token(paths)?;
        let defaults = Options::default();
        let options = Options {
            host: self.host.unwrap_or(defaults.host),
            port: self.port.unwrap_or(defaults.port),
            allowed_hosts: self.allow_host,
            allowed_origins: self.allow_origin,
            max_connections: max_connections(),
        };
        let server = Server::bind(&options, token, client_for(paths, "http")?).await;
        let server = server.map_err(|error| Failure::usage(error.to_string()))?;
        let address = server.address();
        if !address.ip().is_loopback() {
            print::remark(&format!(
                "other computers can reach {address}, and the connection is not encrypted: put a proxy with TLS before it, and \
                 allow its name with --allow-host"
            ));
        }
        // The MCP service checks the names of hosts and origins again, with the lists of the server.
        let defaults = HttpOptions::default();
        let mcp = HttpOptions {
            hosts: defaults.hosts.into_iter().chain([options.host]).chain(options.allowed_hosts).collect(),
            origins: defaults.origins.into_iter().chain(options.allowed_origins).collect(),
            max_body_bytes: MAX_BODY_BYTES,
            shutdown: server.shutdown_token(),
        };
        let server = server.with_service("/mcp", http_service(client_for(paths, "mcp")?, mcp));
        Ok(HttpListener {
            server,
            url: format!("http://{}", browser_address(address)),
            token: new_token,
            token_file: file,
            signals: StopSignals::new()?,
        })
    }
}

/// Returns the token of the server, the text of a new token, and the file of a stored token.
fn token(paths: &DaemonPaths) -> Result<(Token, Option<String>, Option<PathBuf>), Failure> {
    match std::env::var(TOKEN_VARIABLE) {
        Ok(text) if !text.is_empty() => {
            let token = Token::from_text(&text, TOKEN_VARIABLE).map_err(|error| Failure::usage(error.to_string()))?;
            Ok((token, None, None))
        }
        Err(std::env::VarError::NotUnicode(_)) => Err(Failure::usage(format!("{TOKEN_VARIABLE} is not text"))),
        _ => {
            ensure_private(paths.state()).map_err(|error| Failure::work(error.to_string()))?;
            let (token, new_token) =
                Token::read_or_create(paths.state()).map_err(|error| Failure::work(error.to_string()))?;
            Ok((token, new_token, Some(token_file(paths.state()))))
        }
    }
}

/// Creates a client of the daemon for programs, under a surface's name.
fn client_for(paths: &DaemonPaths, name: &str) -> Result<ReconnectingClient, Failure> {
    Ok(ReconnectingClient::new(paths.clone(), daemon_client::starter()?, daemon_client::hello(name)))
}

impl HttpListener {
    /// Returns the URL of a service. The URL of the page has the host name `localhost`.
    fn service_url(&self, path: &str) -> String {
        match (path, self.page_port()) {
            ("/", Some(port)) => format!("http://localhost:{port}/"),
            _ => format!("{}{path}", self.url),
        }
    }

    /// Prints the address, the URLs of the `services` (pairs of name and path), and the token.
    pub(crate) fn print_address(&self, services: &[(&str, &str)], json: bool) -> Result<(), Failure> {
        let Self { url, token, token_file, .. } = self;
        let token_path = token_file.as_ref().map(|file| file.display().to_string());
        if json {
            let mut reply = json!({"success": true, "url": url});
            for (name, path) in services {
                reply[*name] = self.service_url(path).into();
            }
            for (name, value) in [("token_file", &token_path), ("token", token)] {
                if let Some(value) = value {
                    reply[name] = value.as_str().into();
                }
            }
            return Ok(print::json_line(&reply)?);
        }
        print::line(format!("{STRONG}steplatch listens on {url}{STRONG:#}"))?;
        let row = |name: &str, text: &str| {
            print::line(format!("  {QUIET}{}{QUIET:#}  {text}", print::padded(&name.replace('_', " "), 9)))
        };
        for (name, path) in services {
            row(name, &self.service_url(path))?;
        }
        match (token, &token_path) {
            (Some(token), Some(file)) => {
                row("token", token)?;
                row("", &format!("new, and shown only once; stored in {file}"))?;
            }
            (_, Some(file)) => row("token", &format!("in {file}"))?,
            (_, None) => row("token", &format!("as in {TOKEN_VARIABLE}"))?,
        }
        Ok(())
    }

    /// Returns the port of the page, if this server is reachable as `localhost`.
    pub(crate) fn page_port(&self) -> Option<u16> {
        let address = self.server.address();
        let (ip, loopback) = (address.ip(), std::net::Ipv4Addr::LOCALHOST);
        (ip.is_unspecified() || ip == loopback || ip == std::net::Ipv6Addr::LOCALHOST).then_some(address.port())
    }

    /// Returns a shell expression that evaluates to the token.
    pub(crate) fn token_in_shell(&self) -> String {
        match &self.token_file {
            Some(file) => format!("$(cat '{}')", file.display()),
            None => format!("${TOKEN_VARIABLE}"),
        }
    }

    /// Serves until ctrl-c or SIGTERM.
    pub(crate) async fn serve(server: Server, mut signals: StopSignals) {
        let end = async move {
            tokio::select! {
                _ = signals.interrupt.recv() => {}
                _ = signals.terminate.recv() => {}
            }
        };
        server.serve(end).await;
    }
}

/// Returns the address for a browser, with the loopback address in place of the unspecified one.
fn browser_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => std::net::Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Raises the limit of open files to its maximum and returns the number of connections that it permits.
fn max_connections() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let default_limit = Options::default().max_connections;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
    match getrlimit(Resource::Nofile).current {
        Some(limit) => usize::try_from(limit.saturating_sub(RESERVED_DESCRIPTORS))
            .map_or(default_limit, |connections| connections.clamp(1, default_limit)),
        None => default_limit,
    }
}
