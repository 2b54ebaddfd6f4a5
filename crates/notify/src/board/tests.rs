use proptest::prelude::*;

use super::*;
use crate::occasion::Subject;

const SECOND: i64 = 1_000_000;

/// A moment after the start of a test.
fn at(seconds: i64) -> Timestamp {
    // 2026-01-10T12:00:00Z, a Saturday.
    Timestamp(1_768_046_400 * SECOND + seconds * SECOND)
}

fn rules(text: &str) -> Vec<Rule> {
    let table: toml::Table = text.parse().unwrap();
    let mut rules: Vec<Rule> = Vec::new();
    for (index, table) in table["notify"].as_array().unwrap().iter().enumerate() {
        let is_taken = |name: &str| rules.iter().any(|rule| rule.name == name);
        rules.push(Rule::read(table.as_table().unwrap(), index + 1, is_taken).unwrap());
    }
    rules
}

const WEBHOOK: &str = "[[notify]]\nwhen = ['gate', 'password', 'run_failed']\nwebhook = 'https://a.example'\n";
const DESKTOP: &str = "[[notify]]\nwhen = ['gate', 'password', 'run_failed']\ndesktop = true\n";

/// A board with these rules since the start of the test.
fn board(text: &str) -> Board {
    let mut board = Board::new(BoardState::new(at(0)), TimeZone::UTC);
    board.configure(rules(text), at(0));
    board.begin_list_of_ends(at(0));
    board.finish_list_of_ends();
    board
}

fn gate(key: &str, since: i64) -> Observation {
    let subject = Subject { workflow: Some("release".to_owned()), run_id: Some(key.to_owned()), ..Subject::default() };
    Observation { kind: Kind::Gate, key: key.to_owned(), since: Some(at(since)), subject }
}

fn password(terminal: &str) -> Observation {
    let subject = Subject { terminal: Some(terminal.to_owned()), ..Subject::default() };
    Observation { kind: Kind::Password, key: terminal.to_owned(), since: None, subject }
}

fn failed(key: &str, since: i64) -> Observation {
    Observation { kind: Kind::RunFailed, ..gate(key, since) }
}

impl Board {
    fn see(&mut self, observations: Vec<Observation>, now: i64) {
        self.observe(|_| true, observations, at(now));
    }

    /// Begins what is due and lets it succeed. Returns it in short form.
    fn send(&mut self, now: i64) -> Vec<String> {
        self.attempt(now, |_| Ok(Some(7)))
    }

    fn attempt(&mut self, now: i64, send: impl Fn(&Delivery) -> Result<Option<u32>, String>) -> Vec<String> {
        let due = self.deliver(now, send);
        let describe = |delivery: &Delivery| format!("{} {}", delivery.phase.name(), delivery.occasion.key);
        due.iter().map(|(_, delivery)| describe(delivery)).collect()
    }

    /// Begins what is due and ends it as `send` returns. Returns the deliveries with their rules.
    fn deliver(&mut self, now: i64, send: impl Fn(&Delivery) -> Result<Option<u32>, String>) -> Vec<(Rule, Delivery)> {
        self.advance(at(now));
        let due = self.begin_due(at(now));
        for (rule, delivery) in &due {
            self.finish(&rule.name, delivery, send(delivery), at(now));
        }
        due
    }

    fn next(&self, now: i64) -> Option<i64> {
        self.next_time(at(now)).map(|next| (next.0 - at(0).0) / SECOND)
    }

    /// Stores the state and returns the board of the next daemon.
    fn restarted(mut self, now: i64) -> Self {
        let text = serde_json::to_string(self.state_to_store(at(now))).unwrap();
        let mut next = Board::new(BoardState::read(&text).unwrap(), TimeZone::UTC);
        next.configure(self.rules, at(now));
        next.begin_list_of_ends(at(now));
        next
    }
}

#[test]
fn open_gate_is_announced_once_and_withdrawn_when_answered() {
    let mut board = board(WEBHOOK);
    board.see(vec![gate("a", 1), gate("b", 2)], 3);
    assert_eq!(board.send(3), ["first a", "first b"]);
    board.see(vec![gate("a", 1), gate("b", 2)], 4);
    assert_eq!(board.send(4), [""; 0]);
    assert_eq!(board.next(4), None, "nothing is left to decide");
    board.see(vec![gate("b", 2)], 5);
    assert_eq!(board.send(5), ["withdrawn a"]);
    board.see(vec![gate("b", 2)], 6);
    assert_eq!(board.send(6), [""; 0]);
    // The same question asked again is another occasion.
    board.see(vec![gate("a", 7), gate("b", 2)], 7);
    assert_eq!(board.send(7), ["first a"]);
}

#[test]
fn gate_answered_within_the_minimum_wait_is_never_announced() {
    let mut board = board(&format!("{WEBHOOK}min_wait = '30s'"));
    board.see(vec![gate("a", 0), gate("b", 10)], 10);
    assert_eq!(board.send(10), [""; 0]);
    assert_eq!(board.next(10), Some(30));
    board.see(vec![gate("b", 10)], 20);
    assert_eq!(board.send(30), [""; 0]);
    assert_eq!(board.next(30), Some(40));
    assert_eq!(board.send(40), ["first b"]);
}

#[test]
fn gate_is_escalated_to_the_groups_that_it_names() {
    let grouped = |group: &str, way: &str| format!("[[notify]]\nwhen = ['gate']\ngroup = '{group}'\n{way}\n");
    let rules = [
        grouped("team", "webhook = 'https://team.example'"),
        grouped("leads", "webhook = 'https://leads.example'\nmin_wait = '10s'"),
        grouped("others", "webhook = 'https://others.example'"),
        "[[notify]]\nwhen = ['gate']\ncommand = ['everybody']\n".to_owned(),
    ];
    let mut board = board(&rules.concat());
    let mut escalated = gate("a", 0);
    escalated.subject.approvers = [("team".to_owned(), 0), ("leads".to_owned(), 60)].into();
    let notify = |board: &mut Board, now: i64| {
        let due = board.deliver(now, |_| Ok(Some(7)));
        due.iter().map(|(rule, delivery)| format!("{} {}", rule.name, delivery.occasion.key)).collect::<Vec<_>>()
    };
    board.see(vec![escalated, gate("b", 0)], 0);
    assert_eq!(notify(&mut board, 0), ["team.example a", "everybody a", "everybody b"]);
    assert_eq!(board.next(0), Some(60));
    let mut board = board.restarted(30);
    assert_eq!(notify(&mut board, 59), [""; 0]);
    assert_eq!(notify(&mut board, 60), ["leads.example a"]);
    assert_eq!(board.next(60), None);
}

#[test]
fn reminder_follows_once() {
    let mut board = board(&format!("{WEBHOOK}remind_after = '5m'"));
    board.see(vec![gate("a", 0)], 0);
    assert_eq!(board.send(0), ["first a"]);
    assert_eq!(board.next(0), Some(300));
    assert_eq!(board.send(299), [""; 0]);
    assert_eq!(board.send(300), ["reminder a"]);
    assert_eq!((board.send(10_000), board.next(10_000)), (vec![], None));
}

#[test]
fn quiet_hours_delay_what_is_still_open_afterwards() {
    // The test begins at noon.
    let mut board = board(&format!("{WEBHOOK}quiet = '11:00-13:00'"));
    board.see(vec![gate("a", 0), gate("b", 0)], 0);
    board.record_end(failed("run", 5), at(5));
    assert_eq!(board.send(10), [""; 0]);
    assert_eq!(board.next(10), Some(3_600));
    board.see(vec![gate("b", 0)], 20);
    assert_eq!(board.send(3_599), [""; 0]);
    assert_eq!(board.send(3_600), ["first run", "first b"]);
}

#[test]
fn failed_webhook_is_repeated_with_growing_pauses_and_given_up_after_a_day() {
    let mut board = board(WEBHOOK);
    board.see(vec![gate("a", 0)], 0);
    let (mut now, mut pauses) = (0, Vec::new());
    loop {
        assert_eq!(board.attempt(now, |_| Err("down".to_owned())), ["first a"]);
        let Some(next) = board.next(now) else { break };
        pauses.push(next - now);
        now = next;
    }
    assert_eq!(pauses[..10], [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
    assert!((86_400..86_700).contains(&now), "{now}");
    let (last, pending, _, failures) = board.status("a.example").unwrap();
    assert_eq!((last.unwrap().error.as_deref(), pending, failures), (Some("down"), 0, 1));
}

#[test]
fn webhook_receives_the_withdrawal_after_a_late_notification_and_a_desktop_neither() {
    for (text, later) in [(WEBHOOK, vec!["first a", "withdrawn a"]), (DESKTOP, vec![])] {
        let mut board = board(text);
        board.see(vec![gate("a", 0)], 0);
        board.attempt(0, |_| Err("down".to_owned()));
        board.see(vec![], 1);
        let mut sent = board.send(1);
        sent.extend(board.send(1));
        assert_eq!(sent, later);
    }
}

#[test]
fn withdrawal_has_the_receipt_of_a_notification_that_was_being_delivered() {
    let mut board = board(DESKTOP);
    board.see(vec![gate("a", 0)], 0);
    board.advance(at(0));
    let begun = board.begin_due(at(0));
    board.see(vec![], 1);
    assert_eq!((board.send(1), board.next(1)), (vec![], None), "the withdrawal waits");
    board.finish("desktop", &begun[0].1, Ok(Some(42)), at(2));
    let due = board.begin_due(at(2));
    assert_eq!((due[0].1.phase, due[0].1.receipt), (Phase::Withdrawn, Some(42)));
}

#[test]
fn next_daemon_repeats_what_was_not_confirmed_and_nothing_else() {
    let mut board = board(WEBHOOK);
    board.see(vec![gate("a", 0), password("sudo")], 0);
    board.record_end(failed("run", 0), at(0));
    assert_eq!(board.send(0), ["first run", "first a", "first sudo"]);
    board.see(vec![gate("a", 0), gate("b", 1), password("sudo")], 1);
    board.advance(at(1));
    assert_eq!(board.begin_due(at(1)).len(), 1, "the daemon is killed during this delivery");
    let mut board = board.restarted(1);
    board.see(vec![gate("a", 0), gate("b", 1), password("sudo")], 5);
    board.record_end(failed("run", 0), at(5));
    assert_eq!(board.send(5), ["first b"]);
    // An answer between two daemons.
    let mut board = board.restarted(6);
    board.see(vec![gate("b", 1), password("sudo")], 7);
    assert_eq!(board.send(7), ["withdrawn a"]);
}

#[test]
fn new_rule_announces_open_gates_but_no_earlier_ends() {
    let mut board = board(DESKTOP);
    board.see(vec![gate("a", 0)], 0);
    board.record_end(failed("run", 0), at(0));
    assert_eq!(board.send(0).len(), 2);
    board.configure(rules(&format!("{DESKTOP}{WEBHOOK}")), at(10));
    board.record_end(failed("run", 0), at(10));
    assert_eq!(board.send(10), ["first a"]);
    board.record_end(failed("later", 11), at(11));
    assert_eq!(board.send(11), ["first later", "first later"]);
    let removed = board.configure(rules(WEBHOOK), at(12));
    assert_eq!(removed, [("desktop".to_owned(), 0)]);
}

#[test]
fn end_before_a_long_pause_of_the_daemon_is_announced_once() {
    // A run fails, and the daemon is killed before it stores that.
    let mut board = board(WEBHOOK).restarted(0);
    board.see(vec![gate("a", 1)], 600);
    assert_eq!(board.send(600), ["first a"]);
    // The state is stored before the ends have been listed.
    let mut board = board.restarted(601);
    assert!(board.begin_list_of_ends(at(601)) <= at(5));
    board.record_end(failed("run", 5), at(601));
    board.finish_list_of_ends();
    assert_eq!(board.send(601), ["first run"]);
    let mut board = board.restarted(602);
    board.record_end(failed("run", 5), at(602));
    board.finish_list_of_ends();
    assert_eq!(board.send(602), [""; 0]);
    // The computer sleeps between an end and its record, and another occasion is stored first.
    board.state_to_store(at(9_000));
    board.record_end(failed("later", 700), at(9_000));
    assert_eq!(board.send(9_000), ["first later"]);
}

#[test]
fn end_after_the_correction_of_a_wrong_clock_is_announced() {
    let mut wrong = Board::new(BoardState::new(at(90_000)), TimeZone::UTC);
    wrong.configure(rules(WEBHOOK), at(90_000));
    let text = serde_json::to_string(wrong.state_to_store(at(90_000))).unwrap();
    let mut board = Board::new(BoardState::read(&text).unwrap(), TimeZone::UTC);
    board.configure(rules(WEBHOOK), at(10));
    assert_eq!(board.begin_list_of_ends(at(10)), at(10));
    board.record_end(failed("run", 11), at(12));
    assert_eq!(board.send(12), ["first run"]);
}

#[test]
fn repetition_waits_for_the_end_of_quiet_hours_and_a_withdrawal_does_not() {
    // The test begins at noon.
    let mut board = board(&format!("{WEBHOOK}quiet = '12:01-13:00'"));
    board.see(vec![gate("a", 0), gate("b", 0)], 0);
    let fail_a = |delivery: &Delivery| match delivery.occasion.key.as_str() {
        "a" => Err("down".to_owned()),
        _ => Ok(None),
    };
    let mut now = 0;
    while now < 60 {
        board.attempt(now, fail_a);
        now = board.next(now).unwrap();
    }
    assert_eq!(now, 3_600);
    board.see(vec![gate("a", 0)], 100);
    assert_eq!(board.send(100), ["withdrawn b"]);
    assert_eq!((board.send(3_599), board.send(3_600)), (vec![], vec!["first a".to_owned()]));
}

#[test]
fn oldest_delivery_is_dropped_if_too_many_wait() {
    let mut board = board(WEBHOOK);
    let count = i64::try_from(MAX_PENDING).unwrap() + 3;
    for number in 0..count {
        board.record_end(failed(&number.to_string(), number), at(number));
    }
    let (_, pending, earliest, failures) = board.status("a.example").unwrap();
    assert_eq!((pending, earliest.unwrap().occasion.key.as_str(), failures), (MAX_PENDING, "3", 3));
}

#[test]
fn at_most_a_few_deliveries_of_a_rule_are_under_way() {
    let mut board = board(&format!("{WEBHOOK}{DESKTOP}"));
    board.see((0..10).map(|number| gate(&number.to_string(), 0)).collect(), 0);
    board.advance(at(0));
    let begun = board.begin_due(at(0));
    assert_eq!(begun.len(), 2 * MAX_IN_FLIGHT);
    assert!(board.begin_due(at(0)).is_empty());
    board.finish("desktop", &begun[MAX_IN_FLIGHT].1, Ok(None), at(1));
    assert_eq!(board.begin_due(at(1)).len(), 1, "one rule does not delay the other");
}

#[test]
fn observations_of_one_scope_leave_the_others_open() {
    let mut board = board(WEBHOOK);
    let is_gate = |occasion: &Occasion| occasion.kind == Kind::Gate;
    board.observe(is_gate, vec![gate("a", 0)], at(0));
    board.observe(|occasion| !is_gate(occasion), vec![password("sudo")], at(0));
    assert_eq!(board.send(0), ["first a", "first sudo"]);
    board.observe(is_gate, vec![], at(1));
    assert_eq!(board.send(1), ["withdrawn a"]);
}

#[test]
fn damaged_or_newer_state_is_not_read() {
    assert_eq!(BoardState::read("{"), None);
    assert_eq!(BoardState::read(r#"{"version": 2, "seen_until": 0}"#), None);
    assert!(BoardState::read(r#"{"version": 1, "seen_until": 0}"#).is_some());
}

/// Event in the life of a board.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// The open gates, one bit each.
    See(u8),
    End(u8),
    /// Deliveries begin, and succeed, fail, or are cut off by a kill.
    Deliver(Option<bool>),
    Wait(u16),
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..16_u8).prop_map(Act::See),
        (0..4_u8).prop_map(Act::End),
        prop::option::weighted(0.8, any::<bool>()).prop_map(Act::Deliver),
        (0..1_000_u16).prop_map(Act::Wait),
        Just(Act::Restart),
    ]
}

proptest! {
    /// Each event of a webhook arrives at least once, and once by its id, whatever fails and whenever the process is
    /// killed. Nothing arrives that did not happen.
    #[test]
    fn every_event_arrives_once_by_its_id(acts in prop::collection::vec(act(), 1..60), remind in any::<bool>()) {
        let text = if remind { format!("{WEBHOOK}remind_after = '10s'") } else { WEBHOOK.to_owned() };
        let mut board = board(&text);
        let (mut now, mut open, mut ended) = (10, [None::<i64>; 4], BTreeMap::new());
        // What happened while the board saw it, and what arrived.
        let (mut expected, mut arrived) = (BTreeSet::new(), BTreeSet::new());
        let name = |kind: &str, number: usize, since: i64| format!("{kind} {number} {since}");
        let see = |board: &mut Board, open: &[Option<i64>; 4], now: i64| {
            let gates = open.iter().enumerate();
            board.see(gates.filter_map(|(number, since)| Some(gate(&number.to_string(), (*since)?))).collect(), now);
            board.advance(at(now));
        };
        // In the end, the receiver is up for a while.
        let end = [Act::Wait(600), Act::Deliver(Some(true)), Act::Deliver(Some(true))].repeat(20);
        for act in acts.into_iter().chain(end) {
            match act {
                Act::See(bits) => {
                    now += 1;
                    for (number, since) in open.iter_mut().enumerate() {
                        let is_open = bits >> number & 1 == 1;
                        match (is_open, *since) {
                            (true, None) => {
                                *since = Some(now);
                                expected.insert(name("first", number, now));
                            }
                            (false, Some(begun)) => {
                                *since = None;
                                expected.insert(name("withdrawn", number, begun));
                            }
                            _ => {}
                        }
                    }
                    see(&mut board, &open, now);
                }
                Act::End(number) => {
                    let number = usize::from(number) + 10;
                    now += 1;
                    let since = *ended.entry(number).or_insert(now);
                    expected.insert(name("first", number, since));
                    board.record_end(failed(&number.to_string(), since), at(now));
                }
                Act::Deliver(result) => {
                    board.advance(at(now));
                    // The state is stored before the deliveries begin.
                    let stored = serde_json::to_string(board.state_to_store(at(now))).unwrap();
                    for (rule, delivery) in board.begin_due(at(now)) {
                        let Delivery { phase, occasion, .. } = &delivery;
                        let since = (occasion.since.0 - at(0).0) / SECOND;
                        if result != Some(false) {
                            let number = occasion.key.parse().unwrap();
                            arrived.insert(name(phase.name(), number, since));
                        }
                        if let Some(succeeds) = result {
                            let sent = if succeeds { Ok(None) } else { Err("down".to_owned()) };
                            board.finish(&rule.name, &delivery, sent, at(now));
                        }
                    }
                    if result.is_none() {
                        board = Board::new(BoardState::read(&stored).unwrap(), TimeZone::UTC);
                        board.configure(rules(&text), at(now));
                        see(&mut board, &open, now);
                        board.finish_list_of_ends();
                    }
                }
                Act::Wait(seconds) => now += i64::from(seconds),
                Act::Restart => {
                    board = board.restarted(now);
                    see(&mut board, &open, now);
                    board.finish_list_of_ends();
                }
            }
        }
        arrived.retain(|event| !event.starts_with("reminder"));
        prop_assert_eq!(arrived, expected);
    }
}
