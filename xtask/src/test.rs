//! `cargo xtask test`: all checks that a change must pass.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::Context as _;

use crate::check;
use crate::npm;
use crate::programs;
use crate::python;
use crate::repository::Repository;
use crate::step;
use crate::temporal;

/// Checks format and lints, then runs all tests.
///
/// `--quick` omits format and lints; all other arguments go to `cargo test`. Without arguments, all test programs run
/// even if one fails, because a run takes long and should report all failures.
pub(crate) fn run(repository: &Repository, arguments: &[&str]) -> anyhow::Result<()> {
    let (quick, cargo_arguments): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|argument| **argument == "--quick");
    step::work("programs that the tests drive", || programs::ensure(programs::FOR_TESTS))?;
    step::work("MCP clients", || python::FOR_TESTS.iter().try_for_each(|environment| environment.ensure(repository)))?;
    step::work("packages of npm", || npm::ensure(repository))?;
    let has_temporal = temporal::ensure(repository)?;
    let lints = quick.is_empty();
    if lints {
        check::check_format(repository)?;
        // Benchmarks are built as well, although no test runs them.
        let mut build = repository.cargo(&["test", "--workspace", "--all-targets", "--no-run", "--locked", "--quiet"]);
        check::lint_in_build(&mut build);
        step::run("build and lints", &mut build)?;
        if has_temporal {
            temporal::format_and_lints(repository)?;
        }
    }
    let mut command = repository.cargo(&["test", "--locked"]);
    if lints {
        // Otherwise cargo would build everything again.
        check::lint_in_build(&mut command);
    }
    if !cargo_arguments.iter().any(|argument| selects_packages(argument)) {
        command.arg("--workspace");
    }
    if cargo_arguments.is_empty() {
        command.arg("--no-fail-fast");
        if has_temporal {
            temporal::test(repository)?;
        }
    }
    command.args(&cargo_arguments);
    if std::env::var_os(THREADS_VARIABLE).is_none() {
        command.env(THREADS_VARIABLE, thread_count().to_string());
    }
    let mut tally = Tally::default();
    let result = step::command_with("tests", &mut command, |command| watch(command, &mut tally));
    println!("{}", tally.closing_line(result.is_ok()));
    result
}

/// The variable of the test harness for the number of concurrent tests.
const THREADS_VARIABLE: &str = "RUST_TEST_THREADS";

/// Number of concurrent tests for each processor: tests spend most of their time waiting.
const TESTS_PER_PROCESSOR: usize = 2;

/// Returns the number of concurrent tests.
fn thread_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from) * TESTS_PER_PROCESSOR
}

fn selects_packages(argument: &str) -> bool {
    argument.starts_with("-p") || argument == "--package" || argument.starts_with("--package=")
}

/// Runs the tests, forwards their output and counts.
fn watch(command: &mut Command, tally: &mut Tally) -> anyhow::Result<ExitStatus> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("The output of the tests is not piped.")?);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        tally.add_line(&String::from_utf8_lossy(&line));
        let mut out = std::io::stdout().lock();
        out.write_all(&line)?;
        out.flush()?;
        line.clear();
    }
    Ok(child.wait()?)
}

/// The sum of the closing lines of all test programs. Each line counts only the tests of its program.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: usize,
    failed: usize,
    ignored: usize,
    programs: usize,
}

impl Tally {
    fn add_line(&mut self, line: &str) {
        let Some((_, counts)) =
            line.trim_end().strip_prefix("test result: ").and_then(|result| result.split_once(". "))
        else {
            return;
        };
        self.programs += 1;
        for count in counts.split("; ") {
            match count.split_once(' ').map(|(number, outcome)| (number.parse().unwrap_or(0), outcome)) {
                Some((number, "passed")) => self.passed += number,
                Some((number, "failed")) => self.failed += number,
                Some((number, "ignored")) => self.ignored += number,
                _ => {}
            }
        }
    }

    fn closing_line(&self, has_succeeded: bool) -> String {
        let Self { passed, failed, ignored, programs } = self;
        let verdict = if has_succeeded { "ok" } else { "FAILED" };
        format!(
            "test result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; in {programs} test programs"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_line_sums_up_all_test_programs() {
        let mut tally = Tally::default();
        for line in [
            "running 2 tests\n",
            "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s\n",
            "test result: FAILED. 40 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.25s\n",
        ] {
            tally.add_line(line);
        }
        assert_eq!(
            tally.closing_line(false),
            "test result: FAILED. 42 passed; 3 failed; 1 ignored; in 2 test programs"
        );
    }

    #[test]
    fn selection_of_packages_is_recognised() {
        assert!(["-p", "-psteplatch", "--package", "--package=xtask"].into_iter().all(selects_packages));
        assert!(!["a_test", "--test", "--", "--nocapture"].into_iter().any(selects_packages));
    }
}
