//! A faulty remote host, for tests.
//!
//! Clients connect over an in-process [`Transport`]. The crate has its own implementation of the relay lines, the link
//! and the host's frames. Requests without a configured fault get the answers of a host whose terminals do nothing. A
//! fault is JSON, patched from a correct answer ([`answer`], [`with`]), or bytes.
#![allow(clippy::missing_panics_doc, reason = "in a test a panic is the message")]

pub mod answer;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use serde_json::{Value, json};
use steplatch_host::{
    Channel, ConnectFailure, ConnectionGuard, DialFuture, HostRequest, MachineSecretSink, NoQuestions,
    RemoteHostConfig, RemoteSetup, TerminalRequest, Transport,
};
use steplatch_ids::TerminalId;
use steplatch_link::{Refusal, Session, pump, read_hello, refuse, welcome};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

pub use self::answer::with;

/// Socket name of the remote terminal host.
pub const SOCKET: &str = "host-11111111.sock";

/// Prefix of the relay's first line.
pub const MARK: &str = "steplatch-relay ";

/// Request number of frames that carry secrets.
const SECRETS: u64 = 0;

/// An answer to a request.
#[derive(Debug, Clone)]
pub enum Lie {
    /// This value, as JSON.
    Value(Value),
    /// This refusal, as JSON.
    Refusal(Value),
    /// This value and events after it.
    Events(Value, Vec<Value>),
    /// The body of the answer, as bytes.
    Body(Vec<u8>),
    /// These bytes in place of the answer's frame.
    Frames(Vec<u8>),
    /// The answer twice.
    Twice(Value),
    /// No answer.
    Silence,
    /// No answer, and no further reads. The link stays alive.
    Deafness,
    /// The end of the session.
    End,
}

type Relay = dyn Fn(usize, &str) -> Option<String> + Send + Sync;
type Reply = dyn Fn(&HostRequest) -> Option<Lie> + Send + Sync;

/// The lies of a remote host, from the outermost layer to the innermost.
#[derive(Default)]
pub struct Lies {
    /// The first line of the relay.
    pub greeting: Option<String>,
    /// Reply line of the relay for a connection number and a request. `None` for the correct reply.
    pub relay: Option<Box<Relay>>,
    /// Bytes sent instead of the link protocol, after the client hello. The connection stays open.
    pub link: Option<Vec<u8>>,
    /// Frames sent before the first answer.
    pub frames: Vec<u8>,
    /// Answer of the terminal host to a request. `None` for the correct answer.
    pub reply: Option<Box<Reply>>,
}

impl fmt::Debug for Lies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Lies").finish_non_exhaustive()
    }
}

impl Lies {
    /// Lies about answers of the terminal host.
    #[must_use]
    pub fn in_replies(reply: impl Fn(&HostRequest) -> Option<Lie> + Send + Sync + 'static) -> Self {
        Self { reply: Some(Box::new(reply)), ..Self::default() }
    }

    /// Lies about requests to a terminal, with one answer for the requests that `matches` recognises.
    #[must_use]
    pub fn in_terminal_replies(matches: impl Fn(&TerminalRequest) -> bool + Send + Sync + 'static, lie: Lie) -> Self {
        Self::in_replies(move |ask| match ask {
            HostRequest::Terminal(_, ask) if matches(ask) => Some(lie.clone()),
            _ => None,
        })
    }
}

/// A faulty remote host. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Liar {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    lies: Lies,
    dial_count: AtomicUsize,
    open: Arc<AtomicUsize>,
    serving: Mutex<Vec<tokio::task::AbortHandle>>,
    received: Mutex<Vec<HostRequest>>,
    /// The terminals, by the steps that opened them.
    terminals: Mutex<HashMap<String, TerminalId>>,
}

impl Liar {
    /// Creates a remote host with these lies.
    #[must_use]
    pub fn new(lies: Lies) -> Self {
        let shared = Shared {
            lies,
            dial_count: AtomicUsize::default(),
            open: Arc::default(),
            serving: Mutex::default(),
            received: Mutex::default(),
            terminals: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the client setup, with its notes in this directory.
    #[must_use]
    pub fn setup(&self, notes: std::path::PathBuf, secrets: Arc<dyn MachineSecretSink>) -> RemoteSetup {
        RemoteSetup { notes, transport: Arc::new(self.clone()), questions: Arc::new(NoQuestions), secrets }
    }

    /// Returns the number of connections made so far.
    #[must_use]
    pub fn dial_count(&self) -> usize {
        self.shared.dial_count.load(Ordering::Relaxed)
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Drops all connections.
    pub fn drop_connections(&self) {
        lock(&self.shared.serving).drain(..).for_each(|serving| serving.abort());
    }

    /// Returns the requests to its terminal host so far.
    #[must_use]
    pub fn received_asks(&self) -> Vec<HostRequest> {
        lock(&self.shared.received).clone()
    }

    /// Serves connections forwarded by the `ssh` of a test, until this future is dropped.
    pub async fn listen(self, listener: UnixListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let serving = tokio::spawn(self.clone().serve(stream));
            lock(&self.shared.serving).push(serving.abort_handle());
        }
    }

    async fn serve(self, mut stream: UnixStream) -> io::Result<()> {
        let number = self.shared.dial_count.fetch_add(1, Ordering::Relaxed);
        let lies = &self.shared.lies;
        let greeting = lies.greeting.clone().unwrap_or_else(|| format!("{MARK}{{\"version\":\"9.9.9\"}}\n"));
        stream.write_all(greeting.as_bytes()).await?;
        let mut request = String::new();
        let (mut reader, mut writer) = stream.split();
        let mut reader = BufReader::new(&mut reader);
        reader.read_line(&mut request).await?;
        let default_reply = || format!("{}\n", json!({"open": {"socket": SOCKET, "is_current": true, "others": []}}));
        let line = lies.relay.as_ref().and_then(|relay| relay(number, &request)).unwrap_or_else(default_reply);
        writer.write_all(line.as_bytes()).await?;
        let mut rest = BytesMut::new();
        let hello = read_hello(&mut reader, &mut rest).await.map_err(io::Error::other)?;
        if let Some(bytes) = &lies.link {
            writer.write_all(bytes).await?;
            // Until the client ends the connection.
            return tokio::io::copy(&mut reader, &mut tokio::io::sink()).await.map(drop);
        }
        if !hello.is_new {
            return refuse(Refusal::Unknown, &mut writer).await;
        }
        let (mut local, host) = UnixStream::pair()?;
        let mut session = Session::new();
        welcome(&mut session, &hello, &mut writer).await.map_err(io::Error::other)?;
        let serving = tokio::spawn(self.clone().serve_host(host));
        pump(&mut session, &mut local, &mut reader, &mut writer, &mut rest).await;
        serving.abort();
        Ok(())
    }

    /// Serves a connection to the terminal host.
    async fn serve_host(self, mut stream: UnixStream) -> io::Result<()> {
        stream.write_all(&self.shared.lies.frames).await?;
        loop {
            let length = stream.read_u32().await? as usize;
            let number = stream.read_u64().await?;
            let mut body = vec![0; length.saturating_sub(8)];
            stream.read_exact(&mut body).await?;
            let request: HostRequest = rmp_serde::from_slice(&body).map_err(io::Error::other)?;
            if matches!(request, HostRequest::Cancel(_)) {
                continue;
            }
            lock(&self.shared.received).push(request.clone());
            let lie = self.shared.lies.reply.as_ref().and_then(|reply| reply(&request));
            let Some(lie) = lie.or_else(|| self.correct_answer(&request)) else { continue };
            let bytes = match lie {
                Lie::Value(value) => frame(number, &to_msgpack(&json!({"Ok": value}))),
                Lie::Refusal(refusal) => frame(number, &to_msgpack(&json!({"Err": refusal}))),
                Lie::Events(value, events) => {
                    let mut bytes = frame(number, &to_msgpack(&json!({"Ok": value})));
                    events.iter().for_each(|event| bytes.extend(frame(number, &to_msgpack(event))));
                    bytes
                }
                Lie::Body(body) => frame(number, &body),
                Lie::Frames(bytes) => bytes,
                Lie::Twice(value) => frame(number, &to_msgpack(&json!({"Ok": value}))).repeat(2),
                Lie::Silence => continue,
                Lie::Deafness => return std::future::pending().await,
                Lie::End => return Ok(()),
            };
            stream.write_all(&bytes).await?;
        }
    }

    /// Returns the answer of a correct host. `None` if it does not answer yet.
    fn correct_answer(&self, request: &HostRequest) -> Option<Lie> {
        let terminals = || lock(&self.shared.terminals);
        Some(Lie::Value(match request {
            HostRequest::Hello { .. } => answer::hello(),
            HostRequest::Open(request) => {
                let step = answer::requested_step(request).unwrap_or_default();
                let id = terminals().entry(step).or_insert_with(TerminalId::random).clone();
                json!({"Ok": answer::opened(&id)})
            }
            HostRequest::List => terminals().values().map(answer::description).collect(),
            HostRequest::OpenedBy(step) => json!(terminals().get(step)),
            HostRequest::HasStep(step) => json!(terminals().contains_key(step)),
            HostRequest::Find(_) => Value::Null,
            HostRequest::WatchActivity(Some(_)) => return None,
            HostRequest::WatchActivity(None) => json!(1),
            HostRequest::Terminal(id, request) => answer::terminal_answer(id, request)?,
            HostRequest::File(request) => answer::file_answer(request),
            // Invalid on purpose: steps of other hosts. The daemon must not settle such steps here.
            HostRequest::Unsettled => json!(["run_p4vawdxx5897paed/build/1", "../../etc", ""]),
            HostRequest::Remember(_)
            | HostRequest::Settle(_)
            | HostRequest::Retire
            | HostRequest::Shutdown
            | HostRequest::Cancel(_)
            | HostRequest::Link => Value::Null,
        }))
    }
}

impl Transport for Liar {
    fn dial<'a>(&'a self, _: &'a RemoteHostConfig, _: &'a str) -> DialFuture<'a> {
        Box::pin(async move {
            let failed = |error: io::Error| ConnectFailure::Connection(error.to_string());
            let (client_stream, server_stream) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
            server_stream.set_nonblocking(true).map_err(failed)?;
            let server_stream = UnixStream::from_std(server_stream).map_err(failed)?;
            // The connection may end at any moment.
            let serving = tokio::spawn(self.clone().serve(server_stream));
            lock(&self.shared.serving).push(serving.abort_handle());
            Channel::from_stream(client_stream, Connected::new(self.shared.open.clone(), serving.abort_handle()))
                .map_err(failed)
        })
    }
}

/// Guard of a connection. Dropping it ends the connection.
struct Connected {
    open: Arc<AtomicUsize>,
    serving: tokio::task::AbortHandle,
}

impl Connected {
    fn new(open: Arc<AtomicUsize>, serving: tokio::task::AbortHandle) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self { open, serving }
    }
}

impl ConnectionGuard for Connected {}

impl Drop for Connected {
    fn drop(&mut self) {
        self.serving.abort();
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns a frame of the host's protocol.
#[must_use]
pub fn frame(number: u64, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 8).expect("a test frame is short");
    [&length.to_be_bytes()[..], &number.to_be_bytes(), body].concat()
}

/// Returns the frames that announce secrets to redact.
#[must_use]
pub fn secret_frames(secrets: impl IntoIterator<Item = Value>) -> Vec<u8> {
    secrets.into_iter().flat_map(|secret| frame(SECRETS, &to_msgpack(&secret))).collect()
}

/// Encodes a value as MessagePack.
#[must_use]
pub fn to_msgpack(value: &Value) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("JSON can be encoded as MessagePack")
}

/// Decodes a value from MessagePack.
///
/// # Panics
/// If the bytes are not MessagePack.
#[must_use]
pub fn from_msgpack(bytes: &[u8]) -> Value {
    rmp_serde::from_slice(bytes).expect("the bytes are MessagePack")
}

/// Returns a record of the link: its kind, its length, its body.
#[must_use]
pub fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("a test record is short");
    [&[kind][..], &length.to_be_bytes(), body].concat()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
