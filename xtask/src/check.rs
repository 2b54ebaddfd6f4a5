//! `cargo xtask check`: all checks that run no test.
//!
//! The format and lint checks need only the compiler. The documentation check needs bash and Python. Separate programs
//! check dependencies (`deny.toml`) and spelling (`typos.toml`). If such a program is missing, the chore prints how to
//! install it and continues.

use std::process::Command;

use crate::documentation;
use crate::programs::is_in_path;
use crate::repository::Repository;
use crate::step;

/// A check by an optional program.
struct OptionalCheck {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    installation: &'static str,
}

const OPTIONAL: [OptionalCheck; 2] = [
    OptionalCheck {
        name: "dependencies",
        program: "cargo-deny",
        arguments: &["check"],
        installation: "cargo install --locked cargo-deny",
    },
    OptionalCheck {
        name: "spelling",
        program: "typos",
        arguments: &["--format", "brief"],
        installation: "pip install typos, or cargo install --locked typos-cli",
    },
];

/// Runs all checks and stops at the first that fails.
pub(crate) fn run(repository: &Repository) -> anyhow::Result<()> {
    step::work("documentation", || documentation::check(repository))?;
    format_and_lints(repository)?;
    for check in OPTIONAL {
        if is_in_path(check.program) {
            let mut command = Command::new(check.program);
            step::run(check.name, command.args(check.arguments).current_dir(repository.root()))?;
        } else {
            eprintln!("xtask: {}: skipped, {} is not installed: {}", check.name, check.program, check.installation);
        }
    }
    Ok(())
}

/// Checks the format of all sources and lints them; a warning is an error.
fn format_and_lints(repository: &Repository) -> anyhow::Result<()> {
    check_format(repository)?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"];
    step::run("lints", &mut repository.cargo(&clippy))
}

/// Checks the format of all sources.
pub(crate) fn check_format(repository: &Repository) -> anyhow::Result<()> {
    step::run("format", &mut repository.cargo(&["fmt", "--all", "--check"]))
}

/// Makes a cargo build lint the crates of its workspace; a warning is an error. `cargo clippy` would first check all
/// dependencies, and that takes as long as building them.
pub(crate) fn lint_in_build(cargo: &mut Command) {
    cargo.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    // The separator of `cargo clippy`.
    cargo.env("CLIPPY_ARGS", ["-D", "warnings", ""].join("__CLIPPY_HACKERY__"));
}
