//! Actions, performed for a step of a run.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use steplatch_access::Caller;
use steplatch_clock as clock;
use steplatch_protocol::ExitTerminal;
use steplatch_sessions::{action_catalog, actions};
use steplatch_workflow::{Outcome, Timestamp};
use tokio::sync::oneshot;

use crate::call;
use crate::engine::Attempt;
use crate::shared::Engine;

/// What a step does.
pub(super) struct Action {
    pub(super) tool: String,
    pub(super) params: Map<String, Value>,
    /// The name under which it is done once.
    pub(super) step: String,
    pub(super) limit: Option<Duration>,
    /// Whether it may have been done before this daemon began.
    pub(super) attempt: Attempt,
}

/// Performs an action within its limit.
pub(super) async fn perform(shared: Arc<Engine>, caller: Arc<Caller>, action: Action) -> Outcome {
    let Action { tool, params, step, limit, attempt } = action;
    if let "run_node" | "run_graph" = tool.as_str() {
        let graph = tool == "run_graph";
        let called = Box::pin(call::perform(&shared, &caller, call::NodeCallRequest { graph, params, step, attempt }));
        return limited(limit, called).await.unwrap_or(Outcome::TimedOut);
    }
    if attempt.is_repeated()
        && let Some(outcome) = done_before(&shared, &tool, &params).await
    {
        return outcome;
    }
    let Some(verb) = action_catalog::verb(&tool) else {
        let fields = [("success", false.into()), ("error", format!("there is no tool '{tool}'").into())];
        return Outcome::Finished {
            result: fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect(),
        };
    };
    let (done, result) = oneshot::channel();
    let sessions = shared.sessions.clone();
    let opens = tool == "open_terminal";
    let acting = async move {
        let result = actions::perform(&sessions, &caller, verb, params, step).await;
        // Nobody waits for it any more: a terminal that was opened meanwhile would belong to nobody. When the daemon
        // stops, it belongs to the run that goes on with the next one.
        if let Err(result) = done.send(result)
            && let Some(session_id) = result.get("session_id").and_then(Value::as_str)
            && opens
            && !shared.stopping.is_cancelled()
        {
            let session_id = session_id.to_owned();
            sessions.exit(&caller, ExitTerminal { session_id, ..ExitTerminal::default() }).await;
        }
    };
    // An opening can not be taken back half-way, so it is carried to its end by itself; all else ends with us.
    let result = if opens {
        tokio::spawn(acting);
        limited(limit, result).await
    } else {
        let acting = Box::pin(acting);
        limited(limit, async { tokio::join!(acting, result).1 }).await
    };
    match result {
        None => Outcome::TimedOut,
        Some(Ok(result)) if result.get("outcome_unknown") == Some(&Value::Bool(true)) => Outcome::Unknown,
        Some(Ok(result)) => Outcome::Finished { result },
        Some(Err(_)) => Outcome::Unknown,
    }
}

/// Says what came of an action that another daemon may have performed, where no terminal host can be asked: it keeps
/// a ledger of steps, and that is gone with it.
async fn done_before(shared: &Engine, tool: &str, params: &Map<String, Value>) -> Option<Outcome> {
    let session = params.get("session_id").and_then(Value::as_str).unwrap_or_default();
    match tool {
        "open_terminal" => shared.sessions.host_was_lost().then_some(Outcome::Unknown),
        // It may have ended because of what was typed.
        "send_input" => shared.sessions.exists(session).await.err().map(|_| Outcome::Unknown),
        // What was wanted is so, whoever saw to it.
        "exit_terminal" => shared.sessions.exists(session).await.err().map(|_| {
            let message = "Session is closed".to_owned();
            let fields = [("success", true.into()), ("session_id", session.into()), ("message", message.into())];
            Outcome::Finished { result: fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect() }
        }),
        _ => None,
    }
}

/// Waits for a point in time.
pub(super) async fn sleep(until: Timestamp, limit: Option<Duration>) -> Outcome {
    let time = until.since(clock::now());
    if time.is_zero() {
        return Outcome::Finished { result: Map::new() };
    }
    match limited(limit, tokio::time::sleep(time)).await {
        Some(()) => Outcome::Finished { result: Map::new() },
        None => Outcome::TimedOut,
    }
}

/// Waits until nobody's answer counts any more.
pub(super) async fn expire(at: Timestamp) -> Outcome {
    tokio::time::sleep(at.since(clock::now())).await;
    Outcome::TimedOut
}

async fn limited<T>(limit: Option<Duration>, future: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}
