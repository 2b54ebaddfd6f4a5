//! Execution of the requests of functions.

use serde_json::{Map, Value};
use steplatch_nodes::{Call as NodeCall, ErrorType, Node, NodeId, NodeKind, NodeResult, NodeType, Seconds};
use steplatch_project::Function;
use steplatch_python_api::{Answer, CallKind, Limits, Start};
use steplatch_workflow::Timestamp;

use super::calls::{CallTarget, PendingCall, ROOT};
use super::child;
use super::gate::gate_problem;
use super::run::FunctionRun;
use super::run::frame::{CalledNode, Frame, GraphFrame};
use super::work::{CallOutcome, after};
use crate::engine::Attempt;
use crate::run::RunInbox;
use crate::time_span::TimeSpan;

/// Maximum depth of calls between functions and graphs within one run.
const MAX_DEPTH: usize = 16;

/// Error that prevents the start of a function node.
#[derive(Debug, thiserror::Error)]
enum FunctionSourceError {
    /// The node is of another type.
    #[error("It is not a function.")]
    NotFunction,
    /// The node has no source, and the run has no file.
    #[error("The file with its source is unknown.")]
    UnknownFile,
}

impl FunctionRun {
    /// Starts the work of a call that was recorded at time `at`. After a restart, the last daemon may have started it.
    pub(super) fn perform(&mut self, number: u64, at: Timestamp, call: CallKind, attempt: Attempt) {
        match call {
            CallKind::Run { node, input, timeout, kwargs } => {
                let is_function = |node: &Node| matches!(node.kind, NodeKind::Function(_));
                let input = match (self.declared.get(&node).is_some_and(is_function), kwargs.is_empty(), &input) {
                    (true, ..) | (_, true, _) => input,
                    (_, false, Value::String(text)) if text.is_empty() => Value::Object(kwargs.clone()),
                    (_, false, _) => {
                        let mut fields = kwargs.clone();
                        fields.entry("input").or_insert(input);
                        Value::Object(fields)
                    }
                };
                let timeout = timeout.map(TimeSpan::from_seconds);
                self.call_with(number, at, &node, (input, kwargs), timeout, attempt);
            }
            CallKind::RunGraph { graph, input, timeout } => {
                let is_graph = |node: &Node| matches!(node.kind, NodeKind::Graph(_));
                if !self.declared.get(&graph).is_some_and(is_graph) {
                    return self.work.add_ready(number, Self::not_found("Graph", &graph));
                }
                self.call_node(number, at, &graph, input, timeout.map(TimeSpan::from_seconds), attempt);
            }
            kind @ CallKind::Gate { .. } if let Some(complaint) = gate_problem(&kind) => {
                self.work.add_ready(number, CallOutcome::refused(complaint));
            }
            CallKind::Gate { prompt, timeout: Some(seconds), .. } => {
                let timeout = TimeSpan::from_seconds(seconds);
                let message = format!("no answer within {timeout} s: {prompt}");
                self.work.add_later(number, at, Some(timeout), CallOutcome::TimedOut(message));
            }
            // A gate is part of the run's reported progress; its answer arrives as an input.
            CallKind::Gate { timeout: None, .. } => {}
            CallKind::Sleep { seconds } => {
                let wait = Some(TimeSpan::from_seconds(seconds));
                self.work.add_later(number, at, wait, CallOutcome::value(Value::Null));
            }
            CallKind::Now {} => {
                self.work.add_ready(number, CallOutcome::value(self.recorder.shared.clock.now().as_seconds()));
            }
            CallKind::Random {} => self.work.add_ready(number, draw_random()),
            CallKind::RunWorkflow { workflow, input, params, timeout } => {
                let timeout = timeout.map(TimeSpan::from_seconds);
                if timeout.is_some_and(TimeSpan::is_elapsed) {
                    let message = timeout_message("Workflow", &workflow, timeout);
                    return self.work.add_ready(number, CallOutcome::TimedOut(message));
                }
                if self.mirror.is_some() {
                    return self.start_outer_run(number, at, timeout);
                }
                let interrupt = self.work.interrupt_for(number);
                let request = child::ChildRequest {
                    step: super::calls::child_step(&self.recorder.run.id, number),
                    workflow,
                    input,
                    params,
                    depth: self.depth + 1,
                    called_at: at,
                    timeout,
                };
                let child = child::perform(
                    self.recorder.shared.clone(),
                    self.recorder.caller.clone(),
                    self.parent(),
                    self.file.clone(),
                    request,
                    interrupt,
                );
                self.work.spawn(number, child);
            }
            CallKind::Emit { .. } | CallKind::Log { .. } | CallKind::Ended { .. } => {}
        }
    }

    /// Calls a node, like [`Self::perform`].
    pub(super) fn call_node(
        &mut self,
        number: u64,
        at: Timestamp,
        id: &str,
        input: Value,
        timeout: Option<TimeSpan>,
        attempt: Attempt,
    ) {
        self.call_with(number, at, id, (input, Map::new()), timeout, attempt);
    }

    fn call_with(
        &mut self,
        number: u64,
        at: Timestamp,
        id: &str,
        (input, params): (Value, Map<String, Value>),
        timeout: Option<TimeSpan>,
        attempt: Attempt,
    ) {
        let Some(node) = self.declared.get(id).cloned() else {
            return self.work.add_ready(number, self.missing(number, id, input));
        };
        if timeout.is_some_and(TimeSpan::is_elapsed) {
            return self.work.add_ready(number, CallOutcome::TimedOut(timeout_message("Node", id, timeout)));
        }
        match &node.kind {
            NodeKind::Function(_) if self.is_inline(number, &node) => {
                if !self.apply_limits(number, at, &node, &input, timeout) {
                    return;
                }
                match attempt {
                    Attempt::AfterRestart => self.resume_inline(number),
                    Attempt::First => self.work.add_ready(number, CallOutcome::Begin),
                }
            }
            NodeKind::Function(_) | NodeKind::Graph(_) => {
                let is_begun = self.call_frame(number, at, node, (input, params), timeout);
                // A recovered call resumes once the driver knows its progress.
                if is_begun && attempt == Attempt::First {
                    self.work.add_ready(number, CallOutcome::Begin);
                }
            }
            NodeKind::Identity(_) => {
                let output = input.clone();
                self.work.add_ready(number, CallOutcome::node(NodeResult::succeeded(&node, input, output)));
            }
            _ if !self.work.must_perform_here(number) => {}
            _ if attempt == Attempt::AfterRestart => {
                let message = "The daemon stopped while the node was running; whether it was done is not known, and it is \
                               not done again.";
                let result = NodeResult::failed(&node, input, ErrorType::Unknown, message);
                if matches!(node.kind, NodeKind::Pty(_)) {
                    self.declared.adopt_unknown_terminal(id);
                }
                let (executors, step) =
                    (self.recorder.shared.executors.clone(), super::calls::call_step(&self.recorder.run.id, number));
                self.work.spawn(number, async move {
                    executors.end_left(&step.to_string()).await;
                    CallOutcome::node(result)
                });
            }
            _ => {
                let interrupt = self.work.interrupt_for(number);
                let (declared, caller) = (self.declared.clone(), self.recorder.caller.clone());
                let step = super::calls::call_step(&self.recorder.run.id, number).to_string();
                let (message, deadline) =
                    (timeout_message("Node", id, timeout), after(&self.recorder.shared.clock, at, timeout));
                self.work.spawn(number, async move {
                    let call = NodeCall { input, interrupt: interrupt.clone(), ..NodeCall::default() };
                    let performing = declared.perform(&caller, &node, call, step);
                    tokio::pin!(performing);
                    tokio::select! {
                        biased;
                        result = &mut performing => CallOutcome::node(result),
                        () = deadline => {
                            // When the execution returns, its processes have exited.
                            interrupt.cancel();
                            performing.await;
                            CallOutcome::TimedOut(message)
                        }
                    }
                });
            }
        }
    }

    /// Returns the outcome of a call of an unknown node: an exception for a function, a failed result for a graph.
    fn missing(&self, number: u64, id: &str, input: Value) -> CallOutcome {
        let is_step =
            self.function_state.open.get(number).is_some_and(|open| matches!(open.target, CallTarget::Step { .. }));
        if !is_step {
            return Self::not_found("Node", id);
        }
        CallOutcome::node(NodeResult {
            success: false,
            output: Value::Null,
            error: Some(format!("Node '{id}' not found in session")),
            error_type: Some(ErrorType::NotStarted),
            node_type: NodeType::Identity,
            node_id: id.to_owned(),
            input,
            attributes: Map::new(),
        })
    }

    /// Creates a frame, whose requests become calls of this run. Returns whether the frame can start.
    fn call_frame(
        &mut self,
        number: u64,
        at: Timestamp,
        node: Node,
        (input, params): (Value, Map<String, Value>),
        timeout: Option<TimeSpan>,
    ) -> bool {
        if !self.apply_limits(number, at, &node, &input, timeout) {
            return false;
        }
        let frame = match &node.kind {
            NodeKind::Graph(graph) => {
                let graph = graph.clone();
                Frame::Graph(Box::new(GraphFrame::new(CalledNode { node, input }, graph)))
            }
            _ => match self.function_of(&node, at, &input, params) {
                Ok(function) => Frame::Function {
                    execution: Box::new(self.recorder.shared.workers.execution(function)),
                    node_call: Some(Box::new(CalledNode { node, input })),
                    deferred: Vec::new(),
                },
                Err(error) => {
                    let result = NodeResult::failed(&node, input, ErrorType::NotStarted, error.to_string());
                    self.work.add_ready(number, CallOutcome::node(result));
                    return false;
                }
            },
        };
        self.frames.insert(number, frame);
        true
    }

    /// Limits a call of a node that makes calls itself: by the time limit of the node, and by the nesting depth.
    /// Returns whether the call can start.
    fn apply_limits(
        &mut self,
        number: u64,
        at: Timestamp,
        node: &Node,
        input: &Value,
        timeout: Option<TimeSpan>,
    ) -> bool {
        if self.nesting_depth(number) >= MAX_DEPTH {
            let message = format!("Maximum recursion depth ({MAX_DEPTH}) exceeded");
            let result = NodeResult::failed(node, input.clone(), ErrorType::Exception, message);
            self.work.add_ready(number, CallOutcome::node(result));
            return false;
        }
        let node_timeout = node.timeout.map(Seconds::duration).map(TimeSpan::from);
        match (timeout, node_timeout) {
            (Some(timeout), node_timeout) if node_timeout.is_none_or(|node_timeout| timeout <= node_timeout) => {
                let message = timeout_message("Node", node.id.as_str(), Some(timeout));
                self.work.add_later(number, at, Some(timeout), CallOutcome::TimedOut(message));
            }
            (_, Some(node_timeout)) => {
                let message = format!("The call exceeded its time limit of {node_timeout} s.");
                let result = NodeResult::failed(node, input.clone(), ErrorType::Timeout, message);
                self.work.add_later(number, at, Some(node_timeout), CallOutcome::node(result));
            }
            _ => {}
        }
        true
    }

    fn parent(&self) -> RunInbox {
        let run = self.recorder.shared.driven(&self.recorder.run.id);
        // A run without a driver has no inbox. Return an inbox that drops its inputs.
        run.map_or_else(|| RunInbox::new().0, |run| run.inputs())
    }

    fn function_of(
        &self,
        node: &Node,
        at: Timestamp,
        input: &Value,
        params: Map<String, Value>,
    ) -> Result<Function, FunctionSourceError> {
        let NodeKind::Function(declared) = &node.kind else { return Err(FunctionSourceError::NotFunction) };
        let (file, text) = match (&declared.source, &self.file) {
            (Some(source), _) => {
                let file = declared.file.clone().unwrap_or_else(|| format!("{}.py", node.id));
                (file, source.as_str().into())
            }
            (None, Some(own)) => (own.name.clone(), own.text.clone()),
            (None, None) => return Err(FunctionSourceError::UnknownFile),
        };
        let start = Start { id: node.id.to_string(), input: input.clone(), params, at: Some(at.as_seconds()) };
        Ok(Function { file, text, start, limits: Limits::default() })
    }

    fn nesting_depth(&self, number: u64) -> usize {
        let parent = |number: &u64| {
            self.function_state.open.get(*number).map(PendingCall::parent).filter(|frame| *frame != ROOT)
        };
        std::iter::successors(parent(&number), parent).count()
    }

    /// Returns the time limit of one attempt of a step, if frame `frame` is a graph.
    pub(super) fn attempt_timeout(&self, frame: u64, step: &NodeId, node: &NodeId) -> Option<TimeSpan> {
        let Some(Frame::Graph(graph)) = self.frames.get(&frame) else { return None };
        graph.step_timeout(step, node)
    }
}

fn timeout_message(what: &str, id: &str, timeout: Option<TimeSpan>) -> String {
    format!("{what} '{id}' took longer than {} s", timeout.unwrap_or_default())
}

/// Draws a random number in [0, 1) with the full precision of a double.
fn draw_random() -> CallOutcome {
    match getrandom::u64() {
        #[allow(clippy::cast_precision_loss, reason = "a double has a precision of 53 bits")]
        Ok(bits) => CallOutcome::value((bits >> 11) as f64 / (1_u64 << 53) as f64),
        Err(error) => CallOutcome::Answer(Answer::Raise {
            exception: "OSError".to_owned(),
            message: format!("the operating system provided no random numbers: {error}"),
        }),
    }
}
