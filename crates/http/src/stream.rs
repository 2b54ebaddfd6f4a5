//! Events of runs, as server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).
//!
//! All followers of a run share one subscription to the daemon, so a thousand followers cost the run as much as one.
//! The feed buffers the newest events in encoded form. A follower that lags further behind, because it joined late or
//! reads slowly, fetches the next few events itself. A slow follower therefore delays neither the run nor other
//! followers, and uses memory only for a few events.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use steplatch_protocol::{FollowError, ReconnectingClient, RunEvent};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::refusal::Refusal;

/// Maximum number of buffered events per run.
const MAX_BUFFERED_EVENTS: usize = 256;

/// Maximum total size of buffered events, in bytes. The newest event stays even if it is larger.
const MAX_BUFFERED_BYTES: usize = 2 << 20;

/// Maximum number of events that a lagging follower fetches at once.
const MAX_FETCHED_EVENTS: u64 = 32;

/// Maximum number of events per chunk.
const MAX_CHUNK_EVENTS: usize = 64;

/// Interval of keep-alive comments on a silent stream.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Header of a reconnecting client with the number of the last event that it received.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Query that selects events.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventQuery {
    /// Number of the first event to send (default 1); Last-Event-ID takes precedence
    #[serde(default)]
    from_seq: Option<u64>,
}

/// Event streams of all runs.
#[derive(Debug)]
pub(crate) struct Streams {
    daemon: ReconnectingClient,
    /// Feeds by run. Feeds without followers are removed when the next feed begins.
    feeds: Mutex<HashMap<String, Weak<Feed>>>,
    open_count: Arc<AtomicUsize>,
}

/// Newest events of one run, shared by its followers.
#[derive(Debug)]
struct Feed {
    buffer: Arc<Mutex<BufferedEvents>>,
    changes: watch::Receiver<()>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct BufferedEvents {
    events: VecDeque<SseEvent>,
    bytes: usize,
    /// Number of the oldest buffered event.
    first_seq: u64,
    /// True if no more events will arrive: the run has ended, or following it has failed.
    has_ended: bool,
}

/// An encoded event.
#[derive(Debug, Clone)]
struct SseEvent {
    seq: u64,
    text: Bytes,
    is_last: bool,
}

impl SseEvent {
    fn new(event: &RunEvent) -> Self {
        let data = serde_json::to_string(event).expect("an event contains only JSON");
        // The author of a function chooses the types of its events.
        let event_type: String = event.event_type.chars().filter(|character| !character.is_control()).collect();
        let text = format!("id: {}\nevent: {event_type}\ndata: {data}\n\n", event.seq);
        Self { seq: event.seq, text: text.into(), is_last: event.is_last() }
    }
}

impl BufferedEvents {
    fn push(&mut self, event: &RunEvent) {
        let encoded = SseEvent::new(event);
        self.bytes += encoded.text.len();
        self.events.push_back(encoded);
        while self.events.len() > MAX_BUFFERED_EVENTS || (self.bytes > MAX_BUFFERED_BYTES && self.events.len() > 1) {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.text.len();
            self.first_seq = oldest.seq + 1;
        }
    }

    /// Returns up to [`MAX_CHUNK_EVENTS`] events starting at number `next`; `None` if they are no longer buffered.
    fn events_from(&self, next: u64) -> Option<Vec<SseEvent>> {
        if next < self.first_seq {
            return None;
        }
        let first = self.events.partition_point(|event| event.seq < next);
        Some(self.events.range(first..).take(MAX_CHUNK_EVENTS).cloned().collect())
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Streams {
    pub(crate) fn new(daemon: ReconnectingClient) -> Self {
        Self { daemon, feeds: Mutex::default(), open_count: Arc::default() }
    }

    /// Returns the number of clients that follow a run.
    pub(crate) fn open_count(&self) -> usize {
        self.open_count.load(Ordering::Relaxed)
    }

    /// Returns the feed of a run if it has followers. Otherwise starts a feed at event number `next`, if that is known.
    fn get_or_start_feed(&self, run_id: &str, next: Option<u64>) -> Option<Arc<Feed>> {
        let mut feeds = self.feeds.lock();
        if let Some(feed) = feeds.get(run_id).and_then(Weak::upgrade) {
            return Some(feed);
        }
        let next = next?;
        feeds.retain(|_, feed| feed.strong_count() > 0);
        let buffer = Arc::new(Mutex::new(BufferedEvents { first_seq: next, ..BufferedEvents::default() }));
        let (change_sender, change_receiver) = watch::channel(());
        let (mut follower, task_buffer) = (self.daemon.follow(run_id, next), buffer.clone());
        let run = run_id.to_owned();
        let task = tokio::spawn(async move {
            let lock = || task_buffer.lock();
            loop {
                match follower.next().await {
                    Ok(Some(event)) => lock().push(&event),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(run, %error, "failed to follow a run");
                        break;
                    }
                }
                change_sender.send_replace(());
            }
            lock().has_ended = true;
            change_sender.send_replace(());
        });
        let feed = Arc::new(Feed { buffer, changes: change_receiver, task: task.abort_handle() });
        feeds.insert(run_id.to_owned(), Arc::downgrade(&feed));
        Some(feed)
    }
}

/// A follower of a run.
struct Follower {
    app: Arc<App>,
    run_id: String,
    /// Number of the next event.
    next: u64,
    /// Events fetched before the response began.
    first_events: Option<Vec<SseEvent>>,
    feed: Option<(Arc<Feed>, watch::Receiver<()>)>,
    has_ended: bool,
    /// Headers of the request. The stream ends once their credentials are no longer valid.
    headers: HeaderMap,
    shutdown: CancellationToken,
    _count_guard: StreamCount,
}

/// Counts an open stream until it is dropped.
struct StreamCount(Arc<AtomicUsize>);

impl StreamCount {
    fn new(open_count: &Arc<AtomicUsize>) -> Self {
        open_count.fetch_add(1, Ordering::Relaxed);
        Self(open_count.clone())
    }
}

impl Drop for StreamCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Result of a fetch by a lagging follower.
enum FetchedEvents {
    Events(Vec<SseEvent>),
    /// There is no event newer than this number yet.
    None {
        newest: u64,
    },
    /// There is no newer event, and none will follow.
    Finished,
}

async fn fetch(daemon: &ReconnectingClient, run_id: &str, next: u64) -> Result<FetchedEvents, FollowError> {
    let reply = daemon.events(run_id, next, MAX_FETCHED_EVENTS).await?;
    if !reply.events.is_empty() {
        return Ok(FetchedEvents::Events(reply.events.iter().map(SseEvent::new).collect()));
    }
    let newest = reply.newest_seq;
    if newest == 0 {
        return Ok(FetchedEvents::None { newest });
    }
    let has_ended = daemon.events(run_id, newest, 1).await?.events.last().is_some_and(RunEvent::is_last);
    Ok(if has_ended { FetchedEvents::Finished } else { FetchedEvents::None { newest } })
}

impl Follower {
    /// Returns the next chunk to send; `None` once the stream has ended.
    async fn next_chunk(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        if let Some(events) = self.first_events.take() {
            // Set the delay before a client reconnects. This also sends bytes before the first event.
            let mut text = b"retry: 1000\n\n".to_vec();
            text.extend_from_slice(&self.encode_chunk(events));
            return Some(text.into());
        }
        let (shutdown, keep_alive) = (self.shutdown.clone(), tokio::time::sleep(KEEP_ALIVE_INTERVAL));
        let chunk = tokio::select! {
            next_events = self.next_events() => match next_events {
                Ok(Some(events)) => Some(self.encode_chunk(events)),
                Ok(None) => None,
                Err(error) => {
                    tracing::warn!(run = self.run_id, %error, "failed to follow a run");
                    self.has_ended = true;
                    // Clients reconnect with the number of the last event that they received.
                    Some(Bytes::from_static(b": the stream was interrupted\n\n"))
                }
            },
            () = shutdown.cancelled() => None,
            () = keep_alive => Some(Bytes::from_static(b":\n\n")),
        };
        chunk.filter(|_| self.app.admission.caller(&self.headers).is_known())
    }

    /// Encodes events as a chunk and continues after them.
    fn encode_chunk(&mut self, events: Vec<SseEvent>) -> Bytes {
        if let Some(last) = events.last() {
            self.next = last.seq + 1;
            self.has_ended = last.is_last;
        }
        match <[SseEvent; 1]>::try_from(events) {
            Ok([event]) => event.text,
            Err(events) => events.iter().flat_map(|event| event.text.iter().copied()).collect(),
        }
    }

    /// Waits for the next events.
    async fn next_events(&mut self) -> Result<Option<Vec<SseEvent>>, FollowError> {
        let mut feed_start = None;
        loop {
            if self.feed.is_none() {
                let feed = self.app.streams.get_or_start_feed(&self.run_id, feed_start);
                self.feed = feed.map(|feed| {
                    let changes = feed.changes.clone();
                    (feed, changes)
                });
            }
            if let Some((feed, changes)) = &mut self.feed {
                changes.mark_unchanged();
                let (events, has_ended) = {
                    let buffer = feed.buffer.lock();
                    (buffer.events_from(self.next), buffer.has_ended)
                };
                match events {
                    Some(events) if !events.is_empty() => return Ok(Some(events)),
                    Some(_) if has_ended => return Ok(None),
                    Some(_) => {
                        if changes.changed().await.is_err() {
                            return Ok(None);
                        }
                        continue;
                    }
                    None => {}
                }
            }
            match fetch(&self.app.daemon, &self.run_id, self.next).await? {
                FetchedEvents::Events(events) => return Ok(Some(events)),
                FetchedEvents::Finished => return Ok(None),
                FetchedEvents::None { newest } => feed_start = Some(newest + 1),
            }
        }
    }
}

/// Streams the events of a run until its end, starting at the first event or after the client's last one.
pub(crate) async fn stream_events(
    State(app): State<Arc<App>>,
    run_id: Result<Path<String>, axum::extract::rejection::PathRejection>,
    query: Result<Query<EventQuery>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Path(run_id) = run_id.map_err(|error| Refusal::invalid(error.body_text()))?;
    let Query(query) = query.map_err(|error| Refusal::invalid(error.body_text()))?;
    let last_seq = match headers.get(&LAST_EVENT_ID) {
        Some(value) => {
            let number = value.to_str().ok().and_then(|text| text.parse::<u64>().ok());
            Some(number.ok_or_else(|| Refusal::invalid("Last-Event-ID must be the number of an event"))?)
        }
        None => None,
    };
    let next = last_seq.map_or(query.from_seq.unwrap_or(1), |seq| seq.saturating_add(1)).max(1);
    let first_events = match fetch(&app.daemon, &run_id, next).await {
        Ok(FetchedEvents::Events(events)) => events,
        Ok(FetchedEvents::None { .. }) => Vec::new(),
        // This status stops a client from reconnecting after the end of the run.
        Ok(FetchedEvents::Finished) => return Ok(StatusCode::NO_CONTENT.into_response()),
        Err(FollowError::Unknown(error)) => return Err(Refusal::not_found(error)),
        Err(FollowError::Connect(error)) => return Err(steplatch_protocol::AskError::from(error).into()),
        Err(FollowError::Call(error)) => return Err(steplatch_protocol::AskError::from(error).into()),
        Err(error @ FollowError::Garbled(_)) => {
            return Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()));
        }
    };
    let follower = Follower {
        _count_guard: StreamCount::new(&app.streams.open_count),
        shutdown: app.shutdown.clone(),
        app,
        run_id,
        next,
        first_events: Some(first_events),
        feed: None,
        has_ended: false,
        headers,
    };
    let chunks = stream::unfold(follower, |mut follower| async move {
        let chunk = follower.next_chunk().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), follower))
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        // Proxies buffer responses unless this header forbids it.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn event(seq: u64, event_type: &str) -> RunEvent {
        RunEvent {
            seq,
            run_id: "run_x".to_owned(),
            workflow_id: "w".to_owned(),
            event_type: event_type.to_owned(),
            data: Map::new(),
            timestamp: "2026-01-01T00:00:00Z".to_owned(),
        }
    }

    #[test]
    fn event_type_cannot_inject_fields() {
        let encoded = SseEvent::new(&event(3, "draft\nid: 9\r\nready"));
        let text = String::from_utf8(encoded.text.to_vec()).unwrap();
        assert!(text.starts_with("id: 3\nevent: draftid: 9ready\ndata: {\"seq\":3,"), "{text}");
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(!encoded.is_last && SseEvent::new(&event(4, "workflow_completed")).is_last);
    }

    #[test]
    fn buffer_keeps_only_the_newest_events() {
        let mut buffer = BufferedEvents { first_seq: 5, ..BufferedEvents::default() };
        // Some numbers are missing.
        for seq in (5..2000).filter(|seq| seq % 7 != 0) {
            buffer.push(&event(seq, "log"));
        }
        assert_eq!(buffer.events.len(), MAX_BUFFERED_EVENTS);
        let oldest = buffer.events[0].seq;
        assert!(buffer.events_from(4).is_none() && buffer.events_from(buffer.first_seq - 1).is_none());
        assert_eq!(buffer.events_from(buffer.first_seq).unwrap()[0].seq, oldest);
        assert_eq!(buffer.events_from(oldest + 10).unwrap().len(), MAX_CHUNK_EVENTS);
        assert!(buffer.events_from(2000).unwrap().is_empty(), "no newer event is buffered");
        let mut long_event = event(2000, "log");
        long_event.data.insert("text".to_owned(), "x".repeat(MAX_BUFFERED_BYTES).into());
        buffer.push(&long_event);
        assert_eq!((buffer.events.len(), buffer.first_seq), (1, 2000));
    }
}
