//! A call of a node: its input, time limit and interrupt.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::node::Node;
use crate::outcome::{ErrorType, ExecutorOutcome, Failure};

/// A call of a node.
#[derive(Clone, Default)]
pub struct Call {
    /// The node's input.
    pub input: Value,
    /// Time limit, in addition to the node's own.
    pub timeout: Option<Duration>,
    /// Token that ends the call, whose result then reports the interruption.
    pub interrupt: CancellationToken,
    /// Callback for the text of a model's answer as it arrives. Must return quickly, and must limit its memory use. A
    /// secret that the model repeats is still in the text, possibly split between two pieces.
    pub on_text: Option<OnText>,
    /// Label of the programs that the call starts. Another process finds the programs by this label, see
    /// [`Programs::end_left`](steplatch_terminal::Programs::end_left).
    pub family: Option<String>,
}

/// Callback for pieces of text.
pub type OnText = Arc<dyn Fn(&str) + Send + Sync>;

impl Call {
    /// Returns a call with the node's own time limit and without an interrupt.
    #[must_use]
    pub fn new(input: impl Into<Value>) -> Self {
        Self { input: input.into(), ..Self::default() }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("input", &self.input).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Conditions that end a call early.
#[derive(Debug, Clone)]
pub(crate) struct CallLimit {
    limit: Option<Duration>,
    deadline: Option<Instant>,
    interrupt: CancellationToken,
}

impl CallLimit {
    pub(crate) fn for_call(node: &Node, call: &Call) -> Self {
        let node_timeout = node.timeout.map(crate::node::Seconds::duration);
        let limit = [node_timeout, call.timeout].into_iter().flatten().min();
        let deadline = limit.map(|limit| Instant::now() + limit);
        Self { limit, deadline, interrupt: call.interrupt.clone() }
    }

    /// Returns the time limit of the call.
    pub(crate) fn duration(&self) -> Option<Duration> {
        self.limit
    }

    /// Waits until the call must end and returns the reason.
    pub(crate) async fn wait_until_reached(&self) -> Failure {
        let deadline_passed = async {
            match self.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.interrupt.cancelled() => Failure::new(ErrorType::Interrupted, "The call was interrupted."),
            () = deadline_passed => {
                let seconds = self.limit.unwrap_or_default().as_secs_f64();
                Failure::new(ErrorType::Timeout, format!("The call exceeded its time limit of {seconds} s."))
            }
        }
    }

    /// Performs `work` and drops it once the call must end.
    pub(crate) async fn run_within(&self, work: impl Future<Output = ExecutorOutcome>) -> ExecutorOutcome {
        tokio::select! {
            outcome = work => outcome,
            failure = self.wait_until_reached() => failure.into(),
        }
    }
}
