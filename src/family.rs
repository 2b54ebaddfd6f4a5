//! The runs that a run starts, and those that they start, while somebody watches.
//!
//! A state that starts a run names it as it is entered, so it can be followed from
//! there on. What becomes of a nested run is told by its parent: one that can not be
//! followed is not seen, and that is all.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use steplatch_protocol::{RunEvent, Steady};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// How long the rest of a nested run is waited for when its parent goes on. It is over by then.
const REST_WITHIN: Duration = Duration::from_millis(300);

/// Nested runs that are followed.
#[derive(Debug)]
pub(crate) struct Family {
    daemon: Steady,
    sender: mpsc::Sender<Told>,
    received: mpsc::Receiver<Told>,
    /// The run that each state has started, by the id of the state's run.
    children: HashMap<String, Child>,
}

#[derive(Debug)]
struct Child {
    run: String,
    task: AbortHandle,
}

/// What is told of a nested run: an event, or that there are no more.
#[derive(Debug)]
enum Told {
    Event(RunEvent),
    Over(String),
}

impl Drop for Child {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Family {
    pub(crate) fn new(daemon: Steady) -> Self {
        let (sender, received) = mpsc::channel(16);
        Self { daemon, sender, received, children: HashMap::new() }
    }

    /// Follows the run that a state starts, if `event` says that it does.
    pub(crate) fn meet(&mut self, event: &RunEvent) {
        let Some(child) = event.data.get("child_run_id").and_then(Value::as_str) else { return };
        let (mut events, sender, run) =
            (self.daemon.follow_from_its_beginning(child), self.sender.clone(), child.to_owned());
        let task = tokio::spawn(async move {
            loop {
                match events.next().await {
                    Ok(Some(event)) => {
                        if sender.send(Told::Event(event)).await.is_err() {
                            return;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        tracing::debug!(run, %error, "a nested run can not be followed");
                        break;
                    }
                }
            }
            // Whoever watched may have gone.
            let _ = sender.send(Told::Over(run)).await;
        });
        let child = Child { run: child.to_owned(), task: task.abort_handle() };
        // A run is in one state at a time, so what another state started is over.
        self.children.insert(event.run_id.clone(), child);
    }

    /// Returns the next event of a nested run. None ever comes where there is no such run. Safe to drop.
    pub(crate) async fn next(&mut self) -> RunEvent {
        loop {
            match self.received.recv().await {
                Some(Told::Event(event)) => return event,
                Some(Told::Over(run)) => self.children.retain(|_, child| child.run != run),
                None => unreachable!("a sender is kept here"),
            }
        }
    }

    /// Returns what is left to be told of the run that was started by the state of `parent`, and follows it no longer.
    pub(crate) async fn part(&mut self, parent: &str) -> Vec<RunEvent> {
        let mut rest = Vec::new();
        let until_it_is_over = async {
            while let Some(child) = self.children.get(parent).map(|child| child.run.clone()) {
                match self.received.recv().await {
                    Some(Told::Event(event)) => rest.push(event),
                    Some(Told::Over(run)) => {
                        self.children.retain(|_, child| child.run != run);
                        if run == child {
                            return;
                        }
                    }
                    None => unreachable!("a sender is kept here"),
                }
            }
        };
        // One that never began has nothing to tell, and would keep us.
        let _ = tokio::time::timeout(REST_WITHIN, until_it_is_over).await;
        self.children.remove(parent);
        rest
    }
}
