//! Gates for people, on the real binary: forms, concurrent gates, and the approver's passphrase, with typed input.

use serde_json::{Value, json};
use steplatch_testkit::{Agent, CommandOutput, Home, Person, eventually_blocking};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Returns a state machine with one gate, whose last state prints the answer.
fn gate_workflow(params: &Value) -> Value {
    json!({"name": "asking", "initial_state": "ask", "states": {"ask": {"action": {"tool": "gate", "params": params}}}})
}

fn form() -> Value {
    json!({"type": "object", "required": ["version"], "properties": {
        "version": {"type": "string", "title": "Version", "minLength": 3},
        "place": {"type": "string", "enum": ["eu", "us"], "default": "eu"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "loud": {"type": "boolean", "default": false},
    }})
}

/// A home with an agent that starts runs.
struct Story {
    agent: Agent,
    home: Home,
}

impl Story {
    fn new() -> Self {
        let home = Home::new(STEPLATCH);
        Self { agent: Agent::new(&home), home }
    }

    /// Starts a run with a gate and returns its id.
    fn start_gate(&self, params: &Value) -> String {
        let arguments =
            json!({"workflow_definition": gate_workflow(params), "wait_seconds": 60, "save_on_success": false});
        self.start_waiting_run(arguments)
    }

    /// Starts a function with this body and returns the id of its run once it waits at a gate.
    fn start_function(&self, body: &str) -> String {
        self.start_waiting_run(self.write_function(body))
    }

    /// Writes a function with this body and returns the parameters that run it.
    fn write_function(&self, body: &str) -> Value {
        let body: String = body.lines().map(|line| format!("    {line}\n")).collect();
        let text = format!("async def story(ctx):\n{body}\nWorkflow(id=\"story\", session=session, fn=story)\n");
        let file = self.home.path().join("story.py");
        std::fs::write(&file, text).unwrap();
        json!({"workflow_file": file.display().to_string(), "wait_seconds": 60})
    }

    fn start_waiting_run(&self, arguments: Value) -> String {
        let waiting = self.agent.call_tool("run_workflow", arguments);
        assert_eq!(waiting["status"], "waiting", "{waiting:#}");
        waiting["run_id"].as_str().unwrap().to_owned()
    }

    fn finish(&self, run: &str) -> Value {
        let outcome = self.agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}));
        assert_eq!(outcome["status"], "completed", "{outcome:#}");
        outcome
    }

    /// Runs the program with these lines on its standard input, without a terminal.
    fn run_with_input(&self, arguments: &[&str], input: &str) -> CommandOutput {
        self.home.run_with_input(arguments, input)
    }
}

#[test]
fn form_is_filled_in_with_fields_on_the_command_line() {
    let story = Story::new();
    let run = story.start_gate(&json!({"prompt": "Which?", "form": form()}));
    let list = story.home.run(&["gates", "list"]).expect_success();
    for part in [
        "version  a text of at least 3 characters\n",
        "place  one of eu, us, eu if left out",
        "count  a whole number from 1 to 9, may be left out",
        &format!("answer with: steplatch gates answer {run}/ask/1@"),
        " --field NAME=VALUE\n",
    ] {
        assert!(list.contains(part), "no {part:?} in {list}");
    }
    let answer = |fields: &[&str]| story.home.run(&[&["gates", "answer", run.as_str()], fields].concat());
    let invalid_answer = answer(&["--field", "version=1", "-f", "count=ten", "-f", "speed=5"]);
    assert_eq!(invalid_answer.code, 2);
    for part in
        ["'version' must have at least 3", "'count' must be a whole number, not \"ten\"", "'speed' is not a field"]
    {
        assert!(invalid_answer.stderr.contains(part), "no {part:?} in {}", invalid_answer.stderr);
    }
    assert!(answer(&[]).stderr.contains("a question needs a terminal"));
    let output = answer(&["-f", "version=1.2", "-f", "count=3"]).expect_success();
    assert!(output.starts_with("answered: version=1.2 place=eu count=3 loud=false; the run is now "), "{output}");
    let outcome = story.finish(&run);
    let variable = |name: &str| outcome["final_variables"][format!("ask_{name}")].clone();
    assert_eq!((variable("version"), variable("count"), variable("loud")), (json!("1.2"), json!(3), json!(false)));
    assert_eq!(variable("through"), "cli");
}

#[test]
fn function_repeats_its_form_until_the_fields_are_valid() {
    let story = Story::new();
    let run = story.start_function(&format!(
        "import json\nanswer = await ctx.gate('Which?', form=json.loads('''{}'''))\n\
         return [answer['version'], answer['count'] + 1, answer['loud'], answer['place']]",
        form()
    ));
    let json = story.home.run(&["gates", "list", "--json"]).json();
    assert_eq!(json["gates"][0]["form"]["properties"]["count"]["maximum"], 9, "{json}");
    let invalid_answer = story.home.run(&["gates", "answer", &run, r#"{"version": "1.2", "count": 99}"#]);
    assert!(invalid_answer.stderr.contains("'count' must be from 1 to 9, not 99"), "{invalid_answer:?}");
    story.home.run(&["gates", "answer", &run, r#"{"version": "1.2", "count": 8}"#]).expect_success();
    assert_eq!(story.finish(&run)["result"], json!(["1.2", 9, false, "eu"]));
}

#[test]
fn invalid_form_is_an_error_that_the_function_may_catch() {
    let story = Story::new();
    let run = story.start_function(
        "errors = []\n\
         for ask in [{'form': {'properties': {'a': {'type': 'heap'}}}}, {'form': {'properties': {'a': {'type': 'string'}}}, 'choices': ['x']}]:\n\
         \x20   try:\n        await ctx.gate('?', **ask)\n\
         \x20   except ValueError as error:\n        errors.append(str(error))\n\
         await ctx.gate('now?')\n\
         return errors",
    );
    story.home.answer_gate(&run, "yes").expect_success();
    let result = story.finish(&run)["result"].clone();
    assert!(result[0].as_str().unwrap().contains("field 'a' has type \"heap\""), "{result}");
    assert_eq!(result[1], "ctx.gate takes choices or a form, not both");
}

#[test]
fn function_receives_the_reason_of_an_answer_if_it_requests_it() {
    let story = Story::new();
    let run = story.start_function(
        "first = await ctx.gate('Publish?', choices=['publish', 'stop'], with_reason=True, approvers=['team'], \
         escalate_after={'leads': 3600})\n\
         second = await ctx.gate('Really?')\n\
         return [first['answer'], first['reason'], second]",
    );
    let gate = story.home.run(&["gates", "list", "--json"]).json()["gates"][0].clone();
    assert_eq!(gate["approvers"], json!({"team": 0, "leads": 3600}));
    let without_answer = story.home.run(&["gates", "answer", &run, "--reason", "no notes"]);
    assert!(without_answer.stderr.contains("a reason needs an answer"), "{without_answer:?}");
    story.home.run(&["gates", "answer", &run, "stop", "--reason", "no notes"]).expect_success();
    let decided = story.home.run(&["runs", "show", &run, "--json"]).json()["decided"].clone();
    assert_eq!(decided, "stop, because no notes");
    let events = story.home.run(&["runs", "events", &run]).expect_success();
    assert!(events.contains("stop, because no notes (by "), "{events}");
    let gate = story.home.run(&["gates", "list", "--json"]).json()["gates"][0]["gate_id"].clone();
    story.home.run(&["gates", "answer", gate.as_str().unwrap(), "yes", "-r", "it is late"]).expect_success();
    assert_eq!(story.finish(&run)["result"], json!(["stop", "no notes", "yes"]));
}

#[test]
fn each_of_several_gates_takes_one_answer() {
    let story = Story::new();
    let run = story.start_function(
        "import asyncio\n\
         return await asyncio.gather(ctx.gate('One?', choices=['a', 'b']), ctx.gate('Two?'), ctx.gate('Late?', timeout=600))",
    );
    let gates = story.home.run(&["gates", "list", "--json"]).json()["gates"].as_array().unwrap().clone();
    assert_eq!(gates.len(), 3);
    let id = |index: usize| gates[index]["gate_id"].as_str().unwrap();
    let answer = |gate: &str, answer: &str| story.home.run(&["gates", "answer", &run, answer, "--gate", gate]);
    answer(id(1), "second").expect_success();
    let late_answer = answer(id(1), "third");
    // Other gates are still open.
    assert!(
        late_answer.code == 1
            && late_answer.stderr.contains("already answered by")
            && late_answer.stderr.contains(": second"),
        "{late_answer:?}"
    );
    answer(id(0), "1").expect_success();
    answer(id(2), "in time").expect_success();
    assert_eq!(story.finish(&run)["result"], json!(["a", "second", "in time"]));
    let late_answer = answer(id(1), "third");
    assert!(
        late_answer.stderr.contains("already answered by") && late_answer.stderr.contains(": second"),
        "{late_answer:?}"
    );
    let events = story.home.run(&["runs", "events", &run, "--json"]).expect_success();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answers: Vec<&Value> = events.iter().filter(|event| event["event_type"] == "gate_answered").collect();
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|event| event["data"]["through"] == "cli"), "{answers:?}");
}

#[test]
fn function_gate_takes_an_answer_only_before_its_timeout() {
    let story = Story::new();
    for (timeout, result) in [(600.0, "answered: yes"), (0.05, "late")] {
        let reply = story.agent.call_tool("run_workflow", story.write_function(&format!(
            "try:\n    return 'answered: ' + await ctx.gate('Now?', timeout={timeout})\nexcept TimeoutError:\n    return 'late'",
        )));
        let run = reply["run_id"].as_str().unwrap();
        if result == "late" {
            // The events end with the run.
            story.home.run(&["runs", "events", run, "--follow"]).expect_success();
        }
        let output = story.home.run(&["gates", "answer", run, "yes"]);
        let outcome = story.finish(run);
        assert_eq!((output.code == 0, &outcome["result"]), (result != "late", &json!(result)), "{output:?}");
        let events = story.home.run(&["runs", "events", run, "--json"]).expect_success();
        let count_events = |kind: &str| events.lines().filter(|line| line.contains(&format!("\"{kind}\""))).count();
        let expected = if result == "late" { (0, 1) } else { (1, 0) };
        assert_eq!((count_events("gate_answered"), count_events("gate_timeout")), expected, "{events}");
    }
}

#[test]
fn form_is_requested_field_by_field() {
    let (outer, story) = (Home::new(STEPLATCH), Story::new());
    let agent = Agent::new(&outer);
    std::fs::write(
        story.home.path().join("ask.json"),
        gate_workflow(&json!({"prompt": "Which?", "form": form()})).to_string(),
    )
    .unwrap();
    let person = Person::runs(&agent, &story.home, STEPLATCH, "run ask.json");
    person.expect_text("Version \\(a text of at least 3 characters\\):");
    person.type_in("1");
    person.expect_text("'Version' must have at least 3 characters, not 1");
    person.type_in("1.2");
    let screen = person.expect_text("place \\(by number or text; eu if left empty\\):");
    assert!(screen.contains("    1  eu\n    2  us\n"), "{screen}");
    person.type_in("2");
    person.expect_text("count \\(a whole number from 1 to 9; may be left empty\\):");
    person.type_in("");
    person.expect_text("loud \\(yes or no; no if left empty\\):");
    person.type_in("yes");
    let screen = person.expect_text("exit-code-0");
    assert!(screen.contains("answered: version=1.2 place=us "), "{screen}");
}

#[test]
fn text_typed_before_a_question_was_shown_does_not_answer_it() {
    let (outer, story) = (Home::new(STEPLATCH), Story::new());
    let agent = Agent::new(&outer);
    let next = |state: &str| json!([{"condition": "success", "next_state": state}]);
    let machine = json!({"name": "late", "initial_state": "open", "states": {
        "open": {"action": {"tool": "open_terminal", "params": {"command": ["cat"]}}, "transitions": next("wait")},
        "wait": {"action": {"tool": "await_output", "params": {"pattern": "ready", "timeout": 60}}, "transitions": next("ask")},
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Delete all of it?", "choices": ["yes", "no"]}}},
    }});
    std::fs::write(story.home.path().join("late.json"), machine.to_string()).unwrap();
    let person = Person::runs(&agent, &story.home, STEPLATCH, "run late.json");
    let session = || story.agent.call_tool("list_terminal_sessions", json!({}))["sessions"][0]["session_id"].clone();
    eventually_blocking("the run opens a terminal", || !session().is_null());
    // Lines typed ahead for another prompt. Their echo shows that they have arrived.
    person.type_in("1");
    person.type_in("yes");
    person.expect_screen("yes");
    let ready = story.agent.call_tool("send_input", json!({"session_id": session(), "input_text": "ready\n"}));
    assert_eq!(ready["success"], true, "{ready}");
    person.expect_text("Delete all of it\\?");
    person.expect_text("2  no");
    person.type_in("2");
    let screen = person.expect_text("exit-code-");
    assert!(screen.contains("answered: no"), "{screen}");
}

#[test]
fn answer_without_arguments_asks_every_open_question() {
    let (outer, story) = (Home::new(STEPLATCH), Story::new());
    let agent = Agent::new(&outer);
    let first = story.start_gate(&json!({"prompt": "First?", "choices": ["yes", "no"]}));
    let second = story.start_gate(&json!({"prompt": "Second?"}));
    let third = story.start_gate(&json!({"prompt": "Third?", "form": form()}));
    let person = Person::runs(&agent, &story.home, STEPLATCH, "gates answer");
    let screen = person.expect_text("by number or text:");
    assert!(screen.contains("? First?") && !screen.contains("Second?"), "{screen}");
    person.type_in("maybe");
    person.expect_text("invalid answer 'maybe'");
    person.type_in("2");
    person.expect_text("answered: no; the run is now");
    person.expect_text("\\? Second\\?");
    person.type_in("");
    person.expect_text("left open");
    person.expect_text("Version \\(");
    person.type_in("1.2");
    person.expect_text("place \\(");
    person.type_in("");
    person.expect_text("count \\(");
    person.type_in("7");
    person.expect_text("loud \\(");
    person.type_in("");
    let screen = person.expect_text("exit-code-0");
    assert!(screen.contains("answered: version=1.2 place=eu count=7 loud=false; the run is now"), "{screen}");
    assert_eq!(story.finish(&first)["final_variables"]["answer"], "no");
    assert_eq!(story.finish(&third)["final_variables"]["ask_count"], 7);
    let open_gates = story.home.run(&["gates", "list", "--json"]).json();
    assert_eq!((open_gates["gates"].as_array().unwrap().len(), &open_gates["gates"][0]["run_id"]), (1, &json!(second)));
}

#[test]
fn lowered_proof_requirement_does_not_affect_older_questions() {
    let (outer, story) = (Home::new(STEPLATCH), Story::new());
    let agent = Agent::new(&outer);
    let settings = story.home.path().join(".config/steplatch/config.toml");
    let require = |proof: &str| {
        std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
        std::fs::write(&settings, format!("gates.require = '{proof}'\n")).unwrap();
    };
    let status = || story.home.run(&["approver", "status", "--json"]).json();
    require("terminal");
    story.home.run(&["daemon", "restart"]).expect_success();
    let before = story.start_gate(&json!({"prompt": "Before?", "choices": ["yes", "no"]}));
    require("none");
    eventually_blocking("the weaker setting is read", || status()["unconfirmed"] == "none");
    assert_eq!(status()["requires"], "terminal");
    Person::runs(&agent, &story.home, STEPLATCH, "approver lower").expect_text("exit-code-0");
    assert_eq!((&status()["requires"], &status()["unconfirmed"]), (&json!("none"), &json!(null)));
    let refusal = story.home.run(&["gates", "answer", &before, "yes"]);
    assert!(refusal.code == 1 && refusal.stderr.contains("gates.require"), "{refusal:?}");
    let after = story.start_gate(&json!({"prompt": "After?", "choices": ["yes", "no"]}));
    story.home.run(&["gates", "answer", &after, "yes"]).expect_success();
}

#[test]
fn lower_proof_requirement_needs_the_passphrase_if_set() {
    let (outer, story) = (Home::new(STEPLATCH), Story::new());
    let agent = Agent::new(&outer);
    let settings = story.home.path().join(".config/steplatch/config.toml");
    let require = |proof: &str| {
        std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
        std::fs::write(&settings, format!("gates.require = '{proof}'\n")).unwrap();
    };
    let status = || story.home.run(&["approver", "status", "--json"]).json();
    require("terminal");
    story.home.run(&["daemon", "restart"]).expect_success();
    story.run_with_input(&["approver", "set", "--stdin"], "open sesame\n").expect_success();
    require("none");
    eventually_blocking("the weaker setting is read", || status()["unconfirmed"] == "none");
    let person = Person::runs(&agent, &story.home, STEPLATCH, "approver lower");
    person.expect_text("the approver's passphrase:");
    person.type_in("open barley");
    let screen = person.expect_text("exit-code-1");
    assert!(screen.contains("Wrong passphrase") && !screen.contains("barley"), "{screen}");
    assert_eq!(status()["requires"], "terminal");
    let person = Person::runs(&agent, &story.home, STEPLATCH, "approver lower");
    person.expect_text("the approver's passphrase:");
    person.type_in("open sesame");
    let screen = person.expect_text("exit-code-0");
    assert!(!screen.contains("sesame"), "{screen}");
    assert_eq!((&status()["requires"], &status()["unconfirmed"]), (&json!("none"), &json!(null)));
}

#[test]
fn function_node_on_a_redirected_host_is_not_called() {
    let story = Story::new();
    let settings = story.home.path().join(".config/steplatch/config.toml");
    let set_destination = |ssh: &str| {
        std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
        std::fs::write(&settings, format!("[[host]]\nname = 'box'\nssh = '{ssh}'\n")).unwrap();
        eventually_blocking("the host is read", || story.home.run(&["hosts", "list", "--json"]).stdout.contains(ssh));
    };
    let project_file = "[nodes.there]\ntype = \"bash\"\nhost = \"box\"\ncommand = \"deploy\"\n";
    std::fs::write(story.home.path().join("steplatch.toml"), project_file).unwrap();
    set_destination("ana@box.invalid");
    let run = story.start_function(
        "await ctx.gate('Release?', choices=['yes', 'no'])\nresult = await ctx.run('there', 'x')\nreturn result['error']",
    );
    set_destination("evil@elsewhere.invalid");
    story.home.answer_gate(&run, "yes");
    let outcome = story.finish(&run);
    let error = outcome["result"].as_str().unwrap_or_default();
    assert!(error.contains("Host 'box' has changed") && error.contains("evil@elsewhere.invalid"), "{outcome}");
}

#[test]
fn combining_marks_cannot_disguise_a_question() {
    let story = Story::new();
    let stacked_marks = format!("e{}", "\u{301}".repeat(40));
    let prompt = format!("Do n\u{336}o\u{336}t deploy\u{20dd} {stacked_marks}?");
    let run = story.start_gate(&json!({"prompt": prompt, "choices": ["y\u{336}es", "no\u{20e0}"]}));
    for command in [&["gates", "list"][..], &["runs", "show", &run], &["gates", "show", &run]] {
        let output = story.home.run(command).expect_success();
        assert!(output.contains("Do n·o·t deploy·"), "{command:?}: {output}");
        assert!(!output.contains(['\u{336}', '\u{20dd}', '\u{20e0}']), "{command:?}: {output}");
        assert!(!output.contains(&"\u{301}".repeat(4)), "{command:?}: {output}");
    }
    let output = story.home.run(&["gates", "show", &run]).expect_success();
    assert!(output.contains("y·es") && output.contains("no·"), "{output}");
}

#[test]
fn passphrase_is_set_requested_invisibly_and_removed() {
    let (outer, story) = (Home::new(STEPLATCH), Story::new());
    let agent = Agent::new(&outer);
    assert!(story.home.run(&["approver", "status"]).expect_success().contains("no passphrase is set"));
    let person = Person::runs(&agent, &story.home, STEPLATCH, "approver set");
    person.expect_text("new passphrase:");
    person.type_in("open sesame");
    person.expect_text("new passphrase again:");
    person.type_in("open sesame");
    let screen = person.expect_text("exit-code-0");
    assert!(screen.contains("passphrase set") && !screen.contains("sesame"), "{screen}");
    assert_eq!(story.home.run(&["approver", "status", "--json"]).json()["is_set"], true);

    let run = story.start_gate(&json!({"prompt": "Release?", "choices": ["yes", "no"]}));
    let refusal = story.home.run(&["gates", "answer", &run, "yes"]);
    assert!(refusal.code == 1 && refusal.stderr.contains("needs the approver's passphrase"), "{refusal:?}");
    let person = Person::runs(&agent, &story.home, STEPLATCH, &format!("gates answer {run} yes"));
    person.expect_text("the approver's passphrase:");
    person.type_in("open barley");
    person.expect_text("Wrong passphrase; try again in 1 s\\n.*passphrase:");
    // A passphrase typed during the pause is kept, and checked after it.
    person.type_in("open barley");
    person.expect_text("Wrong passphrase; try again in 2 s\\n.*passphrase:");
    person.type_in("open sesame");
    let screen = person.expect_text("exit-code-0");
    assert!(screen.contains("wrong passphrases were given before; this one is checked in "), "{screen}");
    assert!(screen.contains("answered: yes") && !screen.contains("sesame") && !screen.contains("barley"), "{screen}");
    story.finish(&run);

    let run = story.start_gate(&json!({"prompt": "Again?"}));
    let output =
        story.run_with_input(&["gates", "answer", &run, "yes", "--passphrase-stdin"], "open sesame\n").expect_success();
    assert!(output.contains("answered: yes"), "{output}");
    let output = story.run_with_input(&["approver", "set", "--stdin"], "another one\nopen sesame\n").expect_success();
    assert!(output.contains("passphrase set"));
    let error_reply = story.run_with_input(&["approver", "clear", "--stdin"], "open sesame\n");
    assert!(error_reply.code == 1 && error_reply.stderr.contains("Wrong passphrase"), "{error_reply:?}");
    let output = story.run_with_input(&["approver", "clear", "--stdin"], "another one\n").expect_success();
    assert!(output.contains("passphrase removed"), "{output}");
    let (files, content) = read_all_files(story.home.path());
    assert!(files > 3 && !content.contains("argon2id"), "{files} files");
    assert!(!content.contains("sesame") && !content.contains("barley") && !content.contains("another one"));
}

#[test]
fn locked_run_requests_the_passphrase_before_its_question() {
    let (outer, story) = (Home::new(STEPLATCH), Story::new());
    let agent = Agent::new(&outer);
    story.run_with_input(&["approver", "set", "--stdin"], "open sesame\n").expect_success();
    let start_gate = || story.start_gate(&json!({"prompt": "Release?", "choices": ["yes", "no"]}));
    let (first, second, third) = (start_gate(), start_gate(), start_gate());
    let restart = || story.home.run(&["daemon", "restart"]).expect_success();
    restart();
    let list = story.home.run(&["gates", "list"]);
    assert!(list.stderr.contains("3 runs wait and are locked"), "{list:?}");
    let refusal = story.home.run(&["gates", "show", &first]);
    assert!(refusal.code == 1 && refusal.stderr.contains("steplatch approver unlock"), "{refusal:?}");
    let refusal = story.home.run(&["gates", "answer", &first, "yes"]);
    assert!(refusal.code == 1 && refusal.stderr.contains("steplatch approver unlock"), "{refusal:?}");

    let person = Person::runs(&agent, &story.home, STEPLATCH, &format!("gates answer {first}"));
    let screen = person.expect_text("the approver's passphrase, to unlock them:");
    assert!(screen.contains("locked since the daemon restarted") && !screen.contains("Release?"), "{screen}");
    person.type_in("open barley");
    person.expect_text("Wrong passphrase");
    person.type_in("open sesame");
    person.expect_text("Release\\?");
    person.type_in("1");
    person.expect_text("the approver's passphrase:");
    person.type_in("open sesame");
    let screen = person.expect_text("exit-code-0");
    assert!(screen.contains("answered: yes") && !screen.contains("sesame"), "{screen}");
    story.finish(&first);

    restart();
    let output = story
        .run_with_input(&["gates", "answer", &second, "yes", "--passphrase-stdin"], "open sesame\n")
        .expect_success();
    assert!(output.contains("answered: yes"), "{output}");
    restart();
    let output = story.run_with_input(&["approver", "unlock", "--stdin"], "open sesame\n").expect_success();
    assert_eq!(output, "1 run unlocked; see: steplatch gates list\n");
    let second_unlock = story.run_with_input(&["approver", "unlock", "--stdin"], "open sesame\n");
    assert!(second_unlock.code == 0 && second_unlock.stderr.contains("no run is locked"), "{second_unlock:?}");
    assert!(story.home.run(&["gates", "list"]).expect_success().contains(&third));
}

#[test]
fn ctrl_c_leaves_a_question_open_and_twice_cancels_the_run() {
    let (outer, story) = (Home::new(STEPLATCH), Story::new());
    let agent = Agent::new(&outer);
    let definition = gate_workflow(&json!({"prompt": "Release?", "choices": ["yes", "no"]}));
    std::fs::write(story.home.path().join("ask.json"), definition.to_string()).unwrap();
    let person = Person::runs(&agent, &story.home, STEPLATCH, "run ask.json");
    let screen = person.expect_text("by number or text:");
    assert!(screen.contains("Ctrl-C leaves the question open, twice cancels the run"), "{screen}");
    person.press("ctrl-c");
    let screen = person.expect_text("exit-code-3");
    assert!(screen.contains("the question is left open; leaving in 2 s, Ctrl-C again cancels the run"), "{screen}");
    assert!(screen.contains("answer it with: steplatch gates answer run_"), "{screen}");
    let waiting = story.home.run(&["gates", "list", "--json"]).json();
    let run = waiting["gates"][0]["run_id"].as_str().unwrap();
    story.home.run(&["gates", "answer", run, "yes"]).expect_success();
    story.finish(run);

    let person = Person::runs(&agent, &story.home, STEPLATCH, "run ask.json");
    person.expect_text("by number or text:");
    person.press("ctrl-c");
    person.expect_text("Ctrl-C again cancels the run");
    person.press("ctrl-c");
    let screen = person.expect_text("exit-code-1");
    assert!(screen.contains("cancelled in"), "{screen}");
    assert_eq!(story.home.run(&["gates", "list", "--json"]).json()["gates"], json!([]));
}

/// Returns the number of files in a directory, and their whole content.
fn read_all_files(directory: &std::path::Path) -> (usize, String) {
    let (mut files, mut content) = (0, String::new());
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.path().is_dir() {
            let (count, text) = read_all_files(&entry.path());
            (files, content) = (files + count, content + &text);
        } else if entry.path().is_file() {
            files += 1;
            content.push_str(&String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()));
        }
    }
    (files, content)
}

/// An MCP client with dialogs. It accepts each dialog.
const ACCEPTS_ITSELF: &str = r#"
import json, subprocess, sys
server = subprocess.Popen([sys.argv[1], "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def say(**message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()
say(id=1, method="initialize", params={"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "nobody", "version": "1"}})
say(method="notifications/initialized")
say(id=2, method="tools/call", params={"name": "get_run", "arguments": {"run_id": sys.argv[2]}})
for line in server.stdout:
    message = json.loads(line)
    if message.get("method") == "elicitation/create":
        say(id=message["id"], result={"action": "accept", "content": {"decision": "yes"}})
    elif message.get("id") == 2:
        print(message["result"]["structuredContent"]["next_step"])
        break
server.stdin.close()
"#;

#[test]
fn agent_terminal_cannot_answer_or_set_a_passphrase() {
    let story = Story::new();
    let run = story.start_gate(&json!({"prompt": "Release?", "choices": ["yes", "no"]}));
    std::fs::write(story.home.path().join("accepts.py"), ACCEPTS_ITSELF).unwrap();
    let run_in_terminal = |command: String| {
        let result = story.agent.call_tool("run_command", json!({"command": command, "timeout": 60}));
        assert_eq!(result["timed_out"], json!(false), "{result}");
        result["output"].as_str().unwrap().to_owned()
    };
    let command_output = run_in_terminal(format!("{STEPLATCH} gates answer {run} yes"));
    assert!(command_output.contains("in a terminal that steplatch keeps"), "{command_output}");
    let dialog_output = run_in_terminal(format!("python3 accepts.py {STEPLATCH} {run}"));
    assert!(dialog_output.contains("in a terminal that steplatch keeps"), "{dialog_output}");
    let set_output = run_in_terminal(format!("echo a-new-passphrase | {STEPLATCH} approver set --stdin"));
    assert!(set_output.contains("is set by a person"), "{set_output}");
    assert_eq!(story.home.run(&["approver", "status", "--json"]).json()["is_set"], false);
    assert_eq!(story.agent.call_tool("get_run", json!({"run_id": run}))["status"], "waiting");
}

#[test]
fn watched_run_requests_the_passphrase_and_restores_the_echo() {
    let (outer, story) = (Home::new(STEPLATCH), Story::new());
    let agent = Agent::new(&outer);
    story.run_with_input(&["approver", "set", "--stdin"], "open sesame\n").expect_success();
    let definition = gate_workflow(&json!({"prompt": "Release?", "choices": ["yes", "no"]}));
    std::fs::write(story.home.path().join("ask.json"), definition.to_string()).unwrap();
    let person = Person::runs(&agent, &story.home, STEPLATCH, "run ask.json; read -p 'next: ' word; echo");
    person.expect_text("by number or text:");
    person.type_in("1");
    person.expect_text("the approver's passphrase:");
    person.type_in("open sesame");
    person.expect_text("next: ");
    person.type_in("visible");
    let screen = person.expect_text("exit-code-0");
    assert!(screen.contains("answered: yes") && !screen.contains("sesame"), "{screen}");
    assert!(screen.contains("next: visible"), "{screen}");
}

#[test]
fn command_for_one_question_does_not_answer_the_next() {
    // redteam H6: a command typed for the first question, already closed, answered the second question.
    let story = Story::new();
    let gate = |prompt: &str, timeout: u32| json!({"tool": "gate", "params": {"prompt": prompt, "choices": ["yes", "no"], "timeout": timeout}});
    let machine = json!({"name": "asking", "initial_state": "look", "states": {
        "look": {"action": gate("Look?", 1), "on_timeout": "delete"},
        "delete": {"action": gate("DELETE?", 1000)},
    }});
    let arguments = json!({"workflow_definition": machine, "wait_seconds": 60, "save_on_success": false});
    let waiting = story.agent.call_tool("run_workflow", arguments);
    let run = waiting["run_id"].as_str().unwrap().to_owned();
    let gates = || story.home.run(&["runs", "show", &run, "--json"]).json()["pending_gates"].clone();
    eventually_blocking("the second question is open", || gates()[0]["prompt"] == "DELETE?");
    let answer_by_run = story.home.run(&["gates", "answer", &run, "yes"]);
    assert!(
        answer_by_run.code == 2 && answer_by_run.stderr.contains("name the gate that you read"),
        "{answer_by_run:?}"
    );
    let answer_by_gate = story.home.run(&["gates", "answer", &format!("{run}/look/1"), "yes"]);
    assert_ne!(answer_by_gate.code, 0, "{answer_by_gate:?}");
    let digest = gates()[0]["digest"].as_str().unwrap().to_owned();
    let outdated_answer = story.home.run(&["gates", "answer", &format!("{run}/delete/1@00000000"), "yes"]);
    assert!(outdated_answer.stderr.contains("has changed since"), "{outdated_answer:?}");
    story.home.run(&["gates", "answer", &format!("{run}/delete/1@{}", &digest[..8]), "no"]).expect_success();
}

#[test]
fn identically_masked_choices_are_distinguished_by_number() {
    let story = Story::new();
    let gate_action =
        json!({"tool": "gate", "params": {"prompt": "Drop?", "choices": ["drop production", "drop staging"]}});
    let final_state = json!({"action": {"tool": "sleep", "params": {"seconds": 0}}});
    let machine = json!({"name": "dropping", "initial_state": "ask", "states": {
        "ask": {"action": gate_action, "transitions": [
            {"condition": {"field_equals": {"answer": "drop staging"}}, "next_state": "second"},
            {"condition": "success", "next_state": "first"},
        ]},
        "first": final_state, "second": final_state,
    }});
    let arguments = json!({"workflow_definition": machine, "wait_seconds": 60, "save_on_success": false});
    let run = story.agent.call_tool("run_workflow", arguments)["run_id"].as_str().unwrap().to_owned();
    let old_digest =
        story.home.run(&["gates", "list", "--json"]).json()["gates"][0]["digest"].as_str().unwrap().to_owned();
    let terminal = story.agent.call_tool("open_terminal", json!({"command": ["cat"]}));
    for secret in ["production", "staging"] {
        let input = json!({"session_id": terminal["session_id"], "input_text": format!("{secret}\n"), "secret": true});
        assert_eq!(story.agent.call_tool("send_input", input)["success"], true);
    }
    let outdated_answer = story.home.run(&["gates", "answer", &format!("{run}/ask/1@{}", &old_digest[..8]), "2"]);
    assert!(outdated_answer.stderr.contains("has changed since"), "{outdated_answer:?}");
    let list = story.home.run(&["gates", "list"]).expect_success();
    assert!(list.contains("parts of this are hidden as secrets"), "{list}");
    let ambiguous_answer = story.home.run(&["gates", "answer", &format!("{run}/ask/1"), "drop ••••••"]);
    assert_ne!(ambiguous_answer.code, 0, "{ambiguous_answer:?}");
    story.home.run(&["gates", "answer", &format!("{run}/ask/1"), "2"]).expect_success();
    assert_eq!(story.finish(&run)["final_state"], "second");
}

/// Returns a state machine that asks a person, and then runs `make` in the named terminal.
fn make_workflow(session: &str) -> Value {
    json!({"name": "asking", "initial_state": "ask", "states": {
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Release?", "choices": ["yes", "no"]}},
                "transitions": [{"condition": {"field_equals": {"answer": "yes"}}, "next_state": "go"}]},
        "go": {"action": {"tool": "run_command", "params": {"session_id": session, "command": "make"}}},
    }})
}

#[test]
fn terminal_named_by_a_workflow_is_shown_and_locked() {
    let story = Story::new();
    let evil_file = story.home.path().join("evil");
    let open_terminal =
        || story.agent.call_tool("open_terminal", json!({"name": "work"}))["session_id"].as_str().unwrap().to_owned();
    let first = open_terminal();
    let start_run = |session: &str, variables: Value| {
        let arguments = json!({"workflow_definition": make_workflow(session), "initial_variables": variables, "wait_seconds": 60,
                               "save_on_success": false});
        story.start_waiting_run(arguments)
    };
    for (session, variables) in [("work", json!({})), ("{place}", json!({"place": "work"}))] {
        let run = start_run(session, variables);
        let output = story.home.run(&["gates", "show", &format!("{run}/ask/1")]).expect_success();
        assert!(output.contains(&first), "{output}");
        let text = format!("make() {{ touch {}; }}\n", evil_file.display());
        let refusal = story.agent.begin("send_input", json!({"session_id": "work", "input_text": text})).refusal();
        assert!(refusal.contains(&format!("{run} waits for a person")), "{refusal}");
        story.home.run(&["gates", "answer", &format!("{run}/ask/1"), "no"]).expect_success();
        let _ = story.agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}));
    }
    // By the time of the answer, another terminal has the name.
    let run = start_run("work", json!({}));
    story.home.run(&["terminal", "close", "work"]).expect_success();
    let second = open_terminal();
    assert_ne!(first, second);
    story.home.run(&["gates", "answer", &format!("{run}/ask/1"), "yes"]).expect_success();
    let outcome = story.agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}));
    assert_eq!(outcome["status"], "failed", "{outcome:#}");
    assert!(outcome["error"].as_str().unwrap().contains("was not shown to the person"), "{outcome:#}");
    // An unchanged terminal that was shown is used.
    let run = start_run("work", json!({}));
    story.home.run(&["gates", "answer", &format!("{run}/ask/1"), "yes"]).expect_success();
    let outcome = story.agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}));
    assert!(!outcome["error"].as_str().unwrap_or_default().contains("was not shown to the person"), "{outcome:#}");
    assert!(!evil_file.exists());
}

#[test]
fn agent_cannot_skip_a_nested_gate_for_people() {
    let story = Story::new();
    let save_workflow = |name: &str, action: Value| {
        let definition = json!({"name": name, "description": "Does it", "initial_state": "q",
                                "states": {"q": {"action": action}}});
        let reply = story.agent.call_tool("create_workflow", json!({"workflow_definition": definition}));
        assert_eq!(reply["success"], json!(true), "{reply}");
    };
    save_workflow("approval", json!({"tool": "gate", "params": {"prompt": "Deploy?", "choices": ["yes", "no"]}}));
    save_workflow("quiet", json!({"tool": "sleep", "params": {"seconds": 0}}));
    for (name, for_person) in [("approval", true), ("quiet", false)] {
        let machine = json!({"name": "deploying", "initial_state": "a", "states": {
            "a": {"action": {"tool": "run_command", "params": {"command": "false"}}, "on_unknown": "ask",
                  "transitions": [{"condition": {"field_equals": {"exit_code": 0}}, "next_state": "approve"}]},
            "approve": {"action": {"tool": "run_workflow", "params": {"workflow_name": name}},
                        "transitions": [{"condition": "success", "next_state": "deploy"}]},
            "deploy": {"action": {"tool": "sleep", "params": {"seconds": 0}}},
        }});
        let run = story
            .start_waiting_run(json!({"workflow_definition": machine, "wait_seconds": 60, "save_on_success": false}));
        let decision = story.agent.call_tool("decide", json!({"run_id": run, "answer": "go to 'deploy'"}));
        assert_eq!(decision["success"], json!(!for_person), "{name}: {decision:#}");
        story.home.run(&["runs", "cancel", &run]);
    }
}
