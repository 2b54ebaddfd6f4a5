//! Laws of import: all bytes are accepted, and no value typed without an echo leaves the recording.

use proptest::prelude::*;

use super::tests::import_timeline;
use super::{ScriptLogs, Timeline, TimelineEvent, expect_script, script_recording};
use crate::{CaptureRequest, Golden, KnownFacts, capture};

/// Characters that no other text of a dialogue contains, so that a search finds only values.
const SIGNS: &str = "[QWXZ789]{4,12}";

/// Echo of typed text by a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Whole,
    Nothing,
    Stars,
    /// The first characters.
    Part,
}

/// A person's manner of typing a line.
#[derive(Debug, Clone, Copy)]
enum Typing {
    AtOnce,
    ByKey,
    /// With a wrong character, deleted again.
    Corrected,
    /// With a completion in the middle.
    Completed,
    /// With a step back and forth.
    Moved,
    Pasted,
    /// With the next line before the program answers.
    Ahead,
}

#[derive(Debug, Clone)]
struct Entry {
    row: &'static str,
    value: String,
    shown: Shown,
    typing: Typing,
    /// True if the program prints the value later, although it showed no echo.
    is_printed: bool,
    in_full_screen: bool,
}

fn entry() -> impl Strategy<Value = Entry> {
    let row = prop_oneof![
        3 => Just("ana$ "), 1 => Just("ana@mill:~$ "), 1 => Just("Password: "), 1 => Just("Key? "), 1 => Just(""), 1 => Just("> "),
    ];
    let shown = prop_oneof![2 => Just(Shown::Whole), 2 => Just(Shown::Nothing), 1 => Just(Shown::Stars), 1 => Just(Shown::Part)];
    let typing = prop_oneof![
        Just(Typing::AtOnce),
        Just(Typing::ByKey),
        Just(Typing::Corrected),
        Just(Typing::Completed),
        Just(Typing::Moved),
        Just(Typing::Pasted),
        Just(Typing::Ahead),
    ];
    (row, SIGNS, shown, typing, any::<bool>(), prop::bool::weighted(0.3)).prop_map(
        |(row, value, shown, typing, is_printed, in_full_screen)| Entry {
            row,
            value,
            shown,
            typing,
            is_printed,
            in_full_screen,
        },
    )
}

/// Returns the text typed for a value, in parts that the program may answer.
fn typed(entry: &Entry) -> Vec<String> {
    let (head, tail) = entry.value.split_at(2);
    match entry.typing {
        Typing::AtOnce | Typing::Ahead => vec![format!("{}\r", entry.value)],
        Typing::ByKey => entry.value.chars().map(String::from).chain(["\r".to_owned()]).collect(),
        Typing::Corrected => vec![format!("{head}e\x7f{tail}\r")],
        Typing::Completed => vec![format!("{head}\t"), format!("{tail}\r")],
        Typing::Moved => vec![format!("{head}\x1b[D\x1b[C{tail}\r")],
        Typing::Pasted => vec![format!("\x1b[200~{}\x1b[201~", entry.value), "\r".to_owned()],
    }
}

/// Returns the echo of a part of the typed text.
fn echo(entry: &Entry, part: &str, is_first: bool) -> String {
    let end = if part.ends_with('\r') && !entry.in_full_screen { "\r\n" } else { "" };
    let text: String = part.chars().filter(|sign| sign.is_ascii_uppercase() || sign.is_ascii_digit()).collect();
    let text = if matches!(entry.typing, Typing::Pasted) && part.len() > 4 { entry.value.clone() } else { text };
    let shown = match entry.shown {
        Shown::Whole => text,
        Shown::Nothing => String::new(),
        Shown::Stars => "*".repeat(text.len()),
        Shown::Part => text.chars().take(usize::from(is_first)).collect(),
    };
    shown + end
}

/// Returns a recording of a dialogue.
fn recording(entries: &[Entry]) -> Timeline {
    let mut events = vec![TimelineEvent::Output("ana$ ".to_owned()), TimelineEvent::Input("begin\r".to_owned())];
    events.push(TimelineEvent::Output("begin\r\n".to_owned()));
    let mut waiting = String::new();
    for entry in entries {
        let (begin, end) = if entry.in_full_screen { ("\x1b[?1049h\x1b[2J\x1b[H", "\x1b[?1049l") } else { ("", "") };
        events.push(TimelineEvent::Output(format!("{}{begin}{}", std::mem::take(&mut waiting), entry.row)));
        for (index, part) in typed(entry).iter().enumerate() {
            events.push(TimelineEvent::Input(part.clone()));
            let echo = echo(entry, part, index == 0);
            if matches!(entry.typing, Typing::Ahead) {
                waiting.push_str(&echo);
            } else {
                events.push(TimelineEvent::Output(echo));
            }
        }
        let printed = if entry.is_printed && entry.shown == Shown::Nothing { &entry.value } else { "fine" };
        waiting.push_str(&format!("{end}{printed}\r\n"));
    }
    events.push(TimelineEvent::Output(format!("{waiting}ana$ ")));
    let events = events.into_iter().enumerate().map(|(index, event)| (index as f64, event)).collect();
    Timeline { events, ..Timeline::default() }
}

/// Returns whether the output of a recording contains a value, so that all viewers see it.
fn is_in_output(timeline: &Timeline, value: &str) -> bool {
    let output =
        |event: &TimelineEvent| if let TimelineEvent::Output(text) = event { Some(text.clone()) } else { None };
    timeline.events.iter().filter_map(|(_, event)| output(event)).collect::<String>().contains(value)
}

proptest! {
    #[test]
    fn hidden_value_appears_in_no_import_result(entries in prop::collection::vec(entry(), 1..7)) {
        let timeline = recording(&entries);
        let hidden: Vec<String> = entries
            .iter()
            .filter(|entry| entry.shown != Shown::Whole)
            .map(|entry| entry.value.clone())
            .filter(|value| !entries.iter().any(|entry| entry.shown == Shown::Whole && entry.value.contains(value.as_str())))
            .collect();
        let printed: Vec<bool> = hidden.iter().map(|value| is_in_output(&timeline, value)).collect();
        let imported = import_timeline("x", timeline);
        let log = serde_json::to_string(&imported).unwrap();
        let captured = capture(&[imported.log], &KnownFacts::default(), &CaptureRequest::default());
        let reply = serde_json::to_string(&captured).unwrap();
        let golden = Golden::from_captured(&captured, "x", "2026-01-31T12:00:00Z").text();
        for (value, is_printed) in hidden.iter().zip(printed) {
            for text in [&log, &reply, &golden] {
                prop_assert!(!text.contains(value.as_str()), "{value} (printed: {is_printed}) is in {text}\n{entries:#?}");
            }
        }
    }

    #[test]
    fn any_bytes_are_accepted(bytes in prop::collection::vec(any::<u8>(), 0..2000), cut in 0_usize..2000) {
        let text = String::from_utf8_lossy(&bytes);
        let (timing, output) = bytes.split_at(cut.min(bytes.len()));
        let timing = format!("H 0 COMMAND sh\n{}", String::from_utf8_lossy(timing));
        let logs = ScriptLogs { output, input: None };
        let mut timelines = vec![script_recording(&timing, logs)];
        timelines.extend(expect_script(&format!("spawn sh\n{text}")));
        let event = |(index, portion): (usize, &[u8])| {
            let portion = String::from_utf8_lossy(portion).into_owned();
            let event = if index % 2 == 0 { TimelineEvent::Output(portion) } else { TimelineEvent::Input(portion) };
            (index as f64, event)
        };
        let events = steplatch_fuzz::split_into_portions(&bytes).into_iter().enumerate().map(event).collect();
        timelines.push(Timeline { events, ..Timeline::default() });
        for timeline in timelines {
            let imported = import_timeline("x", timeline);
            prop_assert!(imported.log.moments.len() <= 2 * super::MAX_ENTRIES + 1);
            let captured = capture(&[imported.log], &KnownFacts::default(), &CaptureRequest::default());
            let golden = Golden::from_captured(&captured, "x", "2026-01-31T12:00:00Z");
            prop_assert_eq!(&Golden::read(&golden.text()).unwrap(), &golden);
        }
    }
}
