//! Passwords from a person: an agent asks for the hidden line of a program, and never learns it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steplatch_testkit::{Agent, Calling, Home, eventually_blocking};

use super::desk::Desk;
use super::ssh_server::{Guest, PASSWORD, Server};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// The password of these stories.
const SECRET: &str = "hunter2&is long";

/// Reads a hidden line and prints its length.
const PROMPT: &str = "read -r -s -p 'Token: ' line; echo \" got ${#line} characters\"";

/// A terminal of an agent, with a program that reads a hidden line.
struct Asking {
    agent: Agent,
    session: Value,
}

impl Asking {
    fn open(home: &Home) -> Self {
        let agent = Agent::new(home);
        let session = agent.call_tool("open_terminal", json!({"shell": "bash", "name": "vault"}))["session_id"].clone();
        let asking = Self { agent, session };
        asking.ask();
        asking
    }

    fn ask(&self) {
        let input = json!({"session_id": self.session, "input_text": format!("{PROMPT}\n"), "until": "input"});
        let reply = self.agent.call_tool("send_input", input);
        assert_eq!(reply["password"], true, "{reply:#}");
    }

    /// Requests the hidden line, and returns the result or an error.
    fn request_now(&self, timeout: f64) -> Value {
        let arguments = json!({"session_id": self.session, "timeout": timeout});
        result(self.agent.begin("request_secret", arguments))
    }

    /// Begins a request, and returns once it is listed for people.
    fn request(&self, home: &Home, reason: &str) -> Calling {
        let call = self.agent.begin("request_secret", json!({"session_id": self.session, "reason": reason}));
        eventually_blocking("the request is listed", || {
            let list = home.run(&["terminal", "list", "--json"]).json();
            let info = &list["sessions"][0];
            if info["secret_request"]["reason"] == reason { Ok(info.clone()) } else { Err(list) }
        });
        call
    }

    fn output(&self) -> String {
        let read = json!({"session_id": self.session, "content_mode": "history"});
        self.agent.call_tool("get_screen_content", read)["screen_content"].as_str().unwrap().to_owned()
    }
}

/// Waits for the result of a call, possibly an error.
fn result(call: Calling) -> Value {
    call.answer()["result"]["structuredContent"].clone()
}

/// Runs a command in a terminal of a person, and types a line at its question.
async fn type_at_desk(home: &Home, command: &str, question: &str, line: &str, end: &str) {
    let command = format!("{STEPLATCH} {command}; echo exit-code-$?; sleep 1000");
    let desk = Desk::start(home, home.path(), &command, (120, 20), &[]).await;
    if !question.is_empty() {
        desk.expect_screen(question).await;
        desk.press(&format!("{line}\r")).await;
    }
    let screen = desk.expect_screen(end).await;
    assert!(!screen.contains(line) || line.is_empty(), "{screen}");
}

/// Returns the files below a directory that contain one of the texts.
fn files_with(directory: &Path, texts: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(files_with(&path, texts));
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).unwrap_or_default();
            let has = |text: &String| bytes.windows(text.len()).any(|window| window == text.as_bytes());
            if texts.iter().any(has) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

/// Returns a secret in the forms that a file or message could contain.
fn encodings(secret: &str) -> [String; 6] {
    let each = |shown: fn(u8) -> String| secret.bytes().map(shown).collect::<String>();
    [
        secret.to_owned(),
        STANDARD.encode(secret).trim_end_matches('=').to_owned(),
        STANDARD.encode(format!("x{secret}"))[4..16].to_owned(),
        each(|byte| format!("{byte:02x}")),
        each(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).into() } else { format!("%{byte:02X}") }),
        each(|byte| if byte == b'&' { "\\u0026".to_owned() } else { char::from(byte).into() }),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn person_types_a_password_that_the_agent_never_learns() {
    let home = Home::new(STEPLATCH);
    let asking = Asking::open(&home);
    let call = asking.request(&home, "to deploy");
    type_at_desk(
        &home,
        "terminal secret vault",
        "waits for it: to deploy\n *password:",
        SECRET,
        "entered\n.*exit-code-0",
    )
    .await;
    let reply = result(call);
    assert_eq!((&reply["success"], &reply["outcome"]), (&json!(true), &json!("entered")), "{reply:#}");
    let wait = json!({"session_id": asking.session, "pattern": "got \\d+ characters", "since": 0});
    let waited = asking.agent.call_tool("await_output", wait);
    assert_eq!(waited["match_text"], format!("got {} characters", SECRET.len()), "{waited:#}");
    // A program that prints it shows a mask.
    let echoed = json!({"session_id": asking.session, "command": "echo \"it is $line\""});
    let echoed = asking.agent.call_tool("run_command", echoed);
    assert_eq!(echoed["output"], "it is ••••••\n", "{echoed:#}");
    let log = home.run(&["terminal", "inputs", "vault", "--json"]).expect_success();
    let daemon = home.run(&["daemon", "status", "--json"]).json()["pid"].as_i64().unwrap();
    let mut seen = format!("{reply}{waited}{echoed}{log}{}", asking.output());
    for name in ["environ", "cmdline"] {
        seen.push_str(&String::from_utf8_lossy(&std::fs::read(format!("/proc/{daemon}/{name}")).unwrap()));
    }
    let encodings = encodings(SECRET);
    for text in &encodings {
        assert!(!seen.contains(text), "{text}: {seen}");
    }
    drop(asking);
    home.run(&["daemon", "stop"]).expect_success();
    assert_eq!(files_with(home.path(), &encodings), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_and_unanswered_requests_have_their_outcomes() {
    let home = Home::new(STEPLATCH);
    let asking = Asking::open(&home);
    let call = asking.request(&home, "first");
    let second = asking.request_now(60.0);
    assert!(second["error"].as_str().unwrap().contains("already asked"), "{second:#}");
    type_at_desk(&home, "terminal secret vault --refuse 'not today'", "", "", "refused\n.*exit-code-0").await;
    let reply = result(call);
    assert_eq!((&reply["success"], &reply["outcome"]), (&json!(false), &json!("refused")), "{reply:#}");
    assert_eq!(reply["reason"], "not today", "{reply:#}");
    type_at_desk(&home, "terminal secret vault --refuse", "", "", "no agent waits.*\n.*exit-code-1").await;
    let reply = asking.request_now(0.2);
    assert_eq!(reply["outcome"], "timeout", "{reply:#}");
    // The program ends.
    let call = asking.request(&home, "second");
    let interrupt = json!({"session_id": asking.session, "keys": ["ctrl-c"]});
    assert_eq!(asking.agent.call_tool("send_input", interrupt)["success"], true);
    let reply = result(call);
    assert_eq!(reply["outcome"], "gone", "{reply:#}");
    // A line that was typed without a person's decision is reported as such.
    asking.ask();
    let call = asking.request(&home, "third");
    let typed = json!({"session_id": asking.session, "input_text": "guess\n", "secret": true});
    assert_eq!(asking.agent.call_tool("send_input", typed)["success"], true);
    let reply = result(call);
    assert_eq!(reply["outcome"], "typed", "{reply:#}");
    // At a prompt, the line would be shown and run.
    let reply = asking.request_now(60.0);
    assert!(reply["error"].as_str().unwrap().contains("no program in this terminal reads a hidden line"), "{reply:#}");
    type_at_desk(&home, "terminal secret vault", "", "", "no program .*\n.*exit-code-1").await;
    assert!(!asking.output().contains("hunter2"));
}

#[test]
fn agent_cannot_enter_or_refuse_the_password_itself() {
    let home = Home::new(STEPLATCH);
    let asking = Asking::open(&home);
    let call = asking.request(&home, "mine");
    let shell = asking.agent.call_tool("open_terminal", json!({"shell": "bash"}));
    let own = |command: &str| {
        let command = format!("{STEPLATCH} {command}; echo exit-code-$?");
        let run = json!({"session_id": shell["session_id"], "command": command});
        asking.agent.call_tool("run_command", run)["output"].as_str().unwrap().to_owned()
    };
    let refused = own("terminal secret vault --refuse");
    assert!(refused.contains("typed by a person") && refused.contains("exit-code-1"), "{refused}");
    let typed = home.run_with_input(&["terminal", "secret", "vault"], "guess\n");
    assert!(typed.code != 0 && typed.stderr.contains("needs a terminal"), "{typed:?}");
    let info = &home.run(&["terminal", "list", "--json"]).json()["sessions"][0];
    assert_eq!(info["secret_request"]["reason"], "mine", "the request is still open: {info:#}");
    assert_eq!(info["password_program"], "bash", "{info:#}");
    drop(asking.agent);
    drop(call);
}

/// Answers the only open gate with a password, as a person, and returns its question.
fn answer_password(home: &Home, password: &str) -> String {
    let gate = eventually_blocking("a password is asked for", || {
        home.run(&["gates", "list", "--json"]).json()["gates"].as_array().and_then(|gates| gates.first().cloned())
    });
    let id = gate["gate_id"].as_str().unwrap();
    let answer = format!("reply={password}");
    let printed = home.run(&["gates", "answer", id, "-f", &answer]).expect_success();
    assert!(!printed.contains(password), "{printed}");
    gate["prompt"].as_str().unwrap().to_owned()
}

/// Starts a server that requires a password, and returns its port and the received ones.
fn start_guarded_server() -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut password) = (String::new(), None);
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                if let Some(value) = line.trim().strip_prefix("Authorization: Basic ") {
                    let decoded = String::from_utf8(STANDARD.decode(value).unwrap()).unwrap();
                    // git first tries the name of the address without a password.
                    password = Some(decoded).filter(|decoded| !decoded.ends_with(':'));
                }
                line.clear();
            }
            let status = if password.is_some() { "404 Not Found" } else { "401 Unauthorized" };
            let header = "WWW-Authenticate: Basic realm=\"shop\"\r\nContent-Length: 0\r\nConnection: close";
            let _ = stream.write_all(format!("HTTP/1.1 {status}\r\n{header}\r\n\r\n").as_bytes());
            if let Some(password) = password {
                let _ = sender.send(password);
            }
        }
    });
    (port, received)
}

#[test]
fn git_receives_the_password_of_a_person_through_askpass() {
    let home = Home::new(STEPLATCH);
    let (port, received) = start_guarded_server();
    let list = format!("git -c credential.helper= ls-remote http://ana@127.0.0.1:{port}/shop.git");
    let project = format!("[nodes.fetch]\ntype = \"bash\"\ncommand = {}\n", json!(list));
    std::fs::write(home.path().join("steplatch.toml"), project).unwrap();
    // In a terminal, git asks at its prompt, unless a person or agent sets the variable.
    let agent = Agent::new(&home);
    let session = agent.call_tool("open_terminal", json!({"shell": "bash", "name": "build"}))["session_id"].clone();
    let command = format!("GIT_ASKPASS=$SUDO_ASKPASS {list}");
    let call = agent.begin("run_command", json!({"session_id": session, "command": command}));
    let prompt = answer_password(&home, SECRET);
    assert!(prompt.starts_with("git-remote-http asks for a password in terminal 'build' (term_"), "{prompt}");
    assert!(prompt.contains(&format!("Its words: \"Password for 'http://ana@127.0.0.1:{port}':\"")), "{prompt}");
    assert!(
        prompt.contains(&format!("The command: git-remote-http http://ana@127.0.0.1:{port}/shop.git ")),
        "{prompt}"
    );
    assert!(prompt.ends_with("can read the answer, or redirect it to another server."), "{prompt}");
    assert_eq!(received.recv().unwrap(), format!("ana:{SECRET}"));
    let output = result(call);
    assert!(output["output"].as_str().unwrap().contains("not found"), "{output:#}");

    // A node has no terminal.
    std::thread::scope(|scope| {
        let run = scope.spawn(|| home.run(&["nodes", "run", "fetch", "--json"]));
        let prompt = answer_password(&home, "another long one");
        assert!(prompt.starts_with("git-remote-http asks for a password in a node."), "{prompt}");
        assert_eq!(received.recv().unwrap(), "ana:another long one");
        assert!(run.join().unwrap().stdout.contains("not found"));
    });
    // The next daemon does not ask for a program that waits no longer.
    let command = format!("GIT_ASKPASS=$SUDO_ASKPASS {list}");
    drop(agent.begin("run_command", json!({"session_id": session, "command": command})));
    let gates = || home.run(&["gates", "list", "--json"]).json()["gates"].as_array().unwrap().len();
    eventually_blocking("a password is asked for", || gates() == 1);
    home.run(&["daemon", "restart"]).expect_success();
    assert_eq!(gates(), 0);
    drop(agent);
    home.run(&["daemon", "stop"]).expect_success();
    assert_eq!(files_with(home.path(), &[SECRET.to_owned(), "another long one".to_owned()]), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ssh_logs_in_with_the_password_of_a_person() {
    let Some(guest) = Guest::new() else { return };
    let home = Home::new(STEPLATCH);
    let server = Server::new();
    let methods = "-o PreferredAuthentications=password -o StrictHostKeyChecking=no";
    // A node has no terminal: ssh asks through askpass.
    let login = server.ssh(&guest.0, methods).replace("ssh -tt", "ssh");
    let command = json!(format!("{login} 'echo I am $(whoami)'"));
    let project = format!("[nodes.login]\ntype = \"bash\"\ncommand = {command}\n");
    std::fs::write(home.path().join("steplatch.toml"), project).unwrap();
    let run = std::thread::scope(|scope| {
        let run = scope.spawn(|| home.run(&["nodes", "run", "login", "--json"]));
        let prompt = answer_password(&home, PASSWORD);
        assert!(prompt.starts_with("ssh asks for a password in a node."), "{prompt}");
        assert!(prompt.contains(&format!("The command: ssh -p {}", server.port())), "{prompt}");
        run.join().unwrap().expect_success()
    });
    assert!(run.contains(&format!("I am {}", guest.0)), "{run}");

    // In a terminal, ssh asks at its prompt, and the agent requests the line.
    let agent = Agent::new(&home);
    let session = agent.call_tool("open_terminal", json!({"shell": "bash", "name": "vault"}))["session_id"].clone();
    let input =
        json!({"session_id": session, "input_text": format!("{}\n", server.ssh(&guest.0, methods)), "until": "input"});
    let reply = agent.call_tool("send_input", input);
    assert_eq!(reply["password"], true, "{reply:#}");
    let asking = Asking { agent, session };
    let call = asking.request(&home, "to look");
    type_at_desk(&home, "terminal secret vault", "to look\n *password:", PASSWORD, "entered\n.*exit-code-0").await;
    let reply = result(call);
    assert_eq!(reply["outcome"], "entered", "{reply:#}");
    let wait = json!({"session_id": asking.session, "pattern": format!("{}@", guest.0), "since": 0});
    let waited = asking.agent.call_tool("await_output", wait);
    assert!(waited["match_text"].is_string(), "{waited:#}");
    let seen = format!("{reply}{}", asking.output());
    let encodings = encodings(PASSWORD);
    assert!(!encodings.iter().any(|text| seen.contains(text)), "{seen}");
    drop(asking);
    home.run(&["daemon", "stop"]).expect_success();
    assert_eq!(files_with(home.path(), &encodings), [""; 0]);
}

#[test]
fn askpass_gives_no_password_to_a_program_of_the_agent() {
    let home = Home::new(STEPLATCH);
    let (port, _received) = start_guarded_server();
    let list = format!("git -c credential.helper= ls-remote http://ana@127.0.0.1:{port}/shop.git");
    let agent = Agent::new(&home);
    let session = agent.call_tool("open_terminal", json!({"shell": "bash"}))["session_id"].clone();
    let output = |command: &str| {
        // Without a terminal, git does not ask there next.
        let command = format!("setsid -w bash -c {}", shell_words::quote(command));
        let reply = agent.call_tool("run_command", json!({"session_id": session, "command": command}));
        reply["output"].as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let refused = |script: &str, reason: &str| {
        let file = home.path().join("askpass.sh");
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700)).unwrap();
        let output = output(&format!("GIT_ASKPASS={} {list}", file.display()));
        assert!(output.contains(reason), "{script}: {output}");
    };
    refused(
        "\"$SUDO_ASKPASS\" \"$1\" | tee stolen",
        "asked for a password, and only sudo, ssh and the transports of git",
    );
    refused("exec \"$SUDO_ASKPASS\" \"$1\" >stolen", "the output of its askpass program goes elsewhere");
    refused("LD_LIBRARY_PATH=/tmp \"$SUDO_ASKPASS\" \"$1\"", "only sudo, ssh and the transports");
    refused("mkfifo pipe; cat pipe >stolen & exec \"$SUDO_ASKPASS\" \"$1\" >pipe", "goes elsewhere");
    let fill = "printf 'protocol=https\nhost=example.com\n\n' | GIT_ASKPASS=$SUDO_ASKPASS git credential fill";
    for (command, reason) in [
        ("\"$SUDO_ASKPASS\" 'Password:' | cat", "'bash' asked for a password"),
        (fill, "'git' asked for a password"),
        (&format!("LD_PRELOAD=libm.so.6 GIT_ASKPASS=$SUDO_ASKPASS {list}"), "with one of the variables"),
        (&format!("GIT_TRACE_REDACT=0 GIT_ASKPASS=$SUDO_ASKPASS {list}"), "with one of the variables"),
    ] {
        let output = output(command);
        assert!(output.contains(reason), "{command}: {output}");
    }
    assert_eq!(home.run(&["gates", "list", "--json"]).json()["gates"], json!([]));
}
