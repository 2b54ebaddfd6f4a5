//! The nested runs of a watched run.
//!
//! The events of a state's entry and of a function's call name the run that they start, so a client can follow it from
//! there on. The parent reports the outcome of a nested run, so without its events a nested run is merely invisible.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use serde_json::Value;
use steplatch_protocol::{ReconnectingClient, RunEvent};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// Time to wait for the rest of a nested run when its parent continues. The nested run has ended by then.
const CHILD_END_TIMEOUT: Duration = Duration::from_millis(300);

/// The followed nested runs.
#[derive(Debug)]
pub(crate) struct ChildRuns {
    daemon: ReconnectingClient,
    sender: mpsc::Sender<ChildNews>,
    received: mpsc::Receiver<ChildNews>,
    /// The followed runs, by their ids.
    children: HashMap<String, Child>,
    /// The runs with an event so far. Nothing follows them a second time.
    met: HashSet<String>,
    /// Events from the time of waiting for the rest of another run.
    queued: VecDeque<RunEvent>,
}

#[derive(Debug)]
struct Child {
    /// The run that started it.
    parent: String,
    task: AbortHandle,
}

/// News about a nested run: an event, or that there are no more.
#[derive(Debug)]
enum ChildNews {
    Event(RunEvent),
    Over(String),
}

impl Drop for Child {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ChildRuns {
    pub(crate) fn new(daemon: ReconnectingClient) -> Self {
        let (sender, received) = mpsc::channel(16);
        Self { daemon, sender, received, children: HashMap::new(), met: HashSet::new(), queued: VecDeque::new() }
    }

    /// Follows the run that `event` starts, if it starts one.
    pub(crate) fn meet(&mut self, event: &RunEvent) {
        if !matches!(event.event_type.as_str(), "state_entered" | "nested_workflow_started") {
            return;
        }
        let Some(child) = child(event) else { return };
        // The entry of a state and the start of its run both name it. It may not have been there at the entry.
        if self.met.contains(child) || self.children.get(child).is_some_and(|known| !known.task.is_finished()) {
            return;
        }
        let (mut events, sender, run) =
            (self.daemon.follow_from_its_beginning(child), self.sender.clone(), child.to_owned());
        let task = tokio::spawn(async move {
            loop {
                match events.next().await {
                    Ok(Some(event)) => {
                        if sender.send(ChildNews::Event(event)).await.is_err() {
                            return;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        tracing::debug!(run, %error, "a nested run cannot be followed");
                        break;
                    }
                }
            }
            // A failure means that the watcher has stopped.
            let _ = sender.send(ChildNews::Over(run)).await;
        });
        let task = Child { parent: event.run_id.clone(), task: task.abort_handle() };
        self.children.insert(child.to_owned(), task);
    }

    /// Receives the next news. Cancellation-safe.
    async fn receive(&mut self) -> ChildNews {
        let Some(news) = self.received.recv().await else { unreachable!("a sender is kept here") };
        if let ChildNews::Event(event) = &news
            && !self.met.contains(&event.run_id)
        {
            self.met.insert(event.run_id.clone());
        }
        news
    }

    /// Returns the next event of a nested run; pending forever if there is none. Cancellation-safe.
    pub(crate) async fn next(&mut self) -> RunEvent {
        if let Some(event) = self.queued.pop_front() {
            return event;
        }
        loop {
            match self.receive().await {
                ChildNews::Event(event) => return event,
                ChildNews::Over(run) => drop(self.children.remove(&run)),
            }
        }
    }

    /// Returns the remaining events of the runs that end with `event`, and stops following them.
    pub(crate) async fn part(&mut self, event: &RunEvent) -> Vec<RunEvent> {
        // A machine is in one state at a time, so the runs of earlier states have ended too.
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
        let (mut rest, queued) = (Vec::new(), std::mem::take(&mut self.queued));
        for event in queued {
            if left.contains(&event.run_id) {
                rest.push(event);
            } else {
                self.queued.push_back(event);
            }
        }
        let until_they_are_over = async {
            while left.iter().any(|run| self.children.contains_key(run)) {
                match self.receive().await {
                    ChildNews::Event(event) if left.contains(&event.run_id) => rest.push(event),
                    // Another nested run continues, and may open a gate.
                    ChildNews::Event(event) => self.queued.push_back(event),
                    ChildNews::Over(run) => drop(self.children.remove(&run)),
                }
            }
        };
        // A run that never began has no events, so the wait is limited.
        let _ = tokio::time::timeout(CHILD_END_TIMEOUT, until_they_are_over).await;
        for run in &left {
            self.children.remove(run);
        }
        rest
    }
}

/// Returns the nested run that an event is about.
pub(crate) fn child(event: &RunEvent) -> Option<&str> {
    event.data.get("child_run_id").and_then(Value::as_str)
}
