//! Common parts of waiting commands: the options, the time limit, and the exit code for the outcome of a wait.

use std::future::pending;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::time::Instant;

/// Exit code of a command that ended at a gate, or at a question of a program.
pub(crate) const AT_GATE_EXIT_CODE: u8 = 3;

/// Maximum time limit: a year.
const MAX_TIMEOUT_SECONDS: f64 = 31_536_000.0;

/// The options of every waiting command.
#[derive(Debug, Clone, Args)]
pub(crate) struct WaitOptions {
    /// Time limit in seconds [default: none]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) timeout: Option<f64>,
    /// Print each event as one JSON line
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let parsed = text.parse().ok().filter(|seconds| (0.0..=MAX_TIMEOUT_SECONDS).contains(seconds));
    parsed.ok_or_else(|| format!("must be a number of seconds from 0 to {MAX_TIMEOUT_SECONDS}"))
}

/// Outcome of a wait. Of several outcomes, the greatest determines the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WaitOutcome {
    /// The awaited event happened: a match, a prompt, the success of a run.
    Done,
    /// A run waits at a gate, or a program asks for input.
    Asks,
    /// A run or a program failed, or ended before the awaited event.
    Failed,
}

impl WaitOutcome {
    pub(crate) fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Done => 0,
            Self::Asks => AT_GATE_EXIT_CODE,
            Self::Failed => crate::failure::FAILED,
        })
    }
}

/// The time limit of a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimit {
    deadline: Option<Instant>,
}

impl TimeLimit {
    /// Starts a limit of `seconds`. `None` means no limit.
    pub(crate) fn start(seconds: Option<f64>) -> Self {
        Self { deadline: seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds)) }
    }

    /// Completes when the limit has passed. Never completes without a limit.
    pub(crate) async fn passed(self) {
        match self.deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_is_the_most_severe_outcome() {
        use WaitOutcome::{Asks, Done, Failed};
        assert_eq!([Done, Failed, Asks].into_iter().max(), Some(Failed));
        assert_eq!([Done, Asks].into_iter().max(), Some(Asks));
    }

    #[test]
    fn time_limit_is_a_number_of_seconds() {
        assert_eq!(parse_seconds("0.5"), Ok(0.5));
        for wrong in ["-1", "NaN", "inf", "soon", "1e9"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_limit_expires_and_a_missing_one_never_does() {
        let began = Instant::now();
        TimeLimit::start(Some(1.5)).passed().await;
        assert_eq!(began.elapsed(), Duration::from_millis(1500));
        let unlimited = tokio::time::timeout(Duration::from_secs(1_000_000), TimeLimit::start(None).passed());
        assert!(unlimited.await.is_err());
    }
}
