//! The test suite of document 000 (lines 961 to 1529) against this daemon, with its definitions and assertions as
//! written.
//!
//! Tests have the document's names. Where the document queries its classes, these tests query the daemon: a completed
//! run is saved, and a saved workflow is loaded by name.

use serde_json::{Value, json};
use steplatch_daemon::TerminalTools;
use steplatch_protocol::{CreateWorkflow, DescribeWorkflow, ListWorkflows, RunReply, RunWorkflow};
use steplatch_testkit::TestDaemon;
use steplatch_workflow::Definition;

/// Document 000, lines 999-1041.
fn simple_workflow() -> Value {
    json!({
        "name": "test_simple",
        "description": "Simple test workflow",
        "initial_state": "create_session",
        "states": {
            "create_session": {
                "action": {"tool": "open_terminal", "params": {"shell": "bash"}},
                "transitions": [{"condition": {"success": true}, "next_state": "send_command"}]
            },
            "send_command": {
                "action": {
                    "tool": "send_input",
                    "params": {"session_id": "{session_id}", "input_text": "echo 'test'\n"}
                },
                "transitions": [{"condition": {"success": true}, "next_state": "cleanup"}]
            },
            "cleanup": {
                "action": {"tool": "exit_terminal", "params": {"session_id": "{session_id}"}},
                "transitions": []
            }
        }
    })
}

/// A state that lists the terminals, and these transitions.
fn listing_state(transitions: &Value) -> Value {
    json!({"action": {"tool": "list_terminal_sessions", "params": {}}, "transitions": transitions})
}

/// Returns a request of the document, with the same fields and time to wait for the end.
fn request(definition: Value) -> RunWorkflow {
    RunWorkflow {
        workflow_definition: Some(definition),
        save_on_success: false,
        wait_seconds: Some(60.0),
        ..RunWorkflow::default()
    }
}

/// The entries that document 000 has in its log: one for each state. The additional entries of document 001
/// (transitions, checks of the contract) are omitted, because the two documents contradict each other.
fn executed_entries(reply: &RunReply) -> Vec<&Value> {
    reply.execution_log.iter().filter(|entry| entry["phase"] == "execution").collect()
}

// Document 000, line 1043.
#[tokio::test]
async fn test_inline_workflow_execution() {
    let daemon = TestDaemon::new().await;
    let result = daemon.call(request(simple_workflow())).await;
    assert!(result.success, "{result:#?}");
    assert_eq!(result.states_executed, 3);
    assert_eq!(result.final_state.as_deref(), Some("cleanup"));
    assert!(result.final_variables.contains_key("session_id"));
    // Line 1056 has len(execution_log) == 3; document 001, lines 856-874, also logs the transitions.
    assert_eq!(executed_entries(&result).len(), 3);
    assert!(!result.workflow_saved);
    daemon.stop().await;
}

// Document 000, line 1060.
#[tokio::test]
async fn test_workflow_persistence() {
    let daemon = TestDaemon::new().await;
    let verb = RunWorkflow { save_on_success: true, ..request(simple_workflow()) };
    let result = daemon.call(verb).await;
    assert!(result.success, "{result:#?}");
    assert!(result.workflow_saved);
    assert_eq!(result.saved_workflow_name.as_deref(), Some("test_simple"));
    daemon.stop().await;
}

// Document 000, line 1078.
#[tokio::test]
async fn test_saved_workflow_execution() {
    let daemon = TestDaemon::new().await;
    let created = daemon
        .call(CreateWorkflow { workflow_definition: simple_workflow(), overwrite_existing: false, reason: None })
        .await;
    assert!(created.success, "{created:?}");
    let by_name = RunWorkflow {
        workflow_name: Some("test_simple".to_owned()),
        save_on_success: false,
        wait_seconds: Some(60.0),
        ..RunWorkflow::default()
    };
    let result = daemon.call(by_name).await;
    assert!(result.success, "{result:#?}");
    // The document checks here whether its mock was called with the name.
    assert_eq!(result.workflow_name.as_deref(), Some("test_simple"));
    daemon.stop().await;
}

// Document 000, line 1095.
#[tokio::test]
async fn test_recursive_workflow_calls() {
    let daemon = TestDaemon::new().await;
    let parent_workflow = json!({
        "name": "parent_workflow",
        "initial_state": "call_child",
        "states": {
            "call_child": {
                "action": {"tool": "run_workflow", "params": {"workflow_name": "child_workflow"}},
                "transitions": [{"condition": {"success": true}, "next_state": "complete"}]
            },
            "complete": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}}, "transitions": []}
        }
    });
    let child_workflow = json!({
        "name": "child_workflow",
        // create_workflow requires a description, but the document's loader does not.
        "description": "Lists the terminals",
        "initial_state": "simple_action",
        "states": {"simple_action": listing_state(&json!([]))}
    });
    let created = daemon
        .call(CreateWorkflow { workflow_definition: child_workflow, overwrite_existing: false, reason: None })
        .await;
    assert!(created.success, "{created:?}");
    let result = daemon.call(request(parent_workflow)).await;
    assert!(result.success, "{result:#?}");
    assert!(result.recursion_depth >= 1);
    daemon.stop().await;
}

// Document 000, line 1154.
#[tokio::test]
async fn test_conditional_branching() {
    let daemon = TestDaemon::new().await;
    let branching_workflow = json!({
        "name": "test_branching",
        "initial_state": "test_command",
        "states": {
            "test_command": {
                "action": {"tool": "open_terminal", "params": {"shell": "bash"}},
                "transitions": [
                    {"condition": {"success": true}, "next_state": "success_path"},
                    {"condition": {"success": false}, "next_state": "failure_path"}
                ]
            },
            "success_path": {
                "action": {
                    "tool": "send_input",
                    "params": {"session_id": "{session_id}", "input_text": "echo 'success'\n"}
                },
                "transitions": []
            },
            "failure_path": listing_state(&json!([]))
        }
    });
    let result = daemon.call(request(branching_workflow)).await;
    assert!(result.success, "{result:#?}");
    assert_eq!(result.final_state.as_deref(), Some("success_path"));
    daemon.stop().await;
}

// Document 000, line 1208.
#[tokio::test]
async fn test_loop_workflow() {
    let daemon = TestDaemon::new().await;
    let loop_workflow = json!({
        "name": "test_loop",
        "initial_state": "counter",
        "states": {
            "counter": listing_state(&json!([
                {"condition": {"field_equals": {"total_sessions": 0}}, "next_state": "counter"},
                {"condition": {"success": true}, "next_state": "done"}
            ])),
            "done": listing_state(&json!([]))
        }
    });
    let verb = RunWorkflow { max_states: Some(5), ..request(loop_workflow) };
    let result = daemon.call(verb).await;
    assert!(result.states_executed <= 5, "{result:#?}");
    daemon.stop().await;
}

// Document 000, line 1252.
#[tokio::test]
async fn test_timeout_handling() {
    let daemon = TestDaemon::new().await;
    let timeout_workflow = json!({
        "name": "test_timeout",
        "initial_state": "long_wait",
        "states": {
            "long_wait": {
                "action": {
                    "tool": "await_output",
                    "params": {"session_id": "nonexistent", "pattern": "never_matches", "timeout": 0.1}
                },
                "timeout": 0.5,
                "on_timeout": "timeout_recovery",
                "transitions": [{"condition": {"success": true}, "next_state": "normal_complete"}]
            },
            "timeout_recovery": listing_state(&json!([])),
            "normal_complete": listing_state(&json!([]))
        }
    });
    let result = daemon.call(request(timeout_workflow)).await;
    assert_eq!(result.final_state.as_deref(), Some("timeout_recovery"), "{result:#?}");
    daemon.stop().await;
}

// Document 000, line 1304.
#[tokio::test]
async fn test_variable_substitution() {
    let daemon = TestDaemon::new().await;
    let var_workflow = json!({
        "name": "test_variables",
        "initial_state": "create_terminal",
        "states": {
            "create_terminal": {
                "action": {"tool": "open_terminal", "params": {"shell": "bash"}},
                "transitions": [{"condition": {"success": true}, "next_state": "use_session_id"}]
            },
            "use_session_id": {
                "action": {
                    "tool": "get_screen_content",
                    "params": {"session_id": "{session_id}", "content_mode": "screen"}
                },
                "transitions": []
            }
        }
    });
    let verb = RunWorkflow {
        initial_variables: Some([("custom_var".to_owned(), "custom_value".into())].into()),
        ..request(var_workflow)
    };
    let result = daemon.call(verb).await;
    assert!(result.success, "{result:#?}");
    assert!(result.final_variables.contains_key("session_id"));
    assert!(result.final_variables.contains_key("custom_var"));
    assert_eq!(result.final_variables["custom_var"], "custom_value");
    // Line 1349 has execution_log[1]; with the transitions of document 001 in the log, that is still the second state.
    let use_session_log = executed_entries(&result)[1];
    assert!(!use_session_log["params"].to_string().contains("{session_id}"));
    daemon.stop().await;
}

// Document 000, line 1353.
#[tokio::test]
async fn test_invalid_workflow_schema() {
    let daemon = TestDaemon::new().await;
    let invalid_workflow = json!({
        "name": "invalid",
        "initial_state": "nonexistent_state",
        "states": {"valid_state": listing_state(&json!([]))}
    });
    let result = daemon.call(request(invalid_workflow)).await;
    assert!(!result.success);
    let error = result.error.unwrap();
    assert!(error.contains("Initial state 'nonexistent_state' not found"), "{error}");
    daemon.stop().await;
}

// Document 000, line 1380.
#[tokio::test]
async fn test_infinite_loop_prevention() {
    let daemon = TestDaemon::new().await;
    let infinite_workflow = json!({
        "name": "infinite_loop",
        "initial_state": "loop",
        "states": {"loop": listing_state(&json!([{"condition": {"success": true}, "next_state": "loop"}]))}
    });
    let verb = RunWorkflow { max_states: Some(5), ..request(infinite_workflow) };
    let result = daemon.call(verb).await;
    assert!(!result.success);
    let error = result.error.unwrap();
    assert!(error.contains("Maximum states limit (5) reached"), "{error}");
    assert_eq!(result.states_executed, 5);
    daemon.stop().await;
}

// Document 000, line 1414.
#[tokio::test]
async fn test_request_validation() {
    let daemon = TestDaemon::new().await;
    // Where the document's model raises a ValueError, the reply reports an error.
    let neither = daemon.call(RunWorkflow::default()).await;
    assert!(!neither.success);
    let error = neither.error.unwrap();
    assert!(error.contains("Either 'workflow_definition' or 'workflow_name' must be provided"), "{error}");
    let both = RunWorkflow { workflow_name: Some("test".to_owned()), ..request(json!({"name": "test"})) };
    let both = daemon.call(both).await;
    assert!(!both.success);
    let error = both.error.unwrap();
    assert!(error.contains("Provide either 'workflow_definition' OR 'workflow_name', not both"), "{error}");
    daemon.stop().await;
}

// Document 000, line 1428.
#[test]
fn test_workflow_schema_validation() {
    let workflow = |name: &str, tool: &str| {
        json!({
            "name": name,
            "initial_state": "start",
            "states": {"start": {"action": {"tool": tool, "params": {}}, "transitions": []}}
        })
    };
    assert!(Definition::parse(&workflow("valid_test", "list_terminal_sessions"), &TerminalTools).is_ok());
    assert!(Definition::parse(&workflow("invalid", "invalid_tool"), &TerminalTools).is_err());
}

/// Runs a workflow to its end, so that it is saved, and returns its saved name.
async fn save_successful_workflow(daemon: &TestDaemon, workflow: &Value) -> Option<String> {
    let verb = RunWorkflow { save_on_success: true, ..request(workflow.clone()) };
    let result = daemon.call(verb).await;
    assert!(result.success, "{result:#?}");
    assert_eq!(result.workflow_saved, result.saved_workflow_name.is_some(), "document 000, line 882");
    result.saved_workflow_name
}

// Document 000, line 1476.
#[tokio::test]
async fn test_workflow_saving_and_loading() {
    let daemon = TestDaemon::new().await;
    let workflow = json!({
        "name": "test_workflow",
        "description": "Test workflow for persistence",
        "initial_state": "start",
        "states": {"start": listing_state(&json!([]))}
    });
    assert_eq!(save_successful_workflow(&daemon, &workflow).await.as_deref(), Some("test_workflow"));
    let described = daemon.call(DescribeWorkflow { name: "test_workflow".to_owned() }).await;
    let loaded_workflow = described.definition.unwrap();
    assert_eq!(loaded_workflow["name"], "test_workflow");
    assert_eq!(loaded_workflow["initial_state"], "start");
    daemon.stop().await;
}

// Document 000, line 1505.
#[tokio::test]
async fn test_duplicate_detection() {
    let daemon = TestDaemon::new().await;
    let workflow = json!({
        "name": "duplicate_test",
        "initial_state": "start",
        "states": {"start": listing_state(&json!([]))}
    });
    assert_eq!(save_successful_workflow(&daemon, &workflow).await.as_deref(), Some("duplicate_test"));
    assert_eq!(save_successful_workflow(&daemon, &workflow).await, None, "it should not save a duplicate");
    daemon.stop().await;
}

// Document 000, line 1529.
#[tokio::test]
async fn test_workflow_listing() {
    let daemon = TestDaemon::new().await;
    let workflow1 = json!({
        "name": "workflow1",
        "description": "First workflow",
        "initial_state": "start",
        "states": {"start": listing_state(&json!([]))}
    });
    let workflow2 = json!({
        "name": "workflow2",
        "description": "Second workflow",
        "initial_state": "begin",
        "states": {"begin": listing_state(&json!([]))}
    });
    save_successful_workflow(&daemon, &workflow1).await;
    save_successful_workflow(&daemon, &workflow2).await;
    let workflows = daemon.call(ListWorkflows::default()).await.workflows;
    assert_eq!(workflows.len(), 2);
    let names: Vec<&str> = workflows.iter().map(|workflow| workflow.name.as_str()).collect();
    assert!(names.contains(&"workflow1"));
    assert!(names.contains(&"workflow2"));
    daemon.stop().await;
}
