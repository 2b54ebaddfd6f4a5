//! Chores of the repository, run as `cargo xtask CHORE`.
//!
//! Each chore has its own file and one line in [`main`]. A chore prints one line per step with its outcome, and ends
//! with the exit code of the first step that failed.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to the person who runs it")]

mod agents;
mod bench;
mod check;
mod conformance;
mod crash;
#[cfg(test)]
mod directions;
mod dist;
mod documentation;
mod fuzz;
mod laws;
#[cfg(test)]
mod lock;
mod markdown;
#[cfg(test)]
mod modules;
mod npm;
mod programs;
#[cfg(test)]
mod prose;
mod python;
mod real_clients;
mod release;
mod repository;
mod simulate;
mod site;
mod sources;
mod step;
mod temporal;
mod test;

use std::process::ExitCode;

use repository::Repository;
use step::Failed;

const HELP: &str = "\
Chores of the repository.

cargo xtask test [--quick] [ARGUMENTS]   Check format and lints, then run all tests. Installs the programs for the tests.
                                         --quick omits format and lints; ARGUMENTS go to cargo test.
cargo xtask check                        Check pages, format and lints; dependencies with cargo-deny and spelling with typos, if
                                         they are installed.
cargo xtask clients                      Install the clients that `steplatch setup` configures from npm, 1.3 GB, and run the
                                         stories in which they read what it wrote and call tools.
cargo xtask agents [NAMES]               Record the screens of AI agents' programs from npm, driven without a model, for the tests
                                         that recognise their activity.
cargo xtask bench terminals [--no-peer]  Measure terminals over MCP, beside a peer (which needs tmux) and a bare
                                         pseudo-terminal, and print one table.
cargo xtask bench jobs [--no-peer]       Perform 78 jobs of an agent with real programs, and print the calls, seconds and bytes
                                         of each. Adds users and servers: run it as root in a container.
cargo xtask bench functions              Measure the cost of runs of functions, with the published binary.
cargo xtask bench crowd                  Measure 10,000 runs at once: their rate beside that of 50 at once, and memory.
cargo xtask bench http                   Measure a call over HTTP and over stdio, beside a bare server of the MCP library.
cargo xtask bench page [NAMES]           Measure the page in a browser: keys, floods, wall, timeline, tabs.
cargo xtask bench hosts                  Measure remote terminals and files (an sshd on loopback), beside local ones.
cargo xtask bench engine                 Measure the journal of runs, beside a bare loop of SQLite on the same disk.
cargo xtask bench temporal               Measure runs that Temporal decides, with 1, 2 and 4 workers, beside the daemon's own.
cargo xtask bench micro [ARGUMENTS]      Measure the screen's intake, the search of a wait, painting and functions; ARGUMENTS go
                                         to Criterion.
cargo xtask simulate [--minutes N | --seed S] Simulate random schedules of faults for N minutes (10), or that of a seed; with
                                         --actions, each fault at each instant of each action; with --mutations, those
                                         that find faults repaired earlier.
cargo xtask crash [--faults N] [--load N] Kill, restart, stop and disconnect the real program N times (500) while runs of every kind
                                         act, beside N busy loops (0), and count repeated and lost effects. --kinds A,B
                                         selects kinds of runs. Starts an sshd on loopback: run it as root in a container.
cargo xtask dist [--check] [--static]    Make packages of the published binary: tarball, npm, wheel, .deb, .mcpb and a plugin;
    [--repository URL]                   and a Dockerfile, a Nix flake and, with an address, server.json and a Homebrew
                                         formula. --check installs each package into an empty home and tries it, which
                                         replaces an installed .deb; --static adds a tarball for computers without glibc.
cargo xtask release                      Tag the commit with the version of Cargo.toml and its changes in CHANGELOG.md, which
                                         must have a date; the tag publishes the packages once it is pushed.
cargo xtask site [--url URL]             Make a web site of the pages with mdBook, and llms.txt and llms-full.txt, in target/site;
                                         links in llms.txt begin with URL. Installs mdbook if it is missing.
cargo xtask laws [--minutes N | --seed S] Run all property tests with new random seeds for N minutes (10), or one round with
                                         seed S. The test command runs them with a fixed seed.
cargo xtask fuzz [TARGET] [--minutes N]  Run the targets that parse untrusted bytes with random inputs, N minutes each (3).
                                         A failing input is shrunk and written into crates/CRATE/corpus/TARGET.
cargo xtask conformance --suite FOLDER   Run the test suite esctest2 in a terminal of this project and write the results into
                                         docs/conformance.md. --include REGEX runs a part and writes nothing.
cargo xtask conformance mcp              Run the public test suite for MCP servers and write the results there, too.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = Repository::find().and_then(|repository| match arguments.as_slice() {
        [] | ["help" | "--help" | "-h", ..] => {
            print!("{HELP}");
            Ok(())
        }
        ["test", options @ ..] => test::run(&repository, options),
        ["check"] => check::run(&repository),
        ["agents", names @ ..] => agents::run(&repository, names),
        ["clients"] => real_clients::run(&repository),
        ["dist", options @ ..] => dist::run(&repository, options),
        ["release"] => release::run(&repository),
        ["laws", options @ ..] => laws::run(&repository, options),
        ["crash", options @ ..] => crash::run(&repository, options),
        ["simulate", options @ ..] => simulate::run(&repository, options),
        ["fuzz", options @ ..] => fuzz::run(&repository, options),
        ["bench", "terminals", options @ ..] => bench::terminals(&repository, options),
        ["bench", "jobs", options @ ..] => bench::jobs(&repository, options),
        ["bench", "engine"] => bench::engine(&repository),
        ["bench", "functions"] => bench::functions(&repository),
        ["bench", "crowd"] => bench::crowd(&repository),
        ["bench", "http"] => bench::http(&repository),
        ["bench", "page", options @ ..] => bench::page(&repository, options),
        ["bench", "hosts"] => bench::hosts(&repository),
        ["bench", "temporal"] => bench::temporal(&repository),
        ["bench", "micro", options @ ..] => bench::micro(&repository, options),
        ["bench", ..] => {
            anyhow::bail!(
                "There are ten benchmarks: cargo xtask bench terminals, … jobs, … engine, … crowd, … functions, … http, … page, … hosts, … temporal, … micro."
            )
        }
        ["site", options @ ..] => site::run(&repository, options),
        ["conformance", options @ ..] => conformance::run(&repository, options),
        [chore, ..] => anyhow::bail!("There is no chore '{chore}'. Run cargo xtask to list the chores."),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<Failed>() {
            // The step has already printed its failure.
            Some(failed) => ExitCode::from(failed.code),
            None => {
                eprintln!("xtask: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}
