//! Daemon clients for the projects of requests: such a client finds the workflows of the project, and starts terminals
//! and runs in the project's directory.

use std::collections::VecDeque;

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use steplatch_protocol::ReconnectingClient;

use crate::admission::Caller;
use crate::refusal::Refusal;

/// Header with the directory of the project, in base64 for URLs.
const PROJECT_HEADER: &str = "steplatch-project";

/// Maximum number of cached clients. Each has its own connection.
const MAX_CLIENTS: usize = 16;

/// Clients of the most recently used projects.
#[derive(Debug, Default)]
pub(crate) struct Projects {
    clients: Mutex<VecDeque<((Caller, String), ReconnectingClient)>>,
}

impl Projects {
    /// Returns the client for the project of a request, which is `daemon` for a request without one. A caller of another
    /// kind has another `daemon`.
    ///
    /// # Errors
    /// If the project is not a directory.
    pub(crate) async fn client(
        &self,
        daemon: &ReconnectingClient,
        caller: Caller,
        headers: &HeaderMap,
    ) -> Result<ReconnectingClient, Refusal> {
        let Some(encoded) = headers.get(PROJECT_HEADER) else { return Ok(daemon.clone()) };
        let decoded = URL_SAFE_NO_PAD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let path = decoded.filter(|path| path.starts_with('/') && !path.contains('\0'));
        let path = path.ok_or_else(|| {
            Refusal::invalid(format!("{PROJECT_HEADER} must be an absolute path, in base64 for URLs"))
        })?;
        let checked_path = path.clone();
        let is_directory = tokio::task::spawn_blocking(move || std::path::Path::new(&checked_path).is_dir()).await;
        if !is_directory.unwrap_or(false) {
            return Err(Refusal::invalid(format!("The project {path} is not a directory; choose another one")));
        }
        let mut clients = self.clients.lock();
        let key = (caller, path);
        if let Some(index) = clients.iter().position(|(cached, _)| *cached == key) {
            clients.make_contiguous()[..=index].rotate_right(1);
        } else {
            clients.truncate(MAX_CLIENTS - 1);
            let client = daemon.in_directory(key.1.clone());
            clients.push_front((key, client));
        }
        Ok(clients[0].1.clone())
    }
}
