//! An in-process daemon, for tests.
//!
//! Owns a daemon in its own directory, reached over a pipe with the same lines as over the socket, and helpers for
//! tests. For tests only: a failure panics with the expectation.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod agent;
mod desk;
mod home;
mod webhook;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use steplatch_clock::Clock;
use steplatch_daemon::{
    Configuration, Daemon, Options, RetentionPolicy, ShutdownHandle, ShutdownMode, Substitutes, WorkerStarter,
};
use steplatch_host::Starter;
use steplatch_protocol::{
    AwaitOutput, AwaitOutputReply, Client, DaemonPaths, GetScreenContent, Hello, OpenTerminal, OpenTerminalReply,
    PROTOCOL_VERSION, RunReply, RunWorkflow, SendInput, SendInputReply, Verb, connect,
};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use agent::{Agent, Calling, Era};
pub use desk::{OwnTerminal, Person};
pub use home::{CommandOutput, Home, settle_fish};
pub use steplatch_clock::{ManualClock, Timestamp};
pub use steplatch_fake as fake;
pub use steplatch_fake::FakeService;
pub use steplatch_patience::{eventually, eventually_blocking, free_port, skip_test};
pub use webhook::{ReceivedRequest, WebhookReceiver};

/// Returns the path of an installed program from `PATH`.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file())
}

/// Returns the name of the user who runs the tests, as known to daemons.
#[must_use]
pub fn user_name() -> String {
    let output = std::process::Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A daemon in this process, with a client.
#[derive(Debug)]
pub struct TestDaemon {
    client: Client,
    paths: DaemonPaths,
    stopper: ShutdownHandle,
    server_task: JoinHandle<()>,
    directory: TempDir,
    configuration: watch::Sender<Configuration>,
    clock: Clock,
}

impl TestDaemon {
    /// Starts a daemon with the usual options.
    pub async fn new() -> Self {
        Self::with(steplatch_terminal::Options::default()).await
    }

    /// Starts a daemon whose terminals have these options.
    pub async fn with(terminals: steplatch_terminal::Options) -> Self {
        Self::start(
            tempfile::tempdir().expect("a temporary directory is created"),
            terminals,
            RetentionPolicy::default(),
        )
        .await
    }

    /// Starts a daemon with this retention of finished runs.
    pub async fn keeping(runs: RetentionPolicy) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory is created");
        Self::start(directory, steplatch_terminal::Options::default(), runs).await
    }

    /// Starts a daemon in this directory.
    pub async fn in_directory(directory: TempDir) -> Self {
        Self::start(directory, steplatch_terminal::Options::default(), RetentionPolicy::default()).await
    }

    /// Starts a daemon in this directory with changeable settings.
    pub async fn configured(directory: TempDir, configuration: Configuration) -> Self {
        let terminals = steplatch_terminal::Options::default();
        Self::start_with(directory, terminals, RetentionPolicy::default(), configuration).await
    }

    /// Starts a daemon with this clock for its runs. Its successors use the same clock.
    pub async fn with_clock(clock: &ManualClock) -> Self {
        let (directory, terminals) =
            (tempfile::tempdir().expect("a temporary directory is created"), Default::default());
        Self::start_at(directory, terminals, RetentionPolicy::default(), Configuration::default(), clock.clock()).await
    }

    /// Changes the settings while the daemon runs.
    pub fn configure(&self, configuration: Configuration) {
        self.configuration.send_replace(configuration);
    }

    async fn start(directory: TempDir, terminals: steplatch_terminal::Options, runs: RetentionPolicy) -> Self {
        Self::start_with(directory, terminals, runs, Configuration::default()).await
    }

    async fn start_with(
        directory: TempDir,
        terminals: steplatch_terminal::Options,
        runs: RetentionPolicy,
        configuration: Configuration,
    ) -> Self {
        Self::start_at(directory, terminals, runs, configuration, Clock::system()).await
    }

    async fn start_again(directory: TempDir, configuration: Configuration, clock: Clock) -> Self {
        let terminals = steplatch_terminal::Options::default();
        Self::start_at(directory, terminals, RetentionPolicy::default(), configuration, clock).await
    }

    async fn start_at(
        directory: TempDir,
        terminals: steplatch_terminal::Options,
        runs: RetentionPolicy,
        configuration: Configuration,
        clock: Clock,
    ) -> Self {
        let paths = DaemonPaths::new(directory.path().join("state"), directory.path().join("run"));
        settle_fish(directory.path());
        let host = Starter::InProcess(Box::new(terminals));
        // Workers of functions need the program; tests of functions use it.
        let workers = WorkerStarter::Disabled;
        let (sender, configuration) = watch::channel(configuration);
        let options = Options {
            paths: paths.clone(),
            host,
            workers,
            runs,
            configuration,
            clock: clock.clone(),
            substitutes: Substitutes::default(),
        };
        let daemon = Daemon::start(options).await.expect("the daemon starts");
        let client = daemon.client();
        let stopper = daemon.stopper();
        let server_task = tokio::spawn(async move { daemon.serve().await.expect("the daemon keeps serving") });
        client.call(hello(directory.path(), "test", false)).await.expect("the daemon accepts the handshake");
        Self { client, paths, stopper, server_task, directory, configuration: sender, clock }
    }

    /// Returns the client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns another client: a person with the name `name`.
    pub async fn person_named(&self, name: &str) -> Client {
        let (client, _) = connect(&self.paths, hello(self.directory.path(), name, true)).await.unwrap();
        client
    }

    /// Returns the daemon's directories.
    #[must_use]
    pub fn paths(&self) -> &DaemonPaths {
        &self.paths
    }

    /// Sends `verb` and returns its reply, of any kind.
    pub async fn call<V: Verb>(&self, verb: V) -> V::Reply {
        self.client.call(verb).await.unwrap()
    }

    /// Opens bash and returns its session.
    pub async fn bash(&self) -> Session<'_> {
        self.open(OpenTerminal { shell: "bash".to_owned(), cols: 80, rows: 24, wait_ready: true, ..Default::default() })
            .await
    }

    /// Opens a terminal and returns its session.
    pub async fn open(&self, verb: OpenTerminal) -> Session<'_> {
        let reply: OpenTerminalReply = self.call(verb).await;
        assert!(reply.success, "{:?}", reply.error);
        Session { daemon: self, id: reply.session_id }
    }

    /// Runs a workflow to its end.
    pub async fn run(&self, definition: Value) -> RunReply {
        self.call(RunWorkflow {
            workflow_definition: Some(definition),
            wait_seconds: Some(60.0),
            ..RunWorkflow::default()
        })
        .await
    }

    /// Starts a run of an unsaved workflow and returns its id without waiting for the run.
    pub async fn begin(&self, definition: Value) -> String {
        let verb = RunWorkflow {
            workflow_definition: Some(definition),
            save_on_success: false,
            wait_seconds: Some(0.0),
            ..RunWorkflow::default()
        };
        self.call(verb).await.run_id
    }

    /// Stops the daemon and waits until it has stopped.
    pub async fn stop(self) {
        drop(self.shut_down(ShutdownMode::CloseTerminals).await);
    }

    /// Waits until the daemon has stopped on its own.
    pub async fn finish(self) {
        tokio::time::timeout(Duration::from_secs(60), self.server_task)
            .await
            .expect("the daemon stops in time")
            .unwrap();
    }

    /// Stops the daemon and starts another one with the same directories and settings. The new daemon finds the
    /// terminals.
    pub async fn restarted(self) -> Self {
        self.restarted_with(|| {}).await
    }

    /// Restarts the daemon like [`Self::restarted`], and calls `act` while no daemon runs.
    pub async fn restarted_with(self, act: impl FnOnce()) -> Self {
        let (configuration, clock) = (self.configuration.borrow().clone(), self.clock.clone());
        let directory = self.shut_down(ShutdownMode::KeepTerminals).await;
        act();
        Self::start_again(directory, configuration, clock).await
    }

    /// Stops the daemon with its terminals and starts another one with the same directories and settings. Nothing
    /// remembers the typed input.
    pub async fn replaced(self) -> Self {
        let (configuration, clock) = (self.configuration.borrow().clone(), self.clock.clone());
        Self::start_again(self.shut_down(ShutdownMode::CloseTerminals).await, configuration, clock).await
    }

    async fn shut_down(self, mode: ShutdownMode) -> TempDir {
        self.stopper.stop(mode);
        tokio::time::timeout(Duration::from_secs(60), self.server_task)
            .await
            .expect("the daemon stops in time")
            .unwrap();
        self.directory
    }
}

/// Returns a greeting that depends on this computer only in the paths of programs.
fn hello(directory: &Path, name: &str, person: bool) -> Hello {
    let environment: BTreeMap<String, String> = [
        ("HOME", directory.to_str().expect("the temporary path is UTF-8")),
        ("PATH", &std::env::var("PATH").unwrap_or_default()),
        ("LC_ALL", "C.UTF-8"),
        ("USER", name),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    Hello {
        protocol_version: PROTOCOL_VERSION,
        client: name.to_owned(),
        cwd: Some(directory.display().to_string()),
        environment: Some(environment),
        person,
        peer: None,
        surface: person.then(|| "cli".to_owned()),
    }
}

/// A terminal of a [`TestDaemon`], with convenience methods.
#[derive(Debug, Clone)]
pub struct Session<'a> {
    daemon: &'a TestDaemon,
    /// Id of the session.
    pub id: String,
}

impl Session<'_> {
    /// Types text.
    pub async fn type_in(&self, text: &str) -> SendInputReply {
        let verb = SendInput { session_id: self.id.clone(), input_text: text.to_owned(), ..SendInput::default() };
        self.daemon.call(verb).await
    }

    /// Waits for a pattern and returns the reply.
    pub async fn wait_for(&self, pattern: &str, timeout: f64) -> AwaitOutputReply {
        let verb =
            AwaitOutput { session_id: self.id.clone(), pattern: pattern.to_owned(), timeout, ..AwaitOutput::default() };
        self.daemon.call(verb).await
    }

    /// Waits for a pattern and returns the match.
    pub async fn expect_text(&self, pattern: &str) -> String {
        let reply = self.wait_for(pattern, 20.0).await;
        reply.match_text.unwrap_or_else(|| panic!("no {pattern:?} on:\n{}\n{:?}", reply.screen_content, reply.error))
    }

    /// Returns the screen.
    pub async fn screen(&self) -> String {
        let verb = GetScreenContent { session_id: self.id.clone(), ..GetScreenContent::default() };
        self.daemon.call(verb).await.screen_content.unwrap()
    }
}
