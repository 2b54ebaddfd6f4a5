//! One call of a node: what it is given, how long it may take, and who may end it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::node::Node;
use crate::result::{ErrorType, Failure};

/// One call of a node.
#[derive(Clone, Default)]
pub struct Call {
    /// What the node is given.
    pub input: Value,
    /// How long it may take, besides what the node itself says.
    pub timeout: Option<Duration>,
    /// Ends the call: its result says that it was interrupted.
    pub interrupt: CancellationToken,
    /// Is told the answer of a model as it comes. Must return soon, and keep what it was told in bounds. A secret that
    /// the model was told and repeats is still in it: it may be cut anywhere.
    pub on_text: Option<OnText>,
    /// What the programs are called that it starts, so that another process finds them: see
    /// [`Programs::end_left`](steplatch_terminal::Programs::end_left).
    pub family: Option<String>,
}

/// Somebody who is told pieces of a text.
pub type OnText = Arc<dyn Fn(&str) + Send + Sync>;

impl Call {
    /// Returns a call that may take as long as the node says, and that nobody ends.
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

/// What ends a call before it is done.
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    limit: Option<Duration>,
    deadline: Option<Instant>,
    interrupt: CancellationToken,
}

impl Cut {
    pub(crate) fn of(node: &Node, call: &Call) -> Self {
        let own = node.timeout.map(crate::node::Seconds::duration);
        let limit = [own, call.timeout].into_iter().flatten().min();
        let deadline = limit.map(|limit| Instant::now() + limit);
        Self { limit, deadline, interrupt: call.interrupt.clone() }
    }

    /// Waits until the call has to end, and says why.
    pub(crate) async fn reached(&self) -> Failure {
        let out_of_time = async {
            match self.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.interrupt.cancelled() => Failure::new(ErrorType::Interrupted, "The call was interrupted."),
            () = out_of_time => {
                let seconds = self.limit.unwrap_or_default().as_secs_f64();
                Failure::new(ErrorType::Timeout, format!("It took longer than {seconds} s, which is its limit."))
            }
        }
    }
}
