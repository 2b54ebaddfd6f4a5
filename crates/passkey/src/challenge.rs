//! Challenges that a passkey signs: hashes of texts, with a different prefix for each purpose.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// The challenge of a registration or of a signature: a SHA-256 hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Challenge([u8; 32]);

/// A signed answer to a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedText<'a> {
    /// Id of the gate, including the id of its run.
    pub gate_id: &'a str,
    /// Digest of the complete question as displayed.
    pub digest: &'a str,
    /// Number of the choice, from 1.
    pub number: Option<usize>,
    /// The choice as displayed, the text, or the form as JSON.
    pub answer: &'a str,
    /// The reason of the answer, on one line; empty without one.
    pub reason: &'a str,
}

impl Challenge {
    /// Creates the challenge for a registration with a ticket.
    #[must_use]
    pub fn for_ticket(ticket: &str) -> Self {
        Self::from_text(&format!("steplatch passkey 1\n{ticket}"))
    }

    /// Creates the challenge for an answer. Newlines separate the parts; only the last part may contain newlines. An
    /// answer with a reason has another first line.
    #[must_use]
    pub fn for_answer(signed: &SignedText<'_>) -> Self {
        let SignedText { gate_id, digest, number, answer, reason } = signed;
        let number = number.map(|number| number.to_string()).unwrap_or_default();
        Self::from_text(&match *reason {
            "" => format!("steplatch answer 1\n{gate_id}\n{digest}\n{number}\n{answer}"),
            reason => format!("steplatch answer 2\n{gate_id}\n{digest}\n{number}\n{reason}\n{answer}"),
        })
    }

    fn from_text(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Returns the text that browsers sign.
    #[must_use]
    pub fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// Returns whether the text from a browser is this challenge.
    pub(crate) fn matches(&self, text: &str) -> bool {
        crate::decode(text).is_some_and(|bytes| bytes == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenge_depends_on_question_and_answer() {
        let signed = SignedText { gate_id: "run_a/ask/1", digest: "d", number: Some(1), answer: "yes", reason: "" };
        let variants = [
            SignedText { gate_id: "run_a/ask/2", ..signed },
            SignedText { digest: "e", ..signed },
            SignedText { number: None, ..signed },
            SignedText { answer: "no", ..signed },
            SignedText { reason: "late", ..signed },
            SignedText { digest: "d\n1", number: None, answer: "yes", ..signed },
        ];
        for variant in variants {
            assert_ne!(Challenge::for_answer(&signed), Challenge::for_answer(&variant), "{variant:?}");
        }
        // The page computes the same challenge, see `crates/http/page/js/passkey.js`.
        assert_eq!(Challenge::for_answer(&signed).text(), "drdFf6_3DmQcNfpj-6ouTx92RehhTGPCEqB_x4bkLaA");
    }
}
