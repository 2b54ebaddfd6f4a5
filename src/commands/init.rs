//! `steplatch init`: the first files of a project, with the commands that fit its build tools.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::print::{self, GOOD, QUIET};

/// Write steplatch.toml and a first workflow for this project
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Init {
    /// Directory of the project
    #[arg(value_name = "DIR", default_value = ".", value_hint = clap::ValueHint::DirPath)]
    directory: PathBuf,
    /// Show the files without writing them
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Afterwards:
  steplatch nodes list
  steplatch run check.py";

/// A command of the project, as a node.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    id: &'static str,
    command: String,
}

/// The commands of files whose presence shows a build tool. `package.json` and `Makefile` are read for theirs.
const TOOLS: [(&str, &[(&str, &str)]); 6] = [
    ("Cargo.toml", &[("build", "cargo build"), ("test", "cargo test")]),
    ("go.mod", &[("build", "go build ./..."), ("test", "go test ./...")]),
    ("pyproject.toml", &[("test", "python3 -m pytest")]),
    ("setup.py", &[("test", "python3 -m pytest")]),
    ("compose.yaml", &[("image", "docker compose build")]),
    ("Dockerfile", &[("image", "docker build .")]),
];

/// Lock files of package managers for Node.js, each with the program that runs scripts.
const PACKAGE_MANAGERS: [(&str, &str); 4] =
    [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun"), ("package-lock.json", "npm")];

/// The names of the commands taken from scripts and targets, in the order of their execution.
const SCRIPTS: [&str; 3] = ["lint", "build", "test"];

impl Init {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let directory = &self.directory;
        if !directory.is_dir() {
            return Err(Failure::usage(format!("'{}' is not a directory", directory.display())));
        }
        let steps = find_steps(directory);
        let files = [("steplatch.toml", declarations(&steps)), ("check.py", function(&steps))];
        let existing = files.iter().map(|(name, _)| directory.join(name)).find(|path| path.symlink_metadata().is_ok());
        if let Some(path) = existing {
            let reason = "init writes no file that is there already, and wrote nothing";
            return Err(Failure::usage(format!("'{}' exists; {reason}", path.display())));
        }
        if !self.dry_run {
            for (name, text) in &files {
                let path = directory.join(name);
                let failed = |error| Failure::system(&format!("'{}' cannot be written", path.display()), &error);
                // A file that appeared in the meantime stays.
                std::fs::File::create_new(&path)
                    .and_then(|mut file| file.write_all(text.as_bytes()))
                    .map_err(failed)?;
            }
        }
        if self.json {
            let files = files.map(|(name, text)| json!({"file": directory.join(name), "text": text}));
            print::json(&json!({"success": true, "dry_run": self.dry_run, "files": files}))?;
            return Ok(ExitCode::SUCCESS);
        }
        for (name, text) in &files {
            match self.dry_run {
                true => print::line(format!("{QUIET}# {name}{QUIET:#}\n{text}"))?,
                false => print::line(format!("  {GOOD}✓{GOOD:#} {}", directory.join(name).display()))?,
            }
        }
        match self.dry_run {
            true => print::remark("dry run: nothing was written"),
            false => print::remark("run it with: steplatch run check.py; see its commands with: steplatch nodes list"),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the commands of the build tools in a directory, in the order of their execution, with one for each name.
fn find_steps(directory: &Path) -> Vec<Step> {
    let read_file = |name: &str| std::fs::read_to_string(directory.join(name)).ok();
    let mut steps: Vec<Step> = Vec::new();
    if let Some(package) = read_file("package.json").and_then(|text| serde_json::from_str::<Value>(&text).ok()) {
        let manager =
            PACKAGE_MANAGERS.iter().find(|(lock, _)| directory.join(lock).exists()).map_or("npm", |row| row.1);
        let scripts = SCRIPTS.into_iter().filter(|name| package["scripts"][name].is_string());
        steps.extend(scripts.map(|id| Step { id, command: format!("{manager} run {id}") }));
    }
    for (file, commands) in TOOLS {
        if directory.join(file).exists() {
            steps.extend(commands.iter().map(|(id, command)| Step { id, command: (*command).to_owned() }));
        }
    }
    if let Some(makefile) = read_file("Makefile") {
        let has_target = |name: &&str| makefile.lines().any(|line| line.starts_with(&format!("{name}:")));
        steps.extend(SCRIPTS.into_iter().filter(has_target).map(|id| Step { id, command: format!("make {id}") }));
    }
    if steps.is_empty() {
        steps.push(Step { id: "hello", command: "echo \"hello from $(uname -n)\"".to_owned() });
    }
    // The first tool of a name counts.
    let mut seen_ids = HashSet::new();
    steps.retain(|step| seen_ids.insert(step.id));
    steps.sort_by_key(|step| SCRIPTS.iter().position(|name| *name == step.id).unwrap_or(SCRIPTS.len()));
    steps
}

/// Returns the text of `steplatch.toml`.
fn declarations(steps: &[Step]) -> String {
    let mut text = "# The commands of this project, for agents and people: steplatch nodes list\n".to_owned();
    for Step { id, command } in steps {
        text.push_str(&format!("\n[nodes.{id}]\ntype = \"bash\"\ncommand = '{command}'\ntimeout = 3600\n"));
    }
    text
}

/// Returns the text of `check.py`.
fn function(steps: &[Step]) -> String {
    let names: Vec<String> = steps.iter().map(|step| format!("\"{}\"", step.id)).collect();
    format!(
        "# Runs the commands of this project. If a command fails, a person decides: steplatch run check.py\n\n\n\
         async def check(ctx: WorkflowContext) -> str:\n    \
             \"\"\"Run every step. If a step fails, a person decides.\"\"\"\n    \
             for step in [{}]:\n        \
                 result = await ctx.run(step)\n        \
                 while not result[\"success\"]:\n            \
                     details = {{\"error\": result[\"error\"], \"output\": result[\"output\"][-2000:]}}\n            \
                     verdict = await ctx.gate(f\"{{step}} failed. Again?\", choices=[\"again\", \"stop\"], context=details)\n            \
                     if verdict == \"stop\":\n                \
                         raise RuntimeError(f\"{{step}} failed: {{result['error']}}\")\n            \
                     result = await ctx.run(step)\n    \
             return \"all steps passed\"\n\n\n\
         Workflow(id=\"check\", session=session, fn=check)\n",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps_of(files: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        find_steps(directory.path()).into_iter().map(|step| (step.id, step.command)).collect()
    }

    #[test]
    fn commands_fit_the_build_tools_and_names_are_unique() {
        let scripts = r#"{"scripts": {"test": "jest", "build": "tsc", "start": "node ."}}"#;
        for (files, expected) in [
            (&[][..], &[("hello", "echo \"hello from $(uname -n)\"")][..]),
            (&[("Cargo.toml", "")], &[("build", "cargo build"), ("test", "cargo test")]),
            (&[("package.json", scripts)], &[("build", "npm run build"), ("test", "npm run test")]),
            (
                &[("package.json", scripts), ("pnpm-lock.yaml", ""), ("Dockerfile", ""), ("Makefile", "test:\n\tx\n")],
                &[("build", "pnpm run build"), ("test", "pnpm run test"), ("image", "docker build .")],
            ),
            (&[("Makefile", "lint:\n\tx\nall: lint\n")], &[("lint", "make lint")]),
            (&[("pyproject.toml", ""), ("setup.py", "")], &[("test", "python3 -m pytest")]),
            (&[("package.json", "no JSON")], &[("hello", "echo \"hello from $(uname -n)\"")]),
        ] {
            let found = steps_of(files);
            let found: Vec<(&str, &str)> = found.iter().map(|(id, command)| (*id, command.as_str())).collect();
            assert_eq!(found, expected, "{files:?}");
            assert!(
                found.iter().all(|(_, command)| !command.contains('\'')),
                "a TOML literal string cannot contain quotes"
            );
        }
    }
}
