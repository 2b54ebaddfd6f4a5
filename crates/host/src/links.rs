//! The host's side of links: connections from other machines, each of which carries a session that outlives it.
//!
//! A relay ([`crate::relay`]) connects and sends [`crate::Ask::Link`]; from then on the connection belongs to a link. A session is
//! its own connection to the rest of the host, so that nothing but this module knows of links.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use parking_lot::Mutex;
use steplatch_link::{Hello, Refusal, Session, SessionId, pump, read_hello, refuse, welcome};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// Time that a session stays without a connection. Its client gives up earlier, so that it does not meet an ended
/// session.
const LEASE: Duration = Duration::from_secs(900);

/// Time limit of the greeting of a connection.
const GREETING_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection that now carries a session.
struct Arrival {
    stream: UnixStream,
    hello: Hello,
    rest: BytesMut,
}

/// A session that runs.
#[derive(Debug)]
struct RunningSession {
    client: SessionId,
    arrivals: mpsc::Sender<Arrival>,
}

/// The sessions of a host. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links {
    sessions: Arc<Mutex<HashMap<SessionId, RunningSession>>>,
}

impl Links {
    /// Serves a connection that carries a link. `serve` receives the stream of a new session, as if a client had connected.
    pub(crate) async fn join(&self, mut stream: UnixStream, serve: impl FnOnce(UnixStream)) {
        let mut rest = BytesMut::new();
        let hello = match tokio::time::timeout(GREETING_TIMEOUT, read_hello(&mut stream, &mut rest)).await {
            Ok(Ok(hello)) => hello,
            Ok(Err(error)) => return tracing::warn!(%error, "a connection from another machine did not greet"),
            Err(_) => return tracing::warn!("a connection from another machine does not greet"),
        };
        let arrivals = if hello.is_new { self.begin(&hello, serve) } else { self.running(&hello.session) };
        let arrival = Arrival { stream, hello, rest };
        let refused = match arrivals {
            // The session may have ended at this moment.
            Some(arrivals) => arrivals.send(arrival).await.err().map(|mpsc::error::SendError(arrival)| arrival),
            None => Some(arrival),
        };
        if let Some(mut arrival) = refused {
            // A disconnected client does not need the reason.
            let _ = refuse(Refusal::Unknown, &mut arrival.stream).await;
        }
    }

    fn running(&self, session: &SessionId) -> Option<mpsc::Sender<Arrival>> {
        self.sessions.lock().get(session).map(|running| running.arrivals.clone())
    }

    /// Begins a session, and ends the earlier ones of its client: they belong to a process that has ended.
    fn begin(&self, hello: &Hello, serve: impl FnOnce(UnixStream)) -> Option<mpsc::Sender<Arrival>> {
        let (local, peer) = UnixStream::pair()
            .inspect_err(|error| tracing::warn!(%error, "a session of another machine cannot begin"))
            .ok()?;
        let (arrivals, arriving) = mpsc::channel(1);
        {
            let mut sessions = self.sessions.lock();
            sessions.retain(|id, running| running.client != hello.client || *id == hello.session);
            if sessions.contains_key(&hello.session) {
                return None;
            }
            let running = RunningSession { client: hello.client, arrivals: arrivals.clone() };
            sessions.insert(hello.session, running);
        }
        serve(peer);
        let (links, session) = (self.clone(), hello.session);
        tokio::spawn(async move {
            carry(local, arriving).await;
            links.sessions.lock().remove(&session);
        });
        Some(arrivals)
    }
}

/// Carries a session over one connection after the other, until it ends.
async fn carry(mut local: UnixStream, mut arriving: mpsc::Receiver<Arrival>) {
    let mut session = Session::new();
    let mut next = None;
    loop {
        let arrival = match next.take() {
            Some(arrival) => arrival,
            None => match tokio::time::timeout(LEASE, arriving.recv()).await {
                Ok(Some(arrival)) => arrival,
                // The client has another session, or was away for too long.
                Ok(None) | Err(_) => return,
            },
        };
        let Arrival { mut stream, hello, mut rest } = arrival;
        if let Err(error) = welcome(&mut session, &hello, &mut stream).await {
            tracing::info!(%error, "a connection from another machine ended at its greeting");
            continue;
        }
        let (mut reader, mut writer) = stream.split();
        tokio::select! {
            ended = pump(&mut session, &mut local, &mut reader, &mut writer, &mut rest) => {
                tracing::info!(%ended, "a connection from another machine ended");
                if !ended.is_resumable() {
                    return;
                }
            }
            // A client that connects again has noticed the loss of the last connection first.
            arrival = arriving.recv() => match arrival {
                Some(arrival) => next = Some(arrival),
                None => return,
            },
        }
    }
}
