//! A command whose escapees left every sign behind. In a program of its own,
//! because only a process that is all ours may adopt orphans.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use steplatch_nodes::{Call, ErrorType, Node, Nodes, Surroundings};

fn pid_in(file: &Path) -> Option<i32> {
    std::fs::read_to_string(file).ok().filter(|text| text.ends_with('\n'))?.trim().parse().ok()
}

#[tokio::test]
async fn whoever_left_session_parents_and_environment_is_ended_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let surroundings = Surroundings::of_this_process().unwrap();
    surroundings.programs.adopt_orphans().unwrap();
    let nodes = Nodes::new(surroundings);
    let node = Node::parse(&json!({"id": "sh", "type": "bash"})).unwrap();
    // Forked twice, in a session of its own, and with an empty environment.
    let escapee = format!("echo \\$\\$ > {}; exec /bin/sleep 1000", file.display());
    let command = format!("(setsid env -i /bin/sh -c \"{escapee}\" &) ; sleep 1000");
    let call = Call { timeout: Some(Duration::from_secs(3)), ..Call::new(command) };
    let running = tokio::spawn(async move { nodes.run(&node, call).await });
    let result = running.await.unwrap();
    assert_eq!(result.error_type, Some(ErrorType::Timeout));
    assert_eq!(result.attributes.get("survivors"), None);
    let escapee = pid_in(&file).expect("the escapee began within the three seconds");
    let stat = std::fs::read_to_string(format!("/proc/{escapee}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
}
