//! The connection to the daemon of this host.

use std::fs;
use std::path::PathBuf;

use steplatch_protocol::{
    AskError, CallError, DaemonPaths, Events, Hello, PerformTask, PerformTaskReply, ReconnectingClient, ReportRequest,
    ServeRuns, ServeRunsReply, Starter, WorkerToken,
};

/// A connection that reconnects after each loss of the daemon.
#[derive(Debug)]
pub struct DaemonConnection {
    client: ReconnectingClient,
    token_file: PathBuf,
}

impl DaemonConnection {
    /// Creates a connection to the daemon of a state directory. `program` starts a missing daemon.
    #[must_use]
    pub fn new(paths: DaemonPaths, program: PathBuf, hello: Hello) -> Self {
        let token_file = paths.state().join("worker_token");
        Self { client: ReconnectingClient::new(paths, Starter { program }, hello), token_file }
    }

    /// Returns the secret of the state directory. The daemon creates it, and it does not change.
    fn token(&self) -> WorkerToken {
        WorkerToken(fs::read_to_string(&self.token_file).unwrap_or_default().trim().to_owned())
    }

    /// Performs a task.
    ///
    /// # Errors
    /// If the daemon is unreachable, or its connection breaks before the answer.
    pub async fn perform(&self, verb: PerformTask) -> Result<PerformTaskReply, AskError> {
        let client = self.client.client().await?;
        Ok(client.call(PerformTask { token: self.token(), ..verb }).await?)
    }

    /// Reports the result of a request. Ignores a missing daemon, which needs no report.
    pub async fn report(&self, report: ReportRequest) {
        let reply = self.client.call(ReportRequest { token: self.token(), ..report }).await;
        match reply {
            Ok(reply) if reply.success => {}
            Ok(reply) => tracing::warn!(error = reply.error, "the daemon rejected a report"),
            Err(error) => tracing::info!(%error, "a report did not reach the daemon"),
        }
    }

    /// Offers to serve runs. Returns the requests of the daemon.
    ///
    /// # Errors
    /// If the daemon is unreachable.
    pub async fn serve(&self, server: &str, host: Option<&str>) -> Result<(ServeRunsReply, Events), AskError> {
        let client = self.client.client().await?;
        let verb = |token| ServeRuns { token, server: server.to_owned(), host: host.map(str::to_owned) };
        let (reply, events) = client.subscribe(verb(self.token())).await?;
        if reply.success {
            return Ok((reply, events));
        }
        // Try again, because the daemon may have created the secret only now.
        Ok(client.subscribe(verb(self.token())).await?)
    }

    /// Returns whether an error reports a loss of the daemon, and not its refusal.
    #[must_use]
    pub fn is_loss(error: &AskError) -> bool {
        matches!(error, AskError::Connect(_) | AskError::Call(CallError::Lost))
    }
}
