//! `steplatch doctor` in a healthy installation, and in broken ones.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use steplatch_testkit::{CommandOutput, Home};

const PROGRAM: &str = env!("CARGO_BIN_EXE_steplatch");

/// A home with `steplatch` on its path, and the directory of a project.
struct Desk {
    home: Home,
}

impl Desk {
    fn new() -> Self {
        let desk = Self { home: Home::new(PROGRAM) };
        fs::create_dir_all(desk.file("project")).unwrap();
        fs::create_dir(desk.file("bin")).unwrap();
        symlink(PROGRAM, desk.file("bin/steplatch")).unwrap();
        desk
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.file(name).parent().unwrap()).unwrap();
        fs::write(self.file(name), text).unwrap();
    }

    /// Creates a server that is a script.
    fn script(&self, name: &str, text: &str) -> String {
        let path = self.file(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn enter_line(&self, arguments: &[&str], environment: &[(&str, &Path)]) -> CommandOutput {
        let mut command = self.home.steplatch();
        for variable in ["CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"] {
            command.env_remove(variable);
        }
        let path = format!("{}:/usr/bin:/bin", self.file("bin").display());
        command.env("PATH", path).envs(environment.iter().copied()).current_dir(self.file("project")).args(arguments);
        CommandOutput::of(&command.output().unwrap())
    }

    fn examine(&self, arguments: &[&str]) -> (i32, Vec<Value>) {
        let output = self.enter_line(&[&["doctor", "--json"], arguments].concat(), &[]);
        (output.code, output.json()["checks"].as_array().unwrap().clone())
    }

    /// Adds an entry to a client's configuration.
    fn entry(&self, file: &str, entry: &Value) {
        self.write(file, &json!({"mcpServers": {"steplatch": entry}}).to_string());
    }
}

/// Returns the state of a finding, and its text.
fn check<'a>(checks: &'a [Value], about: &str) -> (&'a str, &'a str) {
    let check = checks.iter().find(|check| check["about"] == about);
    let check = check.unwrap_or_else(|| panic!("no check of {about} in {checks:?}"));
    let bad = matches!(check["state"].as_str(), Some("warning" | "problem"));
    assert_eq!(check["fix"].is_string(), bad, "a problem has a fix: {check}");
    (check["state"].as_str().unwrap(), check["said"].as_str().unwrap())
}

#[test]
fn healthy_installation_has_no_findings() {
    let desk = Desk::new();
    desk.write(".codex/config.toml", "");
    let entry = json!({"mcpServers": {"steplatch": {"command": "steplatch", "args": ["mcp"]}}});
    desk.write(".claude.json", &json!({"projects": {desk.file("project").to_str().unwrap(): entry}}).to_string());
    desk.write("project/.vscode/mcp.json", "{}");
    desk.enter_line(&["setup", "--client", "codex"], &[]).expect_success();
    desk.enter_line(&["setup", "--scope", "project", "--client", "vscode"], &[]).expect_success();
    let (code, checks) = desk.examine(&[]);
    assert_eq!(code, 0, "{checks:?}");
    let settings = ["program", "state", "runtime", "socket", "disk", "settings", "handshake", "stateless"];
    for about in settings.into_iter().chain(["Codex", "Claude Code (this project)"]) {
        assert_eq!(check(&checks, about).0, "ok", "{about}: {checks:?}");
    }
    let (state, output) = check(&checks, "VS Code (project)");
    assert!(state == "ok" && output.starts_with("starts 'steplatch mcp': "), "{output}");
    assert_eq!(check(&checks, "Cursor"), ("absent", "not found"));
    assert_eq!(check(&checks, "daemon").0, "absent", "it was started for the servers, and not before");
    let output = desk.enter_line(&["doctor"], &[]).expect_success();
    assert!(output.ends_with("ok: no problems\n"), "{output}");
    let (_, checks) = desk.examine(&[]);
    assert_eq!(check(&checks, "daemon").0, "ok");
}

#[test]
fn broken_entry_is_reported_with_its_remedy() {
    let desk = Desk::new();
    desk.entry(".cursor/mcp.json", &json!({"command": "/no/such/steplatch", "args": ["mcp"]}));
    desk.entry(".gemini/settings.json", &json!({"command": "echo", "args": ["hello there"]}));
    desk.write(".claude.json", "{\n  \"mcpServers\": {,}\n}");
    desk.write(".codex/config.toml", "model = 'o'\n");
    let other = desk.script(
        "other",
        r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"other","version":"7"}}}'
read -r line; read -r line; echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}'"#,
    );
    desk.entry("project/.mcp.json", &json!({"command": other, "args": ["mcp"]}));
    let failing = desk.script("failing", "echo 'no licence' >&2; exit 3");
    desk.entry("project/.cursor/mcp.json", &json!({"command": failing, "args": ["mcp"]}));
    let (code, checks) = desk.examine(&[]);
    assert_eq!(code, 1);
    for (about, state, part) in [
        ("Cursor", "problem", "starts '/no/such/steplatch mcp': program not found"),
        ("Gemini CLI", "problem", "it prints text that is not MCP: 'hello there'"),
        ("Claude Code", "problem", "~/.claude.json cannot be read: line 2, column "),
        ("Claude Code (project)", "problem", "which is another server: other"),
        ("Cursor (project)", "problem", "it ended without an answer; its log: no licence"),
        ("Codex", "warning", "has no entry for steplatch"),
        ("handshake", "ok", ""),
    ] {
        let (found, output) = check(&checks, about);
        assert!(found == state && output.contains(part), "{about}: {found}: {output}");
    }
    let (code, checks) = desk.examine(&["--client", "codex"]);
    assert_eq!(code, 1, "a requested server is missed");
    assert!(checks.iter().all(|check| check["about"] != "Cursor"), "{checks:?}");
}

#[test]
fn http_entry_needs_a_listening_server() {
    let desk = Desk::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    desk.entry(".cursor/mcp.json", &json!({"type": "http", "url": url}));
    let (_, checks) = desk.examine(&["--client", "cursor"]);
    assert_eq!(check(&checks, "Cursor").0, "ok");
    drop(listener);
    let (code, checks) = desk.examine(&["--client", "cursor"]);
    let (state, output) = check(&checks, "Cursor");
    assert!(code == 1 && state == "problem" && output.contains("connection failed"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_service_is_reported_with_its_workflows() {
    let service = steplatch_fake::FakeService::start().await;
    service.offer("1", "Deploy");
    let desk = Desk::new();
    desk.write("token", steplatch_fake::TOKEN);
    let (url, token) = (service.url(), desk.file("token"));
    let table = format!(
        "[[remote]]\nname = 'flows'\nenabled = true\nbase_url = '{url}'\nretry_attempts = 0\ntoken = 'file:{}'\n",
        token.display()
    );
    desk.write(".config/steplatch/config.toml", &table);
    let (_, checks) = desk.examine(&[]);
    let (state, output) = check(&checks, "flows");
    assert!(state == "ok" && output.contains("; workflows: 1, listed "), "{state}: {output}");
    service.go_down();
    desk.enter_line(&["remote", "refresh"], &[]);
    let (code, checks) = desk.examine(&[]);
    let (state, output) = check(&checks, "flows");
    assert!(code == 1 && state == "problem" && output.contains("; workflows: 1, "), "{state}: {output}");
}

#[test]
fn settings_directories_and_services_are_checked() {
    let desk = Desk::new();
    desk.write(
        ".config/steplatch/config.toml",
        "[[remote]]\nname = 'flows'\nenabled = true\nbase_url = 'http://127.0.0.1:1'\n[[remote]]\nname = 'unused'\n",
    );
    fs::create_dir(desk.file("state")).unwrap();
    fs::set_permissions(desk.file("state"), fs::Permissions::from_mode(0o755)).unwrap();
    let (_, checks) = desk.examine(&[]);
    assert_eq!(check(&checks, "state").0, "warning");
    assert_eq!(check(&checks, "unused").0, "absent");
    assert_ne!(check(&checks, "flows").0, "ok", "nobody listens: {checks:?}");
    desk.write(".config/steplatch/config.toml", "tools.library = 3\nno_such_setting = 1\n");
    let (code, checks) = desk.examine(&[]);
    let settings: Vec<&Value> = checks.iter().filter(|check| check["about"] == "settings").collect();
    assert!(
        code == 1 && settings.len() == 2 && settings.iter().all(|check| check["state"] == "problem"),
        "{settings:?}"
    );
    let long = desk.file(&"long".repeat(30));
    fs::create_dir(&long).unwrap();
    let output = desk.enter_line(&["doctor", "--json"], &[("XDG_RUNTIME_DIR", &long)]);
    assert_eq!(output.code, 1);
    let checks = output.json()["checks"].as_array().unwrap().clone();
    let (state, output) = check(&checks, "socket");
    assert!(state == "problem" && output.contains("the limit of 107"), "{output}");
}
