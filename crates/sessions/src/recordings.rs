//! Recordings of terminals, as screens without secrets.
//!
//! A replay continues where the last request ended. The number of open replays is limited: a new replay replaces the
//! least recently used one.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use steplatch_access::Redactor;
use steplatch_clock as clock;
use steplatch_protocol::{
    ListRecordings, ListRecordingsReply, ReadRecording, ReadRecordingReply, RecordedFrame, RecordingInfo,
    RecordingMarker,
};
use steplatch_recording::{Catalog, CatalogEntry, OpenError, Player, RecordingId};

use crate::watch_screen::MaskedScreen;

/// Default maximum number of recordings in a list.
const DEFAULT_LIMIT: u32 = 200;

/// Maximum number of open replays.
const MAX_OPEN_REPLAYS: usize = 4;

/// Maximum number of frames of a section.
const MAX_FRAMES: usize = 400;

/// Maximum number of cells in the changed rows of a section, so that a reply has at most some hundred kilobytes.
const MAX_CELLS: usize = 200_000;

/// Time limit of reading a section, unless it has no change yet.
const MAX_READ_TIME: Duration = Duration::from_millis(250);

/// Time span of one frame, about 60 frames a second.
const FRAME_TIME: Duration = Duration::from_millis(15);

/// The recordings of this user. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Recordings {
    catalog: Catalog,
    secrets: Arc<Redactor>,
    open_replays: Arc<Mutex<VecDeque<OpenReplay>>>,
}

/// An open replay and its file.
#[derive(Debug, Clone)]
struct OpenReplay {
    id: RecordingId,
    file: PathBuf,
    player: Arc<Mutex<Player>>,
}

impl Recordings {
    /// Returns the recordings of the catalog in a directory.
    pub fn new(directory: PathBuf, secrets: Arc<Redactor>) -> Self {
        Self { catalog: Catalog::new(directory), secrets, open_replays: Arc::default() }
    }

    /// Lists the recordings.
    #[boxed]
    pub async fn list(&self, verb: ListRecordings) -> ListRecordingsReply {
        let recordings = self.clone();
        let listing = tokio::task::spawn_blocking(move || recordings.catalog.list());
        match listing.await {
            Ok(Ok(entries)) => {
                let matching = entries.into_iter().filter(|entry| {
                    verb.session_id.as_deref().is_none_or(|terminal| entry.id.terminal().as_str() == terminal)
                });
                let limit = usize::try_from(verb.limit.unwrap_or(DEFAULT_LIMIT)).unwrap_or(usize::MAX);
                let recordings = matching.take(limit).map(|entry| self.info(&entry)).collect();
                ListRecordingsReply { success: true, recordings, error: None }
            }
            Ok(Err(error)) => failure_reply(format!("the directory of recordings cannot be read: {error}")),
            Err(_) => failure_reply("the directory of recordings cannot be read".to_owned()),
        }
    }

    /// Reads a section of a recording.
    #[boxed]
    pub async fn read(&self, verb: ReadRecording) -> ReadRecordingReply {
        let recordings = self.clone();
        let reading = tokio::task::spawn_blocking(move || {
            recordings.read_section(&verb.recording_id, Duration::from_millis(verb.at_ms.unwrap_or_default()))
        });
        match reading.await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => ReadRecordingReply { error: Some(error), ..ReadRecordingReply::default() },
            Err(_) => ReadRecordingReply {
                error: Some("the replay of this recording failed; the daemon's log has the reason".to_owned()),
                ..ReadRecordingReply::default()
            },
        }
    }

    fn read_section(&self, id: &str, at: Duration) -> Result<ReadRecordingReply, String> {
        let entry = id.parse().ok().and_then(|id: RecordingId| self.catalog.entry(id));
        let Some(entry) = entry else {
            return Err(format!(
                "there is no recording '{}', or its file was moved or deleted; GET /api/v1/recordings lists them",
                id.chars().take(60).collect::<String>()
            ));
        };
        let unreadable = |error: OpenError| format!("'{}' cannot be replayed: {error}", entry.file.display());
        let player = self.player(&entry).map_err(unreadable)?;
        let mut player = player.lock();
        let mut reply = self.frames(&mut player, &entry.id, at).map_err(|error| unreadable(error.into()))?;
        reply.recording = Some(self.info(&entry));
        Ok(reply)
    }

    /// Returns the replay of a recording and opens it if necessary.
    fn player(&self, entry: &CatalogEntry) -> Result<Arc<Mutex<Player>>, OpenError> {
        let open_player = {
            let open = self.open_replays.lock();
            open.iter()
                .find(|replay| replay.id == entry.id && replay.file == entry.file)
                .map(|replay| replay.player.clone())
        };
        let player = match open_player {
            Some(open_player) if open_player.lock().refresh()? => open_player,
            _ => Arc::new(Mutex::new(Player::open(&entry.file)?)),
        };
        let mut open = self.open_replays.lock();
        open.retain(|replay| replay.id != entry.id);
        open.push_back(OpenReplay { id: entry.id.clone(), file: entry.file.clone(), player: player.clone() });
        while open.len() > MAX_OPEN_REPLAYS {
            open.pop_front();
        }
        Ok(player)
    }

    fn frames(&self, player: &mut Player, id: &RecordingId, at: Duration) -> std::io::Result<ReadRecordingReply> {
        let secrets = self.secrets.within(id.terminal());
        let began = Instant::now();
        player.seek(at)?;
        let mut last_screen = MaskedScreen::from_update(player.screen(), &secrets);
        let mut frames: Vec<RecordedFrame> = last_screen
            .change_from(None)
            .map(|change| RecordedFrame { at_ms: to_ms(at), change })
            .into_iter()
            .collect();
        let mut cells = 0;
        let mut next = player.next_at()?;
        while let Some(first) = next {
            let is_full = frames.len() >= MAX_FRAMES || cells > MAX_CELLS || began.elapsed() > MAX_READ_TIME;
            if is_full && frames.len() > 1 {
                break;
            }
            player.seek(first + FRAME_TIME)?;
            let screen = MaskedScreen::from_update(player.screen(), &secrets);
            if let Some(change) = screen.change_from(Some(&last_screen)) {
                cells += change.changed.len() * usize::from(change.cols);
                frames.push(RecordedFrame { at_ms: to_ms(player.at()), change });
                last_screen = screen;
            }
            next = player.next_at()?;
        }
        Ok(ReadRecordingReply {
            success: true,
            recording: None,
            duration_ms: to_ms(player.duration()),
            idle_limit_ms: player.idle_limit().map(to_ms),
            markers: player
                .markers()
                .iter()
                .map(|marker| RecordingMarker {
                    at_ms: to_ms(marker.at),
                    label: self.secrets.within(id.terminal()).masked(marker.label.clone()),
                })
                .collect(),
            frames,
            next_ms: next.map(|_| to_ms(player.at())),
            damage: player.damage().map(ToString::to_string),
            error: None,
        })
    }

    fn info(&self, entry: &CatalogEntry) -> RecordingInfo {
        let secrets = self.secrets.within(entry.id.terminal());
        RecordingInfo {
            recording_id: entry.id.to_string(),
            session_id: entry.id.terminal().to_string(),
            title: secrets.masked_if(entry.title.clone()),
            file: secrets.masked(entry.file.display().to_string()),
            bytes: entry.length,
            began: clock::system_iso8601(entry.id.began()),
            changed: clock::system_iso8601(entry.changed),
            cols: entry.size.map(|size| size.cols),
            rows: entry.size.map(|size| size.rows),
        }
    }
}

fn failure_reply(error: String) -> ListRecordingsReply {
    ListRecordingsReply { error: Some(error), ..ListRecordingsReply::default() }
}

fn to_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
