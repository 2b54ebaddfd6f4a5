//! Nodes and graphs on the command line: the real program, in a project.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use steplatch_testkit::{CommandOutput, Home, eventually_blocking};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

const DECLARED: &str = r#"
[nodes.greet]
type = "bash"
description = "Greets"
command = "echo hello {input|sh}; echo aside >&2"

[nodes.fails]
type = "bash"
command = "echo before; echo 'no such file' >&2; exit 3"

[nodes.wrong]
type = "bsh"

[nodes.slow]
type = "bash"
command = "echo $$ > slow.pid; sleep 600"

[graphs.both]
steps = [
    { id = "first", node = "greet" },
    { id = "flaky", node = "fails", on_error = { policy = "retry", count = 1, delay = 0, then = "skip" } },
    { id = "last", node = "greet", input = "{first}", depends_on = ["flaky"] },
]

[graphs.stops]
steps = [{ id = "bad", node = "fails" }, { id = "after", node = "greet", depends_on = ["bad"] }]
"#;

struct Project {
    home: Home,
    folder: PathBuf,
}

impl Project {
    fn new() -> Self {
        let home = Home::new(STEPLATCH);
        let folder = home.path().join("project");
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::write(folder.join("steplatch.toml"), DECLARED).unwrap();
        Self { home, folder }
    }

    fn type_in(&self, words: &[&str]) -> CommandOutput {
        CommandOutput::of(&self.home.steplatch().current_dir(self.folder.join("src")).args(words).output().unwrap())
    }
}

#[test]
fn nodes_are_listed_shown_and_called() {
    let project = Project::new();
    let listed = project.type_in(&["nodes", "list"]);
    let lines: Vec<&str> = listed.stdout.lines().collect();
    let rows = [
        "NAME      TYPE      DESCRIPTION",
        "fails     bash",
        "greet     bash      Greets",
        "identity  identity  Returns its input",
        "slow      bash",
    ];
    assert_eq!(lines[..rows.len()], rows);
    assert!(lines[5].starts_with("broken wrong in ") && lines[5].ends_with("did you mean 'bash'?"), "{lines:?}");
    assert_eq!(project.type_in(&["nodes", "list", "--json"]).json()["nodes"][1]["id"], "greet");
    let shown = project.type_in(&["nodes", "show", "both"]).expect_success();
    assert!(shown.contains("  STEP   NODE   INPUT    DEPENDS ON    ON ERROR\n"), "{shown}");
    assert!(shown.contains("  last   greet  {first}  first, flaky  fail\n"), "{shown}");
    assert!(shown.contains("retry, then skip\n"), "{shown}");

    let called = project.type_in(&["nodes", "run", "greet", "it's me"]);
    assert_eq!((called.code, called.stdout.as_str(), called.stderr.as_str()), (0, "hello it's me\n", "aside\n"));
    let failed = project.type_in(&["nodes", "run", "fails"]);
    assert_eq!((failed.code, failed.stdout.as_str()), (1, "before\n"));
    assert!(failed.stderr.ends_with("error: The command ended with exit code 3: no such file\n"), "{failed:?}");
    let failed = project.type_in(&["nodes", "run", "fails", "--json"]);
    let reported = failed.json();
    assert_eq!(
        (failed.code, &reported["error_type"], &reported["attributes"]["exit_code"]),
        (1, &json!("exit_code"), &json!(3))
    );
    let none = project.type_in(&["nodes", "run", "gret", "--json"]);
    assert_eq!((none.code, &none.json()["error_type"]), (2, &json!("not_found")));
    assert!(none.stderr.contains("Node 'gret' not found, did you mean 'greet'?"), "{}", none.stderr);

    let same = project.type_in(&["nodes", "run", "identity", "[1, {\"a\": null}]", "--input-json"]).json();
    assert_eq!(same, json!([1, {"a": null}]));
    let mut typed = project.home.steplatch();
    typed.current_dir(&project.folder).args(["nodes", "run", "identity", "-"]);
    let mut typed = typed.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    typed.stdin.take().unwrap().write_all("two\nlines".as_bytes()).unwrap();
    assert_eq!(CommandOutput::of(&typed.wait_with_output().unwrap()).expect_success(), "two\nlines\n");
    for words in [&["nodes", "run", "identity", "{", "--input-json"][..], &["nodes", "run", "identity", "--input-json"]]
    {
        assert_eq!(project.type_in(words).code, 2, "{words:?}");
    }
}

#[test]
fn graphs_report_how_each_step_ended() {
    let project = Project::new();
    let graphs = project.type_in(&["graph", "list", "--json"]).json()["graphs"].take();
    let ids: Vec<&Value> = graphs.as_array().unwrap().iter().map(|graph| &graph["id"]).collect();
    assert_eq!(ids, ["both", "stops"]);
    let result = project.type_in(&["graph", "run", "both", "you"]);
    assert_eq!((result.code, result.stdout.as_str()), (0, "hello hello you\n"), "{}", result.stderr);
    let failure = "The command ended with exit code 3: no such file";
    assert!(result.stderr.contains(&format!("flaky  skipped    (2 attempts) {failure}\n")), "{}", result.stderr);
    assert!(result.stderr.ends_with("last   completed\n"), "{}", result.stderr);
    let stopped = project.type_in(&["graph", "run", "stops"]);
    let expected = format!(
        "bad    failed   {failure}\nafter  not run  Step 'bad', on which it depends, failed.\nerror: Step 'bad' failed: {failure}\n"
    );
    assert_eq!((stopped.code, stopped.stderr), (1, expected));
    // Its run failed, but keeps the result.
    let listed = project.type_in(&["runs", "list", "--json"]).json();
    let run = listed["runs"].as_array().unwrap().iter().find(|run| run["workflow_id"] == "stops").unwrap().clone();
    assert_eq!(run["state"], "failed", "{run}");
    let run = run["run_id"].as_str().unwrap();
    let shown = project.type_in(&["runs", "show", run, "--json"]).json();
    assert_eq!(shown["result"]["success"], false, "{shown}");
    assert_eq!(shown["error"], shown["result"]["error"], "{shown}");
    let events = project.type_in(&["runs", "events", run, "--json"]).stdout;
    assert!(events.contains("workflow_failed") && !events.contains("workflow_completed"), "{events}");
    crate::durable::kill(&project.type_in(&["daemon", "status", "--json"]).json()["pid"]);
    let again = project.type_in(&["runs", "show", run, "--json"]).json();
    assert_eq!((&again["state"], &again["result"]), (&json!("failed"), &shown["result"]), "{again}");
}

#[test]
fn call_ends_with_its_requesting_program() {
    let project = Project::new();
    let pid = project.folder.join("slow.pid");
    let mut asks =
        project.home.steplatch().current_dir(&project.folder).args(["nodes", "run", "slow"]).spawn().unwrap();
    eventually_blocking("the node writes its process id", || {
        fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n'))
    });
    let process = format!("/proc/{}/cmdline", fs::read_to_string(&pid).unwrap().trim());
    // A process has no command line for a moment during exec.
    eventually_blocking("the node runs", || fs::read_to_string(&process).is_ok_and(|line| !line.is_empty()));
    asks.kill().unwrap();
    asks.wait().unwrap();
    eventually_blocking("the node ends", || !fs::read_to_string(&process).is_ok_and(|line| !line.is_empty()));
}
