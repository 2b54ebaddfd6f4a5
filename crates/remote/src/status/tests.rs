use expect_test::expect;
use proptest::prelude::*;

use super::*;

fn read(answer: Value) -> Status {
    Status::read(&answer).expect("a status")
}

#[test]
fn three_words_end_a_run_and_all_others_do_not() {
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
fn what_has_no_status_is_nonsense() {
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
fn a_gate_is_passed_on_while_it_is_open() {
    let gate = json!({ "message": "Deploy?" });
    assert_eq!(
        read(json!({ "status": "RUNNING", "output": { "pending_gate": gate } })).pending_gate,
        Some(gate.clone())
    );
    assert_eq!(read(json!({ "status": "RUNNING", "output": { "pending_gate": null } })).pending_gate, None);
    assert_eq!(read(json!({ "status": "FAILED", "output": { "pending_gate": gate } })).pending_gate, None);
}

#[test]
fn failures_are_told_in_the_words_of_the_service() {
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
    for (output, words) in cases {
        assert_eq!(failure_words(&output), words, "{output}");
        assert_eq!(read(json!({ "status": "FAILED", "output": output })).failure_words(), words, "{output}");
    }
    assert_eq!(read(json!({ "status": "FAILED", "error": "beside" })).failure_words(), "beside");
    assert_eq!(read(json!({ "status": "CANCELLED" })).failure_words(), "Workflow execution was cancelled");
}

fn ids() -> Ids {
    Ids { workflow: "deploy".to_owned(), correlation: "c-1".to_owned(), instance: "i-1".to_owned() }
}

fn told(status: Option<&Status>, error: Option<&str>) -> String {
    serde_json::to_string_pretty(&result(&ids(), status, error)).expect("a result")
}

#[test]
fn a_result_keeps_everything_that_is_known() {
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
    .assert_eq(&told(Some(&status), None));
}

#[test]
fn what_did_not_get_there_is_no_success() {
    let failed = read(json!({ "status": "FAILED", "output": { "error": "disk full", "log": "x" } }));
    let told = result(&ids(), Some(&failed), None);
    assert_eq!(
        (&told["success"], &told["error"], &told["output"]["log"]),
        (&json!(false), &json!("disk full"), &json!("x"))
    );
    let running = read(json!({ "status": "RUNNING" }));
    let told = result(&ids(), Some(&running), Some("It took longer than 5 minutes."));
    assert_eq!((&told["success"], &told["status"]), (&json!(false), &json!("RUNNING")));
    assert_eq!(told["error"], "It took longer than 5 minutes.");
    let unseen = result(&ids(), None, Some("Nobody could ask."));
    assert_eq!((&unseen["status"], &unseen["input"]), (&json!("RUNNING"), &Value::Null));
}

#[test]
fn a_start_is_known_by_two_ids() {
    let started = Started::read(&json!({ "correlation_id": "c", "workflow_id": 7 })).expect("ids");
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
        assert!(Started::read(&answer).is_err(), "{answer}");
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
        "endTime",
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
    fn whatever_a_service_answers_is_read(answer in answer()) {
        let _ = Started::read(&answer);
        if let Ok(status) = Status::read(&answer) {
            let result = result(&ids(), Some(&status), None);
            prop_assert_eq!(result["success"] == true, status.state == State::Completed);
            prop_assert!(status.failure_words().chars().count() <= 2_000);
            prop_assert_eq!(result.get("error").is_some(), matches!(status.state, State::Failed | State::Cancelled));
        }
    }
}
