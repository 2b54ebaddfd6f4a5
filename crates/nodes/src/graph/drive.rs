//! Performing what is decided for a graph, until it is over.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steplatch_workflow::Timestamp;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::decide::{Effect, GraphInput, decide, resume};
use super::event::{GraphEvent, StepOutcome};
use super::progress::Progress;
use super::{Graph, told};
use crate::call::{Call, Cut};
use crate::node::{Node, NodeId};
use crate::result::NodeResult;

/// A call that a step of a graph asks for.
#[derive(Debug, Clone)]
pub struct StepCall {
    /// The step.
    pub step: NodeId,
    /// Which attempt. Step and attempt name the call on every replay.
    pub attempt: u32,
    /// The node.
    pub node: NodeId,
    /// What it is given.
    pub input: Value,
    /// Whether it may have been made before, by somebody who did not live to tell.
    pub again: bool,
    /// Ends it early.
    pub interrupt: CancellationToken,
}

/// Whoever keeps the history of a graph and calls its nodes.
pub trait Driver: Send + Sync + 'static {
    /// Makes events durable. Nothing that they cause is done before it returns.
    fn append(&self, events: &[GraphEvent]) -> impl Future<Output = Result<(), DriverError>> + Send;

    /// Makes a call. One that takes longer than its limit is interrupted, and has a moment to end what it started.
    fn call(&self, call: StepCall) -> impl Future<Output = StepOutcome> + Send;

    /// Returns what time it is.
    fn now(&self) -> Timestamp;
}

/// Why a graph can not go on: its history can not be kept.
#[derive(Debug, thiserror::Error)]
#[error("the history of the graph could not be kept")]
pub struct DriverError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// How long a call that was interrupted has to end what it started.
const ENDING: Duration = Duration::from_secs(5);

/// Runs a graph to its end, from where its history left it; an empty history begins it.
///
/// # Errors
/// When its history can not be kept. What was being called is ended then.
pub async fn drive(
    driver: Arc<impl Driver>,
    node: &Node,
    graph: &Graph,
    history: &[GraphEvent],
    call: Call,
) -> Result<NodeResult, DriverError> {
    let cut = Cut::of(node, &call);
    let interrupt = CancellationToken::new();
    // Whoever drops us ends what runs.
    let _ends = interrupt.clone().drop_guard();
    let mut progress = Progress::of(graph, history);
    let mut working = JoinSet::new();
    let mut inputs = Vec::new();
    if progress.input.is_none() {
        inputs.push(GraphInput::Start { input: call.input });
    } else {
        for effect in resume(graph, &progress) {
            working.spawn(perform(driver.clone(), effect, interrupt.clone()));
        }
    }
    loop {
        for input in inputs.drain(..) {
            let decision = decide(graph, &progress, input, driver.now());
            driver.append(&decision.events).await?;
            for event in &decision.events {
                progress.apply(event);
            }
            for effect in decision.effects {
                working.spawn(perform(driver.clone(), effect, interrupt.clone()));
            }
        }
        if progress.ended.is_some() {
            return Ok(super::result(node, graph, &progress));
        }
        tokio::select! {
            done = working.join_next() => match done {
                Some(Ok(input)) => inputs.push(input),
                Some(Err(error)) => return Err(DriverError(error.into())),
                None => return Ok(super::result(node, graph, &progress)),
            },
            failure = cut.reached() => {
                interrupt.cancel();
                // What comes of the calls now is not part of the history: the graph is ended, not its steps.
                let _ = tokio::time::timeout(ENDING, async { while working.join_next().await.is_some() {} }).await;
                let input = progress.input.as_deref().cloned().unwrap_or_default();
                return Ok(NodeResult::of(node, input, told::told(graph, &progress, Some(failure))));
            }
        }
    }
}

async fn perform(driver: Arc<impl Driver>, effect: Effect, interrupt: CancellationToken) -> GraphInput {
    match effect {
        Effect::Run { step, attempt, node, input, timeout, again } => {
            let interrupt = interrupt.child_token();
            let call = StepCall { step: step.clone(), attempt, node, input, again, interrupt: interrupt.clone() };
            let calling = driver.call(call);
            tokio::pin!(calling);
            let limit = async {
                match timeout {
                    Some(limit) => tokio::time::sleep(limit).await,
                    None => std::future::pending().await,
                }
            };
            let outcome = tokio::select! {
                outcome = &mut calling => outcome,
                () = limit => {
                    interrupt.cancel();
                    let _ = tokio::time::timeout(ENDING, calling).await;
                    StepOutcome::TimedOut
                }
            };
            GraphInput::AttemptEnded { step, attempt, outcome }
        }
        Effect::Wait { step, until } => {
            let wait = until.since(driver.now());
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = interrupt.cancelled() => {}
            }
            GraphInput::DelayOver { step }
        }
    }
}
