//! The help of the whole command line: the commands in groups, and the current state directory.

use std::env;
use std::fmt::Write as _;
use std::path::Path;

use steplatch_protocol::DaemonPaths;

use crate::print::{self, padded, visible};

/// Headings of the help, each with its commands in the order of use. clap does not support headings of subcommands.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Terminals", &["terminal", "watch"]),
    ("Services", &["up", "down", "restart", "ps", "logs"]),
    ("Workflows", &["run", "workflow", "runs", "schedule", "examples", "init", "nodes", "graph"]),
    ("People", &["gates", "ui", "open", "commander", "notify", "approver"]),
    ("Machines", &["hosts", "cp", "remote"]),
    (
        "Set up",
        &[
            "setup",
            "doctor",
            "config",
            "daemon",
            "mcp",
            "serve",
            "worker",
            "completions",
            "man",
            "docs",
            "tour",
            "self",
            "uninstall",
            HELP_COMMAND,
        ],
    ),
];

/// Command that clap adds when it parses the command line.
const HELP_COMMAND: &str = "help";
const ABOUT_HELP: &str = "Print this help, or the help of a command";

/// Width of the column of command names, including the spaces around them.
const NAME_COLUMNS: usize = 15;

/// Maximum width of the help. Also clap's limit for the other parts.
pub(super) const MAX_COLUMNS: usize = 100;

/// Environment variable that names the state directory.
const STATE_VARIABLE: &str = "STEPLATCH_STATE_DIR";

/// Returns clap's template for the help of `grammar`.
pub(super) fn template(grammar: &clap::Command) -> String {
    let columns = print::width().unwrap_or(MAX_COLUMNS).min(MAX_COLUMNS);
    let styles = grammar.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut groups = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(groups, "{header}{heading}:{header:#}");
        for name in names {
            let description = print::wrapped(&description(grammar, name), columns.saturating_sub(NAME_COLUMNS).max(1));
            let description = description.join(&format!("\n{}", " ".repeat(NAME_COLUMNS)));
            let _ = writeln!(groups, "  {literal}{}{literal:#}{description}", padded(name, NAME_COLUMNS - 2));
        }
        groups.push('\n');
    }
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{header}Options:{header:#}\n{{options}}{{after-help}}"
    )
}

/// Returns the short description of a command.
fn description(grammar: &clap::Command, name: &str) -> String {
    match grammar.find_subcommand(name).and_then(clap::Command::get_about) {
        Some(about) => about.to_string(),
        None => ABOUT_HELP.to_owned(),
    }
}

/// Describes the option `--state-dir` with the current state directory, in clap's notation.
///
/// With clap's own `env`, a set variable would count as the option, and 'setup' refuses that option.
pub(super) fn state_directory() -> String {
    let is_set = env::var_os(STATE_VARIABLE).is_some_and(|directory| !directory.is_empty());
    let home = env::var_os("HOME").filter(|home| !home.is_empty());
    let directory = DaemonPaths::from_environment(None).ok();
    let directory = directory.map(|paths| display_path(paths.state(), home.as_deref().map(Path::new)));
    let origin = match directory {
        Some(directory) if is_set => format!("[env: {STATE_VARIABLE}={directory}]"),
        Some(directory) => format!("[env: {STATE_VARIABLE}] [default: {directory}]"),
        None => format!("[env: {STATE_VARIABLE}]"),
    };
    format!("State directory; each has a daemon of its own {origin}")
}

/// Formats a directory for people. One below the home directory becomes `~/…`.
fn display_path(directory: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| directory.strip_prefix(home).ok()) {
        Some(below) if !below.as_os_str().is_empty() => visible(&format!("~/{}", below.display())),
        _ => visible(&directory.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::super::Arguments;
    use super::*;

    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        let grammar = Arguments::grammar();
        let visible = grammar.get_subcommands().filter(|command| !command.is_hide_set());
        let mut known: Vec<&str> = visible.map(clap::Command::get_name).chain([HELP_COMMAND]).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        known.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn command_takes_one_row_of_eighty_columns_in_the_help() {
        let grammar = Arguments::grammar();
        for (_, names) in GROUPS {
            for name in names {
                assert!(name.width() + 4 <= NAME_COLUMNS, "{name}");
                let description = description(&grammar, name);
                assert!(NAME_COLUMNS + description.width() <= 80, "{name}: {description}");
            }
        }
    }

    #[test]
    fn directory_below_home_is_shown_with_a_tilde() {
        let display = |directory: &str| display_path(Path::new(directory), Some(Path::new("/home/ana")));
        assert_eq!(display("/home/ana/.local/state/steplatch"), "~/.local/state/steplatch");
        assert_eq!(display("/srv/state"), "/srv/state");
        assert_eq!(display_path(Path::new("/srv"), None), "/srv");
    }
}
