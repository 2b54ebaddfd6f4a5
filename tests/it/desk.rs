//! A person in their own terminal. Tests read the screen of that terminal.

use std::path::Path;
use std::time::Duration;

use steplatch_terminal::{Input, Opened, Options, Reason, Size, Spec, Target, Terminal, Terminals, Until, Wait};
use steplatch_testkit::{Home, OwnTerminal};

/// A person's own terminal, running a command line.
pub(crate) struct Desk {
    terminal: Terminal,
    _terminals: Terminals,
    _own: OwnTerminal,
}

impl Desk {
    /// Runs a bash command line in `directory`, in a window of `cols` and `rows` and with extra environment variables.
    pub(crate) async fn start(
        home: &Home,
        directory: &Path,
        command: &str,
        (cols, rows): (u16, u16),
        environment: &[(&str, &str)],
    ) -> Self {
        let terminals = Terminals::new(Options::default()).unwrap();
        let own_terminal = OwnTerminal::run(&["bash", "-c", command], |helper| {
            helper.current_dir(directory).env_remove("NO_COLOR").envs(home.environment());
            helper.envs(environment.iter().copied());
        });
        let viewer = own_terminal.show();
        let spec = Spec {
            command: viewer[0].clone(),
            arguments: viewer.map(Into::into).into(),
            directory: directory.to_owned(),
            inherited: std::env::vars_os().collect(),
            environment: Vec::new(),
            size: Size { cols, rows },
            name: None,
            opened_by: None,
            step: None,
        };
        let Opened { terminal, .. } = terminals.open(spec).await.unwrap();
        Self { terminal, _terminals: terminals, _own: own_terminal }
    }

    /// Waits until the screen shows a pattern and returns the screen.
    pub(crate) async fn expect_screen(&self, pattern: &str) -> String {
        let wait = Wait {
            patterns: vec![steplatch_pattern::Pattern::new(&format!("(?m){pattern}")).unwrap()],
            target: Target::Screen,
            since: None,
            input: None,
            until: Until::Match,
            timeout: Duration::from_secs(120),
            by: None,
            ..Wait::default()
        };
        let (outcome, view) = self.terminal.wait(wait).await.unwrap();
        assert_eq!(outcome.reason, Reason::Match, "no {pattern:?} on:\n{}", view.screen);
        view.screen
    }

    /// Sends bytes, like keys.
    pub(crate) async fn press(&self, raw: &str) {
        self.terminal.send(Input { raw: raw.as_bytes().to_vec(), ..Input::default() }).await.unwrap();
    }

    /// Types a line at the prompt and returns the screen once it shows a pattern below that line.
    pub(crate) async fn enter_line(&self, line: &str, pattern: &str) -> String {
        self.press(line).await;
        self.expect_screen(&format!("{}$", escape_regex(line))).await;
        self.press("\r").await;
        self.expect_screen(&format!("{}\\n(.*\\n)*?.*{pattern}", escape_regex(line))).await
    }

    /// Resizes the window.
    pub(crate) async fn resize(&self, cols: u16, rows: u16) {
        self.terminal.resize(Size { cols, rows }).await.unwrap();
    }

    /// Returns the screen with its styles, as escape sequences.
    pub(crate) async fn styled_screen(&self) -> String {
        self.terminal.view(true).await.unwrap().screen
    }
}

pub(crate) fn escape_regex(text: &str) -> String {
    text.chars()
        .flat_map(|character| character.is_ascii_punctuation().then_some('\\').into_iter().chain([character]))
        .collect()
}
