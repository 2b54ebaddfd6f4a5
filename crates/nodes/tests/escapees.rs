//! A command whose descendants escaped and removed every mark. A separate test program, because adopting orphans
//! affects the whole process.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::path::Path;

use serde_json::json;
use steplatch_nodes::{Call, ErrorType, Node, NodeEnvironment, Nodes};
use steplatch_patience::eventually;
use tokio_util::sync::CancellationToken;

/// Waits until a process has written its id and returns it.
async fn wait_for_pid(file: &Path) -> i32 {
    eventually(&format!("a process id in {}", file.display()), async || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text.ends_with('\n') { Ok(text.trim().parse().unwrap()) } else { Err(text) }
    })
    .await
}

#[tokio::test]
async fn interrupt_terminates_a_detached_process() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let node_environment = NodeEnvironment::of_this_process().unwrap();
    node_environment.programs.adopt_orphans().unwrap();
    let nodes = Nodes::new(node_environment);
    let node = Node::parse(&json!({"id": "sh", "type": "bash"})).unwrap();
    // Forked twice, in its own session, and with an empty environment.
    let escapee = format!("echo \\$\\$ > {}; exec /bin/sleep 1000", file.display());
    let command = format!("(setsid env -i /bin/sh -c \"{escapee}\" &) ; sleep 1000");
    let stop = CancellationToken::new();
    let call = Call { interrupt: stop.clone(), ..Call::new(command) };
    let running = tokio::spawn(async move { nodes.run(&node, call).await });
    let escapee = wait_for_pid(&file).await;
    stop.cancel();
    let result = running.await.unwrap();
    assert_eq!(result.error_type, Some(ErrorType::Interrupted));
    assert_eq!(result.attributes.get("survivors"), None);
    let stat = std::fs::read_to_string(format!("/proc/{escapee}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
}
