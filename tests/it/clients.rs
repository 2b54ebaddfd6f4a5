//! Third-party MCP clients and a recent Node, as test tools.
//!
//! `cargo xtask test` installs them into the target directory.
#![allow(dead_code, reason = "no program uses all of them")]

pub(crate) mod token_proxy;

use std::path::{Path, PathBuf};
use std::process::Command;

use steplatch_testkit::{CommandOutput, Home};

/// Runs a script of `tests/it/clients` with the Python of `client`. A failure shows the whole output of the script.
pub(crate) fn run_client_script(home: &Home, client: &str, script: &str, arguments: &[&str]) {
    let programs = installed_path(Path::new("clients").join(client).join("bin").as_path());
    let python = programs.join("python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients").join(script);
    // The terminals run this Python, too, because the system's Python may be a wrapper that reads the home directory.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let mut command = home.inside(&python);
    command.env("PATH", path).env("PYTHONDONTWRITEBYTECODE", "1").arg(script).args(arguments);
    let output = CommandOutput::from_process(&command.output().unwrap());
    assert_eq!(output.code, 0, "{} of {client}:\n{}{}", arguments.join(" "), output.stdout, output.stderr);
}

/// Sends a request with the MCP inspector and returns the answer. The inspector must not print anything to standard
/// error.
pub(crate) fn inspect_server(home: &Home, server: &[&str], era: &str, request: &[&str]) -> serde_json::Value {
    let program = "mcp-inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js";
    let mut command = node(home);
    command.arg(installed_path(Path::new(program))).arg("--cli");
    // The inspector passes only explicit variables and a few others on to a server.
    for (name, value) in home.environment() {
        command.arg("-e").arg(format!("{name}={value}"));
    }
    command.args(server).args(["--protocol-era", era]).args(request);
    let output = CommandOutput::from_process(&command.output().unwrap());
    let report = format!("{era} {}:\n{}{}", request.join(" "), output.stdout, output.stderr);
    assert_eq!((output.code, output.stderr.trim()), (0, ""), "{report}");
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {report}"))
}

/// Returns a command that runs a recent Node in a home.
pub(crate) fn node(home: &Home) -> Command {
    home.inside(&node_program())
}

/// Returns the path of a recent Node.
pub(crate) fn node_program() -> PathBuf {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    installed_path(Path::new(&format!("node/node_modules/node-linux-{architecture}/bin/node")))
}

/// Returns the absolute form of an existing path in the target directory. This program is in the same directory.
pub(crate) fn installed_path(path: &Path) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let found = exe.ancestors().map(|directory| directory.join(path)).find(|found| found.exists());
    found.unwrap_or_else(|| {
        panic!("{} is missing; cargo xtask test installs it, or cargo xtask clients", path.display())
    })
}
