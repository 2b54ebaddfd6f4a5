//! A server with the tools, prompts and resources that the public test suite for MCP servers expects
//! (<https://github.com/modelcontextprotocol/conformance>), on the server implementation that agents use.
//!
//! It listens on a free loopback port, prints its address on standard output, and exits at the end of its standard
//! input. `conformance contract PROGRAM STATE_DIR` offers steplatch's contract instead, and starts the daemon with
//! PROGRAM.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "this program is only for tests")]

mod fixture;
mod jobs;
mod rounds;

use std::path::PathBuf;

use axum::serve::ListenerExt as _;
use fixture::Fixture;
use steplatch_mcp::{HttpOptions, http_service, http_service_of};
use steplatch_protocol::{DaemonPaths, Hello, ReconnectingClient, Starter};
use tokio::io::AsyncReadExt as _;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument_strs: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let options = HttpOptions::default();
    let shutdown = options.shutdown.clone();
    let router = match argument_strs.as_slice() {
        ["contract", program, state] => {
            let paths = DaemonPaths::from_environment(Some(PathBuf::from(state).as_path()))?;
            let hello = Hello { client: "conformance".to_owned(), ..Hello::default() };
            let daemon = ReconnectingClient::new(paths, Starter { program: PathBuf::from(program) }, hello);
            axum::Router::new().nest_service("/mcp", http_service(daemon, options))
        }
        _ => axum::Router::new().nest_service("/mcp", http_service_of(Fixture::default(), options)),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let listener = listener.tap_io(|stream| {
        // Without TCP_NODELAY a response may wait up to 44 ms in the kernel.
        let _ = stream.set_nodelay(true);
    });
    let end_of_input = async move {
        let mut input = Vec::new();
        let _ = tokio::io::stdin().read_to_end(&mut input).await;
        shutdown.cancel();
    };
    axum::serve(listener, router).with_graceful_shutdown(end_of_input).await
}
