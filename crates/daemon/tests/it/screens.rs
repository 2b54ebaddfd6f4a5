//! Watched screens as cells, and terminals held by a request.

use steplatch_protocol::{
    Events, ExitTerminal, HandBackTerminal, HoldTerminal, ResizeTerminal, ScreenChange, ScreenEvent, SendInput,
    TerminalsEvent, WatchScreen, WatchTerminals, WriteTerminal,
};
use steplatch_testkit::TestDaemon;
use tokio::time::timeout;

/// Time limit for an event; only a hanging operation exceeds it.
const EVENT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

/// Waits for an event of a watched screen whose rows contain this text and returns the events up to it.
async fn screen_with(events: &mut Events, text: &str) -> Vec<ScreenChange> {
    let mut changes = Vec::new();
    loop {
        let next = timeout(EVENT_TIMEOUT, events.next())
            .await
            .unwrap_or_else(|_| panic!("{text} did not appear: {changes:?}"));
        let event = serde_json::from_value(next.expect("the daemon keeps the connection open")).unwrap();
        let ScreenEvent::ScreenChanged(change) = event else { panic!("{event:?}") };
        let found = change.changed.iter().flat_map(|row| &row.runs).any(|run| run.2.contains(text));
        changes.push(*change);
        if found {
            return changes;
        }
    }
}

#[tokio::test]
async fn screen_watcher_receives_changed_rows_without_secrets() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let watch = WatchScreen { session_id: session.id.clone(), interval_ms: 0 };
    let (reply, mut events) = daemon.client().subscribe(watch).await.unwrap();
    assert!(reply.success && reply.session_id == session.id, "{reply:?}");
    let first = screen_with(&mut events, "").await;
    assert!(first[0].whole && first[0].changed.len() == usize::from(first[0].rows), "{first:?}");
    session.type_in("echo plain-$((40+2))\n").await;
    let changes = screen_with(&mut events, "plain-42").await;
    assert!(
        changes.iter().all(|change| !change.whole && change.changed.len() < 10),
        "unchanged rows are not sent again"
    );
    // A link address accompanies its text, except an address with a secret.
    session.type_in("printf '\\e]8;;https://example.org/hunter2-and-more\\alinked-%s\\e]8;;\\a\\n' text\n").await;
    let linked = screen_with(&mut events, "linked-text").await;
    let address = |changes: &[ScreenChange]| {
        changes.iter().flat_map(|change| &change.changed).flat_map(|row| row.links.clone()).next_back()
    };
    assert_eq!(address(&linked), Some((0, "https://example.org/hunter2-and-more".to_owned())));
    // A secret learned later changes the shown text.
    session.type_in("echo hunter2-and-more\n").await;
    screen_with(&mut events, "hunter2-and-more").await;
    let secret = SendInput {
        session_id: session.id.clone(),
        input_text: "hunter2-and-more".into(),
        secret: true,
        ..Default::default()
    };
    daemon.call(secret).await;
    session.type_in(" #\n").await;
    let changes = screen_with(&mut events, "••••••").await;
    assert!(!format!("{changes:?}").contains("hunter2-and-more"));
    let size = ResizeTerminal { session_id: session.id.clone(), cols: 90, rows: 30 };
    assert!(daemon.call(size).await.success);
    session.type_in("echo size-$((40+2))\n").await;
    let resized = screen_with(&mut events, "size-42").await;
    assert!(resized.iter().any(|change| change.whole && (change.cols, change.rows) == (90, 30)), "{resized:?}");
    let closed = daemon.call(ExitTerminal { session_id: session.id.clone(), ..Default::default() }).await;
    assert!(closed.success, "{closed:?}");
    let end_event = async {
        while serde_json::from_value::<ScreenEvent>(events.next().await.unwrap()).unwrap() != ScreenEvent::ScreenClosed
        {
        }
    };
    timeout(EVENT_TIMEOUT, end_event).await.expect("an event reports the end of the terminal");
    daemon.stop().await;
}

#[tokio::test]
async fn terminal_watcher_is_notified_of_possible_changes() {
    async fn wait_for_event(events: &mut Events) {
        let next = timeout(EVENT_TIMEOUT, events.next()).await.expect("an event reports the change");
        let event: TerminalsEvent =
            serde_json::from_value(next.expect("the daemon keeps the connection open")).unwrap();
        assert_eq!(event, TerminalsEvent::TerminalsChanged);
    }
    let daemon = TestDaemon::new().await;
    let (reply, mut events) = daemon.client().subscribe(WatchTerminals {}).await.unwrap();
    assert!(reply.success, "{reply:?}");
    wait_for_event(&mut events).await;
    // The first terminal starts the host, and each of the next steps is a further change.
    let session = daemon.bash().await;
    wait_for_event(&mut events).await;
    session.type_in("echo typed-$((40+2))\n").await;
    session.expect_text("^typed-42").await;
    wait_for_event(&mut events).await;
    // Without a change, no event follows the events of earlier changes.
    let quiet = async { while timeout(std::time::Duration::from_secs(1), events.next()).await.is_ok() {} };
    timeout(EVENT_TIMEOUT, quiet).await.expect("a terminal at its prompt changes nothing");
    let closed = daemon.call(ExitTerminal { session_id: session.id.clone(), ..Default::default() }).await;
    assert!(closed.success, "{closed:?}");
    wait_for_event(&mut events).await;
    daemon.stop().await;
}

#[tokio::test]
async fn hold_lasts_as_long_as_its_request_and_ends_with_a_note() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let person = daemon.person_named("ann").await;
    let hold = |key: &str| HoldTerminal { session_id: session.id.clone(), hold_key: key.to_owned() };
    let (hold_reply, events) = person.subscribe(hold("k")).await.unwrap();
    assert!(hold_reply.success, "{hold_reply:?}");
    assert!(!session.type_in("echo mine\n").await.success);
    let (second, _) = person.subscribe(hold("other")).await.unwrap();
    assert!(!second.success && second.error.unwrap().contains("has held this terminal"));
    let pasted = WriteTerminal {
        session_id: session.id.clone(),
        paste: Some("echo one\u{1b}[31m\necho two".to_owned()),
        keys: vec!["enter".to_owned()],
        hold_key: Some("k".to_owned()),
        ..WriteTerminal::default()
    };
    assert!(person.call(pasted).await.unwrap().success);
    session.expect_text("^two").await;
    let note = Some("look at one".to_owned());
    let hand_back = HandBackTerminal { session_id: session.id.clone(), hold_key: "k".to_owned(), note };
    assert!(person.call(hand_back).await.unwrap().success);
    let reported = session.type_in("\n").await;
    assert_eq!(reported.handed_back.unwrap().note.as_deref(), Some("look at one"));
    drop(events);
    let (hold_reply, events) = person.subscribe(hold("again")).await.unwrap();
    assert!(hold_reply.success, "{hold_reply:?}");
    drop(events);
    while !session.type_in("\n").await.success {}
    daemon.stop().await;
}
