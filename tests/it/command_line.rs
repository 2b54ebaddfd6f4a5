//! Commands about runs, gates and workflows, as used by people and scripts.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use steplatch_testkit::{Agent, CommandOutput, Home};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

fn home() -> Home {
    Home::new(STEPLATCH)
}

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).display().to_string()
}

/// Returns a state machine that types a command, requests a judgement, and has two final states.
fn judged_machine() -> Value {
    json!({
        "name": "judged", "return_values": {"STATUS": {"required": false}}, "initial_state": "open",
        "states": {
            "open": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "say"}]},
            "say": {
                "action": {"tool": "send_input", "params": {"input_text": "STATUS=green; echo it is $((20 + 22))\n"}},
                "transitions": [{"condition": "success", "next_state": "judge"}]
            },
            "judge": {
                "action": {"tool": "await_output", "params": {"pattern": "^it is (\\d+)"}}, "timeout": 20,
                "transitions": [
                    {"condition": {"description": "it works"}, "next_state": "good"},
                    {"condition": {"description": "it is broken"}, "next_state": "bad"}
                ]
            },
            "good": {"action": {"tool": "get_screen_content"}},
            "bad": {"action": {"tool": "exit_terminal", "params": {"session_id": "term_0000000000"}}}
        }
    })
}

fn write(home: &Home, name: &str, document: &Value) {
    std::fs::write(home.path().join(name), document.to_string()).unwrap();
}

/// Starts a run and returns its id once the run waits at its gate.
fn start_until_gate(agent: &Agent) -> String {
    let reply = agent.call_tool("run_workflow", json!({"workflow_definition": judged_machine(), "wait_seconds": 60}));
    assert_eq!(reply["status"], "waiting", "{reply:#}");
    reply["run_id"].as_str().unwrap().to_owned()
}

/// Waits until a run has finished and returns its state.
fn wait_for_run(agent: &Agent, run: &str) -> String {
    let reply = agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}));
    reply["status"].as_str().unwrap().to_owned()
}

fn assert_refused(output: &CommandOutput, code: i32, parts: &[&str]) {
    assert_eq!(output.code, code, "{output:?}");
    for part in parts {
        assert!(output.stderr.contains(part), "no {part:?} in {}", output.stderr);
    }
}

#[test]
fn init_adds_commands_and_a_workflow_that_asks_on_failure() {
    let home = Home::new(STEPLATCH);
    std::fs::write(home.path().join("Makefile"), "build:\n\ttrue\ntest:\n\ttest -e ok\n").unwrap();
    let output = home.run(&["init", "--dry-run"]).expect_success();
    assert!(output.contains("make test") && !home.path().join("check.py").exists(), "{output}");
    home.run(&["init"]).expect_success();
    let refusal = home.run(&["init"]);
    assert!(refusal.code == 2 && refusal.stderr.contains("steplatch.toml' exists; init writes no file"), "{refusal:?}");
    let list = home.run(&["nodes", "list"]).expect_success();
    assert!(list.contains("build ") && list.contains("test "), "{list}");

    let waiting = home.run(&["run", "check.py", "--json"]);
    assert_eq!(
        (waiting.code, &waiting.json()["pending_gate"]["prompt"]),
        (3, &"test failed. Again?".into()),
        "{waiting:?}"
    );
    std::fs::write(home.path().join("ok"), "").unwrap();
    let run = waiting.json()["run_id"].as_str().unwrap().to_owned();
    home.answer_gate(&run, "again");
    assert_eq!(home.run(&["runs", "wait", &run]).code, 0);
    assert!(home.run(&["runs", "show", &run]).expect_success().contains("all steps passed"));
}

#[test]
fn example_is_printed_and_runs() {
    let home = Home::new(STEPLATCH);
    let list = home.run(&["examples"]).expect_success();
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 5 && names[0] == "hello.json", "{list}");
    for (name, arguments, result) in
        [("count.json", &["-i", "FOLDER=."][..], "LINES_COUNTED = "), ("fan_out.py", &[][..], "kernel: ")]
    {
        std::fs::write(home.path().join(name), home.run(&["examples", name]).expect_success()).unwrap();
        let output = home.run(&[&["run", name], arguments].concat()).expect_success();
        assert!(output.contains("completed in") && output.contains(result), "{output}");
    }
    assert_eq!(home.run(&["examples", "nope"]).code, 2);
}

#[test]
fn gate_is_listed_shown_and_answered_by_its_number() {
    let home = home();
    let agent = Agent::new(&home);
    assert!(home.run(&["gates", "list"]).stderr.contains("no run waits for an answer"));
    let run = start_until_gate(&agent);

    let list = home.run(&["gates", "list"]).expect_success();
    for part in [
        &run,
        "Which condition holds after state 'judge'?",
        "│ it is 42",
        "1  it works",
        "2  it is broken",
        "3  none of these",
    ] {
        assert!(list.contains(part), "no {part:?} in {list}");
    }
    let output = home.run(&["runs", "show", &run[..8]]).expect_success();
    assert!(output.contains("state     waiting") && output.contains("at        judge (3 states executed)"), "{output}");
    assert!(output.contains(&format!("steplatch gates answer {run}/judge/1@")), "{output}");

    assert_refused(&home.run(&["gates", "answer", &run, "4"]), 2, &["invalid answer '4'", "2  it is broken"]);
    assert_refused(
        &home.run(&["gates", "answer", &run, "1", "--gate", "other"]),
        2,
        &["gate 'other' does not wait in run"],
    );
    let gate = home.run(&["gates", "list", "--json"]).json()["gates"][0]["gate_id"].as_str().unwrap().to_owned();
    let reply = home.run(&["gates", "answer", run.trim_start_matches("run_"), "1"]).expect_success();
    assert!(reply.starts_with("answered: it works; the run is now "), "{reply}");
    assert_eq!(wait_for_run(&agent, &run), "completed");
    // The daemon reports the first answer to the second client.
    assert_refused(&home.run(&["gates", "answer", &run, "1"]), 1, &[" answer"]);
    assert_refused(&home.run(&["gates", "answer", &run, "1", "--gate", &gate]), 1, &["already answered by"]);

    let output = home.run(&["runs", "show", &run]).expect_success();
    assert!(output.contains("returned  STATUS = green") && output.contains("state     completed"), "{output}");
    let json = home.run(&["runs", "show", &run, "--json"]).json();
    assert_eq!((&json["state"], &json["return_values"]["STATUS"]), (&"completed".into(), &"green".into()));
    assert_eq!((&json["final_state"], &json["error"]), (&"good".into(), &Value::Null));
}

#[test]
fn answer_in_words_takes_the_path_of_its_choice() {
    let home = home();
    let agent = Agent::new(&home);
    let run = start_until_gate(&agent);
    let reply = home.run(&["gates", "answer", &run, "it is broken", "--json"]).json();
    assert_eq!((&reply["success"], &reply["run_id"]), (&true.into(), &run.as_str().into()));
    assert_eq!(wait_for_run(&agent, &run), "failed");
    let list = home.run(&["runs", "list", "--state", "failed"]).expect_success();
    assert!(list.contains(&run) && list.contains("State 'bad' failed: "), "{list}");
}

#[test]
fn runs_are_listed_aligned_filtered_and_found_by_prefix() {
    let home = home();
    assert!(home.run(&["runs", "list"]).stderr.contains("there are no runs"));
    let agent = Agent::new(&home);
    write(
        &home,
        "nap.json",
        &json!({"name": "nap", "initial_state": "a", "states": {"a": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}}),
    );
    let first_run = start_until_gate(&agent);
    let second_run = start_until_gate(&agent);
    home.run(&["run", "nap.json"]).expect_success();

    let list = home.run(&["runs", "list"]).expect_success();
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 4, "{list}");
    assert!(lines[0].starts_with("ID ") && lines[0].ends_with("DETAILS"), "{list}");
    assert!(lines[1].contains("  nap       completed  "), "the newest run is first and aligned: {list}");
    assert!(lines[3].starts_with(&first_run) && lines[3].contains("(3 choices)"), "{list}");
    let ids = |arguments: &[&str]| {
        let command = [&["runs", "list", "--json"], arguments].concat();
        let list = home.run(&command).json();
        let id = |run: &Value| run["run_id"].as_str().unwrap().to_owned();
        list["runs"].as_array().unwrap().iter().map(id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&["--workflow", "judged"]), [second_run.clone(), first_run.clone()]);
    assert_eq!(ids(&["--state", "waiting", "--limit", "1"]), std::slice::from_ref(&second_run));
    assert_eq!(ids(&["--workflow", "nobody"]), Vec::<String>::new());
    assert_eq!(ids(&["--state", "pending"]), Vec::<String>::new());
    assert_eq!(ids(&["--since", "1h", "--workflow", "judged"]), [second_run.clone(), first_run.clone()]);
    assert_eq!(ids(&["--until", "1h"]), Vec::<String>::new());
    let started_at =
        home.run(&["runs", "show", &second_run, "--json"]).json()["started_at"].as_str().unwrap().to_owned();
    assert_eq!(ids(&["--since", &started_at, "--workflow", "judged"]), std::slice::from_ref(&second_run));
    assert_eq!(ids(&["--until", &started_at]), std::slice::from_ref(&first_run));
    assert_refused(&home.run(&["runs", "list", "--since", "yesterday"]), 2, &["--since", "such as 30m, 2h, 3d"]);
    assert_refused(&home.run(&["runs", "list", "--state", "bogus"]), 2, &["Invalid state: bogus", "cancelled"]);
    assert_refused(
        &home.run(&["runs", "show", "run_"]),
        2,
        &["'run_' is ambiguous; it matches these runs", &first_run, &second_run],
    );
    assert_refused(&home.run(&["runs", "show", "zzzz"]), 2, &["no run id starts with 'zzzz'", "steplatch runs list"]);
    assert_refused(&home.run(&["runs", "show", "run_0123456789abcdef"]), 2, &["run 'run_0123456789abcdef' not found"]);
    assert_refused(&home.run(&["runs", "cancel", &first_run, "run_"]), 2, &["is ambiguous"]);
    assert_eq!(ids(&["--state", "waiting"]).len(), 2, "no run is cancelled if one id is invalid");

    let cancel_reply = home.run(&["runs", "cancel", &first_run, &second_run]).expect_success();
    assert_eq!(cancel_reply, format!("{first_run}: Run cancelled\n{second_run}: Run cancelled\n"));
    let second_cancel = home.run(&["runs", "cancel", &first_run, "--json"]).json();
    assert_eq!(second_cancel[0]["message"], "Run was already over: cancelled");
}

#[test]
fn events_are_listed_and_followed_to_the_end() {
    let home = home();
    let agent = Agent::new(&home);
    let run = start_until_gate(&agent);
    // The run waits, but a command for the events so far does not.
    let current_events = home.run(&["runs", "events", &run]).expect_success();
    let last = current_events.lines().last().unwrap();
    assert!(last.contains("gate_waiting") && last.ends_with("judge  it works | it is broken"), "{current_events}");
    assert!(
        current_events.contains("say → judge  the action succeeded")
            && current_events.contains("state_entered       open  open_terminal bash")
    );
    let numbers = |text: &str| -> Vec<u64> {
        let event = |line: &str| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap();
        text.lines().map(event).collect()
    };
    assert_eq!(numbers(&home.run(&["runs", "events", &run, "--json"]).expect_success()), (1..=10).collect::<Vec<_>>());

    let follower = home
        .steplatch()
        .args(["runs", "events", &run, "--from", "10", "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    home.run(&["gates", "answer", &run, "it works"]).expect_success();
    let followed_events = CommandOutput::from_process(&follower.wait_with_output().unwrap()).expect_success();
    assert_eq!(wait_for_run(&agent, &run), "completed");
    let followed_numbers = numbers(&followed_events);
    assert_eq!(followed_numbers[0], 10, "{followed_events}");
    assert!(followed_events.lines().last().unwrap().contains("\"workflow_completed\""), "{followed_events}");
    assert_eq!(
        numbers(&home.run(&["runs", "events", &run, "--from", "10", "--json"]).expect_success()),
        followed_numbers
    );
    let past_end = home.run(&["runs", "events", &run, "--from", "1000"]);
    assert_eq!((past_end.code, past_end.stdout.as_str()), (0, ""));
}

#[test]
fn file_problems_are_counted_and_listed() {
    let home = home();
    write(&home, "bad.json", &json!({"initial_state": "a", "states": {"a": {"action": {"tool": "tyep"}, "when": 1}}}));
    let output = home.run(&["run", "bad.json"]);
    let lines: Vec<&str> = output.stderr.lines().collect();
    let count = lines.len() - 1;
    assert!(count > 1 && lines[0].ends_with(&format!("bad.json: {count} problems")), "{output:?}");
    assert!(lines[1..].iter().all(|line| line.starts_with("  /states/a")), "{output:?}");
}

#[test]
fn stubbed_test_run_is_deterministic_without_a_daemon() {
    let home = home();
    write(&home, "stubs.json", &json!({"states": {"ended": [{"exit_code": 1, "elapsed_time": 3}, {"exit_code": 0}]}}));
    let run_test =
        || home.run(&["workflow", "test", &example("retry.json"), "--stub", "stubs.json", "-i", "COMMAND=make all"]);
    let output = run_test().expect_success();
    assert_eq!(output, run_test().expect_success());
    for part in [
        "eval \"$COMMAND\"⏎",
        "exit code 1  (takes 3.0 s)",
        "→ done  exit_code equals 0",
        "✓ completed after 3.2 s, 7 states",
    ] {
        assert!(output.contains(part), "no {part:?} in {output}");
    }
    assert!(!output.contains('✗'), "a failure with a transition is not an error: {output}");
    let json = home.run(&["workflow", "test", &example("retry.json"), "--stub", "stubs.json", "--json"]).json();
    assert_eq!((&json["end"]["status"], &json["elapsed_time"]), (&"completed".into(), &json!(3.2)));
    assert_eq!(
        json["path"][1],
        json!({"kind": "transition", "at": 0.0, "from": "open", "to": "try", "because": "the action succeeded"})
    );

    write(&home, "late.json", &json!({"states": {"ended": "timeout"}}));
    let late_run = home.run(&["workflow", "test", &example("retry.json"), "--stub", "late.json"]);
    assert_eq!(late_run.code, 1);
    assert!(
        late_run.stdout.contains("✗ failed after 1 min 0 s, 3 states: State 'ended' timed out"),
        "{}",
        late_run.stdout
    );
    assert_refused(
        &home.run(&["workflow", "test", &example("hello.json")]),
        2,
        &["State 'listen' waits for output", "\"match_text\""],
    );
    write(&home, "slip.json", &json!({"states": {"edned": {}}}));
    assert_refused(
        &home.run(&["workflow", "test", &example("retry.json"), "--stub", "slip.json"]),
        2,
        &["did you mean 'ended'?"],
    );
    assert_refused(
        &home.run(&["workflow", "test", &example("retry.json"), "--max-states", "0"]),
        2,
        &["max_states must be from 1"],
    );
    assert!(home.run(&["workflow", "test", "--help"]).expect_success().contains("\"shell\":  {\"PROJECT_ROOT\""));
    assert!(!home.path().join("state").exists(), "no daemon was started");
}

#[test]
fn unwritable_output_ends_a_command_with_an_exit_code() {
    let home = home();
    home.run(&["terminal", "open", "--name", "one"]).expect_success();
    let (hello, retry) = (example("hello.json"), example("retry.json"));
    let commands: &[&[&str]] = &[
        &["--help"],
        &["--version"],
        &["completions", "bash"],
        &["completions", "zsh"],
        &["completions", "fish"],
        &["config", "show"],
        &["config", "show", "--json"],
        &["config", "check"],
        &["workflow", "schema"],
        &["workflow", "schema", "--documentation"],
        &["workflow", "lint", &hello],
        &["workflow", "lint", &hello, "--json"],
        &["workflow", "graph", &hello],
        &["workflow", "graph", &hello, "--svg"],
        &["workflow", "test", &retry],
        &["workflow", "list"],
        &["setup", "--dry-run"],
        &["daemon", "status"],
        &["daemon", "status", "--json"],
        &["terminal", "list"],
        &["terminal", "screen", "one"],
        &["terminal", "screen", "one", "--format", "png"],
        &["terminal", "run", "one", "echo hello"],
        &["terminal", "send", "one", "true", "-e"],
        &["nodes", "list"],
        &["graph", "list"],
        &["remote", "list"],
        &["run", &hello],
        &["run", &hello, "--json"],
        &["runs", "list"],
        &["runs", "list", "--json"],
        &["gates", "list"],
        &["approver", "status"],
        &["no-such-command", "--json"],
    ];
    for command in commands {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let (reader, closed_pipe) = std::io::pipe().unwrap();
        drop(reader);
        for (stdout, name) in [(Stdio::from(full), "/dev/full"), (Stdio::from(closed_pipe), "a closed pipe")] {
            let output = CommandOutput::from_process(&home.steplatch().args(*command).stdout(stdout).output().unwrap());
            assert!(
                matches!(output.code, 0..=2) && !output.stderr.contains("panicked"),
                "{command:?} > {name}: {output:?}"
            );
        }
    }
    // Standard error can be full too, including its logs.
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let code =
        home.steplatch().args(["-v", "terminal", "screen", "two"]).stdout(full()).stderr(full()).status().unwrap();
    assert_eq!(code.code(), Some(1));
}

#[test]
fn errors_name_terminals_and_commands() {
    let home = home();
    let error_of = |arguments: &[&str]| {
        let output = home.run(arguments);
        assert_eq!(output.code, 1, "{arguments:?}: {output:?}");
        assert!(!output.stderr.contains("ession") && !output.stderr.contains("open_terminal"), "{}", output.stderr);
        output.stderr
    };
    let commands: &[&[&str]] = &[
        &["terminal", "send", "nope", "x"],
        &["terminal", "run", "nope", "ls"],
        &["terminal", "screen", "nope"],
        &["terminal", "record", "nope", "x.cast"],
        &["terminal", "close", "nope"],
    ];
    for arguments in commands {
        let error = error_of(arguments);
        assert!(error.contains("terminal 'nope' not found") && error.contains("steplatch terminal "), "{error}");
    }
    let id = home.run(&["terminal", "open", "--name", "one"]).expect_success();
    let error = error_of(&["terminal", "screen", "nope"]);
    assert!(error.contains(&format!("terminal 'nope' not found; open terminals: {} (one)", id.trim())), "{error}");
    let error = error_of(&["runs", "cancel", "run_0123456789abcdef"]);
    assert!(error.contains("list runs with: steplatch runs list"), "{error}");
    // Programs get the daemon's own text.
    let json = home.run(&["terminal", "screen", "nope", "--json"]);
    let reply: Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(reply["error"].as_str().unwrap().starts_with("Session 'nope' not found"), "{reply}");

    let missing = home.run(&["run", &example("count.json")]);
    assert_eq!(missing.code, 2, "{missing:?}");
    let hint = "argument FOLDER (where to count) is missing; add -i FOLDER=VALUE";
    assert!(missing.stderr.contains(hint), "{}", missing.stderr);
}

#[test]
fn terminal_is_resized_and_its_program_signalled() {
    let home = home();
    home.run(&["terminal", "open", "--name", "one", "--", "sh", "-c", "trap 'stty size; exit 7' USR1; read line"])
        .expect_success();
    home.run(&["terminal", "wait", "one", "--until", "input"]).expect_success();
    home.run(&["terminal", "resize", "one", "90x20"]).expect_success();
    home.run(&["terminal", "signal", "one", "USR1"]).expect_success();
    assert_eq!(home.run(&["terminal", "wait", "one", "--until", "exit"]).stdout, "one  exit  exit code 7\n");
    assert!(home.run(&["terminal", "screen", "one"]).expect_success().contains("20 90"));
    assert_refused(&home.run(&["terminal", "resize", "one", "90"]), 2, &["a size must have the form 120x40"]);
    assert_refused(&home.run(&["terminal", "signal", "none", "INT"]), 1, &["terminal 'none' not found"]);
}

#[test]
fn failed_run_shows_its_last_screen_but_no_closed_terminal() {
    let home = home();
    let fail_run = |command: &str| {
        let output = home.run(&["run", &example("retry.json"), "-i", command, "--max-states", "5"]);
        assert_eq!(output.code, 1, "{output:?}");
        home.run(&["runs", "list", "--json"]).json()["runs"][0]["run_id"].as_str().unwrap().to_owned()
    };
    let id = fail_run("COMMAND=echo it broke here; false");
    let record = home.run(&["runs", "show", &id]).expect_success();
    assert!(record.contains("the last screen:") && record.contains("│ it broke here"), "{record}");
    let terminal = record.lines().find(|line| line.trim_start().starts_with("terminal")).unwrap();
    assert!(terminal.ends_with("(closed)"), "{record}");
    let run = home.run(&["runs", "show", &id, "--json"]).json();
    assert!(run["last_screen"].as_str().unwrap().contains("it broke here"), "{run}");
    let output =
        home.run(&["run", &example("retry.json"), "-i", "COMMAND=false", "--max-states", "5", "--keep-terminals"]);
    assert_eq!(output.code, 1);
    let id = home.run(&["runs", "list", "--json"]).json()["runs"][0]["run_id"].as_str().unwrap().to_owned();
    let record = home.run(&["runs", "show", &id]).expect_success();
    assert!(record.contains("terminal") && !record.contains("(closed)"), "{record}");
}

#[test]
fn workflow_is_found_by_name_in_the_user_library() {
    let home = home();
    let library = home.path().join(".terminal_control_workflows");
    std::fs::create_dir(&library).unwrap();
    let nap = json!({"name": "nap", "initial_state": "a", "states": {"a": {"action": {"tool": "sleep", "params": {"seconds": 2}}}}});
    std::fs::write(library.join("nap.json"), json!({"definition": nap}).to_string()).unwrap();
    let subdirectory = home.path().join("src/deep");
    std::fs::create_dir_all(&subdirectory).unwrap();
    let run_below = |arguments: &[&str]| {
        CommandOutput::from_process(&home.steplatch().current_dir(&subdirectory).args(arguments).output().unwrap())
    };
    // A directory of that name is not a workflow.
    std::fs::create_dir(subdirectory.join("nap")).unwrap();
    assert!(run_below(&["workflow", "test", "nap"]).expect_success().contains("✓ completed after 2.0 s, 1 state"));
    assert!(
        run_below(&["workflow", "graph", "nap", "--json"]).json()["mermaid"].as_str().unwrap().contains("a: sleep")
    );
    assert_refused(
        &run_below(&["workflow", "test", "nip"]),
        2,
        &["'nip': there is no file of that name. Workflow 'nip' not found", "Did you mean 'nap'?"],
    );
    assert_refused(
        &run_without_library(&["workflow", "graph", "nap"]),
        2,
        &["there is no file of that name. Workflow 'nap' not found"],
    );
}

/// Runs the program in a home without a library.
fn run_without_library(arguments: &[&str]) -> CommandOutput {
    home().run(arguments)
}

#[test]
fn workflow_graph_is_written_as_an_svg_file() {
    let home = home();
    let output = home.run(&["workflow", "graph", &example("retry.json"), "--svg", "--output", "retry.svg"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, ""));
    let picture = std::fs::read_to_string(home.path().join("retry.svg")).unwrap();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n") && picture.contains(">exit_code = 0<"));
    assert_eq!(home.run(&["workflow", "graph", &example("retry.json"), "--svg"]).expect_success(), picture);
    assert_eq!(home.run(&["workflow", "graph", &example("retry.json"), "--svg", "--json"]).json()["svg"], picture);
    let unwritable = home.run(&["workflow", "graph", &example("retry.json"), "--svg", "-o", "no/such/folder.svg"]);
    assert_refused(&unwritable, 2, &["'no/such/folder.svg' cannot be written"]);
}

#[test]
fn configuration_errors_are_reported_as_json_too() {
    let home = home();
    assert_eq!(home.run(&["config", "check", "--json"]).json(), json!({"success": true, "problems": []}));
    let directory = home.path().join(".config/steplatch");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("config.toml"), "no_such_setting = 1\n").unwrap();
    let invalid = home.run(&["config", "check", "--json"]);
    assert_eq!(invalid.code, 2);
    assert!(invalid.json()["problems"][0].as_str().unwrap().contains("no_such_setting"), "{invalid:?}");
}

/// Checks that a failure is printed twice: as a sentence, and as one JSON object.
fn check_failure_outputs(output: &CommandOutput, code: i32, part: &str) {
    assert_eq!(output.code, code, "{output:?}");
    assert!(output.stderr.contains(part), "no {part:?} in {}", output.stderr);
    let object: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(object["success"], false, "{object}");
    assert!(object["error"].as_str().unwrap().contains(part), "no {part:?} in {object}");
}

#[test]
fn json_output_includes_failures() {
    let home = home();
    for (arguments, code, part) in [
        (&["daemon", "status"][..], 1, "no daemon"),
        (&["runs", "show", "run_0123456789abcdef"], 2, "'run_0123456789abcdef' not found"),
        (&["runs", "events", "run_0123456789abcdef"], 2, "'run_0123456789abcdef' not found"),
        (&["runs", "show", "nothing"], 2, "no run id starts with 'nothing'"),
        (&["runs", "cancel", "nothing"], 2, "no run id starts with 'nothing'"),
        (&["gates", "answer", "run_0123456789abcdef", "1"], 2, "'run_0123456789abcdef' not found"),
        (&["run", "./nothing.json"], 2, "nothing.json"),
        (&["run", "nothing"], 2, "nothing"),
        (&["workflow", "show", "nothing"], 2, "nothing"),
        (&["workflow", "graph", "nothing"], 2, "nothing"),
        (&["workflow", "test", "./nothing.json"], 2, "nothing.json"),
        (&["terminal", "send", "term_nothing", "x"], 1, "term_nothing"),
        (&["terminal", "run", "term_nothing", "ls"], 1, "term_nothing"),
        // Invalid command lines.
        (&["runs", "list", "--limit", "none"], 2, "none"),
        (&["gates", "answer"], 2, "a question needs a terminal"),
    ] {
        let arguments = [&[arguments[0], arguments[1], "--json"], &arguments[2..]].concat();
        check_failure_outputs(&home.run(&arguments), code, part);
    }
    // Without the flag only the sentence is printed, even if the flag is meant for another program.
    let plain = home.run(&["runs", "list", "--limit", "none", "--", "--json"]);
    assert_eq!((plain.code, plain.stdout.as_str()), (2, ""), "{plain:?}");
    // With several names, each has an item in the list, and a sentence.
    let output = home.run(&["workflow", "rm", "nothing", "neither", "--json"]);
    let list: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((output.code, list.as_array().unwrap().len(), &list[1]["success"]), (2, 2, &false.into()));
    assert!(output.stderr.contains("'nothing'") && output.stderr.contains("'neither'"), "{}", output.stderr);
    let schema = home.run(&["workflow", "schema", "--json"]).json();
    assert!(schema["properties"]["states"].is_object());
}

/// Appends the help of a command, and of its subcommands.
fn append_help(home: &Home, command: &[String], all: &mut String) {
    let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
    let help = home.run(&arguments).expect_success();
    all.push_str(&format!("## steplatch {}\n\n{help}\n", command.join(" ")).replace("steplatch \n", "steplatch\n"));
    // The help of the whole command line lists groups of commands between its usage and its options.
    let (begin, end) = if command.is_empty() { ("Terminals:", "Options:") } else { ("Commands:", "") };
    let command_lines = help.lines().skip_while(|line| *line != begin).skip(1).take_while(|line| *line != end);
    // Continuation lines have a deeper indent.
    let names = command_lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        append_help(home, &[command, &[name.to_owned()]].concat(), all);
    }
}

#[test]
fn help_of_every_command_matches_the_golden_file() {
    let mut home = Home::new(STEPLATCH);
    // The help names no directory of this user or computer except the current state directory.
    home.set("STEPLATCH_STATE_DIR", "");
    home.set("XDG_STATE_HOME", "");
    home.set("XDG_CONFIG_HOME", "/elsewhere/config");
    let mut all_help = String::new();
    append_help(&home, &[], &mut all_help);
    expect_test::expect_file!["../golden/help.txt"].assert_eq(&all_help);
}

#[test]
fn help_names_the_current_state_directory() {
    let mut home = Home::new(STEPLATCH);
    let help = home.run(&["--help"]).expect_success();
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("[env: STEPLATCH_STATE_DIR=~/state]"), "{help}");
    home.set("STEPLATCH_STATE_DIR", "");
    home.set("XDG_STATE_HOME", "/elsewhere/state");
    let help = home.run(&["daemon", "status", "--help"]).expect_success();
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("[env: STEPLATCH_STATE_DIR] [default: /elsewhere/state/steplatch]"), "{help}");
}

#[test]
fn commands_are_listed_in_groups_however_help_is_requested() {
    let home = Home::new(STEPLATCH);
    let help = home.run(&["--help"]).expect_success();
    assert_eq!(home.run(&["help"]).expect_success(), help);
    assert_eq!(home.run(&["-h"]).expect_success(), help);
    let no_arguments = home.run(&[]);
    assert_eq!(
        (no_arguments.code, &no_arguments.stderr),
        (2, &help),
        "without arguments, the help is on standard error"
    );
    for heading in ["Terminals", "Workflows", "People", "Machines", "Set up", "Start with"] {
        assert!(help.contains(&format!("\n\n{heading}:\n")), "no {heading} in {help}");
    }
}

#[test]
fn self_check_asks_the_package_manager() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = Home::new(STEPLATCH);
    let directory = home.path().join("shop/node_modules/steplatch-linux-x64/bin");
    std::fs::create_dir_all(&directory).unwrap();
    let (program, npm) = (directory.join("steplatch"), directory.join("npm"));
    // A hard link has its own path; on another file system, so does a copy.
    std::fs::hard_link(STEPLATCH, &program).or_else(|_| std::fs::copy(STEPLATCH, &program).map(|_| ())).unwrap();
    let check_with = |script: &str| {
        std::fs::write(&npm, format!("#!/bin/sh\n[ \"$*\" = 'view steplatch version' ] || exit 9\n{script}\n"))
            .unwrap();
        std::fs::set_permissions(&npm, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = home.inside(&program);
        command.args(["self", "check"]).env("PATH", format!("{}:/bin:/usr/bin", directory.display()));
        CommandOutput::from_process(&command.output().unwrap()).expect_success()
    };
    assert!(check_with("echo 99.0.1").contains("99.0.1 is available; install it with: npm install steplatch@latest"));
    assert!(check_with("echo 0.0.1").contains("no newer version is known"));
    let unknown = check_with("echo E404 >&2; exit 1");
    assert!(
        unknown.contains("it is unknown whether a newer version exists: 'npm view steplatch version'"),
        "{unknown}"
    );
    // This build comes from no package manager.
    let this_build = home.run(&["self", "check", "--json"]).json();
    assert_eq!(
        (&this_build["installed_by"], &this_build["newer_available"]),
        (&Value::Null, &Value::Null),
        "{this_build}"
    );
}
