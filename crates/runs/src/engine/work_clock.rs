//! Time that a run has spent working, for its time limit.

use std::time::Duration;

use steplatch_clock::Timestamp;

/// Adds up the time that a run is at work. Waits for a person and pauses do not count.
#[derive(Debug, Default)]
pub(crate) struct WorkClock {
    /// Time at work before `since`.
    worked: Duration,
    /// Start of the current work; `None` while the clock does not run.
    since: Option<Timestamp>,
}

impl WorkClock {
    /// Records that the run starts (`is_at_work`) or stops working at `at`.
    pub(crate) fn apply(&mut self, at: Timestamp, is_at_work: bool) {
        match (self.since, is_at_work) {
            (Some(since), false) => {
                self.worked += at.since(since);
                self.since = None;
            }
            (None, true) => self.since = Some(at),
            _ => {}
        }
    }

    /// Moves a start after `now` to `now`, so that a clock that was set back does not extend the limit.
    pub(crate) fn begin_by(&mut self, now: Timestamp) {
        self.since = self.since.map(|since| since.min(now));
    }

    /// Returns the end of the working time `limit`, if no interruption follows. `None` while its clock does not run.
    pub(crate) fn deadline(&self, limit: Duration) -> Option<Timestamp> {
        Some(self.since?.after(limit.saturating_sub(self.worked)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_and_clock_corrections_do_not_extend_the_limit() {
        let at = |seconds: i64| Timestamp(seconds * 1_000_000);
        let limit = Duration::from_secs(10);
        let mut clock = WorkClock::default();
        assert_eq!(clock.deadline(limit), None, "the clock has not started");
        clock.apply(at(100), true);
        assert_eq!(clock.deadline(limit), Some(at(110)));
        clock.apply(at(104), false);
        clock.apply(at(190), false);
        assert_eq!(clock.deadline(limit), None);
        clock.apply(at(200), true);
        clock.apply(at(203), true);
        assert_eq!(clock.deadline(limit), Some(at(206)));
        clock.begin_by(at(150));
        assert_eq!(clock.deadline(limit), Some(at(156)));
    }
}
