//! Requests to open a terminal that return an open one with the same name.

use std::sync::Arc;

use steplatch_access::Caller;
use steplatch_protocol::{ContentMode, ExitTerminal, GetScreenContent, OpenTerminal, OpenTerminalReply, SessionInfo};

use crate::error::SessionError;
use crate::pinned_hosts::is_this_machine;
use crate::sessions::Sessions;

impl Sessions {
    /// Returns the open terminal of the name, or `None` if there is none. An ended one is closed, so that its name is
    /// free.
    ///
    /// # Errors
    /// If the request has no name, or the terminal runs something else.
    pub(crate) async fn find_reusable(
        &self,
        caller: &Arc<Caller>,
        verb: &OpenTerminal,
    ) -> Result<Option<OpenTerminalReply>, SessionError> {
        let Some(name) = &verb.name else {
            return Err("reuse needs the name of the terminal".to_owned().into());
        };
        let listed = self.list().await.sessions;
        let Some(session) = listed.into_iter().find(|session| session.name.as_ref() == Some(name)) else {
            return Ok(None);
        };
        if session.exit_code.is_some() {
            self.exit(caller, ExitTerminal { session_id: session.session_id, ..ExitTerminal::default() }).await;
            return Ok(None);
        }
        let differences = differences(verb, &session);
        if !differences.is_empty() {
            let error = format!(
                "the terminal '{name}' is another one: {}; choose another name, or close it with exit_terminal",
                differences.join(", ")
            );
            return Err(error.into());
        }
        let read = GetScreenContent {
            session_id: session.session_id.clone(),
            content_mode: ContentMode::Screen,
            ..GetScreenContent::default()
        };
        let screen = self.read(caller, read).await;
        Ok(Some(OpenTerminalReply {
            success: true,
            session_id: session.session_id,
            shell: session.command,
            web_url: session.web_url,
            screen_content: screen.screen_content,
            timestamp: screen.timestamp,
            pid: Some(session.pid),
            cols: Some(session.cols),
            rows: Some(session.rows),
            reused: Some(true),
            ..OpenTerminalReply::default()
        }))
    }
}

/// Returns the differences between a request and an open terminal. The directory of a shell is not compared, because
/// its commands change it.
fn differences(verb: &OpenTerminal, session: &SessionInfo) -> Vec<String> {
    let mut differences = Vec::new();
    let command = match &verb.command {
        Some(command) => shell_words::join(command),
        None => shell_words::split(&verb.shell).map_or_else(|_| verb.shell.clone(), shell_words::join),
    };
    if command != session.command {
        differences.push(format!("it runs '{}', not '{command}'", session.command));
    }
    let host = verb.host.as_ref().filter(|host| !is_this_machine(host));
    if host != session.host.as_ref() {
        let place =
            |host: Option<&String>| host.map_or_else(|| "this machine".to_owned(), |host| format!("host '{host}'"));
        differences.push(format!("it is on {}, not on {}", place(session.host.as_ref()), place(host)));
    }
    differences
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn other_commands_and_hosts_are_named() {
        let session = |command: &str, host: Option<&str>| -> SessionInfo {
            serde_json::from_value(json!({
                "session_id": "term_1", "command": command, "state": "active", "created_at": 0.0, "last_activity": 0.0,
                "cols": 80, "rows": 24, "pid": 1, "host": host,
            }))
            .unwrap()
        };
        let verb = |value: serde_json::Value| serde_json::from_value::<OpenTerminal>(value).unwrap();
        let python = verb(json!({"name": "py", "command": ["python3", "-q"]}));
        assert!(differences(&python, &session("python3 -q", None)).is_empty());
        assert_eq!(differences(&python, &session("bash", None)), ["it runs 'bash', not 'python3 -q'"]);
        assert_eq!(
            differences(&python, &session("python3 -q", Some("box"))),
            ["it is on host 'box', not on this machine"]
        );
        assert!(differences(&verb(json!({"shell": "bash"})), &session("bash", None)).is_empty());
    }
}
