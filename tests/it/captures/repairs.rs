//! Stories of repair: a program has changed, the run of its captured workflow stops, and a person accepts a patch.

use std::fs::File;
use std::path::Path;

use serde_json::{Value, json};

use super::{Procedure, Session};

/// The installer of the documentation, with one question.
const INSTALLER: &str = include_str!("../../../examples/capture/setup.sh");

fn captured_installer() -> Procedure {
    let session = Session::begin(&[("setup.sh", INSTALLER)]);
    session.type_in("sh setup.sh\n");
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
    fn pattern(&self, state: &str) -> String {
        let states = &self.captured["workflow_definition"]["states"];
        states[state]["action"]["params"]["pattern"].as_str().unwrap().to_owned()
    }

    fn ended_run(&self, run: &str) -> Value {
        self.agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}))
    }
}

fn replace_program(state: &str, pattern: &str) -> Value {
    json!([{"op": "replace", "path": format!("/states/{state}/action/params/pattern"), "value": pattern}])
}

#[test]
fn accepted_patch_for_another_question_is_reported_by_runs() {
    let procedure = captured_installer();
    let (run, state) =
        procedure.run_until_stop(&INSTALLER.replace("Continue? [y/n]", "Proceed with the installation?"));
    let asked = procedure.ended_run(&run);
    let context = &asked["pending_gate"]["context"];
    assert_eq!(context["nearest_line"], "Proceed with the installation?", "{asked:#}");
    assert!(context["recorded"].as_str().unwrap().ends_with("Continue? [y/n]"), "{asked:#}");

    let forgets = procedure.propose(&run, replace_program(&state, "Proceed"));
    assert!(forgets["error"].as_str().unwrap().contains("does not pass its recording"), "{forgets:#}");
    let anything = procedure.propose(&run, replace_program(&state, &format!("{}|.*", procedure.pattern(&state))));
    // Irreversible and unknown effects come first.
    let weakens: Vec<&str> = anything["weakens"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(weakens[0].contains("it is not known") && weakens[1].contains("matches nearly anything"), "{anything:#}");
    procedure.home.answer_gate(&run, "decline").expect_success();
    assert_eq!(procedure.ended_run(&run)["pending_gate"], asked["pending_gate"], "the run is unchanged");

    let pattern = format!("{}|^Proceed with the installation\\? *$", procedure.pattern(&state));
    let proposed = procedure.propose(&run, replace_program(&state, &pattern));
    let [named] = &proposed["weakens"].as_array().expect("the alternative is named")[..] else {
        panic!("{proposed:#}")
    };
    let named = named.as_str().unwrap();
    assert!(
        named.contains(r"'^Proceed with the installation\? *$' as well") && named.contains(r#"types "y\n""#),
        "{named}"
    );
    let gate = procedure.ended_run(&run)["pending_gate"].clone();
    assert!(gate["context"]["difference"].as_str().unwrap().contains("+          \"pattern\""), "{gate:#}");
    let accepted = json!({"run_id": run, "answer": gate["choices"][0]});
    let refused = procedure.agent.call_tool("decide", accepted);
    assert_eq!(refused["success"], false, "an agent accepts no patch: {refused:#}");

    // The question and the accepted patch outlive the daemon.
    let daemon = procedure.home.run(&["daemon", "status", "--json"]).json();
    crate::durable::kill(&daemon["pid"]);
    procedure.home.answer_gate(&run, gate["choices"][0].as_str().unwrap()).expect_success();
    let ended = procedure.ended_run(&run);
    assert_eq!(ended["status"], "completed", "{ended:#}");
    assert_eq!(
        (&ended["repairs"][0]["version"], &ended["repairs"][0]["state"]),
        (&json!(2), &json!(state)),
        "{ended:#}"
    );
    assert_eq!(procedure.file("agreed"), "yes\n".repeat(2), "once when it was recorded, and once now");
    let listed = procedure.home.run(&["runs", "list"]).expect_success();
    assert_eq!(listed.matches("completed, repaired").count(), 1, "{listed}");

    procedure.runs(json!({}));
    procedure.write_file("setup.sh", INSTALLER);
    procedure.runs(json!({}));
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
    let procedure = captured_installer();
    let first =
        "printf 'Install recommended packages? [Y/n] '\nread -r extra\necho \"$extra\" >> extras\nprintf 'Continue?";
    let longer = INSTALLER.replace("printf 'Continue?", first);
    let (run, state) = procedure.run_until_stop(&longer);
    let asked = procedure.ended_run(&run);
    assert_eq!(asked["pending_gate"]["context"]["nearest_line"], "Install recommended packages? [Y/n]", "{asked:#}");
    let known = &procedure.captured["workflow_definition"]["states"][&state];
    let (params, transition) = (&known["action"]["params"], &known["transitions"][0]);
    let answer = json!({
        "action": {"tool": "send_input", "params": {
            "input_text": "n\n", "pattern": params["pattern"], "timeout": params["timeout"], "stop_at_input": true}},
        "on_unknown": "ask",
        "transitions": [transition],
    });
    let leads =
        json!({"condition": {"field_contains": {"match_text": "Install recommended"}}, "next_state": "decline_extras"});
    let pattern = format!("{}|{EXTRA}", procedure.pattern(&state));
    let patch = json!([
        {"op": "replace", "path": format!("/states/{state}/action/params/pattern"), "value": pattern},
        {"op": "add", "path": format!("/states/{state}/transitions/0"), "value": leads},
        {"op": "add", "path": "/states/decline_extras", "value": answer},
    ]);
    let proposed = procedure.propose(&run, patch);
    assert_eq!(proposed["success"], true, "{proposed:#}");
    assert!(proposed["weakens"].as_array().is_some_and(|named| !named.is_empty()), "it acts again: {proposed:#}");
    // The question is already on the screen, so the run continues with the new state.
    procedure.home.answer_gate(&run, "accept, and go on with 'decline_extras'").expect_success();
    let ended = procedure.ended_run(&run);
    assert_eq!((&ended["status"], &ended["repairs"][0]["version"]), (&json!("completed"), &json!(2)), "{ended:#}");
    procedure.assert_replays();

    procedure.runs(json!({}));
    assert_eq!(procedure.file("extras"), "n\n".repeat(2));
    procedure.write_file("setup.sh", INSTALLER);
    procedure.runs(json!({}));
    assert_eq!((procedure.file("extras"), procedure.file("agreed")), ("n\n".repeat(2), "yes\n".repeat(4)));
}

#[test]
fn accepted_patch_is_saved_by_the_next_daemon() {
    let procedure = captured_installer();
    let (run, state) = procedure.run_until_stop(&INSTALLER.replace("Continue?", "Agree?"));
    let pattern = format!("{}|^Agree\\? \\[y/n\\] *$", procedure.pattern(&state));
    assert_eq!(procedure.propose(&run, replace_program(&state, &pattern))["success"], true);
    let file = Path::new(procedure.captured["path"].as_str().unwrap());
    let locked = File::options().write(true).open(file.with_file_name(".lock")).unwrap();
    locked.lock().unwrap();
    std::thread::scope(|scope| {
        // The daemon is killed before the library stores the patch; the next daemon has the answer already.
        scope.spawn(|| procedure.home.answer_gate(&run, "1"));
        let is_answered = || procedure.home.run(&["runs", "events", &run]).stdout.contains("gate_answered");
        while !is_answered() {}
        crate::durable::kill(&procedure.home.run(&["daemon", "status", "--json"]).json()["pid"]);
        locked.unlock().unwrap();
    });
    let ended = procedure.ended_run(&run);
    assert_eq!((&ended["status"], &ended["repairs"][0]["version"]), (&json!("completed"), &json!(2)), "{ended:#}");
    assert_eq!(procedure.file("agreed"), "yes\n".repeat(2));
    let history = procedure.home.run(&["workflow", "history", "procedure"]).expect_success();
    assert_eq!(history.matches("repair").count(), 1, "{history}");
}

#[test]
fn patch_of_a_changed_workflow_applies_to_the_run_only() {
    let procedure = captured_installer();
    let (run, state) = procedure.run_until_stop(&INSTALLER.replace("Continue?", "Agree?"));
    let mut changed = procedure.captured["workflow_definition"].clone();
    changed["states"][&state]["action"]["params"]["timeout"] = 40.into();
    let saved = json!({"workflow_definition": changed, "overwrite_existing": true});
    assert_eq!(procedure.agent.call_tool("create_workflow", saved)["success"], true);
    let pattern = format!("{}|^Agree\\? \\[y/n\\] *$", procedure.pattern(&state));
    let proposed = procedure.propose(&run, replace_program(&state, &pattern));
    assert_eq!(proposed["success"], true, "{proposed:#}");
    procedure.home.answer_gate(&run, "1").expect_success();
    let ended = procedure.ended_run(&run);
    assert_eq!(ended["status"], "completed", "{ended:#}");
    let repair = &ended["repairs"][0];
    assert!(repair["error"].as_str().unwrap().contains("was changed in the library"), "{repair:#}");
    assert_eq!(repair["version"], Value::Null);
    let nothing = procedure.propose(&run, replace_program(&state, &pattern));
    assert!(nothing["error"].as_str().unwrap().starts_with("the run is completed and asks nowhere"), "{nothing:#}");
}
