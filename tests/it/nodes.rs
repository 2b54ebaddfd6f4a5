//! Nodes and graphs on the command line: the real program, in a project.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use steplatch_testkit::{CommandOutput, Home, eventually_blocking};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

const PROJECT_FILE: &str = r#"
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
    directory: PathBuf,
}

impl Project {
    fn new() -> Self {
        let home = Home::new(STEPLATCH);
        let directory = home.path().join("project");
        fs::create_dir_all(directory.join("src")).unwrap();
        fs::write(directory.join("steplatch.toml"), PROJECT_FILE).unwrap();
        Self { home, directory }
    }

    fn run(&self, words: &[&str]) -> CommandOutput {
        CommandOutput::from_process(
            &self.home.steplatch().current_dir(self.directory.join("src")).args(words).output().unwrap(),
        )
    }
}

#[test]
fn nodes_are_listed_shown_and_called() {
    let project = Project::new();
    let list = project.run(&["nodes", "list"]);
    let lines: Vec<&str> = list.stdout.lines().collect();
    let rows = [
        "NAME      TYPE      DESCRIPTION",
        "fails     bash",
        "greet     bash      Greets",
        "identity  identity  Returns its input",
        "slow      bash",
    ];
    assert_eq!(lines[..rows.len()], rows);
    assert!(lines[5].starts_with("broken wrong in ") && lines[5].ends_with("did you mean 'bash'?"), "{lines:?}");
    assert_eq!(project.run(&["nodes", "list", "--json"]).json()["nodes"][1]["id"], "greet");
    let record = project.run(&["nodes", "show", "both"]).expect_success();
    assert!(record.contains("  STEP   NODE   INPUT    DEPENDS ON    ON ERROR\n"), "{record}");
    assert!(record.contains("  last   greet  {first}  first, flaky  fail\n"), "{record}");
    assert!(record.contains("retry, then skip\n"), "{record}");

    let output = project.run(&["nodes", "run", "greet", "it's me"]);
    assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (0, "hello it's me\n", "aside\n"));
    let failure = project.run(&["nodes", "run", "fails"]);
    assert_eq!((failure.code, failure.stdout.as_str()), (1, "before\n"));
    assert!(failure.stderr.ends_with("error: The command ended with exit code 3: no such file\n"), "{failure:?}");
    let failure = project.run(&["nodes", "run", "fails", "--json"]);
    let reply = failure.json();
    assert_eq!(
        (failure.code, &reply["error_type"], &reply["attributes"]["exit_code"]),
        (1, &json!("exit_code"), &json!(3))
    );
    let missing = project.run(&["nodes", "run", "gret", "--json"]);
    assert_eq!((missing.code, &missing.json()["error_type"]), (2, &json!("not_found")));
    assert!(missing.stderr.contains("Node 'gret' not found, did you mean 'greet'?"), "{}", missing.stderr);

    let output = project.run(&["nodes", "run", "identity", "[1, {\"a\": null}]", "--input-json"]).json();
    assert_eq!(output, json!([1, {"a": null}]));
    let mut program = project.home.steplatch();
    program.current_dir(&project.directory).args(["nodes", "run", "identity", "-"]);
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    program.stdin.take().unwrap().write_all("two\nlines".as_bytes()).unwrap();
    assert_eq!(CommandOutput::from_process(&program.wait_with_output().unwrap()).expect_success(), "two\nlines\n");
    for words in [&["nodes", "run", "identity", "{", "--input-json"][..], &["nodes", "run", "identity", "--input-json"]]
    {
        assert_eq!(project.run(words).code, 2, "{words:?}");
    }
}

#[test]
fn graph_run_reports_the_outcome_of_each_step() {
    let project = Project::new();
    let graphs = project.run(&["graph", "list", "--json"]).json()["graphs"].take();
    let ids: Vec<&Value> = graphs.as_array().unwrap().iter().map(|graph| &graph["id"]).collect();
    assert_eq!(ids, ["both", "stops"]);
    let result = project.run(&["graph", "run", "both", "you"]);
    assert_eq!((result.code, result.stdout.as_str()), (0, "hello hello you\n"), "{}", result.stderr);
    let failure = "The command ended with exit code 3: no such file";
    assert!(result.stderr.contains(&format!("flaky  skipped    (2 attempts) {failure}\n")), "{}", result.stderr);
    assert!(result.stderr.ends_with("last   completed\n"), "{}", result.stderr);
    let output = project.run(&["graph", "run", "stops"]);
    let expected = format!(
        "bad    failed   {failure}\nafter  not run  Step 'bad', on which it depends, failed.\nerror: Step 'bad' failed: {failure}\n"
    );
    assert_eq!((output.code, output.stderr), (1, expected));
    // The run of the graph failed, but keeps the result.
    let list = project.run(&["runs", "list", "--json"]).json();
    let run = list["runs"].as_array().unwrap().iter().find(|run| run["workflow_id"] == "stops").unwrap().clone();
    assert_eq!(run["state"], "failed", "{run}");
    let run = run["run_id"].as_str().unwrap();
    let record = project.run(&["runs", "show", run, "--json"]).json();
    assert_eq!(record["result"]["success"], false, "{record}");
    assert_eq!(record["error"], record["result"]["error"], "{record}");
    let events = project.run(&["runs", "events", run, "--json"]).stdout;
    assert!(events.contains("workflow_failed") && !events.contains("workflow_completed"), "{events}");
    crate::durable::kill(&project.run(&["daemon", "status", "--json"]).json()["pid"]);
    let after_restart = project.run(&["runs", "show", run, "--json"]).json();
    assert_eq!(
        (&after_restart["state"], &after_restart["result"]),
        (&json!("failed"), &record["result"]),
        "{after_restart}"
    );
}

#[test]
fn call_ends_with_its_requesting_program() {
    let project = Project::new();
    let pid = project.directory.join("slow.pid");
    let mut client =
        project.home.steplatch().current_dir(&project.directory).args(["nodes", "run", "slow"]).spawn().unwrap();
    eventually_blocking("the node writes its process id", || {
        fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n'))
    });
    let process = format!("/proc/{}/cmdline", fs::read_to_string(&pid).unwrap().trim());
    // A process has no command line for a moment during exec.
    eventually_blocking("the node runs", || fs::read_to_string(&process).is_ok_and(|line| !line.is_empty()));
    client.kill().unwrap();
    client.wait().unwrap();
    eventually_blocking("the node ends", || !fs::read_to_string(&process).is_ok_and(|line| !line.is_empty()));
}
