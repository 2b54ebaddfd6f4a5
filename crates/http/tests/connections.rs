//! A server with a low limit of connections.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::time::Duration;

use steplatch_http::{Options, Server, Token};
use steplatch_protocol::{DaemonPaths, Hello, ReconnectingClient, Starter};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

const TOKEN: &str = "0123456789abcdef";

/// Sends a request that needs no daemon, and returns the response.
async fn asks(port: u16, path: &str, rest: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost:{port}\r\nconnection: close\r\n{rest}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    said
}

#[tokio::test]
async fn who_holds_places_without_asking_gives_way_to_who_asks() {
    let folder = tempfile::tempdir().unwrap();
    let place = DaemonPaths::new(folder.path().join("state"), folder.path().join("run"));
    // No request needs a daemon, so none is started.
    let daemon = ReconnectingClient::new(place, Starter { program: "/nonexistent".into() }, Hello::default());
    let options = Options { port: 0, max_connections: 8, ..Options::default() };
    let server = Server::bind(&options, Token::from_text(TOKEN, "it").unwrap(), daemon).await.unwrap().with_api();
    let port = server.address().port();
    let (end, over) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(async move { drop(over.await) }));

    let mut holders = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(b"GET /health HTTP/1.1\r\nx-never: en").await.unwrap();
        holders.push(stream);
        let said = asks(port, "/health", "").await;
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    }
    // The first of them were closed to make room.
    let mut nothing = Vec::new();
    let hung_up = tokio::time::timeout(Duration::from_secs(60), holders[0].read_to_end(&mut nothing)).await;
    assert!(hung_up.is_ok() && nothing.is_empty(), "{}", String::from_utf8_lossy(&nothing));

    // A daemon that cannot be started is reported with a message.
    let said = asks(port, "/api/v1/runs", &format!("authorization: Bearer {TOKEN}\r\n")).await;
    assert!(said.starts_with("HTTP/1.1 503") && said.contains("daemon_unavailable"), "{said}");
    let said = asks(port, "/health", &format!("authorization: Bearer {TOKEN}\r\n")).await;
    assert!(said.starts_with("HTTP/1.1 503") && said.contains("unavailable"), "{said}");

    end.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(60), serving).await.unwrap().unwrap();
}
