//! Many clients at the same time, some of them malicious.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;

use crate::http::client::{Serving, asking, resting};

/// A thousand clients follow a run and read nothing, and as many hold idle connections open. Then the run continues,
/// another one runs to its end, and every follower receives every event.
#[test]
fn many_clients_delay_nobody_and_receive_everything() {
    let serving = Serving::new();
    let run = serving.starts(&asking("anyone"));
    assert_eq!(serving.wait_for(&run)["status"], "waiting");
    let idlers: Vec<TcpStream> = (0..500)
        .map(|_| {
            let mut stream = serving.connect();
            stream.write_all(b"GET /api/v1/runs HTTP/1.1\r\nhost: localhost\r\nx-slow: ").unwrap();
            stream
        })
        .collect();
    let crowd: Vec<_> = (0..1000).map(|_| serving.follow(&run, &[])).collect();
    let clients = serving.get("/api/v1/status").1["clients"].as_u64().unwrap();
    assert!(clients < 10, "the daemon does not feel the crowd: {clients}");
    let (_, health) = serving.get("/health");
    assert_eq!(health["event_streams"], 1000);

    let (status, answered) = serving.post(&format!("/api/v1/runs/{run}/decide"), json!({"answer": "yes"}));
    assert_eq!(status, 200, "{answered}");
    let done = serving.wait_for(&run);
    assert_eq!(done["status"], "completed", "with a thousand who have not read a byte: {done}");
    let other = serving.starts(&resting(20, 0.0));
    assert_eq!(serving.wait_for(&other)["status"], "completed");

    let all = serving.follow(&run, &[]).rest();
    assert_eq!(all.last().unwrap().kind, "workflow_completed");
    for events in crowd {
        assert_eq!(events.rest(), all);
    }
    drop(idlers);
}

/// Compares the duration of a run with many followers with the duration of the same run without followers.
#[test]
fn run_takes_no_longer_with_many_followers() {
    let serving = Serving::new();
    let took = |run: &str| {
        serving.wait_for(run);
        let record = serving.get(&format!("/api/v1/runs/{run}")).1;
        assert_eq!(record["status"], "completed", "{record}");
        record["total_elapsed_time"].as_f64().unwrap()
    };
    // The states sleep, so that other load on the machine has little effect.
    let definition = resting(20, 0.1);
    let alone = took(&serving.starts(&definition));
    let run = serving.starts(&definition);
    let crowd: Vec<_> = (0..300).map(|_| serving.follow(&run, &[])).collect();
    let followed = took(&run);
    assert!(followed < alone * 2.0, "{followed} s with a crowd, {alone} s without");
    drop(crowd);
}

#[test]
fn silent_client_is_left_alone_and_then_disconnected() {
    let serving = Serving::new();
    let mut slow = serving.connect();
    slow.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
    let mut silent = serving.connect();
    assert_eq!(serving.get("/api/v1/runs").0, 200);
    let mut output = Vec::new();
    // The server closes them within the timeout of this client.
    let _ = slow.read_to_end(&mut output);
    assert!(!String::from_utf8_lossy(&output).contains("200 OK"));
    let mut nothing = Vec::new();
    assert_eq!(silent.read_to_end(&mut nothing).unwrap(), 0);
    assert_eq!(serving.get("/api/v1/runs").0, 200);
}
