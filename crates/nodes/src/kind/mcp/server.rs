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
use crate::kind::bash::{directory, environment, last_line, spawn_failure};
use crate::kind::http::{HttpClient, connection_failure};
use crate::outcome::{ErrorType, Failure};
use crate::template::TemplateValues;

/// Time limit for starting a server; a package manager may have to download the server first.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Time for a program to exit on its own after its input is closed.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum number of bytes kept of a program's standard error.
const MAX_STDERR_BYTES: usize = 8 << 10;

type Service = RunningService<RoleClient, ClientConfig>;

pub(crate) struct Server {
    service: Service,
    program: Option<ProcessReaper>,
}

/// Supervises a program until it has exited.
struct ProcessReaper {
    /// Stops the program when it is dropped.
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl Server {
    pub(super) async fn start(
        declared: &McpServer,
        template_values: &TemplateValues,
        node_environment: &NodeEnvironment,
        http_client: &HttpClient,
    ) -> Result<Self, Failure> {
        match declared {
            McpServer::Program(program) => Self::start_program(program, template_values, node_environment).await,
            McpServer::Address(address) => Self::connect_address(address, template_values, http_client).await,
        }
    }

    async fn start_program(
        program: &McpProgram,
        template_values: &TemplateValues,
        node_environment: &NodeEnvironment,
    ) -> Result<Self, Failure> {
        let words = std::iter::once(&program.command).chain(&program.args);
        let spec = PipedSpec {
            arguments: words.map(|word| template_values.text(word).into()).collect(),
            directory: directory(program.cwd.as_deref(), template_values, node_environment),
            environment: environment(&program.env, template_values, node_environment),
            stdin: Stdin::Piped,
            family: None,
        };
        let mut piped = node_environment.programs.start(spec).await.map_err(|error| spawn_failure(&error))?;
        let stderr_text = Arc::new(Mutex::new(Vec::new()));
        let stderr_task = tokio::spawn(collect_stderr(piped.take_stderr(), stderr_text.clone()));
        let (Some(stdout), Some(stdin)) = (piped.take_stdout(), piped.take_stdin()) else {
            return Err(Failure::new(ErrorType::NotStarted, "The server has no standard streams."));
        };
        let start_failure = |error: Option<ClientInitializeError>| {
            let stderr_text = stderr_text.lock();
            initialize_failure(error, last_line(&String::from_utf8_lossy(&stderr_text)))
        };
        let service = match timeout(START_TIMEOUT, client_config().serve((stdout, stdin))).await {
            Ok(Ok(service)) => service,
            Ok(Err(error)) => {
                // The standard error contains the reason; it is complete once the program has exited.
                let _ = piped.end(Some(Signal::TERM)).await;
                let _ = timeout(EXIT_TIMEOUT, stderr_task).await;
                return Err(start_failure(Some(error)));
            }
            Err(_) => return Err(start_failure(None)),
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(supervise_program(piped, stop.clone()));
        Ok(Self { service, program: Some(ProcessReaper { stop: stop.drop_guard(), task }) })
    }

    async fn connect_address(
        address: &McpAddress,
        template_values: &TemplateValues,
        http_client: &HttpClient,
    ) -> Result<Self, Failure> {
        let mut headers = HashMap::new();
        for (name, value) in &address.headers {
            let invalid_header = || Failure::new(ErrorType::InvalidInput, format!("Header '{name}' cannot be sent."));
            let mut value: HeaderValue = template_values.text(value).parse().map_err(|_| invalid_header())?;
            value.set_sensitive(true);
            headers.insert(name.parse::<HeaderName>().map_err(|_| invalid_header())?, value);
        }
        let config =
            StreamableHttpClientTransportConfig::with_uri(template_values.url(&address.url)).custom_headers(headers);
        let transport = StreamableHttpClientTransport::with_client(http_client.client().await?.clone(), config);
        match timeout(START_TIMEOUT, client_config().serve(transport)).await {
            Ok(Ok(service)) => Ok(Self { service, program: None }),
            Ok(Err(error)) => Err(initialize_failure(Some(error), None)),
            Err(_) => Err(initialize_failure(None, None)),
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        let is_program_running = self.program.as_ref().is_none_or(|program| !program.task.is_finished());
        is_program_running && !self.service.is_closed() && !self.service.is_transport_closed()
    }

    pub(super) async fn call(&self, params: CallToolRequestParams) -> Result<CallToolResult, ServiceError> {
        self.service.call_tool(params).await
    }

    /// Stops the server and waits until it has stopped.
    pub(super) async fn end(self) {
        let Self { service, program } = self;
        let _ = timeout(EXIT_TIMEOUT, service.cancel()).await;
        if let Some(ProcessReaper { stop, task }) = program {
            drop(stop);
            let _ = task.await;
        }
    }
}

/// Returns the configuration of this client.
fn client_config() -> ClientConfig {
    let mut config = ClientConfig::default();
    config.client_info = Implementation::new("steplatch", env!("CARGO_PKG_VERSION"));
    config
}

/// Waits until a program exits, or stops it when it is no longer needed.
async fn supervise_program(mut piped: Piped, stop: CancellationToken) {
    tokio::select! {
        _ = piped.wait() => return,
        () = stop.cancelled() => {}
    }
    // Closing its input requests the server to exit.
    if timeout(EXIT_TIMEOUT, piped.wait()).await.is_err() {
        let process_end = piped.end(Some(Signal::TERM)).await;
        if !process_end.survivors.is_empty() {
            tracing::warn!(survivors = ?process_end.survivors, "failed to stop a process of an MCP server");
        }
    }
}

/// Reads a program's standard error, so that its writes never block, and keeps the end of it.
async fn collect_stderr(stderr: Option<Receiver>, collected: Arc<Mutex<Vec<u8>>>) {
    let Some(mut stderr) = stderr else { return };
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let mut collected = collected.lock();
        collected.extend_from_slice(&buffer[..count]);
        let excess = collected.len().saturating_sub(MAX_STDERR_BYTES);
        collected.drain(..excess);
    }
}

fn initialize_failure(error: Option<ClientInitializeError>, message: Option<&str>) -> Failure {
    if let Some(ClientInitializeError::TransportError { error, .. }) = &error
        && let Some(StreamableHttpError::Client(error)) =
            error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>()
    {
        return connection_failure(error);
    }
    let reason = match error {
        None => format!("it did not answer within {} s", START_TIMEOUT.as_secs()),
        Some(ClientInitializeError::ConnectionClosed(_)) => "it exited before it answered".to_owned(),
        // A write failed, because the program has exited.
        Some(ClientInitializeError::TransportError { error, .. }) if error.error.is::<std::io::Error>() => {
            "it exited before it answered".to_owned()
        }
        Some(error) => error.to_string(),
    };
    let message = message.map(|message| format!(" Its output: {message}")).unwrap_or_default();
    Failure::new(ErrorType::NotStarted, format!("The MCP server did not start: {reason}.{message}"))
}
