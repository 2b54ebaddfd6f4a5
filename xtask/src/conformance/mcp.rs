//! `cargo xtask conformance mcp`: results of the public test suite for MCP servers.
//!
//! The suite is `@modelcontextprotocol/conformance`, from npm. The suite expects its own tools. An example of the crate
//! offers these tools on the server that agents use. The tests run the suite as well; this chore writes the results
//! into the document.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};

use crate::npm;
use crate::repository::Repository;
use crate::step;

/// The runs, and their names in the document.
const RUNS: [(&str, &[&str]); 3] = [
    ("2026-07-28, with the Tasks extension", &["--requirements", "2026-07-28"]),
    ("2025-11-25", &["--requirements", "2025-11-25"]),
    ("2025-06-18", &["--suite", "all", "--spec-version", "2025-06-18"]),
];

/// Runs the suite for each revision of the protocol and writes the results.
pub(crate) fn run(repository: &Repository) -> anyhow::Result<()> {
    step::work("packages of npm", || npm::ensure(repository))?;
    let build = ["build", "--quiet", "--locked", "-p", "steplatch-mcp", "--example", "conformance"];
    step::run("the server", &mut repository.cargo(&build))?;
    let server = Server::start(repository)?;
    let mut table = String::from("| revision | scenarios | checks passed | failed |\n|---|---|---|---|\n");
    let mut failed = Vec::new();
    for (revision, arguments) in RUNS {
        let output = server.run_suite(repository, arguments)?;
        let result = SuiteResult::read(&output)
            .with_context(|| format!("The suite printed no results for {revision}: {output}"))?;
        println!(
            "{revision}: {} scenarios, {} checks passed, {} failed",
            result.scenarios, result.passed, result.failed
        );
        // Writing to a String does not fail.
        let _ = writeln!(table, "| {revision} | {} | {} | {} |", result.scenarios, result.passed, result.failed);
        failed.extend(result.wrong);
    }
    super::write(&repository.root().join("docs/conformance.md"), "conformance mcp", &table)?;
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("These scenarios failed:\n{}", failed.join("\n")),
    }
}

/// The running example. It exits at the end of its input.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(repository: &Repository) -> anyhow::Result<Self> {
        let program = repository.target().join("debug/examples/conformance");
        let mut command = Command::new(&program);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} could not be run.", program.display()))?;
        let mut url = String::new();
        BufReader::new(child.stdout.take().context("Its output is not piped.")?).read_line(&mut url)?;
        Ok(Self { child, url: url.trim().to_owned() })
    }

    fn run_suite(&self, repository: &Repository, arguments: &[&str]) -> anyhow::Result<String> {
        let suite = repository.target().join("mcp-suite");
        let program = suite.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
        let mut node = npm::node(repository);
        node.arg(program).args(["server", "--url", &self.url]).args(arguments);
        let output = node.arg("-o").arg(suite.join("results")).stdin(Stdio::null()).output();
        let output = output.context("The suite could not be run.")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The server exits on its own; its exit code is not part of the results.
        let _ = self.child.wait();
    }
}

/// The results of one run.
#[derive(Debug, PartialEq, Eq)]
struct SuiteResult {
    scenarios: usize,
    passed: usize,
    failed: usize,
    /// The lines of the scenarios that failed.
    wrong: Vec<String>,
}

impl SuiteResult {
    /// Parses the summary at the end.
    fn read(output: &str) -> Option<Self> {
        let (_, summary) = output.split_once("=== SUMMARY ===")?;
        let total = summary.lines().find_map(|line| line.strip_prefix("Total: "))?;
        let (passed, failed) = total.split_once(" passed, ")?;
        let lines = || summary.lines().take_while(|line| !line.starts_with("Total: "));
        Some(Self {
            scenarios: lines().filter(|line| line.contains(" passed, ")).count(),
            passed: passed.parse().ok()?,
            failed: failed.split_once(' ')?.0.parse().ok()?,
            wrong: lines().filter(|line| line.starts_with('✗')).map(str::to_owned).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_reports_the_result_of_all_scenarios() {
        let output = "=== SUMMARY ===\n✓ ping: 2 passed, 0 failed\n✗ caching: 7 passed, 1 failed\n\nTotal: 9 passed, 1 failed\n\
                    \nNot scored for 2026-07-28: 1 scenario(s) run, 1 failing.\n  ✗ caching (pending)\n";
        let result = SuiteResult::read(output).unwrap();
        assert_eq!((result.scenarios, result.passed, result.failed), (2, 9, 1));
        assert_eq!(result.wrong, ["✗ caching: 7 passed, 1 failed"]);
        assert_eq!(SuiteResult::read("Error: connect ECONNREFUSED"), None);
    }
}
