//! Fuzz target for bytes from the other side of a link: records, in portions of any size.

use bytes::BytesMut;
use steplatch_fuzz::{Target, split_into_portions};

use crate::record::{BadRecord, Record};
use crate::session::{Session, WINDOW};

fn read_records(portions: &[&[u8]]) -> (Vec<Record>, Option<BadRecord>) {
    let (mut bytes, mut records) = (BytesMut::new(), Vec::new());
    for portion in portions {
        bytes.extend_from_slice(portion);
        loop {
            match Record::read(&mut bytes) {
                Ok(Some(record)) => records.push(record),
                Ok(None) => break,
                Err(error) => return (records, Some(error)),
            }
        }
    }
    (records, None)
}

#[test]
fn records() {
    let target = Target {
        corpus: concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/records"),
        dictionary: &[
            "STEPLNK1",
            "H\0\0\0\x31",
            "W\0\0\0\x08",
            "R\0\0\0\x01",
            "D\0\0\0\x04",
            "C\0\0\0\x08",
            "X\0\0\0\0",
        ],
        max_bytes: 400,
    };
    target.run(|input| {
        let (records, error) = read_records(&[input]);
        assert_eq!(read_records(&split_into_portions(input)), (records.clone(), error), "portions do not matter");
        let mut session = Session::new();
        let mut outcomes = Vec::new();
        for record in records {
            let mut encoded = BytesMut::new();
            record.write(&mut encoded);
            assert_eq!(Record::read(&mut encoded), Ok(Some(record.clone())));
            outcomes.push(session.take(record).is_ok());
            assert!(session.incoming().len() <= WINDOW);
        }
        (outcomes, error.is_some())
    });
}
