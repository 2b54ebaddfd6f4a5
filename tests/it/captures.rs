//! Stories of capture: an agent performs a procedure once and captures it; the workflow repeats it with other values.

mod against;
mod changes;
mod dialogs;
mod imports;
mod procedures;
mod repairs;
mod skills;

use serde_json::{Map, Value, json};
use steplatch_testkit::{Agent, CommandOutput, Home};

/// Actions of an agent in terminals, to be captured.
struct Session {
    home: Home,
    agent: Agent,
    terminals: Vec<String>,
}

impl Session {
    /// Opens a terminal with bash in a home with these files.
    fn begin(files: &[(&str, &str)]) -> Self {
        let home = Home::new(env!("CARGO_BIN_EXE_steplatch"));
        for (name, text) in files {
            std::fs::write(home.path().join(name), text).unwrap();
        }
        let agent = Agent::new(&home);
        let mut session = Self { home, agent, terminals: Vec::new() };
        session.open();
        session
    }

    /// Opens a further terminal.
    fn open(&mut self) {
        let terminal =
            self.agent.call_tool("open_terminal", json!({"shell": "bash", "working_directory": self.home.path()}));
        self.terminals.push(terminal["session_id"].as_str().unwrap().to_owned());
    }

    fn current_terminal(&self) -> &str {
        self.terminals.last().unwrap()
    }

    /// Runs a command in the newest terminal.
    fn run_command(&self, command: &str) -> Value {
        self.agent
            .call_tool("run_command", json!({"session_id": self.current_terminal(), "command": command, "timeout": 60}))
    }

    /// Types `text` and waits until the program or the shell reads again.
    fn type_text(&self, text: &str) -> Value {
        self.send(json!({"input_text": text, "until": "input"}))
    }

    /// Types with these parameters of `send_input`.
    fn send(&self, mut parameters: Value) -> Value {
        parameters["session_id"] = self.current_terminal().into();
        parameters["timeout"] = 60.into();
        let reply = self.agent.call_tool("send_input", parameters);
        assert_ne!(reply["waited"]["reason"], "timeout", "{reply}");
        reply
    }

    /// Waits until the screen of the newest terminal shows a pattern.
    fn expect_text(&self, pattern: &str) {
        let wait =
            json!({"session_id": self.current_terminal(), "pattern": pattern, "target": "screen", "timeout": 60});
        let reply = self.agent.call_tool("await_output", wait);
        assert_eq!(reply["success"], true, "{reply:#}");
    }

    /// Captures all terminals under a name, saves the workflow, and closes the terminals.
    fn capture(self, inputs: Value) -> Procedure {
        let request = json!({"session_ids": self.terminals, "name": "procedure", "inputs": inputs, "save": true});
        let capture = self.agent.call_tool("capture_workflow", request);
        assert_eq!(capture["success"], true, "{capture:#}");
        for terminal in &self.terminals {
            let _ = self.agent.call_tool("exit_terminal", json!({"session_id": terminal}));
        }
        Procedure { home: self.home, agent: self.agent, capture }
    }
}

/// A captured workflow.
struct Procedure {
    home: Home,
    agent: Agent,
    capture: Value,
}

impl Procedure {
    /// Plays the workflow against its recording, without a terminal.
    fn assert_replays(&self) {
        self.home.run(&["workflow", "test", "procedure"]).expect_success();
    }

    /// Proves the workflow: runs it twice with the recorded values and once with others. Secrets come from the
    /// environment.
    fn prove(&self, inputs: &[&str], secrets: &[(&str, &str)]) {
        let mut prove = self.home.steplatch();
        let inputs = inputs.iter().flat_map(|input| ["-i", input]);
        let prove = prove.args(["workflow", "prove", "procedure"]).args(inputs).envs(secrets.iter().copied());
        let output = CommandOutput::from_process(&prove.output().unwrap());
        assert!(output.code == 0 && output.stdout.contains("proved by"), "{output:#?}\n{:#}", self.capture);
    }

    /// Runs the workflow to its end, with other values.
    fn run_to_completion(&self, variables: Value) -> Value {
        let run = self.begin(variables);
        assert_eq!(run["status"], "completed", "{run:#}\n{:#}", self.capture);
        run
    }

    /// Runs the workflow until it ends or waits at a gate.
    fn begin(&self, variables: Value) -> Value {
        let request = json!({"workflow_name": "procedure", "initial_variables": variables, "wait_seconds": 120});
        self.agent.call_tool("run_workflow", request)
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.home.path().join(name)).unwrap()
    }

    fn write_file(&self, name: &str, text: &str) {
        std::fs::write(self.home.path().join(name), text).unwrap();
    }

    fn arguments(&self) -> Map<String, Value> {
        self.capture["workflow_definition"]["arguments"].as_object().cloned().unwrap_or_default()
    }

    /// Checks that no file of the home contains `text`: library, recording, journal, logs.
    fn assert_absent(&self, text: &str) {
        let mut directories = vec![self.home.path().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    directories.push(entry.path());
                } else if kind.is_file() {
                    let content = std::fs::read(entry.path()).unwrap_or_default();
                    let is_present = content.windows(text.len()).any(|part| part == text.as_bytes());
                    assert!(!is_present, "'{text}' was found in {}", entry.path().display());
                }
            }
        }
    }

    /// Returns whether any file of the library contains `text`.
    fn is_in_library(&self, text: &str) -> bool {
        let path = std::path::PathBuf::from(self.capture["path"].as_str().unwrap());
        let files = std::fs::read_dir(path.parent().unwrap()).unwrap();
        files.flatten().any(|file| std::fs::read_to_string(file.path()).is_ok_and(|found| found.contains(text)))
    }
}
