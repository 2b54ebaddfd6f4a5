use steplatch_protocol::InputKind;

use super::lines::Lines;
use super::*;
use crate::{CaptureRequest, KnownFacts, capture};

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

/// The screen of a live terminal.
struct Rows {
    replay: steplatch_terminal::Replay,
}

impl RecordedScreen for Rows {
    fn draw(&mut self, output: &str) {
        self.replay.draw(output);
    }

    fn resize(&mut self, cols: u16, rows: u16) {
        if let Some(size) = (steplatch_terminal::Size { cols, rows }).checked() {
            self.replay.resize(size);
        }
    }

    fn rows(&self) -> Vec<String> {
        let rows = self.replay.picture().rows;
        rows.iter()
            .map(|row| row.iter().map(|run| run.text.as_str()).collect::<String>().trim_end().to_owned())
            .collect()
    }
}

const SIZE: steplatch_terminal::Size = steplatch_terminal::Size { cols: 80, rows: 24 };

/// Imports events that are one second apart.
fn import_events<const COUNT: usize>(events: [TimelineEvent; COUNT]) -> ImportedRecording {
    let events = events.into_iter().enumerate().map(|(index, event)| (index as f64, event)).collect();
    import_timeline("x", Timeline { events, ..Timeline::default() })
}

/// Returns the texts of the inputs of a kind.
fn input_texts(imported: &ImportedRecording, kind: InputKind) -> Vec<&str> {
    let inputs = imported.log.moments.iter().map(|moment| &moment.input).filter(|input| input.kind == kind);
    inputs.map(|input| input.text.as_deref().unwrap_or_default()).collect()
}

pub(crate) fn import_timeline(name: &str, timeline: Timeline) -> ImportedRecording {
    import_recording(name, timeline, &mut Rows { replay: steplatch_terminal::Replay::new(SIZE) })
}

fn entries(imported: &ImportedRecording) -> Vec<(InputKind, &str, Option<&str>)> {
    let inputs = imported.log.moments.iter().map(|moment| &moment.input);
    let inputs = inputs.filter(|input| input.kind != InputKind::Wait);
    inputs.map(|input| (input.kind, input.context.as_str(), input.text.as_deref())).collect()
}

#[test]
fn autoexpect_script_is_imported() {
    let imported = import_timeline("ask.exp", expect_script(SCRIPT).unwrap());
    assert_eq!(
        entries(&imported),
        [
            (InputKind::Typed, "prompt", Some("bash ask.sh\n")),
            (InputKind::Entered, "prompt", Some("bash ask.sh")),
            (InputKind::Typed, "program", Some("anna\n")),
            (InputKind::Hidden, "password", None),
            (InputKind::Typed, "program", Some("y\n")),
        ]
    );
    assert_eq!(imported.log.shell, "bash");
    assert!(
        imported.undecided.iter().any(|decision| decision.contains("without the options of 'bash --norc'")),
        "{:?}",
        imported.undecided
    );
    assert!(
        imported.undecided[0].starts_with("line 23 of the script ('send …') is not supported"),
        "{:?}",
        imported.undecided
    );
    let captured = capture(&[imported.log], &KnownFacts::default(), &CaptureRequest::default());
    let definition = captured.definition.to_string();
    assert!(!definition.contains("hunter2x") && definition.contains(r#""PASSWORD":{"#), "{definition}");
    assert!(captured.guesses.iter().all(|guess| guess.reason.contains("lower trust")));
}

#[test]
fn script_that_waits_for_last_lines_only_has_no_echo() {
    let script = "spawn sqlite3 a.db\nexpect -exact \"sqlite> \"\nsend -- \"select 1;\\r\"\nexpect -exact \"sqlite> \"\n\
                  send -- \".quit\\r\"\nexpect eof\n";
    let imported = import_timeline("x", expect_script(script).unwrap());
    assert_eq!(
        entries(&imported),
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
fn script_recording_is_imported() {
    let timing = "H 0.0 COMMAND bash --norc\nH 0.0 OUTPUT_LOG /x/out.log\nH 0.0 INPUT_LOG in.log\nO 0.1 2\nI 1.0 7\nO 0.1 9\n\
                  O 0.1 5\nI 0.5 1\nS 0.1 SIGTERM\nS 0.1 SIGWINCH ROWS=30 COLS=90\nH 0.0 EXIT_CODE 0\n";
    let files = script_files(timing).unwrap();
    assert_eq!((files.output.as_deref(), files.input.as_deref()), (Some("out.log"), Some("in.log")));
    let logs = ScriptLogs {
        output: b"Script started on x\n$ echo a\r\na\r\n$ ",
        input: Some(b"Script started on x\necho a\r\x04"),
    };
    let imported = import_timeline("t.log", script_recording(timing, logs));
    assert_eq!(
        entries(&imported),
        [
            (InputKind::Typed, "prompt", Some("echo a\n")),
            (InputKind::Entered, "prompt", Some("echo a")),
            (InputKind::Resize, "", None),
        ]
    );
    assert_eq!(imported.log.moments[1].output.as_deref(), Some("a"));
    assert_eq!(imported.omitted_inputs.len(), 1);
}

#[test]
fn lines_have_their_final_form() {
    let mut lines = Lines::default();
    lines.write_text(
        "a\rbc\x1b[31md\x1b[0m\x1b]0;title\x07\r\n10%\r100%\r\n\x1b[?1049hhidden\r\n\x1b[?1049l> wrong\x08\x08\x1b[K",
    );
    assert_eq!((lines.row().as_str(), lines.count()), ("> wro", 2));
    assert_eq!(lines.into_text(), "bcd\n100%\n> wro");
}

#[test]
fn secret_appears_in_no_text() {
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
    let imported = import_timeline("x", Timeline { events, ..Timeline::default() });
    assert!(!serde_json::to_string(&imported).unwrap().contains("abc-123"), "{imported:#?}");
    assert_eq!(entries(&imported)[3], (InputKind::Typed, "prompt", Some("ls\n")));
}

/// Returns entries that alternate between output and input, beginning with a prompt.
fn dialogue(parts: &[&str]) -> ImportedRecording {
    let event = |(index, text): (usize, &&str)| {
        let text = (*text).to_owned();
        let event = if index % 2 == 1 { TimelineEvent::Input(text) } else { TimelineEvent::Output(text) };
        (index as f64, event)
    };
    let events = parts.iter().enumerate().map(event).collect();
    import_timeline("x", Timeline { events, ..Timeline::default() })
}

/// An input is shown if the output contains the whole input at its position; otherwise the input is hidden.
#[test]
fn input_missing_from_output_is_hidden() {
    let texts = |parts: &[&str]| {
        let imported = dialogue(parts);
        let inputs = imported.log.moments.into_iter().map(|moment| moment.input);
        let inputs = inputs.filter(|input| matches!(input.kind, InputKind::Typed | InputKind::Hidden));
        inputs.map(|input| input.text.unwrap_or_else(|| "?".to_owned())).collect::<Vec<_>>()
    };
    let ask = |typed: &str, printed: &str| texts(&["ana$ ", "ask\r", "ask\r\nKey: ", typed, printed])[1].clone();
    assert_eq!(ask("blue\r", "blue\r\n"), "blue\n");
    for (typed, printed, description) in [
        ("hunter2\r", "\r\n", "no echo"),
        ("hunter2\r", "*******\r\n", "masked"),
        ("hunter2\r", "hun\r\n", "a part"),
        ("in\r", "invalid key\r\n", "the beginning of another word"),
        ("good\r", "\r\nyour key is good\r\n", "another place"),
        ("hu\x1b[Dnter2\r", "hu\r\n", "a part, with a key in it"),
        ("hun\tter2\r", "hun\r\n", "a part, with a completion"),
        ("\x1b[104u\x1b[117u\r", "\r\n", "characters as sequences"),
        ("\x1b[200~hunter2\x1b[201~\r", "\r\n", "pasted"),
    ] {
        assert_eq!(ask(typed, printed), "?", "{description}");
    }
    let at_prompt = |typed: &str, printed: &str| texts(&["ana$ ", typed, printed])[0].clone();
    assert_eq!(at_prompt("cd /ho\tan\t\r", "cd /home/ana/\r\nana$ "), "cd /home/ana/\n");
    assert_eq!(at_prompt("\x1b[A\r", "make test\r\nana$ "), "make test\n");
    assert_eq!(at_prompt("mke\x1b[D\x1b[Da\r", "make\r\nana$ "), "make\n");
    assert_eq!(at_prompt("wrong\x15ls -l\x7fa\r", "ls -a\r\nana$ "), "ls -a\n");
    assert_eq!(at_prompt("\x1b[200~make\x1b[201~\x1b[3;1R\r", "make\r\nana$ "), "make\n");
    assert_eq!(at_prompt("hun\tter2\r", "***\r\nana$ "), "?", "the row is not a prompt");
    assert_eq!(at_prompt("hun\x1b[Dter2\r", "hun\r\nana$ "), "?");
    assert_eq!(ask("in\x1b[A\r", "invalid\r\n"), "?", "the echo is part of a word, with a key in the input");
    let before = texts(&["ana$ ", "one\r", "one\r\nblue\r\nKey: ", "red\rblue\r", "\r\n\r\n"]);
    assert_eq!(before, ["one\n", "?", "?"], "the text was printed before it was typed");
    let pasted = "one\rhunter2\rtwo\r";
    assert_eq!(texts(&["ana$ ", pasted, "one\r\n\r\nana$ two\r\nana$ "]), ["one\n", "?", "two\n"]);
}

/// A full-screen program shows the text typed into a field, asterisks for a password, and nothing for a command.
#[test]
fn full_screen_program_is_imported() {
    let parts = [
        "ana$ ",
        "setup\r",
        "setup\r\n\x1b[?1049h\x1b[2J\x1b[1;1HName",
        "anna",
        "\x1b[2;1Hanna",
        "\r",
        "\x1b[2J\x1b[1;1HKey",
        "hunter2",
        "\x1b[2;1H*******",
        "\t\r",
        "\x1b[2J\x1b[1;1HList",
        "jjj",
        "\x1b[9;1HRow",
        "dd",
        "\x1b[3;1Hless",
        "ihello",
        "\x1b[4;1Hhello",
        "\x1b",
        "",
        ":wq",
        "\x1b[5;1H:wq",
        "\r",
        "\x1b[?1049l\r\nhunter2 is set\r\nana$ ",
    ];
    let imported = dialogue(&parts);
    let moments = imported.log.moments[2..].iter().filter(|moment| moment.input.kind != InputKind::Wait);
    let inputs: Vec<String> = moments
        .map(|moment| {
            let input = &moment.input;
            assert_eq!(input.context, "full_screen");
            format!("{}{}", input.text.as_deref().unwrap_or("?"), input.keys.join(","))
        })
        .collect();
    assert_eq!(inputs, ["anna\n", "?", "tab,enter", "jjjddihello", "escape", ":wq\n"]);
    assert!(!serde_json::to_string(&imported).unwrap().contains("hunter2"));
    assert_eq!(imported.undecided.len(), 1, "{:?}", imported.undecided);
}

#[test]
fn line_longer_than_a_row_is_one_line() {
    let mut lines = Lines::new(Some(10));
    lines.write_text("$ 12345678 \r90\r\n50%\r100%");
    assert_eq!(lines.into_text(), "$ 1234567890\n100%");
}

/// The machine starts a command that begins the recording, except an interactive shell, whose prompts it needs.
#[test]
fn shell_with_a_file_is_a_program() {
    for (spawned, opened, started) in [
        ("bash", "bash", None),
        ("/bin/bash --norc -i", "/bin/bash", None),
        ("bash --rcfile /dev/null", "bash", None),
        ("bash -o vi", "bash", None),
        ("zsh -f", "zsh", None),
        ("bash ./ask.sh", "", Some("bash ./ask.sh\n")),
        ("sh ask.sh one", "", Some("sh ask.sh one\n")),
        ("bash -x ./ask.sh", "", Some("bash -x ./ask.sh\n")),
        ("bash --norc ./ask.sh", "", Some("bash --norc ./ask.sh\n")),
        ("bash -o vi ./ask.sh", "", Some("bash -o vi ./ask.sh\n")),
        ("bash -- ./ask.sh", "", Some("bash -- ./ask.sh\n")),
        ("bash -lc {read x}", "", Some("bash -lc 'read x'\n")),
        ("fish --command=ask", "", Some("fish --command=ask\n")),
        ("./ask.sh", "", Some("./ask.sh\n")),
        ("python3 x.py", "", Some("python3 x.py\n")),
    ] {
        let script = format!(
            "spawn {spawned}\nexpect -exact \"Name? \"\nsend -- \"bob\\r\"\nexpect -exact \"bob\r\nhello\r\n\"\nexpect eof\n"
        );
        let imported = import_timeline("x", expect_script(&script).unwrap());
        let first = entries(&imported)[0];
        assert_eq!((imported.log.shell.as_str(), first.2), (opened, started.or(Some("bob\n"))), "{spawned}");
        let timeline = Timeline { command: spawned.replace(['{', '}'], "'"), ..Timeline::default() };
        let shell =
            import_recording("x", timeline, &mut Rows { replay: steplatch_terminal::Replay::new(SIZE) }).log.shell;
        assert_eq!(shell, opened, "the command of another header: {spawned}");
    }
}

#[test]
fn resize_does_not_end_a_line() {
    let output = |text: &str| TimelineEvent::Output(text.to_owned());
    let input = |text: &str| TimelineEvent::Input(text.to_owned());
    let resize = || TimelineEvent::Resize { cols: 90, rows: 30 };
    let events = [
        output("ana$ "),
        input("t"),
        output("t"),
        resize(),
        input("ouch hi"),
        output("ouch hi"),
        resize(),
        resize(),
        input("\r"),
        output("\r\nana$ "),
        input("ask\r"),
        output("ask\r\nName? "),
        input("bo"),
        output("bo"),
        resize(),
        input("b\r"),
        output("b\r\nana$ "),
    ];
    let imported = import_events(events);
    let texts = |kind: InputKind| input_texts(&imported, kind);
    assert_eq!(texts(InputKind::Typed), ["touch hi\n", "ask\n", "bob\n"], "{imported:#?}");
    assert_eq!(texts(InputKind::Entered), ["touch hi", "ask"]);
    assert_eq!(texts(InputKind::Resize).len(), 4);
    let captured = capture(&[imported.log], &KnownFacts::default(), &CaptureRequest::default());
    let states = captured.definition["states"].to_string();
    assert!(states.contains("\"touch hi\"") && states.contains("bob\\n"), "{states}");
}

#[test]
fn terminal_report_within_a_line_is_ignored() {
    let output = |text: &str| TimelineEvent::Output(text.to_owned());
    let input = |text: &str| TimelineEvent::Input(text.to_owned());
    let reports = ["\x1b[O", "\x1b[I", "\x1b]11;rgb:0000/0000/0000\x1b\\", "\x1b[<0;1;1M", "\x1b[12;5R", "\x1b[?62;4c"];
    for report in reports {
        let events = [
            output("ana$ "),
            input("t"),
            output("t"),
            input(report),
            input("ouch"),
            output("ouch"),
            input(&format!("{report} hi{report}")),
            output(" hi"),
            input("\r"),
            output("\r\nana$ "),
            input("ask\r"),
            output("ask\r\nName? "),
            input("bo"),
            output("bo"),
            input(report),
            input("b\r"),
            output("b\r\nana$ "),
        ];
        let imported = import_events(events);
        let texts = |kind: InputKind| input_texts(&imported, kind);
        assert_eq!(texts(InputKind::Typed), ["touch hi\n", "ask\n", "bob\n"], "{report:?} {imported:#?}");
        assert_eq!(texts(InputKind::Entered), ["touch hi", "ask"], "{report:?}");
    }
}

/// Guards against quadratic cost in the number of lines: with such a cost, this test would not end.
#[test]
fn script_of_eight_thousand_lines_is_captured() {
    type Question = fn(usize) -> String;
    let questions: [(&str, Question); 3] = [
        ("another answer each time", |number| {
            let answer = format!("job-{number}");
            format!("expect -exact \"Option {number}: \"\nsend -- \"{answer}\\r\"\nexpect -exact \"{answer}\r\n\"\n")
        }),
        ("the same answer", |_| "expect -exact \"Go on? \"\nsend -- \"y\\r\"\nexpect -exact \"y\r\n\"\n".to_owned()),
        ("a secret", |number| {
            format!("expect -exact \"Key: \"\nsend -- \"key-{number}\\r\"\nexpect -exact \"\r\n\"\n")
        }),
    ];
    for (kind, question) in questions {
        let script: String =
            std::iter::once("spawn ./install.sh\n".to_owned()).chain((0..2000).map(question)).collect();
        assert!(script.lines().count() >= 8000);
        let imported = import_timeline("x", expect_script(&script).unwrap());
        assert_eq!(imported.log.moments.len(), 2002, "{kind}");
        let captured = capture(&[imported.log], &KnownFacts::default(), &CaptureRequest::default());
        assert!(captured.is_incomplete && captured.undecided[0].contains("at most 100 states"), "{kind}");
    }
}

/// Guards against quadratic cost: one command of the script sends three megabytes to a program.
#[test]
fn send_of_three_megabytes_is_imported() {
    let line = "0123456789abcdef ".repeat(8);
    let large = format!("{line}\\r").repeat(3 * 1024 * 1024 / line.len());
    for (kind, sent) in [("lines", large.clone()), ("one line", large.replace("\\r", "") + "\\r")] {
        let script = format!("spawn ./install.sh\nexpect -exact \"Text: \"\nsend -- \"{sent}\"\nexpect eof\n");
        assert!(script.len() > 3 << 20, "{kind}");
        let imported = import_timeline("x", expect_script(&script).unwrap());
        assert!((90..=4097).contains(&imported.log.moments.len()), "{kind}: {}", imported.log.moments.len());
        let captured = capture(&[imported.log], &KnownFacts::default(), &CaptureRequest::default());
        assert!(captured.is_incomplete && captured.undecided[0].contains("at most 100 states"), "{kind}");
    }
}

#[test]
fn script_without_echo_shows_only_commands() {
    let script = "spawn bash\nexpect -exact \"$ \"\nsend -- \"login\\r\"\nexpect -exact \"Key: \"\nsend -- \"abc-123\\r\"\n\
                  set key hunter2\nexpect -exact \"$ \"\nsend -- \"ls\\r\"\n";
    let imported = import_timeline("x", expect_script(script).unwrap());
    let text = serde_json::to_string(&imported).unwrap();
    assert!(!text.contains("abc-123") && !text.contains("hunter2") && text.contains("login"), "{text}");
    assert!(imported.undecided[0].contains("without -p"), "{:?}", imported.undecided);
}
