//! The real clients from npm read what `steplatch setup` wrote, and call tools by the rules that it wrote.
//!
//! There is no network: the model is a script on loopback. The clients occupy more than 1 GB, so the test command
//! ignores these stories, and `cargo xtask clients` installs the clients and runs the stories.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use steplatch_testkit::{CommandOutput, Home};

use crate::clients::{installed_path, node_program};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Limit of a command of a client, in seconds.
const LIMIT_SECONDS: &str = "120";

const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
const CODEX_TARGET: &str =
    if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-musl" } else { "x86_64-unknown-linux-musl" };

/// A home that is empty but for given files, with the clients on its path.
struct ClientHome {
    home: Home,
}

impl ClientHome {
    /// Creates the home, and sets up the clients in it.
    fn set_up(files: &[(&str, String)], arguments: &[&str]) -> Self {
        let mut home = Home::new(STEPLATCH);
        // Codex passes few variables on to servers, so the servers use the default directory.
        let state = home.path().join(".local/state/steplatch");
        home.set("STEPLATCH_STATE_DIR", state.to_str().unwrap());
        let user = Self { home };
        for directory in ["bin", "work"] {
            fs::create_dir(user.home.path().join(directory)).unwrap();
        }
        for (name, program) in [
            ("claude", format!("@anthropic-ai/claude-code-linux-{ARCHITECTURE}/claude")),
            ("codex", format!("@openai/codex/vendor/{CODEX_TARGET}/bin/codex")),
            ("opencode", format!("opencode-linux-{ARCHITECTURE}/bin/opencode")),
            ("copilot", format!("@github/copilot-linux-{ARCHITECTURE}/copilot")),
        ] {
            symlink(installed_client(&program), user.home.path().join("bin").join(name)).unwrap();
        }
        let gemini = installed_client("@google/gemini-cli/bundle/gemini.js");
        let script = format!("#!/bin/sh\nexec '{}' '{}' \"$@\"\n", node_program().display(), gemini.display());
        user.write("bin/gemini", &script);
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(user.home.path().join("bin/gemini"), executable).unwrap();
        for (name, text) in files {
            user.write(name, text);
        }
        let output = user.run(STEPLATCH, &[&["setup"], arguments].concat(), &[]).expect_success();
        for client in ["Claude Code", "Codex", "Gemini CLI", "Copilot CLI", "OpenCode"] {
            assert!(output.lines().any(|line| line.contains(client) && line.contains(" added ")), "{client}: {output}");
        }
        // Its servers find the daemon of this home, and that daemon ends with the home.
        user.run(STEPLATCH, &["terminal", "list"], &[]).expect_success();
        user
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.home.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.home.path().join(name)).unwrap()
    }

    /// Runs a program without the variables of this test.
    fn run(&self, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
        let path = format!("{}/bin:/usr/bin:/bin", self.home.path().display());
        let mut command = Command::new("timeout");
        command.env_clear().envs(self.home.environment()).env("PATH", path);
        for (name, value) in [
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("COPILOT_OFFLINE", "true"),
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ] {
            command.env(name, value);
        }
        command.envs(variables.iter().copied()).current_dir(self.home.path().join("work")).stdin(Stdio::null());
        let output = command.args([LIMIT_SECONDS, program]).args(arguments).output().unwrap();
        // Some clients write colours to a pipe.
        let output = CommandOutput::from_process(&output);
        CommandOutput { stdout: strip_colours(&output.stdout), stderr: strip_colours(&output.stderr), ..output }
    }

    /// Returns a client's output about its servers. Some clients print this on standard error.
    fn describe_servers(&self, client: &str, arguments: &[&str], variables: &[(&str, &str)]) -> String {
        let output = self.run(client, &[&["mcp"], arguments].concat(), variables);
        let text = output.stdout + &output.stderr;
        assert_eq!(output.code, 0, "{client}: {text}");
        text
    }
}

fn installed_client(path: &str) -> std::path::PathBuf {
    installed_path(&Path::new("agents/node_modules").join(path))
}

fn strip_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, remaining)| remaining))
}

/// A model on loopback that calls the tool which the prompt names.
struct ScriptedModel {
    process: Child,
    url: String,
}

impl ScriptedModel {
    fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients/scripted_model.mjs");
        let mut process = Command::new(node_program()).arg(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { process, url: format!("http://127.0.0.1:{}", port.trim()) }
    }

    /// Returns files that let the clients without variables for it use this model, and ask before all tools.
    fn client_files(&self) -> Vec<(&'static str, String)> {
        let url = format!("{}/v1", self.url);
        let codex = format!(
            "model = 'm'\nmodel_provider = 'script'\n\n[model_providers.script]\nname = 'script'\n\
             base_url = '{url}'\nwire_api = 'responses'\n"
        );
        let opencode = json!({
            "provider": {"script": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": url, "apiKey": "x"},
                "models": {"m": {}},
            }},
            "permission": {"*": "ask"},
        });
        let gemini = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
        vec![
            (".codex/config.toml", codex),
            (".config/opencode/opencode.json", opencode.to_string()),
            (".gemini/settings.json", gemini.to_string()),
        ]
    }

    /// Requests a call of a tool from each client that can use this model, and returns the client's output.
    fn call_tool(&self, user: &ClientHome, tool: &str) -> [(&'static str, CommandOutput); 5] {
        let (prompt, url) = (format!("please-call {tool}"), self.url.as_str());
        let openai = format!("{url}/v1");
        // Otherwise Claude Code offers the tools of servers only after a search.
        let claude = [("ANTHROPIC_BASE_URL", url), ("ANTHROPIC_API_KEY", "sk-ant-x"), ("ENABLE_TOOL_SEARCH", "false")];
        let gemini = [("GEMINI_API_KEY", "x"), ("GOOGLE_GEMINI_BASE_URL", url), ("GEMINI_CLI_TRUST_WORKSPACE", "true")];
        let copilot = [("COPILOT_PROVIDER_BASE_URL", openai.as_str()), ("COPILOT_MODEL", "m")];
        [
            ("claude", user.run("claude", &["-p", &prompt, "--model", "m"], &claude)),
            ("codex", user.run("codex", &["exec", "--skip-git-repo-check", &prompt], &[])),
            ("gemini", user.run("gemini", &["-m", "gemini-2.5-flash", "-p", &prompt], &gemini)),
            ("copilot", user.run("copilot", &["-p", &prompt], &copilot)),
            ("opencode", user.run("opencode", &["run", "-m", "script/m", &prompt], &[])),
        ]
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        // Ignore the errors: the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "its programs occupy 1 GB; cargo xtask clients installs them and runs it"]
fn clients_connect_to_the_entry_and_lose_it_again() {
    let user = ClientHome::set_up(&[], &[]);
    let listed = user.describe_servers("claude", &["list"], &[]);
    assert!(listed.contains(&format!("steplatch: {STEPLATCH} mcp - ✔ Connected")), "{listed}");
    let shown = user.describe_servers("claude", &["get", "steplatch"], &[]);
    assert!(shown.contains("✔ Connected"), "{shown}");

    // Codex lists without connecting.
    let listed: Value = user.run("codex", &["mcp", "list", "--json"], &[]).json();
    assert_eq!((&listed[0]["name"], &listed[0]["enabled"]), (&json!("steplatch"), &json!(true)), "{listed}");
    let transport = &listed[0]["transport"];
    assert_eq!((&transport["command"], &transport["args"]), (&json!(STEPLATCH), &json!(["mcp"])), "{listed}");

    let listed = user.describe_servers("opencode", &["list"], &[]);
    assert!(listed.contains("✓ steplatch connected") && listed.contains(&format!("{STEPLATCH} mcp")), "{listed}");

    // Setup reports that Gemini CLI starts servers in trusted directories only.
    let listed = user.describe_servers("gemini", &["list"], &[]);
    assert!(listed.contains(&format!("steplatch: {STEPLATCH} mcp (stdio) - Disabled")), "{listed}");
    let listed = user.describe_servers("gemini", &["list"], &[("GEMINI_CLI_TRUST_WORKSPACE", "true")]);
    assert!(listed.contains(&format!("✓ steplatch: {STEPLATCH} mcp (stdio) - Connected")), "{listed}");

    // Copilot CLI shows without connecting.
    let shown = user.describe_servers("copilot", &["get", "steplatch"], &[]);
    assert!(shown.contains("Status: Enabled") && shown.contains(&format!("Command: {STEPLATCH} mcp")), "{shown}");

    user.run(STEPLATCH, &["setup", "--remove"], &[]).expect_success();
    for client in ["claude", "codex", "opencode", "gemini", "copilot"] {
        let listed = user.describe_servers(client, &["list"], &[]);
        assert!(!listed.contains("steplatch"), "{client}: {listed}");
    }
}

#[test]
#[ignore = "its programs occupy 1 GB; cargo xtask clients installs them and runs it"]
fn opencode_reads_the_entry_in_the_newer_notation() {
    let file = ".config/opencode/opencode.json";
    let user = ClientHome::set_up(&[(file, "{\"mcp\": {\"servers\": {}}}\n".to_owned())], &[]);
    let settings: Value = serde_json::from_str(&user.read(file)).unwrap();
    assert_eq!(settings["mcp"]["servers"]["steplatch"]["command"], json!([STEPLATCH, "mcp"]), "{settings}");
    let listed = user.describe_servers("opencode", &["list"], &[]);
    assert!(listed.contains("✓ steplatch connected"), "{listed}");
}

#[test]
#[ignore = "its programs occupy 1 GB; cargo xtask clients installs them and runs it"]
fn tools_that_only_read_need_no_question_and_others_do() {
    let model = ScriptedModel::start();
    let user = ClientHome::set_up(&model.client_files(), &["--allow-reading"]);
    // By default, Codex asks before none of these tools.
    let settings = user.read(".codex/config.toml");
    let entry = "[mcp_servers.steplatch]\n";
    let asking = settings.replace(entry, &format!("{entry}default_tools_approval_mode = 'prompt'\n"));
    user.write(".codex/config.toml", &asking);
    for (client, output) in model.call_tool(&user, "list_terminal_sessions") {
        assert!(output.stdout.contains("result of the tool: "), "{client}: {output:?}");
        assert!(output.stdout.contains("total_sessions"), "{client}: {output:?}");
    }
    for (client, output) in model.call_tool(&user, "open_terminal") {
        assert!(!output.stdout.contains("session_id"), "{client}: {output:?}");
    }
    let terminals = user.run(STEPLATCH, &["terminal", "list", "--json"], &[]).expect_success();
    assert!(!terminals.contains("session_id"), "{terminals}");

    // Without the rules, some clients would ask a person, and cannot do so here.
    user.run(STEPLATCH, &["setup", "--remove"], &[]).expect_success();
    user.run(STEPLATCH, &["setup"], &[]).expect_success();
    for (client, output) in model.call_tool(&user, "list_terminal_sessions") {
        let asks = ["claude", "gemini", "opencode"].contains(&client);
        assert_eq!(output.stdout.contains("total_sessions"), !asks, "{client}: {output:?}");
    }
}
