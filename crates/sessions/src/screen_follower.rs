//! Versions of a terminal's screen, received from its host or by polling.

use std::time::Duration;

use steplatch_host::{AskError, HostedTerminal, Refusal};
use steplatch_terminal::{Picture, ScreenUpdate};
use tokio::time::sleep;

/// Interval between reads of the screen on a host that does not report changes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Kind of the query to a host. If a host of an older version refuses a kind, the next kind is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScreenQuery {
    /// Request the rows that have changed.
    Rows,
    /// Request the whole screen once it has changed.
    FullScreen,
    /// Request the current screen at intervals.
    Poll,
}

/// The versions of a screen, one after another.
#[derive(Debug)]
pub(crate) struct ScreenFollower {
    terminal: HostedTerminal,
    interval: Duration,
    query: ScreenQuery,
    /// The last version.
    known_version: Option<u64>,
    /// Content of that version, the base of changed rows.
    picture: Option<Picture>,
}

impl ScreenFollower {
    /// Returns a follower of a terminal's screen. If the host has no screen notifications, polls at least `interval`
    /// apart.
    pub(crate) fn new(terminal: HostedTerminal, interval: Duration) -> Self {
        Self { terminal, interval, query: ScreenQuery::Rows, known_version: None, picture: None }
    }

    /// Returns the last version.
    pub(crate) fn known(&self) -> Option<u64> {
        self.known_version
    }

    /// Waits for a version other than the last one. Returns the first version immediately.
    ///
    /// # Errors
    /// If there is no such terminal, or it closes in the meantime.
    pub(crate) async fn next(&mut self) -> Result<ScreenUpdate, AskError> {
        loop {
            let result = match self.query {
                ScreenQuery::Rows => self.next_rows().await,
                ScreenQuery::FullScreen => self.terminal.watch_screen(self.known_version).await.map(Some),
                ScreenQuery::Poll => self.poll().await.map(Some),
            };
            match result {
                Ok(Some(update)) => {
                    self.known_version = Some(update.version);
                    return Ok(update);
                }
                Ok(None) if self.known_version.is_none() => {
                    return Err(AskError::Garbled("it sent rows of a screen that was not sent".to_owned()));
                }
                // Request the whole screen next.
                Ok(None) => self.known_version = None,
                Err(AskError::Refused(Refusal::NotUnderstood)) if self.query != ScreenQuery::Poll => {
                    self.query =
                        if self.query == ScreenQuery::Rows { ScreenQuery::FullScreen } else { ScreenQuery::Poll };
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the next version from its changed rows; `None` if the rows do not fit the known screen.
    async fn next_rows(&mut self) -> Result<Option<ScreenUpdate>, AskError> {
        let delta = self.terminal.watch_rows(self.known_version).await?;
        let update = delta.onto(self.picture.take());
        self.picture = update.as_ref().map(|update| update.picture.clone());
        Ok(update)
    }

    async fn poll(&self) -> Result<ScreenUpdate, AskError> {
        if self.known_version.is_some() {
            sleep(POLL_INTERVAL.max(self.interval)).await;
        }
        let (picture, view) = (self.terminal.picture().await?, self.terminal.view(false).await?);
        Ok(ScreenUpdate {
            version: self.known_version.map_or(0, |known| known.wrapping_add(1)),
            picture,
            modes: view.modes,
            title: view.title,
            exit: view.exit,
        })
    }
}
