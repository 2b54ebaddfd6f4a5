//! The parts of a daemon's configuration that can change while it runs.

use std::path::PathBuf;
use std::sync::Arc;

use steplatch_access::{Approver, ProofPolicy};
use steplatch_host::{Hosts, RemoteHostConfig};
use steplatch_notify::Rule;
use steplatch_protocol::{EngineKind, PageServerRecord, ToolListSize};
use steplatch_runs::EnginePolicy;
use steplatch_services::RemoteServices;
use steplatch_sessions::CommandPolicy;
use steplatch_workflow::Proof;
use tokio::sync::watch::Receiver;

use crate::named_secrets::SecretSetting;
use crate::read_commands::AllowedCommand;

/// Settings that take effect without a restart. The program that starts the daemon sends a new value when they change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    /// True if proven workflows of the library are separate tools.
    pub library_tools: bool,
    /// Size of the list of tools for MCP clients.
    pub tool_list_size: ToolListSize,
    /// Commands that the tool `read_command` runs.
    pub read_commands: Vec<AllowedCommand>,
    /// Services whose workflows are tools.
    pub remotes: Vec<steplatch_remote::Config>,
    /// Remote hosts for terminals.
    pub hosts: Vec<RemoteHostConfig>,
    /// Weakest accepted proof of a person, at gates for people.
    pub gate_proof: Proof,
    /// Minutes that a tab of the page may keep the approver's passphrase; 0 disables this.
    pub remember_minutes: u64,
    /// True if pagers and editors open in shells for one command.
    pub command_pagers: bool,
    /// True if inner shells are integrated with their first command.
    pub command_integration: bool,
    /// The engine of runs without an explicit engine.
    pub engine: EngineKind,
    /// Rules of notifications of people.
    pub notifications: Vec<Rule>,
    /// Secrets that texts refer to, with unique names.
    pub secrets: Vec<SecretSetting>,
}

/// The proof of a person that the current configuration requires.
#[derive(Debug)]
pub(crate) struct GateProof(pub(crate) Receiver<Configuration>);

impl ProofPolicy for GateProof {
    fn weakest(&self) -> Proof {
        self.0.borrow().gate_proof
    }

    fn remember_minutes(&self) -> u64 {
        self.0.borrow().remember_minutes
    }
}

/// The current settings of single commands, and the address of the page.
#[derive(Debug)]
pub(crate) struct CommandSettings {
    pub(crate) configuration: Receiver<Configuration>,
    /// The directory with the record of the page's server.
    pub(crate) runtime: PathBuf,
}

impl CommandPolicy for CommandSettings {
    fn opens_pagers(&self) -> bool {
        self.configuration.borrow().command_pagers
    }

    fn integrates(&self) -> bool {
        self.configuration.borrow().command_integration
    }

    fn page(&self) -> Option<String> {
        PageServerRecord::running(&self.runtime).map(|record| record.url())
    }
}

/// The engine that the current configuration chooses.
#[derive(Debug)]
pub(crate) struct DefaultEngine(pub(crate) Receiver<Configuration>);

impl EnginePolicy for DefaultEngine {
    fn default_engine(&self) -> EngineKind {
        self.0.borrow().engine
    }
}

/// Applies the services of the configuration, now and whenever it changes.
pub(crate) fn follow_remotes(configuration: Receiver<Configuration>, remotes: RemoteServices) {
    follow(
        configuration,
        |configuration| configuration.remotes.clone(),
        move |remotes_now| remotes.configure(remotes_now),
    );
}

/// Makes the approver record each stricter proof, even if no question required it.
pub(crate) fn follow_gate_proof(configuration: Receiver<Configuration>, approver: &Arc<Approver>) {
    let approver = approver.clone();
    follow(
        configuration,
        |configuration| vec![configuration.gate_proof],
        move |_| {
            approver.requires();
        },
    );
}

/// Applies the remote hosts of the configuration, now and whenever they change.
pub(crate) fn follow_hosts(configuration: Receiver<Configuration>, hosts: Hosts) {
    follow(
        configuration,
        |configuration| configuration.hosts.clone(),
        move |hosts_now| hosts.configure_remotes(hosts_now),
    );
}

/// Applies a part of the configuration, now and whenever anything in the configuration changes, because the effect of a
/// part may depend on other parts.
fn follow<T: Send + 'static>(
    mut configuration: Receiver<Configuration>,
    part: impl Fn(&Configuration) -> Vec<T> + Send + 'static,
    apply: impl Fn(&[T]) + Send + 'static,
) {
    apply(&part(&configuration.borrow_and_update()));
    tokio::spawn(async move {
        // Without a sender the configuration never changes.
        while configuration.changed().await.is_ok() {
            let value = part(&configuration.borrow_and_update());
            apply(&value);
        }
    });
}
