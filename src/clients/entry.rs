//! The steplatch entry: the expected entry, and the existing entry in a client's configuration.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::json::EntryForm;
use super::{Format, UserPaths};
use crate::failure::Failure;

/// The name of the entry.
pub(crate) const NAME: &str = "steplatch";

/// Limit of a call for clients with a shorter one: as long as a command may run.
const CALL_TIMEOUT_SECONDS: u32 = 3600;

/// Expected entry: a client starts this program with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnEntry {
    /// The program's path, or its name if `PATH` finds this very program.
    pub(crate) command: String,
    /// The path of this program.
    pub(crate) program: PathBuf,
}

impl OwnEntry {
    /// Determines how clients start this program.
    ///
    /// # Errors
    /// If its path is unknown.
    pub(crate) fn find(user_paths: &UserPaths) -> Result<Self, Failure> {
        let program =
            std::env::current_exe().map_err(|error| Failure::system("the path of this program is unknown", &error))?;
        if !program.exists() {
            return Err(Failure::work("this program was replaced or removed while it ran; start it again"));
        }
        let on_path = user_paths.find(NAME).is_some_and(|found| is_same_file(&found, &program));
        let command = if on_path { Some(NAME) } else { program.to_str() };
        let Some(command) = command.map(str::to_owned) else {
            let name = program.display();
            return Err(Failure::usage(format!(
                "the path of '{name}' is not UTF-8, which clients require; move it to another directory"
            )));
        };
        Ok(Self { command, program })
    }

    /// Returns two ways to add the entry by hand: the command of a client, and the entry as JSON.
    pub(crate) fn manual_instructions(&self) -> String {
        let entry = json!({"mcpServers": {NAME: {"command": self.command, "args": ["mcp"]}}});
        format!("  claude mcp add {NAME} -- {} mcp\n  {entry}", shell_words::quote(&self.command))
    }

    /// Returns the entry for a client without one.
    pub(super) fn entry(&self, format: Format) -> Value {
        let command = self.command.as_str();
        match format.entry_form() {
            EntryForm::Plain => json!({"command": command, "args": ["mcp"]}),
            EntryForm::Typed => json!({"type": "stdio", "command": command, "args": ["mcp"]}),
            EntryForm::TypedWithTools => {
                json!({"type": "stdio", "command": command, "args": ["mcp"], "tools": ["*"]})
            }
            EntryForm::CommandList => json!({"type": "local", "command": [command, "mcp"]}),
            EntryForm::Extension => json!({
                "name": NAME,
                "enabled": true,
                "type": "stdio",
                "cmd": command,
                "args": ["mcp"],
                "timeout": CALL_TIMEOUT_SECONDS,
            }),
        }
    }
}

/// An entry in a client's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundEntry {
    /// The command.
    pub(crate) command: Option<String>,
    /// The arguments.
    pub(crate) args: Vec<String>,
    /// Variables in addition to the client's own.
    pub(crate) env: BTreeMap<String, String>,
    /// The URL, for an entry that connects instead of starting a program.
    pub(crate) url: Option<String>,
}

impl FoundEntry {
    pub(super) fn from_value(entry: &Value) -> Self {
        let text = |name: &str| entry[name].as_str().map(str::to_owned);
        let list = |name: &str| {
            let words = entry[name].as_array().into_iter().flatten();
            words.filter_map(|word| Some(word.as_str()?.to_owned())).collect::<Vec<_>>()
        };
        let environment = ["env", "environment", "envs"].into_iter().find_map(|name| entry[name].as_object());
        let env = environment.into_iter().flatten();
        // Some clients have the command and its arguments in one list.
        let mut command_line = list("command").into_iter();
        let command = text("command").or_else(|| text("cmd")).or_else(|| command_line.next());
        Self {
            command,
            args: command_line.chain(list("args")).collect(),
            env: env.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect(),
            url: text("url").or_else(|| text("httpUrl")).or_else(|| text("serverUrl")).or_else(|| text("uri")),
        }
    }

    /// Returns the entry as text for people.
    pub(crate) fn describe(&self) -> String {
        match (&self.command, &self.url) {
            (Some(command), _) => {
                let command_line = std::iter::once(command).chain(&self.args).map(|word| shell_words::quote(word));
                command_line.collect::<Vec<_>>().join(" ")
            }
            (None, Some(url)) => url.clone(),
            (None, None) => "nothing".to_owned(),
        }
    }

    /// Returns the properties that must change so that the entry starts `own_entry`. Keeps further arguments, such as
    /// another state directory.
    pub(super) fn differences(
        &self,
        format: Format,
        own_entry: &OwnEntry,
        user_paths: &UserPaths,
    ) -> Vec<(&'static str, Value)> {
        let found = self.command.as_deref().filter(|command| {
            user_paths.find(command).is_some_and(|command| is_same_file(&command, &own_entry.program))
        });
        let starts_server = self.args.iter().any(|arg| arg == "mcp");
        let command = found.unwrap_or(&own_entry.command);
        let args = if starts_server { &self.args } else { &vec!["mcp".to_owned()] };
        if format.entry_form() == EntryForm::CommandList {
            let command_line: Vec<&str> = std::iter::once(command).chain(args.iter().map(String::as_str)).collect();
            return if found.is_some() && starts_server { Vec::new() } else { vec![("command", json!(command_line))] };
        }
        let name = if format.entry_form() == EntryForm::Extension { "cmd" } else { "command" };
        let mut differences = Vec::new();
        if found.is_none() {
            differences.push((name, command.into()));
        }
        if !starts_server {
            differences.push(("args", json!(args)));
        }
        differences
    }
}

/// Returns whether two paths refer to the same file.
pub(crate) fn is_same_file(first: &Path, second: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
    identity(first).is_some_and(|first| Some(first) == identity(second))
}
