//! The real program and a lying remote host: the `ssh` of these homes connects to a host in this process.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use steplatch_liar::{Liar, Lie, Lies, SOCKET, answer, secret_frames, with};
use steplatch_testkit::{Agent, Home, eventually_blocking};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Copies bytes between the standard streams and the socket in the first argument.
const SSH: &str = r#"import os, socket, sys, threading
far = socket.socket(socket.AF_UNIX)
far.connect(sys.argv[1])
def send():
    while data := os.read(0, 65536):
        far.sendall(data)
    far.shutdown(socket.SHUT_WR)
threading.Thread(target=send, daemon=True).start()
while data := far.recv(65536):
    while data:
        data = data[os.write(1, data):]
"#;

/// A home that knows the lying host as `build`.
struct Scene {
    home: Home,
    _runtime: Runtime,
}

impl Scene {
    fn new(lies: Lies) -> Self {
        let mut home = Home::new(STEPLATCH);
        let bin = home.path().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        let (socket, script, ssh) = (home.path().join("far.sock"), bin.join("far.py"), bin.join("ssh"));
        std::fs::write(&script, SSH).unwrap();
        let text = format!("#!/bin/sh\nexec python3 {} {}\n", script.display(), socket.display());
        std::fs::write(&ssh, text).unwrap();
        std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
        home.set("PATH", &format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
        let runtime = Runtime::new().unwrap();
        let listener = {
            let _context = runtime.enter();
            UnixListener::bind(&socket).unwrap()
        };
        runtime.spawn(Liar::new(lies).listen(listener));
        home.run(&["hosts", "add", "build", "--ssh", "box"]).expect_success();
        Self { home, _runtime: runtime }
    }

    /// Returns the number of connections to the host, including exited processes that were not reaped.
    fn count_connections(&self) -> usize {
        let script = self.home.path().join("bin/far.py").display().to_string();
        let daemon = self.home.run(&["daemon", "status", "--json"]).json()["pid"].to_string();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let connections = processes.filter(|entry| {
            let read = |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            let parent = read("stat").rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1).map(str::to_owned));
            read("cmdline").contains(&script) || (parent.as_ref() == Some(&daemon) && read("stat").contains(") Z "))
        });
        connections.count()
    }
}

#[test]
fn thousands_of_remote_terminal_hosts_start_one_local_process() {
    let sockets: Vec<String> = (0..2000).map(|number| format!("host-{number:08x}.sock")).collect();
    let relay = move |_, _: &str| {
        Some(format!("{}\n", json!({"open": {"socket": SOCKET, "is_current": true, "others": sockets}})))
    };
    let scene = Scene::new(Lies { relay: Some(Box::new(relay)), ..Lies::default() });
    let agent = Agent::new(&scene.home);
    let terminal = agent.call_tool("open_terminal", json!({"host": "build"}));
    assert_eq!(terminal["success"], true, "{terminal}");
    assert_eq!(scene.count_connections(), 1);
    let pid = scene.home.run(&["daemon", "status", "--json"]).json()["pid"].clone();
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    assert!(descriptors < 100, "{descriptors} descriptors are open");
    let output = scene.home.run(&["daemon", "stop"]);
    assert_eq!(output.code, 0, "{output:?}");
    eventually_blocking("the connection has ended", || {
        let script = scene.home.path().join("bin/far.py").display().to_string();
        let lines = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default());
        if lines.into_iter().any(|line| line.contains(&script)) { Err("the connection is still open") } else { Ok(()) }
    });
}

#[test]
fn question_text_is_shown_despite_remote_secrets() {
    let secrets = ["DELETE", "EVERYTHING", "completed"].map(|text| json!({"terminal": null, "text": text}));
    let more_secrets = (0..51_000).map(|number| json!({"terminal": null, "text": format!("WORD-{number}")}));
    let scene = Scene::new(Lies { frames: secret_frames(secrets.into_iter().chain(more_secrets)), ..Lies::default() });
    let agent = Agent::new(&scene.home);
    let terminal = agent.call_tool("open_terminal", json!({"host": "build"}));
    assert_eq!(terminal["success"], true, "{terminal}");
    let gate = json!({"prompt": "DELETE EVERYTHING in WORD-7?", "choices": ["yes", "no"], "answered_by": "human"});
    let machine = json!({"initial_state": "ask", "states": {"ask": {"action": {"tool": "gate", "params": gate}}}});
    let arguments = json!({"workflow_definition": machine, "wait_seconds": 60, "save_on_success": false});
    let waiting = agent.call_tool("run_workflow", arguments);
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let list = scene.home.run(&["gates", "list", "--json"]).expect_success();
    assert!(list.contains("DELETE EVERYTHING in WORD-7?"), "{list}");
    // Text of the remote terminals is no longer shown.
    let screen = agent.call_tool("get_screen_content", json!({"session_id": terminal["session_id"]}));
    assert_eq!(screen["screen_content"], "••••••", "{screen}");
    let result = agent.call_tool("run_command", json!({"command": "echo DELETE WORD-7"}));
    assert_eq!(result["output"], "DELETE WORD-7\n", "{result}");
}

#[test]
fn copy_from_a_lying_host_writes_the_requested_file_or_nothing() {
    let reply = |ask: &steplatch_host::HostRequest| {
        // Requests are distinguished by their form on the wire.
        let ask = serde_json::to_value(ask).unwrap();
        let field = |name: &str| ask["File"].get(name).cloned();
        let is_directory = |path: &Value| path.as_str().is_some_and(|path| path.ends_with("site"));
        Some(Lie::Value(match (field("Describe"), field("List")) {
            (Some(path), _) if is_directory(&path) => {
                json!({"Ok": with(with(answer::file(), "/kind", "Directory"), "/path", "/etc")})
            }
            (Some(_), _) => json!({"Ok": with(with(answer::file(), "/size", 0), "/path", "/home/ana/.bashrc")}),
            (_, Some(_)) => json!({"Ok": [{"name": "../../evil", "kind": "File", "size": 3}]}),
            _ => return None,
        }))
    };
    let scene = Scene::new(Lies::in_replies(reply));
    let inbox = scene.home.path().join("inbox");
    std::fs::create_dir(&inbox).unwrap();
    let refusal = scene.home.run(&["cp", "-r", "build:site", "inbox"]);
    assert!(refusal.code == 1 && refusal.stderr.contains("whose name is not a name of a file"), "{refusal:?}");
    let output = scene.home.run(&["cp", "build:report.txt", "inbox"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stdout.contains("inbox/report.txt"), "{output:?}");
    let file_names = |directory: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    assert_eq!(file_names(&inbox), ["report.txt"]);
    assert!(!file_names(scene.home.path()).contains(&"evil".to_owned()));
    assert!(!file_names(scene.home.path()).contains(&".bashrc".to_owned()));
}
