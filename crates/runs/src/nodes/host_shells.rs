//! Commands of bash nodes on remote hosts: each command runs in a separate shell, and the shell closes afterwards.

use std::sync::Arc;

use steplatch_access::Caller;
use steplatch_nodes::{HostCommand, HostCommandEnd, HostCommands, MAX_OUTPUT_BYTES, Running};
use steplatch_protocol::{ExitTerminal, RunCommand};
use steplatch_sessions::Sessions;

/// Maximum time to wait for one command, in seconds.
const MAX_WAIT_SECONDS: f64 = 3600.0;

/// Shells on remote hosts, opened for one caller.
#[derive(Debug)]
pub(super) struct HostShells {
    pub(super) sessions: Sessions,
    pub(super) caller: Arc<Caller>,
}

impl HostShells {
    async fn run(&self, command: HostCommand) -> HostCommandEnd {
        let HostCommand { host, line, directory, environment, step, limit } = command;
        let verb = RunCommand {
            command: line,
            host: Some(host),
            working_directory: directory,
            environment: Some(environment),
            timeout: limit.map_or(MAX_WAIT_SECONDS, |limit| limit.as_secs_f64().clamp(0.1, MAX_WAIT_SECONDS)),
            limit: u32::try_from(MAX_OUTPUT_BYTES).ok(),
            ..RunCommand::default()
        };
        // Dropping the request closes the shell.
        let reply = self.sessions.run_command(&self.caller, verb, step).await;
        if let Some(session_id) = reply.session_id {
            self.sessions.exit(&self.caller, ExitTerminal { session_id, ..ExitTerminal::default() }).await;
        }
        if reply.timed_out {
            return HostCommandEnd::TimedOut { output: reply.output };
        }
        if reply.awaiting_input {
            let reason = "The command waits for typed input, which a node cannot provide.".to_owned();
            return HostCommandEnd::Failed { reason };
        }
        if !reply.success && reply.exit_code.is_none() {
            let reason = reply.error.unwrap_or_else(|| "The command was not run.".to_owned());
            return HostCommandEnd::Failed { reason };
        }
        let excess = reply.omitted.map(|omitted| (omitted.tail.unwrap_or_default(), omitted.bytes));
        HostCommandEnd::Ended { output: reply.output, rest: excess, exit_code: reply.exit_code }
    }
}

impl HostCommands for HostShells {
    fn run(&self, command: HostCommand) -> Running<'_> {
        Box::pin(Self::run(self, command))
    }
}
