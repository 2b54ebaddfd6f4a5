//! The protocol of remote workflow services, with requests as other clients send them.

use serde_json::{Map, Value, json};
use steplatch_remote::{Cancelled, Client, Config, StartError, State, Token};

use crate::http::client::{HttpServer, gate_workflow, sleeping_workflow};

const SERVICE: &str = "/api/v1/service/workflows";

/// Sends a request in the form of the protocol.
fn send_request(
    server: &HttpServer,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> (u16, Value) {
    let key = format!("Api-Key {}", server.token);
    let mut all_headers = vec![("authorization", key.as_str()), ("content-type", "application/json")];
    all_headers.extend(headers);
    let body = body.map(ToString::to_string).unwrap_or_default();
    let response = server.send(method, &format!("{SERVICE}{path}"), &all_headers, body.as_bytes());
    (response.status, response.json())
}

fn wait_for_status(server: &HttpServer, path: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
    // Clients of the protocol can only poll, so the test waits on the run itself.
    let run = path.split('/').nth(3).unwrap();
    server.wait_for_run(run);
    let (status, report) = send_request(server, "GET", path, &[], None);
    assert!(status == 200 && is_expected(&report), "{status} {report}");
    report
}

#[test]
fn run_is_started_once_followed_and_returns_its_output() {
    let server = HttpServer::new();
    server.post("/api/v1/workflows", json!({"workflow_definition": sleeping_workflow(2, 0.0)}));
    server.post("/api/v1/workflows", json!({"workflow_definition": gate_workflow("anyone")}));
    let start = json!({"input": {"version": "1.2"}, "source": "application"});
    let key = [("idempotency-key", "0b1f")];
    let (status, started_run) = send_request(&server, "POST", "/resting/start", &key, Some(&start));
    assert_eq!((status, &started_run["correlation_id"]), (200, &started_run["workflow_id"]), "{started_run}");
    assert_eq!(
        send_request(&server, "POST", "/resting/start", &key, Some(&start)).1,
        started_run,
        "the key starts one run"
    );
    let run = started_run["workflow_id"].as_str().unwrap();
    let report =
        wait_for_status(&server, &format!("/resting/runs/{run}/status"), |report| report["status"] == "COMPLETED");
    assert_eq!(
        (&report["input"], &report["output"]["final_state"]),
        (&json!({"version": "1.2"}), &json!("s2")),
        "{report}"
    );
    assert_eq!((&report["originalWorkflowId"], &report["workflowInstanceId"]), (&json!("resting"), &json!(run)));
    assert!(report["endTime"].as_i64().unwrap() >= report["startTime"].as_i64().unwrap(), "{report}");
    assert_eq!(
        send_request(&server, "GET", &format!("/asking/runs/{run}/status"), &[], None).0,
        404,
        "the run belongs to another workflow"
    );
    assert_eq!(send_request(&server, "POST", "/nothing/start", &[], Some(&start)).0, 404);
    assert_eq!(send_request(&server, "GET", "/resting/runs/run_x/status", &[], None).0, 404);
    assert_eq!(send_request(&server, "POST", "/resting/start", &[], Some(&json!({"input": "text"}))).0, 400);
}

/// Performs the flow of document 004, lines 411-450, as a client written from that document.
#[test]
fn documented_client_can_read_run_statuses() {
    let server = HttpServer::new();
    server.post("/api/v1/workflows", json!({"workflow_definition": sleeping_workflow(1, 0.0)}));
    let mut failing = sleeping_workflow(1, 0.0);
    failing["name"] = json!("failing");
    failing["states"]["s1"]["action"] = json!({"tool": "fail", "params": {"message": "no luck"}});
    server.post("/api/v1/workflows", json!({"workflow_definition": failing}));
    for (workflow, word) in [("resting", "COMPLETED"), ("failing", "FAILED")] {
        let start = json!({"input": {"target_domain": "example.com"}, "source": "application"});
        let (status, started_run) = send_request(&server, "POST", &format!("/{workflow}/start"), &[], Some(&start));
        assert_eq!(status, 200, "{started_run}");
        // Line 373: both ids are strings.
        let (correlation, run) =
            (started_run["correlation_id"].as_str().unwrap(), started_run["workflow_id"].as_str().unwrap());
        let report =
            wait_for_status(&server, &format!("/{workflow}/runs/{run}/status"), |report| report["status"] != "RUNNING");
        assert_eq!(
            (&report["status"], &report["workflow_id"]),
            (&json!(word), &json!(workflow)),
            "lines 188-196: {report}"
        );
        assert_eq!(report["correlationId"], correlation);
        assert_eq!(report["input"], json!({"target_domain": "example.com"}));
        assert!(report["output"].is_object(), "{report}");
        // Line 440: executionTime is end_time - start_time.
        let time = |name: &str| report[name].as_i64().unwrap_or_else(|| panic!("no {name}: {report}"));
        assert_eq!(time("end_time") - time("start_time"), time("executionDuration"));
        assert!(time("create_time") <= time("start_time") && time("update_time") <= time("end_time"));
        for (snake, camel) in [("create_time", "createTime"), ("update_time", "updateTime"), ("end_time", "endTime")] {
            assert_eq!(time(snake), time(camel));
        }
    }
}

#[test]
fn waiting_run_reports_its_question_and_is_cancellable() {
    let server = HttpServer::new();
    server.post("/api/v1/workflows", json!({"workflow_definition": gate_workflow("anyone")}));
    let started_run = send_request(&server, "POST", "/asking/start", &[], Some(&json!({"input": {}}))).1;
    let run = started_run["workflow_id"].as_str().unwrap();
    let path = format!("/asking/runs/{run}/status");
    let report = wait_for_status(&server, &path, |report| report["status"] == "RUNNING" && report["endTime"].is_null());
    assert_eq!(report["output"]["pending_gate"]["prompt"], "Go on?");
    assert_eq!(send_request(&server, "POST", &format!("/other/runs/{run}/cancel"), &[], None).0, 404);
    let (status, cancel_reply) = send_request(&server, "POST", &format!("/asking/runs/{run}/cancel"), &[], None);
    assert_eq!((status, &cancel_reply["status"]), (200, &json!("CANCELLED")), "{cancel_reply}");
    let report = wait_for_status(&server, &path, |report| report["status"] == "CANCELLED");
    assert!(report["output"]["error"].is_string(), "{report}");
}

#[test]
fn proven_workflows_are_listed_at_once_or_by_page() {
    let server = HttpServer::new();
    for name in ["one", "two", "draft"] {
        let mut definition = sleeping_workflow(1, 0.0);
        definition["name"] = json!(name);
        let (status, reply) = server.post("/api/v1/workflows", json!({"workflow_definition": definition}));
        assert_eq!(status, 200, "{reply}");
    }
    // A workflow that completed unchanged is proven.
    for name in ["one", "two"] {
        let (_, run) = server.post(&format!("/api/v1/workflows/{name}/runs"), json!({"wait": true}));
        assert_eq!(run["state"], "completed", "{run}");
    }
    let (status, list) = send_request(&server, "GET", "/mcp", &[], None);
    let ids: Vec<&str> = list.as_array().unwrap().iter().map(|workflow| workflow["id"].as_str().unwrap()).collect();
    assert_eq!((status, ids), (200, vec!["one", "two"]), "{list}");
    assert_eq!(list[0]["inputSchema"]["type"], "object", "{list}");
    let (status, page) = send_request(&server, "GET", "/mcp?page=1&page_size=1", &[], None);
    assert_eq!((status, &page["previous"], &page["count"]), (200, &Value::Null, &json!(2)), "{page}");
    assert_eq!((&page["results"][0]["id"], page["results"].as_array().unwrap().len()), (&json!("one"), 1));
    let next = page["next"].as_str().unwrap().strip_prefix(SERVICE).unwrap().to_owned();
    let (_, page) = send_request(&server, "GET", &next, &[], None);
    assert_eq!((&page["results"][0]["id"], &page["next"]), (&json!("two"), &Value::Null), "{page}");
    for invalid_query in ["page=0", "page_size=0", "page_size=100000", "page=x", "limit=1"] {
        assert_eq!(send_request(&server, "GET", &format!("/mcp?{invalid_query}"), &[], None).0, 400, "{invalid_query}");
    }
}

/// Uses this program's client of remote services against this program as the service.
#[test]
fn remote_client_lists_starts_follows_and_cancels() {
    let server = HttpServer::new();
    let (status, reply) = server.post("/api/v1/workflows", json!({"workflow_definition": gate_workflow("anyone")}));
    assert_eq!(status, 200, "{reply}");
    // The workflow is proven once it has completed.
    let run = server.post("/api/v1/workflows/asking/runs", json!({})).1["run_id"].as_str().unwrap().to_owned();
    assert_eq!(server.wait_for_run(&run)["status"], "waiting");
    let answer = |run: &str| server.post(&format!("/api/v1/runs/{run}/decide"), json!({"answer": "yes"})).0;
    assert_eq!((answer(&run), server.wait_for_run(&run)["status"].as_str()), (200, Some("completed")));

    let config = Config {
        enabled: true,
        base_url: format!("http://127.0.0.1:{}", server.port),
        token: Some(Token::Value(server.token.clone())),
        ..Config::default()
    };
    let client = Client::new(&config).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let list = client.list().await.unwrap();
        let [workflow] = list.workflows.as_slice() else { panic!("{list:?}") };
        assert_eq!((workflow.id.as_str(), workflow.title.as_str()), ("asking", "asking"));
        assert!(list.skipped.is_empty(), "{:?}", list.skipped);

        let input = Map::from_iter([("version".to_owned(), json!("1.2"))]);
        let started_run = client.start("asking", &input, "key 1").await.unwrap();
        let repeated = client.start("asking", &input, "key 1").await.unwrap();
        assert_eq!(started_run, repeated, "the key starts one run");
        let run = started_run.workflow_instance.as_str();
        server.wait_for_run(run);
        let status = client.status("asking", run).await.unwrap();
        assert_eq!((status.state, &status.pending_gate.unwrap()["prompt"]), (State::Running, &json!("Go on?")));
        assert_eq!(answer(run), 200);
        server.wait_for_run(run);
        let status = client.status("asking", run).await.unwrap();
        assert_eq!((status.state, &status.input["version"]), (State::Completed, &json!("1.2")), "{status:?}");
        assert!(status.start_time.is_some() && status.end_time >= status.start_time, "{status:?}");

        let other_run = client.start("asking", &Map::new(), "key 2").await.unwrap();
        let cancel_reply = client.cancel("asking", &other_run.workflow_instance).await.unwrap();
        assert_eq!(cancel_reply, Cancelled::Accepted);
        let status = client.status("asking", &other_run.workflow_instance).await.unwrap();
        assert_eq!(status.state, State::Cancelled);
        let refusal = client.start("nothing", &Map::new(), "key 3").await.unwrap_err();
        assert!(matches!(refusal, StartError::Refused { status: Some(404), .. }), "{refusal:?}");
    });
}
