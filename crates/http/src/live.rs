//! The socket of a tab of the page, at `/live`: screens, holds, input and lists.
//!
//! One WebSocket carries everything of a tab, because a browser opens few connections to one server. Screens come from
//! the daemon once for all tabs (`feeds.rs`), so that a further tab costs the frames that it receives. A tab has at
//! most two frames of a screen that it has not acknowledged: a slow one misses the frames in between and receives the
//! latest state. A tab does not start the daemon: it only watches.

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

/// Maximum length of a tab's message, in bytes.
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

/// Opens the socket of a tab. The tab checks the session with the first message, because a browser lets no script add a
/// header here.
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
        let error = "Only the page itself opens this socket, at http://localhost";
        return Refusal::new(StatusCode::FORBIDDEN, "forbidden_origin", error).into_response();
    }
    // A socket costs far more than this request does.
    let cookies = login::cookies(&headers, app.port);
    match login::knows_cookie(&app, &cookies).await {
        Ok(true) => {}
        Ok(false) => return Refusal::unauthorized().into_response(),
        Err(error) => return Refusal::from(error).into_response(),
    }
    let tasks = app.tasks.clone();
    upgrade.max_message_size(MAX_MESSAGE_BYTES).max_frame_size(MAX_MESSAGE_BYTES).on_upgrade(move |socket| {
        // The connection keeps its place, and counts as in use, as long as the socket is open.
        let answering = slot.connection.answers();
        tasks.track_future(async move {
            Tab::serve(app, socket, cookies, Peer(address)).await;
            drop((answering, slot));
        })
    })
}
