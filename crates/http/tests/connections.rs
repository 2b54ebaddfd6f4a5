//! A server with a low limit on connections.
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::time::Duration;

use steplatch_http::{Options, Server, Token};
use steplatch_protocol::{DaemonPaths, Hello, ReconnectingClient, Starter};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

const TOKEN: &str = "0123456789abcdef";

/// Sends a GET request with additional headers and returns the response.
async fn get(port: u16, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost:{port}\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn idle_connections_are_closed_to_serve_new_requests() {
    let directory = tempfile::tempdir().unwrap();
    let paths = DaemonPaths::new(directory.path().join("state"), directory.path().join("run"));
    // The program does not exist, so no daemon can be started.
    let daemon = ReconnectingClient::new(paths, Starter { program: "/nonexistent".into() }, Hello::default());
    let options = Options { port: 0, max_connections: 8, ..Options::default() };
    let server =
        Server::bind(&options, Token::from_text(TOKEN, "the token").unwrap(), daemon).await.unwrap().with_api();
    let port = server.address().port();
    let (shutdown_sender, shutdown_receiver) = oneshot::channel::<()>();
    let server_task = tokio::spawn(server.serve(async move { drop(shutdown_receiver.await) }));

    let mut idle_streams = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(b"GET /health HTTP/1.1\r\nx-never: en").await.unwrap();
        idle_streams.push(stream);
        let response = get(port, "/health", "").await;
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }
    // The oldest idle connections were closed to make room.
    let mut output = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(60), idle_streams[0].read_to_end(&mut output)).await;
    assert!(closed.is_ok() && output.is_empty(), "{}", String::from_utf8_lossy(&output));

    // A daemon that cannot be started is reported with a message.
    let response = get(port, "/api/v1/runs", &format!("authorization: Bearer {TOKEN}\r\n")).await;
    assert!(response.starts_with("HTTP/1.1 503") && response.contains("daemon_unavailable"), "{response}");
    let response = get(port, "/health", &format!("authorization: Bearer {TOKEN}\r\n")).await;
    assert!(response.starts_with("HTTP/1.1 503") && response.contains("unavailable"), "{response}");

    shutdown_sender.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(60), server_task).await.unwrap().unwrap();
}
