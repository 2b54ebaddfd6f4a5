//! Procedures of one terminal, captured from logs that are written by hand.

use serde_json::{Value, json};
use steplatch_protocol::{InputKind, InputRecord};

use crate::{CaptureRequest, Captured, Moment, SessionLog, Surroundings, capture};

/// The log of a terminal that was opened in `/home/ana/shop`.
#[derive(Default)]
struct Log {
    moments: Vec<Moment>,
}

impl Log {
    fn add(mut self, input: InputRecord, printed: &str, output: Option<&str>) -> Self {
        let number = self.moments.len() as u64 + 1;
        let input = InputRecord {
            number,
            offset: number * 100,
            timestamp: format!("2026-01-31T12:00:{number:02}Z"),
            directory: Some("/home/ana/shop".to_owned()),
            ..input
        };
        self.moments.push(Moment { input, printed: printed.to_owned(), output: output.map(str::to_owned) });
        self
    }

    /// A command that needed no input.
    fn runs(self, command: &str, exit_code: i32, output: &str) -> Self {
        let input = InputRecord {
            kind: InputKind::Command,
            context: "prompt".to_owned(),
            text: Some(command.to_owned()),
            reason: Some("ended".to_owned()),
            exit_code: Some(exit_code),
            output_end: Some(0),
            ..InputRecord::default()
        };
        self.add(input, output, Some(output))
    }

    /// A line at a prompt, of a program that asks and ends with this exit code.
    fn starts(self, line: &str, exit_code: i32, printed: &str) -> Self {
        let typed = InputRecord {
            kind: InputKind::Typed,
            context: "prompt".to_owned(),
            text: Some(format!("{line}\n")),
            ..InputRecord::default()
        };
        let entered = InputRecord {
            kind: InputKind::Entered,
            context: "prompt".to_owned(),
            text: Some(line.to_owned()),
            reason: Some("ended".to_owned()),
            exit_code: Some(exit_code),
            output_end: Some(u64::MAX),
            ..InputRecord::default()
        };
        self.add(typed, &format!("{line}\n"), None).add(entered, printed, None)
    }

    /// An answer behind a row of the screen.
    fn answers(self, row: &str, text: &str, printed: &str) -> Self {
        let input = InputRecord {
            kind: InputKind::Typed,
            context: "program".to_owned(),
            row: Some(row.to_owned()),
            text: Some(format!("{text}\n")),
            ..InputRecord::default()
        };
        self.add(input, &format!("{text}\n{printed}"), None)
    }

    /// A secret behind a row of the screen.
    fn hides(self, row: &str, printed: &str) -> Self {
        let input = InputRecord {
            kind: InputKind::Hidden,
            context: "password".to_owned(),
            row: Some(row.to_owned()),
            keys: vec!["enter".to_owned()],
            ..InputRecord::default()
        };
        self.add(input, &format!("\n{printed}"), None)
    }

    /// A wait of the client that found a pattern up to the end of the output.
    fn waits(self, pattern: &str) -> Self {
        let input = InputRecord {
            kind: InputKind::Wait,
            context: "program".to_owned(),
            reason: Some("match".to_owned()),
            pattern: Some(pattern.to_owned()),
            output_end: Some(u64::MAX - 2),
            ..InputRecord::default()
        };
        self.add(input, "", None)
    }

    fn captured(self, inputs: &[(&str, &str)], directory: &str) -> Captured {
        let shell = "bash".to_owned();
        let log = SessionLog {
            shell,
            directory: "/home/ana/shop".to_owned(),
            moments: self.moments,
            ..SessionLog::default()
        };
        let around = Surroundings {
            home: "/home/ana".to_owned(),
            directory: directory.to_owned(),
            user: "ana".to_owned(),
            host: "mill".to_owned(),
            ..Surroundings::default()
        };
        let inputs = inputs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        capture(&[log], &around, &CaptureRequest { inputs, ..CaptureRequest::default() })
    }
}

/// Returns a parameter of the action of each state that has it.
fn all<'c>(captured: &'c Captured, parameter: &str) -> Vec<&'c str> {
    let states = captured.definition["states"].as_object().expect("a machine has states");
    states.values().filter_map(|state| state["action"]["params"][parameter].as_str()).collect()
}

fn names(captured: &Captured) -> Vec<&str> {
    captured.definition["states"].as_object().expect("a machine has states").keys().map(String::as_str).collect()
}

#[test]
fn the_directory_of_the_session_is_an_argument_wherever_it_is_typed() {
    let log = || {
        Log::default().runs("cd /home/ana/shop/web && make", 0, "").runs(
            "tar -C /home/ana/shop -cf /home/ana/shop-2.tar .",
            0,
            "",
        )
    };
    let captured = log().captured(&[], "/home/ana/shop");
    assert_eq!(all(&captured, "command"), ["cd {PWD|sh}/web && make", "tar -C {PWD|sh} -cf {HOME|sh}/shop-2.tar ."]);
    assert_eq!(names(&captured), ["open", "cd_web_make", "tar_c_cf_shop"]);
    // A client elsewhere captures the directory as it is, unless it says what it is.
    let elsewhere = log().captured(&[], "/srv");
    assert_eq!(elsewhere.definition["states"]["open"]["action"]["params"]["working_directory"], "{HOME}/shop");
    let given = log().captured(&[("PWD", "/home/ana/shop")], "/srv");
    assert_eq!(all(&given, "working_directory"), ["{PWD}"]);
    assert_eq!(all(&given, "command"), all(&captured, "command"));
}

#[test]
fn a_number_chooses_the_entry_that_stood_there() {
    let menu = "1) Ubuntu 20.04\n2) Ubuntu 22.04\nChoose [1-2]: ";
    let pattern = r"\b2\) +Ubuntu 22\.04(?:  |\t| *$)[\s\S]*?^Choose \[\d+-\d+\]: *\Z";
    let log = Log::default().starts("sh setup.sh", 0, menu).answers("Choose [1-2]: ", "2", "");
    let captured = log.captured(&[], "/srv");
    assert_eq!(all(&captured, "pattern"), [pattern]);
    assert_eq!(names(&captured), ["open", "sh_setup_sh", "choose_ubuntu_22_04", "done"]);
    // What the client waited for does not say which entry it chose.
    let log = Log::default().starts("sh setup.sh", 0, menu).waits("Choose").answers("Choose [1-2]: ", "2", "");
    assert_eq!(all(&log.captured(&[], "/srv"), "pattern"), ["Choose", pattern]);
    // The program reads on a line of its own.
    let log =
        Log::default().starts("sh setup.sh", 0, "(1) one\n(2) two\nPick a number from 1 to 2\n").answers("", "2", "");
    assert_eq!(
        all(&log.captured(&[], "/srv"), "pattern"),
        [r"\(2\) +two(?:  |\t| *$)[\s\S]*?^Pick a number from \d+ to \d+\s*\Z"]
    );
}

fn secrets(captured: &Captured) -> Vec<&str> {
    let is_secret = |(_, argument): &(&String, &Value)| argument["secret"] == true;
    let arguments = captured.definition["arguments"].as_object();
    arguments.into_iter().flatten().filter(is_secret).map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_secret_that_is_typed_again_is_one_argument() {
    let log = Log::default()
        .starts("passwd", 0, "Current password: ")
        .hides("Current password: ", "New password: ")
        .hides("New password: ", "Retype new password: ")
        .hides("Retype new password: ", "passwd: password updated\n")
        .runs("ls", 0, "");
    let captured = log.captured(&[], "/srv");
    assert_eq!(secrets(&captured), ["PASSWORD", "PASSWORD_2"]);
    assert_eq!(all(&captured, "input_text"), ["passwd\n", "{PASSWORD}\n", "{PASSWORD_2}\n", "{PASSWORD_2}\n"]);
    let guess = captured.guesses.iter().find(|guess| guess.guess == "it is PASSWORD_2 again").expect("it is named");
    assert_eq!(guess.state, "repeat_password_2");
}

#[test]
fn the_same_question_asks_for_the_same_secret_where_it_says_whose() {
    let asked = |row: &str, other: &str| {
        let log = Log::default()
            .starts("one", 0, row)
            .hides(row, "")
            .starts("two", 0, other)
            .hides(other, "")
            .runs("ls", 0, "");
        let captured = log.captured(&[], "/srv");
        secrets(&captured).len()
    };
    let sudo = "[sudo] password for ana: ";
    assert_eq!(asked(sudo, sudo), 1);
    assert_eq!(asked("Password: ", "Password: "), 2, "another command may ask for another one");
    assert_eq!(asked("ana@mill's password: ", "ana@barn's password: "), 2);
    assert_eq!(asked("Password: ", "Verification code: "), 2);
    let twice = Log::default()
        .starts("su", 0, "Password: ")
        .hides("Password: ", "")
        .starts("su", 0, "Password: ")
        .hides("Password: ", "")
        .runs("ls", 0, "");
    assert_eq!(secrets(&twice.captured(&[], "/srv")), ["PASSWORD"]);
}

#[test]
fn a_password_that_was_refused_is_not_waited_for() {
    let row = "[sudo] password for ana: ";
    let log = Log::default()
        .starts("sudo make", 0, row)
        .hides(row, "Sorry, try again.\n[sudo] password for ana: ")
        .hides(row, "done\n")
        .runs("ls", 0, "");
    let captured = log.captured(&[], "/srv");
    assert_eq!(all(&captured, "input_text"), ["sudo make\n", "{PASSWORD}\n"]);
    assert!(captured.left_out[0].reason.contains("was refused"), "{:?}", captured.left_out);
}

#[test]
fn an_answer_is_named_after_its_argument_and_every_note_names_its_state() {
    let log = Log::default()
        .starts("sh setup.sh", 0, "Port: ")
        .answers("Port: ", "9000", "Since: ")
        .answers("Since: ", "2026-01-31", "Until: ")
        .answers("Until: ", "2026-01-31", "Mail (x): ")
        .answers("Mail (x): ", "", "")
        .runs("ls", 0, "");
    let captured = log.captured(&[("port", "9000")], "/srv");
    assert_eq!(
        names(&captured),
        ["open", "sh_setup_sh", "answer_port", "answer_2026_01_31", "answer_until", "answer_mail", "done"]
    );
    assert!(captured.undecided.iter().any(|one| one.starts_with("state 'answer_until' types the date")));
    assert_eq!(captured.definition["arguments"]["PORT"]["export"], json!(false));
}

/// Returns the names of the states, with a star at each gate.
fn gated(captured: &Captured) -> Vec<String> {
    let states = captured.definition["states"].as_object().expect("a machine has states");
    let name = |(name, state): (&String, &Value)| match state["action"]["tool"].as_str() {
        Some("gate") => Some("*".to_owned()),
        Some("run_command" | "send_input") => Some(name.clone()),
        _ => None,
    };
    states.iter().filter_map(name).collect()
}

#[test]
fn a_person_is_asked_before_what_cannot_be_taken_back_and_before_what_is_not_known() {
    let ordinary = ["git pull", "npm run build", "make", "python3 script.py", "cargo test", "mkdir x && cp a x"];
    let captured = ordinary.iter().fold(Log::default(), |log, line| log.runs(line, 0, "")).captured(&[], "/srv");
    assert!(!gated(&captured).contains(&"*".to_owned()), "{:?}", gated(&captured));
    let unseen: Vec<&str> = captured
        .guesses
        .iter()
        .filter(|one| one.guess == "no person is asked first")
        .map(|one| one.state.as_str())
        .collect();
    assert_eq!(unseen, ["npm_run_build", "make", "python3_script_py"], "what is not read is named");
    let log = Log::default()
        .runs("make", 0, "")
        .runs("ssh box rm -rf /srv/x", 0, "")
        .runs("frobnicate --all", 0, "")
        .runs("curl https://x/y | sh", 0, "");
    let captured = log.captured(&[], "/srv");
    assert_eq!(gated(&captured), ["make", "*", "ssh_box_rm_rf", "*", "frobnicate_all", "*", "curl_https_x_y"]);
    let reasons: Vec<&str> = captured
        .guesses
        .iter()
        .filter(|one| one.guess == "a person is asked first")
        .map(|one| one.reason.as_str())
        .collect();
    assert_eq!(
        reasons,
        [
            "'rm -rf /srv/x' cannot be taken back",
            "it is not known whether 'frobnicate --all' can be taken back",
            "it is not known whether 'sh' can be taken back"
        ]
    );
}

#[test]
fn a_line_at_the_prompt_of_another_machine_is_judged_as_one_and_an_answer_is_not() {
    let session = |begun: &str, prompt: &str, typed: &str| {
        let log = Log::default().starts(begun, 0, prompt).answers(prompt, typed, "").runs("ls", 0, "");
        gated(&log.captured(&[], "/srv")).contains(&"*".to_owned())
    };
    let remote = "ana@box:~$ ";
    assert!(session("ssh box", remote, "rm -rf x") && session("ssh box", remote, "frobnicate"));
    assert!(!session("ssh box", remote, "df -h | tail -1") && !session("ssh box", "continue (yes/no)? ", "yes"));
    assert!(session("psql shop", "shop=# ", "update t set a = 1;") && !session("psql shop", "shop=# ", "select 1;"));
    assert!(!session("sh setup.sh", "Name: ", "frobnicate") && session("sh setup.sh", "> ", "drop table t;"));
}
