//! `steplatch run`, watched by a person: across restarts of the daemon, and with judgements.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, CommandOutput, Home, Person};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// The reaction of a simulated daemon to a request.
struct Reaction {
    reply: Value,
    events: Vec<Value>,
    disconnects: bool,
}

impl Reaction {
    fn reply(reply: Value) -> Self {
        Self { reply, events: Vec::new(), disconnects: false }
    }
}

/// A simulated daemon in its own home. The daemon listens again whenever it has closed a connection.
struct SimulatedDaemon {
    home: Home,
    socket: PathBuf,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl SimulatedDaemon {
    /// Creates the daemon; `react` receives each request, with the number of earlier calls of its verb.
    fn new(react: impl Fn(&Value, usize) -> Reaction + Send + Sync + 'static) -> Self {
        let home = Home::new(STEPLATCH);
        // The path of the socket is derived from the state directory.
        let socket = home.run(&["daemon", "start", "--json"]).json()["socket"].as_str().unwrap().to_owned();
        home.run(&["daemon", "stop"]).expect_success();
        let listener = UnixListener::bind(&socket).unwrap();
        let requests: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (request_log, react) = (requests.clone(), Arc::new(react));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (request_log, react) = (request_log.clone(), react.clone());
                std::thread::spawn(move || serve(&stream.unwrap(), &request_log, &*react));
            }
        });
        Self { home, socket: socket.into(), requests }
    }

    /// Returns the parameters of each call of `verb`.
    fn request_params(&self, verb: &str) -> Vec<Value> {
        let requests = self.requests.lock().unwrap();
        requests
            .iter()
            .filter(|request| request["command_type"] == verb)
            .map(|request| request["params"].clone())
            .collect()
    }
}

impl Drop for SimulatedDaemon {
    fn drop(&mut self) {
        // Without the socket, the home finds no daemon to stop.
        std::fs::remove_file(&self.socket).unwrap();
    }
}

fn serve(stream: &UnixStream, requests: &Mutex<Vec<Value>>, react: &dyn Fn(&Value, usize) -> Reaction) {
    let mut writer = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).unwrap();
        let id = &request["request_id"];
        let reaction = match request["command_type"].as_str() {
            None => continue,
            Some("HELLO") => Reaction::reply(json!({"protocol_version": 1, "version": "0", "pid": 1})),
            Some(verb) => {
                let mut requests = requests.lock().unwrap();
                let earlier_calls = requests.iter().filter(|request| request["command_type"] == verb).count();
                requests.push(request.clone());
                drop(requests);
                react(&request, earlier_calls)
            }
        };
        let mut output =
            format!("{}\n", json!({"type": "result", "success": true, "data": reaction.reply, "request_id": id}));
        for mut event in reaction.events {
            event["type"] = "event".into();
            event["request_id"] = id.clone();
            output.push_str(&format!("{event}\n"));
        }
        // The client may have disconnected.
        if writer.write_all(output.as_bytes()).is_err() || reaction.disconnects {
            return;
        }
    }
}

/// Returns the events of a run of two states. The second state has an unknown outcome.
fn run_events() -> Vec<Value> {
    let mut seq = 0;
    let mut event = |event_type: &str, data: Value| {
        seq += 1;
        json!({"seq": seq, "run_id": "run_x", "workflow_id": "story", "event_type": event_type, "data": data,
               "timestamp": format!("2026-01-01T00:00:0{seq}.500Z")})
    };
    vec![
        event("workflow_started", json!({})),
        event("state_entered", json!({"state": "one", "tool": "send_input", "params": {"input_text": "make\n"}})),
        event("state_completed", json!({"state": "one", "outcome": "finished", "result": {"success": true}})),
        event("transition", json!({"from": "one", "to": "two"})),
        event("state_entered", json!({"state": "two", "tool": "sleep", "params": {"seconds": 1}})),
        event("state_completed", json!({"state": "two", "outcome": "unknown", "result": null})),
        event("workflow_completed", json!({})),
    ]
}

fn start_reply() -> Value {
    json!({"success": true, "run_id": "run_x", "status": "running"})
}

#[test]
fn run_display_survives_disconnections() {
    let daemon = SimulatedDaemon::new(|request, earlier_calls| match request["command_type"].as_str().unwrap() {
        "RUN_WORKFLOW" => Reaction { disconnects: earlier_calls == 0, ..Reaction::reply(start_reply()) },
        // Each connection delivers one new event, and breaks.
        "SUBSCRIBE" => {
            let from = request["params"]["from_seq"].as_u64().unwrap();
            let events =
                run_events().into_iter().filter(|event| event["seq"].as_u64().unwrap() >= from).take(1).collect();
            Reaction { reply: json!({"success": true}), events, disconnects: true }
        }
        "GET_RUN" => Reaction::reply(json!({"success": true, "run_id": "run_x", "status": "completed"})),
        other => panic!("unexpected request {other}"),
    });
    let output = daemon.home.run(&["run", "./story.json"]).expect_success();
    let lines: Vec<String> = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines[0], "story run_x");
    assert_eq!(lines[1], "✓ one send_input make⏎ 0 µs");
    assert_eq!(lines[2], "? two sleep 1 s → unknown: the daemon exited in the meantime 0 µs");
    assert_eq!(lines[3], "✓ completed in 6.0 s, 2 states", "the times are those of the events");
    assert_eq!(lines.len(), 4, "{output}");
    assert_eq!(daemon.request_params("SUBSCRIBE").len(), run_events().len());
}

#[test]
fn run_evicted_while_watched_is_reported() {
    let daemon = SimulatedDaemon::new(|request, earlier_calls| {
        match (request["command_type"].as_str().unwrap(), earlier_calls) {
            ("RUN_WORKFLOW", _) => Reaction::reply(start_reply()),
            ("SUBSCRIBE", 0) => Reaction {
                reply: json!({"success": true}),
                events: run_events().into_iter().take(2).collect(),
                disconnects: true,
            },
            ("SUBSCRIBE", _) => Reaction::reply(json!({"success": false, "error": "Run 'run_x' not found"})),
            (other, _) => panic!("unexpected request {other}"),
        }
    });
    let output = daemon.home.run(&["run", "./story.json"]);
    assert_eq!(output.code, 1);
    let expected = "error: the daemon no longer knows run run_x; list runs with: steplatch runs list\n";
    assert_eq!(output.stderr, expected);
}

#[test]
fn run_takes_a_file_or_a_name_and_can_be_detached() {
    let daemon = SimulatedDaemon::new(|_, _| Reaction::reply(start_reply()));
    let home = &daemon.home;
    std::fs::write(home.path().join("plain"), "{}").unwrap();
    std::fs::create_dir(home.path().join("release")).unwrap();
    assert_eq!(home.run(&["run", "release", "--detach", "--key", "monday"]).expect_success(), "run_x\n");
    home.run(&["run", "plain", "-d", "--save"]).expect_success();
    assert_eq!(home.run(&["run", "missing.json", "-d", "--json"]).json()["status"], "running");
    let requests = daemon.request_params("RUN_WORKFLOW");
    let request_fields = |n: usize| {
        let request: &Value = &requests[n];
        (request["workflow_name"].clone(), request["workflow_file"].clone(), request["save_on_success"].clone())
    };
    let path_of = |name: &str| json!(home.path().join(name).display().to_string());
    assert_eq!(
        request_fields(0),
        (json!("release"), Value::Null, json!(false)),
        "a directory of that name is not a file"
    );
    assert_eq!((&requests[0]["idempotency_key"], &requests[0]["wait_seconds"]), (&json!("monday"), &json!(0.0)));
    assert_eq!(request_fields(1), (Value::Null, path_of("plain"), json!(true)));
    assert_eq!(request_fields(2), (Value::Null, path_of("missing.json"), json!(false)));
    assert!(daemon.request_params("SUBSCRIBE").is_empty());
}

/// A workflow with a judgement of a screen.
const JUDGED: &str = r#"{"name": "judged", "initial_state": "open", "states": {
    "open": {"action": {"tool": "open_terminal", "params": {"command": ["bash", "-c", "echo 3 warnings; read"]}},
             "transitions": [{"condition": {"success": true}, "next_state": "wait"}]},
    "wait": {"action": {"tool": "await_output", "params": {"pattern": "warnings"}},
             "transitions": [{"condition": {"description": "it is clean"}, "next_state": "release"},
                             {"condition": {"description": "it is broken"}, "next_state": "repair"}]},
    "release": {"action": {"tool": "exit_terminal", "params": {}}},
    "repair": {"action": {"tool": "exit_terminal", "params": {}}}
}}"#;

/// Starts a run of the workflow with the judgement, watched by a person.
fn watch_judged_run<'a>(agent: &'a Agent, home: &Home) -> Person<'a> {
    std::fs::write(home.path().join("judged.json"), JUDGED).unwrap();
    watch_run(agent, home, "judged.json")
}

fn watch_run<'a>(agent: &'a Agent, home: &Home, file: &str) -> Person<'a> {
    Person::runs(agent, home, STEPLATCH, &format!("run {file}"))
}

/// Returns the waiting run in `home`.
fn find_waiting_run(home: &Home) -> String {
    let agent = Agent::new(home);
    let list = agent.call_tool("list_runs", json!({"state": "waiting"}));
    list["runs"][0]["run_id"].as_str().unwrap_or_else(|| panic!("{list}")).to_owned()
}

#[test]
fn person_judges_a_condition_by_number() {
    let (outer, home) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let agent = Agent::new(&outer);
    let person = watch_judged_run(&agent, &home);
    let screen = person.expect_text("by number or text:");
    for part in [
        "? Which condition holds after state 'wait'?",
        "│ 3 warnings",
        "1  it is clean",
        "2  it is broken",
        "3  none of these",
    ] {
        assert!(screen.contains(part), "no {part:?} on:\n{screen}");
    }
    person.send(json!({"input_text": "7\n"}));
    person.expect_text("invalid answer '7'; choose ");
    person.send(json!({"input_text": "2\n"}));
    let screen = person.expect_text("exit-code-0");
    assert!(screen.contains("answered: it is broken") && screen.contains("✓ repair"), "{screen}");
}

#[test]
fn answer_given_elsewhere_ends_the_question() {
    let (outer, home) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let agent = Agent::new(&outer);
    let person = watch_judged_run(&agent, &home);
    person.expect_text("by number or text:");
    person.send(json!({"input_text": "half an ans"}));
    let other_agent = Agent::new(&home);
    let reply = other_agent.call_tool("decide", json!({"run_id": find_waiting_run(&home), "answer": "it is clean"}));
    assert_eq!(reply["success"], true, "{reply}");
    let screen = person.expect_text("exit-code-0");
    assert!(screen.contains("test agent answered: it is clean") && screen.contains("✓ release"), "{screen}");
    assert!(!screen.contains("your answer"), "the question is removed:\n{screen}");
}

#[test]
fn closed_input_explains_how_to_answer_later() {
    let (outer, home) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let agent = Agent::new(&outer);
    let person = watch_judged_run(&agent, &home);
    person.expect_text("by number or text:");
    person.send(json!({"keys": ["c-d"]}));
    let screen = person.expect_text("exit-code-3");
    let expected = format!("answer it with: steplatch gates answer {}/wait/1@", find_waiting_run(&home));
    assert!(screen.contains(&expected), "no {expected:?} on:\n{screen}");
}

#[test]
fn ctrl_c_at_a_question_leaves_it_open() {
    let (outer, home) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let agent = Agent::new(&outer);
    let person = watch_judged_run(&agent, &home);
    person.expect_text("Ctrl-C leaves the question open, twice cancels the run");
    person.send(json!({"keys": ["c-c"]}));
    let screen = person.expect_text("exit-code-3");
    let expected = format!("answer it with: steplatch gates answer {}/wait/1@", find_waiting_run(&home));
    assert!(screen.contains(&expected), "no {expected:?} on:\n{screen}");
}

#[test]
fn ctrl_c_twice_at_a_question_cancels_the_run() {
    let (outer, home) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let agent = Agent::new(&outer);
    // The second Ctrl-C counts within two seconds, and a busy computer may miss that time.
    for _ in 0..10 {
        let person = watch_judged_run(&agent, &home);
        person.expect_text("by number or text:");
        person.send(json!({"keys": ["c-c"]}));
        person.expect_text("Ctrl-C again cancels the run");
        person.send(json!({"keys": ["c-c"]}));
        let screen = person.expect_text("✗ cancelled in |exit-code-3");
        if screen.contains("✗ cancelled in ") {
            assert!(!screen.contains("your answer"), "the question is removed:\n{screen}");
            return;
        }
    }
    panic!("ten times in a row, the second Ctrl-C came more than two seconds after the first");
}

#[test]
fn waiting_run_without_a_terminal_explains_how_to_answer() {
    let home = Home::new(STEPLATCH);
    std::fs::write(home.path().join("judged.json"), JUDGED).unwrap();
    let output = CommandOutput::from_process(
        &home.steplatch().args(["run", "judged.json"]).stdin(Stdio::null()).output().unwrap(),
    );
    assert_eq!(output.code, 3, "{output:?}");
    let expected = format!("answer it with: steplatch gates answer {}/wait/1@", find_waiting_run(&home));
    assert!(output.stdout.contains(&expected), "{output:?}");
    assert!(output.stdout.contains("2  it is broken\n") && !output.stdout.contains('\x1b'), "{output:?}");

    let json = CommandOutput::from_process(
        &home.steplatch().args(["run", "judged.json", "--json"]).stdin(Stdio::null()).output().unwrap(),
    );
    assert_eq!((json.code, &json.json()["status"]), (3, &json!("waiting")));
    assert_eq!(json.json()["pending_gate"]["choices"][1], "it is broken");
}

#[test]
fn nested_question_is_shown_with_its_states() {
    let (outer, home) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let inner: Value = serde_json::from_str(JUDGED).unwrap();
    let state = |params: Value| json!({"action": {"tool": "run_workflow", "params": params}});
    let definition = json!({"name": "outer", "initial_state": "delegate", "states": {
        "delegate": state(json!({"workflow_definition": inner})),
    }});
    std::fs::write(home.path().join("outer.json"), definition.to_string()).unwrap();
    // Without a person, the command names the waiting run that needs an answer.
    let output = CommandOutput::from_process(
        &home.steplatch().args(["run", "outer.json"]).stdin(Stdio::null()).output().unwrap(),
    );
    let waiting = find_waiting_run(&home);
    assert_eq!(output.code, 3, "{output:?}");
    assert!(output.stdout.contains(&format!("steplatch gates answer {waiting}/wait/1@")), "{output:?}");
    let agent = Agent::new(&home);
    assert_eq!(agent.call_tool("cancel_run", json!({"run_id": waiting}))["success"], true);

    let agent = Agent::new(&outer);
    let person = watch_run(&agent, &home, "outer.json");
    person.expect_text("by number or text:");
    // Longer than the delay of the animation.
    person.send(json!({"input_text": " ", "wait_for_quiet_ms": 500}));
    person.send(json!({"input_text": "1\n"}));
    let screen = person.expect_text("exit-code-0");
    assert!(screen.contains("by number or text:  1\n"), "the typed text is not overwritten:\n{screen}");
    let position = |part: &str| screen.find(part).unwrap_or_else(|| panic!("no {part:?} on:\n{screen}"));
    let positions = [
        position("    ✓ wait "),
        position("answered: it is clean"),
        position("    ✓ release "),
        position("\n  ✓ delegate "),
    ];
    assert!(positions.is_sorted(), "{screen}");
    assert!(screen.contains(", 1 state"), "the states of the nested run are its own:\n{screen}");
}

#[test]
fn child_question_is_shown_where_its_function_is_watched() {
    let (outer, home) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let mut judged: Value = serde_json::from_str(JUDGED).unwrap();
    judged["description"] = "Asks what holds".into();
    std::fs::write(home.path().join("judged.json"), judged.to_string()).unwrap();
    home.run(&["workflow", "load", "judged.json"]).expect_success();
    let function = "async def twice(ctx):\n                        ended = await asyncio.gather(ctx.run_workflow('judged'), ctx.run_workflow('judged'))\n                        return len(ended)\n\nimport asyncio\nWorkflow(id='twice', session=session, fn=twice)\n";
    std::fs::write(home.path().join("twice.py"), function).unwrap();
    let agent = Agent::new(&outer);
    let person = watch_run(&agent, &home, "twice.py");
    person.expect_text("by number or text:");
    person.send(json!({"input_text": "1\n"}));
    // By then, the other question is asked, or repeated below the new events.
    person.expect_text("(?s)answered: it is clean.*by number or text:");
    person.send(json!({"input_text": "1\n"}));
    let screen = person.expect_text("exit-code-0");
    assert_eq!(screen.matches("    ✓ release ").count(), 2, "the states of both are shown:\n{screen}");
    assert_eq!(screen.matches("answered: it is clean").count(), 2, "{screen}");
}

#[test]
fn killed_daemon_is_invisible_to_watchers() {
    let home = Home::new(STEPLATCH);
    let definition = json!({"name": "steady", "initial_state": "open", "states": {
        "open": {
            "action": {"tool": "open_terminal", "params": {"command": [
                "bash", "-c", "until [ -e go ]; do sleep 0.05; done; echo it-is-there; read"
            ]}},
            "transitions": [{"condition": {"success": true}, "next_state": "watch"}],
        },
        "watch": {
            "action": {"tool": "await_output", "params": {"pattern": "it-is-there", "timeout": 100}},
            "transitions": [{"condition": {"success": true}, "next_state": "close"}],
        },
        "close": {"action": {"tool": "exit_terminal", "params": {}}},
    }});
    std::fs::write(home.path().join("steady.json"), definition.to_string()).unwrap();
    let mut watcher = home.steplatch();
    let mut watcher = watcher.args(["run", "steady.json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watcher.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().starts_with("steady run_"));
    assert!(lines.next().unwrap().contains("✓ open "));
    for _ in 0..3 {
        let pid = home.run(&["daemon", "status", "--json"]).json()["pid"].as_i64().unwrap();
        kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
        // This command or the watching client starts the next daemon.
        home.run(&["terminal", "list"]).expect_success();
    }
    std::fs::write(home.path().join("go"), "").unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(watcher.wait().unwrap().code(), Some(0), "{rest:#?}");
    assert!(rest[0].contains("✓ watch ") && rest[1].contains("✓ close "), "{rest:#?}");
    assert!(rest[2].contains("✓ completed in ") && rest.len() == 3, "{rest:#?}");
}
