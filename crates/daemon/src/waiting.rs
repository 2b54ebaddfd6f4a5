//! Waits for terminals and runs together.

use futures_util::stream::{FuturesUnordered, Stream, StreamExt as _};
use steplatch_access::Caller;
use steplatch_protocol::{AwaitMode, AwaitOutput, AwaitOutputReply, AwaitReason, GetRun, RunReply, RunWait};
use steplatch_runs::Runs;
use steplatch_sessions::Sessions;
use tokio::time::Instant;

/// Waits until the condition of `verb` holds for a terminal, or until a run has finished or waits at a gate.
pub(crate) async fn wait(sessions: &Sessions, runs: &Runs, caller: &Caller, mut verb: AwaitOutput) -> AwaitOutputReply {
    let run_ids = verb.run_ids.take().unwrap_or_default();
    if run_ids.is_empty() {
        return sessions.wait(caller, verb).await;
    }
    if verb.mode == AwaitMode::All {
        return error_reply(
            "mode all supports only terminals; wait for runs with mode any, or one at a time".to_owned(),
        );
    }
    let start = Instant::now();
    let has_terminals = !verb.session_id.is_empty() || verb.session_ids.as_ref().is_some_and(|ids| !ids.is_empty());
    let pending = FuturesUnordered::new();
    for run_id in run_ids {
        pending.push(runs.get_run(GetRun { run_id, wait_seconds: Some(verb.timeout), ..GetRun::default() }));
    }
    let reply = tokio::select! {
        reply = sessions.wait(caller, verb), if has_terminals => reply,
        reply = first_at_rest(pending) => reply,
    };
    AwaitOutputReply { elapsed_time: start.elapsed().as_secs_f64(), ..reply }
}

/// Waits for the first run that is at rest or does not exist. Returns a timeout if all runs continue.
async fn first_at_rest(mut pending: impl Stream<Item = RunReply> + Unpin) -> AwaitOutputReply {
    while let Some(RunReply { run_id, status, error, .. }) = pending.next().await {
        match status.as_str() {
            "" => return error_reply(error.unwrap_or_else(|| format!("there is no run '{run_id}'"))),
            "running" => {}
            _ => {
                return AwaitOutputReply {
                    success: true,
                    reason: AwaitReason::Run,
                    run: Some(RunWait { run_id, status }),
                    ..AwaitOutputReply::default()
                };
            }
        }
    }
    AwaitOutputReply {
        success: true,
        reason: AwaitReason::Timeout,
        timeout_occurred: true,
        ..AwaitOutputReply::default()
    }
}

fn error_reply(error: String) -> AwaitOutputReply {
    AwaitOutputReply { error: Some(error), ..AwaitOutputReply::default() }
}
