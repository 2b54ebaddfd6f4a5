//! The events of a run, and of the runs below it, in an order in which they can be read.
//!
//! Each run is followed by itself, over as many daemons as it takes. What a run tells
//! of the end of one below it waits until that one has told its own.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use serde_json::Value;
use steplatch_protocol::{FollowError, Follower, RunEvent, Steady};

use crate::print;

/// Runs that are followed, the upper ones first.
pub(super) struct Stories {
    daemon: Steady,
    wanted: Wanted,
    stories: Vec<Story>,
}

/// How far events are told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// Also what happens from now on, until the run is over.
    pub(super) follow: bool,
    /// Also those of the runs that it starts.
    pub(super) nested: bool,
}

/// One run that is followed.
struct Story {
    run: String,
    depth: usize,
    events: Follower,
    /// Number of the last event that is wanted; without one, they are wanted until the run is over.
    until: Option<u64>,
    /// The end of a run below this one, which is told once that one has told it.
    held: Option<RunEvent>,
}

impl Stories {
    /// Follows `run` from its event number `from` on.
    ///
    /// # Errors
    /// When nobody knows the run, or no daemon can be reached.
    pub(super) async fn of(daemon: Steady, run: &str, from: u64, wanted: Wanted) -> Result<Self, FollowError> {
        let mut stories = Self { daemon, wanted, stories: Vec::new() };
        stories.begin(run, from, 0).await?;
        Ok(stories)
    }

    async fn begin(&mut self, run: &str, from: u64, depth: usize) -> Result<(), FollowError> {
        let mut events = self.daemon.follow(run, from);
        let until = match events.newest_seq().await? {
            _ if self.wanted.follow => None,
            newest if newest < from => return Ok(()),
            newest => Some(newest),
        };
        self.stories.push(Story { run: run.to_owned(), depth, events, until, held: None });
        Ok(())
    }

    /// Returns the next event, with how many runs it is below the first one; `None` once all that was wanted is told.
    ///
    /// # Errors
    /// When the first run can not be followed any further. Of one below it that is said, and the rest goes on.
    pub(super) async fn next(&mut self) -> Result<Option<(RunEvent, usize)>, FollowError> {
        loop {
            let told = |story: &Story| self.stories.iter().all(|below| Some(below.run.as_str()) != story.awaits());
            if let Some(at) = self.stories.iter().position(|story| story.held.is_some() && told(story))
                && let Some(event) = self.stories[at].held.take()
            {
                return Ok(Some(self.pass(at, event).await?));
            }
            if self.stories.is_empty() {
                return Ok(None);
            }
            match self.any().await {
                (at, Ok(Some(event))) => {
                    if ends_nested(&event) {
                        self.stories[at].held = Some(event);
                    } else {
                        return Ok(Some(self.pass(at, event).await?));
                    }
                }
                (at, Ok(None)) => drop(self.stories.remove(at)),
                (at, Err(error)) if self.stories[at].depth == 0 => return Err(error),
                (at, Err(error)) => {
                    let story = self.stories.remove(at);
                    print::note(&format!("run {} can not be followed: {error}", story.run));
                }
            }
        }
    }

    /// Waits for an event of any run, the lowest first.
    async fn any(&mut self) -> (usize, Result<Option<RunEvent>, FollowError>) {
        poll_fn(|context| {
            for (at, story) in self.stories.iter_mut().enumerate().rev().filter(|(_, story)| story.held.is_none()) {
                if let Poll::Ready(next) = pin!(story.events.next()).poll(context) {
                    return Poll::Ready((at, next));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Takes note of an event that is about to be told.
    async fn pass(&mut self, at: usize, event: RunEvent) -> Result<(RunEvent, usize), FollowError> {
        let story = &self.stories[at];
        let depth = story.depth;
        if story.until.is_some_and(|until| event.seq >= until) {
            self.stories.remove(at);
        }
        if self.wanted.nested && event.event_type == "nested_workflow_started" {
            let child = event.data.get("child_run_id").and_then(Value::as_str).unwrap_or_default();
            match self.begin(child, 1, depth + 1).await {
                Err(FollowError::Unknown(error)) => print::note(&format!("run {child} can not be followed: {error}")),
                begun => begun?,
            }
        }
        Ok((event, depth))
    }
}

impl Story {
    /// The run whose end this one is about to tell.
    fn awaits(&self) -> Option<&str> {
        self.held.as_ref()?.data.get("child_run_id").and_then(Value::as_str)
    }
}

fn ends_nested(event: &RunEvent) -> bool {
    let ends = ["nested_workflow_completed", "nested_workflow_failed", "nested_workflow_cancelled"];
    ends.contains(&event.event_type.as_str())
}
