//! Bytes of programs, through the filter, both parsers, the history and the screen.

use std::collections::BTreeSet;

use steplatch_fuzz::{Target, portions};

use crate::history::History;
use crate::intake::OutputPipeline;
use crate::screen::{Emulator, Screen, Size};
use crate::transcript::{Marked, Transcript};

const SIZE: Size = Size { cols: 30, rows: 8 };

/// Maximum bytes of memory that a history of [`Target::longest`] bytes may take.
const MAX_MEMORY_BYTES: usize = 256 * 1024;

/// Everything that a program has left behind.
#[derive(Debug, PartialEq, Eq)]
struct Trace {
    text: String,
    zones: Vec<String>,
    marks: Vec<Marked>,
    screen: String,
    coloured: String,
    title: String,
    cursor: String,
    replies: String,
}

fn pipeline() -> OutputPipeline {
    let transcript = Transcript::new(History::new(1 << 20), Some("n1".into()));
    OutputPipeline::new(transcript, Box::new(Emulator::new(SIZE)))
}

fn trace(portions: &[&[u8]]) -> (Trace, OutputPipeline) {
    let mut intake = pipeline();
    let mut replies = Vec::new();
    for portion in portions {
        intake.take_in(portion, &mut replies);
        intake.transcript.settle();
    }
    // A synchronized update draws what it holds back when its time is up, which is no matter of bytes.
    intake.screen.release();
    replies.extend(intake.screen.take_replies());
    let marks = intake.transcript.take_marks();
    let history = intake.transcript.history();
    let screen = &intake.screen;
    let trace = Trace {
        text: history.read(0..history.end()).1,
        zones: history.zones(0..history.end()).map(|zone| format!("{zone:?}")).collect(),
        marks,
        screen: screen.text(),
        coloured: screen.ansi(),
        title: screen.title(),
        cursor: format!("{:?} {:?}", screen.cursor(), screen.modes()),
        replies: replies.escape_ascii().to_string(),
    };
    (trace, intake)
}

/// The sequences of an input, without their numbers and texts.
fn sequences(input: &[u8]) -> BTreeSet<Vec<u8>> {
    let after = input.split(|byte| *byte == 0x1b).skip(1);
    after.map(|rest| rest.iter().copied().filter(|byte| !byte.is_ascii_digit()).take(3).collect()).collect()
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
        longest: 600,
    };
    target.run(|input| {
        let (whole, mut intake) = trace(&[input]);
        let cut = trace(&portions(input)).0;
        assert_eq!(whole, cut, "cut into portions");
        let cursor = intake.screen.cursor();
        assert!(cursor.row < SIZE.rows && cursor.col < SIZE.cols, "{cursor:?}");
        assert!(whole.screen.lines().count() <= usize::from(SIZE.rows), "{}", whole.screen);
        let history = intake.transcript.history();
        assert!(history.memory() <= MAX_MEMORY_BYTES, "{} bytes", history.memory());
        // A control string is not text, and each byte is at most one character of three bytes, or a line end more. A
        // sequence of at least three bytes writes a row at most.
        let max_text = (8 + usize::from(SIZE.cols)) * input.len();
        assert!(whole.text.len() <= max_text, "{} bytes of text", whole.text.len());
        let snapshot = intake.screen.snapshot();
        let mut again = Emulator::new(SIZE);
        again.feed(snapshot.as_bytes());
        again.release();
        assert_eq!(again.text(), whole.screen, "drawn again from '{}'", snapshot.escape_debug());
        // The emulator makes a thousand rows when it grows, so that only few inputs use other sizes.
        if input.len().is_multiple_of(8) {
            for size in [Size { cols: 2, rows: 2 }, Size { cols: 40, rows: 3 }] {
                intake.screen.resize(size);
                intake.take_in(&input[..input.len().min(100)], &mut Vec::new());
                let _ =
                    (intake.screen.text(), intake.screen.picture(), intake.screen.snapshot(), intake.behind_prompt());
            }
        }
        assert_eq!(intake.screen.failures(), 0, "the emulator began anew");
        (sequences(input), whole.cursor.len(), whole.replies.is_empty(), whole.zones.len().min(4))
    });
}
