//! What a connection has under way, bounded so that a client which sends and does not read costs little memory.
//!
//! Answers that wait to be written are what grows: each can have megabytes. So a command begins, and the next one is read, only
//! while few answers wait. Commands that wait themselves (for output, for a run) hold nothing but their place.

use tokio::sync::watch;

/// Answers and events that may wait to be written before nothing else is begun.
const MOST_UNWRITTEN: usize = 64;

/// Commands that may be under way before no more are read.
const MOST_COMMANDS: usize = 4096;

#[derive(Debug, Clone, Copy, Default)]
struct Load {
    unwritten: usize,
    commands: usize,
}

/// The load of one connection.
#[derive(Debug, Clone)]
pub(crate) struct Backlog {
    load: watch::Sender<Load>,
}

/// A place in a backlog, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    load: watch::Sender<Load>,
    field: fn(&mut Load) -> &mut usize,
}

impl Backlog {
    pub(crate) fn new() -> Self {
        Self { load: watch::Sender::new(Load::default()) }
    }

    /// Counts an answer that waits to be written.
    pub(crate) fn unwritten(&self) -> Place {
        self.place(|load| &mut load.unwritten)
    }

    /// Counts a command.
    pub(crate) fn command(&self) -> Place {
        self.place(|load| &mut load.commands)
    }

    /// Waits until a command may begin.
    pub(crate) async fn may_begin(&self) {
        self.reaches(|load| load.unwritten < MOST_UNWRITTEN).await;
    }

    /// Waits until another command may be read.
    pub(crate) async fn may_read(&self) {
        self.reaches(|load| load.unwritten < MOST_UNWRITTEN && load.commands < MOST_COMMANDS).await;
    }

    fn place(&self, field: fn(&mut Load) -> &mut usize) -> Place {
        self.load.send_modify(|load| *field(load) += 1);
        Place { load: self.load.clone(), field }
    }

    async fn reaches(&self, is_low: impl Fn(&Load) -> bool) {
        // The sender is this one, so it is never gone.
        let _ = self.load.subscribe().wait_for(|load| is_low(load)).await;
    }
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
    async fn nothing_begins_while_many_answers_wait() {
        let backlog = Backlog::new();
        let mut answers: Vec<Place> = (0..MOST_UNWRITTEN).map(|_| backlog.unwritten()).collect();
        assert!(!is_at_once(backlog.may_begin()).await && !is_at_once(backlog.may_read()).await);
        answers.pop();
        assert!(is_at_once(backlog.may_begin()).await && is_at_once(backlog.may_read()).await);
    }

    #[tokio::test]
    async fn waiting_commands_hold_up_reading_only_and_only_when_they_are_very_many() {
        let backlog = Backlog::new();
        let mut commands: Vec<Place> = (0..MOST_COMMANDS).map(|_| backlog.command()).collect();
        assert!(!is_at_once(backlog.may_read()).await && is_at_once(backlog.may_begin()).await);
        commands.pop();
        assert!(is_at_once(backlog.may_read()).await);
    }
}
