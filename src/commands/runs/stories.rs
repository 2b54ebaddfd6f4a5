//! The events of a run and of its nested runs, in a readable order.
//!
//! Each run is followed separately, across restarts of the daemon. The parent's event about the end of a nested run is
//! delayed until all events of the nested run are returned.

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
    /// Includes events after the call, until the run has ended.
    pub(super) follow: bool,
    /// Includes the events of nested runs.
    pub(super) nested: bool,
}

/// A followed run.
struct Story {
    run: String,
    depth: usize,
    events: Follower,
    /// Number of the last event to return. `None` returns all events until the end of the run.
    until: Option<u64>,
    /// Event about the end of a nested run, delayed until the events of that run are returned.
    delayed: Option<RunEvent>,
}

impl Stories {
    /// Follows `run` from the event with the number `from`.
    ///
    /// # Errors
    /// If the run does not exist or the daemon is unreachable.
    pub(super) async fn follow_run(
        daemon: ReconnectingClient,
        run: &str,
        from: u64,
        selection: StorySelection,
    ) -> Result<Self, FollowError> {
        let mut stories = Self { daemon, selection, stories: Vec::new() };
        stories.start_following(run, from, 0).await?;
        Ok(stories)
    }

    async fn start_following(&mut self, run: &str, from: u64, depth: usize) -> Result<(), FollowError> {
        let mut events = self.daemon.follow(run, from);
        let until = match events.newest_seq().await? {
            _ if self.selection.follow => None,
            newest if newest < from => return Ok(()),
            newest => Some(newest),
        };
        self.stories.push(Story { run: run.to_owned(), depth, events, until, delayed: None });
        Ok(())
    }

    /// Returns the next event and the nesting depth of its run. `None` after the last event.
    ///
    /// # Errors
    /// If the events of the first run cannot be read. For a nested run, the error is printed and the other runs
    /// continue.
    pub(super) async fn next(&mut self) -> Result<Option<(RunEvent, usize)>, FollowError> {
        loop {
            let is_due =
                |story: &Story| self.stories.iter().all(|nested| Some(nested.run.as_str()) != story.awaited_run());
            if let Some(index) = self.stories.iter().position(|story| story.delayed.is_some() && is_due(story))
                && let Some(event) = self.stories[index].delayed.take()
            {
                return Ok(Some(self.deliver(index, event).await?));
            }
            if self.stories.is_empty() {
                return Ok(None);
            }
            match self.next_event().await {
                (index, Ok(Some(event))) => {
                    if ends_nested(&event) {
                        self.stories[index].delayed = Some(event);
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

    /// Waits for an event of any run. If several are ready, the run with the highest index comes first.
    async fn next_event(&mut self) -> (usize, Result<Option<RunEvent>, FollowError>) {
        poll_fn(|context| {
            for (index, story) in self.stories.iter_mut().enumerate().rev().filter(|(_, story)| story.delayed.is_none())
            {
                if let Poll::Ready(next) = pin!(story.events.next()).poll(context) {
                    return Poll::Ready((index, next));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Stops or starts following runs as the event requires. Returns the event with the depth of its run.
    async fn deliver(&mut self, index: usize, event: RunEvent) -> Result<(RunEvent, usize), FollowError> {
        let story = &self.stories[index];
        let depth = story.depth;
        if story.until.is_some_and(|until| event.seq >= until) {
            self.stories.remove(index);
        }
        if self.selection.nested && event.event_type == "nested_workflow_started" {
            let child = event.data.get("child_run_id").and_then(Value::as_str).unwrap_or_default();
            match self.start_following(child, 1, depth + 1).await {
                Err(FollowError::Unknown(error)) => print::remark(&format!("run {child} cannot be followed: {error}")),
                started => started?,
            }
        }
        Ok((event, depth))
    }
}

impl Story {
    /// Returns the nested run whose end the delayed event reports.
    fn awaited_run(&self) -> Option<&str> {
        self.delayed.as_ref()?.data.get("child_run_id").and_then(Value::as_str)
    }
}

fn ends_nested(event: &RunEvent) -> bool {
    let end_types = ["nested_workflow_completed", "nested_workflow_failed", "nested_workflow_cancelled"];
    end_types.contains(&event.event_type.as_str())
}
