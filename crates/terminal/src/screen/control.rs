//! Sequences that the emulator does not have, as values.
//!
//! The transcript's parser meets every sequence. Those listed here reach the screen as a
//! [`Control`] at their place in the output; all others go to the emulator. Names are those of
//! xterm's list (<https://invisible-island.net/xterm/ctlseqs/ctlseqs.html>).

use vte::Params;

/// A sequence that the screen performs itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Control {
    /// `CSI … action`, with its marks: a private marker, intermediates, or nothing.
    Csi {
        /// Marker and intermediates in the order in which they came; zero where there are none.
        marks: [u8; 2],
        /// The final byte.
        action: u8,
        /// The parameters, with zero for an omitted one.
        params: Vec<u16>,
    },
    /// `ESC byte`.
    Escape(u8),
    /// A question for a setting (DECRQSS), by the final bytes of the sequence that would set it.
    Setting(Vec<u8>),
    /// A question for capabilities (XTGETTCAP), names in hexadecimal with semicolons between.
    Capabilities(Vec<u8>),
    /// Colours are set, queried or reset (OSC 4, 5, 10 to 19 and the same plus 100).
    Colours {
        /// All parameters, the number of the command first.
        params: Vec<Vec<u8>>,
        /// The command ended with BEL, so its answer does.
        bell: bool,
    },
}

impl Control {
    /// Returns the control if this `CSI` sequence is missing in the emulator.
    pub(crate) fn csi(params: &Params, intermediates: &[u8], action: char) -> Option<Self> {
        let is_handled = matches!(
            (intermediates, action),
            // HPR, VPR, DECSLRM or SCOSC, window operations.
            ([], 'a' | 'e' | 's' | 't')
                // DECSED, DECSEL, DECDSR, XTRESTORE, XTSAVE.
                | ([b'?'], 'J' | 'K' | 'n' | 'r' | 's')
                // XTVERSION.
                | ([b'>'], 'q')
                // DECSCL, DECSCA.
                | ([b'"'], 'p' | 'q')
                // DECCARA, DECRARA, DECCRA, DECFRA, DECERA, DECSERA.
                | ([b'$'], 'r' | 't' | 'v' | 'x' | 'z' | '{')
                // DECSACE, DECRQCRA.
                | ([b'*'], 'x' | 'y')
                // DECIC, DECDC.
                | ([b'\''], '}' | '~')
                // SL, SR.
                | ([b' '], '@' | 'A')
        );
        if !is_handled {
            return None;
        }
        let marks = [intermediates.first().copied().unwrap_or(0), intermediates.get(1).copied().unwrap_or(0)];
        let params = params.iter().map(|param| param.first().copied().unwrap_or(0)).collect();
        Some(Self::Csi { marks, action: action as u8, params })
    }

    /// Returns whether nothing of `before` remains visible if this comes right after it: both fill (DECFRA) or erase
    /// (DECERA) the same rectangle.
    pub(crate) fn covers(&self, before: &Self) -> bool {
        let (Some((action, params)), Some((action_before, before))) = (self.fills(), before.fills()) else {
            return false;
        };
        action == action_before && params == before
    }

    /// Returns the function that makes all cells of a rectangle alike, if it is one, and the parameters that name the
    /// rectangle.
    pub(crate) fn fills(&self) -> Option<(u8, &[u16])> {
        match self {
            Self::Csi { marks: [b'$', 0], action: b'x', params } => match params.split_first() {
                Some((32..=126 | 160..=255, rectangle)) => Some((b'x', rectangle)),
                _ => None,
            },
            Self::Csi { marks: [b'$', 0], action: b'z', params } => Some((b'z', params)),
            _ => None,
        }
    }

    /// Returns the control if this `ESC` sequence is missing in the emulator.
    pub(crate) fn escape(intermediates: &[u8], byte: u8) -> Option<Self> {
        // DECBI, DECFI, SPA, EPA.
        matches!((intermediates, byte), ([], b'6' | b'9' | b'V' | b'W')).then_some(Self::Escape(byte))
    }

    /// Returns the control if this operating system command is about colours.
    pub(crate) fn osc(params: &[&[u8]], bell: bool) -> Option<Self> {
        let [b"4" | b"5" | b"104" | b"105" | [b'1', b'0'..=b'9'] | [b'1', b'1', b'0'..=b'9'], ..] = params else {
            return None;
        };
        Some(Self::Colours { params: params.iter().map(|param| param.to_vec()).collect(), bell })
    }
}

/// A device control string that contains a query, while it comes in.
#[derive(Debug, Default)]
pub(crate) struct Question {
    kind: Option<Kind>,
    text: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Setting,
    Capabilities,
}

/// Names of settings and capabilities are a few bytes long; longer ones get no answer.
const MAX_QUESTION_BYTES: usize = 256;

impl Question {
    /// A device control string begins.
    pub(crate) fn begin(&mut self, intermediates: &[u8], action: char) {
        self.text.clear();
        self.kind = match (intermediates, action) {
            ([b'$'], 'q') => Some(Kind::Setting),
            ([b'+'], 'q') => Some(Kind::Capabilities),
            _ => None,
        };
    }

    /// Its next byte.
    pub(crate) fn put(&mut self, byte: u8) {
        if self.kind.is_some() {
            if self.text.len() < MAX_QUESTION_BYTES {
                self.text.push(byte);
            } else {
                self.kind = None;
            }
        }
    }

    /// Ends the string. Returns the query, if it needs an answer.
    pub(crate) fn end(&mut self) -> Option<Control> {
        let text = std::mem::take(&mut self.text);
        self.kind.take().map(|kind| match kind {
            Kind::Setting => Control::Setting(text),
            Kind::Capabilities => Control::Capabilities(text),
        })
    }
}
