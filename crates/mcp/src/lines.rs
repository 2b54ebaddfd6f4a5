//! Messages as JSON lines, with an error response to each invalid line.
//!
//! The transport of the protocol library drops lines that it cannot parse, so the client waits forever. This transport
//! responds to such a line as JSON-RPC 2.0 requires (<https://www.jsonrpc.org/specification#error_object>), with its id
//! if it has one.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, ErrorCode, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Serialize;
use serde_json::{Value, json};
use steplatch_protocol::{Line, LineReader};
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;

/// Maximum number of consecutive error responses. Prevents endless responses to a peer that echoes them.
const MAX_FAULTS: usize = 100;

/// A transport over two streams.
#[derive(Debug)]
pub(crate) struct Lines<R, W> {
    lines: LineReader<R>,
    out: Arc<Mutex<W>>,
    fault_count: usize,
}

impl<R: AsyncBufRead + Unpin, W> Lines<R, W> {
    /// Creates a transport that reads lines of at most `max_bytes` bytes.
    pub(crate) fn new(input: R, output: W, max_bytes: usize) -> Self {
        Self { lines: LineReader::with_max_bytes(input, max_bytes), out: Arc::new(Mutex::new(output)), fault_count: 0 }
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncBufRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn name() -> Cow<'static, str> {
        "lines".into()
    }

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let out = self.out.clone();
        async move { write(&out, &message).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = match self.lines.next().await {
                Ok(Some(Line::Bytes(line))) => read(&line),
                Ok(Some(Line::TooLong)) => Err(Fault::new(ErrorCode::INVALID_REQUEST, "the message is too long", None)),
                Ok(None) => return None,
                Err(error) => {
                    tracing::debug!(%error, "failed to read the input");
                    return None;
                }
            };
            match message {
                Ok(Some(message)) => {
                    self.fault_count = 0;
                    return Some(message);
                }
                Ok(None) => {}
                Err(fault) => {
                    tracing::debug!(?fault, "a line is not a valid message");
                    self.fault_count += 1;
                    if self.fault_count <= MAX_FAULTS {
                        // Write in a task, because the caller may drop this future at any moment, and half a line would
                        // corrupt the next one.
                        let out = self.out.clone();
                        tokio::spawn(async move { write(&out, &fault.response()).await });
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.out.lock().await.shutdown().await
    }
}

async fn write(out: &Mutex<impl AsyncWrite + Unpin>, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut out = out.lock().await;
    out.write_all(&line).await?;
    out.flush().await
}

/// An error in a line.
#[derive(Debug, PartialEq)]
struct Fault {
    code: ErrorCode,
    message: String,
    /// Id of the request, if it is readable.
    id: Option<Value>,
}

impl Fault {
    fn new(code: ErrorCode, message: impl Into<String>, id: Option<Value>) -> Self {
        Self { code, message: message.into(), id }
    }

    fn response(&self) -> Value {
        json!({"jsonrpc": "2.0", "id": self.id, "error": {"code": self.code.0, "message": self.message}})
    }
}

/// Parses a line. Returns `None` for a blank line, and for a message without a response.
fn read(line: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Fault> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| Fault::new(ErrorCode::PARSE_ERROR, format!("the line is not JSON: {error}"), None))?;
    let invalid = |message: &str, id: Option<Value>| Err(Fault::new(ErrorCode::INVALID_REQUEST, message, id));
    let Value::Object(fields) = &value else {
        return invalid("a message must be one JSON object on one line; batches are not supported", None);
    };
    let id = fields.get("id").filter(|id| id.is_string() || id.is_i64() || id.is_u64()).cloned();
    let method = match fields.get("method") {
        None if fields.contains_key("result") || fields.contains_key("error") => None,
        Some(Value::String(method)) => Some(method.clone()),
        _ => return invalid("'method' must be a string", id),
    };
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid("'jsonrpc' must be \"2.0\"", id);
    }
    let is_request = method.is_some() && fields.contains_key("id");
    if is_request && id.is_none() {
        return invalid("'id' must be a string or an integer", None);
    }
    let params = Value::clone(fields.get("params").unwrap_or(&Value::Null));
    match serde_json::from_value(value) {
        Ok(JsonRpcMessage::Request(request)) => match &request.request {
            // A request of a known method with unknown parameters is invalid.
            ClientRequest::CustomRequest(custom) if TYPED_METHODS.contains(&custom.method.as_str()) => {
                let problem = match custom.params {
                    Some(Value::Object(_)) | None => "are not valid",
                    Some(_) => "must be an object",
                };
                let message = format!("the parameters of {} {problem}{}", custom.method, arguments_hint(&params));
                Err(Fault::new(ErrorCode::INVALID_PARAMS, message, id))
            }
            _ => Ok(Some(JsonRpcMessage::Request(request))),
        },
        Ok(message) => Ok(Some(message)),
        // Invalid responses and notifications get no response.
        Err(_) if !is_request => Ok(None),
        Err(error) => Err(Fault::new(ErrorCode::INVALID_REQUEST, format!("the message is not valid: {error}"), id)),
    }
}

fn arguments_hint(params: &Value) -> &'static str {
    match params.get("arguments") {
        Some(Value::Object(_)) | None => "",
        Some(_) => ": 'arguments' must be an object",
    }
}

/// The methods of the protocol whose requests have typed parameters.
const TYPED_METHODS: [&str; 17] = [
    "initialize",
    "server/discover",
    "completion/complete",
    "logging/setLevel",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &[u8]) -> (i32, Option<Value>) {
        let fault = read(line).unwrap_err();
        (fault.code.0, fault.id)
    }

    #[test]
    fn invalid_message_gets_a_json_rpc_error() {
        for line in
            [&b"{"[..], b"\xff\xfe", b"{\"a\": \"\\ud800\"}", b"{} {}", b"nonsense", "[".repeat(100_000).as_bytes()]
        {
            assert_eq!(fault(line), (-32700, None), "{}", line[..line.len().min(40)].escape_ascii());
        }
        for (line, id) in [
            ("[]", None),
            ("7", None),
            ("{}", None),
            (r#"{"jsonrpc": "2.0", "id": 7}"#, Some(json!(7))),
            (r#"{"jsonrpc": "2.0", "id": 7, "method": 8}"#, Some(json!(7))),
            (r#"{"jsonrpc": "1.0", "id": "a", "method": "ping"}"#, Some(json!("a"))),
            (r#"{"id": "a", "method": "ping"}"#, Some(json!("a"))),
            (r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, None),
            (r#"{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}"#, None),
        ] {
            assert_eq!(fault(line.as_bytes()), (-32600, id), "{line}");
        }
    }

    #[test]
    fn invalid_parameters_are_reported_with_the_request_id() {
        for params in [r#"{"name": "open_terminal", "arguments": [1]}"#, r#"{"arguments": {}}"#, r#"{"name": 7}"#] {
            let line = format!(r#"{{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {params}}}"#);
            assert_eq!(fault(line.as_bytes()), (-32602, Some(json!(9))), "{params}");
        }
    }

    #[test]
    fn valid_messages_are_accepted() {
        for line in [
            r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#,
            r#"{"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "open_terminal"}}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "method": "of/another"}"#,
            r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#,
        ] {
            assert!(read(line.as_bytes()).unwrap().is_some(), "{line}");
            assert!(read(format!("{line}\r").as_bytes()).unwrap().is_some(), "{line}");
        }
        for line in ["", "  ", "\r"] {
            assert!(read(line.as_bytes()).unwrap().is_none());
        }
    }

    #[tokio::test]
    async fn error_response_is_sent_and_reading_continues() {
        let input: &[u8] = b"nonsense\n{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\"}\n";
        let (server_stream, client_stream) = tokio::io::duplex(1 << 16);
        let mut lines = Lines::new(input, server_stream, 1 << 16);
        assert!(matches!(lines.receive().await, Some(JsonRpcMessage::Request(_))));
        assert!(lines.receive().await.is_none());
        let mut responses = LineReader::new(tokio::io::BufReader::new(client_stream));
        let Some(Line::Bytes(response)) = responses.next().await.unwrap() else { panic!("no response was sent") };
        let response: Value = serde_json::from_slice(&response).unwrap();
        assert_eq!((&response["error"]["code"], &response["id"]), (&json!(-32700), &Value::Null));
    }
}
