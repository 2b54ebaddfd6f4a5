//! The MCP clients of this computer, and the steplatch entry in their configuration.
//!
//! A client is one row of [`CLIENTS`]. The files of a client belong to the client and its users: everything except the
//! steplatch entry stays byte for byte unchanged ([`json`], [`toml`], [`yaml`]). [`edit`] computes the new text of a
//! file and compares it with the intended change. [`file`] writes the text atomically, and only if no other program
//! wrote in the meantime.

mod approvals;
pub(crate) mod edit;
pub(crate) mod entry;
pub(crate) mod file;
pub(crate) mod instructions;
mod json;
mod marked_block;
mod policy;
mod rules;
pub(crate) mod text;
pub(crate) mod toml;
mod yaml;

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A program that starts MCP servers.
pub(crate) struct Client {
    /// Name on the command line.
    pub(crate) name: &'static str,
    /// Name for people.
    pub(crate) label: &'static str,
    /// Programs whose presence shows an installed client.
    programs: &'static [&'static str],
    /// The directory whose presence shows an installed client.
    directory: fn(&UserPaths) -> PathBuf,
    /// The user's configuration file.
    user: fn(&UserPaths) -> PathBuf,
    /// The project's configuration file, relative to the project; `None` if the client reads none.
    project: Option<&'static str>,
    /// The key of the user's file for entries of one project, by the project's path.
    projects: Option<&'static str>,
    /// Format of the client's files.
    pub(crate) format: Format,
    /// Rules for tools, if the client supports them.
    pub(crate) rules: Option<ToolRules>,
    /// Files with instructions to the client's agent.
    instructions: PartFiles,
    /// Advice after the entry was added.
    pub(crate) advice: Option<&'static str>,
}

/// An edit of the text of a file.
pub(crate) type TextEdit = fn(&str) -> Result<(edit::Outcome, String), text::Unreadable>;

/// Rules of a client for tools: the files with the rules, and the edits of these files.
pub(crate) struct ToolRules {
    files: PartFiles,
    /// True if the client asks before read-only tools without such rules and without other settings.
    pub(crate) is_needed: bool,
    /// Lets the client call read-only tools without asking.
    pub(crate) allow_reading: TextEdit,
    /// Removes the rules about this server; `None` if they are removed with the entry.
    pub(crate) remove: Option<TextEdit>,
}

/// Files of a client for all projects and for one.
pub(crate) struct PartFiles {
    /// `None` if the client has no such file.
    user: Option<fn(&UserPaths) -> PathBuf>,
    /// Relative to the project; `None` if the client has no such file.
    project: Option<&'static str>,
}

impl PartFiles {
    fn path(&self, scope: Scope, user_paths: &UserPaths) -> Option<PathBuf> {
        match scope {
            Scope::User => self.user.map(|user| user(user_paths)),
            Scope::Project => self.project.map(|file| user_paths.project.join(file)),
        }
    }
}

/// The format of a client's configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Format {
    /// JSON, with comments or without.
    Json(json::Shape),
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

impl Format {
    /// Returns the form of an entry.
    fn entry_form(self) -> json::EntryForm {
        match self {
            Self::Json(shape) => shape.entry,
            Self::Toml => json::EntryForm::Plain,
            Self::Yaml => json::EntryForm::Extension,
        }
    }
}

/// Scope of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// You, in all projects
    User,
    /// All users of this directory
    Project,
}

/// The file with instructions that most clients read in a project (<https://agents.md>).
const AGENTS: &str = "AGENTS.md";

/// The clients with a known configuration. The files and keys come from the documentation of the clients:
/// <https://code.claude.com/docs/en/mcp>, <https://developers.openai.com/codex/mcp>, <https://cursor.com/docs/mcp>,
/// <https://code.visualstudio.com/docs/agents/reference/mcp-configuration>,
/// <https://geminicli.com/docs/tools/mcp-server/>,
/// <https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers>,
/// <https://opencode.ai/docs/mcp-servers/>, <https://block.github.io/goose/docs/guides/config-files>,
/// <https://zed.dev/docs/ai/mcp>.
pub(crate) const CLIENTS: [Client; 9] = [
    Client {
        name: "claude-code",
        label: "Claude Code",
        programs: &["claude"],
        directory: UserPaths::claude_directory,
        user: |paths| paths.claude.as_ref().unwrap_or(&paths.home).join(".claude.json"),
        project: Some(".mcp.json"),
        projects: Some("projects"),
        format: Format::Json(json::Shape {
            servers: "mcpServers",
            newer: None,
            strict: true,
            entry: json::EntryForm::Plain,
        }),
        rules: Some(ToolRules {
            files: PartFiles {
                user: Some(|paths| paths.claude_directory().join("settings.json")),
                project: Some(".claude/settings.json"),
            },
            is_needed: true,
            allow_reading: |text| rules::CLAUDE.allow_reading(text),
            remove: Some(|text| rules::CLAUDE.remove(text)),
        }),
        instructions: PartFiles {
            user: Some(|paths| paths.claude_directory().join("CLAUDE.md")),
            project: Some("CLAUDE.md"),
        },
        advice: None,
    },
    Client {
        name: "codex",
        label: "Codex",
        programs: &["codex"],
        directory: |paths| paths.codex.clone(),
        user: |paths| paths.codex.join("config.toml"),
        project: Some(".codex/config.toml"),
        projects: None,
        format: Format::Toml,
        rules: Some(ToolRules {
            files: PartFiles {
                user: Some(|paths| paths.codex.join("config.toml")),
                project: Some(".codex/config.toml"),
            },
            is_needed: false,
            allow_reading: approvals::allow_reading,
            remove: None,
        }),
        instructions: PartFiles { user: Some(|paths| paths.codex.join("AGENTS.md")), project: Some(AGENTS) },
        advice: None,
    },
    Client {
        name: "cursor",
        label: "Cursor",
        programs: &["cursor", "cursor-agent"],
        directory: |paths| paths.home.join(".cursor"),
        user: |paths| paths.home.join(".cursor/mcp.json"),
        project: Some(".cursor/mcp.json"),
        projects: None,
        format: Format::Json(json::Shape {
            servers: "mcpServers",
            newer: None,
            strict: false,
            entry: json::EntryForm::Plain,
        }),
        rules: Some(ToolRules {
            files: PartFiles {
                user: Some(|paths| paths.home.join(".cursor/permissions.json")),
                project: Some(".cursor/permissions.json"),
            },
            is_needed: false,
            allow_reading: |text| rules::CURSOR.allow_reading(text),
            remove: Some(|text| rules::CURSOR.remove(text)),
        }),
        instructions: PartFiles { user: None, project: Some(AGENTS) },
        advice: None,
    },
    Client {
        name: "vscode",
        label: "VS Code",
        programs: &["code"],
        directory: |paths| paths.config.join("Code"),
        user: |paths| paths.config.join("Code/User/mcp.json"),
        project: Some(".vscode/mcp.json"),
        projects: None,
        format: Format::Json(json::Shape {
            servers: "servers",
            newer: None,
            strict: false,
            entry: json::EntryForm::Typed,
        }),
        rules: None,
        instructions: PartFiles { user: None, project: Some(AGENTS) },
        advice: None,
    },
    Client {
        name: "gemini",
        label: "Gemini CLI",
        programs: &["gemini"],
        directory: |paths| paths.home.join(".gemini"),
        user: |paths| paths.home.join(".gemini/settings.json"),
        project: Some(".gemini/settings.json"),
        projects: None,
        format: Format::Json(json::Shape {
            servers: "mcpServers",
            newer: None,
            strict: false,
            entry: json::EntryForm::Plain,
        }),
        rules: Some(ToolRules {
            files: PartFiles {
                user: Some(|paths| paths.home.join(".gemini/policies/steplatch.toml")),
                // Gemini CLI ignores policies of a project.
                project: None,
            },
            is_needed: true,
            allow_reading: policy::allow_reading,
            remove: Some(policy::remove_rules),
        }),
        instructions: PartFiles {
            user: Some(|paths| paths.home.join(".gemini/GEMINI.md")),
            project: Some("GEMINI.md"),
        },
        advice: Some("Gemini CLI starts servers only in directories that it trusts: enter /permissions there"),
    },
    Client {
        name: "copilot",
        label: "Copilot CLI",
        programs: &["copilot"],
        directory: |paths| paths.home.join(".copilot"),
        user: |paths| paths.home.join(".copilot/mcp-config.json"),
        project: Some(".github/mcp.json"),
        projects: None,
        format: Format::Json(json::Shape {
            servers: "mcpServers",
            newer: None,
            strict: true,
            entry: json::EntryForm::TypedWithTools,
        }),
        rules: None,
        instructions: PartFiles {
            user: Some(|paths| paths.home.join(".copilot/copilot-instructions.md")),
            project: Some(AGENTS),
        },
        advice: None,
    },
    Client {
        name: "opencode",
        label: "OpenCode",
        programs: &["opencode"],
        directory: |paths| paths.config.join("opencode"),
        user: UserPaths::opencode_file,
        project: Some("opencode.json"),
        projects: None,
        format: Format::Json(json::Shape {
            servers: "mcp",
            newer: Some("servers"),
            strict: false,
            entry: json::EntryForm::CommandList,
        }),
        rules: Some(ToolRules {
            files: PartFiles { user: Some(UserPaths::opencode_file), project: Some("opencode.json") },
            is_needed: false,
            allow_reading: |text| rules::OPENCODE.allow_reading(text),
            remove: Some(|text| rules::OPENCODE.remove(text)),
        }),
        instructions: PartFiles { user: Some(|paths| paths.config.join("opencode/AGENTS.md")), project: Some(AGENTS) },
        advice: None,
    },
    Client {
        name: "goose",
        label: "goose",
        programs: &["goose"],
        directory: |paths| paths.config.join("goose"),
        user: |paths| paths.config.join("goose/config.yaml"),
        project: None,
        projects: None,
        format: Format::Yaml,
        rules: None,
        instructions: PartFiles { user: Some(|paths| paths.config.join("goose/.goosehints")), project: Some(AGENTS) },
        advice: None,
    },
    Client {
        name: "zed",
        label: "Zed",
        programs: &["zed", "zeditor"],
        directory: |paths| paths.config.join("zed"),
        user: |paths| paths.config.join("zed/settings.json"),
        project: Some(".zed/settings.json"),
        projects: None,
        format: Format::Json(json::Shape {
            servers: "context_servers",
            newer: None,
            strict: false,
            entry: json::EntryForm::Plain,
        }),
        rules: Some(ToolRules {
            files: PartFiles { user: Some(|paths| paths.config.join("zed/settings.json")), project: None },
            is_needed: true,
            allow_reading: |text| rules::ZED.allow_reading(text),
            remove: Some(|text| rules::ZED.remove(text)),
        }),
        instructions: PartFiles { user: None, project: Some(AGENTS) },
        advice: None,
    },
];

impl Client {
    /// Returns the file with rules for tools, if the client has one.
    pub(crate) fn rules_file(&self, scope: Scope, user_paths: &UserPaths) -> Option<PathBuf> {
        self.rules.as_ref()?.files.path(scope, user_paths)
    }

    /// Returns the file with instructions to the client's agent, if it has one.
    pub(crate) fn instructions_file(&self, scope: Scope, user_paths: &UserPaths) -> Option<PathBuf> {
        self.instructions.path(scope, user_paths)
    }

    /// Returns the file that lists the client's servers in this scope, if there is such a file.
    pub(crate) fn file(&self, scope: Scope, user_paths: &UserPaths) -> Option<PathBuf> {
        match scope {
            Scope::User => Some((self.user)(user_paths)),
            Scope::Project => self.project.map(|file| user_paths.project.join(file)),
        }
    }

    /// Returns this project's settings from the text of the user's file, as written by `claude mcp add`.
    pub(crate) fn project_settings(&self, text: &str, user_paths: &UserPaths) -> Option<String> {
        let settings: serde_json::Value = serde_json::from_str(text).ok()?;
        Some(settings.get(self.projects?)?.get(user_paths.project.to_str()?)?.to_string())
    }

    /// Returns whether the client is present. Its directory, its file or its program show this; for a project, also its
    /// project files.
    pub(crate) fn is_present(&self, scope: Scope, user_paths: &UserPaths) -> bool {
        let exists = |path: PathBuf| path.symlink_metadata().is_ok();
        let has_user_files = exists((self.directory)(user_paths)) || exists((self.user)(user_paths));
        let of_project =
            self.file(Scope::Project, user_paths).filter(|_| scope == Scope::Project).is_some_and(|file| {
                let directory = file.parent().filter(|directory| *directory != user_paths.project);
                exists(file.clone()) || directory.is_some_and(|directory| exists(directory.to_owned()))
            });
        has_user_files || of_project || self.programs.iter().any(|program| user_paths.find(program).is_some())
    }
}

/// Directories of a user and of the user's programs.
#[derive(Debug, Clone)]
pub(crate) struct UserPaths {
    /// The home directory.
    pub(crate) home: PathBuf,
    /// The directory of programs' configurations.
    pub(crate) config: PathBuf,
    /// Claude Code's configuration directory, if the environment sets it.
    pub(crate) claude: Option<PathBuf>,
    /// Codex's configuration directory.
    pub(crate) codex: PathBuf,
    /// The project: the working directory of the command.
    pub(crate) project: PathBuf,
    /// The value of `PATH`.
    pub(crate) path: OsString,
}

impl UserPaths {
    /// Reads the environment.
    ///
    /// # Errors
    /// If there is no `HOME`, or the working directory was removed.
    pub(crate) fn from_environment() -> Result<Self, Failure> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let directory = |name: &str| variable(name).map(PathBuf::from);
        let home = directory("HOME")
            .ok_or_else(|| Failure::usage("HOME is not set, and clients keep their configuration there; set it"))?;
        Ok(Self {
            config: directory("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            claude: directory("CLAUDE_CONFIG_DIR"),
            codex: directory("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
            project: std::env::current_dir()
                .map_err(|error| Failure::system("the working directory cannot be found", &error))?,
            path: variable("PATH").unwrap_or_default(),
            home,
        })
    }

    /// Returns Claude Code's configuration directory.
    fn claude_directory(&self) -> PathBuf {
        self.claude.clone().unwrap_or_else(|| self.home.join(".claude"))
    }

    /// Returns OpenCode's configuration file: the one with comments, if it exists.
    fn opencode_file(&self) -> PathBuf {
        let directory = self.config.join("opencode");
        let with_comments = directory.join("opencode.jsonc");
        if with_comments.exists() { with_comments } else { directory.join("opencode.json") }
    }

    /// Returns the program that a name or a path refers to.
    pub(crate) fn find(&self, program: &str) -> Option<PathBuf> {
        if program.contains('/') {
            return is_program(Path::new(program)).then(|| PathBuf::from(program));
        }
        program_in(&self.path, program)
    }

    /// Returns a path in the form that people write.
    pub(crate) fn display_path(&self, path: &Path) -> String {
        match path.strip_prefix(&self.home) {
            Ok(below) if !below.as_os_str().is_empty() => format!("~/{}", below.display()),
            _ => path.display().to_string(),
        }
    }
}

/// Returns the program of this name in a search path.
pub(crate) fn program_in(path: &OsStr, program: &str) -> Option<PathBuf> {
    std::env::split_paths(path).map(|directory| directory.join(program)).find(|path| is_program(path))
}

pub(crate) fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
