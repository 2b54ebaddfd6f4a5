//! Secrets by reference: `{secret:NAME}` in inputs, commands, variables, machines and nodes.

use std::time::Duration;

use serde_json::json;
use steplatch_daemon::{Configuration, SecretKeep, SecretOrigin, SecretSetting};
use steplatch_protocol::{
    AnswerGate, CancelWorkflow, Client, GateInfo, ListWorkflowRuns, OpenTerminal, ReadInputs, RunCommand,
    RunCommandReply, SendInput, SetVariables,
};
use steplatch_testkit::{TestDaemon, eventually};

const VALUE: &str = "s3cr3t-v4lue-77";
const MASK: &str = "••••••";

fn secret(name: &str, from: &str, keep: SecretKeep) -> SecretSetting {
    let from = match from {
        "ask" => SecretOrigin::Person,
        source => SecretOrigin::Source(steplatch_secret::SecretSource::parse(source).unwrap()),
    };
    SecretSetting { name: name.to_owned(), from, keep }
}

/// Starts a daemon with these secrets.
async fn daemon_with(secrets: &[SecretSetting]) -> TestDaemon {
    let daemon = TestDaemon::new().await;
    daemon.configure(Configuration { secrets: secrets.to_vec(), ..Configuration::default() });
    daemon
}

/// Returns a secret that a file beside the daemon contains.
fn in_file(daemon: &TestDaemon, keep: SecretKeep) -> SecretSetting {
    let file = daemon.paths().state().join("key");
    std::fs::write(&file, format!("{VALUE}\n")).unwrap();
    secret("key", &format!("file:{}", file.display()), keep)
}

fn terminal() -> OpenTerminal {
    serde_json::from_value(json!({})).unwrap()
}

fn command(session_id: &str, command: &str) -> RunCommand {
    RunCommand {
        session_id: Some(session_id.to_owned()),
        command: command.to_owned(),
        timeout: 60.0,
        ..RunCommand::default()
    }
}

/// Returns the next question about a secret.
async fn next_question(daemon: &TestDaemon) -> GateInfo {
    eventually("a person is asked", async || {
        let waiting = ListWorkflowRuns { state: Some("waiting".to_owned()), ..ListWorkflowRuns::default() };
        daemon.call(waiting).await.runs.pop().and_then(|run| run.pending_gate)
    })
    .await
}

/// Answers the next question about a secret and returns its text.
async fn answer_next(daemon: &TestDaemon, person: &Client, value: &str) -> String {
    let gate = next_question(daemon).await;
    let answer = json!({"reply": value}).to_string();
    let verb = AnswerGate { run_id: gate.run_id.clone(), answer, ..AnswerGate::default() };
    let reply = person.call(verb).await.unwrap();
    assert!(reply.success, "{reply:?}");
    gate.prompt
}

#[tokio::test]
async fn reference_becomes_the_value_in_every_text_that_is_typed() {
    let daemon = TestDaemon::new().await;
    let secrets = vec![in_file(&daemon, SecretKeep::Run)];
    daemon.configure(Configuration { secrets, ..Configuration::default() });
    let environment = [("KEY".to_owned(), "<{secret:key}>".to_owned())].into();
    let session = daemon.open(OpenTerminal { environment: Some(environment), ..terminal() }).await;
    let run = async |text: &str| daemon.call(command(&session.id, text)).await.output;
    assert_eq!(run("echo ${#KEY}").await, format!("{}\n", VALUE.len() + 2));
    assert_eq!(run("echo {secret:key} {secret:key|json} ${#KEY} {a}").await, format!("{MASK} {MASK} 17 {{a}}\n"));
    let variables = [("SET".to_owned(), "{secret:key}".to_owned())].into();
    let set = daemon.call(SetVariables { session_id: session.id.clone(), variables, export: false }).await;
    assert!(set.success, "{set:?}");
    assert_eq!(run("echo ${#SET}").await, format!("{}\n", VALUE.len()));
    session.type_in("x={secret:key}; echo length=${#x}\n").await;
    session.expect_text(&format!("length={}", VALUE.len())).await;
    // Doubled braces are the text itself, also without a reference beside them.
    assert_eq!(run("echo {{secret:key}} {secret:key}").await, format!("{{secret:key}} {MASK}\n"));
    assert_eq!(run("echo {{secret:key}} {{b}}").await, "{secret:key} {{b}}\n");
    let inputs = daemon.call(ReadInputs { session_id: session.id.clone(), ..ReadInputs::default() }).await;
    let log = serde_json::to_string(&inputs).unwrap();
    assert!(log.contains("length=") && !log.contains(VALUE), "{log}");
    daemon.stop().await;
}

#[tokio::test]
async fn nothing_is_typed_if_a_secret_has_no_value() {
    let secrets =
        [secret("gone", "file:/nonexistent/key", SecretKeep::Run), secret("empty", "command:true", SecretKeep::Run)];
    let daemon = daemon_with(&secrets).await;
    let session = daemon.bash().await;
    for (name, reason) in [
        ("PATH", "nothing was sent: secret PATH was not found; add [secrets.PATH] to config.toml"),
        ("missing", "nothing was sent: secret missing was not found; add [secrets.missing] to config.toml"),
        ("gone", "nothing was sent: secret gone was not read: the file /nonexistent/key cannot be read: No such file"),
        ("empty", "nothing was sent: secret empty was not read: command:true has no usable value"),
    ] {
        let text = format!("echo typed {{secret:{name}}}");
        let reply = daemon.call(command(&session.id, &text)).await;
        assert!(!reply.success && reply.error.as_deref().is_some_and(|error| error.starts_with(reason)), "{reply:?}");
        let verb = SendInput { session_id: session.id.clone(), input_text: text + "\n", ..SendInput::default() };
        let reply = daemon.call(verb).await;
        assert!(!reply.success && reply.error.as_deref().is_some_and(|error| error.starts_with(reason)), "{reply:?}");
        let environment = Some([("A".to_owned(), format!("{{secret:{name}}}"))].into());
        let reply = daemon.call(OpenTerminal { environment, ..terminal() }).await;
        assert!(!reply.success, "{reply:?}");
    }
    assert!(!session.screen().await.contains("typed"), "nothing reached the terminal");
    daemon.stop().await;
}

#[tokio::test]
async fn text_that_resembles_a_reference_is_refused() {
    let daemon = daemon_with(&[secret("key", &format!("command:printf {VALUE}"), SecretKeep::Run)]).await;
    let session = daemon.bash().await;
    for text in ["{secret:key|SH}", "{secret: key}", "{secret:my.key}", "{secret:}", "{secret:key"] {
        let reply = daemon.call(command(&session.id, &format!("echo typed {text}"))).await;
        let error = reply.error.unwrap_or_default();
        assert!(error.contains("is no reference to a secret"), "{text}: {error}");
    }
    assert!(!session.screen().await.contains("typed"));
    daemon.stop().await;
}

#[tokio::test]
async fn quoted_forms_of_a_value_are_hidden() {
    let daemon = TestDaemon::new().await;
    let file = daemon.paths().state().join("quoted");
    std::fs::write(&file, "pa'ss wo\"rd\\99\nsecond-line-of-it\n").unwrap();
    let setting = secret("q", &format!("file:{}", file.display()), SecretKeep::Run);
    daemon.configure(Configuration { secrets: vec![setting], ..Configuration::default() });
    let session = daemon.bash().await;
    let reply = daemon.call(command(&session.id, "printf '%s' {secret:q} | wc -c")).await;
    let error = reply.error.unwrap_or_default();
    assert!(error.starts_with("nothing was sent: secret q has several lines"), "{error}");
    let reply = daemon.call(command(&session.id, "printf '%s' {secret:q|sh} | wc -c; echo {secret:q|json}")).await;
    assert!(reply.output.starts_with("32\n"), "{reply:?}");
    let screen = session.screen().await;
    for part in ["pa'", "ss wo", "second-line"] {
        assert!(!screen.contains(part) && !reply.output.contains(part), "{part}: {screen} {reply:?}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn line_that_is_only_a_secret_is_refused_at_the_prompt_of_a_shell() {
    let daemon = daemon_with(&[
        secret("key", &format!("command:printf {VALUE}"), SecretKeep::Run),
        secret("words", "command:printf 'correct horse=battery'", SecretKeep::Run),
    ])
    .await;
    let session = daemon.bash().await;
    let send = async |text: &str, keys: Option<Vec<String>>| {
        let (session_id, input_text) = (session.id.clone(), text.to_owned());
        daemon.call(SendInput { session_id, input_text, keys, ..SendInput::default() }).await
    };
    let enter = Some(vec!["enter".to_owned()]);
    for (text, keys) in [
        ("{secret:key}\n", None),
        ("{secret:key|sh}\n", None),
        ("{secret:key}", enter),
        ("{secret:key}\necho hi\n", None),
        ("{secret:key} {secret:words}\n", None),
        ("{secret:words}\n", None),
    ] {
        let reply = send(text, keys).await;
        assert!(reply.error.as_deref().is_some_and(|error| error.contains("the shell is at its prompt")), "{reply:?}");
        let reply = daemon.call(command(&session.id, text.trim_end())).await;
        assert!(reply.error.as_deref().is_some_and(|error| error.contains("the shell is at its prompt")), "{reply:?}");
    }
    session.type_in("read -s line; echo length=${#line}\n").await;
    eventually("the program reads the line", async || send("{secret:key}\n", None).await.success.then_some(())).await;
    session.expect_text(&format!("length={}", VALUE.len())).await;
    daemon.stop().await;
}

#[tokio::test]
async fn secret_in_a_terminal_is_hidden_by_the_next_daemon() {
    let daemon = daemon_with(&[secret("key", &format!("command:printf {VALUE}"), SecretKeep::Run)]).await;
    let id = {
        let session = daemon.bash().await;
        daemon.call(command(&session.id, "echo shown {secret:key}")).await;
        session.id.clone()
    };
    let daemon = daemon.restarted().await;
    let reply: RunCommandReply = daemon.call(command(&id, &format!("echo {VALUE}"))).await;
    assert_eq!(reply.output, format!("{MASK}\n"));
    daemon.stop().await;
}

#[tokio::test]
async fn person_is_asked_once_for_a_secret_that_is_kept() {
    let keep = SecretKeep::For(Duration::from_secs(3_600));
    let daemon = daemon_with(&[secret("pin", "ask", keep)]).await;
    let person = daemon.person_named("ana").await;
    let session = daemon.open(OpenTerminal { name: Some("build".to_owned()), ..terminal() }).await;
    let other = daemon.bash().await;
    let call = command("build", "echo {secret:pin} ${#x}");
    let other_call = command(&other.id, "echo {secret:pin} 0");
    // The second call waits for the answer to the first one.
    let second_and_answer = async {
        next_question(&daemon).await;
        tokio::join!(daemon.call(other_call), answer_next(&daemon, &person, VALUE))
    };
    let (first, (second, prompt)) = tokio::join!(daemon.call(call.clone()), second_and_answer);
    let lines: Vec<&str> = prompt.lines().collect();
    let asked =
        format!("asks for secret 'pin', to run in terminal 'build' ({}): echo {{secret:pin}} ${{#x}}.", session.id);
    assert!(lines[0].ends_with(&asked), "{prompt}");
    assert_eq!(
        lines[1..],
        [
            "Programs that the client chose can read the answer. To refuse, cancel the run.",
            "Other uses of the secret get it without a question for 60 minutes."
        ]
    );
    for reply in [first, second, daemon.call(call).await] {
        assert_eq!(reply.output, format!("{MASK} 0\n"), "{reply:?}");
    }
    // A changed setting forgets the value.
    let secrets = vec![secret("pin", "ask", SecretKeep::Once)];
    daemon.configure(Configuration { secrets, ..Configuration::default() });
    let ask = command("build", "echo again {secret:pin}");
    let (reply, _) = tokio::join!(daemon.call(ask), answer_next(&daemon, &person, "0ther-value"));
    assert_eq!(reply.output, format!("again {MASK}\n"));
    daemon.stop().await;
}

#[tokio::test]
async fn kept_value_is_read_again_after_its_time() {
    let daemon = TestDaemon::new().await;
    let secrets = vec![in_file(&daemon, SecretKeep::For(Duration::from_millis(300)))];
    daemon.configure(Configuration { secrets, ..Configuration::default() });
    let session = daemon.bash().await;
    let length = async || daemon.call(command(&session.id, "x={secret:key}; echo ${#x}")).await.output;
    assert_eq!(length().await, format!("{}\n", VALUE.len()));
    std::fs::write(daemon.paths().state().join("key"), "another-longer-value").unwrap();
    eventually("the new value is read", async || (length().await == "20\n").then_some(())).await;
    daemon.stop().await;
}

#[tokio::test]
async fn machine_and_node_receive_secrets_of_the_settings() {
    let daemon = TestDaemon::new().await;
    let secrets = vec![in_file(&daemon, SecretKeep::Run), secret("gone", "file:/nonexistent", SecretKeep::Run)];
    daemon.configure(Configuration { secrets, ..Configuration::default() });
    let machine = |command: &str| {
        json!({"name": "login", "initial_state": "go", "states": {
            "go": {"action": {"tool": "run_command", "params": {"command": command}},
                   "transitions": [{"condition": "success", "next_state": "done"}]},
            "done": {"action": {"tool": "return", "params": {"result": {"output": "{go_output}"}}}}}})
    };
    let reply = daemon.run(machine("x={secret:key|sh}; echo ${#x} {secret:key}")).await;
    let text = serde_json::to_string(&reply).unwrap();
    assert!(text.contains(&format!("{} {MASK}", VALUE.len())) && !text.contains(VALUE), "{text}");
    let reply = daemon.run(machine("echo {secret:gone} {secret:missing}")).await;
    let error = reply.error.clone().unwrap_or_default();
    assert!(error.contains("secret gone was not read: the file /nonexistent"), "{reply:?}");
    assert!(error.contains("secret missing was not found; add [secrets.missing]"), "{reply:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn refused_secret_types_nothing() {
    let daemon = daemon_with(&[secret("pin", "ask", SecretKeep::Once)]).await;
    let session = daemon.bash().await;
    let refuse = async || {
        let run_id = next_question(&daemon).await.run_id;
        let reply = daemon.call(CancelWorkflow { run_id }).await;
        assert!(reply.success, "{reply:?}");
    };
    let (reply, ()) = tokio::join!(daemon.call(command(&session.id, "echo typed {secret:pin}")), refuse());
    let error = "nothing was sent: a person was asked for secret pin and did not give it";
    assert_eq!((reply.success, reply.error.as_deref()), (false, Some(error)));
    assert!(!session.screen().await.contains("typed"));
    daemon.stop().await;
}
