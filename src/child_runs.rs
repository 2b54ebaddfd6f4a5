//! The nested runs of a watched run.
//!
//! A `state_entered` or `nested_workflow_started` event names the started run, and the client follows that run. The
//! parent run reports the outcome of a nested run; missing events of the nested run only hide its steps.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use serde_json::Value;
use steplatch_protocol::{ReconnectingClient, RunEvent};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// Maximum wait for the remaining events of a nested run after its end.
const CHILD_END_TIMEOUT: Duration = Duration::from_millis(300);

/// The followed nested runs.
#[derive(Debug)]
pub(crate) struct ChildRuns {
    daemon: ReconnectingClient,
    sender: mpsc::Sender<ChildUpdate>,
    receiver: mpsc::Receiver<ChildUpdate>,
    /// The followed runs, by their ids.
    children: HashMap<String, Child>,
    /// Runs with a received event. They are not followed again.
    seen: HashSet<String>,
    /// Events that arrived during a wait for the end of another run.
    queued: VecDeque<RunEvent>,
}

#[derive(Debug)]
struct Child {
    /// Id of the run that started this one.
    parent: String,
    task: AbortHandle,
}

/// An event of a nested run, or its end.
#[derive(Debug)]
enum ChildUpdate {
    Event(RunEvent),
    Ended(String),
}

impl Drop for Child {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ChildRuns {
    pub(crate) fn new(daemon: ReconnectingClient) -> Self {
        let (sender, receiver) = mpsc::channel(16);
        Self { daemon, sender, receiver, children: HashMap::new(), seen: HashSet::new(), queued: VecDeque::new() }
    }

    /// Follows the run that `event` starts, if it starts one.
    pub(crate) fn follow_started_run(&mut self, event: &RunEvent) {
        if !matches!(event.event_type.as_str(), "state_entered" | "nested_workflow_started") {
            return;
        }
        let Some(child) = child(event) else { return };
        // Two events name the run. At the first event, the run may not exist yet.
        if self.seen.contains(child) || self.children.get(child).is_some_and(|followed| !followed.task.is_finished()) {
            return;
        }
        let (mut events, sender, run) =
            (self.daemon.follow_from_its_beginning(child), self.sender.clone(), child.to_owned());
        let task = tokio::spawn(async move {
            loop {
                match events.next().await {
                    Ok(Some(event)) => {
                        if sender.send(ChildUpdate::Event(event)).await.is_err() {
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
            // Ignore a failure, because the receiver has been dropped.
            let _ = sender.send(ChildUpdate::Ended(run)).await;
        });
        let task = Child { parent: event.run_id.clone(), task: task.abort_handle() };
        self.children.insert(child.to_owned(), task);
    }

    /// Receives the next update. Cancellation-safe.
    async fn receive(&mut self) -> ChildUpdate {
        let Some(update) = self.receiver.recv().await else {
            unreachable!("this struct has a sender, so the channel stays open")
        };
        if let ChildUpdate::Event(event) = &update
            && !self.seen.contains(&event.run_id)
        {
            self.seen.insert(event.run_id.clone());
        }
        update
    }

    /// Returns the next event of a nested run; stays pending if there is no nested run. Cancellation-safe.
    pub(crate) async fn next(&mut self) -> RunEvent {
        if let Some(event) = self.queued.pop_front() {
            return event;
        }
        loop {
            match self.receive().await {
                ChildUpdate::Event(event) => return event,
                ChildUpdate::Ended(run) => drop(self.children.remove(&run)),
            }
        }
    }

    /// Stops following the runs that end with `event` and returns their remaining events.
    pub(crate) async fn take_ended(&mut self, event: &RunEvent) -> Vec<RunEvent> {
        // A machine is in one state at a time, so the runs of its earlier states have ended.
        let ended: Vec<String> = match event.event_type.as_str() {
            "state_completed" => {
                let children = self.children.iter().filter(|(_, child)| child.parent == event.run_id);
                children.map(|(run, _)| run.clone()).collect()
            }
            "nested_workflow_completed" | "nested_workflow_failed" | "nested_workflow_cancelled" => {
                child(event).map(str::to_owned).into_iter().collect()
            }
            _ => return Vec::new(),
        };
        let (mut remaining, queued) = (Vec::new(), std::mem::take(&mut self.queued));
        for event in queued {
            if ended.contains(&event.run_id) {
                remaining.push(event);
            } else {
                self.queued.push_back(event);
            }
        }
        let until_ended = async {
            while ended.iter().any(|run| self.children.contains_key(run)) {
                match self.receive().await {
                    ChildUpdate::Event(event) if ended.contains(&event.run_id) => remaining.push(event),
                    // Another nested run continues and may open a gate.
                    ChildUpdate::Event(event) => self.queued.push_back(event),
                    ChildUpdate::Ended(run) => drop(self.children.remove(&run)),
                }
            }
        };
        // A run that never began has no events, so the wait is limited.
        let _ = tokio::time::timeout(CHILD_END_TIMEOUT, until_ended).await;
        for run in &ended {
            self.children.remove(run);
        }
        remaining
    }
}

/// Returns the nested run that an event is about.
pub(crate) fn child(event: &RunEvent) -> Option<&str> {
    event.data.get("child_run_id").and_then(Value::as_str)
}
