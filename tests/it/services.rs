//! Services of a project on the real binary, with real programs.

use std::fs;
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home, eventually_blocking, free_port};

use crate::durable::kill;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

fn declare(home: &Home, text: &str) {
    fs::write(home.path().join("steplatch.toml"), text).unwrap();
}

/// Returns the services by their names.
fn list(home: &Home) -> Value {
    let listed = home.run(&["ps", "--json"]);
    let services = listed.json()["services"].as_array().unwrap_or_else(|| panic!("{listed:?}")).clone();
    services.into_iter().map(|info| (info["name"].as_str().unwrap().to_owned(), info)).collect()
}

fn state(home: &Home, name: &str) -> Value {
    list(home)[name]["state"].clone()
}

#[test]
fn services_start_in_order_survive_the_daemon_and_stop() {
    let home = Home::new(STEPLATCH);
    let port = free_port();
    declare(
        &home,
        &format!(
            "[services.web]\ncommand = 'python3 -u -m http.server {port} --bind 127.0.0.1'\n\
             ready = {{ url = 'http://127.0.0.1:{port}/' }}\nafter = ['db']\n\
             [services.db]\ncommand = ['bash', '-c', 'echo starting; sleep 0.3; echo system is ready; exec sleep 1000']\n\
             ready = {{ pattern = 'system is ready' }}\n"
        ),
    );
    let up = home.run(&["up", "web"]).expect_success();
    assert!(up.lines().count() == 3 && up.contains(&port.to_string()), "{up}");
    let first = list(&home);
    assert_eq!((&first["web"]["state"], &first["db"]["state"]), (&"ready".into(), &"ready".into()), "{first}");
    assert_eq!(first["web"]["ports"], json!([port]));
    // A second client gets the same process, and an agent reads its output.
    home.run(&["up"]).expect_success();
    assert_eq!(list(&home)["web"]["pid"], first["web"]["pid"]);
    drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
    let agent = Agent::new(&home);
    let screen = agent.call_tool("get_screen_content", json!({"session_id": "web"}));
    assert!(screen["screen_content"].as_str().unwrap().contains("Serving HTTP"), "{screen}");
    assert!(home.run(&["logs", "web"]).expect_success().contains("Serving HTTP"));

    // An agent asks for it by name, and gets what runs.
    let reused = agent.call_tool("open_terminal", json!({"name": "web", "reuse": true}));
    assert_eq!((&reused["reused"], &reused["session_id"]), (&json!(true), &first["web"]["session_id"]), "{reused}");
    let shell = json!({"name": "shell", "shell": "bash", "reuse": true});
    let opened = agent.call_tool("open_terminal", shell.clone());
    let again = agent.call_tool("open_terminal", shell);
    assert_eq!((&again["reused"], &again["session_id"]), (&json!(true), &opened["session_id"]), "{again}");
    let other =
        agent.begin("open_terminal", json!({"name": "shell", "command": ["python3", "-q"], "reuse": true})).refusal();
    assert!(other.contains("it runs 'bash', not 'python3 -q'"), "{other}");
    let closed = agent.call_tool("exit_terminal", json!({"session_id": "shell"}));
    assert_eq!(closed["success"], true, "{closed}");

    kill(&home.run(&["daemon", "status", "--json"]).json()["pid"]);
    let adopted = eventually_blocking("the next daemon supervises it", || {
        let listed = home.run(&["ps", "--json"]);
        (listed.code == 0 && state(&home, "web") == "ready").then(|| list(&home))
    });
    assert_eq!((&adopted["web"]["pid"], &adopted["db"]["pid"]), (&first["web"]["pid"], &first["db"]["pid"]));

    // A service that is killed starts again.
    kill(&adopted["web"]["pid"]);
    eventually_blocking("it has been restarted", || {
        let now = list(&home);
        (now["web"]["state"] == "ready" && now["web"]["pid"] != first["web"]["pid"]).then_some(())
    });

    // What needs a service stops before it.
    let down = home.run(&["down", "db"]).expect_success();
    let rows: Vec<&str> = down.lines().skip(1).map(|row| row.split_whitespace().next().unwrap()).collect();
    assert_eq!(rows, ["web", "db"], "{down}");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!((state(&home, "web"), state(&home, "db")), ("down".into(), "down".into()));
    assert!(home.run(&["terminal", "list"]).stderr.contains("no terminals are open"));
}

#[test]
fn service_that_fails_is_reported_with_its_reason() {
    let home = Home::new(STEPLATCH);
    let (taken, silent) = (free_port(), free_port());
    let other = TcpListener::bind(("127.0.0.1", taken)).unwrap();
    declare(
        &home,
        &format!(
            "[services.dies]\ncommand = 'echo oh no; exit 3'\nmax_restarts = 1\n\
             [services.never]\ncommand = 'exec sleep 1000'\nready = {{ port = {silent}, timeout = 0.5 }}\n\
             [services.taken]\ncommand = 'python3 -m http.server {taken} --bind 127.0.0.1'\nready = {{ port = {taken} }}\n\
             [services.once]\ncommand = 'echo done'\n\
             [services.needs]\ncommand = 'exec sleep 1000'\nafter = ['dies']\n\
             [services.a]\ncommand = 'x'\nafter = ['b']\n[services.b]\ncommand = 'x'\nafter = ['a']\n\
             [services.wrong]\ncommand = 'x'\nready = {{ prot = 1 }}\n"
        ),
    );
    let fails = |arguments: &[&str], error: &str| {
        let output = home.run(arguments);
        assert!(output.code == 1 && output.stderr.contains(error), "{error}: {}", output.stderr);
    };
    fails(&["up", "dies"], "service 'dies' is not up: exit code 3: oh no; given up after 1 restarts");
    fails(&["up", "never"], &format!("not ready within 0.5 s: none of its processes listens on port {silent}"));
    let own = std::process::id();
    fails(&["up", "taken"], &format!("port {taken} is in use by "));
    fails(&["up", "taken"], &format!("(pid {own})"));
    fails(&["up", "once"], "service 'once' is not up: exit code 0: done");
    fails(&["up", "needs"], "given up after 1 restarts");
    fails(&["up", "a"], "services wait for each other: a → b → a");
    fails(&["up", "nothing"], "there is no service 'nothing'; declared are a, b,");
    fails(&["up", "wrong"], "service 'wrong': unknown key 'ready.prot'");
    drop(other);
    home.run(&["up", "taken"]).expect_success();
    declare(
        &home,
        &format!("[services.taken]\ncommand = 'python3 -m http.server {taken}'\nready = {{ port = {taken} }}\n"),
    );
    fails(&["up"], "service 'taken' runs as it was declared before; command changed since: steplatch restart taken");
    home.run(&["restart", "taken"]).expect_success();
    assert_eq!(state(&home, "taken"), "ready");
    home.run(&["down"]).expect_success();
}
