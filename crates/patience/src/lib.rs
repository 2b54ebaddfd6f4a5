//! Waiting in tests: until a named condition holds, for which there is no notification. And the one way to leave a test out.
//!
//! All tests have one deadline and one pause between two looks. The deadline is long, because it only bounds a test that
//! fails. For tests only: an expired deadline panics.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// The environment variable with the deadline of all conditions, in seconds.
pub const DEADLINE_VARIABLE: &str = "STEPLATCH_TEST_PATIENCE";

/// The environment variable that makes a test that is left out a failure, as in CI.
pub const TEST_ALL_VARIABLE: &str = "STEPLATCH_TEST_ALL";

/// Records that a test is left out, because this machine lacks something.
///
/// # Panics
///
/// If the environment demands all tests.
#[allow(clippy::print_stderr, reason = "a test that is left out says so")]
pub fn leave_out(reason: &str) {
    let all = std::env::var_os(TEST_ALL_VARIABLE).is_some_and(|all| !all.is_empty() && all != "0");
    assert!(!all, "{TEST_ALL_VARIABLE} demands all tests, and {reason}");
    eprintln!("left out: {reason}");
}

/// The deadline where the environment has none.
const USUAL_DEADLINE: Duration = Duration::from_secs(120);

/// The pause between two looks at a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Result of a look at a condition: a truth, or a value that may not exist yet.
pub trait Look {
    /// The value that exists once the condition holds.
    type Value;

    /// Returns the value if the condition holds, and otherwise a description of what was seen.
    ///
    /// # Errors
    /// If the condition does not hold yet.
    fn seen(self) -> Result<Self::Value, String>;
}

impl Look for bool {
    type Value = ();

    fn seen(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("false".to_owned()) }
    }
}

impl<T> Look for Option<T> {
    type Value = T;

    fn seen(self) -> Result<T, String> {
        self.ok_or_else(|| "None".to_owned())
    }
}

/// The error is what was seen instead.
impl<T, E: Debug> Look for Result<T, E> {
    type Value = T;

    fn seen(self) -> Result<T, String> {
        self.map_err(|seen| format!("{seen:?}"))
    }
}

/// Waits until `condition` holds, and returns its value. The condition is looked at every 10 ms.
///
/// # Panics
/// After 120 s, or what the environment variable [`DEADLINE_VARIABLE`] says, with `awaited` and what was seen last. Also
/// when one look takes longer than that.
pub async fn eventually<L: Look>(awaited: &str, condition: impl AsyncFnMut() -> L) -> L::Value {
    eventually_within(deadline(), awaited, condition).await
}

/// Waits as [`eventually`] does, on a thread that may block. A look that never returns is not interrupted.
///
/// # Panics
/// After 120 s, or what the environment variable [`DEADLINE_VARIABLE`] says, with `awaited` and what was seen last.
pub fn eventually_blocking<L: Look>(awaited: &str, condition: impl FnMut() -> L) -> L::Value {
    blocking_within(deadline(), awaited, condition)
}

async fn eventually_within<L: Look>(
    deadline: Duration,
    awaited: &str,
    mut condition: impl AsyncFnMut() -> L,
) -> L::Value {
    let began = Instant::now();
    let mut last = None;
    loop {
        let left = deadline.saturating_sub(began.elapsed());
        match tokio::time::timeout(left, condition()).await.map(Look::seen) {
            Ok(Ok(value)) => return value,
            Ok(Err(seen)) => last = Some(seen),
            Err(_) => expired(deadline, awaited, last.as_deref()),
        }
        if began.elapsed() >= deadline {
            expired(deadline, awaited, last.as_deref());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn blocking_within<L: Look>(deadline: Duration, awaited: &str, mut condition: impl FnMut() -> L) -> L::Value {
    let began = Instant::now();
    loop {
        match condition().seen() {
            Ok(value) => return value,
            Err(seen) if began.elapsed() >= deadline => expired(deadline, awaited, Some(&seen)),
            Err(_) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

fn expired(deadline: Duration, awaited: &str, last: Option<&str>) -> ! {
    let seen = last.unwrap_or("nothing: the first look has not returned");
    panic!("{awaited}: not within {deadline:?}; the last look saw: {seen}");
}

fn deadline() -> Duration {
    deadline_of(std::env::var(DEADLINE_VARIABLE).ok().as_deref())
}

fn deadline_of(seconds: Option<&str>) -> Duration {
    let Some(text) = seconds else { return USUAL_DEADLINE };
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.unwrap_or_else(|| panic!("{DEADLINE_VARIABLE} is a number of seconds, not {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_condition_is_looked_at_until_it_holds_and_its_value_returned() {
        let mut looks = 0;
        let value = eventually("the third look", async || {
            looks += 1;
            if looks == 3 { Ok("three") } else { Err(looks) }
        });
        assert_eq!(value.await, "three");
        let mut looks = 0;
        let value = eventually_blocking("the second look", || {
            looks += 1;
            (looks == 2).then_some(looks)
        });
        assert_eq!(value, 2);
        eventually_blocking("a truth", || true);
    }

    #[tokio::test]
    #[should_panic(expected = "a file: not within 0ns; the last look saw: \"an empty folder\"")]
    async fn an_expired_deadline_panics_with_the_condition_and_what_was_seen_last() {
        eventually_within(Duration::ZERO, "a file", async || Err::<(), _>("an empty folder")).await;
    }

    #[test]
    #[should_panic(expected = "a truth: not within 0ns; the last look saw: false")]
    fn a_blocking_wait_panics_in_the_same_way() {
        blocking_within(Duration::ZERO, "a truth", || false);
    }

    #[tokio::test]
    #[should_panic(expected = "an answer: not within 0ns; the last look saw: nothing: the first look has not returned")]
    async fn a_look_that_never_returns_is_given_up_as_well() {
        eventually_within(Duration::ZERO, "an answer", async || std::future::pending::<bool>().await).await;
    }

    #[test]
    fn the_environment_may_set_the_deadline_in_seconds() {
        assert_eq!(deadline_of(None), USUAL_DEADLINE);
        assert_eq!(deadline_of(Some("2.5")), Duration::from_millis(2500));
        let wrong = std::panic::catch_unwind(|| deadline_of(Some("long"))).unwrap_err();
        let wrong = wrong.downcast_ref::<String>().unwrap();
        assert_eq!(wrong, "STEPLATCH_TEST_PATIENCE is a number of seconds, not \"long\"");
    }
}
