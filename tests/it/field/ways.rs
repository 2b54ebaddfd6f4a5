//! The ways in which a command reaches a shell, each applied to the whole table of shells and commands.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home, find_program};

use crate::field::cases::{CASES, Case};
use crate::field::shells::{Dialect, PROMPTS_OF_ROWS, SHELLS, Shell};
use crate::ssh_server::Server;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Maximum duration of a command, in seconds.
pub(crate) const COMMAND_TIMEOUT: f64 = 60.0;

/// The outcome of a command.
pub(crate) struct Outcome {
    /// Its output, or for ways without one the text since the command was typed.
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
    fn compare(&mut self, shell: &Shell, case: &Case, got: &Outcome, is_exact: bool) {
        let is_text_right = match is_exact {
            true => got.text == case.output,
            false => case.output.lines().all(|line| got.text.contains(line.trim_end())),
        };
        let exit_code = shell.is_integrated.then_some(case.exit_code);
        if !is_text_right || got.exit_code != exit_code || got.error.is_some() {
            self.add(format!(
                "{} / {}: {:?} with exit code {:?}, expected {:?} with {exit_code:?}; {:?}",
                shell.name, case.name, got.text, got.exit_code, case.output, got.error
            ));
        }
    }

    pub(crate) fn add(&mut self, row: String) {
        self.0.push(row);
    }

    /// Runs `work` for all rows of a table concurrently: most of the time is spent waiting.
    pub(crate) fn of_rows<R>(rows: impl IntoIterator<Item = R>, work: impl Fn(&R, &mut Self) + Sync)
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
        assert!(self.0.is_empty(), "{} rows are wrong:\n{}", self.0.len(), self.0.join("\n"));
    }
}

impl Field {
    pub(crate) fn new() -> Self {
        let home = Home::new(STEPLATCH);
        let agent = Agent::new(&home);
        Self { home, agent }
    }

    /// Creates a directory with this name.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.home.path().join(name);
        fs::create_dir(&folder).unwrap();
        folder
    }

    pub(crate) fn open(&self, opening: Value) -> String {
        self.agent.call_tool("open_terminal", opening)["session_id"].as_str().unwrap().to_owned()
    }

    /// Returns the reply of a tool, even with `isError`.
    pub(crate) fn reply(&self, tool: &str, arguments: Value) -> Value {
        let mut answer = self.agent.begin(tool, arguments).answer();
        match answer["result"]["structuredContent"].take() {
            Value::Null => json!({"error": answer["result"]["content"][0]["text"]}),
            reply => reply,
        }
    }

    pub(crate) fn run(&self, session: &str, command: &str, integrate: bool) -> Outcome {
        let mut arguments =
            json!({"session_id": session, "command": command, "timeout": COMMAND_TIMEOUT, "limit": 100_000});
        if integrate {
            arguments["integrate"] = true.into();
        }
        Outcome::new(&self.reply("run_command", arguments), "output")
    }

    fn type_line(&self, session: &str, command: &str) -> Outcome {
        let arguments = json!({
            "session_id": session, "input_text": format!("{command}\n"), "until": "prompt", "timeout": COMMAND_TIMEOUT, "screen": "new"
        });
        let reply = self.reply("send_input", arguments);
        let mut outcome = Outcome::new(&reply, "screen_content");
        if reply["waited"]["reason"] == "timeout" {
            outcome.error = Some("its prompt did not come".to_owned());
        }
        outcome
    }

    /// Runs a machine to its end.
    pub(crate) fn machine(&self, definition: &Value) -> Value {
        self.reply(
            "run_workflow",
            json!({"workflow_definition": definition, "wait_seconds": 170, "save_on_success": false, "detail": "full"}),
        )
    }

    /// Runs the function of a file to its end.
    pub(crate) fn function(&self, text: &str) -> Value {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let file = self.home.path().join(format!("field{}.py", NEXT.fetch_add(1, Ordering::Relaxed)));
        std::fs::write(&file, text).unwrap();
        self.reply("run_workflow", json!({"workflow_file": file, "wait_seconds": 170, "save_on_success": false}))
    }

    /// Runs a machine that opens the shell and has one state for each case, and returns the results of these states.
    fn run_cases(&self, shell: &Shell, cases: &[&Case], action: impl Fn(&Case) -> Value) -> Vec<Value> {
        let mut states = json!({
            "open": {
                "action": {"tool": "open_terminal", "params": shell.opening(self.home.path())},
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
        let ended = self.machine(&json!({"name": "field", "initial_state": "open", "states": states}));
        let results: Vec<Value> = ended["execution_log"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|entry| {
                entry["phase"] == "execution" && entry["state"].as_str().is_some_and(|state| state.starts_with("case"))
            })
            .map(|entry| entry["result"].clone())
            .collect();
        assert_eq!(results.len(), cases.len(), "{}: {} {}", shell.name, ended["status"], ended["error"]);
        results
    }
}

fn cases_for(shell: &Shell, as_written: bool) -> Vec<&'static Case> {
    CASES.iter().filter(|case| case.is_for(shell, as_written)).collect()
}

#[test]
fn every_command_runs_as_written_in_every_shell() {
    let field = Field::new();
    Failures::of_rows(SHELLS, |shell, failures| {
        let session = field.open(shell.opening(field.home.path()));
        for case in cases_for(shell, true) {
            failures.compare(shell, case, &field.run(&session, &case.text(), false), true);
        }
        field.reply("exit_terminal", json!({"session_id": session}));
    });
}

#[test]
fn exclamation_mark_is_refused_by_an_expanding_shell() {
    let field = Field::new();
    for shell in SHELLS.iter().filter(|shell| !shell.is_integrated) {
        let session = field.open(shell.opening(field.home.path()));
        let result = field.run(&session, "echo \"a!b\"", false);
        let is_refused = result.text.is_empty() && result.error.as_ref().is_some_and(|error| error.contains("history"));
        assert!(
            is_refused || (result.text == "a!b\n" && result.error.is_none()),
            "{}: {:?} {:?}",
            shell.name,
            result.text,
            result.error
        );
        field.reply("exit_terminal", json!({"session_id": session}));
    }
}

#[test]
fn every_line_typed_by_an_agent_is_followed_to_its_prompt() {
    let field = Field::new();
    Failures::of_rows(SHELLS, |shell, failures| {
        let session = field.open(shell.opening(field.home.path()));
        for case in cases_for(shell, false) {
            failures.compare(shell, case, &field.type_line(&session, &case.text()), false);
        }
        field.reply("exit_terminal", json!({"session_id": session}));
    });
}

#[test]
fn every_command_of_a_machine_has_its_output_and_exit_code() {
    let field = Field::new();
    Failures::of_rows(SHELLS, |shell, failures| {
        let cases = cases_for(shell, true);
        let run = |case: &Case| json!({"tool": "run_command", "params": {"command": case.text(), "timeout": COMMAND_TIMEOUT}});
        for (case, result) in cases.iter().zip(field.run_cases(shell, &cases, run)) {
            // Values of a machine lack the final newline, and a failure also has the exit code in words.
            let mut got = Outcome::new(&result, "output");
            got.text.push_str(if case.output.ends_with('\n') { "\n" } else { "" });
            // A shell without exit codes leaves it unknown.
            let is_unknown = !shell.is_integrated && got.exit_code.is_none();
            assert_eq!(is_unknown, result["exit_code_unknown"] == true, "{} / {}", shell.name, case.name);
            got.error = got.error.filter(|_| case.exit_code == 0 && !is_unknown);
            failures.compare(shell, case, &got, true);
        }
    });
}

#[test]
fn every_line_typed_by_a_machine_is_followed_to_its_prompt() {
    let field = Field::new();
    // A machine waits for the prompt named in its definition, which only an integrated shell reports.
    Failures::of_rows(SHELLS.iter().filter(|shell| shell.is_integrated), |shell, failures| {
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
    const DRAWS: &str = "sh -c 'printf \"\\033[?1049h\\033[Hdrawn\"; read x; printf \"\\033[?1049l\"; echo back'";
    let field = Field::new();
    let says = |text: &Value| text.as_str().is_some_and(|text| text.contains("content_mode: screen"));
    Failures::of_rows(SHELLS.iter().filter(|shell| shell.files.is_empty()), |shell, failures| {
        let session = field.open(shell.opening(field.home.path()));
        let types = |text: &str, pattern: &str| {
            field.reply("send_input", json!({"session_id": session, "input_text": format!("{text}\n")}));
            field.reply(
                "await_output",
                json!({"session_id": session, "pattern": pattern, "target": "screen", "timeout": COMMAND_TIMEOUT}),
            )
        };
        let read = |mode: &str| field.reply("get_screen_content", json!({"session_id": session, "content_mode": mode}));
        types(DRAWS, "^drawn");
        let since = read("since_input");
        // Without marks, the echo is part of the text.
        let text = since["screen_content"].as_str().unwrap_or("none");
        let is_wrong = shell.is_integrated && text != "none" || text.trim().is_empty();
        if is_wrong || !says(&since["hint"]) || since["success"] != true {
            failures.add(format!("{}, since the input: {since}", shell.name));
        }
        for mode in ["history", "tail"] {
            let text = read(mode);
            if !says(&text["hint"]) {
                failures.add(format!("{}, {mode}: {text}", shell.name));
            }
        }
        let screen = read("screen");
        if screen["screen_content"] != "drawn" || !screen["hint"].is_null() {
            failures.add(format!("{}, the screen: {screen}", shell.name));
        }
        types("", "^back");
        let since = read("since_input");
        if !since["screen_content"].as_str().is_some_and(|text| text.contains("back")) || !since["hint"].is_null() {
            failures.add(format!("{}, afterwards: {since}", shell.name));
        }
        field.reply("exit_terminal", json!({"session_id": session}));
    });
    let state = |tool: &str, params: Value, next: &str| json!({"action": {"tool": tool, "params": params}, "transitions": [{"condition": "success", "next_state": next}]});
    let ended = field.machine(&json!({"name": "drawn", "initial_state": "open", "states": {
        "open": state("open_terminal", json!({"shell": "bash"}), "draw"),
        "draw": state("send_input", json!({"input_text": format!("{DRAWS}\n")}), "see"),
        "see": state(
            "await_output",
            json!({"pattern": "^drawn", "target": "screen", "timeout": COMMAND_TIMEOUT}),
            "read",
        ),
        "read": {"action": {"tool": "get_screen_content", "params": {"content_mode": "since_input"}}},
    }}));
    assert!(ended["status"] == "failed" && says(&ended["error"]), "{ended}");
    let ended = field.function(&format!(
        "PTYNode(id='drawn', session=session, command='bash', ready='quiet')\nasync def field(ctx):\n    \
         got = await ctx.run('drawn', {DRAWS:?})\n    \
         return [got['output'], got['attributes'].get('alternate_screen')]\nWorkflow(id='field', session=session, fn=field)\n"
    ));
    assert_eq!(ended["result"], json!(["drawn", true]), "{ended}");
}

/// Lines from which a shell runs nothing: a missing history event, and a syntax error.
const RUN_NOTHING: &[(&str, &[Dialect])] = &[("echo \"a!b\"", &[Dialect::Posix]), ("echo )(", &[Dialect::Posix])];

/// Lines without a command.
const NOTHING_TO_RUN: &[(&str, &[Dialect])] =
    &[("", &[Dialect::Posix, Dialect::Fish]), ("  ", &[Dialect::Posix, Dialect::Fish]), ("# a", &[Dialect::Fish])];

/// Returns the lines of a table for a shell.
fn lines_for(table: &[(&'static str, &[Dialect])], shell: &Shell) -> Vec<&'static str> {
    table.iter().filter(|(_, dialects)| dialects.contains(&shell.dialect)).map(|(line, _)| *line).collect()
}

fn says_ran_nothing(reply: &Value) -> bool {
    reply["error"].as_str().is_some_and(|error| error.contains("ran nothing"))
}

#[test]
fn typed_line_without_effect_is_not_a_success() {
    const NAMES: [&str; 6] = ["bash", "bash, heavy prompt", "zsh", "zsh, vi mode", "fish", "fish, heavy prompt"];
    let field = Field::new();
    Failures::of_rows(SHELLS.iter().filter(|shell| NAMES.contains(&shell.name)), |shell, failures| {
        let session = field.open(shell.opening(field.home.path()));
        let types = |line: &str, until: Value| {
            field.reply(
                "send_input",
                json!({"session_id": session, "input_text": format!("{line}\n"), "until": until, "timeout": COMMAND_TIMEOUT}),
            )
        };
        let run = |tool: &str, params: Value| json!({"action": {"tool": tool, "params": params}, "transitions": [{"condition": "success", "next_state": "end"}]});
        let machine = |states: Value| {
            let mut all = json!({
                "open": {
                    "action": {"tool": "open_terminal", "params": shell.opening(field.home.path())},
                    "transitions": [{"condition": "success", "next_state": "act"}],
                },
                "end": {"action": {"tool": "exit_terminal", "params": {}}},
            });
            all.as_object_mut().unwrap().extend(states.as_object().unwrap().clone());
            field.machine(&json!({"name": "nothing", "initial_state": "open", "states": all}))
        };
        let rows = lines_for(RUN_NOTHING, shell).into_iter().map(|line| (line, true));
        for (line, is_failure) in rows.chain(lines_for(NOTHING_TO_RUN, shell).into_iter().map(|line| (line, false))) {
            let mut check = |way: &str, is_right: bool, reply: &Value| {
                if !is_right {
                    failures.add(format!("{} / {line:?} / {way}: {reply}", shell.name));
                }
            };
            let as_expected = |reply: &Value| says_ran_nothing(reply) == is_failure && reply["success"] != is_failure;
            field.run(&session, "true", false);
            let reply = types(line, "prompt".into());
            check("send_input", as_expected(&reply) && reply["waited"]["reason"] == "prompt", &reply);
            let reply = field
                .reply("await_output", json!({"session_id": session, "until": "prompt", "timeout": COMMAND_TIMEOUT}));
            check("await_output", as_expected(&reply) && reply["reason"] == "prompt", &reply);
            let text = format!("{line}\n");
            let states = json!({"act": run("send_input", json!({"input_text": text, "until": "prompt", "timeout": COMMAND_TIMEOUT}))});
            let ended = machine(states);
            check(
                "a machine",
                says_ran_nothing(&ended) == is_failure && (ended["status"] == "failed") == is_failure,
                &ended,
            );
            let mut wait = run("send_input", json!({"input_text": text}));
            wait["transitions"][0]["next_state"] = "wait".into();
            let ended = machine(json!({
                "act": wait, "wait": run("await_output", json!({"until": "prompt", "timeout": COMMAND_TIMEOUT})),
            }));
            check(
                "a later wait",
                says_ran_nothing(&ended) == is_failure && (ended["status"] == "failed") == is_failure,
                &ended,
            );
            let rules = json!([{"when": "no such question", "type": "x\n"}]);
            let ended = machine(
                json!({"act": run("dialogue", json!({"input_text": text, "rules": rules, "timeout": COMMAND_TIMEOUT}))}),
            );
            check(
                "a dialogue",
                says_ran_nothing(&ended) == is_failure && (ended["status"] == "failed") == is_failure,
                &ended,
            );
            let send = field.home.run(&["terminal", "send", &session, line, "-e"]);
            let wait = field.home.run(&["terminal", "wait", &session, "--timeout", "60"]);
            let is_right = wait.code == i32::from(is_failure) && wait.stdout.contains("ran nothing") == is_failure;
            check("terminal wait", is_right, &json!([send.stdout, send.stderr, wait.code, wait.stdout, wait.stderr]));
            let ended = field.function(&format!(
                "PTYNode(id='shell', session=session, command={:?}, env={})\nasync def field(ctx):\n    \
                 got = await ctx.run('shell', {line:?})\n    then = await ctx.run('shell', 'echo then')\n    \
                 return [got['success'], got['error'], then['output']]\n\
                 Workflow(id='field', session=session, fn=field)\n",
                shell.command.join(" "),
                json!(shell.settle(field.home.path())),
            ));
            let got = &ended["result"];
            let is_right =
                got[0] != is_failure && says_ran_nothing(&json!({"error": got[1]})) == is_failure && got[2] == "then";
            check("a node", is_right, &ended);
        }
        if shell.dialect == Dialect::Fish {
            // fish keeps an invalid line in its editor, and shows no prompt after it.
            let reply = types("echo )(", "prompt".into());
            let wait = field.home.run(&["terminal", "wait", &session, "--timeout", "60"]);
            if reply["waited"]["reason"] != "input" || wait.code != 3 {
                failures.add(format!("{}, a line that stays: {reply} {wait:?}", shell.name));
            }
        }
        field.reply("exit_terminal", json!({"session_id": session}));
    });
}

#[test]
fn input_of_a_person_is_printed_with_its_answer() {
    let field = Field::new();
    let shells = ["bash", "bash, heavy prompt", "zsh", "fish", "dash", "tcsh"];
    let opening = |shell: &Shell| (shell.name, shell.opening(field.home.path()), "sleep 0.7; echo a''nswer", "answer");
    let rows = SHELLS.iter().filter(|shell| shells.contains(&shell.name)).map(opening);
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
    Failures::of_rows(rows.chain(programs), |(name, opening, line, answer), failures| {
        let session = field.open(opening.clone());
        let sent = field.home.run(&["terminal", "send", &session, line, "-e"]);
        let is_there = sent.stdout.lines().any(|row| row.trim_end() == *answer);
        if sent.code != 0 || !is_there {
            failures.add(format!("{name}: {sent:?}"));
        }
        let sent = field.home.run(&["terminal", "send", &session, "-k", "ctrl-c"]);
        if sent.code != 0 {
            failures.add(format!("{name}, a key: {sent:?}"));
        }
        field.reply("exit_terminal", json!({"session_id": session}));
    });
}

#[test]
fn value_of_a_node_or_graph_is_complete_or_its_call_failed() {
    let field = Field::new();
    let ended = field.function(
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
    assert_eq!(ended["result"], json!(expected), "{ended}");
}

#[test]
fn every_command_of_a_node_has_its_output_and_exit_code() {
    let field = Field::new();
    Failures::of_rows(SHELLS.iter().chain(PROMPTS_OF_ROWS), |shell, failures| {
        let cases = cases_for(shell, false);
        let commands: Vec<String> = cases.iter().map(|case| case.text()).collect();
        let text = format!(
            "PTYNode(id='shell', session=session, command={:?}, env={})\n\
             async def field(ctx):\n    found = []\n    for command in {}:\n        got = await ctx.run('shell', command)\n        \
             found.append({{'output': got['output'], 'exit_code': got['attributes'].get('exit_code'), 'error': got['error']}})\n    \
             return found\n\
             Workflow(id='field', session=session, fn=field)\n",
            shell.command.join(" "),
            json!(shell.settle(field.home.path())),
            json!(commands),
        );
        let ended = field.function(&text);
        let found = ended["result"].as_array().unwrap_or_else(|| panic!("{}: {ended}", shell.name));
        assert_eq!(found.len(), cases.len(), "{}", shell.name);
        for (case, result) in cases.iter().zip(found) {
            let got = Outcome::new(result, "output");
            // The output of a node comes from a terminal, whose rows have no known trailing blanks.
            let lines: Vec<&str> = case.output.lines().map(str::trim_end).collect();
            // The shell expands words and reports times for a typed line as usual.
            let is_shell_s_own = ["fish, abbreviations", "zsh, time reports"].contains(&shell.name);
            if got.text != lines.join("\n") && !is_shell_s_own {
                failures.add(format!("{} / {}: {:?}", shell.name, case.name, got.text));
            }
            failures.compare(shell, case, &got, false);
        }
    });
}

#[test]
fn every_command_runs_as_written_in_nested_shells_and_ssh() {
    let field = Field::new();
    let server = Server::new();
    let user = steplatch_testkit::user_name();
    let options = format!("-i {} -o StrictHostKeyChecking=accept-new -o LogLevel=ERROR", server.path("key"));
    let inner = [
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
    Failures::of_rows(SHELLS.iter().filter(|shell| inner.contains(&shell.name)), |shell, failures| {
        let variables: Vec<String> =
            shell.settle(field.home.path()).into_iter().map(|(name, value)| format!("{name}='{value}'")).collect();
        let start = format!("env {} {}", variables.join(" "), shell.command.join(" "));
        for begin in [start.clone(), format!("{} \"{start}\"", server.ssh(&user, &options))] {
            let session = field.open(json!({"shell": "bash"}));
            let started = field.reply(
                "send_input",
                json!({"session_id": session, "input_text": format!("{begin}\n"), "until": "input", "timeout": COMMAND_TIMEOUT}),
            );
            assert_eq!(started["waited"]["reason"], "input", "{}: {started}", shell.name);
            // A shell is integrated by its first command, and has exit codes from then on.
            let integrated = Shell { is_integrated: true, ..**shell };
            for case in cases_for(shell, true) {
                failures.compare(&integrated, case, &field.run(&session, &case.text(), true), true);
            }
            field.reply("exit_terminal", json!({"session_id": session}));
        }
    });
}

/// Programs that show a nested terminal, and pass on no reports of its shell.
pub(crate) const MULTIPLEXERS: [(&str, &str); 3] = [
    ("tmux", "tmux -f /dev/null new"),
    ("screen", "screen"),
    ("tmux behind another program", "script -q -c 'tmux -f /dev/null new' /dev/null"),
];

#[test]
fn line_in_a_multiplexer_is_seen_without_an_exit_code() {
    const SHELL_NAMES: [&str; 7] = ["bash", "bash, heavy prompt", "bash, slow start", "zsh", "fish", "dash", "tcsh"];
    let field = Field::new();
    let shells = SHELLS.iter().filter(|shell| SHELL_NAMES.contains(&shell.name));
    let rows = shells.flat_map(|shell| MULTIPLEXERS.map(|multiplexer| (shell, multiplexer)));
    Failures::of_rows(rows, |(shell, (multiplexer, command)), failures| {
        let mut variables = shell.settle(field.home.path());
        let home = format!("{}/{}", variables["HOME"], multiplexer.replace(' ', "_"));
        for folder in ["tmux", "screen"].map(|name| format!("{home}/{name}")) {
            fs::create_dir_all(&folder).unwrap();
            fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
        }
        fs::write(format!("{home}/screenrc"), "startup_message off\nshelltitle ''\n").unwrap();
        variables.extend([
            ("SHELL", find_program(shell.command[0]).expect("the shell is installed").display().to_string()),
            ("SCREENRC", format!("{home}/screenrc")),
            ("SCREENDIR", format!("{home}/screen")),
            ("TMUX_TMPDIR", format!("{home}/tmux")),
        ]);
        let session = field.open(json!({"command": ["bash", "--norc"], "environment": variables}));
        let types = |line: &str| {
            field.reply(
                "send_input",
                json!({"session_id": session, "input_text": format!("{line}\n"), "until": "input", "timeout": COMMAND_TIMEOUT}),
            )
        };
        let mut check = |what: &str, is_right: bool, reply: &Value| {
            if !is_right {
                failures.add(format!("{} in {multiplexer} / {what}: {reply}", shell.name));
            }
        };
        // Rows of a part of the screen are preceded by their numbers.
        let has_row = |reply: &Value, text: &str| {
            let screen = reply["screen_content"].as_str().unwrap_or_default();
            screen.lines().any(|row| row.split_once("| ").map_or(row, |(_, row)| row).trim_end() == text)
        };
        let started = types(command);
        check("its start", started["waited"]["reason"] == "input", &started);
        for (line, row) in
            [("echo wit''hin", "within"), ("sleep 1; echo la''ter; false", "later"), ("echo th''en", "then")]
        {
            let reply = types(line);
            let is_right = reply["waited"]["reason"] == "input" && has_row(&reply, row) && reply["exit_code"].is_null();
            check(line, is_right, &reply);
        }
        let result = field.run(&session, "echo wrong", false);
        let is_refused = result.error.as_ref().is_some_and(|error| error.contains("controls the screen"));
        check("run_command", is_refused, &json!([result.text, result.error]));
        let screen = field.reply("get_screen_content", json!({"session_id": session}));
        check("run_command types nothing", !screen.to_string().contains("wrong"), &screen);
        let left = types("exit");
        check("its end", left["waited"]["reason"] == "input" || left["waited"]["reason"] == "prompt", &left);
        let result = field.run(&session, "echo back", false);
        check("afterwards", result.text == "back\n", &json!([result.text, result.error]));
        field.reply("exit_terminal", json!({"session_id": session}));
    });
}
