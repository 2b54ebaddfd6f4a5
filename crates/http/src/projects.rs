//! The directories of projects that requests name, and a client of the daemon in each: it finds the workflows of the
//! project, and its terminals and runs begin there.

use std::collections::VecDeque;

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use steplatch_protocol::ReconnectingClient;

use crate::refusal::Refusal;

/// Header with the directory of the project, in base64 for URLs.
const PROJECT: &str = "steplatch-project";

/// Maximum number of clients that are kept; each has a connection.
const MAX_CLIENTS: usize = 16;

/// The clients of the last used projects.
#[derive(Debug, Default)]
pub(crate) struct Projects {
    clients: Mutex<VecDeque<(String, ReconnectingClient)>>,
}

impl Projects {
    /// Returns the client of the project that a request names, or `daemon` if it names none.
    ///
    /// # Errors
    /// If the name is not that of a directory.
    pub(crate) async fn client(
        &self,
        daemon: &ReconnectingClient,
        headers: &HeaderMap,
    ) -> Result<ReconnectingClient, Refusal> {
        let Some(name) = headers.get(PROJECT) else { return Ok(daemon.clone()) };
        let decoded = URL_SAFE_NO_PAD.decode(name).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let path = decoded.filter(|path| path.starts_with('/') && !path.contains('\0'));
        let path =
            path.ok_or_else(|| Refusal::invalid(format!("{PROJECT} must be an absolute path, in base64 for URLs")))?;
        let looked_at = path.clone();
        let is_directory = tokio::task::spawn_blocking(move || std::path::Path::new(&looked_at).is_dir()).await;
        if !is_directory.unwrap_or(false) {
            return Err(Refusal::invalid(format!("The project {path} is not a directory; choose another one")));
        }
        let mut clients = self.clients.lock();
        if let Some(at) = clients.iter().position(|(known, _)| *known == path) {
            clients.make_contiguous()[..=at].rotate_right(1);
        } else {
            clients.truncate(MAX_CLIENTS - 1);
            clients.push_front((path.clone(), daemon.in_directory(path)));
        }
        Ok(clients[0].1.clone())
    }
}
