//! Waits with progress reports.
//!
//! A client that sends a progress token with its call is notified of the states that a run enters and the gates that
//! open. Only the wait belongs to the call, because a lost or cancelled call does not affect the run.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use steplatch_protocol::{
    AskError, AwaitOutput, CallTool, Follower, GetRun, RUN_WAIT_SECONDS, ReconnectingClient, RunDetail, RunEvent,
    RunWorkflow, Verb, read,
};

use crate::progress::{KEEP_ALIVE_INTERVAL, Progress};

/// Time to collect events before the first message.
const GATHER_TIME: Duration = Duration::from_millis(20);

/// The daemon's reply, with its warnings about the parameters.
pub(super) type DaemonReply = Result<(Value, Vec<String>), AskError>;

/// Calls the verb `name` and sends progress to the client until the daemon replies. Sends nothing afterwards.
pub(super) async fn call_with_progress(
    daemon: &ReconnectingClient,
    name: &str,
    params: Value,
    progress: Option<&mut Progress>,
) -> DaemonReply {
    let Some(progress) = progress else { return daemon.call_raw(name, params).await };
    let reply = match name {
        RunWorkflow::NAME => match read::<RunWorkflow>(params.clone()) {
            Ok(parsed) => {
                let (wait, detail) = (parsed.verb.wait_seconds, parsed.verb.detail);
                let verb = RunWorkflow { wait_seconds: Some(0.0), ..parsed.verb };
                start_and_wait(daemon, verb, (wait, detail), parsed.warnings, progress).await
            }
            // Forward invalid parameters unchanged: the daemon returns the best error.
            Err(_) => daemon.call_raw(name, params).await,
        },
        CallTool::NAME => match read::<CallTool>(params.clone()) {
            Ok(parsed) => {
                let (wait, detail) = (parsed.verb.wait_seconds, parsed.verb.detail);
                let verb = CallTool { wait_seconds: Some(0.0), ..parsed.verb };
                start_and_wait(daemon, verb, (wait, detail), parsed.warnings, progress).await
            }
            Err(_) => daemon.call_raw(name, params).await,
        },
        GetRun::NAME => match read::<GetRun>(params.clone()) {
            Ok(parsed) if parsed.verb.wait_seconds.is_some_and(|wait| wait > 0.0) => {
                wait_for_run(daemon, &parsed.verb.run_id, params, progress).await
            }
            _ => daemon.call_raw(name, params).await,
        },
        AwaitOutput::NAME => wait_for_output(daemon, params, progress).await,
        _ => daemon.call_raw(name, params).await,
    };
    // Send pending progress before the caller sends the reply.
    progress.flush().await;
    reply
}

/// Starts a run without waiting, then waits for it as for an existing run.
async fn start_and_wait<V: Verb>(
    daemon: &ReconnectingClient,
    verb: V,
    (wait, detail): (Option<f64>, Option<RunDetail>),
    warnings: Vec<String>,
    progress: &mut Progress,
) -> DaemonReply {
    let began = Instant::now();
    let params = serde_json::to_value(verb).expect("the parameters of a verb contain only JSON");
    let (reply, _) = daemon.call_raw(V::NAME, params).await?;
    let run = reply["run_id"].as_str().unwrap_or_default().to_owned();
    if reply["status"] != "running" || run.is_empty() {
        return Ok((reply, warnings));
    }
    let remaining_seconds = (wait.unwrap_or(RUN_WAIT_SECONDS) - began.elapsed().as_secs_f64()).max(0.0);
    let (data, _) = wait_for_run(
        daemon,
        &run,
        json!({"run_id": run, "wait_seconds": remaining_seconds, "detail": detail}),
        progress,
    )
    .await?;
    Ok((data, warnings))
}

/// Waits for a run and follows its events in the meantime.
async fn wait_for_run(daemon: &ReconnectingClient, run: &str, get_run: Value, progress: &mut Progress) -> DaemonReply {
    let reply = daemon.call_raw(GetRun::NAME, get_run);
    tokio::pin!(reply);
    let mut follower = Some(daemon.follow(run, 1));
    // The earlier events of an existing run arrive immediately, and only its current state matters.
    progress.delay_messages(GATHER_TIME);
    let mut state_count = 0;
    let reply = loop {
        tokio::select! {
            // Report events from before the end of the run before the reply.
            biased;
            event = next_event(&mut follower) => match event {
                Some(event) => report_event(&event, &mut state_count, progress),
                None => follower = None,
            },
            () = progress.wait_until_due() => progress.flush().await,
            reply = &mut reply => break reply,
        }
    };
    // Report the gate that ended the wait, because its event may not have arrived yet.
    if let Ok((data, _)) = &reply
        && let Some(prompt) = data.pointer("/pending_gate/prompt").and_then(Value::as_str)
    {
        progress.set_message(format!("waits for an answer: {prompt}"));
    }
    reply
}

fn report_event(event: &RunEvent, state_count: &mut u32, progress: &mut Progress) {
    let text = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or_default();
    match event.event_type.as_str() {
        "state_entered" => {
            *state_count += 1;
            progress.set_message(format!("state {state_count}: {} ({})", text("state"), text("tool")));
        }
        "gate_answered" => {
            let answer = event.data.get("answer").cloned().unwrap_or_default();
            let answer = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
            let reason = match text("reason") {
                "" => String::new(),
                reason => format!(", because {reason}"),
            };
            progress.set_message(format!("{} answered: {answer}{reason}", text("by")));
        }
        "workflow_paused" => progress.set_message(format!("paused by {}", text("by"))),
        "workflow_resumed" => progress.set_message(format!("resumed by {}", text("by"))),
        _ => {}
    }
}

/// Waits for output. Sends progress regularly, because clients abort silent calls.
async fn wait_for_output(daemon: &ReconnectingClient, params: Value, progress: &mut Progress) -> DaemonReply {
    let began = Instant::now();
    let reply = daemon.call_raw(AwaitOutput::NAME, params);
    tokio::pin!(reply);
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + KEEP_ALIVE_INTERVAL, KEEP_ALIVE_INTERVAL);
    loop {
        tokio::select! {
            reply = &mut reply => return reply,
            _ = ticks.tick() => {
                progress.set_message(format!("waiting for {} s", began.elapsed().as_secs()));
                progress.flush().await;
            }
        }
    }
}

/// Returns the next event. `None` after the last one or an error; the wait for the run continues without events.
async fn next_event(follower: &mut Option<Follower>) -> Option<RunEvent> {
    match follower {
        Some(follower) => follower.next().await.unwrap_or_else(|error| {
            tracing::debug!(%error, "failed to follow a run");
            None
        }),
        None => std::future::pending().await,
    }
}
