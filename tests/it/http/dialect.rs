//! The protocol of remote workflow services, with requests as other clients send them.

use serde_json::{Map, Value, json};
use steplatch_remote::{Cancelled, Client, Config, StartError, State, Token};

use crate::http::client::{Serving, asking, resting};

const SERVICE: &str = "/api/v1/service/workflows";

/// Sends a request in the form of the protocol.
fn send_request(
    serving: &Serving,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> (u16, Value) {
    let key = format!("Api-Key {}", serving.token);
    let mut all = vec![("authorization", key.as_str()), ("content-type", "application/json")];
    all.extend(headers);
    let body = body.map(ToString::to_string).unwrap_or_default();
    let response = serving.send(method, &format!("{SERVICE}{path}"), &all, body.as_bytes());
    (response.status, response.json())
}

fn wait_for_end(serving: &Serving, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    // Clients of the protocol can only poll, so the test waits on the run itself.
    let run = path.split('/').nth(3).unwrap();
    serving.wait_for(run);
    let (status, told) = send_request(serving, "GET", path, &[], None);
    assert!(status == 200 && wanted(&told), "{status} {told}");
    told
}

#[test]
fn run_is_started_once_followed_and_returns_its_output() {
    let serving = Serving::new();
    serving.post("/api/v1/workflows", json!({"workflow_definition": resting(2, 0.0)}));
    serving.post("/api/v1/workflows", json!({"workflow_definition": asking("anyone")}));
    let start = json!({"input": {"version": "1.2"}, "source": "application"});
    let key = [("idempotency-key", "0b1f")];
    let (status, started) = send_request(&serving, "POST", "/resting/start", &key, Some(&start));
    assert_eq!((status, &started["correlation_id"]), (200, &started["workflow_id"]), "{started}");
    assert_eq!(send_request(&serving, "POST", "/resting/start", &key, Some(&start)).1, started, "once");
    let run = started["workflow_id"].as_str().unwrap();
    let reported =
        wait_for_end(&serving, &format!("/resting/runs/{run}/status"), |reported| reported["status"] == "COMPLETED");
    assert_eq!(
        (&reported["input"], &reported["output"]["final_state"]),
        (&json!({"version": "1.2"}), &json!("s2")),
        "{reported}"
    );
    assert_eq!((&reported["originalWorkflowId"], &reported["workflowInstanceId"]), (&json!("resting"), &json!(run)));
    assert!(reported["endTime"].as_i64().unwrap() >= reported["startTime"].as_i64().unwrap(), "{reported}");
    assert_eq!(
        send_request(&serving, "GET", &format!("/asking/runs/{run}/status"), &[], None).0,
        404,
        "of another workflow"
    );
    assert_eq!(send_request(&serving, "POST", "/nothing/start", &[], Some(&start)).0, 404);
    assert_eq!(send_request(&serving, "GET", "/resting/runs/run_x/status", &[], None).0, 404);
    assert_eq!(send_request(&serving, "POST", "/resting/start", &[], Some(&json!({"input": "text"}))).0, 400);
}

/// Performs the flow of document 004, lines 411-450, as a client written from that document.
#[test]
fn documented_client_reads_the_served_answers() {
    let serving = Serving::new();
    serving.post("/api/v1/workflows", json!({"workflow_definition": resting(1, 0.0)}));
    let mut failing = resting(1, 0.0);
    failing["name"] = json!("failing");
    failing["states"]["s1"]["action"] = json!({"tool": "fail", "params": {"message": "no luck"}});
    serving.post("/api/v1/workflows", json!({"workflow_definition": failing}));
    for (workflow, word) in [("resting", "COMPLETED"), ("failing", "FAILED")] {
        let start = json!({"input": {"target_domain": "example.com"}, "source": "application"});
        let (status, started) = send_request(&serving, "POST", &format!("/{workflow}/start"), &[], Some(&start));
        assert_eq!(status, 200, "{started}");
        // Line 373: both ids are texts.
        let (correlation, run) =
            (started["correlation_id"].as_str().unwrap(), started["workflow_id"].as_str().unwrap());
        let reported = wait_for_end(&serving, &format!("/{workflow}/runs/{run}/status"), |reported| {
            reported["status"] != "RUNNING"
        });
        assert_eq!(
            (&reported["status"], &reported["workflow_id"]),
            (&json!(word), &json!(workflow)),
            "lines 188-196: {reported}"
        );
        assert_eq!(reported["correlationId"], correlation);
        assert_eq!(reported["input"], json!({"target_domain": "example.com"}));
        assert!(reported["output"].is_object(), "{reported}");
        // Line 440: executionTime is end_time - start_time.
        let time = |name: &str| reported[name].as_i64().unwrap_or_else(|| panic!("no {name}: {reported}"));
        assert_eq!(time("end_time") - time("start_time"), time("executionDuration"));
        assert!(time("create_time") <= time("start_time") && time("update_time") <= time("end_time"));
        for (snake, camel) in [("create_time", "createTime"), ("update_time", "updateTime"), ("end_time", "endTime")] {
            assert_eq!(time(snake), time(camel));
        }
    }
}

#[test]
fn waiting_run_is_running_with_its_question_and_cancellable() {
    let serving = Serving::new();
    serving.post("/api/v1/workflows", json!({"workflow_definition": asking("anyone")}));
    let started = send_request(&serving, "POST", "/asking/start", &[], Some(&json!({"input": {}}))).1;
    let run = started["workflow_id"].as_str().unwrap();
    let path = format!("/asking/runs/{run}/status");
    let reported =
        wait_for_end(&serving, &path, |reported| reported["status"] == "RUNNING" && reported["endTime"].is_null());
    assert_eq!(reported["output"]["pending_gate"]["prompt"], "Go on?");
    assert_eq!(send_request(&serving, "POST", &format!("/other/runs/{run}/cancel"), &[], None).0, 404);
    let (status, cancelled) = send_request(&serving, "POST", &format!("/asking/runs/{run}/cancel"), &[], None);
    assert_eq!((status, &cancelled["status"]), (200, &json!("CANCELLED")), "{cancelled}");
    let reported = wait_for_end(&serving, &path, |reported| reported["status"] == "CANCELLED");
    assert!(reported["output"]["error"].is_string(), "{reported}");
}

#[test]
fn proven_workflows_are_listed_whole_or_by_page() {
    let serving = Serving::new();
    for name in ["one", "two", "draft"] {
        let mut definition = resting(1, 0.0);
        definition["name"] = json!(name);
        let (status, saved) = serving.post("/api/v1/workflows", json!({"workflow_definition": definition}));
        assert_eq!(status, 200, "{saved}");
    }
    // A workflow that completed unchanged is proven.
    for name in ["one", "two"] {
        let (_, run) = serving.post(&format!("/api/v1/workflows/{name}/runs"), json!({"wait": true}));
        assert_eq!(run["state"], "completed", "{run}");
    }
    let (status, all) = send_request(&serving, "GET", "/mcp", &[], None);
    let ids: Vec<&str> = all.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!((status, ids), (200, vec!["one", "two"]), "{all}");
    assert_eq!(all[0]["inputSchema"]["type"], "object", "{all}");
    let (status, page) = send_request(&serving, "GET", "/mcp?page=1&page_size=1", &[], None);
    assert_eq!((status, &page["previous"], &page["count"]), (200, &Value::Null, &json!(2)), "{page}");
    assert_eq!((&page["results"][0]["id"], page["results"].as_array().unwrap().len()), (&json!("one"), 1));
    let next = page["next"].as_str().unwrap().strip_prefix(SERVICE).unwrap().to_owned();
    let (_, page) = send_request(&serving, "GET", &next, &[], None);
    assert_eq!((&page["results"][0]["id"], &page["next"]), (&json!("two"), &Value::Null), "{page}");
    for wrong in ["page=0", "page_size=0", "page_size=100000", "page=x", "limit=1"] {
        assert_eq!(send_request(&serving, "GET", &format!("/mcp?{wrong}"), &[], None).0, 400, "{wrong}");
    }
}

/// Uses this program's client of remote services against this program as the service.
#[test]
fn own_client_discovers_starts_follows_and_cancels() {
    let serving = Serving::new();
    let (status, saved) = serving.post("/api/v1/workflows", json!({"workflow_definition": asking("anyone")}));
    assert_eq!(status, 200, "{saved}");
    // The workflow is proven once it has completed.
    let run = serving.post("/api/v1/workflows/asking/runs", json!({})).1["run_id"].as_str().unwrap().to_owned();
    assert_eq!(serving.wait_for(&run)["status"], "waiting");
    let answer = |run: &str| serving.post(&format!("/api/v1/runs/{run}/decide"), json!({"answer": "yes"})).0;
    assert_eq!((answer(&run), serving.wait_for(&run)["status"].as_str()), (200, Some("completed")));

    let config = Config {
        enabled: true,
        base_url: format!("http://127.0.0.1:{}", serving.port),
        token: Some(Token::Value(serving.token.clone())),
        ..Config::default()
    };
    let client = Client::new(&config).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listed = client.list().await.unwrap();
        let [workflow] = listed.workflows.as_slice() else { panic!("{listed:?}") };
        assert_eq!((workflow.id.as_str(), workflow.title.as_str()), ("asking", "asking"));
        assert!(listed.skipped.is_empty(), "{:?}", listed.skipped);

        let input = Map::from_iter([("version".to_owned(), json!("1.2"))]);
        let started = client.start("asking", &input, "key 1").await.unwrap();
        let again = client.start("asking", &input, "key 1").await.unwrap();
        assert_eq!(started, again, "once");
        let run = started.workflow_instance.as_str();
        serving.wait_for(run);
        let status = client.status("asking", run).await.unwrap();
        assert_eq!((status.state, &status.pending_gate.unwrap()["prompt"]), (State::Running, &json!("Go on?")));
        assert_eq!(answer(run), 200);
        serving.wait_for(run);
        let status = client.status("asking", run).await.unwrap();
        assert_eq!((status.state, &status.input["version"]), (State::Completed, &json!("1.2")), "{status:?}");
        assert!(status.start_time.is_some() && status.end_time >= status.start_time, "{status:?}");

        let other = client.start("asking", &Map::new(), "key 2").await.unwrap();
        let cancelled = client.cancel("asking", &other.workflow_instance).await.unwrap();
        assert_eq!(cancelled, Cancelled::Accepted);
        let status = client.status("asking", &other.workflow_instance).await.unwrap();
        assert_eq!(status.state, State::Cancelled);
        let refused = client.start("nothing", &Map::new(), "key 3").await.unwrap_err();
        assert!(matches!(refused, StartError::Refused { status: Some(404), .. }), "{refused:?}");
    });
}
