//! Stories of import: what another program recorded becomes a workflow, which runs with the real program.

use std::process::Command;

use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home};

/// Asks a name and a password that is not shown.
const ASK: &str = r#"read -p "Name: " name
read -s -p "Password: " password; echo
read -p "Go on? [y/n] " yes
[ "$yes" = y ] && echo "$name ${#password}" > conf
"#;

/// Types the answers of a person into a program in a terminal of its own.
const PERSON: &str = "import os, pty, select, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
seen = b''
def sees(what):
    global seen
    while not any(one in seen for one in what):
        seen += os.read(terminal, 4096)
    seen = b''
for prompt, answer in [((b'$ ', b'# '), b'bash ask.sh\\r'), ((b'Name: ',), b'anna\\r'), ((b'Password: ',), b'hunter2-imported\\r'), ((b'[y/n] ',), b'y\\r'), ((b'$ ', b'# '), b'\\x04')]:
    sees(prompt)
    os.write(terminal, answer)
try:
    while os.read(terminal, 4096): pass
except OSError: pass
os.waitpid(pid, 0)
";

/// Imports what a recorder wrote, runs the workflow with another name, and checks that the password stands nowhere in the library.
fn imports(recorder: &[&str], file: &str) {
    if !Command::new("which").arg(recorder[0]).output().is_ok_and(|found| found.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "{} is missing", recorder[0]);
        return;
    }
    let home = Home::new(env!("CARGO_BIN_EXE_steplatch"));
    std::fs::write(home.path().join("ask.sh"), ASK).unwrap();
    let mut person = Command::new("python3");
    person.arg("-c").arg(PERSON).args(recorder).current_dir(home.path()).env("PS1", "$ ").env("HOME", home.path());
    assert!(person.output().unwrap().status.success());
    std::fs::remove_file(home.path().join("conf")).unwrap();
    let recording = home.path().join(file);
    let import =
        ["workflow", "import", recording.to_str().unwrap(), "-n", "procedure", "-i", "name=anna", "--save", "--json"];
    let reply = home.runs(&import).json();
    assert_eq!(reply["success"], true, "{reply:#}");
    let arguments = &reply["workflow_definition"]["arguments"];
    assert_eq!((&arguments["PASSWORD"]["secret"], arguments["NAME"].is_object()), (&json!(true), true), "{reply:#}");
    assert!(!reply.to_string().contains("hunter2"), "{reply:#}");
    home.runs(&["workflow", "test", "procedure"]).well();
    let agent = Agent::new(&home);
    let run = json!({"workflow_name": "procedure", "initial_variables": {"NAME": "ben", "PASSWORD": "four"}, "wait_seconds": 120});
    let run: Value = agent.calls("run_workflow", run);
    assert_eq!(run["status"], "completed", "{run:#}\n{reply:#}");
    assert_eq!(std::fs::read_to_string(home.path().join("conf")).unwrap(), "ben 4\n");
    let saved = std::path::PathBuf::from(reply["path"].as_str().unwrap());
    for entry in std::fs::read_dir(saved.parent().unwrap()).unwrap().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        assert!(!text.contains("hunter2"), "{}", entry.path().display());
    }
}

#[test]
fn a_recording_of_script() {
    imports(
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
fn a_recording_of_script_in_one_log() {
    imports(&["script", "-q", "--log-io", "io.log", "--log-timing", "t.log", "-c", "bash --norc --noprofile"], "t.log");
}

#[test]
fn a_script_of_autoexpect() {
    imports(&["autoexpect", "-quiet", "-f", "ask.exp", "bash", "--norc", "--noprofile"], "ask.exp");
}

#[test]
fn an_asciicast_with_input() {
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
    let reply = home.runs(&import).json();
    assert_eq!(reply["success"], true, "{reply:#}");
    home.runs(&["run", "procedure", "-i", "WORD=def"]).well();
    assert_eq!(std::fs::read_to_string(home.path().join("out")).unwrap(), "def\n");
    std::fs::write(&file, "{\"version\":3,\"term\":{\"cols\":80,\"rows\":24}}\n[0.1,\"o\",\"$ \"]\n").unwrap();
    let refused = home.runs(&["workflow", "import", file.to_str().unwrap(), "-n", "other", "--json"]).json();
    assert!(refused["error"].as_str().unwrap().contains("asciinema rec --capture-input"), "{refused:#}");
}
