//! Programs of AI agents in terminals: their activity in lists, waits and notifications.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use steplatch_daemon::Configuration;
use steplatch_notify::Rule;
use steplatch_protocol::{
    AgentActivity, AwaitOutput, AwaitReason, AwaitUntil, ListTerminalSessions, OpenTerminal, SendInput, SessionInfo,
};
use steplatch_testkit::{Session, TestDaemon, WebhookReceiver, eventually};

/// Draws the screens of Claude Code: a question until the first line, work until the second one, then the field for the
/// next task.
const PROGRAM: &str = r"#!/bin/sh
stty -icanon -echo
line=$(printf '─%.0s' 1 2 3 4 5 6 7 8 9 10 11 12)
printf '\033]2;✳ Claude Code\007\033[H\033[2J Do you want to proceed?\r\n ❯ 1. Yes\r\n   2. No\r\n Esc to cancel'
read -r _
printf '\033]2;◐ Claude Code\007\033[H\033[2J● Working…\r\n%s\r\n❯\r\n%s\r\n  esc to interrupt' $line $line
read -r _
printf '\033]2;✳ Claude Code\007\033[H\033[2J● Done.\r\n%s\r\n❯\r\n%s\r\n  ? for shortcuts' $line $line
read -r _
";

/// Opens a terminal with the program.
async fn open_agent(daemon: &TestDaemon) -> Session<'_> {
    let program = daemon.paths().state().join("claude");
    std::fs::write(&program, PROGRAM).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let verb: OpenTerminal =
        serde_json::from_value(json!({"command": [program], "name": "helper", "wait_ready": false})).unwrap();
    daemon.open(verb).await
}

async fn listed(daemon: &TestDaemon) -> SessionInfo {
    daemon.call(ListTerminalSessions::default()).await.sessions.remove(0)
}

/// Waits until the agent has this activity.
async fn has_activity(daemon: &TestDaemon, activity: AgentActivity) {
    eventually("the activity is listed", async || {
        let terminal = listed(daemon).await;
        (terminal.agent_activity == Some(activity)).then_some(()).ok_or(terminal)
    })
    .await;
}

#[tokio::test]
async fn wait_for_input_ends_when_an_agent_asks_or_is_idle() {
    let daemon = TestDaemon::new().await;
    let session = open_agent(&daemon).await;
    let wait = async |timeout: f64| {
        let (session_id, until) = (session.id.clone(), AwaitUntil::Input);
        daemon.call(AwaitOutput { session_id, until, timeout, ..AwaitOutput::default() }).await.reason
    };
    assert_eq!(wait(60.0).await, AwaitReason::Input);
    let terminal = listed(&daemon).await;
    assert_eq!(terminal.agent.as_deref(), Some("claude"));
    assert_eq!((terminal.agent_activity, terminal.awaiting_input), (Some(AgentActivity::Asks), Some(true)));
    session.type_in("\n").await;
    has_activity(&daemon, AgentActivity::Working).await;
    assert_eq!(wait(1.5).await, AwaitReason::Timeout, "the program polls for keys while it works");
    assert_eq!(listed(&daemon).await.awaiting_input, Some(false));
    let next = async {
        has_activity(&daemon, AgentActivity::Working).await;
        session.type_in("\n").await;
    };
    let (reason, ()) = tokio::join!(wait(60.0), next);
    assert_eq!(reason, AwaitReason::Input);
    assert_eq!(listed(&daemon).await.agent_activity, Some(AgentActivity::Idle));
    daemon.stop().await;
}

#[tokio::test]
async fn question_of_an_agent_reaches_a_webhook_and_is_withdrawn() {
    let receiver = WebhookReceiver::start();
    let daemon = TestDaemon::new().await;
    let text = format!("when = ['agent_asks']\nwebhook = '{}'\n", receiver.url("/hook"));
    let rule = Rule::read(&text.parse().unwrap(), 1, |_| false).unwrap();
    daemon.configure(Configuration { notifications: vec![rule], ..Configuration::default() });
    let session = open_agent(&daemon).await;
    let types = async |expected: &[&str]| {
        eventually("the webhook has the events", async || (receiver.types() == expected).then_some(())).await;
    };
    types(&["steplatch.agent_asks.first"]).await;
    let event = receiver.requests()[0].json();
    assert_eq!(event["data"]["title"], "claude asks for a decision in helper");
    daemon
        .call(SendInput { session_id: session.id.clone(), input_text: "\n".to_owned(), ..SendInput::default() })
        .await;
    types(&["steplatch.agent_asks.first", "steplatch.agent_asks.withdrawn"]).await;
    assert_eq!(receiver.requests()[1].json()["data"]["title"], "helper needs no answer any more");
    daemon.stop().await;
}

#[tokio::test]
async fn program_that_an_agent_starts_is_judged_by_itself() {
    let daemon = TestDaemon::new().await;
    let program = daemon.paths().state().join("claude");
    let script = "#!/bin/sh\nstty -icanon -echo\nprintf ' \u{276f} 1. Yes\\r\\n Esc to cancel\\r\\n'\nsh -c 'read -r _; :'\nread -r _\n";
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let verb: OpenTerminal = serde_json::from_value(json!({"command": [program], "wait_ready": false})).unwrap();
    let session = daemon.open(verb).await;
    eventually("the child reads the terminal", async || {
        let terminal = listed(&daemon).await;
        (terminal.agent.is_none() && terminal.awaiting_input == Some(true)).then_some(()).ok_or(terminal)
    })
    .await;
    session.type_in("\n").await;
    has_activity(&daemon, AgentActivity::Asks).await;
    daemon.stop().await;
}
