//! A simulated agent: a client of `steplatch mcp` over pipes.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::Home;

/// A client after its handshake. Several threads may make calls. Dropping this value ends the client's program.
#[derive(Debug)]
pub struct Agent {
    program: Child,
    input: Mutex<ChildStdin>,
    pending_calls: Arc<Mutex<HashMap<u64, Sender<Value>>>>,
    next_id: AtomicU64,
    era: Era,
    /// Name that the client gives itself.
    name: String,
    /// Declared client capabilities.
    capabilities: Value,
    /// Requests from the server.
    server_requests: Mutex<Receiver<Value>>,
}

/// Protocol version that an agent uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// The client starts with a handshake, as in versions up to 2025.
    Handshake,
    /// Every request describes its client, as of version 2026-07-28.
    Stateless,
}

/// A call in progress.
#[derive(Debug)]
pub struct Calling {
    tool: String,
    id: u64,
    /// Progress notifications as they arrive, then the response.
    messages: Receiver<Value>,
}

/// Name of an agent that is no known program.
const TEST_AGENT: &str = "test agent";

/// Time limit for an answer; longer than any wait in a test.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(180);

impl Agent {
    /// Starts `steplatch mcp` in `home` and performs the handshake.
    #[must_use]
    pub fn new(home: &Home) -> Self {
        Self::with(home, &[])
    }

    /// Same as [`Self::new`], with additional environment variables.
    #[must_use]
    pub fn with(home: &Home, environment: &[(&str, &str)]) -> Self {
        Self::start(Era::Handshake, home, environment, TEST_AGENT, json!({}))
    }

    /// Starts `steplatch mcp` in `home` for an agent that uses the protocol version `era`.
    #[must_use]
    pub fn with_era(era: Era, home: &Home) -> Self {
        Self::start(era, home, &[], TEST_AGENT, json!({}))
    }

    /// Same as [`Self::of`], for an agent with these capabilities, such as `{"elicitation": {}}`.
    #[must_use]
    pub fn with_capabilities(era: Era, home: &Home, capabilities: Value) -> Self {
        Self::start(era, home, &[], TEST_AGENT, capabilities)
    }

    /// Same as [`Self::with_era`], for the agent of the program `name`.
    #[must_use]
    pub fn with_name(era: Era, home: &Home, name: &str) -> Self {
        Self::start(era, home, &[], name, json!({}))
    }

    fn start(era: Era, home: &Home, environment: &[(&str, &str)], name: &str, capabilities: Value) -> Self {
        let mut program = home
            .steplatch()
            .envs(environment.iter().copied())
            .arg("mcp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let input = Mutex::new(program.stdin.take().expect("the pipe was requested"));
        let output = BufReader::new(program.stdout.take().expect("the pipe was requested"));
        let pending_calls: Arc<Mutex<HashMap<u64, Sender<Value>>>> = Arc::default();
        let reader_calls = pending_calls.clone();
        let (request_sender, server_requests) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if message["method"].is_string() && !message["id"].is_null()
                    || message["method"] == "notifications/cancelled"
                {
                    // Most tests have no requests from the server.
                    let _ = request_sender.send(message);
                    continue;
                }
                let receiver = match message["method"].as_str() {
                    // The token is the number of the call.
                    Some("notifications/progress") => message["params"]["progressToken"].as_u64().map(|id| {
                        reader_calls.lock().unwrap().get(&id).cloned().expect("progress belongs to a pending call")
                    }),
                    _ => message["id"].as_u64().and_then(|id| reader_calls.lock().unwrap().remove(&id)),
                };
                if let Some(receiver) = receiver {
                    // The caller may have stopped waiting.
                    let _ = receiver.send(message);
                }
            }
        });
        let server_requests = Mutex::new(server_requests);
        let agent = Self {
            program,
            input,
            pending_calls,
            next_id: AtomicU64::new(1),
            era,
            name: name.to_owned(),
            capabilities,
            server_requests,
        };
        if era == Era::Stateless {
            return agent;
        }
        let handshake = json!({
            "protocolVersion": "2025-06-18", "capabilities": agent.capabilities, "clientInfo": {"name": agent.name, "version": "1"}
        });
        agent
            .send(agent.next_id(), "initialize", &handshake)
            .recv_timeout(ANSWER_TIMEOUT)
            .expect("the server answers initialize");
        agent.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        agent
    }

    fn write(&self, message: &Value) {
        let mut input = self.input.lock().unwrap();
        writeln!(input, "{message}").expect("the program reads its input");
    }

    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn send(&self, id: u64, method: &str, params: &Value) -> Receiver<Value> {
        let (sender, receiver) = channel();
        self.pending_calls.lock().unwrap().insert(id, sender);
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        receiver
    }

    /// Starts a tool call.
    #[must_use]
    pub fn begin(&self, tool: &str, arguments: Value) -> Calling {
        self.call(self.next_id(), tool, &arguments, json!({}))
    }

    /// Starts a tool call with progress notifications.
    #[must_use]
    pub fn start_call_with_progress(&self, tool: &str, arguments: Value) -> Calling {
        let id = self.next_id();
        self.call(id, tool, &arguments, json!({"progressToken": id}))
    }

    /// Repeats a tool call with the results of its previous round: `carried` has its `requestState` and the matching
    /// `inputResponses`.
    #[must_use]
    pub fn call_again(&self, tool: &str, arguments: &Value, carried: &Value) -> Calling {
        self.round(self.next_id(), tool, arguments, json!({}), carried)
    }

    /// Waits for the next request from the server, or a cancellation of one.
    #[must_use]
    pub fn await_request(&self) -> Value {
        self.server_requests.lock().unwrap().recv_timeout(ANSWER_TIMEOUT).expect("the server sends a request")
    }

    /// Responds to a request from the server.
    pub fn send_response(&self, request: &Value, result: Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    fn call(&self, id: u64, tool: &str, arguments: &Value, meta: Value) -> Calling {
        self.round(id, tool, arguments, meta, &json!({}))
    }

    /// Sends a request that is not a tool call and returns the answer unchanged.
    #[must_use]
    pub fn send_request(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = self.meta(json!({}));
        self.send(self.next_id(), method, &params).recv_timeout(ANSWER_TIMEOUT).expect("the server answers")
    }

    /// Adds the client's description if every request needs it.
    fn meta(&self, mut meta: Value) -> Value {
        if self.era == Era::Stateless {
            meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": self.name, "version": "1"});
        }
        meta
    }

    fn round(&self, id: u64, tool: &str, arguments: &Value, meta: Value, carried: &Value) -> Calling {
        let meta = self.meta(meta);
        let mut params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        for (name, value) in carried.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        let messages = self.send(id, "tools/call", &params);
        Calling { tool: tool.to_owned(), id, messages }
    }

    /// Cancels a call.
    pub fn cancel(&self, call: &Calling) {
        let params = json!({"requestId": call.id, "reason": "the agent changed its mind"});
        self.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    }

    /// Calls a tool and returns its structured result.
    #[must_use]
    pub fn call_tool(&self, tool: &str, arguments: Value) -> Value {
        self.begin(tool, arguments).finish()
    }
}

impl Calling {
    fn next_message(&self) -> Value {
        self.messages.recv_timeout(ANSWER_TIMEOUT).unwrap_or_else(|_| panic!("{} was not answered", self.tool))
    }

    /// Waits for the next progress notification and returns its progress and message. Panics if the answer arrives
    /// first.
    #[must_use]
    pub fn progress(&self) -> (f64, String) {
        parse_progress(&self.next_message()).unwrap_or_else(|| panic!("{} was answered without progress", self.tool))
    }

    /// Waits for the answer, of any kind.
    #[must_use]
    pub fn answer(self) -> Value {
        self.next_message()
    }

    /// Waits for the message of a refused call.
    #[must_use]
    pub fn refusal(self) -> String {
        let answer = self.next_message();
        assert_eq!(answer["result"]["isError"], Value::Bool(true), "{}: {answer}", self.tool);
        answer["result"]["content"][0]["text"].as_str().expect("a refusal has a message").to_owned()
    }

    /// Waits for the structured result.
    #[must_use]
    pub fn finish(self) -> Value {
        self.result_with_progress().1
    }

    /// Waits for the structured result and returns all progress notifications before it.
    #[must_use]
    pub fn result_with_progress(self) -> (Vec<(f64, String)>, Value) {
        let mut progress = Vec::new();
        let answer = loop {
            let message = self.next_message();
            match parse_progress(&message) {
                Some(more) => progress.push(more),
                None => break message,
            }
        };
        let result = &answer["result"];
        assert_ne!(result["isError"], Value::Bool(true), "{}: {answer}", self.tool);
        assert!(result["structuredContent"].is_object(), "{}: {answer}", self.tool);
        (progress, result["structuredContent"].clone())
    }
}

/// Reads a progress notification.
fn parse_progress(message: &Value) -> Option<(f64, String)> {
    let params = message.get("params")?;
    Some((params["progress"].as_f64()?, params["message"].as_str().unwrap_or_default().to_owned()))
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Ignore the error, because the program may have ended.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
