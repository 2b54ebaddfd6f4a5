//! Execution of actions for a step of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};
use steplatch_access::Caller;
use steplatch_clock::Clock;
use steplatch_protocol::ExitTerminal;
use steplatch_sessions::{LookupError, Sessions, TerminalUse, action_catalog, actions, is_this_machine};
use steplatch_workflow::{Outcome, Timestamp};
use tokio::sync::oneshot;

use crate::call;
use crate::engine::Attempt;
use crate::engine_state::Engine;

/// The action of a step.
pub(crate) struct Action {
    pub(crate) tool: String,
    pub(crate) params: Map<String, Value>,
    /// Name of the step. The action is performed once for each name.
    pub(crate) step: String,
    pub(crate) limit: Option<Duration>,
    /// Attempt of the action: an earlier daemon may have performed it.
    pub(crate) attempt: Attempt,
    /// Set once the action has requested a terminal. The run must then close the terminal.
    pub(crate) has_requested: Arc<AtomicBool>,
}

/// Performs an action within its limit.
pub(crate) async fn perform(shared: Arc<Engine>, caller: Arc<Caller>, action: Action) -> Outcome {
    let Action { tool, mut params, step, mut limit, attempt, has_requested } = action;
    if attempt.is_repeated() {
        shared.sessions.record_repeated(&step);
    }
    if shared.sessions.has_silent_host() {
        let started_at = shared.clock.now();
        let session = params.get("session_id").and_then(Value::as_str).unwrap_or_default();
        let await_hosts = shared.sessions.await_silent_hosts(session, attempt.is_repeated());
        if with_limit(&shared.clock, limit, await_hosts).await.is_none() {
            return Outcome::TimedOut;
        }
        let waited = shared.clock.now().since(started_at);
        limit = limit.map(|limit| limit.saturating_sub(waited));
    }
    if let "run_node" | "run_graph" = tool.as_str() {
        let graph = tool == "run_graph";
        let called = Box::pin(call::perform(&shared, &caller, call::NodeCallRequest { graph, params, step, attempt }));
        return with_limit(&shared.clock, limit, called).await.unwrap_or(Outcome::TimedOut);
    }
    if attempt.is_repeated()
        && let Some(outcome) = outcome_after_restart(&shared, &tool, &params, &step).await
    {
        return outcome;
    }
    let session_param = params.get_mut("session_id").filter(|_| TerminalUse::for_tool(&tool) != TerminalUse::Reads);
    if let Some(Value::String(session)) = session_param
        && let Err(error) = check_was_shown(&shared.sessions, &caller, session).await
    {
        let fields = [("success", false.into()), ("error", error.into())];
        let result = fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        return Outcome::Finished { result };
    }
    if tool == "dialogue" {
        let taking = Box::pin(shared.sessions.take_turn(&caller, params, step));
        return match with_limit(&shared.clock, limit, taking).await {
            None => Outcome::TimedOut,
            Some(result) if result.get("outcome_unknown") == Some(&Value::Bool(true)) => Outcome::Unknown,
            Some(result) => Outcome::Finished { result },
        };
    }
    let Some(verb) = action_catalog::verb(&tool) else {
        let fields = [("success", false.into()), ("error", format!("there is no tool '{tool}'").into())];
        return Outcome::Finished {
            result: fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect(),
        };
    };
    let (result_sender, result) = oneshot::channel();
    let (sessions, clock) = (shared.sessions.clone(), shared.clock.clone());
    let opens = tool == "open_terminal";
    let action_future = async move {
        let result = actions::perform(&sessions, &caller, verb, params, step.clone()).await;
        let Err(result) = result_sender.send(result) else { return };
        // The run has abandoned the step: close a terminal that the step opened in the meantime. If the daemon is
        // stopping, the terminal stays open for the resumed run.
        if opens && !shared.stopping.is_cancelled() {
            if let Some(session_id) = result.get("session_id").and_then(Value::as_str) {
                let session_id = session_id.to_owned();
                sessions.exit(&caller, ExitTerminal { session_id, ..ExitTerminal::default() }).await;
            }
            // The run may have settled its steps before this step began.
            sessions.settle(&step);
        }
    };
    // A partial opening cannot be undone, so a separate task completes it; dropping this future ends any other action.
    let result = if opens {
        has_requested.store(true, Ordering::Relaxed);
        tokio::spawn(action_future);
        with_limit(&clock, limit, result).await
    } else {
        let action_future = Box::pin(action_future);
        with_limit(&clock, limit, async { tokio::join!(action_future, result).1 }).await
    };
    match result {
        None => Outcome::TimedOut,
        Some(Ok(result)) if result.get("outcome_unknown") == Some(&Value::Bool(true)) => Outcome::Unknown,
        Some(Ok(result)) => Outcome::Finished { result },
        Some(Err(_)) => Outcome::Unknown,
    }
}

/// Checks that the person who answered has seen a terminal, and replaces the terminal's name with its id.
///
/// # Errors
///
/// If the person has not seen the terminal and the run has not opened it.
pub(super) async fn check_was_shown(sessions: &Sessions, caller: &Caller, session: &mut String) -> Result<(), String> {
    let Some(approved) = caller.approved_terminals.as_ref().filter(|_| !session.is_empty()) else { return Ok(()) };
    // An id always refers to the same terminal, but a name does not.
    if approved.contains(session) {
        return Ok(());
    }
    let id = sessions.id_of(session).await?;
    if approved.contains(&id) {
        *session = id;
        return Ok(());
    }
    let gate = caller.approved_at.as_deref().unwrap_or_default();
    Err(format!(
        "terminal '{session}' ({id}) was not shown to the person who answered {gate}, and the run has not opened it; \
         nothing was typed there"
    ))
}

/// Returns the outcome of an action that another daemon may have performed, if the terminal host cannot answer, because
/// the ledger of steps ends with the host.
async fn outcome_after_restart(
    shared: &Engine,
    tool: &str,
    params: &Map<String, Value>,
    step: &str,
) -> Option<Outcome> {
    let session = params.get("session_id").and_then(Value::as_str).unwrap_or_default();
    let in_doubt = || shared.sessions.is_in_doubt(step).then_some(Outcome::Unknown);
    let host = params.get("host").and_then(Value::as_str);
    match tool {
        // The remote host of the request is recorded.
        "open_terminal" | "run_command" | "put_file" if host.is_some_and(|host| !is_this_machine(host)) => None,
        "open_terminal" => in_doubt(),
        // The shell belonged to the host.
        "run_command" if session.is_empty() => in_doubt(),
        // The host writes the file and owns the ledger.
        "put_file" => in_doubt(),
        "get_file" if params.contains_key("to") => in_doubt(),
        // The host may have ended because of the input.
        "run_command" | "send_input" | "dialogue" => match shared.sessions.exists(session).await {
            Ok(()) => None,
            // The request waits for its host, and its outcome is unknown if the host does not connect in time.
            Err(error) if error.is_away() => None,
            // The request is refused, as before.
            Err(LookupError::Unnamed) => None,
            Err(_) => Some(Outcome::Unknown),
        },
        // The terminal has closed already, so the request is fulfilled. While the terminal's host does not answer, the
        // run repeats the request.
        "exit_terminal" => match shared.sessions.exists(session).await {
            Ok(()) | Err(LookupError::Host(_)) => None,
            Err(_) => {
                let message = "Session is closed".to_owned();
                let fields = [("success", true.into()), ("session_id", session.into()), ("message", message.into())];
                let result = fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
                Some(Outcome::Finished { result })
            }
        },
        _ => None,
    }
}

/// Sleeps until a point in time.
pub(super) async fn sleep(clock: Clock, until: Timestamp, limit: Option<Duration>) -> Outcome {
    if until <= clock.now() {
        return Outcome::Finished { result: Map::new() };
    }
    match with_limit(&clock, limit, clock.sleep_until(until)).await {
        Some(()) => Outcome::Finished { result: Map::new() },
        None => Outcome::TimedOut,
    }
}

/// Waits until the gate expires and returns a timeout.
pub(super) async fn expire(clock: Clock, at: Timestamp) -> Outcome {
    clock.sleep_until(at).await;
    Outcome::TimedOut
}

async fn with_limit<T>(clock: &Clock, limit: Option<Duration>, future: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => clock.timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}
