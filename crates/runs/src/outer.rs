//! Runs that an outer engine decides, and the workers that connect the daemon to it.
//!
//! The journal holds the history of such a run, and gates and reports use the journal as for any other run. For a
//! machine, only [`decide`](steplatch_workflow::decide) runs in the engine, and the engine sends numbered events. A
//! function is executed here, in turns that the engine requests, and the engine schedules its calls. A worker is a
//! client of the daemon: it starts runs in the engine, passes inputs to them, and forwards the tasks of the engine to
//! the daemon.

mod mirror;
mod openings;
mod perform;
mod worker;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use steplatch_access::Caller;
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::EngineRequest;
use steplatch_workflow::{EngineAnswer, EngineTask, Event, Input};
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use mirror::Mirror;
use openings::Openings;
pub(crate) use perform::start_answer;
pub use worker::{WorkerRequests, WorkerToken};

/// Time limit for the engine to accept an input, including the wait for the worker. Shorter than the wait of a
/// front-end for the driver of a run.
const INPUT_TIMEOUT: Duration = Duration::from_secs(8);

/// Part of `INPUT_TIMEOUT` for the wait until the engine has the run, or a worker reconnects.
const START_TIMEOUT: Duration = Duration::from_secs(4);

/// Timeout for the reconnection of the last daemon's workers, from the start of the daemon.
const WORKER_RETURN_TIMEOUT: Duration = Duration::from_secs(20);

/// Message to a run that an outer engine decides.
#[derive(Debug)]
pub(crate) enum MirrorMessage {
    /// Events of the run.
    Events(EventBatch),
    /// The engine has the run, or could not start it for this reason.
    Started(Result<(), String>),
    /// The engine has ended the run on its own, as described here.
    Lost(String),
    /// A task of a function, and the sender for its answer. A driver without an answer drops the sender.
    Task(EngineTask, oneshot::Sender<EngineAnswer>),
}

/// Consecutive events of a run.
#[derive(Debug)]
pub(crate) struct EventBatch {
    /// Number of events before these events.
    pub(crate) from: u64,
    pub(crate) events: Vec<Event>,
    /// Receives the number of recorded events once the journal has them.
    pub(crate) reply: oneshot::Sender<u64>,
}

/// Outcome of an input.
#[derive(Debug)]
pub(crate) enum InputEnd {
    /// The run accepted the input, and these events follow; `from` is the number of events before them.
    Taken { from: u64, events: Vec<Event> },
    /// The input has no effect in the run's state.
    Ignored,
    /// The outcome is unknown, or the engine is unreachable, for this reason.
    Unknown(String),
}

/// The connection of the daemon's runs to an outer engine.
#[derive(Debug)]
pub(crate) struct OuterEngine {
    state: Mutex<State>,
    /// Counts changes of the workers and of the unstarted runs.
    changes: watch::Sender<u64>,
    /// Deadline for the workers of the last daemon to reconnect; `None` if it had no workers.
    workers_expected_until: Option<Instant>,
    /// Actions that open a terminal and may outlive their requests.
    openings: Openings,
}

#[derive(Debug, Default)]
struct State {
    /// Connected workers, the newest last. The newest one receives the requests.
    workers: Vec<Worker>,
    /// Runs in progress that an outer engine decides.
    mirrors: HashMap<RunId, Registration>,
    /// Start requests of runs that no worker has started yet.
    unstarted: BTreeMap<RunId, EngineRequest>,
    /// Cancel requests of runs in progress. Each worker that connects receives them, since the last worker may have
    /// disconnected.
    cancels: BTreeMap<RunId, EngineRequest>,
    /// Steps that runs in progress have abandoned.
    abandoned_steps: HashMap<RunId, HashSet<StepId>>,
    /// Inputs without an answer, by the number of their request.
    pending_inputs: HashMap<u64, PendingInput>,
    /// Number of the last worker or request.
    last_number: u64,
}

#[derive(Debug)]
struct Worker {
    number: u64,
    requests: mpsc::UnboundedSender<EngineRequest>,
}

/// An input that was sent to a worker.
#[derive(Debug)]
struct PendingInput {
    worker: u64,
    reply: oneshot::Sender<InputEnd>,
}

/// Data of a run that tasks of the engine need.
#[derive(Debug, Clone)]
pub(crate) struct Registration {
    messages: mpsc::UnboundedSender<MirrorMessage>,
    pub(crate) caller: Arc<Caller>,
    pub(crate) workflow: String,
    /// True if the run continues here, in turns: it is a function or a remote workflow.
    pub(crate) is_function: bool,
    /// True if a worker starts the run in the engine; otherwise the parent run does.
    is_root: bool,
    /// The first events of the run; a function has none.
    pub(crate) first: Arc<Vec<Event>>,
}

/// The messages of a run that an outer engine decides. Dropping this unregisters the run.
#[derive(Debug)]
pub(crate) struct MirrorInbox {
    run: RunId,
    engine: Arc<OuterEngine>,
    messages: mpsc::UnboundedReceiver<MirrorMessage>,
    sender: mpsc::UnboundedSender<MirrorMessage>,
}

impl MirrorInbox {
    pub(crate) async fn next(&mut self) -> MirrorMessage {
        match self.messages.recv().await {
            Some(message) => message,
            // Unreachable, because this struct holds a sender.
            None => std::future::pending().await,
        }
    }
}

impl Drop for MirrorInbox {
    fn drop(&mut self) {
        let mut state = self.engine.state.lock();
        if state.mirrors.get(&self.run).is_some_and(|known| known.messages.same_channel(&self.sender)) {
            state.mirrors.remove(&self.run);
            state.unstarted.remove(&self.run);
            state.cancels.remove(&self.run);
            state.abandoned_steps.remove(&self.run);
            self.engine.openings.forget_run(&self.run);
        }
    }
}

impl OuterEngine {
    /// Creates the connection. `had_workers`: a daemon of this state directory has had a worker.
    pub(crate) fn new(had_workers: bool) -> Self {
        Self {
            state: Mutex::default(),
            changes: watch::Sender::default(),
            workers_expected_until: had_workers.then(|| Instant::now() + WORKER_RETURN_TIMEOUT),
            openings: Openings::default(),
        }
    }

    /// Registers a run that an outer engine decides.
    pub(crate) fn register(
        self: &Arc<Self>,
        run: &RunId,
        caller: Arc<Caller>,
        workflow: String,
        is_function: bool,
        is_root: bool,
        first: Vec<Event>,
    ) -> MirrorInbox {
        let (sender, messages) = mpsc::unbounded_channel();
        let first = Arc::new(first);
        let registration = Registration { messages: sender.clone(), caller, workflow, is_function, is_root, first };
        self.state.lock().mirrors.insert(run.clone(), registration);
        MirrorInbox { run: run.clone(), engine: self.clone(), messages, sender }
    }

    /// Returns the context of a run in progress for tasks of the engine.
    pub(crate) fn registration(&self, run: &RunId) -> Option<Registration> {
        self.state.lock().mirrors.get(run).cloned()
    }

    /// Sets the caller of later tasks of a run.
    pub(crate) fn set_caller(&self, run: &RunId, caller: Arc<Caller>) {
        if let Some(registration) = self.state.lock().mirrors.get_mut(run) {
            registration.caller = caller;
        }
    }

    /// Returns the engine's start input for a run that has started here; `None` if the run is not in progress.
    pub(crate) fn started_answer(&self, run: &RunId) -> Option<EngineAnswer> {
        let Registration { workflow, is_function: function, first, .. } = self.registration(run)?;
        Some(EngineAnswer::Begun { workflow, events: first.to_vec(), function })
    }

    /// Returns whether a worker is connected.
    pub(crate) fn is_served(&self) -> bool {
        !self.state.lock().workers.is_empty()
    }

    /// Returns whether a worker is connected. Waits for the last daemon's workers, because they reconnect soon.
    pub(crate) async fn is_served_soon(&self) -> bool {
        let mut changes = self.changes.subscribe();
        // The channel stays open, because `self` holds its sender.
        let served = changes.wait_for(|_| self.is_served() || !self.expects_workers());
        drop(tokio::time::timeout(START_TIMEOUT, served).await);
        self.is_served()
    }

    /// Returns whether the previous daemon's workers may still reconnect, since this daemon has only just started.
    fn expects_workers(&self) -> bool {
        self.workers_expected_until.is_some_and(|until| Instant::now() < until)
    }

    /// Requests the start of a registered run in the engine, now or once a worker connects. A repeated start has no
    /// effect.
    pub(crate) fn start(&self, run: &RunId) {
        let mut state = self.state.lock();
        let Some(registration) = state.mirrors.get(run).cloned() else { return };
        let Registration { workflow, is_function: function, first, .. } = registration;
        let events = first.iter().map(|event| serde_json::to_value(event).expect("an event is serializable")).collect();
        let request = EngineRequest::Start { run_id: run.to_string(), workflow, events, function };
        state.unstarted.insert(run.clone(), request.clone());
        state.send_request(request);
    }

    /// Requests a report in case the engine ends a run in progress on its own. Each worker that connects receives this
    /// request, since the worker that started the run may have exited.
    pub(crate) fn watch(&self, run: &RunId) {
        self.state.lock().send_request(EngineRequest::Watch { run_id: run.to_string() });
    }

    /// Records that a run in progress has abandoned a step.
    pub(crate) fn record_abandoned(&self, step: &StepId) {
        let mut state = self.state.lock();
        if state.mirrors.contains_key(&step.run) {
            state.abandoned_steps.entry(step.run.clone()).or_default().insert(step.clone());
        }
    }

    /// Returns whether a run in progress has abandoned a step.
    pub(crate) fn is_abandoned(&self, step: &StepId) -> bool {
        self.state.lock().abandoned_steps.get(&step.run).is_some_and(|steps| steps.contains(step))
    }

    /// Requests the cancellation of a run in the engine, now or once a worker connects. Returns whether a worker has
    /// the request or receives it after the start.
    pub(crate) fn cancel(&self, run: &RunId, reason: String) -> bool {
        let request = EngineRequest::Cancel { run_id: run.to_string(), reason };
        let mut state = self.state.lock();
        state.cancels.insert(run.clone(), request.clone());
        if state.unstarted.contains_key(run) {
            // The engine does not have the run yet; the request is sent after the start.
            return !state.workers.is_empty();
        }
        state.send_request(request)
    }

    /// Passes an input to a run in the engine. A repeated input has the same `key`.
    pub(crate) async fn pass(&self, run: &RunId, key: String, input: &Input) -> InputEnd {
        let deadline = tokio::time::Instant::now() + INPUT_TIMEOUT;
        let mut changes = self.changes.subscribe();
        // The channel stays open, because `self` holds its sender.
        let ready = changes.wait_for(|_| self.can_stop_waiting(run));
        if tokio::time::timeout(START_TIMEOUT, ready).await.is_err() && self.is_served() {
            return InputEnd::Unknown("the engine does not have the run yet; try again".to_owned());
        }
        let (reply, end) = oneshot::channel();
        let number = {
            let mut state = self.state.lock();
            let number = state.next_number();
            let Some(worker) = state.workers.last().map(|worker| worker.number) else {
                return InputEnd::Unknown(NOT_SERVED.to_owned());
            };
            state.pending_inputs.insert(number, PendingInput { worker, reply });
            let input = serde_json::to_value(input).expect("an input is serializable");
            state.send_request(EngineRequest::Input { id: number, run_id: run.to_string(), key, input });
            number
        };
        let end = tokio::time::timeout_at(deadline, end).await;
        self.state.lock().pending_inputs.remove(&number);
        match end {
            Ok(Ok(end)) => end,
            Ok(Err(_)) => {
                InputEnd::Unknown("the worker of the engine disconnected; check the state of the run".to_owned())
            }
            Err(_) => InputEnd::Unknown("the engine has not answered; check the state of the run".to_owned()),
        }
    }

    /// Returns whether an input need not wait any longer before it is sent: a worker has started the run, or none is
    /// connected and none expected.
    fn can_stop_waiting(&self, run: &RunId) -> bool {
        let state = self.state.lock();
        match state.workers.is_empty() {
            true => !self.expects_workers(),
            false => !state.unstarted.contains_key(run),
        }
    }

    /// Sends a message to a run in progress. Returns whether the run has a driver.
    pub(crate) fn send(&self, run: &RunId, message: MirrorMessage) -> bool {
        if matches!(message, MirrorMessage::Started(Ok(())) | MirrorMessage::Lost(_)) {
            self.record_started(run);
        }
        let state = self.state.lock();
        state.mirrors.get(run).is_some_and(|known| known.messages.send(message).is_ok())
    }

    /// Stores events of a run in progress. Returns the number of its events afterwards, or `None` if the run has no
    /// driver.
    pub(crate) async fn record(&self, run: &RunId, from: u64, events: Vec<Event>) -> Option<u64> {
        let (reply, recorded) = oneshot::channel();
        if from > 0 {
            // The engine sends further events of started runs only.
            self.record_started(run);
        }
        self.send(run, MirrorMessage::Events(EventBatch { from, events, reply })).then_some(())?;
        recorded.await.ok()
    }

    /// Passes a task to the driver of a function. Returns `None` if there is no driver, or it gives no answer.
    pub(crate) async fn ask(&self, run: &RunId, task: EngineTask) -> Option<EngineAnswer> {
        let (reply, answer) = oneshot::channel();
        // The engine requests tasks of started runs only.
        self.record_started(run);
        self.send(run, MirrorMessage::Task(task, reply)).then_some(())?;
        answer.await.ok()
    }

    /// Passes the outcome of an input to its sender.
    pub(crate) fn end_input(&self, number: u64, end: InputEnd) {
        if let Some(pending) = self.state.lock().pending_inputs.remove(&number) {
            // The sender may have stopped waiting.
            let _ = pending.reply.send(end);
        }
    }

    /// Adds a worker and sends the open requests to it. Returns the number of the worker, and the receiver of its
    /// requests.
    fn add_worker(&self) -> (u64, mpsc::UnboundedReceiver<EngineRequest>) {
        let (requests, received) = mpsc::unbounded_channel();
        let mut state = self.state.lock();
        let number = state.next_number();
        let started = state.mirrors.iter().filter(|(run, known)| known.is_root && !state.unstarted.contains_key(*run));
        let watches = started.map(|(run, _)| EngineRequest::Watch { run_id: run.to_string() });
        for request in state.unstarted.values().chain(state.cancels.values()).cloned().chain(watches) {
            // Cannot fail, because this function holds the receiver.
            let _ = requests.send(request);
        }
        state.workers.push(Worker { number, requests });
        drop(state);
        self.changes.send_modify(|changes| *changes += 1);
        (number, received)
    }

    /// Records that the engine has a run, and sends the run's cancel request if there is one.
    fn record_started(&self, run: &RunId) {
        let is_change = self.state.lock().record_started(run);
        if is_change {
            // Release the lock first: receivers take it.
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// Removes a worker and its pending inputs.
    fn remove_worker(&self, number: u64) {
        let mut state = self.state.lock();
        state.workers.retain(|worker| worker.number != number);
        state.pending_inputs.retain(|_, pending| pending.worker != number);
        // The newest remaining worker takes over the open requests.
        let requests: Vec<EngineRequest> = state.unstarted.values().chain(state.cancels.values()).cloned().collect();
        for request in requests {
            state.send_request(request);
        }
    }
}

/// Message for a daemon without workers, with a remedy.
pub(crate) const NOT_SERVED: &str =
    "no worker of Temporal is connected to this daemon; start one with: steplatch worker --temporal ADDRESS";

impl State {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Records that the engine has a run, and sends the run's cancel request if there is one. Returns whether this is a
    /// change.
    fn record_started(&mut self, run: &RunId) -> bool {
        let is_new = self.unstarted.remove(run).is_some();
        if is_new && let Some(cancel) = self.cancels.get(run).cloned() {
            self.send_request(cancel);
        }
        is_new
    }

    fn send_request(&mut self, request: EngineRequest) -> bool {
        self.workers.last().is_some_and(|worker| worker.requests.send(request).is_ok())
    }
}

/// Parses the events of a run.
pub(crate) fn events_of(values: Vec<Value>) -> Result<Vec<Event>, serde_json::Error> {
    values.into_iter().map(serde_json::from_value).collect()
}
