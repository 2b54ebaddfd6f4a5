//! The callers within a run: functions, graphs, and the request to call one node.
//!
//! A frame continues with an answer, and makes new requests. The driver appends the answer and the requests in one
//! transaction before it performs anything new.

use serde_json::Value;
use steplatch_nodes::graph::{
    Decision, Effect, Graph, GraphEvent, GraphInput, Progress, StepOutcome, decide, hold, result, resume,
};
use steplatch_nodes::{ErrorType, Node, NodeId, NodeResult};
use steplatch_project::{Execution, WorkersError};
use steplatch_python_api::{Answer, Call, CallKind, Entry as Step, Progress as ExecutionProgress};
use steplatch_workflow::{By, Timestamp};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::engine::Attempt;
use crate::event::{HistoryError, Unreadable};
use crate::function::calls::{CallTarget, PendingCall, ROOT};
use crate::function::decide::{Abandonment, Advance, DeferredAnswer, FunctionSteps, RaisedError};
use crate::function::entry::Entry;
use crate::function::run::FunctionRun;
use crate::function::work::CallOutcome;
use crate::time_span::TimeSpan;

/// A caller within a run: the root function, a function node, a graph, or the request to call one node.
pub(in crate::function) enum Frame {
    Function {
        execution: Box<Execution>,
        /// The node that the function executes; `None` for the root function.
        node_call: Option<Box<CalledNode>>,
        /// Answers in the journal that the run withholds from the function during a pause.
        deferred: Vec<DeferredAnswer>,
    },
    Graph(Box<GraphFrame>),
    /// Calls one node; the root frame only.
    Once {
        node: String,
        input: Value,
        timeout: Option<TimeSpan>,
    },
}

/// The node call that a frame executes.
pub(in crate::function) struct CalledNode {
    pub(in crate::function) node: Node,
    pub(in crate::function) input: Value,
}

/// A graph in progress.
pub(in crate::function) struct GraphFrame {
    called: CalledNode,
    graph: Graph,
    progress: Progress,
    delays: CancellationToken,
    /// Cancels the retry delays of a dropped graph.
    _cancel_delays: DropGuard,
}

impl GraphFrame {
    pub(in crate::function) fn new(called: CalledNode, graph: Graph) -> Self {
        let (progress, delays) = (Progress::new(&graph), CancellationToken::new());
        let cancel_delays = delays.clone().drop_guard();
        Self { called, graph, progress, delays, _cancel_delays: cancel_delays }
    }

    /// Returns the time limit of one attempt of a step.
    pub(in crate::function) fn step_timeout(&self, step: &NodeId, node: &NodeId) -> Option<TimeSpan> {
        let step = self.graph.steps().iter().find(|known| known.id == *step)?;
        let retry = step.on_error.retry.as_ref().filter(|_| *node == step.node)?;
        Some(retry.timeout?.duration().into())
    }
}

/// Failure to continue a function.
#[derive(Debug, thiserror::Error)]
enum FrameError {
    /// The worker failed, or the function does not follow its history.
    #[error(transparent)]
    Worker(#[from] WorkersError),
    /// The history for the replay is unreadable.
    #[error(transparent)]
    History(#[from] HistoryError),
}

/// The next input of a function.
pub(in crate::function) enum FrameInput {
    /// No input: the function starts, or is restored from its history.
    Nothing,
    /// The answer to a call, by its number within the function. The driver appends the answer together with its
    /// consequences.
    Answer(u64, Answer),
    /// The function executes the node of a call itself.
    Inline(u64),
    /// The run is cancelled.
    Cancelled,
}

impl FunctionRun {
    /// Resumes a function with an input: appends `entries` and the function's new calls, and performs the calls.
    /// Returns false when this daemon must no longer drive the run.
    pub(in crate::function) async fn resume_function(
        &mut self,
        number: u64,
        mut entries: Vec<Entry>,
        input: FrameInput,
    ) -> bool {
        let recorded = match &input {
            FrameInput::Answer(ordinal, answer) => Some(Step::Answered { ordinal: *ordinal, answer: answer.clone() }),
            FrameInput::Inline(ordinal) => Some(Step::Inlined { ordinal: *ordinal }),
            FrameInput::Cancelled => Some(Step::Cancelled),
            FrameInput::Nothing => None,
        };
        let compute_deadline = self.wait_for_compute_deadline();
        tokio::pin!(compute_deadline);
        let Some(Frame::Function { execution, .. }) = self.frames.get_mut(&number) else { return true };
        let progressed = async {
            match input {
                FrameInput::Answer(ordinal, answer) => execution.answer(ordinal, answer).await,
                FrameInput::Inline(ordinal) => execution.inline(ordinal).await,
                FrameInput::Nothing | FrameInput::Cancelled => Ok(None),
            }
        };
        let progressed = tokio::select! {
            biased;
            progressed = progressed => progressed,
            // Drop the computation; the next event is the cancellation.
            () = &mut compute_deadline => return self.give_up(entries).await,
        };
        let is_replayed = matches!(progressed, Ok(None));
        let progressed = match progressed {
            Ok(None) => match self.function_history(number, recorded).await {
                Ok(history) => match self.frames.get_mut(&number) {
                    Some(Frame::Function { execution, .. }) => {
                        tokio::select! {
                            biased;
                            progressed = execution.replay(history.steps) => progressed.map_err(FrameError::from),
                            () = &mut compute_deadline => return self.give_up(entries).await,
                        }
                    }
                    _ => return true,
                },
                Err(error) => Err(error.into()),
            },
            Ok(Some(progressed)) => Ok(progressed),
            Err(error) => Err(error.into()),
        };
        let at = self.recorder.shared.clock.now();
        let progressed = progressed.map_err(|error| RaisedError { error: error.to_string(), traceback: None });
        if let Ok(ExecutionProgress { state, .. }) = &progressed {
            self.record_raised(number, state);
        }
        let advance =
            self.function_state.advance(&self.recorder.run.id, (number, at), &entries, progressed, is_replayed);
        let Advance { entries: following, dropped, closed, calls, ended } = advance;
        entries.extend(following);
        self.drop_calls(&dropped);
        if let Some(ended) = ended {
            return self.record_function_end(number, entries, at, ended).await;
        }
        if !self.append(entries).await || !self.close(number, &closed).await {
            return false;
        }
        for (call, kind) in calls {
            match &kind {
                CallKind::Ended { of, .. } => {
                    if let Some(node) = self.function_state.open.number_of(number, *of) {
                        self.inline_ended(node, kind);
                    }
                }
                _ if kind.wants_answer() && !self.function_state.open.contains(call) => {}
                _ => self.perform(call, at, kind, Attempt::First),
            }
        }
        true
    }

    async fn record_function_end(
        &mut self,
        number: u64,
        mut entries: Vec<Entry>,
        at: Timestamp,
        ended: Result<Value, RaisedError>,
    ) -> bool {
        if number == ROOT {
            entries.extend(self.function_state.root_end_entries(&self.recorder.run.id, at, &entries, ended));
            return self.append(entries).await;
        }
        // Calls that the function did not await are recorded, but stay unanswered.
        if !self.append(entries).await {
            return false;
        }
        if let Some(Frame::Function { node_call: Some(called), .. }) = self.frames.get(&number) {
            let (node, input) = (&called.node, called.input.clone());
            let result = match ended {
                Ok(output) => self.returned(node, input, output),
                Err(RaisedError { error, traceback }) => {
                    NodeResult::failed(node, input, ErrorType::Exception, traceback.unwrap_or(error))
                }
            };
            self.work.add_ready(number, CallOutcome::node(result));
        }
        true
    }

    /// Resumes a graph, like [`Self::resume_function`]. `call`: the call that `input` concerns.
    pub(in crate::function) async fn resume_graph(
        &mut self,
        number: u64,
        mut entries: Vec<Entry>,
        input: GraphInput,
        call: Option<u64>,
    ) -> bool {
        let at = self.recorder.shared.clock.now();
        let is_paused = self.function_state.paused.is_some();
        let finished_call = match call.and_then(|call| self.function_state.open.get(call)).map(|open| &open.target) {
            Some(CallTarget::Step { step, node, .. }) => Some((node.clone(), self.attempt_timeout(number, step, node))),
            _ => None,
        };
        let Some(Frame::Graph(frame)) = self.frames.get_mut(&number) else { return true };
        let decide = if is_paused { hold } else { decide };
        let Decision { events, effects } = decide(&frame.graph, &frame.progress, input, at);
        events.iter().for_each(|event| frame.progress.apply(event));
        let node_result = frame.progress.ended().map(|_| result(&frame.called.node, &frame.graph, &frame.progress));
        let mut last = self.function_state.last;
        let mut started = Vec::new();
        for event in events {
            let (mut node, mut timeout) = (None, None);
            let call = match &event {
                GraphEvent::AttemptStarted { .. } => {
                    last += 1;
                    started.push(last);
                    Some(last)
                }
                GraphEvent::AttemptEnded { outcome, .. } => {
                    let (called, limit) = finished_call.clone().unzip();
                    node = called;
                    timeout = limit.flatten().filter(|_| *outcome == StepOutcome::TimedOut);
                    call
                }
                _ => None,
            };
            entries.push(Entry::Graph { at, frame: number, number: call, event, node, timeout });
        }
        if !self.append(entries).await {
            return false;
        }
        let mut started = started.into_iter();
        for effect in effects {
            match effect {
                Effect::Run { node, input, timeout, .. } => {
                    if let Some(call) = started.next() {
                        let timeout = timeout.map(TimeSpan::from);
                        self.call_node(call, at, node.as_str(), input, timeout, Attempt::First);
                    }
                }
                Effect::Wait { step, until } => self.delay(number, step, until),
            }
        }
        if let Some(node_result) = node_result {
            self.work.add_ready(number, CallOutcome::node(node_result));
        }
        true
    }

    fn delay(&mut self, number: u64, step: NodeId, due: Timestamp) {
        let Some(Frame::Graph(frame)) = self.frames.get(&number) else { return };
        let delays = frame.delays.clone();
        self.work.delay(number, step, due, delays);
    }

    /// Starts a frame, or restores it from its history.
    pub(in crate::function) async fn begin_frame(&mut self, number: u64) -> bool {
        let at = self.recorder.shared.clock.now();
        match self.frames.get(&number) {
            Some(Frame::Function { .. }) => self.resume_function(number, Vec::new(), FrameInput::Nothing).await,
            Some(Frame::Graph(frame)) => {
                let input = match frame.progress.has_begun() {
                    false => GraphInput::Start { input: frame.called.input.clone() },
                    true => GraphInput::Continue,
                };
                self.resume_graph(number, Vec::new(), input, None).await
            }
            Some(Frame::Once { node, input, timeout }) => {
                let (node, input, timeout) = (node.clone(), input.clone(), timeout.map(TimeSpan::seconds));
                let kind = CallKind::Run { node, input, timeout, kwargs: serde_json::Map::new() };
                let call = self.function_state.last + 1;
                let called = Call { ordinal: call, within: None, kind: kind.clone() };
                let called = Entry::Called { at, number: call, frame: number, within: None, call: called };
                if !self.append(vec![called]).await {
                    return false;
                }
                self.perform(call, at, kind, Attempt::First);
                true
            }
            None => self.begin_inline(number, at).await,
        }
    }

    /// Resumes a frame of a recovered run. Its pending calls, if any, are open.
    ///
    /// # Errors
    ///
    /// If reading the history fails.
    pub(in crate::function) async fn resume_frame(&mut self, number: u64) -> Result<(), HistoryError> {
        let waits = self.function_state.open.has_of_frame(number);
        if !matches!(self.frames.get(&number), Some(Frame::Graph(_))) {
            // Answers that arrived during a pause may not have reached the function.
            let deferred_answers = if self.function_state.was_paused {
                self.function_history(number, None).await?.deferred
            } else {
                Vec::new()
            };
            if let Some(Frame::Function { deferred, .. }) = self.frames.get_mut(&number) {
                *deferred = deferred_answers;
            }
            if !waits || self.function_state.was_paused {
                self.work.add_ready(number, CallOutcome::Begin);
            }
            return Ok(());
        }
        let history = self.graph_history(number).await?;
        let Some(Frame::Graph(frame)) = self.frames.get_mut(&number) else { return Ok(()) };
        frame.progress = Progress::from_history(&frame.graph, &history);
        if frame.progress.ended().is_some() {
            let node_result = result(&frame.called.node, &frame.graph, &frame.progress);
            self.work.add_ready(number, CallOutcome::node(node_result));
            return Ok(());
        }
        // The calls of the graph are open, and resume separately.
        for effect in resume(&frame.graph, &frame.progress) {
            if let Effect::Wait { step, until } = effect {
                self.delay(number, step, until);
            }
        }
        self.work.add_ready(number, CallOutcome::Begin);
        Ok(())
    }

    /// Returns the entries that mark a call and its descendants as abandoned, and cancels the work of these calls.
    pub(in crate::function) fn abandon(&mut self, number: u64, at: Timestamp) -> Vec<Entry> {
        let Abandonment { entries, calls } = self.function_state.abandon(&self.recorder.run.id, number, at);
        self.drop_calls(&calls);
        entries
    }

    /// Cancels the work of these calls.
    fn drop_calls(&mut self, calls: &[u64]) {
        for number in calls {
            self.work.interrupt(*number);
            self.frames.remove(number);
        }
    }

    /// Returns the calls and answers of a function so far. `last` is a step that is not in the journal yet.
    async fn function_history(&self, frame: u64, last: Option<Step>) -> Result<FunctionSteps, HistoryError> {
        Ok(FunctionSteps::from_entries(frame, self.entries().await?, last))
    }

    async fn graph_history(&self, frame: u64) -> Result<Vec<GraphEvent>, HistoryError> {
        let graph_event = |entry| match entry {
            Entry::Graph { frame: frame_of_event, event, .. } if frame_of_event == frame => Some(event),
            _ => None,
        };
        Ok(self.entries().await?.into_iter().filter_map(graph_event).collect())
    }

    async fn entries(&self) -> Result<Vec<Entry>, HistoryError> {
        let records = self.recorder.shared.journal.read(&self.recorder.run.id, 1).await.map_err(Unreadable::from)?;
        let seal = self.recorder.live_seal().seal();
        Ok(records.iter().map(|record| Entry::read(record, seal)).collect::<Result<_, _>>()?)
    }

    /// Delivers the outcome of a call to the frame that made it.
    pub(in crate::function) async fn deliver_outcome(
        &mut self,
        number: u64,
        open: PendingCall,
        outcome: CallOutcome,
        by: Option<By>,
    ) -> bool {
        let at = self.recorder.shared.clock.now();
        self.work.interrupt(number);
        let Abandonment { mut entries, calls } = self.function_state.abandon_below(&self.recorder.run.id, number, at);
        self.drop_calls(&calls);
        self.frames.remove(&number);
        let is_timeout = matches!(outcome, CallOutcome::TimedOut(_));
        let answer_entry = |answer, by| open.answered(&self.recorder.run.id, (at, number), answer, by, is_timeout);
        match (self.frames.get_mut(&open.frame), &open.target) {
            (Some(Frame::Function { deferred, .. }), CallTarget::Call(call)) => {
                let answer = outcome.into_answer();
                entries.push(answer_entry(answer.clone(), by));
                if self.function_state.paused.is_some() {
                    deferred.push(DeferredAnswer { number, ordinal: call.ordinal, answer });
                    return self.append(entries).await;
                }
                self.resume_function(open.frame, entries, FrameInput::Answer(call.ordinal, answer)).await
            }
            (Some(Frame::Graph(_)), CallTarget::Step { step, attempt, .. }) => {
                let outcome = outcome.into_outcome();
                let input = GraphInput::AttemptEnded { step: step.clone(), attempt: *attempt, outcome };
                self.resume_graph(open.frame, entries, input, Some(number)).await
            }
            (Some(Frame::Once { .. }), CallTarget::Call(call)) => {
                let answer = outcome.into_answer();
                let end = match answer.clone() {
                    Answer::Value(result) if result["success"] == false => {
                        let error = result["error"].as_str().unwrap_or("the node failed").to_owned();
                        Entry::Failed { at, error, traceback: None, result: Some(result) }
                    }
                    Answer::Value(result) => Entry::Completed { at, result },
                    Answer::Raise { message: error, .. } => {
                        let result = if is_timeout { self.timed_out_result(&call.kind, &error) } else { None };
                        Entry::Failed { at, error, traceback: None, result }
                    }
                };
                entries.extend([answer_entry(answer, by), end]);
                self.append(entries).await
            }
            _ => true,
        }
    }

    /// Returns the result of a called node whose time is up.
    fn timed_out_result(&self, call: &CallKind, error: &str) -> Option<Value> {
        let (id, input) = match call {
            CallKind::Run { node, input, .. } | CallKind::RunGraph { graph: node, input, .. } => (node, input),
            _ => return None,
        };
        let node = self.declared.get(id)?;
        serde_json::to_value(NodeResult::failed(node, input.clone(), ErrorType::Timeout, error)).ok()
    }

    /// Delivers the answers that the pause withheld to their frames.
    pub(in crate::function) async fn resume_all(&mut self) -> bool {
        let numbers: Vec<u64> = self.frames.keys().copied().collect();
        for number in numbers {
            let deferred = match self.frames.get_mut(&number) {
                Some(Frame::Function { deferred, .. }) => std::mem::take(deferred),
                Some(Frame::Graph(_)) => {
                    if !self.resume_graph(number, Vec::new(), GraphInput::Continue, None).await {
                        return false;
                    }
                    continue;
                }
                _ => continue,
            };
            for DeferredAnswer { number: answered, ordinal, answer } in deferred {
                if self.function_state.end.is_some() {
                    return true;
                }
                let entries = vec![Entry::AnswerDelivered { at: self.recorder.shared.clock.now(), number: answered }];
                if !self.resume_function(number, entries, FrameInput::Answer(ordinal, answer)).await {
                    return false;
                }
            }
        }
        true
    }
}
