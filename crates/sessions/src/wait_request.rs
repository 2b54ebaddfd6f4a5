//! Conversion of a client's wait to a request to the terminal.

use std::time::Duration;

use steplatch_access::Caller;
use steplatch_host::WaitRequest;
use steplatch_pattern::Pattern;
use steplatch_protocol::{AwaitOutput, AwaitTarget, AwaitUntil, InputReading as ProtocolReading, SendInput, Since};
use steplatch_terminal::{InputReading, InputWait, Quiet, Target, Until};

use crate::error::SessionError;

/// Time without output that ends a wait for quiet.
const QUIET_TIME: Duration = Duration::from_millis(500);

/// Maximum timeout of a wait, in seconds.
const MAX_TIMEOUT_SECONDS: f64 = 3600.0;

/// Default timeout of an input's wait, in seconds.
const DEFAULT_INPUT_TIMEOUT_SECONDS: f64 = 10.0;

/// Returns the wait that an input requests, if any.
pub(crate) fn input_wait(verb: &SendInput) -> Result<Option<AwaitOutput>, SessionError> {
    let pattern = verb.pattern.clone().filter(|pattern| !pattern.is_empty());
    if pattern.is_none() && verb.until.is_none() {
        return match verb.timeout {
            None => Ok(None),
            Some(_) => Err("timeout is for a wait: give until or pattern as well".to_owned().into()),
        };
    }
    if verb.wait_for_quiet_ms.is_some_and(|quiet| quiet > 0) {
        return Err("wait_for_quiet_ms and until or pattern are two ways to wait: give one".to_owned().into());
    }
    if let Some(pattern) = &pattern {
        // Check the pattern now, because the host parses it only after the input was typed.
        Pattern::new(pattern).map_err(|error| error.to_string())?;
    }
    Ok(Some(AwaitOutput {
        session_id: verb.session_id.clone(),
        pattern: pattern.unwrap_or_default(),
        until: verb.until.unwrap_or_default(),
        timeout: verb.timeout.unwrap_or(DEFAULT_INPUT_TIMEOUT_SECONDS),
        stop_at_input: verb.stop_at_input,
        reads: verb.reads,
        highlighted: verb.highlighted.clone(),
        ..AwaitOutput::default()
    }))
}

/// Returns the patterns of a wait.
pub(crate) fn wait_patterns(verb: &AwaitOutput) -> Vec<String> {
    let patterns = std::iter::once(&verb.pattern).chain(verb.patterns.iter().flatten());
    patterns.filter(|pattern| !pattern.is_empty()).cloned().collect()
}

/// Converts the wait of a client to a wait of the terminal. A `since` that is not an offset is ignored.
pub(crate) fn wait_request(caller: &Caller, verb: &AwaitOutput) -> Result<WaitRequest, SessionError> {
    let patterns = wait_patterns(verb);
    if patterns.is_empty() && verb.until == AwaitUntil::Match {
        return Err("pattern is required, unless until is prompt, input, exit or quiet".to_owned().into());
    }
    if !(0.0..=MAX_TIMEOUT_SECONDS).contains(&verb.timeout) {
        return Err(format!("timeout must be between 0 and {MAX_TIMEOUT_SECONDS} seconds, not {}", verb.timeout).into());
    }
    let has_patterns = !patterns.is_empty();
    Ok(WaitRequest {
        patterns,
        target: match verb.target {
            AwaitTarget::Output => Target::Output,
            AwaitTarget::Screen => Target::Screen,
        },
        since: match verb.since {
            Some(Since::Offset(offset)) => Some(offset),
            Some(Since::Last | Since::Input) | None => None,
        },
        until: match verb.until {
            AwaitUntil::Match => Until::Match,
            AwaitUntil::Prompt | AwaitUntil::Input => Until::Prompt,
            AwaitUntil::Exit => Until::Exit,
            AwaitUntil::Quiet => Until::Quiet(Quiet::for_duration(QUIET_TIME)),
        },
        input: match verb.until {
            AwaitUntil::Input => Some(InputWait::KnownOrQuiet),
            // A run does not stop at a question of the program; a client can answer it.
            AwaitUntil::Prompt if caller.reader().is_some() => Some(InputWait::Known),
            AwaitUntil::Prompt | AwaitUntil::Match | AwaitUntil::Exit if verb.stop_at_input => Some(InputWait::Known),
            AwaitUntil::Prompt | AwaitUntil::Match | AwaitUntil::Exit | AwaitUntil::Quiet => None,
        },
        reads: verb.reads.filter(|_| has_patterns).map(input_reading),
        reads_lines: has_patterns && verb.reads == Some(ProtocolReading::Line),
        highlighted: verb.highlighted.clone(),
        timeout: Duration::from_secs_f64(verb.timeout),
        by: caller.label(),
        line: None,
    })
}

fn input_reading(reads: ProtocolReading) -> InputReading {
    match reads {
        ProtocolReading::Line | ProtocolReading::Shown => InputReading::Shown,
        ProtocolReading::Hidden => InputReading::Hidden,
        ProtocolReading::Any => InputReading::Any,
    }
}
