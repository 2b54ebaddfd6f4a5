//! Bash nodes with real commands.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steplatch_nodes::{Call, ErrorType, MASK, Node, NodeEnvironment, NodeResult, Nodes};
use steplatch_patience::eventually;
use tokio_util::sync::CancellationToken;

fn node(declaration: Value) -> Node {
    Node::parse(&declaration).unwrap()
}

fn nodes() -> Nodes {
    Nodes::new(NodeEnvironment::of_this_process().unwrap())
}

async fn sh(command: &str) -> NodeResult {
    nodes().run(&node(json!({"id": "sh", "type": "bash"})), Call::new(command)).await
}

/// Waits until a process has written its id and returns it.
async fn wait_for_pid(file: &Path) -> i32 {
    eventually(&format!("a process id in {}", file.display()), async || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text.ends_with('\n') { Ok(text.trim().parse().unwrap()) } else { Err(text) }
    })
    .await
}

/// Returns whether a process is running. A process that has exited but was not reaped is not running.
fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|fields| fields.split_ascii_whitespace().next().map(str::to_owned));
    state.is_some_and(|state| state != "Z" && state != "X")
}

#[tokio::test]
async fn output_errors_and_exit_code_are_separate() {
    let result = sh("echo out; echo err >&2; exit 3").await;
    assert!(!result.success);
    assert_eq!((&result.output, &result.attributes["stdout"]), (&json!("out"), &json!("out\n")));
    assert_eq!(result.error_type, Some(ErrorType::ExitCode));
    assert_eq!(result.error.as_deref(), Some("The command ended with exit code 3: err"));
    let reported = json!({"stdout": "out\n", "stderr": "err\n", "exit_code": 3,
        "command": "echo out; echo err >&2; exit 3", "interrupted": false});
    assert_eq!(Value::Object(result.attributes), reported);
    let result = sh("printf fine").await;
    assert_eq!((result.success, result.output, result.error), (true, json!("fine"), None));
}

#[tokio::test]
async fn input_is_quoted_or_passed_on_stdin_as_declared() {
    let nodes = nodes();
    let quoted = node(json!({"id": "q", "type": "bash", "command": "printf %s {input|sh}"}));
    let hostile = "it's; echo $HOME `id` {secret:X}";
    assert_eq!(nodes.run(&quoted, Call::new(hostile)).await.output, hostile);
    let reads = node(json!({"id": "r", "type": "bash", "command": "wc -c", "stdin": "{input}"}));
    let long = "x".repeat(1 << 20);
    assert_eq!(nodes.run(&reads, Call::new(long)).await.output, "1048576");
    let reads_nothing = sh("cat; echo done").await;
    assert_eq!(reads_nothing.output, "done");
}

#[tokio::test]
async fn secret_reaches_only_the_command() {
    let secrets = BTreeMap::from([("TOKEN".to_owned(), "hunter22".to_owned())]);
    let node_environment =
        NodeEnvironment { secrets: Arc::new(secrets), ..NodeEnvironment::of_this_process().unwrap() };
    let nodes = Nodes::new(node_environment);
    let leaks = node(json!({"id": "l", "type": "bash", "env": {"T": "{secret:TOKEN}"},
        "command": "echo ${#T} $T; echo $T >&2; exit 1"}));
    let result = nodes.run(&leaks, Call::default()).await;
    assert_eq!(result.output, format!("8 {MASK}"));
    assert!(!serde_json::to_string(&result).unwrap().contains("hunter22"), "{result:?}");
    let unknown = node(json!({"id": "u", "type": "bash", "command": "echo {secret:NOPE}"}));
    let result = nodes.run(&unknown, Call::default()).await;
    assert_eq!(result.error_type, Some(ErrorType::Secret));
}

#[tokio::test]
async fn excess_output_fails_the_command() {
    let result = sh("echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last").await;
    assert_eq!((result.success, result.error_type), (false, Some(ErrorType::TooLarge)));
    assert!(result.error.unwrap().contains("524288 bytes"));
    assert_eq!((result.output, result.attributes.get("stdout")), (json!(null), None));
    let text = |name: &str| result.attributes[name].as_str().unwrap();
    assert!(text("stdout_head").starts_with("first\n") && text("stdout_tail").ends_with("x\nlast\n"));
    assert_eq!(result.attributes["stdout_left_out"], 20_000_000 + 12 - 2 * (256 << 10));
    // Messages on standard error are not output, and do not fail a successful command.
    let loud = sh("head -c 2000000 /dev/zero | tr '\\0' x >&2; echo done").await;
    assert_eq!((loud.success, loud.output, loud.attributes.get("stderr")), (true, json!("done"), None));
    assert!(loud.attributes.contains_key("stderr_tail"), "{:?}", loud.attributes.keys());
}

#[tokio::test]
async fn background_processes_do_not_delay_an_exited_command() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let start = std::time::Instant::now();
    let result = sh(&format!("sleep 300 & echo $! > {}; echo done", file.display())).await;
    assert_eq!(result.output, "done");
    assert!(start.elapsed() < Duration::from_secs(60), "the command waited for its background processes");
    let background_pid = wait_for_pid(&file).await;
    assert!(is_running(background_pid));
    std::process::Command::new("kill").arg(background_pid.to_string()).status().unwrap();
}

#[tokio::test]
async fn interrupt_terminates_all_processes_of_the_command() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let (job, session, orphan) = (file("job"), file("session"), file("orphan"));
    // A job that ignores signals, one in its own session, and an orphan.
    let command = format!(
        "(trap '' TERM HUP INT; echo $BASHPID > {}; while :; do sleep 1; done) & \
         setsid sh -c 'echo $$ > {}; exec sleep 1000' & \
         (setsid sh -c '(echo $$ > /dev/null; sh -c \"echo \\$\\$ > {}; exec sleep 1000\" &) ' &) ; \
         echo started; sleep 1000",
        job.display(),
        session.display(),
        orphan.display()
    );
    let nodes = nodes();
    let slow = node(json!({"id": "slow", "type": "bash"}));
    let stop = CancellationToken::new();
    let call = Call { interrupt: stop.clone(), ..Call::new(command) };
    let running = tokio::spawn(async move { nodes.run(&slow, call).await });
    let pids = [wait_for_pid(&job).await, wait_for_pid(&session).await, wait_for_pid(&orphan).await];
    assert!(pids.iter().all(|pid| is_running(*pid)));
    stop.cancel();
    let result = running.await.unwrap();
    assert_eq!(result.error_type, Some(ErrorType::Interrupted));
    assert_eq!(result.attributes["interrupted"], true);
    assert_eq!(result.output, "started");
    assert_eq!(result.attributes.get("survivors"), None);
    assert_eq!(pids.map(is_running), [false; 3], "{pids:?}");
}

#[tokio::test]
async fn dropping_a_call_terminates_its_processes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let command = format!("setsid sh -c 'echo $$ > {}; exec sleep 1000' & sleep 1000", file.display());
    let nodes = nodes();
    let slow = node(json!({"id": "slow", "type": "bash"}));
    let running = tokio::spawn(async move { nodes.run(&slow, Call::new(command)).await });
    let pid = wait_for_pid(&file).await;
    running.abort();
    eventually(&format!("process {pid} ends with the call that started it"), async || !is_running(pid)).await;
}

#[tokio::test]
async fn time_limit_is_reported_with_the_output() {
    let nodes = nodes();
    let slow = node(json!({"id": "slow", "type": "bash", "timeout": 0.3}));
    let result = nodes.run(&slow, Call::new("echo begun; sleep 1000")).await;
    assert_eq!(result.error.as_deref(), Some("The call exceeded its time limit of 0.3 s."));
    assert_eq!((result.error_type, result.output), (Some(ErrorType::Timeout), json!("begun")));
    let patient = node(json!({"id": "patient", "type": "bash", "timeout": 1000}));
    let call = Call { timeout: Some(Duration::from_millis(200)), ..Call::new("sleep 1000") };
    assert_eq!(nodes.run(&patient, call).await.error_type, Some(ErrorType::Timeout));
}

#[tokio::test]
async fn failure_to_start_has_its_own_error() {
    let nodes = nodes();
    let nowhere = node(json!({"id": "n", "type": "bash", "command": "true", "cwd": "/no/such/folder"}));
    let result = nodes.run(&nowhere, Call::default()).await;
    assert_eq!(result.error_type, Some(ErrorType::NotStarted));
    assert_eq!(
        result.error.as_deref(),
        Some("The program could not be started: directory '/no/such/folder' does not exist.")
    );
    let result = nodes.run(&node(json!({"id": "b", "type": "bash"})), Call::new(json!({"a": 1}))).await;
    assert_eq!(result.error_type, Some(ErrorType::InvalidInput));
    let result = sh("kill -9 $$").await;
    assert_eq!(result.error.as_deref(), Some("The command was terminated by signal 9."));
    assert_eq!(result.attributes["exit_code"], 137);
}
