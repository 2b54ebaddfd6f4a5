//! Turns of dialogues: an input, and a wait for the reaction.
//!
//! A turn ends with a match of a pattern, at the prompt of the shell, with the end of the program, or when the program
//! certainly waits for input without a match. If the state of the program is unknown, the wait lasts until the timeout.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use steplatch_access::Caller;
use steplatch_host::{HostedTerminal, WaitRequest};
use steplatch_protocol::{AwaitReason, SendInput};
use steplatch_terminal::{InputWait, Limit, Part, Target, Until};

use crate::error::SessionError;
use crate::sessions::RAN_NOTHING;
use crate::sessions::Sessions;
use crate::waiting::{await_reason, masked_match};

/// Parameters of one turn.
#[derive(Debug, Deserialize)]
struct DialogueTurn {
    #[serde(default)]
    session_id: String,
    /// Text to type first, followed by `keys`. Nothing is typed if both are empty.
    #[serde(default)]
    input_text: String,
    #[serde(default)]
    keys: Vec<String>,
    #[serde(default)]
    secret: bool,
    /// Awaited patterns. If two matches have the same start, the first pattern counts.
    patterns: Vec<String>,
    /// Offset after the last question. Without it, the search begins at the last input.
    since: Option<u64>,
    /// Time limit of the turn in seconds.
    timeout: f64,
}

/// Maximum number of characters in the search for the end of a question's line.
const MAX_LINE_CHARS: usize = 4000;

impl Sessions {
    /// Takes a turn of a dialogue. Types only once for the same `step`. The result has `reason`, and for a match also
    /// `matched` (the index of the pattern), `match_text`, `groups`, and `offset` (the position after the match).
    #[boxed]
    pub async fn take_turn(&self, caller: &Caller, params: Map<String, Value>, step: String) -> Map<String, Value> {
        let result = match serde_json::from_value::<DialogueTurn>(params.into()) {
            Ok(turn) => {
                let session = turn.session_id.clone();
                let is_repeated = self.is_repeated(Some(&step));
                match self.try_take_turn(caller, turn, step).await {
                    Ok(result) => result,
                    Err(error) => {
                        let unknown = error.outcome_unknown(is_repeated);
                        let error = self.describe_error(&session, error).await;
                        json!({"success": false, "session_id": session, "error": error, "outcome_unknown": unknown})
                    }
                }
            }
            Err(error) => json!({"success": false, "error": error.to_string()}),
        };
        match result {
            Value::Object(result) => result,
            _ => Map::new(),
        }
    }

    async fn try_take_turn(&self, caller: &Caller, turn: DialogueTurn, step: String) -> Result<Value, SessionError> {
        let DialogueTurn { session_id, input_text, keys, secret, patterns, mut since, timeout } = turn;
        if !input_text.is_empty() || !keys.is_empty() {
            let keys = Some(keys).filter(|keys| !keys.is_empty());
            let input = SendInput {
                session_id: session_id.clone(),
                input_text,
                keys,
                secret,
                wait_for_quiet_ms: Some(0),
                ..SendInput::default()
            };
            let sent = self.send(caller, input, Some(step)).await;
            if !sent.success {
                return Ok(json!({"success": false, "session_id": session_id, "error": sent.error,
                                 "outcome_unknown": sent.outcome_unknown}));
            }
            since = match (since, sent.offset) {
                (Some(since), Some(typed)) => {
                    Some(offset_after_question(&self.find(&session_id).await?, since, typed).await?)
                }
                (since, typed) => since.or(typed),
            };
        }
        let terminal = self.find(&session_id).await?;
        let wait = WaitRequest {
            patterns,
            target: Target::Output,
            since,
            until: Until::Prompt,
            input: Some(InputWait::Known),
            timeout: Duration::try_from_secs_f64(timeout).unwrap_or_default(),
            by: caller.label(),
            ..WaitRequest::default()
        };
        let (mut waited, mut view) = terminal.wait(wait.clone()).await?;
        if waited.replaced_by.is_some() {
            // Another program has replaced the shell, so no prompt will appear.
            (waited, view) = terminal.wait(WaitRequest { until: Until::Match, ..wait }).await?;
        }
        if let Some(gave_up) = &waited.gave_up {
            return Err(gave_up.to_string().into());
        }
        let found = waited.found.as_ref().filter(|found| !found.in_echo);
        let reason = await_reason(&waited);
        let secrets = self.secrets.within(terminal.id());
        let mut result = json!({
            "success": true,
            "session_id": terminal.id().to_string(),
            "reason": reason,
            "exit_code": waited.exit.map(|exit| exit.code).or(view.exit_code.filter(|_| reason == AwaitReason::Prompt)),
            "screen_content": secrets.masked_screen(view.screen),
        });
        if waited.ran_nothing {
            (result["success"], result["error"]) = (false.into(), RAN_NOTHING.into());
        }
        if let Some(matched) = found.map(|found| found.pattern) {
            let (text, groups) = masked_match(&secrets, &waited);
            result["matched"] = matched.into();
            result["match_text"] = text.into();
            result["groups"] = json!(groups);
            result["offset"] = waited.offset.into();
        }
        Ok(result)
    }
}

/// Returns the earliest offset of the next question. The last question matched up to `since` and was answered at
/// `typed`. The question includes the rest of its line: `yes or no?` is one question, even if a pattern matches `yes`.
async fn offset_after_question(terminal: &HostedTerminal, since: u64, typed: u64) -> Result<u64, SessionError> {
    let printed = terminal.read(Part::RawFrom(since), Limit::Head(MAX_LINE_CHARS)).await?;
    let newline = printed.head.find('\n').and_then(|newline| u64::try_from(newline + 1).ok());
    Ok(newline.map_or(typed, |newline| typed.min(since + newline)).max(since))
}
