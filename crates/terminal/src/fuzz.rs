//! Fuzz target for the output of programs: filter, both parsers, history and screen.

use std::collections::BTreeSet;

use steplatch_fuzz::{Target, split_into_portions};

use crate::history::History;
use crate::intake::OutputPipeline;
use crate::screen::{Emulator, Screen, Size};
use crate::transcript::{OffsetMark, Transcript};

const SIZE: Size = Size { cols: 30, rows: 8 };

/// Maximum memory of the history of [`Target::max_bytes`] bytes, in bytes.
const MAX_MEMORY_BYTES: usize = 256 * 1024;

/// The observable state of a terminal after its output.
#[derive(Debug, PartialEq, Eq)]
struct TerminalState {
    text: String,
    zones: Vec<String>,
    marks: Vec<OffsetMark>,
    screen: String,
    coloured: String,
    title: String,
    cursor: String,
    replies: String,
}

fn new_pipeline() -> OutputPipeline {
    let transcript = Transcript::new(History::new(1 << 20), Some("n1".into()));
    OutputPipeline::new(transcript, Box::new(Emulator::new(SIZE)))
}

fn terminal_state(portions: &[&[u8]]) -> (TerminalState, OutputPipeline) {
    let mut pipeline = new_pipeline();
    let mut replies = Vec::new();
    for portion in portions {
        pipeline.take_in(portion, &mut replies);
        pipeline.transcript.settle();
    }
    // A synchronized update ends at its time limit, independently of the bytes.
    pipeline.screen.release();
    replies.extend(pipeline.screen.take_replies());
    let marks = pipeline.transcript.take_marks();
    let history = pipeline.transcript.history();
    let screen = &pipeline.screen;
    let terminal_state = TerminalState {
        text: history.read(0..history.end()).1,
        zones: history.zones(0..history.end()).map(|zone| format!("{zone:?}")).collect(),
        marks,
        screen: screen.text(),
        coloured: screen.ansi(),
        title: screen.title(),
        cursor: format!("{:?} {:?}", screen.cursor(), screen.modes()),
        replies: replies.escape_ascii().to_string(),
    };
    (terminal_state, pipeline)
}

/// Returns the kinds of escape sequences in an input: the first three bytes of each that are not digits.
fn sequence_kinds(input: &[u8]) -> BTreeSet<Vec<u8>> {
    let sequences = input.split(|byte| *byte == 0x1b).skip(1);
    sequences.map(|sequence| sequence.iter().copied().filter(|byte| !byte.is_ascii_digit()).take(3).collect()).collect()
}

#[test]
fn output() {
    let target = Target {
        corpus: concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/output"),
        dictionary: &[
            "\x1b[",
            "\x1b[?",
            "\x1b]",
            "\x1bP",
            "\x1b\\",
            "\x07",
            "\x18",
            ";",
            ":",
            "$",
            "\r",
            "\n",
            "\t",
            "\x08",
            "h",
            "l",
            "m",
            "H",
            "J",
            "K",
            "b",
            "\x1b[?1049h",
            "\x1b[?1049l",
            "\x1b[?69h",
            "\x1b[?6h",
            "\x1b[?2026h",
            "\x1b[?2026l",
            "\x1b[!p",
            "\x1bc",
            "\x1b[r",
            "\x1b[s",
            "\x1b[u",
            "\x1b7",
            "\x1b8",
            "\x1bM",
            "\x1bD",
            "\x1bH",
            "\x1b[3g",
            "\x1b[g",
            "\x1b[65535",
            "\x1b]133;A;k=n1\x07",
            "\x1b]133;B;k=n1\x07",
            "\x1b]133;C;k=n1\x07",
            "\x1b]133;D;0;k=n1;n=1\x07",
            "\x1b]8;;x\x1b\\",
            "\x1b]11;?\x1b\\",
            "\x1b]2;title\x07",
            "\x1b[>1u",
            "\x1b[<u",
            "\x1b[?u",
            "\x1b[1;2;3;4$x",
            "\x1b[1;1;2;2;1;3;3;1$v",
            "\x1b[2'}",
            "\x1b[2'~",
            "\x1b[2 @",
            "\x1b[4h",
            "\x1b[4l",
            "\x1b[?7l",
            "\x1b[?45h",
            "\x1b(0",
            "\x0e",
            "\x0f",
            "漢",
            "e\u{301}",
            "\u{200d}",
            "👩‍💻",
            "\u{fe0f}",
            "\u{9b}",
            "\x1b#8",
        ],
        max_bytes: 600,
    };
    target.run(|input| {
        let (at_once, mut pipeline) = terminal_state(&[input]);
        let in_portions = terminal_state(&split_into_portions(input)).0;
        assert_eq!(at_once, in_portions);
        let cursor = pipeline.screen.cursor();
        assert!(cursor.row < SIZE.rows && cursor.col < SIZE.cols, "{cursor:?}");
        assert!(at_once.screen.lines().count() <= usize::from(SIZE.rows), "{}", at_once.screen);
        let history = pipeline.transcript.history();
        assert!(history.memory() <= MAX_MEMORY_BYTES, "{} bytes", history.memory());
        // A control string is not text. Each other byte adds at most one character of three bytes, or a line end. A
        // sequence of at least three bytes writes at most one row.
        let max_text = (8 + usize::from(SIZE.cols)) * input.len();
        assert!(at_once.text.len() <= max_text, "{} bytes of text", at_once.text.len());
        let snapshot = pipeline.screen.snapshot();
        let mut redrawn = Emulator::new(SIZE);
        redrawn.feed(snapshot.as_bytes());
        redrawn.release();
        assert_eq!(redrawn.text(), at_once.screen, "redrawn from '{}'", snapshot.escape_debug());
        // The emulator allocates a thousand rows when it grows, so only some inputs use other sizes.
        if input.len().is_multiple_of(8) {
            for size in [Size { cols: 2, rows: 2 }, Size { cols: 40, rows: 3 }] {
                pipeline.screen.resize(size);
                pipeline.take_in(&input[..input.len().min(100)], &mut Vec::new());
                let _ = (
                    pipeline.screen.text(),
                    pipeline.screen.picture(),
                    pipeline.screen.snapshot(),
                    pipeline.text_after_prompt(),
                );
            }
        }
        assert_eq!(pipeline.screen.failures(), 0, "the emulator was restarted");
        (sequence_kinds(input), at_once.cursor.len(), at_once.replies.is_empty(), at_once.zones.len().min(4))
    });
}
