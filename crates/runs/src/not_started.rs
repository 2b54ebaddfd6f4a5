//! Reply to a request that started no run.

use steplatch_protocol::RunReply;

/// Returns the reply with this state and error.
pub(crate) fn not_started(final_state: &str, error: String) -> Box<RunReply> {
    Box::new(RunReply {
        status: "failed".to_owned(),
        final_state: Some(final_state.to_owned()),
        error: Some(error),
        ..RunReply::default()
    })
}
