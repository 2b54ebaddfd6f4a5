//! What a program prints, on its way to the screen and to the history.
//!
//! Owns both parsers and keeps them in step: the transcript stops where the
//! emulator needs help with a sequence that it does not have.

use crate::characters::Characters;
use crate::guard::Guard;
use crate::screen::Screen;
use crate::transcript::{Pause, Transcript};

/// The parsers get output in pieces no larger than this: one of them looks ahead for each invalid byte.
const PIECE: usize = 4096;

/// The way in.
pub(crate) struct Intake {
    guard: Guard,
    characters: Characters,
    pub(crate) transcript: Transcript,
    pub(crate) screen: Box<dyn Screen>,
}

impl Intake {
    pub(crate) fn new(transcript: Transcript, screen: Box<dyn Screen>) -> Self {
        Self { guard: Guard::default(), characters: Characters::default(), transcript, screen }
    }

    /// Takes in what one read brought. What the program is owed in answer to its questions goes to `replies`.
    pub(crate) fn take_in(&mut self, bytes: &[u8], replies: &mut impl Extend<u8>) {
        let (screen, transcript, characters) = (&mut self.screen, &mut self.transcript, &mut self.characters);
        self.guard.pass(bytes, |passed| {
            characters.pass(passed, PIECE, |piece| {
                let mut rest = piece;
                while !rest.is_empty() {
                    let (taken, pause) = transcript.advance(rest);
                    screen.feed(&rest[..taken]);
                    replies.extend(screen.take_replies());
                    match pause {
                        None => {}
                        Some(Pause::SoftReset) => screen.soft_reset(),
                        Some(Pause::Overloaded) => screen.relieve(),
                        Some(Pause::Control(control)) => {
                            screen.perform(&control);
                            replies.extend(screen.take_replies());
                        }
                        Some(Pause::KeyboardQuery(flags)) => replies.extend(format!("\x1b[?{flags}u").bytes()),
                    }
                    rest = &rest[taken..];
                }
            });
        });
    }

    /// Draws what is no part of the text: a prompt that comes once more, where it stands already.
    pub(crate) fn draw(&mut self, bytes: &[u8], replies: &mut impl Extend<u8>) {
        let (screen, characters) = (&mut self.screen, &mut self.characters);
        self.guard.pass(bytes, |passed| characters.pass(passed, PIECE, |piece| screen.feed(piece)));
        replies.extend(self.screen.take_replies());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::history::{History, Zone};
    use crate::screen::{Emulator, Size};

    /// What terminals are sent, in pieces that a generator can shuffle.
    const PIECES: [&[u8]; 34] = [
        b"word",
        b" ",
        b"\r\n",
        b"\r",
        b"\n",
        b"\x08",
        b"\t",
        b"\x1b[K",
        b"\x1b[2K",
        b"\x1b[C",
        b"\x1b[3D",
        b"\x1b[1G",
        b"\x1b[H",
        b"\x1b[?1049h",
        b"\x1b[?1049l",
        b"\x1b]133;A;k=n1\x07",
        b"\x1b]133;B;k=n1\x07",
        b"\x1b]133;C;k=n1\x07",
        b"\x1b]133;D;0;k=n1\x07",
        b"\xe6\xbc\xa2",
        b"\xff",
        b"\x1b",
        b"\x1b[!p",
        b"e\xcc\x81",
        b"\x1b[?69h",
        b"\x1b[3;9s",
        b"\x1b[2;4r",
        b"\x1b[?6h",
        b"\x1b[37;1;1;2;2$x",
        b"\x1b[2'}",
        b"\x1bP$qm\x1b\\",
        b"\x1b]11;?\x1b\\",
        b"\x1b[1\"q",
        b"\x1b[?2J",
    ];

    /// What is left of `portions`: the text, its zones, and the screen.
    fn left_by(portions: &[&[u8]]) -> (String, Vec<(std::ops::Range<u64>, Zone)>, String) {
        let transcript = Transcript::new(History::new(1 << 20), Some("n1".into()));
        let mut intake = Intake::new(transcript, Box::new(Emulator::new(Size { cols: 30, rows: 8 })));
        for portion in portions {
            intake.take_in(portion, &mut Vec::new());
            intake.transcript.settle();
        }
        let history = intake.transcript.history();
        (history.read(0..history.end()).1, history.zones(0..history.end()).collect(), intake.screen.text())
    }

    proptest! {
        #[test]
        fn where_the_output_is_cut_makes_no_difference(
            pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..60),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let bytes = pieces.concat();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let begins = std::iter::once(0).chain(cuts.iter().copied());
            let portions: Vec<&[u8]> = begins.zip(&cuts).map(|(begin, end)| &bytes[begin..*end]).collect();
            prop_assert_eq!(left_by(&portions), left_by(&[&bytes]));
        }
    }
}
