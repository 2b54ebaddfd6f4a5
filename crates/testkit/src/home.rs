//! A person's empty home directory, for tests of the real program.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use steplatch_protocol::{Client, DaemonPaths, Hello, PROTOCOL_VERSION, connect};
use tempfile::TempDir;

/// A home directory with its own state directory, so that programs started in it share one daemon. Dropping it stops
/// the daemon.
#[derive(Debug)]
pub struct Home {
    folder: TempDir,
    steplatch: PathBuf,
    variables: Vec<(String, String)>,
}

/// Creates a home directory in which fish has already run: in a new one it reads all manuals for completions in the
/// background, which takes a minute of computing.
pub fn settle_fish(home: &Path) {
    std::fs::create_dir_all(home.join(".local/share/fish/generated_completions")).expect("a temporary folder");
}

impl Home {
    /// Creates a home directory for the program `steplatch`.
    #[must_use]
    pub fn new(steplatch: &str) -> Self {
        // Short, because it contains a socket, whose path has at most 107 bytes.
        let folder = tempfile::Builder::new().prefix("home-").tempdir_in("/tmp").expect("a temporary folder");
        settle_fish(folder.path());
        Self { folder, steplatch: steplatch.into(), variables: Vec::new() }
    }

    /// Returns its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Sets a variable for all programs of this home.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Returns the environment in which programs of this home run.
    #[must_use]
    pub fn environment(&self) -> Vec<(String, String)> {
        let folder = self.path().to_str().expect("a temporary folder has a plain name");
        [("HOME", folder), ("XDG_RUNTIME_DIR", folder), ("STEPLATCH_STATE_DIR", &format!("{folder}/state"))]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .chain(self.variables.iter().cloned())
            .collect()
    }

    /// Connects to the running daemon of this home directory, as a client with this name.
    pub async fn connect(&self, client: &str) -> Client {
        let place = DaemonPaths::new(self.path().join("state"), self.path().join("steplatch"));
        let hello = Hello { protocol_version: PROTOCOL_VERSION, client: client.to_owned(), ..Hello::default() };
        connect(&place, hello).await.expect("the daemon answers").0
    }

    /// Returns `program`, ready to run in this home directory.
    #[must_use]
    pub fn inside(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment()).current_dir(self.path());
        command
    }

    /// Returns the program for which this home directory was created, ready to run.
    #[must_use]
    pub fn steplatch(&self) -> Command {
        self.inside(&self.steplatch)
    }

    /// Configures the remote service `north`, whose runs are polled every second. Its token is in a file. Other
    /// settings stay.
    pub fn configure_service(&self, url: &str, token: &str) {
        let (secret, folder) = (self.path().join("token"), self.path().join(".config/steplatch"));
        std::fs::write(&secret, format!("{token}\n")).expect("a file in a new folder");
        std::fs::create_dir_all(&folder).expect("a folder in a new folder");
        let file = folder.join("config.toml");
        let settings = std::fs::read_to_string(&file).unwrap_or_default();
        let service = format!(
            "[[remote]]\nname = 'north'\nenabled = true\nbase_url = '{url}'\ntoken = 'file:{}'\nstatus_check_interval = 1000\n\
             execution_timeout = 60000\n",
            secret.display()
        );
        std::fs::write(&file, settings + &service).expect("a file in a new folder");
    }

    /// Answers the question of a run or of a nested run, as a person. Does not name the question if there are several.
    pub fn answer_gate(&self, run: &str, answer: &str) -> CommandOutput {
        self.run(&["gates", "answer", &self.gate_of(run), answer])
    }

    /// Returns the gate that a run waits at, or the run if that is not exactly one gate.
    fn gate_of(&self, run: &str) -> String {
        let shown = self.run(&["runs", "show", run, "--json"]);
        let record: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
        match record["pending_gates"].as_array().map(Vec::as_slice) {
            Some([only]) => only["gate_id"].as_str().unwrap_or(run).to_owned(),
            _ => run.to_owned(),
        }
    }

    /// Answers like [`Self::answer_gate`] as the approver, after unlocking the locked runs.
    pub fn approve(&self, run: &str, answer: &str, passphrase: &str) -> CommandOutput {
        self.run_with_input(&["approver", "unlock", "--stdin"], passphrase);
        self.run_with_input(&["gates", "answer", &self.gate_of(run), answer, "--passphrase-stdin"], passphrase)
    }

    /// Runs the program with `arguments` and `input` on its standard input, and returns its output.
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> CommandOutput {
        let mut program = self.steplatch();
        let program = program.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = program.spawn().expect("a program that starts");
        // Ignore the error: a program that reads nothing may have ended.
        drop(program.stdin.take().map(|mut standard_input| standard_input.write_all(input.as_bytes())));
        CommandOutput::of(&program.wait_with_output().expect("a program that ends"))
    }

    /// Runs the program with `arguments` and returns its output.
    pub fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(&self.steplatch().args(arguments).output().expect("a program that runs"))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let stopped = self.run(&["daemon", "stop"]);
        // A second panic would hide the first one, and a home directory may never have had a daemon.
        if !std::thread::panicking() {
            assert!(stopped.code == 0 || stopped.stderr.contains("no daemon is running"), "{}", stopped.stderr);
        }
    }
}

/// The output of a program, and its exit code.
#[derive(Debug)]
pub struct CommandOutput {
    /// The text on standard output.
    pub stdout: String,
    /// The text on standard error.
    pub stderr: String,
    /// The exit code; -1 if a signal ended the program.
    pub code: i32,
}

impl CommandOutput {
    /// Reads the output of a program.
    #[must_use]
    pub fn of(output: &Output) -> Self {
        Self {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code().unwrap_or(-1),
        }
    }

    /// Returns standard output of a program that must have succeeded.
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
