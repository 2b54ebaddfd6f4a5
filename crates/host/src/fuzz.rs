//! Fuzzing of the bytes from the peer: frames, and the messages in them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use steplatch_fuzz::{Target, split_into_portions};
use steplatch_terminal::{
    Closed, CommandResult, Description, Excerpt, Handover, InputError, Picture, RunError, ScreenDelta, Sent,
    VariablesError, View, Waited,
};

use crate::client::HostHello;
use crate::inbox::FrameBuffer;
use crate::wire::{
    AttachEvent, AttachReply, BadFrame, HEAD_BYTES, HostRequest, MAX_BODY_BYTES, OpenRefused, OpenedTerminal, Refusal,
    Stage, first_frame, read_body, write_frame,
};

/// Frames of an input, and the error that ends the connection, if any.
type ReadFrames = (Vec<(u64, Vec<u8>)>, Option<BadFrame>);

/// Reads the frames of an input that arrives in portions.
fn read_frames(portions: &[&[u8]]) -> ReadFrames {
    let (mut buffer, mut frames) = (FrameBuffer::default(), Vec::new());
    for portion in portions {
        buffer.bytes.extend_from_slice(portion);
        let take = |number, body: Option<&[u8]>| frames.push((number, body.unwrap_or_default().to_vec()));
        if let Err(error) = buffer.take_frames(|_| MAX_BODY_BYTES, take) {
            return (frames, Some(error));
        }
        // The buffer holds at most a part of a frame.
        assert_eq!(first_frame(&buffer.bytes), Ok(None));
    }
    (frames, None)
}

/// Checks that a body of type `T` survives encoding and decoding. Returns whether the body is of this type.
fn check_round_trip<T: Serialize + DeserializeOwned>(body: &[u8]) -> bool {
    let Ok(value) = read_body::<T>(body) else { return false };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    write_frame(&mut first, 7, &value);
    let read: T = read_body(&first[HEAD_BYTES..]).expect("an encoded value can be decoded");
    write_frame(&mut second, 7, &read);
    assert_eq!(first.escape_ascii().to_string(), second.escape_ascii().to_string());
    let (length, number, range) = first_frame(&first).expect("a frame").expect("the frame is complete");
    assert_eq!((length, number, range), (first.len(), 7, HEAD_BYTES..first.len()));
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
        max_bytes: 4_096,
    };
    target.run(|input| {
        let (frames, error) = read_frames(&[input]);
        assert_eq!(
            (frames.clone(), error),
            read_frames(&split_into_portions(input)),
            "portions do not change the frames"
        );
        let bodies: usize = frames.iter().map(|(_, body)| HEAD_BYTES + body.len()).sum();
        assert!(bodies <= input.len());
        // Read the input itself as a body too, because a mutated length would hide the bodies of all frames.
        let bodies =
            frames.iter().map(|(_, body)| body.as_slice()).chain([input, input.get(HEAD_BYTES..).unwrap_or_default()]);
        let kinds: Vec<(u32, String)> = bodies
            .map(|body| {
                let readers: [fn(&[u8]) -> bool; 22] = [
                    check_round_trip::<HostRequest>,
                    check_round_trip::<OpenRefused>,
                    check_round_trip::<OpenedTerminal>,
                    check_round_trip::<AttachReply>,
                    check_round_trip::<AttachEvent>,
                    check_round_trip::<Refusal>,
                    check_round_trip::<HostHello>,
                    check_round_trip::<View>,
                    check_round_trip::<Sent>,
                    check_round_trip::<Waited>,
                    check_round_trip::<Excerpt>,
                    check_round_trip::<Description>,
                    check_round_trip::<Handover>,
                    check_round_trip::<CommandResult>,
                    check_round_trip::<Closed>,
                    check_round_trip::<Picture>,
                    check_round_trip::<ScreenDelta>,
                    check_round_trip::<Stage>,
                    check_round_trip::<RunError>,
                    check_round_trip::<VariablesError>,
                    check_round_trip::<InputError>,
                    check_round_trip::<Result<Vec<Description>, Refusal>>,
                ];
                let read = readers.iter().enumerate().map(|(index, read)| u32::from(read(body)) << index);
                let request = read_body::<HostRequest>(body).map(|request| format!("{request:?}")).unwrap_or_default();
                let name: String = request.split(|letter: char| !letter.is_alphabetic()).take(3).collect();
                (read.sum::<u32>(), name)
            })
            .collect();
        (kinds, error.is_some())
    });
}
