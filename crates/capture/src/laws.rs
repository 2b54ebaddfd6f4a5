//! Laws of capture: it accepts any log, and its result is a machine.

use proptest::prelude::*;
use serde_json::{Map, Value};
use steplatch_protocol::{InputKind, InputRecord};
use steplatch_workflow::{Definition, Problem, Stubs, ToolCatalog};

use crate::{CaptureRequest, Golden, KnownFacts, Moment, SessionLog, capture};

/// A catalog that accepts all parameters of the tools that a capture uses.
struct AnyParameters;

impl ToolCatalog for AnyParameters {
    fn tools(&self) -> Vec<String> {
        ["open_terminal", "send_input", "await_output", "run_command"].map(str::to_owned).to_vec()
    }

    fn check(&self, _: &str, _: &Map<String, Value>) -> Vec<Problem> {
        Vec::new()
    }

    fn takes_session(&self, _: &str) -> bool {
        true
    }
}

/// Generates texts with special parts for shells, patterns, templates and terminals.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("make "),
        Just("ls"),
        Just("rm -rf "),
        Just("\n"),
        Just("{name}"),
        Just("{{x}}"),
        Just("${HOME}"),
        Just("'"),
        Just("\""),
        Just("é漢"),
        Just("\u{1b}[A"),
        Just("\x7f"),
        Just("8123"),
        Just("v1.2.3"),
        Just("/tmp/a1"),
        Just("Password: "),
        Just("? [Y/n] "),
        Just("(Pdb) "),
        Just("value"),
        Just("\\d+("),
        Just("│ Menu │"),
        Just(" "),
    ];
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

fn kind() -> impl Strategy<Value = InputKind> {
    prop_oneof![
        4 => Just(InputKind::Typed), 1 => Just(InputKind::Attached), 1 => Just(InputKind::Hidden),
        3 => Just(InputKind::Command), 3 => Just(InputKind::Entered), 3 => Just(InputKind::Wait),
        1 => Just(InputKind::Resize), 1 => Just(InputKind::Signal),
    ]
}

prop_compose! {
    fn moment()(
        kind in kind(),
        context in prop_oneof![Just("prompt"), Just("program"), Just("password"), Just("full_screen")],
        texts in prop::collection::vec(text(), 6),
        reason in prop_oneof![Just("ended"), Just("asked"), Just("match"), Just("prompt"), Just("input"), Just("running")],
        exit_code in prop::option::of(0_i32..3),
        step in 0_u64..9,
        has_text in any::<bool>(),
    ) -> (Moment, u64) {
        let [one, two, three, four, five, six] = <[String; 6]>::try_from(texts).expect("the strategy creates six texts");
        let input = InputRecord {
            context: context.to_owned(),
            kind,
            row: Some(one),
            text: Some(two).filter(|_| has_text || kind == InputKind::Typed),
            keys: if has_text { Vec::new() } else { vec!["enter".to_owned()] },
            reason: Some(reason.to_owned()),
            exit_code,
            pattern: (kind == InputKind::Wait && reason == "match").then(|| steplatch_pattern::escape(&three)),
            screen: Some(format!("{four}\n{five}")),
            output_begin: Some(0),
            output_end: Some(step * 5),
            timestamp: "2026-01-31T12:00:00Z".to_owned(),
            ..InputRecord::default()
        };
        (Moment { input, printed: format!("{six}\n{four}"), output: Some(five) }, step)
    }
}

fn session_log(moments: Vec<(Moment, u64)>) -> SessionLog {
    let mut offset = 0;
    let mut log = SessionLog { shell: "bash".to_owned(), directory: "/home/ana".to_owned(), ..SessionLog::default() };
    for (number, (mut moment, step)) in moments.into_iter().enumerate() {
        offset += step;
        (moment.input.number, moment.input.offset) = (number as u64 + 1, offset);
        log.moments.push(moment);
    }
    log
}

proptest! {
    #[test]
    fn log_compared_with_itself_gives_the_same_machine(moments in prop::collection::vec(moment(), 0..30)) {
        let log = session_log(moments);
        let facts = KnownFacts::default();
        let alone = capture(std::slice::from_ref(&log), &facts, &CaptureRequest::default());
        let comparing_request = CaptureRequest { compare_with: vec![log.clone()], ..CaptureRequest::default() };
        let compared = capture(&[log], &facts, &comparing_request);
        prop_assert_eq!(alone.definition, compared.definition);
        prop_assert_eq!(alone.guesses, compared.guesses);
    }

    #[test]
    fn any_log_gives_a_machine_that_fits_its_recording(
        moments in prop::collection::vec(moment(), 0..30),
        others in prop::option::of(prop::collection::vec(moment(), 0..30)),
        two in any::<bool>(),
        keep_read_only_commands in any::<bool>(),
    ) {
        let log = session_log(moments);
        let logs = if two { vec![log.clone(), log] } else { vec![log] };
        let facts = KnownFacts { home: "/home/ana".to_owned(), user: "ana".to_owned(), host: "mill".to_owned(), ..KnownFacts::default() };
        let compare_with: Vec<SessionLog> = others.map(session_log).into_iter().collect();
        let argument_values = vec![("name".to_owned(), "value".to_owned()), ("9?".to_owned(), "8123".to_owned())];
        let request = CaptureRequest { name: Some("w".to_owned()), argument_values, keep_read_only_commands, compare_with, ..CaptureRequest::default() };
        let captured = capture(&logs, &facts, &request);
        let definition = Definition::parse(&captured.definition, &AnyParameters);
        prop_assert!(definition.is_ok(), "{}\n{:#}", definition.unwrap_err(), captured.definition);
        let definition = definition.unwrap();
        let golden = Golden::from_captured(&captured, "w", "2026-01-31T12:00:00Z");
        prop_assert_eq!(&Golden::read(&golden.text()).unwrap(), &golden);
        let stubs = golden.stubs(|state| definition.state(state).is_some());
        let stubs_result = Stubs::read(&stubs, &definition, &AnyParameters);
        prop_assert!(stubs_result.is_ok(), "{}", stubs_result.unwrap_err());
    }
}

#[test]
fn typed_date_and_host_are_reported_unless_they_are_inputs() {
    let input = InputRecord {
        number: 1,
        kind: InputKind::Command,
        context: "prompt".to_owned(),
        text: Some("tar -czf mill-2026-01-31.tgz shop".to_owned()),
        reason: Some("ended".to_owned()),
        exit_code: Some(0),
        timestamp: "2026-01-31T12:00:00Z".to_owned(),
        ..InputRecord::default()
    };
    let moment = Moment { input, printed: String::new(), output: None };
    let log = SessionLog { shell: "bash".to_owned(), moments: vec![moment], ..SessionLog::default() };
    let facts = KnownFacts { host: "mill".to_owned(), ..KnownFacts::default() };
    // In the time zone of the host it may be another day.
    let at = |timestamp: &str| {
        let mut log = log.clone();
        log.moments[0].input.timestamp = timestamp.to_owned();
        let undecided = capture(&[log], &facts, &CaptureRequest::default()).undecided;
        undecided.iter().any(|decision| decision.contains("types the date '2026-01-31'"))
    };
    assert!(at("2026-02-01T03:00:00Z") && at("2026-01-30T22:00:00Z") && at("2026-02-02T00:00:00Z"));
    assert!(!at("2026-02-04T00:00:00Z") && !at("nonsense"));
    let undecided = |inputs: &[(&str, &str)]| {
        let inputs = inputs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        capture(
            std::slice::from_ref(&log),
            &facts,
            &CaptureRequest { argument_values: inputs, ..CaptureRequest::default() },
        )
        .undecided
    };
    let decisions = undecided(&[]);
    assert!(decisions.iter().any(|decision| decision.contains("types the date '2026-01-31'")), "{decisions:?}");
    assert!(decisions.iter().any(|decision| decision.contains("types the host name 'mill'")), "{decisions:?}");
    let decisions = undecided(&[("day", "2026-01-31")]);
    assert!(!decisions.iter().any(|decision| decision.contains("date")), "{decisions:?}");
}
