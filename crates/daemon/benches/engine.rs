//! Speed of runs and of the journal below them, compared with a bare loop of SQLite with the same durability in the
//! same directory.
//!
//! The bare loop inserts a row of the same text and commits, without checks and notifications. Loop, journal and runs
//! alternate, so that a slowing disk affects all of them; the median of the rounds counts. The runs are machines in a
//! daemon in this process whose states do nothing, so the benchmark measures the engine. Prints a table;
//! `STEPLATCH_BENCH_FOLDER` chooses the disk.
#![allow(clippy::print_stdout, reason = "printing the figures is the purpose of this program")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rusqlite::Connection;
use serde_json::{Value, json};
use steplatch_ids::RunId;
use steplatch_protocol::{Client, RunWorkflow};
use steplatch_store::{Append, Journal as _, Retention, RunFilter, SqliteJournal, SqliteOptions, Summary};
use steplatch_testkit::TestDaemon;

const ROUNDS: usize = 5;
const STEPS: u64 = 1_000;
const PARALLEL_RUNS: u64 = 200;
const RUNS: u64 = 1_000;
const STEPS_PER_RUN: u64 = 5;
const LONG_HISTORY_ENTRIES: u64 = 100_000;
const LISTED_RUNS: u64 = 10_000;

/// Text similar to the final entry of a state in a history.
fn text(step: u64) -> String {
    let screen = "$ make check; echo $?\nall 42 tests passed\n0\n$ ".repeat(6);
    format!(
        r#"{{"event":"state_completed","step":{step},"outcome":{{"finished":{{"result":{{"screen":{screen:?}}}}}}}}}"#
    )
}

fn summary(step: u64, last: u64) -> Summary {
    let is_over = step == last;
    Summary {
        state: if is_over { "completed" } else { "running" }.to_owned(),
        finished_at: is_over.then_some(step),
        text: format!(r#"{{"workflow":"bench","states_executed":{step}}}"#),
    }
}

fn bench_directory() -> tempfile::TempDir {
    let parent = std::env::var_os("STEPLATCH_BENCH_FOLDER").map_or_else(std::env::temp_dir, PathBuf::from);
    tempfile::tempdir_in(parent).expect("a temporary directory is created")
}

#[tokio::main]
async fn main() {
    let bench_directory = bench_directory();
    let daemon = TestDaemon::in_directory(self::bench_directory()).await;
    let journal = Arc::new(
        SqliteJournal::open(&bench_directory.path().join("journal.db"), &SqliteOptions::default())
            .expect("the journal is created"),
    );
    let bare_database = bare_database(&bench_directory.path().join("bare.db")).expect("the database is created");

    let (mut loops, mut steps, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut machine_steps, mut machine_runs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        loops.push(rate(STEPS, Instant::now(), || insert_and_commit(&bare_database)));
        let start = Instant::now();
        append_run(&journal, STEPS).await;
        steps.push(per_second(STEPS, start));
        let start = Instant::now();
        append_runs(&journal).await;
        runs.push(per_second(RUNS, start));
        let start = Instant::now();
        run_long_machine(daemon.client(), STEPS).await;
        machine_steps.push(per_second(STEPS, start));
        let start = Instant::now();
        run_machines(daemon.client()).await;
        machine_runs.push(per_second(RUNS, start));
    }
    let (machine_steps, machine_runs) = (median(machine_steps), median(machine_runs));
    let (loops, steps, runs) = (median(loops), median(steps), median(runs));
    let bare_runs = loops / STEPS_PER_RUN as f64;
    println!("| {:<36} |    ours | bare loop | ratio | target |", "durable, on SQLite");
    println!("| {:-<36} | ------: | --------: | ----: | ------ |", "");
    print_comparison("one run: steps/s".to_owned(), machine_steps, loops);
    print_comparison(format!("{PARALLEL_RUNS} at once: runs/s of {STEPS_PER_RUN} steps"), machine_runs, bare_runs);
    print_comparison("journal alone, one run: steps/s".to_owned(), steps, loops);
    print_comparison(format!("journal alone, {PARALLEL_RUNS} at once: runs/s"), runs, bare_runs);

    let long = RunId::random();
    journal
        .append(&long, 0, 1, (1..=LONG_HISTORY_ENTRIES).map(text).collect())
        .await
        .expect("the long history is appended");
    let start = Instant::now();
    let read = journal.read(&long, 1).await.expect("the history is complete").len();
    print_time(format!("{read} entries read (ms)"), start, "≤ 1000");

    for first in (0..LISTED_RUNS).step_by(500) {
        let tasks = (first..first + 500).map(|_| {
            let begin = Append::new(RunId::random(), 0, 1, vec![text(1)]).with_summary(summary(1, 1));
            let journal = journal.clone();
            tokio::spawn(async move { journal.write(begin).await.expect("the first entry is appended") })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("the task completes");
        }
    }
    let limit = usize::try_from(LISTED_RUNS).ok();
    let start = Instant::now();
    let listed_count =
        journal.runs(RunFilter { limit, ..RunFilter::default() }).await.expect("the runs are listed").len();
    print_time(format!("{listed_count} runs listed (ms)"), start, "–");
    let start = Instant::now();
    let removed_count = journal
        .forget_finished(Retention { keep: 500, finished_since: None })
        .await
        .expect("finished runs are removed")
        .len();
    print_time(format!("{removed_count} finished runs deleted (ms)"), start, "–");
}

/// Prints a row with two figures and their ratio.
fn print_comparison(what: String, journal: f64, bare: f64) {
    println!("| {what:<36} | {journal:>7.0} | {bare:>9.0} | {:>5.2} | ≥ 0.5  |", journal / bare);
}

/// Prints a row with a time that has no counterpart in the bare loop.
fn print_time(what: String, start: Instant, target: &str) {
    println!("| {what:<36} | {:>7.0} | {:>9} | {:>5} | {target:<6} |", start.elapsed().as_secs_f64() * 1e3, "–", "–");
}

/// Creates a database with the settings of the journal, but without its logic.
fn bare_database(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch("CREATE TABLE entries (seq INTEGER PRIMARY KEY, text TEXT)")?;
    Ok(connection)
}

fn insert_and_commit(connection: &Connection) {
    for step in 1..=STEPS {
        let mut insert =
            connection.prepare_cached("INSERT INTO entries (text) VALUES (?1)").expect("the statement is prepared");
        insert.execute([text(step)]).expect("the row is committed");
    }
}

async fn append_run(journal: &SqliteJournal, steps: u64) {
    let run = RunId::random();
    for step in 1..=steps {
        let append = Append::new(run.clone(), step - 1, 1, vec![text(step)]).with_summary(summary(step, steps));
        journal.write(append).await.expect("the step is appended");
    }
}

/// Appends many runs of some steps, a constant number of them in parallel.
async fn append_runs(journal: &Arc<SqliteJournal>) {
    let tasks = (0..PARALLEL_RUNS).map(|_| {
        let journal = journal.clone();
        tokio::spawn(async move {
            for _ in 0..RUNS / PARALLEL_RUNS {
                append_run(&journal, STEPS_PER_RUN).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("the task completes");
    }
}

/// A machine with a chain of `steps` steps.
fn definition(steps: u64) -> Value {
    let state = |step: u64| {
        let next = json!([{"condition": "success", "next_state": format!("s{}", step + 1)}]);
        let transitions = if step == steps { json!([]) } else { next };
        (format!("s{step}"), json!({"action": {"tool": "sleep", "params": {"seconds": 0}}, "transitions": transitions}))
    };
    let states: serde_json::Map<String, Value> = (1..=steps).map(state).collect();
    json!({"initial_state": "s1", "states": states})
}

/// Runs one machine that alternates between two states until it has executed as many as a run may.
async fn run_long_machine(client: &Client, steps: u64) {
    let state = |next: &str| {
        let transitions = json!([{"condition": "success", "next_state": next}]);
        json!({"action": {"tool": "sleep", "params": {"seconds": 0}}, "transitions": transitions})
    };
    let verb = RunWorkflow {
        workflow_definition: Some(
            json!({"initial_state": "tick", "states": {"tick": state("tock"), "tock": state("tick")}}),
        ),
        max_states: Some(u32::try_from(steps).expect("the number of states is within the limit")),
        wait_seconds: Some(120.0),
        save_on_success: false,
        ..RunWorkflow::default()
    };
    let reply = client.call(verb).await.expect("the daemon replies");
    assert_eq!(u64::from(reply.states_executed), steps, "{:?}", reply.error);
}

async fn run_machine(client: &Client, steps: u64) {
    let verb = RunWorkflow {
        workflow_definition: Some(definition(steps)),
        wait_seconds: Some(120.0),
        save_on_success: false,
        ..RunWorkflow::default()
    };
    let reply = client.call(verb).await.expect("the daemon replies");
    assert_eq!((reply.status.as_str(), u64::from(reply.states_executed)), ("completed", steps), "{:?}", reply.error);
}

/// Executes the runs of [`append_runs`] as machines.
async fn run_machines(client: &Client) {
    let tasks = (0..PARALLEL_RUNS).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            for _ in 0..RUNS / PARALLEL_RUNS {
                run_machine(&client, STEPS_PER_RUN).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("the task completes");
    }
}

fn rate(steps: u64, start: Instant, work: impl FnOnce()) -> f64 {
    work();
    per_second(steps, start)
}

fn per_second(count: u64, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
