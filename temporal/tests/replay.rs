//! Recorded Temporal histories, replayed by the SDK without a server and under the current rules.
//!
//! A run that began under an older version continues under this one, so the same inputs must lead to the same commands.
//! `golden/README.md` describes the recording of a history. A history is never changed or removed: if its replay fails,
//! the code is wrong, not the file.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::path::{Path, PathBuf};

use steplatch_temporal::codec::Codec;
use steplatch_temporal::run::SteplatchRun;
use temporalio_client::WorkflowHistory;
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};

/// The key of the recorded histories. It protects nothing.
const KEY: &[u8; 32] = b"the key of the golden histories!";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

fn histories() -> Vec<PathBuf> {
    let files = std::fs::read_dir(golden()).unwrap().map(|entry| entry.unwrap().path());
    let mut histories: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|end| end == "json")).collect();
    histories.sort();
    histories
}

fn replayer() -> WorkflowReplayer {
    let options = WorkflowReplayerOptions::new()
        .register_workflow::<SteplatchRun>()
        .unwrap()
        .data_converter(Codec::new(KEY).into_converter())
        .build();
    WorkflowReplayer::new(options).unwrap()
}

#[test]
fn history_key_matches_the_committed_one() {
    let hex: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(std::fs::read_to_string(golden().join("key")).unwrap().trim(), hex);
}

#[tokio::test]
async fn every_recorded_history_replays() {
    let histories = histories();
    assert!(histories.len() >= 11, "{histories:?}");
    for file in histories {
        let history = WorkflowHistory::from_json(&std::fs::read(&file).unwrap()).unwrap();
        let replayed = replayer().replay_workflow(history).await;
        assert!(replayed.is_ok(), "{}: {}", file.display(), replayed.unwrap_err());
    }
}

#[tokio::test]
async fn history_with_a_changed_decision_is_detected() {
    for of in ["commands.json", "function.json"] {
        let history = std::fs::read_to_string(golden().join(of)).unwrap();
        let changed = history.replace("\"steplatch_task\"", "\"another_task\"");
        assert_ne!(history, changed);
        let history = WorkflowHistory::from_json(changed.as_bytes()).unwrap();
        assert!(replayer().replay_workflow(history).await.is_err(), "{of}");
    }
}
