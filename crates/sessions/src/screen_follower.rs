//! Versions of a terminal's screen, received from its host or by polling.

use std::time::Duration;

use steplatch_host::{AskError, HostedTerminal, Refusal};
use steplatch_terminal::{Picture, ScreenUpdate};
use tokio::time::sleep;

/// Interval between reads of the screen on a host that does not report changes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Kind of the query to a host. If a host of an older version refuses one, the next kind is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScreenQuery {
    /// The rows that have changed.
    Rows,
    /// The whole screen, once it has changed.
    FullScreen,
    /// The current screen.
    Poll,
}

/// The versions of a screen, one after another.
#[derive(Debug)]
pub(crate) struct ScreenFollower {
    terminal: HostedTerminal,
    interval: Duration,
    query: ScreenQuery,
    /// The last version.
    known: Option<u64>,
    /// Content of that version, for a host that sends only its changes.
    picture: Option<Picture>,
}

impl ScreenFollower {
    /// Follows the screen of a terminal. Polls a host without screen notifications in this interval, or a longer one.
    pub(crate) fn new(terminal: HostedTerminal, interval: Duration) -> Self {
        Self { terminal, interval, query: ScreenQuery::Rows, known: None, picture: None }
    }

    /// Returns the last version.
    pub(crate) fn known(&self) -> Option<u64> {
        self.known
    }

    /// Waits for a version other than the last one. Returns the first version at once.
    ///
    /// # Errors
    /// If there is no such terminal, or it closes in the meantime.
    pub(crate) async fn next(&mut self) -> Result<ScreenUpdate, AskError> {
        loop {
            let asked = match self.query {
                ScreenQuery::Rows => self.next_rows().await,
                ScreenQuery::FullScreen => self.terminal.watch_screen(self.known).await.map(Some),
                ScreenQuery::Poll => self.poll().await.map(Some),
            };
            match asked {
                Ok(Some(update)) => {
                    self.known = Some(update.version);
                    return Ok(update);
                }
                Ok(None) if self.known.is_none() => {
                    return Err(AskError::Garbled("it sent rows of a screen that was not sent".to_owned()));
                }
                // The next request is for the whole screen.
                Ok(None) => self.known = None,
                Err(AskError::Refused(Refusal::NotUnderstood)) if self.query != ScreenQuery::Poll => {
                    self.query =
                        if self.query == ScreenQuery::Rows { ScreenQuery::FullScreen } else { ScreenQuery::Poll };
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns `None` if the received rows do not match the known screen.
    async fn next_rows(&mut self) -> Result<Option<ScreenUpdate>, AskError> {
        let delta = self.terminal.watch_rows(self.known).await?;
        let update = delta.onto(self.picture.take());
        self.picture = update.as_ref().map(|update| update.picture.clone());
        Ok(update)
    }

    async fn poll(&self) -> Result<ScreenUpdate, AskError> {
        if self.known.is_some() {
            sleep(POLL_INTERVAL.max(self.interval)).await;
        }
        let (picture, view) = (self.terminal.picture().await?, self.terminal.view(false).await?);
        Ok(ScreenUpdate {
            version: self.known.map_or(0, |known| known.wrapping_add(1)),
            picture,
            modes: view.modes,
            title: view.title,
            exit: view.exit,
        })
    }
}
