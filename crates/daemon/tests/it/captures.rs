//! Captures of machines: the captured machine repeats the run.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use steplatch_protocol::{CaptureWorkflow, RunReply, RunWorkflow};
use steplatch_testkit::TestDaemon;

/// Programs that note their arguments and answers in order. They are in the directory of the run and do not use
/// terminals.
const PROGRAMS: [(&str, &str); 4] = [
    ("note", r#"echo "note $1" >> log; echo "noted""#),
    // Each run has another id; a program that receives an id checks that it is the latest one.
    ("create", r#"id=$RANDOM$RANDOM; echo $id > last; echo create >> log; echo "created job-$id in 3 ms""#),
    ("finish", r#"[ "$1" = "job-$(cat last)" ] && echo "remove the last" >> log || echo "remove another" >> log"#),
    (
        "dialog",
        r#"for question in "$@"; do
             case $question in
               secret) read -rsp "Passphrase for $question: " answer; echo ;;
               key) read -rsn1 -p "Press a key to continue " answer; echo ;;
               port) read -rp "Port ($((RANDOM + 1024))): " answer ;;
               *) echo "About $question, there is something to decide."; read -rp "$question? [y/n] " answer ;;
             esac
             echo "$question = $answer" >> log
           done
           echo "all answered""#,
    ),
];

/// The answer to a secret question.
const SECRET: &str = "correct-horse-9";

/// One step of a machine.
#[derive(Debug, Clone)]
enum Act {
    /// Runs a command with a word.
    Note(&'static str),
    /// Creates an id and passes it to a later command.
    CreateAndRemove,
    /// Answers the questions of a program.
    Dialog(Vec<&'static str>),
}

fn act() -> impl Strategy<Value = Act> {
    let word = prop::sample::select(vec!["one", "'two words'", "\"it's\"", "{braces}", "$HOME", "--flag=3", "é漢"]);
    let question = prop::sample::select(vec!["secret", "key", "port", "licence", "backup"]);
    prop_oneof![
        3 => word.prop_map(Act::Note),
        1 => Just(Act::CreateAndRemove),
        4 => prop::collection::vec(question, 1..4).prop_map(Act::Dialog),
    ]
}

/// Returns the input that answers a question.
fn answer(question: &str, number: usize) -> Value {
    match question {
        "secret" => json!({"input_text": "{PASSWORD}\n"}),
        "key" => json!({"input_text": " "}),
        "port" => json!({"input_text": format!("{}\n", 9000 + number)}),
        _ => json!({"input_text": if number.is_multiple_of(2) { "y\n" } else { "n\n" }}),
    }
}

/// Returns the states of a machine that performs these acts in order.
fn actions(acts: &[Act]) -> Vec<Value> {
    let mut actions = Vec::new();
    let command = |command: String| json!({"tool": "run_command", "params": {"command": command, "timeout": 60}});
    for act in acts {
        match act {
            // Braces of commands are doubled: single braces enclose variables.
            Act::Note(word) => actions.push(command(format!("sh note {}", word.replace('{', "{{").replace('}', "}}")))),
            Act::CreateAndRemove => {
                // The last match on the screen.
                let params = json!({"pattern": r"(?s).*created (?P<JOB>job-\d+)", "target": "screen", "timeout": 60});
                let read = json!({"tool": "await_output", "params": params});
                actions.extend([command("bash create".to_owned()), read, command("bash finish {JOB}".to_owned())]);
            }
            Act::Dialog(questions) => {
                let typed_input = json!({"input_text": format!("bash dialog {}\n", questions.join(" "))});
                let typed_input =
                    std::iter::once(typed_input).chain(questions.iter().enumerate().map(|(n, q)| answer(q, n)));
                actions.extend(typed_input.map(|mut params| {
                    params["until"] = "input".into();
                    params["timeout"] = 60.into();
                    json!({"tool": "send_input", "params": params})
                }));
            }
        }
    }
    actions
}

fn machine(acts: &[Act]) -> Value {
    let actions = actions(acts);
    let last = actions.len() - 1;
    let states = actions.into_iter().enumerate().map(|(number, action)| {
        let mut state = json!({"action": action});
        if number < last {
            state["transitions"] = json!([{"condition": "success", "next_state": format!("s{}", number + 1)}]);
        }
        (format!("s{number}"), state)
    });
    let states: Map<String, Value> = states.collect();
    let arguments = json!({"PASSWORD": {"secret": true, "export": false}});
    json!({"name": "first", "arguments": arguments, "initial_state": "s0", "states": states})
}

/// Runs a machine to its end and returns the notes of its programs.
async fn run(daemon: &TestDaemon, directory: &Path, machine: Value, session: Option<String>) -> (RunReply, String) {
    let _ = fs::remove_file(directory.join("log"));
    let names = machine["arguments"].as_object().into_iter().flat_map(Map::iter);
    let secrets = names.filter(|(_, argument)| argument["secret"] == true);
    let variables = secrets.map(|(name, _)| (name.clone(), SECRET.into())).collect();
    let verb = RunWorkflow {
        workflow_definition: Some(machine),
        initial_variables: Some(variables),
        session_id: session,
        save_on_success: false,
        wait_seconds: Some(120.0),
        ..RunWorkflow::default()
    };
    let reply = daemon.call(verb).await;
    (reply, fs::read_to_string(directory.join("log")).unwrap_or_default())
}

/// Performs the acts, captures them, and performs the captured machine twice.
async fn round_trip(acts: &[Act]) -> Result<(), TestCaseError> {
    let daemon = TestDaemon::new().await;
    let directory = daemon.paths().state().parent().unwrap().to_owned();
    for (name, text) in PROGRAMS {
        fs::write(directory.join(name), text).unwrap();
    }
    let session = daemon.bash().await.id;
    let (first, given) = run(&daemon, &directory, machine(acts), Some(session.clone())).await;
    prop_assert_eq!(&first.status, "completed", "{:#?}", first);
    prop_assert!(!given.is_empty() && !given.contains("another"), "{}", given);
    let capture =
        CaptureWorkflow { session_ids: vec![session], name: "again".to_owned(), ..CaptureWorkflow::default() };
    let captured = daemon.call(capture).await;
    prop_assert!(captured.success && captured.undecided.is_empty(), "{:#?}", captured);
    for _ in 0..2 {
        let (second_reply, given_again) = run(&daemon, &directory, captured.workflow_definition.clone(), None).await;
        prop_assert_eq!(&second_reply.status, "completed", "{:#?}\n{:#}", second_reply, captured.workflow_definition);
        prop_assert_eq!(&given_again, &given, "{:#}", captured.workflow_definition);
    }
    prop_assert!(!captured.workflow_definition.to_string().contains(SECRET));
    daemon.stop().await;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 60, ..ProptestConfig::default() })]

    #[test]
    fn captured_machine_repeats_the_run(acts in prop::collection::vec(act(), 1..5)) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(round_trip(&acts))?;
    }
}
