//! A minimal MCP client: it connects, lists the tools and disconnects.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};

use crate::print;

/// Maximum time for one reply of a server, and for its end.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum length of the stored standard error of a server.
const MAX_ERROR_BYTES: u64 = 16 << 10;

/// The command of a server, with the variables that the client adds to its environment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command<'a> {
    pub(super) program: &'a Path,
    pub(super) arguments: &'a [String],
    pub(super) environment: &'a [(&'a str, &'a str)],
}

/// The era of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// The client begins with a handshake (2024-11-05 to 2025-11-25).
    Handshake,
    /// Every request identifies the client (since 2026-07-28).
    Stateless,
}

/// Facts about a server that replied.
#[derive(Debug)]
pub(super) struct ServerFacts {
    /// Name of the server.
    pub(super) name: String,
    /// Version of the server.
    pub(super) version: String,
    /// Revision of the protocol.
    pub(super) revision: String,
    /// Number of tools.
    pub(super) tools: usize,
    /// Time from the start of the server to its first reply.
    pub(super) started: Duration,
    /// Duration of the request for the list of tools.
    pub(super) listed: Duration,
    /// Time from the end of the input to the server's exit.
    pub(super) ended: Duration,
}

/// Starts a server and queries it. The error text is the predicate of a sentence about the server.
pub(super) async fn probe_server(command: Command<'_>, era: Era) -> Result<ServerFacts, String> {
    let started_at = Instant::now();
    let mut server = tokio::process::Command::new(command.program)
        .args(command.arguments)
        .envs(command.environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let (Some(input), Some(output), Some(stderr)) = (server.stdin.take(), server.stdout.take(), server.stderr.take())
    else {
        return Err("it has no pipes".to_owned());
    };
    let error_output = tokio::spawn(async move {
        let mut stderr = stderr;
        let mut text = Vec::new();
        let result = (&mut stderr).take(MAX_ERROR_BYTES).read_to_end(&mut text).await;
        // Discard further output, so that a verbose server does not block.
        let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
        result.map(|_| text).unwrap_or_default()
    });
    let mut conversation = Conversation { input, output: BufReader::new(output).lines(), era, next_id: 1 };
    let query_result = tokio::time::timeout(ANSWER_TIMEOUT * 2, conversation.query(started_at)).await;
    let mut facts = match query_result.unwrap_or_else(|_| Err(timeout_message())) {
        Ok(facts) => facts,
        Err(reason) => {
            // Standard error often contains the reason.
            let _ = server.start_kill();
            let errors = tokio::time::timeout(Duration::from_secs(1), error_output).await.ok().and_then(Result::ok);
            let errors = String::from_utf8_lossy(&errors.unwrap_or_default()).into_owned();
            let last_line = errors.lines().rev().find(|line| !line.trim().is_empty());
            return Err(last_line.map_or(reason.clone(), |line| {
                format!("{reason}; its log: {}", print::fitted(&print::visible(line), 200))
            }));
        }
    };
    let closed_at = Instant::now();
    drop(conversation);
    match tokio::time::timeout(ANSWER_TIMEOUT, server.wait()).await {
        Err(_) => return Err("it keeps running after its client disconnected".to_owned()),
        Ok(Err(error)) => return Err(format!("waiting for its end failed: {error}")),
        Ok(Ok(status)) if !status.success() => {
            return Err(format!("it failed after its client disconnected: {status}"));
        }
        Ok(Ok(_)) => facts.ended = closed_at.elapsed(),
    }
    Ok(facts)
}

fn timeout_message() -> String {
    format!("it did not answer within {}", print::duration(ANSWER_TIMEOUT))
}

struct Conversation {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    era: Era,
    next_id: u64,
}

impl Conversation {
    async fn query(&mut self, started_at: Instant) -> Result<ServerFacts, String> {
        let client = json!({"name": "steplatch doctor", "version": env!("CARGO_PKG_VERSION")});
        let hello = match self.era {
            Era::Handshake => {
                let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
                self.ask("initialize", hello).await?
            }
            Era::Stateless => self.ask("server/discover", json!({})).await?,
        };
        let started = started_at.elapsed();
        let server = match self.era {
            Era::Handshake => {
                self.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
                &hello["serverInfo"]
            }
            Era::Stateless => &hello["_meta"]["io.modelcontextprotocol/serverInfo"],
        };
        let revision = match self.era {
            Era::Handshake => hello["protocolVersion"].as_str(),
            Era::Stateless => Some("2026-07-28"),
        };
        let text = |value: &Value| value.as_str().unwrap_or("without a name").to_owned();
        let (name, version) = (text(&server["name"]), text(&server["version"]));
        let revision = revision.unwrap_or("an unnamed revision").to_owned();
        let list_began = Instant::now();
        let list = self.ask("tools/list", json!({})).await?;
        let tools = list["tools"].as_array().map(Vec::len).ok_or("it has no list of tools")?;
        Ok(ServerFacts { name, version, revision, tools, started, listed: list_began.elapsed(), ended: Duration::ZERO })
    }

    /// Sends a request and returns the result.
    async fn ask(&mut self, method: &str, mut params: Value) -> Result<Value, String> {
        let id = self.next_id;
        self.next_id += 1;
        if self.era == Era::Stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "steplatch doctor", "version": env!("CARGO_PKG_VERSION")},
            });
        }
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await?;
        loop {
            let line = match tokio::time::timeout(ANSWER_TIMEOUT, self.output.next_line()).await {
                Err(_) => return Err(timeout_message()),
                Ok(Err(error)) => return Err(format!("its output cannot be read: {error}")),
                Ok(Ok(None)) => return Err("it ended without an answer".to_owned()),
                Ok(Ok(Some(line))) => line,
            };
            let message = serde_json::from_str::<Value>(&line).ok().filter(|message| message["jsonrpc"] == "2.0");
            let Some(message) = message else {
                let line = print::fitted(&print::visible(&line), 80);
                return Err(format!("it prints text that is not MCP: '{line}'"));
            };
            if message["id"] != id || message["method"].is_string() {
                continue;
            }
            if let Some(error) = message.get("error") {
                let message = error["message"].as_str().unwrap_or("without a message");
                return Err(format!("it refuses {method}: {}", print::visible(message)));
            }
            return Ok(message["result"].clone());
        }
    }

    async fn write(&mut self, message: &Value) -> Result<(), String> {
        let line = format!("{message}\n");
        let result = tokio::time::timeout(ANSWER_TIMEOUT, self.input.write_all(line.as_bytes())).await;
        // Ignore a write error: if the server has ended, the missing reply reports it.
        match result {
            Err(_) => Err("it does not read its input".to_owned()),
            Ok(_) => Ok(()),
        }
    }
}
