//! A small HTTP server whose answers a test controls, byte by byte.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::{Arc, Mutex};

use serde_json::Value;
use steplatch_nodes::Node;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) fn node(declaration: Value) -> Node {
    Node::parse(&declaration).unwrap()
}

/// A request as received.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Response of the server to a request.
pub(crate) enum Answer {
    /// Sends these bytes and closes the connection.
    Bytes(String),
    /// Sends these parts one by one, each flushed.
    Pieces(Vec<Vec<u8>>),
    /// Sends nothing.
    Silence,
}

pub(crate) fn response(status: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    Answer::Bytes(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"))
}

pub(crate) fn json(body: &Value) -> Answer {
    response("200 OK", "content-type: application/json; charset=utf-8\r\n", &body.to_string())
}

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Starts a server that answers with the result of `answer` for a request and the number of earlier requests.
    pub(crate) async fn start(answer: impl Fn(&Request, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let recorded_requests = requests.clone();
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answer.clone(), recorded_requests.clone()));
            }
        });
        Self { url, requests }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    answer: Arc<impl Fn(&Request, usize) -> Answer>,
    recorded_requests: Arc<Mutex<Vec<Request>>>,
) {
    let Some(request) = read(&mut stream).await else { return };
    let answer = {
        let mut recorded_requests = recorded_requests.lock().unwrap();
        let answer = answer(&request, recorded_requests.len());
        recorded_requests.push(request);
        answer
    };
    match answer {
        Answer::Bytes(bytes) => stream.write_all(bytes.as_bytes()).await.unwrap_or_default(),
        Answer::Pieces(pieces) => {
            for piece in pieces {
                stream.write_all(&piece).await.unwrap_or_default();
                stream.flush().await.unwrap_or_default();
                tokio::task::yield_now().await;
            }
        }
        Answer::Silence => {
            // Wait until the client disconnects.
            let _ = stream.read(&mut [0; 1]).await;
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        match stream.read(&mut buffer).await {
            Ok(count @ 1..) => bytes.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap().to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length {
        match stream.read(&mut buffer).await {
            Ok(count @ 1..) => body.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
    Some(Request { line, headers, body: String::from_utf8(body).unwrap() })
}
