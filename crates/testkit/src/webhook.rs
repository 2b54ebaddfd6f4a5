//! A receiver of webhooks on this computer.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A received request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// Path of the address.
    pub path: String,
    /// Headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
}

impl ReceivedRequest {
    /// Returns the body as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A receiver that keeps the requests which it answers with success.
#[derive(Debug, Clone)]
pub struct WebhookReceiver {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    status: u16,
    requests: Vec<ReceivedRequest>,
    refused: usize,
}

impl WebhookReceiver {
    /// Starts a receiver, which runs until the test ends.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State { status: 204, requests: Vec::new(), refused: 0 }));
        let served = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that disconnects sends nothing more.
                let _ = answer(stream, &served);
            }
        });
        Self { address, state }
    }

    /// Returns the address with a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sets the status of later answers.
    pub fn answer_with(&self, status: u16) {
        self.state.lock().unwrap().status = status;
    }

    /// Returns the requests that were answered with success.
    #[must_use]
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.state.lock().unwrap().requests.clone()
    }

    /// Returns the number of the other requests.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.state.lock().unwrap().refused
    }

    /// Returns the types of the received events.
    #[must_use]
    pub fn types(&self) -> Vec<String> {
        self.requests().iter().map(|request| request.json()["type"].as_str().unwrap().to_owned()).collect()
    }
}

fn answer(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request = ReceivedRequest { path, headers, body: String::from_utf8(body).unwrap() };
    let status = {
        let mut state = state.lock().unwrap();
        match state.status {
            200..=299 => state.requests.push(request),
            _ => state.refused += 1,
        }
        state.status
    };
    write!(stream, "HTTP/1.1 {status} x\r\nlocation: /elsewhere\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}
