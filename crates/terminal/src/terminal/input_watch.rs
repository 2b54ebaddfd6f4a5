//! Schedule of the checks of the foreground program during a wait for typed input.
//!
//! No event announces that a program begins to read. So a wait checks a silent program after a short time, and again
//! after pauses that grow to a second. Each check of `/proc` takes tens of microseconds. Output and input restart the
//! silence.

use std::time::Duration;

use tokio::time::Instant;

use crate::process::InputState;
use crate::wait::InputWait;

/// Silence of a program before the first check. Most programs write a question immediately.
const SILENCE: Duration = Duration::from_millis(70);

/// Delay until the second check of a waiting program. Output from just before its read may still arrive, because the
/// kernel forwards output in a separate task.
const CONFIRMATION_DELAY: Duration = Duration::from_millis(30);

/// Required silence of a program with an unknown state.
const UNKNOWN_STATE_SILENCE: Duration = Duration::from_millis(800);

/// Required silence of a program with an unknown state, or of a line editor, that shows the awaited text.
const FOUND_TEXT_SILENCE: Duration = Duration::from_millis(200);

/// Required silence of a program that reads keys while the screen lacks the awaited rows. The program may draw them
/// after an event other than a key.
const DRAWING_SILENCE: Duration = Duration::from_secs(2);

/// Required silence of a relay without a question on the screen. It is long because a silent remote command looks the
/// same.
const RELAY_SILENCE: Duration = Duration::from_secs(3);

/// The first pause between two checks. Each further pause doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Maximum pause between two checks.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Result of a check of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InputCheck {
    pub(super) state: InputState,
    pub(super) screen: ScreenState,
}

/// State of the screen at a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScreenState {
    /// A full-screen program has the screen. If the screen does not change, the program waits.
    Full,
    /// The program reads single keys, and the row of the cursor is empty.
    EditorAtEmptyRow,
    /// Any other state.
    Lines,
}

/// Content of the screen with regard to the text or screen that a wait searches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AwaitedContent {
    /// The wait searches for no text, or the text did not appear.
    Nothing,
    /// The searched text.
    Text,
    /// A screen that differs from the searched one.
    OtherScreen,
}

/// The checks of one wait.
#[derive(Debug)]
pub(super) struct InputWatch {
    wait: InputWait,
    silent_since: Instant,
    /// True if the program was waiting at the last check.
    was_waiting: bool,
    pause: Duration,
    next_check: Instant,
}

impl InputWatch {
    /// Creates a watch of a program that has been silent since `silent_since`.
    pub(super) fn new(wait: InputWait, silent_since: Instant) -> Self {
        Self { wait, silent_since, was_waiting: false, pause: FIRST_PAUSE, next_check: silent_since + SILENCE }
    }

    /// Restarts the silence after output or written input.
    pub(super) fn restart(&mut self, now: Instant) {
        *self = Self::new(self.wait, now);
    }

    /// Returns whether a quiet program with an unknown state is considered waiting.
    pub(super) fn accepts_guess(&self) -> bool {
        self.wait == InputWait::KnownOrQuiet
    }

    /// Returns the time of the next check.
    pub(super) fn due(&self) -> Instant {
        self.next_check
    }

    /// Records the result of a check at `now`. Returns whether the program waits for input.
    pub(super) fn record_check(
        &mut self,
        InputCheck { state, screen }: InputCheck,
        awaited: AwaitedContent,
        now: Instant,
    ) -> bool {
        let full_screen = screen == ScreenState::Full;
        let is_quiet = |settled: Duration| now >= self.silent_since + settled;
        let accepts_guess = self.accepts_guess();
        let waits = match state {
            // A line editor reads keys even during its own command, before it shows its prompt.
            InputState::Works => false,
            _ if awaited == AwaitedContent::Text && is_quiet(FOUND_TEXT_SILENCE) => true,
            InputState::Awaits if awaited == AwaitedContent::OtherScreen => is_quiet(DRAWING_SILENCE),
            InputState::Awaits => screen != ScreenState::EditorAtEmptyRow || is_quiet(UNKNOWN_STATE_SILENCE),
            InputState::Unknown => (accepts_guess || full_screen) && is_quiet(UNKNOWN_STATE_SILENCE),
            InputState::Relays if full_screen => is_quiet(UNKNOWN_STATE_SILENCE),
            InputState::Relays => accepts_guess && is_quiet(RELAY_SILENCE),
        };
        if waits && !std::mem::replace(&mut self.was_waiting, waits) {
            self.next_check = now + CONFIRMATION_DELAY;
            return false;
        }
        self.was_waiting = waits;
        if !waits {
            self.next_check = now + self.pause;
            self.pause = (2 * self.pause).min(MAX_PAUSE);
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(begin: Instant, milliseconds: u64) -> Instant {
        begin + Duration::from_millis(milliseconds)
    }

    fn lines(state: InputState) -> InputCheck {
        InputCheck { state, screen: ScreenState::Lines }
    }

    fn full(state: InputState) -> InputCheck {
        InputCheck { state, screen: ScreenState::Full }
    }

    /// Checks until the watch is certain and returns whether the program waits.
    fn sees(watch: &mut InputWatch, look: InputCheck, now: Instant) -> bool {
        watch.record_check(look, AwaitedContent::Nothing, now)
            || watch.record_check(look, AwaitedContent::Nothing, now + CONFIRMATION_DELAY)
    }

    #[test]
    fn line_editor_without_a_prompt_counts_after_longer_silence() {
        let begin = Instant::now();
        let look = InputCheck { state: InputState::Awaits, screen: ScreenState::EditorAtEmptyRow };
        let mut watch = InputWatch::new(InputWait::Known, begin);
        assert!(!sees(&mut watch, look, at(begin, 700)));
        assert!(sees(&mut watch, look, at(begin, 800)));
    }

    #[test]
    fn silent_program_is_checked_less_and_less_often() {
        let begin = Instant::now();
        let mut watch = InputWatch::new(InputWait::Known, begin);
        assert_eq!(watch.due(), at(begin, 70));
        watch.restart(at(begin, 60));
        assert_eq!(watch.due(), at(begin, 130));
        let mut looks = 0;
        while watch.due() < at(begin, 10_000) {
            let now = watch.due();
            assert!(!watch.record_check(full(InputState::Works), AwaitedContent::Nothing, now));
            looks += 1;
        }
        assert!(looks < 16, "{looks} looks");
    }

    #[test]
    fn waiting_program_is_checked_twice() {
        let begin = Instant::now();
        let mut watch = InputWatch::new(InputWait::Known, begin);
        assert!(!watch.record_check(lines(InputState::Awaits), AwaitedContent::Nothing, at(begin, 70)));
        assert_eq!(watch.due(), at(begin, 100));
        assert!(watch.record_check(lines(InputState::Awaits), AwaitedContent::Nothing, at(begin, 100)));
        let mut watch = InputWatch::new(InputWait::Known, begin);
        assert!(!watch.record_check(lines(InputState::Awaits), AwaitedContent::Nothing, at(begin, 70)));
        assert!(
            !watch.record_check(lines(InputState::Works), AwaitedContent::Nothing, at(begin, 100)),
            "a program that continues does not wait"
        );
        assert!(
            !watch.record_check(lines(InputState::Awaits), AwaitedContent::Nothing, at(begin, 150)),
            "output restarts the silence"
        );
    }

    #[test]
    fn unknown_state_counts_sooner_at_the_awaited_text() {
        let begin = Instant::now();
        for (state, waits) in [
            (InputState::Unknown, true),
            (InputState::Relays, true),
            (InputState::Awaits, true),
            (InputState::Works, false),
        ] {
            let look = InputCheck { state, screen: ScreenState::EditorAtEmptyRow };
            let mut watch = InputWatch::new(InputWait::Known, begin);
            assert!(!watch.record_check(look, AwaitedContent::Text, at(begin, 100)));
            let is_waiting = watch.record_check(look, AwaitedContent::Text, at(begin, 200))
                || watch.record_check(look, AwaitedContent::Text, at(begin, 230));
            assert_eq!(is_waiting, waits, "{state:?}");
        }
    }

    #[test]
    fn drawing_program_has_time_to_finish_its_rows() {
        let begin = Instant::now();
        let mut watch = InputWatch::new(InputWait::Known, begin);
        let mut waits = |awaited: AwaitedContent, milliseconds: u64| {
            let look = lines(InputState::Awaits);
            watch.record_check(look, awaited, at(begin, milliseconds))
                || watch.record_check(look, awaited, at(begin, milliseconds) + CONFIRMATION_DELAY)
        };
        assert!(!waits(AwaitedContent::OtherScreen, 100) && !waits(AwaitedContent::OtherScreen, 1900));
        assert!(waits(AwaitedContent::OtherScreen, 2000));
        let mut watch = InputWatch::new(InputWait::Known, begin);
        assert!(sees(&mut watch, lines(InputState::Awaits), at(begin, 100)));
    }

    #[test]
    fn unknown_state_counts_after_longer_silence_if_requested() {
        let begin = Instant::now();
        for (wait, waits) in [(InputWait::Known, false), (InputWait::KnownOrQuiet, true)] {
            let mut watch = InputWatch::new(wait, begin);
            assert!(!sees(&mut watch, lines(InputState::Unknown), at(begin, 700)));
            assert_eq!(sees(&mut watch, lines(InputState::Unknown), at(begin, 800)), waits);
            let mut watch = InputWatch::new(wait, begin);
            assert!(
                !sees(&mut watch, lines(InputState::Relays), at(begin, 2900)),
                "a silent remote command may still run"
            );
            assert_eq!(sees(&mut watch, lines(InputState::Relays), at(begin, 3000)), waits);
            for state in [InputState::Unknown, InputState::Relays] {
                let mut watch = InputWatch::new(wait, begin);
                assert!(sees(&mut watch, full(state), at(begin, 800)), "an unchanged full screen counts as waiting");
            }
        }
    }
}
