//! Mouse actions by name, as keys: `click:OK`, `right-click@3,10`, `wheel-down`, and a drag as `press:A`, `drag:B`,
//! `release:B`.
//!
//! A place is a label on the screen (`:LABEL`) or a cell (`@ROW,COLUMN`, counted from 0). An action that the program
//! would not receive is refused: a terminal discards it in silence.

use serde::{Deserialize, Serialize};

use crate::label::{LabelError, ScreenCell, find_label};
use crate::mouse::{self, MouseAction, MouseInput};
use crate::screen::{Modes, MouseReports, Picture};

/// Reason why the program would not receive a mouse action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum PointerError {
    /// The place is no single label.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// The program reads no mouse.
    #[error("the program reads no mouse now, so nothing was done; press keys instead")]
    NoMouse,
    /// The program reads presses and releases only.
    #[error("the program reads clicks of the mouse and no drags, so nothing was done")]
    NoDrags,
    /// The cell is outside the screen, or the program's encoding cannot name it.
    #[error(
        "row {}, column {} is not a cell that the program can receive; the screen has {rows} rows and {cols} columns, \
         counted from 0",
        .cell.row, .cell.col
    )]
    Outside {
        /// The cell.
        cell: ScreenCell,
        /// Rows of the screen.
        rows: u16,
        /// Columns of the screen.
        cols: u16,
    },
    /// The input has text or keys as well.
    #[error("a mouse action needs an input of its own, because its place is that on the screen now; nothing was typed")]
    Mixed,
    /// The place is neither a label nor a cell.
    #[error("'{0}' has no place; a mouse action is named click:LABEL or click@ROW,COLUMN, counted from 0")]
    Place(String),
}

/// A named mouse action.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PointerKey<'k> {
    name: &'k str,
    verb: PointerVerb,
    place: Place<'k>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PointerVerb {
    Click(u8),
    Press(u8),
    Drag(u8),
    Release(u8),
    Wheel { up: bool },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place<'k> {
    Label(&'k str),
    Cell(ScreenCell),
    /// The middle of the screen.
    Middle,
    /// Neither a label nor a cell.
    Invalid,
}

impl<'k> PointerKey<'k> {
    /// Parses the name of a mouse action. `None` for other keys.
    fn parse(name: &'k str) -> Option<Self> {
        let name = name.trim();
        let (action, place) = match name.find([':', '@']) {
            Some(end) => (&name[..end], Some(&name[end..])),
            None => (name, None),
        };
        let (button, action) = match action.split_once('-') {
            Some(("right", action)) => (2, action),
            Some(("middle", action)) => (1, action),
            Some(("left", action)) => (0, action),
            _ => (0, action),
        };
        let verb = match action {
            "click" => PointerVerb::Click(button),
            "press" => PointerVerb::Press(button),
            "drag" => PointerVerb::Drag(button),
            "release" => PointerVerb::Release(button),
            "wheel-up" => PointerVerb::Wheel { up: true },
            "wheel-down" => PointerVerb::Wheel { up: false },
            _ => return None,
        };
        let place = match place {
            None if matches!(verb, PointerVerb::Wheel { .. }) => Place::Middle,
            Some(place) => match place.split_at(1) {
                (":", label) if !label.trim().is_empty() => Place::Label(label),
                ("@", cell) => parse_cell(cell).map_or(Place::Invalid, Place::Cell),
                _ => Place::Invalid,
            },
            None => Place::Invalid,
        };
        Some(Self { name, verb, place })
    }

    /// Returns the bytes that the program receives.
    ///
    /// # Errors
    /// If the program would receive nothing, or no single label has the text.
    fn encode(&self, picture: &Picture, modes: Modes) -> Result<Vec<u8>, PointerError> {
        let scrolls = matches!(self.verb, PointerVerb::Wheel { .. }) && modes.alternate_screen && !modes.wheel_is_quiet;
        if modes.mouse == MouseReports::None && !scrolls {
            return Err(PointerError::NoMouse);
        }
        let (rows, cols) = (u16::try_from(picture.rows.len()).unwrap_or(u16::MAX), picture.cols);
        let cell = match &self.place {
            Place::Label(label) => find_label(picture, label)?,
            Place::Cell(cell) => *cell,
            Place::Middle => ScreenCell { row: rows / 2, col: cols / 2 },
            Place::Invalid => return Err(PointerError::Place(self.name.chars().take(80).collect())),
        };
        let actions: &[MouseAction] = match self.verb {
            PointerVerb::Click(button) => &[MouseAction::Press(button), MouseAction::Release(button)],
            PointerVerb::Press(button) => &[MouseAction::Press(button)],
            PointerVerb::Drag(_) if modes.mouse == MouseReports::Buttons => return Err(PointerError::NoDrags),
            PointerVerb::Drag(button) => &[MouseAction::Drag(button)],
            PointerVerb::Release(button) => &[MouseAction::Release(button)],
            PointerVerb::Wheel { up } => &[MouseAction::Wheel { up }],
        };
        let outside = PointerError::Outside { cell, rows, cols };
        if cell.row >= rows || cell.col >= cols {
            return Err(outside);
        }
        let mut bytes = Vec::new();
        for action in actions {
            let input =
                MouseInput { action: *action, col: cell.col, row: cell.row, shift: false, alt: false, ctrl: false };
            let encoded = mouse::mouse(input, modes);
            if encoded.is_empty() {
                return Err(outside);
            }
            bytes.extend(encoded);
        }
        Ok(bytes)
    }
}

/// Returns the bytes of an input that consists of mouse actions; `None` if no key is one.
///
/// # Errors
/// If the input has text or other keys as well, or the program would not receive an action.
pub(crate) fn encode_actions(
    text: &str,
    keys: &[String],
    picture: impl FnOnce() -> Picture,
    modes: Modes,
) -> Result<Option<Vec<u8>>, PointerError> {
    let actions: Vec<PointerKey<'_>> = keys.iter().filter_map(|key| PointerKey::parse(key)).collect();
    if actions.is_empty() {
        return Ok(None);
    }
    if !text.is_empty() || actions.len() < keys.len() {
        return Err(PointerError::Mixed);
    }
    let (picture, mut bytes) = (picture(), Vec::new());
    for action in actions {
        bytes.extend(action.encode(&picture, modes)?);
    }
    Ok(Some(bytes))
}

fn parse_cell(text: &str) -> Option<ScreenCell> {
    let (row, col) = text.split_once(',')?;
    Some(ScreenCell { row: row.trim().parse().ok()?, col: col.trim().parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Rgb, Run, Style};

    fn picture() -> Picture {
        let run = |col, text: &str| Run {
            col,
            cols: text.len() as u16,
            wide: false,
            text: text.to_owned(),
            style: Style::default(),
            link: None,
        };
        let (foreground, background) = (Rgb(255, 255, 255), Rgb(0, 0, 0));
        let rows = vec![vec![run(2, "[ OK ]"), run(12, "[ No ]")], Vec::new()];
        Picture { cols: 300, rows, cursor: None, foreground, background, palette: Vec::new() }
    }

    fn encode(name: &str, modes: Modes) -> Result<String, PointerError> {
        let bytes = PointerKey::parse(name).unwrap().encode(&picture(), modes)?;
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn named_action_reaches_its_label_or_cell() {
        let sgr = |mouse| Modes { mouse, sgr_mouse: true, ..Modes::default() };
        let drags = sgr(MouseReports::Drags);
        for (name, bytes) in [
            ("click:OK", "\x1b[<0;5;1M\x1b[<0;5;1m"),
            ("left-click: OK", "\x1b[<0;5;1M\x1b[<0;5;1m"),
            ("right-click:No", "\x1b[<2;15;1M\x1b[<2;15;1m"),
            ("middle-click@1,0", "\x1b[<1;1;2M\x1b[<1;1;2m"),
            ("press:OK", "\x1b[<0;5;1M"),
            ("drag:No", "\x1b[<32;15;1M"),
            ("release:No", "\x1b[<0;15;1m"),
            ("wheel-down", "\x1b[<65;151;2M"),
            ("wheel-up@0,3", "\x1b[<64;4;1M"),
        ] {
            assert_eq!(encode(name, drags).as_deref(), Ok(bytes), "{name}");
        }
        let full_screen = Modes { alternate_screen: true, ..Modes::default() };
        assert_eq!(encode("wheel-up", full_screen).as_deref(), Ok("\x1b[A\x1b[A\x1b[A"));
        for key in ["enter", "click", ":", "@", "clicks:OK", "wheel-left:OK", "ctrl-c", "a:b"] {
            let place = PointerKey::parse(key).map(|key| key.place);
            assert!(place.is_none_or(|place| place == Place::Invalid), "{key}");
        }
    }

    #[test]
    fn action_that_the_program_would_not_receive_is_refused() {
        let sgr = |mouse| Modes { mouse, sgr_mouse: true, ..Modes::default() };
        let old = Modes { mouse: MouseReports::Drags, ..Modes::default() };
        let outside = |row, col| PointerError::Outside { cell: ScreenCell { row, col }, rows: 2, cols: 300 };
        for (name, modes, error) in [
            ("click:OK", Modes::default(), PointerError::NoMouse),
            ("wheel-up", Modes::default(), PointerError::NoMouse),
            ("drag:OK", sgr(MouseReports::Buttons), PointerError::NoDrags),
            ("click@2,0", sgr(MouseReports::Moves), outside(2, 0)),
            ("click@0,300", sgr(MouseReports::Moves), outside(0, 300)),
            ("click@0,250", old, outside(0, 250)),
            ("click@0", old, PointerError::Place("click@0".to_owned())),
            ("click:", old, PointerError::Place("click:".to_owned())),
            ("click", old, PointerError::Place("click".to_owned())),
        ] {
            assert_eq!(encode(name, modes), Err(error), "{name}");
        }
        let all = |text: &str, keys: &[&str]| {
            let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            encode_actions(text, &keys, picture, sgr(MouseReports::Drags))
        };
        assert_eq!(all("a", &["enter"]), Ok(None));
        assert_eq!(all("a", &["click:OK"]), Err(PointerError::Mixed));
        assert_eq!(all("", &["f10", "click:OK"]), Err(PointerError::Mixed));
        let drag = b"\x1b[<0;5;1M\x1b[<32;15;1M\x1b[<0;15;1m".to_vec();
        assert_eq!(all("", &["press:OK", "drag:No", "release:No"]), Ok(Some(drag)));
        assert!(matches!(encode("click:Yes", old), Err(PointerError::Label(LabelError::Missing { .. }))));
    }
}
