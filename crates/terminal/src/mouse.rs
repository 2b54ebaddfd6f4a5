//! The bytes that a mouse sends, in the encoding that the program has requested.

use serde::{Deserialize, Serialize};

use crate::keys;
use crate::screen::{Modes, MouseReports};

/// Action of a mouse at a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MouseInput {
    /// The action.
    pub action: MouseAction,
    /// The column of the cell, counted from 0.
    pub col: u16,
    /// The row of the cell, counted from 0.
    pub row: u16,
    /// True if shift was down.
    #[serde(default)]
    pub shift: bool,
    /// True if alt was down.
    #[serde(default)]
    pub alt: bool,
    /// True if ctrl was down.
    #[serde(default)]
    pub ctrl: bool,
}

/// Kind of mouse action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MouseAction {
    /// A press of a button: 0 left, 1 middle, 2 right.
    Press(u8),
    /// A release of a button.
    Release(u8),
    /// A movement with this pressed button.
    Drag(u8),
    /// A movement without a button.
    Move,
    /// A turn of the wheel by one step.
    Wheel {
        /// True to scroll up.
        up: bool,
    },
}

/// Number of arrow keys for one step of the wheel.
const WHEEL_LINES: usize = 3;

/// The highest column and row that the old encoding can express, counted from 0.
const MAX_OLD_POSITION: u16 = 222;

/// Returns the bytes of a mouse action; none if the program does not request it. On a full screen, the wheel acts
/// as arrow keys unless the program requests mouse reports or has turned this off (mode 1007).
pub(crate) fn mouse(input: MouseInput, modes: Modes) -> Vec<u8> {
    if modes.mouse == MouseReports::None {
        return match input.action {
            MouseAction::Wheel { up } if modes.alternate_screen && !modes.wheel_is_quiet => {
                let name = if up { "up" } else { "down" };
                keys::key(name, modes, false).unwrap_or_default().repeat(WHEEL_LINES)
            }
            _ => Vec::new(),
        };
    }
    let (code, is_release) = match input.action {
        MouseAction::Press(button @ 0..=2) => (button, false),
        MouseAction::Release(button @ 0..=2) => (button, true),
        MouseAction::Drag(button @ 0..=2) if modes.mouse != MouseReports::Buttons => (32 + button, false),
        MouseAction::Move if modes.mouse == MouseReports::Moves => (32 + 3, false),
        MouseAction::Wheel { up } => (if up { 64 } else { 65 }, false),
        MouseAction::Press(_) | MouseAction::Release(_) | MouseAction::Drag(_) | MouseAction::Move => {
            return Vec::new();
        }
    };
    let modifiers = [(input.shift, 4), (input.alt, 8), (input.ctrl, 16)];
    let modifier_bits: u8 = modifiers.into_iter().filter(|(is_pressed, _)| *is_pressed).map(|(_, bit)| bit).sum();
    if modes.sgr_mouse {
        let end = if is_release { 'm' } else { 'M' };
        return format!(
            "\x1b[<{};{};{}{end}",
            code + modifier_bits,
            u32::from(input.col) + 1,
            u32::from(input.row) + 1
        )
        .into_bytes();
    }
    if input.col > MAX_OLD_POSITION || input.row > MAX_OLD_POSITION {
        return Vec::new();
    }
    // The old encoding does not name the released button.
    let code = if is_release { 3 } else { code };
    let cell = |index: u16| u8::try_from(index + 33).unwrap_or(u8::MAX);
    vec![0x1b, b'[', b'M', 32 + code + modifier_bits, cell(input.col), cell(input.row)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(action: MouseAction) -> MouseInput {
        MouseInput { action, col: 4, row: 9, shift: false, alt: false, ctrl: false }
    }

    fn bytes(action: MouseAction, modes: Modes) -> String {
        String::from_utf8(mouse(at(action), modes)).unwrap()
    }

    #[test]
    fn program_receives_requested_mouse_events_in_its_encoding() {
        let sgr = |mouse| Modes { mouse, sgr_mouse: true, ..Modes::default() };
        let buttons = sgr(MouseReports::Buttons);
        assert_eq!(bytes(MouseAction::Press(0), buttons), "\x1b[<0;5;10M");
        assert_eq!(bytes(MouseAction::Release(2), buttons), "\x1b[<2;5;10m");
        assert_eq!(bytes(MouseAction::Wheel { up: false }, buttons), "\x1b[<65;5;10M");
        assert_eq!(bytes(MouseAction::Drag(0), buttons), "");
        assert_eq!(bytes(MouseAction::Drag(1), sgr(MouseReports::Drags)), "\x1b[<33;5;10M");
        assert_eq!(bytes(MouseAction::Move, sgr(MouseReports::Drags)), "");
        assert_eq!(bytes(MouseAction::Move, sgr(MouseReports::Moves)), "\x1b[<35;5;10M");
        assert_eq!(bytes(MouseAction::Press(9), buttons), "", "the button is 0, 1 or 2");
        let drag = MouseInput { ctrl: true, shift: true, ..at(MouseAction::Press(0)) };
        assert_eq!(mouse(drag, buttons), b"\x1b[<20;5;10M");
        let old = Modes { mouse: MouseReports::Buttons, ..Modes::default() };
        assert_eq!(bytes(MouseAction::Press(1), old), "\x1b[M!%*");
        assert_eq!(bytes(MouseAction::Release(1), old), "\x1b[M#%*");
        let distant = MouseInput { col: 300, ..at(MouseAction::Press(0)) };
        assert_eq!(mouse(distant, old), b"");
    }

    #[test]
    fn program_without_mouse_gets_only_arrows_on_a_full_screen() {
        assert_eq!(bytes(MouseAction::Press(0), Modes::default()), "");
        assert_eq!(bytes(MouseAction::Wheel { up: true }, Modes::default()), "");
        let full = Modes { alternate_screen: true, ..Modes::default() };
        assert_eq!(bytes(MouseAction::Wheel { up: true }, full), "\x1b[A\x1b[A\x1b[A");
        let application = Modes { application_cursor: true, ..full };
        assert_eq!(bytes(MouseAction::Wheel { up: false }, application), "\x1bOB\x1bOB\x1bOB");
        assert_eq!(bytes(MouseAction::Wheel { up: false }, Modes { wheel_is_quiet: true, ..full }), "");
    }
}
