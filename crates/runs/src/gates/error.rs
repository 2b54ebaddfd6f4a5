//! Errors about rejected answers to gates.

use steplatch_access::{PasskeyRefusal, PassphraseError, PersonRefusal, TooManySecrets};
use steplatch_clock as clock;
use steplatch_ids::{RunId, StepId};
use steplatch_workflow::{By, Proof, Timestamp};

use crate::run::RunState;

/// Error about a rejected answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    /// The answer can be for several gates. The client can name one.
    #[error(transparent)]
    Ambiguous(#[from] AmbiguousGate),
    /// The gate is closed.
    #[error(transparent)]
    Closed(#[from] ClosedGateError),
    /// The run has no open gate.
    #[error(transparent)]
    NotWaiting(#[from] NotWaiting),
    /// The answer names a gate other than the open gate.
    #[error("Gate '{gate}' is not open; the open gate is '{open}'")]
    OtherGate {
        /// The named gate.
        gate: String,
        /// The open gate.
        open: StepId,
    },
    /// The answer names none of the open gates.
    #[error("Gate '{gate}' does not wait in run '{run}'")]
    UnknownGate {
        /// The named gate.
        gate: String,
        /// The run.
        run: RunId,
    },
    /// The gate closed before the run accepted the answer.
    #[error("Gate '{gate}' no longer waits: the run is {}", .state.name())]
    ClosedMeanwhile {
        /// The gate.
        gate: String,
        /// The state of the run.
        state: RunState,
    },
    /// The journal has not stored the answer yet. It may do so later.
    #[error("The answer is not stored yet{}; look with get_run", reason(.blocked_reason.as_deref()))]
    NotStored {
        /// Reason that blocks the run, if known.
        blocked_reason: Option<String>,
    },
    /// The gate is for people, and the caller is not treated as a person.
    #[error(transparent)]
    NoPerson(#[from] PersonRefusal),
    /// The choice leads past a gate that only a person opens, and the caller is an agent.
    #[error(
        "This choice leads past a gate that only a person opens: choose another one, or a person answers with \
         'steplatch gates answer {gate}', in a terminal of their own"
    )]
    BehindGate {
        /// The gate that waits.
        gate: String,
    },
    /// The gate has changed since the sender saw it. The sender can read the gate again.
    #[error("Gate '{gate}' has changed since this answer was given; read it again: steplatch gates show {gate}")]
    Changed {
        /// The gate.
        gate: String,
    },
    /// The answer lacks the required proof.
    #[error(
        "This gate accepts an answer only if it is {} (setting gates.require = \"{}\")",
        proof_description(*.required),
        .required.name()
    )]
    Unproved {
        /// The required proof.
        required: Proof,
    },
    /// The gate does not accept the answer. The client can send another one.
    #[error(transparent)]
    Misread(#[from] InvalidAnswer),
    /// The answer is a secret, and the maximum number of secrets is reached.
    #[error(transparent)]
    TooManySecrets(#[from] TooManySecrets),
    /// The passphrase is missing or wrong.
    #[error(transparent)]
    NotApproved(#[from] PassphraseError),
    /// The signature of a passkey does not prove this answer.
    #[error(transparent)]
    NotSigned(#[from] PasskeyRefusal),
}

/// Several gates are open, and the request names none of them.
#[derive(Debug, thiserror::Error)]
#[error("Several gates wait; choose one with gate_id: {}", .gates.join(", "))]
pub(crate) struct AmbiguousGate {
    /// The ids of the open gates.
    pub(crate) gates: Vec<String>,
}

/// Reason for the closing of a gate before an answer arrived.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClosedGateError {
    /// Another answer came first.
    #[error("The gate was already answered by {by} at {}: {answer}", clock::to_iso8601(*.at))]
    Answered {
        /// The author of the other answer.
        by: By,
        /// Time of the run's acceptance.
        at: Timestamp,
        /// The other answer.
        answer: String,
    },
    /// The time limit of the gate has expired.
    #[error("Gate '{gate}' is closed: its time limit passed without an answer")]
    Expired {
        /// The gate.
        gate: StepId,
    },
}

/// State of a run without an open gate, and so without a wait for an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotWaiting {
    /// The run waits for something else.
    #[error("{blocked_reason}")]
    Stuck {
        /// Reason that blocks the run.
        blocked_reason: String,
    },
    /// The run has no question.
    #[error("Run is not waiting for input (state: {})", .state.name())]
    State {
        /// The state of the run.
        state: RunState,
    },
}

/// Error about an answer that does not fit its gate.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidAnswer {
    /// The reason is too long.
    #[error("A reason has at most 500 characters; shorten it")]
    LongReason,
    /// The form of the gate is invalid.
    #[error("The form cannot be read: {}", .problems.join("; "))]
    BrokenForm {
        /// Problems of the form.
        problems: Vec<String>,
    },
    /// The gate has a form, and the answer is not an object.
    #[error("The gate has a form; answer it with an object with its fields: {}", .fields.join(", "))]
    NotFields {
        /// The names of the fields.
        fields: Vec<String>,
    },
    /// The fields do not match the form.
    #[error("The form is not filled in well: {}", .problems.join("; "))]
    Fields {
        /// Problems of the fields.
        problems: Vec<String>,
    },
    /// The gate has no form, and the answer has fields.
    #[error("The gate has no form; answer it with a text or one of its choices")]
    NoForm,
    /// The number does not match the answered choice.
    #[error("Choice {number} does not match the answer; choices are {}", python_list(.choices))]
    Number {
        /// The number.
        number: usize,
        /// The shown choices.
        choices: Vec<String>,
    },
    /// Several choices look the same because their secrets are hidden.
    #[error("Several choices have this text, because parts of them are hidden as secrets; answer by number")]
    AmbiguousChoice,
    /// The answer is empty, and the gate accepts any text.
    #[error("answer is required; the gate accepts any text")]
    Empty,
    /// The answer is empty, and the gate has choices.
    #[error("answer is required; it must be one of: {}", python_list(.choices))]
    NoChoice {
        /// The shown choices.
        choices: Vec<String>,
    },
    /// The answer is not among the choices.
    #[error("Invalid choice '{answer}'. Must be one of: {}{}", python_list(.choices), number_hint(.answer, .choices))]
    OtherChoice {
        /// The answer, at most 200 characters.
        answer: String,
        /// The shown choices.
        choices: Vec<String>,
    },
}

/// Formats strings like a Python list.
fn python_list(texts: &[String]) -> String {
    let quoted = |text: &String| {
        let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
        let mut quoted = String::from(quote);
        for character in text.chars() {
            match character {
                '\n' => quoted.push_str("\\n"),
                '\r' => quoted.push_str("\\r"),
                '\t' => quoted.push_str("\\t"),
                '\\' => quoted.push_str("\\\\"),
                _ if character == quote => quoted.extend(['\\', quote]),
                _ => quoted.push(character),
            }
        }
        quoted.push(quote);
        quoted
    };
    format!("[{}]", texts.iter().map(quoted).collect::<Vec<_>>().join(", "))
}

/// Formats the reason that a run cannot continue, as the end of a sentence.
fn reason(blocked_reason: Option<&str>) -> String {
    blocked_reason.map(|blocked_reason| format!(": {blocked_reason}")).unwrap_or_default()
}

/// Returns a sentence about the choice whose number was answered instead of its text.
fn number_hint(answer: &str, choices: &[String]) -> String {
    let number = answer.trim().parse::<usize>().ok();
    match number.and_then(|number| Some((number, choices.get(number.checked_sub(1)?)?))) {
        Some((number, choice)) => format!(". Choice {number} is answered with its text: {choice}"),
        None => String::new(),
    }
}

/// Describes an answer with the required proof.
fn proof_description(required: Proof) -> &'static str {
    match required {
        Proof::None => "given by a person",
        Proof::Dialog => "given in a dialog of an MCP client, or in a terminal of your own",
        Proof::Terminal => "typed in a terminal of your own, with 'steplatch gates answer'",
        Proof::Passphrase => "given with the approver's passphrase, which 'steplatch approver set' sets",
        Proof::Passkey => "signed with a passkey on the page; 'steplatch gates passkey add' registers one",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_formatted_like_a_python_list() {
        let choices = ["it's", "say \"so\"", "both ' and \"", "a\\b\nc"].map(str::to_owned);
        assert_eq!(python_list(&choices), r#"["it's", 'say "so"', 'both \' and "', 'a\\b\nc']"#);
        assert_eq!(python_list(&[]), "[]");
    }
}
