//! `cargo xtask bench …`: benchmarks.
//!
//! Python (`bench/terminals.py`) measures terminals over MCP, because the usual clients are written in Python.
//! Measurements within one process are benchmarks of the crate. All of them measure the published profile.

use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::npm;
use crate::programs;
use crate::python;
use crate::repository::Repository;
use crate::step;
use crate::temporal;

/// Measures terminals over MCP, compared with a peer and a bare pseudo-terminal, and prints one table.
///
/// `--no-peer` omits the peer; all other arguments go to the script.
pub(crate) fn terminals(repository: &Repository, arguments: &[&str]) -> anyhow::Result<()> {
    let (without_peer, passed): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|argument| **argument == "--no-peer");
    let environment = if without_peer.is_empty() { python::WITH_PEER } else { python::FOR_BENCHMARKS };
    step::work("programs that are measured", || {
        programs::ensure(programs::FOR_BENCHMARKS)?;
        if without_peer.is_empty() {
            programs::ensure(programs::FOR_THE_PEER)
                .context("The peer keeps its terminals in tmux; --no-peer omits the peer")?;
        }
        Ok(())
    })?;
    step::work("MCP client and peer", || environment.ensure(repository))?;
    step::run("build for publishing", &mut build(repository, &["--bin", "steplatch"]))?;
    let arrival = step::work("arrival of output in one process", || arrival(repository))?;

    let mut script = Command::new(environment.python(repository));
    script.arg(repository.root().join("xtask/bench/terminals.py"));
    script.arg("--steplatch").arg(repository.target().join("dist/steplatch"));
    if without_peer.is_empty() {
        script.arg("--peer").arg(environment.programs(repository).join("terminal-control-mcp"));
    }
    script.args(["--in-process-ms", &arrival]).args(&passed);
    step::run("measurements", &mut script)
}

/// Measures runs and their journal on the disk of the build, and prints one table. Then measures the speed of a
/// machine's decisions and of folding a history.
///
/// The temporary directory is in memory on many systems, where nothing needs synchronisation.
pub(crate) fn engine(repository: &Repository) -> anyhow::Result<()> {
    let mut command = bench(repository, &["--quiet", "-p", "steplatch-daemon", "--bench", "engine"]);
    command.env("STEPLATCH_BENCH_FOLDER", repository.target());
    step::run("runs and journal", &mut command)?;
    step::run("deciding", &mut bench(repository, &["-p", "steplatch-workflow", "--bench", "deciding"]))
}

/// Measures the cost of runs of functions, with the published binary, on the disk of the build; prints one table.
pub(crate) fn functions(repository: &Repository) -> anyhow::Result<()> {
    step::run("build for publishing", &mut build(repository, &["--bin", "steplatch"]))?;
    let mut script = Command::new("python3");
    script.arg(repository.root().join("xtask/bench/functions.py"));
    script.arg("--steplatch").arg(repository.target().join("dist/steplatch"));
    script.arg("--folder").arg(repository.target());
    step::run("measurements", &mut script)
}

/// Performs the jobs of an agent with real programs, with the published binary and the peer; prints a table for each.
///
/// `--no-peer` omits the peer; all other arguments go to the script. Some jobs need root, in a separate container,
/// because they add users and start servers on loopback.
pub(crate) fn jobs(repository: &Repository, arguments: &[&str]) -> anyhow::Result<()> {
    let (without_peer, passed): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|argument| **argument == "--no-peer");
    step::work("programs that are driven", || programs::ensure(programs::FOR_JOBS))?;
    step::run("build for publishing", &mut build(repository, &["--bin", "steplatch"]))?;
    let mut script = Command::new("python3");
    script.arg(repository.root().join("xtask/bench/jobs.py"));
    script.arg("--steplatch").arg(repository.target().join("dist/steplatch"));
    if without_peer.is_empty() {
        step::work("the peer", || python::WITH_PEER.ensure(repository))?;
        script.arg("--peer").arg(python::WITH_PEER.programs(repository).join("terminal-control-mcp"));
    }
    step::run("jobs", script.args(&passed))
}

/// Measures many runs at once, with the published binary, on the disk of the build; prints one table.
pub(crate) fn crowd(repository: &Repository) -> anyhow::Result<()> {
    step::run("build for publishing", &mut build(repository, &["--bin", "steplatch"]))?;
    let mut script = Command::new("python3");
    script.arg(repository.root().join("xtask/bench/crowd.py"));
    script.arg("--steplatch").arg(repository.target().join("dist/steplatch"));
    script.arg("--folder").arg(repository.target());
    step::run("measurements", &mut script)
}

/// Measures a cheap call over HTTP and over stdio, compared with a bare server of the MCP library; prints one table.
pub(crate) fn http(repository: &Repository) -> anyhow::Result<()> {
    step::run("build for publishing", &mut build(repository, &["--bin", "steplatch"]))?;
    step::run("build of the bare server", &mut build(repository, &["-p", "steplatch-mcp", "--example", "bare"]))?;
    let mut script = Command::new("python3");
    script.arg(repository.root().join("xtask/bench/over_http.py"));
    script.arg("--steplatch").arg(repository.target().join("dist/steplatch"));
    script.arg("--bare").arg(repository.target().join("dist/examples/bare"));
    step::run("measurements", &mut script)
}

/// Measures the page in a browser, with the published binary; prints one table.
///
/// The arguments are the names of measurements: keys, floods, wall, timeline, sockets, tabs. Without one, all run.
pub(crate) fn page(repository: &Repository, arguments: &[&str]) -> anyhow::Result<()> {
    step::work("browser and its driver", || {
        programs::ensure(programs::FOR_THE_PAGE)?;
        npm::ensure_xterm(repository)?;
        npm::ensure(repository)
    })?;
    step::run("build for publishing", &mut build(repository, &["--bins"]))?;
    let browser = programs::find("chromium").context("There is no chromium.")?;
    let mut script = npm::node(repository);
    script.arg(repository.root().join("xtask/bench/page.mjs")).arg(repository.target().join("dist/steplatch"));
    script.args(arguments).env("MODULES", repository.target()).env("CHROMIUM", browser);
    step::run("measurements", &mut script)
}

/// Measures remote terminals and files in comparison with local ones, and prints one table. Uses the published binary
/// and an `sshd` on loopback.
pub(crate) fn hosts(repository: &Repository) -> anyhow::Result<()> {
    step::work("programs that are measured", || programs::ensure(programs::FOR_HOSTS))?;
    step::work("MCP client", || python::FOR_BENCHMARKS.ensure(repository))?;
    step::run("build for publishing", &mut build(repository, &["--bin", "steplatch"]))?;
    let mut script = Command::new(python::FOR_BENCHMARKS.python(repository));
    script.arg(repository.root().join("xtask/bench/hosts.py"));
    script.arg("--steplatch").arg(repository.target().join("dist/steplatch"));
    step::run("measurements", &mut script)
}

/// Measures runs on Temporal and runs on the daemon's own engine, and prints two tables. Uses the published binary, a
/// development server and the disk of the build.
pub(crate) fn temporal(repository: &Repository) -> anyhow::Result<()> {
    step::work("server of Temporal", || python::TEMPORAL_SERVER.ensure(repository))?;
    step::run("build for publishing", &mut build(repository, &["--bin", "steplatch"]))?;
    let worker = temporal::build_release(repository)?;
    let mut script = Command::new("python3");
    script.arg(repository.root().join("xtask/bench/temporal.py"));
    script.arg("--steplatch").arg(repository.target().join("dist/steplatch")).arg("--worker").arg(worker);
    script.arg("--server").arg(temporal::server(repository)).arg("--folder").arg(repository.target());
    step::run("measurements", &mut script)
}

/// Runs the Criterion benchmarks.
pub(crate) fn micro(repository: &Repository, arguments: &[&str]) -> anyhow::Result<()> {
    let suites: [(&str, &[&str]); 3] = [
        ("micro benchmarks", &["-p", "steplatch-terminal", "--bench", "ingest", "--bench", "waiting", "--"]),
        ("painting", &["-p", "steplatch-picture", "--bench", "painting", "--"]),
        ("executing", &["-p", "steplatch-python", "--bench", "executing", "--"]),
    ];
    suites.iter().try_for_each(|(name, suite)| step::run(name, bench(repository, suite).args(arguments)))?;
    // The benchmark alternates between the two sides itself, so that their measurements are adjacent.
    step::run("log of inputs", &mut bench(repository, &["--quiet", "-p", "steplatch-terminal", "--bench", "inputs"]))
}

/// Returns a command that builds a program with the published profile.
fn build(repository: &Repository, arguments: &[&str]) -> Command {
    let mut command = repository.cargo(&["build", "--profile", "dist", "--locked"]);
    command.args(arguments);
    command
}

/// Returns a command that builds and runs benchmarks of crates.
fn bench(repository: &Repository, arguments: &[&str]) -> Command {
    let mut command = repository.cargo(&["bench", "--profile", "dist", "--locked"]);
    command.args(arguments);
    command
}

/// Returns the median time from print to return without MCP and daemon, in milliseconds.
fn arrival(repository: &Repository) -> anyhow::Result<String> {
    let mut command = bench(repository, &["--quiet", "-p", "steplatch-terminal", "--bench", "arrival"]);
    let output = command.stderr(Stdio::inherit()).output().context("cargo could not be run.")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let median = text.split_whitespace().find_map(|word| word.strip_prefix("median_ms="));
    match median {
        Some(median) if output.status.success() => Ok(median.to_owned()),
        _ => bail!("The benchmark of arrival failed. Its output: {}", text.trim()),
    }
}
