//! Shared state of all handlers.

use std::sync::Arc;

use steplatch_protocol::ReconnectingClient;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::Admission;
use crate::connections::Connections;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::page::Uploads;
use crate::projects::Projects;
use crate::stream::Streams;

/// Shared state of all handlers.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) daemon: ReconnectingClient,
    /// Client for the requests of the page, whose name stands in records.
    pub(crate) page_daemon: ReconnectingClient,
    pub(crate) projects: Projects,
    pub(crate) metrics: Metrics,
    pub(crate) streams: Streams,
    pub(crate) connections: Arc<Connections>,
    /// Cancelled when the server shuts down.
    pub(crate) shutdown: CancellationToken,
    pub(crate) admission: Admission,
    /// Port of the server, a part of its cookie's name.
    pub(crate) port: u16,
    pub(crate) live: Live,
    pub(crate) uploads: Uploads,
    /// Connections and sockets that the shutdown waits for.
    pub(crate) tasks: TaskTracker,
}
