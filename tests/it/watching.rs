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
struct Play {
    reply: Value,
    events: Vec<Value>,
    hangs_up: bool,
}

impl Play {
    fn says(reply: Value) -> Self {
        Self { reply, events: Vec::new(), hangs_up: false }
    }
}

/// A simulated daemon in its own home. It listens again whenever it has closed a connection.
struct Played {
    home: Home,
    socket: PathBuf,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Played {
    /// Creates the daemon; `plays` receives each request, with the number of earlier calls of its verb.
    fn new(plays: impl Fn(&Value, usize) -> Play + Send + Sync + 'static) -> Self {
        let home = Home::new(STEPLATCH);
        // The path of the socket is derived from the state directory.
        let socket = home.run(&["daemon", "start", "--json"]).json()["socket"].as_str().unwrap().to_owned();
        home.run(&["daemon", "stop"]).expect_success();
        let listener = UnixListener::bind(&socket).unwrap();
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (seen, plays) = (asked.clone(), Arc::new(plays));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, plays) = (seen.clone(), plays.clone());
                std::thread::spawn(move || serve(&stream.unwrap(), &seen, &*plays));
            }
        });
        Self { home, socket: socket.into(), asked }
    }

    /// Returns the parameters of each call of `verb`.
    fn asked(&self, verb: &str) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|asked| asked["command_type"] == verb).map(|asked| asked["params"].clone()).collect()
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        // Without the socket, the home finds no daemon to stop.
        std::fs::remove_file(&self.socket).unwrap();
    }
}

fn serve(stream: &UnixStream, asked: &Mutex<Vec<Value>>, plays: &dyn Fn(&Value, usize) -> Play) {
    let mut writing = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let question: Value = serde_json::from_str(&line).unwrap();
        let id = &question["request_id"];
        let play = match question["command_type"].as_str() {
            None => continue,
            Some("HELLO") => Play::says(json!({"protocol_version": 1, "version": "0", "pid": 1})),
            Some(verb) => {
                let mut asked = asked.lock().unwrap();
                let before = asked.iter().filter(|asked| asked["command_type"] == verb).count();
                asked.push(question.clone());
                drop(asked);
                plays(&question, before)
            }
        };
        let mut output =
            format!("{}\n", json!({"type": "result", "success": true, "data": play.reply, "request_id": id}));
        for mut event in play.events {
            event["type"] = "event".into();
            event["request_id"] = id.clone();
            output.push_str(&format!("{event}\n"));
        }
        // The client may have disconnected.
        if writing.write_all(output.as_bytes()).is_err() || play.hangs_up {
            return;
        }
    }
}

/// Returns the events of a run of two states, the second of which has an unknown outcome.
fn story() -> Vec<Value> {
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

fn start_events() -> Value {
    json!({"success": true, "run_id": "run_x", "status": "running"})
}

#[test]
fn run_display_is_undisturbed_by_ending_daemons() {
    let daemon = Played::new(|question, before| match question["command_type"].as_str().unwrap() {
        "RUN_WORKFLOW" => Play { hangs_up: before == 0, ..Play::says(start_events()) },
        // Each connection delivers one new event, and breaks.
        "SUBSCRIBE" => {
            let from = question["params"]["from_seq"].as_u64().unwrap();
            let events = story().into_iter().filter(|event| event["seq"].as_u64().unwrap() >= from).take(1).collect();
            Play { reply: json!({"success": true}), events, hangs_up: true }
        }
        "GET_RUN" => Play::says(json!({"success": true, "run_id": "run_x", "status": "completed"})),
        other => panic!("nobody requests {other}"),
    });
    let output = daemon.home.run(&["run", "./story.json"]).expect_success();
    let lines: Vec<String> = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines[0], "story run_x");
    assert_eq!(lines[1], "✓ one send_input make⏎ 0 µs");
    assert_eq!(lines[2], "? two sleep 1 s → unknown: the daemon ended meanwhile 0 µs");
    assert_eq!(lines[3], "✓ completed in 6.0 s, 2 states", "as the events tell it");
    assert_eq!(lines.len(), 4, "{output}");
    assert_eq!(daemon.asked("SUBSCRIBE").len(), story().len());
}

#[test]
fn run_evicted_while_watched_is_reported() {
    let daemon = Played::new(|question, before| match (question["command_type"].as_str().unwrap(), before) {
        ("RUN_WORKFLOW", _) => Play::says(start_events()),
        ("SUBSCRIBE", 0) => {
            Play { reply: json!({"success": true}), events: story().into_iter().take(2).collect(), hangs_up: true }
        }
        ("SUBSCRIBE", _) => Play::says(json!({"success": false, "error": "Run 'run_x' not found"})),
        (other, _) => panic!("nobody requests {other}"),
    });
    let output = daemon.home.run(&["run", "./story.json"]);
    assert_eq!(output.code, 1);
    let expected = "error: the daemon no longer knows run run_x; list runs with: steplatch runs list\n";
    assert_eq!(output.stderr, expected);
}

#[test]
fn file_differs_from_name_and_a_run_can_continue_unwatched() {
    let daemon = Played::new(|_, _| Play::says(start_events()));
    let home = &daemon.home;
    std::fs::write(home.path().join("plain"), "{}").unwrap();
    std::fs::create_dir(home.path().join("release")).unwrap();
    assert_eq!(home.run(&["run", "release", "--detach", "--key", "monday"]).expect_success(), "run_x\n");
    home.run(&["run", "plain", "-d", "--save"]).expect_success();
    assert_eq!(home.run(&["run", "missing.json", "-d", "--json"]).json()["status"], "running");
    let asked = daemon.asked("RUN_WORKFLOW");
    let told = |n: usize| {
        let asked: &Value = &asked[n];
        (asked["workflow_name"].clone(), asked["workflow_file"].clone(), asked["save_on_success"].clone())
    };
    let file = |name: &str| json!(home.path().join(name).display().to_string());
    assert_eq!(told(0), (json!("release"), Value::Null, json!(false)), "a directory of that name is not a file");
    assert_eq!((&asked[0]["idempotency_key"], &asked[0]["wait_seconds"]), (&json!("monday"), &json!(0.0)));
    assert_eq!(told(1), (Value::Null, file("plain"), json!(true)));
    assert_eq!(told(2), (Value::Null, file("missing.json"), json!(false)));
    assert!(daemon.asked("SUBSCRIBE").is_empty());
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

/// Starts a run of the machine with the judgement, watched by a person.
fn judging_workflow<'a>(agent: &'a Agent, home: &Home) -> Person<'a> {
    std::fs::write(home.path().join("judged.json"), JUDGED).unwrap();
    watch_run(agent, home, "judged.json")
}

fn watch_run<'a>(agent: &'a Agent, home: &Home, file: &str) -> Person<'a> {
    Person::runs(agent, home, STEPLATCH, &format!("run {file}"))
}

/// Returns the waiting run in `home`.
fn waiting_run(home: &Home) -> String {
    let agent = Agent::new(home);
    let listed = agent.call_tool("list_runs", json!({"state": "waiting"}));
    listed["runs"][0]["run_id"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned()
}

#[test]
fn person_judges_a_condition_by_number() {
    let (outer, home) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let agent = Agent::new(&outer);
    let person = judging_workflow(&agent, &home);
    let screen = person.expect_text("by number or text:");
    for part in
        ["? What holds after state 'wait'?", "│ 3 warnings", "1  it is clean", "2  it is broken", "3  none of these"]
    {
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
    let person = judging_workflow(&agent, &home);
    person.expect_text("by number or text:");
    person.send(json!({"input_text": "half an ans"}));
    let other = Agent::new(&home);
    let answered = other.call_tool("decide", json!({"run_id": waiting_run(&home), "answer": "it is clean"}));
    assert_eq!(answered["success"], true, "{answered}");
    let screen = person.expect_text("exit-code-0");
    assert!(screen.contains("test agent answered: it is clean") && screen.contains("✓ release"), "{screen}");
    assert!(!screen.contains("your answer"), "the question is gone:\n{screen}");
}

#[test]
fn closed_input_explains_how_to_answer_later() {
    let (outer, home) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let agent = Agent::new(&outer);
    let person = judging_workflow(&agent, &home);
    person.expect_text("by number or text:");
    person.send(json!({"keys": ["c-d"]}));
    let screen = person.expect_text("exit-code-3");
    let reported = format!("answer it with: steplatch gates answer {}/wait/1@", waiting_run(&home));
    assert!(screen.contains(&reported), "no {reported:?} on:\n{screen}");
}

#[test]
fn ctrl_c_at_a_question_leaves_it_open() {
    let (outer, home) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let agent = Agent::new(&outer);
    let person = judging_workflow(&agent, &home);
    person.expect_text("Ctrl-C leaves the question open, twice cancels the run");
    person.send(json!({"keys": ["c-c"]}));
    let screen = person.expect_text("exit-code-3");
    let reported = format!("answer it with: steplatch gates answer {}/wait/1@", waiting_run(&home));
    assert!(screen.contains(&reported), "no {reported:?} on:\n{screen}");
}

#[test]
fn ctrl_c_twice_at_a_question_cancels_the_run() {
    let (outer, home) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let agent = Agent::new(&outer);
    // The second Ctrl-C counts within two seconds, which a busy machine may miss.
    for _ in 0..10 {
        let person = judging_workflow(&agent, &home);
        person.expect_text("by number or text:");
        person.send(json!({"keys": ["c-c"]}));
        person.expect_text("Ctrl-C again cancels the run");
        person.send(json!({"keys": ["c-c"]}));
        let screen = person.expect_text("✗ cancelled in |exit-code-3");
        if screen.contains("✗ cancelled in ") {
            assert!(!screen.contains("your answer"), "the question is gone:\n{screen}");
            return;
        }
    }
    panic!("ten times in a row, the second Ctrl-C came more than two seconds after the first");
}

#[test]
fn waiting_run_without_a_terminal_says_how_to_answer() {
    let home = Home::new(STEPLATCH);
    std::fs::write(home.path().join("judged.json"), JUDGED).unwrap();
    let said = CommandOutput::of(&home.steplatch().args(["run", "judged.json"]).stdin(Stdio::null()).output().unwrap());
    assert_eq!(said.code, 3, "{said:?}");
    let reported = format!("answer it with: steplatch gates answer {}/wait/1@", waiting_run(&home));
    assert!(said.stdout.contains(&reported), "{said:?}");
    assert!(said.stdout.contains("2  it is broken\n") && !said.stdout.contains('\x1b'), "{said:?}");

    let json = CommandOutput::of(
        &home.steplatch().args(["run", "judged.json", "--json"]).stdin(Stdio::null()).output().unwrap(),
    );
    assert_eq!((json.code, &json.json()["status"]), (3, &json!("waiting")));
    assert_eq!(json.json()["pending_gate"]["choices"][1], "it is broken");
}

#[test]
fn nested_question_is_asked_with_its_states_shown() {
    let (outer, home) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let inner: Value = serde_json::from_str(JUDGED).unwrap();
    let state = |params: Value| json!({"action": {"tool": "run_workflow", "params": params}});
    let definition = json!({"name": "outer", "initial_state": "delegate", "states": {
        "delegate": state(json!({"workflow_definition": inner})),
    }});
    std::fs::write(home.path().join("outer.json"), definition.to_string()).unwrap();
    // Without a person, the command names the waiting run that needs an answer.
    let said = CommandOutput::of(&home.steplatch().args(["run", "outer.json"]).stdin(Stdio::null()).output().unwrap());
    let waiting = waiting_run(&home);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.stdout.contains(&format!("steplatch gates answer {waiting}/wait/1@")), "{said:?}");
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
    let at = |part: &str| screen.find(part).unwrap_or_else(|| panic!("no {part:?} on:\n{screen}"));
    let places = [at("    ✓ wait "), at("answered: it is clean"), at("    ✓ release "), at("\n  ✓ delegate ")];
    assert!(places.is_sorted(), "{screen}");
    assert!(screen.contains(", 1 state"), "the states of the nested run are its own:\n{screen}");
}

#[test]
fn question_of_a_child_is_asked_where_its_function_is_watched() {
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
