//! Handling of a service's answers.

use std::time::Duration;

use serde_json::{Value, json};
use steplatch_remote::{
    Cancelled, Ids, LocalEnd, PollResult, RequestError, StartError, StartedRun, State as RemoteState, Status, backoff,
    clean_text, jitter, result,
};

use super::entry::Entry;
use super::run::RemoteRun;
use super::state::Phase;
use crate::engine::RunKind as _;

/// Maximum number of recorded status changes of one run, since the number of changes is unlimited.
const MAX_STATUS_CHANGES: u32 = 1_000;

/// Maximum stored length of a service's question and of each choice, in characters, and maximum number of choices.
const MAX_PROMPT_CHARS: usize = 2_000;
const MAX_CHOICE_CHARS: usize = 200;
const MAX_CHOICES: usize = 50;

/// Maximum number of consecutive replies of a service that it does not know a run, although it started the run.
const MAX_UNKNOWN_REPLIES: u32 = 3;

impl RemoteRun {
    pub(super) async fn handle_start_reply(&mut self, answer: Result<StartedRun, StartError>) -> bool {
        let at = self.recorder.shared.clock.now();
        match answer {
            Ok(StartedRun { correlation_id, workflow_instance: instance }) => {
                self.service.metrics.count_start();
                self.append(Entry::Started { at, correlation_id, instance }).await
            }
            Err(StartError::Unknown { message }) => {
                let error = format!(
                    "It is unknown whether '{}' started this run, and the start is not repeated: {message} The request \
                     had the Idempotency-Key {}; look for it at the service.",
                    self.began.service, self.began.run
                );
                self.fail(error, "UNKNOWN").await
            }
            Err(StartError::Refused { message, .. }) if matches!(self.state.phase, Phase::Cancelling { .. }) => {
                self.give_up(&format!("it was not started ({message})")).await
            }
            Err(StartError::Refused { message, status, retry_after }) => {
                self.permit = None;
                // The request did not reach the service, or the service is busy; a repetition would not change any
                // other error.
                let is_retryable = matches!(status, None | Some(429));
                let max_attempts = self.service.setup().map_or(0, |setup| setup.config.retry_attempts);
                if !is_retryable || self.state.refusals >= max_attempts {
                    return self.fail(message, "FAILED").await;
                }
                let after = pause_before(self.state.refusals + 1).max(retry_after.unwrap_or_default());
                self.append(Entry::NotStarted { at, error: message, retry_at: at.after(after.min(backoff::MAX_PAUSE)) })
                    .await
            }
        }
    }

    pub(super) async fn handle_status(&mut self, answer: Result<Status, RequestError>) -> bool {
        let status = match answer {
            Ok(status) => status,
            Err(error) => {
                self.unknown_replies = if error.status == Some(404) { self.unknown_replies + 1 } else { 0 };
                if self.unknown_replies >= MAX_UNKNOWN_REPLIES {
                    let error = format!(
                        "'{}' no longer knows this run, so its outcome is unknown: {error}",
                        self.began.service
                    );
                    return self.fail(error, "UNKNOWN").await;
                }
                let poll_result = PollResult::Failed { retry_after: error.retry_after };
                self.poll_delay = self.pace.next_delay(poll_result, jitter());
                self.blocked_reason = Some(format!("failed to poll the service; retrying: {error}"));
                self.publish();
                return true;
            }
        };
        self.unknown_replies = 0;
        let at = self.recorder.shared.clock.now();
        let gate = status.pending_gate.as_ref().map(truncate_gate);
        let known = self.state.remote.as_ref();
        let is_same = known
            .is_some_and(|remote| remote.status.as_deref() == Some(status.word.as_str()) && remote.gate == gate)
            || self.state.status_changes >= MAX_STATUS_CHANGES;
        self.poll_delay = self.pace.next_delay(if is_same { PollResult::Same } else { PollResult::Changed }, jitter());
        let state = status.state;
        let entry = Entry::StatusChanged { at, status: status.word.clone(), gate };
        self.last_status = Some(status);
        match state {
            RemoteState::Running if is_same => {
                self.publish();
                true
            }
            RemoteState::Running => self.append(entry).await,
            RemoteState::Completed => {
                let result = self.result(None);
                self.append(Entry::Completed { at, result }).await
            }
            RemoteState::Failed => {
                let error = self.last_status.as_ref().map(Status::error_message).unwrap_or_default();
                let result = self.result(None);
                self.append(Entry::Failed { at, error, result }).await
            }
            RemoteState::Cancelled => {
                let words = self.last_status.as_ref().map(Status::error_message).unwrap_or_default();
                let reason = format!("it was cancelled at its service: {words}");
                let result = self.result(None);
                self.append(Entry::Cancelled { at, reason, result }).await
            }
        }
    }

    pub(super) async fn handle_cancel_reply(&mut self, answer: Option<Result<Cancelled, RequestError>>) -> bool {
        match answer {
            Some(Ok(Cancelled::Accepted)) => self.give_up("its service accepted the cancel").await,
            Some(Ok(Cancelled::NotSupported)) => {
                self.give_up("its service cannot cancel runs, so the remote run continues").await
            }
            None => self.give_up("its service did not answer the cancel, so the remote run may continue").await,
            Some(Err(error)) => {
                let words = format!("the cancel did not reach its service, so the remote run may continue: {error}");
                self.give_up(&words).await
            }
        }
    }

    /// Ends a cancelled or timed-out run, with its last known status at the service.
    pub(super) async fn give_up(&mut self, note: &str) -> bool {
        let at = self.recorder.shared.clock.now();
        let Phase::Cancelling { reason, timed_out } = self.state.phase.clone() else { return true };
        let error = format!("{reason}; {note}");
        match timed_out {
            true => {
                // The run has failed here regardless of its service, so that a client that polls the status stops.
                let result = self.result(Some(LocalEnd { status: "FAILED", error: &error }));
                self.append(Entry::Failed { at, error, result }).await
            }
            false => {
                let result = self.result(Some(LocalEnd { status: "CANCELLED", error: &error }));
                self.append(Entry::Cancelled { at, reason: error, result }).await
            }
        }
    }

    pub(super) async fn fail(&mut self, error: String, status: &str) -> bool {
        let result = self.result(Some(LocalEnd { status, error: &error }));
        self.append(Entry::Failed { at: self.recorder.shared.clock.now(), error, result }).await
    }

    /// Returns the result of the run, with its last known status.
    pub(super) fn result(&self, local: Option<LocalEnd<'_>>) -> Value {
        let remote = self.state.remote.as_ref();
        let ids = Ids {
            workflow: self.began.workflow_id.clone(),
            correlation: remote.map(|remote| remote.correlation_id.clone()).unwrap_or_default(),
            instance: remote.map(|remote| remote.instance.clone()).unwrap_or_default(),
        };
        let mut result = result(&ids, self.last_status.as_ref(), local);
        if result["input"].is_null() {
            result["input"] = Value::Object(self.began.input.clone());
        }
        result
    }
}

/// Returns the gate that a service reports for a run, within limits: the question and the possible answers.
fn truncate_gate(gate: &Value) -> Value {
    let text = |value: &Value, max_chars| value.as_str().map(|text| clean_text(text, max_chars));
    let prompt = gate.get("prompt").and_then(|prompt| text(prompt, MAX_PROMPT_CHARS)).unwrap_or_default();
    let choices = gate.get("choices").and_then(Value::as_array).into_iter().flatten();
    let choices: Vec<String> = choices.filter_map(|choice| text(choice, MAX_CHOICE_CHARS)).take(MAX_CHOICES).collect();
    json!({"prompt": prompt, "choices": choices})
}

/// Returns the delay after this number of failed attempts.
fn pause_before(attempt: u32) -> Duration {
    backoff::discovery_delay(attempt, None, None, jitter())
}
