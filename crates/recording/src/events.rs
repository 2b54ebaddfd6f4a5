//! The events of a whole recording, with the typed input.

use std::io::{self, BufRead};

use crate::reader::{self, Damage, Happening, Place};

/// Maximum number of events in memory.
const MAX_EVENTS: usize = 1_000_000;

/// Something that a recording has. Only what a replay or an import uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedEvent {
    /// A program printed this.
    Output(String),
    /// Typed input, as a terminal sends it.
    Input(String),
    /// The screen has another size.
    Resize {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// The program ended with this exit code.
    Exit(i32),
}

/// Events, each with the seconds since the beginning, and the damage that they end at.
pub type RecordedEvents = (Vec<(f64, RecordedEvent)>, Option<Damage>);

/// Returns the events of a recording, each with the seconds since its beginning, and the damage that they end at.
///
/// # Errors
/// If the read of the file fails.
pub fn recorded_events(file: &mut impl BufRead) -> io::Result<RecordedEvents> {
    let mut place = Place::default();
    let mut events = Vec::new();
    let header = match reader::header(file, &mut place)? {
        Ok(header) => header,
        Err(damage) => return Ok((events, Some(damage))),
    };
    while events.len() < MAX_EVENTS {
        let event = match reader::event(file, &header, &mut place)? {
            Ok(Some(event)) => event,
            Ok(None) => break,
            Err(damage) => return Ok((events, Some(damage))),
        };
        let what = match event.what {
            Happening::Output(text) => RecordedEvent::Output(text),
            Happening::Input(text) => RecordedEvent::Input(text),
            Happening::Resize(size) => RecordedEvent::Resize { cols: size.cols, rows: size.rows },
            Happening::Exit(code) => RecordedEvent::Exit(code),
            Happening::Marker(_) | Happening::Other => continue,
        };
        events.push((event.at.as_secs_f64(), what));
    }
    Ok((events, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_is_read_up_to_the_damage() {
        let text = "{\"version\":2,\"width\":80,\"height\":24}\n[0.5,\"i\",\"ls\\r\"]\n[0.7,\"m\",\"here\"]\n[0.9,\"o\",\"a\\r\\n\"]\n[1\n";
        let (events, damage) = recorded_events(&mut text.as_bytes()).unwrap();
        let expected =
            [(0.5, RecordedEvent::Input("ls\r".to_owned())), (0.9, RecordedEvent::Output("a\r\n".to_owned()))];
        assert_eq!(events, expected);
        assert!(matches!(damage, Some(Damage::Line { line: 5, .. })), "{damage:?}");
    }
}
