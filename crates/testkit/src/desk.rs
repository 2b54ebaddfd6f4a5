//! A person at a terminal outside the daemon.
//!
//! A process in a terminal of the daemon is treated as an agent, so the person's command runs in a terminal owned by a
//! helper process. A terminal of the daemon only displays it, so that tests can use an agent's screen and waits.

use std::process::{Child, Command};

use serde_json::{Value, json};
use steplatch_patience::eventually_blocking;
use tempfile::TempDir;

use crate::{Agent, Home};

/// A terminal outside the daemon. Dropping this value ends the program in it.
#[derive(Debug)]
pub struct OwnTerminal {
    helper: Child,
    directory: TempDir,
}

impl OwnTerminal {
    /// Creates a terminal for the program of a command. The program starts once the terminal is shown, with the
    /// directory and environment of `place`.
    ///
    /// # Panics
    /// If the program does not start in time.
    #[must_use]
    pub fn run(command: &[&str], place: impl FnOnce(&mut Command)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (script, socket) = (directory.path().join("desk.py"), directory.path().join("desk"));
        std::fs::write(&script, include_str!("desk.py")).unwrap();
        let mut helper = Command::new("python3");
        helper.arg(&script).arg("serve").arg(&socket).args(command);
        helper.env("TERM", "xterm-256color").env("COLORTERM", "truecolor");
        place(&mut helper);
        let helper = helper.spawn().unwrap();
        eventually_blocking("the person's terminal has started", || socket.exists());
        Self { helper, directory }
    }

    /// Returns the command that shows the terminal, once, in the command's own terminal.
    #[must_use]
    pub fn show(&self) -> [String; 4] {
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        ["python3".to_owned(), path("desk.py"), "show".to_owned(), path("desk")]
    }
}

impl Drop for OwnTerminal {
    fn drop(&mut self) {
        let _ = self.helper.kill();
        let _ = self.helper.wait();
    }
}

/// A person who runs one command.
#[derive(Debug)]
pub struct Person<'a> {
    agent: &'a Agent,
    session: String,
    _terminal: OwnTerminal,
}

impl<'a> Person<'a> {
    /// Starts a command of the program in `home`. `agent` shows the person's screen; its daemon may be another one.
    #[must_use]
    pub fn runs(agent: &'a Agent, home: &Home, program: &str, arguments: &str) -> Self {
        let command = format!("{program} {arguments}; echo exit-code-$?; sleep 100");
        let terminal = OwnTerminal::run(&["bash", "-c", &command], |helper| {
            helper.current_dir(home.path()).envs(home.environment());
        });
        let open_reply = agent.call_tool("open_terminal", json!({"command": terminal.show()}));
        Self { agent, session: open_reply["session_id"].as_str().unwrap().to_owned(), _terminal: terminal }
    }

    /// Waits until this text is, or was, on the screen. Returns the screen.
    ///
    /// # Panics
    /// If the text does not appear within a minute.
    pub fn expect_text(&self, pattern: &str) -> String {
        let arguments =
            json!({"session_id": self.session, "pattern": pattern, "since": 0, "timeout": 60, "screen": "full"});
        let reply = self.agent.call_tool("await_output", arguments);
        let screen = reply["screen_content"].as_str().unwrap();
        assert_eq!(reply["reason"], "match", "no {pattern:?} on:\n{screen}");
        screen.to_owned()
    }

    /// Waits until this text is drawn, including as the echo of input.
    ///
    /// # Panics
    /// If the text is not drawn within a minute.
    pub fn expect_screen(&self, pattern: &str) {
        let arguments = json!({"session_id": self.session, "pattern": pattern, "target": "screen", "timeout": 60, "screen": "full"});
        let reply = self.agent.call_tool("await_output", arguments);
        assert_eq!(reply["reason"], "match", "no {pattern:?} on:\n{}", reply["screen_content"]);
    }

    /// Types a line.
    pub fn type_in(&self, line: &str) {
        self.send(json!({"input_text": format!("{line}\n")}));
    }

    /// Presses a key.
    pub fn press(&self, key: &str) {
        self.send(json!({"input_text": "", "keys": [key]}));
    }

    /// Sends an input, as in the tool `send_input`.
    pub fn send(&self, mut input: Value) {
        input["session_id"] = self.session.as_str().into();
        let reply = self.agent.call_tool("send_input", input);
        assert_eq!(reply["success"], true, "{reply}");
    }
}
