//! Files of functions that are loaded, stored, reloaded and found by their declarations: the real program in a project.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, CommandOutput, Home, eventually_blocking};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// A project in a home.
struct Project {
    home: Home,
    folder: PathBuf,
}

/// Returns a file with the workflow `id`, which greets with `word`.
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
        let folder = home.path().join("project");
        for inner in [".git", "flows", "src"] {
            fs::create_dir_all(folder.join(inner)).unwrap();
        }
        Self { home, folder }
    }

    fn write_file(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).unwrap();
    }

    fn type_in(&self, words: &[&str]) -> CommandOutput {
        CommandOutput::of(&self.home.steplatch().current_dir(&self.folder).args(words).output().unwrap())
    }

    fn load(&self, words: &[&str]) -> CommandOutput {
        self.type_in(&[&["workflow", "load"], words].concat())
    }

    fn library(&self, file: &str) -> PathBuf {
        self.folder.join(".terminal_control_workflows").join(file)
    }

    /// Returns the result of a run of the workflow.
    fn runs(&self, id: &str) -> Value {
        self.type_in(&["run", id, "--json"]).json()["result"].clone()
    }

    /// Returns the entry of a workflow in lists.
    fn listed(&self, id: &str) -> Value {
        let list = self.type_in(&["workflow", "list", "--json"]).json();
        let found = list["workflows"].as_array().unwrap().iter().find(|workflow| workflow["name"] == id);
        found.cloned().unwrap_or_else(|| panic!("{id} is not in {list}"))
    }

    /// Kills the daemon, as in a crash; the next command starts another one.
    fn crash(&self) {
        let status = self.type_in(&["daemon", "status", "--json"]).json();
        let daemon = i32::try_from(status["pid"].as_i64().unwrap()).unwrap();
        kill_process(Pid::from_raw(daemon).unwrap(), Signal::KILL).unwrap();
    }

    fn agent(&self) -> Agent {
        Agent::with(&self.home, &[("STEPLATCH_LIBRARY", self.library("").to_str().unwrap())])
    }

    /// Waits until this number of runs of a workflow were counted, which happens after their end.
    fn counted(&self, id: &str, runs: u64) -> Value {
        eventually_blocking("the runs are counted", || self.listed(id)["run_count"] == runs);
        self.listed(id)
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
    let loaded = project.load(&["flows/*", "flows/hello.py", "nowhere/*.py", "missing.py"]);
    assert_eq!(loaded.code, 1, "{loaded:?}");
    let lines: Vec<&str> = loaded.stdout.lines().collect();
    assert_eq!(lines[0], "flows/hello.py: loaded", "{loaded:?}");
    assert_eq!(lines[1], "  say_hello  bash      Says it");
    assert_eq!(lines[2], "  hello      workflow  Greets.");
    assert!(lines[3].starts_with("flows/nap.json: saved as nap in "));
    assert_eq!(lines[4], "✗ 2 of 6 files loaded: 2 workflows, 1 node; 4 not");
    let bad =
        "error: flows/bad.py, line 2:\n  File \"bad.py\", line 2\n    return ctx.\n               ^\nSyntaxError: ";
    assert!(loaded.stderr.contains(bad), "{loaded:?}");
    let node =
        "flows/nodes.py, line 2: bash 'wrong': /comand: unknown key 'comand' in a bash node, did you mean 'command'?";
    assert!(loaded.stderr.contains(node), "{loaded:?}");
    assert!(loaded.stderr.contains("nowhere/*.py: no .json or .py file matches"), "{loaded:?}");
    assert!(loaded.stderr.contains("missing.py' was not loaded: it does not exist"), "{loaded:?}");
    assert!(!project.library("nodes.py").exists() && !project.library("bad.py").exists(), "nothing of it is kept");

    // Loading again changes nothing; lint reports the same and stores nothing.
    let again = project.load(&["flows/hello.py", "--json"]).json();
    let reported = (&again[0]["kind"], &again[0]["outcome"], &again[0]["success"]);
    assert_eq!(reported, (&json!("function"), &json!("unchanged"), &json!(true)), "{again}");
    project.write_file("flows/other.py", &greeting_file("other", "hi"));
    let linted = project.type_in(&["workflow", "lint", "flows/other.py", "flows/nodes.py", "hello", "nap"]);
    assert_eq!(linted.code, 2);
    let lines: Vec<&str> = linted.stdout.lines().collect();
    assert_eq!((lines[0], lines[2], lines[3]), ("flows/other.py: ok", "hello: ok", "nap: ok"));
    assert!(lines[1].starts_with("flows/nodes.py: line 2: bash 'wrong': /comand: unknown key"), "{linted:?}");
    assert!(!project.library("other.py").exists());
}

#[test]
fn loaded_function_is_found_by_id_and_its_runs_are_counted() {
    let project = Project::new();
    project.write_file("flows/hello.py", &greeting_file("hello", "hello"));
    project.load(&["flows/hello.py"]).expect_success();
    let listed = project.listed("hello");
    assert_eq!(
        (&listed["kind"], &listed["status"], &listed["run_count"]),
        (&json!("function"), &json!("draft"), &json!(0))
    );
    assert_eq!(project.runs("hello"), "hello you");
    assert_eq!(project.counted("hello", 1)["status"], "proven");
    let agent = project.agent();
    let result =
        agent.call_tool("run_workflow", json!({"workflow_name": "hello", "initial_variables": {"name": "ana"}}));
    assert_eq!((&result["result"], &result["available_workflows"]), (&json!("hello ana"), &json!([])), "{result}");
    let described = agent.call_tool("describe_workflow", json!({"name": "hello"}));
    assert_eq!(
        (&described["kind"], &described["description"]),
        (&json!("function"), &json!("Greets.\n\nWith a word."))
    );
    assert_eq!(described["source"]["text"], greeting_file("hello", "hello"));
    assert_eq!(described["source"]["loaded_from"], project.folder.join("flows/hello.py").display().to_string());
    let nodes = project.type_in(&["nodes", "list", "--json"]).json();
    assert!(nodes["nodes"].as_array().unwrap().iter().any(|node| node["id"] == "say_hello"), "{nodes}");
    assert_eq!(project.type_in(&["nodes", "run", "say_hello", "me"]).expect_success(), "me\n");

    // Another user sees only the library, and so does the next daemon.
    fs::remove_file(project.folder.join("flows/hello.py")).unwrap();
    project.crash();
    assert_eq!(project.runs("hello"), "hello you");
    let listed = project.counted("hello", 3);
    assert!(
        listed["note"].as_str().unwrap().ends_with("flows/hello.py, which is not followed any more: it does not exist"),
        "{listed}"
    );
    let shown = project.type_in(&["workflow", "show", "hello"]).expect_success();
    assert!(shown.contains("runs       3, of which 3 succeeded") && shown.contains("say_hello  bash"), "{shown}");
}

#[test]
fn failed_run_proves_nothing_and_surviving_gate_counts_once() {
    let project = Project::new();
    project.write_file(
        "asks.py",
        "async def asks(ctx):\n    answer = await ctx.gate('Well?')\n    if answer == 'no':\n        raise ValueError('no')\n    return answer\n\
         Workflow(id='asks', session=session, fn=asks)\n",
    );
    project.load(&["asks.py"]).expect_success();
    let begins = || project.type_in(&["run", "asks", "--detach"]).expect_success().trim().to_owned();
    // The run may not have reached its gate yet.
    let answers = |run: &str, answer: &str| {
        eventually_blocking("the answer is taken", || project.home.answer_gate(run, answer).code == 0);
    };
    let run = begins();
    answers(&run, "no");
    let failed = project.counted("asks", 1);
    assert_eq!((&failed["status"], &failed["success_count"]), (&json!("draft"), &json!(0)));
    let run = begins();
    project.crash();
    answers(&run, "yes");
    let counted = project.counted("asks", 2);
    assert_eq!((&counted["status"], &counted["success_count"]), (&json!("proven"), &json!(1)));
}

#[test]
fn changed_file_is_followed_and_an_invalid_one_ignored() {
    let project = Project::new();
    project.write_file("flows/hello.py", &greeting_file("hello", "hello"));
    project.load(&["flows/hello.py"]).expect_success();
    assert_eq!(project.runs("hello"), "hello you");
    project.write_file("flows/hello.py", &greeting_file("hello", "howdy"));
    assert_eq!(project.runs("hello"), "howdy you", "of the same length, at nearly the same time");
    assert_eq!(fs::read_to_string(project.library("hello.py")).unwrap(), greeting_file("hello", "howdy"));
    let described = project.type_in(&["workflow", "show", "hello", "--json"]).json();
    assert_eq!(described["metadata"]["version"], 2, "{described}");

    // The daemon that read the valid version has ended, so no cache contains it.
    project.write_file("flows/hello.py", "async def hello(ctx):\n    return ctx.\n");
    project.crash();
    for _ in 0..2 {
        assert_eq!(project.runs("hello"), "howdy you");
        let note = project.listed("hello")["note"].as_str().unwrap().to_owned();
        assert!(note.contains("flows/hello.py is not valid any more, and what was loaded before counts:"), "{note}");
        assert!(note.contains("line 2\n    return ctx.\n               ^\nSyntaxError"), "{note}");
    }
    project.write_file("flows/hello.py", "BashNode(id='x', comand='ls')\n");
    let note = project.listed("hello")["note"].as_str().unwrap().to_owned();
    assert!(
        note.ends_with("bash 'x': /comand: unknown key 'comand' in a bash node, did you mean 'command'?"),
        "{note}"
    );
    project.write_file("flows/hello.py", &greeting_file("hi", "hi"));
    assert_eq!(project.runs("hi"), "hi you");
    let gone = project.type_in(&["run", "hello"]);
    assert!(gone.stderr.contains("Workflow 'hello' not found. Available workflows: hi"), "{gone:?}");
}

#[test]
fn library_file_takes_precedence_and_its_edits_are_kept() {
    let project = Project::new();
    project.write_file("flows/hello.py", &greeting_file("hello", "hello"));
    project.load(&["flows/hello.py"]).expect_success();
    fs::write(project.library("hello.py"), greeting_file("hello", "edited")).unwrap();
    assert_eq!(project.runs("hello"), "edited you");
    assert_eq!(project.counted("hello", 1)["status"], "proven");
    // A file that arrives through git has no metadata.
    fs::write(project.library("came.py"), greeting_file("came", "came")).unwrap();
    assert_eq!(project.runs("came"), "came you");

    project.write_file("flows/hello.py", &greeting_file("hello", "later"));
    assert_eq!(project.runs("hello"), "edited you");
    let note = project.listed("hello")["note"].as_str().unwrap().to_owned();
    assert!(note.starts_with("it was edited here, and so was its original "), "{note}");
    let refused = project.load(&["flows/hello.py"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("hello.py was edited after it was loaded. To replace it with the file: --overwrite"),
        "{refused:?}"
    );
    project.load(&["flows/hello.py", "--overwrite"]).expect_success();
    assert_eq!(project.runs("hello"), "later you");

    fs::write(project.library("hello.py"), "not Python at all").unwrap();
    let broken = project.type_in(&["workflow", "list", "--json"]).json();
    let reason = broken["broken"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("SyntaxError") && broken["workflows"].as_array().unwrap().len() == 1, "{broken}");
    assert_eq!(project.runs("came"), "came you", "it hides no other file");
}

#[test]
fn taken_id_is_refused_with_its_owner() {
    let project = Project::new();
    project.write_file("steplatch.toml", "[nodes.say_toml]\ntype = \"bash\"\ncommand = \"ls\"\n");
    project.write_file("hello.py", &greeting_file("hello", "hello"));
    project.write_file("nap.json", NAP);
    project.load(&["hello.py", "nap.json"]).expect_success();
    let refused = |file: &str, text: &str, wanted: &str| {
        project.write_file(file, text);
        let refused = project.load(&[file]);
        assert!(refused.code == 1 && refused.stderr.contains(wanted), "{wanted}: {refused:?}");
    };
    refused("toml.py", &greeting_file("toml", "x"), "toml.py, line 9: ID 'say_toml' conflicts with existing node, in ");
    refused("toml.py", &greeting_file("toml", "x"), "project/steplatch.toml");
    refused("node.py", "BashNode(id='hello', command='ls')\n", "ID 'hello' conflicts with existing workflow, in ");
    refused("again.py", "BashNode(id='say_hello', command='ls')\n", ".terminal_control_workflows/hello.py");
    refused("machine.py", &greeting_file("nap", "x"), "ID 'nap' conflicts with existing workflow, in ");
    refused("own.py", "BashNode(id='identity', command='ls')\n", "conflicts with existing node, which is always there");
    refused("hello.json", &NAP.replace("\"nap\"", "\"say_hello\""), "ID 'say_hello' conflicts with existing node, in ");
    refused("my flow.py", &greeting_file("flow", "x"), "is not a workflow name");
    refused("empty.py", "x = 1\n", "it declares nothing; add Workflow(id=…");
    refused("flows/hello.py", &greeting_file("hello", "other"), "hello.py was loaded from ");
    let kept: Vec<String> = fs::read_dir(project.library(""))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(kept.iter().filter(|name| name.ends_with(".py")).count(), 1, "{kept:?}");

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
    fs::write(project.library("zebra.py"), greeting_file("hello", "late")).unwrap();
    let listed = project.type_in(&["workflow", "list"]).expect_success();
    assert!(listed.contains("zebra.py: 'hello': ID 'hello' conflicts with existing node, in "), "{listed}");
}

#[test]
fn function_is_removed_with_its_file_unless_shared() {
    let project = Project::new();
    project.write_file("one.py", &greeting_file("one", "1"));
    let two = format!("{}\n{}", greeting_file("left", "l"), greeting_file("right", "r"));
    project.write_file("two.py", &two);
    project.write_file("nodes.py", "BashNode(id='ls', command='ls')\n");
    project.load(&["*.py"]).expect_success();
    let removed = project.type_in(&["workflow", "rm", "one", "nodes.py"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert!(removed.stderr.contains("also removed: say_one (bash)"), "{removed:?}");
    assert!(!project.library("one.py").exists() && !project.library("one.meta.json").exists());
    assert!(!project.library("nodes.py").exists() && project.folder.join("one.py").exists());
    let agent = project.agent();
    let refused = agent.call_tool("delete_workflow", json!({"name": "left"}));
    let error = refused["error"].as_str().unwrap();
    assert!(error.contains("together with right.") && error.ends_with("steplatch workflow rm two.py"), "{error}");
    assert_eq!(agent.call_tool("delete_workflow", json!({"name": "two.py"}))["success"], true);
    assert_eq!(project.type_in(&["workflow", "list", "--json"]).json()["workflows"], json!([]));
    let gone = project.type_in(&["workflow", "rm", "two.py"]);
    assert!(gone.code == 2 && gone.stderr.contains("There is no file 'two.py' in the library"), "{gone:?}");
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
    let began = |workflow: &str| project.type_in(&["run", workflow, "--detach"]).expect_success().trim().to_owned();
    let runs = [began("outer"), began("above")];
    let agent = project.agent();
    let waits = |run: &str| agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}));
    for run in &runs {
        let waiting = waits(run);
        assert_eq!(waiting["status"], "waiting", "{waiting}");
    }
    project.crash();
    for run in &runs {
        // The next daemon needs a moment to detect that the run waits for a nested one.
        eventually_blocking("the answer is taken", || project.home.answer_gate(run, "fine").code == 0);
    }
    let outer = waits(&runs[0]);
    assert_eq!(outer["result"], json!([["HEY!", "shared", "toml"], ["deep", "fine"], true, "own"]), "{outer}");
    let above = waits(&runs[1]);
    assert_eq!((&above["status"], &above["final_state"]), (&json!("completed"), &json!("end")), "{above}");
    assert_eq!(project.counted("inner", 2)["status"], "proven");
    project.counted("nap", 1);
    project.counted("own", 1);
}

// A run is counted before the journal records its end, and exactly once, whenever the daemon is killed.
#[test]
fn function_run_is_counted_once_however_its_daemon_ends() {
    let project = Project::new();
    project.write_file(
        "flows/quick.py",
        "async def quick(ctx):\n    return 1\n\nWorkflow(id='quick', session=session, fn=quick)\n",
    );
    project.load(&["flows/quick.py"]).expect_success();
    let agent = project.agent();
    let begins =
        || agent.call_tool("run_workflow", json!({"workflow_name": "quick", "wait_seconds": 0}))["run_id"].clone();
    let is_over = |run: &Value| {
        let ended = agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}));
        assert_eq!(ended["status"], "completed", "{ended}");
    };
    let counted = || {
        let about = fs::read(project.library("quick.meta.json")).unwrap();
        let about: Value = serde_json::from_slice(&about).unwrap();
        about["workflows"]["quick"]["run_count"].as_u64().unwrap_or_default()
    };
    for runs in (0..10).step_by(2) {
        let run = begins();
        is_over(&run);
        project.crash();
        is_over(&run);
        assert_eq!(counted(), runs + 1, "killed right after the run was reported as ended");
        let run = begins();
        eventually_blocking("the run is counted", || counted() > runs + 1);
        project.crash();
        is_over(&run);
        assert_eq!(counted(), runs + 2, "killed right after the run was counted");
    }
}
