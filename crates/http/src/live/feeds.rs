//! The screens that tabs watch, each received from the daemon once.
//!
//! A feed keeps the rows of one screen, with the versions of their last changes. A viewer has a version and receives
//! the newer rows. A feed ends with its last viewer, and subscribes again to each new daemon.
//!
//! If there are many tabs, they are woken in groups, so that the requests of agents to this process do not wait for all
//! tabs. A tab that types is in the first group.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::extract::ws::Utf8Bytes;
use parking_lot::Mutex;
use steplatch_protocol::{ReconnectingClient, ScreenChange, ScreenEvent, ScreenRow, ScreenState, WatchScreen};
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::message::{Frame, Rate, ToTab};

/// Minimum time between two changes of a large screen.
const MIN_SCREEN_INTERVAL: Duration = Duration::from_millis(15);

/// Minimum time between two frames of a small screen.
pub(super) const THUMB_INTERVAL: Duration = Duration::from_millis(500);

/// Minimum number of tabs per group.
const MIN_GROUP_TABS: usize = 4;

/// Maximum number of groups.
const MAX_GROUPS: usize = 12;

/// Delay between two groups.
const GROUP_INTERVAL: Duration = Duration::from_millis(1);

/// Delay before the second group. An agent often waits for the same change, and its request may use the processors
/// first. The delay is shorter than a frame, so people do not notice it.
const SECOND_GROUP_DELAY: Duration = Duration::from_millis(10);

/// Pause between two attempts to reach the daemon.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// All feeds.
#[derive(Debug)]
pub(super) struct Feeds {
    daemon: ReconnectingClient,
    feeds: Mutex<HashMap<String, Weak<Feed>>>,
}

/// The screen of one terminal.
#[derive(Debug)]
pub(super) struct Feed {
    terminal: String,
    screen: Mutex<FeedScreen>,
    /// Tabs that a change wakes, in this order.
    tabs: Mutex<Vec<Weak<Notify>>>,
    /// True while a task wakes the tabs group by group.
    is_waking: AtomicBool,
    /// True if the screen has changed since that task began to wake the groups.
    is_due_again: AtomicBool,
    /// Number of viewers that show the screen large.
    live_viewers: watch::Sender<usize>,
    _cancel_on_drop: DropGuard,
}

/// Screen content that a feed has received.
#[derive(Debug, Default)]
struct FeedScreen {
    version: u64,
    /// Version of the last change of size; older viewers need all rows.
    resized_at: u64,
    cols: u16,
    rows: Vec<(u64, ScreenRow)>,
    state: ScreenState,
    /// Encoded frames from earlier versions to this one, shared by tabs at the same version.
    encoded_frames: Vec<(u64, Utf8Bytes)>,
    end: Option<FeedEnd>,
}

/// End of a screen.
#[derive(Debug, Clone)]
struct FeedEnd {
    error: Option<String>,
}

/// Maximum number of encoded frames.
const MAX_ENCODED_FRAMES: usize = 4;

/// Update for a viewer at a version.
#[derive(Debug)]
pub(super) enum ViewerUpdate {
    None,
    /// The viewer's new version, and the message with the frame.
    Frame(u64, Utf8Bytes),
    /// The screen has ended, possibly with an error.
    Ended(Option<String>),
}

/// Registration of a tab at a feed. A tab has at most one registration for each feed.
#[derive(Debug)]
pub(super) struct Viewer {
    feed: Arc<Feed>,
    rate: Rate,
    tab: Arc<Notify>,
}

impl Viewer {
    /// Changes the tab's rate of receiving the screen.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        if self.rate != rate {
            self.feed.add_live_viewers(rate, 1);
            self.feed.add_live_viewers(self.rate, -1);
            self.rate = rate;
        }
    }

    /// Moves a typing tab to the front of the waking order.
    pub(super) fn put_first(&self) {
        let mut tabs = self.feed.tabs.lock();
        if let Some(index) = tabs.iter().position(|tab| self.is_own_tab(tab)) {
            tabs[..=index].rotate_right(1);
        }
    }

    fn is_own_tab(&self, tab: &Weak<Notify>) -> bool {
        std::ptr::eq(tab.as_ptr(), Arc::as_ptr(&self.tab))
    }

    /// Returns the update of a viewer at version `since`.
    pub(super) fn update_since(&self, since: u64) -> ViewerUpdate {
        self.feed.screen.lock().update_since(&self.feed.terminal, since)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.feed.tabs.lock().retain(|tab| !self.is_own_tab(tab));
        self.feed.add_live_viewers(self.rate, -1);
    }
}

impl Feeds {
    pub(super) fn new(daemon: ReconnectingClient) -> Arc<Self> {
        Arc::new(Self { daemon, feeds: Mutex::default() })
    }

    /// Watches a terminal for a tab. Wakes the tab with `tab` after each change.
    pub(super) fn watch(self: &Arc<Self>, terminal: &str, rate: Rate, tab: &Arc<Notify>) -> Viewer {
        let mut feeds = self.feeds.lock();
        feeds.retain(|_, feed| feed.strong_count() > 0);
        let feed = match feeds.get(terminal).and_then(Weak::upgrade).filter(|feed| !feed.has_ended()) {
            Some(feed) => feed,
            None => {
                let cancelled = CancellationToken::new();
                let feed = Arc::new(Feed {
                    terminal: terminal.to_owned(),
                    screen: Mutex::default(),
                    tabs: Mutex::default(),
                    is_waking: AtomicBool::new(false),
                    is_due_again: AtomicBool::new(false),
                    live_viewers: watch::Sender::new(0),
                    _cancel_on_drop: cancelled.clone().drop_guard(),
                });
                feeds.insert(terminal.to_owned(), Arc::downgrade(&feed));
                let receive_task = receive(self.daemon.clone(), Arc::downgrade(&feed), feed.live_viewers.subscribe());
                tokio::spawn(async move {
                    tokio::select! {
                        () = cancelled.cancelled() => {}
                        () = receive_task => {}
                    }
                });
                feed
            }
        };
        feed.tabs.lock().push(Arc::downgrade(tab));
        feed.add_live_viewers(rate, 1);
        Viewer { feed, rate, tab: tab.clone() }
    }
}

impl Feed {
    fn add_live_viewers(&self, rate: Rate, change: isize) {
        if rate == Rate::Live {
            self.live_viewers.send_modify(|count| *count = count.saturating_add_signed(change));
        }
    }

    fn has_ended(&self) -> bool {
        self.screen.lock().end.is_some()
    }

    /// Wakes the first group now, and the other groups soon.
    fn wake(self: &Arc<Self>) {
        let tabs = self.groups();
        let mut groups = tabs.iter();
        groups.next().into_iter().flatten().for_each(|tab| tab.notify_one());
        if groups.len() == 0 {
            return;
        }
        self.is_due_again.store(true, Ordering::Release);
        if self.is_waking.swap(true, Ordering::AcqRel) {
            return;
        }
        let feed = Arc::downgrade(self);
        tokio::spawn(async move {
            while let Some(groups) = feed.upgrade().and_then(|feed| feed.next_round()) {
                for (group, delay) in groups.into_iter().skip(1).zip(group_delays()) {
                    tokio::time::sleep(delay).await;
                    group.iter().for_each(|tab| tab.notify_one());
                }
            }
        });
    }

    /// Returns the groups to wake for changes since the last round; `None` if there was no change.
    fn next_round(&self) -> Option<Vec<Vec<Arc<Notify>>>> {
        loop {
            if self.is_due_again.swap(false, Ordering::AcqRel) {
                return Some(self.groups());
            }
            self.is_waking.store(false, Ordering::Release);
            // The screen may have changed in the meantime.
            if !self.is_due_again.load(Ordering::Acquire) || self.is_waking.swap(true, Ordering::AcqRel) {
                return None;
            }
        }
    }

    /// Returns the open tabs, in groups.
    fn groups(&self) -> Vec<Vec<Arc<Notify>>> {
        let mut tabs = self.tabs.lock();
        tabs.retain(|tab| tab.strong_count() > 0);
        let group_size = MIN_GROUP_TABS.max(tabs.len().div_ceil(MAX_GROUPS));
        tabs.chunks(group_size).map(|group| group.iter().filter_map(Weak::upgrade).collect()).collect()
    }

    fn apply_change(self: &Arc<Self>, change: ScreenChange) {
        self.screen.lock().apply_change(change);
        self.wake();
    }

    fn end(self: &Arc<Self>, error: Option<String>) {
        self.screen.lock().end = Some(FeedEnd { error });
        self.wake();
    }
}

/// Returns the delays before the second group and each later one.
fn group_delays() -> impl Iterator<Item = Duration> {
    std::iter::once(SECOND_GROUP_DELAY).chain(std::iter::repeat(GROUP_INTERVAL))
}

/// Receives a screen until the terminal closes or the feed has no viewer.
async fn receive(daemon: ReconnectingClient, feed: Weak<Feed>, mut live_viewers: watch::Receiver<usize>) {
    let Some(terminal) = feed.upgrade().map(|feed| feed.terminal.clone()) else { return };
    loop {
        let is_live = *live_viewers.borrow_and_update() > 0;
        let interval = if is_live { MIN_SCREEN_INTERVAL } else { THUMB_INTERVAL };
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        let Ok(client) = daemon.running().await else {
            tokio::time::sleep(RETRY_PAUSE).await;
            continue;
        };
        let Ok((reply, mut events)) = client.subscribe(WatchScreen { session_id: terminal.clone(), interval_ms }).await
        else {
            tokio::time::sleep(RETRY_PAUSE).await;
            continue;
        };
        if !reply.success {
            if let Some(feed) = feed.upgrade() {
                feed.end(reply.error);
            }
            return;
        }
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                changed = live_viewers.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    if (*live_viewers.borrow_and_update() > 0) != is_live {
                        break;
                    }
                    continue;
                }
            };
            // The stream ends with the daemon. Subscribe to the next one.
            let Some(event) = event else { break };
            let Some(feed) = feed.upgrade() else { return };
            match serde_json::from_value(event) {
                Ok(ScreenEvent::ScreenChanged(change)) => feed.apply_change(*change),
                Ok(ScreenEvent::ScreenClosed) => return feed.end(None),
                Err(error) => tracing::warn!(%error, "dropped an unreadable event of a screen"),
            }
        }
    }
}

impl FeedScreen {
    fn apply_change(&mut self, change: ScreenChange) {
        let ScreenChange { cols, rows, changed, state, .. } = change;
        self.version += 1;
        self.encoded_frames.clear();
        if cols != self.cols || usize::from(rows) != self.rows.len() {
            self.cols = cols;
            self.resized_at = self.version;
            self.rows = (0..rows).map(|row| (self.version, ScreenRow { row, ..ScreenRow::default() })).collect();
        }
        for row in changed {
            // Each daemon sends the whole screen again. Unchanged rows keep their version.
            if let Some(current) = self.rows.get_mut(usize::from(row.row)).filter(|(_, current)| *current != row) {
                *current = (self.version, row);
            }
        }
        self.state = state;
    }

    fn update_since(&mut self, terminal: &str, since: u64) -> ViewerUpdate {
        if let Some(end) = &self.end {
            return ViewerUpdate::Ended(end.error.clone());
        }
        if self.version <= since {
            return ViewerUpdate::None;
        }
        if let Some((_, encoded)) = self.encoded_frames.iter().find(|(from, _)| *from == since) {
            return ViewerUpdate::Frame(self.version, encoded.clone());
        }
        let encoded = Utf8Bytes::from(ToTab::Screen(self.frame_since(terminal, since)).to_text());
        self.encoded_frames.truncate(MAX_ENCODED_FRAMES - 1);
        self.encoded_frames.insert(0, (since, encoded.clone()));
        ViewerUpdate::Frame(self.version, encoded)
    }

    fn frame_since(&self, terminal: &str, since: u64) -> Frame {
        let is_whole = since < self.resized_at;
        let changed = self.rows.iter().filter(|(version, _)| is_whole || *version > since);
        Frame {
            terminal: terminal.to_owned(),
            version: self.version,
            cols: self.cols,
            rows: u16::try_from(self.rows.len()).unwrap_or(u16::MAX),
            whole: is_whole,
            changed: changed.map(|(_, row)| row.clone()).collect(),
            state: self.state.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use steplatch_protocol::ScreenRun;

    use super::*;

    fn row(row: u16, text: &str) -> ScreenRow {
        let cols = u16::try_from(text.len()).unwrap();
        ScreenRow { row, runs: vec![ScreenRun(0, cols, text.to_owned(), String::new())], links: Vec::new() }
    }

    fn change(changed: Vec<ScreenRow>) -> ScreenChange {
        ScreenChange { cols: 80, rows: 3, whole: false, changed, state: ScreenState::default() }
    }

    fn frame(screen: &FeedScreen, since: u64) -> (u64, bool, Vec<u16>) {
        let frame = screen.frame_since("term", since);
        (frame.version, frame.whole, frame.changed.iter().map(|row| row.row).collect())
    }

    #[test]
    fn viewer_receives_rows_newer_than_its_version() {
        let mut screen = FeedScreen::default();
        assert!(matches!(screen.update_since("term", 0), ViewerUpdate::None));
        screen.apply_change(change(vec![row(0, "a"), row(1, "b")]));
        assert_eq!(frame(&screen, 0), (1, true, vec![0, 1, 2]));
        screen.apply_change(change(vec![row(1, "c")]));
        screen.apply_change(change(vec![row(2, "d")]));
        assert_eq!(frame(&screen, 1), (3, false, vec![1, 2]));
        assert_eq!(frame(&screen, 2), (3, false, vec![2]));
        assert!(matches!(screen.update_since("term", 3), ViewerUpdate::None));
        // The next daemon sends all rows; an equal row is not a change.
        screen.apply_change(ScreenChange { whole: true, ..change(vec![row(0, "a"), row(1, "c"), row(2, "e")]) });
        assert_eq!(frame(&screen, 3), (4, false, vec![2]));
        screen.apply_change(ScreenChange { rows: 4, whole: true, ..change(vec![row(0, "a")]) });
        assert_eq!(frame(&screen, 4), (5, true, vec![0, 1, 2, 3]));
    }

    #[tokio::test(start_paused = true)]
    async fn tabs_are_woken_in_groups_and_the_typing_tab_first() {
        let feed = Arc::new(Feed {
            terminal: "term".to_owned(),
            screen: Mutex::default(),
            tabs: Mutex::default(),
            is_waking: AtomicBool::new(false),
            is_due_again: AtomicBool::new(false),
            live_viewers: watch::Sender::new(0),
            _cancel_on_drop: CancellationToken::new().drop_guard(),
        });
        let tabs: Vec<_> = (0..50).map(|_| Arc::new(Notify::new())).collect();
        feed.tabs.lock().extend(tabs.iter().map(Arc::downgrade));
        let viewer = Viewer { feed: feed.clone(), rate: Rate::Live, tab: tabs[37].clone() };
        viewer.put_first();
        assert!(feed.groups().len() <= MAX_GROUPS && feed.groups().iter().all(|group| group.len() <= 5));
        let is_woken = |tab: &Arc<Notify>| tokio::time::timeout(Duration::ZERO, tab.clone().notified_owned());
        for _ in 0..3 {
            feed.apply_change(change(vec![row(0, "a")]));
            assert!(
                is_woken(&tabs[37]).await.is_ok() && is_woken(&tabs[0]).await.is_ok(),
                "the first group is woken at once"
            );
            // A change in the meantime wakes all tabs once more.
            feed.apply_change(change(vec![row(0, "b")]));
            for tab in &tabs {
                tokio::time::timeout(Duration::from_secs(1), tab.notified()).await.expect("each tab is woken");
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            for tab in &tabs {
                let _ = is_woken(tab).await;
            }
            assert!(!feed.is_waking.load(Ordering::Acquire), "all groups were woken");
        }
        drop(viewer);
        assert_eq!(feed.tabs.lock().len(), 49, "a closed tab is removed");
        drop(tabs);
        feed.apply_change(change(vec![row(0, "c")]));
        assert!(feed.tabs.lock().is_empty());
    }

    #[test]
    fn frame_is_encoded_once_for_tabs_at_the_same_version() {
        let mut screen = FeedScreen::default();
        for (number, text) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
            screen.apply_change(change(vec![row(0, text)]));
            let encoded_frame = |screen: &mut FeedScreen, since| match screen.update_since("term", since) {
                ViewerUpdate::Frame(version, encoded) => (version, encoded),
                update => panic!("{update:?}"),
            };
            let since = number as u64;
            let (version, encoded) = encoded_frame(&mut screen, since);
            assert_eq!((version, encoded_frame(&mut screen, since).1.as_ptr()), (since + 1, encoded.as_ptr()));
            assert!(encoded.contains(&format!("\"{text}\"")), "{encoded}");
            // Slow tabs receive separate frames. Only a few of these are kept.
            for slow_version in 0..since {
                encoded_frame(&mut screen, slow_version);
            }
            assert!(screen.encoded_frames.len() <= MAX_ENCODED_FRAMES);
        }
        assert!(matches!(screen.update_since("term", 6), ViewerUpdate::None));
    }
}
