//! Properties of Temporal only: an interrupted server, and workers that may exit at any time.

use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::{Map, Value, json};
use steplatch_testkit::{Agent, eventually_blocking};

use super::remotes::{self, Service};
use super::rig::{Rig, kill};

fn on_success(next: &str) -> Value {
    json!([{"condition": "success", "next_state": next}])
}

/// Returns a random number below `bound`.
fn random_below(bound: u32) -> u32 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_micros() % bound
}

/// Returns a state machine that runs numbered commands. Each command appends its number to `counted` once, when a file
/// with the command's name exists.
fn counting_workflow(commands: usize) -> Value {
    let mut states = Map::new();
    let open =
        json!({"action": {"tool": "open_terminal", "params": {"shell": "bash"}}, "transitions": on_success("type_1")});
    states.insert("open".into(), open);
    for number in 1..=commands {
        let next = if number == commands { "end".to_owned() } else { format!("type_{}", number + 1) };
        let command =
            format!("echo {number} >>counted; until [ -e go-{number} ]; do sleep 0.01; done; echo {number} >>ended");
        let action = json!({"tool": "run_command",
            "params": {"session_id": "{session_id}", "command": command, "timeout": 600}});
        let transitions = json!([{"condition": {"outcome_unknown": true}, "next_state": "in_doubt"},
                                 {"condition": "success", "next_state": next}]);
        states.insert(format!("type_{number}"), json!({"action": action, "timeout": 600, "transitions": transitions}));
    }
    for last in ["end", "in_doubt"] {
        states.insert(last.into(), json!({"action": {"tool": "sleep", "params": {"seconds": 0}}}));
    }
    json!({"name": "counting", "initial_state": "open", "states": states})
}

fn read_lines(rig: &Rig, file: &str) -> Vec<String> {
    std::fs::read_to_string(rig.home.path().join(file)).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn commands_run_once_across_fifty_kills_of_all_parts() {
    const KILLS: usize = 50;
    const COMMANDS: usize = KILLS / 2;
    let Some(rig) = Rig::on_temporal("commands_run_once_across_fifty_kills_of_all_parts") else { return };
    let run = rig.begin(counting_workflow(COMMANDS));
    for number in 1..=KILLS {
        if number % 2 == 0 {
            std::fs::write(rig.home.path().join(format!("go-{}", number / 2)), "").unwrap();
        }
        // Kills while the effects of the last command are in progress, or during the wait for the next command.
        std::thread::sleep(Duration::from_millis(random_below(400).into()));
        match random_below(3) {
            0 => {
                rig.kill_worker();
                rig.start_worker();
            }
            1 => {
                rig.kill_server();
                rig.start_server();
            }
            _ => kill(&rig.daemon_status()["pid"], Signal::KILL),
        }
    }
    let outcome = rig.wait_for_end(&run);
    assert_eq!((&outcome["status"], &outcome["final_state"]), (&json!("completed"), &json!("end")), "{outcome}");
    let expected: Vec<String> = (1..=COMMANDS).map(|number| number.to_string()).collect();
    assert_eq!(read_lines(&rig, "counted"), expected);
    assert_eq!(read_lines(&rig, "ended"), expected);
}

#[test]
fn server_outage_is_reported_and_loses_nothing() {
    let Some(rig) = Rig::on_temporal("server_outage_is_reported_and_loses_nothing") else { return };
    let definition = json!({"initial_state": "ask", "states": {
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Go on?"}}, "transitions": on_success("end")},
        "end": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}});
    rig.kill_server();
    let run = rig.begin(definition);
    let connection_error = format!("Temporal at {} is not reached", rig.address());
    eventually_blocking("the run reports its reason to wait", || {
        rig.home.run(&["runs", "show", &run]).stdout.contains(&connection_error)
    });
    rig.start_server();
    let gate = rig.wait_for_gate(&run);
    eventually_blocking("the run is on Temporal", || {
        !rig.home.run(&["runs", "show", &run]).stdout.contains(&connection_error)
    });
    rig.kill_server();
    let refusal = rig.home.run(&["gates", "answer", &gate, "yes"]);
    assert!(refusal.code != 0 && refusal.stderr.contains("not stored yet"), "{}{}", refusal.stdout, refusal.stderr);
    rig.start_server();
    // The worker may have forwarded the first request after all.
    rig.answer_gate(&gate, "yes");
    assert_eq!(rig.wait_for_end(&run)["final_state"], "end");
}

#[test]
fn start_without_a_worker_is_refused_with_the_next_step() {
    let Some(rig) = Rig::on_temporal("start_without_a_worker_is_refused_with_the_next_step") else { return };
    rig.kill_worker();
    let definition =
        json!({"initial_state": "end", "states": {"end": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}});
    let refusal = eventually_blocking("the daemon has noticed that the worker exited", || {
        Some(rig.request_run(definition.clone(), json!({}))).filter(|reply| reply["success"] == false)
    });
    assert!(refusal["error"].as_str().unwrap().contains("steplatch worker --temporal"), "{refusal}");
    let file = rig.home.path().join("end.py");
    std::fs::write(&file, "async def end(ctx):\n    pass\nWorkflow(id='end', session=session, fn=end)\n").unwrap();
    let refusal = rig.agent.call_tool("run_workflow", json!({"workflow_file": file}));
    assert!(refusal["error"].as_str().unwrap().contains("steplatch worker --temporal"), "{refusal}");
    let workflow_file = rig.home.path().join("end.json");
    std::fs::write(&workflow_file, definition.to_string()).unwrap();
    let run = rig.home.run(&["run", workflow_file.to_str().unwrap(), "--on", "sqlite"]);
    assert_eq!(run.code, 0, "the daemon's own engine needs no worker: {}", run.stderr);
}

#[test]
fn stored_data_has_no_definition_output_or_secret() {
    let Some(rig) = Rig::on_temporal("stored_data_has_no_definition_output_or_secret") else { return };
    let definition = json!({
        "name": "sealed", "initial_state": "open",
        "arguments": {"TOKEN": {"description": "a token", "secret": true, "export": true}},
        "states": {
            "open": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}}, "transitions": on_success("type")},
            "type": {"action": {"tool": "run_command", "params": {"session_id": "{session_id}",
                "command": "printf %s \"$TOKEN\" >told; echo prin''ted-words"}}, "transitions": on_success("end")},
            "end": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}});
    let run = rig.begin_with(definition, json!({"initial_variables": {"TOKEN": "hunter2-never-stored"}}));
    assert_eq!(rig.wait_for_end(&run)["status"], "completed");
    assert_eq!(read_lines(&rig, "told"), ["hunter2-never-stored"]);
    rig.kill_server();
    let stored_data = rig.read_stored_data();
    let contains = |text: &str| stored_data.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(contains(&run) && contains("sealed"), "the names of the run and of its workflow are searchable");
    for text in ["hunter2-never-stored", "printed-words", "run_command"] {
        assert!(!contains(text), "{text}");
    }
}

/// Returns whether the server lists a workflow for a query.
fn is_listed(rig: &Rig, query: &str, run: &str) -> bool {
    rig.run_client(&["workflow", "list", "--query", query]).stdout.contains(run)
}

#[test]
fn worker_killed_during_a_node_loses_nothing() {
    let Some(rig) = Rig::on_temporal("worker_killed_during_a_node_loses_nothing") else { return };
    let run = rig.begin_file(
        "async def story(ctx):\n    result = await ctx.run('slow')\n    await ctx.gate('Go on?')\n    return result['output'].strip()\n\
         BashNode(id='slow', session=session, command='echo begun >>counted; until [ -e go ]; do sleep 0.01; done; echo hidden-words')\n\
         Workflow(id='story', session=session, fn=story)\n",
        json!({}),
    );
    eventually_blocking("the node runs", || read_lines(&rig, "counted") == ["begun"]);
    for _ in 0..2 {
        rig.kill_worker();
        rig.start_worker();
    }
    std::fs::write(rig.home.path().join("go"), "").unwrap();
    let gate = rig.wait_for_gate(&run);
    eventually_blocking("the server lists the run", || {
        is_listed(&rig, "StepGateOpen = true AND StepWorkflow = 'story'", &run)
    });
    rig.answer_gate(&gate, "yes");
    assert_eq!(rig.wait_for_end(&run)["result"], "hidden-words");
    assert_eq!(read_lines(&rig, "counted"), ["begun"]);
    eventually_blocking("the run has ended on the server too", || {
        is_listed(&rig, "ExecutionStatus = 'Completed'", &run)
    });
    rig.kill_server();
    let stored_data = rig.read_stored_data();
    assert!(!stored_data.windows(12).any(|part| part == b"hidden-words"), "the output of the node is sealed");
}

#[test]
fn function_nodes_run_once_across_ten_kills() {
    const KILLS: usize = 10;
    let Some(rig) = Rig::on_temporal("function_nodes_run_once_across_ten_kills") else { return };
    let run = rig.begin_file(
        &format!(
            "async def story(ctx):\n    for number in range({KILLS}):\n        done = await ctx.run('count', str(number))\n\
             \x20       if not done['success']:\n            raise RuntimeError(done['error'])\n        await ctx.sleep(0.05)\n\
             BashNode(id='count', session=session, command='echo {{input}} >>counted; until [ -e go-{{input}} ]; do sleep 0.01; done; echo {{input}} >>ended')\n\
             Workflow(id='story', session=session, fn=story)\n"
        ),
        json!({}),
    );
    for number in 0..KILLS {
        // Kills while the effects of the last node are in progress, or while the next node runs.
        std::thread::sleep(Duration::from_millis(random_below(400).into()));
        if random_below(2) == 0 {
            rig.kill_worker();
            rig.start_worker();
        } else {
            rig.kill_server();
            rig.start_server();
        }
        std::fs::write(rig.home.path().join(format!("go-{number}")), "").unwrap();
    }
    let outcome = rig.wait_for_end(&run);
    assert_eq!(outcome["status"], "completed", "{outcome}");
    let expected: Vec<String> = (0..KILLS).map(|number| number.to_string()).collect();
    assert_eq!(read_lines(&rig, "counted"), expected);
    assert_eq!(read_lines(&rig, "ended"), expected);
}

#[test]
fn function_with_too_many_calls_ends_at_the_limit() {
    let Some(rig) = Rig::on_temporal("function_with_too_many_calls_ends_at_the_limit") else { return };
    let run = rig.begin_file(
        "import asyncio\nasync def story(ctx):\n    await asyncio.gather(*[ctx.sleep(600) for _ in range(2001)])\n\
         Workflow(id='story', session=session, fn=story)\n",
        json!({}),
    );
    let outcome = rig.wait_for_end(&run);
    let error = outcome["error"].as_str().unwrap();
    assert!(error.contains("at most 2000 calls") && error.contains("--on sqlite"), "{outcome}");
    let large = rig.begin_file(
        "async def story(ctx):\n    await ctx.run('large')\n\
         BashNode(id='large', session=session, command='head -c 300000 /dev/zero | tr \"\\\\0\" \"\\\\1\"')\n\
         Workflow(id='story', session=session, fn=story)\n",
        json!({}),
    );
    let outcome = rig.wait_for_end(&large);
    let error = outcome["error"].as_str().unwrap();
    assert!(error.contains("has at most 1900000") && error.contains("--on sqlite"), "{outcome}");
    let large_total = rig.begin_file(
        "async def story(ctx):\n    for _ in range(40):\n        await ctx.run('large')\n\
         BashNode(id='large', session=session, command='head -c 500000 /dev/zero | tr \"\\\\0\" x')\n\
         Workflow(id='story', session=session, fn=story)\n",
        json!({}),
    );
    let outcome = rig.wait_for_end(&large_total);
    let error = outcome["error"].as_str().unwrap_or_else(|| panic!("{outcome}"));
    assert!(error.contains("at most 16000000 bytes") && error.contains("--on sqlite"), "{outcome}");
}

#[test]
fn cancel_during_a_server_outage_ends_the_run_later() {
    let Some(rig) = Rig::on_temporal("cancel_during_a_server_outage_ends_the_run_later") else { return };
    let function =
        "async def story(ctx):\n    await ctx.gate('Go on?')\nWorkflow(id='story', session=session, fn=story)\n";
    let run = rig.begin_file(function, json!({}));
    rig.wait_for_gate(&run);
    rig.kill_server();
    let cancel = rig.agent.begin("cancel_run", json!({"run_id": run}));
    rig.start_server();
    let cancel_reply = cancel.finish();
    assert_eq!(cancel_reply["state"], "cancelled", "{cancel_reply}");
}

#[test]
fn cancel_without_a_worker_ends_the_run_once_one_starts() {
    let Some(rig) = Rig::on_temporal("cancel_without_a_worker_ends_the_run_once_one_starts") else { return };
    let definition = json!({"initial_state": "ask", "states": {"ask": {"action": {"tool": "gate", "params": {"prompt": "Go on?"}}}}});
    let function =
        "async def story(ctx):\n    await ctx.gate('Go on?')\nWorkflow(id='story', session=session, fn=story)\n";
    let runs = [rig.begin(definition.clone()), rig.begin_file(function, json!({}))];
    for run in &runs {
        rig.wait_for_gate(run);
    }
    rig.kill_worker();
    eventually_blocking("the daemon has noticed that the worker exited", || {
        rig.request_run(definition.clone(), json!({}))["success"] == false
    });
    let cancels = runs.each_ref().map(|run| rig.agent.begin("cancel_run", json!({"run_id": run})));
    eventually_blocking("the runs name what is missing", || {
        runs.iter().all(|run| rig.home.run(&["runs", "show", run]).stdout.contains("steplatch worker --temporal"))
    });
    rig.start_worker();
    for cancel in cancels {
        let cancel_reply = cancel.finish();
        assert_eq!(cancel_reply["state"], "cancelled", "{cancel_reply}");
    }
}

#[test]
fn unsealed_input_is_refused_and_named() {
    let Some(rig) = Rig::on_temporal("unsealed_input_is_refused_and_named") else { return };
    let definition = json!({"initial_state": "ask", "states": {
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Go on?"}}, "transitions": on_success("end")},
        "end": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}});
    let run = rig.begin(definition);
    let gate = rig.wait_for_gate(&run);
    let step = format!("{run}/ask/1");
    let answer = json!({"input": {"kind": "gate_answered", "step": step, "choice": "yes", "by": {"who": "mallory"}}});
    let signal = ["workflow", "signal", "--workflow-id", &run, "--name", "notify", "--input", &answer.to_string()];
    assert_eq!(rig.run_client(&signal).code, 0);
    eventually_blocking("the worker logs its refusal", || {
        std::fs::read_to_string(rig.worker_log()).unwrap().contains("a payload is not sealed")
    });
    assert_eq!(rig.wait_for_gate(&run), gate, "the gate is still open");
    // The signal stays in the history, so only without it does the run continue.
    assert_eq!(rig.run_client(&["workflow", "terminate", "--workflow-id", &run]).code, 0);
    eventually_blocking("the run has ended locally too", || rig.get_run(&run)["status"] == "cancelled");
}

#[test]
fn run_at_an_unknown_screen_cannot_be_patched_on_temporal() {
    let Some(rig) = Rig::on_temporal("run_at_an_unknown_screen_cannot_be_patched_on_temporal") else { return };
    let definition = json!({"initial_state": "open", "states": {
        "open": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}}, "transitions": on_success("wait")},
        "wait": {"action": {"tool": "await_output", "params": {"pattern": "never-printed", "timeout": 1}}, "on_unknown": "ask",
                 "transitions": on_success("end")},
        "end": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}});
    let run = rig.begin(definition);
    rig.wait_for_gate(&run);
    let patch = json!([{"op": "replace", "path": "/states/wait/action/params/timeout", "value": 2}]);
    let refusal =
        rig.agent.call_tool("propose_patch", json!({"run_id": run, "patch": patch, "reason": "It takes longer."}));
    assert!(refusal["error"].as_str().unwrap().contains("is on Temporal"), "{refusal}");
    let reply = rig.agent.call_tool("decide", json!({"run_id": run, "answer": "go on with 'end'"}));
    assert_eq!(reply["success"], true, "{reply}");
    assert_eq!(rig.wait_for_end(&run)["final_state"], "end");
}

#[test]
fn foreign_worker_decides_and_own_worker_performs() {
    // Dropped after the rig, whose worker would restart its daemon.
    let other_home = Rig::home_on_temporal();
    let Some(rig) = Rig::on_temporal("foreign_worker_decides_and_own_worker_performs") else { return };
    let other_agent = Agent::new(&other_home);
    let key = rig.key_file();
    rig.start_worker_for(&other_home, &["--key", key.to_str().unwrap()]);
    let mut states = counting_workflow(3);
    states["states"]["type_1"]["transitions"] = on_success("ask");
    let gate = json!({"action": {"tool": "gate", "params": {"prompt": "Go on?"}}, "transitions": on_success("type_2")});
    states["states"]["ask"] = gate;
    let run = rig.begin(states);
    eventually_blocking("the first command runs", || read_lines(&rig, "counted") == ["1"]);
    // From here, the worker of this host performs tasks but decides nothing.
    rig.kill_worker();
    rig.start_worker_with(&["--tasks-only"]);
    for number in 1..=3 {
        std::fs::write(rig.home.path().join(format!("go-{number}")), "").unwrap();
    }
    let gate = rig.wait_for_gate(&run);
    let get_run_from = |agent: &Agent| agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 0}));
    assert!(get_run_from(&other_agent)["error"].as_str().is_some(), "the other host has no journal of the run");
    rig.answer_gate(&gate, "yes");
    let outcome = rig.wait_for_end(&run);
    assert_eq!((&outcome["status"], &outcome["final_state"]), (&json!("completed"), &json!("end")), "{outcome}");
    assert_eq!(read_lines(&rig, "counted"), ["1", "2", "3"]);
    assert!(!other_home.path().join("counted").exists());
    // The other host has its own runs and its own list.
    let other_run = eventually_blocking("a run of the other host begins", || {
        let definition =
            json!({"initial_state": "end", "states": {"end": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}});
        let other_run =
            other_agent.call_tool("run_workflow", json!({"workflow_definition": definition, "wait_seconds": 30}));
        Some(other_run).filter(|other_run| other_run["status"] == "completed")
    });
    assert!(!rig.home.run(&["runs", "list", "--json"]).stdout.contains(other_run["run_id"].as_str().unwrap()));
}

#[test]
fn remote_workflow_ended_on_the_server_is_cancelled_remotely() {
    let Some(rig) = Rig::on_temporal("remote_workflow_ended_on_the_server_is_cancelled_remotely") else { return };
    let service = Service::start(&rig);
    for (number, action) in ["cancel", "terminate"].into_iter().enumerate() {
        let run = remotes::start_remote_run(&rig);
        let remote_run = service.newest_run(number + 1);
        let is_listed = |query: &str| is_listed(&rig, &format!("{query} AND StepWorkflow = 'workflow_deploy'"), &run);
        eventually_blocking("the server shows its status", || {
            is_listed("StepState = 'RUNNING' AND StepGateOpen = false")
        });
        service.set_status(&remote_run, json!({"status": "WAITING", "output": {"pending_gate": {"prompt": "Go on?"}}}));
        eventually_blocking("the server shows its gate", || is_listed("StepState = 'WAITING' AND StepGateOpen = true"));
        rig.run_client(&["workflow", action, "--workflow-id", &run]).expect_success();
        // A wait for the end also returns while the run waits at the service.
        eventually_blocking("the run is cancelled", || rig.get_run(&run)["status"] == "cancelled");
        assert_eq!(service.cancel_count(), number + 1);
    }
    // For a waiting machine, only the Temporal workflow that follows the service is terminated.
    let run = rig.begin(remotes::outer_workflow());
    service.newest_run(3);
    let nested_run =
        eventually_blocking("the nested run has begun", || Some(rig.nested_run(&run)?["run_id"].as_str()?.to_owned()));
    eventually_blocking("the server has the nested run", || {
        rig.run_client(&["workflow", "terminate", "--workflow-id", &nested_run]).code == 0
    });
    assert_eq!(rig.wait_for_end(&run)["status"], "failed");
    eventually_blocking("the service has cancelled its run", || service.cancel_count() == 3);
}

#[test]
fn answer_and_start_wait_for_the_worker_after_a_crash() {
    let Some(rig) = Rig::on_temporal("answer_and_start_wait_for_the_worker_after_a_crash") else { return };
    let definition = json!({"initial_state": "ask", "states": {"ask": {"action": {"tool": "gate", "params": {"prompt": "Go on?"}}}}});
    let run = rig.begin(definition.clone());
    let gate = rig.wait_for_gate(&run);
    kill(&rig.daemon_status()["pid"], Signal::KILL);
    rig.home.run(&["gates", "answer", &gate, "yes"]).expect_success();
    assert_eq!(rig.wait_for_end(&run)["status"], "completed");
    kill(&rig.daemon_status()["pid"], Signal::KILL);
    rig.wait_for_gate(&rig.begin(definition));
}

#[test]
fn children_of_a_terminated_run_end_with_it() {
    let Some(rig) = Rig::on_temporal("children_of_a_terminated_run_end_with_it") else { return };
    let definition = json!({"initial_state": "ask", "states": {"ask": {"action": {"tool": "gate", "params": {"prompt": "Go on?"}}}}});
    let outer = json!({"initial_state": "open", "states": {
        "open": {"action": {"tool": "open_terminal", "params": {"shell": "cat"}}, "transitions": on_success("nest")},
        "nest": {"action": {"tool": "run_workflow", "params": {"workflow_definition": definition}}}}});
    let function = "async def story(ctx):\n    return await ctx.run_workflow('inner')\n\
         async def inner(ctx):\n    await ctx.gate('Go on?')\n\
         Workflow(id='inner', session=session, fn=inner)\nWorkflow(id='story', session=session, fn=story)\n";
    for is_function in [false, true] {
        let run = match is_function {
            true => rig.begin_file(function, json!({"workflow_name": "story"})),
            false => rig.begin(outer.clone()),
        };
        rig.wait_for_gate(&run);
        // The run was started by another worker.
        rig.kill_worker();
        rig.start_worker();
        rig.await_worker();
        rig.run_client(&["workflow", "terminate", "--workflow-id", &run]).expect_success();
        eventually_blocking("all runs have ended", || {
            let list = rig.home.run(&["runs", "list", "--json"]).json();
            let is_finished = |run: &Value| run["state"] != "waiting" && run["state"] != "running";
            if list["runs"].as_array().unwrap().iter().all(is_finished) { Ok(()) } else { Err(list) }
        });
        eventually_blocking("all terminals are closed", || {
            let list = rig.agent.call_tool("list_terminal_sessions", json!({}));
            if list["sessions"] == json!([]) { Ok(()) } else { Err(list) }
        });
    }
}
