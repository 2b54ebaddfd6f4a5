//! The events of a run and of its nested runs, in a readable order.
//!
//! Each run has its own stream, across restarts of the daemon. A parent's event about the end of a nested run waits
//! until the nested run's own events are complete.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use serde_json::Value;
use steplatch_protocol::{FollowError, Follower, ReconnectingClient, RunEvent};

use crate::print;

/// The followed runs, parents first.
pub(super) struct Stories {
    daemon: ReconnectingClient,
    selection: StorySelection,
    stories: Vec<Story>,
}

/// Selection of the events to return.
#[derive(Debug, Clone, Copy)]
pub(super) struct StorySelection {
    /// Includes later events, until the run has ended.
    pub(super) follow: bool,
    /// Includes the events of nested runs.
    pub(super) nested: bool,
}

/// A followed run.
struct Story {
    run: String,
    depth: usize,
    events: Follower,
    /// The number of the last event to return; if `None`, all events until the end of the run.
    until: Option<u64>,
    /// The event about the end of a nested run, due after that run's events.
    held: Option<RunEvent>,
}

impl Stories {
    /// Follows `run` from its event number `from` on.
    ///
    /// # Errors
    /// If the run does not exist, or no daemon answers.
    pub(super) async fn follow_run(
        daemon: ReconnectingClient,
        run: &str,
        from: u64,
        selection: StorySelection,
    ) -> Result<Self, FollowError> {
        let mut stories = Self { daemon, selection, stories: Vec::new() };
        stories.begin(run, from, 0).await?;
        Ok(stories)
    }

    async fn begin(&mut self, run: &str, from: u64, depth: usize) -> Result<(), FollowError> {
        let mut events = self.daemon.follow(run, from);
        let until = match events.newest_seq().await? {
            _ if self.selection.follow => None,
            newest if newest < from => return Ok(()),
            newest => Some(newest),
        };
        self.stories.push(Story { run: run.to_owned(), depth, events, until, held: None });
        Ok(())
    }

    /// Returns the next event, with the nesting depth of its run; `None` after the last one.
    ///
    /// # Errors
    /// If the events of the first run cannot be read. For a nested run this prints the problem and continues with the
    /// others.
    pub(super) async fn next(&mut self) -> Result<Option<(RunEvent, usize)>, FollowError> {
        loop {
            let is_due = |story: &Story| self.stories.iter().all(|nested| Some(nested.run.as_str()) != story.awaits());
            if let Some(index) = self.stories.iter().position(|story| story.held.is_some() && is_due(story))
                && let Some(event) = self.stories[index].held.take()
            {
                return Ok(Some(self.deliver(index, event).await?));
            }
            if self.stories.is_empty() {
                return Ok(None);
            }
            match self.next_event().await {
                (index, Ok(Some(event))) => {
                    if ends_nested(&event) {
                        self.stories[index].held = Some(event);
                    } else {
                        return Ok(Some(self.deliver(index, event).await?));
                    }
                }
                (index, Ok(None)) => drop(self.stories.remove(index)),
                (index, Err(error)) if self.stories[index].depth == 0 => return Err(error),
                (index, Err(error)) => {
                    let story = self.stories.remove(index);
                    print::remark(&format!("run {} cannot be followed: {error}", story.run));
                }
            }
        }
    }

    /// Waits for an event of any run, the deepest first.
    async fn next_event(&mut self) -> (usize, Result<Option<RunEvent>, FollowError>) {
        poll_fn(|context| {
            for (index, story) in self.stories.iter_mut().enumerate().rev().filter(|(_, story)| story.held.is_none()) {
                if let Poll::Ready(next) = pin!(story.events.next()).poll(context) {
                    return Poll::Ready((index, next));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Processes an event, and returns it for the caller.
    async fn deliver(&mut self, index: usize, event: RunEvent) -> Result<(RunEvent, usize), FollowError> {
        let story = &self.stories[index];
        let depth = story.depth;
        if story.until.is_some_and(|until| event.seq >= until) {
            self.stories.remove(index);
        }
        if self.selection.nested && event.event_type == "nested_workflow_started" {
            let child = event.data.get("child_run_id").and_then(Value::as_str).unwrap_or_default();
            match self.begin(child, 1, depth + 1).await {
                Err(FollowError::Unknown(error)) => print::remark(&format!("run {child} cannot be followed: {error}")),
                started => started?,
            }
        }
        Ok((event, depth))
    }
}

impl Story {
    /// Returns the nested run whose end the held event reports.
    fn awaits(&self) -> Option<&str> {
        self.held.as_ref()?.data.get("child_run_id").and_then(Value::as_str)
    }
}

fn ends_nested(event: &RunEvent) -> bool {
    let ends = ["nested_workflow_completed", "nested_workflow_failed", "nested_workflow_cancelled"];
    ends.contains(&event.event_type.as_str())
}
