use expect_test::expect;
use proptest::prelude::*;

use super::*;

fn read(answer: Value) -> Status {
    Status::read(&answer).expect("a status")
}

#[test]
fn exactly_three_statuses_end_a_run() {
    let cases = [
        ("RUNNING", State::Running),
        ("running", State::Running),
        ("PENDING", State::Running),
        ("TERMINATED", State::Running),
        ("COMPLETED", State::Completed),
        (" completed\n", State::Completed),
        ("FAILED", State::Failed),
        ("CANCELLED", State::Cancelled),
        ("canceled", State::Cancelled),
    ];
    for (word, state) in cases {
        for output in [Value::Null, json!({ "x": 1 })] {
            assert_eq!(read(json!({ "status": word, "output": output })).state, state, "{word}");
        }
    }
}

#[test]
fn missing_status_is_invalid() {
    for answer in [
        json!(null),
        json!([]),
        json!("RUNNING"),
        json!({}),
        json!({ "status": null }),
        json!({ "status": 7 }),
        json!({ "status": " \u{200b}" }),
    ] {
        assert!(Status::read(&answer).is_err(), "{answer}");
    }
}

#[test]
fn gate_is_reported_only_while_the_run_is_in_progress() {
    let gate = json!({ "message": "Deploy?" });
    assert_eq!(
        read(json!({ "status": "RUNNING", "output": { "pending_gate": gate } })).pending_gate,
        Some(gate.clone())
    );
    assert_eq!(read(json!({ "status": "RUNNING", "output": { "pending_gate": null } })).pending_gate, None);
    assert_eq!(read(json!({ "status": "FAILED", "output": { "pending_gate": gate } })).pending_gate, None);
}

#[test]
fn failures_keep_the_message_of_the_service() {
    let cases = [
        (json!({ "error": "disk full", "message": "no" }), "disk full"),
        (json!({ "error": null, "message": "no" }), "no"),
        (json!({ "error": " ", "message": "no" }), "no"),
        (json!({ "error": { "message": "inner", "code": 7 } }), "inner"),
        (json!({ "error": { "code": 7 } }), "{\"code\":7}"),
        (json!({ "error": "\u{1b}[31mred\u{1b}[0m" }), "red"),
        (json!({ "error": 7 }), "7"),
        (json!({}), "Workflow execution failed"),
        (json!(null), "Workflow execution failed"),
        (json!("text"), "Workflow execution failed"),
    ];
    for (output, message) in cases {
        assert_eq!(error_message(&output), message, "{output}");
        assert_eq!(read(json!({ "status": "FAILED", "output": output })).error_message(), message, "{output}");
    }
    assert_eq!(read(json!({ "status": "FAILED", "error": "disk full" })).error_message(), "disk full");
    assert_eq!(read(json!({ "status": "CANCELLED" })).error_message(), "Workflow execution was cancelled");
}

fn ids() -> Ids {
    Ids { workflow: "deploy".to_owned(), correlation: "c-1".to_owned(), instance: "i-1".to_owned() }
}

fn result_text(status: Option<&Status>) -> String {
    serde_json::to_string_pretty(&result(&ids(), status, None)).expect("a result")
}

/// The status reply of document 004 (lines 386-406).
fn documented_answer() -> Value {
    json!({
        "create_time": 1_753_703_781_802_i64,
        "update_time": 1_753_703_781_904_i64,
        "status": "FAILED",
        "end_time": 1_753_703_781_904_i64,
        "workflow_id": "2724",
        "input": {
            "target_domain": "Enter Domain to Analyze...",
            "context": {
                "space_id": null,
                "user_id": 556_565,
                "workspace_id": 82_515,
                "subscription_id": null,
                "use_quota": true
            }
        },
        "output": {"competitors_analysis": null},
        "start_time": 1_753_703_781_802_i64
    })
}

// Document 004, lines 386-406: the status reply; lines 152-178: its result.
#[test]
fn documented_status_produces_the_documented_result() {
    let answer = documented_answer();
    let status = read(answer.clone());
    assert_eq!((status.state, status.workflow.as_deref()), (State::Failed, Some("2724")));
    let ids = Ids {
        workflow: "2724".to_owned(),
        correlation: "2724_9a92222c2ca34fffbfd00e8767dd22d0".to_owned(),
        instance: "8f496b6a-c905-41bb-b7b7-200a8982ab30".to_owned(),
    };
    let expected = json!({
        "success": false,
        "status": "FAILED",
        "correlationId": "2724_9a92222c2ca34fffbfd00e8767dd22d0",
        "workflowInstanceId": "8f496b6a-c905-41bb-b7b7-200a8982ab30",
        "originalWorkflowId": "2724",
        "input": answer["input"],
        "output": {"competitors_analysis": null},
        // Line 445: the error of a failed workflow without a message.
        "error": "Workflow execution failed",
        "startTime": 1_753_703_781_802_i64,
        "endTime": 1_753_703_781_904_i64,
        "createTime": 1_753_703_781_802_i64,
        "updateTime": 1_753_703_781_904_i64,
        "executionDuration": 102
    });
    assert_eq!(result(&ids, Some(&status), None), expected);
}

// Document 004, lines 188-202: the fields of a status, and the processed fields.
#[test]
fn both_spellings_of_a_status_are_read() {
    let snake = json!({
        "status": "RUNNING", "create_time": 1, "update_time": 2, "start_time": 3, "end_time": null, "workflow_id": 2724,
        "correlation_id": "c", "progress": 40
    });
    let camel = json!({
        "status": "RUNNING", "createTime": "1", "updateTime": 2, "startTime": 3, "originalWorkflowId": "2724",
        "correlationId": "c", "progress": "40%"
    });
    assert_eq!(read(snake.clone()), read(camel));
    let status = read(snake);
    assert_eq!(
        (status.create_time, status.update_time, status.start_time, status.end_time),
        (Some(1), Some(2), Some(3), None)
    );
    assert_eq!((status.workflow.as_deref(), status.correlation.as_deref()), (Some("2724"), Some("c")));
    assert_eq!(status.progress, Some(40.into()));
    for invalid in [json!(101), json!(-1), json!("soon"), json!(true), json!(null), json!({"of": 3})] {
        assert_eq!(read(json!({"status": "RUNNING", "progress": invalid})).progress, None, "{invalid}");
    }
}

#[test]
fn result_keeps_all_known_fields() {
    let status = read(json!({
        "status": "COMPLETED", "input": { "a": 1 }, "output": { "b": 2 },
        "startTime": 1_700_000_000_000_i64, "endTime": "2023-11-14T22:13:21.500Z", "createTime": "1699999999000", "updateTime": null,
    }));
    expect![[r#"
        {
          "success": true,
          "status": "COMPLETED",
          "correlationId": "c-1",
          "workflowInstanceId": "i-1",
          "originalWorkflowId": "deploy",
          "input": {
            "a": 1
          },
          "output": {
            "b": 2
          },
          "startTime": 1700000000000,
          "endTime": 1700000001500,
          "createTime": 1699999999000,
          "updateTime": null,
          "executionDuration": 1500
        }"#]]
    .assert_eq(&result_text(Some(&status)));
}

#[test]
fn local_end_is_never_a_success() {
    let failed = read(json!({ "status": "FAILED", "output": { "error": "disk full", "log": "x" } }));
    let reported = result(&ids(), Some(&failed), None);
    assert_eq!(
        (&reported["success"], &reported["error"], &reported["output"]["log"]),
        (&json!(false), &json!("disk full"), &json!("x"))
    );
    // Document 004, lines 159 and 231: a timed-out run is FAILED, not RUNNING.
    let running = read(json!({ "status": "RUNNING" }));
    let timeout = LocalEnd { status: "FAILED", error: "The run took longer than 5 minutes." };
    let reported = result(&ids(), Some(&running), Some(timeout));
    assert_eq!((&reported["success"], &reported["status"]), (&json!(false), &json!("FAILED")));
    assert_eq!(reported["error"], "The run took longer than 5 minutes.");
    let unknown = result(&ids(), None, Some(LocalEnd { status: "UNKNOWN", error: "The service did not answer." }));
    assert_eq!((&unknown["status"], &unknown["input"]), (&json!("UNKNOWN"), &Value::Null));
    let in_progress = result(&ids(), Some(&running), None);
    assert_eq!((&in_progress["success"], &in_progress["status"]), (&json!(false), &json!("RUNNING")));
}

#[test]
fn answer_to_a_start_must_have_two_ids() {
    let started = StartedRun::read(&json!({ "correlation_id": "c", "workflow_id": 7 })).expect("ids");
    assert_eq!((started.correlation_id.as_str(), started.workflow_instance.as_str()), ("c", "7"));
    for answer in [
        json!({ "correlation_id": "c" }),
        json!({ "workflow_id": "w" }),
        json!({ "correlation_id": "c", "workflow_id": "" }),
        json!({ "correlation_id": "c", "workflow_id": ".." }),
        json!({ "correlation_id": null, "workflow_id": "w" }),
        json!([]),
        json!(null),
    ] {
        assert!(StartedRun::read(&answer).is_err(), "{answer}");
    }
}

fn answer() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        prop::sample::select(vec!["FAILED", "COMPLETED", "2024-01-01T00:00:00Z", "9223372036854775807"])
            .prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "status",
        "input",
        "output",
        "error",
        "message",
        "startTime",
        "end_time",
        "progress",
        "pending_gate",
        "workflow_id",
        "correlation_id",
    ]);
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop::collection::vec((name.clone(), inner), 0..8).prop_map(|fields| {
            Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        })
    })
}

proptest! {
    #[test]
    fn any_answer_of_a_service_is_handled(answer in answer()) {
        let _ = StartedRun::read(&answer);
        if let Ok(status) = Status::read(&answer) {
            let result = result(&ids(), Some(&status), None);
            prop_assert_eq!(result["success"] == true, status.state == State::Completed);
            prop_assert!(status.error_message().chars().count() <= 2_000);
            prop_assert_eq!(result.get("error").is_some(), matches!(status.state, State::Failed | State::Cancelled));
        }
    }
}
