//! What a client carries between two rounds of a call, sealed.
//!
//! Since 2026-07-28 a question to the client's person is a result of the call, and its answer comes with the same call
//! again (<https://modelcontextprotocol.io/specification/2026-07-28>, multi round-trip requests). What the client
//! carries meanwhile is foreign when it comes back: it counts only unchanged, for the same call, in time, and once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{RequestStateCodec, RequestStateError, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How long a question may be carried.
const LASTS: Duration = Duration::from_secs(24 * 3600);

/// Seals that are remembered as used. Older ones lead to gates that are closed, which refuse them as well.
const MOST_USED: usize = 10_000;

/// Seals what is carried. Its key is drawn for each server and told nobody, so that nothing sealed outlives it.
#[derive(Debug)]
pub(crate) struct Seals {
    codec: RequestStateCodec,
    lasts: Duration,
    used: Mutex<VecDeque<u128>>,
}

/// What is carried: which gate a question was about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Carried {
    /// The run that the call is about.
    pub(crate) run: String,
    /// The run whose gate it is: that one, or one below it.
    pub(crate) gate_run: String,
    /// The gate.
    pub(crate) gate: String,
    /// By what this seal is told from all others.
    once: u128,
}

/// Why something that was carried does not count.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsealed {
    #[error("this requestState is too old, so nothing was answered; ask again with get_run")]
    Expired,
    #[error(
        "this requestState was not given by this server for this call, so nothing was answered; ask again with get_run"
    )]
    Foreign,
    #[error("this requestState was used before, so nothing was answered; ask again with get_run")]
    Used,
}

impl Seals {
    pub(crate) fn new() -> Self {
        Self::lasting(LASTS)
    }

    fn lasting(lasts: Duration) -> Self {
        let mut key = [0; RequestStateCodec::MIN_KEY_LENGTH];
        getrandom::fill(&mut key).expect("the operating system has randomness");
        let codec = RequestStateCodec::try_new(key).expect("the key is as long as it must be");
        Self { codec, lasts, used: Mutex::default() }
    }

    /// Seals which gate of a run is asked about, for this `call` only.
    pub(crate) fn close(&self, run: &str, gate_run: &str, gate: &str, call: &str) -> String {
        let mut once = [0; 16];
        getrandom::fill(&mut once).expect("the operating system has randomness");
        let (run, gate_run, gate) = (run.to_owned(), gate_run.to_owned(), gate.to_owned());
        let carried = Carried { run, gate_run, gate, once: u128::from_le_bytes(once) };
        let options = SealOptions::new().associated_data(call.as_bytes()).ttl(self.lasts);
        self.codec.seal_json_with(&carried, &options).expect("what is carried has only JSON in it")
    }

    /// Opens what came back with a `call`.
    ///
    /// # Errors
    /// When it is not what was given with that call, is too old, or was used.
    pub(crate) fn open(&self, sealed: &str, call: &str) -> Result<Carried, Unsealed> {
        let carried: Carried = self.codec.open_json_with(sealed, call.as_bytes()).map_err(|error| match error {
            RequestStateError::Expired => Unsealed::Expired,
            _ => Unsealed::Foreign,
        })?;
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.contains(&carried.once) { Err(Unsealed::Used) } else { Ok(carried) }
    }

    /// Uses it up. Returns false when somebody else did.
    pub(crate) fn spend(&self, carried: &Carried) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.contains(&carried.once) {
            return false;
        }
        if used.len() == MOST_USED {
            used.pop_front();
        }
        used.push_back(carried.once);
        true
    }
}

/// Returns what two calls have in common that are the same: the tool and its arguments, in whatever order they stand.
pub(crate) fn same_call(tool: &str, arguments: &Value) -> String {
    format!("{tool} {}", sorted(arguments))
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            fields.into_iter().map(|(name, value)| (name.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_carried_counts_unchanged_for_the_same_call_and_once() {
        let seals = Seals::new();
        let call = same_call("get_run", &json!({"run_id": "run_x", "wait_seconds": 1}));
        let sealed = seals.close("run_x", "run_y", "run_y/ask/1", &call);
        let same = same_call("get_run", &json!({"wait_seconds": 1, "run_id": "run_x"}));
        let carried = seals.open(&sealed, &same).unwrap();
        assert_eq!((carried.run.as_str(), carried.gate.as_str()), ("run_x", "run_y/ask/1"));
        let other = same_call("get_run", &json!({"run_id": "run_z", "wait_seconds": 1}));
        assert!(matches!(seals.open(&sealed, &other), Err(Unsealed::Foreign)));
        let middle = sealed.len() / 2;
        let changed = if &sealed[middle..=middle] == "A" { "B" } else { "A" };
        let tampered = format!("{}{changed}{}", &sealed[..middle], &sealed[middle + 1..]);
        assert!(matches!(seals.open(&tampered, &call), Err(Unsealed::Foreign)));
        assert!(matches!(Seals::new().open(&sealed, &call), Err(Unsealed::Foreign)), "another server's");
        assert!(seals.spend(&carried) && !seals.spend(&carried));
        assert!(matches!(seals.open(&sealed, &call), Err(Unsealed::Used)));
    }

    #[test]
    fn what_is_too_old_is_refused() {
        let seals = Seals::lasting(Duration::ZERO);
        let sealed = seals.close("run_x", "run_x", "run_x/ask/1", "call");
        std::thread::sleep(Duration::from_millis(5));
        assert!(matches!(seals.open(&sealed, "call"), Err(Unsealed::Expired)));
    }
}
