//! The task that drives one run: decide, append, perform, and again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::ExitTerminal;
use steplatch_store::Journal;
use steplatch_workflow::{
    Decision, Definition, Effect, Event, History, Input, Outcome, SEMANTICS_VERSION, Start, Status, Timestamp, decide,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use super::{Progress, RunState, Shared, child, contract};
use crate::caller::Caller;
use crate::moment;
use crate::service::perform;

/// Version of the entries that are written here: the events of `workflow` in JSON.
pub(super) const ENTRY_VERSION: u16 = SEMANTICS_VERSION as u16;

pub(super) struct Driver {
    shared: Arc<Shared>,
    caller: Arc<Caller>,
    definition: Definition,
    run: RunId,
    /// The way for outcomes and deadlines to come back.
    inputs: mpsc::UnboundedSender<Input>,
    progress: watch::Sender<Progress>,
    history: History,
    seq: u64,
    /// What is being performed, and the timer of the whole run.
    in_flight: Option<(StepId, AbortHandle)>,
    deadline: Option<AbortHandle>,
}

impl Driver {
    pub(super) fn new(
        shared: Arc<Shared>,
        caller: Arc<Caller>,
        definition: Definition,
        run: RunId,
        inputs: mpsc::UnboundedSender<Input>,
        progress: watch::Sender<Progress>,
    ) -> Self {
        Self {
            shared,
            caller,
            definition,
            run,
            inputs,
            progress,
            history: History::new(),
            seq: 0,
            in_flight: None,
            deadline: None,
        }
    }

    /// Drives the run to its end.
    pub(super) async fn drive(mut self, start: Start, mut received: mpsc::UnboundedReceiver<Input>) {
        let mut input = Input::Start(start);
        loop {
            contract::hide(&self.definition, &self.history, &input, &self.shared.secrets);
            let Decision { events, effects } = decide(&self.definition, &self.history, input, moment::now());
            if let Err(error) = self.append(&effects, &events).await {
                tracing::error!(run = %self.run, error, "a run can not be remembered and stops here");
                self.publish_failure(error);
                break;
            }
            let mut closing = Vec::new();
            for effect in effects {
                self.perform(effect, &mut closing);
            }
            // A run counts as over once its terminals are closed: who waits for it may look for them.
            for closed in closing {
                let _ = closed.await;
            }
            self.publish();
            if self.history.is_over() {
                break;
            }
            input = match received.recv().await {
                Some(input) => input,
                None => break,
            };
        }
        for task in self.deadline.iter().chain(self.in_flight.iter().map(|(_, task)| task)) {
            task.abort();
        }
    }

    /// Makes the events part of the history, before anything that they ask for is done.
    async fn append(&mut self, effects: &[Effect], events: &[Event]) -> Result<(), String> {
        // A secret must be known before the first one who follows the run is told of it.
        for effect in effects {
            if let Effect::Perform { params, .. } = effect
                && params.get("secret").is_some_and(|secret| *secret == Value::Bool(true) || *secret == "true")
                && let Some(text) = params.get("input_text").and_then(Value::as_str)
            {
                self.shared.secrets.add(text);
            }
        }
        if events.is_empty() {
            return Ok(());
        }
        let texts: Result<Vec<String>, _> = events.iter().map(serde_json::to_string).collect();
        let texts = texts.map_err(|error| error.to_string())?;
        let appended = self.shared.journal.append(&self.run, self.seq, ENTRY_VERSION, texts).await;
        self.seq = appended.map_err(|error| error.to_string())?;
        for event in events {
            self.history.apply(event);
        }
        // While it runs, everybody is told at once; its end is told when it is complete.
        if !self.history.is_over() {
            self.publish();
        }
        Ok(())
    }

    fn publish(&self) {
        let state = match self.history.status() {
            Status::NotStarted | Status::Running => RunState::Running,
            Status::Waiting => RunState::Waiting,
            Status::Completed => RunState::Completed,
            Status::Failed { .. } => RunState::Failed,
            Status::Cancelled { .. } => RunState::Cancelled,
        };
        self.progress.send_replace(Progress {
            seq: self.seq,
            state,
            ended: self.history.ended_at(),
            error: self.history.error().map(str::to_owned),
            gate: self.history.gate().cloned(),
        });
    }

    fn publish_failure(&self, error: String) {
        let ended = Some(moment::now());
        self.progress.send_replace(Progress {
            seq: self.seq,
            state: RunState::Failed,
            ended,
            error: Some(error),
            gate: None,
        });
    }

    fn perform(&mut self, effect: Effect, closing: &mut Vec<tokio::task::JoinHandle<()>>) {
        match effect {
            Effect::Perform { step, tool, params, limit } => {
                let acting = act(self.shared.clone(), self.caller.clone(), tool, params, step.to_string(), limit);
                self.await_outcome(step, acting);
            }
            Effect::Sleep { step, until, limit } => self.await_outcome(step, sleep(until, limit)),
            Effect::StartRun { step, child, limit } => {
                let (shared, caller) = (self.shared.clone(), self.caller.clone());
                self.await_outcome(step.clone(), child::perform(shared, caller, step, *child, limit));
            }
            Effect::Answer { step, outcome } => self.await_outcome(step, std::future::ready(outcome)),
            // It is told as part of the run's progress; whoever answers is an input like any other.
            Effect::OpenGate { .. } => {}
            Effect::DisarmDeadline => {
                if let Some(deadline) = self.deadline.take() {
                    deadline.abort();
                }
            }
            Effect::SetVariables { step, session_id, variables } => {
                let sessions = self.shared.sessions.clone();
                let caller = self.caller.clone();
                let answering = async move { contract::set(&sessions, &caller, session_id, variables).await };
                self.await_input(step.clone(), async { Input::ShellAnswered { step, answer: answering.await } });
            }
            Effect::ReadVariables { step, session_id, names } => {
                let sessions = self.shared.sessions.clone();
                let caller = self.caller.clone();
                let answering = async move { contract::read(&sessions, &caller, session_id, names).await };
                self.await_input(step.clone(), async { Input::ShellAnswered { step, answer: answering.await } });
            }
            Effect::Abandon { step } => {
                if let Some((current, task)) = self.in_flight.take()
                    && current == step
                {
                    task.abort();
                }
                // A run that it started ends before this one counts as over: its terminals are closed then.
                if let Some(run) = self.shared.started_by(&step) {
                    closing.push(tokio::spawn(async move { child::give_up(&run).await }));
                }
            }
            Effect::ArmDeadline { after } => {
                let inputs = self.inputs.clone();
                let timer = tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    // A run that is over does not mind.
                    let _ = inputs.send(Input::DeadlinePassed);
                });
                if let Some(before) = self.deadline.replace(timer.abort_handle()) {
                    before.abort();
                }
            }
            Effect::CloseTerminal { session_id } => {
                let (sessions, caller) = (self.shared.sessions.clone(), self.caller.clone());
                closing.push(tokio::spawn(async move {
                    // One that somebody closed before is closed, and one that a person holds is theirs.
                    sessions.exit(&caller, ExitTerminal { session_id, ..ExitTerminal::default() }).await;
                }));
            }
        }
    }

    fn await_outcome(&mut self, step: StepId, outcome: impl Future<Output = Outcome> + Send + 'static) {
        self.await_input(step.clone(), async { Input::Outcome { step, outcome: outcome.await } });
    }

    fn await_input(&mut self, step: StepId, input: impl Future<Output = Input> + Send + 'static) {
        let inputs = self.inputs.clone();
        let task = tokio::spawn(async move {
            // A run that is over does not mind.
            let _ = inputs.send(input.await);
        });
        self.in_flight = Some((step, task.abort_handle()));
    }
}

/// Performs an action within its limit.
async fn act(
    shared: Arc<Shared>,
    caller: Arc<Caller>,
    tool: String,
    params: Map<String, Value>,
    step: String,
    limit: Option<Duration>,
) -> Outcome {
    let (done, result) = oneshot::channel();
    let sessions = shared.sessions.clone();
    let opens = tool == "open_terminal";
    let acting = async move {
        let result = perform(&sessions, &caller, &tool, params, step).await;
        // Nobody waits for it any more: a terminal that was opened meanwhile would belong to nobody.
        if let Err(result) = done.send(result)
            && let Some(session_id) = result.get("session_id").and_then(Value::as_str)
            && opens
        {
            let session_id = session_id.to_owned();
            sessions.exit(&caller, ExitTerminal { session_id, ..ExitTerminal::default() }).await;
        }
    };
    // An opening can not be taken back half-way, so it is carried to its end by itself; all else ends with us.
    let result = if opens {
        tokio::spawn(acting);
        limited(limit, result).await
    } else {
        limited(limit, async { tokio::join!(acting, result).1 }).await
    };
    match result {
        None => Outcome::TimedOut,
        Some(Ok(result)) => Outcome::Finished { result },
        Some(Err(_)) => Outcome::Unknown,
    }
}

async fn sleep(until: Timestamp, limit: Option<Duration>) -> Outcome {
    let time = until.since(moment::now());
    match limited(limit, tokio::time::sleep(time)).await {
        Some(()) => Outcome::Finished { result: Map::new() },
        None => Outcome::TimedOut,
    }
}

async fn limited<T>(limit: Option<Duration>, future: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}
