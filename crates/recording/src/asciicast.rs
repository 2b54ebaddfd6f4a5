//! Writer of the lines of an asciicast file, version 3.
//!
//! The first line is a header in JSON. Each further line is an event: `[seconds since the previous event, code, data]`;
//! see <https://docs.asciinema.org/manual/asciicast/v3/>. Pure: takes times as parameters, and returns lines.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

/// The header of a recording.
#[derive(Debug, Serialize)]
pub struct Header {
    version: u8,
    term: Term,
    /// Start time of the recording, in seconds since 1970.
    timestamp: u64,
    /// Maximum pause in a replay, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_time_limit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

#[derive(Debug, Serialize)]
struct Term {
    cols: u16,
    rows: u16,
    #[serde(rename = "type")]
    kind: &'static str,
}

impl Header {
    /// Returns the first line of a recording that begins at `timestamp`, in seconds since 1970, with a screen of
    /// this size.
    pub fn line(
        (cols, rows): (u16, u16),
        timestamp: u64,
        idle_time_limit: Option<f64>,
        title: Option<String>,
    ) -> String {
        // The TERM of every program in a steplatch terminal.
        let term = Term { cols, rows, kind: "xterm-256color" };
        line(&Self { version: 3, term, timestamp, idle_time_limit, title })
    }
}

/// Writer of the events of a recording, one line each. Times count from the beginning of the recording.
#[derive(Debug, Default)]
pub struct Events {
    /// The time of the last event, in milliseconds, so that rounding errors do not add up.
    last_millis: u64,
    /// The first bytes of an incomplete character.
    incomplete_bytes: Vec<u8>,
}

impl Events {
    /// Returns the event of printed bytes. `None` until a whole character has arrived.
    pub fn output(&mut self, time: Duration, bytes: &[u8]) -> Option<String> {
        self.incomplete_bytes.extend_from_slice(bytes);
        let end = complete_prefix_len(&self.incomplete_bytes);
        let text = String::from_utf8_lossy(&self.incomplete_bytes[..end]).into_owned();
        self.incomplete_bytes.drain(..end);
        (!text.is_empty()).then(|| self.event(time, "o", &text))
    }

    /// Returns the event of a new size of the screen.
    pub fn resize(&mut self, time: Duration, cols: u16, rows: u16) -> String {
        self.event(time, "r", &format!("{cols}x{rows}"))
    }

    /// Returns the event of the program's exit, the last event.
    pub fn exit(&mut self, time: Duration, code: i32) -> String {
        self.event(time, "x", &code.to_string())
    }

    fn event(&mut self, time: Duration, code: &str, data: &str) -> String {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(self.last_millis);
        let interval = (millis - self.last_millis) as f64 / 1000.0;
        self.last_millis = millis;
        line(&json!([interval, code, data]))
    }
}

fn line(value: &impl Serialize) -> String {
    let mut line = serde_json::to_string(value).expect("an event contains only JSON");
    line.push('\n');
    line
}

/// Returns the number of bytes before an incomplete character at the end.
fn complete_prefix_len(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Err(error) = std::str::from_utf8(&bytes[end..]) {
        match error.error_len() {
            Some(broken) => end += error.valid_up_to() + broken,
            None => return end + error.valid_up_to(),
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn header_has_the_screen_size_and_the_time() {
        let header = Header::line((80, 24), 1_504_467_315, Some(2.5), Some("a \"b\"".to_owned()));
        assert_eq!(
            header,
            "{\"version\":3,\"term\":{\"cols\":80,\"rows\":24,\"type\":\"xterm-256color\"},\"timestamp\":1504467315,\
             \"idle_time_limit\":2.5,\"title\":\"a \\\"b\\\"\"}\n"
        );
        assert_eq!(
            Header::line((80, 24), 1, None, None),
            "{\"version\":3,\"term\":{\"cols\":80,\"rows\":24,\"type\":\"xterm-256color\"},\"timestamp\":1}\n"
        );
    }

    #[test]
    fn events_have_the_time_since_the_previous_one() {
        let mut events = Events::default();
        assert_eq!(events.output(at(0), b"\x1b[2J").unwrap(), "[0.0,\"o\",\"\\u001b[2J\"]\n");
        assert_eq!(events.output(at(248), b"hi\r\n").unwrap(), "[0.248,\"o\",\"hi\\r\\n\"]\n");
        assert_eq!(events.resize(at(1248), 90, 30), "[1.0,\"r\",\"90x30\"]\n");
        assert_eq!(events.exit(Duration::from_micros(1_248_900), 130), "[0.0,\"x\",\"130\"]\n");
    }

    #[test]
    fn rounded_times_do_not_add_up() {
        let mut events = Events::default();
        let mut total = 0.0;
        for step in 1..=1000u64 {
            let line = events.output(Duration::from_micros(step * 1_700), b"x").unwrap();
            let (interval, ..): (f64, String, String) = serde_json::from_str(&line).unwrap();
            total += interval;
        }
        assert!((total - 1.7).abs() < 0.001, "{total}");
    }

    #[test]
    fn split_characters_are_joined_and_invalid_bytes_replaced() {
        let mut events = Events::default();
        assert_eq!(events.output(at(0), &[b'a', 0xe6, 0xbc]).unwrap(), "[0.0,\"o\",\"a\"]\n");
        assert_eq!(events.output(at(0), &[0xa2]).unwrap(), "[0.0,\"o\",\"漢\"]\n");
        assert_eq!(events.output(at(0), &[0xe6]), None);
        assert_eq!(events.output(at(0), b"\xff!").unwrap(), "[0.0,\"o\",\"\u{fffd}\u{fffd}!\"]\n");
    }
}
