//! Workflows of the library as tools, in a daemon in this process.

use std::time::Duration;

use serde_json::{Value, json};
use steplatch_daemon::Configuration;
use steplatch_protocol::{
    CallTool, Change, Client, DeleteWorkflow, Events, ListTools, ListToolsReply, RunReply, RunWorkflow, ToolScope,
    Watch,
};
use steplatch_testkit::TestDaemon;

/// Returns a trivial machine that differs by name: the library treats equivalent machines as one.
fn greeting_machine(name: &str) -> Value {
    json!({
        "name": name,
        "description": "Greets somebody.",
        "initial_state": name,
        "states": {name: {"action": {"tool": "sleep", "params": {"seconds": 0}}}}
    })
}

fn tools_configuration() -> Configuration {
    Configuration { library_tools: true, ..Configuration::default() }
}

/// Runs a workflow to completion, so that it is proven.
async fn prove(daemon: &TestDaemon, definition: Value) -> RunReply {
    let reply = daemon.run(definition).await;
    assert!(reply.workflow_saved, "{reply:?}");
    reply
}

async fn tools(daemon: &TestDaemon) -> ListToolsReply {
    let reply = daemon.call(ListTools::default()).await;
    assert!(reply.success, "{reply:?}");
    reply
}

fn names(reply: &ListToolsReply) -> Vec<&str> {
    reply.tools.iter().map(|tool| tool.name.as_str()).collect()
}

async fn watch(client: &Client) -> Events {
    let (reply, events) = client.subscribe(Watch {}).await.unwrap();
    assert!(reply.success);
    events
}

/// Waits for the notification that the tools changed.
async fn tools_changed(events: &mut Events) {
    let reported = async {
        while let Some(event) = events.next().await {
            if serde_json::from_value::<Change>(event).unwrap() == Change::Tools {
                return;
            }
        }
        panic!("the connection closed");
    };
    tokio::time::timeout(Duration::from_secs(60), reported).await.expect("the change is reported in time");
}

fn call_request(name: &str, arguments: Value) -> CallTool {
    let Value::Object(arguments) = arguments else { panic!("the arguments must be an object") };
    CallTool { name: name.to_owned(), arguments, wait_seconds: Some(20.0), ..CallTool::default() }
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn proven_workflows_are_tools_if_configured() {
    let daemon = TestDaemon::configured(directory(), Configuration::default()).await;
    prove(&daemon, greeting_machine("greet")).await;
    assert_eq!(names(&tools(&daemon).await), [""; 0], "workflows are not tools by default");
    let library = daemon.call(ListTools { scope: Some(ToolScope::Library) }).await;
    assert_eq!(names(&library), ["workflow_greet"], "other instances are offered the proven workflows");

    let client = daemon.person_named("watcher").await;
    let mut events = watch(&client).await;
    daemon.configure(tools_configuration());
    tools_changed(&mut events).await;
    let offered = tools(&daemon).await;
    assert_eq!(offered, library);
    let tool = &offered.tools[0];
    assert_eq!((tool.source.as_str(), tool.workflow_id.as_str()), ("library", "greet"));
    assert_eq!(tool.description, "Greets somebody.");

    prove(&daemon, greeting_machine("farewell")).await;
    tools_changed(&mut events).await;
    assert_eq!(names(&tools(&daemon).await), ["workflow_farewell", "workflow_greet"]);
    daemon.call(DeleteWorkflow { name: "greet".to_owned() }).await;
    tools_changed(&mut events).await;
    assert_eq!(names(&tools(&daemon).await), ["workflow_farewell"]);
    daemon.configure(Configuration::default());
    tools_changed(&mut events).await;
    assert_eq!(names(&tools(&daemon).await), [""; 0]);
    daemon.stop().await;
}

#[tokio::test]
async fn file_from_git_is_a_tool_at_once() {
    let daemon = TestDaemon::configured(directory(), tools_configuration()).await;
    let saved = prove(&daemon, greeting_machine("greet")).await;
    let client = daemon.person_named("watcher").await;
    let library = {
        let run = daemon.call(steplatch_protocol::ListWorkflows::default()).await;
        std::path::PathBuf::from(run.library)
    };
    assert_eq!(saved.saved_workflow_name.as_deref(), Some("greet"));
    let mut events = watch(&client).await;
    let file = library.join("greet.json");
    let file_content = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    tools_changed(&mut events).await;
    assert_eq!(names(&tools(&daemon).await), [""; 0]);
    std::fs::write(&file, file_content).unwrap();
    tools_changed(&mut events).await;
    assert_eq!(names(&tools(&daemon).await), ["workflow_greet"]);
    daemon.stop().await;
}

#[tokio::test]
async fn tool_changes_are_reported_once_and_only_if_the_list_differs() {
    let daemon = TestDaemon::configured(directory(), tools_configuration()).await;
    prove(&daemon, greeting_machine("greet")).await;
    let client = daemon.person_named("watcher").await;
    let mut events = watch(&client).await;
    // Runs are counted in the library without changing the tool.
    for _ in 0..3 {
        let next_wait =
            RunWorkflow { workflow_name: Some("greet".to_owned()), wait_seconds: Some(20.0), ..RunWorkflow::default() };
        assert_eq!(daemon.call(next_wait).await.status, "completed");
    }
    prove(&daemon, greeting_machine("farewell")).await;
    let mut reported = 0;
    let before_the_last = async {
        while let Some(event) = events.next().await {
            match serde_json::from_value(event).unwrap() {
                Change::Tools => {
                    reported += 1;
                    // The next event comes from a later change.
                    let last = daemon.call(call_request("workflow_farewell", json!({}))).await.run_id;
                    while let Some(event) = events.next().await {
                        match serde_json::from_value(event).unwrap() {
                            Change::Tools => reported += 1,
                            Change::Run { run_id } if run_id == last => return,
                            Change::Run { .. } => {}
                        }
                    }
                }
                Change::Run { .. } => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), before_the_last).await.unwrap();
    assert_eq!(reported, 1);
    daemon.stop().await;
}

#[tokio::test]
async fn tool_accepts_exactly_the_arguments_of_its_contract() {
    let daemon = TestDaemon::configured(directory(), tools_configuration()).await;
    let mut definition = greeting_machine("count");
    definition["arguments"] = json!({
        "COUNT": {"description": "how often", "required": true, "schema": {"type": "integer", "minimum": 1}}
    });
    definition["states"] = json!({
        "count": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}},
                  "transitions": [{"condition": "success", "next_state": "say"}]},
        "say": {"action": {"tool": "send_input", "params": {"input_text": "echo got $COUNT\n"}},
                "transitions": [{"condition": "success", "next_state": "hear"}]},
        "hear": {"action": {"tool": "await_output", "params": {"pattern": "got \\d+", "timeout": 10}}}
    });
    let run = RunWorkflow {
        workflow_definition: Some(definition),
        initial_variables: Some([("COUNT".to_owned(), "2".into())].into()),
        wait_seconds: Some(30.0),
        ..RunWorkflow::default()
    };
    let proven = daemon.call(run).await;
    assert!(proven.workflow_saved, "{proven:?}");
    let listing = tools(&daemon).await;
    assert_eq!(listing.tools[0].input_schema["required"], json!(["COUNT"]));

    let wrong = daemon.call(call_request("workflow_count", json!({"COUNT": 0}))).await;
    assert_eq!(wrong.final_state.as_deref(), Some("validation_failed"));
    assert!(wrong.error.as_deref().unwrap().contains("/COUNT: "), "{wrong:?}");
    let missing = daemon.call(call_request("workflow_count", json!({}))).await;
    assert!(missing.error.unwrap().contains("COUNT"), "the missing variable is named");
    let unknown = daemon.call(call_request("workflow_cuont", json!({}))).await;
    assert_eq!(unknown.final_state.as_deref(), Some("workflow_not_found"));
    assert!(unknown.error.unwrap().contains("workflow_count"), "the available names are listed");

    let mut right = call_request("workflow_count", json!({"COUNT": 7}));
    right.idempotency_key = Some("once".to_owned());
    let first = daemon.call(right.clone()).await;
    assert_eq!(first.status, "completed", "{first:?}");
    assert!(first.execution_log.iter().any(|entry| entry.to_string().contains("got 7")), "{first:?}");
    assert_eq!(daemon.call(right).await.run_id, first.run_id, "the same request is the same run");
    daemon.stop().await;
}
