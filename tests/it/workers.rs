//! Worker processes: the effects of their exits on executions, on the real binary.

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use steplatch_daemon::{Function, WorkerStarter, Workers, WorkersError};
use steplatch_python_api::{Answer, CallKind, Entry, Limits, Progress, Start, State};
use tempfile::TempDir;
use tokio::time::Instant;

/// Workers whose process ids are recorded in a file.
struct RecordedWorkers {
    workers: Workers,
    pid_file: PathBuf,
    _directory: TempDir,
}

impl RecordedWorkers {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("pids");
        let script = format!("echo $$ >>'{}'; exec '{}' worker", pid_file.display(), env!("CARGO_BIN_EXE_steplatch"));
        let arguments = ["-c".into(), script.into()].to_vec();
        let workers = Workers::new(WorkerStarter::Program { program: "/bin/sh".into(), arguments });
        Self { workers, pid_file, _directory: directory }
    }

    fn pids(&self) -> Vec<i32> {
        let content = std::fs::read_to_string(&self.pid_file).unwrap_or_default();
        content.lines().map(|pid| pid.parse().unwrap()).collect()
    }

    fn kill_newest(&self) {
        kill_process(Pid::from_raw(*self.pids().last().unwrap()).unwrap(), Signal::KILL).unwrap();
    }
}

fn function(text: &str) -> Function {
    let start = Start { id: "main".to_owned(), input: Value::Null, params: Map::new(), at: None };
    Function { file: "main.py".to_owned(), text: text.into(), start, limits: Limits::default() }
}

/// Asks a node two questions and returns the sum of the answers.
const TWO_QUESTIONS: &str = r#"
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

fn asked_input(progress: &Progress) -> &str {
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
    let recorded = RecordedWorkers::new();
    let mut execution = recorded.workers.execution(function(TWO_QUESTIONS));
    let first_progress = execution.replay(Vec::new()).await.unwrap();
    assert_eq!(asked_input(&first_progress), "one");
    recorded.kill_newest();
    let answer = Answer::Value(json!(40));
    assert!(execution.answer(1, answer.clone()).await.unwrap().is_none(), "no worker is left to take the answer");
    let second_progress = execution.replay(history(&first_progress, answer)).await.unwrap();
    assert_eq!(asked_input(&second_progress), "two");
    let last_progress = execution.answer(2, Answer::Value(json!(2))).await.unwrap().unwrap();
    assert_eq!(last_progress.state, State::Completed(json!(42)));
    assert_eq!(recorded.pids().len(), 2);
}

#[tokio::test]
async fn execution_crashing_two_workers_fails_alone() {
    let recorded = RecordedWorkers::new();
    let mut bystander = recorded.workers.execution(function(TWO_QUESTIONS));
    let bystander_progress = bystander.replay(Vec::new()).await.unwrap();
    // With its own limit, the execution would fail by itself.
    let limits = Limits { memory: 1 << 40, ..Limits::default() };
    let mut deadly = recorded.workers.execution(Function { limits, ..function(DEADLY) });
    let progress = deadly.replay(Vec::new()).await.unwrap();
    let answer = Answer::Value(Value::Null);
    assert!(deadly.answer(1, answer.clone()).await.unwrap().is_none(), "the first crash leads to a replay");
    let error = deadly.replay(history(&progress, answer)).await.unwrap_err();
    assert!(matches!(error, WorkersError::CrashedTwice(_)), "{error}");
    assert!(error.to_string().contains("ran out of memory"), "{error}");
    // The other execution was in the first of the two workers, and is not affected.
    let answer = Answer::Value(json!(1));
    assert!(bystander.answer(1, answer.clone()).await.unwrap().is_none());
    assert_eq!(asked_input(&bystander.replay(history(&bystander_progress, answer)).await.unwrap()), "two");
}

/// One operation that takes hours and cannot be interrupted by the interpreter.
const ENDLESS: &str = r#"
async def main(ctx):
    await ctx.run("ask", "first")
    return pow(3, 2 ** 4000000 - 1, 2 ** 4000000 + 1)

Workflow(id="main", session=session, fn=main)
"#;

#[tokio::test]
async fn overlong_single_operation_is_killed_at_once() {
    // redteam M11: the function was killed after 25 seconds, and executed once more.
    let recorded = RecordedWorkers::new();
    let limits = Limits { time: std::time::Duration::from_secs(1), ..Limits::default() };
    let mut endless = recorded.workers.execution(Function { limits, ..function(ENDLESS) });
    endless.replay(Vec::new()).await.unwrap();
    let error = endless.answer(1, Answer::Value(Value::Null)).await.unwrap_err();
    assert!(matches!(error, WorkersError::Overrun(_)), "{error}");
    assert!(error.to_string().contains("it computed for more than 1 s in one operation"), "{error}");
    assert_eq!(recorded.pids().len(), 1, "the function is not executed again");
    let mut bystander = recorded.workers.execution(function(TWO_QUESTIONS));
    assert_eq!(asked_input(&bystander.replay(Vec::new()).await.unwrap()), "one");
}

/// The time of this test is virtual, because it advances while the worker is silent.
#[tokio::test(start_paused = true)]
async fn silent_worker_is_killed() {
    let arguments = ["-c".into(), "read -r never; exec sleep 1000".into()].to_vec();
    let workers = Workers::new(WorkerStarter::Program { program: "/bin/sh".into(), arguments });
    let mut execution = workers.execution(function(TWO_QUESTIONS));
    let (start, silence) = (Instant::now(), Limits::default().max_silence());
    let error = execution.replay(Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("said nothing for 25 s and was killed"), "{error}");
    assert!((2 * silence..3 * silence).contains(&start.elapsed()), "two workers, each killed after its silence limit");
}

#[tokio::test]
async fn file_declarations_are_listed_and_a_broken_file_is_located() {
    let recorded = RecordedWorkers::new();
    let declarations = recorded.workers.load("main.py", TWO_QUESTIONS).await.unwrap();
    assert_eq!(declarations.iter().map(|declaration| declaration.id.as_str()).collect::<Vec<_>>(), ["main"]);
    let error = recorded.workers.load("broken.py", "async def main(ctx:\n").await.unwrap_err();
    assert!(error.to_string().contains("File \"broken.py\", line 1"), "{error}");
    assert_eq!(recorded.pids().len(), 1);
}
