//! `cargo xtask conformance --suite FOLDER`: results of a public test suite for terminals.
//!
//! The suite is esctest2. Because of its licence it is not part of this repository; the command prints where to get it.
//! The suite runs in a terminal of the library. The results go into `docs/conformance.md`, between two marks; the text
//! around the marks stays.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::repository::Repository;
use crate::step;

const INSTRUCTIONS: &str = "\
The suite is esctest2 by George Nachman and Thomas Dickey (GPL-2). Get it with
  git clone https://github.com/ThomasDickey/esctest2
and run: cargo xtask conformance --suite esctest2";

/// The arguments of the suite: the level of a VT420, and the timeout for answers.
const ARGUMENTS: [&str; 5] = ["--max-vt-level", "4", "--timeout", "0.15", "--no-print-logs"];

/// The line width of the document, in columns.
const LINE_COLUMNS: usize = 120;

/// Runs the suite and writes its results. `--include REGEX` runs a part of the suite and writes nothing.
pub(crate) fn run(repository: &Repository, arguments: &[&str]) -> anyhow::Result<()> {
    let (suite, include) = match arguments {
        ["--suite", suite] => (*suite, None),
        ["--suite", suite, "--include", include] => (*suite, Some(*include)),
        _ => bail!("Name the directory of the suite: cargo xtask conformance --suite FOLDER.\n{INSTRUCTIONS}"),
    };
    let directory = Path::new(suite).join("esctest");
    if !directory.join("esctest.py").is_file() {
        bail!("There is no esctest/esctest.py in {suite}.\n{INSTRUCTIONS}");
    }
    let log = repository.target().join("conformance.log");
    let mut command = repository.cargo(&["run", "--quiet", "--locked", "-p", "steplatch-host"]);
    command.args(["--example", "terminal_suite", "--"]).arg(&directory).args(["python3", "esctest.py"]);
    command.args(ARGUMENTS).arg("--logfile").arg(&log);
    if let Some(include) = include {
        command.args(["--include", include]);
    }
    step::run("esctest2", &mut command)?;
    // The suite logs the answers of terminals, and these may be any bytes.
    let log_bytes = fs::read(&log).with_context(|| format!("{} could not be read.", log.display()))?;
    let result = SuiteResult::read(&String::from_utf8_lossy(&log_bytes));
    println!("{}", result.count());
    for name in result.with(Outcome::Failed) {
        println!("{name}");
    }
    match include {
        None => {
            let report = format!("{}.\n\n{}", result.count(), result.failures());
            super::write(&repository.root().join("docs/conformance.md"), "conformance", &report)
        }
        Some(_) => Ok(()),
    }
}

/// The outcome of one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// The test fails on xterm as well, or requires a higher level than the given one.
    Excused,
    Failed,
}

/// The outcomes of all tests, in the order of their execution.
#[derive(Debug, Default, PartialEq, Eq)]
struct SuiteResult(Vec<(String, Outcome)>);

impl SuiteResult {
    /// Parses the log of a run.
    fn read(log: &str) -> Self {
        let mut tests = Vec::new();
        let mut running = None;
        for line in log.lines() {
            if let Some(name) = line.strip_prefix("Run test: ") {
                running = Some(name.to_owned());
                continue;
            }
            let outcome = if line == "Passed." {
                Outcome::Passed
            } else if line.starts_with("Fails as expected: ") || line.starts_with("Skipped because ") {
                Outcome::Excused
            } else if line.starts_with("*** TEST ") {
                Outcome::Failed
            } else {
                continue;
            };
            if let Some(name) = running.take() {
                tests.push((name, outcome));
            }
        }
        Self(tests)
    }

    fn with(&self, outcome: Outcome) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(_, found)| *found == outcome).map(|(name, _)| name.as_str())
    }

    fn count(&self) -> String {
        format!(
            "{} tests: {} passed, {} not expected of a VT420 or of xterm, {} failed",
            self.0.len(),
            self.with(Outcome::Passed).count(),
            self.with(Outcome::Excused).count(),
            self.with(Outcome::Failed).count(),
        )
    }

    /// Returns the failed tests, by class, as a Markdown list.
    fn failures(&self) -> String {
        let mut classes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in self.with(Outcome::Failed) {
            let (class, test) = name.split_once('.').unwrap_or((name, ""));
            let class = class.trim_end_matches("Tests");
            let test = test.trim_start_matches("test_");
            let test = test.strip_prefix(class).map_or(test, |rest| rest.trim_start_matches('_'));
            classes.entry(class).or_default().push(test);
        }
        let mut out = String::new();
        for (class, tests) in classes {
            let line = format!("- **{class}** ({}): {}", tests.len(), tests.join(", "));
            let mut width = 0;
            for (index, word) in line.split(' ').enumerate() {
                let separator = if index == 0 {
                    ""
                } else if width + word.len() >= LINE_COLUMNS {
                    width = 1;
                    "\n  "
                } else {
                    " "
                };
                // Writing to a String does not fail.
                let _ = write!(out, "{separator}{word}");
                width += word.len() + 1;
            }
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
Reading X window info for 0x0
Run test: BSTests.test_BS_Basic
Passed.

Run test: BSTests.test_BS_Hard
*** TEST BSTests.test_BS_Hard FAILED:
Traceback (most recent call last):

Run test: DATests.test_DA_Odd
Fails as expected: Not supported
KNOWN BUG: Traceback

Run test: DATests.test_DA_New
BUG: something feature is not supported at this level
Skipped because terminal lacks requisite capability: (4, 5)

*** 1 test passed, 2 known bugs, 1 TEST FAILED ***
Failing tests:
BSTests.test_BS_Hard
";

    #[test]
    fn log_reports_the_result_of_each_test_once() {
        let result = SuiteResult::read(LOG);
        assert_eq!(result.count(), "4 tests: 1 passed, 2 not expected of a VT420 or of xterm, 1 failed");
        assert_eq!(result.failures(), "- **BS** (1): Hard\n");
    }
}
