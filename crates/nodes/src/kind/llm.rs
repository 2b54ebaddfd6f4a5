//! LLM nodes. A call queries a model behind an OpenAI-compatible endpoint.
//!
//! Uses the chat completions of <https://platform.openai.com/docs/api-reference/chat>. Most model servers support them.
//! A request to a busy endpoint is repeated, unless the caller has already received part of an answer: that part would
//! arrive twice.

mod answer;
mod stream;

use std::time::Duration;

use reqwest::{Response, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use steplatch_workflow::Problem;

use super::NodeSettings;
use super::http::{self, HttpClient, connection_failure, content_type, read_body};
use crate::call::{CallLimit, OnText};
use crate::context::CallContext;
use crate::node::{Seconds, read_object, schema_of};
use crate::nodes::as_text;
use crate::outcome::{ErrorType, ExecutorOutcome, Failure};
use crate::template::TemplateValues;
use answer::Answer;
use stream::{EventParser, StreamError};

/// Maximum delay that an endpoint may request before a retry; a longer delay fails the call.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(120);

/// Maximum length of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Maximum length of an endpoint's error, in bytes.
const MAX_ERROR_BYTES: usize = 16 << 10;

/// Queries a model behind an OpenAI-compatible endpoint; the output is the text of its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Llm {
    /// URL of the endpoint: the part before /chat/completions
    pub base_url: String,
    /// API key of the endpoint, as {secret:NAME}
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// The model
    pub model: String,
    /// The system message
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Prompt; {input} is the input. By default the input is the prompt, or a list of messages
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Stream the answer
    #[serde(default)]
    pub stream: bool,
    /// Further fields of the request: temperature, max_tokens, tools, …
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
    /// Number of retries after 429, 5xx or a lost connection (default 3)
    #[serde(default = "three_retries")]
    #[schemars(range(max = 10))]
    pub retries: u8,
    /// Seconds before the first retry, doubled each time, unless the endpoint requests a delay (default 1)
    #[serde(default = "one_second")]
    pub retry_delay: Seconds,
}

fn three_retries() -> u8 {
    3
}

fn one_second() -> Seconds {
    Seconds::ONE
}

impl NodeSettings for Llm {
    fn read(fields: &Map<String, Value>, common_keys: &[String], problems: &mut Vec<Problem>) -> Option<Self> {
        read_object(fields, "", "an llm node", common_keys, problems)
    }

    fn schema() -> Value {
        schema_of::<Self>()
    }

    async fn perform(&self, context: &CallContext<'_>) -> ExecutorOutcome {
        let CallContext { call, limit, template_values, http_client, .. } = context;
        run(self, template_values, http_client, call.on_text.as_ref(), limit).await
    }
}

async fn run(
    llm: &Llm,
    template_values: &TemplateValues,
    http_client: &HttpClient,
    on_text: Option<&OnText>,
    limit: &CallLimit,
) -> ExecutorOutcome {
    let mut query = ModelQuery { llm, http_client, on_text, answer: Answer::default(), attempts: 0 };
    let failure = match query.build_request(template_values) {
        Err(failure) => Some(failure),
        Ok(request) => tokio::select! {
            result = query.send(&request, template_values) => result.err(),
            failure = limit.wait_until_reached() => Some(failure),
        },
    };
    let ModelQuery { answer, attempts, .. } = query;
    answer.into_outcome(failure).with("attempts", attempts)
}

/// One query of a model, repeated until the endpoint answers.
struct ModelQuery<'a> {
    llm: &'a Llm,
    http_client: &'a HttpClient,
    on_text: Option<&'a OnText>,
    answer: Answer,
    attempts: u32,
}

/// Failure of one attempt.
enum AttemptError {
    /// A retry is possible, after the delay that the endpoint requests, if any.
    Transient(Failure, Option<Duration>),
    Permanent(Failure),
}

impl ModelQuery<'_> {
    fn build_request(&self, template_values: &TemplateValues) -> Result<Value, Failure> {
        let mut messages = Vec::new();
        if let Some(system) = &self.llm.system {
            messages.push(json!({"role": "system", "content": template_values.text(system)}));
        }
        match (&self.llm.prompt, template_values.input()) {
            (Some(prompt), _) => messages.push(json!({"role": "user", "content": template_values.text(prompt)})),
            (None, Value::Array(list)) if list.iter().all(is_message) => messages.extend(list.iter().cloned()),
            (None, Value::Array(_)) => {
                let message = "A list of messages must contain only objects with 'role' and 'content'.";
                return Err(Failure::new(ErrorType::InvalidInput, message));
            }
            (None, input) => messages.push(json!({"role": "user", "content": as_text(input)})),
        }
        let mut request = Map::new();
        request.insert("model".into(), self.llm.model.as_str().into());
        request.insert("messages".into(), messages.into());
        request.extend(template_values.map(&self.llm.options));
        if self.llm.stream {
            request.insert("stream".into(), true.into());
            request.entry("stream_options").or_insert_with(|| json!({"include_usage": true}));
        }
        Ok(request.into())
    }

    async fn send(&mut self, request: &Value, template_values: &TemplateValues) -> Result<(), Failure> {
        let mut delay = self.llm.retry_delay.duration();
        loop {
            self.attempts += 1;
            let (failure, requested_delay) = match self.attempt(request, template_values).await {
                Ok(()) => return Ok(()),
                Err(AttemptError::Permanent(failure)) => return Err(failure),
                Err(AttemptError::Transient(failure, requested_delay)) => (failure, requested_delay),
            };
            let wait = requested_delay.unwrap_or(delay);
            if self.attempts > u32::from(self.llm.retries) || wait > MAX_RETRY_DELAY {
                return Err(failure);
            }
            tokio::time::sleep(wait).await;
            delay = (delay * 2).min(MAX_RETRY_DELAY);
        }
    }

    async fn attempt(&mut self, request: &Value, template_values: &TemplateValues) -> Result<(), AttemptError> {
        let url = format!("{}/chat/completions", template_values.url(&self.llm.base_url).trim_end_matches('/'));
        let client = self.http_client.client().await.map_err(AttemptError::Permanent)?;
        let mut builder = client.post(url).header("content-type", "application/json").body(request.to_string());
        if let Some(key) = &self.llm.api_key {
            builder = builder.bearer_auth(template_values.text(key));
        }
        // Repeating a request costs money, but is otherwise harmless.
        let response = builder.send().await.map_err(|error| match connection_failure(&error) {
            failure if error.is_builder() => AttemptError::Permanent(failure),
            failure => AttemptError::Transient(failure, None),
        })?;
        let status = response.status();
        if !status.is_success() {
            return Err(refusal_error(status, response).await);
        }
        let is_stream = content_type(response.headers()).as_deref() == Some("text/event-stream");
        if is_stream {
            self.read_stream(response).await.map_err(AttemptError::Permanent)
        } else {
            self.read_whole(response).await
        }
    }

    /// Reads an answer that arrives in one piece.
    async fn read_whole(&mut self, response: Response) -> Result<(), AttemptError> {
        let body = read_body(response, MAX_ANSWER_BYTES)
            .await
            .map_err(|error| AttemptError::Transient(connection_failure(&error), None))?;
        if body.is_cut {
            return Err(AttemptError::Permanent(too_large()));
        }
        let completion = serde_json::from_slice(&body.bytes).ok().filter(|answer| self.answer.read(answer));
        if completion.is_none() {
            let message = "The response is not a chat completion; check base_url.";
            return Err(AttemptError::Permanent(Failure::new(ErrorType::Protocol, message)));
        }
        if let Some(on_text) = self.on_text {
            on_text(self.answer.text());
        }
        Ok(())
    }

    /// Reads an answer that arrives in pieces.
    async fn read_stream(&mut self, mut response: Response) -> Result<(), Failure> {
        let mut parser = EventParser::default();
        while let Some(chunk) = response.chunk().await.map_err(|error| http::connection_failure(&error))? {
            for event in parser.push(&chunk).map_err(|StreamError::LineTooLong| too_large())? {
                if event == "[DONE]" {
                    return Ok(());
                }
                let Ok(piece) = serde_json::from_str::<Value>(&event) else {
                    let message = "The endpoint sent a piece of an answer that is not JSON.";
                    return Err(Failure::new(ErrorType::Protocol, message));
                };
                if let Some(error) = piece.get("error") {
                    let message = format!("The endpoint reported an error within its answer: {}", error_message(error));
                    return Err(Failure::new(ErrorType::Connection, message));
                }
                let text = self.answer.add(&piece);
                if let (Some(on_text), Some(text)) = (self.on_text, text) {
                    on_text(&text);
                }
                if self.answer.size() > MAX_ANSWER_BYTES {
                    return Err(too_large());
                }
            }
        }
        // Some servers close the connection without an end marker.
        if self.answer.is_finished() {
            return Ok(());
        }
        Err(Failure::new(ErrorType::Connection, "The connection was lost in the middle of the answer."))
    }
}

fn is_message(message: &Value) -> bool {
    message.get("role").is_some_and(Value::is_string)
        && (message.get("content").is_some() || message.get("tool_calls").is_some())
}

fn too_large() -> Failure {
    Failure::new(ErrorType::TooLarge, format!("The answer exceeds the limit of {MAX_ANSWER_BYTES} bytes."))
}

/// Returns the error of a refused request.
async fn refusal_error(status: StatusCode, response: Response) -> AttemptError {
    let requested_delay = retry_after(&response);
    let body = read_body(response, MAX_ERROR_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&body.bytes).into_owned();
    let error = serde_json::from_str::<Value>(&text).ok().and_then(|body| body.get("error").cloned());
    let reason = error.as_ref().map_or_else(|| text.trim().chars().take(500).collect(), error_message);
    let colon = if reason.is_empty() { "." } else { ": " };
    let failure = Failure::new(ErrorType::Status, format!("The endpoint answered {}{colon}{reason}", status.as_u16()));
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        AttemptError::Transient(failure, requested_delay)
    } else {
        AttemptError::Permanent(failure)
    }
}

fn error_message(error: &Value) -> String {
    let message = error.get("message").and_then(Value::as_str).or(error.as_str());
    message.map_or_else(|| error.to_string(), str::to_owned)
}

/// Returns the delay before a retry that the endpoint requests: seconds, or a date (RFC 9110, 10.2.3).
fn retry_after(response: &Response) -> Option<Duration> {
    let header = response.headers().get(reqwest::header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = header.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(header).ok()?;
    let wait = date.timestamp().duration_since(jiff::Timestamp::now());
    Some(Duration::try_from(wait).unwrap_or_default())
}
