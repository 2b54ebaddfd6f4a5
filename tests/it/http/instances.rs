//! Two instances: one serves its workflows, the other uses them as tools and runs them, while processes are killed.

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::fake::{Answer, Route, TOKEN};
use steplatch_testkit::{Agent, Era, FakeService, Home, eventually_blocking};

use crate::http::client::{HttpServer, STEPLATCH, gate_workflow};

/// Returns the daemon's log.
fn read_log(home: &Home) -> String {
    let status = home.run(&["daemon", "status", "--json"]).json();
    std::fs::read_to_string(PathBuf::from(status["socket"].as_str().unwrap()).with_file_name("daemon.log")).unwrap()
}

/// Configures a remote service, whose runs are logged.
fn configure(home: &Home, url: &str, token: &str) {
    let directory = home.path().join(".config/steplatch");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("config.toml"), "daemon.log = 'info'\n").unwrap();
    home.configure_service(url, token);
}

fn kill_daemon(home: &Home) {
    let pid = home.run(&["daemon", "status", "--json"]).json()["pid"].as_i64().unwrap();
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// Returns the newest run of the serving instance, once it waits at its gate.
fn wait_for_new_gate(north: &HttpServer, after: &[String]) -> String {
    // Another client started the run over HTTP, so this test can only poll.
    eventually_blocking("a new run waits", || {
        let runs = north.get("/api/v1/runs?state=waiting").1;
        let ids = runs["runs"].as_array().into_iter().flatten().filter_map(|run| run["run_id"].as_str());
        ids.map(str::to_owned).find(|run| !after.contains(run)).ok_or(runs)
    })
}

/// Follows a run to its end and returns its final report.
fn wait_for_end(home: &Home, run: &str) -> Value {
    home.run(&["runs", "events", run, "--follow", "--json"]).expect_success();
    home.run(&["runs", "show", run, "--json"]).json()
}

#[test]
fn workflows_of_one_instance_are_tools_of_another_despite_kills() {
    let north = HttpServer::new();
    let (_, first_run) =
        north.post("/api/v1/runs", json!({"workflow_definition": gate_workflow("human"), "wait_seconds": 0}));
    let first_run = first_run["run_id"].as_str().unwrap().to_owned();
    let mut gates = vec![wait_for_new_gate(&north, &[])];
    assert_eq!(gates, [first_run.as_str()]);
    north.home.run(&["gates", "answer", &first_run, "yes"]).expect_success();
    assert_eq!(north.wait_for_run(&first_run)["status"], "completed");

    let south = Home::new(STEPLATCH);
    configure(&south, &format!("http://127.0.0.1:{}", north.port), &north.token);
    let agent = Agent::new(&south);
    let refresh = agent.call_tool("refresh_workflows", json!({}));
    assert_eq!((&refresh["success"], &refresh["remotes"][0]["workflows"]), (&json!(true), &json!(1)), "{refresh}");
    let tools = agent.send_request("tools/list", json!({}));
    let names: Vec<&str> =
        tools["result"]["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&"workflow_asking"), "{names:?}");

    // A run with a gate. A person answers it at the serving instance.
    let call = agent.begin("workflow_asking", json!({"to": "prod"}));
    let gate = wait_for_new_gate(&north, &gates);
    let waiting = call.finish();
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    assert!(waiting["next_step"].as_str().unwrap().contains("Go on?"), "{waiting}");
    let run = waiting["run_id"].as_str().unwrap();
    north.home.run(&["gates", "answer", &gate, "yes"]).expect_success();
    let record = wait_for_end(&south, run);
    assert_eq!(
        (&record["state"], &record["result"]["workflowInstanceId"]),
        (&json!("completed"), &json!(gate)),
        "{record}"
    );
    gates.push(gate);

    // Both instances are killed in the middle.
    for killed_home in [&south, &north.home] {
        let run = south.run(&["run", "workflow_asking", "--detach"]).expect_success().trim().to_owned();
        let gate = wait_for_new_gate(&north, &gates);
        kill_daemon(killed_home);
        north.home.run(&["gates", "answer", &gate, "yes"]).expect_success();
        let record = wait_for_end(&south, &run);
        assert_eq!(
            (&record["state"], &record["result"]["workflowInstanceId"]),
            (&json!("completed"), &json!(gate)),
            "{record}"
        );
        gates.push(gate);
    }

    // Cancelling the local run cancels the remote run.
    let run = south.run(&["run", "workflow_asking", "--detach"]).expect_success().trim().to_owned();
    let gate = wait_for_new_gate(&north, &gates);
    let cancel_reply = agent.call_tool("cancel_run", json!({"run_id": run}));
    assert_eq!(cancel_reply["state"], "cancelled", "{cancel_reply}");
    assert_eq!(north.wait_for_run(&gate)["status"], "cancelled");
}

#[test]
fn call_of_a_remote_tool_returns_the_services_result() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let service = runtime.block_on(FakeService::start());
    service.offer("7", "Deploy");
    service.offer_entry(json!({"id": "8", "title": "Breaks", "executionType": "sync"}));
    service.script("8", vec![json!({"status": "FAILED", "output": {"error": "the disk is full"}})]);
    let home = Home::new(STEPLATCH);
    configure(&home, &service.url(), TOKEN);
    for agent in [Agent::with_era(Era::Handshake, &home), Agent::with_era(Era::Stateless, &home)] {
        let _ = agent.call_tool("refresh_workflows", json!({}));
        let completed_reply = agent.call_tool("workflow_deploy", json!({"to": "prod"}));
        assert_eq!(
            (&completed_reply["success"], &completed_reply["status"]),
            (&json!(true), &json!("COMPLETED")),
            "{completed_reply}"
        );
        assert_eq!(
            (&completed_reply["originalWorkflowId"], &completed_reply["input"]),
            (&json!("7"), &json!({"to": "prod"})),
            "{completed_reply}"
        );
        assert!(
            completed_reply["correlationId"].is_string() && completed_reply["run_id"].is_string(),
            "{completed_reply}"
        );
        let failed_reply = agent.begin("workflow_breaks", json!({})).answer();
        assert_eq!(failed_reply["result"]["isError"], true, "{failed_reply}");
        let report = &failed_reply["result"]["structuredContent"];
        assert_eq!(
            (&report["status"], &report["error"]),
            (&json!("FAILED"), &json!("the disk is full")),
            "{failed_reply}"
        );
    }
    // Document 004, lines 484 and 496-499: each start and each end is logged, for audit.
    let log = read_log(&home);
    let count_lines = |words: &str, parts: &[&str]| {
        let report = log.lines().filter(|line| line.contains("INFO") && line.contains(words));
        report.filter(|line| parts.iter().all(|part| line.contains(part)) && line.contains(" run=run_")).count()
    };
    for (tool, id, outcome) in [("workflow_deploy", "7", "completed"), ("workflow_breaks", "8", "failed")] {
        let (workflow, id) = (format!("workflow=\"{tool}\""), format!("workflow_id=\"{id}\""));
        let run_fields = ["service=\"north\"", workflow.as_str(), id.as_str()];
        assert_eq!(count_lines("a run of a remote workflow started", &run_fields), 2, "{log}");
        let outcome = format!("outcome=\"{outcome}\"");
        assert_eq!(
            count_lines("a run of a remote workflow ended", &[run_fields.as_slice(), &[outcome.as_str()]].concat()),
            2,
            "{log}"
        );
    }
    assert!(log.contains("error=\"the disk is full\"") && !log.contains(TOKEN), "{log}");
}

#[test]
fn start_interrupted_by_a_kill_is_unknown_and_not_repeated() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let service = runtime.block_on(FakeService::start());
    service.offer("7", "Deploy");
    let home = Home::new(STEPLATCH);
    configure(&home, &service.url(), TOKEN);
    home.run(&["remote", "refresh"]).expect_success();
    // The service performs the request without a response.
    service.once(Route::Start, Answer::Hang);
    let run = home.run(&["run", "workflow_deploy", "--detach"]).expect_success().trim().to_owned();
    runtime.block_on(service.wait_for(Route::Start, 1));
    kill_daemon(&home);
    let record = wait_for_end(&home, &run);
    assert_eq!((&record["state"], &record["result"]["status"]), (&json!("failed"), &json!("UNKNOWN")), "{record}");
    assert!(record["error"].as_str().unwrap().contains("not started again"), "{record}");
    assert_eq!(service.count(Route::Start), 1);
    assert!(!record.to_string().contains(TOKEN));
}
