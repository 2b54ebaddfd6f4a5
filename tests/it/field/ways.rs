//! The ways of sending a command to a shell. Each way is applied to the whole table of shells and commands.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home, find_program};

use crate::field::cases::{CASES, Case};
use crate::field::shells::{Dialect, SHELLS, Shell, TWO_ROW_PROMPT_SHELLS};
use crate::ssh_server::Server;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Maximum duration of a command, in seconds.
pub(crate) const COMMAND_TIMEOUT: f64 = 60.0;

/// The outcome of a command.
pub(crate) struct Outcome {
    /// The command's output; where there is none, the terminal text since the command was typed.
    pub(crate) text: String,
    pub(crate) exit_code: Option<i64>,
    pub(crate) error: Option<String>,
}

/// An agent with its own daemon.
pub(crate) struct Field {
    home: Home,
    agent: Agent,
}

/// The failed rows.
#[derive(Default)]
pub(crate) struct Failures(Vec<String>);

impl Outcome {
    fn new(reply: &Value, text: &str) -> Self {
        Self {
            text: reply[text].as_str().unwrap_or_default().to_owned(),
            exit_code: reply["exit_code"].as_i64(),
            error: reply["error"].as_str().map(str::to_owned),
        }
    }
}

impl Failures {
    /// Compares the whole output if `is_exact`, otherwise searches for each of its lines.
    fn compare(&mut self, shell: &Shell, case: &Case, actual: &Outcome, is_exact: bool) {
        let is_text_correct = match is_exact {
            true => actual.text == case.output,
            false => case.output.lines().all(|line| actual.text.contains(line.trim_end())),
        };
        let exit_code = shell.is_integrated.then_some(case.exit_code);
        if !is_text_correct || actual.exit_code != exit_code || actual.error.is_some() {
            self.add(format!(
                "{} / {}: {:?} with exit code {:?}, expected {:?} with {exit_code:?}; {:?}",
                shell.name, case.name, actual.text, actual.exit_code, case.output, actual.error
            ));
        }
    }

    pub(crate) fn add(&mut self, row: String) {
        self.0.push(row);
    }

    /// Runs `work` for all rows of a table concurrently: most of the time is spent waiting.
    pub(crate) fn check_rows<R>(rows: impl IntoIterator<Item = R>, work: impl Fn(&R, &mut Self) + Sync)
    where
        R: Send + Sync,
    {
        let all = Mutex::new(Self::default());
        std::thread::scope(|scope| {
            for row in rows {
                let (all, work) = (&all, &work);
                scope.spawn(move || {
                    let mut failures = Self::default();
                    work(&row, &mut failures);
                    all.lock().unwrap().0.extend(failures.0);
                });
            }
        });
        all.into_inner().unwrap().check();
    }

    fn check(self) {
        assert!(self.0.is_empty(), "{} rows failed:\n{}", self.0.len(), self.0.join("\n"));
    }
}

impl Field {
    pub(crate) fn new() -> Self {
        let home = Home::new(STEPLATCH);
        let agent = Agent::new(&home);
        Self { home, agent }
    }

    /// Creates a directory with this name.
    pub(crate) fn create_directory(&self, name: &str) -> PathBuf {
        let directory = self.home.path().join(name);
        fs::create_dir(&directory).unwrap();
        directory
    }

    pub(crate) fn open(&self, parameters: Value) -> String {
        self.agent.call_tool("open_terminal", parameters)["session_id"].as_str().unwrap().to_owned()
    }

    /// Calls a tool and returns its reply, even with `isError`.
    pub(crate) fn call_tool(&self, tool: &str, arguments: Value) -> Value {
        let mut response = self.agent.begin(tool, arguments).answer();
        match response["result"]["structuredContent"].take() {
            Value::Null => json!({"error": response["result"]["content"][0]["text"]}),
            reply => reply,
        }
    }

    pub(crate) fn run(&self, session: &str, command: &str, integrate: bool) -> Outcome {
        let mut arguments =
            json!({"session_id": session, "command": command, "timeout": COMMAND_TIMEOUT, "limit": 100_000});
        if integrate {
            arguments["integrate"] = true.into();
        }
        Outcome::new(&self.call_tool("run_command", arguments), "output")
    }

    fn type_line(&self, session: &str, command: &str) -> Outcome {
        let arguments = json!({
            "session_id": session, "input_text": format!("{command}\n"), "until": "prompt", "timeout": COMMAND_TIMEOUT, "screen": "new"
        });
        let reply = self.call_tool("send_input", arguments);
        let mut outcome = Outcome::new(&reply, "screen_content");
        if reply["waited"]["reason"] == "timeout" {
            outcome.error = Some("no prompt appeared".to_owned());
        }
        outcome
    }

    /// Runs a state machine to its end.
    pub(crate) fn run_machine(&self, definition: &Value) -> Value {
        self.call_tool(
            "run_workflow",
            json!({"workflow_definition": definition, "wait_seconds": 170, "save_on_success": false, "detail": "full"}),
        )
    }

    /// Runs the function of a file to its end.
    pub(crate) fn run_function(&self, text: &str) -> Value {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let file = self.home.path().join(format!("field{}.py", NEXT.fetch_add(1, Ordering::Relaxed)));
        std::fs::write(&file, text).unwrap();
        self.call_tool("run_workflow", json!({"workflow_file": file, "wait_seconds": 170, "save_on_success": false}))
    }

    /// Runs a state machine that opens the shell and has one state for each case and returns these states' results.
    fn run_cases(&self, shell: &Shell, cases: &[&Case], action: impl Fn(&Case) -> Value) -> Vec<Value> {
        let mut states = json!({
            "open": {
                "action": {"tool": "open_terminal", "params": shell.open_parameters(self.home.path())},
                "transitions": [{"condition": "success", "next_state": "case0"}],
            },
            "end": {"action": {"tool": "exit_terminal", "params": {}}},
        });
        for (number, case) in cases.iter().enumerate() {
            let next = if number + 1 == cases.len() { "end".to_owned() } else { format!("case{}", number + 1) };
            let state =
                json!({"action": action(case), "transitions": [{"condition": {}, "next_state": next}], "timeout": 90});
            states[format!("case{number}")] = state;
        }
        let outcome = self.run_machine(&json!({"name": "field", "initial_state": "open", "states": states}));
        let results: Vec<Value> = outcome["execution_log"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|entry| {
                entry["phase"] == "execution" && entry["state"].as_str().is_some_and(|state| state.starts_with("case"))
            })
            .map(|entry| entry["result"].clone())
            .collect();
        assert_eq!(results.len(), cases.len(), "{}: {} {}", shell.name, outcome["status"], outcome["error"]);
        results
    }
}

fn cases_for(shell: &Shell, as_written: bool) -> Vec<&'static Case> {
    CASES.iter().filter(|case| case.applies_to(shell, as_written)).collect()
}

#[test]
fn every_command_runs_as_written_in_every_shell() {
    let field = Field::new();
    Failures::check_rows(SHELLS, |shell, failures| {
        let session = field.open(shell.open_parameters(field.home.path()));
        for case in cases_for(shell, true) {
            failures.compare(shell, case, &field.run(&session, &case.text(), false), true);
        }
        field.call_tool("exit_terminal", json!({"session_id": session}));
    });
}

#[test]
fn exclamation_mark_is_refused_by_an_expanding_shell() {
    let field = Field::new();
    for shell in SHELLS.iter().filter(|shell| !shell.is_integrated) {
        let session = field.open(shell.open_parameters(field.home.path()));
        let result = field.run(&session, "echo \"a!b\"", false);
        let is_refused = result.text.is_empty() && result.error.as_ref().is_some_and(|error| error.contains("history"));
        assert!(
            is_refused || (result.text == "a!b\n" && result.error.is_none()),
            "{}: {:?} {:?}",
            shell.name,
            result.text,
            result.error
        );
        field.call_tool("exit_terminal", json!({"session_id": session}));
    }
}

#[test]
fn every_line_typed_by_an_agent_is_followed_to_its_prompt() {
    let field = Field::new();
    Failures::check_rows(SHELLS, |shell, failures| {
        let session = field.open(shell.open_parameters(field.home.path()));
        for case in cases_for(shell, false) {
            failures.compare(shell, case, &field.type_line(&session, &case.text()), false);
        }
        field.call_tool("exit_terminal", json!({"session_id": session}));
    });
}

#[test]
fn every_command_of_a_machine_has_its_output_and_exit_code() {
    let field = Field::new();
    Failures::check_rows(SHELLS, |shell, failures| {
        let cases = cases_for(shell, true);
        let run = |case: &Case| json!({"tool": "run_command", "params": {"command": case.text(), "timeout": COMMAND_TIMEOUT}});
        for (case, result) in cases.iter().zip(field.run_cases(shell, &cases, run)) {
            // Values of a machine lack the final newline, and a failure also has the exit code in words.
            let mut actual = Outcome::new(&result, "output");
            actual.text.push_str(if case.output.ends_with('\n') { "\n" } else { "" });
            // A shell without exit codes leaves it unknown.
            let is_unknown = !shell.is_integrated && actual.exit_code.is_none();
            assert_eq!(is_unknown, result["exit_code_unknown"] == true, "{} / {}", shell.name, case.name);
            actual.error = actual.error.filter(|_| case.exit_code == 0 && !is_unknown);
            failures.compare(shell, case, &actual, true);
        }
    });
}

#[test]
fn every_line_typed_by_a_machine_is_followed_to_its_prompt() {
    let field = Field::new();
    // A machine waits for the prompt named in its definition, and only an integrated shell reports that prompt.
    Failures::check_rows(SHELLS.iter().filter(|shell| shell.is_integrated), |shell, failures| {
        let cases = cases_for(shell, false);
        let line = |case: &Case| {
            let input = format!("{}\n", case.text());
            json!({"tool": "send_input", "params": {"input_text": input, "until": "prompt", "timeout": COMMAND_TIMEOUT}})
        };
        for (case, result) in cases.iter().zip(field.run_cases(shell, &cases, line)) {
            failures.compare(shell, case, &Outcome::new(&result, "screen_content"), false);
        }
    });
}

#[test]
fn text_since_an_input_marks_full_screen_drawing() {
    const DRAWING_COMMAND: &str =
        "sh -c 'printf \"\\033[?1049h\\033[Hdrawn\"; read x; printf \"\\033[?1049l\"; echo back'";
    let field = Field::new();
    let has_hint = |text: &Value| text.as_str().is_some_and(|text| text.contains("content_mode: screen"));
    Failures::check_rows(SHELLS.iter().filter(|shell| shell.files.is_empty()), |shell, failures| {
        let session = field.open(shell.open_parameters(field.home.path()));
        let type_and_await = |text: &str, pattern: &str| {
            field.call_tool("send_input", json!({"session_id": session, "input_text": format!("{text}\n")}));
            field.call_tool(
                "await_output",
                json!({"session_id": session, "pattern": pattern, "target": "screen", "timeout": COMMAND_TIMEOUT}),
            )
        };
        let read_screen =
            |mode: &str| field.call_tool("get_screen_content", json!({"session_id": session, "content_mode": mode}));
        type_and_await(DRAWING_COMMAND, "^drawn");
        let since_input = read_screen("since_input");
        // Without marks, the echo is part of the text.
        let text = since_input["screen_content"].as_str().unwrap_or("none");
        let is_incorrect = shell.is_integrated && text != "none" || text.trim().is_empty();
        if is_incorrect || !has_hint(&since_input["hint"]) || since_input["success"] != true {
            failures.add(format!("{}, since the input: {since_input}", shell.name));
        }
        for mode in ["history", "tail"] {
            let text = read_screen(mode);
            if !has_hint(&text["hint"]) {
                failures.add(format!("{}, {mode}: {text}", shell.name));
            }
        }
        let screen = read_screen("screen");
        if screen["screen_content"] != "drawn" || !screen["hint"].is_null() {
            failures.add(format!("{}, the screen: {screen}", shell.name));
        }
        type_and_await("", "^back");
        let since_input = read_screen("since_input");
        if !since_input["screen_content"].as_str().is_some_and(|text| text.contains("back"))
            || !since_input["hint"].is_null()
        {
            failures.add(format!("{}, afterwards: {since_input}", shell.name));
        }
        field.call_tool("exit_terminal", json!({"session_id": session}));
    });
    let state = |tool: &str, params: Value, next: &str| json!({"action": {"tool": tool, "params": params}, "transitions": [{"condition": "success", "next_state": next}]});
    let outcome = field.run_machine(&json!({"name": "drawn", "initial_state": "open", "states": {
        "open": state("open_terminal", json!({"shell": "bash"}), "draw"),
        "draw": state("send_input", json!({"input_text": format!("{DRAWING_COMMAND}\n")}), "see"),
        "see": state(
            "await_output",
            json!({"pattern": "^drawn", "target": "screen", "timeout": COMMAND_TIMEOUT}),
            "read",
        ),
        "read": {"action": {"tool": "get_screen_content", "params": {"content_mode": "since_input"}}},
    }}));
    assert!(outcome["status"] == "failed" && has_hint(&outcome["error"]), "{outcome}");
    let outcome = field.run_function(&format!(
        "PTYNode(id='drawn', session=session, command='bash', ready='quiet')\nasync def field(ctx):\n    \
         got = await ctx.run('drawn', {DRAWING_COMMAND:?})\n    \
         return [got['output'], got['attributes'].get('alternate_screen')]\nWorkflow(id='field', session=session, fn=field)\n"
    ));
    assert_eq!(outcome["result"], json!(["drawn", true]), "{outcome}");
}

/// Lines that make a shell run nothing: a missing history event, and a syntax error.
const UNRUNNABLE_LINES: &[(&str, &[Dialect])] = &[("echo \"a!b\"", &[Dialect::Posix]), ("echo )(", &[Dialect::Posix])];

/// Lines without a command.
const EMPTY_LINES: &[(&str, &[Dialect])] =
    &[("", &[Dialect::Posix, Dialect::Fish]), ("  ", &[Dialect::Posix, Dialect::Fish]), ("# a", &[Dialect::Fish])];

/// Returns the lines of a table for a shell.
fn lines_for(table: &[(&'static str, &[Dialect])], shell: &Shell) -> Vec<&'static str> {
    table.iter().filter(|(_, dialects)| dialects.contains(&shell.dialect)).map(|(line, _)| *line).collect()
}

fn reports_nothing_ran(reply: &Value) -> bool {
    reply["error"].as_str().is_some_and(|error| error.contains("ran nothing"))
}

#[test]
fn typed_line_without_effect_is_not_a_success() {
    const NAMES: [&str; 6] = ["bash", "bash, heavy prompt", "zsh", "zsh, vi mode", "fish", "fish, heavy prompt"];
    let field = Field::new();
    Failures::check_rows(SHELLS.iter().filter(|shell| NAMES.contains(&shell.name)), |shell, failures| {
        let session = field.open(shell.open_parameters(field.home.path()));
        let type_line = |line: &str, until: Value| {
            field.call_tool(
                "send_input",
                json!({"session_id": session, "input_text": format!("{line}\n"), "until": until, "timeout": COMMAND_TIMEOUT}),
            )
        };
        let state = |tool: &str, params: Value| json!({"action": {"tool": tool, "params": params}, "transitions": [{"condition": "success", "next_state": "end"}]});
        let run_states = |states: Value| {
            let mut all_states = json!({
                "open": {
                    "action": {"tool": "open_terminal", "params": shell.open_parameters(field.home.path())},
                    "transitions": [{"condition": "success", "next_state": "act"}],
                },
                "end": {"action": {"tool": "exit_terminal", "params": {}}},
            });
            all_states.as_object_mut().unwrap().extend(states.as_object().unwrap().clone());
            field.run_machine(&json!({"name": "nothing", "initial_state": "open", "states": all_states}))
        };
        let rows = lines_for(UNRUNNABLE_LINES, shell).into_iter().map(|line| (line, true));
        for (line, is_failure) in rows.chain(lines_for(EMPTY_LINES, shell).into_iter().map(|line| (line, false))) {
            let mut check = |way: &str, is_correct: bool, reply: &Value| {
                if !is_correct {
                    failures.add(format!("{} / {line:?} / {way}: {reply}", shell.name));
                }
            };
            let is_expected =
                |reply: &Value| reports_nothing_ran(reply) == is_failure && reply["success"] != is_failure;
            field.run(&session, "true", false);
            let reply = type_line(line, "prompt".into());
            check("send_input", is_expected(&reply) && reply["waited"]["reason"] == "prompt", &reply);
            let reply = field.call_tool(
                "await_output",
                json!({"session_id": session, "until": "prompt", "timeout": COMMAND_TIMEOUT}),
            );
            check("await_output", is_expected(&reply) && reply["reason"] == "prompt", &reply);
            let text = format!("{line}\n");
            let states = json!({"act": state("send_input", json!({"input_text": text, "until": "prompt", "timeout": COMMAND_TIMEOUT}))});
            let outcome = run_states(states);
            check(
                "a machine",
                reports_nothing_ran(&outcome) == is_failure && (outcome["status"] == "failed") == is_failure,
                &outcome,
            );
            let mut wait = state("send_input", json!({"input_text": text}));
            wait["transitions"][0]["next_state"] = "wait".into();
            let outcome = run_states(json!({
                "act": wait, "wait": state("await_output", json!({"until": "prompt", "timeout": COMMAND_TIMEOUT})),
            }));
            check(
                "a later wait",
                reports_nothing_ran(&outcome) == is_failure && (outcome["status"] == "failed") == is_failure,
                &outcome,
            );
            let rules = json!([{"when": "no such question", "type": "x\n"}]);
            let outcome = run_states(
                json!({"act": state("dialogue", json!({"input_text": text, "rules": rules, "timeout": COMMAND_TIMEOUT}))}),
            );
            check(
                "a dialogue",
                reports_nothing_ran(&outcome) == is_failure && (outcome["status"] == "failed") == is_failure,
                &outcome,
            );
            let send = field.home.run(&["terminal", "send", &session, line, "-e"]);
            let wait = field.home.run(&["terminal", "wait", &session, "--timeout", "60"]);
            let is_correct = wait.code == i32::from(is_failure) && wait.stdout.contains("ran nothing") == is_failure;
            check("terminal wait", is_correct, &json!([send.stdout, send.stderr, wait.code, wait.stdout, wait.stderr]));
            let outcome = field.run_function(&format!(
                "PTYNode(id='shell', session=session, command={:?}, env={})\nasync def field(ctx):\n    \
                 got = await ctx.run('shell', {line:?})\n    then = await ctx.run('shell', 'echo then')\n    \
                 return [got['success'], got['error'], then['output']]\n\
                 Workflow(id='field', session=session, fn=field)\n",
                shell.command.join(" "),
                json!(shell.create_home(field.home.path())),
            ));
            let result = &outcome["result"];
            let is_correct = result[0] != is_failure
                && reports_nothing_ran(&json!({"error": result[1]})) == is_failure
                && result[2] == "then";
            check("a node", is_correct, &outcome);
        }
        if shell.dialect == Dialect::Fish {
            // fish keeps an invalid line in its editor, and shows no prompt after it.
            let reply = type_line("echo )(", "prompt".into());
            let wait = field.home.run(&["terminal", "wait", &session, "--timeout", "60"]);
            if reply["waited"]["reason"] != "input" || wait.code != 3 {
                failures.add(format!("{}, a line that stays: {reply} {wait:?}", shell.name));
            }
        }
        field.call_tool("exit_terminal", json!({"session_id": session}));
    });
}

#[test]
fn terminal_send_prints_the_answer_to_its_input() {
    let field = Field::new();
    let shell_names = ["bash", "bash, heavy prompt", "zsh", "fish", "dash", "tcsh"];
    let row =
        |shell: &Shell| (shell.name, shell.open_parameters(field.home.path()), "sleep 0.7; echo a''nswer", "answer");
    let rows = SHELLS.iter().filter(|shell| shell_names.contains(&shell.name)).map(row);
    let python = "import time; time.sleep(0.7); print('an' + 'swer')";
    let programs = [
        ("python", json!({"command": ["python3", "-q"]}), python, "answer"),
        (
            "node",
            json!({"command": ["node"]}),
            "for (const from = Date.now(); Date.now() < from + 700;); console.log('an' + 'swer')",
            "answer",
        ),
        ("a question", json!({"command": ["sh", "-c", "read x; sleep 0.3; printf 'Na''me? '; read y"]}), "go", "Name?"),
        ("bash", json!({"shell": "bash"}), "echo answer; sleep 600", "answer"),
    ];
    Failures::check_rows(rows.chain(programs), |(name, parameters, line, answer), failures| {
        let session = field.open(parameters.clone());
        let output = field.home.run(&["terminal", "send", &session, line, "-e"]);
        let is_shown = output.stdout.lines().any(|row| row.trim_end() == *answer);
        if output.code != 0 || !is_shown {
            failures.add(format!("{name}: {output:?}"));
        }
        let output = field.home.run(&["terminal", "send", &session, "-k", "ctrl-c"]);
        if output.code != 0 {
            failures.add(format!("{name}, a key: {output:?}"));
        }
        field.call_tool("exit_terminal", json!({"session_id": session}));
    });
}

#[test]
fn value_of_a_node_or_graph_is_complete_or_its_call_failed() {
    let field = Field::new();
    let outcome = field.run_function(
        "PTYNode(id='shell', session=session, command='bash')\n\
         PTYNode(id='plain', session=session, command='dash')\n\
         BashNode(id='seq', session=session, command='seq 1 {input|sh}')\n\
         BashNode(id='count', session=session, command='printf %s {input|sh} | grep -c .')\n\
         BashNode(id='last', session=session, command='printf %s {input|sh} | tail -n 1')\n\
         Graph(id='both', session=session, steps=[\n    \
             Step(id='made', node='seq', input='{input}'),\n    \
             Step(id='counted', node='count', input='{made}', depends_on=['made']),\n    \
             Step(id='shown', node='last', input='{made}', depends_on=['counted']),\n])\n\
         async def field(ctx):\n    found = []\n    \
             for node in ['shell', 'plain']:\n        \
                 for count in [60000, 100000, 3]:\n            \
                     got = await ctx.run(node, f'seq 1 {count}')\n            \
                     lines = [str(number) for number in range(1, count + 1)]\n            \
                     is_whole = got['output'] is not None and got['output'].split() == lines\n            \
                     found.append([got['success'], got['error_type'], is_whole])\n    \
             graph = await ctx.run_graph('both', '20000')\n    \
             steps = graph['attributes']['steps']\n    \
             found.append([graph['success'], steps['counted']['output'].strip(), graph['output'].strip()])\n    \
             return found\n\
         Workflow(id='field', session=session, fn=field)\n",
    );
    let rows = [json!([true, null, true]), json!([false, "too_large", false]), json!([true, null, true])];
    let mut expected: Vec<Value> = rows.iter().chain(&rows).cloned().collect();
    expected.push(json!([true, "20000", "20000"]));
    assert_eq!(outcome["result"], json!(expected), "{outcome}");
}

#[test]
fn every_command_of_a_node_has_its_output_and_exit_code() {
    let field = Field::new();
    Failures::check_rows(SHELLS.iter().chain(TWO_ROW_PROMPT_SHELLS), |shell, failures| {
        let cases = cases_for(shell, false);
        let commands: Vec<String> = cases.iter().map(|case| case.text()).collect();
        let text = format!(
            "PTYNode(id='shell', session=session, command={:?}, env={})\n\
             async def field(ctx):\n    found = []\n    for command in {}:\n        got = await ctx.run('shell', command)\n        \
             found.append({{'output': got['output'], 'exit_code': got['attributes'].get('exit_code'), 'error': got['error']}})\n    \
             return found\n\
             Workflow(id='field', session=session, fn=field)\n",
            shell.command.join(" "),
            json!(shell.create_home(field.home.path())),
            json!(commands),
        );
        let outcome = field.run_function(&text);
        let results = outcome["result"].as_array().unwrap_or_else(|| panic!("{}: {outcome}", shell.name));
        assert_eq!(results.len(), cases.len(), "{}", shell.name);
        for (case, result) in cases.iter().zip(results) {
            let actual = Outcome::new(result, "output");
            // The output of a node comes from a terminal, whose rows have no known trailing spaces.
            let lines: Vec<&str> = case.output.lines().map(str::trim_end).collect();
            // The shell expands words and reports times for a typed line as usual.
            let is_rewritten_by_shell = ["fish, abbreviations", "zsh, time reports"].contains(&shell.name);
            if actual.text != lines.join("\n") && !is_rewritten_by_shell {
                failures.add(format!("{} / {}: {:?}", shell.name, case.name, actual.text));
            }
            failures.compare(shell, case, &actual, false);
        }
    });
}

#[test]
fn every_command_runs_as_written_in_nested_shells_and_ssh() {
    let field = Field::new();
    let server = Server::new();
    let user = steplatch_testkit::user_name();
    let options = format!("-i {} -o StrictHostKeyChecking=accept-new -o LogLevel=ERROR", server.path("key"));
    let shell_names = [
        "bash",
        "bash, heavy prompt",
        "bash, vi mode",
        "bash, slow start",
        "zsh",
        "zsh, heavy prompt",
        "zsh, slow start",
        "fish",
        "fish, heavy prompt",
        "dash",
    ];
    Failures::check_rows(SHELLS.iter().filter(|shell| shell_names.contains(&shell.name)), |shell, failures| {
        let variables: Vec<String> =
            shell.create_home(field.home.path()).into_iter().map(|(name, value)| format!("{name}='{value}'")).collect();
        let start = format!("env {} {}", variables.join(" "), shell.command.join(" "));
        for start_command in [start.clone(), format!("{} \"{start}\"", server.ssh(&user, &options))] {
            let session = field.open(json!({"shell": "bash"}));
            let reply = field.call_tool(
                "send_input",
                json!({"session_id": session, "input_text": format!("{start_command}\n"), "until": "input", "timeout": COMMAND_TIMEOUT}),
            );
            assert_eq!(reply["waited"]["reason"], "input", "{}: {reply}", shell.name);
            // A shell is integrated by its first command, and has exit codes after that.
            let integrated = Shell { is_integrated: true, ..**shell };
            for case in cases_for(shell, true) {
                failures.compare(&integrated, case, &field.run(&session, &case.text(), true), true);
            }
            field.call_tool("exit_terminal", json!({"session_id": session}));
        }
    });
}

/// Programs that show a nested terminal without forwarding the reports of its shell.
pub(crate) const MULTIPLEXERS: [(&str, &str); 3] = [
    ("tmux", "tmux -f /dev/null new"),
    ("screen", "screen"),
    ("tmux inside another program", "script -q -c 'tmux -f /dev/null new' /dev/null"),
];

#[test]
fn line_in_a_multiplexer_has_output_but_no_exit_code() {
    const SHELL_NAMES: [&str; 7] = ["bash", "bash, heavy prompt", "bash, slow start", "zsh", "fish", "dash", "tcsh"];
    let field = Field::new();
    let shells = SHELLS.iter().filter(|shell| SHELL_NAMES.contains(&shell.name));
    let rows = shells.flat_map(|shell| MULTIPLEXERS.map(|multiplexer| (shell, multiplexer)));
    Failures::check_rows(rows, |(shell, (multiplexer, command)), failures| {
        let mut variables = shell.create_home(field.home.path());
        let home = format!("{}/{}", variables["HOME"], multiplexer.replace(' ', "_"));
        for directory in ["tmux", "screen"].map(|name| format!("{home}/{name}")) {
            fs::create_dir_all(&directory).unwrap();
            fs::set_permissions(&directory, PermissionsExt::from_mode(0o700)).unwrap();
        }
        fs::write(format!("{home}/screenrc"), "startup_message off\nshelltitle ''\n").unwrap();
        variables.extend([
            ("SHELL", find_program(shell.command[0]).expect("the shell is installed").display().to_string()),
            ("SCREENRC", format!("{home}/screenrc")),
            ("SCREENDIR", format!("{home}/screen")),
            ("TMUX_TMPDIR", format!("{home}/tmux")),
        ]);
        let session = field.open(json!({"command": ["bash", "--norc"], "environment": variables}));
        let type_line = |line: &str| {
            field.call_tool(
                "send_input",
                json!({"session_id": session, "input_text": format!("{line}\n"), "until": "input", "timeout": COMMAND_TIMEOUT}),
            )
        };
        let mut check = |step: &str, is_correct: bool, reply: &Value| {
            if !is_correct {
                failures.add(format!("{} in {multiplexer} / {step}: {reply}", shell.name));
            }
        };
        // Rows of a part of the screen are preceded by their numbers.
        let has_row = |reply: &Value, text: &str| {
            let screen = reply["screen_content"].as_str().unwrap_or_default();
            screen.lines().any(|row| row.split_once("| ").map_or(row, |(_, row)| row).trim_end() == text)
        };
        let start_reply = type_line(command);
        check("its start", start_reply["waited"]["reason"] == "input", &start_reply);
        for (line, row) in
            [("echo wit''hin", "within"), ("sleep 1; echo la''ter; false", "later"), ("echo th''en", "then")]
        {
            let reply = type_line(line);
            let is_correct =
                reply["waited"]["reason"] == "input" && has_row(&reply, row) && reply["exit_code"].is_null();
            check(line, is_correct, &reply);
        }
        let result = field.run(&session, "echo wrong", false);
        let is_refused = result.error.as_ref().is_some_and(|error| error.contains("controls the screen"));
        check("run_command", is_refused, &json!([result.text, result.error]));
        let screen = field.call_tool("get_screen_content", json!({"session_id": session}));
        check("run_command types nothing", !screen.to_string().contains("wrong"), &screen);
        let exit_reply = type_line("exit");
        check(
            "its end",
            exit_reply["waited"]["reason"] == "input" || exit_reply["waited"]["reason"] == "prompt",
            &exit_reply,
        );
        let result = field.run(&session, "echo back", false);
        check("afterwards", result.text == "back\n", &json!([result.text, result.error]));
        field.call_tool("exit_terminal", json!({"session_id": session}));
    });
}
