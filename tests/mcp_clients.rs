//! Other people's MCP clients against the real program.
//!
//! The scripts in `clients` say what is done and what is expected; here they get
//! the program, a daemon of their own, and an ordinary person's empty home.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::path::{Path, PathBuf};

use steplatch_testkit::{Home, Said};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Runs `script` with the Python of `client`, and shows all that it said if it is not content.
fn passes(client: &str, script: &str, arguments: &[&str]) {
    let home = Home::new(STEPLATCH);
    let programs = clients().join(client).join("bin");
    let python = programs.join("python");
    assert!(python.exists(), "{} is missing; run cargo xtask test, which installs the clients", python.display());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
    // The terminals run this Python, too: the system's own may be a stand-in that looks into the home.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let mut command = home.inside(&python);
    command.env("PATH", path).env("PYTHONDONTWRITEBYTECODE", "1").arg(script).args(arguments).args([STEPLATCH, "mcp"]);
    let said = Said::of(&command.output().unwrap());
    assert_eq!(said.code, 0, "{} of {client}:\n{}{}", arguments.join(" "), said.stdout, said.stderr);
}

/// The folder of the installed clients: it lies in the target folder, as this very program does.
fn clients() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let found = exe.ancestors().map(|folder| folder.join("clients")).find(|clients| clients.join("mcp-2").is_dir());
    found.unwrap_or_else(|| panic!("no MCP clients are installed; run cargo xtask test, which installs the clients"))
}

#[test]
fn a_client_of_today_drives_a_terminal() {
    passes("mcp-2", "modern.py", &["auto"]);
}

#[test]
fn a_client_of_today_that_begins_with_the_handshake_drives_a_terminal() {
    passes("mcp-2", "modern.py", &["legacy"]);
}

#[test]
fn a_client_of_today_has_its_person_asked() {
    passes("mcp-2", "people.py", &["auto"]);
}

#[test]
fn a_client_of_today_that_begins_with_the_handshake_has_its_person_asked() {
    passes("mcp-2", "people.py", &["legacy"]);
}

#[test]
fn a_client_of_yesterday_drives_a_terminal() {
    passes("mcp-1", "legacy.py", &[]);
}

#[test]
fn the_server_ends_with_its_input_and_writes_nothing_but_the_protocol() {
    passes("mcp-2", "raw.py", &[]);
}
