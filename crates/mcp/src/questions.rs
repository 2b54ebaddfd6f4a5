//! Questions to a client, according to its protocol version.
//!
//! Since 2026-07-28 a question is the result of a call, which the client repeats with the answers. Before that, a
//! question is a request to the client during the call. A [`ServerBackend`](crate::ServerBackend) sees neither: it
//! returns a question, and the next call has the outcome.

use std::time::{Duration, Instant};

use rmcp::ErrorData;
use rmcp::model::{ClientResult, InputRequest, InputRequiredResult, InputResponses, JsonObject, ServerRequest};
use rmcp::service::PeerRequestOptions;
use serde_json::Value;

use crate::offer::{Ask, Call, CallRound, ClientContext, ClientInput};
use crate::progress::Progress;
use crate::seal::{SealError, Seals, call_fingerprint};

/// Time that a client may take to answer a request.
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
    pub(crate) asker: ClientContext<'c>,
}

/// A call in progress.
pub(crate) struct ActiveCall<'c> {
    pub(crate) call: Call<'c>,
    method: &'static str,
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
        let IncomingCall { method, name, arguments, answers, state, asker } = incoming;
        let round = match (state, answers) {
            (Some(sealed), answers) => {
                let fingerprint = call_fingerprint(method, &name, arguments.as_ref());
                let carried = seals.open(&sealed, &fingerprint).await.map_err(|error| invalid_state(&error))?;
                let mut answers = answers.unwrap_or_default();
                // Keep only answers to the questions of this state.
                answers.retain(|name, answer| carried.asked.contains(name) && answer.is_object());
                if !answers.is_empty() {
                    seals.mark_used(&carried).map_err(|error| invalid_state(&error))?;
                }
                CallRound { carried: Some(carried.state), came: ClientInput::Answers(answers) }
            }
            (None, Some(answers)) => CallRound { carried: None, came: ClientInput::Answers(answers) },
            (None, None) => CallRound::default(),
        };
        let progress = Progress::for_request(asker.context());
        Ok(Self { call: Call { name, arguments, asker, progress, round }, method, rounds: 0 })
    }

    /// Sends questions to the client. Returns the result that ends this round of the call, or `None` when the call
    /// continues.
    ///
    /// # Errors
    /// If the call exceeds the limit of rounds.
    pub(crate) async fn ask_client(
        &mut self,
        ask: Ask,
        seals: &Seals,
    ) -> Result<Option<InputRequiredResult>, ErrorData> {
        let Ask { questions, carried, moot } = ask;
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            return Err(ErrorData::internal_error("this call asks more than one call can", None));
        }
        let call = &mut self.call;
        if !questions.values().all(|question| call.asker.takes(question)) {
            call.round = CallRound { carried, came: ClientInput::Unreachable };
            return Ok(None);
        }
        if call.asker.is_modern() {
            let state = match carried {
                Some(state) => {
                    let fingerprint = call_fingerprint(self.method, &call.name, call.arguments.as_ref());
                    Some(seals.close(questions.keys().cloned().collect(), state, &fingerprint).await)
                }
                None => None,
            };
            return Ok(Some(InputRequiredResult::new(Some(questions), state)));
        }
        let (mut moot, timeout) = (moot, tokio::time::sleep(ANSWER_TIMEOUT));
        tokio::pin!(timeout);
        let mut answers = InputResponses::new();
        let mut came = None;
        for (name, question) in questions {
            match send_question(question, call, &mut moot, timeout.as_mut()).await {
                Ok(answer) => drop(answers.insert(name, answer)),
                Err(outcome) => {
                    came = Some(outcome);
                    break;
                }
            }
        }
        call.round = CallRound { carried, came: came.unwrap_or(ClientInput::Answers(answers)) };
        Ok(None)
    }
}

/// Sends a question as a request, for protocol versions before 2026-07-28, and waits while the question is relevant.
async fn send_question(
    question: InputRequest,
    call: &mut Call<'_>,
    moot: &mut (impl Future<Output = ()> + Unpin),
    mut timeout: std::pin::Pin<&mut tokio::time::Sleep>,
) -> Result<Value, ClientInput> {
    let request = match question {
        InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        _ => return Err(ClientInput::Unreachable),
    };
    let context = call.asker.context();
    let asked = context.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
    let Ok(mut asked) = asked else { return Err(ClientInput::Unreachable) };
    let began = Instant::now();
    let outcome = loop {
        tokio::select! {
            answered = &mut asked.rx => {
                let answer = match answered {
                    Ok(Ok(ClientResult::ElicitResult(answer))) => serde_json::to_value(answer),
                    Ok(Ok(ClientResult::CreateMessageResult(answer))) => serde_json::to_value(answer),
                    Ok(Ok(ClientResult::ListRootsResult(answer))) => serde_json::to_value(answer),
                    _ => return Err(ClientInput::Unreachable),
                };
                return answer.map_err(|_| ClientInput::Unreachable);
            }
            () = &mut *moot => break ClientInput::Moot,
            () = &mut timeout => break ClientInput::Late,
            () = report_waiting(&mut call.progress, began) => {}
            () = context.ct.cancelled() => break ClientInput::Moot,
        }
    };
    // The client closes a dialog whose answer is no longer needed.
    if let Err(error) = asked.cancel(Some("the question is no longer open here".to_owned())).await {
        tracing::debug!(%error, "a question cannot be withdrawn");
    }
    Err(outcome)
}

async fn report_waiting(progress: &mut Option<Progress>, began: Instant) {
    match progress {
        Some(progress) => progress.report_waiting(began).await,
        None => std::future::pending().await,
    }
}
