//! Captured answers and their screens: a program that shows another screen stops the run.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use steplatch_protocol::{CancelWorkflow, CaptureWorkflow, RunWorkflow};
use steplatch_testkit::TestDaemon;

/// A program with questions, and the answers to them.
struct Program {
    text: &'static str,
    answers: Vec<Value>,
    /// An argument with its recorded value and another value.
    argument: Option<(&'static str, &'static str, &'static str)>,
    /// Notes of the program at the end of the capture.
    done: &'static str,
    /// Parts of the program, their replacements, and whether the workflow continues nevertheless.
    changes: Vec<(&'static str, &'static str, bool)>,
}

fn text_input(text: &str) -> Value {
    json!({"input_text": text})
}

fn key_input(keys: &[&str]) -> Value {
    json!({ "keys": keys })
}

/// Draws a menu in place, as prompts of Node and Python do, and then a question in a row with another one below it.
const MENU: &str = r#"entries=(dev staging prod)
at=0
draw() {
  printf 'Where to?\n'
  for i in "${!entries[@]}"; do
    [ "$i" = "$at" ] && printf '> %s\n' "${entries[$i]}" || printf '  %s\n' "${entries[$i]}"
  done
  printf 'arrows move, enter selects'
}
erase() { printf '\r\033[%dA\033[J' $((${#entries[@]} + 1)); }
draw
while :; do
  IFS= read -rsn1 key
  [ -z "$key" ] && break
  [ "$key" = $'\e' ] && read -rsn2 rest && [ "$rest" = '[B' ] && at=$(((at + 1) % ${#entries[@]}))
  erase
  draw
done
erase
printf 'Where to? %s\n' "${entries[$at]}"
stty -icanon
printf 'Project name? \nletters only'
printf '\033[1A\r\033[14C'
read -r name
stty icanon
printf '\033[1A\r\033[JProject name? %s\n' "$name"
echo "Scaffolded $name"
echo "${entries[$at]} $name" >> log
"#;

/// Draws a menu with empty rows around its entries below an answered prompt, as current prompts of Node do. The output
/// between them differs in each run.
const MENU_WITH_BLANKS: &str = r#"read -p '? Name? ' name
printf '\033[1A\r\033[J✔ Name? %s\n' "$name"
echo "Checked in $RANDOM ms"
entries=(dev staging prod)
at=0
draw() {
  printf '? Where to?\n\n'
  for i in "${!entries[@]}"; do
    [ "$i" = "$at" ] && printf '❯ %s\n' "${entries[$i]}" || printf '  %s\n' "${entries[$i]}"
  done
  printf '\n\narrows move, enter selects'
}
erase() { printf '\r\033[%dA\033[J' $((${#entries[@]} + 4)); }
draw
while :; do
  IFS= read -rsn1 key
  [ -z "$key" ] && break
  [ "$key" = $'\e' ] && read -rsn2 rest && [ "$rest" = '[B' ] && at=$(((at + 1) % ${#entries[@]}))
  erase
  draw
done
erase
printf '✔ Where to? %s\n' "${entries[$at]}"
echo "$name ${entries[$at]}" >> log
"#;

/// Draws prompts between frames, with its own cursor: a text with a placeholder, a text, and a menu.
const FRAMED: &str = r#"stty -icanon -echo
printf '\033[?25l┌  hello\n│\n'
ask() {
  value= shown=$2
  while :; do
    printf '◆  %s\n│  %s\n└\n' "$1" "$shown"
    IFS= read -rn1 key
    printf '\033[3A\r\033[J'
    [ -z "$key" ] && break
    value=$value$key shown=${value}_
  done
  printf '◇  %s\n│  %s\n│\n' "$1" "$value"
}
ask 'Project name?' demo; name=$value
ask 'Title?' _; title=$value
entries=(eu us)
at=0
while :; do
  printf '◆  Region?\n'
  for i in "${!entries[@]}"; do
    [ "$i" = "$at" ] && printf '│  ● %s\n' "${entries[$i]}" || printf '│  ○ %s\n' "${entries[$i]}"
  done
  printf '└\n'
  IFS= read -rn1 key
  [ -z "$key" ] && break
  [ "$key" = $'\e' ] && read -rn2 rest && [ "$rest" = '[B' ] && at=$(((at + 1) % ${#entries[@]}))
  printf '\033[%dA\r\033[J' $((${#entries[@]} + 2))
done
printf '\033[?25h'
stty icanon echo
echo "$name $title ${entries[$at]}" >> log
"#;

fn programs() -> Vec<Program> {
    vec![
        Program {
            text: MENU,
            answers: vec![key_input(&["down", "enter"]), text_input("demo\n")],
            argument: None,
            done: "staging demo\n",
            changes: vec![
                ("dev staging prod", "dev prod staging", false),
                ("dev staging prod", "dev wipe staging prod", false),
                ("dev staging prod", "dev staging prod wipe", false),
                ("dev staging prod", "dev staging", false),
                ("dev staging prod", "dev staging-2 prod", false),
                ("at=0", "at=1", false),
                ("Where to?\\n", "What is erased?\\n", false),
                ("'Project name? \\nletters only'", "'Erase a project?\\nby its name'", false),
                ("'Project name? \\nletters only'", "'Project name? \\nthat is erased'", false),
            ],
        },
        Program {
            text: "read -p 'Mail: ' mail\necho \"$mail\" >> log\n",
            answers: vec![text_input("ana@example.org\n")],
            argument: None,
            done: "ana@example.org\n",
            changes: vec![
                ("read -p", "read -sp", false),
                ("read -p", "read -ep", true),
                (
                    "read -p 'Mail: '",
                    "printf 'Mail: '; sleep 0.01; printf '\\rErase which account? '; read -p ''",
                    false,
                ),
                ("read -p 'Mail: '", "printf 'Mail: '; sleep 0.3; read -p ''", true),
                ("read -p 'Mail: '", "echo 'Mail: '; read -p 'Erase: '", false),
            ],
        },
        Program {
            text: "printf '1) small\\n2) full\\n'; read -p '#? ' n; echo \"$n\" >> log\n",
            answers: vec![text_input("2\n")],
            argument: None,
            done: "2\n",
            changes: vec![
                ("printf '", "printf '1) small\\n2) full\\nobsolete, new menu:\\n1) full\\n2) wipe\\n'; : '", false),
                ("printf '", "printf '1) full\\n2) wipe\\nremoved entries:\\n1) small\\n2) full\\n'; : '", false),
                ("printf '", "printf '1) small\\n2) full\\n3) wipe\\n'; : '", false),
                ("printf '", "echo compiling; printf '", true),
            ],
        },
    ]
}

fn machine(answers: &[Value]) -> Value {
    let actions = std::iter::once(text_input("bash program\n")).chain(answers.iter().cloned());
    let count = answers.len();
    let states = actions.enumerate().map(|(number, mut params)| {
        params["until"] = if number == count { "prompt" } else { "input" }.into();
        params["timeout"] = 60.into();
        let mut state = json!({"action": {"tool": "send_input", "params": params}});
        if number < count {
            state["transitions"] = json!([{"condition": "success", "next_state": format!("s{}", number + 1)}]);
        }
        (format!("s{number}"), state)
    });
    let states: Map<String, Value> = states.collect();
    json!({"name": "first", "initial_state": "s0", "states": states})
}

/// Runs a machine until it ends or asks and returns its status and the notes of the program.
async fn run(
    daemon: &TestDaemon,
    directory: &Path,
    machine: &Value,
    session: Option<String>,
    arguments: &[(&str, &str)],
) -> (String, String) {
    let _ = fs::remove_file(directory.join("log"));
    let variables = arguments.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
    let verb = RunWorkflow {
        workflow_definition: Some(machine.clone()),
        session_id: session,
        initial_variables: Some(variables.collect()),
        save_on_success: false,
        wait_seconds: Some(120.0),
        ..RunWorkflow::default()
    };
    let reply = daemon.call(verb).await;
    if reply.status == "waiting" {
        daemon.call(CancelWorkflow { run_id: reply.run_id.clone() }).await;
    }
    let status = format!("{} {}", reply.status, reply.error.unwrap_or_default());
    (status.trim().to_owned(), fs::read_to_string(directory.join("log")).unwrap_or_default())
}

/// Captures the answers to each program and runs the workflow with the unchanged program and with each change.
async fn check_programs(programs: Vec<Program>) {
    for program in programs {
        let daemon = TestDaemon::new().await;
        let directory = daemon.paths().state().parent().unwrap().to_owned();
        let write = |text: &str| fs::write(directory.join("program"), text).unwrap();
        write(program.text);
        let session = daemon.bash().await.id;
        let first = run(&daemon, &directory, &machine(&program.answers), Some(session.clone()), &[]).await;
        assert_eq!(first, ("completed".to_owned(), program.done.to_owned()));
        let recorded = program.argument.iter().map(|(name, value, _)| ((*name).to_owned(), (*value).to_owned()));
        let capture = CaptureWorkflow {
            session_ids: vec![session],
            name: "again".to_owned(),
            inputs: recorded.collect(),
            ..CaptureWorkflow::default()
        };
        let captured = daemon.call(capture).await;
        assert!(captured.success && captured.undecided.is_empty(), "{captured:#?}");
        let definition = captured.workflow_definition;
        let given = program.argument.map(|(name, value, _)| (name, value));
        for _ in 0..2 {
            let second_reply = run(&daemon, &directory, &definition, None, given.as_slice()).await;
            assert_eq!(second_reply, ("completed".to_owned(), program.done.to_owned()), "{definition:#}");
        }
        if let Some((name, value, other)) = program.argument {
            let second_reply = run(&daemon, &directory, &definition, None, &[(name, other)]).await;
            assert_eq!(second_reply, ("completed".to_owned(), program.done.replace(value, other)), "{definition:#}");
        }
        for (part, other, continues) in program.changes {
            let changed = program.text.replacen(part, other, 1);
            assert_ne!(changed, program.text, "{part}");
            write(&changed);
            let (status, done) = run(&daemon, &directory, &definition, None, given.as_slice()).await;
            if continues {
                assert_eq!((status.as_str(), done.as_str()), ("completed", program.done), "{other}: {definition:#}");
            } else {
                assert!(status.starts_with("waiting") && done.is_empty(), "{other}: {status} {done} {definition:#}");
            }
        }
        daemon.stop().await;
    }
}

#[tokio::test]
async fn answer_is_typed_only_at_its_captured_screen() {
    check_programs(programs()).await;
}

#[tokio::test]
async fn menu_with_empty_rows_is_compared_from_question_to_hint() {
    let program = Program {
        text: MENU_WITH_BLANKS,
        answers: vec![text_input("shop\n"), key_input(&["down", "enter"])],
        argument: Some(("NAME", "shop", "mill")),
        done: "shop staging\n",
        changes: vec![
            ("dev staging prod", "dev prod staging", false),
            ("dev staging prod", "dev wipe staging prod", false),
            ("dev staging prod", "dev staging", false),
            ("at=0", "at=1", false),
            ("Where to?\\n", "What is erased?\\n", false),
            ("enter selects", "enter erases", false),
            ("Checked in", "Checked all rows in", true),
        ],
    };
    check_programs(vec![program]).await;
}

#[tokio::test]
async fn framed_answer_is_typed_only_below_its_question() {
    let program = Program {
        text: FRAMED,
        answers: vec![text_input("shop\n"), text_input("Box\n"), key_input(&["down", "enter"])],
        argument: Some(("NAME", "shop", "mill")),
        done: "shop Box us\n",
        changes: vec![
            ("Project name?", "Delete which project?", false),
            ("demo", "all", false),
            ("Title?", "Erase which title?", false),
            ("Region?", "Erase which region?", false),
            ("eu us", "us eu", false),
            ("eu us", "eu asia us", false),
            ("eu us", "eu", false),
            ("hello", "welcome", true),
        ],
    };
    check_programs(vec![program]).await;
}
