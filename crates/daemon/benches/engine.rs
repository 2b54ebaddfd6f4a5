//! Speed of runs and of the journal below them, compared with a bare loop of SQLite with the same durability in the
//! same directory.
//!
//! The bare loop inserts a row of the same text and commits, without checks and notifications. Loop, journal and runs
//! alternate, so that a slowing disk affects all of them; the median of the rounds counts. The runs are machines in a
//! daemon in this process whose states do nothing, so the benchmark measures the engine. Prints a table;
//! `STEPLATCH_BENCH_FOLDER` chooses the disk.
#![allow(clippy::print_stdout, reason = "the figures are what this program is for")]

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
const AT_ONCE: u64 = 200;
const RUNS: u64 = 1_000;
const STEPS_OF_A_RUN: u64 = 5;
const LONG: u64 = 100_000;
const LISTED: u64 = 10_000;

/// Approximate text of the end of a state in a history.
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

fn folder() -> tempfile::TempDir {
    let parent = std::env::var_os("STEPLATCH_BENCH_FOLDER").map_or_else(std::env::temp_dir, PathBuf::from);
    tempfile::tempdir_in(parent).expect("a folder to measure in")
}

#[tokio::main]
async fn main() {
    let folder = folder();
    let daemon = TestDaemon::in_folder(self::folder()).await;
    let journal = Arc::new(
        SqliteJournal::open(&folder.path().join("journal.db"), &SqliteOptions::default()).expect("a new journal"),
    );
    let bare = bare(&folder.path().join("bare.db")).expect("a new database");

    let (mut loops, mut steps, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut machine_steps, mut machine_runs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        loops.push(rate(STEPS, Instant::now(), || insert_and_commit(&bare)));
        let began = Instant::now();
        one_run(&journal, STEPS).await;
        steps.push(per_second(STEPS, began));
        let began = Instant::now();
        many_runs(&journal).await;
        runs.push(per_second(RUNS, began));
        let began = Instant::now();
        machine(daemon.client(), STEPS).await;
        machine_steps.push(per_second(STEPS, began));
        let began = Instant::now();
        many_machines(daemon.client()).await;
        machine_runs.push(per_second(RUNS, began));
    }
    let (machine_steps, machine_runs) = (median(machine_steps), median(machine_runs));
    let (loops, steps, runs) = (median(loops), median(steps), median(runs));
    let bare_runs = loops / STEPS_OF_A_RUN as f64;
    println!("| {:<36} |    ours | bare loop | ratio | target |", "durable, on SQLite");
    println!("| {:-<36} | ------: | --------: | ----: | ------ |", "");
    beside("one run: steps/s".to_owned(), machine_steps, loops);
    beside(format!("{AT_ONCE} at once: runs/s of {STEPS_OF_A_RUN} steps"), machine_runs, bare_runs);
    beside("journal alone, one run: steps/s".to_owned(), steps, loops);
    beside(format!("journal alone, {AT_ONCE} at once: runs/s"), runs, bare_runs);

    let long = RunId::random();
    journal.append(&long, 0, 1, (1..=LONG).map(text).collect()).await.expect("a long history");
    let began = Instant::now();
    let read = journal.read(&long, 1).await.expect("a history that is whole").len();
    alone(format!("{read} entries read (ms)"), began, "≤ 1000");

    for first in (0..LISTED).step_by(500) {
        let some = (first..first + 500).map(|_| {
            let begin = Append::new(RunId::random(), 0, 1, vec![text(1)]).with_summary(summary(1, 1));
            let journal = journal.clone();
            tokio::spawn(async move { journal.write(begin).await.expect("a first entry") })
        });
        for one in some.collect::<Vec<_>>() {
            one.await.expect("a task that ends");
        }
    }
    let limit = usize::try_from(LISTED).ok();
    let began = Instant::now();
    let listed = journal.runs(RunFilter { limit, ..RunFilter::default() }).await.expect("a list").len();
    alone(format!("{listed} runs listed (ms)"), began, "–");
    let began = Instant::now();
    let gone =
        journal.forget_finished(Retention { keep: 500, finished_since: None }).await.expect("runs that end").len();
    alone(format!("{gone} finished runs forgotten (ms)"), began, "–");
}

/// Prints a row of two figures and their ratio.
fn beside(what: String, journal: f64, bare: f64) {
    println!("| {what:<36} | {journal:>7.0} | {bare:>9.0} | {:>5.2} | ≥ 0.5  |", journal / bare);
}

/// Prints a row of a time without a counterpart in the bare loop.
fn alone(what: String, began: Instant, target: &str) {
    println!("| {what:<36} | {:>7.0} | {:>9} | {:>5} | {target:<6} |", began.elapsed().as_secs_f64() * 1e3, "–", "–");
}

/// A database with the settings of the journal, but without its logic.
fn bare(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch("CREATE TABLE entries (seq INTEGER PRIMARY KEY, text TEXT)")?;
    Ok(connection)
}

fn insert_and_commit(connection: &Connection) {
    for step in 1..=STEPS {
        let mut insert = connection.prepare_cached("INSERT INTO entries (text) VALUES (?1)").expect("a statement");
        insert.execute([text(step)]).expect("a row and its commit");
    }
}

async fn one_run(journal: &SqliteJournal, steps: u64) {
    let run = RunId::random();
    for step in 1..=steps {
        let append = Append::new(run.clone(), step - 1, 1, vec![text(step)]).with_summary(summary(step, steps));
        journal.write(append).await.expect("a step");
    }
}

/// Runs of some steps, with enough of them in parallel that the next one starts whenever one ends.
async fn many_runs(journal: &Arc<SqliteJournal>) {
    let lanes = (0..AT_ONCE).map(|_| {
        let journal = journal.clone();
        tokio::spawn(async move {
            for _ in 0..RUNS / AT_ONCE {
                one_run(&journal, STEPS_OF_A_RUN).await;
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.expect("a task that ends");
    }
}

/// A machine of `steps` steps, each of which leads to the next.
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
async fn machine(client: &Client, steps: u64) {
    let state = |next: &str| {
        let transitions = json!([{"condition": "success", "next_state": next}]);
        json!({"action": {"tool": "sleep", "params": {"seconds": 0}}, "transitions": transitions})
    };
    let verb = RunWorkflow {
        workflow_definition: Some(
            json!({"initial_state": "tick", "states": {"tick": state("tock"), "tock": state("tick")}}),
        ),
        max_states: Some(u32::try_from(steps).expect("as many as a run may have")),
        wait_seconds: Some(120.0),
        save_on_success: false,
        ..RunWorkflow::default()
    };
    let reply = client.call(verb).await.expect("an answer");
    assert_eq!(u64::from(reply.states_executed), steps, "{:?}", reply.error);
}

async fn run_machine(client: &Client, steps: u64) {
    let verb = RunWorkflow {
        workflow_definition: Some(definition(steps)),
        wait_seconds: Some(120.0),
        save_on_success: false,
        ..RunWorkflow::default()
    };
    let reply = client.call(verb).await.expect("an answer");
    assert_eq!((reply.status.as_str(), u64::from(reply.states_executed)), ("completed", steps), "{:?}", reply.error);
}

/// As [`many_runs`], as machines.
async fn many_machines(client: &Client) {
    let lanes = (0..AT_ONCE).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            for _ in 0..RUNS / AT_ONCE {
                run_machine(&client, STEPS_OF_A_RUN).await;
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.expect("a task that ends");
    }
}

fn rate(steps: u64, began: Instant, work: impl FnOnce()) -> f64 {
    work();
    per_second(steps, began)
}

fn per_second(count: u64, began: Instant) -> f64 {
    count as f64 / began.elapsed().as_secs_f64()
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
