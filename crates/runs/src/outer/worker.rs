//! The worker's connection: its authentication and its requests.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use serde_json::Value;
use steplatch_access::write_private_text;
use steplatch_ids::random_name;
use steplatch_protocol::{
    EngineRequest, ReportRequest, ReportRequestReply, ServeRuns, ServeRunsReply, WorkerToken as Token,
};
use steplatch_sessions::{Disconnected, EventSink};
use tokio::sync::mpsc;

use super::{InputEnd, MirrorMessage, OuterEngine, events_of};
use crate::runs::Runs;

/// The files of a daemon that serves an outer engine: the secret of its workers, and its name there.
///
/// The secret excludes programs that can reach the socket but not the state directory, such as an agent in a sandbox,
/// because tasks of an engine contain unmasked secrets.
#[derive(Debug, Clone)]
pub struct WorkerToken {
    token: PathBuf,
    host: PathBuf,
}

impl WorkerToken {
    /// Returns the files in a state directory.
    #[must_use]
    pub fn new(state: &Path) -> Self {
        Self { token: state.join("worker_token"), host: state.join("host_id") }
    }

    /// Returns the secret of the workers and creates it if necessary.
    ///
    /// # Errors
    /// If reading or writing the file fails.
    pub fn secret(&self) -> io::Result<String> {
        read_or_create(&self.token, || random_name() + &random_name())
    }

    /// Returns whether a secret exists, because a worker has connected before.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.token.exists()
    }

    fn host(&self) -> io::Result<String> {
        read_or_create(&self.host, || {
            let name = queue_part(&rustix::system::uname().nodename().to_string_lossy());
            let random = random_name();
            format!("{name}-{}", &random[random.len().saturating_sub(6)..])
        })
    }

    fn admits(&self, token: &Token) -> Result<(), String> {
        match self.secret() {
            // The secret has 260 random bits, so the duration of the comparison does not help to guess it.
            Ok(secret) if secret == token.0 => Ok(()),
            Ok(_) => Err(format!("the token does not match '{}'", self.token.display())),
            Err(error) => Err(format!("failed to read '{}': {error}", self.token.display())),
        }
    }
}

/// Returns the part of a host name that is valid in the name of a task queue.
fn queue_part(name: &str) -> String {
    let name: String = name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect();
    if name.is_empty() { "host".to_owned() } else { name }
}

/// Returns the text of a private file and creates the file if necessary.
fn read_or_create(path: &Path, generate: impl FnOnce() -> String) -> io::Result<String> {
    match fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => {
            let text = generate();
            write_private_text(path, &text)?;
            Ok(text)
        }
    }
}

/// The requests to one worker, for the duration of its connection.
#[derive(Debug)]
pub struct WorkerRequests {
    number: u64,
    engine: Arc<OuterEngine>,
    requests: mpsc::UnboundedReceiver<EngineRequest>,
}

impl WorkerRequests {
    /// Sends requests until the worker disconnects.
    ///
    /// # Errors
    /// Returns an error once the connection has ended.
    #[boxed]
    pub async fn forward(mut self, request_id: &Value, sink: &EventSink) -> Result<(), Disconnected> {
        while let Some(request) = self.requests.recv().await {
            sink.event(request_id, &request).await?;
        }
        Ok(())
    }
}

impl Drop for WorkerRequests {
    fn drop(&mut self) {
        self.engine.remove_worker(self.number);
    }
}

impl Runs {
    pub(super) fn admits_worker(&self, token: &Token) -> Result<(), String> {
        self.shared.worker_token.admits(token)
    }

    /// Connects a worker of an outer engine.
    pub fn serve_engine(&self, verb: &ServeRuns) -> (ServeRunsReply, Option<WorkerRequests>) {
        let refusal = |error: String| (ServeRunsReply { error: Some(error), ..ServeRunsReply::default() }, None);
        if let Err(error) = self.admits_worker(&verb.token) {
            return refusal(error);
        }
        let host = match verb.host.clone().map_or_else(|| self.shared.worker_token.host(), Ok) {
            Ok(host) => host,
            Err(error) => return refusal(format!("failed to store the name of this host: {error}")),
        };
        let engine = self.shared.outer.clone();
        let (number, requests) = engine.add_worker();
        tracing::info!(server = verb.server, host, "a worker of Temporal is connected");
        (ServeRunsReply { success: true, host, error: None }, Some(WorkerRequests { number, engine, requests }))
    }

    /// Receives the result of a request.
    pub fn report_request(&self, verb: ReportRequest) -> ReportRequestReply {
        let refusal = |error: String| ReportRequestReply { success: false, error: Some(error) };
        if let Err(error) = self.admits_worker(&verb.token) {
            return refusal(error);
        }
        let ReportRequest { run_id, id, taken, from, events, lost, error, .. } = verb;
        let Ok(run) = run_id.parse() else { return refusal(format!("'{run_id}' is not a run")) };
        let outer = &self.shared.outer;
        match (id, lost) {
            (_, Some(lost)) => _ = outer.send(&run, MirrorMessage::Lost(lost)),
            (Some(id), None) => {
                let end = match (taken, error) {
                    (true, _) => match events_of(events) {
                        Ok(events) => InputEnd::Taken { from, events },
                        Err(error) => return refusal(error.to_string()),
                    },
                    (false, None) => InputEnd::Ignored,
                    (false, Some(error)) => InputEnd::Unknown(error),
                };
                outer.end_input(id, end);
            }
            (None, None) => {
                let started = if taken { Ok(()) } else { Err(error.unwrap_or_default()) };
                _ = outer.send(&run, MirrorMessage::Started(started));
            }
        }
        ReportRequestReply { success: true, error: None }
    }
}
