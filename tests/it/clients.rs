//! Third-party MCP clients, as installed by `cargo xtask test`.
#![allow(dead_code, reason = "no program uses all of them")]

pub(crate) mod token_proxy;

use std::path::{Path, PathBuf};
use std::process::Command;

use steplatch_testkit::{CommandOutput, Home};

/// Runs a script of this directory with the Python of `client` and shows its whole output if it fails.
pub(crate) fn run_client_script(home: &Home, client: &str, script: &str, arguments: &[&str]) {
    let programs = installed_path(Path::new("clients").join(client).join("bin").as_path());
    let python = programs.join("python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients").join(script);
    // The terminals run this Python, too: the system's may be a wrapper that reads the home directory.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let mut command = home.inside(&python);
    command.env("PATH", path).env("PYTHONDONTWRITEBYTECODE", "1").arg(script).args(arguments);
    let output = CommandOutput::from_process(&command.output().unwrap());
    assert_eq!(output.code, 0, "{} of {client}:\n{}{}", arguments.join(" "), output.stdout, output.stderr);
}

/// Sends a request with the MCP inspector, which must have no complaints. Returns the answer.
pub(crate) fn inspect_server(home: &Home, server: &[&str], era: &str, request: &[&str]) -> serde_json::Value {
    let program = "mcp-inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js";
    let mut command = node(home);
    command.arg(installed_path(Path::new(program))).arg("--cli");
    // The inspector passes few variables on to a server besides explicit ones.
    for (name, value) in home.environment() {
        command.arg("-e").arg(format!("{name}={value}"));
    }
    command.args(server).args(["--protocol-era", era]).args(request);
    let output = CommandOutput::from_process(&command.output().unwrap());
    let report = format!("{era} {}:\n{}{}", request.join(" "), output.stdout, output.stderr);
    assert_eq!((output.code, output.stderr.trim()), (0, ""), "{report}");
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {report}"))
}

/// Returns a command of a recent Node, ready to run in a home.
pub(crate) fn node(home: &Home) -> Command {
    home.inside(&node_program())
}

/// Returns the path of a recent Node.
pub(crate) fn node_program() -> PathBuf {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    installed_path(Path::new(&format!("node/node_modules/node-linux-{architecture}/bin/node")))
}

/// Returns an existing path in the target directory, which also contains this program.
pub(crate) fn installed_path(path: &Path) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let found = exe.ancestors().map(|directory| directory.join(path)).find(|found| found.exists());
    found.unwrap_or_else(|| {
        panic!("{} is missing; cargo xtask test installs it, or cargo xtask clients", path.display())
    })
}
