//! Stories of repair: a program has changed, the run of its captured workflow stops, and a person accepts a patch.

use std::fs::File;
use std::path::Path;

use serde_json::{Value, json};

use super::{Procedure, Session};

/// The installer of the documentation, with one question.
const INSTALLER: &str = include_str!("../../../examples/capture/setup.sh");

fn capture_installer() -> Procedure {
    let session = Session::begin(&[("setup.sh", INSTALLER)]);
    session.type_text("sh setup.sh\n");
    session.send(json!({"input_text": "y\n", "until": "prompt"}));
    let procedure = session.capture(json!({}));
    procedure.assert_replays();
    procedure
}

impl Procedure {
    /// Runs the workflow with a changed program until it stops. Returns the run and its state.
    fn run_until_stop(&self, program: &str) -> (String, String) {
        self.write_file("setup.sh", program);
        let run = self.begin(json!({}));
        assert_eq!(run["status"], "waiting", "{run:#}");
        let gate = &run["pending_gate"];
        let state = gate["gate_id"].as_str().unwrap().split('/').nth(1).unwrap().to_owned();
        (run["run_id"].as_str().unwrap().to_owned(), state)
    }

    fn propose(&self, run: &str, patch: Value) -> Value {
        let proposal = json!({"run_id": run, "patch": patch, "reason": "The installer asks in other words"});
        self.agent.call_tool("propose_patch", proposal)
    }

    /// Returns the pattern that a state waits for.
    fn awaited_pattern(&self, state: &str) -> String {
        let states = &self.capture["workflow_definition"]["states"];
        states[state]["action"]["params"]["pattern"].as_str().unwrap().to_owned()
    }

    fn wait_for_run(&self, run: &str) -> Value {
        self.agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}))
    }
}

/// Returns a patch that replaces the pattern of a state.
fn replace_pattern(state: &str, pattern: &str) -> Value {
    json!([{"op": "replace", "path": format!("/states/{state}/action/params/pattern"), "value": pattern}])
}

#[test]
fn accepted_patch_for_another_question_is_reported_by_runs() {
    let procedure = capture_installer();
    let (run, state) =
        procedure.run_until_stop(&INSTALLER.replace("Continue? [y/n]", "Proceed with the installation?"));
    let waiting_run = procedure.wait_for_run(&run);
    let context = &waiting_run["pending_gate"]["context"];
    assert_eq!(context["nearest_line"], "Proceed with the installation?", "{waiting_run:#}");
    assert!(context["recorded"].as_str().unwrap().ends_with("Continue? [y/n]"), "{waiting_run:#}");

    let rejection = procedure.propose(&run, replace_pattern(&state, "Proceed"));
    assert!(rejection["error"].as_str().unwrap().contains("does not pass its recording"), "{rejection:#}");
    let broad_patch =
        procedure.propose(&run, replace_pattern(&state, &format!("{}|.*", procedure.awaited_pattern(&state))));
    // Irreversible and unknown effects come first.
    let weakens: Vec<&str> = broad_patch["weakens"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(
        weakens[0].contains("it is not known") && weakens[1].contains("matches nearly anything"),
        "{broad_patch:#}"
    );
    procedure.home.answer_gate(&run, "decline").expect_success();
    assert_eq!(procedure.wait_for_run(&run)["pending_gate"], waiting_run["pending_gate"], "the run is unchanged");

    let pattern = format!("{}|^Proceed with the installation\\? *$", procedure.awaited_pattern(&state));
    let proposal = procedure.propose(&run, replace_pattern(&state, &pattern));
    let [weakness] = &proposal["weakens"].as_array().expect("the additional match is reported")[..] else {
        panic!("{proposal:#}")
    };
    let weakness = weakness.as_str().unwrap();
    assert!(
        weakness.contains(r"'^Proceed with the installation\? *$' as well") && weakness.contains(r#"types "y\n""#),
        "{weakness}"
    );
    let gate = procedure.wait_for_run(&run)["pending_gate"].clone();
    assert!(gate["context"]["difference"].as_str().unwrap().contains("+          \"pattern\""), "{gate:#}");
    let acceptance = json!({"run_id": run, "answer": gate["choices"][0]});
    let refusal = procedure.agent.call_tool("decide", acceptance);
    assert_eq!(refusal["success"], false, "an agent cannot accept a patch: {refusal:#}");

    // The question and the accepted patch outlive the daemon.
    let daemon = procedure.home.run(&["daemon", "status", "--json"]).json();
    crate::durable::kill(&daemon["pid"]);
    procedure.home.answer_gate(&run, gate["choices"][0].as_str().unwrap()).expect_success();
    let outcome = procedure.wait_for_run(&run);
    assert_eq!(outcome["status"], "completed", "{outcome:#}");
    assert_eq!(
        (&outcome["repairs"][0]["version"], &outcome["repairs"][0]["state"]),
        (&json!(2), &json!(state)),
        "{outcome:#}"
    );
    assert_eq!(
        procedure.file("agreed"),
        "yes\n".repeat(2),
        "one agreement from the recording and one from the repaired run"
    );
    let list = procedure.home.run(&["runs", "list"]).expect_success();
    assert_eq!(list.matches("completed, repaired").count(), 1, "{list}");

    procedure.run_to_completion(json!({}));
    procedure.write_file("setup.sh", INSTALLER);
    procedure.run_to_completion(json!({}));
    procedure.assert_replays();
    assert_eq!(procedure.file("agreed"), "yes\n".repeat(4));
    let history = procedure.home.run(&["workflow", "history", "procedure"]).expect_success();
    assert!(history.contains("repair") && history.contains("The installer asks in other words"), "{history}");
    procedure.home.run(&["workflow", "revert", "procedure"]).expect_success();
    procedure.run_until_stop(&INSTALLER.replace("Continue? [y/n]", "Proceed with the installation?"));
}

#[test]
fn extra_question_becomes_a_state_and_old_program_passes() {
    const EXTRA: &str = r"^Install recommended packages\? \[Y/n\] *\Z";
    let procedure = capture_installer();
    let extra_question =
        "printf 'Install recommended packages? [Y/n] '\nread -r extra\necho \"$extra\" >> extras\nprintf 'Continue?";
    let longer_installer = INSTALLER.replace("printf 'Continue?", extra_question);
    let (run, state) = procedure.run_until_stop(&longer_installer);
    let waiting_run = procedure.wait_for_run(&run);
    assert_eq!(
        waiting_run["pending_gate"]["context"]["nearest_line"], "Install recommended packages? [Y/n]",
        "{waiting_run:#}"
    );
    let known_state = &procedure.capture["workflow_definition"]["states"][&state];
    let (params, transition) = (&known_state["action"]["params"], &known_state["transitions"][0]);
    let answer = json!({
        "action": {"tool": "send_input", "params": {
            "input_text": "n\n", "pattern": params["pattern"], "timeout": params["timeout"], "stop_at_input": true}},
        "on_unknown": "ask",
        "transitions": [transition],
    });
    let extra_transition =
        json!({"condition": {"field_contains": {"match_text": "Install recommended"}}, "next_state": "decline_extras"});
    let pattern = format!("{}|{EXTRA}", procedure.awaited_pattern(&state));
    let patch = json!([
        {"op": "replace", "path": format!("/states/{state}/action/params/pattern"), "value": pattern},
        {"op": "add", "path": format!("/states/{state}/transitions/0"), "value": extra_transition},
        {"op": "add", "path": "/states/decline_extras", "value": answer},
    ]);
    let proposal = procedure.propose(&run, patch);
    assert_eq!(proposal["success"], true, "{proposal:#}");
    assert!(
        proposal["weakens"].as_array().is_some_and(|weakened| !weakened.is_empty()),
        "the extra action is reported: {proposal:#}"
    );
    // The question is already on the screen, so the run continues with the new state.
    procedure.home.answer_gate(&run, "accept, and go on with 'decline_extras'").expect_success();
    let outcome = procedure.wait_for_run(&run);
    assert_eq!(
        (&outcome["status"], &outcome["repairs"][0]["version"]),
        (&json!("completed"), &json!(2)),
        "{outcome:#}"
    );
    procedure.assert_replays();

    procedure.run_to_completion(json!({}));
    assert_eq!(procedure.file("extras"), "n\n".repeat(2));
    procedure.write_file("setup.sh", INSTALLER);
    procedure.run_to_completion(json!({}));
    assert_eq!((procedure.file("extras"), procedure.file("agreed")), ("n\n".repeat(2), "yes\n".repeat(4)));
}

#[test]
fn accepted_patch_is_saved_by_the_next_daemon() {
    let procedure = capture_installer();
    let (run, state) = procedure.run_until_stop(&INSTALLER.replace("Continue?", "Agree?"));
    let pattern = format!("{}|^Agree\\? \\[y/n\\] *$", procedure.awaited_pattern(&state));
    assert_eq!(procedure.propose(&run, replace_pattern(&state, &pattern))["success"], true);
    let workflow_file = Path::new(procedure.capture["path"].as_str().unwrap());
    let lock_file = File::options().write(true).open(workflow_file.with_file_name(".lock")).unwrap();
    lock_file.lock().unwrap();
    std::thread::scope(|scope| {
        // The daemon is killed before the library stores the patch; the next daemon has the answer already.
        scope.spawn(|| procedure.home.answer_gate(&run, "1"));
        let is_answered = || procedure.home.run(&["runs", "events", &run]).stdout.contains("gate_answered");
        while !is_answered() {}
        crate::durable::kill(&procedure.home.run(&["daemon", "status", "--json"]).json()["pid"]);
        lock_file.unlock().unwrap();
    });
    let outcome = procedure.wait_for_run(&run);
    assert_eq!(
        (&outcome["status"], &outcome["repairs"][0]["version"]),
        (&json!("completed"), &json!(2)),
        "{outcome:#}"
    );
    assert_eq!(procedure.file("agreed"), "yes\n".repeat(2));
    let history = procedure.home.run(&["workflow", "history", "procedure"]).expect_success();
    assert_eq!(history.matches("repair").count(), 1, "{history}");
}

#[test]
fn patch_of_a_changed_workflow_applies_to_the_run_only() {
    let procedure = capture_installer();
    let (run, state) = procedure.run_until_stop(&INSTALLER.replace("Continue?", "Agree?"));
    let mut changed_definition = procedure.capture["workflow_definition"].clone();
    changed_definition["states"][&state]["action"]["params"]["timeout"] = 40.into();
    let request = json!({"workflow_definition": changed_definition, "overwrite_existing": true});
    assert_eq!(procedure.agent.call_tool("create_workflow", request)["success"], true);
    let pattern = format!("{}|^Agree\\? \\[y/n\\] *$", procedure.awaited_pattern(&state));
    let proposal = procedure.propose(&run, replace_pattern(&state, &pattern));
    assert_eq!(proposal["success"], true, "{proposal:#}");
    procedure.home.answer_gate(&run, "1").expect_success();
    let outcome = procedure.wait_for_run(&run);
    assert_eq!(outcome["status"], "completed", "{outcome:#}");
    let repair = &outcome["repairs"][0];
    assert!(repair["error"].as_str().unwrap().contains("was changed in the library"), "{repair:#}");
    assert_eq!(repair["version"], Value::Null);
    let late_proposal = procedure.propose(&run, replace_pattern(&state, &pattern));
    assert!(
        late_proposal["error"].as_str().unwrap().starts_with("the run is completed and asks nowhere"),
        "{late_proposal:#}"
    );
}
