//! Stories of captures compared with another capture: differences become arguments without being named.

use serde_json::{Value, json};

use super::{Procedure, Session};

/// Asks four questions: two mention an earlier answer, and one contains a word that changes.
const CREATE: &str = r#"read -p "Project name: (demo) " name
read -p "Licence for $name: [MIT] " licence
[ -e shop.conf ] && colour=green || colour=red
read -p "Paint it $colour? [y/n] " paint
read -p "Go on with $name? [y/n] " yes
[ "$yes" = y ] || exit 1
echo "$name $licence" > "$name.conf"
echo "created $name as build-$RANDOM-of-$$"
"#;

fn record_creation(session: &Session, name: &str, licence: &str) {
    session.type_text("bash create.sh\n");
    session.type_text(&format!("{name}\n"));
    session.type_text(&format!("{licence}\n"));
    session.type_text("y\n");
    session.send(json!({"input_text": "y\n", "pattern": format!("^created {name} as"), "timeout": 60}));
    session.run_command("[ -e farm.conf ] && echo many || echo one");
    session.run_command(&format!("cp {name}.conf copy.conf"));
}

#[test]
fn differences_between_two_recordings_become_arguments() {
    let mut session = Session::begin(&[("create.sh", CREATE)]);
    record_creation(&session, "shop", "MIT");
    session.open();
    record_creation(&session, "farm", "Apache-2.0");
    session.run_command("mkdir of-the-second-time");
    let (first, second) = (session.terminals[0].clone(), session.terminals[1].clone());

    let output = session.home.run(&["workflow", "capture", &first, "--name", "shown", "--against", &second]);
    assert!(output.code == 0 && output.stderr.contains("'shop' is the argument PROJECT_NAME"), "{output:#?}");
    let refusal = session.home.run(&["workflow", "capture", &first, "--name", "shown", "--against", &first]);
    assert!(refusal.code != 0 && refusal.stderr.contains("name another terminal with --against"), "{refusal:#?}");

    let request = json!({"session_ids": [first], "against": [second], "name": "procedure", "save": true});
    let capture = session.agent.call_tool("capture_workflow", request);
    assert_eq!(capture["success"], true, "{capture:#}");
    let arguments = capture["workflow_definition"]["arguments"].as_object().unwrap();
    let names: Vec<&String> = arguments.keys().filter(|name| *name != "PWD").collect();
    assert_eq!(names, ["PROJECT_NAME", "LICENCE"], "{capture:#}");
    let undecided = capture["undecided"].as_array().unwrap();
    let expected = "'mkdir of-the-second-time' is only in the other capture";
    let is_only = |sentence: &Value| sentence.as_str().unwrap().starts_with(expected);
    assert!(undecided.len() == 1 && is_only(&undecided[0]), "{undecided:#?}");

    let Session { home, agent, .. } = session;
    let procedure = Procedure { home, agent, capture };
    procedure.assert_replays();
    procedure.prove(&["PROJECT_NAME=mill", "LICENCE=BSD"], &[]);
    procedure.run_to_completion(json!({"PROJECT_NAME": "inn", "LICENCE": "GPL"}));
    assert_eq!(procedure.file("copy.conf"), "inn GPL\n");
}
