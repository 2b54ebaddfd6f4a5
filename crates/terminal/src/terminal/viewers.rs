//! Output for the viewers of a terminal, without the queries in it.
//!
//! A program queries its terminal for the cursor, colours and capabilities, and receives the answer as input. This
//! terminal has already answered; the terminal of each viewer would answer again. A viewer's terminal would also
//! execute sequences for its window and desktop: titles, clipboards, notifications, files to save. A watched program
//! must not control a viewer's desktop.
//!
//! The filter recognises the sequences of xterm's ctlseqs, and of kitty for sequences that xterm lacks. It passes all
//! other bytes unchanged, and holds back only an unfinished sequence. The bytes before and after a removed sequence
//! must not form a new sequence: the filter drops an interrupted sequence, and ends a string that the removed sequence
//! would have ended.
//!
//! For output from a remote host ([`QueryFilter::drawing_only`]), the filter passes only permitted sequences:
//! sequences that draw, and modes that end when the viewer leaves. The effect of other sequences on a terminal is
//! unknown.

/// Maximum length of a held unfinished sequence, in bytes.
const MAX_SEQUENCE_BYTES: usize = 4096;

const ESC: u8 = 0x1b;
/// String terminator.
const ST: &[u8] = b"\x1b\\";
/// Delete. Has no effect within a sequence.
const DEL: u8 = 0x7f;
const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
/// Enquiry. Some terminals answer with their name.
const ENQ: u8 = 0x05;
/// The first byte of the C1 controls in UTF-8. `C2 9B` is equivalent to `ESC [`.
const C1: u8 = 0xc2;

/// Removes queries from a stream that arrives in arbitrary portions.
#[derive(Debug, Default)]
pub struct QueryFilter {
    /// True if only sequences that draw pass.
    draws_only: bool,
    state: State,
    /// The unfinished sequence.
    held: Vec<u8>,
    /// Beginning of its parameters in `held`.
    body_start: usize,
    /// True if the filter has passed the beginning of a string, but not its end.
    in_string: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Text, and strings that are not queries.
    #[default]
    Text,
    /// After the first byte of a possible C1 control.
    C1,
    Escape,
    Csi,
    /// The beginning of a device control string, up to its final byte.
    Device,
    /// An operating system command; after an `ESC` that may end it.
    Command {
        escaped: bool,
    },
    /// The first byte of an application program command.
    Application,
    /// A control sequence beyond the maximum length, up to its end.
    DroppingCsi,
    /// A removed string.
    Dropping {
        bell: bool,
        escaped: bool,
    },
}

impl QueryFilter {
    /// Resets the state, because the next bytes do not continue the previous bytes.
    pub fn reset(&mut self) {
        *self = Self { draws_only: self.draws_only, ..Self::default() };
    }

    /// Creates a filter that passes only known sequences that draw and modes that end with the view.
    #[must_use]
    pub fn drawing_only() -> Self {
        Self { draws_only: true, ..Self::default() }
    }

    /// Returns the permitted part of the held bytes and `bytes`.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut output = Vec::with_capacity(self.held.len() + bytes.len());
        let mut consumed = 0;
        while consumed < bytes.len() {
            if self.state == State::Text {
                let remaining = &bytes[consumed..];
                let stop = memchr::memchr3(ESC, C1, ENQ, remaining).unwrap_or(remaining.len());
                output.extend_from_slice(&remaining[..stop]);
                consumed += stop;
            }
            let Some(&byte) = bytes.get(consumed) else { break };
            if self.consume(byte, &mut output) {
                consumed += 1;
            }
        }
        output
    }

    /// Processes a byte. Returns false for a byte to process again, as the beginning of another sequence.
    fn consume(&mut self, byte: u8, output: &mut Vec<u8>) -> bool {
        match self.state {
            State::Text => match byte {
                ESC => self.begin(State::Escape, byte),
                C1 => self.begin(State::C1, byte),
                ENQ => {}
                _ => output.push(byte),
            },
            State::C1 => match byte {
                0x90 => self.enter(State::Device, byte),
                0x98 | 0x9e if self.draws_only => self.drop_string(false, output),
                0x9a => self.drop_held(output),
                0x9b => self.enter(State::Csi, byte),
                0x9d => self.enter(State::Command { escaped: false }, byte),
                0x9f => self.enter(State::Application, byte),
                0x80..=0xbf => self.finish(byte, output),
                // An incomplete character.
                _ => return self.give_up(output),
            },
            State::Escape => match byte {
                b'[' => self.enter(State::Csi, byte),
                b']' => self.enter(State::Command { escaped: false }, byte),
                b'P' => self.enter(State::Device, byte),
                b'_' => self.enter(State::Application, byte),
                // The title of screen and tmux.
                b'k' => self.drop_string(false, output),
                b'X' | b'^' if self.draws_only => self.drop_string(false, output),
                // DECID, the oldest form of the DA query.
                b'Z' => self.drop_held(output),
                DEL => {}
                0x30..=0x7e if self.draws_only && !escape_draws(&self.held[1..], byte) => self.drop_held(output),
                ESC | 0x80.. => return self.give_up(output),
                0x00..=0x2f if !matches!(byte, CAN | SUB) => self.hold(byte, output),
                _ => self.finish(byte, output),
            },
            State::Csi => match byte {
                ESC => return self.give_up(output),
                CAN | SUB => self.finish(byte, output),
                0x40..=0x7e if expects_answer(&self.held[self.body_start..], byte) => self.drop_held(output),
                0x40..=0x7e if self.draws_only && !control_draws(&self.held[self.body_start..], byte) => {
                    self.drop_held(output);
                }
                0x40..=0x7e => self.finish(byte, output),
                DEL.. => {}
                _ => self.hold(byte, output),
            },
            State::DroppingCsi => match byte {
                ESC => return self.give_up(output),
                0x40..=0x7e | CAN | SUB => self.state = State::Text,
                _ => {}
            },
            State::Device => match byte {
                ESC => return self.give_up(output),
                // DECRQSS and XTGETTCAP.
                b'q' if self.held[self.body_start..].iter().any(|byte| matches!(byte, b'$' | b'+')) => {
                    self.drop_string(false, output);
                }
                // Sixel pictures draw.
                0x40..=0x7e if self.draws_only && !is_picture(&self.held[self.body_start..], byte) => {
                    self.drop_string(false, output);
                }
                0x40..=0x7e | CAN | SUB => self.finish(byte, output),
                DEL.. => {}
                _ => self.hold(byte, output),
            },
            State::Command { escaped } => return self.take_command(byte, escaped, output),
            State::Application => match byte {
                ESC => return self.give_up(output),
                // Pictures of kitty's protocol require answers and this terminal shows no pictures.
                b'G' => self.drop_string(false, output),
                _ if self.draws_only && !matches!(byte, CAN | SUB) => self.drop_string(false, output),
                _ => self.finish(byte, output),
            },
            State::Dropping { escaped: true, .. } if byte == b'\\' => self.state = State::Text,
            State::Dropping { escaped: true, .. } => {
                self.begin(State::Escape, ESC);
                return false;
            }
            State::Dropping { bell, escaped: false } => match byte {
                ESC => self.state = State::Dropping { bell, escaped: true },
                BEL if bell => self.state = State::Text,
                CAN | SUB => self.state = State::Text,
                _ => {}
            },
        }
        true
    }

    fn take_command(&mut self, byte: u8, is_escaped: bool, output: &mut Vec<u8>) -> bool {
        let is_query = || {
            let body = &self.held[self.body_start..];
            is_command_query(body) || (self.draws_only && !command_draws(body))
        };
        match byte {
            b'\\' if is_escaped => {
                if is_query() {
                    self.drop_held(&mut Vec::new());
                } else {
                    output.append(&mut self.held);
                    output.extend_from_slice(ST);
                }
                self.state = State::Text;
            }
            _ if is_escaped => {
                // The following sequence ends the command, and the filter may remove that sequence.
                if !is_query() {
                    output.append(&mut self.held);
                    output.extend_from_slice(ST);
                }
                self.held.clear();
                self.begin(State::Escape, ESC);
                return false;
            }
            ESC => self.state = State::Command { escaped: true },
            DEL => {}
            BEL | CAN | SUB if is_query() => self.drop_held(&mut Vec::new()),
            BEL | CAN | SUB => self.finish(byte, output),
            b';' if self.draws_only && !command_draws(&self.held[self.body_start..]) => self.drop_string(true, output),
            b';' if parse_number(&self.held[self.body_start..]).is_some_and(controls_window) => {
                self.drop_string(true, output);
            }
            b';' if matches!(parse_number(&self.held[self.body_start..]), Some(7 | 8 | 133)) => {
                // Directories, links and marks of any length are not queries.
                self.finish(byte, output);
            }
            _ => self.hold(byte, output),
        }
        true
    }

    fn begin(&mut self, state: State, byte: u8) {
        self.held.clear();
        self.held.push(byte);
        self.state = state;
    }

    fn enter(&mut self, state: State, byte: u8) {
        self.held.push(byte);
        self.body_start = self.held.len();
        self.state = state;
    }

    /// Holds a byte back, up to the maximum length.
    fn hold(&mut self, byte: u8, output: &mut Vec<u8>) {
        // A terminal answers ENQ even within a sequence.
        if byte == ENQ {
            return;
        }
        self.held.push(byte);
        if self.held.len() < MAX_SEQUENCE_BYTES {
            return;
        }
        // Drop the sequence, because its end could make it a query, and no real program prints such a long sequence.
        match self.state {
            State::Escape if self.held.iter().skip(1).all(|byte| *byte < 0x20) => {
                self.drop_held(output);
                self.begin(State::Escape, ESC);
            }
            State::Escape | State::Csi => {
                self.drop_held(output);
                self.state = State::DroppingCsi;
            }
            State::Device => self.drop_string(false, output),
            _ => self.drop_string(true, output),
        }
    }

    /// Passes the held bytes and this byte.
    fn finish(&mut self, byte: u8, output: &mut Vec<u8>) {
        output.append(&mut self.held);
        output.push(byte);
        self.in_string = match self.state {
            State::C1 => self.in_string,
            State::Escape => matches!(byte, b'X' | b'^'),
            State::Device | State::Application | State::Command { .. } => !matches!(byte, BEL | CAN | SUB),
            State::Text | State::Csi | State::DroppingCsi | State::Dropping { .. } => false,
        };
        self.state = State::Text;
    }

    /// Drops the held bytes, because the next byte begins another sequence.
    fn give_up(&mut self, output: &mut Vec<u8>) -> bool {
        self.drop_held(output);
        false
    }

    /// Drops a sequence, but passes its control characters, because they take effect before the sequence.
    fn drop_held(&mut self, output: &mut Vec<u8>) {
        self.end_string(output);
        output.extend(self.held.iter().filter(|byte| **byte < 0x20 && !matches!(**byte, ESC | ENQ)));
        self.held.clear();
        self.state = State::Text;
    }

    fn drop_string(&mut self, ends_with_bell: bool, output: &mut Vec<u8>) {
        self.end_string(output);
        self.held.clear();
        self.state = State::Dropping { bell: ends_with_bell, escaped: false };
    }

    /// Ends the string that a dropped sequence ended.
    fn end_string(&mut self, output: &mut Vec<u8>) {
        if std::mem::take(&mut self.in_string) && self.held.first() == Some(&ESC) {
            output.extend_from_slice(ST);
        }
    }
}

/// Returns whether a control sequence with this body and final byte expects an answer.
fn expects_answer(body: &[u8], final_byte: u8) -> bool {
    let marks: Vec<u8> = body.iter().copied().filter(|byte| matches!(byte, 0x20..=0x2f | 0x3c..=0x3f)).collect();
    match (marks.as_slice(), final_byte) {
        // DA in its three forms. Some terminals ignore further marks.
        (marks, b'c') => marks.first() != Some(&b'?'),
        // DSR and DECDSR; DECREQTPARM.
        ([] | [b'?'], b'n') | ([], b'x') => true,
        // Window operations that report.
        ([], b't') => matches!(parse_number(body), Some(11 | 13..=16 | 18..=21)),
        // DECRQM; XTVERSION; keyboard modes of kitty; XTQMODKEYS; XTSMGRAPHICS.
        ([b'$'] | [b'?', b'$'], b'p') | ([b'>'], b'q') | ([b'?'], b'u' | b'm' | b'S') => true,
        // DECRQCRA; DECRQPSR; DECRQTSR; DECRQUPSS; DECRQLP; XTREPORTCOLORS; XTREPORTSGR.
        ([b'*'], b'y') | ([b'$'], b'w' | b'u') | ([b'&'], b'u') | ([b'\''], b'|') | ([b'#'], b'R' | b'|') => true,
        _ => false,
    }
}

/// Returns whether an operating system command sets colours (4, 10 to 12, and their resets), a link (8) or a mark
/// (133).
fn command_draws(body: &[u8]) -> bool {
    let number = body.split(|byte| *byte == b';').next().unwrap_or_default();
    matches!(number, b"4" | b"8" | b"10" | b"11" | b"12" | b"104" | b"110" | b"111" | b"112" | b"133")
}

/// Returns whether a control sequence with this body and final byte draws, or changes a mode that ends with the view.
fn control_draws(body: &[u8], final_byte: u8) -> bool {
    let marks: Vec<u8> = body.iter().copied().filter(|byte| matches!(byte, 0x20..=0x2f | 0x3c..=0x3f)).collect();
    let modes = |permitted: &[u16]| {
        let numbers = body.iter().copied().filter(|byte| *byte >= 0x20 && *byte != b'?').collect::<Vec<u8>>();
        let known_mode = |number: &[u8]| {
            let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
            number.is_some_and(|number| permitted.contains(&number))
        };
        numbers.split(|byte| *byte == b';').all(known_mode)
    };
    match (marks.as_slice(), final_byte) {
        // Cursor motions, erasing, inserting, scrolling, tab stops, repetition, colours, margins, the saved cursor.
        (
            [],
            b'@'
            | b'A'..=b'M'
            | b'P'
            | b'S'
            | b'T'
            | b'X'
            | b'Z'
            | b'`'
            | b'a'
            | b'b'
            | b'd'..=b'g'
            | b'm'
            | b'r'
            | b's'
            | b'u',
        ) => true,
        ([], b'h' | b'l') => modes(&ANSI_MODES),
        ([b'?'], b'h' | b'l') => modes(&PRIVATE_MODES),
        // DECSED and DECSEL; DECSTR; DECSCUSR, SL and SR; DECSCA.
        ([b'?'], b'J' | b'K') | ([b'!'], b'p') | ([b' '], b'q' | b'@' | b'A') | ([b'"'], b'q') => true,
        // The keyboard protocols of xterm and of kitty.
        ([b'>'], b'm') | ([b'>' | b'<' | b'='], b'u') => true,
        _ => false,
    }
}

/// IRM and LNM.
const ANSI_MODES: [u16; 2] = [4, 20];

/// Modes of the keypad, the screen, the margins, the cursor, the mouse, the focus and pastes. With these modes, the
/// terminal sends reports only after an action of a person.
const PRIVATE_MODES: [u16; 28] = [
    1, 5, 6, 7, 9, 12, 25, 45, 47, 66, 69, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 1045, 1047, 1048,
    1049, 2004, 2026, 80, 8452,
];

/// Returns whether an escape sequence with these intermediates and final byte draws.
fn escape_draws(intermediates: &[u8], final_byte: u8) -> bool {
    let marks: Vec<u8> = intermediates.iter().copied().filter(|byte| *byte >= 0x20).collect();
    match marks.as_slice() {
        // DECSC, DECRC, the keypad, IND, NEL, HTS, RI, SS2, SS3, RIS, ST and the locking shifts.
        [] => matches!(
            final_byte,
            b'7' | b'8' | b'=' | b'>' | b'D' | b'E' | b'H' | b'M' | b'N' | b'O' | b'c' | b'\\' | b'n' | b'o'
        ),
        // Character sets; DECDHL and DECALN.
        [b'(' | b')' | b'*' | b'+'] => true,
        [b'#'] => matches!(final_byte, b'3'..=b'6' | b'8'),
        _ => false,
    }
}

/// Returns whether a device control string with these parameters and final byte is a picture (sixel).
fn is_picture(body: &[u8], final_byte: u8) -> bool {
    final_byte == b'q' && body.iter().all(|byte| byte.is_ascii_digit() || *byte == b';' || *byte < 0x20)
}

/// Returns whether an operating system command controls the viewer's window or desktop instead of the drawn content:
/// titles (0 to 2), the clipboard (52, 5522), notifications (9, 99, 777), and commands of iTerm2 that save files and
/// set variables (1337).
fn controls_window(number: u32) -> bool {
    matches!(number, 0..=2 | 9 | 52 | 99 | 777 | 1337 | 5522)
}

/// Parses the number at the beginning of `bytes`.
fn parse_number(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.iter().copied().filter(|byte| *byte >= 0x20).take_while(u8::is_ascii_digit);
    digits.fold(None, |number: Option<u32>, digit| {
        Some(number.unwrap_or(0).saturating_mul(10).saturating_add(u32::from(digit - b'0')))
    })
}

/// Returns whether an operating system command expects an answer: it has the value `?`, or its number or name makes it
/// a query.
fn is_command_query(body: &[u8]) -> bool {
    if matches!(parse_number(body), Some(60 | 61)) || parse_number(body).is_some_and(controls_window) {
        return true;
    }
    let mut fields = body.split(|byte| *byte == b';').skip(1);
    fields.any(|field| field.starts_with(b"?") || memchr::memmem::find(field, b"=?").is_some())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::history::History;
    use crate::intake::OutputPipeline;
    use crate::screen::{Emulator, Size};
    use crate::transcript::Transcript;

    fn passed(pieces: &[&[u8]]) -> Vec<u8> {
        let mut viewers = QueryFilter::default();
        pieces.iter().flat_map(|piece| viewers.pass(piece)).collect()
    }

    const QUERIES: [&str; 49] = [
        "\x1b[5n",
        "\x1b[6n",
        "\x1b[?6n",
        "\x1b[?996n",
        "\x1b[c",
        "\x1b[0c",
        "\x1b[>c",
        "\x1b[> c",
        "\x1b[=0c",
        "\x1bZ",
        "\x05",
        "\x1b[4$p",
        "\x1b[?2026$p",
        "\x1b[>q",
        "\x1b[>0q",
        "\x1b[?u",
        "\x1b[14t",
        "\x1b[14;2t",
        "\x1b[18t",
        "\x1b[21t",
        "\x1b[x",
        "\x1b[1;1;1;1;5;5*y",
        "\x1b[1$w",
        "\x1b[?1;1S",
        "\x1bP$qm\x1b\\",
        "\x1bP+q544e\x1b\\",
        "\x1b]11;?\x1b\\",
        "\x1b]11;?\x07",
        "\x1b]4;1;?\x07",
        "\x1b]4;1;red;2;?\x07",
        "\x1b]10;?;?\x07",
        "\x1b]21;foreground=?\x1b\\",
        "\x1b]52;c;aGk=\x07",
        "\x1b]52;c;?\x1b\\",
        "\x1b]052;c;?\x07",
        "\x1b]1337;ReportCellSize\x07",
        "\x1b]1337;File=name=eA==;size=1:eA==\x07",
        "\x1b]1337;SetUserVar=a=eA==\x1b\\",
        "\x1b]9;a notification\x07",
        "\x1b]99;i=1;a notification\x1b\\",
        "\x1b]777;notify;a;b\x07",
        "\x1b]0;what is this? a=?;?\x07",
        "\x1b]002;a title\x1b\\",
        "\x1bka title\x1b\\",
        "\x1b_Gi=1,a=q;AAAA\x1b\\",
        "\u{9b}6n",
        "\u{9d}11;?\x07",
        "\u{90}$qm\x1b\\",
        "\u{9a}",
    ];

    const NON_QUERIES: [&str; 31] = [
        "word",
        "\r\n",
        "\t",
        "\x07",
        "naïve °C 漢字",
        "\u{a0}",
        "\x1b[1;31m",
        "\x1b[K",
        "\x1b[2;3H",
        "\x1b[?25l",
        "\x1b[?1049h",
        "\x1b[!p",
        "\x1b[1\"q",
        "\x1b[2 q",
        "\x1b[u",
        "\x1b[>1u",
        "\x1b[<u",
        "\x1b[22;0t",
        "\x1b[>4;2m",
        "\x1b[?0c",
        "\x1b[3b",
        "\x1b7",
        "\x1b(B",
        "\x1b#8",
        "\x1b]7;file://h/?\x1b\\",
        "\x1b]11;#112233\x07",
        "\x1b]104\x07",
        "\x1b]8;;http://x/?a=?\x1b\\",
        "\x1bPq#0;2;0;0;0~\x1b\\",
        "\x1b[6\x18n",
        "\x1b_other\x1b\\",
    ];

    #[test]
    fn queries_are_removed_and_the_rest_is_forwarded() {
        for question in QUERIES {
            let around = format!("a{question}b");
            assert_eq!(String::from_utf8_lossy(&passed(&[around.as_bytes()])), "ab", "{question:?}");
        }
        for statement in NON_QUERIES {
            let around = format!("a{statement}b");
            assert_eq!(String::from_utf8_lossy(&passed(&[around.as_bytes()])), around);
        }
        assert_eq!(passed(&[b"\x1b[6\r\nn"]), b"\r\n", "control characters in a query take effect");
        assert_eq!(passed(&[b"\x1b]11;?\x1b[31mred"]), b"\x1b[31mred", "a query ended by another sequence");
    }

    /// Remote output is passed on only if it is known to draw.
    #[test]
    fn remote_output_is_forwarded_only_if_it_draws() {
        let drawn = |pieces: &[&[u8]]| -> String {
            let mut viewers = QueryFilter::drawing_only();
            let passed: Vec<u8> = pieces.iter().flat_map(|piece| viewers.pass(piece)).collect();
            String::from_utf8_lossy(&passed).into_owned()
        };
        let sequences = [
            "\x1b]l a title\x1b\\",
            "\x1b]L an icon\x1b\\",
            "\x1b]I/etc/passwd\x1b\\",
            "\x1b];a title\x07",
            "\x1b]+52;c;aGk=\x07",
            "\x1b] 52;c;aGk=\x07",
            "\x1b]30;a title\x07",
            "\x1b]3;WM_CLASS=x\x07",
            "\x1b]7;file://h/etc\x07",
            "\x1b]50;font\x07",
            "\x1b]51;Ecommand\x1b\\",
            "\x1b]440;file.wav\x1b\\",
            "\x1b]5113;ac=send\x1b\\",
            "\x1b]\x07",
            "\x1bP@kitty-cmd{\"cmd\":\"ls\"}\x1b\\",
            "\x1bP@kitty-echo|bHMK\x1b\\",
            "\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\",
            "\x1b_an application\x1b\\",
            "\x1b^a message\x1b\\",
            "\x1bXa string\x1b\\",
            "\u{98}a string\x1b\\",
            "\u{9e}a message\x1b\\",
            "\x1b[5i",
            "\x1b[?5i",
            "\x1b[2t",
            "\x1b[8;5;5t",
            "\x1b[22;0t",
            "\x1b[2h",
            "\x1b[4;2h",
            "\x1b[?2031h",
            "\x1b[?2048h",
            "\x1b[?25;5522h",
            "\x1b[?1001h",
            "\x1b[?1000s",
            "\x1b[h",
            "\x1b[1;2;3;4$r",
            "\x1b[61\"p",
            "\x1b[#{",
            "\x1b F",
            "\x1b%@",
            "\x1bl",
            "\x1b`",
        ];
        for sequence in sequences.into_iter().chain(QUERIES) {
            let around = format!("a{sequence}b");
            // The rest of a sequence that another one ended is text.
            let output = drawn(&[around.as_bytes()]);
            let without_rest = output.replace("\x1b\\", "");
            assert_eq!(without_rest, "ab", "{sequence:?}");
            let at_once: Vec<&[u8]> = around.as_bytes().chunks(1).collect();
            assert_eq!(drawn(&at_once), output, "{sequence:?}, byte by byte");
        }
        let not_drawn = ["\x1b[22;0t", "\x1b[?0c", "\x1b]7;file://h/?\x1b\\", "\x1b_other\x1b\\"];
        let modes =
            ["\x1b[?1;1049;2004h", "\x1b[?1006l", "\x1b[4h", "\x1b[?2026h", "\x1b[=1;2u", "\x1b]133;A\x07", "\x1bc"];
        for statement in NON_QUERIES.into_iter().filter(|statement| !not_drawn.contains(statement)).chain(modes) {
            let around = format!("a{statement}b");
            assert_eq!(drawn(&[around.as_bytes()]), around);
        }
        let mut viewers = QueryFilter::drawing_only();
        viewers.reset();
        assert_eq!(viewers.pass(b"\x1b]30;title\x07x"), b"x");
    }

    #[test]
    fn snapshot_of_a_screen_draws() {
        use crate::screen::Screen as _;
        let mut screen = Emulator::new(Size { cols: 40, rows: 8 });
        screen.feed(
            "\x1b[?1049h\x1b[?1000;1006h\x1b[?2004h\x1b[>1u\x1b[3;5r\x1b[1;31mred\x1b]8;;http://x/\x1b\\link"
                .as_bytes(),
        );
        let snapshot = screen.snapshot();
        let passed = QueryFilter::drawing_only().pass(snapshot.as_bytes());
        assert_eq!(String::from_utf8_lossy(&passed), snapshot);
    }

    /// Removing a query must not join the text around it into another query.
    #[test]
    fn remaining_parts_never_form_a_query() {
        let long = "0".repeat(2 * MAX_SEQUENCE_BYTES);
        let nothing = "\0".repeat(2 * MAX_SEQUENCE_BYTES);
        let cases = [
            ("\x1b\x1b[6n[6n".to_owned(), "[6n"),
            ("\x1b[\x1b[6n6n".to_owned(), "6n"),
            ("\x1b[6\x1b[6nn".to_owned(), "n"),
            ("\x1b[6\r\x1b[6nn".to_owned(), "\rn"),
            ("\x1bP\x1b[6n$qm\x1b\\".to_owned(), "$qm\x1b\\"),
            ("\x1b_\x1b[6nGi=1,a=q;AAAA\x1b\\".to_owned(), "Gi=1,a=q;AAAA\x1b\\"),
            // A terminal performs a command that another sequence ends, so the command gets its own terminator.
            ("\x1b]11;\x1b[6n?\x07".to_owned(), "\x1b]11;\x1b\\?\x07"),
            ("\x1b]\x1b[6n11;?\x07".to_owned(), "\x1b]\x1b\\11;?\x07"),
            // A link and a picture end at the query.
            ("\x1b]8;;x\x1b[6n text".to_owned(), "\x1b]8;;x\x1b\\ text"),
            ("\x1bPq#0\x1b[6n text".to_owned(), "\x1bPq#0\x1b\\ text"),
            // Terminals ignore DEL and bytes that are not part of a sequence.
            ("\x1b\x7f[6n".to_owned(), ""),
            ("\x1b[1\x7f4t".to_owned(), ""),
            ("\x1bP\x7f$qm\x1b\\".to_owned(), ""),
            ("\x1b]5\x7f2;c;?\x07".to_owned(), ""),
            ("\x1bé[6n".to_owned(), "é[6n"),
            ("\x1b\x05[\x051m".to_owned(), "\x1b[1m"),
            ("\x1b]11;?\x18".to_owned(), ""),
            // Sequences may have any length.
            (format!("\x1b{nothing}[6n"), &nothing),
            (format!("\x1b]{long}52;c;aGk=\x07"), ""),
            (format!("\x1b]3;{long};?\x07"), ""),
            (format!("\x1bP{long}$qm\x1b\\"), ""),
        ];
        for (bytes, expected) in &cases {
            let input: String = bytes.escape_debug().take(60).collect();
            let output = String::from_utf8_lossy(&passed(&[bytes.as_bytes()])).into_owned();
            assert_eq!(output, *expected, "{input}");
            let at_once: Vec<&[u8]> = bytes.as_bytes().chunks(1).collect();
            assert_eq!(String::from_utf8_lossy(&passed(&at_once)), *expected, "{input}, byte by byte");
        }
        // The first half of a C1 control, and the second half after a query.
        assert_eq!(passed(&[b"\xc2\x1b[6n\x9b6n"]), b"\x9b6n");
        assert_eq!(passed(&[b"\xc2\xc2\x9b6n"]), b"");
    }

    #[test]
    fn text_is_never_held_and_unfinished_sequences_only_briefly() {
        let mut viewers = QueryFilter::default();
        for text in ["plain", "漢字", "\x1b[31mred", "\x1b]8;;a long address", " goes on"] {
            assert_eq!(viewers.pass(text.as_bytes()), text.as_bytes(), "{text:?}");
        }
        assert_eq!(viewers.pass(b"\x07a\x1b["), b"\x07a");
        assert_eq!(viewers.pass(b"31mb"), b"\x1b[31mb");
        for begin in ["\x1b[", "\x1b]777;", "\x1b]11;", "\x1b]52;c;", "\x1bP", "\x1bP+q", "\x1b(", "\x1b_G"] {
            let mut viewers = QueryFilter::default();
            viewers.pass(begin.as_bytes());
            for _ in 0..100 {
                viewers.pass(&[b'('; 1000]);
                assert!(viewers.held.len() < MAX_SEQUENCE_BYTES, "{begin:?}");
            }
            assert!(viewers.pass(b"m\x1b\\\x07after").ends_with(b"after"), "{begin:?}");
        }
        let long = format!("\x1b[{}6nafter", "0".repeat(2 * MAX_SEQUENCE_BYTES));
        assert_eq!(passed(&[long.as_bytes()]), b"after", "a query of any length is removed");
    }

    #[test]
    fn viewer_joining_late_receives_later_output() {
        let mut viewers = QueryFilter::default();
        viewers.pass(b"\x1b]52;c;");
        viewers.reset();
        assert_eq!(viewers.pass(b"shown"), b"shown");
    }

    /// Returns the answers of a terminal to these bytes and its screen after them.
    fn answers_and_screen(bytes: &[u8]) -> (Vec<u8>, String) {
        let screen = Emulator::new(Size { cols: 40, rows: 8 });
        let mut intake = OutputPipeline::new(Transcript::new(History::new(1 << 20), None), Box::new(screen));
        let mut replies = Vec::new();
        intake.take_in(bytes, &mut replies);
        (replies, intake.screen.text())
    }

    proptest! {
        #[test]
        fn terminal_shows_the_filtered_output_without_answering(
            pieces in prop::collection::vec(prop::sample::select([&QUERIES[..37], &NON_QUERIES[..]].concat()), 0..40),
        ) {
            let bytes = pieces.concat().into_bytes();
            let (replies, shown) = answers_and_screen(&passed(&[&bytes]));
            prop_assert_eq!(String::from_utf8_lossy(&replies), "");
            prop_assert_eq!(shown, answers_and_screen(&bytes).1);
        }

        #[test]
        fn terminal_never_answers_filtered_noise(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1b_", "[", "]", "P", "\\", "\x1b\\", "\x07", "\x18", "\x7f", "\x05", "\0",
                "\u{9b}", "\u{9d}", "\u{90}", "\u{9c}", "é", " ", "$", "+", ">", "?", "=", "!", ";", ":", "0", "1", "4", "6", "11",
                "52", "c", "n", "p", "q", "t", "x", "y", "u", "m", "G", "Z", "k", "X", "\x1b[6n", "\x1b[c", "\x1b]11;?\x07", "\x1b]8;;",
            ]), 0..30),
            cut in prop::num::u8::ANY,
        ) {
            let mut bytes = pieces.concat().into_bytes();
            let output = passed(&[&bytes]);
            prop_assert_eq!(answers_and_screen(&output).0.escape_ascii().to_string(), "", "{}", output.escape_ascii());
            // This holds even if a character is cut in two.
            if !bytes.is_empty() {
                bytes.remove(usize::from(cut) % bytes.len());
                let output = passed(&[&bytes]);
                prop_assert_eq!(answers_and_screen(&output).0.escape_ascii().to_string(), "", "{}", output.escape_ascii());
            }
        }

        #[test]
        fn output_is_filtered_the_same_for_any_division(
            pieces in prop::collection::vec(prop::sample::select([&QUERIES[..], &NON_QUERIES[..]].concat()), 0..20),
            noise in prop::collection::vec(prop::sample::select(b"a6;?[]\x1b\x07\x18P\\0nqG_$\xc2\x9b\x9d\n".to_vec()), 0..60),
            at in any::<prop::sample::Index>(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut bytes = pieces.concat().into_bytes();
            let at = at.index(bytes.len() + 1);
            bytes.splice(at..at, noise);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let begins = std::iter::once(0).chain(cuts.iter().copied());
            let portions: Vec<&[u8]> = begins.zip(&cuts).map(|(begin, end)| &bytes[begin..*end]).collect();
            prop_assert_eq!(passed(&portions), passed(&[&bytes]));
        }
    }
}
