//! Calls of nodes whose programs ask questions; the rules of the node answer the questions.
//!
//! One call is one dialogue. The executor types each answer under a separate step, and so types it only once. If the
//! daemon stops during a call, the outcome is unknown, as for any node.

use std::sync::Arc;

use serde_json::{Map, Value};
use steplatch_access::Caller;
use steplatch_nodes::{ErrorType, Nodes};
use steplatch_protocol::{ContentMode, GetScreenContent};
use steplatch_workflow::DialogueScript;
use tokio::time::Instant;

use super::panes::{PtyNode, PtyNodeError, PtyNodes, PtyTerminal};

/// The fields of a dialogue's result that are attributes of the call.
const ATTRIBUTES: [&str; 8] =
    ["session_id", "pattern", "match_text", "groups", "answers", "answered", "reason", "exit_code"];

impl PtyNodes {
    /// Enters `first`, if it is not empty, then answers questions of the program by the rules of the node.
    #[allow(clippy::too_many_arguments, reason = "all parameters describe one call, and the function has one caller")]
    pub(super) async fn converse(
        &self,
        caller: &Arc<Caller>,
        nodes: &Nodes,
        rules: &Map<String, Value>,
        session: &PtyTerminal,
        first: &str,
        pane: &mut PtyNode,
        step: &str,
    ) -> Result<(Value, Map<String, Value>), PtyNodeError> {
        let invalid = |message: String| PtyNodeError(ErrorType::InvalidInput, message);
        // Reading a declaration checks it.
        let script = DialogueScript::read(rules)
            .map_err(|problems| invalid(problems.first().map(|problem| problem.message.clone()).unwrap_or_default()))?;
        let secrets = nodes.secrets(script.secrets()).await.map_err(|error| PtyNodeError(error.kind, error.message))?;
        // A question ends a turn, and an answer follows.
        let caller = &Arc::new(caller.unattended());
        let mut dialogue = script.begin(secrets);
        let start = Instant::now();
        // In a new terminal, the program may already have asked.
        let since = if first.is_empty() {
            0
        } else {
            self.send(caller, session, first, pane, step).await?.offset.unwrap_or_default()
        };
        let mut number = 0u32;
        let result = loop {
            number += 1;
            let mut turn = dialogue.turn(session.as_str(), start.elapsed());
            if number == 1 {
                turn.insert("since".to_owned(), since.into());
            }
            let turn_result = self.sessions.take_turn(caller, turn, format!("{step}/{number}")).await;
            if turn_result.get("outcome_unknown") == Some(&Value::Bool(true)) {
                let message = "It is unknown whether the answer was typed.".to_owned();
                return Err(PtyNodeError(ErrorType::Unknown, message));
            }
            if let Some(result) = dialogue.handle_turn(&turn_result) {
                break result;
            }
        };
        let text = |name: &str| result.get(name).and_then(Value::as_str);
        let all =
            GetScreenContent { content_mode: ContentMode::History, offset: Some(since), ..GetScreenContent::default() };
        let output = self.read_whole(caller, session, all).await.map_err(PtyNodeError::after_input)?;
        let echo = output.split_once('\n').filter(|(line, _)| !first.is_empty() && line.trim_end().ends_with(first));
        let output = echo.map_or(output.as_str(), |(_, following)| following).trim_end().to_owned();
        let code = result.get("exit_code").and_then(Value::as_i64);
        if text("reason") == Some("exit") {
            self.close_one(caller, session).await;
            pane.lose();
        }
        if result.get("success") != Some(&Value::Bool(true)) {
            let kind = match text("reason") {
                Some("timeout") => ErrorType::Timeout,
                Some("prompt" | "exit") if code.is_some_and(|code| code != 0) => ErrorType::ExitCode,
                _ => ErrorType::Protocol,
            };
            return Err(PtyNodeError(kind, text("error").unwrap_or_default().to_owned()));
        }
        let attribute = |name: &str| Some((name.to_owned(), result.get(name)?.clone()));
        Ok((output.into(), ATTRIBUTES.iter().filter_map(|name| attribute(name)).collect()))
    }
}
