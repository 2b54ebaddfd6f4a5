//! Bytes from the other side of a connection: frames, and the messages in them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use steplatch_fuzz::{Target, portions};
use steplatch_terminal::{
    Closed, CommandResult, Description, Excerpt, Handover, InputError, Picture, RunError, ScreenDelta, Sent,
    VariablesError, View, Waited,
};

use crate::client::HostHello;
use crate::inbox::FrameBuffer;
use crate::wire::{
    Ask, AttachEvent, AttachReply, BadFrame, HEAD_BYTES, MAX_BODY_BYTES, OpenRefused, OpenedTerminal, Refusal, Stage,
    first_frame, read_body, write_frame,
};

/// The frames of an input that arrives in portions, and the error that ends the connection, if any.
type Received = (Vec<(u64, Vec<u8>)>, Option<BadFrame>);

fn received(portions: &[&[u8]]) -> Received {
    let (mut buffer, mut frames) = (FrameBuffer::default(), Vec::new());
    for portion in portions {
        buffer.bytes.extend_from_slice(portion);
        let take = |number, body: Option<&[u8]>| frames.push((number, body.unwrap_or_default().to_vec()));
        if let Err(error) = buffer.take_frames(|_| MAX_BODY_BYTES, take) {
            return (frames, Some(error));
        }
        // No complete frame is left: the rest is shorter than one frame.
        assert_eq!(first_frame(&buffer.bytes), Ok(None));
    }
    (frames, None)
}

/// Checks that a body which is a `T` stays the same value through a write and a read. Returns whether it is one.
fn is_stable<T: Serialize + DeserializeOwned>(body: &[u8]) -> bool {
    let Ok(value) = read_body::<T>(body) else { return false };
    let (mut once, mut twice) = (Vec::new(), Vec::new());
    write_frame(&mut once, 7, &value);
    let read: T = read_body(&once[HEAD_BYTES..]).expect("an encoded value can be read");
    write_frame(&mut twice, 7, &read);
    assert_eq!(once.escape_ascii().to_string(), twice.escape_ascii().to_string());
    let (taken, number, range) = first_frame(&once).expect("a frame").expect("a complete frame");
    assert_eq!((taken, number, range), (once.len(), 7, HEAD_BYTES..once.len()));
    true
}

#[test]
fn frames() {
    let target = Target {
        corpus: concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/frames"),
        dictionary: &[
            "\0\0\0\x0c\0\0\0\0\0\0\0\x01",
            "\0\0\0\0\0\0\0\x01",
            "\0\0\0\x08",
            "\x7f",
            "Hello",
            "wire",
            "Open",
            "List",
            "Find",
            "Terminal",
            "Send",
            "Wait",
            "Until",
            "Match",
            "Quiet",
            "Read",
            "Tail",
            "Resize",
            "cols",
            "rows",
            "Unix",
            "secs",
            "nanos",
            "Ok",
            "Err",
            "NoTerminal",
            "term_9j7ayeh6hh",
        ],
        longest: 4_096,
    };
    target.run(|input| {
        let (frames, error) = received(&[input]);
        assert_eq!((frames.clone(), error), received(&portions(input)), "cut into portions");
        let bodies: usize = frames.iter().map(|(_, body)| HEAD_BYTES + body.len()).sum();
        assert!(bodies <= input.len());
        // The input itself is also a body, so that a mutation of its length does not hide all others.
        let bodies =
            frames.iter().map(|(_, body)| body.as_slice()).chain([input, input.get(HEAD_BYTES..).unwrap_or_default()]);
        let kinds: Vec<(u32, String)> = bodies
            .map(|body| {
                let readers: [fn(&[u8]) -> bool; 22] = [
                    is_stable::<Ask>,
                    is_stable::<OpenRefused>,
                    is_stable::<OpenedTerminal>,
                    is_stable::<AttachReply>,
                    is_stable::<AttachEvent>,
                    is_stable::<Refusal>,
                    is_stable::<HostHello>,
                    is_stable::<View>,
                    is_stable::<Sent>,
                    is_stable::<Waited>,
                    is_stable::<Excerpt>,
                    is_stable::<Description>,
                    is_stable::<Handover>,
                    is_stable::<CommandResult>,
                    is_stable::<Closed>,
                    is_stable::<Picture>,
                    is_stable::<ScreenDelta>,
                    is_stable::<Stage>,
                    is_stable::<RunError>,
                    is_stable::<VariablesError>,
                    is_stable::<InputError>,
                    is_stable::<Result<Vec<Description>, Refusal>>,
                ];
                let read = readers.iter().enumerate().map(|(index, read)| u32::from(read(body)) << index);
                let request = read_body::<Ask>(body).map(|ask| format!("{ask:?}")).unwrap_or_default();
                let name: String = request.split(|letter: char| !letter.is_alphabetic()).take(3).collect();
                (read.sum::<u32>(), name)
            })
            .collect();
        (kinds, error.is_some())
    });
}
