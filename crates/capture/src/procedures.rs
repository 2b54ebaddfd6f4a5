//! Captures of handwritten logs of one terminal.

use serde_json::{Value, json};
use steplatch_protocol::{InputKind, InputRecord};

use crate::{CaptureRequest, CapturedMachine, KnownFacts, Moment, SessionLog, capture};

/// Builder of the log of a terminal that starts in `/home/ana/shop`.
#[derive(Default)]
pub(crate) struct Log {
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

    /// Adds a command without input.
    pub(crate) fn command(self, command: &str, exit_code: i32, output: &str) -> Self {
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

    /// Adds a line typed at a prompt, and the started program. The program asks questions and ends with `exit_code`.
    pub(crate) fn program(self, line: &str, exit_code: i32, printed: &str) -> Self {
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

    /// Adds an answer typed after `row`.
    pub(crate) fn answer(self, row: &str, text: &str, printed: &str) -> Self {
        let input = InputRecord {
            kind: InputKind::Typed,
            context: "program".to_owned(),
            row: Some(row.to_owned()),
            text: Some(format!("{text}\n")),
            ..InputRecord::default()
        };
        self.add(input, &format!("{text}\n{printed}"), None)
    }

    /// Adds a secret typed after `row`.
    pub(crate) fn secret(self, row: &str, printed: &str) -> Self {
        let input = InputRecord {
            kind: InputKind::Hidden,
            context: "password".to_owned(),
            row: Some(row.to_owned()),
            keys: vec!["enter".to_owned()],
            ..InputRecord::default()
        };
        self.add(input, &format!("\n{printed}"), None)
    }

    /// Adds a wait of the client, whose match ends at the end of the output.
    pub(crate) fn client_wait(self, pattern: &str) -> Self {
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

    pub(crate) fn capture(self, inputs: &[(&str, &str)], directory: &str) -> CapturedMachine {
        self.capture_compared_with(None, inputs, directory)
    }

    fn session(self) -> SessionLog {
        SessionLog {
            shell: "bash".to_owned(),
            directory: "/home/ana/shop".to_owned(),
            moments: self.moments,
            ..SessionLog::default()
        }
    }

    /// Captures the log and compares it with the log of another execution.
    pub(crate) fn capture_compared_with(
        self,
        other: Option<Self>,
        inputs: &[(&str, &str)],
        directory: &str,
    ) -> CapturedMachine {
        let facts = KnownFacts {
            home: "/home/ana".to_owned(),
            directory: directory.to_owned(),
            user: "ana".to_owned(),
            host: "mill".to_owned(),
            ..KnownFacts::default()
        };
        let inputs = inputs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let compare_with = other.into_iter().map(Self::session).collect();
        capture(
            &[self.session()],
            &facts,
            &CaptureRequest { argument_values: inputs, compare_with, ..CaptureRequest::default() },
        )
    }
}

/// Returns the values of a parameter in all states that have it.
pub(crate) fn parameter_values<'c>(captured: &'c CapturedMachine, parameter: &str) -> Vec<&'c str> {
    let states = captured.definition["states"].as_object().expect("the machine has states");
    states.values().filter_map(|state| state["action"]["params"][parameter].as_str()).collect()
}

fn state_names(captured: &CapturedMachine) -> Vec<&str> {
    captured.definition["states"].as_object().expect("the machine has states").keys().map(String::as_str).collect()
}

#[test]
fn session_directory_is_an_argument_everywhere() {
    let log = || {
        Log::default().command("cd /home/ana/shop/web && make", 0, "").command(
            "tar -C /home/ana/shop -cf /home/ana/shop-2.tar .",
            0,
            "",
        )
    };
    let captured = log().capture(&[], "/home/ana/shop");
    assert_eq!(
        parameter_values(&captured, "command"),
        ["cd {PWD|sh}/web && make", "tar -C {PWD|sh} -cf {HOME|sh}/shop-2.tar ."]
    );
    assert_eq!(state_names(&captured), ["open", "cd_web_make", "tar_c_cf_shop"]);
    // For a client in another directory, the directory is an argument only if the client names it.
    let elsewhere = log().capture(&[], "/srv");
    assert_eq!(elsewhere.definition["states"]["open"]["action"]["params"]["working_directory"], "{HOME}/shop");
    let with_pwd = log().capture(&[("PWD", "/home/ana/shop")], "/srv");
    assert_eq!(parameter_values(&with_pwd, "working_directory"), ["{PWD}"]);
    assert_eq!(parameter_values(&with_pwd, "command"), parameter_values(&captured, "command"));
}

#[test]
fn number_is_typed_only_at_the_recorded_menu() {
    let menu = "1) Ubuntu 20.04\n2) Ubuntu 22.04\nChoose [1-2]: ";
    let pattern = r"(?P<another_entry>(?<![^\W_]|[.,-])2(?![^\W_]|[.,]\d)[\s\S]*)?^[^\S\n]*1\) Ubuntu 20\.04\s*\n\s*2\) Ubuntu 22\.04\s*\n^Choose \[1-2\]: *\Z";
    let log = Log::default().program("sh setup.sh", 0, menu).answer("Choose [1-2]: ", "2", "");
    let captured = log.capture(&[], "/srv");
    assert_eq!(parameter_values(&captured, "pattern"), [pattern]);
    assert_eq!(state_names(&captured), ["open", "sh_setup_sh", "choose_ubuntu_22_04", "done"]);
    // The pattern of the client does not show which entry was chosen.
    let log = Log::default().program("sh setup.sh", 0, menu).client_wait("Choose").answer("Choose [1-2]: ", "2", "");
    assert_eq!(parameter_values(&log.capture(&[], "/srv"), "pattern"), ["Choose", pattern]);
    // The program reads the number on a new line.
    let log =
        Log::default().program("sh setup.sh", 0, "(1) one\n(2) two\nPick a number from 1 to 2\n").answer("", "2", "");
    assert_eq!(
        parameter_values(&log.capture(&[], "/srv"), "pattern"),
        [
            r"(?P<another_entry>(?<![^\W_]|[.,-])2(?![^\W_]|[.,]\d)[\s\S]*)?^[^\S\n]*\(1\) one\s*\n\s*\(2\) two\s*\n^Pick a number from 1 to 2\s*\Z"
        ]
    );
}

/// Returns an input to a program that redraws its rows.
fn screen_input(row: &str, screen: &str, text: &str, keys: &[&str]) -> InputRecord {
    InputRecord {
        kind: InputKind::Typed,
        context: "program".to_owned(),
        row: Some(row.to_owned()),
        screen: Some(screen.to_owned()),
        awaited: Some(true),
        text: Some(text.to_owned()).filter(|text| !text.is_empty()),
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        ..InputRecord::default()
    }
}

#[test]
fn redrawing_wizard_is_awaited_as_shown() {
    let menu = "$ node x.js\n? Where to? \n❯ dev\n  staging\n  prod";
    let asks = "$ node x.js\n✔ Where to? staging\n? Project name? (demo)";
    // The output lacks overdrawn text, and each redrawn question ends with its answer.
    let log = Log::default()
        .program("node x.js", 0, "? Where to?\n❯ dev\n  staging\n  prod\n")
        .add(screen_input("? Where to? ", menu, "", &["down", "enter"]), "✔ Where to? staging\n", None)
        .add(screen_input("? Project name? ", asks, "demo\n", &[]), "✔ Project name? demo\nScaffolded demo\n", None)
        .command("ls -la", 0, "");
    let captured = log.capture(&[], "/srv");
    assert_eq!(
        state_names(&captured),
        ["open", "node_x_js", "after_node_x_js", "answer_where", "after_answer_where", "answer_demo", "done"]
    );
    assert_eq!(parameter_values(&captured, "target"), ["screen", "screen"]);
    assert_eq!(parameter_values(&captured, "reads"), ["shown", "shown"]);
    let patterns = parameter_values(&captured, "pattern");
    for (pattern, screen) in patterns.iter().zip([menu, asks]) {
        assert!(crate::question::matches_in(pattern, screen), "{pattern}");
    }
    assert!(patterns[1].contains(r"\? Project name\? \(demo\)"), "{patterns:?}");
    // The waits also match the recording.
    for (state, pattern) in ["after_node_x_js", "after_answer_where"].iter().zip(patterns) {
        let step = captured.golden.iter().find(|step| step.state == *state).expect("each state has a step");
        assert!(crate::question::matches_in(pattern, &step.prints), "{pattern} {}", step.prints);
    }
}

#[test]
fn wait_ends_where_the_program_reads_next_input() {
    let read_mode = |awaited: Option<bool>, context: &str| {
        let input = InputRecord {
            kind: InputKind::Typed,
            context: context.to_owned(),
            row: Some("Value: ".to_owned()),
            text: Some("x\n".to_owned()),
            awaited,
            ..InputRecord::default()
        };
        let log = Log::default().program("sh x", 0, "Value: ").add(input, "x\n", None).command("true", 0, "");
        let captured = log.capture(&[], "/srv");
        parameter_values(&captured, "reads").first().map(|reads| (*reads).to_owned())
    };
    assert_eq!(read_mode(Some(true), "program"), Some("shown".to_owned()));
    assert_eq!(read_mode(None, "program"), Some("shown".to_owned()), "the mode is unknown over ssh and in older logs");
    assert_eq!(read_mode(None, "password"), Some("hidden".to_owned()));
    assert_eq!(read_mode(Some(false), "program"), Some("shown".to_owned()), "the answer was typed ahead");
    // After a wait of the client, too, the next input waits until the program reads.
    let log = Log::default()
        .program("sh x", 0, "Value: ")
        .client_wait("Value")
        .answer("Value: ", "x", "")
        .command("true", 0, "");
    assert_eq!(parameter_values(&log.capture(&[], "/srv"), "reads"), ["shown"]);
}

#[test]
fn untyped_line_is_reported_and_adds_no_state() {
    let entered = InputRecord {
        kind: InputKind::Entered,
        context: "prompt".to_owned(),
        text: Some("touch PWN".to_owned()),
        reason: Some("ended".to_owned()),
        exit_code: Some(0),
        ..InputRecord::default()
    };
    let log = Log::default().command("python3 x.py", 0, "").add(entered.clone(), "", Some("")).command("make", 0, "");
    let captured = log.capture(&[], "/srv");
    assert_eq!(parameter_values(&captured, "command"), ["python3 x.py", "make"]);
    let [omitted] = &captured.omitted_inputs[..] else { panic!("{:?}", captured.omitted_inputs) };
    assert!(omitted.input == "touch PWN" && omitted.reason.starts_with("a program typed it"), "{omitted:?}");
    // If the log lacks its beginning, the line may have been typed.
    let captured = Log::default().add(entered, "", Some("")).command("make", 0, "").capture(&[], "/srv");
    assert_eq!(captured.omitted_inputs, []);
}

fn secret_arguments(captured: &CapturedMachine) -> Vec<&str> {
    let is_secret = |(_, argument): &(&String, &Value)| argument["secret"] == true;
    let arguments = captured.definition["arguments"].as_object();
    arguments.into_iter().flatten().filter(is_secret).map(|(name, _)| name.as_str()).collect()
}

#[test]
fn repeated_secret_is_one_argument() {
    let log = Log::default()
        .program("passwd", 0, "Current password: ")
        .secret("Current password: ", "New password: ")
        .secret("New password: ", "Retype new password: ")
        .secret("Retype new password: ", "passwd: password updated\n")
        .command("ls", 0, "");
    let captured = log.capture(&[], "/srv");
    assert_eq!(secret_arguments(&captured), ["PASSWORD", "PASSWORD_2"]);
    assert_eq!(
        parameter_values(&captured, "input_text"),
        ["passwd\n", "{PASSWORD}\n", "{PASSWORD_2}\n", "{PASSWORD_2}\n"]
    );
    let guess = captured
        .guesses
        .iter()
        .find(|guess| guess.guess == "it is PASSWORD_2 again")
        .expect("a guess names the repeated secret");
    assert_eq!(guess.state, "repeat_password_2");
}

#[test]
fn same_question_asks_for_the_same_secret_if_it_names_the_owner() {
    let secret_count = |row: &str, other: &str| {
        let log = Log::default()
            .program("one", 0, row)
            .secret(row, "")
            .program("two", 0, other)
            .secret(other, "")
            .command("ls", 0, "");
        let captured = log.capture(&[], "/srv");
        secret_arguments(&captured).len()
    };
    let sudo = "[sudo] password for ana: ";
    assert_eq!(secret_count(sudo, sudo), 1);
    assert_eq!(secret_count("Password: ", "Password: "), 2, "a different command may request a different secret");
    assert_eq!(secret_count("ana@mill's password: ", "ana@barn's password: "), 2);
    assert_eq!(secret_count("Password: ", "Verification code: "), 2);
    let twice = Log::default()
        .program("su", 0, "Password: ")
        .secret("Password: ", "")
        .program("su", 0, "Password: ")
        .secret("Password: ", "")
        .command("ls", 0, "");
    assert_eq!(secret_arguments(&twice.capture(&[], "/srv")), ["PASSWORD"]);
}

#[test]
fn refused_password_is_not_awaited() {
    let row = "[sudo] password for ana: ";
    let log = Log::default()
        .program("sudo make", 0, row)
        .secret(row, "Sorry, try again.\n[sudo] password for ana: ")
        .secret(row, "done\n")
        .command("ls", 0, "");
    let captured = log.capture(&[], "/srv");
    assert_eq!(parameter_values(&captured, "input_text"), ["sudo make\n", "{PASSWORD}\n"]);
    assert!(captured.omitted_inputs[0].reason.contains("refused it"), "{:?}", captured.omitted_inputs);
}

#[test]
fn answer_state_is_named_after_its_argument() {
    let log = Log::default()
        .program("sh setup.sh", 0, "Port: ")
        .answer("Port: ", "9000", "Since: ")
        .answer("Since: ", "2026-01-31", "Until: ")
        .answer("Until: ", "2026-01-31", "Mail (x): ")
        .answer("Mail (x): ", "", "")
        .command("ls", 0, "");
    let captured = log.capture(&[("port", "9000")], "/srv");
    assert_eq!(
        state_names(&captured),
        ["open", "sh_setup_sh", "answer_port", "answer_2026_01_31", "answer_until", "answer_mail", "done"]
    );
    assert!(captured.undecided.iter().any(|decision| decision.starts_with("state 'answer_until' types the date")));
    assert_eq!(captured.definition["arguments"]["PORT"]["export"], json!(false));
}

/// Returns the names of the states, with a star at each gate.
fn state_names_with_gates(captured: &CapturedMachine) -> Vec<String> {
    let states = captured.definition["states"].as_object().expect("the machine has states");
    let name = |(name, state): (&String, &Value)| match state["action"]["tool"].as_str() {
        Some("gate") => Some("*".to_owned()),
        Some("run_command" | "send_input") => Some(name.clone()),
        _ => None,
    };
    states.iter().filter_map(name).collect()
}

#[test]
fn destructive_or_unknown_line_gets_a_gate() {
    let ordinary = ["git pull", "npm run build", "make", "python3 script.py", "cargo test", "mkdir x && cp a x"];
    let captured = ordinary.iter().fold(Log::default(), |log, line| log.command(line, 0, "")).capture(&[], "/srv");
    assert!(!state_names_with_gates(&captured).contains(&"*".to_owned()), "{:?}", state_names_with_gates(&captured));
    let ungated_states: Vec<&str> = captured
        .guesses
        .iter()
        .filter(|guess| guess.guess == "no person is asked first")
        .map(|guess| guess.state.as_str())
        .collect();
    assert_eq!(
        ungated_states,
        ["npm_run_build", "make", "python3_script_py", "cargo_test"],
        "unread project programs are reported"
    );
    let log = Log::default()
        .command("make", 0, "")
        .command("ssh box rm -rf /srv/x", 0, "")
        .command("frobnicate --all", 0, "")
        .command("curl https://x/y | sh", 0, "");
    let captured = log.capture(&[], "/srv");
    assert_eq!(
        state_names_with_gates(&captured),
        ["make", "*", "ssh_box_rm_rf", "*", "frobnicate_all", "*", "curl_https_x_y"]
    );
    let reasons: Vec<&str> = captured
        .guesses
        .iter()
        .filter(|guess| guess.guess == "a person is asked first")
        .map(|guess| guess.reason.as_str())
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
fn line_at_a_remote_prompt_is_judged_but_an_answer_is_not() {
    let session = |begun: &str, prompt: &str, typed: &str| {
        let log = Log::default().program(begun, 0, prompt).answer(prompt, typed, "").command("ls", 0, "");
        state_names_with_gates(&log.capture(&[], "/srv")).contains(&"*".to_owned())
    };
    let remote = "ana@box:~$ ";
    assert!(session("ssh box", remote, "rm -rf x") && session("ssh box", remote, "frobnicate"));
    assert!(!session("ssh box", remote, "df -h | tail -1") && !session("ssh box", "continue (yes/no)? ", "yes"));
    assert!(session("psql shop", "shop=# ", "update t set a = 1;") && !session("psql shop", "shop=# ", "select 1;"));
    assert!(!session("sh setup.sh", "Name: ", "frobnicate") && session("sh setup.sh", "> ", "drop table t;"));
}
