//! Services of projects: each runs in a terminal, which one task supervises.
//!
//! The task waits for the services that its service needs, opens the terminal, waits until the service is ready, and
//! decides when it has ended. The state is stored before a terminal is opened, and the opening is a step with the
//! number of the attempt: a daemon that is killed in between finds the terminal of the attempt again, and starts no
//! second process.

mod readiness;
mod task;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steplatch_access::{Caller, NamedSecrets, write_private_text};
use steplatch_clock::{Clock, Timestamp, to_iso8601};
use steplatch_notify::{Kind, Observation, Subject};
use steplatch_project::{Project, Projects};
use steplatch_protocol::{
    DaemonPaths, ExitTerminal, ListServices, OpenTerminal, OpenTerminalReply, RestartServices, ServiceInfo,
    ServiceState, ServicesReply, StartServices, StopServices,
};
use steplatch_sessions::{Sessions, ShutdownMode};
use steplatch_supervisor::{ServiceDeclaration, ports, start_order};
use tokio::sync::watch;

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
    /// The services that have failed.
    failed: watch::Sender<Vec<Observation>>,
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
        let (services, failed, writing, changing) = Default::default();
        let shared = Arc::new(Shared { parts, file, services, failed, writing, changing });
        // A service may need one that comes later.
        let adopted: Vec<_> = stored.into_iter().map(|stored| shared.insert(stored)).collect();
        for service in adopted {
            shared.clone().spawn(service, true);
        }
        Self(shared)
    }

    /// Returns the services that have failed.
    pub(crate) fn failed(&self) -> watch::Receiver<Vec<Observation>> {
        self.0.failed.subscribe()
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

    /// Reports the services that have failed.
    fn report_failed(&self) {
        let services = self.services.lock();
        let failed = services.iter().filter(|(_, service)| service.state() == ServiceState::Failed);
        let observations = failed.map(|((project, name), service)| {
            let subject = Subject {
                service: Some(name.clone()),
                terminal_id: service.status.borrow().session_id.clone(),
                ..Subject::default()
            };
            let key = format!("{} {name}", project.display());
            Observation { kind: Kind::ServiceFailed, key, since: None, subject }
        });
        self.failed.send_replace(observations.collect());
    }

    /// Stores the services that run, and reports those that have failed.
    async fn store(&self) {
        self.report_failed();
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

    async fn add_ports(&self, infos: &mut [ServiceInfo]) {
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
