//! The log of requests to a terminal.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use steplatch_protocol::{
    AwaitOutput, AwaitUntil, InputKind, InputRecord, ReadInputs, RunCommand, SendInput, WriteTerminal,
};
use steplatch_testkit::TestDaemon;

async fn inputs(daemon: &TestDaemon, session: &str) -> Vec<InputRecord> {
    let reply = daemon.call(ReadInputs { session_id: session.to_owned(), ..ReadInputs::default() }).await;
    assert!(reply.success, "{reply:?}");
    reply.inputs
}

fn until_input(session: &str, text: &str) -> SendInput {
    SendInput {
        session_id: session.to_owned(),
        input_text: text.to_owned(),
        until: Some(AwaitUntil::Input),
        timeout: Some(20.0),
        ..SendInput::default()
    }
}

#[tokio::test]
async fn input_is_logged_with_its_question_and_hidden_input_masked() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let command = |command: &str| RunCommand {
        session_id: Some(session.id.clone()),
        command: command.to_owned(),
        timeout: 20.0,
        ..RunCommand::default()
    };
    daemon.call(command("sh -c 'exit 3'")).await;
    daemon.call(until_input(&session.id, "read -p 'Name: ' n; read -s -p 'Password: ' p; echo; echo hello $n\n")).await;
    daemon.call(until_input(&session.id, "ana\n")).await;
    let password = SendInput { input_text: "hunter2-x\n".to_owned(), ..until_input(&session.id, "") };
    daemon.call(password).await;
    let wait = AwaitOutput {
        session_id: session.id.clone(),
        pattern: "hello (\\w+)".to_owned(),
        timeout: 10.0,
        ..AwaitOutput::default()
    };
    daemon.call(wait).await;
    let session_id = session.id.clone();
    let daemon = daemon.restarted().await;
    let logged = inputs(&daemon, &session_id).await;
    let kinds: Vec<(InputKind, &str)> = logged.iter().map(|input| (input.kind, input.context.as_str())).collect();
    let (typed_input, entered, wait) = (InputKind::Typed, InputKind::Entered, InputKind::Wait);
    assert_eq!(
        kinds,
        [
            (InputKind::Command, "prompt"),
            (typed_input, "prompt"),
            (entered, "prompt"),
            (wait, "program"),
            (typed_input, "program"),
            (wait, "password"),
            (InputKind::Hidden, "password"),
            (wait, "prompt"),
            (wait, "prompt")
        ],
        "{logged:#?}"
    );
    assert_eq!((logged[0].text.as_deref(), logged[0].exit_code), (Some("sh -c 'exit 3'"), Some(3)));
    assert_eq!((logged[4].text.as_deref(), logged[4].row.as_deref()), (Some("ana\n"), Some("Name: ")));
    let line = "read -p 'Name: ' n; read -s -p 'Password: ' p; echo; echo hello $n";
    assert_eq!((logged[2].text.as_deref(), logged[2].exit_code), (Some(line), Some(0)));
    assert!(logged[2].elapsed_time.is_some() && logged[0].directory.is_some(), "{logged:#?}");
    assert_eq!(logged[6].row.as_deref(), Some("Password: "));
    assert_eq!(
        (logged[8].pattern.as_deref(), logged[8].match_text.as_deref()),
        (Some("hello (\\w+)"), Some("hello ana"))
    );
    assert!(logged.windows(2).all(|two| two[0].offset <= two[1].offset && two[0].number < two[1].number));
    assert!(!json!(logged).to_string().contains("hunter2"), "hidden input is not logged");
    let newest = ReadInputs { session_id, limit: Some(1), ..ReadInputs::default() };
    assert_eq!(daemon.call(newest).await.inputs.len(), 1);
    daemon.stop().await;
}

#[tokio::test]
async fn shown_secret_is_logged_without_its_value() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    daemon.call(until_input(&session.id, "cat\n")).await;
    let secret = SendInput { secret: true, ..until_input(&session.id, "s3cret-value\n") };
    daemon.call(secret).await;
    let logged = inputs(&daemon, &session.id).await;
    assert!(logged.iter().any(|input| input.kind == InputKind::Hidden), "{logged:#?}");
    assert!(!json!(logged).to_string().contains("s3cret-value"), "{logged:#?}");
    daemon.stop().await;
}

#[tokio::test]
async fn keys_of_a_person_in_a_key_reading_program_are_not_kept() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let session_id = session.id.clone();
    daemon.call(until_input(&session_id, "stty raw -echo; head -c 9 | wc -c; stty sane\n")).await;
    let types = async |text: &str| {
        let verb =
            WriteTerminal { session_id: session_id.clone(), bytes: STANDARD.encode(text), ..WriteTerminal::default() };
        let reply = daemon.call(verb).await;
        assert!(reply.success, "{reply:?}");
    };
    types("remote-pw").await;
    let prompt = AwaitOutput {
        session_id: session_id.clone(),
        until: AwaitUntil::Prompt,
        timeout: 20.0,
        ..AwaitOutput::default()
    };
    daemon.call(prompt.clone()).await;
    types("echo shown\r").await;
    daemon.call(prompt).await;
    let logged = inputs(&daemon, &session_id).await;
    assert!(!json!(logged).to_string().contains("remote-pw"), "{logged:#?}");
    let attached: Vec<_> = logged.iter().filter(|input| input.kind == InputKind::Attached).collect();
    assert_eq!(attached.len(), 1, "{logged:#?}");
    assert_eq!(attached[0].text.as_deref(), Some("echo shown\r"));
    daemon.stop().await;
}
