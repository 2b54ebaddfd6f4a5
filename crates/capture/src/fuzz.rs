//! Fuzz targets for recordings of other programs.

use std::collections::BTreeMap;

use steplatch_fuzz::Target;
use steplatch_protocol::InputKind;
use steplatch_recording::{RecordedEvent, recorded_events};

use crate::import::tests::import_timeline;
use crate::{
    CaptureRequest, Golden, KnownFacts, ScriptLogs, Timeline, TimelineEvent, capture, expect_script, script_files,
    script_recording,
};

/// Maximum size of an imported log, per byte of the recording and for an empty recording.
const MAX_LOG_BYTES_PER_INPUT_BYTE: usize = 10_000;
const MAX_EMPTY_LOG_BYTES: usize = 20_000;

/// Imports a timeline, captures the log, and checks the import and the capture. Returns the kinds of the log's entries.
fn import_and_capture(timeline: Timeline, length: usize) -> Vec<(String, String, bool)> {
    let typed_input = timeline.events.iter().filter_map(|(_, event)| typed_text(event));
    let typed_input: String = typed_input.chain([timeline.command.as_str()]).collect();
    let shown_output: String = timeline.events.iter().filter_map(|(_, event)| output_text(event)).collect();
    let (typed_characters, shown_characters) = (count_characters(&typed_input), count_characters(&shown_output));
    let imported = import_timeline("x", timeline);
    let text = serde_json::to_string(&imported).expect("the log serializes");
    let max_bytes = MAX_LOG_BYTES_PER_INPUT_BYTE * length + MAX_EMPTY_LOG_BYTES;
    assert!(text.len() <= max_bytes, "{} bytes of {length}", text.len());
    for moment in &imported.log.moments {
        let input = &moment.input;
        assert!(input.kind != InputKind::Hidden || input.text.is_none(), "{input:?}");
        // Keys have names of several letters; text has typed or printed characters.
        let text = input.text.as_deref().unwrap_or_default();
        let is_known = count_characters(text)
            .iter()
            .all(|(character, _)| typed_characters.contains_key(character) || shown_characters.contains_key(character));
        assert!(is_known && input.keys.iter().all(|key| key.len() > 1), "{input:?}");
    }
    let kinds = imported.log.moments.iter().map(|moment| {
        let input = &moment.input;
        (format!("{:?}", input.kind), input.context.clone(), input.keys.is_empty())
    });
    let kinds = kinds.take(12).collect();
    let captured = capture(&[imported.log], &KnownFacts::default(), &CaptureRequest::default());
    let golden = Golden::from_captured(&captured, "x", "2026-01-31T12:00:00Z");
    assert_eq!(Golden::read(&golden.text()).expect("the transcript is valid"), golden);
    kinds
}

fn typed_text(event: &TimelineEvent) -> Option<&str> {
    if let TimelineEvent::Input(text) = event { Some(text) } else { None }
}

fn output_text(event: &TimelineEvent) -> Option<&str> {
    if let TimelineEvent::Output(text) = event { Some(text) } else { None }
}

/// Counts the characters of text, without white space and the mask of a secret.
fn count_characters(text: &str) -> BTreeMap<char, usize> {
    let mut counts = BTreeMap::new();
    for character in text.chars().filter(|character| !character.is_whitespace() && *character != '•') {
        *counts.entry(character).or_default() += 1;
    }
    counts
}

#[test]
fn asciicasts_with_input() {
    let target = Target {
        corpus: concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/asciicasts_with_input"),
        dictionary: &[
            "[0.1,\"i\",\"",
            "[0.1,\"o\",\"",
            "[0.1,\"r\",\"80x24\"]\n",
            "\\r\\n",
            "\\r\"]\n",
            "\\u001b[",
            "\\u001b[?1049h",
            "\\u001b[?1049l",
            "\\u001b[200~",
            "\\t",
            "\\u007f",
            "Password: ",
            "$ ",
            "{\"version\":2,\"width\":10,\"height\":9}\n",
        ],
        max_bytes: 4_096,
    };
    target.run(|input| {
        let (events, damage) = recorded_events(&mut &*input).expect("the bytes are readable");
        let event = |(time, event)| {
            let event = match event {
                RecordedEvent::Output(text) => TimelineEvent::Output(text),
                RecordedEvent::Input(text) => TimelineEvent::Input(text),
                RecordedEvent::Resize { cols, rows } => TimelineEvent::Resize { cols, rows },
                RecordedEvent::Exit(code) => TimelineEvent::Exit(code),
            };
            (time, event)
        };
        let timeline = Timeline { events: events.into_iter().map(event).collect(), ..Timeline::default() };
        (import_and_capture(timeline, input.len()), damage.is_some())
    });
}

/// An input is the timing file, the log of output, and the log of input, with a form feed between them.
#[test]
fn recordings_of_script() {
    let target = Target {
        corpus: concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/recordings_of_script"),
        dictionary: &[
            "O 0.1 ",
            "I 0.1 ",
            "H 0.0 COMMAND ",
            "H 0.0 EXIT_CODE 0\n",
            "S 0.1 SIGWINCH ROWS=9 COLS=9\n",
            "4294967296",
            "18446744073709551615",
            "Script started on ",
            "\x1b[?1049h",
            "\x1b[",
            "\r\n",
        ],
        max_bytes: 4_096,
    };
    target.run(|input| {
        let text = String::from_utf8_lossy(input);
        let mut parts = text.split('\x0c');
        let timing = parts.next().unwrap_or_default();
        let output = parts.next().unwrap_or_default().as_bytes();
        let logs = ScriptLogs { output, input: parts.next().map(str::as_bytes) };
        let files = script_files(timing);
        let is_plain = |name: &Option<String>| name.as_ref().is_none_or(|name| !name.contains('/') && name != "..");
        assert!(files.as_ref().is_none_or(|files| is_plain(&files.output) && is_plain(&files.input)), "{files:?}");
        import_and_capture(script_recording(timing, logs), input.len())
    });
}

#[test]
fn scripts_of_autoexpect() {
    let target = Target {
        corpus: concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/scripts_of_autoexpect"),
        dictionary: &[
            "\nspawn ",
            "\nsend -- \"",
            "\nexpect -exact \"",
            "\nexpect eof\n",
            "\\r",
            "\\x1b",
            "\\u20ac",
            "\\",
            "{",
            "}",
            "\"",
            "[exec ",
            "$env(KEY)",
            "\r\n",
        ],
        max_bytes: 4_096,
    };
    target.run(|input| {
        expect_script(&String::from_utf8_lossy(input)).map(|timeline| import_and_capture(timeline, input.len()))
    });
}
