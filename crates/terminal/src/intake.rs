//! What a program prints, on its way to the screen and to the history.
//!
//! Owns both parsers and keeps them in step: the transcript stops where the
//! emulator needs help with a sequence that it does not have.

use crate::guard::Guard;
use crate::screen::Screen;
use crate::transcript::{Pause, Transcript};

/// The parsers get output in pieces no larger than this: one of them looks ahead for each invalid byte.
const PIECE: usize = 4096;

/// The way in.
pub(crate) struct Intake {
    guard: Guard,
    pub(crate) transcript: Transcript,
    pub(crate) screen: Box<dyn Screen>,
}

impl Intake {
    pub(crate) fn new(transcript: Transcript, screen: Box<dyn Screen>) -> Self {
        Self { guard: Guard::default(), transcript, screen }
    }

    /// Takes in what one read brought. What the program is owed in answer to its questions goes to `replies`.
    pub(crate) fn take_in(&mut self, bytes: &[u8], replies: &mut impl Extend<u8>) {
        let (screen, transcript) = (&mut self.screen, &mut self.transcript);
        self.guard.pass(bytes, |passed| {
            for piece in passed.chunks(PIECE) {
                let mut rest = piece;
                while !rest.is_empty() {
                    let (taken, pause) = transcript.advance(rest);
                    screen.feed(&rest[..taken]);
                    replies.extend(screen.take_replies());
                    match pause {
                        None => {}
                        Some(Pause::SoftReset) => screen.soft_reset(),
                        Some(Pause::Overloaded) => screen.relieve(),
                        Some(Pause::KeyboardQuery(flags)) => replies.extend(format!("\x1b[?{flags}u").bytes()),
                    }
                    rest = &rest[taken..];
                }
            }
        });
    }
}
