//! Tests of the page's additions to the emulator, from the bytes that a program prints to the resulting cells and
//! answers.

use proptest::prelude::*;

use crate::history::History;
use crate::intake::OutputPipeline;
use crate::screen::{Emulator, Size};
use crate::transcript::Transcript;

/// A screen, and the answers that its program received.
struct TestScreen {
    intake: OutputPipeline,
    replies: Vec<u8>,
}

impl TestScreen {
    fn new(cols: u16, rows: u16) -> Self {
        let transcript = Transcript::new(History::new(1 << 20), None);
        Self {
            intake: OutputPipeline::new(transcript, Box::new(Emulator::new(Size { cols, rows }))),
            replies: Vec::new(),
        }
    }

    fn print(mut self, bytes: &str) -> Self {
        self.intake.take_in(bytes.as_bytes(), &mut self.replies);
        self
    }

    fn text(&self) -> String {
        self.intake.screen.text()
    }

    fn replies(&self) -> String {
        String::from_utf8(self.replies.clone()).expect("answers are ASCII")
    }

    /// Row and column of the cursor, from 1 as in sequences.
    fn cursor(&self) -> (u16, u16) {
        let cursor = self.intake.screen.cursor();
        (cursor.row + 1, cursor.col + 1)
    }
}

fn print(bytes: &str) -> TestScreen {
    TestScreen::new(10, 5).print(bytes)
}

/// Five rows of five letters, `a` to `y`.
const LETTERS: &str = "abcde\r\nfghij\r\nklmno\r\npqrst\r\nuvwxy";

/// The scroll region is the middle nine letters, `ghi`, `lmn`, `qrs`.
const MIDDLE: &str = "\x1b[?69h\x1b[2;4s\x1b[2;4r";

#[test]
fn margins_bound_moves_on_left_and_right() {
    let cases: &[(&str, &str, &str)] = &[
        ("IND at the bottom", "\x1b[4;3H\x1bD", "abcde\nflmnj\nkqrso\np   t\nuvwxy"),
        ("LF outside the sides", "\x1b[4;1H\n", "abcde\nfghij\nklmno\npqrst\nuvwxy"),
        ("RI at the top", "\x1b[2;3H\x1bM", "abcde\nf   j\nkghio\nplmnt\nuvwxy"),
        ("SU", "\x1b[2S", "abcde\nfqrsj\nk   o\np   t\nuvwxy"),
        ("SD", "\x1b[T", "abcde\nf   j\nkghio\nplmnt\nuvwxy"),
        ("IL", "\x1b[3;3H\x1b[L", "abcde\nfghij\nk   o\nplmnt\nuvwxy"),
        ("IL outside", "\x1b[1;3H\x1b[L", "abcde\nfghij\nklmno\npqrst\nuvwxy"),
        ("DL", "\x1b[2;2H\x1b[99M", "abcde\nf   j\nk   o\np   t\nuvwxy"),
        ("ICH", "\x1b[2;3H\x1b[@", "abcde\nfg hj\nklmno\npqrst\nuvwxy"),
        ("DCH", "\x1b[2;2H\x1b[2P", "abcde\nfi  j\nklmno\npqrst\nuvwxy"),
        ("DCH right of the margin", "\x1b[2;5H\x1b[P", "abcde\nfghij\nklmno\npqrst\nuvwxy"),
        ("DECIC", "\x1b[3;3H\x1b['}", "abcde\nfg hj\nkl mo\npq rt\nuvwxy"),
        ("DECDC", "\x1b[3;3H\x1b[9'~", "abcde\nfg  j\nkl  o\npq  t\nuvwxy"),
        ("DECBI", "\x1b[3;2H\x1b6", "abcde\nf ghj\nk lmo\np qrt\nuvwxy"),
        ("DECFI", "\x1b[3;4H\x1b9", "abcde\nfhi j\nkmn o\nprs t\nuvwxy"),
        ("SL", "\x1b[3;3H\x1b[ @", "abcde\nfhi j\nkmn o\nprs t\nuvwxy"),
        ("SR", "\x1b[3;3H\x1b[2 A", "abcde\nf  gj\nk  lo\np  qt\nuvwxy"),
        ("wrapping", "\x1b[3;4H123", "abcde\nfghij\nklm1o\np23st\nuvwxy"),
        ("wrapping at the bottom", "\x1b[4;4H12", "abcde\nflmnj\nkqr1o\np2  t\nuvwxy"),
        ("wrapping a wide character", "\x1b[3;4H漢", "abcde\nfghij\nklmno\np漢st\nuvwxy"),
        ("inserting", "\x1b[4h\x1b[2;2H12", "abcde\nf12gj\nklmno\npqrst\nuvwxy"),
        ("no wrapping", "\x1b[?7l\x1b[3;3H123", "abcde\nfghij\nkl13o\npqrst\nuvwxy"),
    ];
    for (name, bytes, expected) in cases {
        assert_eq!(print(&format!("{LETTERS}{MIDDLE}{bytes}")).text(), *expected, "{name}");
    }
}

#[test]
fn cursor_stops_at_margins_and_counts_in_origin_mode() {
    let cases: &[(&str, &str, (u16, u16))] = &[
        ("CUU stops at the top", "\x1b[3;3H\x1b[9A", (2, 3)),
        ("CUU from above passes the margin", "\x1b[1;3H\x1b[9A", (1, 3)),
        ("CUD stops at the bottom", "\x1b[3;3H\x1b[9B", (4, 3)),
        ("CUF stops at the right", "\x1b[3;3H\x1b[9C", (3, 4)),
        ("CUF beyond the margin passes it", "\x1b[3;5H\x1b[99C", (3, 10)),
        ("CUB stops at the left", "\x1b[3;3H\x1b[9D", (3, 2)),
        ("HPR does not stop", "\x1b[3;3H\x1b[5a", (3, 8)),
        ("VPR does not stop", "\x1b[3;3H\x1b[9e", (5, 3)),
        ("CR goes to the left margin", "\x1b[3;4H\r", (3, 2)),
        ("CR from before it goes to the edge", "\x1b[3;1H\r", (3, 1)),
        ("CNL", "\x1b[3;4H\x1b[E", (4, 2)),
        ("HT stops at the right", "\x1b[3;3H\t", (3, 4)),
        ("CBT does not stop", "\x1b[3;3H\x1b[Z", (3, 1)),
        ("CUP counts from the corner", "\x1b[?6h\x1b[2;2H", (3, 3)),
        ("CUP stays inside", "\x1b[?6h\x1b[9;9H", (4, 4)),
        ("CHA", "\x1b[?6h\x1b[2;2H\x1b[1G", (3, 2)),
        ("VPA", "\x1b[?6h\x1b[2;2H\x1b[3d", (4, 3)),
        ("DECRC turns origin mode off again", "\x1b[1;1H\x1b7\x1b[?6h\x1b8\x1b[5;5H", (5, 5)),
        ("DECSTR", "\x1b[?6h\x1b[!p\x1b[1;1H\x1b[9C", (1, 10)),
        ("turning them off", "\x1b[?69l\x1b[3;3H\x1b[9C", (3, 10)),
        ("invalid margins", "\x1b[4;2s\x1b[3;3H\x1b[9C", (3, 4)),
    ];
    for (name, bytes, expected) in cases {
        assert_eq!(print(&format!("{MIDDLE}{bytes}")).cursor(), *expected, "{name}");
    }
}

#[test]
fn setting_margins_does_not_save_the_cursor() {
    assert_eq!(print("\x1b[3;3H\x1b7\x1b[?69h\x1b[2;4s\x1b8").cursor(), (3, 3));
    assert_eq!(print("\x1b[3;3H\x1b[s\x1b[1;1H\x1b[u").cursor(), (3, 3));
}

#[test]
fn lower_margin_and_erasing_above_work_from_any_row() {
    // The emulator's own ED 1 omits the first row when the cursor is on the second, and its DCH clears cells before the
    // cursor.
    assert_eq!(print(&format!("{LETTERS}\x1b[2;2H\x1b[1J")).text(), "\n  hij\nklmno\npqrst\nuvwxy");
    assert_eq!(print("abcdefghij\x1b[1;8H\x1b[99P").text(), "abcdefg");
}

#[test]
fn rectangles_are_filled_erased_and_copied() {
    let cases: &[(&str, &str, &str)] = &[
        ("DECFRA", "\x1b[37;2;2;3;3$x", "abcde\nf%%ij\nk%%no\npqrst\nuvwxy"),
        ("DECFRA with a control character", "\x1b[7;2;2;3;3$x", "abcde\nfghij\nklmno\npqrst\nuvwxy"),
        ("DECERA", "\x1b[2;2;3;3$z", "abcde\nf  ij\nk  no\npqrst\nuvwxy"),
        ("DECERA of everything", "\x1b[$z", ""),
        ("upside down", "\x1b[3;3;2;2$z", "abcde\nfghij\nklmno\npqrst\nuvwxy"),
        ("beyond the screen", "\x1b[5;4;99;99$z", "abcde\nfghij\nklmno\npqrst\nuvw"),
        ("DECCRA that overlaps", "\x1b[1;1;2;2;1;2;2;1$v", "abcde\nfabij\nkfgno\npqrst\nuvwxy"),
        ("DECCRA beyond the screen", "\x1b[1;1;9;9;1;5;4;1$v", "abcde\nfghij\nklmno\npqrst\nuvwabcde"),
        ("in origin mode", "\x1b[?69h\x1b[2;4s\x1b[2;4r\x1b[?6h\x1b[1;1;9;1$z", "abcde\nf hij\nk mno\np rst\nuvwxy"),
        ("on a half of a wide character", "\x1b[1;1H漢\x1b[1;2;1;2$z", "  cde\nfghij\nklmno\npqrst\nuvwxy"),
        ("not on a VT300", "\x1b[63\"pa\x1b[37;1;1;1;1$x", "a"),
    ];
    for (name, bytes, expected) in cases {
        assert_eq!(print(&format!("{LETTERS}{bytes}")).text(), *expected, "{name}");
    }
}

#[test]
fn erasing_half_a_wide_character_erases_all_of_it() {
    for (erase, expected) in [
        ("\x1b[1;3H\x1b[K", "a"),
        ("\x1b[1;2H\x1b[1K", "   b"),
        ("\x1b[1;3H\x1b[J", "a"),
        ("\x1b[1;2H\x1b[1J", "   b"),
        ("\x1b[1;3H\x1b[X", "a  b"),
        ("\x1b[1;3H\x1b[P", "a b"),
        ("\x1b[1;3H\x1b[@", "a   b"),
        ("\x1b[1;3Hx", "a xb"),
        ("\x1b[1;4H\x1b[K", "a漢"),
        ("\x1b[1;1H\x1b[1K", " 漢b"),
    ] {
        assert_eq!(print(&format!("a漢b{erase}")).text(), expected, "{erase:?}");
    }
}

#[test]
fn attributes_change_in_a_rectangle_or_along_the_text() {
    let along = print(&format!("{LETTERS}\x1b[1;5;2;1;1$r"));
    let ansi = along.intake.screen.ansi();
    let lines: Vec<_> = ansi.lines().take(2).collect();
    assert_eq!(lines, ["abcd\x1b[0;1me\x1b[m", "\x1b[0;1mf\x1b[0mghij"]);
    let rectangle = print("abcde\x1b[2*x\x1b[1;2;1;3;7$t");
    assert_eq!(rectangle.intake.screen.ansi(), "a\x1b[0;7mbc\x1b[0mde");
    let back = rectangle.print("\x1b[1;2;1;3;7$t");
    assert_eq!(back.intake.screen.ansi(), "abcde");
}

#[test]
fn protected_cells_survive_selective_erasing() {
    // "a" and "c" are protected, "b" is not.
    let dec = "\x1b[1\"qa\x1b[0\"qb\x1b[1\"qc\x1b[2\"q";
    let iso = "\x1bVa\x1bWb\x1bVc\x1bW";
    let cases: &[(&str, &str, &str, &str)] = &[
        ("DECSED", dec, "\x1b[?2J", "a c"),
        ("DECSEL", dec, "\x1b[?1K", "a c"),
        ("DECSERA", dec, "\x1b[1;1;1;9${", "a c"),
        ("DECERA", dec, "\x1b[1;1;1;9$z", ""),
        ("ED", dec, "\x1b[2J", ""),
        ("ECH", dec, "\x1b[1;1H\x1b[3X", ""),
        ("ED", iso, "\x1b[2J", "a c"),
        ("ED to the cursor", iso, "\x1b[1J", "a c"),
        ("EL", iso, "\x1b[2K", "a c"),
        ("ECH", iso, "\x1b[1;1H\x1b[3X", "a c"),
        ("DECSED", iso, "\x1b[?2J", ""),
        ("SGR 0 before the erase", "\x1b[1\"qa\x1b[mc", "\x1b[?2J", "ac"),
        ("DECSTR before the erase", "\x1b[1\"qa\x1b[!pb", "\x1b[?2J", ""),
    ];
    for (name, written, erase, expected) in cases {
        assert_eq!(print(&format!("{written}{erase}")).text(), *expected, "{name} after {written:?}");
    }
}

#[test]
fn queries_are_answered() {
    let cases: &[(&str, &str)] = &[
        ("\x1b[c", "\x1b[?64;6;21;22;28c"),
        ("\x1b[62\"p\x1b[c", "\x1b[?62;6;21;22;28c"),
        ("\x1b[>c", "\x1b[>41;380;0c"),
        ("\x1b[=c", "\x1bP!|00000000\x1b\\"),
        ("\x1b[5n", "\x1b[0n"),
        ("\x1b[2;3H\x1b[6n", "\x1b[2;3R"),
        ("\x1b[2;3H\x1b[?6n", "\x1b[?2;3;1R"),
        ("\x1b[2;4r\x1b[?6h\x1b[6n", "\x1b[1;1R"),
        ("\x1b[?15n\x1b[?75n", "\x1b[?13n\x1b[?70n"),
        ("\x1b[?996n", "\x1b[?997;1n"),
        ("\x1b[?63;7n", "\x1bP7!~0000\x1b\\"),
        // A, and spaces after the written text.
        ("A\x1b[1;1;1;1;1;1*y", "\x1bP1!~FFBF\x1b\\"),
        ("\x1b[2;1;9;9;9;9*y", "\x1bP2!~0000\x1b\\"),
        ("\x1b[14t\x1b[16t\x1b[18t\x1b[19t", "\x1b[4;80;80t\x1b[6;16;8t\x1b[8;5;10t\x1b[9;5;10t"),
        ("\x1b[8;50;100t\x1b[18t", "\x1b[8;5;10t"),
        ("\x1b[1;31mx\x1bP$qm\x1b\\", "\x1bP1$r0;1;31m\x1b\\"),
        ("\x1b[2;4r\x1bP$qr\x1b\\", "\x1bP1$r2;4r\x1b\\"),
        ("\x1b[?69h\x1b[2;4s\x1bP$qs\x1b\\", "\x1bP1$r2;4s\x1b\\"),
        ("\x1b[5 q\x1bP$q q\x1b\\", "\x1bP1$r5 q\x1b\\"),
        ("\x1b[1\"q\x1bP$q\"q\x1b\\", "\x1bP1$r1\"q\x1b\\"),
        ("\x1bP$q\"p\x1b\\", "\x1bP1$r64;1\"p\x1b\\"),
        ("\x1bP$qnonsense\x1b\\", "\x1bP0$r\x1b\\"),
        ("\x1bP+q436F\x1b\\", "\x1bP1+r436F=323536\x1b\\"),
        ("\x1bP+q436F;6162\x1b\\", "\x1bP1+r436F=323536\x1b\\"),
        ("\x1bP+q6162\x1b\\", "\x1bP0+r\x1b\\"),
        ("\x1bPunknown\x1b\\", ""),
    ];
    for (asked, expected) in cases {
        assert_eq!(print(asked).replies(), *expected, "{asked:?}");
    }
}

#[test]
fn modes_are_reported_saved_and_restored() {
    let cases: &[(&str, &str)] = &[
        ("\x1b[?7$p\x1b[?7l\x1b[?7$p", "\x1b[?7;1$y\x1b[?7;2$y"),
        ("\x1b[?69$p\x1b[?69h\x1b[?69$p", "\x1b[?69;2$y\x1b[?69;1$y"),
        ("\x1b[?47h\x1b[?1049$p", "\x1b[?1049;1$y"),
        ("\x1b=\x1b[?66$p", "\x1b[?66;1$y"),
        ("\x1b[?5h\x1b[?5$p", "\x1b[?5;1$y"),
        ("\x1b[?60$p\x1b[?9999$p", "\x1b[?60;4$y\x1b[?9999;0$y"),
        ("\x1b[4h\x1b[4$p\x1b[20$p\x1b[1$p\x1b[99$p", "\x1b[4;1$y\x1b[20;2$y\x1b[1;4$y\x1b[99;0$y"),
        ("\x1b[?7s\x1b[?7l\x1b[?7r\x1b[?7$p", "\x1b[?7;1$y"),
        // An unsaved mode is not restored, and a VT200 does not know the query.
        ("\x1b[?7l\x1b[?7r\x1b[?7$p", "\x1b[?7;2$y"),
        ("\x1b[62\"p\x1b[?7$p", ""),
    ];
    for (asked, expected) in cases {
        assert_eq!(print(asked).replies(), *expected, "{asked:?}");
    }
}

#[test]
fn backspace_crosses_a_line_if_requested() {
    let cases: &[(&str, (u16, u16))] = &[
        ("\x1b[2;1H\x08", (2, 1)),
        ("\x1b[?45h\x1b[2;1H\x08", (1, 10)),
        ("\x1b[?45h\x1b[2;3H\x1b[5D", (1, 8)),
        ("\x1b[?45h\x1b[?7l\x1b[2;1H\x08", (2, 1)),
        ("\x1b[?45h\x1b[2;3r\x1b[2;1H\x08", (3, 10)),
        ("\x1b[?45h\x1b[?69h\x1b[3;5s\x1b[2;3H\x08", (1, 5)),
        // One position after the last column, before the next line.
        ("\x1b[?45h1234567890\x08", (1, 10)),
        ("\x1b[?45h\x1b[65535D", (1, 1)),
    ];
    for (bytes, expected) in cases {
        assert_eq!(print(bytes).cursor(), *expected, "{bytes:?}");
    }
}

#[test]
fn tab_stops_are_set_cleared_and_kept_on_resize() {
    let tabbed = |bytes: &str| TestScreen::new(30, 5).print(bytes).cursor().1;
    assert_eq!(tabbed("\t"), 9);
    assert_eq!(tabbed("\x1b[4G\x1bH\r\t"), 4);
    assert_eq!(tabbed("\x1b[9G\x1b[g\r\t"), 17);
    assert_eq!(tabbed("\x1b[3g\t"), 30);
    assert_eq!(tabbed("\x1b[3g\x1b[?5W\x1b[2I"), 17);
    assert_eq!(tabbed("\x1b[20G\x1b[2Z"), 9);
    let mut screen = TestScreen::new(10, 5).print("\x1b[4G\x1bH");
    screen.intake.screen.resize(Size { cols: 30, rows: 5 });
    assert_eq!(screen.print("\r\t\t\t").cursor().1, 17);
}

#[test]
fn tab_at_the_end_of_a_full_line_keeps_the_cursor() {
    assert_eq!(print("1234567890\tx").text(), "1234567890\nx");
}

#[test]
fn alternate_screen_has_three_modes() {
    let cases: &[(&str, &str, (u16, u16))] = &[
        ("main\x1b[?47h", "", (1, 5)),
        ("main\x1b[?47halt\x1b[?47l", "main", (1, 8)),
        ("main\x1b[?47h\ralt\x1b[?47l\x1b[?47h", "alt", (1, 4)),
        ("main\x1b[?1047h\ralt\x1b[?1047l\x1b[?1047h", "", (1, 4)),
        ("main\x1b[?1049h\ralt\x1b[?1049l", "main", (1, 5)),
        ("main\x1b[?1048h\r\x1b[?1048l", "main", (1, 5)),
    ];
    for (bytes, text, cursor) in cases {
        let screen = print(bytes);
        assert_eq!((screen.text().as_str(), screen.cursor()), (*text, *cursor), "{bytes:?}");
    }
}

#[test]
fn new_line_mode_and_screen_alignment_test_work() {
    assert_eq!(print("\x1b[20hab\ncd").text(), "ab\ncd");
    let aligned = print("\x1b[2;3r\x1b[?69h\x1b[2;3s\x1b#8\x1b[9A\x1b[9D");
    assert_eq!((aligned.text(), aligned.cursor()), (["EEEEEEEEEE"; 5].join("\n"), (1, 1)));
}

#[test]
fn titles_are_stacked_and_never_reported_to_the_program() {
    let mut screen = print("\x1b]2;one\x07\x1b[22t\x1b]2;two\x07\x1b[21t\x1b[20t");
    assert_eq!(screen.replies(), "\x1b]l\x1b\\\x1b]L\x1b\\");
    assert_eq!(screen.intake.screen.title(), "two");
    screen = screen.print("\x1b[23;0t");
    assert_eq!(screen.intake.screen.title(), "one");
    screen = screen.print(&"\x1b[22t".repeat(100_000)).print("\x1b]2;last\x07").print(&"\x1b[23t".repeat(11));
    assert_eq!(screen.intake.screen.title(), "one");
}

#[test]
fn held_output_precedes_page_operations() {
    assert_eq!(print("\x1b[?2026habc\x1b[1;1;1;1$z\x1b[?2026l").text(), " bc");
}

#[test]
fn snapshot_has_the_margins() {
    let original = print(&format!("{LETTERS}{MIDDLE}\x1b[?6h\x1b[2;2H"));
    let copy = print(&original.intake.screen.snapshot());
    assert_eq!((copy.text(), copy.cursor()), (original.text(), original.cursor()));
    let more = "\x1b[9;9H123\n\x1b[6n";
    let (original, copy) = (original.print(more), copy.print(more));
    assert_eq!((copy.text(), copy.replies()), (original.text(), original.replies()));
}

/// The parts of a sequence, for noise that resembles real sequences.
const BEGINNINGS: &[&str] =
    &["\x1b[", "\x1b[?", "\x1b[>", "\x1b[", "\x1b", "\x1bP$q", "\x1bP+q", "\x1b]4;", "\x1b]11;", "\x1b]2;", "\x1b#"];
const MIDDLES: &[&str] = &[
    "",
    "",
    "0",
    "1",
    "2",
    "3",
    "5;9",
    "2;4",
    "9999;1",
    "1;1;3;3",
    "37;2;2;65535;65535",
    "69",
    "6",
    "45",
    "?",
    "#fff",
];
const ENDS: &[&str] = &[
    "h", "h", "l", "s", "r", "u", "H", "A", "B", "C", "D", "G", "L", "M", "P", "@", "S", "T", "X", "J", "K", "a", "b",
    "e", "g", "I", "Z", "m", "n", "c", "t", "$p", "!p", "\"p", "\"q", "$r", "$t", "$v", "$x", "$z", "${", "*x", "*y",
    "'}", "'~", " @", " A", "6", "7", "8", "9", "M", "D", "E", "V", "W", "H", "c", "m\x1b\\", "\x1b\\", "\x07",
];
const TEXTS: &[&str] =
    &["word", "漢字", "e\u{301}", "\t", "\r\n", "\n", "\x08", "👩\u{200d}💻", "1234567890123456789012345"];

fn sequence() -> impl Strategy<Value = String> {
    let pick = |list: &'static [&'static str]| prop::sample::select(list);
    prop_oneof![
        (pick(BEGINNINGS), pick(MIDDLES), pick(ENDS)).prop_map(|(begin, middle, end)| format!("{begin}{middle}{end}")),
        pick(TEXTS).prop_map(str::to_owned),
    ]
}

/// Prints sequences with occasional resizes. Returns the number of failures of the emulator.
fn failures(steps: &[(String, Option<(u16, u16)>)]) -> u32 {
    let transcript = Transcript::new(History::new(1 << 20), None);
    let mut intake = OutputPipeline::new(transcript, Box::new(Emulator::new(Size { cols: 20, rows: 6 })));
    for (bytes, size) in steps {
        intake.take_in(bytes.as_bytes(), &mut Vec::new());
        if let Some((cols, rows)) = *size {
            intake.screen.resize(Size { cols, rows });
        }
        let Size { cols, rows } = intake.screen.size();
        let cursor = intake.screen.cursor();
        assert!(cursor.col < cols && cursor.row < rows, "the cursor left the screen after {bytes:?}");
    }
    let _ = (intake.screen.text(), intake.screen.ansi(), intake.screen.snapshot());
    intake.screen.failures()
}

fn steps(most: usize) -> impl Strategy<Value = Vec<(String, Option<(u16, u16)>)>> {
    let size = prop::option::weighted(0.05, (2u16..40, 2u16..15));
    prop::collection::vec((sequence(), size), 0..most)
}

proptest! {
    #[test]
    fn emulator_survives_any_sequences(steps in steps(120)) {
        prop_assert_eq!(failures(&steps), 0);
    }

    #[test]
    fn no_answer_repeats_output_text(text in "[g-z]{6,12}") {
        let queries = format!(
            "\x1b]0;{text}\x07\x1b]1;{text}\x07{text}\x1b[20t\x1b[21t\x1b[22t\x1b[23t\x1b[21t\x1bP$q{text}\x1b\\\
             \x1bP+q{text}\x1b\\\x1b]4;1;{text}\x07\x1b]4;1;?\x07\x1b]11;{text}\x07\x1b]11;?\x07\x1b]52;c;{text}\x07\
             \x1b]52;c;?\x07\x1b[>q\x1b[1;1;1;1;9;9*y\x1b[c\x1b[6n"
        );
        prop_assert!(!print(&queries).replies().contains(&text));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Takes minutes: `cargo test -p steplatch-terminal -- --ignored no_long`.
    #[test]
    #[ignore = "a long search for sequences that make the emulator fail"]
    fn long_runs_of_sequences_never_fail(steps in steps(1500)) {
        prop_assert_eq!(failures(&steps), 0);
    }
}
