//! Executions of functions whose calls a test answers.

use serde_json::{Map, Value, json};
use steplatch_python::{Execution, Program};
use steplatch_python_api::{Answer, Entry, Failure, Limits, Progress, Start, State};

/// An execution of a workflow, with its history.
pub(crate) struct TestExecution {
    pub(crate) execution: Execution,
    pub(crate) progress: Progress,
    pub(crate) history: Vec<Entry>,
    program: Program,
    start: Start,
    limits: Limits,
}

#[must_use]
pub(crate) fn start_of(id: &str, input: Value) -> Start {
    Start { id: id.to_owned(), input, params: Map::new(), at: None }
}

/// Loads a valid file.
#[must_use]
pub(crate) fn load(text: &str) -> Program {
    Program::load("flow.py", text).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Loads an invalid file.
#[must_use]
pub(crate) fn load_failure(text: &str) -> Failure {
    match Program::load("flow.py", text) {
        Ok(program) => panic!("the file was loaded: {:?}", program.declarations()),
        Err(failure) => failure,
    }
}

/// Returns a file with the workflow `it`, whose async function has this body.
#[must_use]
pub(crate) fn workflow(body: &str) -> String {
    let body: String = body.lines().map(|line| format!("    {line}\n")).collect();
    format!("import asyncio\nasync def it(ctx):\n{body}\nWorkflow(id=\"it\", session=session, fn=it)\n")
}

impl TestExecution {
    #[must_use]
    pub(crate) fn start(program: &Program, start: &Start) -> Self {
        Self::start_with_limits(program, start, &Limits::default())
    }

    #[must_use]
    pub(crate) fn start_with_limits(program: &Program, start: &Start, limits: &Limits) -> Self {
        let (execution, progress) = Execution::begin(program, start, limits);
        let history = progress.calls.iter().cloned().map(Entry::Called).collect();
        Self { execution, progress, history, program: program.clone(), start: start.clone(), limits: limits.clone() }
    }

    /// Starts the workflow `it` with this body.
    #[must_use]
    pub(crate) fn start_body(body: &str) -> Self {
        Self::start(&load(&workflow(body)), &start_of("it", json!("in")))
    }

    pub(crate) fn answer(&mut self, ordinal: u64, answer: Answer) -> &Progress {
        self.history.push(Entry::Answered { ordinal, answer: answer.clone() });
        self.progress = self.execution.answer(ordinal, answer);
        self.history.extend(self.progress.calls.iter().cloned().map(Entry::Called));
        &self.progress
    }

    pub(crate) fn answer_value(&mut self, ordinal: u64, value: Value) -> &Progress {
        self.answer(ordinal, Answer::Value(value))
    }

    /// Lets the execution answer a call itself.
    pub(crate) fn inline(&mut self, ordinal: u64) -> &Progress {
        self.history.push(Entry::Inlined { ordinal });
        self.progress = self.execution.inline(ordinal);
        self.history.extend(self.progress.calls.iter().cloned().map(Entry::Called));
        &self.progress
    }

    pub(crate) fn cancel(&mut self) -> &Progress {
        self.history.push(Entry::Cancelled);
        let (program, start, limits) = (&self.program, &self.start, &self.limits);
        let cancelled = Execution::replay(program, start, limits, self.history.clone(), || ());
        (self.execution, self.progress) = cancelled.unwrap_or_else(|divergence| panic!("{divergence}"));
        self.history.extend(self.progress.calls.iter().cloned().map(Entry::Called));
        &self.progress
    }

    #[must_use]
    pub(crate) fn waiting(&self) -> Vec<u64> {
        match self.execution.state() {
            State::Waiting(waiting) => waiting.clone(),
            state => panic!("the execution does not wait: {state:?}"),
        }
    }

    #[must_use]
    pub(crate) fn result(&self) -> Value {
        match self.execution.state() {
            State::Completed(result) => result.clone(),
            State::Failed(failure) => panic!("{failure}"),
            state => panic!("the execution has not ended: {state:?}"),
        }
    }

    #[must_use]
    pub(crate) fn failure(&self) -> Failure {
        match self.execution.state() {
            State::Failed(failure) => failure.clone(),
            state => panic!("the execution did not fail: {state:?}"),
        }
    }

    /// Returns descriptions of the calls after the last answer.
    #[must_use]
    pub(crate) fn new_calls(&self) -> Vec<String> {
        self.progress.calls.iter().map(|call| format!("{} {}", call.ordinal, call.kind.describe())).collect()
    }
}
