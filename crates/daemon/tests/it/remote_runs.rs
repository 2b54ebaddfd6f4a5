//! Runs of remote workflows, in a daemon in this process, against a service with scripted answers.

use std::time::Duration;

use serde_json::{Value, json};
use steplatch_daemon::Configuration;
use steplatch_protocol::{
    CallTool, CancelWorkflow, Change, CheckWorkflowStatus, CreateWorkflow, DescribeWorkflow, ExecuteWorkflow, GetRun,
    GetWorkflowRun, ListRemoteWorkflows, ListRemoteWorkflowsReply, ListTools, ListWorkflows, PauseWorkflow,
    RefreshWorkflows, ResumeWorkflow, RunEvent, RunReply, RunWorkflow, SendInput, Subscribe, Watch,
};
use steplatch_testkit::fake::{Answer, Route, TOKEN};
use steplatch_testkit::{FakeService, TestDaemon};

/// The configured service.
fn config(service: &FakeService) -> steplatch_remote::Config {
    steplatch_remote::Config {
        name: "team".to_owned(),
        enabled: true,
        base_url: service.url(),
        token: Some(steplatch_remote::Token::Value(TOKEN.to_owned())),
        status_check_interval: Duration::from_secs(1),
        ..steplatch_remote::Config::default()
    }
}

fn configuration_with(config: steplatch_remote::Config) -> Configuration {
    Configuration { remotes: vec![config], ..Configuration::default() }
}

/// A daemon that has fetched the list of the service.
async fn daemon_of(service: &FakeService) -> TestDaemon {
    daemon_with(config(service)).await
}

async fn daemon_with(config: steplatch_remote::Config) -> TestDaemon {
    let daemon = TestDaemon::configured(tempfile::tempdir().unwrap(), configuration_with(config)).await;
    let refreshed = daemon.call(RefreshWorkflows::default()).await;
    assert!(refreshed.success, "{refreshed:?}");
    daemon
}

fn call_request(name: &str, arguments: Value, wait: f64) -> CallTool {
    let Value::Object(arguments) = arguments else { panic!("the arguments must be an object") };
    CallTool { name: name.to_owned(), arguments, wait_seconds: Some(wait), ..CallTool::default() }
}

async fn deploy(daemon: &TestDaemon, wait: f64) -> RunReply {
    daemon.call(call_request("workflow_deploy", json!({"to": "prod"}), wait)).await
}

async fn wait_for_end(daemon: &TestDaemon, run: &RunReply) -> RunReply {
    daemon.call(GetRun { run_id: run.run_id.clone(), wait_seconds: Some(30.0), ..GetRun::default() }).await
}

async fn names(daemon: &TestDaemon) -> Vec<String> {
    daemon.call(ListTools::default()).await.tools.into_iter().map(|tool| tool.name).collect()
}

async fn remotes(daemon: &TestDaemon) -> ListRemoteWorkflowsReply {
    daemon.call(ListRemoteWorkflows::default()).await
}

/// Returns the types of the events of a finished run.
async fn events(daemon: &TestDaemon, run: &RunReply) -> Vec<String> {
    let client = daemon.person_named("follower").await;
    let verb = Subscribe { run_id: run.run_id.clone(), ..Subscribe::default() };
    let (_, mut events) = client.subscribe(verb).await.unwrap();
    let mut types = Vec::new();
    while let Some(event) = events.next().await {
        let event: RunEvent = serde_json::from_value(event).unwrap();
        let last = event.is_last();
        types.push(event.event_type);
        if last {
            return types;
        }
    }
    panic!("no last event: {types:?}");
}

#[tokio::test]
async fn remote_workflow_is_a_tool_with_an_ordinary_run() {
    let service = FakeService::start().await;
    service.offer("7", "Deploy");
    let daemon = daemon_of(&service).await;
    assert_eq!(names(&daemon).await, ["workflow_deploy"]);
    let tool = daemon.call(ListTools::default()).await.tools.remove(0);
    assert!(tool.description.starts_with("From the workflow service 'team': "), "{tool:?}");

    let reply = deploy(&daemon, 30.0).await;
    assert_eq!((reply.success, reply.status.as_str()), (true, "completed"), "{reply:?}");
    let result = reply.result.clone().unwrap();
    let run = &service.runs()[0];
    assert_eq!(result["success"], true);
    assert_eq!(result["status"], "COMPLETED");
    assert_eq!(result["workflowInstanceId"], run.id.as_str());
    assert_eq!(result["originalWorkflowId"], "7");
    assert_eq!(run.input, json!({"to": "prod"}));
    assert_eq!(run.idempotency_key, reply.run_id, "the idempotency key is the run id");
    let start = service.requests().into_iter().find(|request| request.route == Some(Route::Start)).unwrap();
    assert_eq!(start.headers["authorization"], format!("Api-Key {TOKEN}"));
    assert_eq!(start.body["source"], "application");

    let reported = events(&daemon, &reply).await;
    assert_eq!(reported.first().map(String::as_str), Some("workflow_started"));
    assert!(
        reported.contains(&"remote_started".to_owned()) && reported.contains(&"remote_status".to_owned()),
        "{reported:?}"
    );
    let record = daemon.call(GetWorkflowRun { run_id: reply.run_id.clone() }).await.run.unwrap();
    assert_eq!((record.workflow_id.as_str(), record.state.as_str()), ("workflow_deploy", "completed"));
    let request = CheckWorkflowStatus { workflow_id: "7".to_owned(), run_id: reply.run_id, remote: None };
    let checked = daemon.call(request).await;
    assert_eq!((checked.success, checked.status.as_str()), (true, "COMPLETED"), "{checked:?}");

    let listing = daemon.call(ListWorkflows::default()).await;
    assert!(listing.workflows.iter().any(|workflow| workflow.name == "workflow_deploy" && workflow.kind == "remote"));
    let described = daemon.call(DescribeWorkflow { name: "workflow_deploy".to_owned() }).await;
    assert!(described.success && described.input_schema.is_some(), "{described:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn remote_workflow_runs_by_name_and_nested() {
    let service = FakeService::start().await;
    service.offer_entry(json!({
        "id": "7", "title": "Deploy",
        "inputs": {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    }));
    let daemon = daemon_of(&service).await;
    let by_name = RunWorkflow {
        workflow_name: Some("workflow_deploy".to_owned()),
        initial_variables: Some([("count".to_owned(), "3".into())].into()),
        wait_seconds: Some(30.0),
        ..RunWorkflow::default()
    };
    let by_name = daemon.call(by_name).await;
    assert_eq!(by_name.status, "completed", "{by_name:?}");
    assert_eq!(service.runs()[0].input, json!({"count": 3}), "text arguments are converted to the type in the schema");

    let executed = ExecuteWorkflow {
        workflow_id: "workflow_deploy".to_owned(),
        input: json!({"count": 4}),
        wait: true,
        ..ExecuteWorkflow::default()
    };
    let executed = daemon.call(executed).await;
    assert_eq!(executed.result.unwrap()["status"], "COMPLETED");

    let machine = json!({
        "name": "above", "initial_state": "deploy",
        "states": {"deploy": {
            "action": {"tool": "run_workflow", "params": {"workflow_name": "workflow_deploy", "initial_variables": {"count": "5"}}},
            "transitions": [{"condition": {"field_equals": {"status": "completed"}}, "next_state": "after"}]},
            "after": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}
    });
    let above = daemon.run(machine).await;
    assert_eq!((above.status.as_str(), above.final_state.as_deref()), ("completed", Some("after")), "{above:?}");
    assert_eq!(service.runs().len(), 3);

    let wrong = ExecuteWorkflow {
        workflow_id: "workflow_deploy".to_owned(),
        input: json!({"count": "many"}),
        wait: true,
        ..ExecuteWorkflow::default()
    };
    let wrong = daemon.call(wrong).await;
    assert!(wrong.error.unwrap().contains("/count: "));
    assert_eq!(service.runs().len(), 3, "no request was sent to the service");
    daemon.stop().await;
}

#[tokio::test]
async fn saved_workflow_does_not_shadow_a_remote_tool() {
    let service = FakeService::start().await;
    service.offer("7", "Deploy");
    let daemon = daemon_of(&service).await;
    let definition = json!({
        "name": "workflow_deploy", "description": "Rests.", "initial_state": "rest",
        "states": {"rest": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}
    });
    let saved = CreateWorkflow { workflow_definition: definition, ..CreateWorkflow::default() };
    let saved = daemon.call(saved).await;
    assert!(saved.success, "{saved:?}");
    let key = Some("once".to_owned());
    let call = CallTool { idempotency_key: key, ..call_request("workflow_deploy", json!({"to": "prod"}), 30.0) };
    let called = daemon.call(call.clone()).await;
    assert_eq!(called.result.as_ref().map(|result| &result["originalWorkflowId"]), Some(&json!("7")), "{called:?}");
    assert_eq!(service.runs().len(), 1);
    assert_eq!(
        (daemon.call(call).await.run_id, service.runs().len()),
        (called.run_id, 1),
        "the same call, the same run"
    );
    // The saved workflow takes precedence over the name of the tool.
    let by_name = RunWorkflow {
        workflow_name: Some("workflow_deploy".to_owned()),
        wait_seconds: Some(30.0),
        ..RunWorkflow::default()
    };
    let by_name = daemon.call(by_name).await;
    assert_eq!((by_name.final_state.as_deref(), service.runs().len()), (Some("rest"), 1), "{by_name:?}");
    daemon.stop().await;
}

/// The start and status replies of document 004 (lines 359 and 386-406), and the flow around them (lines 341-450):
/// start by POST, ids from the reply, status by GET while it is RUNNING, then result or error.
#[tokio::test]
async fn documented_flow_runs_as_written() {
    let service = FakeService::start().await;
    service.offer_entry(json!({
        "id": "2724", "name": "Competitor Analysis", "description": "Finds who competes with a domain.",
        "inputSchema": {"type": "object", "properties": {"target_domain": {"type": "string"}}, "required": ["target_domain"]},
        "metadata": {"team": "growth"}
    }));
    let daemon = daemon_of(&service).await;
    let (correlation, instance) = ("2724_9a92222c2ca34fffbfd00e8767dd22d0", "8f496b6a-c905-41bb-b7b7-200a8982ab30");
    let started = json!({"correlation_id": correlation, "workflow_id": instance});
    let input = json!({
        "target_domain": "Enter Domain to Analyze...",
        "context": {
            "space_id": null, "user_id": 556_565, "workspace_id": 82_515, "subscription_id": null, "use_quota": true
        }
    });
    let status = |word: &str| {
        json!({
            "create_time": 1_753_703_781_802_i64, "update_time": 1_753_703_781_904_i64, "status": word,
            "end_time": 1_753_703_781_904_i64, "workflow_id": "2724", "input": input,
            "output": {"competitors_analysis": null}, "start_time": 1_753_703_781_802_i64
        })
    };
    let mut running = status("RUNNING");
    running.as_object_mut().unwrap().remove("end_time");
    running["progress"] = json!(40);
    let domain = json!({"target_domain": "example.com"});
    for (word, success, error) in [("FAILED", false, Some("Workflow execution failed")), ("COMPLETED", true, None)] {
        service.once(Route::Start, Answer::Json(started.clone()));
        // Line 430: a RUNNING status is requested again.
        service.once(Route::Status, Answer::Json(running.clone()));
        service.once(Route::Status, Answer::Json(status(word)));
        let reply = daemon.call(call_request("workflow_competitor_analysis", domain.clone(), 30.0)).await;
        let result = reply.result.clone().unwrap();
        assert_eq!((&result["success"], &result["status"]), (&json!(success), &json!(word)), "{reply:?}");
        assert_eq!(result.get("error").and_then(Value::as_str), error, "line 445");
        // Lines 152-170.
        assert_eq!((&result["correlationId"], &result["workflowInstanceId"]), (&json!(correlation), &json!(instance)));
        assert_eq!((&result["originalWorkflowId"], &result["input"]), (&json!("2724"), &input));
        assert_eq!(result["output"], json!({"competitors_analysis": null}));
        for (name, time) in [
            ("startTime", 1_753_703_781_802_i64),
            ("endTime", 1_753_703_781_904),
            ("createTime", 1_753_703_781_802),
            ("updateTime", 1_753_703_781_904),
            ("executionDuration", 102),
        ] {
            assert_eq!(result[name], time, "{name}: {result}");
        }
        // Lines 188-202, requested by the run's own id.
        service.once(Route::Status, Answer::Json(running.clone()));
        let request = CheckWorkflowStatus { workflow_id: "2724".to_owned(), run_id: reply.run_id, remote: None };
        let checked = serde_json::to_value(daemon.call(request).await).unwrap();
        for (name, expected) in [
            ("success", json!(true)),
            ("status", json!("RUNNING")),
            ("create_time", json!(1_753_703_781_802_i64)),
            ("update_time", json!(1_753_703_781_904_i64)),
            ("start_time", json!(1_753_703_781_802_i64)),
            ("createTime", json!(1_753_703_781_802_i64)),
            ("workflow_id", json!("2724")),
            ("correlationId", json!(correlation)),
            ("workflowInstanceId", json!(instance)),
            ("progress", json!(40)),
            ("input", input.clone()),
        ] {
            assert_eq!(checked[name], expected, "{name}: {checked}");
        }
        assert!(checked.get("end_time").is_none() && checked.get("error").is_none(), "{checked}");
        // The service's own ids are accepted as well; line 202: the error of a failed workflow.
        service.once(Route::Status, Answer::Json(status(word)));
        let request = CheckWorkflowStatus { workflow_id: "2724".to_owned(), run_id: instance.to_owned(), remote: None };
        let checked = daemon.call(request).await;
        assert_eq!((checked.status.as_str(), checked.error.as_deref()), (word, error), "{checked:?}");
        assert_eq!(checked.times.end_time, Some(1_753_703_781_904));
    }
    let requests = service.requests();
    let start = requests.iter().find(|request| request.route == Some(Route::Start)).unwrap();
    // Lines 370-374.
    assert_eq!((start.method.as_str(), start.path.as_str()), ("POST", "/api/v1/service/workflows/2724/start"));
    assert_eq!(start.body, json!({"input": domain, "source": "application"}));
    assert_eq!(start.headers["authorization"], format!("Api-Key {TOKEN}"));
    assert_eq!(start.headers["content-type"], "application/json");
    // Lines 376-384.
    let status = requests.iter().find(|request| request.route == Some(Route::Status)).unwrap();
    let path = format!("/api/v1/service/workflows/2724/runs/{instance}/status");
    assert_eq!((status.method.as_str(), &status.path), ("GET", &path));
    assert_eq!(
        (status.headers["accept"].as_str(), status.headers["accept-language"].as_str()),
        ("application/json", "en")
    );
    assert!(status.at.duration_since(start.at) >= Duration::from_secs(1), "line 379: not sooner than 1000 ms");
    // Line 143.
    let listing = remotes(&daemon).await.workflows.remove(0);
    assert_eq!(listing.metadata.map(Value::Object), Some(json!({"team": "growth"})));
    daemon.stop().await;
}

#[tokio::test]
async fn starts_beyond_the_service_limit_are_queued() {
    let service = FakeService::start().await;
    service.offer("7", "Deploy");
    service.script("7", vec![json!({"status": "RUNNING", "output": null})]);
    let daemon = daemon_with(steplatch_remote::Config { max_concurrent_executions: 1, ..config(&service) }).await;
    let first = deploy(&daemon, 0.0).await;
    service.wait_for(Route::Start, 1).await;
    let second = deploy(&daemon, 0.0).await;
    let third = deploy(&daemon, 0.0).await;
    let client = daemon.person_named("follower").await;
    let (_, mut reported) =
        client.subscribe(Subscribe { run_id: third.run_id.clone(), ..Subscribe::default() }).await.unwrap();
    while reported.next().await.unwrap()["event_type"] != "remote_queued" {}
    let remote = remotes(&daemon).await.remotes.remove(0);
    assert_eq!((remote.running, remote.queued), (1, 2));
    let waiting = daemon.call(GetRun { run_id: second.run_id.clone(), wait_seconds: None, ..GetRun::default() }).await;
    assert!(waiting.next_step.unwrap().contains("is queued"));

    // A run that leaves the queue is skipped.
    assert_eq!(daemon.call(CancelWorkflow { run_id: second.run_id.clone() }).await.state, "cancelled");
    let run = service.runs()[0].id.clone();
    service.script("7", vec![json!({"status": "COMPLETED", "output": {}})]);
    service.script_run(&run, vec![json!({"status": "COMPLETED", "output": {}})]);
    assert_eq!(wait_for_end(&daemon, &first).await.status, "completed");
    assert_eq!(wait_for_end(&daemon, &third).await.status, "completed");
    assert_eq!(service.count(Route::Start), 2);
    daemon.stop().await;
}

#[tokio::test]
async fn unconfirmed_start_is_unknown_and_never_repeated() {
    let service = FakeService::start().await;
    service.offer("7", "Deploy");
    let daemon = daemon_of(&service).await;
    let doubtful = [Answer::Cut, Answer::FailAfter(500), Answer::Text("<html>".to_owned()), Answer::Json(json!({}))];
    for (number, answer) in doubtful.into_iter().enumerate() {
        service.once(Route::Start, answer);
        let reply = deploy(&daemon, 30.0).await;
        assert_eq!((reply.success, reply.status.as_str()), (false, "failed"), "{reply:?}");
        assert_eq!(reply.result.as_ref().unwrap()["status"], "UNKNOWN");
        let error = reply.error.unwrap();
        assert!(error.contains("It is unknown whether") && error.contains(&reply.run_id), "{error}");
        assert_eq!(service.count(Route::Start), number + 1, "one request was sent");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn refused_start_is_retried_only_if_that_may_help() {
    let service = FakeService::start().await;
    service.offer("7", "Deploy");
    let daemon = daemon_of(&service).await;
    service.once(Route::Start, Answer::Busy("1".to_owned()));
    let busy = deploy(&daemon, 30.0).await;
    assert_eq!(busy.status, "completed", "{busy:?}");
    assert!(events(&daemon, &busy).await.contains(&"remote_refused".to_owned()));
    assert_eq!((service.count(Route::Start), service.runs().len()), (2, 1));

    service.once(Route::Start, Answer::Refuse(422, "the moon is not full".to_owned()));
    let refusal = deploy(&daemon, 30.0).await;
    assert!(refusal.error.as_deref().unwrap().contains("the moon is not full"), "{refusal:?}");
    assert_eq!(service.count(Route::Start), 3);

    service.once(Route::Start, Answer::Echo(401));
    let echoed = deploy(&daemon, 30.0).await;
    assert!(!serde_json::to_string(&echoed).unwrap().contains(TOKEN), "{echoed:?}");
    let reported = events(&daemon, &echoed).await;
    assert!(!format!("{reported:?}").contains(TOKEN));
    daemon.stop().await;
}

#[tokio::test]
async fn temporary_poll_failures_do_not_end_a_run() {
    let service = FakeService::start().await;
    service.offer("7", "Deploy");
    let daemon = daemon_of(&service).await;
    service.once(Route::Status, Answer::Refuse(503, "not now".to_owned()));
    service.once(Route::Status, Answer::Text("nonsense".to_owned()));
    service.script(
        "7",
        vec![
            json!({"status": "BEFUDDLED", "output": null}),
            json!({"status": "FAILED", "output": {"message": "the disk is full"}}),
        ],
    );
    let reply = deploy(&daemon, 60.0).await;
    assert_eq!((reply.success, reply.status.as_str()), (false, "failed"), "{reply:?}");
    assert_eq!(reply.error.as_deref(), Some("the disk is full"));
    let result = reply.result.unwrap();
    assert_eq!((&result["status"], &result["output"]["message"]), (&json!("FAILED"), &json!("the disk is full")));
    assert_eq!(result["input"], json!({"to": "prod"}));
    daemon.stop().await;
}

#[tokio::test]
async fn run_waiting_for_remote_input_reports_it_with_stopped_time() {
    let service = FakeService::start().await;
    service.offer("7", "Deploy");
    let gate = json!({"prompt": "Ship it?", "choices": ["yes", "no"]});
    service.script("7", vec![json!({"status": "RUNNING", "output": {"pending_gate": gate}})]);
    let limit = Duration::from_secs(2);
    let daemon = daemon_with(steplatch_remote::Config { execution_timeout: limit, ..config(&service) }).await;
    let waiting = deploy(&daemon, 30.0).await;
    assert_eq!(waiting.status, "waiting", "{waiting:?}");
    assert!(waiting.next_step.as_deref().unwrap().contains("Ship it?"));
    // Longer than the time limit. The daemon checks the limit when it requests the status.
    service.wait_for(Route::Status, 4).await;
    let run = service.runs()[0].id.clone();
    service.script_run(&run, vec![json!({"status": "COMPLETED", "output": {"shipped": true}})]);
    let reported = events(&daemon, &waiting).await;
    assert_eq!(reported.last().map(String::as_str), Some("workflow_completed"), "{reported:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn cancel_and_time_limit_are_forwarded_with_their_outcome() {
    let service = FakeService::start().await;
    service.offer("7", "Deploy");
    service.script("7", vec![json!({"status": "RUNNING", "output": null})]);
    let daemon = daemon_of(&service).await;
    let run = deploy(&daemon, 0.0).await;
    service.wait_for(Route::Start, 1).await;
    let cancelled = daemon.call(CancelWorkflow { run_id: run.run_id.clone() }).await;
    assert_eq!(cancelled.state, "cancelled", "{cancelled:?}");
    assert!(service.runs()[0].is_cancelled);
    let reported = wait_for_end(&daemon, &run).await;
    assert_eq!((reported.success, &reported.result.unwrap()["status"]), (false, &json!("CANCELLED")));

    service.once(Route::Cancel, Answer::Refuse(405, "no".to_owned()));
    let run = deploy(&daemon, 0.0).await;
    service.wait_for(Route::Start, 2).await;
    daemon.call(CancelWorkflow { run_id: run.run_id.clone() }).await;
    assert!(wait_for_end(&daemon, &run).await.error.unwrap().contains("the remote run continues"));

    let limit = Duration::from_secs(1);
    daemon.configure(configuration_with(steplatch_remote::Config { execution_timeout: limit, ..config(&service) }));
    let late_reply = deploy(&daemon, 30.0).await;
    assert_eq!(late_reply.status, "failed", "{late_reply:?}");
    assert!(late_reply.error.unwrap().contains("time limit of 1 s"));
    // Document 004, lines 159 and 231: the status is final, so a polling client stops.
    assert_eq!(late_reply.result.unwrap()["status"], "FAILED");
    assert!(service.runs()[2].is_cancelled);
    daemon.stop().await;
}

#[tokio::test]
async fn paused_run_sends_no_requests() {
    let service = FakeService::start().await;
    service.offer("7", "Deploy");
    service.script("7", vec![json!({"status": "RUNNING", "output": null})]);
    let daemon = daemon_of(&service).await;
    let run = deploy(&daemon, 0.0).await;
    service.wait_for(Route::Status, 1).await;
    assert!(daemon.call(PauseWorkflow { run_id: run.run_id.clone() }).await.success);
    let request_count = service.count(Route::Status);
    let id = service.runs()[0].id.clone();
    service.script_run(&id, vec![json!({"status": "COMPLETED", "output": {}})]);
    // If another run was polled this often, this one would have been polled too.
    let other_run = deploy(&daemon, 0.0).await;
    service.wait_for(Route::Status, request_count + 2).await;
    let of_it = service.requests().iter().filter(|request_count| request_count.path.contains(&id)).count();
    assert!(of_it <= 2, "{of_it} requests about a paused run");
    assert!(daemon.call(ResumeWorkflow { run_id: run.run_id.clone() }).await.success);
    assert_eq!(wait_for_end(&daemon, &run).await.status, "completed");
    daemon.call(CancelWorkflow { run_id: other_run.run_id }).await;
    daemon.stop().await;
}

#[tokio::test]
async fn next_daemon_continues_and_starts_nothing_twice() {
    let service = FakeService::start().await;
    service.offer("7", "Deploy");
    service.script("7", vec![json!({"status": "RUNNING", "output": null})]);
    let daemon = daemon_of(&service).await;
    let run = deploy(&daemon, 0.0).await;
    service.wait_for(Route::Status, 1).await;
    let daemon = daemon.restarted().await;
    service.wait_for(Route::Status, 2).await;
    let id = service.runs()[0].id.clone();
    service.script_run(&id, vec![json!({"status": "COMPLETED", "output": {"fine": true}})]);
    let done = wait_for_end(&daemon, &run).await;
    assert_eq!(done.result.unwrap()["output"], json!({"fine": true}));

    // A run whose start is in progress when the daemon stops.
    service.once(Route::Start, Answer::After(Duration::from_millis(500)));
    let run = deploy(&daemon, 0.0).await;
    service.wait_for(Route::Start, 2).await;
    let daemon = daemon.restarted().await;
    let id = service.runs()[1].id.clone();
    service.script_run(&id, vec![json!({"status": "COMPLETED", "output": {}})]);
    assert_eq!(wait_for_end(&daemon, &run).await.status, "completed");
    assert_eq!(service.count(Route::Start), 2);
    daemon.stop().await;
}

#[tokio::test]
async fn failing_service_removes_no_tool() {
    let service = FakeService::start().await;
    service.offer("7", "Deploy");
    let daemon = daemon_of(&service).await;
    for nonsense in [
        Answer::Text("<html>".to_owned()),
        Answer::Json(json!("what?")),
        Answer::Refuse(500, "no".to_owned()),
        Answer::Cut,
    ] {
        service.always(Route::List, nonsense);
        let refreshed = daemon.call(RefreshWorkflows::default()).await;
        assert!(!refreshed.success && refreshed.error.is_some(), "{refreshed:?}");
        assert_eq!(names(&daemon).await, ["workflow_deploy"]);
        service.well();
    }
    let remote = remotes(&daemon).await.remotes.remove(0);
    assert!(!remote.reachable && remote.error.is_some() && remote.last_discovery.is_some(), "{remote:?}");

    // A daemon started while the service is down has the catalog of its predecessor.
    service.go_down();
    let daemon = daemon.restarted().await;
    assert_eq!(names(&daemon).await, ["workflow_deploy"]);
    let client = daemon.person_named("watcher").await;
    let (_, mut changes) = client.subscribe(Watch {}).await.unwrap();
    service.offer("8", "Rollback");
    service.come_up().await;
    // The daemon requests the list again on its own.
    let reported =
        async { while serde_json::from_value::<Change>(changes.next().await.unwrap()).unwrap() != Change::Tools {} };
    tokio::time::timeout(Duration::from_secs(60), reported).await.expect("the service recovers in time");
    assert_eq!(names(&daemon).await, ["workflow_deploy", "workflow_rollback"]);
    daemon.stop().await;
}

#[tokio::test]
async fn refresh_counts_changes_and_applies_settings_at_once() {
    let service = FakeService::start().await;
    service.offer("1", "Stays");
    service.offer("2", "Changes");
    service.offer("3", "Goes");
    let daemon = daemon_of(&service).await;
    let entry = |id: &str, title: &str| json!({"id": id, "title": title});
    let changed = json!({"id": "2", "title": "Changes", "description": "quite another thing"});
    let stays = service.requests().len();
    assert!(stays > 0);
    service.offer_only(vec![entry("1", "Stays"), changed, entry("4", "Comes")]);
    let refreshed = daemon.call(RefreshWorkflows::default()).await;
    let counts = (refreshed.added, refreshed.updated, refreshed.removed);
    assert_eq!((counts.0, counts.2), (1, 1), "{refreshed:?}");
    assert_eq!(refreshed.added + refreshed.updated + refreshed.unchanged, 3);
    assert_eq!(names(&daemon).await, ["workflow_changes", "workflow_comes", "workflow_stays"]);
    let listing = remotes(&daemon).await;
    assert!(listing.workflows.iter().any(|workflow| workflow.tool == "workflow_changes" && workflow.changed.is_some()));

    let client = daemon.person_named("watcher").await;
    let (_, mut changes) = client.subscribe(Watch {}).await.unwrap();
    daemon.configure(configuration_with(steplatch_remote::Config { enabled: false, ..config(&service) }));
    while serde_json::from_value::<Change>(changes.next().await.unwrap()).unwrap() != Change::Tools {}
    assert_eq!(names(&daemon).await, [""; 0]);
    let request_count = service.requests().len();
    let refreshed = daemon.call(RefreshWorkflows::default()).await;
    assert!(refreshed.success, "there is nothing to request: {refreshed:?}");
    assert_eq!(service.requests().len(), request_count, "an unused service gets no requests");
    daemon.stop().await;
}

#[tokio::test]
async fn list_can_come_from_an_mcp_server() {
    let service = FakeService::start().await;
    service.offer("7", "Deploy");
    let over_mcp = steplatch_remote::Config { discovery_mcp: Some(service.mcp_url()), ..config(&service) };
    let daemon = daemon_with(over_mcp).await;
    assert_eq!(names(&daemon).await, ["workflow_deploy"]);
    assert_eq!(service.count(Route::List), 0);
    assert!(service.count(Route::Mcp) > 0);
    daemon.stop().await;
}

#[tokio::test]
async fn run_of_a_removed_service_says_so_and_can_be_cancelled() {
    let service = FakeService::start().await;
    service.offer("7", "Deploy");
    service.script("7", vec![json!({"status": "RUNNING", "output": null})]);
    let daemon = daemon_of(&service).await;
    let run = deploy(&daemon, 0.0).await;
    service.wait_for(Route::Status, 1).await;
    daemon.configure(Configuration::default());
    let client = daemon.person_named("watcher").await;
    let (_, mut changes) = client.subscribe(Watch {}).await.unwrap();
    let reported = async {
        loop {
            let reported =
                daemon.call(GetRun { run_id: run.run_id.clone(), wait_seconds: None, ..GetRun::default() }).await;
            if let Some(error) = reported.error {
                return error;
            }
            changes.next().await;
        }
    };
    let error = tokio::time::timeout(Duration::from_secs(60), reported).await.unwrap();
    assert!(error.contains("'team' is not configured"), "{error}");
    let cancelled = daemon.call(CancelWorkflow { run_id: run.run_id.clone() }).await;
    assert_eq!(cancelled.state, "cancelled", "{cancelled:?}");
    assert!(wait_for_end(&daemon, &run).await.error.unwrap().contains("the remote run may continue"));
    daemon.stop().await;
}

#[tokio::test]
async fn reported_reason_of_a_service_is_bounded() {
    let service = FakeService::start().await;
    service.offer("7", "Deploy");
    let gate =
        json!({"prompt": "x".repeat(1 << 20), "choices": vec!["y".repeat(1 << 10); 200], "form": "z".repeat(1 << 20)});
    service.script("7", vec![json!({"status": "RUNNING", "output": {"pending_gate": gate}})]);
    let daemon = daemon_of(&service).await;
    let run = deploy(&daemon, 30.0).await;
    assert_eq!(run.status, "waiting");
    let client = daemon.person_named("follower").await;
    let verb = Subscribe { run_id: run.run_id.clone(), ..Subscribe::default() };
    let (_, mut reported) = client.subscribe(verb).await.unwrap();
    let gate = loop {
        let event = reported.next().await.unwrap();
        if event["event_type"] == "remote_status" && !event["data"]["pending_gate"].is_null() {
            break event;
        }
    };
    assert!(gate.to_string().len() < 20_000, "{} bytes", gate.to_string().len());
    daemon.call(CancelWorkflow { run_id: run.run_id }).await;
    daemon.stop().await;
}

const SECRET: &str = "s3cret-value-of-nobody";

/// Types a secret into another terminal: the daemon masks it from then on.
async fn type_secret(daemon: &TestDaemon) {
    let session = daemon.bash().await;
    let secret = SendInput {
        session_id: session.id.clone(),
        input_text: SECRET.to_owned(),
        secret: true,
        ..SendInput::default()
    };
    assert!(daemon.call(secret).await.success);
}

/// Returns the events and the replies of a run so far.
async fn reports_and_events(daemon: &TestDaemon, run: &str) -> String {
    let (run_id, client) = (run.to_owned(), daemon.person_named("follower").await);
    let newest =
        client.subscribe(Subscribe { run_id: run_id.clone(), ..Subscribe::default() }).await.unwrap().0.newest_seq;
    let verb = Subscribe { run_id: run_id.clone(), ..Subscribe::default() };
    let (_, mut events) = client.subscribe(verb).await.unwrap();
    let mut reports_and_events = String::new();
    while let Some(event) = events.next().await {
        reports_and_events.push_str(&event.to_string());
        if event["seq"].as_u64() >= Some(newest) {
            break;
        }
    }
    let record = daemon.call(GetWorkflowRun { run_id: run_id.clone() }).await;
    let report = daemon.call(GetRun { run_id, wait_seconds: None, ..GetRun::default() }).await;
    format!(
        "{reports_and_events}{}{}",
        serde_json::to_string(&record).unwrap(),
        serde_json::to_string(&report).unwrap()
    )
}

#[tokio::test]
async fn secret_unknown_to_a_daemon_is_in_none_of_its_reports() {
    let service = FakeService::start().await;
    service.offer("7", "Deploy");
    let gate = json!({"prompt": format!("Use {SECRET}?"), "choices": [SECRET, "no"]});
    service.script("7", vec![json!({"status": "RUNNING", "output": {"pending_gate": gate}})]);
    let daemon = daemon_of(&service).await;
    let before = daemon.call(call_request("workflow_deploy", json!({"to": SECRET}), 30.0)).await;
    assert_eq!(before.status, "waiting", "{before:?}");
    type_secret(&daemon).await;
    let after = daemon.call(call_request("workflow_deploy", json!({"to": SECRET}), 30.0)).await;
    assert_eq!(service.runs()[1].input, json!({"to": SECRET}), "the service receives the secret");
    let runs = [before.run_id, after.run_id];
    let daemon = daemon.replaced().await;
    for run in &runs {
        let output = reports_and_events(&daemon, run).await;
        assert!(!output.contains(SECRET) && output.contains("Use ••••••?"), "{output}");
    }
    for run in service.runs() {
        let output = json!({"used": SECRET, "input": run.input});
        service.script_run(&run.id, vec![json!({"status": "COMPLETED", "output": output})]);
    }
    for run in &runs {
        let output = events(&daemon, &RunReply { run_id: run.clone(), ..RunReply::default() }).await;
        assert_eq!(output.last().map(String::as_str), Some("workflow_completed"), "{output:?}");
    }
    let daemon = daemon.replaced().await;
    for run in &runs {
        let output = reports_and_events(&daemon, run).await;
        assert!(!output.contains(SECRET) && output.contains("workflow_completed"), "{output}");
    }
    let journal = daemon.paths().journal();
    let daemon = daemon.replaced().await;
    let files = std::fs::read_dir(journal.parent().unwrap()).unwrap().flatten();
    for file in files.filter(|file| file.path().is_file()) {
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()), "{}", file.path().display());
    }
    daemon.stop().await;
}
