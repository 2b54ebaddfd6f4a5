//! The worker of a host: runs workflows, performs the tasks of this host, and forwards the requests of the daemon.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use steplatch_ids::RunId;
use steplatch_protocol::{DaemonPaths, EngineRequest, Events, Hello, ReportRequest};
use steplatch_workflow::{Event, Input, SEMANTICS_VERSION};
use temporalio_client::errors::{
    WorkflowGetResultError, WorkflowInteractionError, WorkflowStartError, WorkflowUpdateError,
};
use temporalio_client::{
    Client, ClientOptions, ClientTlsOptions, Connection, ConnectionOptions, TlsOptions, WorkflowCancelOptions,
    WorkflowExecuteUpdateOptions, WorkflowGetResultOptions, WorkflowIdReusePolicy, WorkflowStartOptions,
};
use temporalio_sdk::runtime::{PollerBehavior, RuntimeOptions};
use temporalio_sdk::{Runtime, Worker, WorkerOptions};
use url::Url;

use crate::backoff::Backoff;
use crate::codec::{Codec, KeyError};
use crate::daemon::DaemonConnection;
use crate::run::SteplatchRun;
use crate::tasks::Tasks;
use crate::wire::{COMMON_QUEUE, DECISION_TIMEOUT, GATE_OPEN, PassedInput, RunInput, STATE, WORKFLOW, queue_of};

/// Returns the pauses between attempts.
const fn backoff() -> Backoff {
    Backoff::new(Duration::from_millis(200), Duration::from_secs(10))
}

/// Time that a workflow task waits for the worker with the run in memory. Then any worker replays the run.
const STICKY_TIMEOUT: Duration = Duration::from_secs(3);

/// Certificates and keys of an encrypted connection.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// The certificate of the authority, if the system does not trust it.
    pub authority: Option<PathBuf>,
    /// The certificate of the client and its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// The name of the server in its certificate.
    pub domain: Option<String>,
}

/// Settings of a worker.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// The address of Temporal, as HOST:PORT.
    pub address: String,
    /// The namespace.
    pub namespace: String,
    /// The encryption of the connection.
    pub tls: Option<TlsFiles>,
    /// The file with an API key.
    pub api_key: Option<PathBuf>,
    /// The file with the key of the payloads.
    pub key: PathBuf,
    /// The directories of the daemon.
    pub paths: DaemonPaths,
    /// The program that starts a daemon.
    pub program: PathBuf,
    /// The first message to the daemon.
    pub hello: Hello,
    /// The name of this host, instead of the daemon's choice.
    pub host: Option<String>,
    /// Time without a sign of life after which a worker is considered lost.
    pub lost_after: Duration,
    /// True if this worker runs workflows, and not only the tasks of its host.
    pub workflows: bool,
}

/// Error that ends a worker.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// There is no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The address is invalid.
    #[error("'{address}' is not an address; write HOST:PORT, such as 127.0.0.1:7233")]
    Address {
        /// The address.
        address: String,
    },
    /// A file is unreadable.
    #[error("'{}' cannot be read: {cause}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: std::io::Error,
    },
    /// The namespace does not exist.
    #[error(
        "Temporal at {address} has no namespace '{namespace}'; choose another one with --namespace, or create it with: \
         temporal operator namespace create --namespace {namespace}"
    )]
    Namespace {
        /// The address.
        address: String,
        /// The namespace.
        namespace: String,
    },
    /// The server refuses.
    #[error("Temporal at {address} refuses this worker: {error}")]
    Refused {
        /// The address.
        address: String,
        /// The error.
        error: String,
    },
    /// The daemon refuses.
    #[error("the daemon refuses this worker: {0}")]
    Daemon(String),
    /// The SDK does not start.
    #[error("the worker cannot start: {0}")]
    Start(String),
}

/// Runs a worker until it is dropped or cannot continue.
///
/// # Errors
/// If the settings are wrong, the server or the daemon refuses, or the SDK ends.
pub async fn work(settings: WorkerSettings) -> Result<(), WorkerError> {
    let runtime = Runtime::from_current_tokio(RuntimeOptions::default())
        .map_err(|error| WorkerError::Start(error.to_string()))?;
    let client = connect(&settings).await?;
    let daemon =
        Arc::new(DaemonConnection::new(settings.paths.clone(), settings.program.clone(), settings.hello.clone()));
    let (host, requests) = serve_runs(&daemon, &settings).await?;
    let is_searchable = add_search_attributes(&client, &settings.namespace).await;
    let failed = |error: &dyn std::fmt::Display| WorkerError::Start(error.to_string());
    let tasks = WorkerOptions::new(queue_of(&host))
        .register_activities(Tasks::new(daemon.clone()))
        .activity_task_poller_behavior(PollerBehavior::SimpleMaximum(4))
        .max_heartbeat_throttle_interval(settings.lost_after / 3)
        .default_heartbeat_throttle_interval(settings.lost_after / 3)
        .build();
    let mut tasks = Worker::new(&runtime, client.clone(), tasks).map_err(|error| failed(&error))?;
    let bridge = Bridge { client: client.clone(), daemon, settings: settings.clone(), host, is_searchable };
    tracing::info!(server = settings.address, host = bridge.host, "connected");
    let serving = Arc::new(bridge).serve_requests(requests);
    if !settings.workflows {
        return tokio::select! {
            ended = tasks.run() => ended.map_err(|error| failed(&error)),
            refused = serving => Err(refused),
        };
    }
    let workflows = WorkerOptions::new(COMMON_QUEUE)
        .register_workflow::<SteplatchRun>()
        .map_err(|error| failed(&error))?
        .sticky_queue_schedule_to_start_timeout(STICKY_TIMEOUT)
        .build();
    let mut workflows = Worker::new(&runtime, client, workflows).map_err(|error| failed(&error))?;
    tokio::select! {
        ended = tasks.run() => ended.map_err(|error| failed(&error)),
        ended = workflows.run() => ended.map_err(|error| failed(&error)),
        refused = serving => Err(refused),
    }
}

/// Connects to Temporal. Waits for an unreachable server.
async fn connect(settings: &WorkerSettings) -> Result<Client, WorkerError> {
    let WorkerSettings { address, namespace, .. } = settings;
    let converter = Codec::of_file(&settings.key)?.into_converter();
    let options = connection_options(settings)?;
    let mut backoff = backoff();
    let connection = loop {
        match Connection::connect(options.clone()).await {
            Ok(connection) => break connection,
            Err(error) => {
                let error = error_with_causes(&error);
                tracing::warn!("Temporal at {address} cannot be reached; trying again: {error}");
                backoff.pause().await;
            }
        }
    };
    let options = ClientOptions::new(namespace.clone()).data_converter(converter).build();
    let client = Client::new(connection, options).map_err(|error| WorkerError::Start(error.to_string()))?;
    check_namespace(&client, settings).await?;
    Ok(client)
}

/// Returns the options of the connection: the server's address, and the current certificates and keys of the settings.
fn connection_options(settings: &WorkerSettings) -> Result<ConnectionOptions, WorkerError> {
    let WorkerSettings { address, .. } = settings;
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let target = Url::parse(&format!("{scheme}://{address}"))
        .ok()
        .filter(|target| target.host().is_some() && target.port_or_known_default().is_some() && target.path() == "/")
        .ok_or_else(|| WorkerError::Address { address: address.clone() })?;
    let tls = settings.tls.as_ref().map(tls_options).transpose()?;
    let api_key = settings.api_key.as_ref().map(read_file).transpose()?;
    Ok(ConnectionOptions::new(target)
        .identity(format!("steplatch-temporal {}@{}", std::process::id(), hostname()))
        .maybe_tls_options(tls)
        .maybe_api_key(api_key.map(|key| String::from_utf8_lossy(&key).trim().to_owned()))
        .build())
}

async fn check_namespace(client: &Client, settings: &WorkerSettings) -> Result<(), WorkerError> {
    use temporalio_common::protos::temporal::api::workflowservice::v1::DescribeNamespaceRequest;
    let WorkerSettings { address, namespace, .. } = settings.clone();
    let mut backoff = backoff();
    loop {
        let request = DescribeNamespaceRequest { namespace: namespace.clone(), ..DescribeNamespaceRequest::default() };
        let reply =
            client.connection().clone().workflow_service().describe_namespace(tonic::Request::new(request)).await;
        match reply {
            Ok(_) => return Ok(()),
            Err(status) if status.code() == tonic::Code::NotFound => {
                return Err(WorkerError::Namespace { address, namespace });
            }
            Err(status) if matches!(status.code(), tonic::Code::PermissionDenied | tonic::Code::Unauthenticated) => {
                return Err(WorkerError::Refused { address, error: status.message().to_owned() });
            }
            Err(status) => {
                tracing::warn!("Temporal at {address} does not answer; trying again: {}", status.message());
                backoff.pause().await;
            }
        }
    }
}

/// Adds the search attributes to the namespace. Returns whether the namespace has them.
async fn add_search_attributes(client: &Client, namespace: &str) -> bool {
    use temporalio_common::protos::temporal::api::operatorservice::v1::{
        AddSearchAttributesRequest, ListSearchAttributesRequest,
    };
    let attributes: HashMap<String, i32> = [
        (WORKFLOW.name(), WORKFLOW.indexed_value_type()),
        (STATE.name(), STATE.indexed_value_type()),
        (GATE_OPEN.name(), GATE_OPEN.indexed_value_type()),
    ]
    .map(|(name, kind)| (name.to_owned(), kind as i32))
    .into();
    let mut operator = client.connection().operator_service();
    let listing = ListSearchAttributesRequest { namespace: namespace.to_owned() };
    if let Ok(listed) = operator.list_search_attributes(tonic::Request::new(listing)).await {
        let existing = listed.into_inner().custom_attributes;
        if attributes.keys().all(|name| existing.contains_key(name)) {
            return true;
        }
    }
    let adding = AddSearchAttributesRequest { search_attributes: attributes, namespace: namespace.to_owned() };
    match operator.add_search_attributes(tonic::Request::new(adding)).await {
        Ok(_) => true,
        Err(status) if status.code() == tonic::Code::AlreadyExists => true,
        Err(status) => {
            tracing::warn!(
                "runs have no search attributes, since Temporal does not add them: {}; docs/temporal.md names them",
                status.message()
            );
            false
        }
    }
}

fn tls_options(files: &TlsFiles) -> Result<TlsOptions, WorkerError> {
    let client = match &files.client {
        Some((certificate, key)) => Some(
            ClientTlsOptions::builder()
                .client_cert(read_file(certificate)?)
                .client_private_key(read_file(key)?)
                .build(),
        ),
        None => None,
    };
    let authority = files.authority.as_ref().map(read_file).transpose()?;
    Ok(TlsOptions::builder()
        .maybe_server_root_ca_cert(authority)
        .maybe_domain(files.domain.clone())
        .maybe_client_tls_options(client)
        .build())
}

fn read_file(path: &PathBuf) -> Result<Vec<u8>, WorkerError> {
    std::fs::read(path).map_err(|cause| WorkerError::File { path: path.clone(), cause })
}

fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Formats an error with all of its causes.
fn error_with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source()).map(|cause| format!(": {cause}"));
    format!("{error}{}", causes.collect::<String>())
}

/// Offers the daemon to serve its runs. Starts a missing daemon, or waits for it.
async fn serve_runs(daemon: &DaemonConnection, settings: &WorkerSettings) -> Result<(String, Events), WorkerError> {
    let mut backoff = backoff();
    loop {
        match daemon.serve(&settings.address, settings.host.as_deref()).await {
            Ok((reply, events)) if reply.success => return Ok((reply.host, events)),
            Ok((reply, _)) => return Err(WorkerError::Daemon(reply.error.unwrap_or_default())),
            Err(error) if DaemonConnection::is_loss(&error) => {
                tracing::warn!("the daemon cannot be reached; trying again: {error}");
                backoff.pause().await;
            }
            Err(error) => return Err(WorkerError::Daemon(error.to_string())),
        }
    }
}

/// Forwards the requests of the daemon to Temporal.
struct Bridge {
    client: Client,
    daemon: Arc<DaemonConnection>,
    settings: WorkerSettings,
    host: String,
    /// True if the namespace has the search attributes.
    is_searchable: bool,
}

impl Bridge {
    /// Serves the requests of one daemon after another. Returns the error that prevents this.
    async fn serve_requests(self: Arc<Self>, mut requests: Events) -> WorkerError {
        loop {
            while let Some(request) = requests.next().await {
                match serde_json::from_value::<EngineRequest>(request) {
                    Ok(request) => drop(tokio::spawn(self.clone().perform_request(request))),
                    Err(error) => tracing::error!(%error, "a request of the daemon cannot be read"),
                }
            }
            tracing::info!("the daemon disconnected");
            match serve_runs(&self.daemon, &self.settings).await {
                Ok((_, new_requests)) => requests = new_requests,
                Err(error) => return error,
            }
        }
    }

    async fn perform_request(self: Arc<Self>, request: EngineRequest) {
        match request {
            EngineRequest::Start { run_id, workflow, events, function } => {
                self.start(run_id, workflow, events, function).await;
            }
            EngineRequest::Watch { run_id } => self.watch(run_id).await,
            EngineRequest::Input { id, run_id, key, input } => {
                let report = self.pass(&run_id, key, input).await;
                self.daemon.report(ReportRequest { run_id, id: Some(id), ..report }).await;
            }
            EngineRequest::Cancel { run_id, reason } => self.cancel(&run_id, reason).await,
        }
    }

    async fn start(&self, run_id: String, workflow: String, events: Vec<serde_json::Value>, is_function: bool) {
        let events: Result<Vec<Event>, _> = events.into_iter().map(serde_json::from_value).collect();
        let report = |error: Option<String>| ReportRequest {
            run_id: run_id.clone(),
            taken: error.is_none(),
            error,
            ..ReportRequest::default()
        };
        let input = match events {
            Ok(events) => RunInput {
                semantics_version: SEMANTICS_VERSION,
                host: self.host.clone(),
                workflow,
                events,
                function: is_function,
                parent: None,
                lost_after: self.settings.lost_after.as_secs_f64(),
                searchable: self.is_searchable,
            },
            Err(error) => {
                return self.daemon.report(report(Some(format!("its events cannot be read: {error}")))).await;
            }
        };
        let mut backoff = backoff();
        let mut is_reported = false;
        loop {
            let options = WorkflowStartOptions::new(COMMON_QUEUE, run_id.clone())
                .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
                .task_timeout(DECISION_TIMEOUT)
                .build();
            match self.client.start_workflow(SteplatchRun::run, input.clone(), options).await {
                Ok(_) | Err(WorkflowStartError::AlreadyStarted { .. }) => break,
                Err(error) => {
                    if !std::mem::replace(&mut is_reported, true) {
                        let address = &self.settings.address;
                        let error = format!("Temporal at {address} is not reached; the run begins once it is: {error}");
                        self.daemon.report(report(Some(error))).await;
                    }
                    backoff.pause().await;
                }
            }
        }
        self.daemon.report(report(None)).await;
        self.watch(run_id).await;
    }

    /// Reports a run that Temporal ends. A run that ends by its own decision hands over its events before.
    async fn watch(&self, run_id: String) {
        let run = self.client.get_workflow_handle::<SteplatchRun>(run_id.clone());
        let mut backoff = backoff();
        let lost = loop {
            match run.get_result(WorkflowGetResultOptions::default()).await {
                Ok(_) => return,
                Err(WorkflowGetResultError::Terminated { .. }) => break "it was terminated".to_owned(),
                Err(WorkflowGetResultError::TimedOut) => break "its time limit there passed".to_owned(),
                Err(WorkflowGetResultError::Failed(error)) => break format!("it failed: {error}"),
                Err(WorkflowGetResultError::Cancelled { .. }) => break "it was cancelled".to_owned(),
                Err(WorkflowGetResultError::NotFound(_)) => return,
                Err(error) => {
                    tracing::debug!(%error, run_id, "watching a run again");
                    backoff.pause().await;
                }
            }
        };
        self.daemon.report(ReportRequest { run_id, lost: Some(lost), ..ReportRequest::default() }).await;
    }

    async fn pass(&self, run_id: &str, key: String, input: serde_json::Value) -> ReportRequest {
        let input = match serde_json::from_value::<Input>(input) {
            Ok(input) => input,
            Err(error) => return ReportRequest { error: Some(error.to_string()), ..ReportRequest::default() },
        };
        let run = self.client.get_workflow_handle::<SteplatchRun>(run_id.to_owned());
        let options = WorkflowExecuteUpdateOptions::builder().update_id(key).build();
        match run.execute_update(SteplatchRun::pass, PassedInput { input }, options).await {
            Ok(taken) if taken.events.is_empty() && !taken.taken => ReportRequest::default(),
            Ok(taken) => ReportRequest {
                taken: true,
                from: taken.from,
                events: taken
                    .events
                    .iter()
                    .map(|event| serde_json::to_value(event).expect("an event is JSON"))
                    .collect(),
                ..ReportRequest::default()
            },
            // The run refused it.
            Err(WorkflowUpdateError::Failed(_) | WorkflowUpdateError::NotFound(_)) => ReportRequest::default(),
            Err(error) => {
                let address = &self.settings.address;
                let error = format!("Temporal at {address} does not answer: {error}");
                ReportRequest { error: Some(error), ..ReportRequest::default() }
            }
        }
    }

    async fn cancel(&self, run_id: &str, reason: String) {
        let Ok(id) = run_id.parse::<RunId>() else { return };
        let run = self.client.get_workflow_handle::<SteplatchRun>(id.to_string());
        let mut backoff = backoff();
        loop {
            let options = WorkflowCancelOptions::builder().reason(reason.clone()).build();
            match run.cancel(options).await {
                // A missing run has ended, or has not begun; the next connected worker gets the request again.
                Ok(()) | Err(WorkflowInteractionError::NotFound(_)) => return,
                Err(error) => {
                    tracing::info!(%error, run_id, "the cancellation of a run waits for Temporal");
                    backoff.pause().await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn settings(directory: &Path, tls: Option<TlsFiles>, api_key: Option<&str>) -> WorkerSettings {
        WorkerSettings {
            address: "temporal.example:7233".to_owned(),
            namespace: "default".to_owned(),
            tls,
            api_key: api_key.map(|name| directory.join(name)),
            key: directory.join("temporal.key"),
            paths: DaemonPaths::new(directory.to_owned(), directory.to_owned()),
            program: PathBuf::from("steplatch"),
            hello: Hello::for_process("test"),
            host: None,
            lost_after: Duration::from_secs(10),
            workflows: true,
        }
    }

    /// Returns a directory with files that contain their own names.
    fn directory(test: &str, files: &[&str]) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("steplatch-temporal-{test}-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        for file in files {
            std::fs::write(directory.join(file), format!("{file}\n")).unwrap();
        }
        directory
    }

    #[test]
    fn connection_is_plain_unless_encryption_is_requested() {
        let directory = directory("plain", &[]);
        let options = connection_options(&settings(&directory, None, None)).unwrap();
        assert_eq!(options.target.as_str(), "http://temporal.example:7233/");
        assert!(options.tls_options.is_none() && options.api_key.is_none());
        let system = connection_options(&settings(&directory, Some(TlsFiles::default()), None)).unwrap();
        assert_eq!(system.target.as_str(), "https://temporal.example:7233/");
        let tls = system.tls_options.unwrap();
        assert!(tls.server_root_ca_cert.is_none() && tls.client_tls_options.is_none() && tls.domain.is_none());
        for address in ["", "http://temporal.example:7233", "temporal.example:port"] {
            let nowhere = WorkerSettings { address: address.to_owned(), ..settings(&directory, None, None) };
            assert!(matches!(connection_options(&nowhere), Err(WorkerError::Address { .. })), "{address}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn certificates_and_keys_come_from_the_files() {
        let directory = directory("files", &["authority", "certificate", "secret", "api"]);
        let files = TlsFiles {
            authority: Some(directory.join("authority")),
            client: Some((directory.join("certificate"), directory.join("secret"))),
            domain: Some("inside.example".to_owned()),
        };
        let options = connection_options(&settings(&directory, Some(files.clone()), Some("api"))).unwrap();
        let shown = format!("{:?}", options.tls_options);
        let tls = options.tls_options.unwrap();
        assert_eq!(tls.server_root_ca_cert.as_deref(), Some(&b"authority\n"[..]));
        assert_eq!(tls.domain.as_deref(), Some("inside.example"));
        let client = tls.client_tls_options.unwrap();
        assert_eq!(
            (&client.client_cert[..], &client.client_private_key[..]),
            (&b"certificate\n"[..], &b"secret\n"[..])
        );
        assert!(!shown.contains("secret"), "{shown}");
        assert_eq!(options.api_key.as_deref(), Some("api"), "the end of the line is not part of the key");
        let missing = TlsFiles { authority: Some(directory.join("nothing")), ..files };
        let refused = connection_options(&settings(&directory, Some(missing), None)).unwrap_err();
        assert!(refused.to_string().contains("nothing' cannot be read"), "{refused}");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
