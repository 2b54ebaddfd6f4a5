//! `steplatch self check`: the origin of this installation, and the newest version available there.
//!
//! This program itself does not access the network: it queries the package manager that installed it, with the package
//! manager's own settings.

use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::clients::program_in;
use crate::failure::Failure;
use crate::print::{self, GOOD, WAITS};

/// Find a newer version of steplatch
#[derive(Debug, Subcommand)]
pub(crate) enum SelfCommand {
    /// Ask the package manager that installed steplatch for a newer version
    #[command(after_help = HELP)]
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

const HELP: &str = "\
It installs nothing. For the change of running daemons: steplatch daemon restart";

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Maximum time for the answer of a package manager.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);

/// A package manager.
struct Channel {
    name: &'static str,
    /// Returns whether it installed a program, by the program's path.
    installed: fn(&Path) -> bool,
    /// The command that prints the newest version.
    query: &'static [&'static str],
    /// Returns the version in the output of the query.
    read_version: fn(&str) -> Option<String>,
    /// Returns the command that installs the newest version.
    upgrade: fn(&Path) -> &'static str,
}

/// The package managers, with the more specific ones first.
const CHANNELS: [Channel; 6] = [
    Channel {
        name: "npm",
        installed: |program| has_directory(program, "node_modules"),
        query: &["npm", "view", "steplatch", "version"],
        read_version: |output| first_word(output),
        upgrade: |program| match () {
            () if has_directory(program, "_npx") => "npx steplatch@latest",
            () if has_directory(program, "lib") => "npm install --global steplatch@latest",
            () => "npm install steplatch@latest",
        },
    },
    Channel {
        name: "uv",
        installed: |program| has_directory(program, "uv") && has_environment(program),
        query: &[
            "uv",
            "pip",
            "install",
            "--dry-run",
            "--no-deps",
            "--upgrade",
            "--target",
            "/nonexistent",
            "steplatch",
        ],
        read_version: |output| word_after(output, "steplatch=="),
        upgrade: |_| "uv tool upgrade steplatch",
    },
    Channel {
        name: "pip",
        installed: has_environment,
        query: &["pip", "index", "versions", "steplatch"],
        read_version: |output| word_after(output, "steplatch ("),
        upgrade: |program| match has_directory(program, "pipx") {
            true => "pipx upgrade steplatch",
            false => "pip install --upgrade steplatch",
        },
    },
    Channel {
        name: "Homebrew",
        installed: |program| has_directory(program, "Cellar"),
        query: &["brew", "info", "--json=v2", "steplatch"],
        read_version: |output| {
            let info: Value = serde_json::from_str(output).ok()?;
            Some(info["formulae"][0]["versions"]["stable"].as_str()?.to_owned())
        },
        upgrade: |_| "brew upgrade steplatch",
    },
    Channel {
        name: "apt",
        installed: |program| program == Path::new("/usr/bin/steplatch"),
        query: &["apt-cache", "policy", "steplatch"],
        read_version: |output| word_after(output, "Candidate: "),
        upgrade: |_| "sudo apt-get install --only-upgrade steplatch",
    },
    Channel {
        name: "cargo",
        installed: |program| has_directory(program, ".cargo"),
        query: &["cargo", "info", "--color", "never", "steplatch"],
        read_version: |output| word_after(output, "version: "),
        upgrade: |_| "cargo install --locked steplatch",
    },
];

/// Returns whether a directory of this name contains the program.
fn has_directory(program: &Path, name: &str) -> bool {
    program.parent().into_iter().flat_map(Path::components).any(|part| part.as_os_str() == name)
}

/// Returns whether a program is in an environment of Python.
fn has_environment(program: &Path) -> bool {
    program.parent().and_then(Path::parent).is_some_and(|directory| directory.join("pyvenv.cfg").exists())
}

fn first_word(output: &str) -> Option<String> {
    output.split_whitespace().next().map(str::to_owned)
}

/// Returns the characters of a version after text.
fn word_after(output: &str, text: &str) -> Option<String> {
    let (_, rest) = output.split_once(text)?;
    let end = rest.find(|character: char| !(character.is_ascii_alphanumeric() || ".-+".contains(character)));
    Some(rest[..end.unwrap_or(rest.len())].to_owned()).filter(|version| !version.is_empty())
}

/// Returns the numbers of a version; `None` for text that is not a version.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let release = version.split(['-', '+']).next()?;
    release.split('.').map(|number| number.parse().ok()).collect()
}

/// The newest version that a package manager knows.
enum Newest {
    Known(String),
    /// The newest version is unknown, for this reason.
    Unknown(String),
}

impl SelfCommand {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let Self::Check { json } = self;
        let program = std::env::current_exe().and_then(|program| program.canonicalize());
        let program = program.map_err(|error| Failure::system("the path of this program is unknown", &error))?;
        let channel = CHANNELS.iter().find(|channel| (channel.installed)(&program));
        let newest = match channel {
            Some(channel) => channel.find_newest().await,
            None => Newest::Unknown("no package manager installed this program".to_owned()),
        };
        report(&program, channel, &newest, json)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Channel {
    /// Asks the package manager for the newest version.
    async fn find_newest(&self) -> Newest {
        let [name, arguments @ ..] = self.query else { unreachable!("every query names a program") };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let Some(found) = program_in(&path, name) else {
            return Newest::Unknown(format!("{name} is not found"));
        };
        let mut query = Command::new(found);
        query.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let output = match tokio::time::timeout(QUERY_TIMEOUT, query.output()).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => return Newest::Unknown(format!("{name} cannot be run: {error}")),
            Err(_) => return Newest::Unknown(format!("{name} did not answer within {} s", QUERY_TIMEOUT.as_secs())),
        };
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let version = (self.read_version)(&text).filter(|version| numbers(version).is_some());
        match version.filter(|_| output.status.success()) {
            Some(version) => Newest::Known(version),
            None => Newest::Unknown(format!("'{}' names no version", self.query.join(" "))),
        }
    }
}

fn report(program: &Path, channel: Option<&Channel>, newest: &Newest, json: bool) -> std::io::Result<()> {
    let upgrade = channel.map(|channel| (channel.upgrade)(program));
    let (known, problem) = match newest {
        Newest::Known(version) => (Some(version), None),
        Newest::Unknown(reason) => (None, Some(reason)),
    };
    let is_newer = known.is_some_and(|known| numbers(known) > numbers(VERSION));
    if json {
        return print::json(&json!({
            "success": true,
            "version": VERSION,
            "program": program,
            "installed_by": channel.map(|channel| channel.name),
            "newest": known,
            "newer_available": known.map(|_| is_newer),
            "unknown_because": problem,
            "upgrade": upgrade,
        }));
    }
    let origin = channel.map_or(String::new(), |channel| format!(", installed by {}", channel.name));
    print::line(format!("steplatch {VERSION}{origin}: {}", print::visible(&program.display().to_string())))?;
    match (known, upgrade) {
        (Some(known), Some(upgrade)) if is_newer => {
            print::line(format!("  {WAITS}!{WAITS:#} {known} is available; install it with: {upgrade}"))
        }
        (Some(_), _) => print::line(format!("  {GOOD}✓{GOOD:#} no newer version is known")),
        (None, _) => {
            let reason = problem.map_or("", String::as_str);
            print::line(format!("  {WAITS}!{WAITS:#} it is unknown whether a newer version exists: {reason}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_names_the_package_manager_and_its_command() {
        let directory = tempfile::tempdir().unwrap();
        let environment = |name: &str| {
            let root = directory.path().join(name);
            std::fs::create_dir_all(root.join("bin")).unwrap();
            std::fs::write(root.join("pyvenv.cfg"), "").unwrap();
            root.join("bin/steplatch").display().to_string()
        };
        let (uv, pipx, pip) =
            (environment("uv/tools/steplatch"), environment("pipx/venvs/steplatch"), environment("v"));
        for (program, expected) in [
            (
                "/home/ana/.npm/_npx/1f/node_modules/steplatch-linux-x64/bin/steplatch",
                Some(("npm", "npx steplatch@latest")),
            ),
            ("/usr/lib/node_modules/steplatch/bin/steplatch", Some(("npm", "npm install --global steplatch@latest"))),
            ("/srv/shop/node_modules/steplatch/bin/steplatch", Some(("npm", "npm install steplatch@latest"))),
            (uv.as_str(), Some(("uv", "uv tool upgrade steplatch"))),
            (pipx.as_str(), Some(("pip", "pipx upgrade steplatch"))),
            (pip.as_str(), Some(("pip", "pip install --upgrade steplatch"))),
            (
                "/home/linuxbrew/.linuxbrew/Cellar/steplatch/0.1.0/bin/steplatch",
                Some(("Homebrew", "brew upgrade steplatch")),
            ),
            ("/usr/bin/steplatch", Some(("apt", "sudo apt-get install --only-upgrade steplatch"))),
            ("/home/ana/.cargo/bin/steplatch", Some(("cargo", "cargo install --locked steplatch"))),
            ("/home/ana/steplatch-0.1.0/steplatch", None),
        ] {
            let channel = CHANNELS.iter().find(|channel| (channel.installed)(Path::new(program)));
            let found = channel.map(|channel| (channel.name, (channel.upgrade)(Path::new(program))));
            assert_eq!(found, expected, "{program}");
        }
    }

    #[test]
    fn version_is_read_from_each_package_managers_output() {
        let brew = r#"{"formulae": [{"versions": {"stable": "0.2.0"}}]}"#;
        for (name, output, expected) in [
            ("npm", "0.2.0\n", Some("0.2.0")),
            ("npm", "", None),
            ("uv", "Resolved 1 package in 9ms\nWould install 1 package\n + steplatch==0.2.0\n", Some("0.2.0")),
            ("pip", "steplatch (0.10.1)\nAvailable versions: 0.10.1, 0.2.0\n", Some("0.10.1")),
            ("pip", "ERROR: No matching distribution found for steplatch\n", None),
            ("Homebrew", brew, Some("0.2.0")),
            ("apt", "steplatch:\n  Installed: 0.1.0\n  Candidate: 0.2.0-1\n", Some("0.2.0-1")),
            ("cargo", "steplatch\nReal terminals\nversion: 0.2.0\nlicense: MIT\n", Some("0.2.0")),
        ] {
            let channel = CHANNELS.iter().find(|channel| channel.name == name).unwrap();
            assert_eq!((channel.read_version)(output).as_deref(), expected, "{name}: {output}");
        }
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("0.10.0") > numbers("0.9.3") && numbers("0.2.0-1") == numbers("0.2.0"));
        assert_eq!(numbers("none"), None);
    }
}
