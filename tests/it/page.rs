//! Stories of the page, in a real browser.
//!
//! A story is a module of `page/`, played by Node with the system's browser. The module requests the actions of the
//! person and the agent outside of the browser from this test, as JSON lines. Without a browser the stories are
//! skipped.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use steplatch_protocol::visible;
use steplatch_testkit::{Agent, CommandOutput, Home, eventually_blocking, find_program, free_port, skip_test};

use crate::clients::{installed_path, node};
use crate::desk::Desk;
use crate::older_host;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// A home with an open page.
struct PageHome {
    home: Home,
}

impl PageHome {
    fn new() -> Self {
        Self { home: Home::new(STEPLATCH) }
    }

    /// Runs a command as the person, in a separate terminal. Returns its output.
    fn run_as_person(&self, command: &str) -> String {
        self.run_as_person_in(self.home.path(), command)
    }

    /// Same as [`Self::run_as_person`], in a directory.
    fn run_as_person_in(&self, directory: &Path, command: &str) -> String {
        let mut terminal = self.home.inside(Path::new("script"));
        terminal.current_dir(directory);
        terminal.args(["--quiet", "--return", "--command", &format!("{STEPLATCH} {command}"), "/dev/null"]);
        let output = CommandOutput::from_process(&terminal.stdin(Stdio::null()).output().unwrap());
        assert_eq!(output.code, 0, "{command}: {}{}", output.stdout, output.stderr);
        output.stdout.trim().to_owned()
    }

    /// Opens the page as the person on a desktop. Returns the browser's argument.
    fn open_on_desktop(&self) -> PathBuf {
        let directory = self.home.path().join("desktop");
        std::fs::create_dir_all(&directory).unwrap();
        let (opener, argument_file) = (directory.join("xdg-open"), directory.join("given"));
        std::fs::write(&opener, format!("#!/bin/sh\nprintf %s \"$*\" > '{}'\n", argument_file.display())).unwrap();
        std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("PATH={}:$PATH BROWSER=any", directory.display());
        let mut terminal = self.home.inside(Path::new("script"));
        terminal.args(["--quiet", "--return", "--command", &format!("{path} {STEPLATCH} open"), "/dev/null"]);
        let output = CommandOutput::from_process(&terminal.stdin(Stdio::null()).output().unwrap());
        assert!(output.stdout.contains("opened http://localhost:"), "{}{}", output.stdout, output.stderr);
        PathBuf::from(std::fs::read_to_string(argument_file).unwrap())
    }

    /// Runs the command that a story requests, if the request is a command. Returns its output.
    fn run_requested_command(&self, request: &Value) -> Option<Value> {
        let command: Vec<&str> = request["run"].as_array()?.iter().map(|word| word.as_str().unwrap()).collect();
        Some(self.home.run(&command).json())
    }

    /// Returns the token of the server.
    fn read_token(&self) -> String {
        let token = self.home.run(&["serve", "token", "--json"]).json();
        std::fs::read_to_string(token["file"].as_str().unwrap()).unwrap().trim().to_owned()
    }

    /// Requests a ticket as the person. Returns the origin of the page, and the ticket.
    fn request_ticket(&self) -> (String, String) {
        let open = self.run_as_person("open --print");
        let (origin, ticket) = open.split_once("/#ticket=").unwrap();
        let ticket = ticket.split_once('&').map_or(ticket, |(ticket, _)| ticket);
        (origin.to_owned(), ticket.to_owned())
    }

    /// Returns an unused ticket, and both halves of a session begun by a person with another ticket.
    fn steal_session(&self) -> Value {
        let (origin, ticket) = self.request_ticket();
        let mut curl = Command::new("curl");
        let origin_header = format!("Origin: {origin}");
        curl.args(["-s", "-i", "-H", &origin_header, "-H", "Content-Type: application/json", "-d"]);
        let login = curl.arg(json!({"ticket": ticket}).to_string()).arg(format!("{origin}/page/session"));
        let reply = CommandOutput::from_process(&login.output().unwrap()).stdout;
        let cookie = reply.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next());
        let (name, value) = cookie.and_then(|cookie| cookie.split_once('=')).expect("a session has a cookie");
        let session: Value = serde_json::from_str(reply.lines().next_back().unwrap()).unwrap();
        let cookie = json!({"name": name, "value": value});
        json!({"ticket": self.request_ticket().1, "cookie": cookie, "half": session["half"], "session_id": session["session_id"]})
    }

    /// Sends a request with the token of the server, as an agent. Returns the reply with its `status`.
    fn post(&self, path: &str, body: &Value) -> Value {
        let header = format!("Authorization: Bearer {}", self.read_token());
        let (origin, _) = self.request_ticket();
        let mut curl = Command::new("curl");
        curl.args(["-s", "-w", "\n%{http_code}", "-H", &header, "-H", "Content-Type: application/json", "-d"]);
        let output =
            CommandOutput::from_process(&curl.arg(body.to_string()).arg(format!("{origin}{path}")).output().unwrap());
        let (reply, status) = output.stdout.rsplit_once('\n').unwrap();
        let mut reply: Value = serde_json::from_str(reply).unwrap();
        reply["status"] = status.parse::<u16>().unwrap().into();
        reply
    }

    /// Returns the command that plays a story with this input; `None` without a browser.
    fn player(&self, story: &str, input: &Value) -> Option<Command> {
        let browser = find_program("chromium")?;
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/page");
        let modules = installed_path(Path::new("playwright/installed"));
        let modules = modules.ancestors().nth(2).expect("the file is in a directory of the target directory");
        let mut player: Command = node(&self.home);
        player
            .arg(directory.join(story))
            .env("MODULES", modules)
            .env("CHROMIUM", browser)
            .env("STORY", input.to_string());
        if let Some(shots) = std::env::var_os("STEPLATCH_PAGE_SHOTS") {
            player.env("SHOTS", shots);
        }
        Some(player)
    }

    /// Plays a story that starts at the address of the page. `respond` performs the story's requests.
    fn play(&self, story: &str, respond: impl FnMut(&Self, &Value) -> Value) {
        self.play_with(story, &json!({"url": self.run_as_person("open --print")}), respond);
    }

    /// Plays a story with this input.
    fn play_with(&self, story: &str, input: &Value, mut respond: impl FnMut(&Self, &Value) -> Value) {
        let Some(mut player) = self.player(story, input) else {
            return skip_test(&format!("the story {story} needs chromium; cargo xtask test installs it"));
        };
        let mut player = player.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut answers = player.stdin.take().unwrap();
        for line in BufReader::new(player.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let request: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            writeln!(answers, "{}", respond(self, &request)).unwrap();
        }
        assert!(player.wait().unwrap().success(), "{story} failed; the reason is above");
    }
}

impl Drop for PageHome {
    fn drop(&mut self) {
        self.home.run(&["serve", "stop"]);
    }
}

#[test]
fn ticket_logs_a_person_in_and_foreign_requests_are_refused() {
    let page = PageHome::new();
    page.play("login.mjs", |page, request| match request.as_str().unwrap() {
        "open" => json!({"url": page.run_as_person("open --print")}),
        "desktop" => {
            let file = page.open_on_desktop();
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            json!({"url": format!("file://{}", file.display())})
        }
        "used" => json!({"file": page.open_on_desktop().parent().unwrap().read_dir().unwrap().filter_map(Result::ok)
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("open-")).count()}),
        "sessions" => page.home.run(&["serve", "sessions", "--json"]).json(),
        "end" => page.home.run(&["serve", "sessions", "end", "--all", "--json"]).json(),
        other => panic!("the story requests {other}"),
    });
}

/// Performs an agent's action of a story in its terminal.
fn act_as_agent(agent: &Agent, request: &Value) -> Value {
    let terminal = || json!({"session_id": "work"});
    let arguments_with = |name: &str, value: &Value| {
        let mut arguments = terminal();
        arguments[name] = value.clone();
        arguments
    };
    match request["agent"].as_str().unwrap() {
        // A story types characters that are single characters only in UTF-8.
        "opens" => {
            let environment = json!({"LANG": "C.UTF-8"});
            agent.call_tool("open_terminal", json!({"shell": "bash", "name": "work", "environment": environment}))
        }
        "types" => agent.call_tool("send_input", arguments_with("input_text", &request["text"])),
        "tries" => {
            json!({"error": agent.begin("send_input", arguments_with("input_text", &json!("x"))).answer().to_string()})
        }
        "hides" => {
            let arguments = json!({"session_id": "work", "input_text": request["text"], "secret": true});
            agent.call_tool("send_input", arguments)
        }
        "looks" => agent.call_tool("get_screen_content", terminal()),
        "waits" => agent.call_tool("await_output", arguments_with("pattern", &request["pattern"])),
        other => panic!("the story requests {other}"),
    }
}

/// Starts the state machine of a story as an agent, with its variables if any.
fn start_story_run(agent: &Agent, request: &Value) -> Value {
    let run = json!({"workflow_definition": request["starts"], "initial_variables": request["variables"],
                     "wait_seconds": 3, "save_on_success": false});
    agent.begin("run_workflow", run).answer()["result"]["structuredContent"].clone()
}

#[test]
fn person_watches_takes_over_types_and_returns_a_terminal() {
    let page = PageHome::new();
    let agent = Agent::new(&page.home);
    page.play("terminal.mjs", |page, request| {
        page.run_requested_command(request).unwrap_or_else(|| act_as_agent(&agent, request))
    });
}

#[test]
fn second_tab_shows_who_controls_a_terminal() {
    let page = PageHome::new();
    let agent = Agent::new(&page.home);
    page.play("tabs.mjs", |_, request| act_as_agent(&agent, request));
}

#[test]
fn lost_connection_neither_drops_nor_repeats_input() {
    let page = PageHome::new();
    let agent = Agent::new(&page.home);
    page.play("network.mjs", |page, request| {
        page.run_requested_command(request).unwrap_or_else(|| act_as_agent(&agent, request))
    });
}

#[test]
fn real_programs_are_shown_exactly_and_receive_the_mouse() {
    let page = PageHome::new();
    let agent = Agent::new(&page.home);
    page.play("programs.mjs", |page, request| {
        page.run_requested_command(request).unwrap_or_else(|| act_as_agent(&agent, request))
    });
}

#[test]
fn first_view_lists_open_questions_and_notifies() {
    let page = PageHome::new();
    let agent = Agent::new(&page.home);
    page.play("inbox.mjs", |page, request| {
        if let Some(answer) = page.run_requested_command(request) {
            return answer;
        }
        if request["starts"].is_null() { act_as_agent(&agent, request) } else { start_story_run(&agent, request) }
    });
}

#[test]
fn person_answers_gates_with_passphrase_and_views_runs() {
    let page = PageHome::new();
    let agent = Agent::new(&page.home);
    let settings = page.home.path().join(".config/steplatch/config.toml");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    std::fs::write(&settings, "gates.remember_minutes = 5\n").unwrap();
    page.home.run_with_input(&["approver", "set", "--stdin"], "correct horse\n").expect_success();
    page.home.run(&["daemon", "restart"]).expect_success();
    page.play("gates.mjs", |page, request| {
        page.run_requested_command(request).unwrap_or_else(|| start_story_run(&agent, request))
    });
}

#[test]
fn registered_passkey_signs_answers_after_verification() {
    let page = PageHome::new();
    let agent = Agent::new(&page.home);
    page.play("passkey.mjs", |page, request| {
        if let Some(answer) = page.run_requested_command(request) {
            return answer;
        }
        if let Some(word) = request.as_str() {
            return match word {
                "passkey" => serde_json::from_str(&page.run_as_person("gates passkey add --json")).unwrap(),
                "remove" => json!(page.run_as_person("gates passkey remove \"Virtual key\"")),
                other => panic!("the story requests {other}"),
            };
        }
        if let Some(fingerprint) = request["confirms"].as_str() {
            return json!(page.run_as_person(&format!("gates passkey confirm {fingerprint}")));
        }
        if request["registers"].is_object() {
            return page.post("/api/v1/passkeys", &request["registers"]);
        }
        start_story_run(&agent, request)
    });
}

#[test]
fn errors_are_shown_and_secrets_appear_nowhere() {
    let page = PageHome::new();
    let agent = Agent::new(&page.home);
    page.home.run_with_input(&["approver", "set", "--stdin"], "correct horse\n").expect_success();
    page.play("trouble.mjs", |page, request| match request {
        _ if request["run"].is_array() => page.run_requested_command(request).unwrap(),
        _ if request["agent"].is_string() => act_as_agent(&agent, request),
        _ if request["starts"].is_object() => start_story_run(&agent, request),
        _ => {
            let status = page.home.run(&["daemon", "status", "--json"]).json();
            let kill_status = Command::new("kill").args(["-9", &status["pid"].to_string()]).status().unwrap();
            json!({"killed": kill_status.success()})
        }
    });
}

/// Starts a state machine as an agent. Returns the run.
fn start_run(agent: &Agent, definition: &Value) -> Value {
    let run = json!({"workflow_definition": definition, "wait_seconds": 5, "save_on_success": false});
    agent.begin("run_workflow", run).answer()["result"]["structuredContent"].clone()
}

#[test]
fn recording_is_replayed_with_run_marks_without_secrets() {
    let page = PageHome::new();
    let agent = Agent::new(&page.home);
    let file = page.home.path().join("work.cast");
    let mut recorder = None;
    page.play("recordings.mjs", |page, request| match request.as_str() {
        None if request["recorded"].is_string() => {
            let text = request["recorded"].as_str().unwrap();
            eventually_blocking("the text is in the recording", || {
                let recording = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
                if recording.contains(text) { Ok(()) } else { Err(recording) }
            });
            json!({})
        }
        None if request["starts"].is_object() => start_run(&agent, &request["starts"]),
        None => act_as_agent(&agent, request),
        Some("records") => {
            let mut new_recorder = page.home.steplatch();
            new_recorder.args(["terminal", "record", "work", "work.cast"]).stderr(Stdio::piped());
            let mut new_recorder = new_recorder.spawn().unwrap();
            // The recorder reports that it records.
            BufReader::new(new_recorder.stderr.take().unwrap()).read_line(&mut String::new()).unwrap();
            recorder = Some(new_recorder);
            json!({})
        }
        Some("ends") => {
            drop(agent.call_tool("exit_terminal", json!({"session_id": "work"})));
            json!({"code": recorder.take().unwrap().wait().unwrap().code()})
        }
        Some("cuts") => {
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, &text[..text.trim_end().rfind("\"").unwrap()]).unwrap();
            json!({})
        }
        _ => {
            std::fs::write(&file, "no recording\n").unwrap();
            json!({})
        }
    });
}

/// Saves a workflow as its first version, or as a later version with a mistake.
fn save_workflow(page: &PageHome, name: &str, is_changed: bool) -> Value {
    let mut definition = json!({
        "name": name, "description": "Waits for a moment.", "initial_state": "work",
        "states": {"work": {"action": {"tool": "sleep", "params": {"seconds": 0}}}},
    });
    if is_changed {
        definition["states"]["work"]["action"]["params"]["seconds"] = json!(0.01);
        definition["states"]["never"] = json!({"action": {"tool": "sleep", "params": {"seconds": 0}}});
    }
    let file = page.home.path().join("saved.json");
    std::fs::write(&file, definition.to_string()).unwrap();
    let output = page.home.run(&["workflow", "load", "--overwrite", file.to_str().unwrap()]);
    assert_eq!(output.code, 0, "{output:?}");
    json!({})
}

#[test]
fn run_is_followed_on_its_diagram_rerun_and_compared() {
    let page = PageHome::new();
    let agent = Agent::new(&page.home);
    page.play("runs.mjs", |page, request| match request {
        _ if request["starts"].is_object() => start_story_run(&agent, request),
        _ if request["answers"].is_string() => {
            let word = |key: &str| request[key].as_str().unwrap().to_owned();
            page.home.answer_gate(&word("answers"), &word("answer"));
            json!({})
        }
        _ if request["passphrase"].is_string() => {
            let line = format!("{}\n", request["passphrase"].as_str().unwrap());
            page.home.run_with_input(&["approver", "set", "--stdin"], &line).expect_success();
            json!({})
        }
        _ if request["saves"].is_string() => save_workflow(page, request["saves"].as_str().unwrap(), false),
        _ => save_workflow(page, request["changes"].as_str().unwrap(), true),
    });
}

#[test]
fn theme_selected_runs_and_files_are_kept() {
    let page = PageHome::new();
    let agent = Agent::new(&page.home);
    page.play("choices.mjs", |_, request| match request["opens"].as_bool() {
        Some(_) => agent.call_tool("open_terminal", json!({"shell": "bash"})),
        None => start_story_run(&agent, request),
    });
}

#[test]
fn read_only_link_shows_one_terminal_only() {
    let page = PageHome::new();
    let agent = Agent::new(&page.home);
    let _ = agent.call_tool("open_terminal", json!({"command": ["bash", "--norc"], "name": "work"}));
    let _ = agent.call_tool("open_terminal", json!({"command": ["bash", "--norc"], "name": "other"}));
    let _ = agent.call_tool("send_input", json!({"session_id": "work", "input_text": "echo hello from work\n"}));
    let _ = agent.call_tool("send_input", json!({"session_id": "other", "input_text": "echo secret place\n"}));
    page.play_with("share.mjs", &json!({}), |page, request| {
        if let Some(terminal) = request["shares"].as_str() {
            let lifetime = request["for"].as_str().unwrap();
            let reply = page.run_as_person(&format!("terminal share {terminal} --for {lifetime} --json"));
            return serde_json::from_str(&reply).unwrap();
        }
        if let Some(text) = request["types"].as_str() {
            let session = request["into"].as_str().unwrap();
            return agent.call_tool("send_input", json!({"session_id": session, "input_text": format!("{text}\n")}));
        }
        if request["opens"].is_boolean() {
            return agent.call_tool("open_terminal", json!({"command": ["bash", "--norc"]}));
        }
        if let Some(terminal) = request["closes"].as_str() {
            return agent.call_tool("exit_terminal", json!({"session_id": terminal}));
        }
        match request["tries"].as_str() {
            // Without a terminal of a person.
            Some(terminal) => json!({"error": page.home.run(&["terminal", "share", terminal]).stderr}),
            None => page.run_requested_command(request).unwrap(),
        }
    });
}

#[test]
fn run_view_shows_result_input_log_and_equal_comparison() {
    let page = PageHome::new();
    let count = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/count.json");
    page.home.run(&["workflow", "load", count.to_str().unwrap()]).expect_success();
    page.play("run_steps.mjs", |page, request| match request["writes"].as_str() {
        Some(name) => {
            std::fs::write(page.home.path().join(name), request["text"].as_str().unwrap()).unwrap();
            json!({})
        }
        None => page.run_requested_command(request).unwrap(),
    });
}

#[test]
fn app_in_a_client_shows_terminals_and_runs_and_answers_nothing() {
    let page = PageHome::new();
    page.play_with("app.mjs", &json!({"program": STEPLATCH}), |page, request| {
        // A link starts the server of the page.
        let terminal = request["serves"].as_str().unwrap();
        serde_json::from_str(&page.run_as_person(&format!("terminal share {terminal} --json"))).unwrap()
    });
}

/// The pictures are written to the directory in `STEPLATCH_PAGE_SHOTS`, if set.
#[test]
fn documentation_pictures_can_be_generated() {
    let page = PageHome::new();
    let agent = Agent::new(&page.home);
    page.play("pictures.mjs", |page, request| match request["opens"].as_str() {
        Some(name) => {
            drop(agent.call_tool("open_terminal", json!({"shell": "bash", "name": name, "cols": 80, "rows": 22})));
            agent.call_tool("send_input", json!({"session_id": name, "input_text": request["types"]}))
        }
        None if request["starts"].is_object() => start_run(&agent, &request["starts"]),
        None => perform_tool_request(page, &agent, request),
    });
}

/// Calls a tool as the agent, or changes the program that it drives.
fn perform_tool_request(page: &PageHome, agent: &Agent, request: &Value) -> Value {
    if let Some(tool) = request["calls"].as_str() {
        return agent.call_tool(tool, request["with"].clone());
    }
    std::fs::write(page.home.path().join("setup.sh"), request["writes"].as_str().unwrap()).unwrap();
    json!({"directory": page.home.path()})
}

#[test]
fn accepted_patch_repairs_the_run_on_the_page() {
    let page = PageHome::new();
    let agent = Agent::new(&page.home);
    page.home.run_with_input(&["approver", "set", "--stdin"], "correct horse\n").expect_success();
    page.play("repair.mjs", |page, request| perform_tool_request(page, &agent, request));
}

#[test]
fn program_without_a_persons_terminal_gets_no_passkey_ticket() {
    let page = PageHome::new();
    let commands = [
        &["gates", "passkey", "add", "--print"][..],
        &["gates", "passkey", "confirm", "0123456789abcdef"],
        &["gates", "passkey", "remove", "x"],
    ];
    for command in commands {
        let refusal = page.home.run(command);
        assert!(refusal.code != 0 && refusal.stderr.contains("in a terminal of their own"), "{refusal:?}");
    }
    let agent = Agent::new(&page.home);
    let terminal = agent.call_tool("open_terminal", json!({"shell": "bash"}));
    let command = format!("{STEPLATCH} gates passkey add --print; echo exit-code-$?");
    let output = agent.call_tool("run_command", json!({"session_id": terminal["session_id"], "command": command}));
    assert!(output.to_string().contains("in a terminal of their own"), "{output}");
}

#[test]
fn agent_with_full_access_and_browser_is_not_a_person() {
    let page = PageHome::new();
    let agent = Agent::new(&page.home);
    let gate = json!({"prompt": "Release?", "choices": ["yes", "no"], "answered_by": "human"});
    let definition = json!({"name": "asking", "initial_state": "ask", "states": {"ask": {"action": {"tool": "gate", "params": gate}}}});
    let waiting = start_run(&agent, &definition);
    let gate = &waiting["pending_gate"];
    let (origin, _) = page.request_ticket();
    let input = json!({
        "origin": origin, "token": page.read_token(), "steplatch": STEPLATCH,
        "run": waiting["run_id"], "gate": gate["gate_id"], "digest": gate["digest"],
    });
    let Some(player) = page.player("agent.mjs", &input) else {
        return skip_test("the story agent.mjs needs chromium; cargo xtask test installs it");
    };
    // The browser runs in a terminal of the daemon, so it is treated as the agent's whatever it claims.
    let variables = player.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let quote = |text: &std::ffi::OsStr| format!("'{}'", text.to_str().unwrap().replace('\'', r"'\''"));
    let variables: Vec<String> =
        variables.map(|(name, value)| format!("export {}={}\n", name.display(), quote(value))).collect();
    let words: Vec<String> = [player.get_program()].into_iter().chain(player.get_args()).map(quote).collect();
    let script = page.home.path().join("attack.sh");
    std::fs::write(&script, format!("{}{}\necho attack-ended-$?\n", variables.concat(), words.join(" "))).unwrap();
    let terminal = agent.call_tool("open_terminal", json!({"shell": "bash", "name": "attack"}));
    let type_text =
        |text: String| agent.call_tool("send_input", json!({"session_id": terminal["session_id"], "input_text": text}));
    let await_pattern = |pattern: &str| {
        let wait = json!({"session_id": terminal["session_id"], "pattern": pattern, "since": 0, "timeout": 120, "screen": "full"});
        agent.call_tool("await_output", wait)
    };
    type_text(format!("sh {}\n", script.display()));
    let output = await_pattern("^\"steals\"|attack-ended-\\d+");
    assert_eq!(output["match_text"], "\"steals\"", "{}", output["screen_content"].as_str().unwrap());
    type_text(format!("{}\n", page.steal_session()));
    let output = await_pattern("attack-ended-\\d+");
    assert_eq!(output["match_text"], "attack-ended-0", "{}", output["screen_content"].as_str().unwrap());

    let run = agent.call_tool("get_run", json!({"run_id": waiting["run_id"]}));
    assert_eq!((&run["status"], &run["pending_gate"]["digest"]), (&json!("waiting"), &gate["digest"]), "{run:#}");
    assert_eq!(page.home.run(&["gates", "passkey", "list", "--json"]).json()["passkeys"], json!([]));
    assert_eq!(page.home.run(&["approver", "status", "--json"]).json()["is_set"], false);
    page.home.answer_gate(waiting["run_id"].as_str().unwrap(), "yes").expect_success();
    let run = agent.call_tool("get_run", json!({"run_id": waiting["run_id"], "wait_seconds": 60}));
    assert_eq!(run["status"], "completed", "a person's answer completes the run: {run:#}");
}

#[tokio::test]
async fn adding_a_passkey_requires_the_passphrase_if_set() {
    let page = PageHome::new();
    page.home.run_with_input(&["approver", "set", "--stdin"], "correct horse\n").expect_success();
    let command = format!("{STEPLATCH} gates passkey add --print; sleep 1000");
    let desk = Desk::start(&page.home, page.home.path(), &command, (200, 20), &[]).await;
    desk.expect_screen("the approver's passphrase:").await;
    desk.press("wrong horse\r").await;
    desk.expect_screen("Wrong passphrase; try again in 1 s\n.*the approver's passphrase:").await;
    // A passphrase typed before the end of the pause is not checked.
    desk.press("correct horse\r").await;
    let screen = desk.expect_screen("#ticket=[\\w-]+&passkey=[\\w-]+|try again in").await;
    assert!(!screen.contains("correct horse"), "{screen}");
}

#[test]
fn program_without_a_persons_terminal_gets_no_page_ticket() {
    let page = PageHome::new();
    let refusal = page.home.run(&["open", "--print"]);
    assert!(refusal.code != 0 && refusal.stderr.contains("in a terminal of their own"), "{refusal:?}");
    // A terminal opened by an agent does not belong to the person either.
    let agent = Agent::new(&page.home);
    let terminal = agent.call_tool("open_terminal", json!({"shell": "bash"}));
    let command = format!("{STEPLATCH} open --print; echo exit-code-$?");
    let output = agent.call_tool("run_command", json!({"session_id": terminal["session_id"], "command": command}));
    assert!(output.to_string().contains("in a terminal of their own"), "{output}");
    assert!(page.home.run(&["serve", "stop"]).stderr.contains("no server of the page is running"));
}

#[test]
fn older_host_keeps_its_terminals_and_older_server_is_replaced() {
    let page = PageHome::new();
    page.home.run(&["terminal", "open", "--name", "work", "--", "bash", "--norc"]).expect_success();
    page.home.run(&["terminal", "send", "work", "-e", "echo from before"]).expect_success();
    older_host::put_in_front_of(&page.home, older_host::UNKNOWN_TO_FIRST);
    page.home.run(&["daemon", "start"]).expect_success();
    let status_text = page.home.run(&["daemon", "status"]).expect_success();
    assert!(
        status_text.contains("version 0.0.9, 1 open, older version: keeps its terminals, opens no new ones"),
        "{status_text}"
    );
    let agent = Agent::new(&page.home);
    page.play("older.mjs", |page, request| match request.as_str() {
        Some("replaces") => {
            let status = page.home.run(&["daemon", "status", "--json"]).json();
            let file = Path::new(status["socket"].as_str().unwrap()).with_file_name("serve.lock");
            let record = || -> Value { serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap() };
            let mut older = record();
            older["version"] = "0.0.9".into();
            std::fs::write(&file, older.to_string()).unwrap();
            let url = page.run_as_person("open --print");
            assert!(url.starts_with(&format!("http://localhost:{}/", older["port"])), "{url}: the port is unchanged");
            json!({"was": older["pid"], "is": record()["pid"]})
        }
        _ => page.run_requested_command(request).unwrap_or_else(|| act_as_agent(&agent, request)),
    });
}

/// Waits until a server serves the page and listens. Returns its process id and its port.
fn wait_for_server(runtime: &Path, is_wanted: impl Fn(&Value) -> bool) -> (u64, u16) {
    let mut server = (0, 0);
    eventually_blocking("a server serves the page", || {
        let text = std::fs::read_to_string(runtime.join("serve.lock")).map_err(|error| error.to_string())?;
        let record: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let port = u16::try_from(record["port"].as_u64().unwrap()).unwrap();
        TcpStream::connect(("localhost", port)).map_err(|error| error.to_string())?;
        server = (record["pid"].as_u64().unwrap(), port);
        if is_wanted(&record) { Ok(()) } else { Err(text) }
    });
    server
}

#[test]
fn setting_starts_the_server_and_a_used_port_is_logged() {
    let page = PageHome::new();
    page.home.run(&["daemon", "start"]).expect_success();
    let socket = page.home.run(&["daemon", "status", "--json"]).json()["socket"].as_str().unwrap().to_owned();
    let runtime = Path::new(&socket).parent().unwrap();
    // A separate port, because the servers of other tests compete for the default one.
    std::fs::write(runtime.join("serve.lock"), json!({"pid": 0, "port": free_port(), "version": ""}).to_string())
        .unwrap();
    let file = page.home.path().join(".config/steplatch/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "serve.start = 'with_daemon'\n").unwrap();
    page.home.run(&["daemon", "restart"]).expect_success();
    let (pid, port) = wait_for_server(runtime, |record| record["pid"] != 0);
    let url = format!("http://localhost:{port}/#ticket=");
    assert!(page.run_as_person("open --print").starts_with(&url), "'open' finds the server");
    // The server outlives the daemon, and the next daemon does not start a second one.
    page.home.run(&["daemon", "restart"]).expect_success();
    assert_eq!(page.home.run(&["serve", "stop", "--json"]).json()["pid"], pid);

    // Another program now uses the previous port. This ends neither the daemon nor the server.
    let _listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    page.home.run(&["daemon", "restart"]).expect_success();
    let (_, new_port) = wait_for_server(runtime, |record| record["port"] != port);
    eventually_blocking("the log has the new address", || {
        let log = std::fs::read_to_string(runtime.join("daemon.log")).unwrap();
        let is_logged = log.contains(&format!("the page is at http://localhost:{new_port}/: "));
        if is_logged && log.contains(&port.to_string()) { Ok(()) } else { Err(log) }
    });
}

#[test]
fn workflow_is_started_by_its_form_and_a_phone_types_a_line() {
    let page = PageHome::new();
    let count = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/count.json");
    page.home.run(&["workflow", "load", count.to_str().unwrap()]).expect_success();
    let agent = Agent::new(&page.home);
    page.play("places.mjs", |page, request| match request.as_str() {
        Some(_) => json!({"url": page.run_as_person("open --print")}),
        None => page.run_requested_command(request).unwrap_or_else(|| act_as_agent(&agent, request)),
    });
}

#[test]
fn project_has_its_own_workflows_and_terminals() {
    let page = PageHome::new();
    let shop = page.home.path().join("shop");
    std::fs::create_dir_all(shop.join(".terminal_control_workflows")).unwrap();
    let count = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/count.json");
    page.run_as_person_in(&shop, &format!("workflow load {}", count.display()));
    let story = json!({"url": page.run_as_person("open --print"), "shop": shop.to_str().unwrap()});
    page.play_with("projects.mjs", &story, |page, request| match request.as_str().unwrap() {
        "opens" => json!({"url": page.run_as_person_in(&shop, "open --print")}),
        "removes" => json!({"removed": std::fs::rename(&shop, shop.with_extension("old")).is_ok()}),
        other => panic!("the story requests {other}"),
    });
}

/// Returns the ranges of characters that the command line does not show unchanged: characters that strike through,
/// enclose, hide or change others. Spaces are visible on the page by their width.
fn hidden_characters() -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for character in (0..=0x0010_ffff).filter_map(char::from_u32) {
        let is_shown = character.is_whitespace() || visible(&format!("a{character}")) == format!("a{character}");
        let code = u32::from(character);
        match ranges.last_mut() {
            _ if is_shown => {}
            Some((_, last)) if *last + 1 == code => *last = code,
            _ => ranges.push((code, code)),
        }
    }
    ranges
}

#[test]
fn page_logic_tests_pass_without_a_browser() {
    let home = Home::new(STEPLATCH);
    let mut tests = node(&home);
    tests.env("STEPLATCH_HIDDEN", serde_json::to_string(&hidden_characters()).unwrap());
    tests.args(["--test"]).arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/page/decisions.mjs"));
    let output = CommandOutput::from_process(&tests.output().unwrap());
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
}

#[test]
fn page_modules_have_no_type_errors() {
    let home = Home::new(STEPLATCH);
    let mut checker = node(&home);
    checker.arg(installed_path(Path::new("typescript/node_modules/typescript/bin/tsc"))).arg("--project");
    checker.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/http/page/jsconfig.json"));
    let output = CommandOutput::from_process(&checker.output().unwrap());
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
}
