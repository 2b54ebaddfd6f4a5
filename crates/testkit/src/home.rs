//! A person's empty home directory, for tests of the real program.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use steplatch_protocol::{Client, DaemonPaths, Hello, PROTOCOL_VERSION, connect};
use tempfile::TempDir;

/// A home directory with its own state directory, so that its programs share one daemon. Dropping this value stops the
/// daemon.
#[derive(Debug)]
pub struct Home {
    directory: TempDir,
    steplatch: PathBuf,
    variables: Vec<(String, String)>,
}

/// Prepares a home directory as if fish had already run there. In a new home directory, fish reads all manuals for
/// completions in the background, for a minute of CPU time.
pub fn settle_fish(home: &Path) {
    std::fs::create_dir_all(home.join(".local/share/fish/generated_completions"))
        .expect("a temporary directory is created");
}

impl Home {
    /// Creates a home directory for the program `steplatch`.
    #[must_use]
    pub fn new(steplatch: &str) -> Self {
        // The path must be short, because a socket path has at most 107 bytes.
        let directory =
            tempfile::Builder::new().prefix("home-").tempdir_in("/tmp").expect("a temporary directory is created");
        settle_fish(directory.path());
        Self { directory, steplatch: steplatch.into(), variables: Vec::new() }
    }

    /// Returns the home directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Sets a variable for all programs of this home.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Returns the environment of this home's programs.
    #[must_use]
    pub fn environment(&self) -> Vec<(String, String)> {
        let directory = self.path().to_str().expect("the temporary path is UTF-8");
        [("HOME", directory), ("XDG_RUNTIME_DIR", directory), ("STEPLATCH_STATE_DIR", &format!("{directory}/state"))]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .chain(self.variables.iter().cloned())
            .collect()
    }

    /// Connects to the running daemon of this home directory, as a client with this name.
    pub async fn connect(&self, client: &str) -> Client {
        let paths = DaemonPaths::new(self.path().join("state"), self.path().join("steplatch"));
        let handshake = Hello { protocol_version: PROTOCOL_VERSION, client: client.to_owned(), ..Hello::default() };
        connect(&paths, handshake).await.expect("the daemon responds").0
    }

    /// Returns a command that runs `program` in this home directory.
    #[must_use]
    pub fn inside(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment()).current_dir(self.path());
        command
    }

    /// Returns a command for the program of this home directory.
    #[must_use]
    pub fn steplatch(&self) -> Command {
        self.inside(&self.steplatch)
    }

    /// Configures the remote service `north`, whose runs are polled every second. Its token is in a file. Other
    /// settings stay.
    pub fn configure_service(&self, url: &str, token: &str) {
        let (secret, directory) = (self.path().join("token"), self.path().join(".config/steplatch"));
        std::fs::write(&secret, format!("{token}\n")).expect("the file is written");
        std::fs::create_dir_all(&directory).expect("the directory is created");
        let file = directory.join("config.toml");
        let settings = std::fs::read_to_string(&file).unwrap_or_default();
        let service = format!(
            "[[remote]]\nname = 'north'\nenabled = true\nbase_url = '{url}'\ntoken = 'file:{}'\nstatus_check_interval = 1000\n\
             execution_timeout = 60000\n",
            secret.display()
        );
        std::fs::write(&file, settings + &service).expect("the file is written");
    }

    /// Answers the question of a run or of a nested run, as a person. Does not name the question if there are several.
    pub fn answer_gate(&self, run: &str, answer: &str) -> CommandOutput {
        self.run(&["gates", "answer", &self.only_gate_or_run(run), answer])
    }

    /// Returns the gate that a run waits for, or the run itself if it does not wait for exactly one gate.
    fn only_gate_or_run(&self, run: &str) -> String {
        let output = self.run(&["runs", "show", run, "--json"]);
        let record: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
        match record["pending_gates"].as_array().map(Vec::as_slice) {
            Some([only]) => only["gate_id"].as_str().unwrap_or(run).to_owned(),
            _ => run.to_owned(),
        }
    }

    /// Answers like [`Self::answer_gate`] as the approver, after unlocking the locked runs.
    pub fn approve(&self, run: &str, answer: &str, passphrase: &str) -> CommandOutput {
        self.run_with_input(&["approver", "unlock", "--stdin"], passphrase);
        self.run_with_input(&["gates", "answer", &self.only_gate_or_run(run), answer, "--passphrase-stdin"], passphrase)
    }

    /// Runs the program with `arguments` and `input` on its standard input and returns its output.
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> CommandOutput {
        let mut program = self.steplatch();
        let program = program.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = program.spawn().expect("the program starts");
        // Ignore the error, because a program that reads no input may have exited.
        drop(program.stdin.take().map(|mut standard_input| standard_input.write_all(input.as_bytes())));
        CommandOutput::from_process(&program.wait_with_output().expect("the program exits"))
    }

    /// Runs the program with `arguments` and returns its output.
    pub fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::from_process(&self.steplatch().args(arguments).output().expect("the program starts"))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let output = self.run(&["daemon", "stop"]);
        // A second panic would hide the first one, and a home directory may never have had a daemon.
        if !std::thread::panicking() {
            assert!(output.code == 0 || output.stderr.contains("no daemon is running"), "{}", output.stderr);
        }
    }
}

/// The output of a program, and its exit code.
#[derive(Debug)]
pub struct CommandOutput {
    /// Text on standard output.
    pub stdout: String,
    /// Text on standard error.
    pub stderr: String,
    /// The exit code; -1 if a signal terminated the program.
    pub code: i32,
}

impl CommandOutput {
    /// Reads the output of a program.
    #[must_use]
    pub fn from_process(output: &Output) -> Self {
        Self {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code().unwrap_or(-1),
        }
    }

    /// Returns the standard output of a program that must have succeeded.
    pub fn expect_success(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
        self.stdout
    }

    /// Returns standard output as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }
}
