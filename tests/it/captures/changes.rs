//! Programs that have changed since they were captured: the run stops and asks. It never goes on falsely.

use serde_json::json;

use super::Session;

/// Asks for a mirror by number, for a port, and whether it writes.
const SETUP: &str = r#"select mirror in Berlin Paris Rome; do break; done
read -p "Port [8$((RANDOM % 900 + 100))]: " port
read -p "Write it? [y/n] " yes
[ "$yes" = y ] && echo "mirror=$mirror port=$port" > conf
"#;

#[test]
fn a_changed_program_stops_the_run_and_nothing_is_done_falsely() {
    let session = Session::begin(&[("setup.sh", SETUP)]);
    session.types("bash setup.sh\n");
    session.types("2\n");
    session.types("9000\n");
    session.sends(json!({"input_text": "y\n", "until": "prompt"}));
    let procedure = session.captures(json!({"port": "9000"}));
    procedure.passes_its_recording();
    procedure.proves(&["PORT=7777"], &[]);
    assert_eq!(procedure.file("conf"), "mirror=Paris port=7777\n");
    std::fs::remove_file(procedure.home.path().join("conf")).unwrap();

    let port = "read -p \"Port [";
    let changes = [
        ("another prompt", SETUP.replace(port, "read -p \"Listen at [")),
        ("another question before it", SETUP.replace(port, "read -p \"Mail: \" mail\nread -p \"Port [")),
        ("a question that is gone", SETUP.replace("read -p \"Port", "port=1 # ")),
        ("a moved entry", SETUP.replace("Berlin Paris Rome", "Paris Berlin Rome")),
        ("a renamed entry", SETUP.replace("Paris", "Pisa")),
        ("an entry that is gone", SETUP.replace("Berlin Paris Rome", "Berlin Rome")),
        (
            "a line that looks right",
            SETUP.replace(port, "echo \"Port [8001]: \"\nread -p \"Mail: \" mail\nread -p \"Port ["),
        ),
        (
            "a line that looks right at the end",
            SETUP.replace("read -p \"Write", "echo \"Write it? [y/n] \"\nread -p \"Erase"),
        ),
        ("an early end", SETUP.replace(port, "exit 0\nread -p \"Port [")),
        ("a failure", SETUP.replace("[ \"$yes\"", "exit 4\n[ \"$yes\"")),
        ("a program that is gone", "exec no-such-program\n".to_owned()),
    ];
    for (what, program) in changes {
        assert_ne!(program, SETUP, "{what}");
        procedure.writes("setup.sh", &program);
        let run = procedure.begins(json!({"PORT": "7777"}));
        assert_eq!(run["status"], "waiting", "{what}: {run:#}");
        assert!(!procedure.home.path().join("conf").exists(), "{what}");
        let cancelled = procedure.agent.calls("cancel_run", json!({"run_id": run["run_id"]}));
        assert_eq!(cancelled["success"], true, "{what}: {cancelled}");
    }
    procedure.writes("setup.sh", SETUP);
    procedure.runs(json!({"PORT": "7778"}));
    assert_eq!(procedure.file("conf"), "mirror=Paris port=7778\n");
}

/// Says how it went in a line, and by its exit code.
const BUILD: &str = "echo compiling; echo BUILD OK; read -p 'Publish? ' answer; echo \"$answer\" > published\n";

#[test]
fn a_line_that_was_waited_for_is_not_enough() {
    let session = Session::begin(&[("build.sh", BUILD)]);
    session.sends(json!({"input_text": "bash build.sh\n", "pattern": "BUILD OK"}));
    session.types("yes\n");
    let procedure = session.captures(json!({}));
    procedure.passes_its_recording();
    for decoy in [
        "echo last time: BUILD OK; echo BUILD FAILED; read -p 'Erase all? ' answer; echo $answer > published\n",
        "echo BUILD OK a year ago; exit 1\n",
    ] {
        let _ = std::fs::remove_file(procedure.home.path().join("published"));
        procedure.writes("build.sh", decoy);
        let run = procedure.begins(json!({}));
        assert_eq!(run["status"], "waiting", "{decoy}: {run:#}");
        assert!(!procedure.home.path().join("published").exists(), "{decoy}");
        let _ = procedure.agent.calls("cancel_run", json!({"run_id": run["run_id"]}));
    }
}
