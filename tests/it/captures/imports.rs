//! Stories of import: a recording by another program becomes a workflow, and the workflow runs with the real program.

use std::process::Command;

use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home};

/// Asks for a name and a hidden password.
const ASK: &str = r#"read -p "Name: " name
read -s -p "Password: " password; echo
read -p "Go on? [y/n] " yes
[ "$yes" = y ] && echo "$name ${#password}" > conf
"#;

/// Types a person's answers into a program in a separate terminal. Each answer waits for one of its cues.
const PERSON: &str = "import fcntl, json, os, pty, select, struct, sys, termios
begin, begun = os.pipe()
pid, terminal = pty.fork()
if pid == 0:
    os.read(begin, 1)
    os.execvp(sys.argv[2], sys.argv[2:])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
os.write(begun, b'x')
seen = ''
for texts, answer in json.loads(sys.argv[1]):
    while not any(text in seen for text in texts):
        seen += os.read(terminal, 4096).decode('utf8', 'replace')
    seen = ''
    os.write(terminal, answer.encode())
try:
    while os.read(terminal, 4096): pass
except OSError: pass
os.waitpid(pid, 0)
";

/// The prompts of a shell.
const PROMPTS: [&str; 2] = ["$ ", "# "];

/// A person's actions: the possible cues, and the keys to type at the first shown cue.
type Steps<'s> = &'s [(&'s [&'s str], &'s str)];

const ANSWERS: Steps<'static> = &[
    (&PROMPTS, "bash ask.sh\r"),
    (&["Name: "], "anna\r"),
    (&["Password: "], "hunter2-imported\r"),
    (&["[y/n] "], "y\r"),
    (&PROMPTS, "\x04"),
];

/// Records a person's actions with a recorder.
fn record_person(home: &Home, recorder: &[&str], steps: Steps<'_>) {
    let mut person = Command::new("python3");
    person.arg("-c").arg(PERSON).arg(json!(steps).to_string()).args(recorder);
    person.current_dir(home.path()).env("PS1", "$ ").env("HOME", home.path()).env("TERM", "xterm");
    let output = person.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Checks that no file next to a saved workflow contains the password.
fn check_password_absent(path: &Value) {
    let workflow_file = std::path::PathBuf::from(path.as_str().unwrap());
    for entry in std::fs::read_dir(workflow_file.parent().unwrap()).unwrap().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        assert!(!text.contains("hunter2"), "{}", entry.path().display());
    }
}

/// Imports a recording, runs the workflow with another name, and checks that the library does not contain the password.
fn import_and_run(recorder: &[&str], file: &str) {
    let home = Home::new(env!("CARGO_BIN_EXE_steplatch"));
    std::fs::write(home.path().join("ask.sh"), ASK).unwrap();
    record_person(&home, recorder, ANSWERS);
    std::fs::remove_file(home.path().join("conf")).unwrap();
    let recording = home.path().join(file);
    let import =
        ["workflow", "import", recording.to_str().unwrap(), "-n", "procedure", "-i", "name=anna", "--save", "--json"];
    let reply = home.run(&import).json();
    assert_eq!(reply["success"], true, "{reply:#}");
    let arguments = &reply["workflow_definition"]["arguments"];
    assert_eq!((&arguments["PASSWORD"]["secret"], arguments["NAME"].is_object()), (&json!(true), true), "{reply:#}");
    assert!(!reply.to_string().contains("hunter2"), "{reply:#}");
    home.run(&["workflow", "test", "procedure"]).expect_success();
    let agent = Agent::new(&home);
    let run = json!({"workflow_name": "procedure", "initial_variables": {"NAME": "ben", "PASSWORD": "four"}, "wait_seconds": 120});
    let run: Value = agent.call_tool("run_workflow", run);
    assert_eq!(run["status"], "completed", "{run:#}\n{reply:#}");
    assert_eq!(std::fs::read_to_string(home.path().join("conf")).unwrap(), "ben 4\n");
    check_password_absent(&reply["path"]);
}

const SCRIPT: [&str; 8] =
    ["script", "-q", "--log-io", "io.log", "--log-timing", "t.log", "-c", "bash --norc --noprofile"];

#[test]
fn script_recording_becomes_a_workflow() {
    import_and_run(
        &[
            "script",
            "-q",
            "--log-in",
            "in.log",
            "--log-out",
            "out.log",
            "--log-timing",
            "t.log",
            "--logging-format",
            "advanced",
            "-c",
            "bash --norc --noprofile",
        ],
        "t.log",
    );
}

#[test]
fn single_log_of_script_becomes_a_workflow() {
    import_and_run(&SCRIPT, "t.log");
}

#[test]
fn imported_workflow_is_proved() {
    let home = Home::new(env!("CARGO_BIN_EXE_steplatch"));
    record_person(&home, &SCRIPT, &[(&PROMPTS, "echo built > out; cat out; wc -c out\r"), (&PROMPTS, "exit\r")]);
    let recording = home.path().join("t.log");
    let import = ["workflow", "import", recording.to_str().unwrap(), "-n", "procedure", "--keep", "--save", "--json"];
    let reply = home.run(&import).json();
    assert_eq!(reply["success"], true, "{reply:#}");
    std::fs::remove_file(home.path().join("out")).unwrap();
    home.run(&["workflow", "prove", "procedure"]).expect_success();
    assert_eq!(std::fs::read_to_string(home.path().join("out")).unwrap(), "built\n");
}

/// Asks in full-screen dialogs.
const DIALOGS: &str = r#"name=$(whiptail --title Setup --inputbox "Which name?" 10 40 3>&1 1>&2 2>&3) || exit 1
mirror=$(whiptail --title Setup --menu "Which mirror?" 12 40 3 de Berlin fr Paris it Rome 3>&1 1>&2 2>&3) || exit 1
key=$(whiptail --title Setup --passwordbox "Which key?" 10 40 3>&1 1>&2 2>&3) || exit 1
echo "$name $mirror ${#key}" > conf
"#;

#[test]
fn full_screen_dialogs_become_a_workflow() {
    let home = Home::new(env!("CARGO_BIN_EXE_steplatch"));
    std::fs::write(home.path().join("setup.sh"), DIALOGS).unwrap();
    let steps: Steps<'_> = &[
        (&PROMPTS, "bash setup.sh\r"),
        (&["Cancel"], "anna"),
        (&["anna"], "\r"),
        (&["mirror"], "\x1b[B"),
        (&["Paris"], "\r"),
        (&["key"], "hunter2-dialog"),
        (&["***"], "\r"),
        (&PROMPTS, "exit\r"),
    ];
    record_person(&home, &SCRIPT, steps);
    assert_eq!(std::fs::read_to_string(home.path().join("conf")).unwrap(), "anna fr 14\n");
    let recording = home.path().join("t.log");
    let recording = recording.to_str().unwrap();
    let import = ["workflow", "import", recording, "-n", "procedure", "-i", "name=anna", "--save", "--json"];
    let reply = home.run(&import).json();
    assert_eq!(reply["success"], true, "{reply:#}");
    assert!(!reply.to_string().contains("hunter2"), "{reply:#}");
    assert_eq!(reply["workflow_definition"]["arguments"]["SECRET"]["secret"], true, "{reply:#}");
    home.run(&["workflow", "test", "procedure"]).expect_success();
    let agent = Agent::new(&home);
    let run = json!({"workflow_name": "procedure", "initial_variables": {"NAME": "ben", "SECRET": "four"}, "wait_seconds": 120});
    let run: Value = agent.call_tool("run_workflow", run);
    assert_eq!(run["status"], "completed", "{run:#}\n{reply:#}");
    assert_eq!(std::fs::read_to_string(home.path().join("conf")).unwrap(), "ben fr 4\n");
    check_password_absent(&reply["path"]);
}

#[test]
fn recording_of_an_editor_becomes_a_workflow() {
    let home = Home::new(env!("CARGO_BIN_EXE_steplatch"));
    std::fs::write(home.path().join("a.txt"), "one\n").unwrap();
    let steps: Steps<'_> = &[
        (&PROMPTS, "vim -u NONE a.txt\r"),
        (&["4B", "4 bytes"], "ihello "),
        (&["hello "], "\x1b:wq"),
        (&[":wq"], "\r"),
        (&PROMPTS, "exit\r"),
    ];
    record_person(&home, &SCRIPT, steps);
    assert_eq!(std::fs::read_to_string(home.path().join("a.txt")).unwrap(), "hello one\n");
    let recording = home.path().join("t.log");
    let import = ["workflow", "import", recording.to_str().unwrap(), "-n", "procedure", "--save", "--json"];
    let reply = home.run(&import).json();
    assert_eq!(reply["success"], true, "{reply:#}");
    assert_eq!(reply["workflow_definition"].get("arguments"), None, "{reply:#}");
    let guesses = reply["guesses"].as_array().unwrap();
    assert!(guesses.iter().all(|guess| guess["reason"].as_str().unwrap().contains("lower trust")), "{reply:#}");
    std::fs::write(home.path().join("a.txt"), "one\n").unwrap();
    home.run(&["run", "procedure"]).expect_success();
    assert_eq!(std::fs::read_to_string(home.path().join("a.txt")).unwrap(), "hello one\n", "{reply:#}");
}

#[test]
fn autoexpect_script_becomes_a_workflow() {
    import_and_run(&["autoexpect", "-quiet", "-f", "ask.exp", "bash", "--norc", "--noprofile"], "ask.exp");
}

#[test]
fn asciicast_with_input_becomes_a_workflow() {
    let home = Home::new(env!("CARGO_BIN_EXE_steplatch"));
    let cast = r#"{"version":3,"term":{"cols":80,"rows":24}}
[0.1,"o","$ "]
[1.0,"i","e"]
[0.1,"o","e"]
[0.1,"i","cho abc > out\r"]
[0.1,"o","cho abc > out\r\n$ "]
[1.0,"i","exit\r"]
[0.1,"o","exit\r\n"]
[0.1,"x","0"]
"#;
    let file = home.path().join("a.cast");
    std::fs::write(&file, cast).unwrap();
    let import =
        ["workflow", "import", file.to_str().unwrap(), "-n", "procedure", "-i", "word=abc", "--save", "--json"];
    let reply = home.run(&import).json();
    assert_eq!(reply["success"], true, "{reply:#}");
    home.run(&["run", "procedure", "-i", "WORD=def"]).expect_success();
    assert_eq!(std::fs::read_to_string(home.path().join("out")).unwrap(), "def\n");
    std::fs::write(&file, "{\"version\":3,\"term\":{\"cols\":80,\"rows\":24}}\n[0.1,\"o\",\"$ \"]\n").unwrap();
    let refusal = home.run(&["workflow", "import", file.to_str().unwrap(), "-n", "other", "--json"]).json();
    assert!(refusal["error"].as_str().unwrap().contains("asciinema rec --capture-input"), "{refusal:#}");
}
