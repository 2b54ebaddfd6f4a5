//! Worker processes: the effect of their end on an execution, on the real binary.

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use steplatch_daemon::{Function, WorkerStarter, Workers, WorkersError};
use steplatch_python_api::{Answer, CallKind, Entry, Limits, Progress, Start, State};
use tempfile::TempDir;
use tokio::time::Instant;

/// Workers whose process ids are recorded in a file.
struct WorkerNote {
    workers: Workers,
    notes: PathBuf,
    _folder: TempDir,
}

impl WorkerNote {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path().join("pids");
        let script = format!("echo $$ >>'{}'; exec '{}' worker", notes.display(), env!("CARGO_BIN_EXE_steplatch"));
        let arguments = ["-c".into(), script.into()].to_vec();
        let workers = Workers::new(WorkerStarter::Program { program: "/bin/sh".into(), arguments });
        Self { workers, notes, _folder: folder }
    }

    fn pids(&self) -> Vec<i32> {
        let noted = std::fs::read_to_string(&self.notes).unwrap_or_default();
        noted.lines().map(|pid| pid.parse().unwrap()).collect()
    }

    fn kill_the_last(&self) {
        kill_process(Pid::from_raw(*self.pids().last().unwrap()).unwrap(), Signal::KILL).unwrap();
    }
}

fn function(text: &str) -> Function {
    let start = Start { id: "main".to_owned(), input: Value::Null, params: Map::new(), at: None };
    Function { file: "main.py".to_owned(), text: text.into(), start, limits: Limits::default() }
}

/// Two questions to a node, and their sum.
const TWO: &str = r#"
async def main(ctx):
    one = await ctx.run("ask", "one")
    two = await ctx.run("ask", "two")
    return one + two

Workflow(id="main", session=session, fn=main)
"#;

/// Asks, and then allocates more than a worker is allowed.
const DEADLY: &str = r#"
async def main(ctx):
    await ctx.run("ask", "first")
    x = list(range(1000000))
    while True:
        x = x + x

Workflow(id="main", session=session, fn=main)
"#;

fn start_asking(progress: &Progress) -> &str {
    match &progress.calls[..] {
        [call] => match &call.kind {
            CallKind::Run { input, .. } => input.as_str().unwrap(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn history(progress: &Progress, answer: Answer) -> Vec<Entry> {
    let call = progress.calls[0].clone();
    vec![Entry::Called(call), Entry::Answered { ordinal: 1, answer }]
}

#[tokio::test]
async fn execution_continues_by_its_history_after_a_killed_worker() {
    let noted = WorkerNote::new();
    let mut execution = noted.workers.execution(function(TWO));
    let started = execution.replay(Vec::new()).await.unwrap();
    assert_eq!(start_asking(&started), "one");
    noted.kill_the_last();
    let answer = Answer::Value(json!(40));
    assert!(execution.answer(1, answer.clone()).await.unwrap().is_none(), "nobody is there to take it");
    let replayed = execution.replay(history(&started, answer)).await.unwrap();
    assert_eq!(start_asking(&replayed), "two");
    let ended = execution.answer(2, Answer::Value(json!(2))).await.unwrap().unwrap();
    assert_eq!(ended.state, State::Completed(json!(42)));
    assert_eq!(noted.pids().len(), 2);
}

#[tokio::test]
async fn execution_crashing_two_workers_fails_alone() {
    let noted = WorkerNote::new();
    let mut bystander = noted.workers.execution(function(TWO));
    let waiting = bystander.replay(Vec::new()).await.unwrap();
    // With its own limit, the execution would fail by itself.
    let limits = Limits { memory: 1 << 40, ..Limits::default() };
    let mut deadly = noted.workers.execution(Function { limits, ..function(DEADLY) });
    let started = deadly.replay(Vec::new()).await.unwrap();
    let answer = Answer::Value(Value::Null);
    assert!(deadly.answer(1, answer.clone()).await.unwrap().is_none(), "the first time it is replayed");
    let failed = deadly.replay(history(&started, answer)).await.unwrap_err();
    assert!(matches!(failed, WorkersError::CrashedTwice(_)), "{failed}");
    assert!(failed.to_string().contains("ran out of memory"), "{failed}");
    // The other execution was in the first of the two workers, and is not affected.
    let answer = Answer::Value(json!(1));
    assert!(bystander.answer(1, answer.clone()).await.unwrap().is_none());
    assert_eq!(start_asking(&bystander.replay(history(&waiting, answer)).await.unwrap()), "two");
}

/// One operation that takes hours and cannot be interrupted by the interpreter.
const ENDLESS: &str = r#"
async def main(ctx):
    await ctx.run("ask", "first")
    return pow(3, 2 ** 4000000 - 1, 2 ** 4000000 + 1)

Workflow(id="main", session=session, fn=main)
"#;

#[tokio::test]
async fn too_long_single_operation_is_ended_at_once() {
    // redteam M11: it was killed after 25 seconds, and executed once more.
    let noted = WorkerNote::new();
    let limits = Limits { time: std::time::Duration::from_secs(1), ..Limits::default() };
    let mut endless = noted.workers.execution(Function { limits, ..function(ENDLESS) });
    endless.replay(Vec::new()).await.unwrap();
    let failed = endless.answer(1, Answer::Value(Value::Null)).await.unwrap_err();
    assert!(matches!(failed, WorkersError::Overrun(_)), "{failed}");
    assert!(failed.to_string().contains("it computed for more than 1 s in one operation"), "{failed}");
    assert_eq!(noted.pids().len(), 1, "it is not executed again");
    let mut bystander = noted.workers.execution(function(TWO));
    assert_eq!(start_asking(&bystander.replay(Vec::new()).await.unwrap()), "one");
}

/// The time of this test is virtual: it advances while the worker is silent.
#[tokio::test(start_paused = true)]
async fn silent_worker_is_killed() {
    let arguments = ["-c".into(), "read -r never; exec sleep 1000".into()].to_vec();
    let workers = Workers::new(WorkerStarter::Program { program: "/bin/sh".into(), arguments });
    let mut execution = workers.execution(function(TWO));
    let (began, silence) = (Instant::now(), Limits::default().longest_silence());
    let failed = execution.replay(Vec::new()).await.unwrap_err();
    assert!(failed.to_string().contains("said nothing for 25 s and was killed"), "{failed}");
    assert!((2 * silence..3 * silence).contains(&began.elapsed()), "two workers, each as long as it may be silent");
}

#[tokio::test]
async fn file_declarations_are_listed_and_a_broken_file_is_located() {
    let noted = WorkerNote::new();
    let declared = noted.workers.load("main.py", TWO).await.unwrap();
    assert_eq!(declared.iter().map(|declared| declared.id.as_str()).collect::<Vec<_>>(), ["main"]);
    let refused = noted.workers.load("broken.py", "async def main(ctx:\n").await.unwrap_err();
    assert!(refused.to_string().contains("File \"broken.py\", line 1"), "{refused}");
    assert_eq!(noted.pids().len(), 1);
}
