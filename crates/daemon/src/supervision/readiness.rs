//! Waits until a service is ready.

use std::time::Duration;

use reqwest::Url;
use steplatch_access::Caller;
use steplatch_protocol::{AwaitOutput, AwaitReason, Since};
use steplatch_sessions::Sessions;
use steplatch_supervisor::{Readiness, ReadyCondition, ports};

use super::SupervisionParts;
use super::task::Running;

/// Pauses between two looks at a port or an address, from the first to the longest. The kernel reports neither.
const LOOK_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Time limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits until a service is ready.
///
/// # Errors
/// If it is not ready in time, with the reason.
pub(super) async fn wait(
    parts: &SupervisionParts,
    caller: &Caller,
    running: &Running,
    ready: &Readiness,
) -> Result<(), String> {
    let seconds = ready.timeout.as_secs_f64();
    if let ReadyCondition::Pattern(pattern) = &ready.condition {
        let verb = AwaitOutput {
            session_id: running.session_id.clone(),
            pattern: pattern.clone(),
            timeout: seconds,
            since: Some(Since::Offset(0)),
            ..AwaitOutput::default()
        };
        let reply = parts.sessions.wait(caller, verb).await;
        return match reply.reason {
            AwaitReason::Match => Ok(()),
            // The wait for the end of the service reports this.
            AwaitReason::Exit => std::future::pending().await,
            AwaitReason::Timeout => Err(format!("not ready within {seconds} s: its output does not match '{pattern}'")),
            _ => Err(reply.error.unwrap_or_else(|| "its output cannot be read".to_owned())),
        };
    }
    let deadline = parts.clock.now().after(ready.timeout);
    let (mut pause, longest) = LOOK_PAUSES;
    loop {
        let reason = match look(&parts.sessions, running, ready).await {
            Ok(()) => return Ok(()),
            Err(reason) => reason,
        };
        if parts.clock.now() >= deadline {
            return Err(format!("not ready within {seconds} s: {reason}"));
        }
        parts.clock.sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

async fn look(sessions: &Sessions, running: &Running, ready: &Readiness) -> Result<(), String> {
    if let Some(port) = local_port(ready) {
        let pid = running.pid;
        let looked = tokio::task::spawn_blocking(move || {
            (ports::listening_ports(pid).contains(&port), ports::owner_of(port).is_some())
        });
        let (is_own, is_visible) = looked.await.unwrap_or_default();
        if !is_own && is_visible {
            // An answer of another program is not one of the service.
            let owner = describe_owner(sessions, port).await.unwrap_or_else(|| "another program".to_owned());
            return Err(format!("port {port} is in use by {owner}"));
        }
        if let ReadyCondition::Port(_) = ready.condition {
            return if is_own { Ok(()) } else { Err(format!("none of its processes listens on port {port}")) };
        }
    }
    let ReadyCondition::Url(url) = &ready.condition else { return Ok(()) };
    steplatch_remote::install_tls();
    let client = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).no_proxy().build();
    let response = client.map_err(|error| error.to_string())?.get(url).send().await;
    match response {
        Ok(response) if response.status().is_success() => Ok(()),
        Ok(response) => Err(format!("{url} answers with status {}", response.status().as_u16())),
        Err(error) if error.is_connect() => Err(format!("{url} refuses connections")),
        Err(error) if error.is_timeout() => Err(format!("{url} does not answer")),
        Err(error) => Err(format!("{url} cannot be requested: {}", error.without_url())),
    }
}

/// Returns the port of this machine that a condition names.
pub(super) fn local_port(ready: &Readiness) -> Option<u16> {
    match &ready.condition {
        ReadyCondition::Port(port) => Some(*port),
        ReadyCondition::Url(url) => {
            let url = Url::parse(url).ok()?;
            let is_local = matches!(url.host_str()?, "localhost" | "127.0.0.1" | "[::1]");
            url.port_or_known_default().filter(|_| is_local)
        }
        ReadyCondition::Pattern(_) => None,
    }
}

/// Describes the process that listens on a port: `node (pid 4711) of terminal 'web'`.
pub(super) async fn describe_owner(sessions: &Sessions, port: u16) -> Option<String> {
    let owner = tokio::task::spawn_blocking(move || ports::owner_of(port)).await.ok().flatten()?;
    let listed = sessions.list().await.sessions;
    let pid = owner.pid;
    let roots: Vec<i32> = listed.iter().filter(|session| session.host.is_none()).map(|session| session.pid).collect();
    let found = tokio::task::spawn_blocking(move || roots.into_iter().find(|root| ports::belongs_to(pid, *root)));
    let root = found.await.ok().flatten();
    let terminal = listed.iter().find(|session| session.host.is_none() && Some(session.pid) == root);
    let place =
        terminal.map(|session| format!(" of terminal '{}'", session.name.as_ref().unwrap_or(&session.session_id)));
    Some(format!("{} (pid {}){}", owner.name, owner.pid, place.unwrap_or_default()))
}
