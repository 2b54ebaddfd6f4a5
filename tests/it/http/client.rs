//! A server in its own home, and a client that reads its responses byte by byte.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process, setrlimit};
use serde_json::{Value, json};
use steplatch_testkit::Home;

pub(crate) const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Read timeout, exceeded only by a hanging operation.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A running `steplatch serve`. It ends on drop.
pub(crate) struct HttpServer {
    pub(crate) home: Home,
    process: Child,
    pub(crate) port: u16,
    pub(crate) token: String,
}

/// A response whose body has not been read.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    reader: BufReader<TcpStream>,
}

impl HttpServer {
    pub(crate) fn new() -> Self {
        Self::with_arguments(&[])
    }

    pub(crate) fn with_arguments(arguments: &[&str]) -> Self {
        Self::start(Home::new(STEPLATCH), &["serve"], arguments)
    }

    /// Starts `steplatch mcp --http`.
    pub(crate) fn mcp_only() -> Self {
        Self::start(Home::new(STEPLATCH), &["mcp", "--http"], &[])
    }

    /// Starts a server that logs everything to `log` in its home.
    pub(crate) fn with_full_log() -> Self {
        Self::start(Home::new(STEPLATCH), &["--verbose", "serve"], &[])
    }

    fn start(home: Home, command: &[&str], arguments: &[&str]) -> Self {
        // A thousand followers need a thousand sockets in this process too.
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit).unwrap();
        let mut program = home.steplatch();
        program.args(command).args(["--port", "0", "--json"]).args(arguments).stdout(Stdio::piped());
        if command.contains(&"--verbose") {
            let log = std::fs::File::create(home.path().join("log")).unwrap();
            program.env("STEPLATCH_LOG", "trace").stderr(log);
        }
        let mut process = program.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let startup: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let port = startup["url"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
        let token = match startup["token"].as_str() {
            Some(token) => token.to_owned(),
            None => std::fs::read_to_string(startup["token_file"].as_str().unwrap()).unwrap().trim().to_owned(),
        };
        Self { home, process, port, token }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends a request with these headers and `Host` only.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let mut stream = self.connect();
        let host = format!("localhost:{}", self.port);
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head += &format!("host: {host}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            head += &format!("content-length: {}\r\n", body.len());
        }
        head += "connection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        // The server may refuse a request without reading it to the end.
        let _ = stream.write_all(body);
        Response::read(stream)
    }

    /// Sends a request with the token.
    pub(crate) fn request(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.request_with(method, path, &[], body)
    }

    pub(crate) fn request_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> (u16, Value) {
        let bearer = format!("Bearer {}", self.token);
        let mut all_headers = vec![("authorization", bearer.as_str()), ("content-type", "application/json")];
        all_headers.extend(headers);
        let body = body.map(ToString::to_string).unwrap_or_default();
        let response = self.send(method, path, &all_headers, body.as_bytes());
        (response.status, response.json())
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.request("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.request("POST", path, Some(&body))
    }

    /// Follows the events of a run.
    pub(crate) fn follow(&self, run: &str, headers: &[(&str, &str)]) -> Events {
        let bearer = format!("Bearer {}", self.token);
        let mut all_headers = vec![("authorization", bearer.as_str())];
        all_headers.extend(headers);
        let response = self.send("GET", &format!("/events/workflow/{run}"), &all_headers, b"");
        assert_eq!(response.status, 200, "{run}");
        assert_eq!(response.header("content-type"), Some("text/event-stream"));
        Events { reader: response.reader, buffer: Vec::new() }
    }

    /// Starts a run of a definition and returns its id immediately.
    pub(crate) fn start_run(&self, definition: &Value) -> String {
        let body = json!({"workflow_definition": definition, "wait_seconds": 0, "save_on_success": false});
        let (status, run) = self.post("/api/v1/runs", body);
        assert_eq!(status, 200, "{run}");
        run["run_id"].as_str().unwrap().to_owned()
    }

    /// Waits until a run has finished, or is at a gate.
    pub(crate) fn wait_for_run(&self, run: &str) -> Value {
        self.get(&format!("/api/v1/runs/{run}?wait_seconds=60")).1
    }

    /// Kills the daemon, as in a crash.
    pub(crate) fn kill_daemon(&self) {
        let pid = self.home.run(&["daemon", "status", "--json"]).json()["pid"].as_i64().unwrap();
        kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    }

    /// Stops the server with a signal and returns its exit code.
    pub(crate) fn stop(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        self.process.wait().unwrap().code()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Response {
    /// Reads the head of a response.
    pub(crate) fn read(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let first = line();
        let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no response: {first:?}"));
        let mut headers = Vec::new();
        loop {
            let line = line();
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        Self { status, headers, reader }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(candidate, _)| candidate == name).map(|(_, value)| value.as_str())
    }

    /// Reads the body, up to its declared length.
    pub(crate) fn text(mut self) -> String {
        let length = self.header("content-length").and_then(|length| length.parse::<usize>().ok());
        let mut body = Vec::new();
        match length {
            Some(length) => {
                body.resize(length, 0);
                self.reader.read_exact(&mut body).unwrap();
            }
            None => drop(self.reader.read_to_end(&mut body).unwrap()),
        }
        String::from_utf8(body).unwrap()
    }

    pub(crate) fn json(self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// A stream of events, read incrementally.
pub(crate) struct Events {
    reader: BufReader<TcpStream>,
    /// The received but unconsumed bytes of the body.
    buffer: Vec<u8>,
}

/// An event: its id, its type and its data.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: u64,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

impl Events {
    /// Returns the next event; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let message: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let message = String::from_utf8(message).unwrap();
                let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                // Comments, and the delay before a reconnection.
                let Some(id) = field("id") else { continue };
                let data = serde_json::from_str(field("data").unwrap()).unwrap();
                return Some(Event { id: id.parse().unwrap(), kind: field("event").unwrap().to_owned(), data });
            }
            self.read_chunk()?;
        }
    }

    /// Reads one chunk of the body (RFC 9112, 7.1).
    fn read_chunk(&mut self) -> Option<()> {
        let mut size = String::new();
        self.reader.read_line(&mut size).ok().filter(|read| *read > 0)?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut bytes = vec![0; size + 2];
        self.reader.read_exact(&mut bytes).ok()?;
        self.buffer.extend_from_slice(&bytes[..size]);
        (size > 0).then_some(())
    }

    /// Returns all events up to the end of the stream.
    pub(crate) fn collect_rest(mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// Returns a state machine with this number of states in sequence, each a short sleep.
pub(crate) fn sleeping_workflow(states: usize, seconds: f64) -> Value {
    let mut all_states = serde_json::Map::new();
    for number in 1..=states {
        let mut state = json!({"action": {"tool": "sleep", "params": {"seconds": seconds}}});
        if number < states {
            let next = format!("s{}", number + 1);
            state["transitions"] = json!([{"condition": {"success": true}, "next_state": next}]);
        }
        all_states.insert(format!("s{number}"), state);
    }
    json!({"name": "resting", "description": "Rests.", "initial_state": "s1", "states": all_states})
}

/// Returns a state machine with a gate.
pub(crate) fn gate_workflow(answered_by: &str) -> Value {
    json!({"name": "asking", "description": "Asks.", "initial_state": "ask", "states": {
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Go on?", "choices": ["yes", "no"], "answered_by": answered_by}},
                "transitions": [{"condition": "success", "next_state": "rest"}]},
        "rest": {"action": {"tool": "sleep", "params": {"seconds": 0}}},
    }})
}
