//! The records of a connection.
//!
//! A record is one byte of kind, four bytes of body length (big endian), and the body. Numbers in bodies are eight
//! bytes, big endian.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::greeting::{Hello, Refusal};

/// Maximum length of the data of one record, in bytes.
pub(crate) const MAX_DATA_BYTES: usize = 64 << 10;

/// Maximum length of a received body, in bytes.
const MAX_BODY_BYTES: usize = MAX_DATA_BYTES;

/// Length of the kind and the length before a body, in bytes.
const HEAD_BYTES: usize = 5;

/// The first bytes of a greeting. They distinguish a link from another protocol.
const MAGIC: [u8; 8] = *b"STEPLNK1";

/// Random id of a session or a client. It is unique and cannot be guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    /// Creates a random id.
    ///
    /// # Panics
    /// If the operating system provides no random bytes.
    #[must_use]
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
        Self(bytes)
    }
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    /// The client begins a session, or continues one.
    Hello(Hello),
    /// The server has received this number of bytes of the session.
    Welcome(u64),
    /// The server does not have the session, or accepts no sessions.
    Refused(Refusal),
    /// The next bytes of the stream.
    Data(Bytes),
    /// Number of consumed bytes. Sent at least every few seconds, so that the other side knows that the connection is
    /// alive.
    Consumed(u64),
    /// The session has ended.
    Close,
}

/// Bytes that are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the received bytes are not a record of a link")]
pub struct BadRecord;

mod kind {
    pub(super) const HELLO: u8 = b'H';
    pub(super) const WELCOME: u8 = b'W';
    pub(super) const REFUSED: u8 = b'R';
    pub(super) const DATA: u8 = b'D';
    pub(super) const CONSUMED: u8 = b'C';
    pub(super) const CLOSE: u8 = b'X';
}

impl Record {
    /// Appends the record to `output`.
    pub(crate) fn write(&self, output: &mut BytesMut) {
        let start = output.len();
        output.put_bytes(0, HEAD_BYTES);
        let kind = match self {
            Self::Hello(Hello { client, session, received, is_new }) => {
                output.put_slice(&MAGIC);
                output.put_slice(&client.0);
                output.put_slice(&session.0);
                output.put_u64(*received);
                output.put_u8(u8::from(*is_new));
                kind::HELLO
            }
            Self::Welcome(received) => {
                output.put_u64(*received);
                kind::WELCOME
            }
            Self::Refused(refusal) => {
                output.put_u8(refusal.code());
                kind::REFUSED
            }
            Self::Data(bytes) => {
                output.put_slice(bytes);
                kind::DATA
            }
            Self::Consumed(count) => {
                output.put_u64(*count);
                kind::CONSUMED
            }
            Self::Close => kind::CLOSE,
        };
        fill_head(output, start, kind);
    }

    /// Removes the first record from `bytes`; returns `None` until it is complete.
    pub(crate) fn read(bytes: &mut BytesMut) -> Result<Option<Self>, BadRecord> {
        let Some((head, _)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let [kind, length @ ..] = *head;
        let length = u32::from_be_bytes(length) as usize;
        if length > MAX_BODY_BYTES || !is_valid_length(kind, length) {
            return Err(BadRecord);
        }
        if bytes.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        let mut body = bytes.split_to(HEAD_BYTES + length).freeze();
        body.advance(HEAD_BYTES);
        Ok(Some(match kind {
            kind::HELLO => {
                let mut magic = [0; 8];
                body.copy_to_slice(&mut magic);
                if magic != MAGIC {
                    return Err(BadRecord);
                }
                let (mut client, mut session) = ([0; 16], [0; 16]);
                body.copy_to_slice(&mut client);
                body.copy_to_slice(&mut session);
                let (received, is_new) = (body.get_u64(), body.get_u8() != 0);
                Self::Hello(Hello { client: SessionId(client), session: SessionId(session), received, is_new })
            }
            kind::WELCOME => Self::Welcome(body.get_u64()),
            kind::REFUSED => Self::Refused(Refusal::from_code(body.get_u8())),
            kind::DATA => Self::Data(body),
            kind::CONSUMED => Self::Consumed(body.get_u64()),
            kind::CLOSE => Self::Close,
            _ => return Err(BadRecord),
        }))
    }
}

/// Appends a data record without an intermediate copy.
pub(crate) fn write_data(output: &mut BytesMut, data: &[u8]) {
    let start = output.len();
    output.put_bytes(0, HEAD_BYTES);
    output.put_slice(data);
    fill_head(output, start, kind::DATA);
}

fn fill_head(output: &mut BytesMut, start: usize, kind: u8) {
    let length = u32::try_from(output.len() - start - HEAD_BYTES).expect("a body is at most 64 KiB long");
    output[start] = kind;
    output[start + 1..start + HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
}

/// Returns whether a record of this kind may have a body of this length.
fn is_valid_length(kind: u8, length: usize) -> bool {
    match kind {
        kind::HELLO => length == MAGIC.len() + 16 + 16 + 8 + 1,
        kind::WELCOME | kind::CONSUMED => length == 8,
        kind::REFUSED => length == 1,
        kind::DATA => (1..=MAX_DATA_BYTES).contains(&length),
        kind::CLOSE => length == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Record> {
        let hello = Hello { client: SessionId([1; 16]), session: SessionId([2; 16]), received: 7, is_new: true };
        vec![
            Record::Hello(hello),
            Record::Welcome(u64::MAX),
            Record::Refused(Refusal::Unknown),
            Record::Data(Bytes::from_static(b"x")),
            Record::Data(Bytes::from(vec![0; MAX_DATA_BYTES])),
            Record::Consumed(0),
            Record::Close,
        ]
    }

    #[test]
    fn record_is_read_only_when_complete() {
        for record in samples() {
            let mut written = BytesMut::new();
            record.write(&mut written);
            for cut in (0..written.len()).step_by(1 + written.len() / 50) {
                assert_eq!(Record::read(&mut BytesMut::from(&written[..cut])), Ok(None));
            }
            assert_eq!(Record::read(&mut written), Ok(Some(record)));
            assert!(written.is_empty());
        }
    }

    #[test]
    fn bytes_of_another_program_are_refused_early() {
        for text in ["Welcome to box!", "SSH-2.0-OpenSSH", "\0\0\0\0\0", "H\0\0\0\x31NOTLINK1"] {
            let padded = format!("{text}{}", "\0".repeat(60));
            assert_eq!(Record::read(&mut BytesMut::from(padded.as_bytes())), Err(BadRecord), "{text}");
        }
        assert_eq!(Record::read(&mut BytesMut::from(&b"D\xff\xff\xff\xff"[..])), Err(BadRecord));
        assert_eq!(Record::read(&mut BytesMut::from(&b"D\0\0\0\0"[..])), Err(BadRecord));
    }

    #[test]
    fn wire_bytes_are_stable() {
        let mut written = BytesMut::new();
        for record in samples().into_iter().filter(|record| !matches!(record, Record::Data(data) if data.len() > 1)) {
            record.write(&mut written);
        }
        let hex: String = written.iter().map(|byte| format!("{byte:02x}")).collect();
        let hello = "4800000031535445504c4e4b310101010101010101010101010101010102020202020202020202020202020202000000000000000701";
        let other_records = "5700000008ffffffffffffffff520000000101440000000178430000000800000000000000005800000000";
        assert_eq!(hex, format!("{hello}{other_records}"));
    }
}
