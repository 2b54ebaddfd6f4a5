//! Notifications of a person by every way, and over kills of the daemon.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use steplatch_testkit::{Home, WebhookReceiver, eventually_blocking, find_program, skip_test};

use crate::survival::kill;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

const RELEASE: &str = r#"{"name": "release", "initial_state": "ask", "states": {
    "ask": {"action": {"tool": "gate", "params": {"prompt": "Release?", "choices": ["yes", "no"]}}}
}}"#;

fn home_with(settings: &str) -> Home {
    let home = Home::new(STEPLATCH);
    let file = home.path().join(".config/steplatch/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, settings).unwrap();
    fs::write(home.path().join("release.json"), RELEASE).unwrap();
    home
}

fn start_run(home: &Home) -> String {
    home.run(&["run", "release.json", "--detach", "--json"]).json()["run_id"].as_str().unwrap().to_owned()
}

fn rules(home: &Home) -> Vec<Value> {
    home.run(&["notify", "list", "--json"]).json()["rules"].as_array().unwrap().clone()
}

fn daemon_pid(home: &Home) -> i64 {
    home.run(&["daemon", "status", "--json"]).json()["pid"].as_i64().unwrap()
}

/// A program that is ended with the test.
struct Program(Child);

impl Program {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command of a person in a terminal, whose raw output is in a file.
fn in_terminal(home: &Home, arguments: &str, output: &str) -> Program {
    let mut command = home.inside(&find_program("env").unwrap());
    command.env("TERM", "xterm-256color").env_remove("TMUX").env_remove("KITTY_WINDOW_ID");
    command.env_remove("TERM_PROGRAM").env_remove("VTE_VERSION");
    // The end of the terminal ends the program also where the tests ignore the signal, as below nohup.
    let script = ["--default-signal=HUP", "script", "-qfec"];
    Program::start(command.args(script).args([&format!("{STEPLATCH} {arguments}"), output]))
}

#[test]
fn gate_reaches_a_command_a_webhook_the_terminals_of_a_person_and_a_desktop() {
    if find_program("script").is_none() || find_program("dbus-monitor").is_none() {
        return skip_test("script or dbus-monitor is not installed");
    }
    let mut bus = Program::start(Command::new("dbus-daemon").args(["--session", "--nofork", "--print-address"]));
    let mut address = String::new();
    BufReader::new(bus.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let mut monitor = Program::start(Command::new("dbus-monitor").args(["--address", address.trim()]));
    let mut monitored = BufReader::new(monitor.0.stdout.take().unwrap());
    let mut line = String::new();
    monitored.read_line(&mut line).unwrap();
    let receiver = WebhookReceiver::start();
    let mut home = home_with(&format!(
        "[[notify]]\nwhen = ['gate']\nwebhook = '{}'\nsecret = 'env:HOOK_SECRET'\n\
         [[notify]]\nwhen = ['gate']\nntfy = '{}'\n\
         [[notify]]\nwhen = ['gate']\ncommand = ['sh', '-c', 'echo \"$STEPLATCH_NOTIFY_TITLE\" >>told']\n\
         [[notify]]\nwhen = ['gate']\nterminal = true\n\
         [[notify]]\nwhen = ['gate']\ndesktop = true\n",
        receiver.url("/hook"),
        receiver.url("/topic"),
    ));
    home.set("DBUS_SESSION_BUS_ADDRESS", address.trim());
    home.set("HOOK_SECRET", "kept-secret-word");
    home.run(&["terminal", "open", "--name", "build", "--", "cat"]).expect_success();
    let people = [
        in_terminal(&home, "terminal attach build", "attach.out"),
        in_terminal(&home, "ui", "ui.out"),
        in_terminal(&home, "watch", "watch.out"),
    ];
    let test = || home.run(&["notify", "test", "terminal", "--json"]);
    eventually_blocking("all front-ends show a test", || {
        test();
        let shown =
            |file| fs::read_to_string(home.path().join(file)).unwrap_or_default().contains("\x1b]9;steplatch: Test");
        ["attach.out", "ui.out", "watch.out"].into_iter().all(shown).then_some(())
    });
    let run = start_run(&home);
    let title = "release waits for your answer";
    eventually_blocking("the command was told", || {
        (fs::read_to_string(home.path().join("told")).ok()? == format!("{title}\n")).then_some(())
    });
    for file in ["attach.out", "ui.out", "watch.out"] {
        eventually_blocking(file, || {
            let output = String::from_utf8_lossy(&fs::read(home.path().join(file)).unwrap()).into_owned();
            let expected = format!("\x1b]9;steplatch: {title}. Since ");
            if output.contains(&expected) { Ok(()) } else { Err(output) }
        });
    }
    eventually_blocking("the webhook and ntfy were told", || (receiver.requests().len() == 2).then_some(()));
    let requests = receiver.requests();
    let request = |path: &str| requests.iter().find(|request| request.path == path).unwrap();
    let (hook, topic) = (request("/hook"), request("/topic"));
    assert_eq!(hook.json()["data"]["run_id"], run.as_str());
    assert!(hook.headers["webhook-signature"].starts_with("v1,"), "{hook:?}");
    assert_eq!(topic.headers["title"], title);
    assert!(topic.body.contains(&format!("steplatch gates answer {run}")), "{topic:?}");
    // No desktop runs on this bus.
    let failed =
        eventually_blocking("the failure is listed", || rules(&home)[4]["last_error"].as_str().map(str::to_owned));
    assert!(failed.starts_with("the desktop does not show notifications: org.freedesktop.DBus.Error."), "{failed}");
    drop(bus);
    let mut seen = String::new();
    monitored.read_to_string(&mut seen).unwrap();
    assert!(seen.contains("member=Notify") && seen.contains(&format!("string \"{title}\"")), "{seen}");
    home.answer_gate(&run, "yes").expect_success();
    eventually_blocking("the withdrawal has arrived", || (receiver.requests().len() == 3).then_some(()));
    assert_eq!(receiver.requests()[2].json()["type"], "steplatch.gate.withdrawn");
    assert!(!format!("{:?}", receiver.requests()).contains("kept-secret-word"));
    drop(people);
    eventually_blocking("the front-ends have left, so that none starts another daemon", || {
        let clients = home.run(&["daemon", "status", "--json"]).json()["clients"].as_u64().unwrap();
        if clients <= 1 { Ok(()) } else { Err(clients) }
    });
}

#[test]
fn every_event_arrives_over_kills_of_the_daemon_and_once_by_its_id() {
    let receiver = WebhookReceiver::start();
    let home =
        home_with(&format!("[[notify]]\nwhen = ['gate', 'run_completed']\nwebhook = '{}'\n", receiver.url("/hook")));
    let mut runs = BTreeSet::new();
    let arrived = |kind: &str| -> BTreeSet<String> {
        let events = receiver.requests().into_iter().map(|request| request.json());
        let events = events.filter(|event| event["type"] == kind);
        events.map(|event| event["data"]["run_id"].as_str().unwrap().to_owned()).collect()
    };
    for round in 0..6 {
        // In half of the rounds, the receiver is down when the daemon is killed.
        receiver.answer_with(if round % 2 == 0 { 503 } else { 204 });
        let new: Vec<String> = (0..2).map(|_| start_run(&home)).collect();
        if round % 3 == 0 {
            eventually_blocking("the gates were seen", || {
                let pending = rules(&home)[0]["pending"].as_u64().unwrap();
                (pending >= 2 || arrived("steplatch.gate.first").is_superset(&new.iter().cloned().collect()))
                    .then_some(())
            });
        }
        kill(daemon_pid(&home));
        receiver.answer_with(204);
        // The next command starts a daemon, which resumes the runs.
        home.run(&["daemon", "start"]);
        runs.extend(new);
        eventually_blocking("the gates have arrived", || {
            let arrived = arrived("steplatch.gate.first");
            if arrived == runs { Ok(()) } else { Err((arrived, rules(&home))) }
        });
    }
    let answered: Vec<&String> = runs.iter().collect();
    for run in &answered[..4] {
        home.answer_gate(run, "yes").expect_success();
        kill(daemon_pid(&home));
        home.run(&["daemon", "start"]);
    }
    eventually_blocking("the ends have arrived", || {
        let arrived = arrived("steplatch.run_completed.first");
        if arrived.len() == 4 { Ok(()) } else { Err((arrived, rules(&home))) }
    });
    let mut bodies_by_id = std::collections::BTreeMap::new();
    for request in receiver.requests() {
        let event = request.json();
        let identity = (event["type"].clone(), event["data"]["run_id"].clone());
        let known = bodies_by_id.insert(request.headers["webhook-id"].clone(), identity.clone());
        assert!(known.is_none_or(|known| known == identity), "one id, two events");
    }
    let events: BTreeSet<String> = bodies_by_id.values().map(|event| format!("{event:?}")).collect();
    assert_eq!(events.len(), bodies_by_id.len(), "one event, two ids");
}

#[test]
fn rules_are_listed_tested_and_diagnosed() {
    let home = home_with("");
    let none = home.run(&["notify", "list"]);
    assert!(none.code == 0 && none.stderr.contains("nothing notifies you"), "{none:?}");
    let untested = home.run(&["notify", "test"]);
    assert!(untested.code == 1 && untested.stderr.contains("There is no rule of notifications"), "{untested:?}");
    let findings = |home: &Home| home.run(&["doctor", "--json"]).json()["checks"].clone();
    let about_notifications = |home: &Home| -> Vec<Value> {
        let checks = findings(home).as_array().unwrap().clone();
        checks.into_iter().filter(|check| check["section"] == "Notifications").collect()
    };
    let advice = about_notifications(&home);
    assert_eq!((&advice[0]["state"], advice.len()), (&Value::from("absent"), 1), "{advice:?}");
    let file = home.path().join(".config/steplatch/config.toml");
    fs::write(
        &file,
        "[[notify]]\nwhen = ['gate']\ncommand = ['true']\n\
         [[notify]]\nwhen = ['gate']\nname = 'broken'\ncommand = ['/nonexistent/program']\n\
         [[notify]]\nwhen = ['gate']\nname = 'refused'\nwebhook = 'http://127.0.0.1:9/x'\n",
    )
    .unwrap();
    eventually_blocking("the rules are known", || (rules(&home).len() == 3).then_some(()));
    let one = home.run(&["notify", "test", "true"]);
    assert!(one.code == 0 && one.stdout == "true (command): sent\n", "{one:?}");
    let all = home.run(&["notify", "test"]);
    assert_eq!(all.code, 1, "{all:?}");
    for part in [
        "true (command): sent",
        "broken (command): the command did not start",
        "refused (webhook): the receiver is not reachable",
    ] {
        assert!(all.stdout.contains(part), "no {part} in {all:?}");
    }
    let checks = about_notifications(&home);
    let states: Vec<&str> = checks.iter().map(|check| check["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["ok", "warning", "warning"], "{checks:?}");
    fs::write(&file, "[[notify]]\nwhen = ['gates']\ndesktop = true\n").unwrap();
    let check = home.run(&["config", "check"]);
    assert!(
        check.code == 2 && check.stderr.contains("has the unknown occasion 'gates'; occasions are gate, "),
        "{check:?}"
    );
    assert_eq!(rules(&home).len(), 3, "invalid settings change nothing");
}
