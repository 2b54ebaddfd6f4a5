use super::*;
use crate::{CaptureRequest, Surroundings, capture};

const SCRIPT: &str = r#"#!/usr/bin/expect -f
set force_conservative 0  ;# a comment
if {$force_conservative} {
	set send_slow {1 .1}
}
set timeout -1
spawn bash --norc
match_max 100000
expect -exact "\[?2004h\$ "
send -- "bash ask.sh\r"
expect -exact "bash ask.sh\r
Name: "
send -- "anna\r"
expect -exact "anna\r
Password: "
send -- "hunter2x\r"
expect -exact "\r
Go on? \[y/n\] "
send -- "y\r"
expect -exact "y\r
done\r
\[?2004h\$ "
send -- "[exec date]"
expect eof
"#;

fn entries(imported: &Imported) -> Vec<(InputKind, &str, Option<&str>)> {
    let inputs = imported.log.moments.iter().map(|moment| &moment.input);
    inputs.map(|input| (input.kind, input.context.as_str(), input.text.as_deref())).collect()
}

#[test]
fn a_script_of_autoexpect() {
    let read = imported("ask.exp", expect_script(SCRIPT).unwrap());
    assert_eq!(
        entries(&read),
        [
            (InputKind::Typed, "prompt", Some("bash ask.sh\n")),
            (InputKind::Entered, "prompt", Some("bash ask.sh")),
            (InputKind::Typed, "program", Some("anna\n")),
            (InputKind::Hidden, "password", None),
            (InputKind::Typed, "program", Some("y\n")),
        ]
    );
    assert_eq!(read.log.shell, "bash --norc");
    assert!(read.undecided[0].starts_with("line 23 of the script is not understood"), "{:?}", read.undecided);
    let captured = capture(&[read.log], &Surroundings::default(), &CaptureRequest::default());
    let definition = captured.definition.to_string();
    assert!(!definition.contains("hunter2x") && definition.contains(r#""PASSWORD":{"#), "{definition}");
    assert!(captured.guesses.iter().all(|guess| guess.reason.contains("lower trust")));
}

#[test]
fn a_script_that_waits_for_last_lines_only_has_no_echo() {
    let script = "spawn sqlite3 a.db\nexpect -exact \"sqlite> \"\nsend -- \"select 1;\\r\"\nexpect -exact \"sqlite> \"\n\
                  send -- \".quit\\r\"\nexpect eof\n";
    let read = imported("x", expect_script(script).unwrap());
    assert_eq!(
        entries(&read),
        [
            (InputKind::Typed, "prompt", Some("sqlite3 a.db\n")),
            (InputKind::Entered, "prompt", Some("sqlite3 a.db")),
            (InputKind::Typed, "program", Some("select 1;\n")),
            (InputKind::Typed, "program", Some(".quit\n")),
        ]
    );
    assert_eq!(expect_script("puts hello\n"), None);
}

#[test]
fn a_recording_of_script() {
    let timing = "H 0.0 COMMAND bash --norc\nH 0.0 OUTPUT_LOG /x/out.log\nH 0.0 INPUT_LOG in.log\nO 0.1 2\nI 1.0 7\nO 0.1 9\n\
                  O 0.1 5\nI 0.5 1\nS 0.1 SIGWINCH ROWS=1\nH 0.0 EXIT_CODE 0\n";
    let files = script_files(timing).unwrap();
    assert_eq!((files.output.as_deref(), files.input.as_deref()), (Some("out.log"), Some("in.log")));
    let logs = ScriptLogs {
        output: b"Script started on x\n$ echo a\r\na\r\n$ ",
        input: Some(b"Script started on x\necho a\r\x04"),
    };
    let read = imported("t.log", script_recording(timing, logs));
    assert_eq!(
        entries(&read),
        [(InputKind::Typed, "prompt", Some("echo a\n")), (InputKind::Entered, "prompt", Some("echo a"))]
    );
    assert_eq!(read.log.moments[1].output.as_deref(), Some("a"));
    assert_eq!(read.left_out.len(), 1);
}

#[test]
fn lines_are_as_a_terminal_shows_them_in_the_end() {
    let mut lines = Lines::default();
    lines.put(
        "a\rbc\x1b[31md\x1b[0m\x1b]0;title\x07\r\n10%\r100%\r\n\x1b[?1049hhidden\r\n\x1b[?1049l> wrong\x08\x08\x1b[K",
    );
    assert_eq!((lines.row(), lines.count()), ("> wro", 2));
    assert_eq!(lines.into_text(), "bcd\n100%\n> wro");
}

#[test]
fn a_secret_is_in_no_text() {
    let event = |text: &str, is_input| {
        let text = text.to_owned();
        (0.0, if is_input { TimelineEvent::Input(text) } else { TimelineEvent::Output(text) })
    };
    let events = vec![
        event("ana@mill:~$ ", false),
        event("login\r", true),
        event("login\r\nToken: ", false),
        event("abc-123\r", true),
        event("\r\nyour token abc-123 is good\r\nana@mill:/etc$ ", false),
        event("ls\r", true),
        event("ls\r\nana@mill:/etc$ ", false),
    ];
    let read = imported("x", Timeline { events, ..Timeline::default() });
    assert!(!serde_json::to_string(&read).unwrap().contains("abc-123"), "{read:#?}");
    assert_eq!(entries(&read)[3], (InputKind::Typed, "prompt", Some("ls\n")));
}
