//! The commands in progress of one connection. Their number is limited, so that a client that sends without reading
//! does not exhaust the memory.
//!
//! A queued reply can take megabytes. So a look-up takes one of a few turns and keeps it until its reply is written,
//! and the connection reads the next command only while few replies are queued. Commands that wait (for output, for a
//! run) are only counted.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use steplatch_protocol::Command;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Maximum number of unwritten replies and events before reading stops.
const MAX_UNWRITTEN: usize = 64;

/// Maximum number of look-ups in progress, including look-ups with unwritten replies.
const MAX_LOOKUPS: usize = 16;

/// Maximum number of commands in progress before reading stops.
const MAX_COMMANDS: usize = 4096;

#[derive(Debug, Clone, Copy, Default)]
struct Load {
    unwritten: usize,
    commands: usize,
}

/// The load of one connection.
#[derive(Debug, Clone)]
pub struct Backlog {
    load: watch::Sender<Load>,
    lookups: Arc<Semaphore>,
}

/// A counted reply or command. Dropping this value ends the counting.
#[derive(Debug)]
pub struct Place {
    load: watch::Sender<Load>,
    field: fn(&mut Load) -> &mut usize,
}

impl Backlog {
    pub(crate) fn new() -> Self {
        Self { load: watch::Sender::new(Load::default()), lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }

    /// Counts an unwritten reply.
    pub(crate) fn count_unwritten(&self) -> Place {
        self.place(|load| &mut load.unwritten)
    }

    /// Counts a command.
    pub fn count_command(&self) -> Place {
        self.place(|load| &mut load.commands)
    }

    /// Waits for the turn of a look-up. The look-up keeps the turn until its reply is written. Returns `None` for other
    /// commands.
    #[boxed]
    pub async fn wait_for_turn(&self, command: &Command) -> Option<OwnedSemaphorePermit> {
        match is_lookup(command) {
            // The semaphore is never closed.
            true => self.lookups.clone().acquire_owned().await.ok(),
            false => None,
        }
    }

    /// Waits until the connection may read another command.
    #[boxed]
    pub async fn wait_until_readable(&self) {
        self.wait_until(|load| load.unwritten < MAX_UNWRITTEN && load.commands < MAX_COMMANDS).await;
    }

    fn place(&self, field: fn(&mut Load) -> &mut usize) -> Place {
        self.load.send_modify(|load| *field(load) += 1);
        Place { load: self.load.clone(), field }
    }

    async fn wait_until(&self, is_satisfied: impl Fn(&Load) -> bool) {
        // `wait_for` cannot fail: `self` owns the sender.
        let _ = self.load.subscribe().wait_for(|load| is_satisfied(load)).await;
    }
}

/// Returns whether a command has an immediate reply. The reply may be long.
fn is_lookup(command: &Command) -> bool {
    matches!(
        command,
        Command::DaemonStatus(_)
            | Command::GetMetrics(_)
            | Command::GetScreenContent(_)
            | Command::ListTerminalSessions(_)
            | Command::GetGate(_)
            | Command::GetWorkflowRun(_)
            | Command::ListWorkflowRuns(_)
            | Command::GetApprover(_)
            | Command::GetWorkflowSchema(_)
            | Command::ListWorkflows(_)
            | Command::DescribeWorkflow(_)
            | Command::ListNodes(_)
            | Command::DescribeNode(_)
            | Command::ListGraphs(_)
            | Command::ListTools(_)
            | Command::ListRemoteWorkflows(_)
    )
}

impl Drop for Place {
    fn drop(&mut self) {
        self.load.send_modify(|load| *(self.field)(load) -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn is_at_once(wait: impl Future<Output = ()>) -> bool {
        tokio::time::timeout(Duration::ZERO, wait).await.is_ok()
    }

    #[tokio::test]
    async fn lookup_holds_its_turn_until_its_reply_is_written() {
        let backlog = Backlog::new();
        let lists = Command::ListWorkflows(steplatch_protocol::ListWorkflows::default());
        let mut turns = Vec::new();
        for _ in 0..MAX_LOOKUPS {
            turns.push(backlog.wait_for_turn(&lists).await);
        }
        assert!(!is_at_once(async { drop(backlog.wait_for_turn(&lists).await) }).await);
        let waiting = Command::AwaitOutput(steplatch_protocol::AwaitOutput::default());
        assert!(
            is_at_once(async { drop(backlog.wait_for_turn(&waiting).await) }).await,
            "a waiting look-up holds no turn"
        );
        turns.pop();
        assert!(is_at_once(async { drop(backlog.wait_for_turn(&lists).await) }).await);
    }

    #[tokio::test]
    async fn reading_stops_while_too_many_replies_are_unwritten() {
        let backlog = Backlog::new();
        let mut answers: Vec<Place> = (0..MAX_UNWRITTEN).map(|_| backlog.count_unwritten()).collect();
        assert!(!is_at_once(backlog.wait_until_readable()).await);
        answers.pop();
        assert!(is_at_once(backlog.wait_until_readable()).await);
        let mut commands: Vec<Place> = (0..MAX_COMMANDS).map(|_| backlog.count_command()).collect();
        assert!(!is_at_once(backlog.wait_until_readable()).await);
        commands.pop();
        assert!(is_at_once(backlog.wait_until_readable()).await);
    }
}
