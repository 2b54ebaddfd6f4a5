//! The replay of a recording: its screen at any time.
//!
//! The player reads the file during the replay, and follows a growing file. Keyframes make seeking backwards fast. They
//! cannot be in the alternate screen, so the player draws such a part from its beginning.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use steplatch_terminal::{Exit, Replay, ScreenUpdate};

use crate::reader::{self, Damage, Event, EventContent, FileHeader, FilePosition};

/// Minimum output between two keyframes, in bytes.
const MIN_KEYFRAME_DISTANCE: u64 = 256 << 10;

/// Maximum number of keyframes.
const MAX_KEYFRAMES: u64 = 64;

/// Maximum number of markers.
const MAX_MARKERS: usize = 1000;

/// Maximum delay of a change of the screen by a program (mode 2026).
const MAX_HOLD_TIME: Duration = Duration::from_millis(150);

/// `O_NONBLOCK` of Linux: opening a pipe instead of a file does not block.
const NONBLOCK: i32 = 0o4000;

/// Reason why a file cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Reading the file fails.
    #[error("the file cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The path is a directory, or a device.
    #[error("not a regular file")]
    NotAFile,
    /// The file does not begin with the header of a recording.
    #[error("not an asciicast recording: {0}")]
    NotARecording(Damage),
}

/// A marker in a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Time since the beginning.
    pub at: Duration,
    /// The label.
    pub label: String,
}

/// A recording, and its screen at one time.
#[derive(Debug)]
pub struct Player {
    file: BufReader<File>,
    header: FileHeader,
    beginning: FilePosition,
    /// Position after the last drawn event.
    position: FilePosition,
    time: Duration,
    /// The next event, and the position after it.
    next: Option<(Event, FilePosition)>,
    replay: Replay,
    exit: Option<i32>,
    held_since: Option<Duration>,
    keyframes: Vec<Keyframe>,
    scan: Scan,
}

/// A screen, and the position of the next event in the recording.
#[derive(Debug)]
struct Keyframe {
    time: Duration,
    position: FilePosition,
    size: steplatch_terminal::Size,
    text: String,
}

/// Properties of the whole file.
#[derive(Debug, Default)]
struct Scan {
    position: FilePosition,
    /// The length of the file at the last read.
    length: u64,
    end: Duration,
    markers: Vec<Marker>,
    damage: Option<Damage>,
}

/// Opens an untrusted file for reading.
pub(crate) fn open(path: &Path) -> Result<File, OpenError> {
    let file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(OpenError::NotAFile) }
}

/// Reads the header of a file.
pub(crate) fn header(path: &Path) -> Result<FileHeader, OpenError> {
    let mut file = BufReader::new(open(path)?);
    reader::read_header(&mut file, &mut FilePosition::default())?.map_err(OpenError::NotARecording)
}

impl Player {
    /// Opens a recording and reads the file once, for the duration, the markers and the damage.
    ///
    /// # Errors
    /// If reading the file fails, or it is not a recording.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let mut file = BufReader::new(open(path)?);
        let mut beginning = FilePosition::default();
        let header = reader::read_header(&mut file, &mut beginning)?.map_err(OpenError::NotARecording)?;
        let replay = Replay::new(header.size);
        let scan = Scan { position: beginning, ..Scan::default() };
        let mut player = Self {
            file,
            header,
            beginning,
            position: beginning,
            time: Duration::ZERO,
            next: None,
            replay,
            exit: None,
            held_since: None,
            keyframes: Vec::new(),
            scan,
        };
        player.refresh()?;
        Ok(player)
    }

    /// Reads the new events of the file. Returns false if it is no longer the opened file.
    ///
    /// # Errors
    /// If reading the file fails.
    pub fn refresh(&mut self) -> io::Result<bool> {
        let length = self.file.get_ref().metadata()?.len();
        if length < self.scan.length {
            return Ok(false);
        }
        if length == self.scan.length || matches!(self.scan.damage, Some(Damage::Line { .. })) {
            return Ok(true);
        }
        self.scan.length = length;
        self.scan.damage = None;
        self.file.seek(SeekFrom::Start(self.scan.position.offset))?;
        loop {
            match reader::read_event(&mut self.file, &self.header, &mut self.scan.position)? {
                Ok(Some(Event { time, content })) => {
                    self.scan.end = time;
                    if let EventContent::Marker(label) = content
                        && self.scan.markers.len() < MAX_MARKERS
                    {
                        self.scan.markers.push(Marker { at: time, label });
                    }
                }
                Ok(None) => break,
                Err(damage) => {
                    self.scan.damage = Some(damage);
                    break;
                }
            }
        }
        self.return_to_position()?;
        Ok(true)
    }

    /// Returns the title, if the file has one.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.header.title.as_deref()
    }

    /// Returns the start time of the recording, in seconds since 1970, if the file has it.
    #[must_use]
    pub fn timestamp(&self) -> Option<u64> {
        self.header.timestamp
    }

    /// Returns the maximum pause of a replay, if the file has one.
    #[must_use]
    pub fn idle_limit(&self) -> Option<Duration> {
        self.header.idle_limit
    }

    /// Returns the duration of the readable part of the file.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.scan.end
    }

    /// Returns the markers, at most 1000.
    #[must_use]
    pub fn markers(&self) -> &[Marker] {
        &self.scan.markers
    }

    /// Returns the damage that ends the readable part of the file, if there is any.
    #[must_use]
    pub fn damage(&self) -> Option<&Damage> {
        self.scan.damage.as_ref()
    }

    /// Returns the time of the last drawn event, in whole milliseconds.
    #[must_use]
    pub fn at(&self) -> Duration {
        self.time
    }

    /// Returns the time of the next event; `None` after the last readable event.
    ///
    /// # Errors
    /// If reading the file fails.
    pub fn next_at(&mut self) -> io::Result<Option<Duration>> {
        Ok(self.peek()?.map(|event| event.time))
    }

    /// Returns the screen.
    #[must_use]
    pub fn screen(&self) -> ScreenUpdate {
        ScreenUpdate {
            version: self.position.lines,
            picture: self.replay.picture(),
            modes: self.replay.modes(),
            title: self.replay.title(),
            exit: self.exit.map(|code| Exit { code, signal: None }),
        }
    }

    /// Seeks to a time: draws the events up to and including that time.
    ///
    /// # Errors
    /// If reading the file fails.
    pub fn seek(&mut self, time: Duration) -> io::Result<()> {
        let keyframe_count = self.keyframes.partition_point(|keyframe| keyframe.time <= time);
        let keyframe = keyframe_count.checked_sub(1).and_then(|index| self.keyframes.get(index));
        if time < self.time || keyframe.is_some_and(|keyframe| keyframe.position.offset > self.position.offset) {
            let (replay, position, start_time) = match keyframe {
                Some(keyframe) => {
                    let mut replay = Replay::new(keyframe.size);
                    replay.draw(&keyframe.text);
                    (replay, keyframe.position, keyframe.time)
                }
                None => (Replay::new(self.header.size), self.beginning, Duration::ZERO),
            };
            (self.replay, self.position, self.time) = (replay, position, start_time);
            (self.exit, self.held_since, self.next) = (None, None, None);
            self.return_to_position()?;
        }
        while self.peek()?.is_some_and(|event| event.time <= time) {
            if let Some((event, position_after)) = self.next.take() {
                self.draw(event, position_after);
            }
        }
        Ok(())
    }

    fn peek(&mut self) -> io::Result<Option<&Event>> {
        if self.next.is_none() && self.position.offset < self.scan.position.offset {
            let mut position_after = self.position;
            let event = reader::read_event(&mut self.file, &self.header, &mut position_after)?;
            // The scanned part of the file has no damage.
            self.next = event.ok().flatten().map(|event| (event, position_after));
        }
        Ok(self.next.as_ref().map(|(event, _)| event))
    }

    fn draw(&mut self, event: Event, position_after: FilePosition) {
        let Event { time, content } = event;
        if self.held_since.is_some_and(|since| time > since + MAX_HOLD_TIME) {
            self.replay.release();
            self.held_since = None;
        }
        match content {
            EventContent::Output(text) => self.replay.draw(&text),
            EventContent::Resize(size) => self.replay.resize(size),
            EventContent::Exit(code) => self.exit = Some(code),
            EventContent::Marker(_) | EventContent::Input(_) | EventContent::Other => {}
        }
        self.held_since = if self.replay.is_held_back() { self.held_since.or(Some(time)) } else { None };
        (self.position, self.time) = (position_after, time);
        self.add_keyframe();
    }

    /// Adds a keyframe of the screen if the last keyframe is far enough before the position.
    fn add_keyframe(&mut self) {
        let distance = MIN_KEYFRAME_DISTANCE.max(self.scan.length / MAX_KEYFRAMES);
        let last = self.keyframes.last().map_or(self.beginning.offset, |keyframe| keyframe.position.offset);
        if self.position.offset < last + distance || self.keyframes.len() as u64 >= MAX_KEYFRAMES || self.exit.is_some()
        {
            return;
        }
        if let Some(text) = self.replay.keyframe() {
            let size = self.replay.size();
            self.keyframes.push(Keyframe { time: self.time, position: self.position, size, text });
        }
    }

    fn return_to_position(&mut self) -> io::Result<()> {
        let offset = self.next.as_ref().map_or(self.position.offset, |(_, position_after)| position_after.offset);
        self.file.seek(SeekFrom::Start(offset)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const HEADER: &str = "{\"version\":3,\"term\":{\"cols\":20,\"rows\":3},\"timestamp\":1700000000,\"title\":\"t\"}\n";

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn text(player: &Player) -> String {
        let rows = player.screen().picture.rows;
        let row = |runs: &Vec<steplatch_terminal::Run>| runs.iter().map(|run| run.text.as_str()).collect::<String>();
        rows.iter().map(row).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn seek_shows_the_screen_at_any_time() {
        let file = file(&format!(
            "{HEADER}[0.5,\"o\",\"one\"]\n# a note\n[1.0,\"m\",\"here\"]\n[1.0,\"o\",\"\\r\\ntwo\"]\n[0.5,\"r\",\"10x5\"]\n[1,\"x\",\"3\"]\n"
        ));
        let mut player = Player::open(file.path()).unwrap();
        assert_eq!((player.duration(), player.damage(), player.title()), (seconds(4.0), None, Some("t")));
        assert_eq!(player.markers(), [Marker { at: seconds(1.5), label: "here".to_owned() }]);
        for (at, shown) in [(0.0, ""), (0.5, "one"), (2.5, "one\ntwo"), (0.6, "one"), (9.0, "one\ntwo"), (0.1, "")] {
            player.seek(seconds(at)).unwrap();
            assert_eq!(text(&player), shown, "at {at}");
        }
        player.seek(seconds(3.5)).unwrap();
        let screen = player.screen();
        assert_eq!((screen.picture.cols, screen.picture.rows.len(), screen.exit), (10, 5, None));
        assert_eq!(player.next_at().unwrap(), Some(seconds(4.0)));
        player.seek(seconds(4.0)).unwrap();
        assert_eq!((player.screen().exit.map(|exit| exit.code), player.next_at().unwrap()), (Some(3), None));
    }

    #[test]
    fn version_2_has_absolute_times() {
        let file = file(
            "{\"version\":2,\"width\":20,\"height\":3}\n[0.5,\"o\",\"a\"]\n[2.0,\"i\",\"x\"]\n[3.0,\"o\",\"b\"]\n",
        );
        let mut player = Player::open(file.path()).unwrap();
        assert_eq!(player.duration(), seconds(3.0));
        player.seek(seconds(2.9)).unwrap();
        assert_eq!(text(&player), "a");
    }

    #[test]
    fn damaged_file_is_replayed_up_to_the_damage() {
        let event = "[0.5,\"o\",\"one\"]\n";
        for (rest, damage) in [
            ("[0.5,\"o\",\"tw", "the file ends within line 3"),
            ("[0.5]\n[1,\"o\",\"x\"]\n", "line 3 is damaged: not an event"),
            ("[1e300,\"o\",\"x\"]\n", "line 3 is damaged: invalid time"),
            ("[1,\"r\",\"0x9\"]\n", "line 3 is damaged: no screen size"),
        ] {
            let file = file(&format!("{HEADER}{event}{rest}"));
            let mut player = Player::open(file.path()).unwrap();
            assert!(player.damage().unwrap().to_string().starts_with(damage), "{:?}", player.damage());
            player.seek(seconds(100.0)).unwrap();
            assert_eq!((text(&player), player.next_at().unwrap()), ("one".to_owned(), None));
        }
        for (text, expected) in [
            ("", "line 1 is damaged: the file is empty"),
            ("hello\n", "line 1 is damaged: not a header"),
            ("{\"version\":1}\n", "line 1 is damaged: version 1"),
            ("{\"version\":3,\"term\":{\"cols\":1,\"rows\":9}}\n", "line 1 is damaged: 1x9 is not a screen size"),
        ] {
            let error = Player::open(file(text).path()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(matches!(Player::open(Path::new("/dev/zero")), Err(OpenError::NotAFile)));
    }

    #[test]
    fn growing_file_is_followed_but_a_replaced_one_is_not() {
        let mut file = file(&format!("{HEADER}[0.5,\"o\",\"one\"]\n[1.0,\"o\","));
        let mut player = Player::open(file.path()).unwrap();
        player.seek(seconds(9.0)).unwrap();
        assert!(matches!(player.damage(), Some(Damage::CutOff { line: 3 })));
        file.write_all(b"\" two\"]\n").unwrap();
        assert!(player.refresh().unwrap());
        player.seek(seconds(9.0)).unwrap();
        assert_eq!((text(&player), player.duration(), player.damage()), ("one two".to_owned(), seconds(1.5), None));
        file.as_file().set_len(10).unwrap();
        assert!(!player.refresh().unwrap());
    }

    #[test]
    fn screen_is_the_same_from_start_keyframe_or_any_order() {
        let mut lines = HEADER.to_owned();
        for number in 0..3000 {
            let output = match number % 300 {
                200 => "\\u001b[?1049h\\u001b[2J full ".to_owned(),
                250 => "\\u001b[?1049l".to_owned(),
                _ => format!("\\u001b[{}m{}{number}\\u001b[m{}", 31 + number % 7, "漢x".repeat(200), "\\r\\n"),
            };
            lines.push_str(&format!("[0.001,\"o\",\"{output}\"]\n"));
        }
        let file = file(&lines);
        let mut player = Player::open(file.path()).unwrap();
        player.seek(seconds(9.0)).unwrap();
        assert!(player.keyframes.len() > 4, "{} in {} bytes", player.keyframes.len(), lines.len());
        for at in [2.9, 0.2, 1.45, 1.1, 1.101, 2.2, 0.0, 2.999] {
            player.seek(seconds(at)).unwrap();
            let mut fresh = Player::open(file.path()).unwrap();
            fresh.seek(seconds(at)).unwrap();
            let (screen, fresh) = (player.screen(), fresh.screen());
            assert_eq!((screen.picture, screen.modes), (fresh.picture, fresh.modes), "at {at}");
        }
    }
}
