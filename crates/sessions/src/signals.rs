//! Signals by name.

use steplatch_terminal::Signal;

const SIGNALS_BY_NAME: [(&str, Signal); 10] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("KILL", Signal::KILL),
    ("TERM", Signal::TERM),
    ("STOP", Signal::STOP),
    ("CONT", Signal::CONT),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("WINCH", Signal::WINCH),
];

/// An unknown name of a signal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{name}' is not a signal; use one of {}", SIGNALS_BY_NAME.map(|(known, _)| known).join(", "))]
pub(super) struct UnknownSignal {
    /// The name, at most 40 characters.
    name: String,
}

/// Returns the signal called `name`, with or without `SIG`, in any case.
pub(super) fn signal_named(name: &str) -> Result<Signal, UnknownSignal> {
    let upper_case = name.trim().to_ascii_uppercase();
    let bare_name = upper_case.strip_prefix("SIG").unwrap_or(&upper_case);
    SIGNALS_BY_NAME
        .iter()
        .find(|(known, _)| *known == bare_name)
        .map(|(_, signal)| *signal)
        .ok_or_else(|| UnknownSignal { name: name.chars().take(40).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_known_by_all_their_names() {
        for name in ["INT", "SIGINT", "sigint", " int "] {
            assert_eq!(signal_named(name), Ok(Signal::INT));
        }
        assert!(
            signal_named("BOOM").unwrap_err().to_string().starts_with("'BOOM' is not a signal; use one of HUP, INT")
        );
    }
}
