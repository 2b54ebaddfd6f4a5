//! The host's side of links: connections from remote hosts, whose sessions outlive a connection.
//!
//! A relay ([`crate::relay`]) connects and sends [`crate::Ask::Link`]; then the connection belongs to a link. Each
//! session has its own local connection to the server, so that only this module deals with links.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use parking_lot::Mutex;
use steplatch_link::{Hello, Refusal, Session, SessionId, pump, read_hello, refuse, welcome};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// Maximum time of a session without a connection. Clients give up earlier, so that they do not resume an ended
/// session.
const SESSION_TIMEOUT: Duration = Duration::from_secs(900);

/// Handshake timeout.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection that now carries a session.
struct Arrival {
    stream: UnixStream,
    hello: Hello,
    unread: BytesMut,
}

/// A session that can be resumed.
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
    /// Serves a connection of a link. `serve` receives the local stream of a new session, like a client's stream.
    pub(crate) async fn join(&self, mut stream: UnixStream, serve: impl FnOnce(UnixStream)) {
        let mut unread = BytesMut::new();
        let hello = match tokio::time::timeout(HANDSHAKE_TIMEOUT, read_hello(&mut stream, &mut unread)).await {
            Ok(Ok(hello)) => hello,
            Ok(Err(error)) => return tracing::warn!(%error, "a connection from a remote host failed its handshake"),
            Err(_) => return tracing::warn!("a connection from a remote host sent no handshake"),
        };
        let arrivals = if hello.is_new { self.begin(&hello, serve) } else { self.find_running(&hello.session) };
        let arrival = Arrival { stream, hello, unread };
        let refusal = match arrivals {
            // Sending fails if the session has just ended.
            Some(arrivals) => arrivals.send(arrival).await.err().map(|mpsc::error::SendError(arrival)| arrival),
            None => Some(arrival),
        };
        if let Some(mut arrival) = refusal {
            // A disconnected client does not need the reason.
            let _ = refuse(Refusal::Unknown, &mut arrival.stream).await;
        }
    }

    fn find_running(&self, session: &SessionId) -> Option<mpsc::Sender<Arrival>> {
        self.sessions.lock().get(session).map(|running| running.arrivals.clone())
    }

    /// Begins a session and ends the earlier sessions of its client, whose process has ended.
    fn begin(&self, hello: &Hello, serve: impl FnOnce(UnixStream)) -> Option<mpsc::Sender<Arrival>> {
        let (local, peer) = UnixStream::pair()
            .inspect_err(|error| tracing::warn!(%error, "a session of a remote host cannot begin"))
            .ok()?;
        let (arrivals, arrival_receiver) = mpsc::channel(1);
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
            carry(local, arrival_receiver).await;
            links.sessions.lock().remove(&session);
        });
        Some(arrivals)
    }
}

/// Carries a session over successive connections until it ends.
async fn carry(mut local: UnixStream, mut arrival_receiver: mpsc::Receiver<Arrival>) {
    let mut session = Session::new();
    let mut next_arrival = None;
    loop {
        let arrival = match next_arrival.take() {
            Some(arrival) => arrival,
            None => match tokio::time::timeout(SESSION_TIMEOUT, arrival_receiver.recv()).await {
                Ok(Some(arrival)) => arrival,
                // The client has a new session, or was disconnected for too long.
                Ok(None) | Err(_) => return,
            },
        };
        let Arrival { mut stream, hello, mut unread } = arrival;
        if let Err(error) = welcome(&mut session, &hello, &mut stream).await {
            tracing::info!(%error, "a connection from a remote host ended in its handshake");
            continue;
        }
        let (mut reader, mut writer) = stream.split();
        tokio::select! {
            ended = pump(&mut session, &mut local, &mut reader, &mut writer, &mut unread) => {
                tracing::info!(%ended, "a connection from a remote host ended");
                if !ended.is_resumable() {
                    return;
                }
            }
            // A new connection replaces the current one, whose loss the client has noticed first.
            arrival = arrival_receiver.recv() => match arrival {
                Some(arrival) => next_arrival = Some(arrival),
                None => return,
            },
        }
    }
}
