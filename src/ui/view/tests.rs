//! The screen as text at several sizes, and the effects of keys and updates.

use std::time::Duration;

use expect_test::{Expect, expect};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Modifier;
use serde_json::json;
use steplatch_protocol::{
    AnswerGateReply, GateInfo, RerunRequest, RunEvent, RunRecord, RunReply, ScreenChange, ScreenCursor, ScreenRow,
    ScreenRun, ScreenState, SessionInfo,
};

use crate::ui::event::{Effect, UiEvent};
use crate::ui::gate_view::ANSWER_DELAY;
use crate::ui::key::{Key, MouseAction, TerminalInput};
use crate::ui::model::{DaemonState, Model};
use crate::ui::update::update;

/// A full screen with its own time.
struct Desk {
    model: Model,
    at: Duration,
}

impl Desk {
    fn new(cols: u16, rows: u16) -> Self {
        let now = "2026-01-01T10:01:00Z".to_owned();
        Self { model: Model::new(cols, rows, now, None), at: Duration::ZERO }
    }

    /// A desk with a gate, two terminals and three runs.
    fn with_items(cols: u16, rows: u16) -> Self {
        let mut desk = Self::new(cols, rows);
        desk.handle_event(UiEvent::Lists { terminals: terminals(), runs: runs(), needs_passphrase: false });
        desk
    }

    fn handle_event(&mut self, event: UiEvent) -> Vec<Effect> {
        update(&mut self.model, self.at, "2026-01-01T10:01:00Z".to_owned(), event)
    }

    fn advance(&mut self, time: Duration) {
        self.at += time;
        self.handle_event(UiEvent::Tick);
    }

    fn press(&mut self, keys: &[Key]) -> Vec<Effect> {
        keys.iter().flat_map(|key| self.handle_event(UiEvent::Input(TerminalInput::Key(*key)))).collect()
    }

    fn type_in(&mut self, text: &str) -> Vec<Effect> {
        text.chars().flat_map(|character| self.press(&[Key::Char(character)])).collect()
    }

    fn draw(&self) -> Terminal<TestBackend> {
        let mut terminal = Terminal::new(TestBackend::new(self.model.cols, self.model.rows)).unwrap();
        terminal
            .draw(|frame| {
                super::draw(&self.model, frame.buffer_mut());
            })
            .unwrap();
        terminal
    }

    fn screen(&self) -> String {
        let terminal = self.draw();
        let buffer = terminal.backend().buffer();
        let row = |y: u16| {
            let mut line = String::new();
            let mut x = 0;
            while x < buffer.area.width {
                let symbol = buffer[(x, y)].symbol();
                line.push_str(symbol);
                x += u16::try_from(unicode_width::UnicodeWidthStr::width(symbol).max(1)).unwrap();
            }
            line.trim_end().to_owned()
        };
        (0..buffer.area.height).map(row).collect::<Vec<_>>().join("\n")
    }

    fn assert_screen(&self, expected: &Expect) {
        // The mark occupies the first column: a snapshot loses the common indent of all lines.
        let lines: Vec<String> = self.screen().lines().map(|line| format!("|{line}\n")).collect();
        expected.assert_eq(&lines.concat());
    }
}

fn gate() -> GateInfo {
    GateInfo {
        gate_id: "run_bbbb/ask/1".to_owned(),
        run_id: "run_bbbb".to_owned(),
        prompt: "Deploy \u{202e}everywhere?".to_owned(),
        choices: vec!["yes".to_owned(), "no".to_owned()],
        answered_by: "human".to_owned(),
        created_at: "2026-01-01T10:00:30Z".to_owned(),
        context: json!({"command": "deploy --all\x1b[2J", "plan": "one\ntwo"}).as_object().unwrap().clone(),
        digest: "d1".to_owned(),
        ..GateInfo::default()
    }
}

fn run(id: &str, workflow: &str, state: &str) -> RunRecord {
    RunRecord {
        run_id: id.to_owned(),
        workflow_id: workflow.to_owned(),
        state: state.to_owned(),
        started_at: format!("2026-01-01T10:00:{}Z", id.len()),
        ..RunRecord::default()
    }
}

fn runs() -> Vec<RunRecord> {
    let completed_run = RunRecord {
        completed_at: Some("2026-01-01T10:00:20Z".to_owned()),
        started_at: "2026-01-01T10:00:10Z".to_owned(),
        result: json!({"version": "1.2"}),
        ..run("run_aaaa", "build", "completed")
    };
    let waiting = RunRecord {
        started_at: "2026-01-01T10:00:25Z".to_owned(),
        pending_gates: vec![gate()],
        pending_gate: Some(gate()),
        input: json!("1.2"),
        ..run("run_bbbb", "release", "waiting")
    };
    let failed = RunRecord {
        started_at: "2026-01-01T09:00:00Z".to_owned(),
        completed_at: Some("2026-01-01T09:00:01Z".to_owned()),
        error: Some("it broke".to_owned()),
        ..run("run_cccc", "nightly", "failed")
    };
    vec![failed, completed_run, waiting]
}

fn terminals() -> Vec<SessionInfo> {
    let session = json!({
        "session_id": "term_xxxx", "command": "bash", "state": "active", "created_at": 0.0, "last_activity": 0.0,
        "name": "build", "cwd": "/srv", "busy": true, "cols": 40, "rows": 5, "pid": 1, "opened_by": "claude",
    });
    let held_session = json!({
        "session_id": "term_yyyy", "command": "ssh db", "state": "active", "created_at": 0.0, "last_activity": 0.0,
        "cols": 80, "rows": 24, "pid": 1, "held_by": "ana",
    });
    [session, held_session].map(|session| serde_json::from_value(session).unwrap()).into()
}

fn picture() -> UiEvent {
    let run = |col, cols, text: &str, style: &str| ScreenRun(col, cols, text.to_owned(), style.to_owned());
    let changed = vec![
        ScreenRow { row: 0, runs: vec![run(0, 6, "$ make", "B"), run(7, 4, "漢字", "f1,W")], ..ScreenRow::default() },
        ScreenRow { row: 1, runs: vec![run(0, 4, "ok \u{202e}", "")], ..ScreenRow::default() },
    ];
    let cursor = Some(ScreenCursor { row: 1, col: 4, shape: "block".to_owned() });
    let state = ScreenState { cursor, ..ScreenState::default() };
    let change = ScreenChange { cols: 40, rows: 5, whole: true, changed, state };
    UiEvent::Screen { terminal: "term_xxxx".to_owned(), change: Box::new(change) }
}

fn event(seq: u64, event_type: &str, data: serde_json::Value) -> UiEvent {
    let event = RunEvent {
        seq,
        run_id: "run_bbbb".to_owned(),
        workflow_id: "release".to_owned(),
        event_type: event_type.to_owned(),
        data: data.as_object().unwrap().clone(),
        timestamp: format!("2026-01-01T10:00:{:02}Z", 25 + seq),
    };
    UiEvent::RunEvent { opening: 1, event: Box::new(event) }
}

fn run_events(desk: &mut Desk) {
    let result = json!({"success": true, "exit_code": 0, "output": "built\n漢字 done"});
    for event in [
        event(
            1,
            "state_entered",
            json!({"state": "build", "visit": 1, "tool": "run_command", "params": {"command": "make"}}),
        ),
        event(3, "state_completed", json!({"state": "build", "visit": 1, "outcome": "finished", "result": result})),
        event(4, "state_entered", json!({"state": "ask", "visit": 1, "tool": "gate", "params": {}})),
        event(5, "gate_waiting", json!({"gate_id": "run_bbbb/ask/1", "prompt": "Deploy everywhere?"})),
    ] {
        desk.handle_event(event);
    }
}

#[test]
fn waiting_runs_come_before_terminals_and_other_runs() {
    Desk::new(80, 10).assert_screen(&expect![[r#"
        | steplatch  nothing waits for you                        looking for the daemon
        | Waits for you
        | Terminals
        | Runs
        |
        |
        |
        |
        |
        | ↑↓ select  q leave  ? help  / filter  tab section  g go to id
    "#]]);
    Desk::with_items(80, 24).assert_screen(&expect![[r#"
        | steplatch  1 question waits for you
        | Waits for you 1
        |  ? Deploy ·everywhere?  30 s ago     release run_bbbb
        | Terminals 2
        |  ▸ build                busy         bash in /srv, by claude
        |  ● term_yyyy            held by ana  ssh db
        | Runs 3
        |  ? release              waiting      for 35.0 s  Deploy ·everywhere? (2 choice…
        |  ✓ build                completed    50 s ago, took 10.0 s  run_aaaa
        |  ✗ nightly              failed       1 h ago, took 1.0 s  it broke  run_cccc
        |─ release asks; asked 30 s ago, a person answers ───────────────────────────────
        | Deploy ·everywhere?
        |
        | │ command: deploy --all␛[2J
        | │ plan:
        | │   one
        | │   two
        |
        | 1  yes
        | 2  no
        |
        |
        |
        | ↑↓ select  enter read and answer  c cancel its run  q leave  ? help  / filter
    "#]]);
}

#[test]
fn disconnected_remote_terminal_names_host_and_time() {
    let [mut here, mut lost] = <[SessionInfo; 2]>::try_from(terminals()).unwrap();
    here.host = Some("build".to_owned());
    lost.host = Some("db".to_owned());
    lost.host_lost_since = Some("2026-01-01T09:58:00Z".to_owned());
    let mut desk = Desk::new(90, 10);
    desk.handle_event(UiEvent::Lists { terminals: vec![here, lost], runs: Vec::new(), needs_passphrase: false });
    desk.assert_screen(&expect![[r#"
        | steplatch  nothing waits for you
        | Waits for you nothing
        | Terminals 2
        |  ▸ build      busy                 bash in build:/srv, by claude
        |  ! term_yyyy  host lost 3 min ago  ssh db in db:
        | Runs none; start one with: steplatch run
        |
        |
        |
        | ↑↓ select  enter attach  t take over  q leave  ? help  / filter  tab section  g go to id
    "#]]);
}

#[test]
fn wide_screen_has_the_preview_beside_the_list() {
    let mut desk = Desk::with_items(130, 16);
    desk.press(&[Key::Down]);
    desk.handle_event(picture());
    desk.assert_screen(&expect![[r#"
        | steplatch  1 question waits for you
        | Waits for you 1                                          ─ build: busy 40x5 ─────────────────────────────────────────────────────
        |  ? Deploy ·everywhere?  30 s ago     release run_bbbb     $ make 漢字
        | Terminals 2                                               ok
        |  ▸ build                busy         bash in /srv, by c…
        |  ● term_yyyy            held by ana  ssh db
        | Runs 3
        |  ? release              waiting      for 35.0 s  Deploy…
        |  ✓ build                completed    50 s ago, took 10.…
        |  ✗ nightly              failed       1 h ago, took 1.0 …
        |
        |
        |
        |
        |
        | ↑↓ select  enter attach  t take over  q leave  ? help  / filter  tab section  g go to id
    "#]]);
    let terminal = desk.draw();
    let reversed: Vec<_> =
        terminal.backend().buffer().content().iter().filter(|cell| cell.symbol() == "\u{202e}").collect();
    assert!(reversed.is_empty(), "text that changes direction is not drawn");
}

#[test]
fn small_screen_has_the_list_only() {
    Desk::with_items(30, 8).assert_screen(&expect![[r#"
        | steplatch  1 question waits …
        | Waits for you 1
        |  ? Deploy ·eve…  30 s a…  re…
        | Terminals 2
        |  ▸ build         busy     ba…
        |  ● term_yyyy     held b…  ss…
        |
        | ↑↓ select
    "#]]);
    for (cols, rows) in [(1, 1), (2, 3), (10, 4), (50, 17), (200, 3)] {
        let mut desk = Desk::with_items(cols, rows);
        desk.screen();
        for open in [Key::Enter, Key::Char('?')] {
            desk.press(&[open]);
            desk.screen();
        }
        desk.press(&[Key::Escape, Key::Escape, Key::End, Key::Enter]);
        run_events(&mut desk);
        desk.screen();
    }
}

#[test]
fn question_is_read_and_then_answered() {
    let mut desk = Desk::with_items(80, 16);
    assert!(desk.press(&[Key::Enter]).is_empty());
    desk.assert_screen(&expect![[r#"
        | release asks  asked 30 s ago, a person answers
        |  Deploy ·everywhere?
        |
        |  │ command: deploy --all␛[2J
        |  │ plan:
        |  │   one
        |  │   two
        |
        |  1  yes
        |  2  no
        |
        |  ────────────────────────────────────────────────────────────────────────────
        |  it takes an answer in a moment
        |
        |
        | a answer  ↑↓ space scroll  esc back, leaves it open  ? help
    "#]]);
    assert!(desk.type_in("a1").is_empty() && desk.press(&[Key::Enter]).is_empty());
    assert!(desk.screen().contains("no answer is taken now: it has just appeared"), "{}", desk.screen());
    desk.advance(ANSWER_DELAY);
    desk.type_in("a3");
    desk.press(&[Key::Enter]);
    desk.assert_screen(&expect![[r#"
        | release asks  asked 30 s ago, a person answers
        |  Deploy ·everywhere?
        |
        |  │ command: deploy --all␛[2J
        |  │ plan:
        |  │   one
        |  │   two
        |
        |  1  yes
        |  2  no
        |
        |  ────────────────────────────────────────────────────────────────────────────
        |  your answer, by number or text:
        |  ›
        |  invalid answer '3'; choose yes or no
        | enter gives the answer  esc leaves it open  ↑↓ scroll
    "#]]);
    desk.type_in("1");
    let effects = desk.press(&[Key::Enter]);
    let [Effect::Answer(answer)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((answer.answer.as_str(), answer.number, answer.digest.as_deref()), ("yes", Some(1), Some("d1")));
    let passphrase_request = AnswerGateReply { passphrase_wanted: true, ..AnswerGateReply::default() };
    desk.handle_event(UiEvent::Answered { answer: answer.clone(), reply: Ok(Box::new(passphrase_request)) });
    desk.type_in("secret");
    let screen = desk.screen();
    assert!(screen.contains("the approver's passphrase:\n  › ••••••") && !screen.contains("secret"), "{screen}");
    let effects = desk.press(&[Key::Enter]);
    let [Effect::Answer(answer)] = &effects[..] else { panic!("{effects:?}") };
    let accepted = AnswerGateReply { success: true, status: "running".to_owned(), ..AnswerGateReply::default() };
    desk.handle_event(UiEvent::Answered { answer: answer.clone(), reply: Ok(Box::new(accepted)) });
    assert!(desk.screen().contains("answered: yes; run_bbbb is now running"), "{}", desk.screen());
}

#[test]
fn only_typed_keys_answer() {
    let mut desk = Desk::with_items(80, 16);
    desk.press(&[Key::Enter]);
    desk.advance(ANSWER_DELAY);
    // Enter, a paste and choices do not answer by themselves.
    assert!(desk.press(&[Key::Enter, Key::Char('1'), Key::Enter, Key::Char('y')]).is_empty());
    assert!(desk.handle_event(UiEvent::Input(TerminalInput::Paste("a1\r".to_owned()))).is_empty());
    desk.type_in("a");
    assert!(
        desk.handle_event(UiEvent::Input(TerminalInput::Paste("1\r\n".to_owned()))).is_empty(),
        "a paste presses no Enter"
    );
    desk.handle_event(UiEvent::Input(TerminalInput::Focus(true)));
    assert!(desk.press(&[Key::Enter]).is_empty(), "answers pause after a change of focus");
    desk.advance(ANSWER_DELAY);
    desk.press(&[Key::Escape]);
    assert!(desk.screen().contains("a begins an answer"), "{}", desk.screen());
}

#[test]
fn changed_question_is_shown_again_and_answered_one_closes() {
    let mut desk = Desk::with_items(80, 16);
    desk.press(&[Key::Enter]);
    desk.advance(ANSWER_DELAY);
    desk.type_in("a");
    let mut changed_run = runs().pop().unwrap();
    changed_run.pending_gates[0].digest = "d2".to_owned();
    let effects = desk.handle_event(UiEvent::Run(Box::new(changed_run.clone())));
    assert!(matches!(&effects[..], [Effect::ShowGate { gate_id, .. }] if gate_id == "run_bbbb/ask/1"), "{effects:?}");
    let gate = GateInfo { prompt: "Deploy nowhere?".to_owned(), ..changed_run.pending_gates[0].clone() };
    desk.handle_event(UiEvent::Gate { gate_id: gate.gate_id.clone(), gate: Ok(Box::new(gate)) });
    assert!(desk.press(&[Key::Char('1'), Key::Enter]).is_empty());
    let screen = desk.screen();
    assert!(screen.contains("Deploy nowhere?") && screen.contains("the question has changed"), "{screen}");
    changed_run.pending_gates.clear();
    desk.handle_event(UiEvent::Run(Box::new(changed_run)));
    desk.advance(ANSWER_DELAY);
    assert!(desk.press(&[Key::Char('a'), Key::Char('1'), Key::Enter]).is_empty());
    assert!(desk.screen().contains("the question is closed"), "{}", desk.screen());
}

#[test]
fn long_question_must_be_read_to_its_end() {
    let mut desk = Desk::with_items(80, 16);
    let mut run_with_long_question = runs().pop().unwrap();
    run_with_long_question.pending_gates[0].context =
        json!({"plan": "a step\n".repeat(100)}).as_object().unwrap().clone();
    desk.handle_event(UiEvent::Run(Box::new(run_with_long_question)));
    desk.press(&[Key::Enter]);
    desk.advance(ANSWER_DELAY);
    desk.type_in("a");
    assert!(desk.screen().contains("no answer is taken now: scroll to its end first"), "{}", desk.screen());
    desk.press(&[Key::End, Key::Char('a'), Key::Char('2')]);
    assert!(matches!(&desk.press(&[Key::Enter])[..], [Effect::Answer(answer)] if answer.answer == "no"));
}

/// A desk whose question has a form.
fn form_desk(cols: u16, rows: u16) -> Desk {
    let mut desk = Desk::with_items(cols, rows);
    let places: Vec<String> = (1..=12).map(|number| format!("place-{number}")).collect();
    let form = json!({"type": "object", "required": ["place"], "properties": {
        "version": {"type": "string", "description": "as it is tagged"},
        "place": {"enum": places},
    }});
    let mut asks = runs().pop().unwrap();
    let gate = GateInfo { choices: Vec::new(), context: serde_json::Map::default(), form: Some(form), ..gate() };
    asks.pending_gates = vec![gate];
    desk.handle_event(UiEvent::Run(Box::new(asks)));
    desk.press(&[Key::Enter]);
    desk.advance(ANSWER_DELAY);
    desk
}

#[test]
fn form_shows_every_field_and_choice_before_answering() {
    let mut desk = form_desk(60, 14);
    desk.assert_screen(&expect![[r#"
        | release asks  asked 30 s ago, a person answers
        |  Deploy ·everywhere?
        |
        |  version (a text; may be left empty)
        |    as it is tagged
        |
        |  place (by number or text)
        |    1  place-1
        |    2  place-2
        |  ── 10 more lines below ─────────────────────────────────
        |  no answer yet: scroll to its end first
        |
        |
        | a answer  ↑↓ space scroll  esc back, leaves it open
    "#]]);
    desk.type_in("a");
    assert!(desk.screen().contains("no answer is taken now: scroll to its end first"), "{}", desk.screen());
    desk.press(&[Key::Char(' '), Key::Char(' ')]);
    assert!(desk.screen().contains("12  place-12"), "{}", desk.screen());
    desk.type_in("a");
    desk.type_in("1.2");
    desk.press(&[Key::Enter]);
    desk.assert_screen(&expect![[r#"
        | release asks  asked 30 s ago, a person answers
        |  place (by number or text)
        |    1  place-1
        |    2  place-2
        |    3  place-3
        |    4  place-4
        |    5  place-5
        |    6  place-6
        |    7  place-7
        |  ── 5 more lines below ──────────────────────────────────
        |  place (by number or text):
        |  ›
        |
        | enter gives the answer  esc leaves it open  ↑↓ scroll
    "#]]);
    desk.press(&[Key::Down, Key::Down, Key::PageDown]);
    assert!(desk.screen().contains("12  place-12"), "choices scroll while the person types");
    desk.type_in("12");
    let effects = desk.press(&[Key::Enter]);
    let [Effect::Answer(answer)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(answer.form, json!({"version": "1.2", "place": "place-12"}).as_object().cloned());
}

#[test]
fn too_small_terminal_asks_for_more_room() {
    for (cols, rows) in [(11, 24), (15, 30), (80, 8), (1, 1), (0, 0)] {
        let mut desk = form_desk(cols, rows);
        desk.press(&[Key::End]);
        assert!(desk.type_in("a1").is_empty() && desk.press(&[Key::Enter]).is_empty(), "{cols}x{rows}");
        if cols > 8 && rows > 4 {
            let words = desk.screen().replace(['\n', ' '], "");
            assert!(words.contains("Thisterminalistoosmall"), "{cols}x{rows}: {words}");
        }
        desk.handle_event(UiEvent::Resized { cols: 80, rows: 30 });
        desk.advance(ANSWER_DELAY);
        desk.type_in("a1.2");
        desk.press(&[Key::Enter]);
        desk.type_in("3");
        assert!(matches!(&desk.press(&[Key::Enter])[..], [Effect::Answer(_)]), "{cols}x{rows}: {}", desk.screen());
    }
}

#[test]
fn line_for_one_question_answers_no_other() {
    let mut desk = Desk::with_items(80, 16);
    desk.press(&[Key::Enter]);
    desk.advance(ANSWER_DELAY);
    desk.type_in("a1");
    let effects = desk.press(&[Key::Enter]);
    let [Effect::Answer(answer)] = &effects[..] else { panic!("{effects:?}") };
    // Keys typed while the answer is in transit, and after it, have no effect: not a, not q, not the choice.
    assert!(desk.type_in("qa1").is_empty() && desk.press(&[Key::Enter]).is_empty());
    let mut next = runs().pop().unwrap();
    next.pending_gates[0].gate_id = "run_bbbb/ask/2".to_owned();
    next.pending_gates[0].digest = "d2".to_owned();
    let accepted = AnswerGateReply { success: true, status: "waiting".to_owned(), ..AnswerGateReply::default() };
    desk.handle_event(UiEvent::Answered { answer: answer.clone(), reply: Ok(Box::new(accepted)) });
    desk.handle_event(UiEvent::Run(Box::new(next)));
    for _ in 0..20 {
        desk.advance(ANSWER_DELAY / 2);
        assert!(desk.type_in("a1cq").is_empty() && desk.press(&[Key::Enter]).is_empty());
    }
    assert!(desk.screen().contains("Terminals 2"), "the list is shown: {}", desk.screen());
    desk.advance(ANSWER_DELAY);
    desk.press(&[Key::Enter]);
    assert!(desk.screen().contains("it takes an answer in a moment"), "{}", desk.screen());
    // The next question accepts an answer once the keyboard is idle.
    for _ in 0..20 {
        desk.advance(ANSWER_DELAY / 2);
        assert!(desk.type_in("a1").is_empty() && desk.press(&[Key::Enter]).is_empty(), "{}", desk.screen());
    }
    desk.advance(ANSWER_DELAY);
    desk.type_in("a1");
    assert!(matches!(&desk.press(&[Key::Enter])[..], [Effect::Answer(_)]));
}

#[test]
fn line_for_a_changed_or_closed_question_does_nothing() {
    let mut desk = Desk::with_items(80, 16);
    desk.press(&[Key::Enter]);
    desk.advance(ANSWER_DELAY);
    desk.type_in("ayes, but fi");
    let changed = GateInfo { prompt: "Deploy nowhere?".to_owned(), digest: "d2".to_owned(), ..gate() };
    desk.handle_event(UiEvent::Gate { gate_id: changed.gate_id.clone(), gate: Ok(Box::new(changed.clone())) });
    for _ in 0..5 {
        desk.advance(ANSWER_DELAY / 2);
        assert!(desk.type_in("aqhc1y").is_empty() && desk.press(&[Key::Enter]).is_empty());
        assert!(desk.screen().contains("Deploy nowhere?"), "{}", desk.screen());
    }
    desk.advance(ANSWER_DELAY);
    desk.type_in("ano, a q");
    let mut run_without_gates = runs().pop().unwrap();
    run_without_gates.pending_gates.clear();
    desk.handle_event(UiEvent::Run(Box::new(run_without_gates)));
    assert!(desk.type_in("uestion qq").is_empty());
    assert!(desk.screen().contains("the question was answered or withdrawn"), "{}", desk.screen());
    desk.advance(ANSWER_DELAY);
    desk.type_in("q");
    assert!(desk.screen().contains("Terminals 2"), "{}", desk.screen());
}

#[test]
fn run_shows_its_steps_and_its_question() {
    let mut desk = Desk::with_items(100, 18);
    desk.press(&[Key::Tab, Key::Tab, Key::Enter]);
    run_events(&mut desk);
    desk.press(&[Key::Home]);
    desk.assert_screen(&expect![[r#"
        | release run_bbbb waiting 35.0 s
        | ✓ build  run_command             2.0 s ─ build run_command ────────────────────────────────────────
        | ▸ ask  gate                     31.0 s  input
        | ? Deploy everywhere?  gate      30.0 s  command: make
        |                                         output
        |                                         success: true
        |                                         exit_code: 0
        |                                         output:
        |                                           built
        |                                           漢字 done
        |
        |
        |─ waits for an answer; a reads and answers it ──────────────────────────────────────────────────────
        | Deploy ·everywhere?
        |
        | │ command: deploy --all␛[2J
        |
        | ↑↓ step  space scroll  a answer  p pause/resume  c cancel  b background  t its terminal  esc back
    "#]]);
    assert_eq!(desk.model.feed_selection().run, Some(("run_bbbb".to_owned(), 1)));
    desk.type_in("a");
    assert!(desk.screen().contains("release asks"), "{}", desk.screen());
    assert_eq!(desk.model.feed_selection().run, Some(("run_bbbb".to_owned(), 1)), "the run is still followed");
    desk.press(&[Key::Escape]);
    desk.type_in("b");
    assert!(
        desk.screen().contains("run_bbbb continues in the background; g bbbb comes back to it"),
        "{}",
        desk.screen()
    );
    desk.type_in("gbb");
    desk.press(&[Key::Enter]);
    assert_eq!(desk.model.feed_selection().run, Some(("run_bbbb".to_owned(), 2)));
}

#[test]
fn runs_are_controlled_and_a_cancel_is_confirmed() {
    let mut desk = Desk::with_items(80, 24);
    desk.press(&[Key::Tab, Key::Tab]);
    assert!(desk.type_in("p").is_empty());
    assert!(desk.screen().contains("enter in a moment"), "{}", desk.screen());
    desk.advance(ANSWER_DELAY);
    assert!(desk.screen().contains("enter yes  any other key no"), "{}", desk.screen());
    assert!(matches!(&desk.press(&[Key::Enter])[..], [Effect::Pause(run)] if run == "run_bbbb"));
    assert!(desk.type_in("c").is_empty());
    let screen = desk.screen();
    assert!(screen.contains("Cancel release run_bbbb? Its work is abandoned and its terminals are closed"), "{screen}");
    assert!(desk.press(&[Key::Enter]).is_empty(), "Enter does not confirm");
    assert!(desk.screen().contains("nothing was done"));
    desk.advance(ANSWER_DELAY);
    assert!(desk.type_in("c").is_empty());
    assert!(desk.screen().contains("y, enter yes  any other key no"), "{}", desk.screen());
    assert!(desk.type_in("y").is_empty());
    desk.advance(ANSWER_DELAY);
    assert!(matches!(&desk.press(&[Key::Enter])[..], [Effect::Cancel(run)] if run == "run_bbbb"));
    desk.press(&[Key::Down]);
    assert!(desk.type_in("c").is_empty());
    assert!(desk.screen().contains("build run_aaaa has ended"), "{}", desk.screen());
}

#[test]
fn ended_run_is_rerun_from_the_selected_step() {
    let mut desk = Desk::with_items(80, 24);
    desk.press(&[Key::Tab, Key::Tab]);
    desk.type_in("r");
    assert!(desk.screen().contains("release run_bbbb has not ended; c cancels it"), "{}", desk.screen());
    desk.press(&[Key::Down]);
    desk.type_in("r");
    assert!(desk.screen().contains("Run build run_aaaa again, with its input?"), "{}", desk.screen());
    desk.advance(ANSWER_DELAY);
    let expected_request = RerunRequest { run_id: "run_aaaa".to_owned(), ..RerunRequest::default() };
    assert!(matches!(&desk.press(&[Key::Enter])[..], [Effect::RunAgain(request)] if **request == expected_request));
    // From a step of the opened run.
    let ended_run =
        RunRecord { completed_at: Some("2026-01-01T10:00:40Z".to_owned()), ..run("run_bbbb", "release", "failed") };
    desk.handle_event(UiEvent::Run(Box::new(ended_run)));
    desk.type_in("gbb");
    desk.press(&[Key::Enter]);
    run_events(&mut desk);
    desk.press(&[Key::Home]);
    assert!(desk.screen().contains("r run again from here"), "{}", desk.screen());
    desk.type_in("r");
    assert!(desk.screen().contains("Run release run_bbbb again from 'build'?"), "{}", desk.screen());
    desk.advance(ANSWER_DELAY);
    let mut request = RerunRequest {
        run_id: "run_bbbb".to_owned(),
        from_state: Some("build/1".to_owned()),
        repeat_irreversible: false,
    };
    assert!(matches!(&desk.press(&[Key::Enter])[..], [Effect::RunAgain(one)] if **one == request));
    // Irreversible actions need a second confirmation, with other keys.
    let reply = |request: &RerunRequest, reply: RunReply| UiEvent::RanAgain {
        request: Box::new(request.clone()),
        reply: Ok(Box::new(reply)),
    };
    let refusal = RunReply {
        irreversible: vec!["state 'build': rm \u{202e}x".to_owned()],
        error: Some("it would happen again".to_owned()),
        ..RunReply::default()
    };
    desk.handle_event(reply(&request, refusal.clone()));
    assert!(desk.screen().contains("Repeat it? state 'build': rm ·x"), "{}", desk.screen());
    assert!(desk.press(&[Key::Enter]).is_empty(), "Enter does not confirm");
    desk.advance(ANSWER_DELAY);
    desk.handle_event(reply(&request, refusal.clone()));
    desk.type_in("y");
    desk.advance(ANSWER_DELAY);
    request.repeat_irreversible = true;
    assert!(matches!(&desk.press(&[Key::Enter])[..], [Effect::RunAgain(one)] if **one == request));
    let start_reply = RunReply { run_id: "run_dddd".to_owned(), status: "running".to_owned(), ..RunReply::default() };
    desk.handle_event(reply(&request, start_reply.clone()));
    assert_eq!(desk.model.feed_selection().run.map(|(run, _)| run), Some("run_dddd".to_owned()));
    assert!(desk.screen().contains("run_dddd runs run_bbbb again"), "{}", desk.screen());
    // In another view, the refusal is a notice without a confirmation.
    desk.handle_event(reply(&request, refusal));
    assert!(desk.model.confirmation.is_none() && desk.screen().contains("it would happen again"), "{}", desk.screen());
}

#[test]
fn line_for_a_program_does_nothing() {
    for line in [
        "clear; printf x\r",
        "top\r",
        "ls -la\r",
        "ps aux\r",
        "cp a b\r",
        "cypress run\r",
        "kill 5\r",
        "jobs\r",
        "git push\r",
        "rm -rf a\r",
        "run x\r",
        "r\r",
        "cat\r",
        "cat a\r",
        "apt\r",
        "bash\r",
        "jq . a\r",
        "psql\r",
        "c\r",
        "cy\r",
        "t\r",
    ] {
        // At a terminal, at a run, and in an opened run.
        for places in [&[Key::Tab][..], &[Key::Tab, Key::Tab], &[Key::Tab, Key::Tab, Key::Enter]] {
            let mut desk = Desk::with_items(80, 24);
            desk.press(places);
            let keys: Vec<Key> =
                line.chars().map(|sign| if sign == '\r' { Key::Enter } else { Key::Char(sign) }).collect();
            let effects = desk.press(&keys);
            assert!(effects.is_empty(), "{line:?} {places:?}: {effects:?}");
            assert!(desk.model.confirmation.is_none(), "{line:?} {places:?}");
            // A moment later, keys are commands again.
            desk.advance(ANSWER_DELAY);
            desk.type_in("t");
        }
    }
}

#[test]
fn early_typed_passphrase_is_not_shown() {
    let mut desk = Desk::with_items(80, 16);
    desk.press(&[Key::Enter]);
    desk.advance(ANSWER_DELAY);
    desk.type_in("a");
    desk.type_in("y");
    assert!(desk.screen().contains("› y"), "{}", desk.screen());
    desk.type_in("open sesame");
    assert!(desk.screen().contains("› y•••••••••••"), "{}", desk.screen());
    desk.press(&[Key::Enter]);
    let screen = desk.screen();
    assert!(screen.contains("invalid answer; choose yes or no") && !screen.contains("sesame"), "{screen}");
}

#[test]
fn filter_and_id_prefix_find_rows() {
    let mut desk = Desk::with_items(80, 24);
    desk.type_in("/night");
    let screen = desk.screen();
    assert!(screen.contains("nightly") && !screen.contains("ssh db") && screen.contains("no row matches"), "{screen}");
    desk.press(&[Key::Escape]);
    assert!(desk.screen().contains("ssh db"));
    desk.type_in("gterm_y");
    let effects = desk.press(&[Key::Enter]);
    assert!(matches!(&effects[..], [Effect::Attach { terminal, hold: false }] if terminal == "term_yyyy"));
    desk.type_in("grun");
    desk.press(&[Key::Enter]);
    assert!(desk.screen().contains("several runs or terminals begin with 'run'"), "{}", desk.screen());
}

#[test]
fn ended_daemon_is_reported_and_awaited() {
    let mut desk = Desk::with_items(80, 24);
    desk.handle_event(UiEvent::DaemonAway);
    let screen = desk.screen();
    assert!(screen.contains("the daemon is away") && screen.contains("s start the daemon"), "{screen}");
    assert_eq!(desk.model.feed_selection(), crate::ui::event::FeedSelection::default());
    assert!(matches!(&desk.type_in("s")[..], [Effect::StartDaemon]));
    desk.handle_event(UiEvent::Lists { terminals: terminals(), runs: runs(), needs_passphrase: false });
    assert!(desk.model.daemon == DaemonState::Connected && desk.screen().contains("the daemon is back"));
}

#[test]
fn selection_stays_on_its_row_when_rows_are_added() {
    let mut desk = Desk::with_items(80, 24);
    desk.press(&[Key::Tab, Key::Tab, Key::Down]);
    assert_eq!(desk.model.selected.as_ref().unwrap().id, "run_aaaa");
    let newer = RunRecord { started_at: "2026-01-01T10:00:59Z".to_owned(), ..run("run_dddd", "newer", "running") };
    desk.handle_event(UiEvent::Run(Box::new(newer)));
    assert_eq!(desk.model.selected.as_ref().unwrap().id, "run_aaaa");
    let terminal = desk.draw();
    let buffer = terminal.backend().buffer();
    let reversed = |y: u16| buffer[(5, y)].modifier.contains(Modifier::REVERSED);
    let row = (1..buffer.area.height).find(|y| reversed(*y)).unwrap();
    let line: String = (0..buffer.area.width).map(|x| buffer[(x, row)].symbol()).collect();
    assert!(line.contains("run_aaaa"), "{line}");
}

#[test]
fn help_covers_the_view_and_any_key_returns() {
    let mut desk = Desk::with_items(80, 24);
    desk.type_in("?");
    desk.assert_screen(&expect![[r#"
        |─ Help; any key goes back ──────────────────────────────────────────────────────
        | Everywhere
        |   ↑ ↓, space      select, scroll
        |   enter           opens: reads a question, attaches to a terminal, shows a run
        |   esc             back
        |   a               answer the question of a run or gate
        |   p, enter        pause a run, or resume it; c, y, enter: cancel it
        |   click, wheel    selects, and opens the selected; scrolls; ctrl-y copies the…
        |   ctrl-z, ctrl-l  suspend, draw again
        | List
        |   tab             the next section
        |   /               filter by words
        |   g               go to a run or terminal by the beginning of its id, or its …
        |   t, enter        take a terminal over: attach, and nothing else can type
        |   q               leave; terminals and runs continue
        | Run
        |   enter           the run that a step started; t, enter: its terminal
        |   r, enter        run an ended run again, from the selected step on
        |   b               leave it in the background; g comes back
        |   end             follow the last step again
        | Question
        |   a, text, enter  answers it, once its end was on the screen
        |   esc             leaves it open
        |   An attached terminal is left with ctrl-\.
    "#]]);
    assert!(desk.type_in("q").is_empty(), "a key only closes the help");
    assert!(desk.screen().contains("Terminals 2"));
    assert!(matches!(&desk.type_in("q")[..], [Effect::Leave]));
}

#[test]
fn mouse_selects_opens_and_scrolls_and_answers_nothing() {
    let mut desk = Desk::with_items(80, 30);
    let click = |desk: &mut Desk, row: usize| {
        let row = u16::try_from(row).unwrap();
        desk.handle_event(UiEvent::Input(TerminalInput::Mouse { action: MouseAction::Press, col: 4, row }))
    };
    let row_of = |desk: &Desk, text: &str| desk.screen().lines().position(|line| line.contains(text)).unwrap();
    // A heading, the header and the preview are not rows.
    for text in ["Terminals", "steplatch", "Runs"] {
        let at = row_of(&desk, text);
        let before = desk.model.selected.clone();
        assert!(click(&mut desk, at).is_empty());
        assert_eq!(desk.model.selected, before, "{text}");
    }
    // The first click selects, the second one opens; the click that gives the window the focus does nothing.
    let build = row_of(&desk, " build ");
    assert!(click(&mut desk, build).is_empty());
    let selected = desk.model.selected.clone().unwrap();
    desk.handle_event(UiEvent::Input(TerminalInput::Focus(true)));
    assert!(click(&mut desk, build).is_empty() && desk.model.opened.is_empty());
    desk.advance(Duration::from_secs(1));
    let effects = click(&mut desk, build);
    let is_open = !desk.model.opened.is_empty() || matches!(&effects[..], [Effect::Attach { hold: false, .. }]);
    assert!(is_open, "{selected:?}: {effects:?}");
    // A click in a question neither answers nor closes the question, and confirms nothing.
    let mut desk = Desk::with_items(80, 30);
    desk.press(&[Key::Home, Key::Enter]);
    desk.advance(ANSWER_DELAY);
    for row in 0..30 {
        assert!(click(&mut desk, row).is_empty() && desk.model.opened.len() == 1);
    }
    let mut desk = Desk::with_items(80, 30);
    desk.press(&[Key::Home, Key::Char('c')]);
    for row in 0..30 {
        assert!(click(&mut desk, row).is_empty() && desk.model.confirmation.is_some());
    }
    // The wheel moves the selection.
    let mut desk = Desk::with_items(80, 30);
    desk.press(&[Key::Home]);
    let first = desk.model.selected.clone();
    let wheel = |action| UiEvent::Input(TerminalInput::Mouse { action, col: 0, row: 5 });
    desk.handle_event(wheel(MouseAction::WheelDown));
    assert_ne!(desk.model.selected, first);
    desk.handle_event(wheel(MouseAction::WheelUp));
    assert_eq!(desk.model.selected, first);
}

#[test]
fn id_of_a_row_or_run_is_copied() {
    let mut desk = Desk::with_items(80, 30);
    desk.press(&[Key::Home]);
    let id = desk.model.selected.clone().unwrap().id;
    assert!(matches!(&desk.press(&[Key::Ctrl('y')])[..], [Effect::Copy(copied)] if *copied == id));
    desk.advance(Duration::from_secs(1));
    desk.press(&[Key::End, Key::Enter]);
    assert!(matches!(&desk.press(&[Key::Ctrl('y')])[..], [Effect::Copy(copied)] if copied.starts_with("run_")));
}

/// A desk with a terminal that asks for a password of an agent's request, and an AI agent that asks for a decision.
fn desk_with_asking_programs() -> Desk {
    let session = |fields: serde_json::Value| {
        let mut session = json!({
            "command": "bash", "state": "active", "created_at": 0.0, "last_activity": 0.0, "cols": 40, "rows": 5, "pid": 1,
        });
        session.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value::<SessionInfo>(session).unwrap()
    };
    let terminals = vec![
        session(json!({
            "session_id": "term_pppp", "name": "deploy", "busy": true, "password": true, "password_program": "sudo (root)",
            "secret_request": {"since": "2026-01-01T10:00:00Z", "requested_by": "claude", "reason": "to restart\x1b[2J nginx"},
        })),
        session(json!({
            "session_id": "term_aaaa", "name": "helper", "busy": true, "agent": "codex", "agent_activity": "asks",
        })),
        session(json!({
            "session_id": "term_wwww", "name": "worker", "busy": true, "agent": "codex", "agent_activity": "working",
        })),
    ];
    let mut desk = Desk::new(80, 22);
    desk.handle_event(UiEvent::Lists { terminals, runs: Vec::new(), needs_passphrase: false });
    desk
}

#[test]
fn passwords_and_asking_agents_wait_for_the_person() {
    let desk = desk_with_asking_programs();
    desk.assert_screen(&expect![[r#"
        | steplatch  2 questions wait for you
        | Waits for you 2
        |  ? deploy  asks for a password  bash
        |  ? helper  asks (codex)         bash
        | Terminals 3
        |  ? deploy  asks for a password  bash
        |  ? helper  asks (codex)         bash
        |  ▸ worker  working (codex)      bash
        | Runs none; start one with: steplatch run
        |─ deploy: asks for a password 40x5 ─────────────────────────────────────────────
        | claude waits for the password: to restart␛[2J nginx
        |
        |
        |
        |
        |
        |
        |
        |
        |
        |
        | ↑↓ select  enter type the password  r refuse  t take over  q leave  ? help
    "#]]);
    assert_eq!(desk.model.feed_selection().picture.as_deref(), Some("term_pppp"));
}

#[test]
fn password_is_typed_hidden_for_the_shown_program_only() {
    let mut desk = desk_with_asking_programs();
    assert!(desk.press(&[Key::Enter]).is_empty());
    assert!(desk.type_in("hunter2 q").is_empty());
    let screen = desk.screen();
    assert!(screen.contains("password for sudo (root): •••••••••") && !screen.contains("hunter2"), "{screen}");
    // Another program replaces the first while the person types: the daemon compares, so the first is sent.
    let mut terminals = desk.model.terminals.clone();
    terminals[0].password_program = Some("cat".to_owned());
    desk.handle_event(UiEvent::Terminals(terminals));
    match desk.press(&[Key::Enter]).as_slice() {
        [Effect::EnterSecret(verb)] => {
            assert_eq!(verb.session_id, "term_pppp");
            assert_eq!(verb.program.as_deref(), Some("sudo (root)"));
            assert_eq!(verb.secret.as_ref().map(|secret| secret.0.as_str()), Some("hunter2 q"));
        }
        other => panic!("{other:?}"),
    }
    // An abandoned line types nothing.
    desk.press(&[Key::Enter]);
    desk.type_in("hunter2");
    assert!(desk.press(&[Key::Escape]).is_empty() && desk.screen().contains("nothing was typed"));
}

#[test]
fn request_for_a_password_is_refused_after_a_confirmation() {
    let mut desk = desk_with_asking_programs();
    assert!(desk.press(&[Key::Char('r')]).is_empty());
    assert!(desk.screen().contains("Refuse the password for deploy? claude is notified"), "{}", desk.screen());
    desk.advance(Duration::from_secs(1));
    match desk.press(&[Key::Enter]).as_slice() {
        [Effect::EnterSecret(verb)] => assert!(verb.secret.is_none() && verb.session_id == "term_pppp"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn asking_agent_is_attached_to() {
    let mut desk = desk_with_asking_programs();
    desk.press(&[Key::Down]);
    match desk.press(&[Key::Enter]).as_slice() {
        [Effect::Attach { terminal, hold: false }] => assert_eq!(terminal, "term_aaaa"),
        other => panic!("{other:?}"),
    }
}
