//! The events of a whole recording, with the typed input.

use std::io::{self, BufRead};

use crate::reader::{self, Damage, EventContent, FilePosition};

/// Maximum number of events in memory.
const MAX_EVENTS: usize = 1_000_000;

/// An event of a recording that a replay or an import uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedEvent {
    /// Output of a program.
    Output(String),
    /// Typed input, as a terminal sends it.
    Input(String),
    /// The size of the screen changed.
    Resize {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// The program ended with this exit code.
    Exit(i32),
}

/// Events, each with the seconds since the beginning, and the damage after them.
pub type RecordedEvents = (Vec<(f64, RecordedEvent)>, Option<Damage>);

/// Returns the events of a recording, with their seconds since the beginning, and the damage after them.
///
/// # Errors
/// If reading the file fails.
pub fn recorded_events(file: &mut impl BufRead) -> io::Result<RecordedEvents> {
    let mut position = FilePosition::default();
    let mut events = Vec::new();
    let header = match reader::read_header(file, &mut position)? {
        Ok(header) => header,
        Err(damage) => return Ok((events, Some(damage))),
    };
    while events.len() < MAX_EVENTS {
        let event = match reader::read_event(file, &header, &mut position)? {
            Ok(Some(event)) => event,
            Ok(None) => break,
            Err(damage) => return Ok((events, Some(damage))),
        };
        let content = match event.content {
            EventContent::Output(text) => RecordedEvent::Output(text),
            EventContent::Input(text) => RecordedEvent::Input(text),
            EventContent::Resize(size) => RecordedEvent::Resize { cols: size.cols, rows: size.rows },
            EventContent::Exit(code) => RecordedEvent::Exit(code),
            EventContent::Marker(_) | EventContent::Other => continue,
        };
        events.push((event.time.as_secs_f64(), content));
    }
    Ok((events, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_before_the_damage_are_returned() {
        let text = "{\"version\":2,\"width\":80,\"height\":24}\n[0.5,\"i\",\"ls\\r\"]\n[0.7,\"m\",\"here\"]\n[0.9,\"o\",\"a\\r\\n\"]\n[1\n";
        let (events, damage) = recorded_events(&mut text.as_bytes()).unwrap();
        let expected =
            [(0.5, RecordedEvent::Input("ls\r".to_owned())), (0.9, RecordedEvent::Output("a\r\n".to_owned()))];
        assert_eq!(events, expected);
        assert!(matches!(damage, Some(Damage::Line { line: 5, .. })), "{damage:?}");
    }
}
