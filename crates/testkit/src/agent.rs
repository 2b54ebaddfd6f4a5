//! An agent, as far as the program knows: a client of `steplatch mcp` over pipes.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::Home;

/// A client that has said hello. Calls may be made from several threads. Its program ends with it.
#[derive(Debug)]
pub struct Agent {
    program: Child,
    input: Mutex<ChildStdin>,
    waiting: Arc<Mutex<HashMap<u64, Sender<Value>>>>,
    next: AtomicU64,
}

/// A call that is under way.
#[derive(Debug)]
pub struct Calling {
    tool: String,
    answer: Receiver<Value>,
}

/// Longer than anything that a test waits for.
const PATIENCE: Duration = Duration::from_secs(180);

impl Agent {
    /// Starts `steplatch mcp` in `home` and says hello.
    #[must_use]
    pub fn new(home: &Home) -> Self {
        Self::with(home, &[])
    }

    /// The same, with more in the environment.
    #[must_use]
    pub fn with(home: &Home, environment: &[(&str, &str)]) -> Self {
        let mut program = home
            .steplatch()
            .envs(environment.iter().copied())
            .arg("mcp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a program that runs");
        let input = Mutex::new(program.stdin.take().expect("a pipe was asked for"));
        let output = BufReader::new(program.stdout.take().expect("a pipe was asked for"));
        let waiting: Arc<Mutex<HashMap<u64, Sender<Value>>>> = Arc::default();
        let expected = waiting.clone();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                let Some(waiting) = message["id"].as_u64().and_then(|id| expected.lock().unwrap().remove(&id)) else {
                    continue;
                };
                // Whoever asked may have stopped waiting.
                let _ = waiting.send(message);
            }
        });
        let agent = Self { program, input, waiting, next: AtomicU64::new(1) };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test agent", "version": "1"}
        });
        agent.ask("initialize", &hello).recv_timeout(PATIENCE).expect("an answer to initialize");
        agent.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        agent
    }

    fn write(&self, message: &Value) {
        let mut input = self.input.lock().unwrap();
        writeln!(input, "{message}").expect("a program that reads");
    }

    fn ask(&self, method: &str, params: &Value) -> Receiver<Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = channel();
        self.waiting.lock().unwrap().insert(id, sender);
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        answer
    }

    /// Begins to call a tool.
    #[must_use]
    pub fn begins(&self, tool: &str, arguments: Value) -> Calling {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        Calling { tool: tool.to_owned(), answer }
    }

    /// Calls a tool and returns its structured result.
    #[must_use]
    pub fn calls(&self, tool: &str, arguments: Value) -> Value {
        self.begins(tool, arguments).ends()
    }
}

impl Calling {
    /// Waits for the structured result.
    #[must_use]
    pub fn ends(self) -> Value {
        let Self { tool, answer } = self;
        let answer = answer.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{tool} was not answered"));
        let result = &answer["result"];
        assert_eq!(result["isError"], Value::Bool(false), "{tool}: {answer}");
        result["structuredContent"].clone()
    }
}

impl Calling {
    /// Waits for the words with which the call is refused.
    #[must_use]
    pub fn refused(self) -> String {
        let Self { tool, answer } = self;
        let answer = answer.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{tool} was not answered"));
        assert_eq!(answer["result"]["isError"], Value::Bool(true), "{tool}: {answer}");
        answer["result"]["content"][0]["text"].as_str().expect("words").to_owned()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
