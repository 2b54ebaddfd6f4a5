//! Files of functions that are loaded, stored, reloaded and found by their declarations, by the real program in a
//! project.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, CommandOutput, Home, eventually_blocking};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// A project in a home.
struct Project {
    home: Home,
    directory: PathBuf,
}

/// Returns a file with the workflow `id`. The workflow greets with `word`.
fn greeting_file(id: &str, word: &str) -> String {
    format!(
        "async def greet(ctx):\n    \"\"\"Greets.\n\n    With a word.\n    \"\"\"\n    \
         said = await ctx.run('say_{id}', ctx.params.get('name', 'you'))\n    return '{word} ' + said['output'].strip()\n\n\
         BashNode(id='say_{id}', session=session, command='echo {{input|sh}}', description='Says it')\n\
         Workflow(id='{id}', session=session, fn=greet)\n"
    )
}

const NAP: &str = r#"{"name": "nap", "description": "Sleeps", "initial_state": "s",
    "states": {"s": {"action": {"tool": "sleep", "params": {"seconds": 0.01}}}}}"#;

impl Project {
    fn new() -> Self {
        let home = Home::new(STEPLATCH);
        let directory = home.path().join("project");
        for inner in [".git", "flows", "src"] {
            fs::create_dir_all(directory.join(inner)).unwrap();
        }
        Self { home, directory }
    }

    fn write_file(&self, file: &str, text: &str) {
        fs::write(self.directory.join(file), text).unwrap();
    }

    fn run(&self, words: &[&str]) -> CommandOutput {
        CommandOutput::from_process(&self.home.steplatch().current_dir(&self.directory).args(words).output().unwrap())
    }

    fn load(&self, words: &[&str]) -> CommandOutput {
        self.run(&[&["workflow", "load"], words].concat())
    }

    fn library_path(&self, file: &str) -> PathBuf {
        self.directory.join(".terminal_control_workflows").join(file)
    }

    /// Returns the result of a run of the workflow.
    fn run_workflow(&self, id: &str) -> Value {
        self.run(&["run", id, "--json"]).json()["result"].clone()
    }

    /// Returns the entry of a workflow in lists.
    fn list_entry(&self, id: &str) -> Value {
        let list = self.run(&["workflow", "list", "--json"]).json();
        let found = list["workflows"].as_array().unwrap().iter().find(|workflow| workflow["name"] == id);
        found.cloned().unwrap_or_else(|| panic!("{id} is not in {list}"))
    }

    /// Kills the daemon, as in a crash; the next command starts another one.
    fn crash(&self) {
        let status = self.run(&["daemon", "status", "--json"]).json();
        let daemon = i32::try_from(status["pid"].as_i64().unwrap()).unwrap();
        kill_process(Pid::from_raw(daemon).unwrap(), Signal::KILL).unwrap();
    }

    fn agent(&self) -> Agent {
        Agent::with(&self.home, &[("STEPLATCH_LIBRARY", self.library_path("").to_str().unwrap())])
    }

    /// Waits until this number of a workflow's runs were counted. Runs are counted after their end.
    fn wait_for_count(&self, id: &str, runs: u64) -> Value {
        eventually_blocking("the runs are counted", || self.list_entry(id)["run_count"] == runs);
        self.list_entry(id)
    }
}

#[test]
fn files_are_loaded_by_pattern_despite_an_invalid_one() {
    let project = Project::new();
    project.write_file("flows/hello.py", &greeting_file("hello", "hello"));
    project.write_file("flows/nap.json", NAP);
    project.write_file("flows/bad.py", "async def bad(ctx):\n    return ctx.\n");
    project.write_file("flows/nodes.py", "BashNode(id='fine', command='ls')\nBashNode(id='wrong', comand='ls')\n");
    project.write_file("flows/README.md", "nothing to load");
    let output = project.load(&["flows/*", "flows/hello.py", "nowhere/*.py", "missing.py"]);
    assert_eq!(output.code, 1, "{output:?}");
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines[0], "flows/hello.py: loaded", "{output:?}");
    assert_eq!(lines[1], "  say_hello  bash      Says it");
    assert_eq!(lines[2], "  hello      workflow  Greets.");
    assert!(lines[3].starts_with("flows/nap.json: saved as nap in "));
    assert_eq!(lines[4], "✗ 2 of 6 files loaded: 2 workflows, 1 node; 4 not");
    let syntax_error =
        "error: flows/bad.py, line 2:\n  File \"bad.py\", line 2\n    return ctx.\n               ^\nSyntaxError: ";
    assert!(output.stderr.contains(syntax_error), "{output:?}");
    let unknown_key =
        "flows/nodes.py, line 2: bash 'wrong': /comand: unknown key 'comand' in a bash node, did you mean 'command'?";
    assert!(output.stderr.contains(unknown_key), "{output:?}");
    assert!(output.stderr.contains("nowhere/*.py: no .json or .py file matches"), "{output:?}");
    assert!(output.stderr.contains("missing.py' was not loaded: it does not exist"), "{output:?}");
    assert!(
        !project.library_path("nodes.py").exists() && !project.library_path("bad.py").exists(),
        "no invalid file is stored"
    );

    // Loading again changes nothing; lint reports the same and stores nothing.
    let repeated = project.load(&["flows/hello.py", "--json"]).json();
    let fields = (&repeated[0]["kind"], &repeated[0]["outcome"], &repeated[0]["success"]);
    assert_eq!(fields, (&json!("function"), &json!("unchanged"), &json!(true)), "{repeated}");
    project.write_file("flows/other.py", &greeting_file("other", "hi"));
    let lint_output = project.run(&["workflow", "lint", "flows/other.py", "flows/nodes.py", "hello", "nap"]);
    assert_eq!(lint_output.code, 2);
    let lines: Vec<&str> = lint_output.stdout.lines().collect();
    assert_eq!((lines[0], lines[2], lines[3]), ("flows/other.py: ok", "hello: ok", "nap: ok"));
    assert!(lines[1].starts_with("flows/nodes.py: line 2: bash 'wrong': /comand: unknown key"), "{lint_output:?}");
    assert!(!project.library_path("other.py").exists());
}

#[test]
fn loaded_function_is_found_by_id_and_its_runs_are_counted() {
    let project = Project::new();
    project.write_file("flows/hello.py", &greeting_file("hello", "hello"));
    project.load(&["flows/hello.py"]).expect_success();
    let entry = project.list_entry("hello");
    assert_eq!(
        (&entry["kind"], &entry["status"], &entry["run_count"]),
        (&json!("function"), &json!("draft"), &json!(0))
    );
    assert_eq!(project.run_workflow("hello"), "hello you");
    assert_eq!(project.wait_for_count("hello", 1)["status"], "proven");
    let agent = project.agent();
    let result =
        agent.call_tool("run_workflow", json!({"workflow_name": "hello", "initial_variables": {"name": "ana"}}));
    assert_eq!((&result["result"], &result["available_workflows"]), (&json!("hello ana"), &json!([])), "{result}");
    let description = agent.call_tool("describe_workflow", json!({"name": "hello"}));
    assert_eq!(
        (&description["kind"], &description["description"]),
        (&json!("function"), &json!("Greets.\n\nWith a word."))
    );
    assert_eq!(description["source"]["text"], greeting_file("hello", "hello"));
    assert_eq!(description["source"]["loaded_from"], project.directory.join("flows/hello.py").display().to_string());
    let nodes = project.run(&["nodes", "list", "--json"]).json();
    assert!(nodes["nodes"].as_array().unwrap().iter().any(|node| node["id"] == "say_hello"), "{nodes}");
    assert_eq!(project.run(&["nodes", "run", "say_hello", "me"]).expect_success(), "me\n");

    // Another user sees only the library, and so does the next daemon.
    fs::remove_file(project.directory.join("flows/hello.py")).unwrap();
    project.crash();
    assert_eq!(project.run_workflow("hello"), "hello you");
    let entry = project.wait_for_count("hello", 3);
    assert!(
        entry["note"].as_str().unwrap().ends_with("flows/hello.py, which is no longer followed: it does not exist"),
        "{entry}"
    );
    let output = project.run(&["workflow", "show", "hello"]).expect_success();
    assert!(output.contains("runs       3, of which 3 succeeded") && output.contains("say_hello  bash"), "{output}");
}

#[test]
fn failed_run_is_no_proof_and_a_surviving_run_counts_once() {
    let project = Project::new();
    project.write_file(
        "asks.py",
        "async def asks(ctx):\n    answer = await ctx.gate('Well?')\n    if answer == 'no':\n        raise ValueError('no')\n    return answer\n\
         Workflow(id='asks', session=session, fn=asks)\n",
    );
    project.load(&["asks.py"]).expect_success();
    let start_run = || project.run(&["run", "asks", "--detach"]).expect_success().trim().to_owned();
    // The run may not have reached its gate yet.
    let answer_when_ready = |run: &str, answer: &str| {
        eventually_blocking("the answer is taken", || project.home.answer_gate(run, answer).code == 0);
    };
    let run = start_run();
    answer_when_ready(&run, "no");
    let failed_entry = project.wait_for_count("asks", 1);
    assert_eq!((&failed_entry["status"], &failed_entry["success_count"]), (&json!("draft"), &json!(0)));
    let run = start_run();
    project.crash();
    answer_when_ready(&run, "yes");
    let entry = project.wait_for_count("asks", 2);
    assert_eq!((&entry["status"], &entry["success_count"]), (&json!("proven"), &json!(1)));
}

#[test]
fn changed_file_is_followed_and_an_invalid_one_ignored() {
    let project = Project::new();
    project.write_file("flows/hello.py", &greeting_file("hello", "hello"));
    project.load(&["flows/hello.py"]).expect_success();
    assert_eq!(project.run_workflow("hello"), "hello you");
    project.write_file("flows/hello.py", &greeting_file("hello", "howdy"));
    assert_eq!(project.run_workflow("hello"), "howdy you", "the change keeps the length and nearly the time");
    assert_eq!(fs::read_to_string(project.library_path("hello.py")).unwrap(), greeting_file("hello", "howdy"));
    let description = project.run(&["workflow", "show", "hello", "--json"]).json();
    assert_eq!(description["metadata"]["version"], 2, "{description}");

    // The daemon that read the valid version has exited, so no cache contains it.
    project.write_file("flows/hello.py", "async def hello(ctx):\n    return ctx.\n");
    project.crash();
    for _ in 0..2 {
        assert_eq!(project.run_workflow("hello"), "howdy you");
        let note = project.list_entry("hello")["note"].as_str().unwrap().to_owned();
        assert!(note.contains("flows/hello.py is not valid any more, and what was loaded before counts:"), "{note}");
        assert!(note.contains("line 2\n    return ctx.\n               ^\nSyntaxError"), "{note}");
    }
    project.write_file("flows/hello.py", "BashNode(id='x', comand='ls')\n");
    let note = project.list_entry("hello")["note"].as_str().unwrap().to_owned();
    assert!(
        note.ends_with("bash 'x': /comand: unknown key 'comand' in a bash node, did you mean 'command'?"),
        "{note}"
    );
    project.write_file("flows/hello.py", &greeting_file("hi", "hi"));
    assert_eq!(project.run_workflow("hi"), "hi you");
    let missing = project.run(&["run", "hello"]);
    assert!(missing.stderr.contains("Workflow 'hello' not found. Available workflows: hi"), "{missing:?}");
}

#[test]
fn library_file_takes_precedence_and_its_edits_are_kept() {
    let project = Project::new();
    project.write_file("flows/hello.py", &greeting_file("hello", "hello"));
    project.load(&["flows/hello.py"]).expect_success();
    fs::write(project.library_path("hello.py"), greeting_file("hello", "edited")).unwrap();
    assert_eq!(project.run_workflow("hello"), "edited you");
    assert_eq!(project.wait_for_count("hello", 1)["status"], "proven");
    // A file that arrives through git has no metadata.
    fs::write(project.library_path("came.py"), greeting_file("came", "came")).unwrap();
    assert_eq!(project.run_workflow("came"), "came you");

    project.write_file("flows/hello.py", &greeting_file("hello", "later"));
    assert_eq!(project.run_workflow("hello"), "edited you");
    let note = project.list_entry("hello")["note"].as_str().unwrap().to_owned();
    assert!(note.starts_with("it was edited here, and so was its original "), "{note}");
    let refusal = project.load(&["flows/hello.py"]);
    assert_eq!(refusal.code, 1);
    assert!(
        refusal.stderr.contains("hello.py was edited after it was loaded. To replace it with the file: --overwrite"),
        "{refusal:?}"
    );
    project.load(&["flows/hello.py", "--overwrite"]).expect_success();
    assert_eq!(project.run_workflow("hello"), "later you");

    fs::write(project.library_path("hello.py"), "not Python at all").unwrap();
    let broken = project.run(&["workflow", "list", "--json"]).json();
    let reason = broken["broken"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("SyntaxError") && broken["workflows"].as_array().unwrap().len() == 1, "{broken}");
    assert_eq!(project.run_workflow("came"), "came you", "a broken file hides no other file");
}

#[test]
fn duplicate_id_is_refused_with_its_owner() {
    let project = Project::new();
    project.write_file("steplatch.toml", "[nodes.say_toml]\ntype = \"bash\"\ncommand = \"ls\"\n");
    project.write_file("hello.py", &greeting_file("hello", "hello"));
    project.write_file("nap.json", NAP);
    project.load(&["hello.py", "nap.json"]).expect_success();
    let check_refusal = |file: &str, text: &str, expected: &str| {
        project.write_file(file, text);
        let output = project.load(&[file]);
        assert!(output.code == 1 && output.stderr.contains(expected), "{expected}: {output:?}");
    };
    check_refusal(
        "toml.py",
        &greeting_file("toml", "x"),
        "toml.py, line 9: ID 'say_toml' conflicts with existing node, in ",
    );
    check_refusal("toml.py", &greeting_file("toml", "x"), "project/steplatch.toml");
    check_refusal(
        "node.py",
        "BashNode(id='hello', command='ls')\n",
        "ID 'hello' conflicts with existing workflow, in ",
    );
    check_refusal("again.py", "BashNode(id='say_hello', command='ls')\n", ".terminal_control_workflows/hello.py");
    check_refusal("machine.py", &greeting_file("nap", "x"), "ID 'nap' conflicts with existing workflow, in ");
    check_refusal(
        "own.py",
        "BashNode(id='identity', command='ls')\n",
        "conflicts with existing node, which is built in",
    );
    check_refusal(
        "hello.json",
        &NAP.replace("\"nap\"", "\"say_hello\""),
        "ID 'say_hello' conflicts with existing node, in ",
    );
    check_refusal("my flow.py", &greeting_file("flow", "x"), "is not a workflow name");
    check_refusal("empty.py", "x = 1\n", "it declares nothing; add Workflow(id=…");
    check_refusal("flows/hello.py", &greeting_file("hello", "other"), "hello.py was loaded from ");
    let stored_files: Vec<String> = fs::read_dir(project.library_path(""))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(stored_files.iter().filter(|name| name.ends_with(".py")).count(), 1, "{stored_files:?}");

    // A machine saved by a successful run gets another name.
    let machine: Value = serde_json::from_str(&NAP.replace("\"nap\"", "\"hello\"").replace("0.01", "0.02")).unwrap();
    let result = project.agent().call_tool("run_workflow", json!({"workflow_definition": machine}));
    assert_eq!(
        (&result["workflow_saved"], &result["saved_workflow_name"]),
        (&json!(true), &json!("hello_2")),
        "{result}"
    );

    // A workflow of the same kind, and one of another kind, from the same file: the file is loaded again.
    project.write_file("hello.py", "BashNode(id='hello', command='ls')\n");
    assert!(project.load(&["hello.py"]).expect_success().starts_with("hello.py: reloaded\n"));
    // Conflicting files that were not loaded are reported, and the first one is used.
    fs::write(project.library_path("zebra.py"), greeting_file("hello", "late")).unwrap();
    let list = project.run(&["workflow", "list"]).expect_success();
    assert!(list.contains("zebra.py: 'hello': ID 'hello' conflicts with existing node, in "), "{list}");
}

#[test]
fn function_is_removed_with_its_file_unless_shared() {
    let project = Project::new();
    project.write_file("one.py", &greeting_file("one", "1"));
    let two = format!("{}\n{}", greeting_file("left", "l"), greeting_file("right", "r"));
    project.write_file("two.py", &two);
    project.write_file("nodes.py", "BashNode(id='ls', command='ls')\n");
    project.load(&["*.py"]).expect_success();
    let output = project.run(&["workflow", "rm", "one", "nodes.py"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stderr.contains("also removed: say_one (bash)"), "{output:?}");
    assert!(!project.library_path("one.py").exists() && !project.library_path("one.meta.json").exists());
    assert!(!project.library_path("nodes.py").exists() && project.directory.join("one.py").exists());
    let agent = project.agent();
    let refusal = agent.call_tool("delete_workflow", json!({"name": "left"}));
    let error = refusal["error"].as_str().unwrap();
    assert!(error.contains("together with right.") && error.ends_with("steplatch workflow rm two.py"), "{error}");
    assert_eq!(agent.call_tool("delete_workflow", json!({"name": "two.py"}))["success"], true);
    assert_eq!(project.run(&["workflow", "list", "--json"]).json()["workflows"], json!([]));
    let missing = project.run(&["workflow", "rm", "two.py"]);
    assert!(missing.code == 2 && missing.stderr.contains("There is no file 'two.py' in the library"), "{missing:?}");
}

#[test]
fn functions_and_machines_start_each_other_by_name() {
    let project = Project::new();
    project.write_file("steplatch.toml", "[nodes.from_toml]\ntype = \"bash\"\ncommand = \"echo toml\"\n");
    project.write_file(
        "shared.py",
        "async def shout(ctx):\n    return ctx.input.upper() + '!'\n\
         BashNode(id='aside', session=session, command='echo shared')\n\
         FunctionNode(id='shout', session=session, fn=shout)\n",
    );
    project.write_file(
        "inner.py",
        "async def inner(ctx):\n    verdict = await ctx.gate('Well?')\n    return [ctx.input, verdict]\n\
         Workflow(id='inner', session=session, fn=inner)\n",
    );
    project.write_file(
        "outer.py",
        "async def own(ctx):\n    return 'own'\n\
         async def outer(ctx):\n    said = [(await ctx.run(id, 'hey'))['output'] for id in ['shout', 'aside', 'from_toml']]\n    \
             return [said, await ctx.run_workflow('inner', input='deep'), (await ctx.run_workflow('nap'))['success'], await ctx.run_workflow('own')]\n\
         Workflow(id='own', session=session, fn=own)\n\
         Workflow(id='outer', session=session, fn=outer)\n",
    );
    project.write_file("nap.json", NAP);
    project.write_file(
        "above.json",
        r#"{"name": "above", "description": "Runs a function", "initial_state": "run", "states": {
            "run": {"action": {"tool": "run_workflow", "params": {"workflow_name": "inner", "initial_variables": {"input": "low"}}},
                    "transitions": [{"condition": {"field_contains": {"result": "fine"}}, "next_state": "end"}]},
            "end": {"action": {"tool": "sleep", "params": {"seconds": 0.01}}}}}"#,
    );
    project.load(&["*.py", "*.json"]).expect_success();
    let start = |workflow: &str| project.run(&["run", workflow, "--detach"]).expect_success().trim().to_owned();
    let runs = [start("outer"), start("above")];
    let agent = project.agent();
    let wait_for_run = |run: &str| agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}));
    for run in &runs {
        let waiting = wait_for_run(run);
        assert_eq!(waiting["status"], "waiting", "{waiting}");
    }
    project.crash();
    for run in &runs {
        // The next daemon needs a moment to detect that the run waits for a nested one.
        eventually_blocking("the answer is taken", || project.home.answer_gate(run, "fine").code == 0);
    }
    let outer = wait_for_run(&runs[0]);
    assert_eq!(outer["result"], json!([["HEY!", "shared", "toml"], ["deep", "fine"], true, "own"]), "{outer}");
    let above = wait_for_run(&runs[1]);
    assert_eq!((&above["status"], &above["final_state"]), (&json!("completed"), &json!("end")), "{above}");
    assert_eq!(project.wait_for_count("inner", 2)["status"], "proven");
    project.wait_for_count("nap", 1);
    project.wait_for_count("own", 1);
}

// A run is counted exactly once, before the journal records its end, at whatever moment the daemon is killed.
#[test]
fn function_run_is_counted_once_despite_daemon_crashes() {
    let project = Project::new();
    project.write_file(
        "flows/quick.py",
        "async def quick(ctx):\n    return 1\n\nWorkflow(id='quick', session=session, fn=quick)\n",
    );
    project.load(&["flows/quick.py"]).expect_success();
    let agent = project.agent();
    let start_run =
        || agent.call_tool("run_workflow", json!({"workflow_name": "quick", "wait_seconds": 0}))["run_id"].clone();
    let wait_for_completion = |run: &Value| {
        let outcome = agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}));
        assert_eq!(outcome["status"], "completed", "{outcome}");
    };
    let run_count = || {
        let metadata = fs::read(project.library_path("quick.meta.json")).unwrap();
        let metadata: Value = serde_json::from_slice(&metadata).unwrap();
        metadata["workflows"]["quick"]["run_count"].as_u64().unwrap_or_default()
    };
    for runs in (0..10).step_by(2) {
        let run = start_run();
        wait_for_completion(&run);
        project.crash();
        wait_for_completion(&run);
        assert_eq!(run_count(), runs + 1, "killed right after the run was reported as ended");
        let run = start_run();
        eventually_blocking("the run is counted", || run_count() > runs + 1);
        project.crash();
        wait_for_completion(&run);
        assert_eq!(run_count(), runs + 2, "killed right after the run was counted");
    }
}
