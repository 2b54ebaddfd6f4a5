//! Viewers that wait for a changed screen, and the rows that are new to each viewer.
//!
//! A viewer knows a version of the screen. For each row, this module stores the first version with its current text, so
//! a viewer receives the rows that are newer than its version. A hash identifies the text, so a row takes 16 bytes.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use tokio::sync::oneshot;

use super::{ScreenDelta, ScreenUpdate};
use crate::screen::Picture;

/// Channel for the reply to a viewer.
#[derive(Debug)]
pub(crate) enum ScreenReply {
    /// The viewer receives the whole screen.
    Whole(oneshot::Sender<ScreenUpdate>),
    /// The viewer receives the rows that are new to it.
    Rows(oneshot::Sender<ScreenDelta>),
}

impl ScreenReply {
    fn is_closed(&self) -> bool {
        match self {
            Self::Whole(reply) => reply.is_closed(),
            Self::Rows(reply) => reply.is_closed(),
        }
    }
}

/// A waiting viewer.
#[derive(Debug)]
pub(crate) struct ScreenWatcher {
    /// The version that the viewer knows. A viewer with `None` receives an immediate reply.
    pub(crate) known: Option<u64>,
    pub(crate) reply: ScreenReply,
}

/// The viewers that wait for another version of the screen.
#[derive(Debug, Default)]
pub(super) struct ScreenWatchers {
    waiting: Vec<ScreenWatcher>,
    rows: RowVersions,
}

impl ScreenWatchers {
    /// Adds a waiting viewer.
    pub(super) fn add(&mut self, watcher: ScreenWatcher) {
        self.waiting.push(watcher);
    }

    /// Returns whether no viewer waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the viewers that do not know `version` and drops disconnected viewers.
    pub(super) fn take_due(&mut self, version: u64) -> Vec<ScreenWatcher> {
        self.waiting.retain(|watcher| !watcher.reply.is_closed());
        self.waiting.extract_if(.., |watcher| watcher.known != Some(version)).collect()
    }

    /// Sends the current screen to viewers.
    pub(super) fn answer(&mut self, watchers: Vec<ScreenWatcher>, update: &ScreenUpdate) {
        // Record the screen for viewers of whole screens, too, because they may request rows next.
        self.rows.record_screen(update.version, &update.picture);
        for ScreenWatcher { known, reply } in watchers {
            // Ignore errors, because a viewer may have disconnected.
            match reply {
                ScreenReply::Whole(reply) => drop(reply.send(update.clone())),
                ScreenReply::Rows(reply) => {
                    let rows = known.and_then(|known| self.rows.changed_since(known));
                    drop(reply.send(ScreenDelta::from_update(update, rows)));
                }
            }
        }
    }
}

/// The versions of the rows of a screen.
#[derive(Debug, Default)]
struct RowVersions {
    hasher: RandomState,
    cols: u16,
    /// The hash of each row, and the first version with this hash.
    rows: Vec<(u64, u64)>,
    /// The first version with this size, and the last recorded version.
    recorded: Option<(u64, u64)>,
}

impl RowVersions {
    /// Records the screen of `version`. The version is not older than the last recorded one.
    fn record_screen(&mut self, version: u64, picture: &Picture) {
        let is_resized = self.cols != picture.cols || self.rows.len() != picture.rows.len();
        match &mut self.recorded {
            Some((_, last)) if *last == version => return,
            Some((_, last)) if !is_resized => *last = version,
            recorded => {
                *recorded = Some((version, version));
                self.cols = picture.cols;
                self.rows = vec![(0, version); picture.rows.len()];
            }
        }
        for (known, row) in self.rows.iter_mut().zip(&picture.rows) {
            let hash = self.hasher.hash_one(row);
            if known.0 != hash {
                *known = (hash, version);
            }
        }
    }

    /// Returns the numbers of the rows that are newer than version `known`; `None` if its rows are unknown.
    fn changed_since(&self, known: u64) -> Option<Vec<u16>> {
        self.recorded.filter(|(first, last)| (*first..=*last).contains(&known))?;
        Some((0_u16..).zip(&self.rows).filter(|(_, (_, version))| *version > known).map(|(row, _)| row).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::screen::{Colour, Modes, Rgb, Run, Style};

    fn update(version: u64, cols: u16, texts: &[&str]) -> ScreenUpdate {
        let run = |text: &&str| Run {
            col: 0,
            cols: u16::try_from(text.len()).unwrap(),
            wide: false,
            text: (*text).to_owned(),
            style: Style { fg: Colour::Indexed(2), ..Style::default() },
            link: None,
        };
        let picture = Picture {
            cols,
            rows: texts.iter().map(|text| vec![run(text)]).collect(),
            cursor: None,
            foreground: Rgb(1, 1, 1),
            background: Rgb(0, 0, 0),
            palette: Vec::new(),
        };
        ScreenUpdate { version, picture, modes: Modes::default(), title: String::new(), exit: None }
    }

    /// Returns the update for a viewer that knows a version.
    fn update_for(watchers: &mut ScreenWatchers, known: Option<u64>, update: &ScreenUpdate) -> ScreenDelta {
        let (sender, mut receiver) = oneshot::channel();
        watchers.answer(vec![ScreenWatcher { known, reply: ScreenReply::Rows(sender) }], update);
        receiver.try_recv().unwrap()
    }

    #[test]
    fn viewer_receives_rows_newer_than_its_version() {
        let mut watchers = ScreenWatchers::default();
        assert_eq!(update_for(&mut watchers, None, &update(3, 80, &["a", "b", "c"])).rows, None);
        let second = update_for(&mut watchers, Some(3), &update(5, 80, &["a", "B", "c"]));
        assert_eq!((second.rows, second.update.picture.rows.len()), (Some(vec![1]), 1));
        let slower = update(6, 80, &["a", "B", "C"]);
        assert_eq!(update_for(&mut watchers, Some(5), &slower).rows, Some(vec![2]));
        assert_eq!(update_for(&mut watchers, Some(3), &slower).rows, Some(vec![1, 2]));
        assert_eq!(
            update_for(&mut watchers, Some(2), &slower).rows,
            None,
            "the rows of an unrecorded version are unknown"
        );
        assert_eq!(
            update_for(&mut watchers, Some(6), &update(7, 90, &["a", "B", "C"])).rows,
            None,
            "a resized screen is sent whole"
        );
        assert_eq!(update_for(&mut watchers, Some(7), &update(8, 90, &["a", "B", "C"])).rows, Some(Vec::new()));
        assert_eq!(
            update_for(&mut watchers, Some(8), &update(9, 90, &["a", "B"])).rows,
            None,
            "a lower screen is sent whole"
        );
        assert_eq!(
            update_for(&mut watchers, Some(9), &update(10, 90, &["a", "B", "C"])).rows,
            None,
            "a higher screen is sent whole"
        );
        assert_eq!(
            update_for(&mut watchers, Some(99), &update(11, 90, &["a", "B", "C"])).rows,
            None,
            "a future version is unknown"
        );
    }

    #[test]
    fn viewer_of_whole_screens_can_continue_with_rows() {
        let mut watchers = ScreenWatchers::default();
        update_for(&mut watchers, None, &update(1, 80, &["a"]));
        let (sender, _receiver) = oneshot::channel();
        let whole = ScreenWatcher { known: Some(1), reply: ScreenReply::Whole(sender) };
        watchers.answer(vec![whole], &update(2, 80, &["b"]));
        assert_eq!(update_for(&mut watchers, Some(2), &update(3, 80, &["a"])).rows, Some(vec![0]));
    }

    #[test]
    fn current_viewer_waits_and_disconnected_one_is_dropped() {
        let mut watchers = ScreenWatchers::default();
        let (stays, _receiver) = oneshot::channel();
        let (leaves, _) = oneshot::channel();
        watchers.add(ScreenWatcher { known: Some(4), reply: ScreenReply::Rows(stays) });
        watchers.add(ScreenWatcher { known: Some(3), reply: ScreenReply::Whole(leaves) });
        assert!(watchers.take_due(4).is_empty() && !watchers.is_empty());
        assert_eq!(watchers.take_due(5).len(), 1);
        assert!(watchers.is_empty());
    }

    #[test]
    fn mismatched_delta_is_refused() {
        let mut watchers = ScreenWatchers::default();
        let complete = update_for(&mut watchers, None, &update(1, 80, &["a", "b"]));
        let first = complete.onto(None).unwrap();
        let delta = update_for(&mut watchers, Some(1), &update(2, 80, &["a", "B"]));
        assert_eq!(delta.clone().onto(Some(first.picture)).unwrap().picture, update(2, 80, &["a", "B"]).picture);
        assert!(delta.clone().onto(None).is_none(), "a delta needs a known screen");
        let smaller = update(1, 80, &["a"]).picture;
        assert!(delta.clone().onto(Some(smaller)).is_none(), "the row is outside the screen");
        for changed in [update(1, 70, &["a", "b"]), update(1, 80, &["a", "b", "c"])] {
            assert!(delta.clone().onto(Some(changed.picture)).is_none(), "the known screen has a different size");
        }
    }

    proptest! {
        /// For any screens and any timing, each viewer reassembles the current screen.
        #[test]
        fn viewers_reassemble_the_screen(
            steps in prop::collection::vec(
                (0_usize..5, "[ab]{0,2}", prop::collection::vec(0_usize..3, 1..3), 0_u8..40), 1..60,
            ),
        ) {
            let mut watchers = ScreenWatchers::default();
            let mut texts = vec![String::new(); 4];
            let mut viewers: Vec<(Option<u64>, Option<Picture>)> = vec![(None, None); 3];
            let mut cols = 80;
            for (version, (row, text, looking, event)) in (1_u64..).zip(steps) {
                match event {
                    0 => cols += 1,
                    1 => texts.push(text),
                    2 if texts.len() > 1 => drop(texts.pop()),
                    // A viewer starts over.
                    3 => viewers[looking[0]] = (None, None),
                    _ => {
                        let row = row % texts.len();
                        texts[row] = text;
                    }
                }
                let rows_of_text: Vec<&str> = texts.iter().map(String::as_str).collect();
                let update = update(version, cols, &rows_of_text);
                for viewer in looking {
                    let (known, picture) = &mut viewers[viewer];
                    let whole_update = update_for(&mut watchers, *known, &update).onto(picture.take());
                    prop_assert!(whole_update.is_some(), "the delta fits the known screen");
                    prop_assert_eq!(whole_update.as_ref().map(|whole_update| &whole_update.picture), Some(&update.picture));
                    (*known, *picture) = (Some(version), whole_update.map(|whole_update| whole_update.picture));
                }
            }
        }
    }
}
