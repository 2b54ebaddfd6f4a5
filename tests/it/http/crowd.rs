//! Many clients at the same time, some of them malicious.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;

use crate::http::client::{HttpServer, gate_workflow, sleeping_workflow};

/// A thousand clients follow a run and read nothing, and as many hold idle connections open. Then the run continues,
/// another run completes, and every follower receives every event.
#[test]
fn thousand_followers_delay_no_run_and_miss_no_event() {
    let server = HttpServer::new();
    let run = server.start_run(&gate_workflow("anyone"));
    assert_eq!(server.wait_for_run(&run)["status"], "waiting");
    let idle_connections: Vec<TcpStream> = (0..500)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"GET /api/v1/runs HTTP/1.1\r\nhost: localhost\r\nx-slow: ").unwrap();
            stream
        })
        .collect();
    let followers: Vec<_> = (0..1000).map(|_| server.follow(&run, &[])).collect();
    let clients = server.get("/api/v1/status").1["clients"].as_u64().unwrap();
    assert!(clients < 10, "followers are not clients of the daemon: {clients}");
    let (_, health) = server.get("/health");
    assert_eq!(health["event_streams"], 1000);

    let (status, reply) = server.post(&format!("/api/v1/runs/{run}/decide"), json!({"answer": "yes"}));
    assert_eq!(status, 200, "{reply}");
    let record = server.wait_for_run(&run);
    assert_eq!(record["status"], "completed", "a thousand idle followers delay no run: {record}");
    let other_run = server.start_run(&sleeping_workflow(20, 0.0));
    assert_eq!(server.wait_for_run(&other_run)["status"], "completed");

    let all_events = server.follow(&run, &[]).collect_rest();
    assert_eq!(all_events.last().unwrap().kind, "workflow_completed");
    for events in followers {
        assert_eq!(events.collect_rest(), all_events);
    }
    drop(idle_connections);
}

/// Compares the duration of a run with many followers with the duration of the same run without followers.
#[test]
fn run_takes_no_longer_with_many_followers() {
    let server = HttpServer::new();
    let run_duration = |run: &str| {
        server.wait_for_run(run);
        let record = server.get(&format!("/api/v1/runs/{run}")).1;
        assert_eq!(record["status"], "completed", "{record}");
        record["total_elapsed_time"].as_f64().unwrap()
    };
    // The states sleep, so that other load on the computer has little effect.
    let definition = sleeping_workflow(20, 0.1);
    let duration_alone = run_duration(&server.start_run(&definition));
    let run = server.start_run(&definition);
    let followers: Vec<_> = (0..300).map(|_| server.follow(&run, &[])).collect();
    let duration_followed = run_duration(&run);
    assert!(
        duration_followed < duration_alone * 2.0,
        "{duration_followed} s with followers, {duration_alone} s without"
    );
    drop(followers);
}

#[test]
fn silent_clients_are_disconnected_after_a_timeout() {
    let server = HttpServer::new();
    let mut slow = server.connect();
    slow.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
    let mut silent = server.connect();
    assert_eq!(server.get("/api/v1/runs").0, 200);
    let mut output = Vec::new();
    // The server closes both connections within the read timeout of this client.
    let _ = slow.read_to_end(&mut output);
    assert!(!String::from_utf8_lossy(&output).contains("200 OK"));
    let mut received = Vec::new();
    assert_eq!(silent.read_to_end(&mut received).unwrap(), 0);
    assert_eq!(server.get("/api/v1/runs").0, 200);
}
