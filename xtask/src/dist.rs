//! `cargo xtask dist`: packages of the published binary, for people without a Rust toolchain.
//!
//! The binary is linked with a C library from 2014, so that it runs on all later distributions. `--static` adds a
//! binary that contains its C library. Python makes the packages (`dist/packages.py`) and installs them like a user
//! (`dist/check.py`): its standard library has archives, JSON and digests, but Rust would need several crates for
//! these.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::repository::Repository;
use crate::{npm, python, step};

/// The platform of the packages, with the version of its C library.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const GLIBC: &str = "2.17";

const USAGE: &str = "Usage: cargo xtask dist [--check] [--static] [--repository https://HOST/OWNER/NAME]";

/// The workflow that a new user runs first.
const HELLO: &str = "examples/hello.json";

/// Makes the packages in `packages` of the target directory; with `--check`, also installs and tries each.
///
/// Files that name a download contain the address of `--repository`, or else the address in `Cargo.toml`.
pub(crate) fn run(repository: &Repository, arguments: &[&str]) -> anyhow::Result<()> {
    let (mut is_checked, mut is_static, mut address) = (false, false, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--check" => is_checked = true,
            "--static" => is_static = true,
            "--repository" => address = Some(rest.next().context(USAGE)?),
            _ => bail!(USAGE),
        }
    }
    let mcpb = step::work("programs that make packages", || {
        python::FOR_PACKAGES.ensure(repository)?;
        npm::ensure_mcpb(repository)
    })?;
    let programs = python::FOR_PACKAGES.programs(repository);
    let mut build = repository.cargo(&["zigbuild", "--locked", "--profile", "dist", "--bin", "steplatch"]);
    build.args(["--target", &format!("{TARGET}.{GLIBC}")]);
    build.env("PATH", prepend_to_path(&programs)?).env("STEPLATCH_BUILD", describe_build(repository)?);
    step::run("build for publishing", &mut build)?;
    let static_program = if is_static { Some(build_static(repository)?) } else { None };
    let directory = repository.target().join("packages");
    let mut make = python(&python::FOR_PACKAGES.python(repository));
    make.arg(repository.root().join("xtask/dist/packages.py"));
    make.arg("--program").arg(repository.target().join(TARGET).join("dist/steplatch"));
    make.arg("--wheel").arg(programs.join("wheel"));
    make.args(["--mcpb", "node"]).arg(mcpb);
    make.arg("--folder").arg(&directory);
    if let Some(program) = static_program {
        make.arg("--static").arg(program);
    }
    if let Some(address) = address {
        make.args(["--repository", address]);
    }
    step::run("packages", &mut make)?;
    if is_checked {
        let mut check = python(Path::new("python3"));
        check.arg(repository.root().join("xtask/dist/check.py")).arg("--folder").arg(&directory);
        check.args(["--version", env!("CARGO_PKG_VERSION"), "--hello"]).arg(repository.root().join(HELLO));
        step::run("packages, installed and tried", &mut check)?;
    }
    Ok(())
}

/// Builds the binary that contains this computer's C library, and returns its path.
fn build_static(repository: &Repository) -> anyhow::Result<PathBuf> {
    // The other binary has the same path in its directory.
    let directory = repository.target().join("static");
    let mut build = repository.cargo(&["build", "--locked", "--profile", "dist", "--bin", "steplatch"]);
    build.args(["--target", TARGET]).env("CARGO_TARGET_DIR", &directory);
    build.env("RUSTFLAGS", "-C target-feature=+crt-static").env("STEPLATCH_BUILD", describe_build(repository)?);
    step::run("build with the C library", &mut build)?;
    Ok(directory.join(TARGET).join("dist/steplatch"))
}

/// Returns a command of Python that writes no compiled modules next to the sources.
fn python(program: &Path) -> Command {
    let mut python = Command::new(program);
    python.arg("-B");
    python
}

/// Returns the version with the commit and its date, as `steplatch --version` prints it.
fn describe_build(repository: &Repository) -> anyhow::Result<String> {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--abbrev=10", "--format=%h %cs"]).current_dir(repository.root());
    let commit = String::from_utf8(git.output()?.stdout)?;
    Ok(format!("{} ({})", env!("CARGO_PKG_VERSION"), commit.trim()))
}

/// Returns the search path with a directory in front.
fn prepend_to_path(directory: &Path) -> anyhow::Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths(std::iter::once(directory.to_owned()).chain(std::env::split_paths(&path)))?)
}
