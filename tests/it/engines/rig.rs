//! A home with a run engine, and every part that can crash.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, CommandOutput, Home, eventually_blocking, free_port, skip_test};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// A home, its daemon, and its run engine.
pub(crate) struct Rig {
    pub(crate) home: Home,
    pub(crate) agent: Agent,
    temporal: Option<Temporal>,
}

/// A Temporal development server, and a worker of the home.
struct Temporal {
    programs: Programs,
    directory: tempfile::TempDir,
    port: u16,
    server: Mutex<Option<Child>>,
    worker: Mutex<Option<Child>>,
    /// Workers of other homes.
    others: Mutex<Vec<Child>>,
}

/// The programs for Temporal, as installed by `cargo xtask test`.
struct Programs {
    server: PathBuf,
    worker: PathBuf,
}

impl Programs {
    fn find() -> Option<Self> {
        let target = Path::new(STEPLATCH).parent()?.parent()?;
        let server = target.join("clients/temporal/bin/temporal");
        let worker = target.join("temporal/debug/steplatch-temporal");
        (server.is_file() && worker.is_file()).then_some(Self { server, worker })
    }
}

impl Rig {
    /// Creates a rig of the daemon's own engine.
    #[allow(clippy::unnecessary_wraps, reason = "same signature as for engines that may be missing")]
    pub(crate) fn on_sqlite(_case: &str) -> Option<Self> {
        let home = Home::new(STEPLATCH);
        Some(Self { agent: Agent::new(&home), home, temporal: None })
    }

    /// Creates a Temporal rig, with its own server and worker.
    pub(crate) fn on_temporal(case: &str) -> Option<Self> {
        let Some(programs) = Programs::find() else {
            skip_test(&format!(
                "{case} needs Temporal's server and steplatch-temporal; cargo xtask test installs them"
            ));
            return None;
        };
        let home = Self::home_on_temporal();
        let temporal = Temporal {
            programs,
            directory: tempfile::tempdir().unwrap(),
            port: free_port(),
            server: Mutex::default(),
            worker: Mutex::default(),
            others: Mutex::default(),
        };
        let rig = Self { agent: Agent::new(&home), home, temporal: Some(temporal) };
        rig.start_server();
        rig.start_worker();
        rig.await_worker();
        Some(rig)
    }

    /// Creates a home with runs on Temporal, but without a server and a worker.
    pub(crate) fn home_on_temporal() -> Home {
        let home = Home::new(STEPLATCH);
        let settings = home.path().join(".config/steplatch");
        std::fs::create_dir_all(&settings).unwrap();
        std::fs::write(settings.join("config.toml"), "[engine]\nkind = \"temporal\"\n").unwrap();
        home
    }

    /// Starts a run of a state machine and returns its id.
    pub(crate) fn begin(&self, definition: Value) -> String {
        self.begin_with(definition, json!({}))
    }

    /// Starts a run with further arguments and returns its id.
    pub(crate) fn begin_with(&self, definition: Value, more_arguments: Value) -> String {
        expect_run_id(&self.request_run(definition, more_arguments))
    }

    /// Starts a run of a file with functions and returns its id.
    pub(crate) fn begin_file(&self, text: &str, more_arguments: Value) -> String {
        let file = self.home.path().join("story.py");
        std::fs::write(&file, text).unwrap();
        let mut arguments = json!({"workflow_file": file, "wait_seconds": 0});
        for (name, value) in more_arguments.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        expect_run_id(&self.agent.call_tool("run_workflow", arguments))
    }

    /// Requests a run of a state machine with further arguments and returns the reply.
    pub(crate) fn request_run(&self, definition: Value, more_arguments: Value) -> Value {
        let mut arguments = json!({"workflow_definition": definition, "wait_seconds": 0, "save_on_success": false});
        for (name, value) in more_arguments.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        self.agent.call_tool("run_workflow", arguments)
    }

    /// Returns the current state of a run, as reported to the agent.
    pub(crate) fn get_run(&self, run: &str) -> Value {
        self.agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 0}))
    }

    /// Returns the newest nested run of a run, as listed.
    pub(crate) fn nested_run(&self, run: &str) -> Option<Value> {
        let list = self.home.run(&["runs", "list", "--json"]).json();
        list["runs"].as_array()?.iter().find(|candidate| candidate["parent_run_id"] == *run).cloned()
    }

    /// Waits for the end of a run and returns it. On a busy computer, a run with a thousand calls takes some minutes.
    pub(crate) fn wait_for_end(&self, run: &str) -> Value {
        let is_finished = |run: &Value| ["completed", "failed", "cancelled"].map(Value::from).contains(&run["status"]);
        let wait = || self.agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 120}));
        let outcome = (0..3).map(|_| wait()).find(is_finished);
        outcome.unwrap_or_else(|| panic!("{}", self.get_run(run)))
    }

    /// Waits until a run or a nested run waits at a gate and returns the gate's id.
    pub(crate) fn wait_for_gate(&self, run: &str) -> String {
        eventually_blocking("the gate is open", || {
            let run: Value = serde_json::from_str(&self.home.run(&["runs", "show", run, "--json"]).stdout).ok()?;
            Some(run["pending_gates"].get(0)?["gate_id"].as_str()?.to_owned())
        })
    }

    /// Answers a gate as a person and repeats the answer if the engine has not stored it in time.
    pub(crate) fn answer_gate(&self, gate: &str, answer: &str) {
        eventually_blocking("the answer is stored", || {
            let output = self.home.run(&["gates", "answer", gate, answer]);
            // An earlier answer may have been stored after all.
            let is_stored = output.code == 0 || output.stderr.contains("already");
            assert!(is_stored || output.stderr.contains("not stored yet"), "{output:?}");
            is_stored
        });
    }

    /// Waits until the journal of the home has a run in a state.
    pub(crate) fn wait_for_state(&self, run: &str, state: &str) {
        eventually_blocking("the run is in the state", || {
            let events = self.home.run(&["runs", "events", run, "--json"]).stdout;
            events.lines().any(|line| line.contains(&format!("\"{state}\"")))
        });
    }

    /// Returns the status of the daemon, starting one if none runs.
    pub(crate) fn daemon_status(&self) -> Value {
        // The killed daemon may still answer while it dies.
        eventually_blocking("the daemon answers", || {
            self.home.run(&["daemon", "start"]);
            let status = self.home.run(&["daemon", "status", "--json"]);
            (status.code == 0).then(|| status.json())
        })
    }

    /// Kills the daemon and the part that decides its runs.
    pub(crate) fn crash(&self) {
        let daemon = self.daemon_status();
        self.kill_worker();
        kill(&daemon["pid"], Signal::KILL);
    }

    /// Restarts the killed part and waits until runs continue.
    pub(crate) fn recover(&self) {
        self.daemon_status();
        if self.temporal.is_some() {
            self.start_worker();
            self.await_worker();
        }
    }

    /// Returns the process id of the terminal host.
    pub(crate) fn host_pid(&self) -> Value {
        self.daemon_status()["hosts"][0]["pid"].clone()
    }

    /// Kills the Temporal worker, if there is one.
    pub(crate) fn kill_worker(&self) {
        if let Some(temporal) = &self.temporal {
            kill_child(&mut temporal.worker());
        }
    }

    /// Kills the Temporal server, but keeps its file.
    pub(crate) fn kill_server(&self) {
        kill_child(&mut self.temporal().server.lock().unwrap());
    }

    /// Starts the Temporal server and waits until it answers.
    pub(crate) fn start_server(&self) {
        let temporal = self.temporal();
        *temporal.server.lock().unwrap() = Some(temporal.serve());
        eventually_blocking("the Temporal server answers", || {
            let mut server = temporal.server.lock().unwrap();
            // The server takes some initially free ports in addition to its own, and ends if another program takes one
            // of them.
            if server.as_mut().is_none_or(|server| server.try_wait().unwrap().is_some()) {
                *server = Some(temporal.serve());
            }
            let output = temporal
                .server_command()
                .args(["operator", "namespace", "describe", "default", "--address", &self.address()])
                .output()
                .unwrap();
            output.status.success()
        });
    }

    /// Runs a command of the server's own client.
    pub(crate) fn run_client(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = self.temporal().server_command();
        CommandOutput::from_process(&command.args(arguments).args(["--address", &self.address()]).output().unwrap())
    }

    /// Returns the whole content of the Temporal server's database.
    pub(crate) fn read_stored_data(&self) -> Vec<u8> {
        let directory = std::fs::read_dir(self.temporal().directory.path()).unwrap();
        directory.flatten().flat_map(|entry| std::fs::read(entry.path()).unwrap_or_default()).collect()
    }

    /// Starts a Temporal worker.
    pub(crate) fn start_worker(&self) {
        self.start_worker_with(&[]);
    }

    /// Starts a Temporal worker with these options.
    pub(crate) fn start_worker_with(&self, options: &[&str]) {
        *self.temporal().worker() = Some(self.spawn_worker(&self.home, options));
    }

    /// Starts a Temporal worker of another home. The worker ends with the rig.
    pub(crate) fn start_worker_for(&self, home: &Home, options: &[&str]) {
        let worker = self.spawn_worker(home, options);
        self.temporal().others.lock().unwrap().push(worker);
    }

    fn spawn_worker(&self, home: &Home, options: &[&str]) -> Child {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.worker_log()).unwrap();
        home.steplatch()
            .args(["worker", "--lost-after", "3", "--temporal", &self.address()])
            .args(options)
            .env("STEPLATCH_TEMPORAL_PROGRAM", &self.temporal().programs.worker)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    /// Returns the file with the key of the server's stored data.
    pub(crate) fn key_file(&self) -> PathBuf {
        self.home.path().join("state/temporal.key")
    }

    /// Returns the log file of the workers.
    pub(crate) fn worker_log(&self) -> PathBuf {
        self.home.path().join("worker.log")
    }

    /// Waits until a worker is connected to the daemon.
    pub(crate) fn await_worker(&self) {
        let definition = json!({"initial_state": "done", "states": {"done": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}});
        eventually_blocking("a worker is connected", || {
            let reply = self.request_run(definition.clone(), json!({}));
            reply["run_id"].as_str().filter(|run| !run.is_empty()).map(|run| self.wait_for_end(run))
        });
    }

    /// Returns the address of the Temporal server.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.temporal().port)
    }

    fn temporal(&self) -> &Temporal {
        self.temporal.as_ref().expect("this case runs on Temporal")
    }
}

impl Temporal {
    fn server_command(&self) -> Command {
        let mut command = Command::new(&self.programs.server);
        // With the user's home, the server would read the user's settings.
        command.env("HOME", self.directory.path()).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn serve(&self) -> Child {
        self.server_command()
            .args(["server", "start-dev", "--headless", "--ip", "127.0.0.1", "--log-level", "error", "--port"])
            .arg(self.port.to_string())
            .arg("--db-filename")
            .arg(self.directory.path().join("temporal.db"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn worker(&self) -> MutexGuard<'_, Option<Child>> {
        self.worker.lock().unwrap()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(temporal) = &self.temporal {
            kill_child(&mut temporal.worker());
            for process in temporal.others.lock().unwrap().drain(..) {
                kill_child(&mut Some(process));
            }
            kill_child(&mut temporal.server.lock().unwrap());
            if std::thread::panicking() {
                let output = std::fs::read_to_string(self.worker_log()).unwrap_or_default();
                let last = output.lines().count().saturating_sub(40);
                let output: Vec<&str> = output.lines().skip(last).collect();
                #[allow(clippy::print_stderr, reason = "the log of a failed case")]
                {
                    eprintln!("last log lines of the workers:\n{}", output.join("\n"));
                }
            }
        }
    }
}

/// Returns the id of a requested run.
pub(crate) fn expect_run_id(reply: &Value) -> String {
    reply["run_id"].as_str().filter(|run| !run.is_empty()).unwrap_or_else(|| panic!("{reply}")).to_owned()
}

/// Sends a signal to a process.
pub(crate) fn kill(pid: &Value, signal: Signal) {
    let pid = i32::try_from(pid.as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn kill_child(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
