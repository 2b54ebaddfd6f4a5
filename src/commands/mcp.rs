//! `steplatch mcp`: the MCP server.

use std::process::ExitCode;

use clap::Args;
use steplatch_mcp::serve_stdio;
use steplatch_protocol::{DaemonPaths, ReconnectingClient};

use crate::daemon_client;
use crate::failure::Failure;
use crate::http_listener::{HttpListener, ListenOptions};
use crate::print::{self, QUIET};

#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// Serve clients over HTTP instead, at /mcp, with the token of 'steplatch serve'
    #[arg(long)]
    http: bool,

    /// With --http: print the address as JSON
    #[arg(long, requires = "http")]
    json: bool,

    #[command(flatten)]
    options: ListenOptions,
}

impl Mcp {
    pub(super) async fn run(self, paths: DaemonPaths) -> Result<ExitCode, Failure> {
        if self.http {
            return serve_http(&paths, self.options, self.json).await;
        }
        if self.options.has_options() {
            return Err(Failure::usage("options of the HTTP server need --http; without it, MCP is on standard input"));
        }
        let daemon = ReconnectingClient::new(paths, daemon_client::starter()?, daemon_client::hello("mcp"));
        serve_stdio(daemon).await.map_err(|error| Failure::work(format!("the client did not speak MCP: {error}")))?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn serve_http(paths: &DaemonPaths, options: ListenOptions, json: bool) -> Result<ExitCode, Failure> {
    let listener = options.listen(paths).await?;
    listener.print_address(&[("mcp", "/mcp")], json)?;
    if !json {
        let (token, url) = (listener.token_in_shell(), &listener.url);
        let add_command =
            format!("claude mcp add --transport http steplatch {url}/mcp --header \"Authorization: Bearer {token}\"");
        print::line(format!("  {QUIET}add it   {QUIET:#}  {add_command}"))?;
        print::line(format!("{QUIET}ctrl-c stops it; runs and terminals continue{QUIET:#}"))?;
    }
    HttpListener::serve(listener.server, listener.signals).await;
    Ok(ExitCode::SUCCESS)
}
