//! The cases of the suite, the same for every engine.

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Map, Value, json};
use steplatch_testkit::eventually_blocking;

use super::rig::{Rig, kill};

/// Returns the transition after the success of a state.
fn on_success(next: &str) -> Value {
    json!([{"condition": "success", "next_state": next}])
}

fn state_machine(initial: &str, states: Value) -> Value {
    json!({"name": "case", "initial_state": initial, "states": states})
}

/// Returns a state that ends a run.
fn final_state() -> Value {
    json!({"action": {"tool": "sleep", "params": {"seconds": 0}}})
}

fn open_state(next: &str) -> Value {
    json!({"action": {"tool": "open_terminal", "params": {"shell": "bash"}}, "transitions": on_success(next)})
}

fn gate_state(next: &str) -> Value {
    json!({"action": {"tool": "gate", "params": {"prompt": "Go on?"}}, "transitions": [
        {"condition": {"field_equals": {"answer": "yes"}}, "next_state": next}, {"condition": "success", "next_state": "refused"}]})
}

/// Returns a state that types a command which notes its start, waits for the file `go`, and prints that it is done.
fn command_state(next: &str) -> Value {
    let command = "echo once >>began; until [ -e go ]; do sleep 0.01; done; echo all-done";
    json!({"action": {"tool": "run_command", "params": {"session_id": "{session_id}", "command": command, "timeout": 120}},
           "timeout": 120, "transitions": [
        {"condition": {"outcome_unknown": true}, "next_state": "in_doubt"}, {"condition": "success", "next_state": next}]})
}

fn read_lines(rig: &Rig, file: &str) -> Vec<String> {
    std::fs::read_to_string(rig.home.path().join(file)).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn release_command(rig: &Rig) {
    std::fs::write(rig.home.path().join("go"), "").unwrap();
}

fn file_exists(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.len() > 0)
}

pub(super) fn pending_effect_is_performed_once_after_a_crash(rig: &Rig) {
    let states = json!({"open": open_state("ask"), "ask": gate_state("type"), "type": command_state("end"), "end": final_state(), "in_doubt": final_state(),
                        "refused": final_state()});
    release_command(rig);
    let run = rig.begin(state_machine("open", states));
    let gate = rig.wait_for_gate(&run);
    let (host, daemon) = (rig.host_pid(), rig.daemon_status());
    // A stopped host performs nothing: the command is decided, but not typed.
    kill(&host, Signal::STOP);
    rig.answer_gate(&gate, "yes");
    rig.wait_for_state(&run, "type");
    rig.kill_worker();
    kill(&daemon["pid"], Signal::KILL);
    assert!(read_lines(rig, "began").is_empty());
    kill(&host, Signal::CONT);
    rig.recover();
    let outcome = rig.wait_for_end(&run);
    assert_eq!((&outcome["status"], &outcome["final_state"]), (&json!("completed"), &json!("end")), "{outcome}");
    assert_eq!(read_lines(rig, "began"), ["once"]);
}

pub(super) fn effect_in_progress_is_not_repeated_after_a_crash(rig: &Rig) {
    let states = json!({"open": open_state("type"), "type": command_state("end"), "end": final_state(), "in_doubt": final_state()});
    let run = rig.begin(state_machine("open", states));
    let start_file = rig.home.path().join("began");
    for _ in 0..2 {
        eventually_blocking("the command runs", || file_exists(&start_file));
        rig.crash();
        rig.recover();
    }
    release_command(rig);
    let outcome = rig.wait_for_end(&run);
    assert_eq!((&outcome["status"], &outcome["final_state"]), (&json!("completed"), &json!("end")), "{outcome}");
    assert_eq!(read_lines(rig, "began"), ["once"]);
}

pub(super) fn gate_survives_a_crash_and_takes_an_answer(rig: &Rig) {
    let states = json!({"ask": gate_state("end"), "end": final_state(), "refused": final_state()});
    let runs = [rig.begin(state_machine("ask", states.clone())), rig.begin(state_machine("ask", states))];
    let gates: Vec<String> = runs.iter().map(|run| rig.wait_for_gate(run)).collect();
    rig.crash();
    rig.recover();
    assert_eq!(rig.get_run(&runs[0])["status"], "waiting");
    rig.answer_gate(&gates[0], "yes");
    rig.answer_gate(&gates[1], "no");
    assert_eq!(rig.wait_for_end(&runs[0])["final_state"], "end");
    assert_eq!(rig.wait_for_end(&runs[1])["final_state"], "refused");
}

pub(super) fn second_answer_is_refused_naming_the_first(rig: &Rig) {
    let states =
        json!({"ask": gate_state("again"), "again": gate_state("end"), "end": final_state(), "refused": final_state()});
    let run = rig.begin(state_machine("ask", states));
    let gate = rig.wait_for_gate(&run);
    rig.answer_gate(&gate, "yes");
    let refusal = rig.home.run(&["gates", "answer", &gate, "no"]);
    assert!(refusal.code != 0 && refusal.stderr.contains("answered"), "{}{}", refusal.stdout, refusal.stderr);
    let next =
        eventually_blocking("the next gate is open", || Some(rig.wait_for_gate(&run)).filter(|next| *next != gate));
    rig.answer_gate(&next, "yes");
    assert_eq!(rig.wait_for_end(&run)["final_state"], "end");
}

pub(super) fn nested_run_survives_a_crash_and_returns_its_result(rig: &Rig) {
    let inner = json!({"initial_state": "ask", "states": {
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Go on?"}}, "transitions": on_success("found")},
        "found": {"action": {"tool": "return", "params": {"result": "from below"}}}}});
    let states = json!({
        "nest": {"action": {"tool": "run_workflow", "params": {"workflow_definition": inner}}, "transitions": on_success("end")},
        "end": {"action": {"tool": "return", "params": {"result": "{nest_result}"}}},
    });
    let run = rig.begin(state_machine("nest", states));
    let gate = rig.wait_for_gate(&run);
    rig.crash();
    rig.recover();
    rig.answer_gate(&gate, "yes");
    let outcome = rig.wait_for_end(&run);
    assert_eq!((&outcome["status"], &outcome["result"]), (&json!("completed"), &json!("from below")), "{outcome}");
}

pub(super) fn returning_host_finds_output_printed_while_it_was_away(rig: &Rig) {
    let say = "echo r''eady; until [ -e go ]; do sleep 0.01; done; echo was-${x:-here}; touch said\n";
    let states = json!({
        "open": open_state("type"),
        "type": {"action": {"tool": "send_input", "params": {"input_text": say}}, "transitions": on_success("wait")},
        "wait": {"action": {"tool": "await_output", "params": {"pattern": "^was-here", "timeout": 120}}, "timeout": 120,
                 "transitions": on_success("end")},
        "end": final_state(),
    });
    let run = rig.begin(state_machine("open", states));
    rig.wait_for_state(&run, "wait");
    rig.crash();
    release_command(rig);
    eventually_blocking("the program has printed", || rig.home.path().join("said").exists());
    rig.recover();
    assert_eq!(rig.wait_for_end(&run)["final_state"], "end");
}

pub(super) fn events_after_a_cancel_change_nothing(rig: &Rig) {
    let states = json!({"open": open_state("type"), "type": command_state("end"), "end": final_state(), "in_doubt": final_state()});
    let run = rig.begin_with(state_machine("open", states), json!({"keep_terminals": true}));
    let start_file = rig.home.path().join("began");
    eventually_blocking("the command runs", || file_exists(&start_file));
    rig.home.run(&["runs", "cancel", &run]).expect_success();
    release_command(rig);
    let outcome = rig.wait_for_end(&run);
    assert_eq!((&outcome["status"], &outcome["states_executed"]), (&json!("cancelled"), &json!(2)), "{outcome}");
    rig.crash();
    rig.recover();
    assert_eq!(rig.get_run(&run)["status"], "cancelled");
    let second_cancel = rig.home.run(&["runs", "cancel", &run]);
    assert!(
        second_cancel.code == 0 || second_cancel.stderr.contains("over"),
        "{}{}",
        second_cancel.stdout,
        second_cancel.stderr
    );
    assert_eq!(read_lines(rig, "began"), ["once"]);
}

pub(super) fn cancel_at_a_nested_gate_closes_the_terminals_of_the_run(rig: &Rig) {
    let nest = json!({"action": {"tool": "run_workflow", "params": {"workflow_definition": state_machine("ask", json!({"ask": gate_state("end"), "end": final_state(), "refused": final_state()}))}},
        "transitions": on_success("end")});
    let run = rig.begin(state_machine("open", json!({"open": open_state("nest"), "nest": nest, "end": final_state()})));
    rig.wait_for_gate(&run);
    rig.home.run(&["runs", "cancel", &run]).expect_success();
    let terminals = rig.agent.call_tool("list_terminal_sessions", json!({}));
    assert_eq!(terminals["sessions"], json!([]), "{terminals}");
}

pub(super) fn run_ends_at_its_state_limit(rig: &Rig) {
    let states = json!({"round": {"action": {"tool": "list_terminal_sessions"}, "transitions": on_success("round")}});
    let run = rig.begin_with(state_machine("round", states), json!({"max_states": 5}));
    let outcome = rig.wait_for_end(&run);
    assert_eq!((&outcome["status"], &outcome["states_executed"]), (&json!("failed"), &json!(5)), "{outcome}");
}

pub(super) fn run_ends_at_its_time_limit(rig: &Rig) {
    let states = json!({"long": {"action": {"tool": "sleep", "params": {"seconds": 600}}, "timeout": 900}});
    let run = rig.begin_with(state_machine("long", states), json!({"execution_timeout": 1}));
    let outcome = rig.wait_for_end(&run);
    assert_eq!(outcome["status"], "failed", "{outcome}");
    assert!(outcome["error"].as_str().unwrap().contains("time"), "{outcome}");
}

pub(super) fn state_ends_at_its_time_limit(rig: &Rig) {
    let states = json!({
        "open": open_state("wait"),
        "wait": {"action": {"tool": "await_output", "params": {"pattern": "never-printed", "timeout": 600}}, "timeout": 1,
                 "on_timeout": "late"},
        "late": final_state(),
    });
    let outcome = rig.wait_for_end(&rig.begin(state_machine("open", states)));
    assert_eq!((&outcome["status"], &outcome["final_state"]), (&json!("completed"), &json!("late")), "{outcome}");
}

pub(super) fn paused_run_begins_nothing_and_continues_when_resumed(rig: &Rig) {
    let states = json!({"open": open_state("type"), "type": command_state("more"), "in_doubt": final_state(),
        "more": {"action": {"tool": "run_command", "params": {"session_id": "{session_id}", "command": "echo more >>began"}},
                 "transitions": on_success("end")},
        "end": final_state()});
    let run = rig.begin(state_machine("open", states));
    let start_file = rig.home.path().join("began");
    eventually_blocking("the command runs", || file_exists(&start_file));
    rig.home.run(&["runs", "pause", &run]).expect_success();
    release_command(rig);
    rig.crash();
    rig.recover();
    eventually_blocking("the run is paused", || {
        let run = rig.get_run(&run);
        run["paused"]["since"].is_string() && run["states_executed"] == 2
    });
    assert_eq!(read_lines(rig, "began"), ["once"]);
    rig.home.run(&["runs", "resume", &run]).expect_success();
    assert_eq!(rig.wait_for_end(&run)["final_state"], "end");
    assert_eq!(read_lines(rig, "began"), ["once", "more"]);
}

pub(super) fn start_with_the_same_key_is_the_same_run(rig: &Rig) {
    let states = json!({"open": open_state("type"), "type": command_state("end"), "end": final_state(), "in_doubt": final_state()});
    release_command(rig);
    let start_run = || rig.begin_with(state_machine("open", states.clone()), json!({"idempotency_key": "only-one"}));
    let first = start_run();
    rig.crash();
    rig.recover();
    assert_eq!(start_run(), first);
    assert_eq!(rig.wait_for_end(&first)["final_state"], "end");
    assert_eq!(start_run(), first);
    assert_eq!(read_lines(rig, "began"), ["once"]);
}

pub(super) fn run_with_a_thousand_states_completes(rig: &Rig) {
    const STATES: usize = 1000;
    // A definition has at most a hundred states, so they run ten times. Every tenth state is an action of the host.
    let mut states = Map::new();
    for number in 1..100 {
        let action = match number % 10 {
            0 => json!({"tool": "list_terminal_sessions"}),
            _ => json!({"tool": "set", "params": {"number": number}}),
        };
        let state = json!({"action": action, "transitions": on_success(&format!("s{}", number + 1))});
        states.insert(format!("s{number}"), state);
    }
    // In the tenth round no transition holds, and the run is complete.
    let repeats: Vec<Value> = (1..10)
        .map(|round| json!({"condition": {"field_equals": {"assigned.round": round}}, "next_state": "s1"}))
        .collect();
    let count = json!({"action": {"tool": "set", "params": {"round": "{visits}"}}, "transitions": repeats});
    states.insert("s100".to_owned(), count);
    let run = rig.begin_with(state_machine("s1", states.into()), json!({"max_states": STATES}));
    let outcome = rig.wait_for_end(&run);
    assert_eq!(
        (&outcome["status"], &outcome["states_executed"]),
        (&json!("completed"), &json!(STATES)),
        "{}",
        outcome["error"]
    );
}

pub(super) fn unknown_outcome_stays_unknown(rig: &Rig) {
    let states = json!({"open": open_state("type"), "type": command_state("end"), "end": final_state(), "in_doubt": gate_state("end"), "refused": final_state()});
    let run = rig.begin(state_machine("open", states));
    let start_file = rig.home.path().join("began");
    eventually_blocking("the command runs", || file_exists(&start_file));
    // Only the host knows the typed input.
    let (host, daemon) = (rig.host_pid(), rig.daemon_status());
    rig.kill_worker();
    kill(&daemon["pid"], Signal::KILL);
    kill(&host, Signal::KILL);
    rig.recover();
    let gate = rig.wait_for_gate(&run);
    rig.crash();
    rig.recover();
    rig.wait_for_state(&run, "in_doubt");
    rig.answer_gate(&gate, "yes");
    assert_eq!(rig.wait_for_end(&run)["final_state"], "end");
    assert_eq!(read_lines(rig, "began"), ["once"]);
}

pub(super) fn failed_run_shows_its_last_screen(rig: &Rig) {
    let states = json!({
        "open": open_state("type"),
        "type": {"action": {"tool": "run_command", "params": {"session_id": "{session_id}", "command": "echo seen-$((40+2)); false"}},
                 "transitions": [{"condition": {"field_equals": {"exit_code": 0}}, "next_state": "end"}]},
        "end": final_state(),
    });
    let run = rig.begin(state_machine("open", states));
    assert_eq!(rig.wait_for_end(&run)["status"], "failed");
    let run_details = rig.agent.call_tool("get_run", json!({"run_id": run, "detail": "full"}));
    assert!(run_details.to_string().contains("seen-42"), "{run_details}");
    let terminals = rig.home.run(&["terminal", "list", "--json"]).stdout;
    assert!(!terminals.contains("\"running\""), "the run has closed its terminals: {terminals}");
}
