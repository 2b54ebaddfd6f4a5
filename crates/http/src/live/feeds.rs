//! The screens that tabs watch, each received from the daemon once.
//!
//! A feed has the rows of one screen with the version at which each changed. A viewer is a version: it receives the rows
//! that are newer. A feed ends with its last viewer, and begins anew with each daemon.
//!
//! Many tabs are woken one group after the other, so that the requests of agents, which this process answers as well, do not wait for
//! all of them. A tab that types is in the first group.

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

/// Minimum intervals between changes of a screen: large in a tab, and small in all tabs.
const MIN_SCREEN_INTERVALS: (Duration, Duration) = (Duration::from_millis(15), THUMB_INTERVAL);

/// Minimum time between two frames of a small screen.
pub(super) const THUMB_INTERVAL: Duration = Duration::from_millis(500);

/// Minimum number of tabs that are woken at once, maximum number of groups, and the time between two groups.
const MIN_GROUP_TABS: usize = 4;
const MAX_GROUPS: usize = 12;
const BETWEEN_GROUPS: Duration = Duration::from_millis(1);

/// The time before the second group. What an agent waits for comes with the change; the processors are its own until then, and a
/// person does not see the difference: it is less than a frame.
const BEFORE_OTHERS: Duration = Duration::from_millis(10);

/// The time between two attempts to reach the daemon.
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
    /// Tabs that are woken by a change, in this order.
    tabs: Mutex<Vec<Weak<Notify>>>,
    /// Set while tabs are being woken group by group; the other, if there was a change since.
    is_waking: AtomicBool,
    is_due_again: AtomicBool,
    /// Number of viewers that show it large.
    live: watch::Sender<usize>,
    _ends: DropGuard,
}

/// Screen content that a feed has received.
#[derive(Debug, Default)]
struct FeedScreen {
    version: u64,
    /// The version at which the size changed: older viewers need all rows.
    sized: u64,
    cols: u16,
    rows: Vec<(u64, ScreenRow)>,
    state: ScreenState,
    /// The frames from some versions to this one, in their sent form: tabs that keep up share one.
    written: Vec<(u64, Utf8Bytes)>,
    /// Reason for the end of the screen.
    gone: Option<Option<String>>,
}

/// Maximum number of kept written frames.
const MAX_WRITTEN_FRAMES: usize = 4;

/// Update for a viewer at some version.
#[derive(Debug)]
pub(super) enum News {
    None,
    /// The version that the viewer has with this frame, and the message that brings it.
    Frame(u64, Utf8Bytes),
    Gone(Option<String>),
}

/// A tab's place at a feed. A tab has one at most.
#[derive(Debug)]
pub(super) struct Viewer {
    feed: Arc<Feed>,
    rate: Rate,
    tab: Arc<Notify>,
}

impl Viewer {
    /// Changes how often the screen is seen.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        if self.rate != rate {
            self.feed.count(rate, 1);
            self.feed.count(self.rate, -1);
            self.rate = rate;
        }
    }

    /// Has the tab woken before others, since it types.
    pub(super) fn put_first(&self) {
        let mut tabs = self.feed.tabs.lock();
        if let Some(place) = tabs.iter().position(|known| self.is_of(known)) {
            tabs[..=place].rotate_right(1);
        }
    }

    fn is_of(&self, tab: &Weak<Notify>) -> bool {
        std::ptr::eq(tab.as_ptr(), Arc::as_ptr(&self.tab))
    }

    /// Returns the content newer than `since`.
    pub(super) fn news(&self, since: u64) -> News {
        self.feed.screen.lock().news(&self.feed.terminal, since)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.feed.tabs.lock().retain(|known| !self.is_of(known));
        self.feed.count(self.rate, -1);
    }
}

impl Feeds {
    pub(super) fn new(daemon: ReconnectingClient) -> Arc<Self> {
        Arc::new(Self { daemon, feeds: Mutex::default() })
    }

    /// Watches a terminal for a tab, which is woken by `tab` whenever there is news.
    pub(super) fn watch(self: &Arc<Self>, terminal: &str, rate: Rate, tab: &Arc<Notify>) -> Viewer {
        let mut feeds = self.feeds.lock();
        feeds.retain(|_, feed| feed.strong_count() > 0);
        let feed = match feeds.get(terminal).and_then(Weak::upgrade).filter(|feed| !feed.is_over()) {
            Some(feed) => feed,
            None => {
                let ended = CancellationToken::new();
                let feed = Arc::new(Feed {
                    terminal: terminal.to_owned(),
                    screen: Mutex::default(),
                    tabs: Mutex::default(),
                    is_waking: AtomicBool::new(false),
                    is_due_again: AtomicBool::new(false),
                    live: watch::Sender::new(0),
                    _ends: ended.clone().drop_guard(),
                });
                feeds.insert(terminal.to_owned(), Arc::downgrade(&feed));
                let receiving = receive(self.daemon.clone(), Arc::downgrade(&feed), feed.live.subscribe());
                tokio::spawn(async move {
                    tokio::select! {
                        () = ended.cancelled() => {}
                        () = receiving => {}
                    }
                });
                feed
            }
        };
        feed.tabs.lock().push(Arc::downgrade(tab));
        feed.count(rate, 1);
        Viewer { feed, rate, tab: tab.clone() }
    }
}

impl Feed {
    fn count(&self, rate: Rate, change: isize) {
        if rate == Rate::Live {
            self.live.send_modify(|live| *live = live.saturating_add_signed(change));
        }
    }

    fn is_over(&self) -> bool {
        self.screen.lock().gone.is_some()
    }

    /// Wakes the first tabs now, and the others soon.
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
                for (group, pause) in groups.into_iter().skip(1).zip(pauses()) {
                    tokio::time::sleep(pause).await;
                    group.iter().for_each(|tab| tab.notify_one());
                }
            }
        });
    }

    /// Returns the groups that are woken for changes since the last round; none if there was no change.
    fn next_round(&self) -> Option<Vec<Vec<Arc<Notify>>>> {
        loop {
            if self.is_due_again.swap(false, Ordering::AcqRel) {
                return Some(self.groups());
            }
            self.is_waking.store(false, Ordering::Release);
            // A change may have come since.
            if !self.is_due_again.load(Ordering::Acquire) || self.is_waking.swap(true, Ordering::AcqRel) {
                return None;
            }
        }
    }

    /// Returns the tabs that are there, in groups.
    fn groups(&self) -> Vec<Vec<Arc<Notify>>> {
        let mut tabs = self.tabs.lock();
        tabs.retain(|tab| tab.strong_count() > 0);
        let at_once = MIN_GROUP_TABS.max(tabs.len().div_ceil(MAX_GROUPS));
        tabs.chunks(at_once).map(|group| group.iter().filter_map(Weak::upgrade).collect()).collect()
    }

    fn take(self: &Arc<Self>, change: ScreenChange) {
        self.screen.lock().take(change);
        self.wake();
    }

    fn end(self: &Arc<Self>, reason: Option<String>) {
        self.screen.lock().gone = Some(reason);
        self.wake();
    }
}

/// Returns the times before the second group and each later one.
fn pauses() -> impl Iterator<Item = Duration> {
    std::iter::once(BEFORE_OTHERS).chain(std::iter::repeat(BETWEEN_GROUPS))
}

/// Receives a screen until there is none, or the feed has no viewer.
async fn receive(daemon: ReconnectingClient, feed: Weak<Feed>, mut live: watch::Receiver<usize>) {
    let Some(terminal) = feed.upgrade().map(|feed| feed.terminal.clone()) else { return };
    loop {
        let is_live = *live.borrow_and_update() > 0;
        let interval = if is_live { MIN_SCREEN_INTERVALS.0 } else { MIN_SCREEN_INTERVALS.1 };
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
                changed = live.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    if (*live.borrow_and_update() > 0) != is_live {
                        break;
                    }
                    continue;
                }
            };
            // Without an event the daemon has ended; the next one continues.
            let Some(event) = event else { break };
            let Some(feed) = feed.upgrade() else { return };
            match serde_json::from_value(event) {
                Ok(ScreenEvent::ScreenChanged(change)) => feed.take(*change),
                Ok(ScreenEvent::ScreenClosed) => return feed.end(None),
                Err(error) => tracing::warn!(%error, "an event of a screen cannot be read"),
            }
        }
    }
}

impl FeedScreen {
    fn take(&mut self, change: ScreenChange) {
        let ScreenChange { cols, rows, changed, state, .. } = change;
        self.version += 1;
        self.written.clear();
        if cols != self.cols || usize::from(rows) != self.rows.len() {
            self.cols = cols;
            self.sized = self.version;
            self.rows = (0..rows).map(|row| (self.version, ScreenRow { row, ..ScreenRow::default() })).collect();
        }
        for row in changed {
            // The whole screen comes again from each daemon; the feed does not repeat what a tab has already.
            if let Some(known) = self.rows.get_mut(usize::from(row.row)).filter(|(_, known)| *known != row) {
                *known = (self.version, row);
            }
        }
        self.state = state;
    }

    fn news(&mut self, terminal: &str, since: u64) -> News {
        if let Some(reason) = &self.gone {
            return News::Gone(reason.clone());
        }
        if self.version <= since {
            return News::None;
        }
        if let Some((_, written)) = self.written.iter().find(|(from, _)| *from == since) {
            return News::Frame(self.version, written.clone());
        }
        let written = Utf8Bytes::from(ToTab::Screen(self.frame(terminal, since)).to_text());
        self.written.truncate(MAX_WRITTEN_FRAMES - 1);
        self.written.insert(0, (since, written.clone()));
        News::Frame(self.version, written)
    }

    fn frame(&self, terminal: &str, since: u64) -> Frame {
        let whole = since < self.sized;
        let changed = self.rows.iter().filter(|(version, _)| whole || *version > since);
        Frame {
            terminal: terminal.to_owned(),
            version: self.version,
            cols: self.cols,
            rows: u16::try_from(self.rows.len()).unwrap_or(u16::MAX),
            whole,
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
        let frame = screen.frame("term", since);
        (frame.version, frame.whole, frame.changed.iter().map(|row| row.row).collect())
    }

    #[test]
    fn a_viewer_is_a_version_and_receives_what_is_newer() {
        let mut screen = FeedScreen::default();
        assert!(matches!(screen.news("term", 0), News::None));
        screen.take(change(vec![row(0, "a"), row(1, "b")]));
        assert_eq!(frame(&screen, 0), (1, true, vec![0, 1, 2]));
        screen.take(change(vec![row(1, "c")]));
        screen.take(change(vec![row(2, "d")]));
        assert_eq!(frame(&screen, 1), (3, false, vec![1, 2]));
        assert_eq!(frame(&screen, 2), (3, false, vec![2]));
        assert!(matches!(screen.news("term", 3), News::None));
        // The next daemon sends everything; an equal row is not news.
        screen.take(ScreenChange { whole: true, ..change(vec![row(0, "a"), row(1, "c"), row(2, "e")]) });
        assert_eq!(frame(&screen, 3), (4, false, vec![2]));
        screen.take(ScreenChange { rows: 4, whole: true, ..change(vec![row(0, "a")]) });
        assert_eq!(frame(&screen, 4), (5, true, vec![0, 1, 2, 3]));
    }

    #[tokio::test(start_paused = true)]
    async fn all_tabs_are_woken_in_groups_and_one_that_types_first() {
        let feed = Arc::new(Feed {
            terminal: "term".to_owned(),
            screen: Mutex::default(),
            tabs: Mutex::default(),
            is_waking: AtomicBool::new(false),
            is_due_again: AtomicBool::new(false),
            live: watch::Sender::new(0),
            _ends: CancellationToken::new().drop_guard(),
        });
        let tabs: Vec<_> = (0..50).map(|_| Arc::new(Notify::new())).collect();
        feed.tabs.lock().extend(tabs.iter().map(Arc::downgrade));
        let viewer = Viewer { feed: feed.clone(), rate: Rate::Live, tab: tabs[37].clone() };
        viewer.put_first();
        assert!(feed.groups().len() <= MAX_GROUPS && feed.groups().iter().all(|group| group.len() <= 5));
        let is_woken = |tab: &Arc<Notify>| tokio::time::timeout(Duration::ZERO, tab.clone().notified_owned());
        for _ in 0..3 {
            feed.take(change(vec![row(0, "a")]));
            assert!(is_woken(&tabs[37]).await.is_ok() && is_woken(&tabs[0]).await.is_ok(), "the first ones at once");
            // A change in the meantime wakes all of them once more.
            feed.take(change(vec![row(0, "b")]));
            for tab in &tabs {
                tokio::time::timeout(Duration::from_secs(1), tab.notified()).await.expect("each tab is woken");
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            for tab in &tabs {
                let _ = is_woken(tab).await;
            }
            assert!(!feed.is_waking.load(Ordering::Acquire), "nothing is left to do");
        }
        drop(viewer);
        assert_eq!(feed.tabs.lock().len(), 49, "a tab that leaves is woken no more");
        drop(tabs);
        feed.take(change(vec![row(0, "c")]));
        assert!(feed.tabs.lock().is_empty());
    }

    #[test]
    fn a_frame_is_written_once_for_all_tabs_that_keep_up() {
        let mut screen = FeedScreen::default();
        for (number, text) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
            screen.take(change(vec![row(0, text)]));
            let of = |screen: &mut FeedScreen, since| match screen.news("term", since) {
                News::Frame(version, written) => (version, written),
                news => panic!("{news:?}"),
            };
            let since = number as u64;
            let (version, written) = of(&mut screen, since);
            assert_eq!((version, of(&mut screen, since).1.as_ptr()), (since + 1, written.as_ptr()));
            assert!(written.contains(&format!("\"{text}\"")), "{written}");
            // Slow ones get separate frames, of which few are kept.
            for slow in 0..since {
                of(&mut screen, slow);
            }
            assert!(screen.written.len() <= MAX_WRITTEN_FRAMES);
        }
        assert!(matches!(screen.news("term", 6), News::None));
    }
}
