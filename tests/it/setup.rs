//! `steplatch setup` in homes with clients.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use steplatch_testkit::{CommandOutput, Home};

const PROGRAM: &str = env!("CARGO_BIN_EXE_steplatch");

/// A home without programs on its path, with files of clients.
struct UserHome {
    home: Home,
}

impl UserHome {
    fn with_files(files: &[(&str, &str)]) -> Self {
        let user = Self { home: Home::new(PROGRAM) };
        for (name, text) in files {
            user.write(name, text);
        }
        user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn setup(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = self.home.steplatch();
        for variable in ["CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"] {
            command.env_remove(variable);
        }
        command.env("PATH", self.path("bin")).arg("setup").args(arguments);
        CommandOutput::from_process(&command.output().unwrap())
    }

    /// Returns the outcome for each client, by its name.
    fn setup_outcomes(&self, arguments: &[&str]) -> Vec<(String, String)> {
        let output = self.setup(&[arguments, &["--json"]].concat()).json();
        let clients = output["clients"].as_array().unwrap_or_else(|| panic!("{output}")).iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        clients.map(|client| (text(&client["client"]), text(&client["outcome"]))).collect()
    }
}

/// The user's files of all clients.
const FILES: [(&str, &str); 9] = [
    (".claude.json", "{\n  \"numStartups\": 3,\n  \"mcpServers\": {}\n}\n"),
    (".codex/config.toml", "model = \"o\"\n"),
    (".cursor/mcp.json", "{}\n"),
    (".config/Code/User/mcp.json", "{\n\t// mine\n\t\"servers\": {\n\t\t\"a\": {\"command\": \"x\"},\n\t}\n}\n"),
    (".gemini/settings.json", ""),
    (".copilot/mcp-config.json", "{}"),
    (".config/opencode/opencode.json", "{}"),
    (".config/goose/config.yaml", "GOOSE_MODEL: gpt-5 # mine\n"),
    (".config/zed/settings.json", "// Zed settings\n{\n  \"theme\": \"One\",\n}\n"),
];

fn outcome_for_all_clients(outcome: &str) -> Vec<(String, String)> {
    ["claude-code", "codex", "cursor", "vscode", "gemini", "copilot", "opencode", "goose", "zed"]
        .map(|name| (name.to_owned(), outcome.to_owned()))
        .into()
}

#[test]
fn all_installed_clients_get_the_entry_once() {
    let user = UserHome::with_files(&FILES);
    assert_eq!(user.setup_outcomes(&[]), outcome_for_all_clients("added"));
    let claude: Value = serde_json::from_str(&user.read(".claude.json")).unwrap();
    assert_eq!(claude, json!({"numStartups": 3, "mcpServers": {"steplatch": {"command": PROGRAM, "args": ["mcp"]}}}));
    assert_eq!(
        user.read(".codex/config.toml"),
        format!("model = \"o\"\n\n[mcp_servers.steplatch]\ncommand = \"{PROGRAM}\"\nargs = [\"mcp\"]\n")
    );
    let code = user.read(".config/Code/User/mcp.json");
    assert!(
        code.starts_with("{\n\t// mine\n\t\"servers\": {\n\t\t\"a\": {\"command\": \"x\"},\n\t\t\"steplatch\": {\n"),
        "{code}"
    );
    let copilot: Value = serde_json::from_str(&user.read(".copilot/mcp-config.json")).unwrap();
    let entry = json!({"type": "stdio", "command": PROGRAM, "args": ["mcp"], "tools": ["*"]});
    assert_eq!(copilot["mcpServers"]["steplatch"], entry);
    let zed = user.read(".config/zed/settings.json");
    assert!(zed.starts_with("// Zed settings\n") && zed.contains("\"context_servers\": {"), "{zed}");
    let before: Vec<String> = FILES.iter().map(|(name, _)| user.read(name)).collect();
    assert_eq!(user.setup_outcomes(&[]), outcome_for_all_clients("unchanged"));
    assert_eq!(FILES.iter().map(|(name, _)| user.read(name)).collect::<Vec<_>>(), before);
    assert_eq!(user.setup_outcomes(&["--remove"]), outcome_for_all_clients("removed"));
    assert_eq!(user.setup_outcomes(&["--remove"]), outcome_for_all_clients("absent"));
    assert_eq!(user.read(".claude.json"), FILES[0].1);
    assert_eq!(user.read(".codex/config.toml"), FILES[1].1);
    assert_eq!(user.read(".config/Code/User/mcp.json"), FILES[3].1);
}

#[test]
fn rules_for_reading_tools_are_optional_and_removed_with_entry() {
    let settings = "{\n  \"permissions\": {\n    \"deny\": [\n      \"Bash(rm *)\"\n    ]\n  }\n}\n";
    let user = UserHome::with_files(&[(".claude.json", "{}\n"), (".claude/settings.json", settings)]);
    let output = user.setup(&[]);
    assert!(output.stderr.contains("steplatch setup --allow-reading"), "{output:?}");
    assert_eq!(user.read(".claude/settings.json"), settings);
    let output = user.setup(&["--allow-reading"]).expect_success();
    assert!(output.contains("Claude Code, rules"), "{output}");
    let new_settings: Value = serde_json::from_str(&user.read(".claude/settings.json")).unwrap();
    let rules = new_settings["permissions"]["allow"].as_array().unwrap();
    assert!(rules.contains(&"mcp__steplatch__await_output".into()), "{new_settings}");
    assert!(!rules.contains(&"mcp__steplatch__run_command".into()), "{new_settings}");
    assert_eq!(new_settings["permissions"]["deny"], json!(["Bash(rm *)"]));
    user.setup(&["--remove"]).expect_success();
    assert_eq!(user.read(".claude/settings.json"), settings);
    // Text that the client cannot read stays, and the entry is still added.
    user.write(".claude/settings.json", "{");
    let output = user.setup(&["--allow-reading"]);
    assert!(output.code == 1 && output.stderr.contains("settings.json of Claude Code was not changed"), "{output:?}");
    assert!(user.read(".claude.json").contains("steplatch") && user.read(".claude/settings.json") == "{");
}

#[test]
fn each_client_gets_rules_in_its_own_form() {
    let user = UserHome::with_files(&[
        (".codex/config.toml", "model = \"o\"\n"),
        (".config/opencode/opencode.jsonc", "{\n  // mine\n  \"permission\": {\n    \"*\": \"ask\"\n  }\n}\n"),
        (".config/zed/settings.json", "{\n  \"theme\": \"One\"\n}\n"),
        (".cursor/mcp.json", "{}"),
    ]);
    // The entry and the rules are in the same file: the difference of the rules is to the text with the entry.
    let planned = user.setup(&["--allow-reading", "--dry-run"]).expect_success();
    assert!(planned.contains("Codex, rules") && planned.contains("OpenCode, rules"), "{planned}");
    assert!(planned.contains("+[mcp_servers.steplatch.tools.list_runs]\n+approval_mode = \"approve\"\n"), "{planned}");
    assert_eq!(planned.matches("+[mcp_servers.steplatch]\n").count(), 1, "{planned}");
    assert!(!user.read(".codex/config.toml").contains("steplatch"));
    let output = user.setup(&["--allow-reading"]);
    assert_eq!((output.code, output.stderr.contains("--allow-reading")), (0, false), "{output:?}");
    // A list of Cursor's rules would replace the list in its settings.
    assert!(!output.stdout.contains("Cursor, rules") && !user.path(".cursor/permissions.json").exists(), "{output:?}");
    let opencode = user.read(".config/opencode/opencode.jsonc");
    assert!(
        opencode.contains("\"*\": \"ask\",\n    \"steplatch_") && opencode.contains("\"steplatch_get_run\": \"allow\""),
        "{opencode}"
    );
    let zed: Value = serde_json::from_str(&user.read(".config/zed/settings.json")).unwrap();
    let rules = &zed["agent"]["tool_permissions"]["tools"];
    assert_eq!(rules["mcp:steplatch:get_screen_content"], json!({"default": "allow"}), "{zed}");
    assert_eq!(rules["mcp:steplatch:send_input"], Value::Null, "{zed}");
    assert!(user.setup(&["--allow-reading"]).expect_success().contains("already there"));
    user.setup(&["--remove"]).expect_success();
    assert_eq!(user.read(".codex/config.toml"), "model = \"o\"\n");
    for file in [".config/opencode/opencode.jsonc", ".config/zed/settings.json"] {
        assert!(!user.read(file).contains("steplatch") && !user.read(file).contains("agent"), "{}", user.read(file));
    }
    assert!(user.read(".config/opencode/opencode.jsonc").contains("\"*\": \"ask\"\n  }"));
}

#[test]
fn instructions_are_a_removable_block_in_agent_files() {
    let own_text = "# Mine\n\nBe brief.\n";
    let user = UserHome::with_files(&[
        (".claude.json", "{}\n"),
        (".claude/CLAUDE.md", own_text),
        (".cursor/mcp.json", "{}"),
        (".config/opencode/opencode.jsonc", "{\n  // mine\n  \"theme\": \"dark\"\n}\n"),
    ]);
    let output = user.setup(&["--instructions"]);
    assert!(output.stdout.contains("Claude Code, instructions"), "{output:?}");
    assert!(output.stderr.contains("Cursor has no file of instructions for all projects"), "{output:?}");
    let block = user.read(".config/opencode/AGENTS.md");
    assert!(block.contains("`open_terminal`") && block.lines().count() <= 12, "{block}");
    assert_eq!(user.read(".claude/CLAUDE.md"), format!("{own_text}\n{block}"));
    let settings = user.read(".config/opencode/opencode.jsonc");
    let entry = json!({"type": "local", "command": [PROGRAM, "mcp"]}).to_string();
    let without_spaces: String = settings.split_whitespace().collect();
    assert!(without_spaces.contains(&format!("\"mcp\":{{\"steplatch\":{entry}}}")), "{settings}");
    assert!(settings.contains("// mine"), "{settings}");
    assert!(user.setup(&["--instructions"]).expect_success().contains("already there"));
    // Without the option, an existing block stays.
    user.setup(&[]).expect_success();
    assert!(user.read(".claude/CLAUDE.md").contains("steplatch"));
    user.setup(&["--remove"]).expect_success();
    assert_eq!(user.read(".claude/CLAUDE.md"), own_text);
    assert_eq!(user.read(".config/opencode/AGENTS.md"), "");

    // In a project, most clients read the same file.
    let output = user
        .setup(&["--instructions", "--scope", "project", "--client", "codex", "--client", "cursor"])
        .expect_success();
    assert_eq!(output.matches("AGENTS.md").count(), 1, "{output}");
}

#[test]
fn missing_clients_are_named_and_unchanged() {
    let user = UserHome::with_files(&[(".cursor/mcp.json", "{}")]);
    let output = user.setup(&[]);
    let rows = output.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    assert_eq!(
        rows.collect::<Vec<_>>(),
        [
            "· Claude Code not found",
            "· Codex not found",
            "✓ Cursor added ~/.cursor/mcp.json",
            "· VS Code not found",
            "· Gemini CLI not found",
            "· Copilot CLI not found",
            "· OpenCode not found",
            "· goose not found",
            "· Zed not found",
        ]
    );
    assert!(!user.path(".gemini").exists() && !user.path(".codex").exists());
    // The client's program alone is enough.
    fs::create_dir(user.path("bin")).unwrap();
    symlink("/bin/true", user.path("bin/codex")).unwrap();
    assert_eq!(user.setup_outcomes(&[])[1], ("codex".to_owned(), "added".to_owned()));
    // An explicitly named client is assumed to be installed.
    assert_eq!(user.setup_outcomes(&["--client", "gemini"]), [("gemini".to_owned(), "added".to_owned())]);
    let output = UserHome::with_files(&[]).setup(&[]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stderr.contains("no client was found; name one with --client"), "{output:?}");
    assert_eq!(UserHome::with_files(&[]).setup(&["--client", "emacs"]).code, 2);
}

#[test]
fn dry_run_shows_the_difference_and_changes_nothing() {
    let user = UserHome::with_files(&FILES);
    let output = user.setup(&["--dry-run"]).expect_success();
    assert!(output.contains("@@ -1 +1,5 @@\n model = \"o\"\n+\n+[mcp_servers.steplatch]\n"), "{output}");
    assert_eq!(output.matches("+++ ").count(), FILES.len(), "{output}");
    for (name, text) in FILES {
        assert_eq!(user.read(name), text);
    }
    let json = user.setup(&["--dry-run", "--json", "--client", "codex"]).json();
    assert!(json["clients"][0]["diff"].as_str().unwrap().contains("+[mcp_servers.steplatch]\n"), "{json}");
    assert!(!Path::new(&user.path(".config/Code/User/mcp.json.tmp")).exists());
}

#[test]
fn entry_with_another_target_is_changed_and_reported() {
    let user = UserHome::with_files(&[(
        ".cursor/mcp.json",
        r#"{"mcpServers": {"steplatch": {"command": "/old", "args": ["mcp"]}}}"#,
    )]);
    let output = user.setup(&[]);
    assert!(output.stderr.contains("the entry of Cursor was: /old mcp"), "{output:?}");
    assert_eq!(user.setup_outcomes(&[])[2].1, "unchanged");
    // The name is written if `PATH` finds this very program, and is equivalent to its path.
    fs::create_dir(user.path("bin")).unwrap();
    symlink(PROGRAM, user.path("bin/steplatch")).unwrap();
    assert_eq!(user.setup_outcomes(&[])[2].1, "unchanged");
    user.write(".cursor/mcp.json", "{}");
    assert_eq!(user.setup_outcomes(&[])[2].1, "added");
    let entry: Value = serde_json::from_str(&user.read(".cursor/mcp.json")).unwrap();
    assert_eq!(entry["mcpServers"]["steplatch"]["command"], "steplatch");
}

#[test]
fn broken_file_is_unchanged_and_the_others_are_configured() {
    let user = UserHome::with_files(&FILES);
    user.write(".claude.json", "{\n  \"a\": 1,\n}\n");
    let output = user.setup(&[]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(
        output.stderr.contains("~/.claude.json of Claude Code was not changed: line 2, column 9: Trailing commas"),
        "{output:?}"
    );
    assert_eq!(user.read(".claude.json"), "{\n  \"a\": 1,\n}\n");
    assert!(user.read(".codex/config.toml").contains("steplatch"));
    let json = user.setup(&["--json"]);
    assert_eq!((json.code, &json.json()["success"]), (1, &json!(false)));
    assert_eq!(json.json()["clients"][0]["outcome"], "failed");
}

#[test]
fn project_has_its_own_files() {
    let user = UserHome::with_files(&[(".gemini/settings.json", "{}"), ("work/.vscode/settings.json", "{}")]);
    let mut command = user.home.steplatch();
    let output = command.current_dir(user.path("work")).env("PATH", "").args(["setup", "--scope", "project"]).output();
    let output = CommandOutput::from_process(&output.unwrap()).expect_success();
    assert!(output.contains("VS Code      added") && output.contains("Gemini CLI   added"), "{output}");
    assert!(user.read("work/.vscode/mcp.json").contains("\"type\": \"stdio\""));
    assert!(user.read("work/.gemini/settings.json").contains("steplatch"));
    assert_eq!(user.read(".gemini/settings.json"), "{}", "the user's own file is unchanged");
    // Gemini CLI ignores policies of a project.
    let output = user.setup(&["--scope", "project", "--client", "gemini", "--allow-reading"]).expect_success();
    assert!(!output.contains("rules") && !user.path(".gemini/policies").exists(), "{output}");
    // A client without such a file is skipped, and reported to a caller that names it.
    assert!(!output.contains("goose"), "{output}");
    let refusal = user.setup(&["--scope", "project", "--client", "goose"]);
    assert_eq!(refusal.code, 1, "{refusal:?}");
    assert!(
        refusal.stderr.contains("goose reads one configuration for all projects; omit --scope project"),
        "{refusal:?}"
    );
}
