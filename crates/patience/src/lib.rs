//! Polling of named conditions in tests, the common way to skip a test, and ports for servers of tests.
//!
//! All tests share one deadline and one polling interval. The deadline is long, because only a failing test reaches it.
//! For tests only: an expired deadline panics.

use std::fmt::Debug;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// The environment variable with the deadline of all conditions, in seconds.
pub const DEADLINE_VARIABLE: &str = "STEPLATCH_TEST_PATIENCE";

/// The environment variable that turns a skipped test into a failure, as in CI.
pub const TEST_ALL_VARIABLE: &str = "STEPLATCH_TEST_ALL";

/// Reports that a test is skipped, because this computer lacks a requirement.
///
/// # Panics
///
/// If the environment requires all tests.
#[allow(clippy::print_stderr, reason = "reports a skipped test")]
pub fn skip_test(reason: &str) {
    let requires_all =
        std::env::var_os(TEST_ALL_VARIABLE).is_some_and(|requires_all| !requires_all.is_empty() && requires_all != "0");
    assert!(!requires_all, "{TEST_ALL_VARIABLE} requires all tests, but {reason}");
    eprintln!("left out: {reason}");
}

/// Returns a port of 127.0.0.1 that a server can use, also again after a restart.
///
/// The port is outside the range of ports that the system gives to connections: any connection could take a port in
/// that range in the meantime. Every process begins at a port of its own.
///
/// # Panics
///
/// If no port is free.
#[must_use]
pub fn free_port() -> u16 {
    /// Linux gives the ports from 32,768 to connections.
    const FIRST_PORT: u16 = 20_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = FIRST_PORT + u16::try_from(std::process::id() % 1200).expect("a remainder of 1,200 fits") * 10;
    let mut ports = (0..2000).map(|_| first + NEXT.fetch_add(1, Ordering::Relaxed) % 500);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a port is free")
}

/// The deadline without the environment variable.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(120);

/// The interval between two evaluations of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The result of evaluating a condition: a boolean, or a value that may not exist yet.
pub trait Observation {
    /// The value that exists once the condition holds.
    type Value;

    /// Returns the value if the condition holds, and otherwise a description of the observed state.
    ///
    /// # Errors
    /// If the condition does not hold yet.
    fn into_observed(self) -> Result<Self::Value, String>;
}

impl Observation for bool {
    type Value = ();

    fn into_observed(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("false".to_owned()) }
    }
}

impl<T> Observation for Option<T> {
    type Value = T;

    fn into_observed(self) -> Result<T, String> {
        self.ok_or_else(|| "None".to_owned())
    }
}

/// The error describes the observed state.
impl<T, E: Debug> Observation for Result<T, E> {
    type Value = T;

    fn into_observed(self) -> Result<T, String> {
        self.map_err(|into_observed| format!("{into_observed:?}"))
    }
}

/// Waits until `condition` holds and returns its value. Evaluates the condition every 10 ms.
///
/// # Panics
/// After 120 s, or the time in the environment variable [`DEADLINE_VARIABLE`], with `awaited` and the last observed
/// state. Also if one evaluation takes longer than that.
pub async fn eventually<L: Observation>(awaited: &str, condition: impl AsyncFnMut() -> L) -> L::Value {
    eventually_within(deadline(), awaited, condition).await
}

/// Waits as [`eventually`] does, on a thread that may block. An evaluation that never returns is not interrupted.
///
/// # Panics
/// After 120 s, or the time in the environment variable [`DEADLINE_VARIABLE`], with `awaited` and the last observed
/// state.
pub fn eventually_blocking<L: Observation>(awaited: &str, condition: impl FnMut() -> L) -> L::Value {
    blocking_within(deadline(), awaited, condition)
}

async fn eventually_within<L: Observation>(
    deadline: Duration,
    awaited: &str,
    mut condition: impl AsyncFnMut() -> L,
) -> L::Value {
    let began = Instant::now();
    let mut last_seen = None;
    loop {
        let remaining = deadline.saturating_sub(began.elapsed());
        match tokio::time::timeout(remaining, condition()).await.map(Observation::into_observed) {
            Ok(Ok(value)) => return value,
            Ok(Err(into_observed)) => last_seen = Some(into_observed),
            Err(_) => panic_expired(deadline, awaited, last_seen.as_deref()),
        }
        if began.elapsed() >= deadline {
            panic_expired(deadline, awaited, last_seen.as_deref());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn blocking_within<L: Observation>(deadline: Duration, awaited: &str, mut condition: impl FnMut() -> L) -> L::Value {
    let began = Instant::now();
    loop {
        match condition().into_observed() {
            Ok(value) => return value,
            Err(into_observed) if began.elapsed() >= deadline => panic_expired(deadline, awaited, Some(&into_observed)),
            Err(_) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

fn panic_expired(deadline: Duration, awaited: &str, last_seen: Option<&str>) -> ! {
    let observation = last_seen.unwrap_or("nothing: the first evaluation has not returned");
    panic!("{awaited}: not within {deadline:?}; last observed: {observation}");
}

fn deadline() -> Duration {
    deadline_of(std::env::var(DEADLINE_VARIABLE).ok().as_deref())
}

fn deadline_of(seconds: Option<&str>) -> Duration {
    let Some(text) = seconds else { return DEFAULT_DEADLINE };
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.unwrap_or_else(|| panic!("{DEADLINE_VARIABLE} must be a number of seconds, not {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn condition_is_polled_until_it_holds() {
        let mut polls = 0;
        let value = eventually("the third poll", async || {
            polls += 1;
            if polls == 3 { Ok("three") } else { Err(polls) }
        });
        assert_eq!(value.await, "three");
        let mut polls = 0;
        let value = eventually_blocking("the second poll", || {
            polls += 1;
            (polls == 2).then_some(polls)
        });
        assert_eq!(value, 2);
        eventually_blocking("a true condition", || true);
    }

    #[tokio::test]
    #[should_panic(expected = "a file: not within 0ns; last observed: \"an empty directory\"")]
    async fn expired_deadline_panics_with_condition_and_last_value() {
        eventually_within(Duration::ZERO, "a file", async || Err::<(), _>("an empty directory")).await;
    }

    #[test]
    #[should_panic(expected = "a true condition: not within 0ns; last observed: false")]
    fn expired_blocking_wait_panics_too() {
        blocking_within(Duration::ZERO, "a true condition", || false);
    }

    #[tokio::test]
    #[should_panic(
        expected = "an answer: not within 0ns; last observed: nothing: the first evaluation has not returned"
    )]
    async fn hanging_evaluation_is_abandoned() {
        eventually_within(Duration::ZERO, "an answer", async || std::future::pending::<bool>().await).await;
    }

    #[test]
    fn environment_can_set_the_deadline_in_seconds() {
        assert_eq!(deadline_of(None), DEFAULT_DEADLINE);
        assert_eq!(deadline_of(Some("2.5")), Duration::from_millis(2500));
        let panic = std::panic::catch_unwind(|| deadline_of(Some("long"))).unwrap_err();
        let panic = panic.downcast_ref::<String>().unwrap();
        assert_eq!(panic, "STEPLATCH_TEST_PATIENCE must be a number of seconds, not \"long\"");
    }
}
