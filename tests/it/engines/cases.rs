//! The cases of the suite, which are the same for every engine.

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Map, Value, json};
use steplatch_testkit::eventually_blocking;

use super::rig::{Rig, kill};

/// Returns the transition after the success of a state.
fn on_success(next: &str) -> Value {
    json!([{"condition": "success", "next_state": next}])
}

fn machine(initial: &str, states: Value) -> Value {
    json!({"name": "case", "initial_state": initial, "states": states})
}

/// Returns a state that ends a run.
fn last() -> Value {
    json!({"action": {"tool": "sleep", "params": {"seconds": 0}}})
}

fn open(next: &str) -> Value {
    json!({"action": {"tool": "open_terminal", "params": {"shell": "bash"}}, "transitions": on_success(next)})
}

fn ask(next: &str) -> Value {
    json!({"action": {"tool": "gate", "params": {"prompt": "Go on?"}}, "transitions": [
        {"condition": {"field_equals": {"answer": "yes"}}, "next_state": next}, {"condition": "success", "next_state": "refused"}]})
}

/// Returns a state that types a command which notes its start, waits for the file `go`, and prints that it is done.
fn command(next: &str) -> Value {
    let command = "echo once >>began; until [ -e go ]; do sleep 0.01; done; echo all-done";
    json!({"action": {"tool": "run_command", "params": {"session_id": "{session_id}", "command": command, "timeout": 120}},
           "timeout": 120, "transitions": [
        {"condition": {"outcome_unknown": true}, "next_state": "in_doubt"}, {"condition": "success", "next_state": next}]})
}

fn lines(rig: &Rig, file: &str) -> Vec<String> {
    std::fs::read_to_string(rig.home.path().join(file)).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn release_command(rig: &Rig) {
    std::fs::write(rig.home.path().join("go"), "").unwrap();
}

fn file_exists(file: &Path) -> bool {
    file.metadata().is_ok_and(|about| about.len() > 0)
}

pub(super) fn pending_effect_is_performed_once_after_a_crash(rig: &Rig) {
    let states = json!({"open": open("ask"), "ask": ask("type"), "type": command("end"), "end": last(), "in_doubt": last(),
                        "refused": last()});
    release_command(rig);
    let run = rig.begin(machine("open", states));
    let gate = rig.gate(&run);
    let (host, daemon) = (rig.host(), rig.daemon());
    // A stopped host performs nothing: the command is decided, but not typed.
    kill(&host, Signal::STOP);
    rig.answer_gate(&gate, "yes");
    rig.wait_for_state(&run, "type");
    rig.kill_worker();
    kill(&daemon["pid"], Signal::KILL);
    assert!(lines(rig, "began").is_empty());
    kill(&host, Signal::CONT);
    rig.recover();
    let ended = rig.ended(&run);
    assert_eq!((&ended["status"], &ended["final_state"]), (&json!("completed"), &json!("end")), "{ended}");
    assert_eq!(lines(rig, "began"), ["once"]);
}

pub(super) fn effect_in_progress_is_not_repeated_after_a_crash(rig: &Rig) {
    let states = json!({"open": open("type"), "type": command("end"), "end": last(), "in_doubt": last()});
    let run = rig.begin(machine("open", states));
    let began = rig.home.path().join("began");
    for _ in 0..2 {
        eventually_blocking("the command runs", || file_exists(&began));
        rig.crash();
        rig.recover();
    }
    release_command(rig);
    let ended = rig.ended(&run);
    assert_eq!((&ended["status"], &ended["final_state"]), (&json!("completed"), &json!("end")), "{ended}");
    assert_eq!(lines(rig, "began"), ["once"]);
}

pub(super) fn gate_survives_a_crash_and_takes_an_answer(rig: &Rig) {
    let states = json!({"ask": ask("end"), "end": last(), "refused": last()});
    let runs = [rig.begin(machine("ask", states.clone())), rig.begin(machine("ask", states))];
    let gates: Vec<String> = runs.iter().map(|run| rig.gate(run)).collect();
    rig.crash();
    rig.recover();
    assert_eq!(rig.run(&runs[0])["status"], "waiting");
    rig.answer_gate(&gates[0], "yes");
    rig.answer_gate(&gates[1], "no");
    assert_eq!(rig.ended(&runs[0])["final_state"], "end");
    assert_eq!(rig.ended(&runs[1])["final_state"], "refused");
}

pub(super) fn second_answer_is_refused_with_the_first_one(rig: &Rig) {
    let states = json!({"ask": ask("again"), "again": ask("end"), "end": last(), "refused": last()});
    let run = rig.begin(machine("ask", states));
    let gate = rig.gate(&run);
    rig.answer_gate(&gate, "yes");
    let second = rig.home.run(&["gates", "answer", &gate, "no"]);
    assert!(second.code != 0 && second.stderr.contains("answered"), "{}{}", second.stdout, second.stderr);
    let next = eventually_blocking("the next gate is open", || Some(rig.gate(&run)).filter(|next| *next != gate));
    rig.answer_gate(&next, "yes");
    assert_eq!(rig.ended(&run)["final_state"], "end");
}

pub(super) fn nested_run_survives_a_crash_and_returns_its_result(rig: &Rig) {
    let inner = json!({"initial_state": "ask", "states": {
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Go on?"}}, "transitions": on_success("found")},
        "found": {"action": {"tool": "return", "params": {"result": "from below"}}}}});
    let states = json!({
        "nest": {"action": {"tool": "run_workflow", "params": {"workflow_definition": inner}}, "transitions": on_success("end")},
        "end": {"action": {"tool": "return", "params": {"result": "{nest_result}"}}},
    });
    let run = rig.begin(machine("nest", states));
    let gate = rig.gate(&run);
    rig.crash();
    rig.recover();
    rig.answer_gate(&gate, "yes");
    let ended = rig.ended(&run);
    assert_eq!((&ended["status"], &ended["result"]), (&json!("completed"), &json!("from below")), "{ended}");
}

pub(super) fn returning_host_finds_output_printed_meanwhile(rig: &Rig) {
    let say = "echo r''eady; until [ -e go ]; do sleep 0.01; done; echo was-${x:-here}; touch said\n";
    let states = json!({
        "open": open("type"),
        "type": {"action": {"tool": "send_input", "params": {"input_text": say}}, "transitions": on_success("wait")},
        "wait": {"action": {"tool": "await_output", "params": {"pattern": "^was-here", "timeout": 120}}, "timeout": 120,
                 "transitions": on_success("end")},
        "end": last(),
    });
    let run = rig.begin(machine("open", states));
    rig.wait_for_state(&run, "wait");
    rig.crash();
    release_command(rig);
    eventually_blocking("the program has printed", || rig.home.path().join("said").exists());
    rig.recover();
    assert_eq!(rig.ended(&run)["final_state"], "end");
}

pub(super) fn events_after_a_cancel_change_nothing(rig: &Rig) {
    let states = json!({"open": open("type"), "type": command("end"), "end": last(), "in_doubt": last()});
    let run = rig.begin_with(machine("open", states), json!({"keep_terminals": true}));
    let began = rig.home.path().join("began");
    eventually_blocking("the command runs", || file_exists(&began));
    rig.home.run(&["runs", "cancel", &run]).expect_success();
    release_command(rig);
    let ended = rig.ended(&run);
    assert_eq!((&ended["status"], &ended["states_executed"]), (&json!("cancelled"), &json!(2)), "{ended}");
    rig.crash();
    rig.recover();
    assert_eq!(rig.run(&run)["status"], "cancelled");
    let again = rig.home.run(&["runs", "cancel", &run]);
    assert!(again.code == 0 || again.stderr.contains("over"), "{}{}", again.stdout, again.stderr);
    assert_eq!(lines(rig, "began"), ["once"]);
}

pub(super) fn cancel_at_a_nested_gate_closes_the_terminals_of_the_run(rig: &Rig) {
    let nest = json!({"action": {"tool": "run_workflow", "params": {"workflow_definition": machine("ask", json!({"ask": ask("end"), "end": last(), "refused": last()}))}},
        "transitions": on_success("end")});
    let run = rig.begin(machine("open", json!({"open": open("nest"), "nest": nest, "end": last()})));
    rig.gate(&run);
    rig.home.run(&["runs", "cancel", &run]).expect_success();
    let left = rig.agent.call_tool("list_terminal_sessions", json!({}));
    assert_eq!(left["sessions"], json!([]), "{left}");
}

pub(super) fn run_ends_at_its_limit_of_states(rig: &Rig) {
    let states = json!({"round": {"action": {"tool": "list_terminal_sessions"}, "transitions": on_success("round")}});
    let run = rig.begin_with(machine("round", states), json!({"max_states": 5}));
    let ended = rig.ended(&run);
    assert_eq!((&ended["status"], &ended["states_executed"]), (&json!("failed"), &json!(5)), "{ended}");
}

pub(super) fn a_run_ends_at_its_time_limit(rig: &Rig) {
    let states = json!({"long": {"action": {"tool": "sleep", "params": {"seconds": 600}}, "timeout": 900}});
    let run = rig.begin_with(machine("long", states), json!({"execution_timeout": 1}));
    let ended = rig.ended(&run);
    assert_eq!(ended["status"], "failed", "{ended}");
    assert!(ended["error"].as_str().unwrap().contains("time"), "{ended}");
}

pub(super) fn a_state_ends_at_its_time_limit(rig: &Rig) {
    let states = json!({
        "open": open("wait"),
        "wait": {"action": {"tool": "await_output", "params": {"pattern": "never-printed", "timeout": 600}}, "timeout": 1,
                 "on_timeout": "late"},
        "late": last(),
    });
    let ended = rig.ended(&rig.begin(machine("open", states)));
    assert_eq!((&ended["status"], &ended["final_state"]), (&json!("completed"), &json!("late")), "{ended}");
}

pub(super) fn paused_run_begins_nothing_and_continues_when_resumed(rig: &Rig) {
    let states = json!({"open": open("type"), "type": command("more"), "in_doubt": last(),
        "more": {"action": {"tool": "run_command", "params": {"session_id": "{session_id}", "command": "echo more >>began"}},
                 "transitions": on_success("end")},
        "end": last()});
    let run = rig.begin(machine("open", states));
    let began = rig.home.path().join("began");
    eventually_blocking("the command runs", || file_exists(&began));
    rig.home.run(&["runs", "pause", &run]).expect_success();
    release_command(rig);
    rig.crash();
    rig.recover();
    eventually_blocking("the run is paused", || {
        let run = rig.run(&run);
        run["paused"]["since"].is_string() && run["states_executed"] == 2
    });
    assert_eq!(lines(rig, "began"), ["once"]);
    rig.home.run(&["runs", "resume", &run]).expect_success();
    assert_eq!(rig.ended(&run)["final_state"], "end");
    assert_eq!(lines(rig, "began"), ["once", "more"]);
}

pub(super) fn start_with_the_same_key_is_the_same_run(rig: &Rig) {
    let states = json!({"open": open("type"), "type": command("end"), "end": last(), "in_doubt": last()});
    release_command(rig);
    let starts = || rig.begin_with(machine("open", states.clone()), json!({"idempotency_key": "only-one"}));
    let first = starts();
    rig.crash();
    rig.recover();
    assert_eq!(starts(), first);
    assert_eq!(rig.ended(&first)["final_state"], "end");
    assert_eq!(starts(), first);
    assert_eq!(lines(rig, "began"), ["once"]);
}

pub(super) fn run_of_a_thousand_states_ends(rig: &Rig) {
    const STATES: usize = 1000;
    // A definition has at most a hundred states, which run ten times. Every tenth state is an action of the host.
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
    let again: Vec<Value> = (1..10)
        .map(|round| json!({"condition": {"field_equals": {"assigned.round": round}}, "next_state": "s1"}))
        .collect();
    let count = json!({"action": {"tool": "set", "params": {"round": "{visits}"}}, "transitions": again});
    states.insert("s100".to_owned(), count);
    let run = rig.begin_with(machine("s1", states.into()), json!({"max_states": STATES}));
    let ended = rig.ended(&run);
    assert_eq!(
        (&ended["status"], &ended["states_executed"]),
        (&json!("completed"), &json!(STATES)),
        "{}",
        ended["error"]
    );
}

pub(super) fn unknown_outcome_stays_unknown(rig: &Rig) {
    let states =
        json!({"open": open("type"), "type": command("end"), "end": last(), "in_doubt": ask("end"), "refused": last()});
    let run = rig.begin(machine("open", states));
    let began = rig.home.path().join("began");
    eventually_blocking("the command runs", || file_exists(&began));
    // Only the host knows the typed input.
    let (host, daemon) = (rig.host(), rig.daemon());
    rig.kill_worker();
    kill(&daemon["pid"], Signal::KILL);
    kill(&host, Signal::KILL);
    rig.recover();
    let gate = rig.gate(&run);
    rig.crash();
    rig.recover();
    rig.wait_for_state(&run, "in_doubt");
    rig.answer_gate(&gate, "yes");
    assert_eq!(rig.ended(&run)["final_state"], "end");
    assert_eq!(lines(rig, "began"), ["once"]);
}

pub(super) fn failed_run_shows_its_last_screen(rig: &Rig) {
    let states = json!({
        "open": open("type"),
        "type": {"action": {"tool": "run_command", "params": {"session_id": "{session_id}", "command": "echo seen-$((40+2)); false"}},
                 "transitions": [{"condition": {"field_equals": {"exit_code": 0}}, "next_state": "end"}]},
        "end": last(),
    });
    let run = rig.begin(machine("open", states));
    assert_eq!(rig.ended(&run)["status"], "failed");
    let shown = rig.agent.call_tool("get_run", json!({"run_id": run, "detail": "full"}));
    assert!(shown.to_string().contains("seen-42"), "{shown}");
    let open = rig.home.run(&["terminal", "list", "--json"]).stdout;
    assert!(!open.contains("\"running\""), "the run has closed its terminals: {open}");
}
