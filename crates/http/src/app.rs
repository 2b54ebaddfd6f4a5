//! The state that all handlers share.

use std::sync::Arc;

use steplatch_protocol::ReconnectingClient;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::Admission;
use crate::connections::Connections;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::projects::Projects;
use crate::stream::Streams;

/// The state that all handlers share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) daemon: ReconnectingClient,
    pub(crate) projects: Projects,
    pub(crate) metrics: Metrics,
    pub(crate) streams: Streams,
    pub(crate) connections: Arc<Connections>,
    /// Cancelled when the server shuts down.
    pub(crate) ended: CancellationToken,
    pub(crate) admission: Admission,
    /// The port of the server, which is part of the name of its cookie.
    pub(crate) port: u16,
    pub(crate) live: Live,
    /// Connections and sockets, which the end of the server waits for.
    pub(crate) tasks: TaskTracker,
}
