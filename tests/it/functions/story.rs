//! A home with a function, for tests of its runs.

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, CommandOutput, Home, eventually_blocking};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// A home with a file of functions, and an agent.
pub(crate) struct Story {
    pub(crate) agent: Agent,
    pub(crate) home: Home,
    pub(crate) file: PathBuf,
}

impl Story {
    /// Creates a story from the body of a function.
    pub(crate) fn with_body(body: &str, nodes: &str) -> Self {
        Self::with_settings(body, nodes, "")
    }

    /// Creates a story in a home with settings.
    pub(crate) fn with_settings(body: &str, nodes: &str, settings: &str) -> Self {
        let body: String = body.lines().map(|line| format!("    {line}\n")).collect();
        let text =
            format!("async def story(ctx):\n{body}\n{nodes}\nWorkflow(id=\"story\", session=session, fn=story)\n");
        let home = Home::new(STEPLATCH);
        let directory = home.path().join(".config/steplatch");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("config.toml"), settings).unwrap();
        Self::from_home(home, &text)
    }

    /// Creates a story from the text of a whole file.
    pub(crate) fn with_source(text: &str) -> Self {
        Self::from_home(Home::new(STEPLATCH), text)
    }

    fn from_home(home: Home, text: &str) -> Self {
        let file = home.path().join("story.py");
        std::fs::write(&file, text).unwrap();
        Self { agent: Agent::new(&home), home, file }
    }

    pub(crate) fn start(&self, wait_seconds: f64) -> Value {
        self.start_with(json!({"wait_seconds": wait_seconds}))
    }

    pub(crate) fn start_with(&self, mut arguments: Value) -> Value {
        arguments["workflow_file"] = self.file.display().to_string().into();
        self.agent.call_tool("run_workflow", arguments)
    }

    pub(crate) fn get_run(&self, run: &Value, wait_seconds: f64) -> Value {
        self.agent.call_tool("get_run", json!({"run_id": run["run_id"], "wait_seconds": wait_seconds}))
    }

    /// Answers a gate as a person.
    pub(crate) fn answer_gate(&self, run: &Value, answer: &str) -> CommandOutput {
        self.home.answer_gate(run["run_id"].as_str().unwrap(), answer)
    }

    pub(crate) fn daemon_pid(&self) -> i32 {
        let status = self.home.run(&["daemon", "status", "--json"]).json();
        i32::try_from(status["pid"].as_i64().unwrap()).unwrap()
    }

    pub(crate) fn kill_daemon(&self) {
        kill_process(Pid::from_raw(self.daemon_pid()).unwrap(), Signal::KILL).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Returns all events of a run.
    pub(crate) fn events(&self, run: &Value) -> Vec<Value> {
        let events = self.home.run(&["runs", "events", run["run_id"].as_str().unwrap(), "--json"]).expect_success();
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

pub(crate) fn count_lines(file: &Path) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().lines().count()
}

/// Waits until a file has content.
pub(crate) fn wait_for_content(file: &Path) {
    eventually_blocking(&format!("{} has content", file.display()), || count_lines(file) > 0);
}

/// Returns the types of events, in order.
pub(crate) fn event_types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event_type"].as_str().unwrap()).collect()
}
