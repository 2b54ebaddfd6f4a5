//! Terminals on a remote host: a real `sshd` on this computer's loopback interface, and another user.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home, Person, eventually_blocking};
use tempfile::TempDir;

use crate::ssh_server::{Guest, PASSWORD, Server};
use crate::survival::{check_output_survives, kill, sleep_randomly, wait_for_next_daemon};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// A remote host that the home reaches as `box`.
pub(crate) struct RemoteHost {
    server: Server,
    pub(crate) guest: Guest,
    pub(crate) home_dir: TempDir,
}

impl RemoteHost {
    /// `None` if no other user can be added.
    pub(crate) fn new(home: &mut Home) -> Option<Self> {
        let guest = Guest::new()?;
        let server = Server::new();
        let home_dir = tempfile::Builder::new().prefix("far-").tempdir_in("/tmp").unwrap();
        let remote = Self { server, guest, home_dir };
        std::fs::set_permissions(remote.home_dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        remote.run_system_command("usermod", &["--home", remote.home_dir.path().to_str().unwrap(), &remote.guest.0]);
        remote.chown_home();
        let key = remote.server.path("key");
        remote.configure(home, &format!("  IdentityFile {key}\n  StrictHostKeyChecking accept-new"));
        Some(remote)
    }

    fn run_system_command(&self, program: &str, arguments: &[&str]) {
        assert!(Command::new(program).args(arguments).status().unwrap().success(), "{program} {arguments:?}");
    }

    /// Makes the other user the owner of everything in their home.
    pub(crate) fn chown_home(&self) {
        self.run_system_command("chown", &["-R", &self.guest.0, self.home_dir.path().to_str().unwrap()]);
    }

    /// Installs steplatch on the remote host.
    pub(crate) fn install(&self) {
        let bin_dir = self.home_dir.path().join(".local/share/steplatch/bin").join(env!("CARGO_PKG_VERSION"));
        std::fs::create_dir_all(&bin_dir).unwrap();
        // The file itself keeps its owner.
        if std::fs::hard_link(STEPLATCH, bin_dir.join("steplatch")).is_err() {
            std::fs::copy(STEPLATCH, bin_dir.join("steplatch")).unwrap();
        }
        for directory in bin_dir.ancestors().take_while(|directory| *directory != self.home_dir.path()) {
            self.run_system_command("chown", &[&self.guest.0, directory.to_str().unwrap()]);
        }
    }

    /// Writes the configuration of `ssh`, and an `ssh` that uses it.
    pub(crate) fn configure(&self, home: &mut Home, options: &str) {
        let config = home.path().join("ssh_config");
        let text = format!(
            "Host box\n  HostName 127.0.0.1\n  Port {}\n  User {}\n  UserKnownHostsFile {}\n{options}\n",
            self.server.port(),
            self.guest.0,
            home.path().join("known_hosts").display()
        );
        std::fs::write(&config, text).unwrap();
        let bin = home.path().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        write_program(&bin.join("ssh"), &format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", config.display()));
        home.set("PATH", &format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    }

    /// Kills the remote terminal hosts, as if the computer had run out of memory. Returns their number.
    fn kill_terminal_hosts(&self) -> usize {
        let owner = std::fs::metadata(self.home_dir.path()).unwrap().uid();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let hosts = processes.filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let is_host = line.split(|byte| *byte == 0).any(|word| word == b"--hosted");
            (is_host && entry.metadata().ok()?.uid() == owner).then_some(pid)
        });
        hosts.filter(|pid| kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL).is_ok()).count()
    }

    /// Cuts the connections of this home's daemon, like a network failure.
    pub(crate) fn cut_connections(home: &Home) -> usize {
        let config = home.path().join("ssh_config").display().to_string();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let ssh = processes.filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            (words.first()?.ends_with(b"ssh") && words.contains(&config.as_bytes())).then_some(pid)
        });
        // Ignore the error, because the process may have exited already.
        ssh.filter(|pid| kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL).is_ok()).count()
    }
}

impl Drop for RemoteHost {
    fn drop(&mut self) {
        // The remote host runs until its terminals are closed.
        let _ = Command::new("pkill").args(["-KILL", "-u", &self.guest.0]).status();
    }
}

pub(crate) fn write_program(path: &Path, text: &str) {
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.set_permissions(std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn remote_terminal_survives_twenty_cuts_and_five_kills() {
    let mut home = Home::new(STEPLATCH);
    let Some(remote) = RemoteHost::new(&mut home) else { return };
    remote.install();
    home.run(&["hosts", "add", "build", "--ssh", "box"]).expect_success();
    let agent = Agent::new(&home);
    check_output_survives(&agent, Some("build"), (4_000, 50), || {
        let mut last = 0;
        for round in 1..=20 {
            eventually_blocking("the host is connected again", || {
                let list = home.run(&["hosts", "list", "--json"]);
                let is_connected = list.code == 0 && list.json()["hosts"][0]["state"] == "connected";
                if is_connected { Ok(()) } else { Err(list) }
            });
            sleep_randomly(250);
            RemoteHost::cut_connections(&home);
            if round % 4 == 0 {
                last = wait_for_next_daemon(&home, last);
                sleep_randomly(250);
                kill(last);
            }
        }
    });
    let list = agent.call_tool("list_terminal_sessions", json!({}));
    assert_eq!(list["hosts"][0]["state"], "connected", "{list}");
}

/// The daemon is killed while a remote command runs, and the first connections of the next daemon fail.
#[test]
fn command_completed_before_reconnection_succeeds() {
    let mut home = Home::new(STEPLATCH);
    let Some(remote) = RemoteHost::new(&mut home) else { return };
    remote.install();
    let (broken, dials) = (home.path().join("broken"), home.path().join("dials"));
    // Only a connection runs a remote program: with -G, ssh reports where a destination leads.
    let ssh = format!(
        "#!/bin/sh\ncase \" $* \" in *\" -G \"*) ;; *) if [ -e {broken} ] && [ \"$(cat {dials} 2>/dev/null | wc -l)\" -lt 3 ]; then \
         echo dial >> {dials}; exit 255; fi;; esac\nexec /usr/bin/ssh -F {config} \"$@\"\n",
        broken = broken.display(),
        dials = dials.display(),
        config = home.path().join("ssh_config").display()
    );
    write_program(&home.path().join("bin/ssh"), &ssh);
    home.run(&["hosts", "add", "build", "--ssh", "box"]).expect_success();
    let transition = |condition: Value, state: &str| json!({"condition": condition, "next_state": state});
    let transitions = [
        transition(json!({"outcome_unknown": true}), "unknown"),
        transition(json!("success"), "done"),
        transition(json!("failure"), "again"),
    ];
    let run = |command: &str| json!({"tool": "run_command", "params": {"command": command}});
    let final_state = json!({"action": {"tool": "return", "params": {"result": "over"}}});
    let definition = json!({"host": "build", "initial_state": "act", "states": {
        "act": {"action": run("echo done >> lines; sleep 2; echo out"), "transitions": transitions},
        "again": {"action": run("echo done >> lines")},
        "done": final_state, "unknown": final_state,
    }});
    let agent = Agent::new(&home);
    let started_run = agent.call_tool(
        "run_workflow",
        json!({"workflow_definition": definition, "wait_seconds": 0, "save_on_success": false}),
    );
    let lines_file = remote.home_dir.path().join("lines");
    eventually_blocking("the command has begun", || {
        std::fs::read_to_string(&lines_file).ok().filter(|lines| !lines.is_empty()).map(drop).ok_or(started_run.clone())
    });
    let last = wait_for_next_daemon(&home, 0);
    std::fs::write(&broken, "").unwrap();
    kill(last);
    home.run(&["daemon", "start"]).expect_success();
    let outcome = agent.call_tool("get_run", json!({"run_id": started_run["run_id"], "wait_seconds": 100}));
    assert_eq!((&outcome["status"], &outcome["final_state"]), (&json!("completed"), &json!("done")), "{outcome}");
    assert_eq!(std::fs::read_to_string(&lines_file).unwrap(), "done\n");
    assert_eq!(std::fs::read_to_string(&dials).unwrap().lines().count(), 3, "the first connections failed");
}

/// The daemon has been restarted, and its first connection to the host takes some seconds.
#[test]
fn terminal_of_a_reconnecting_host_is_known() {
    let mut home = Home::new(STEPLATCH);
    let Some(remote) = RemoteHost::new(&mut home) else { return };
    remote.install();
    let slow = home.path().join("slow");
    let ssh = format!(
        "#!/bin/sh\ncase \" $* \" in *\" -G \"*) ;; *) while [ -e {} ]; do sleep 0.1; done;; esac\nexec /usr/bin/ssh -F {} \"$@\"\n",
        slow.display(),
        home.path().join("ssh_config").display()
    );
    write_program(&home.path().join("bin/ssh"), &ssh);
    home.run(&["hosts", "add", "build", "--ssh", "box"]).expect_success();
    let terminal = home.run(&["terminal", "open", "--host", "build", "--name", "far", "--json"]).json();
    let session = terminal["session_id"].as_str().unwrap().to_owned();
    std::fs::write(&slow, "").unwrap();
    kill(wait_for_next_daemon(&home, 0));
    home.run(&["daemon", "start"]).expect_success();
    let reply = home.run(&["terminal", "screen", "far"]);
    assert!(reply.code != 0 && reply.stderr.contains("it is reconnecting"), "{reply:?}");
    for request in [vec!["terminal", "screen", &session], vec!["terminal", "send", "far", "echo x", "-e"]] {
        let output = home.run(&request);
        let has_reason = output.stderr.contains("host 'build' is not connected")
            && output.stderr.contains("its terminals keep running");
        assert!(output.code != 0 && has_reason && !output.stderr.contains("not found"), "{request:?}: {output:?}");
    }
    std::fs::remove_file(&slow).unwrap();
    eventually_blocking("the terminal is listed again", || {
        let result = home.run(&["terminal", "run", "far", "echo on"]);
        if result.code == 0 && result.stdout.contains("on") { Ok(()) } else { Err(result) }
    });
}

/// The remote terminal host is killed, and the next request follows immediately.
#[test]
fn request_after_a_host_crash_runs_once_or_explains() {
    let mut home = Home::new(STEPLATCH);
    let Some(remote) = RemoteHost::new(&mut home) else { return };
    remote.install();
    home.run(&["hosts", "add", "build", "--ssh", "box"]).expect_success();
    let agent = Agent::new(&home);
    let mut failures = Vec::new();
    for round in 0..12 {
        let shell = json!({"host": "build", "shell": "bash --norc --noprofile"});
        let session = agent.call_tool("open_terminal", shell.clone())["session_id"].clone();
        let lines = remote.home_dir.path().join(format!("lines{round}"));
        let command = format!("echo line >> {}", lines.display());
        assert!(remote.kill_terminal_hosts() > 0, "round {round}");
        let (tool, arguments) = match round % 4 {
            0 => ("run_command", json!({"host": "build", "command": command, "timeout": 60})),
            1 => ("run_command", json!({"session_id": session, "command": command, "timeout": 60})),
            2 => ("open_terminal", shell),
            _ => ("send_input", json!({"session_id": session, "input_text": format!("{command}\n")})),
        };
        let mut answer = agent.begin(tool, arguments).answer();
        let reply = answer["result"]["structuredContent"].take();
        let count = std::fs::read_to_string(&lines).unwrap_or_default().lines().count();
        let has_error = reply["error"].as_str().is_some_and(|error| !error.is_empty());
        let is_correct = match (&reply["success"], &reply["outcome_unknown"]) {
            (Value::Bool(true), _) => tool == "open_terminal" || count == 1 && reply["exit_code"] == 0,
            (_, Value::Bool(true)) => has_error && count <= 1,
            _ => has_error && count == 0,
        };
        let names_next_step = reply["success"] == true || reply["error"].to_string().contains("open");
        if !is_correct || !names_next_step {
            failures.push(format!("round {round}, {tool}, {count} lines: {reply} {answer}"));
        }
        let next = agent.call_tool("run_command", json!({"host": "build", "command": "echo next", "timeout": 60}));
        assert_eq!(next["output"], "next\n", "round {round}: {next}");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn unreachable_host_is_reported_with_a_remedy() {
    let mut home = Home::new(STEPLATCH);
    let Some(remote) = RemoteHost::new(&mut home) else { return };
    let expect_failure = |arguments: &[&str]| {
        let output = home.run(arguments);
        assert_ne!(output.code, 0, "{}", output.stdout);
        output.stderr
    };
    let error = expect_failure(&["hosts", "add", "build", "--ssh", "box"]);
    assert!(error.contains("steplatch is not installed there"), "{error}");
    assert!(error.contains("steplatch hosts add build --ssh box --install"), "{error}");
    let error = expect_failure(&["terminal", "open", "--host", "biuld"]);
    assert!(error.contains("there is no host 'biuld'; known hosts: build"), "{error}");
    let error = expect_failure(&["hosts", "add", "nowhere", "--ssh", "nowhere.invalid"]);
    assert!(error.contains("check the name with 'ssh nowhere.invalid'"), "{error}");
    // A program too old to understand the request.
    let bin_dir = remote.home_dir.path().join(".local/share/steplatch/bin/0.0.1");
    std::fs::create_dir_all(&bin_dir).unwrap();
    write_program(
        &bin_dir.join("steplatch"),
        "#!/bin/sh\necho \"error: unrecognized subcommand 'host'\" >&2\nexit 2\n",
    );
    remote.chown_home();
    let error = expect_failure(&["hosts", "check", "build"]);
    assert!(error.contains("too old"), "{error}");
    std::fs::remove_dir_all(&bin_dir).unwrap();
    remote.install();
    let list: Value = serde_json::from_str(&home.run(&["hosts", "check", "build", "--json"]).expect_success()).unwrap();
    assert_eq!(list["host"]["state"], "connected", "{list}");
    home.run(&["hosts", "remove", "build"]).expect_success();
    let error = expect_failure(&["hosts", "remove", "build"]);
    assert!(error.contains("there is no host 'build'"), "{error}");
}

#[test]
fn refused_ssh_key_is_reported_with_a_remedy() {
    let mut home = Home::new(STEPLATCH);
    let Some(remote) = RemoteHost::new(&mut home) else { return };
    let options =
        "IdentityFile /nonexistent\n  IdentityAgent none\n  PasswordAuthentication no\n  StrictHostKeyChecking no";
    remote.configure(&mut home, &format!("  {options}"));
    let refusal = home.run(&["hosts", "add", "build", "--ssh", "box"]);
    assert_eq!(refusal.code, 1, "{refusal:?}");
    assert!(refusal.stderr.contains("Permission denied"), "{refusal:?}");
    assert!(refusal.stderr.contains("check with 'ssh box' which key or password it takes"), "{refusal:?}");
}

/// Returns the run that forwards ssh's question to a person.
fn wait_for_ssh_question(home: &Home) -> Value {
    eventually_blocking("ssh asks", || {
        let list = home.run(&["gates", "list", "--json"]);
        match list.json()["gates"].as_array().map(Vec::as_slice) {
            Some([gate]) => Ok(gate.clone()),
            _ => Err(list),
        }
    })
}

#[test]
fn person_answers_ssh_and_the_password_is_stored_nowhere() {
    let mut home = Home::new(STEPLATCH);
    let Some(remote) = RemoteHost::new(&mut home) else { return };
    remote.install();
    remote.configure(&mut home, "  StrictHostKeyChecking ask\n  PubkeyAuthentication no\n  NumberOfPasswordPrompts 1");
    let agent = Agent::new(&home);
    let person = Person::runs(&agent, &home, STEPLATCH, "hosts add build --ssh box");
    person.expect_text("(?s)ssh asks about host 'build' \\(box\\).*authenticity of host.*your answer");
    // An agent answers no question from ssh, and none is asked in its name.
    let gate = wait_for_ssh_question(&home);
    let refusal = agent.call_tool("decide", json!({"run_id": gate["run_id"], "answer": "yes"}));
    assert_eq!(refusal["success"], false, "{refusal}");
    person.type_in("yes");
    person.expect_text("(?s)password:.*Answer");
    let gate = wait_for_ssh_question(&home);
    person.type_in(PASSWORD);
    let screen = person.expect_text("build: connected");
    assert!(!screen.contains(PASSWORD), "{screen}");
    let events = home.run(&["runs", "events", gate["run_id"].as_str().unwrap(), "--json"]).expect_success();
    assert!(events.contains("gate_answered") && !events.contains(PASSWORD), "{events}");
    for entry in std::fs::read_dir(home.path().join("state")).unwrap().flatten().filter(|entry| entry.path().is_file())
    {
        let bytes = std::fs::read(entry.path()).unwrap();
        let has_password = bytes.windows(PASSWORD.len()).any(|window| window == PASSWORD.as_bytes());
        assert!(!has_password, "{} contains the password", entry.path().display());
    }
    let terminal = agent.call_tool("open_terminal", json!({"host": "build"}));
    assert_eq!(terminal["success"], true, "{terminal}");
}

#[test]
fn unanswered_question_is_reported_and_not_repeated() {
    let mut home = Home::new(STEPLATCH);
    let Some(remote) = RemoteHost::new(&mut home) else { return };
    remote.install();
    remote.configure(&mut home, "  StrictHostKeyChecking ask");
    let add_output = home.run(&["hosts", "add", "build", "--ssh", "box"]);
    assert_ne!(add_output.code, 0, "{}", add_output.stdout);
    let gate = wait_for_ssh_question(&home);
    let run = gate["run_id"].as_str().unwrap();
    assert!(add_output.stderr.contains(&format!("steplatch gates answer {run}")), "{}", add_output.stderr);
    home.run(&["runs", "cancel", run]).expect_success();
    let output = home.run(&["hosts", "list", "--json"]);
    let host = eventually_blocking("the connection has failed", || {
        let list = home.run(&["hosts", "list", "--json"]).json();
        let host = list["hosts"][0].clone();
        if host["state"] == "lost" { Ok(host) } else { Err(list) }
    });
    assert!(host["error"].as_str().unwrap().contains("was not answered"), "{host} {output:?}");
}

/// Returns a state of a workflow that continues if its action succeeds.
pub(crate) fn state(host: Option<&str>, tool: &str, params: Value, next: &str) -> Value {
    let action = json!({"tool": tool, "params": params});
    let mut state = json!({"action": action, "transitions": [{"condition": "success", "next_state": next}]});
    host.inspect(|host| state["host"] = (*host).into());
    state
}

/// Start files that print, and a login that switches to another shell, as used by people who cannot run `chsh`.
#[test]
fn host_with_login_output_supports_installation_and_terminals() {
    for (file, text) in [
        (".bashrc", "printf Welcome; printf 'no mail' >&2"),
        (".bash_profile", "echo Welcome; exec fish -l"),
        (".bash_profile", "exec zsh -l"),
    ] {
        let mut home = Home::new(STEPLATCH);
        let Some(remote) = RemoteHost::new(&mut home) else { return };
        std::fs::write(remote.home_dir.path().join(file), format!("{text}\n")).unwrap();
        std::fs::write(remote.home_dir.path().join(".zshrc"), "").unwrap();
        remote.chown_home();
        let output = home.run(&["hosts", "add", "build", "--ssh", "box", "--install"]);
        assert!(output.code == 0 && output.stderr.contains("is installed on box"), "{text}: {output:?}");
        let agent = Agent::new(&home);
        let terminal = agent.call_tool("open_terminal", json!({"host": "build", "shell": "bash --norc --noprofile"}));
        assert_eq!(terminal["success"], true, "{text}: {terminal}");
        let result = agent.call_tool("run_command", json!({"host": "build", "command": "echo \"$USER\"; false"}));
        assert_eq!(
            (&result["output"], &result["exit_code"]),
            (&json!(format!("{}\n", remote.guest.0)), &json!(1)),
            "{text}: {result}"
        );
    }
}

#[test]
fn workflow_runs_on_two_remote_hosts_and_locally() {
    let mut home = Home::new(STEPLATCH);
    let Some(remote) = RemoteHost::new(&mut home) else { return };
    let output = home.run(&["hosts", "add", "build", "--ssh", "box", "--install"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("is installed on box"), "{}", output.stderr);
    home.run(&["hosts", "add", "other", "--ssh", "box"]).expect_success();
    let agent = Agent::new(&home);
    let run = agent.call_tool(
        "run_workflow",
        json!({"save_on_success": false, "wait_seconds": 60, "workflow_definition": {
            "host": "build",
            "initial_state": "first",
            "states": {
                "first": state(None, "run_command", json!({"command": "id -un; pwd"}), "second"),
                "second": state(Some("other"), "open_terminal", json!({"name": "there"}), "third"),
                "third": state(None, "run_command", json!({"session_id": "there", "command": "id -un"}), "fourth"),
                "fourth": state(Some("local"), "run_command", json!({"command": "id -un"}), "end"),
                "end": {"action": {"tool": "return", "params":
                    {"result": ["{first_output}", "{third_output}", "{fourth_output}"]}}},
            }
        }}),
    );
    assert_eq!(run["status"], "completed", "{run}");
    let local_user = Command::new("id").arg("-un").output().unwrap().stdout;
    let local_user = String::from_utf8(local_user).unwrap();
    let remote_user = &remote.guest.0;
    let remote_home = remote.home_dir.path().display();
    assert_eq!(
        run["result"],
        json!([format!("{remote_user}\n{remote_home}"), remote_user, local_user.trim_end()]),
        "{run}"
    );
}

#[test]
fn bash_node_on_a_remote_host_ends_with_its_call() {
    let mut home = Home::new(STEPLATCH);
    let Some(remote) = RemoteHost::new(&mut home) else { return };
    remote.install();
    home.run(&["hosts", "add", "build", "--ssh", "box"]).expect_success();
    std::fs::write(
        home.path().join("steplatch.toml"),
        r#"
[nodes.where]
type = "bash"
host = "build"
command = "id -un; pwd; echo \"$COLOUR {input}\"; cat; echo oops >&2; [ -t 1 ] || echo piped"
stdin = "fed\n"
env = { COLOUR = "blue" }

[nodes.fails]
type = "bash"
host = "build"
cwd = "/"
command = "pwd; echo no disk; exit 3"

[nodes.slow]
type = "bash"
host = "{input}"
command = "echo begun; echo $$ > slow.pid; sleep 600"
timeout = 2
"#,
    )
    .unwrap();
    let run_node = |node: &str, input: &str| home.run(&["nodes", "run", node, input, "--json"]).json();
    let (user, home_dir) = (&remote.guest.0, remote.home_dir.path().display());
    let result = run_node("where", "sky");
    assert_eq!(result["output"], format!("{user}\n{home_dir}\nblue sky\nfed\noops\npiped"), "{result}");
    assert_eq!(result["attributes"]["host"], "build", "{result}");
    let failure = run_node("fails", "");
    assert_eq!(failure["output"], "/\nno disk", "{failure}");
    assert_eq!(failure["error"], "The command ended with exit code 3: no disk", "{failure}");
    assert_eq!(failure["attributes"]["exit_code"], 3, "{failure}");
    let timed_out = run_node("slow", "build");
    assert_eq!((&timed_out["error_type"], &timed_out["output"]), (&json!("timeout"), &json!("begun")), "{timed_out}");
    let pid = std::fs::read_to_string(remote.home_dir.path().join("slow.pid")).unwrap();
    eventually_blocking("the remote command has exited", || {
        if Path::new("/proc").join(pid.trim()).exists() { Err(pid.clone()) } else { Ok(()) }
    });
    let unknown_host = run_node("slow", "biuld");
    assert_eq!(unknown_host["error_type"], "connection", "{unknown_host}");
    assert!(unknown_host["error"].as_str().unwrap().contains("known hosts: build"), "{unknown_host}");
    let list = home.run(&["terminal", "list", "--json"]).json();
    assert_eq!(list["sessions"], json!([]), "{list}");
}
