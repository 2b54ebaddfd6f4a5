//! Times at which a wait for typed input checks the foreground program.
//!
//! No event announces that a program begins to read. A wait therefore checks a silent program after a short time, and
//! again after pauses that grow to a second. Each check of `/proc` takes some tens of microseconds. Output and input
//! restart the silence.

use std::time::Duration;

use tokio::time::Instant;

use crate::process::InputState;
use crate::wait::InputWait;

/// Silence of a program before the first check. Most programs write a question at once.
const SETTLED: Duration = Duration::from_millis(70);

/// Time until the second check of a waiting program. Output from just before its read may arrive later, because the
/// kernel passes it on in a separate task.
const CONFIRMED: Duration = Duration::from_millis(30);

/// Required silence of a program with an unknown state.
const SETTLED_UNKNOWN: Duration = Duration::from_millis(800);

/// Required silence of a program with an unknown state, or of a line editor, that shows the awaited text.
const SETTLED_FOUND: Duration = Duration::from_millis(200);

/// Required silence of a program that takes keys, where the rows that a wait looks for are not on the screen: it draws
/// them once it has what it waits for in addition to keys.
const SETTLED_DRAWING: Duration = Duration::from_secs(2);

/// Required silence of a relay, without a question on the screen. Longer, because a silent
/// remote command looks the same.
const SETTLED_RELAY: Duration = Duration::from_secs(3);

/// The first pause between two checks, which doubles each time, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Result of a check of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) state: InputState,
    pub(super) screen: ScreenState,
}

/// State of the screen where a program may wait for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScreenState {
    /// A full-screen program has the screen. If it does not change, the program waits.
    Full,
    /// The program takes keys one by one, and nothing is in the row of the cursor.
    EditorAtEmptyRow,
    /// Neither of both.
    Lines,
}

/// Content of the place where a program may wait for input, for a wait that looks for a text with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    /// The wait looks for no such text, or the text did not come in the output.
    Nothing,
    /// The text.
    Text,
    /// Another screen than that which it looks for.
    OtherScreen,
}

/// The checks of one wait.
#[derive(Debug)]
pub(super) struct InputWatch {
    wait: InputWait,
    silent_since: Instant,
    /// True if the last check found that it waits.
    seen_waiting: bool,
    pause: Duration,
    look_at: Instant,
}

impl InputWatch {
    /// Creates a watch of a program that is silent since `silent_since`.
    pub(super) fn new(wait: InputWait, silent_since: Instant) -> Self {
        Self { wait, silent_since, seen_waiting: false, pause: FIRST_PAUSE, look_at: silent_since + SETTLED }
    }

    /// Records output, or written input.
    pub(super) fn restart(&mut self, now: Instant) {
        *self = Self::new(self.wait, now);
    }

    /// Returns whether a quiet program with an unknown state counts as waiting.
    pub(super) fn guesses(&self) -> bool {
        self.wait == InputWait::KnownOrQuiet
    }

    /// Returns the time of the next check.
    pub(super) fn due(&self) -> Instant {
        self.look_at
    }

    /// Records the result of a check at `now`. Returns whether the program waits for input. `awaited` is the text on
    /// the screen.
    pub(super) fn looked(&mut self, Look { state, screen }: Look, awaited: Awaited, now: Instant) -> bool {
        let full_screen = screen == ScreenState::Full;
        let is_quiet = |settled: Duration| now >= self.silent_since + settled;
        let guesses = self.guesses();
        let waits = match state {
            // An editor of lines takes keys while its own command is under way; it has not shown its prompt then.
            InputState::Works => false,
            _ if awaited == Awaited::Text && is_quiet(SETTLED_FOUND) => true,
            InputState::Awaits if awaited == Awaited::OtherScreen => is_quiet(SETTLED_DRAWING),
            InputState::Awaits => screen != ScreenState::EditorAtEmptyRow || is_quiet(SETTLED_UNKNOWN),
            InputState::Unknown => (guesses || full_screen) && is_quiet(SETTLED_UNKNOWN),
            InputState::Relays if full_screen => is_quiet(SETTLED_UNKNOWN),
            InputState::Relays => guesses && is_quiet(SETTLED_RELAY),
        };
        if waits && !std::mem::replace(&mut self.seen_waiting, waits) {
            self.look_at = now + CONFIRMED;
            return false;
        }
        self.seen_waiting = waits;
        if !waits {
            self.look_at = now + self.pause;
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

    fn lines(state: InputState) -> Look {
        Look { state, screen: ScreenState::Lines }
    }

    fn full(state: InputState) -> Look {
        Look { state, screen: ScreenState::Full }
    }

    /// Looks until the watch is sure, and returns whether the program waits.
    fn sees(watch: &mut InputWatch, look: Look, now: Instant) -> bool {
        watch.looked(look, Awaited::Nothing, now) || watch.looked(look, Awaited::Nothing, now + CONFIRMED)
    }

    #[test]
    fn a_line_editor_without_a_prompt_counts_after_a_longer_silence() {
        let begin = Instant::now();
        let look = Look { state: InputState::Awaits, screen: ScreenState::EditorAtEmptyRow };
        let mut watch = InputWatch::new(InputWait::Known, begin);
        assert!(!sees(&mut watch, look, at(begin, 700)));
        assert!(sees(&mut watch, look, at(begin, 800)));
    }

    #[test]
    fn a_program_is_looked_at_once_it_is_silent_and_then_ever_less_often() {
        let begin = Instant::now();
        let mut watch = InputWatch::new(InputWait::Known, begin);
        assert_eq!(watch.due(), at(begin, 70));
        watch.restart(at(begin, 60));
        assert_eq!(watch.due(), at(begin, 130));
        let mut looks = 0;
        while watch.due() < at(begin, 10_000) {
            let now = watch.due();
            assert!(!watch.looked(full(InputState::Works), Awaited::Nothing, now));
            looks += 1;
        }
        assert!(looks < 16, "{looks} looks");
    }

    #[test]
    fn a_program_that_waits_is_looked_at_twice() {
        let begin = Instant::now();
        let mut watch = InputWatch::new(InputWait::Known, begin);
        assert!(!watch.looked(lines(InputState::Awaits), Awaited::Nothing, at(begin, 70)));
        assert_eq!(watch.due(), at(begin, 100));
        assert!(watch.looked(lines(InputState::Awaits), Awaited::Nothing, at(begin, 100)));
        let mut watch = InputWatch::new(InputWait::Known, begin);
        assert!(!watch.looked(lines(InputState::Awaits), Awaited::Nothing, at(begin, 70)));
        assert!(!watch.looked(lines(InputState::Works), Awaited::Nothing, at(begin, 100)), "it went on");
        assert!(!watch.looked(lines(InputState::Awaits), Awaited::Nothing, at(begin, 150)), "which begins anew");
    }

    #[test]
    fn an_unknown_state_counts_sooner_where_the_awaited_text_stands() {
        let begin = Instant::now();
        for (state, waits) in [
            (InputState::Unknown, true),
            (InputState::Relays, true),
            (InputState::Awaits, true),
            (InputState::Works, false),
        ] {
            let look = Look { state, screen: ScreenState::EditorAtEmptyRow };
            let mut watch = InputWatch::new(InputWait::Known, begin);
            assert!(!watch.looked(look, Awaited::Text, at(begin, 100)));
            let seen =
                watch.looked(look, Awaited::Text, at(begin, 200)) || watch.looked(look, Awaited::Text, at(begin, 230));
            assert_eq!(seen, waits, "{state:?}");
        }
    }

    #[test]
    fn a_program_that_draws_has_time_until_its_rows_are_there() {
        let begin = Instant::now();
        let mut watch = InputWatch::new(InputWait::Known, begin);
        let mut waits = |awaited: Awaited, milliseconds: u64| {
            let look = lines(InputState::Awaits);
            watch.looked(look, awaited, at(begin, milliseconds))
                || watch.looked(look, awaited, at(begin, milliseconds) + CONFIRMED)
        };
        assert!(!waits(Awaited::OtherScreen, 100) && !waits(Awaited::OtherScreen, 1900));
        assert!(waits(Awaited::OtherScreen, 2000));
        let mut watch = InputWatch::new(InputWait::Known, begin);
        assert!(sees(&mut watch, lines(InputState::Awaits), at(begin, 100)));
    }

    #[test]
    fn an_unknown_state_counts_after_a_longer_silence_and_only_where_that_is_wanted() {
        let begin = Instant::now();
        for (wait, waits) in [(InputWait::Known, false), (InputWait::KnownOrQuiet, true)] {
            let mut watch = InputWatch::new(wait, begin);
            assert!(!sees(&mut watch, lines(InputState::Unknown), at(begin, 700)));
            assert_eq!(sees(&mut watch, lines(InputState::Unknown), at(begin, 800)), waits);
            let mut watch = InputWatch::new(wait, begin);
            assert!(!sees(&mut watch, lines(InputState::Relays), at(begin, 2900)), "a remote command may be silent");
            assert_eq!(sees(&mut watch, lines(InputState::Relays), at(begin, 3000)), waits);
            for state in [InputState::Unknown, InputState::Relays] {
                let mut watch = InputWatch::new(wait, begin);
                assert!(sees(&mut watch, full(state), at(begin, 800)), "a full screen that stands still");
            }
        }
    }
}
