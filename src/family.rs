//! The runs that a run starts, and those that they start, while somebody watches.
//!
//! A state that starts a run names it as it is entered, and so does the call of a
//! function, so it can be followed from there on. What becomes of a nested run is told
//! by its parent: one that can not be followed is not seen, and that is all.

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
    /// The runs that are followed, by their ids.
    children: HashMap<String, Child>,
}

#[derive(Debug)]
struct Child {
    /// The run that has started it.
    parent: String,
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

    /// Follows the run that is started, if `event` says that one is.
    pub(crate) fn meet(&mut self, event: &RunEvent) {
        if !matches!(event.event_type.as_str(), "state_entered" | "nested_workflow_started") {
            return;
        }
        let Some(child) = child(event) else { return };
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
        let task = Child { parent: event.run_id.clone(), task: task.abort_handle() };
        self.children.insert(child.to_owned(), task);
    }

    /// Returns the next event of a nested run. None ever comes where there is no such run. Safe to drop.
    pub(crate) async fn next(&mut self) -> RunEvent {
        loop {
            match self.received.recv().await {
                Some(Told::Event(event)) => return event,
                Some(Told::Over(run)) => drop(self.children.remove(&run)),
                None => unreachable!("a sender is kept here"),
            }
        }
    }

    /// Returns what is left to be told of the runs that are over with `event`, and follows them no longer.
    pub(crate) async fn part(&mut self, event: &RunEvent) -> Vec<RunEvent> {
        // A machine is in one state at a time, so what another one started is over too.
        let left: Vec<String> = match event.event_type.as_str() {
            "state_completed" => {
                let theirs = self.children.iter().filter(|(_, child)| child.parent == event.run_id);
                theirs.map(|(run, _)| run.clone()).collect()
            }
            "nested_workflow_completed" | "nested_workflow_failed" | "nested_workflow_cancelled" => {
                child(event).map(str::to_owned).into_iter().collect()
            }
            _ => return Vec::new(),
        };
        let mut rest = Vec::new();
        let until_they_are_over = async {
            while left.iter().any(|run| self.children.contains_key(run)) {
                match self.received.recv().await {
                    Some(Told::Event(event)) => rest.push(event),
                    Some(Told::Over(run)) => drop(self.children.remove(&run)),
                    None => unreachable!("a sender is kept here"),
                }
            }
        };
        // One that never began has nothing to tell, and would keep us.
        let _ = tokio::time::timeout(REST_WITHIN, until_they_are_over).await;
        for run in &left {
            self.children.remove(run);
        }
        rest
    }
}

/// The run that an event is about, where it is nested in another one.
pub(crate) fn child(event: &RunEvent) -> Option<&str> {
    event.data.get("child_run_id").and_then(Value::as_str)
}
