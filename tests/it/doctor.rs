//! `steplatch doctor` in healthy and broken installations.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use steplatch_testkit::{CommandOutput, Home};

const PROGRAM: &str = env!("CARGO_BIN_EXE_steplatch");

/// A home directory with `steplatch` on its path, and a project directory.
struct Installation {
    home: Home,
}

impl Installation {
    fn new() -> Self {
        let installation = Self { home: Home::new(PROGRAM) };
        fs::create_dir_all(installation.path("project")).unwrap();
        fs::create_dir(installation.path("bin")).unwrap();
        symlink(PROGRAM, installation.path("bin/steplatch")).unwrap();
        installation
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn write_file(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    /// Creates an executable shell script and returns its path.
    fn create_script(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs a command in the project directory.
    fn run(&self, arguments: &[&str], environment: &[(&str, &Path)]) -> CommandOutput {
        let mut command = self.home.steplatch();
        for variable in ["CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"] {
            command.env_remove(variable);
        }
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        command.env("PATH", path).envs(environment.iter().copied()).current_dir(self.path("project")).args(arguments);
        CommandOutput::from_process(&command.output().unwrap())
    }

    /// Runs `doctor` and returns its exit code and its checks.
    fn run_doctor(&self, arguments: &[&str]) -> (i32, Vec<Value>) {
        let output = self.run(&[&["doctor", "--json"], arguments].concat(), &[]);
        (output.code, output.json()["checks"].as_array().unwrap().clone())
    }

    /// Writes the configuration of a client, with an entry for the server.
    fn write_entry(&self, file: &str, entry: &Value) {
        self.write_file(file, &json!({"mcpServers": {"steplatch": entry}}).to_string());
    }
}

/// Returns the state and the text of a check.
fn find_check<'a>(checks: &'a [Value], subject: &str) -> (&'a str, &'a str) {
    let check = checks.iter().find(|check| check["about"] == subject);
    let check = check.unwrap_or_else(|| panic!("no check of {subject} in {checks:?}"));
    let needs_fix = matches!(check["state"].as_str(), Some("warning" | "problem"));
    assert_eq!(check["fix"].is_string(), needs_fix, "only a problem has a fix: {check}");
    (check["state"].as_str().unwrap(), check["said"].as_str().unwrap())
}

#[test]
fn healthy_installation_has_no_findings() {
    let installation = Installation::new();
    installation.write_file(".codex/config.toml", "");
    let entry = json!({"mcpServers": {"steplatch": {"command": "steplatch", "args": ["mcp"]}}});
    installation.write_file(
        ".claude.json",
        &json!({"projects": {installation.path("project").to_str().unwrap(): entry}}).to_string(),
    );
    installation.write_file("project/.vscode/mcp.json", "{}");
    installation.run(&["setup", "--client", "codex"], &[]).expect_success();
    installation.run(&["setup", "--scope", "project", "--client", "vscode"], &[]).expect_success();
    let (code, checks) = installation.run_doctor(&[]);
    assert_eq!(code, 0, "{checks:?}");
    let settings = ["program", "state", "runtime", "socket", "disk", "settings", "handshake", "stateless"];
    for subject in settings.into_iter().chain(["Codex", "Claude Code (this project)"]) {
        assert_eq!(find_check(&checks, subject).0, "ok", "{subject}: {checks:?}");
    }
    let (state, output) = find_check(&checks, "VS Code (project)");
    assert!(state == "ok" && output.starts_with("starts 'steplatch mcp': "), "{output}");
    assert_eq!(find_check(&checks, "Cursor"), ("absent", "not found"));
    assert_eq!(find_check(&checks, "daemon").0, "absent", "the daemon does not run before a server starts it");
    let output = installation.run(&["doctor"], &[]).expect_success();
    assert!(output.ends_with("ok: no problems\n"), "{output}");
    let (_, checks) = installation.run_doctor(&[]);
    assert_eq!(find_check(&checks, "daemon").0, "ok");
}

#[test]
fn broken_entry_is_reported_with_its_remedy() {
    let installation = Installation::new();
    installation.write_entry(".cursor/mcp.json", &json!({"command": "/no/such/steplatch", "args": ["mcp"]}));
    installation.write_entry(".gemini/settings.json", &json!({"command": "echo", "args": ["hello there"]}));
    installation.write_file(".claude.json", "{\n  \"mcpServers\": {,}\n}");
    installation.write_file(".codex/config.toml", "model = 'o'\n");
    let other_program = installation.create_script(
        "other",
        r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"other","version":"7"}}}'
read -r line; read -r line; echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}'"#,
    );
    installation.write_entry("project/.mcp.json", &json!({"command": other_program, "args": ["mcp"]}));
    let failing = installation.create_script("failing", "echo 'no licence' >&2; exit 3");
    installation.write_entry("project/.cursor/mcp.json", &json!({"command": failing, "args": ["mcp"]}));
    let (code, checks) = installation.run_doctor(&[]);
    assert_eq!(code, 1);
    for (subject, state, part) in [
        ("Cursor", "problem", "starts '/no/such/steplatch mcp': program not found"),
        ("Gemini CLI", "problem", "it prints text that is not MCP: 'hello there'"),
        ("Claude Code", "problem", "~/.claude.json cannot be read: line 2, column "),
        ("Claude Code (project)", "problem", "which is another server: other"),
        ("Cursor (project)", "problem", "it ended without an answer; its log: no licence"),
        ("Codex", "warning", "has no entry for steplatch"),
        ("handshake", "ok", ""),
    ] {
        let (actual, output) = find_check(&checks, subject);
        assert!(actual == state && output.contains(part), "{subject}: {actual}: {output}");
    }
    let (code, checks) = installation.run_doctor(&["--client", "codex"]);
    assert_eq!(code, 1, "a missing entry of a requested client is a problem");
    assert!(checks.iter().all(|check| check["about"] != "Cursor"), "{checks:?}");
}

#[test]
fn http_entry_needs_a_listening_server() {
    let installation = Installation::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    installation.write_entry(".cursor/mcp.json", &json!({"type": "http", "url": url}));
    let (_, checks) = installation.run_doctor(&["--client", "cursor"]);
    assert_eq!(find_check(&checks, "Cursor").0, "ok");
    drop(listener);
    let (code, checks) = installation.run_doctor(&["--client", "cursor"]);
    let (state, output) = find_check(&checks, "Cursor");
    assert!(code == 1 && state == "problem" && output.contains("connection failed"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_service_is_reported_with_its_workflows() {
    let service = steplatch_fake::FakeService::start().await;
    service.offer("1", "Deploy");
    let installation = Installation::new();
    installation.write_file("token", steplatch_fake::TOKEN);
    let (url, token) = (service.url(), installation.path("token"));
    let table = format!(
        "[[remote]]\nname = 'flows'\nenabled = true\nbase_url = '{url}'\nretry_attempts = 0\ntoken = 'file:{}'\n",
        token.display()
    );
    installation.write_file(".config/steplatch/config.toml", &table);
    let (_, checks) = installation.run_doctor(&[]);
    let (state, output) = find_check(&checks, "flows");
    assert!(state == "ok" && output.contains("; workflows: 1, listed "), "{state}: {output}");
    service.go_down();
    installation.run(&["remote", "refresh"], &[]);
    let (code, checks) = installation.run_doctor(&[]);
    let (state, output) = find_check(&checks, "flows");
    assert!(code == 1 && state == "problem" && output.contains("; workflows: 1, "), "{state}: {output}");
}

#[test]
fn settings_directories_and_services_are_checked() {
    let installation = Installation::new();
    installation.write_file(
        ".config/steplatch/config.toml",
        "[[remote]]\nname = 'flows'\nenabled = true\nbase_url = 'http://127.0.0.1:1'\n[[remote]]\nname = 'unused'\n",
    );
    fs::create_dir(installation.path("state")).unwrap();
    fs::set_permissions(installation.path("state"), fs::Permissions::from_mode(0o755)).unwrap();
    let (_, checks) = installation.run_doctor(&[]);
    assert_eq!(find_check(&checks, "state").0, "warning");
    assert_eq!(find_check(&checks, "unused").0, "absent");
    assert_ne!(find_check(&checks, "flows").0, "ok", "the service is unreachable: {checks:?}");
    installation.write_file(".config/steplatch/config.toml", "tools.library = 3\nno_such_setting = 1\n");
    let (code, checks) = installation.run_doctor(&[]);
    let settings: Vec<&Value> = checks.iter().filter(|check| check["about"] == "settings").collect();
    assert!(
        code == 1 && settings.len() == 2 && settings.iter().all(|check| check["state"] == "problem"),
        "{settings:?}"
    );
    let long = installation.path(&"long".repeat(30));
    fs::create_dir(&long).unwrap();
    let output = installation.run(&["doctor", "--json"], &[("XDG_RUNTIME_DIR", &long)]);
    assert_eq!(output.code, 1);
    let checks = output.json()["checks"].as_array().unwrap().clone();
    let (state, output) = find_check(&checks, "socket");
    assert!(state == "problem" && output.contains("the limit of 107"), "{output}");
}
