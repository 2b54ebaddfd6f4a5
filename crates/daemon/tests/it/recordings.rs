//! Recordings, listed and read as screens.

use std::time::{Duration, UNIX_EPOCH};

use steplatch_ids::TerminalId;
use steplatch_protocol::{ListRecordings, ReadRecording, ReadRecordingReply, SendInput};
use steplatch_recording::{Catalog, RecordingId};
use steplatch_testkit::TestDaemon;

const HEADER: &str = "{\"version\":3,\"term\":{\"cols\":40,\"rows\":5},\"title\":\"build\"}\n";

/// Writes a recording into the daemon's directory and lists it.
fn write_recording(daemon: &TestDaemon, text: &str) -> (RecordingId, std::path::PathBuf) {
    let directory = daemon.paths().recordings();
    std::fs::create_dir_all(&directory).unwrap();
    let file = daemon.paths().state().join(format!("{}.cast", TerminalId::random()));
    std::fs::write(&file, text).unwrap();
    let started_at = UNIX_EPOCH + Duration::from_millis(1_700_000_000_000);
    (Catalog::new(directory).add(&file, &TerminalId::random(), started_at).unwrap(), file)
}

/// Reads a recording from its beginning to its end, like the page.
async fn read_whole(daemon: &TestDaemon, id: &RecordingId) -> Vec<ReadRecordingReply> {
    let mut all = Vec::new();
    let mut at_ms = Some(0);
    while let Some(at) = at_ms {
        let reply = daemon.call(ReadRecording { recording_id: id.to_string(), at_ms: Some(at) }).await;
        assert!(reply.success && reply.frames[0].change.whole && reply.frames[0].at_ms == at, "{reply:?}");
        assert!(reply.next_ms.is_none_or(|next| next > at), "{at} {:?}", reply.next_ms);
        at_ms = reply.next_ms;
        all.push(reply);
    }
    all
}

#[tokio::test]
async fn recording_is_read_in_consecutive_portions() {
    let daemon = TestDaemon::new().await;
    let mut lines = HEADER.to_owned();
    for number in 0..1500 {
        lines.push_str(&format!("[0.04,\"o\",\"{number}\\r\\n\"]\n"));
    }
    let (id, _) = write_recording(&daemon, &lines);
    let listing = daemon.call(ListRecordings::default()).await;
    let [one] = &listing.recordings[..] else { panic!("{listing:?}") };
    assert_eq!((one.recording_id.clone(), one.title.as_deref(), one.cols), (id.to_string(), Some("build"), Some(40)));
    let all = read_whole(&daemon, &id).await;
    assert!(all.len() > 2 && all.iter().all(|reply| reply.frames.len() <= 400), "{}", all.len());
    let changes = all.iter().flat_map(|reply| &reply.frames[1..]);
    assert_eq!(changes.clone().count(), 1500, "each frame is in one portion");
    assert!(changes.clone().zip(changes.skip(1)).all(|(change, next)| change.at_ms < next.at_ms));
    assert_eq!(all[0].duration_ms, 60_000);
    // A position reached directly shows the same screen as reading up to it.
    let rewound = daemon.call(ReadRecording { recording_id: id.to_string(), at_ms: all[1].next_ms }).await;
    assert_eq!(rewound.frames[0], all[2].frames[0]);
    let missing = daemon.call(ReadRecording { recording_id: "../secret".to_owned(), at_ms: None }).await;
    assert!(missing.error.is_some_and(|error| error.contains("there is no recording '../secret'")));
}

#[tokio::test]
async fn replay_shows_no_secrets_in_frames_titles_or_markers() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    // The file comes from elsewhere, or was recorded before the secret was known.
    let header = HEADER.replace("build", "build hunter2-and-more");
    let (id, _) = write_recording(
        &daemon,
        &format!(
            "{header}[0.5,\"o\",\"token hunter2-and-\"]\n[0.5,\"o\",\"more\\u001b]2;hunter2-and-more\\u0007\"]\n\
             [0.5,\"m\",\"hunter2-and-more\"]\n[1.0,\"o\",\"\\r\\n{}hunter2-and-more\"]\n",
            "x".repeat(32)
        ),
    );
    let secret = SendInput {
        session_id: session.id.clone(),
        input_text: "hunter2-and-more".into(),
        secret: true,
        ..SendInput::default()
    };
    assert!(daemon.call(secret).await.success);
    let text = serde_json::to_string(&read_whole(&daemon, &id).await).unwrap();
    assert!(text.contains("token ••••") && !text.contains("hunter2-and-more") && !text.contains("more"), "{text}");
    let listing = serde_json::to_string(&daemon.call(ListRecordings::default()).await).unwrap();
    assert!(!listing.contains("hunter2"), "{listing}");
}

#[tokio::test]
async fn damaged_recording_is_shown_up_to_the_damage() {
    let daemon = TestDaemon::new().await;
    let (id, file) = write_recording(&daemon, &format!("{HEADER}[0.5,\"o\",\"readable\"]\n[0.5,\"o\",\"cut of"));
    let all = read_whole(&daemon, &id).await;
    assert_eq!(all[0].damage.as_deref(), Some("the file ends within line 3"));
    assert!(all[0].frames[1].change.changed[0].runs[0].2 == "readable", "{all:?}");
    // A recording in progress: the rest follows later.
    std::fs::write(&file, format!("{HEADER}[0.5,\"o\",\"readable\"]\n[0.5,\"o\",\"cut off\"]\n")).unwrap();
    assert_eq!(read_whole(&daemon, &id).await[0].damage, None);
    std::fs::write(&file, "no recording").unwrap();
    let refused = daemon.call(ReadRecording { recording_id: id.to_string(), at_ms: None }).await;
    assert!(refused.error.is_some_and(|error| error.contains("not an asciicast recording: line 1")));
    std::fs::remove_file(&file).unwrap();
    let missing_reply = daemon.call(ReadRecording { recording_id: id.to_string(), at_ms: None }).await;
    assert!(missing_reply.error.is_some_and(|error| error.contains("moved or deleted")));
}
