//! The screens of a recording, each with the time for which it was shown.

use std::time::Duration;

use steplatch_terminal::{OutputRecording, Picture, RecordedChange, Replay, Size};

/// Maximum number of cells of all frames, which bounds their memory.
const MAX_CELLS: usize = 2_000_000;

/// Minimum and maximum of the least duration of a frame, in milliseconds. A longer recording has fewer frames a second.
const MIN_FRAME_MILLIS: u64 = 40;
const MAX_FRAME_MILLIS: u64 = 3_000;

/// Duration of the last frame.
const LAST_FRAME_DURATION: Duration = Duration::from_secs(2);

/// A screen and its duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The screen.
    pub picture: Picture,
    /// Duration for which it is shown.
    pub duration: Duration,
}

/// Reason why a recording has no frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoFrames {
    /// Nothing was printed in the requested time.
    #[error("the terminal has printed nothing in that time")]
    Nothing,
    /// There are too many screens.
    #[error(
        "the recording has too many different screens; select fewer with since or commands, or use the format cast"
    )]
    TooMany,
}

/// Returns the screens of a recording from `begin_millis` on, as `mask` returns them. Equal screens that follow each other
/// are one frame, and a pause takes at most `idle_limit`. All frames have the largest size of the screen. Of many screens
/// in a short time, the last one is a frame.
///
/// # Errors
/// If nothing was printed since then, or there are too many screens.
pub fn frames(
    recording: &OutputRecording,
    begin_millis: u64,
    idle_limit: Duration,
    mask: impl Fn(Picture) -> Picture,
) -> Result<Vec<Frame>, NoFrames> {
    let mut frame_millis = MIN_FRAME_MILLIS;
    loop {
        match frames_of(recording, begin_millis, frame_millis, idle_limit, &mask) {
            Err(NoFrames::TooMany) if frame_millis < MAX_FRAME_MILLIS => frame_millis *= 3,
            result => return result,
        }
    }
}

/// Returns the screens of a recording, each shown for at least `frame_millis`.
fn frames_of(
    recording: &OutputRecording,
    begin_millis: u64,
    frame_millis: u64,
    idle_limit: Duration,
    mask: &impl Fn(Picture) -> Picture,
) -> Result<Vec<Frame>, NoFrames> {
    let mut replay = Replay::new(Size { cols: 80, rows: 24 });
    let mut shown: Vec<(u64, Picture)> = Vec::new();
    let (mut has_output, mut cells) = (false, 0);
    let mut events = recording.events.iter().peekable();
    while let Some(event) = events.next() {
        replay.apply(&event.change);
        has_output |= event.at_millis >= begin_millis && matches!(event.change, RecordedChange::Printed(_));
        has_output |= event.at_millis >= begin_millis && matches!(event.change, RecordedChange::Redrawn(_));
        // Events of one moment are one screen, and so are those of a screen that its program holds back.
        if events.peek().is_some_and(|next| next.at_millis <= event.at_millis || replay.is_held_back()) {
            continue;
        }
        let picture = mask(replay.picture());
        match shown.last_mut() {
            // The screen at the beginning of the requested time.
            Some(last) if event.at_millis < begin_millis => *last = (begin_millis, picture),
            Some((_, last)) if *last == picture => {}
            Some((at, last)) if event.at_millis < *at + frame_millis && *at > begin_millis => *last = picture,
            _ => {
                cells += usize::from(picture.cols) * picture.rows.len();
                shown.push((event.at_millis.max(begin_millis), picture));
            }
        }
        if cells > MAX_CELLS {
            return Err(NoFrames::TooMany);
        }
    }
    if !has_output {
        return Err(NoFrames::Nothing);
    }
    let cols = shown.iter().map(|(_, picture)| picture.cols).max().unwrap_or(0);
    let rows = shown.iter().map(|(_, picture)| picture.rows.len()).max().unwrap_or(0);
    let times: Vec<u64> = shown.iter().map(|(at, _)| *at).collect();
    let durations = times.windows(2).map(|pair| Duration::from_millis(pair[1].saturating_sub(pair[0])).min(idle_limit));
    let durations: Vec<Duration> = durations.chain([LAST_FRAME_DURATION]).collect();
    let frames = shown.into_iter().zip(durations).map(|((_, mut picture), duration)| {
        picture.cols = cols;
        picture.rows.resize(rows, Vec::new());
        Frame { picture, duration }
    });
    Ok(frames.collect())
}

#[cfg(test)]
mod tests {
    use steplatch_terminal::RecordedOutput;

    use super::*;

    fn recording(events: &[(u64, &str)]) -> OutputRecording {
        let size = RecordedChange::Resized(Size { cols: 20, rows: 4 });
        let beginning = [size, RecordedChange::Redrawn(String::new())];
        let beginning = beginning.map(|change| RecordedOutput { at_millis: 1_000, change });
        let printed = events.iter().map(|(at_millis, text)| RecordedOutput {
            at_millis: *at_millis,
            change: RecordedChange::Printed((*text).to_owned()),
        });
        OutputRecording { events: beginning.into_iter().chain(printed).collect(), is_cut: false }
    }

    fn texts(frames: &[Frame]) -> Vec<(String, u64)> {
        let text = |frame: &Frame| frame.picture.rows[0].iter().map(|run| run.text.as_str()).collect::<String>();
        frames.iter().map(|frame| (text(frame), frame.duration.as_millis() as u64)).collect()
    }

    #[test]
    fn each_different_screen_is_a_frame_with_its_duration() {
        let recording = recording(&[(1_000, "a"), (1_200, "b"), (1_300, "\x1b[m"), (9_000, "c")]);
        let all = frames(&recording, 0, Duration::from_secs(2), |picture| picture).unwrap();
        assert_eq!(texts(&all), [("a".into(), 200), ("ab".into(), 2_000), ("abc".into(), 2_000)]);
        assert_eq!((all[0].picture.cols, all[0].picture.rows.len()), (20, 4));
        // The first frame of a part is the screen at its beginning.
        let part = frames(&recording, 8_500, Duration::from_secs(2), |picture| picture).unwrap();
        assert_eq!(texts(&part), [("ab".into(), 500), ("abc".into(), 2_000)]);
        assert_eq!(frames(&recording, 9_500, Duration::from_secs(2), |picture| picture), Err(NoFrames::Nothing));
    }

    #[test]
    fn masked_screens_are_the_frames() {
        let recording = recording(&[(1_000, "hunter2")]);
        let hide = |mut picture: Picture| {
            picture.rows.iter_mut().flatten().for_each(|run| run.text = run.text.replace("hunter2", "•••••••"));
            picture
        };
        assert_eq!(texts(&frames(&recording, 0, Duration::ZERO, hide).unwrap())[0].0, "•••••••");
    }
}
