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

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use steplatch_protocol::{Peer, ReconnectingClient};

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

/// State that all tabs share.
#[derive(Debug)]
pub(crate) struct Live {
    feeds: Arc<Feeds>,
    holds: Arc<Holds>,
    lists: Arc<Lists>,
}

impl Live {
    pub(crate) fn new(daemon: &ReconnectingClient) -> Self {
        Self { feeds: Feeds::new(daemon.clone()), holds: Arc::default(), lists: Lists::new(daemon.clone()) }
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
    // Check the cookie first: a socket costs far more than this request.
    let cookies = login::session_cookies(&headers, app.port);
    match login::has_session_cookie(&app, &cookies).await {
        Ok(true) => {}
        Ok(false) => return Refusal::unauthorized().into_response(),
        Err(error) => return Refusal::from(error).into_response(),
    }
    let tasks = app.tasks.clone();
    upgrade.max_message_size(MAX_MESSAGE_BYTES).max_frame_size(MAX_MESSAGE_BYTES).on_upgrade(move |socket| {
        // The connection keeps its slot, and counts as busy, while the socket is open.
        let guard = slot.connection.begin_request();
        tasks.track_future(async move {
            Tab::serve(app, socket, cookies, Peer(address)).await;
            drop((guard, slot));
        })
    })
}
