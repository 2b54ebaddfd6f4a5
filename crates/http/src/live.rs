//! The socket of a tab of the page, at `/live`: screens, holds, input and lists.
//!
//! One WebSocket carries all messages of a tab, because a browser opens few connections to one server. The daemon sends
//! each screen once for all tabs (`feeds.rs`). A tab has at most two unacknowledged frames of a screen: a slow tab
//! skips frames and receives the latest state. A tab does not start the daemon.

mod feeds;
mod holds;
mod input;
mod lists;
mod message;
mod runs;
mod tab;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use steplatch_protocol::{PageSecret, Peer, ReconnectingClient};
use tokio::sync::Semaphore;

use crate::app::App;
use crate::connections::ConnectionSlot;
use crate::page::login;
use crate::refusal::Refusal;
use feeds::Feeds;
use holds::Holds;
use lists::Lists;
use tab::Tab;

/// Maximum message length, in bytes.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Size of a socket's read buffer, in bytes. The usual one would cost far more than an idle tab.
const READ_BUFFER_BYTES: usize = 8 << 10;

/// Maximum number of sockets whose first message has not arrived. The cookie alone opens no more sockets, because
/// servers at other ports of the host receive it.
const MAX_PENDING_SOCKETS: usize = 64;

/// State that all tabs share.
#[derive(Debug)]
pub(crate) struct Live {
    feeds: Arc<Feeds>,
    holds: Arc<Holds>,
    lists: Arc<Lists>,
    sockets: SocketCounts,
    /// Limits the sockets whose first message has not arrived.
    pending: Arc<Semaphore>,
}

/// Number of open sockets of each session.
#[derive(Debug, Default)]
struct SocketCounts(Arc<Mutex<HashMap<String, usize>>>);

/// Counts a socket of a session until it is dropped.
struct SocketCount {
    counts: Arc<Mutex<HashMap<String, usize>>>,
    session: String,
}

impl SocketCounts {
    /// Counts a socket of the session with this cookie; `None` if it has `max_sockets` already.
    fn admit(&self, cookie: &PageSecret, max_sockets: usize) -> Option<SocketCount> {
        let mut counts = self.0.lock();
        let count = counts.entry(cookie.0.clone()).or_default();
        if *count >= max_sockets {
            return None;
        }
        *count += 1;
        Some(SocketCount { counts: self.0.clone(), session: cookie.0.clone() })
    }
}

impl Drop for SocketCount {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.session) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.session);
            }
        }
    }
}

impl Live {
    pub(crate) fn new(daemon: &ReconnectingClient) -> Self {
        Self {
            feeds: Feeds::new(daemon.clone()),
            holds: Arc::default(),
            lists: Lists::new(daemon.clone()),
            sockets: SocketCounts::default(),
            pending: Arc::new(Semaphore::new(MAX_PENDING_SOCKETS)),
        }
    }
}

/// Opens the socket of a tab. The first message has the session's half, because scripts cannot add headers here.
pub(crate) async fn upgrade(
    State(app): State<Arc<App>>,
    Extension(slot): Extension<Arc<ConnectionSlot>>,
    Extension(Peer(address)): Extension<Peer>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let origin = app.admission.page_origin(&headers);
    // A page of another port of this host sends the cookie as well, and no preflight precedes this request.
    if !origin.is_some_and(|origin| login::is_from_page(&headers, &origin)) {
        let error = "Only the page at http://localhost may open this socket";
        return Refusal::new(StatusCode::FORBIDDEN, "forbidden_origin", error).into_response();
    }
    // Check the cookie first, because a socket costs far more than this request.
    let cookies = login::session_cookies(&headers, app.port);
    match login::has_session_cookie(&app, &cookies).await {
        Ok(true) => slot.connection.mark_known(),
        Ok(false) => return Refusal::unauthorized().into_response(),
        Err(error) => return Refusal::from(error).into_response(),
    }
    let Ok(pending) = app.live.pending.clone().try_acquire_owned() else {
        let error = "Too many sockets of the page are being opened; try again";
        return Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", error).into_response();
    };
    let tasks = app.tasks.clone();
    let upgrade = upgrade.read_buffer_size(READ_BUFFER_BYTES).max_message_size(MAX_MESSAGE_BYTES);
    upgrade.max_frame_size(MAX_MESSAGE_BYTES).on_upgrade(move |socket| {
        // The connection keeps its slot and is considered busy while the socket is open.
        let guard = slot.connection.begin_request();
        tasks.track_future(async move {
            Tab::serve(app, socket, cookies, Peer(address), pending).await;
            drop((guard, slot));
        })
    })
}
