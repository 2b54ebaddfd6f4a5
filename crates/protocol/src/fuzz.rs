//! Bytes from a client or a daemon: lines, the messages in them, and the parameters of verbs.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use serde::Serialize;
use serde::de::DeserializeOwned;
use steplatch_fuzz::{Target, split_into_portions};
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

use crate::codec::{Line, LineReader};
use crate::{Command, FromClient, FromDaemon};

/// Maximum line length of the tested reader, in bytes.
const MAX_LINE_BYTES: usize = 250;

/// A stream that is not ready before each portion.
struct PortionStream<'a> {
    portions: std::vec::IntoIter<&'a [u8]>,
    current: &'a [u8],
}

impl AsyncRead for PortionStream<'_> {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        unreachable!("lines are read from the buffer")
    }
}

impl AsyncBufRead for PortionStream<'_> {
    fn poll_fill_buf(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.current.is_empty()
            && let Some(next) = this.portions.next()
        {
            this.current = next;
            return Poll::Pending;
        }
        Poll::Ready(Ok(this.current))
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        let this = self.get_mut();
        this.current = &this.current[amount..];
    }
}

/// Reads all lines. The future is dropped wherever the stream is not ready, as in a `select!`.
fn read_lines(input: &[u8]) -> Vec<Line> {
    let stream = PortionStream { portions: split_into_portions(input).into_iter(), current: &[] };
    let mut reader = LineReader::with_max_bytes(stream, MAX_LINE_BYTES);
    let mut context = Context::from_waker(Waker::noop());
    let mut lines = Vec::new();
    loop {
        match pin!(reader.next()).poll(&mut context) {
            Poll::Pending => {}
            Poll::Ready(line) => match line.expect("the stream does not fail") {
                Some(line) => lines.push(line),
                None => return lines,
            },
        }
    }
}

fn expected_lines(input: &[u8]) -> Vec<Line> {
    let mut lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    // Text without a line end is not a line.
    lines.pop();
    let line = |bytes: &[u8]| if bytes.len() > MAX_LINE_BYTES { Line::TooLong } else { Line::Bytes(bytes.to_vec()) };
    lines.into_iter().map(line).collect()
}

/// Checks that a line that is a valid `T` stays the same when it is serialized and parsed again.
fn parse_round_trip<T: Serialize + DeserializeOwned>(line: &[u8]) -> Option<T> {
    let value: T = serde_json::from_slice(line).ok()?;
    let first = serde_json::to_string(&value).expect("messages are serializable");
    let parsed: T = serde_json::from_str(&first).unwrap_or_else(|error| panic!("{error}: {first}"));
    let second = serde_json::to_string(&parsed).expect("messages are serializable");
    // The last digit of a fraction may change when it is parsed.
    assert!(first == second || first.contains(['.', 'e']), "{first} became {second}");
    Some(value)
}

#[test]
fn lines() {
    let target = Target {
        corpus: concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/lines"),
        dictionary: &[
            "\n",
            "\r\n",
            "\"type\":\"command\"",
            "\"type\":\"result\"",
            "\"type\":\"event\"",
            "\"params\":{",
            "\"request_id\":",
            "\"request\":",
            "\"step\":",
            "OPEN_TERMINAL",
            "SEND_INPUT",
            "AWAIT_OUTPUT",
            "READ_OUTPUT",
            "RUN_COMMAND",
            "RUN_WORKFLOW",
            "EXIT_TERMINAL",
            "ANSWER_GATE",
            "SAVE_WORKFLOW",
            "\"timeout_ms\":",
            "\"session_id\":\"s\"",
            "\"env\":",
            "\"[1,2]\"",
            "\"{}\"",
            "null",
            "true",
            "\"true\"",
            "1e308",
            "\"NaN\"",
            "9007199254740993",
            "\\ud800",
            "\\u0000",
        ],
        max_bytes: 2_000,
    };
    target.run(|input| {
        let lines = read_lines(input);
        assert_eq!(lines, expected_lines(input));
        let outcomes: Vec<String> = lines
            .iter()
            .map(|line| {
                let Line::Bytes(line) = line else { return "too long".to_owned() };
                let _ = parse_round_trip::<FromDaemon>(line);
                let Some(FromClient::Command { command_type, params, .. }) = parse_round_trip::<FromClient>(line)
                else {
                    return String::new();
                };
                match Command::parse(&command_type, params) {
                    None => String::new(),
                    Some(Ok((_, warnings))) => format!("{command_type} {}", warnings.len()),
                    Some(Err(error)) => {
                        assert!(error.problems.iter().all(|problem| !problem.is_empty()) && !error.problems.is_empty());
                        let message = error.to_string();
                        format!("{command_type} {}", message.split(['\'', ',']).next().unwrap_or_default())
                    }
                }
            })
            .collect();
        outcomes
    });
}
