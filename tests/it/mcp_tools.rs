//! Workflows that become tools while clients are connected.

use std::collections::BTreeMap;
use std::path::PathBuf;

use steplatch_daemon::Configuration;
use steplatch_mcp::{HttpOptions, http_service};
use steplatch_protocol::{Hello, ReconnectingClient, Starter};
use steplatch_testkit::{Home, TestDaemon};

use crate::clients;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Runs the story with a client of this mode, against a daemon whose proven workflows are tools.
async fn run_story(mode: &'static str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap().to_owned();
    let configuration = Configuration { library_tools: true, ..Configuration::default() };
    let daemon = TestDaemon::configured(directory, configuration).await;
    let environment = [("HOME", path.clone()), ("PATH", std::env::var("PATH").unwrap())];
    let environment = environment.map(|(name, value)| (name.to_owned(), value));
    let hello = Hello {
        client: "http".to_owned(),
        cwd: Some(path),
        environment: Some(BTreeMap::from(environment)),
        ..Hello::default()
    };
    let reconnecting_client =
        ReconnectingClient::new(daemon.paths().clone(), Starter { program: PathBuf::from("/bin/false") }, hello);

    let options = HttpOptions::default();
    let shutdown_token = options.shutdown.clone();
    let shutdown = shutdown_token.clone().cancelled_owned();
    let router = axum::Router::new().nest_service("/mcp", http_service(reconnecting_client, options));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server_task = tokio::spawn(async move { axum::serve(listener, router).with_graceful_shutdown(shutdown).await });
    let client = move || clients::run_client_script(&Home::new(STEPLATCH), "mcp-2", "tools.py", &[mode, &url]);
    tokio::task::spawn_blocking(client).await.unwrap();
    shutdown_token.cancel();
    server_task.await.unwrap().unwrap();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn current_client_learns_of_changed_tools_and_calls_them() {
    run_story("auto").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn current_client_with_handshake_learns_of_changed_tools() {
    run_story("legacy").await;
}
