//! Questions to a client, according to its protocol version.
//!
//! Since 2026-07-28 a question is the result of a call, and the client repeats the call with the answers. Before that,
//! a question is a request to the client during the call. A [`ServerBackend`](crate::ServerBackend) does not see this
//! difference: it returns a question, and the next call has the outcome.

use std::time::{Duration, Instant};

use rmcp::ErrorData;
use rmcp::model::{ClientResult, InputRequest, InputRequiredResult, InputResponses, JsonObject, ServerRequest};
use rmcp::service::PeerRequestOptions;
use serde_json::Value;

use crate::offer::{Call, CallRound, ClientContext, ClientInput, ClientQuestions};
use crate::progress::Progress;
use crate::seal::{SealError, Seals, call_fingerprint};

/// Maximum time for a client to answer a request.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of rounds of one call.
pub(crate) const MAX_ROUNDS: usize = 100;

/// A call as the server received it.
pub(crate) struct IncomingCall<'c> {
    pub(crate) method: &'static str,
    pub(crate) name: String,
    pub(crate) arguments: Option<JsonObject>,
    pub(crate) answers: Option<InputResponses>,
    pub(crate) state: Option<String>,
    pub(crate) client: ClientContext<'c>,
}

/// A call in progress.
pub(crate) struct ActiveCall<'c> {
    pub(crate) call: Call<'c>,
    /// Fingerprint of the call as the client sent it. The client repeats that call, whatever the offer makes of it.
    fingerprint: String,
    rounds: usize,
}

fn invalid_state(error: &SealError) -> ErrorData {
    ErrorData::invalid_params(error.to_string(), None)
}

impl<'c> ActiveCall<'c> {
    /// Begins or continues a call.
    ///
    /// # Errors
    /// If the returned state is not the state that the server sent.
    pub(crate) async fn new(incoming: IncomingCall<'c>, seals: &Seals) -> Result<Self, ErrorData> {
        let IncomingCall { method, name, arguments, answers, state, client } = incoming;
        // Before 2026-07-28 a client does not repeat calls.
        let fingerprint =
            if client.is_modern() { call_fingerprint(method, &name, arguments.as_ref()) } else { String::new() };
        let round = match (state, answers) {
            (Some(sealed), answers) => {
                let request_state = seals.open(&sealed, &fingerprint).await.map_err(|error| invalid_state(&error))?;
                let mut answers = answers.unwrap_or_default();
                // Keep only answers to the questions of this state.
                answers.retain(|name, answer| request_state.questions.contains(name) && answer.is_object());
                if !answers.is_empty() {
                    seals.mark_used(&request_state).map_err(|error| invalid_state(&error))?;
                }
                CallRound { carried_state: Some(request_state.state), input: ClientInput::Answers(answers) }
            }
            (None, Some(answers)) => CallRound { carried_state: None, input: ClientInput::Answers(answers) },
            (None, None) => CallRound::default(),
        };
        let progress = Progress::for_request(client.context());
        Ok(Self { call: Call { name, arguments, client, progress, round }, fingerprint, rounds: 0 })
    }

    /// Sends questions to the client. Returns the result that ends this round of the call, or `None` when the call
    /// continues.
    ///
    /// # Errors
    /// If the call exceeds the limit of rounds.
    pub(crate) async fn ask_client(
        &mut self,
        client_questions: ClientQuestions,
        seals: &Seals,
    ) -> Result<Option<InputRequiredResult>, ErrorData> {
        let ClientQuestions { questions, carried_state, no_longer_needed } = client_questions;
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            return Err(ErrorData::internal_error("the call exceeds the maximum number of questions", None));
        }
        let call = &mut self.call;
        if !questions.values().all(|question| call.client.supports(question)) {
            call.round = CallRound { carried_state, input: ClientInput::Unreachable };
            return Ok(None);
        }
        if call.client.is_modern() {
            let state = match carried_state {
                Some(state) => Some(seals.close(questions.keys().cloned().collect(), state, &self.fingerprint).await),
                None => None,
            };
            return Ok(Some(InputRequiredResult::new(Some(questions), state)));
        }
        let (mut no_longer_needed, timeout) = (no_longer_needed, tokio::time::sleep(ANSWER_TIMEOUT));
        tokio::pin!(timeout);
        let mut answers = InputResponses::new();
        let mut input = None;
        for (name, question) in questions {
            match send_question(question, call, &mut no_longer_needed, timeout.as_mut()).await {
                Ok(answer) => drop(answers.insert(name, answer)),
                Err(outcome) => {
                    input = Some(outcome);
                    break;
                }
            }
        }
        call.round = CallRound { carried_state, input: input.unwrap_or(ClientInput::Answers(answers)) };
        Ok(None)
    }
}

/// Sends a question as a request, for protocol versions before 2026-07-28, and waits while its answer is needed.
async fn send_question(
    question: InputRequest,
    call: &mut Call<'_>,
    no_longer_needed: &mut (impl Future<Output = ()> + Unpin),
    mut timeout: std::pin::Pin<&mut tokio::time::Sleep>,
) -> Result<Value, ClientInput> {
    let request = match question {
        InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        _ => return Err(ClientInput::Unreachable),
    };
    let context = call.client.context();
    let sent_request = context.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
    let Ok(mut sent_request) = sent_request else { return Err(ClientInput::Unreachable) };
    let began = Instant::now();
    let outcome = loop {
        tokio::select! {
            response = &mut sent_request.rx => {
                let answer = match response {
                    Ok(Ok(ClientResult::ElicitResult(answer))) => serde_json::to_value(answer),
                    Ok(Ok(ClientResult::CreateMessageResult(answer))) => serde_json::to_value(answer),
                    Ok(Ok(ClientResult::ListRootsResult(answer))) => serde_json::to_value(answer),
                    _ => return Err(ClientInput::Unreachable),
                };
                return answer.map_err(|_| ClientInput::Unreachable);
            }
            () = &mut *no_longer_needed => break ClientInput::NoLongerNeeded,
            () = &mut timeout => break ClientInput::TimedOut,
            () = report_waiting(&mut call.progress, began) => {}
            () = context.ct.cancelled() => break ClientInput::NoLongerNeeded,
        }
    };
    // Ask the client to close the dialog.
    if let Err(error) = sent_request.cancel(Some("the question is no longer open here".to_owned())).await {
        tracing::debug!(%error, "failed to withdraw a question");
    }
    Err(outcome)
}

async fn report_waiting(progress: &mut Option<Progress>, began: Instant) {
    match progress {
        Some(progress) => progress.report_waiting(began).await,
        None => std::future::pending().await,
    }
}
