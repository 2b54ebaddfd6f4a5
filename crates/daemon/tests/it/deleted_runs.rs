//! Records of runs that a person deletes, in a daemon in this process.

use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};
use steplatch_protocol::{
    CancelWorkflow, Client, DeleteRun, DeleteRunReply, GetWorkflowRun, Hello, ListWorkflowRuns, RunReply, RunWorkflow,
    connect,
};
use steplatch_testkit::{TestDaemon, eventually};

fn machine(name: &str, action: &Value) -> Value {
    json!({"name": name, "initial_state": "only", "states": {"only": {"action": action}}})
}

fn nesting_machine() -> Value {
    let quick = machine("quick", &json!({"tool": "run_command", "params": {"command": "true"}}));
    let middle = machine("middle", &json!({"tool": "run_workflow", "params": {"workflow_definition": quick}}));
    machine("outer", &json!({"tool": "run_workflow", "params": {"workflow_definition": middle}}))
}

async fn run(daemon: &TestDaemon, definition: Value, key: Option<&str>) -> RunReply {
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        idempotency_key: key.map(str::to_owned),
        wait_seconds: Some(30.0),
        ..RunWorkflow::default()
    };
    daemon.call(verb).await
}

/// A person at the page: the connection of a browser to its server, and the server's connection to the daemon.
struct PageVisitor {
    client: Client,
    _connection: (TcpListener, TcpStream),
}

impl PageVisitor {
    async fn connect_to(daemon: &TestDaemon) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let browser = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let peer = Some(browser.local_addr().unwrap());
        let hello = Hello { person: true, peer, ..Hello::for_process("page") };
        let (client, _) = connect(daemon.paths(), hello).await.unwrap();
        Self { client, _connection: (server, browser) }
    }
}

async fn delete(person: &PageVisitor, run: &str) -> DeleteRunReply {
    person.client.call(DeleteRun { run_id: run.to_owned() }).await.unwrap()
}

async fn listed_runs(daemon: &TestDaemon) -> Vec<(String, String)> {
    let runs = daemon.call(ListWorkflowRuns::default()).await.runs;
    runs.into_iter().map(|run| (run.workflow_id, run.run_id)).collect()
}

#[tokio::test]
async fn record_is_deleted_with_its_nested_runs() {
    let daemon = TestDaemon::new().await;
    let person = PageVisitor::connect_to(&daemon).await;
    let kept_run = run(&daemon, nesting_machine(), None).await;
    let deleted = run(&daemon, nesting_machine(), Some("once")).await;
    let second_reply = run(&daemon, nesting_machine(), Some("once")).await;
    assert_eq!(second_reply.run_id, deleted.run_id, "a repeated start returns the same run");
    let before = listed_runs(&daemon).await;
    assert_eq!(before.len(), 6, "{before:?}");

    // A nested run is part of the record of its parent.
    let (_, nested) = &before.iter().find(|(name, _)| name == "quick").unwrap();
    let refusal = delete(&person, nested).await;
    assert!(!refusal.success && refusal.error.unwrap().contains("delete that one"));

    // An agent cannot delete records.
    let refusal = daemon.client().call(DeleteRun { run_id: deleted.run_id.clone() }).await.unwrap();
    assert!(!refusal.success && refusal.error.unwrap().contains("by a person"));
    let reply = delete(&person, &deleted.run_id).await;
    assert_eq!((reply.success, reply.deleted), (true, 3), "{reply:?}");
    let after = listed_runs(&daemon).await;
    assert_eq!(after, before[3..], "the other runs are kept");
    assert!(daemon.call(GetWorkflowRun { run_id: kept_run.run_id }).await.success);
    assert!(!daemon.call(GetWorkflowRun { run_id: deleted.run_id.clone() }).await.success);
    let repeated = delete(&person, &deleted.run_id).await;
    assert!(repeated.error.unwrap().contains("not found"));
    let anew = run(&daemon, nesting_machine(), Some("once")).await;
    assert_ne!(anew.run_id, deleted.run_id, "the key was deleted with the record");
}

#[tokio::test]
async fn record_of_a_run_in_progress_is_kept() {
    let daemon = TestDaemon::new().await;
    let person = PageVisitor::connect_to(&daemon).await;
    let patient =
        machine("patient", &json!({"tool": "run_command", "params": {"command": "sleep 600", "timeout": 600}}));
    let outer = machine("outer", &json!({"tool": "run_workflow", "params": {"workflow_definition": patient}}));
    let verb = RunWorkflow { workflow_definition: Some(outer), wait_seconds: Some(0.0), ..RunWorkflow::default() };
    let started = daemon.call(verb).await;
    let refusal = delete(&person, &started.run_id).await;
    assert!(refusal.error.unwrap().contains("cancel it first"));
    assert!(daemon.call(CancelWorkflow { run_id: started.run_id.clone() }).await.success);
    eventually("the record can be deleted", async || delete(&person, &started.run_id).await.success.then_some(()))
        .await;
    assert_eq!(listed_runs(&daemon).await, []);
}
