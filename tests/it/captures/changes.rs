//! Programs that changed after their capture: the run stops and asks, and never continues wrongly.

use serde_json::{Value, json};

use super::Session;

/// Asks for a mirror by number, for a port, and whether to write.
const SETUP: &str = r#"select mirror in Berlin Paris Rome; do break; done
read -p "Port [8$((RANDOM % 900 + 100))]: " port
read -p "Write it? [y/n] " yes
[ "$yes" = y ] && echo "mirror=$mirror port=$port" > conf
"#;

#[test]
fn changed_program_stops_the_run_without_wrong_actions() {
    let session = Session::begin(&[("setup.sh", SETUP)]);
    session.type_text("bash setup.sh\n");
    session.type_text("2\n");
    session.type_text("9000\n");
    session.send(json!({"input_text": "y\n", "until": "prompt"}));
    let procedure = session.capture(json!({"port": "9000"}));
    procedure.assert_replays();
    procedure.prove(&["PORT=7777"], &[]);
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
    for (case, program) in changes {
        assert_ne!(program, SETUP, "{case}");
        procedure.write_file("setup.sh", &program);
        let run = procedure.begin(json!({"PORT": "7777"}));
        assert_eq!(run["status"], "waiting", "{case}: {run:#}");
        assert!(!procedure.home.path().join("conf").exists(), "{case}");
        let cancel_reply = procedure.agent.call_tool("cancel_run", json!({"run_id": run["run_id"]}));
        assert_eq!(cancel_reply["success"], true, "{case}: {cancel_reply}");
    }
    procedure.write_file("setup.sh", SETUP);
    procedure.run_to_completion(json!({"PORT": "7778"}));
    assert_eq!(procedure.file("conf"), "mirror=Paris port=7778\n");
}

/// Reports its result in a line and by its exit code.
const BUILD: &str =
    "echo compiling; echo BUILD OK; sleep 0.2; read -p 'Publish? ' answer; echo \"$answer\" > published\n";

#[test]
fn matched_line_alone_does_not_continue_the_run() {
    let session = Session::begin(&[("build.sh", BUILD)]);
    session.send(json!({"input_text": "bash build.sh\n", "pattern": "BUILD OK"}));
    session.type_text("yes\n");
    let procedure = session.capture(json!({}));
    procedure.assert_replays();
    for decoy in [
        "echo last time: BUILD OK; echo BUILD FAILED; read -p 'Erase all? ' answer; echo $answer > published\n",
        "echo BUILD OK a year ago; exit 1\n",
    ] {
        let _ = std::fs::remove_file(procedure.home.path().join("published"));
        procedure.write_file("build.sh", decoy);
        let run = procedure.begin(json!({}));
        assert_eq!(run["status"], "waiting", "{decoy}: {run:#}");
        assert!(!procedure.home.path().join("published").exists(), "{decoy}");
        let _ = procedure.agent.call_tool("cancel_run", json!({"run_id": run["run_id"]}));
    }
}

#[test]
fn typed_ahead_input_answers_no_other_question() {
    let erase = "read -p 'Erase all? ' a; echo $a > erased\n";
    let delayed = |program: &str| format!("echo begun; sleep 0.3; {program}; touch published\n");
    // Programs, the inputs after the first one (the last ends at the prompt), and the later behaviour of the program.
    let cases = [
        ("one question", delayed("read -p 'Publish? ' a"), vec!["yes\n"], delayed(erase.trim())),
        (
            "two questions",
            delayed("read -p 'Name? ' a; read -p 'Mail: ' b"),
            vec!["ana\n", "a@x.org\n"],
            delayed(erase.trim()),
        ),
        (
            "a key",
            delayed("read -n1 -p 'Sure? ' a; echo"),
            vec!["y"],
            delayed("read -n1 -p 'Erase? ' a; echo $a > erased"),
        ),
        (
            "half a row",
            delayed("echo -n 'compiling... '; sleep 0.3; read -p 'done. Publish? ' a"),
            vec!["yes\n"],
            delayed(erase.trim()),
        ),
        ("the shell", "echo begun; sleep 0.3\n".to_owned(), vec!["touch published\n"], "exit 3\n".to_owned()),
        ("no question", delayed("read a"), vec!["yes\n"], delayed(erase.trim())),
    ];
    for (case, program, answers, decoy) in cases {
        let session = Session::begin(&[("ask.sh", &program)]);
        let (last, earlier) = answers.split_last().expect("each program reads input");
        session.send(json!({"input_text": "bash ask.sh\n", "pattern": "begun"}));
        for text in earlier {
            let input = json!({"session_id": session.current_terminal(), "input_text": text});
            assert_eq!(session.agent.call_tool("send_input", input)["success"], true, "{case}");
        }
        session.send(json!({"input_text": last, "until": "prompt"}));
        check_workflow(&session.capture(json!({})), case, &[&decoy]);
    }
}

#[test]
fn silent_reader_that_now_asks_gets_no_answer() {
    let erase = "read -p 'Erase all? ' a; echo $a > erased\n";
    let then_erase = |first: &str, second: &str| format!("{first}; {second}; echo $a > erased\n");
    let keep = "read -p 'Keep logs? ' n";
    // Programs, the inputs after their command lines, and the later behaviour of the programs.
    let cases = [
        ("at once", "read a", vec!["yes"], vec![erase.to_owned(), then_erase("echo Erase all?", "read a")]),
        ("twice", "read a; read b", vec!["yes", "no"], vec![then_erase("read a", erase.trim())]),
        (
            "after a short answer",
            "read -p 'Keep logs? ' n; read a",
            vec!["y", "ok"],
            vec![
                then_erase(keep, "echo 'Type ok to delete the directory'; read a"),
                then_erase(keep, "read -p 'Erase all of /var/history' a"),
            ],
        ),
        ("after Enter alone", "read a; read b", vec!["", "ok"], vec![then_erase("read x", "read -p 'Erase all? ' a")]),
    ];
    for (case, program, answers, decoys) in cases {
        let session = Session::begin(&[("ask.sh", &format!("{program}; touch published\n"))]);
        session.type_text("bash ask.sh\n");
        let (last, first) = answers.split_last().expect("each program reads input");
        for answer in first {
            session.type_text(&format!("{answer}\n"));
        }
        session.send(json!({"input_text": format!("{last}\n"), "until": "prompt"}));
        let decoys: Vec<&str> = decoys.iter().map(String::as_str).collect();
        check_workflow(&session.capture(json!({})), case, &decoys);
    }
}

/// Checks that a workflow repeats the recording and stops at these programs.
fn check_workflow(procedure: &super::Procedure, case: &str, decoys: &[&str]) {
    procedure.assert_replays();
    let _ = std::fs::remove_file(procedure.home.path().join("published"));
    procedure.run_to_completion(json!({}));
    assert_eq!(procedure.file("published"), "", "{case}");
    for decoy in decoys {
        check_stop(procedure, &json!({}), case, decoy, "erased");
    }
}

/// Checks that a run with these arguments stops at a program before it writes a file.
fn check_stop(procedure: &super::Procedure, arguments: &Value, case: &str, decoy: &str, file: &str) {
    procedure.write_file("ask.sh", decoy);
    let run = procedure.begin(arguments.clone());
    assert_eq!(run["status"], "waiting", "{case}, {decoy}: {run:#}\n{:#}", procedure.capture);
    assert!(!procedure.home.path().join(file).exists(), "{case}, {decoy}");
    let _ = procedure.agent.call_tool("cancel_run", json!({"run_id": run["run_id"]}));
}

#[test]
fn keys_pressed_at_once_answer_the_questions_that_read_them() {
    let erase = "read -n1 -p 'Erase all? ' b; echo $b > erased";
    // Programs, the keys pressed at once, and the later replacement of the second question.
    let cases = [
        ("after an end of line", "read -n1 -p 'Go on? ' a; echo", "read -n1 -p 'Publish? ' b; echo", "yy"),
        ("two keys", "read -n1 -p 'Go on? ' a; echo", "read -n1 -p 'Publish? ' b; echo", "yn"),
        ("unseen", "read -sn1 -p 'Go on? ' a; echo", "read -sn1 -p 'Publish? ' b; echo", "yy"),
        ("with a tab", "read -n1 -p $'Go\\ton? ' a; echo", "read -n1 -p 'Publish? ' b; echo", "yy"),
        ("late", "read -n1 -p 'Go on? ' a; echo; sleep 0.4", "read -n1 -p 'Publish? ' b; echo", "yy"),
        ("a line of it", "read -n1 -p 'Go on? ' a; echo; echo works", "echo 'Publish?'; read -n1 b; echo", "yy"),
    ];
    for (case, first, second, keys) in cases {
        let session = Session::begin(&[("ask.sh", &format!("{first}; {second}; touch published\n"))]);
        session.type_text("bash ask.sh\n");
        session.send(json!({"input_text": keys, "until": "prompt"}));
        let procedure = session.capture(json!({}));
        let decoys = [format!("{first}; {erase}; touch published\n"), format!("{first}; sleep 0.2; {erase}\n")];
        check_workflow(&procedure, case, &[&decoys[0], &decoys[1]]);
        assert_eq!(procedure.capture["undecided"], json!([]), "{case}");
    }
    // A single question that reads both keys.
    let session = Session::begin(&[("ask.sh", "read -n2 -p 'Code? ' a; echo; echo $a > published\n")]);
    session.type_text("bash ask.sh\n");
    session.send(json!({"input_text": "yz", "until": "prompt"}));
    let procedure = session.capture(json!({}));
    procedure.assert_replays();
    procedure.run_to_completion(json!({}));
    assert_eq!(procedure.file("published"), "yz\n");
}

#[test]
fn password_is_typed_only_at_its_drawn_question() {
    let program = |drawn: &str, ask: &str| {
        format!("printf '\\033[2J\\033[3;5H{drawn}\\033[9;1H'; {ask}; echo; echo ${{#p}} > published\n")
    };
    // The drawn text, the reading program, and its later version.
    let cases = [
        (
            "Log in as ana",
            "read -s -p 'Password: ' p",
            vec![
                program("Log in as ana", "read -p 'Password: ' p"),
                program("Log in as ana", "read -s -p 'Password of root: ' p"),
                program("Log in as ana", "read -sn1 -p 'Delete? ' p"),
            ],
        ),
        (
            "Password of ana",
            "read -s p",
            vec![
                program("Password of ana", "read p"),
                program("Password of root", "read -s p"),
                program("Delete ana", "read -s p"),
                program("Password of ana\\033[5;1HDelete all", "read -s p"),
            ],
        ),
    ];
    for (drawn, ask, decoys) in cases {
        let session = Session::begin(&[("ask.sh", &program(drawn, ask))]);
        session.type_text("bash ask.sh\n");
        session.send(json!({"input_text": "hunter2-captured\n", "until": "prompt"}));
        let procedure = session.capture(json!({}));
        let arguments = procedure.arguments();
        let (name, argument) = arguments.iter().next().expect("the workflow has a secret argument");
        assert_eq!(argument["secret"], true, "{:#}", procedure.capture);
        procedure.assert_absent("hunter2-captured");
        procedure.assert_replays();
        let _ = std::fs::remove_file(procedure.home.path().join("published"));
        let secret = json!({name.as_str(): "another-one"});
        procedure.run_to_completion(secret.clone());
        assert_eq!(procedure.file("published"), "11\n", "{ask}");
        for decoy in decoys {
            let _ = std::fs::remove_file(procedure.home.path().join("published"));
            check_stop(&procedure, &secret, ask, &decoy, "published");
        }
    }
}

#[test]
fn prompt_with_a_tab_is_recognised_again() {
    let erase = "read -p $'Erase\\tall? ' a; echo $a > erased\n";
    let cases = [
        ("at its end", "printf 'Publish now?\\t'; read a"),
        ("within", "printf 'Publish\\tnow? '; read a"),
        ("of a line editor", "read -e -p $'Publish\\tnow? ' a"),
        ("at its beginning", "printf '\\tPublish now? '; read a"),
        ("above", "printf 'Site:\\tshop\\n'; read -p 'Are you sure? ' a"),
        ("of a key", "printf 'Publish\\tnow?\\t'; read -n1 a; echo"),
        ("of a menu", "printf '1)\\tpublish\\n2)\\tleave\\n'; read -p $'Which:\\t' a"),
        ("silently", "printf 'Publish\\tnow?\\n'; read a"),
    ];
    for (case, program) in cases {
        let session = Session::begin(&[("ask.sh", &format!("{program}; touch published\n"))]);
        session.type_text("bash ask.sh\n");
        let answer = if case == "of a key" { "1" } else { "1\n" };
        session.send(json!({"input_text": answer, "until": "prompt"}));
        let decoy = program.replace("ublish", "urge").replace("shop", "bank") + "; echo $a > erased\n";
        check_workflow(
            &session.capture(json!({})),
            case,
            &[erase, &decoy].map(|decoy| decoy)[usize::from(case == "above")..],
        );
    }
}

#[test]
fn consecutive_choices_are_distinguished() {
    // Shows its choices in a row with the selected one highlighted and takes Enter.
    let program = |styled: &str, style: &str| {
        let choices = ["Keep", "Delete", "Quit"].map(|choice| match styled.split(' ').any(|name| name == choice) {
            true => format!("\\033[{style}m{choice}\\033[0m"),
            false => choice.to_owned(),
        });
        format!(
            "printf 'Delete the files?  {}   (arrows move) '; read -sn1 a; echo\ntouch {}\n",
            choices.join("  "),
            if styled == "Keep" { "published" } else { "erased" }
        )
    };
    for style in ["7", "1;32", "44"] {
        let session = Session::begin(&[("ask.sh", &program("Keep", style))]);
        session.type_text("bash ask.sh\n");
        session.send(json!({"input_text": "", "keys": ["enter"], "until": "prompt"}));
        let procedure = session.capture(json!({}));
        let decoys = [program("Delete", style), program("Quit", style), program("Keep Delete", style)];
        let decoys: Vec<&str> = decoys.iter().map(String::as_str).collect();
        check_workflow(&procedure, style, &decoys);
    }
}

#[test]
fn input_without_a_prompt_is_typed_only_at_an_equal_read() {
    // Programs without a question: the recorded read, and other reads in later versions.
    let cases = [
        ("a hidden line", "read -s a", vec!["read a", "read -n1 a; read -n1 b", "read -sn1 a"]),
        ("a line", "read a", vec!["read -s a", "read -n1 a; read -n1 b", "read -sn1 a; read -sn1 b"]),
    ];
    for (case, read, decoys) in cases {
        let session = Session::begin(&[("ask.sh", &format!("{read}; echo; echo ${{#a}} > published\n"))]);
        session.type_text("bash ask.sh\n");
        session.send(json!({"input_text": "hunter2-captured\n", "until": "prompt"}));
        let procedure = session.capture(json!({}));
        let arguments = procedure.arguments();
        let value = arguments.keys().next().map_or(json!({}), |name| json!({name.as_str(): "another-secret16"}));
        procedure.assert_replays();
        let _ = std::fs::remove_file(procedure.home.path().join("published"));
        procedure.run_to_completion(value.clone());
        assert_eq!(procedure.file("published"), "16\n", "{case}");
        for decoy in decoys {
            check_stop(&procedure, &value, case, &format!("{decoy}; echo; echo $a > erased\n"), "erased");
        }
    }
}

#[test]
fn value_shown_before_its_question_must_match() {
    let program = |output: &str, file: &str| {
        format!("echo 'New account: {output}'; echo ready; read -p 'Account to delete: ' a; touch {file}\n")
    };
    let session = Session::begin(&[("ask.sh", &program("100455", "published"))]);
    session.type_text("bash ask.sh\n");
    session.send(json!({"input_text": "100455\n", "until": "prompt"}));
    check_workflow(
        &session.capture(json!({})),
        "an account",
        &[&program("100456", "erased"), &program("none", "erased")],
    );
}

#[test]
fn small_number_of_an_earlier_output_is_reported() {
    let session = Session::begin(&[("make.sh", "echo Created job 47\n"), ("ask.sh", "test $1 = 47\n")]);
    session.run_command("bash make.sh");
    session.run_command("bash ask.sh 47");
    let procedure = session.capture(json!({}));
    let guesses = procedure.capture["guesses"].to_string();
    assert!(guesses.contains("'47' is typed unchanged") && guesses.contains("Created job 47"), "{guesses}");
}

#[test]
fn lines_typed_at_once_answer_questions_with_choices() {
    let program = |last: &str| format!("read -p 'Project name: ' a; read -p '{last}' b; echo; touch published\n");
    let session = Session::begin(&[("ask.sh", &program("Continue? [y/n] "))]);
    session.type_text("bash ask.sh\n");
    session.send(json!({"input_text": "shop\ny\n", "until": "prompt"}));
    let erase = |last: &str| program(last).replace("published", "erased");
    let decoys = [erase("Continue? "), erase("Erase all? [y/n] "), erase("Continue? [yes/no] ")];
    let decoys: Vec<&str> = decoys.iter().map(String::as_str).collect();
    check_workflow(&session.capture(json!({})), "two lines", &decoys);
}

#[test]
fn value_printed_after_a_key_or_hidden_text_is_read() {
    // The program, and the input that it reads without an echo.
    let cases = [
        ("a key", "read -sn1 -p 'Go on? ' a", json!({"input_text": "y"})),
        ("enter", "read -sn1 -p 'Go on? ' a", json!({"input_text": "", "keys": ["enter"]})),
        ("hidden text", "read -s -p 'Passphrase: ' a", json!({"input_text": "hunter2-captured\n"})),
    ];
    for (case, read, mut input) in cases {
        let program = format!("{read}; echo \"Created job $(cat id)\"\n");
        let session = Session::begin(&[("ask.sh", &program), ("id", "4711\n")]);
        session.type_text("bash ask.sh\n");
        input["until"] = "prompt".into();
        session.send(input);
        session.run_command("touch 4711");
        let procedure = session.capture(json!({}));
        let arguments = procedure.arguments();
        let value = arguments.keys().next().map_or(json!({}), |name| json!({name.as_str(): "another-secret16"}));
        procedure.write_file("id", "4712\n");
        procedure.run_to_completion(value.clone());
        assert_eq!(procedure.file("4712"), "", "{case}");
        procedure.write_file("id", "none\n");
        assert_eq!(procedure.begin(value)["status"], "waiting", "{case}: a value of another shape");
    }
}

#[test]
fn value_within_a_longer_typed_word_is_read() {
    // The captured value, the line that types it, the created file, and another value.
    let cases = [
        ("1.4.2", "touch rel-1.4.2", "rel-1.4.3", "1.4.3"),
        ("1.4.2", "touch v1.4.2", "v12.0.1", "12.0.1"),
        ("1.4.2", "touch app-v1.4.2-x.tar", "app-v1.5.0-x.tar", "1.5.0"),
        ("4711", "touch job-4711.log", "job-4712.log", "4712"),
        ("1f3a9b2", "touch web-1f3a9b2", "web-2e4c8d1", "2e4c8d1"),
        ("2026-11-29", "touch report-2026-11-29.txt", "report-2026-12-01.txt", "2026-12-01"),
    ];
    for (value, line, create_reply, other) in cases {
        let session = Session::begin(&[("value", &format!("{value}\n"))]);
        session.run_command("echo \"Latest one: $(cat value)\"");
        session.run_command(line);
        let procedure = session.capture(json!({}));
        procedure.write_file("value", &format!("{other}\n"));
        procedure.run_to_completion(json!({}));
        assert_eq!(procedure.file(create_reply), "", "{line}");
    }
}
