//! The task that drives the run of one function: answer, append, perform, and again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use steplatch_ids::RunId;
use steplatch_nodes::Call as NodeCall;
use steplatch_python::{Answer, Call, CallKind, Entry as Step, Progress as Gone, State};
use steplatch_store::{Append, Journal as _};
use steplatch_workflow::{By, Input, Timestamp};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::entry::{Asked, Entry};
use super::gate::{Question, answer_of, complaint, step};
use super::history::Folded;
use super::node::{self, Declared};
use crate::moment;
use crate::runs::Shared;
use crate::runs::drive::ENTRY_VERSION;
use crate::runs::run::{About, Progress, RunState};
use crate::workers::Execution;

/// The longest time that anybody waits for anything: what is longer has no end.
const LONGEST: f64 = 1e9;

/// What drives one run.
pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) run: RunId,
    pub(super) about: About,
    pub(super) inputs: mpsc::UnboundedReceiver<Input>,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) execution: Execution,
    pub(super) declared: Declared,
    pub(super) folded: Folded,
    pub(super) seq: u64,
    /// The state that lists tell of.
    pub(super) told: Option<RunState>,
    pub(super) work: Work,
}

/// What is being waited for.
#[derive(Default)]
pub(super) struct Work {
    tasks: JoinSet<(u64, Answer)>,
    /// Ends a call, by its number.
    interrupts: HashMap<u64, CancellationToken>,
    /// Answers that need no waiting.
    ready: VecDeque<(u64, Answer)>,
}

/// What makes a run go on.
enum Happened {
    Answered { ordinal: u64, answer: Answer, by: Option<By> },
    Cancelled { reason: String },
    Stopping,
}

impl Driver {
    /// Drives the run to its end, or until the daemon stops. `again` is whether another daemon began it.
    pub(super) async fn drive(mut self, again: bool) {
        if again {
            self.take_up();
        }
        self.publish();
        // Whoever left nothing open, and no end, did not come to write down what the function asks first.
        let begins = self.folded.end.is_none() && self.folded.open.is_empty();
        if begins && !self.go_on(Vec::new(), None).await {
            return;
        }
        while self.folded.end.is_none() {
            let went_on = match self.next().await {
                Happened::Stopping => return,
                Happened::Cancelled { reason } => {
                    let entries = vec![Entry::Cancelled { at: moment::now(), reason }];
                    self.append(entries).await
                }
                Happened::Answered { ordinal, answer, by } => {
                    let Some((_, call)) = self.folded.open.get(&ordinal) else { continue };
                    let asked = Asked::of(&call.kind);
                    // A gate that is answered needs its timer no more.
                    self.work.interrupt(ordinal);
                    let at = moment::now();
                    let entry = Entry::Answered { at, ordinal, answer: answer.clone(), by, asked };
                    self.go_on(vec![entry], Some((ordinal, answer))).await
                }
            };
            if !went_on {
                return;
            }
        }
        self.finish().await;
    }

    /// Waits for an answer, or for somebody who ends the run.
    async fn next(&mut self) -> Happened {
        if let Some((ordinal, answer)) = self.work.ready.pop_front() {
            return Happened::Answered { ordinal, answer, by: None };
        }
        loop {
            tokio::select! {
                biased;
                () = self.shared.stopping.cancelled() => return Happened::Stopping,
                input = self.inputs.recv() => match input {
                    Some(Input::Cancel { reason }) => return Happened::Cancelled { reason },
                    Some(Input::GateAnswered { step: gate, choice, by }) => {
                        let ordinal = u64::from(gate.visit);
                        // Somebody else was first, or it is another run's.
                        if let Some((_, Call { kind: kind @ CallKind::Gate { .. }, .. })) = self.folded.open.get(&ordinal)
                            && step(&self.run, ordinal).as_ref() == Some(&gate)
                        {
                            return Happened::Answered { ordinal, answer: answer_of(kind, choice), by: Some(by) };
                        }
                    }
                    // Functions are told nothing else from outside.
                    Some(_) => {}
                    None => return Happened::Stopping,
                },
                Some(done) = self.work.tasks.join_next() => if let Ok((ordinal, answer)) = done {
                    self.work.interrupts.remove(&ordinal);
                    // One that was interrupted has nothing to say any more.
                    if self.folded.open.contains_key(&ordinal) {
                        return Happened::Answered { ordinal, answer, by: None };
                    }
                },
            }
        }
    }

    /// Has the function go on, with an answer or from where its history leads; writes down what it was answered and
    /// what it asks, and has that done. Returns false when this run is not ours to go on with.
    async fn go_on(&mut self, mut entries: Vec<Entry>, answer: Option<(u64, Answer)>) -> bool {
        let gone = match &answer {
            Some((ordinal, answer)) => self.execution.answer(*ordinal, answer.clone()).await,
            None => Ok(None),
        };
        let gone = match gone {
            Ok(None) => match self.history(answer).await {
                Ok(history) => self.execution.replay(history).await.map_err(|error| error.to_string()),
                Err(error) => Err(error),
            },
            Ok(Some(gone)) => Ok(gone),
            Err(error) => Err(error.to_string()),
        };
        let at = moment::now();
        let mut calls = Vec::new();
        match gone {
            Ok(Gone { calls: asked, abandoned, state }) => {
                calls = asked;
                entries.extend(calls.iter().map(|call| Entry::Called { at, call: call.clone() }));
                for ordinal in abandoned {
                    if let Some((_, call)) = self.folded.open.get(&ordinal) {
                        entries.push(Entry::Abandoned { at, ordinal, asked: Asked::of(&call.kind) });
                    }
                    self.work.interrupt(ordinal);
                }
                match state {
                    State::Waiting(_) => {}
                    State::Completed(result) => entries.push(Entry::Completed { at, result }),
                    State::Failed(failure) => entries.push(Entry::Failed { at, error: failure.to_string() }),
                }
            }
            Err(error) => entries.push(Entry::Failed { at, error }),
        }
        if !self.append(entries).await {
            return false;
        }
        if self.folded.end.is_none() {
            for call in calls {
                self.perform(at, call);
            }
        }
        true
    }

    /// Returns what the function was answered and asked so far, with an answer that is not written down yet.
    async fn history(&self, answer: Option<(u64, Answer)>) -> Result<Vec<Step>, String> {
        let unreadable = |error: &dyn std::fmt::Display| format!("the history of the run can not be read: {error}");
        let records = self.shared.journal.read(&self.run, 1).await.map_err(|error| unreadable(&error))?;
        let mut history = Vec::with_capacity(records.len());
        for record in &records {
            match Entry::read(record).map_err(|error| unreadable(&error))? {
                Entry::Called { call, .. } => history.push(Step::Called(call)),
                Entry::Answered { ordinal, answer, .. } => history.push(Step::Answered { ordinal, answer }),
                _ => {}
            }
        }
        history.extend(answer.map(|(ordinal, answer)| Step::Answered { ordinal, answer }));
        Ok(history)
    }

    /// Does again what a run waits for that another daemon left. What may have been done is not done again.
    fn take_up(&mut self) {
        let open: Vec<(Timestamp, Call)> = self.folded.open.values().cloned().collect();
        for (at, call) in open {
            let in_doubt = match &call.kind {
                CallKind::Run { node, input, .. } => self.declared.in_doubt(node, input.clone()),
                _ => None,
            };
            match in_doubt {
                Some(answer) => self.work.ready.push_back((call.ordinal, answer)),
                None => self.perform(at, call),
            }
        }
    }

    /// Begins what a call asks for, which was written down `at` that time.
    fn perform(&mut self, at: Timestamp, call: Call) {
        let ordinal = call.ordinal;
        let not_there = |what: &str| Answer::Raise {
            exception: "NotImplementedError".to_owned(),
            message: format!(
                "ctx.{what} is not performed by this version; steplatch runs one workflow of nodes and gates"
            ),
        };
        match call.kind {
            CallKind::Run { node: id, input, timeout, kwargs } => {
                let Some(node) = self.declared.get(&id).cloned() else {
                    let answer = Answer::refused(format!("Node '{id}' not found in session"));
                    return self.work.ready.push_back((ordinal, answer));
                };
                if let Some(name) = kwargs.keys().next() {
                    let answer = Answer::refused(format!("Node '{id}' takes an input and nothing else, not '{name}'"));
                    return self.work.ready.push_back((ordinal, answer));
                }
                let interrupt = self.work.interrupt_for(ordinal);
                let performing = node::perform(
                    self.declared.nodes(),
                    node,
                    NodeCall { input, interrupt: interrupt.clone(), ..NodeCall::default() },
                );
                self.work.tasks.spawn(async move {
                    tokio::pin!(performing);
                    tokio::select! {
                        biased;
                        answer = &mut performing => (ordinal, answer),
                        () = after(at, timeout) => {
                            // What it started has ended when it returns.
                            interrupt.cancel();
                            performing.await;
                            let seconds = timeout.unwrap_or_default();
                            (ordinal, Answer::timed_out(format!("Node '{id}' took longer than {seconds} s")))
                        }
                    }
                });
            }
            kind @ CallKind::Gate { .. } if let Some(complaint) = complaint(&kind) => {
                self.work.ready.push_back((ordinal, Answer::refused(complaint)));
            }
            CallKind::Gate { prompt, timeout: timeout @ Some(seconds), .. } => {
                let message = format!("nobody answered within {seconds} s: {prompt}");
                self.work.later(ordinal, at, timeout, Answer::timed_out(message));
            }
            // It is told as part of the run's progress; whoever answers is an input.
            CallKind::Gate { timeout: None, .. } => {}
            CallKind::Sleep { seconds } => {
                self.work.later(ordinal, at, Some(seconds), Answer::Value(serde_json::Value::Null));
            }
            CallKind::Now {} => {
                self.work.ready.push_back((ordinal, Answer::Value(moment::now().as_seconds().into())));
            }
            CallKind::Random {} => self.work.ready.push_back((ordinal, drawn())),
            CallKind::RunWorkflow { .. } => self.work.ready.push_back((ordinal, not_there("run_workflow"))),
            CallKind::RunGraph { .. } => self.work.ready.push_back((ordinal, not_there("run_graph"))),
            CallKind::Emit { .. } | CallKind::Log { .. } => {}
        }
    }

    /// Writes, and tells who follows. Returns false when this run is not ours to go on with.
    async fn append(&mut self, entries: Vec<Entry>) -> bool {
        for entry in &entries {
            self.folded.apply(entry);
        }
        let texts = entries.iter().map(Entry::text).collect();
        let mut append = Append::new(self.run.clone(), self.seq, ENTRY_VERSION, texts);
        // One that is over counts as that once what it started has ended.
        let state = self.folded.state();
        if !state.is_over() && self.told != Some(state) {
            self.told = Some(state);
            append.summary = Some(self.now().summary(&self.about));
        }
        let Some(last) = self.shared.written(append, &self.progress).await else { return false };
        self.seq = last;
        if self.folded.end.is_none() {
            self.publish();
        }
        true
    }

    async fn finish(mut self) {
        self.work.end().await;
        self.declared.close().await;
        let mut append = Append::new(self.run.clone(), self.seq, ENTRY_VERSION, Vec::new());
        append.summary = Some(self.now().summary(&self.about));
        if self.shared.written(append, &self.progress).await.is_none() {
            return;
        }
        self.publish();
        self.shared.ended(&self.run, false);
    }

    fn now(&self) -> Progress {
        let end = self.folded.end.as_ref();
        let open = self.folded.open.values();
        Progress {
            seq: self.seq,
            state: self.folded.state(),
            ended: end.map(|end| end.at),
            error: self.shared.secrets.masked_if(end.and_then(|end| end.error.clone())),
            questions: open.filter_map(|(at, call)| Question::of(&self.run, *at, call)).collect(),
            ..Progress::default()
        }
    }

    fn publish(&self) {
        self.progress.send_replace(self.now());
    }
}

impl Work {
    fn interrupt_for(&mut self, ordinal: u64) -> CancellationToken {
        let interrupt = CancellationToken::new();
        self.interrupts.insert(ordinal, interrupt.clone());
        interrupt
    }

    fn interrupt(&mut self, ordinal: u64) {
        if let Some(interrupt) = self.interrupts.remove(&ordinal) {
            interrupt.cancel();
        }
    }

    /// Answers after a time from `at` on, unless somebody else does or nobody waits for it.
    fn later(&mut self, ordinal: u64, at: Timestamp, seconds: Option<f64>, answer: Answer) {
        let interrupt = self.interrupt_for(ordinal);
        self.tasks.spawn(async move {
            tokio::select! {
                () = after(at, seconds) => {}
                () = interrupt.cancelled() => {}
            }
            (ordinal, answer)
        });
    }

    /// Ends everything, and returns when it has ended.
    async fn end(&mut self) {
        for (_, interrupt) in self.interrupts.drain() {
            interrupt.cancel();
        }
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Waits until so many seconds after `at`; without any, for ever.
async fn after(at: Timestamp, seconds: Option<f64>) {
    match seconds.filter(|seconds| *seconds < LONGEST) {
        Some(seconds) => {
            let until = at.after(Duration::from_secs_f64(seconds.max(0.0)));
            tokio::time::sleep(until.since(moment::now())).await;
        }
        None => std::future::pending().await,
    }
}

/// Draws a number from 0 to below 1, of as many digits as such numbers have.
fn drawn() -> Answer {
    match getrandom::u64() {
        #[allow(clippy::cast_precision_loss, reason = "53 bits are what a number has")]
        Ok(bits) => Answer::Value(((bits >> 11) as f64 / (1_u64 << 53) as f64).into()),
        Err(error) => Answer::Raise {
            exception: "OSError".to_owned(),
            message: format!("the operating system has no randomness to give: {error}"),
        },
    }
}
