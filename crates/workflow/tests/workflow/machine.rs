//! A machine run for tests: scripted results go in, events and effects come out.

use std::time::Duration;

use serde_json::{Map, Value};
use steplatch_ids::StepId;
use steplatch_workflow::{
    Decision, Definition, Effect, Event, GatelessNames, History, Input, Limits, LogEntry, Outcome, Problem,
    ShellAnswer, Start, Status, Timestamp, ToolCatalog, decide, execution_log,
};

/// The terminal tools and a node, as seen by a definition.
pub(crate) struct Tools;

impl ToolCatalog for Tools {
    fn tools(&self) -> Vec<String> {
        let terminals = [
            "open_terminal",
            "send_input",
            "await_output",
            "get_screen_content",
            "list_terminal_sessions",
            "exit_terminal",
        ];
        terminals.into_iter().chain(["run_command", "run_node"]).map(str::to_owned).collect()
    }

    fn check(&self, tool: &str, params: &Map<String, Value>) -> Vec<Problem> {
        match (tool, params.get("pattern"), params.get("timeout")) {
            ("await_output", None, _) => vec![Problem::error("", "'pattern' is missing")],
            ("await_output", _, Some(Value::Bool(_))) => vec![Problem::error("/timeout", "must be a number")],
            _ => Vec::new(),
        }
    }

    fn takes_session(&self, tool: &str) -> bool {
        !matches!(tool, "open_terminal" | "list_terminal_sessions" | "run_node")
    }

    fn has_judges(&self) -> bool {
        true
    }

    fn takes_text(&self, tool: &str, param: &str) -> bool {
        matches!((tool, param), ("send_input", "input_text") | ("run_command", "command"))
    }
}

/// Reads a definition without problems.
pub(crate) fn definition(document: &Value) -> Definition {
    Definition::parse(document, &Tools).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Reads the problems of a definition, one per line.
pub(crate) fn problems(document: &Value) -> String {
    Definition::parse(document, &Tools).expect_err("the definition has problems").to_string()
}

/// Returns the fields of a JSON object.
pub(crate) fn fields(value: &Value) -> Map<String, Value> {
    value.as_object().expect("the value is an object").clone()
}

/// Returns the start of a run in a test.
pub(crate) fn start() -> Start {
    Start {
        run: "run_0123456789abcdef".parse().expect("the run id is valid"),
        session_id: None,
        variables: Map::new(),
        limits: Limits::default(),
        keep_terminals: false,
        save_on_success: true,
        parent: None,
        depth: 0,
        gateless: GatelessNames::default(),
    }
}

/// A run with all its decisions.
pub(crate) struct Machine {
    pub(crate) definition: Definition,
    pub(crate) history: History,
    pub(crate) events: Vec<Event>,
    pub(crate) now: Timestamp,
    pub(crate) last: Decision,
}

impl Machine {
    /// Starts a run of a document.
    pub(crate) fn start(document: &Value) -> Self {
        Self::start_with(document, start())
    }

    pub(crate) fn start_with(document: &Value, start: Start) -> Self {
        let mut machine = Self {
            definition: definition(document),
            history: History::new(),
            events: Vec::new(),
            now: Timestamp(1_700_000_000_000_000),
            last: Decision::default(),
        };
        machine.input(Input::Start(start));
        machine
    }

    /// Decides an input and applies the events, as the daemon does.
    pub(crate) fn input(&mut self, input: Input) -> &Decision {
        self.last = decide(&self.definition, &self.history, input, self.now);
        self.history.extend(&self.last.events);
        self.events.extend(self.last.events.clone());
        &self.last
    }

    /// Advances the time.
    pub(crate) fn wait(&mut self, time: Duration) {
        self.now = self.now.after(time);
    }

    pub(crate) fn step(&self) -> StepId {
        self.history.current().expect("a step is in progress").step.clone()
    }

    /// Delivers the outcome of the current step.
    pub(crate) fn outcome(&mut self, outcome: Outcome) -> &Decision {
        let step = self.step();
        self.wait(Duration::from_millis(250));
        self.input(Input::Outcome { step, outcome })
    }

    /// Delivers the result of the current step.
    pub(crate) fn result(&mut self, result: &Value) -> &Decision {
        self.outcome(Outcome::Finished { result: fields(result) })
    }

    /// Delivers the answer of the shell: the values of variables, null for an unset one.
    pub(crate) fn shell_reports(&mut self, values: &Value) -> &Decision {
        let value = |(name, value): (String, Value)| (name, value.as_str().map(str::to_owned));
        self.shell_answers(ShellAnswer::Told { values: fields(values).into_iter().map(value).collect() })
    }

    pub(crate) fn shell_refuses(&mut self, error: &str) -> &Decision {
        self.shell_answers(ShellAnswer::Failed { error: error.to_owned() })
    }

    fn shell_answers(&mut self, answer: ShellAnswer) -> &Decision {
        let step = self.history.exchange().expect("a request to the shell is pending").step.clone();
        self.wait(Duration::from_millis(1));
        self.input(Input::ShellAnswered { step, answer })
    }

    pub(crate) fn succeed(&mut self) -> &Decision {
        self.result(&serde_json::json!({"success": true}))
    }

    /// Returns the current state of the run.
    pub(crate) fn state(&self) -> &str {
        self.history.current().map_or("(none)", |current| &current.step.place)
    }

    /// Returns the parameters of the current action's request.
    pub(crate) fn params(&self) -> Value {
        self.history.current().expect("a step is in progress").params.clone().into()
    }

    /// Returns the parameters of the last request for the action of a state.
    pub(crate) fn params_in_state(&self, state: &str) -> Value {
        let mut entered = self.events.iter().rev().filter_map(|event| match event {
            Event::StateEntered { step, params, .. } if step.place == state => Some(Value::from(params.clone())),
            _ => None,
        });
        entered.next().unwrap_or_default()
    }

    pub(crate) fn completed(&self) -> bool {
        *self.history.status() == Status::Completed
    }

    pub(crate) fn error(&self) -> &str {
        self.history.error().expect("the run has an error")
    }

    pub(crate) fn log(&self) -> Vec<LogEntry> {
        execution_log(&self.events)
    }

    /// Returns the reason for the last transition.
    pub(crate) fn because(&self) -> &str {
        let mut reasons = self.events.iter().rev().filter_map(|event| match event {
            Event::Transitioned { because, .. } => Some(because.as_str()),
            _ => None,
        });
        reasons.next().unwrap_or("(no transition)")
    }

    /// Returns the terminals that the last decision closes.
    pub(crate) fn closed(&self) -> Vec<&str> {
        let open = self.last.effects.iter().filter_map(|effect| match effect {
            Effect::CloseTerminal { session_id } => Some(session_id.as_str()),
            _ => None,
        });
        open.collect()
    }
}
