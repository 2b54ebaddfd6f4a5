//! The task of a service: its terminal, its readiness, its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use steplatch_access::Caller;
use steplatch_protocol::{
    AwaitOutput, AwaitReason, AwaitUntil, ExitTerminal, OpenTerminal, SendInput, SendSignal, ServiceState, SessionInfo,
};
use steplatch_supervisor::{RestartDecision, RestartHistory, decide_restart, ports};
use steplatch_workflow::substitute::{secret_references, with_secrets};

use super::{Service, Shared, StoredService, caller_of, readiness};

/// Time limit of one wait for the end of a service; another one follows.
const EXIT_WAIT_SECONDS: f64 = 3600.0;

/// Time after which a service without a condition to be ready is considered to run.
const MIN_UPTIME: Duration = Duration::from_secs(1);

/// Pause before another look at a terminal whose host does not answer.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Maximum length of the last output in the reason of an end, in characters.
const MAX_REASON_CHARS: usize = 400;

/// The terminal of a service.
#[derive(Debug, Clone)]
pub(super) struct Running {
    pub(super) session_id: String,
    pub(super) pid: i32,
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

impl Shared {
    /// Runs a service until it is stopped, has ended for good, or the daemon stops.
    pub(super) async fn supervise(self: Arc<Self>, service: Arc<Service>, mut is_adopted: bool) {
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

    pub(super) async fn finish(&self, service: &Service, state: ServiceState, reason: Option<String>) {
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
}

/// Returns the name of the opening of the terminal of the current attempt.
fn step_of(stored: &StoredService) -> String {
    // The attempts of a service that was stopped are counted anew.
    format!("service {} {} {} {}", stored.project.display(), stored.name, stored.started.0, stored.attempt)
}
