//! Sequences that the emulator does not implement, as values.
//!
//! The transcript parses every sequence. The screen receives the sequences listed here as a [`Control`] at their
//! position in the output; all others go to the emulator. Names follow xterm's list
//! (<https://invisible-island.net/xterm/ctlseqs/ctlseqs.html>).

use vte::Params;

/// A sequence that the screen performs itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Control {
    /// `CSI … action`.
    Csi {
        /// Private marker and intermediates in their order; zero for missing ones.
        marks: [u8; 2],
        /// The final byte.
        action: u8,
        /// The parameters; zero for an omitted parameter.
        params: Vec<u16>,
    },
    /// `ESC byte`.
    Escape(u8),
    /// A query for a setting (DECRQSS): the final bytes of the sequence that would set it.
    Setting(Vec<u8>),
    /// A query for capabilities (XTGETTCAP): hexadecimal names, separated by semicolons.
    Capabilities(Vec<u8>),
    /// A command that sets, queries or resets colours (OSC 4, 5, 10 to 19 and the same plus 100).
    Colours {
        /// All parameters, beginning with the number of the command.
        params: Vec<Vec<u8>>,
        /// True if the command ended with BEL. Its answer then ends with BEL, too.
        bell: bool,
    },
}

impl Control {
    /// Returns the control of a `CSI` sequence that the emulator lacks.
    pub(crate) fn csi(params: &Params, intermediates: &[u8], action: char) -> Option<Self> {
        let is_lacking = matches!(
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
        if !is_lacking {
            return None;
        }
        let marks = [intermediates.first().copied().unwrap_or(0), intermediates.get(1).copied().unwrap_or(0)];
        let params = params.iter().map(|param| param.first().copied().unwrap_or(0)).collect();
        Some(Self::Csi { marks, action: action as u8, params })
    }

    /// Returns whether this control, directly after `before`, hides the result of `before`: both fill (DECFRA) or erase
    /// (DECERA) the same rectangle.
    pub(crate) fn covers(&self, before: &Self) -> bool {
        let (Some((action, params)), Some((action_before, before))) = (self.fills(), before.fills()) else {
            return false;
        };
        action == action_before && params == before
    }

    /// Returns the final byte and the rectangle's parameters of a control that fills or erases a rectangle.
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

    /// Returns the control of an `ESC` sequence that the emulator lacks.
    pub(crate) fn escape(intermediates: &[u8], byte: u8) -> Option<Self> {
        // DECBI, DECFI, SPA, EPA.
        matches!((intermediates, byte), ([], b'6' | b'9' | b'V' | b'W')).then_some(Self::Escape(byte))
    }

    /// Returns the control of an operating system command for colours.
    pub(crate) fn osc(params: &[&[u8]], ends_with_bell: bool) -> Option<Self> {
        let [b"4" | b"5" | b"104" | b"105" | [b'1', b'0'..=b'9'] | [b'1', b'1', b'0'..=b'9'], ..] = params else {
            return None;
        };
        Some(Self::Colours { params: params.iter().map(|param| param.to_vec()).collect(), bell: ends_with_bell })
    }
}

/// Parser of a device control string that contains a query.
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

/// Maximum length of a query, in bytes. Names of settings and capabilities are a few bytes long.
const MAX_QUESTION_BYTES: usize = 256;

impl Question {
    /// Begins a device control string.
    pub(crate) fn begin(&mut self, intermediates: &[u8], action: char) {
        self.text.clear();
        self.kind = match (intermediates, action) {
            ([b'$'], 'q') => Some(Kind::Setting),
            ([b'+'], 'q') => Some(Kind::Capabilities),
            _ => None,
        };
    }

    /// Adds the next byte of the string.
    pub(crate) fn put(&mut self, byte: u8) {
        if self.kind.is_some() {
            if self.text.len() < MAX_QUESTION_BYTES {
                self.text.push(byte);
            } else {
                self.kind = None;
            }
        }
    }

    /// Ends the string. Returns the query, if the string is one.
    pub(crate) fn end(&mut self) -> Option<Control> {
        let text = std::mem::take(&mut self.text);
        self.kind.take().map(|kind| match kind {
            Kind::Setting => Control::Setting(text),
            Kind::Capabilities => Control::Capabilities(text),
        })
    }
}
