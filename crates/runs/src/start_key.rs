//! Idempotency keys: only one run starts under each key.

use serde_json::{Map, Value, json};
use steplatch_access::Redactor;
use steplatch_library::Signature;
use steplatch_protocol::RunWorkflow;

use super::function::RunArguments;

/// A key that permits the start of only one run: the caller's idempotency key, or a step.
#[derive(Debug, Clone)]
pub(super) struct StartKey {
    text: String,
    request: Option<Signature>,
}

/// Fields of a request that do not affect the run, so that a repeated request may have other values.
const IGNORED_FIELDS: [&str; 2] = ["idempotency_key", "wait_seconds"];

impl StartKey {
    /// Returns the key of a request to run a workflow; without one, the key of `step`.
    pub(super) fn for_workflow(
        verb: &RunWorkflow,
        run_arguments: Option<&RunArguments>,
        step: Option<String>,
        secrets: &Redactor,
    ) -> Option<Self> {
        let Some(key) = &verb.idempotency_key else { return step.map(Self::for_step) };
        let mut verb = json!(verb);
        if let Value::Object(fields) = &mut verb {
            fields.retain(|name, value| !IGNORED_FIELDS.contains(&name.as_str()) && !value.is_null());
        }
        let run_arguments = run_arguments.map(|RunArguments { input, params }| (input, params));
        Some(Self::for_request(key, json!([verb, run_arguments]), secrets))
    }

    /// Returns the key of a request to call a remote tool; without one, the key of `step`.
    pub(super) fn for_call(
        key: Option<&str>,
        tool: &str,
        arguments: &Map<String, Value>,
        step: Option<String>,
        secrets: &Redactor,
    ) -> Option<Self> {
        match key {
            Some(key) => Some(Self::for_request(key, json!([tool, arguments]), secrets)),
            None => step.map(Self::for_step),
        }
    }

    /// Returns the key of a step of the caller.
    pub(super) fn for_step(step: String) -> Self {
        Self { text: format!("step {step}"), request: None }
    }

    fn for_request(key: &str, mut request: Value, secrets: &Redactor) -> Self {
        // A reader could guess a secret from its digest.
        secrets.mask_in(&mut request);
        Self { text: format!("key {key}"), request: Some(Signature::of_value(&request)) }
    }

    /// Returns the key as its caller knows it.
    pub(super) fn name(&self) -> String {
        match self.text.strip_prefix("key ") {
            Some(key) => format!("idempotency_key '{key}'"),
            None => "this step".to_owned(),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Returns the digest of the request under a key of the caller.
    pub(super) fn request(key: Option<&Self>) -> Option<Signature> {
        key?.request.clone()
    }

    /// Returns whether the run that started under this key has the same request. True if one of the requests is
    /// unknown.
    pub(super) fn is_for(&self, began: Option<&Signature>) -> bool {
        match (&self.request, began) {
            (Some(now), Some(began)) => now == began,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(verb: Value) -> StartKey {
        let verb = serde_json::from_value(verb).unwrap();
        StartKey::for_workflow(&verb, None, None, &Redactor::default()).unwrap()
    }

    #[test]
    fn key_matches_the_same_request_with_another_wait() {
        let first =
            key(json!({"workflow_name": "one", "idempotency_key": "k", "initial_variables": {"A": "1", "B": "2"}}));
        let repeated = key(
            json!({"initial_variables": {"B": "2", "A": "1"}, "workflow_name": "one", "idempotency_key": "k", "wait_seconds": 0}),
        );
        assert!(repeated.is_for(StartKey::request(Some(&first)).as_ref()) && repeated.as_str() == first.as_str());
        for other in [
            json!({"workflow_name": "two", "idempotency_key": "k", "initial_variables": {"A": "1", "B": "2"}}),
            json!({"workflow_name": "one", "idempotency_key": "k", "initial_variables": {"A": "1"}}),
        ] {
            assert!(!key(other).is_for(StartKey::request(Some(&first)).as_ref()));
        }
        assert!(first.is_for(None), "the request of an older run is unknown");
    }

    #[test]
    fn step_key_has_no_request_digest() {
        let step = StartKey::for_step("s".to_owned());
        assert_eq!((step.as_str(), StartKey::request(Some(&step))), ("step s", None));
    }
}
