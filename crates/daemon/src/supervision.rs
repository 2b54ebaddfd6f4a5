//! Services of projects: each runs in a terminal, which one task supervises.
//!
//! The task waits for the services that its service needs, opens the terminal, waits until the service is ready, and
//! decides when it has ended. The state is stored before a terminal is opened, and the opening is a step with the
//! number of the attempt: a daemon that is killed in between finds the terminal of the attempt again, and starts no
//! second process.

mod readiness;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steplatch_access::{Caller, NamedSecrets, write_private_text};
use steplatch_clock::{Clock, Timestamp, to_iso8601};
use steplatch_project::{Project, Projects};
use steplatch_protocol::{
    AwaitOutput, AwaitReason, AwaitUntil, DaemonPaths, ExitTerminal, ListServices, OpenTerminal, OpenTerminalReply,
    RestartServices, SendInput, SendSignal, ServiceInfo, ServiceState, ServicesReply, SessionInfo, StartServices,
    StopServices,
};
use steplatch_sessions::{Sessions, ShutdownMode};
use steplatch_supervisor::{RestartDecision, RestartHistory, ServiceDeclaration, decide_restart, ports, start_order};
use steplatch_workflow::substitute::{secret_references, with_secrets};
use tokio::sync::watch;

/// Time limit of one wait for the end of a service; another one follows.
const EXIT_WAIT_SECONDS: f64 = 3600.0;

/// Time after which a service without a condition to be ready is considered to run.
const MIN_UPTIME: Duration = Duration::from_secs(1);

/// Pause before another look at a terminal whose host does not answer.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Maximum length of the last output in the reason of an end, in characters.
const MAX_REASON_CHARS: usize = 400;

/// Version of the stored form. Raise it when an older build would misread the state.
const VERSION: u32 = 1;

/// Parts of the daemon that services use.
pub(crate) struct SupervisionParts {
    pub(crate) paths: DaemonPaths,
    pub(crate) sessions: Sessions,
    pub(crate) projects: Projects,
    pub(crate) named_secrets: Arc<dyn NamedSecrets>,
    pub(crate) clock: Clock,
    pub(crate) stop: watch::Receiver<Option<ShutdownMode>>,
}

/// The services that run, or have failed. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Supervision(Arc<Shared>);

impl std::fmt::Debug for Supervision {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Supervision").finish_non_exhaustive()
    }
}

struct Shared {
    parts: SupervisionParts,
    file: PathBuf,
    /// The services by project and name.
    services: Mutex<BTreeMap<ServiceKey, Arc<Service>>>,
    /// Locked while the state is written.
    writing: tokio::sync::Mutex<()>,
    /// Locked while services are started or stopped by a client, so that two clients get one process.
    changing: tokio::sync::Mutex<()>,
}

type ServiceKey = (PathBuf, String);

/// A service that was started.
struct Service {
    stored: Mutex<StoredService>,
    /// True once the service is to be stopped.
    stop_requested: watch::Sender<bool>,
    status: watch::Sender<Status>,
}

/// The data of a service that the next daemon needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredService {
    project: PathBuf,
    name: String,
    declaration: ServiceDeclaration,
    /// Environment of the client that started it.
    environment: Vec<(String, String)>,
    /// Number of the attempt to start it.
    attempt: u64,
    /// Time of that attempt.
    started: Timestamp,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredServices {
    version: u32,
    services: Vec<StoredService>,
}

#[derive(Debug, Clone, Default)]
struct Status {
    state: ServiceState,
    session_id: Option<String>,
    terminal: Option<String>,
    pid: Option<i32>,
    started: Option<Timestamp>,
    restarts: u32,
    exit_code: Option<i32>,
    reason: Option<String>,
}

impl Service {
    fn new(stored: StoredService) -> Self {
        let status = Status { state: ServiceState::Waiting, ..Status::default() };
        Self {
            stored: Mutex::new(stored),
            stop_requested: watch::Sender::new(false),
            status: watch::Sender::new(status),
        }
    }

    fn state(&self) -> ServiceState {
        self.status.borrow().state
    }

    /// Returns true while its task runs.
    fn is_supervised(&self) -> bool {
        !matches!(self.state(), ServiceState::Down | ServiceState::Ended | ServiceState::Failed)
    }

    fn set(&self, change: impl FnOnce(&mut Status)) {
        self.status.send_modify(change);
    }

    /// Waits until the service is up, or has ended for good.
    async fn settle(&self) -> ServiceState {
        let is_settled = |status: &Status| status.state.is_up() || is_over(status.state);
        let mut status = self.status.subscribe();
        status.wait_for(is_settled).await.map_or(ServiceState::Down, |status| status.state)
    }

    /// Waits until the task of the service has ended.
    async fn end(&self) {
        let mut status = self.status.subscribe();
        // An error means that the service is gone.
        let _ = status.wait_for(|status| is_over(status.state)).await;
    }
}

fn is_over(state: ServiceState) -> bool {
    matches!(state, ServiceState::Down | ServiceState::Ended | ServiceState::Failed)
}

/// The terminal of a service.
#[derive(Debug, Clone)]
struct Running {
    session_id: String,
    pid: i32,
}

/// The reason that a running service is left.
enum RunEnd {
    Ended {
        exit_code: Option<i32>,
        reason: String,
    },
    /// It has ended, because another program listens on its port.
    PortTaken {
        exit_code: Option<i32>,
        reason: String,
    },
    NotReady(String),
    StopRequested,
    /// The daemon stops, and the next one continues.
    Left,
}

impl Supervision {
    /// Reads the stored services and supervises them.
    pub(crate) fn start(parts: SupervisionParts) -> Self {
        let file = parts.paths.state().join("services.json");
        let stored = match std::fs::read_to_string(&file) {
            Ok(text) => match serde_json::from_str::<StoredServices>(&text) {
                Ok(stored) if stored.version == VERSION => stored.services,
                _ => {
                    tracing::error!(file = %file.display(), "the state of services is damaged or newer; their terminals stay open");
                    Vec::new()
                }
            },
            Err(_) => Vec::new(),
        };
        let (services, writing, changing) = Default::default();
        let shared = Arc::new(Shared { parts, file, services, writing, changing });
        // A service may need one that comes later.
        let adopted: Vec<_> = stored.into_iter().map(|stored| shared.insert(stored)).collect();
        for service in adopted {
            shared.clone().spawn(service, true);
        }
        Self(shared)
    }

    /// Forgets the services if their terminals are closed with the daemon.
    pub(crate) async fn close(&self, mode: ShutdownMode) {
        if !mode.keeps_terminals() {
            self.0.services.lock().clear();
            self.0.store().await;
        }
    }

    /// Starts services with those that they need, and waits until they are ready.
    pub(crate) async fn up(&self, caller: &Arc<Caller>, verb: StartServices) -> ServicesReply {
        let (project, ordered) = match self.0.ordered(caller, &verb.names).await {
            Ok(found) => found,
            Err(error) => return refusal(error),
        };
        let changing = self.0.changing.lock().await;
        let started: Result<Vec<_>, _> =
            ordered.iter().map(|name| self.0.clone().ensure(caller, &project, name)).collect();
        drop(changing);
        let started = match started {
            Ok(started) => started,
            Err(error) => return refusal(error),
        };
        if !verb.detach {
            for service in &started {
                service.settle().await;
            }
        }
        let failed = started.iter().find(|service| !verb.detach && !service.state().is_up());
        let error = failed.map(|service| {
            let status = service.status.borrow();
            let reason = status.reason.clone().unwrap_or_else(|| format!("it is {}", status.state.name()));
            format!("service '{}' is not up: {reason}", service.stored.lock().name)
        });
        let mut services = self.0.describe(&project).await;
        services.retain(|info| ordered.contains(&info.name));
        ServicesReply { success: error.is_none(), services, problems: project.problems().collect(), error }
    }

    /// Returns true if a request to open a terminal names a service of the project.
    pub(crate) async fn declares(&self, caller: &Caller, verb: &OpenTerminal) -> bool {
        let (Some(name), None) = (&verb.name, &verb.command) else { return false };
        self.0.find_project(caller).await.is_ok_and(|project| project.services.contains_key(name))
    }

    /// Starts a service if it does not run, waits until it is ready, and returns its terminal.
    pub(crate) async fn open_terminal(&self, caller: &Arc<Caller>, verb: OpenTerminal) -> OpenTerminalReply {
        let name = verb.name.unwrap_or_default();
        let was_up = self.0.is_up(caller, &name).await;
        let reply = self.up(caller, StartServices { names: vec![name.clone()], detach: false }).await;
        let info = reply.services.into_iter().find(|info| info.name == name);
        let session = info.as_ref().and_then(|info| info.session_id.clone());
        let (true, Some(session_id)) = (reply.success, session) else {
            return OpenTerminalReply { error: reply.error, ..OpenTerminalReply::default() };
        };
        let session = self.0.parts.sessions.list().await.sessions.into_iter();
        let session = session.into_iter().find(|session| session.session_id == session_id);
        OpenTerminalReply {
            success: true,
            screen_content: self.0.parts.sessions.screen(&session_id).await,
            shell: session.as_ref().map(|session| session.command.clone()).unwrap_or_default(),
            web_url: session.as_ref().and_then(|session| session.web_url.clone()),
            cols: session.as_ref().map(|session| session.cols),
            rows: session.as_ref().map(|session| session.rows),
            pid: info.and_then(|info| info.pid),
            reused: was_up.then_some(true),
            session_id,
            ..OpenTerminalReply::default()
        }
    }

    /// Stops services, after those that need them.
    pub(crate) async fn down(&self, caller: &Arc<Caller>, verb: StopServices) -> ServicesReply {
        let project = match self.0.find_project(caller).await {
            Ok(project) => project,
            Err(error) => return refusal(error),
        };
        let _changing = self.0.changing.lock().await;
        self.0.stop(&project, &verb.names).await
    }

    /// Stops services and starts them again.
    pub(crate) async fn restart(&self, caller: &Arc<Caller>, verb: RestartServices) -> ServicesReply {
        let project = match self.0.find_project(caller).await {
            Ok(project) => project,
            Err(error) => return refusal(error),
        };
        let stopped = {
            let _changing = self.0.changing.lock().await;
            self.0.stop(&project, &verb.names).await
        };
        if !stopped.success {
            return stopped;
        }
        // Those that need the named ones were stopped as well.
        let mut names: Vec<String> = stopped.services.into_iter().map(|info| info.name).collect();
        names.extend(verb.names.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
        if names.is_empty() {
            return refusal("no service of the project runs; start them with: steplatch up".to_owned());
        }
        self.up(caller, StartServices { names, detach: false }).await
    }

    /// Lists services.
    pub(crate) async fn list(&self, caller: &Arc<Caller>, verb: ListServices) -> ServicesReply {
        let project = match self.0.find_project(caller).await {
            Ok(project) => project,
            Err(error) => return refusal(error),
        };
        let mut services = self.0.describe(&project).await;
        if verb.all {
            let others: Vec<_> = self
                .0
                .services
                .lock()
                .iter()
                .filter(|((directory, _), _)| *directory != project.directory)
                .map(|((directory, name), service)| info_of(directory, name, None, Some(service)))
                .collect();
            services.extend(others);
            self.0.add_ports(&mut services).await;
        }
        ServicesReply { success: true, services, problems: project.problems().collect(), error: None }
    }
}

fn refusal(error: String) -> ServicesReply {
    ServicesReply { error: Some(error), ..ServicesReply::default() }
}

impl Shared {
    async fn is_up(&self, caller: &Caller, name: &str) -> bool {
        let Ok(project) = self.find_project(caller).await else { return false };
        let service = self.services.lock().get(&(project.directory.clone(), name.to_owned())).cloned();
        service.is_some_and(|service| service.state().is_up())
    }

    async fn find_project(&self, caller: &Caller) -> Result<Arc<Project>, String> {
        self.parts.projects.find_project(caller).await.map_err(|error| error.to_string())
    }

    /// Returns the project and the requested services, each after those that it needs.
    async fn ordered(&self, caller: &Caller, names: &[String]) -> Result<(Arc<Project>, Vec<String>), String> {
        let project = self.find_project(caller).await?;
        let declared: Vec<String> = project.services.keys().cloned().collect();
        let requested = if names.is_empty() { &declared } else { names };
        let ordered = start_order(&project.services, requested).map_err(|error| {
            let problems: Vec<String> = project.problems().collect();
            if problems.is_empty() { error.to_string() } else { format!("{error}\n{}", problems.join("\n")) }
        })?;
        if ordered.is_empty() {
            let directory = project.directory.display();
            return Err(format!(
                "the project {directory} declares no services; add a table [services.NAME] to its steplatch.toml: \
                 steplatch docs services"
            ));
        }
        Ok((project, ordered))
    }

    /// Returns a service, started if it does not run.
    ///
    /// # Errors
    /// If it runs with another declaration.
    fn ensure(self: Arc<Self>, caller: &Caller, project: &Project, name: &str) -> Result<Arc<Service>, String> {
        let declaration = project.services[name].clone();
        let key = (project.directory.clone(), name.to_owned());
        let existing = self.services.lock().get(&key).cloned();
        let mut attempt = 0;
        if let Some(existing) = existing {
            let stored = existing.stored.lock().clone();
            if existing.is_supervised() {
                let differences = declaration.differences(&stored.declaration);
                return match differences.is_empty() {
                    true => Ok(existing),
                    false => Err(format!(
                        "service '{name}' runs as it was declared before; {} changed since: steplatch restart {name}",
                        differences.join(", ")
                    )),
                };
            }
            attempt = stored.attempt + 1;
        }
        let variables = caller.environment.iter();
        let variables =
            variables.filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())));
        let stored = StoredService {
            project: project.directory.clone(),
            name: name.to_owned(),
            declaration,
            environment: variables.collect(),
            attempt,
            started: self.parts.clock.now(),
        };
        let service = self.insert(stored);
        self.spawn(service.clone(), false);
        Ok(service)
    }

    fn insert(&self, stored: StoredService) -> Arc<Service> {
        let key = (stored.project.clone(), stored.name.clone());
        let service = Arc::new(Service::new(stored));
        self.services.lock().insert(key, service.clone());
        service
    }

    /// Supervises a service. An adopted one may run in the terminal of its last attempt.
    fn spawn(self: Arc<Self>, service: Arc<Service>, is_adopted: bool) {
        tokio::spawn(async move {
            let supervision = AssertUnwindSafe(Box::pin(self.clone().supervise(service.clone(), is_adopted)));
            if supervision.catch_unwind().await.is_err() {
                let reason = "its supervision failed by an error of steplatch; its terminal may still run".to_owned();
                self.finish(&service, ServiceState::Failed, Some(reason)).await;
            }
        });
    }

    /// Stops services of a project after those that need them. Returns the stopped ones.
    async fn stop(&self, project: &Project, names: &[String]) -> ServicesReply {
        let of_project = |(directory, _): &&ServiceKey| *directory == project.directory;
        let known: Vec<String> = self.services.lock().keys().filter(of_project).map(|(_, name)| name.clone()).collect();
        if let Some(name) = names.iter().find(|name| !known.contains(name) && !project.services.contains_key(*name)) {
            let declared: Vec<&str> = project.services.keys().map(String::as_str).collect();
            return refusal(format!("there is no service '{name}'; declared are {}", declared.join(", ")));
        }
        let mut to_stop: Vec<String> = if names.is_empty() { known.clone() } else { names.to_vec() };
        to_stop.retain(|name| known.contains(name));
        let find = |name: &str| self.services.lock().get(&(project.directory.clone(), name.to_owned())).cloned();
        let needs = |name: &str, needed: &str| {
            find(name)
                .is_some_and(|service| service.stored.lock().declaration.after.iter().any(|after| after == needed))
        };
        let mut next = 0;
        while next < to_stop.len() {
            let needed = to_stop[next].clone();
            let above = known.iter().filter(|name| !to_stop.contains(name) && needs(name, &needed));
            let above: Vec<String> = above.cloned().collect();
            to_stop.extend(above);
            next += 1;
        }
        let (mut stopped, mut remaining, mut error) = (Vec::new(), to_stop, None);
        // Each service ends after those that need it.
        while let Some(position) = remaining
            .iter()
            .position(|name| !remaining.iter().any(|other| other != name && needs(other, name)))
            .or((!remaining.is_empty()).then_some(0))
        {
            let name = remaining.remove(position);
            let Some(service) = find(&name) else { continue };
            if service.is_supervised() {
                service.stop_requested.send_replace(true);
                service.end().await;
            } else {
                self.close_terminal(&service).await;
                service.set(|status| *status = Status::default());
            }
            stopped.push(info_of(&project.directory, &name, project.services.get(&name), Some(&service)));
            let status = service.status.borrow().clone();
            if status.state == ServiceState::Down {
                self.services.lock().remove(&(project.directory.clone(), name));
            } else {
                error =
                    error.or(Some(format!("service '{name}' was not stopped: {}", status.reason.unwrap_or_default())));
            }
        }
        self.store().await;
        ServicesReply { success: error.is_none(), services: stopped, problems: Vec::new(), error }
    }

    async fn close_terminal(&self, service: &Service) {
        let Some(session_id) = service.status.borrow().session_id.clone() else { return };
        let caller = caller_of(&service.stored.lock());
        self.parts.sessions.exit(&caller, ExitTerminal { session_id, ..ExitTerminal::default() }).await;
    }

    /// Stores the services that run.
    async fn store(&self) {
        let _writing = self.writing.lock().await;
        let services: Vec<StoredService> = {
            let services = self.services.lock();
            let running = services.values().filter(|service| service.is_supervised());
            running.map(|service| service.stored.lock().clone()).collect()
        };
        let text = serde_json::to_string(&StoredServices { version: VERSION, services })
            .expect("the keys of the state are strings");
        let file = self.file.clone();
        let written = tokio::task::spawn_blocking(move || write_private_text(&file, &text)).await;
        if let Err(error) = written.map_err(std::io::Error::other).flatten() {
            tracing::warn!(%error, file = %self.file.display(), "failed to store the state of services");
        }
    }

    /// Runs a service until it is stopped, has ended for good, or the daemon stops.
    async fn supervise(self: Arc<Self>, service: Arc<Service>, mut is_adopted: bool) {
        let mut history = RestartHistory::default();
        loop {
            if let Err(reason) = self.wait_for_needs(&service).await {
                return self.finish(&service, ServiceState::Failed, Some(reason)).await;
            }
            if *service.stop_requested.borrow() {
                return self.finish(&service, ServiceState::Down, None).await;
            }
            if !std::mem::take(&mut is_adopted) {
                let fresh = {
                    let mut stored = service.stored.lock();
                    (stored.attempt, stored.started) = (stored.attempt + 1, self.parts.clock.now());
                    stored.clone()
                };
                self.close_ended_terminal(&fresh).await;
            }
            self.store().await;
            let running = match self.open(&service).await {
                Ok(running) => running,
                Err(reason) => return self.finish(&service, ServiceState::Failed, Some(reason)).await,
            };
            let end = self.follow(&service, &running).await;
            let (stored, now) = (service.stored.lock().clone(), self.parts.clock.now());
            let (exit_code, reason) = match end {
                RunEnd::Left => return,
                RunEnd::StopRequested => {
                    let result = self.end_program(&service, &stored, &running).await;
                    let (state, reason) = match result {
                        Ok(reason) => (ServiceState::Down, reason),
                        Err(error) => (ServiceState::Failed, Some(error)),
                    };
                    return self.finish(&service, state, reason).await;
                }
                RunEnd::NotReady(reason) => {
                    // Its terminal shows what it has printed.
                    let stopped = self.signal_and_wait(&stored, &running).await;
                    let reason = match stopped {
                        Ok(_) => reason,
                        Err(error) => format!("{reason}; {error}"),
                    };
                    return self.finish(&service, ServiceState::Failed, Some(reason)).await;
                }
                // Another attempt would find the port taken as well.
                RunEnd::PortTaken { exit_code, reason } => {
                    service.set(|status| status.exit_code = exit_code);
                    return self.finish(&service, ServiceState::Failed, Some(reason)).await;
                }
                RunEnd::Ended { exit_code, reason } => (exit_code, reason),
            };
            service.set(|status| (status.exit_code, status.pid) = (exit_code, None));
            let declaration = &stored.declaration;
            let uptime = now.since(stored.started);
            match decide_restart(declaration.restart, declaration.max_restarts, exit_code, uptime, history) {
                RestartDecision::Stay => return self.finish(&service, ServiceState::Ended, Some(reason)).await,
                RestartDecision::GiveUp => {
                    let reason = format!("{reason}; given up after {} restarts", history.count);
                    return self.finish(&service, ServiceState::Failed, Some(reason)).await;
                }
                RestartDecision::Restart { after, history: next } => {
                    tracing::info!(service = stored.name, reason, ?after, "a service has ended, and is started again");
                    history = next;
                    service.set(|status| {
                        status.state = ServiceState::BackingOff;
                        (status.reason, status.restarts) = (Some(reason), next.count);
                    });
                    let mut stop_requested = service.stop_requested.subscribe();
                    tokio::select! {
                        () = self.parts.clock.sleep(after) => {}
                        _ = stop_requested.wait_for(|is_requested| *is_requested) => {}
                        () = self.wait_until_stopped() => return,
                    }
                    self.close_terminal(&service).await;
                }
            }
        }
    }

    async fn finish(&self, service: &Service, state: ServiceState, reason: Option<String>) {
        if let Some(reason) = reason.as_ref().filter(|_| state == ServiceState::Failed) {
            tracing::warn!(service = service.stored.lock().name, reason, "a service has failed");
        }
        service.set(|status| {
            status.state = state;
            status.pid = None;
            if state == ServiceState::Down {
                status.restarts = 0;
            }
            status.reason = reason;
        });
        self.store().await;
    }

    async fn wait_until_stopped(&self) {
        let mut stop = self.parts.stop.clone();
        // An error means that the daemon is gone.
        let _ = stop.wait_for(Option::is_some).await;
    }

    /// Waits until the services that a service needs are up.
    async fn wait_for_needs(&self, service: &Service) -> Result<(), String> {
        let (project, after) = {
            let stored = service.stored.lock();
            (stored.project.clone(), stored.declaration.after.clone())
        };
        let mut stop_requested = service.stop_requested.subscribe();
        for name in after {
            let needed = self.services.lock().get(&(project.clone(), name.clone())).cloned();
            let state = match needed {
                None => ServiceState::Down,
                Some(needed) => tokio::select! {
                    state = needed.settle() => state,
                    _ = stop_requested.wait_for(|is_requested| *is_requested) => return Ok(()),
                },
            };
            if !state.is_up() {
                return Err(format!("service '{name}', which it needs, is {}", state.name()));
            }
        }
        Ok(())
    }

    /// Opens the terminal of the current attempt, or finds it.
    async fn open(&self, service: &Service) -> Result<Running, String> {
        let stored = service.stored.lock().clone();
        let caller = Arc::new(caller_of(&stored));
        let declaration = &stored.declaration;
        let mut environment = BTreeMap::new();
        for (name, value) in &declaration.environment {
            environment.insert(name.clone(), self.fill_in_secrets(&caller, &stored.name, value).await?);
        }
        let verb = |name: String| OpenTerminal {
            command: Some(declaration.command.clone()),
            working_directory: declaration.directory.clone(),
            environment: Some(environment.clone()),
            name: Some(name),
            host: declaration.host.clone(),
            wait_ready: false,
            cols: 120,
            rows: 30,
            ..OpenTerminal::default()
        };
        let step = step_of(&stored);
        let project = stored.project.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // Another project, or a person, may have a terminal of this name.
        let names = [stored.name.clone(), format!("{project}.{}", stored.name).chars().take(64).collect()];
        let mut error = None;
        for name in names {
            let reply = self.parts.sessions.open(&caller, verb(name.clone()), Some(step.clone())).await;
            if reply.success {
                let running = Running { session_id: reply.session_id, pid: reply.pid.unwrap_or_default() };
                service.set(|status| {
                    status.state = ServiceState::Starting;
                    status.session_id = Some(running.session_id.clone());
                    (status.terminal, status.pid, status.started) =
                        (Some(name), Some(running.pid), Some(stored.started));
                });
                return Ok(running);
            }
            let reason = reply.error.unwrap_or_else(|| "its terminal did not open".to_owned());
            if !reason.contains(" is taken by ") {
                return Err(reason);
            }
            error = Some(reason);
        }
        Err(error.unwrap_or_default())
    }

    /// Closes the terminal of an earlier attempt that has ended, which a service that failed has left for its reader.
    async fn close_ended_terminal(&self, stored: &StoredService) {
        let opened_by = Some(format!("service {}", stored.name));
        let listed = self.parts.sessions.list().await.sessions;
        let is_left = |session: &&SessionInfo| session.exit_code.is_some() && session.opened_by == opened_by;
        for session in listed.iter().filter(is_left) {
            let verb = ExitTerminal { session_id: session.session_id.clone(), ..ExitTerminal::default() };
            self.parts.sessions.exit(&caller_of(stored), verb).await;
        }
    }

    async fn fill_in_secrets(&self, caller: &Caller, service: &str, value: &str) -> Result<String, String> {
        let references = secret_references(value).map_err(|text| format!("'{text}' is not a reference to a secret"))?;
        let mut secrets = BTreeMap::new();
        for reference in references {
            let purpose = format!("for service '{service}'");
            let secret = self.parts.named_secrets.resolve(caller, reference.name, &purpose).await;
            secrets.insert(reference.name.to_owned(), secret.map_err(|error| error.to_string())?.value);
        }
        Ok(with_secrets(value, &secrets))
    }

    /// Follows a running service until it ends, is not ready in time, or is to be stopped.
    async fn follow(&self, service: &Service, running: &Running) -> RunEnd {
        let stored = service.stored.lock().clone();
        let mut stop_requested = service.stop_requested.subscribe();
        let mut ready = std::pin::pin!(async {
            match &stored.declaration.ready {
                Some(ready) => readiness::wait(&self.parts, &caller_of(&stored), running, ready).await,
                None => {
                    self.parts.clock.sleep(MIN_UPTIME).await;
                    Ok(())
                }
            }
        });
        let mut exit = std::pin::pin!(self.exit_of(&stored, running));
        let mut is_ready = false;
        loop {
            tokio::select! {
                biased;
                _ = stop_requested.wait_for(|is_requested| *is_requested) => {
                    service.set(|status| status.state = ServiceState::Stopping);
                    return RunEnd::StopRequested;
                }
                () = self.wait_until_stopped() => return RunEnd::Left,
                end = &mut exit => return end,
                result = &mut ready, if !is_ready => match result {
                    Ok(()) => {
                        is_ready = true;
                        let state = match stored.declaration.ready {
                            Some(_) => ServiceState::Ready,
                            None => ServiceState::Running,
                        };
                        service.set(|status| (status.state, status.reason) = (state, None));
                    }
                    Err(reason) => return RunEnd::NotReady(reason),
                },
            }
        }
    }

    /// Waits until the program of a service has ended.
    async fn exit_of(&self, stored: &StoredService, running: &Running) -> RunEnd {
        let caller = caller_of(stored);
        loop {
            let verb = AwaitOutput {
                session_id: running.session_id.clone(),
                until: AwaitUntil::Exit,
                timeout: EXIT_WAIT_SECONDS,
                ..AwaitOutput::default()
            };
            let reply = self.parts.sessions.wait(&caller, verb).await;
            match reply.reason {
                AwaitReason::Exit => return self.describe_end(stored, running, reply.exit_code).await,
                AwaitReason::Error => {
                    let listed = self.parts.sessions.list().await.sessions;
                    if !listed.iter().any(|session| session.session_id == running.session_id) {
                        return RunEnd::Ended { exit_code: None, reason: "its terminal was closed".to_owned() };
                    }
                    self.parts.clock.sleep(RETRY_PAUSE).await;
                }
                _ => {}
            }
        }
    }

    /// Describes the end of a service: its exit code, its last output, and the owner of a port that it did not get.
    async fn describe_end(&self, stored: &StoredService, running: &Running, exit_code: Option<i32>) -> RunEnd {
        let code = exit_code.map_or_else(|| "it ended".to_owned(), |code| format!("exit code {code}"));
        let screen = self.parts.sessions.screen(&running.session_id).await.unwrap_or_default();
        let mut lines: Vec<&str> = screen.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let last = lines.split_off(lines.len().saturating_sub(3)).join("\n");
        let last: String = last.chars().take(MAX_REASON_CHARS).collect();
        let reason = if last.is_empty() { code } else { format!("{code}: {last}") };
        let is_in_use = ["in use", "eaddrinuse"].iter().any(|text| screen.to_lowercase().contains(text));
        let declared = stored.declaration.ready.as_ref().and_then(readiness::local_port);
        if let Some(port) = ports::port_in_use(&screen).or(declared.filter(|_| is_in_use))
            && let Some(owner) = readiness::describe_owner(&self.parts.sessions, port).await
        {
            return RunEnd::PortTaken { exit_code, reason: format!("port {port} is in use by {owner}\n{reason}") };
        }
        RunEnd::Ended { exit_code, reason }
    }

    /// Ends the program of a service and closes its terminal. Returns a remark about the end.
    async fn end_program(
        &self,
        service: &Service,
        stored: &StoredService,
        running: &Running,
    ) -> Result<Option<String>, String> {
        let remark = self.signal_and_wait(stored, running).await?;
        let caller = caller_of(stored);
        let verb = ExitTerminal { session_id: running.session_id.clone(), ..ExitTerminal::default() };
        let closed = self.parts.sessions.exit(&caller, verb).await;
        if !closed.success && closed.message != "Session not found" {
            return Err(closed.message);
        }
        service.set(|status| status.session_id = None);
        Ok(remark)
    }

    /// Ends the program of a service, by force after its grace.
    async fn signal_and_wait(&self, stored: &StoredService, running: &Running) -> Result<Option<String>, String> {
        let caller = caller_of(stored);
        let stop = &stored.declaration.stop;
        let session_id = running.session_id.clone();
        let refused = if stop.keys.is_empty() {
            let verb = SendSignal { session_id, signal: stop.signal.clone() };
            self.parts.sessions.signal(&caller, verb).await.error
        } else {
            let verb = SendInput { session_id, keys: Some(stop.keys.clone()), ..SendInput::default() };
            self.parts.sessions.send(&caller, verb, None).await.error
        };
        let verb = AwaitOutput {
            session_id: running.session_id.clone(),
            until: AwaitUntil::Exit,
            timeout: stop.grace.as_secs_f64(),
            ..AwaitOutput::default()
        };
        let reply = match refused {
            None => self.parts.sessions.wait(&caller, verb).await.reason,
            Some(error) => {
                tracing::info!(service = stored.name, error, "a service is ended by force");
                AwaitReason::Timeout
            }
        };
        if reply != AwaitReason::Timeout {
            return Ok(None);
        }
        let verb = SendSignal { session_id: running.session_id.clone(), signal: "KILL".to_owned() };
        match self.parts.sessions.signal(&caller, verb).await.error {
            None => Ok(Some(format!("killed: it did not end within {} s", stop.grace.as_secs_f64()))),
            Some(error) => Err(error),
        }
    }

    /// Describes the services of a project: the declared ones, and those that run though they are not declared any more.
    async fn describe(&self, project: &Project) -> Vec<ServiceInfo> {
        let mut infos: Vec<ServiceInfo> = {
            let services = self.services.lock();
            let names: std::collections::BTreeSet<&String> = project
                .services
                .keys()
                .chain(services.keys().filter(|(directory, _)| *directory == project.directory).map(|(_, name)| name))
                .collect();
            let info = |name: &String| {
                let service = services.get(&(project.directory.clone(), name.clone()));
                info_of(&project.directory, name, project.services.get(name), service)
            };
            names.into_iter().map(info).collect()
        };
        self.add_ports(&mut infos).await;
        let sessions = self.parts.sessions.list().await.sessions;
        let now = self.parts.clock.now().as_seconds();
        for info in infos.iter_mut().filter(|info| info.state.is_up()) {
            let limit = project.services.get(&info.name).and_then(|declared| declared.stalled_after);
            let session = sessions.iter().find(|session| Some(&session.session_id) == info.session_id.as_ref());
            let Some((limit, session)) = limit.zip(session) else { continue };
            let silence = now - session.last_activity;
            if silence > limit.as_secs_f64() {
                info.state = ServiceState::Stalled;
                info.reason = Some(format!("no output for {silence:.0} s"));
            }
        }
        infos
    }

    async fn add_ports(&self, infos: &mut Vec<ServiceInfo>) {
        let pids: Vec<Option<i32>> = infos.iter().map(|info| info.pid).collect();
        if pids.iter().all(Option::is_none) {
            return;
        }
        let look =
            move || pids.into_iter().map(|pid| pid.map(ports::listening_ports).unwrap_or_default()).collect::<Vec<_>>();
        let found = tokio::task::spawn_blocking(look).await.unwrap_or_default();
        for (info, ports) in infos.iter_mut().zip(found) {
            info.ports = ports.into_iter().collect();
        }
    }
}

/// Returns the name of the opening of the terminal of the current attempt.
fn step_of(stored: &StoredService) -> String {
    // The attempts of a service that was stopped are counted anew.
    format!("service {} {} {} {}", stored.project.display(), stored.name, stored.started.0, stored.attempt)
}

/// Returns the caller of the terminal of a service.
fn caller_of(stored: &StoredService) -> Caller {
    let environment = stored.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let name = Some(format!("service {}", stored.name));
    Caller { name, ..Caller::unnamed(stored.project.clone(), environment) }
}

fn info_of(
    project: &std::path::Path,
    name: &str,
    declared: Option<&ServiceDeclaration>,
    service: Option<&Arc<Service>>,
) -> ServiceInfo {
    let status = service.map(|service| service.status.borrow().clone()).unwrap_or_default();
    let is_local = declared.is_none_or(|declared| declared.host.is_none());
    ServiceInfo {
        name: name.to_owned(),
        project: project.display().to_string(),
        state: status.state,
        description: declared.and_then(|declared| declared.description.clone()),
        session_id: status.session_id,
        terminal: status.terminal.filter(|_| status.state != ServiceState::Down),
        // The process ids of a remote host mean nothing here.
        pid: status.pid.filter(|_| is_local),
        ports: Vec::new(),
        started_at: status.started.map(to_iso8601),
        restarts: status.restarts,
        exit_code: status.exit_code,
        reason: status.reason,
    }
}
