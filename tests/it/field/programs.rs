//! Interactive programs: interpreters that read entries, and questions in the forms that programs draw.

use serde_json::{Value, json};

use crate::field::ways::{COMMAND_TIMEOUT, Failures, Field};

/// An interpreter, and entries with their outputs.
struct Interpreter {
    name: &'static str,
    command: &'static [&'static str],
    /// The prompt, as a pattern at the end of the output.
    prompt: &'static str,
    entries: &'static [(&'static str, &'static str)],
}

/// The table of interpreters.
const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        name: "python",
        command: &["python3", "-q"],
        prompt: ">>> $",
        entries: &[
            ("6 * 7", "42\n"),
            ("x = 'a!b'", ""),
            ("x", "'a!b'\n"),
            ("def f():\n    a = 1\n\n    return a + 1\nf()", "2\n"),
            ("for i in range(2):\n    print(i)", "0\n1\n"),
            ("1 / 0", "ZeroDivisionError: division by zero\n"),
            ("print('>>> ')", ">>> \n"),
            ("import time; time.sleep(0.5); print('late')", "late\n"),
        ],
    },
    Interpreter {
        name: "ipython",
        command: &["ipython3", "--no-banner", "--colors=NoColor"],
        prompt: r"In \[\d+\]: *$",
        entries: &[
            ("print(6 * 7)", "42\n"),
            ("print('a!b')", "a!b\n"),
            ("def f():\n    a = 1\n\n    return a + 1\nprint(f())", "2\n"),
        ],
    },
    Interpreter {
        name: "ipython, simple prompt",
        command: &["ipython3", "--no-banner", "--colors=NoColor", "--simple-prompt"],
        prompt: r"In \[\d+\]: *$",
        entries: &[("print(6 * 7)", "42\n"), ("print('a!b')", "a!b\n")],
    },
    Interpreter {
        name: "node",
        command: &["node"],
        prompt: "> $",
        entries: &[("6 * 7", "42\n"), ("'a!b'", "'a!b'\n"), ("[1, 2].map(x =>\n  x + 1)", "[ 2, 3 ]\n")],
    },
    Interpreter {
        name: "sqlite",
        command: &["sqlite3"],
        prompt: "sqlite> $",
        entries: &[
            ("select 6 * 7;", "42\n"),
            ("select 'a',\n'b!c';", "a|b!c\n"),
            ("select 1 nothing nothing;", "near \"nothing\": syntax error"),
        ],
    },
    Interpreter {
        name: "bc",
        command: &["bc", "-q"],
        prompt: "",
        entries: &[("6 * 7", "42\n"), ("2 ^ 70", "1180591620717411303424\n")],
    },
    Interpreter {
        name: "gdb",
        command: &["gdb", "-q", "-nx"],
        prompt: r"\(gdb\) $",
        entries: &[("print 6 * 7", "$1 = 42\n"), ("echo a\\n", "a\n")],
    },
];

/// A question drawn by a program. A shell command asks it.
struct Question {
    name: &'static str,
    command: &'static str,
    /// The text at the cursor.
    text: &'static str,
    answer: &'static str,
    /// The line printed for the answer.
    result: &'static str,
}

const fn question(name: &'static str, command: &'static str, text: &'static str) -> Question {
    Question { name, command, text, answer: "ada", result: "got ada" }
}

/// The table of questions.
const QUESTIONS: &[Question] = &[
    question("read", "sh -c 'printf \"Name? \"; read x; echo got $x'", "Name?"),
    question("bash's read", "bash -c 'read -p \"Name? \" x; echo got $x'", "Name?"),
    Question {
        result: "got 3",
        ..question("not echoed", "bash -c 'read -s -p \"Password: \" x; echo; echo got ${#x}'", "Password:")
    },
    question("in pieces", "sh -c 'printf Na; sleep 0.3; printf \"me? \"; read x; echo got $x'", "Name?"),
    question("after much output", "sh -c 'seq 300; printf \"More? \"; read x; echo got $x'", "More?"),
    question(
        "over a progress line",
        "sh -c 'printf \"working 100%%\\rReally? \\033[K\"; read x; echo got $x'",
        "Really?",
    ),
    question(
        "redrawn with the cursor moved",
        "sh -c 'printf \"? Project name (demo) \\033[22D\\033[22C\"; read x; echo got $x'",
        "? Project name (demo)",
    ),
    question(
        "in colours",
        "sh -c 'printf \"\\033[1;32m?\\033[0m \\033[1mPick one\\033[0m \"; read x; echo got $x'",
        "? Pick one",
    ),
    question("over the width", "sh -c 'printf \"%0100d and so on? \" 7; read x; echo got $x'", "7 and so on?"),
    question(
        "with the line below drawn",
        "sh -c 'printf \"Name: \\n(enter accepts)\\033[A\\r\\033[6C\"; read x; echo; echo got $x'",
        "Name:",
    ),
    question("python", "python3 -c 'print(\"got\", input(\"Age? \"))'", "Age?"),
    question(
        "node",
        "node -e 'const r = require(\"readline\").createInterface(process.stdin, process.stdout); r.question(\"Age? \", x => { console.log(\"got \" + x); r.close() })'",
        "Age?",
    ),
    question(
        "in a terminal of its own",
        "script -q -e -c \"sh -c 'printf \\\"Name? \\\"; read x; echo got \\$x'\" /dev/null",
        "Name?",
    ),
    question(
        "anywhere on the screen",
        "bash -c 'printf \"some\\033[20d\\033[3GName? \"; read -r x; echo got $x $$'",
        "Name?",
    ),
    question(
        "without a question mark",
        "sh -c 'echo Type the name of the branch; read x; echo got $x'",
        "Type the name of the branch",
    ),
];

impl Question {
    fn check(&self, failures: &mut Failures, way: &str, question_reply: &Value, answer_reply: &Value) {
        let text = |reply: &Value| {
            reply["screen_content"].as_str().or(reply["output"].as_str()).unwrap_or_default().to_owned()
        };
        let is_asked = (question_reply["awaiting_input"] == true || question_reply["waited"]["reason"] == "input")
            && text(question_reply).trim_end().contains(self.text);
        let is_answered = answer_reply["waited"]["reason"] == "prompt"
            && answer_reply["exit_code"] == 0
            && text(answer_reply).contains(self.result);
        if !is_asked || !is_answered {
            failures.add(format!("{} / {way}:\n  asked {question_reply}\n  answered {answer_reply}", self.name));
        }
    }
}

/// Returns a pattern that matches `text` literally.
fn literal_pattern(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_alphanumeric() { letter.to_string() } else { format!("[{letter}]") })
        .collect()
}

#[test]
fn every_interpreter_entry_has_its_output() {
    let field = Field::new();
    Failures::check_rows(INTERPRETERS, |interpreter, failures| {
        let direct = field.open(json!({"command": interpreter.command}));
        let nested = field.open(json!({"shell": "bash"}));
        let line = format!("{}\n", interpreter.command.join(" "));
        field.call_tool(
            "send_input",
            json!({"session_id": nested, "input_text": line, "until": "input", "timeout": COMMAND_TIMEOUT}),
        );
        for (place, session) in [("alone", direct), ("in bash", nested)] {
            for (entry, output) in interpreter.entries {
                let result = field.run(&session, entry, false);
                if !result.text.ends_with(output) && !result.text.contains(output.trim_end())
                    // Rows drawn by a line editor.
                    || result.text.starts_with(['\n', ' '])
                    || result.text.contains("In [")
                    || result.error.is_some()
                    || result.exit_code.is_some()
                {
                    failures.add(format!(
                        "{} {place} / {entry:?}: {:?}, {:?}; expected {output:?}",
                        interpreter.name, result.text, result.error
                    ));
                }
            }
            field.call_tool("exit_terminal", json!({"session_id": session}));
        }
    });
}

#[test]
fn every_entry_of_a_persistent_interpreter_has_its_output() {
    let field = Field::new();
    Failures::check_rows(
        INTERPRETERS.iter().filter(|interpreter| !interpreter.prompt.is_empty()),
        |interpreter, failures| {
            let entries: Vec<&(&str, &str)> =
                interpreter.entries.iter().filter(|(entry, _)| !entry.contains('\n')).collect();
            let text = format!(
                "PTYNode(id='program', session=session, command={:?}, ready={})\n\
             async def field(ctx):\n    return [(await ctx.run('program', entry))['output'] for entry in {}]\n\
             Workflow(id='field', session=session, fn=field)\n",
                interpreter.command.join(" "),
                json!({"pattern": interpreter.prompt}),
                json!(entries.iter().map(|(entry, _)| entry).collect::<Vec<_>>()),
            );
            let outcome = field.run_function(&text);
            for (number, (entry, output)) in entries.into_iter().enumerate() {
                let actual = outcome["result"][number].as_str().unwrap_or_default();
                if !actual.contains(output.trim_end()) {
                    failures.add(format!(
                        "{} / {entry:?}: {actual:?}, expected {output:?}; {}",
                        interpreter.name, outcome["error"]
                    ));
                }
            }
        },
    );
}

/// Programs at whose prompt an empty line is not just the end of a line, unless they take the block as a paste.
const BLOCKS: &[(&str, &str, &str, &str, &str)] = &[
    ("python", "python3 -q", ">>> $", "def f():\n    a = 1\n\n    return a + 41\n\nf()\n", "42"),
    ("python, with its editor", "python3 -q", ">>> $", "if 1:\n    a = 42\n\n    print(a)\n", "42"),
    (
        "python, basic",
        "env PYTHON_BASIC_REPL=1 python3 -q",
        ">>> $",
        "def f():\n    a = 1\n\n    return a + 41\n\nf()\n",
        "42",
    ),
    ("python, a clause", "env PYTHON_BASIC_REPL=1 python3 -q", ">>> $", "if 0:\n    1\n\nelse:\n    6 * 7\n\n", "42"),
    (
        "python, a class",
        "env PYTHON_BASIC_REPL=1 python3 -q",
        ">>> $",
        "class A:\n    x = 42\n\n    def m(self): return self.x\n\nA().m()\n",
        "42",
    ),
    ("python, no block", "env PYTHON_BASIC_REPL=1 python3 -q", ">>> $", "sum([40,\n\n 2])\n", "42"),
    (
        "ipython",
        "ipython3 --no-banner --colors=NoColor",
        r"In \[\d+\]: *$",
        "def f():\n    a = 1\n\n    return a + 41\n\nprint(f())\n",
        "42",
    ),
    (
        "ipython, simple prompt",
        "ipython3 --no-banner --colors=NoColor --simple-prompt",
        r"In \[\d+\]: *$",
        "def f():\n    a = 1\n\n    return a + 41\n\nprint(f())\n",
        "42",
    ),
    ("node", "node", "> $", "[40,\n\n2].reduce((a, b) =>\n\na + b)\n", "42"),
    ("pdb", "printf 'x = 1\\ny = 2\\n' > p.py; exec python3 -m pdb p.py", r"\(Pdb\) $", "p 1\n\np 6 * 7\n", "42"),
    ("gdb", "gdb -q -nx", r"\(gdb\) $", "print 1\n\nprint 6 * 7\n", "$2 = 42"),
];

#[test]
fn block_with_empty_lines_is_typed_whole_or_not_at_all() {
    let field = Field::new();
    Failures::check_rows(BLOCKS, |(name, command, prompt, block, result), failures| {
        let session = field.open(json!({"command": ["sh", "-c", command]}));
        let await_prompt = |since: &str| {
            field.call_tool(
                "await_output",
                json!({"session_id": session, "pattern": prompt, "since": since, "timeout": COMMAND_TIMEOUT}),
            )
        };
        await_prompt("input");
        let reply = field.call_tool("send_input", json!({"session_id": session, "input_text": block, "pattern": format!("{}\\s", literal_pattern(result)), "timeout": 5}));
        let is_refused = reply["error"].as_str().is_some_and(|error| error.contains("empty line"));
        let is_whole = reply["waited"]["reason"] == "match"
            && !reply["screen_content"].as_str().unwrap_or_default().contains("Error");
        let screen_reply = field.call_tool("get_screen_content", json!({"session_id": session}));
        let first = block.lines().next().unwrap_or_default();
        let is_typed = screen_reply["screen_content"].as_str().is_some_and(|screen| screen.contains(first));
        if !(is_whole || is_refused && !is_typed) {
            failures.add(format!("{name} / send_input: {reply} {screen_reply}"));
        }
        field.call_tool("exit_terminal", json!({"session_id": session}));
        let outcome = field.run_function(&format!(
            "PTYNode(id='program', session=session, command={:?}, ready={})\n\
             async def field(ctx):\n    got = await ctx.run('program', {:?}, timeout=60)\n    \
             return [got['success'], got['output'], got['error'], got['attributes'].get('session_id')]\n\
             Workflow(id='field', session=session, fn=field)\n",
            format!("sh -c \"{command}\""),
            json!({"pattern": prompt}),
            block.trim_end_matches('\n'),
        ));
        let result_fields = &outcome["result"];
        let is_refused =
            result_fields[0] == false && result_fields[2].as_str().is_some_and(|error| error.contains("empty line"));
        let output = result_fields[1].as_str().unwrap_or_default();
        let is_whole = result_fields[0] == true && output.contains(result) && !output.contains("Error");
        if !is_whole && !is_refused {
            failures.add(format!("{name} / node: {outcome}"));
        }
    });
}

/// Programs that show their prompt late: the opening of the terminal has already stopped waiting for the prompt.
#[test]
fn every_persistent_program_may_start_late() {
    let field = Field::new();
    let rows = [
        ("bash", "sh -c 'sleep 5; exec bash'", ["echo one", "echo two"], ["one", "two"]),
        ("bash without marks", "sh -c 'sleep 5; exec bash --norc'", ["echo one", "echo two"], ["one", "two"]),
        ("python", "sh -c 'sleep 5; exec python3 -q'", ["6 * 7", "7 * 7"], ["42", "49"]),
        ("node", "sh -c 'sleep 5; exec node'", ["6 * 7", "7 * 7"], ["42", "49"]),
    ];
    Failures::check_rows(rows, |(name, command, entries, outputs), failures| {
        let text = format!(
            "PTYNode(id='late', session=session, command={command:?})\n\
             async def field(ctx):\n    return [(await ctx.run('late', entry))['output'] for entry in {}]\n\
             Workflow(id='field', session=session, fn=field)\n",
            json!(entries),
        );
        let outcome = field.run_function(&text);
        if outcome["result"] != json!(outputs) {
            failures.add(format!("{name}: {}, expected {outputs:?}; {}", outcome["result"], outcome["error"]));
        }
    });
}

#[test]
fn every_question_is_in_the_reply_and_takes_its_answer() {
    let field = Field::new();
    Failures::check_rows(["bash", "zsh", "fish"], |shell, failures| {
        let session = field.open(json!({"shell": shell}));
        for question in QUESTIONS {
            let answer = json!({
                "session_id": session, "input_text": format!("{}\n", question.answer), "until": "prompt", "timeout": COMMAND_TIMEOUT
            });
            let command = json!({
                "session_id": session, "input_text": format!("{}\n", question.command), "until": "prompt", "timeout": COMMAND_TIMEOUT
            });
            let question_reply = field.call_tool("send_input", command);
            question.check(
                failures,
                &format!("typed in {shell}"),
                &question_reply,
                &field.call_tool("send_input", answer.clone()),
            );
            let run = json!({"session_id": session, "command": question.command, "timeout": COMMAND_TIMEOUT});
            let question_reply = field.call_tool("run_command", run);
            question.check(
                failures,
                &format!("run in {shell}"),
                &question_reply,
                &field.call_tool("send_input", answer),
            );
        }
        field.call_tool("exit_terminal", json!({"session_id": session}));
    });
}

#[test]
fn every_question_is_answered_by_machine_and_node_rules() {
    let field = Field::new();
    Failures::check_rows(QUESTIONS, |question, failures| {
        let script = json!({
            "rules": [{"when": format!("{} *$", literal_pattern(question.text)), "type": format!("{}\n", question.answer)}], "timeout": COMMAND_TIMEOUT
        });
        let mut dialogue = script.clone();
        dialogue["input_text"] = format!("{}\n", question.command).into();
        let definition = json!({"name": "field", "initial_state": "open", "states": {
            "open": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}}, "transitions": [{"condition": "success", "next_state": "ask"}]},
            "ask": {"action": {"tool": "dialogue", "params": dialogue}, "timeout": 90, "transitions": [{"condition": "success", "next_state": "end"}]},
            "end": {"action": {"tool": "return", "params": {"result": ["{ask_answers}", "{ask_exit_code}", "{ask_screen_content}"]}}},
        }});
        let outcome = field.run_machine(&definition);
        let result = &outcome["result"];
        let screen = result[2].as_str().unwrap_or_default();
        if result[0] != 1 || result[1] != 0 || !screen.contains(question.result) {
            failures.add(format!("{} / machine: {result}, {}", question.name, outcome["error"]));
        }
        let text = format!(
            "PTYNode(id='shell', session=session, command='bash', dialogue={script})\n\
             async def field(ctx):\n    got = await ctx.run('shell', {:?})\n    return [got['success'], got['output'], got['error']]\n\
             Workflow(id='field', session=session, fn=field)\n",
            question.command
        );
        let outcome = field.run_function(&text);
        if outcome["result"][0] != true
            || !outcome["result"][1].as_str().is_some_and(|output| output.contains(question.result))
        {
            failures.add(format!("{} / node: {}, {}", question.name, outcome["result"], outcome["error"]));
        }
    });
}
