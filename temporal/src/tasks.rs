//! The activity of a host: sends a task to the daemon, and returns the answer.
#![allow(missing_docs, reason = "what the macros of the SDK write has no comments")]

use std::sync::Arc;
use std::time::Duration;

use steplatch_protocol::{PerformTask, WorkerToken};
use steplatch_workflow::EngineTask;
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};

use crate::backoff::Backoff;
use crate::daemon::DaemonConnection;
use crate::wire::{TaskInput, TaskOutput, refuse_long_texts};

/// Interval of heartbeats. The SDK sends only those that the timeout needs.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(250);

/// Tasks of runs, performed by the daemon of this host.
#[derive(Debug)]
pub struct Tasks {
    daemon: Arc<DaemonConnection>,
}

impl Tasks {
    /// Sends tasks to a daemon.
    #[must_use]
    pub fn new(daemon: Arc<DaemonConnection>) -> Self {
        Self { daemon }
    }
}

#[activities]
impl Tasks {
    /// Sends a task to the daemon until it has an answer.
    ///
    /// Waits for a missing daemon. Marks the task as repeated after a lost request, and on every attempt of this
    /// activity after the first: the terminal host knows which steps it has performed.
    #[activity(name = "steplatch_task")]
    pub async fn perform(self: Arc<Self>, ctx: ActivityContext, input: TaskInput) -> Result<TaskOutput, ActivityError> {
        let is_repeated = ctx.info().attempt > 1;
        let request = self.request(input, is_repeated);
        tokio::pin!(request);
        let mut heartbeats = tokio::time::interval(HEARTBEAT_INTERVAL);
        loop {
            tokio::select! {
                output = &mut request => return Ok(output),
                // Dropping the request cancels it at the daemon.
                () = ctx.cancelled() => return Err(ActivityError::cancelled()),
                _ = heartbeats.tick() => drop(ctx.record_heartbeat(()).await),
            }
        }
    }
}

impl Tasks {
    async fn request(&self, input: TaskInput, mut is_repeated: bool) -> TaskOutput {
        let TaskInput { run, from, events, task } = input;
        let events: Vec<_> =
            events.iter().map(|event| serde_json::to_value(event).expect("an event is JSON")).collect();
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
        loop {
            let task = match &task {
                EngineTask::Perform { effect, repeated } => {
                    EngineTask::Perform { effect: effect.clone(), repeated: *repeated || is_repeated }
                }
                EngineTask::Call { number, repeated } => {
                    EngineTask::Call { number: *number, repeated: *repeated || is_repeated }
                }
                other => other.clone(),
            };
            let verb = PerformTask {
                token: WorkerToken::default(),
                run_id: run.clone(),
                from,
                events: events.clone(),
                task: serde_json::to_value(task).expect("a task is JSON"),
            };
            let error = match self.daemon.perform(verb).await {
                Ok(reply) if reply.success => match serde_json::from_value(reply.answer) {
                    Ok(mut answer) => {
                        refuse_long_texts(&mut answer);
                        return TaskOutput { recorded: reply.recorded, answer };
                    }
                    Err(error) => format!("the answer of the daemon cannot be read: {error}"),
                },
                Ok(reply) => reply.error.unwrap_or_default(),
                Err(error) => {
                    // The daemon may have begun the task.
                    is_repeated = true;
                    error.to_string()
                }
            };
            tracing::info!(run, error, "a task waits for the daemon");
            backoff.pause().await;
        }
    }
}
