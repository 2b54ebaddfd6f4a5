//! One running MCP server: a program on pipes, or an address.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{CallToolRequestParams, CallToolResult, ClientConfig, Implementation};
use rmcp::service::{ClientInitializeError, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::{RoleClient, ServiceExt as _};
use steplatch_terminal::{Piped, PipedSpec, Signal, Stdin};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{McpAddress, McpProgram, McpServer};
use crate::context::NodeEnvironment;
use crate::kind::bash::{environment, folder, last_line, not_started};
use crate::kind::http::{HttpClient, unreachable};
use crate::outcome::{ErrorType, Failure};
use crate::template::TemplateValues;

/// The time limit for a server's greeting; a package manager may have to download it first.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Time for a program to end on its own after the end of its input.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum kept bytes of a program's standard error.
const MAX_STDERR_BYTES: usize = 8 << 10;

type Service = RunningService<RoleClient, ClientConfig>;

pub(crate) struct Server {
    service: Service,
    program: Option<ProcessReaper>,
}

/// Supervises a program until it has ended.
struct ProcessReaper {
    /// Dropped, it ends the program.
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl Server {
    pub(super) async fn start(
        declared: &McpServer,
        filling: &TemplateValues,
        node_environment: &NodeEnvironment,
        web: &HttpClient,
    ) -> Result<Self, Failure> {
        match declared {
            McpServer::Program(program) => Self::of_program(program, filling, node_environment).await,
            McpServer::Address(address) => Self::at_address(address, filling, web).await,
        }
    }

    async fn of_program(
        program: &McpProgram,
        filling: &TemplateValues,
        node_environment: &NodeEnvironment,
    ) -> Result<Self, Failure> {
        let words = std::iter::once(&program.command).chain(&program.args);
        let spec = PipedSpec {
            arguments: words.map(|word| filling.text(word).into()).collect(),
            folder: folder(program.cwd.as_deref(), filling, node_environment),
            environment: environment(&program.env, filling, node_environment),
            stdin: Stdin::Piped,
            family: None,
        };
        let mut piped = node_environment.programs.start(spec).await.map_err(|error| not_started(&error))?;
        let stderr_text = Arc::new(Mutex::new(Vec::new()));
        let listening = tokio::spawn(listen(piped.take_stderr(), stderr_text.clone()));
        let (Some(stdout), Some(stdin)) = (piped.take_stdout(), piped.take_stdin()) else {
            return Err(Failure::new(ErrorType::NotStarted, "The server has no streams to speak on."));
        };
        let start_failure = |error: Option<ClientInitializeError>| {
            let stderr_text = stderr_text.lock();
            not_greeted(error, last_line(&String::from_utf8_lossy(&stderr_text)))
        };
        let service = match timeout(START_TIMEOUT, us().serve((stdout, stdin))).await {
            Ok(Ok(service)) => service,
            Ok(Err(error)) => {
                // The last lines of its standard error are the reason; they are complete once it has ended.
                let _ = piped.end(Some(Signal::TERM)).await;
                let _ = timeout(EXIT_TIMEOUT, listening).await;
                return Err(start_failure(Some(error)));
            }
            Err(_) => return Err(start_failure(None)),
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(supervise_program(piped, stop.clone()));
        Ok(Self { service, program: Some(ProcessReaper { stop: stop.drop_guard(), task }) })
    }

    async fn at_address(address: &McpAddress, filling: &TemplateValues, web: &HttpClient) -> Result<Self, Failure> {
        let mut headers = HashMap::new();
        for (name, value) in &address.headers {
            let invalid_header = || Failure::new(ErrorType::InvalidInput, format!("Header '{name}' cannot be sent."));
            let mut value: HeaderValue = filling.text(value).parse().map_err(|_| invalid_header())?;
            value.set_sensitive(true);
            headers.insert(name.parse::<HeaderName>().map_err(|_| invalid_header())?, value);
        }
        let config = StreamableHttpClientTransportConfig::with_uri(filling.url(&address.url)).custom_headers(headers);
        let transport = StreamableHttpClientTransport::with_client(web.client().await?.clone(), config);
        match timeout(START_TIMEOUT, us().serve(transport)).await {
            Ok(Ok(service)) => Ok(Self { service, program: None }),
            Ok(Err(error)) => Err(not_greeted(Some(error), None)),
            Err(_) => Err(not_greeted(None, None)),
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        let runs = self.program.as_ref().is_none_or(|program| !program.task.is_finished());
        runs && !self.service.is_closed() && !self.service.is_transport_closed()
    }

    pub(super) async fn call(&self, params: CallToolRequestParams) -> Result<CallToolResult, ServiceError> {
        self.service.call_tool(params).await
    }

    /// Ends it, and returns when it has ended.
    pub(super) async fn end(self) {
        let Self { service, program } = self;
        let _ = timeout(EXIT_TIMEOUT, service.cancel()).await;
        if let Some(ProcessReaper { stop, task }) = program {
            drop(stop);
            let _ = task.await;
        }
    }
}

/// Returns the description of this client.
fn us() -> ClientConfig {
    let mut us = ClientConfig::default();
    us.client_info = Implementation::new("steplatch", env!("CARGO_PKG_VERSION"));
    us
}

/// Waits for the end of a program, or ends an unneeded one.
async fn supervise_program(mut piped: Piped, stop: CancellationToken) {
    tokio::select! {
        _ = piped.wait() => return,
        () = stop.cancelled() => {}
    }
    // Its input has ended, which requests a server to end.
    if timeout(EXIT_TIMEOUT, piped.wait()).await.is_err() {
        let ended = piped.end(Some(Signal::TERM)).await;
        if !ended.survivors.is_empty() {
            tracing::warn!(survivors = ?ended.survivors, "a process of an MCP server could not be ended");
        }
    }
}

/// Reads a program's standard error, so that its writes never block, and keeps the end of it.
async fn listen(stderr: Option<Receiver>, collected: Arc<Mutex<Vec<u8>>>) {
    let Some(mut stderr) = stderr else { return };
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let mut collected = collected.lock();
        collected.extend_from_slice(&buffer[..count]);
        let excess = collected.len().saturating_sub(MAX_STDERR_BYTES);
        collected.drain(..excess);
    }
}

fn not_greeted(error: Option<ClientInitializeError>, message: Option<&str>) -> Failure {
    if let Some(ClientInitializeError::TransportError { error, .. }) = &error
        && let Some(StreamableHttpError::Client(error)) =
            error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>()
    {
        return unreachable(error);
    }
    let reason = match error {
        None => format!("it did not answer within {} s", START_TIMEOUT.as_secs()),
        Some(ClientInitializeError::ConnectionClosed(_)) => "it ended before it answered".to_owned(),
        // Writing to a program that has ended.
        Some(ClientInitializeError::TransportError { error, .. }) if error.error.is::<std::io::Error>() => {
            "it ended before it answered".to_owned()
        }
        Some(error) => error.to_string(),
    };
    let message = message.map(|message| format!(" It said: {message}")).unwrap_or_default();
    Failure::new(ErrorType::NotStarted, format!("The MCP server did not start: {reason}.{message}"))
}
