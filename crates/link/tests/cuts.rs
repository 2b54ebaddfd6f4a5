//! A session over real streams that are cut, stall, or end.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use bytes::BytesMut;
use steplatch_link::{
    Ended, Hello, Refusal, SILENCE_TIMEOUT, Session, SessionId, greet, pump, read_hello, refuse, welcome,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

const HELLO: Hello = Hello { client: SessionId([1; 16]), session: SessionId([2; 16]), received: 0, is_new: true };

/// One side: runs its session over each given connection, and returns the reason why the last one ended.
fn run_side(
    mut local: DuplexStream,
    is_client: bool,
    mut connections: mpsc::Receiver<DuplexStream>,
) -> JoinHandle<Vec<String>> {
    tokio::spawn(async move {
        let mut session = Session::new();
        let mut ends = Vec::new();
        while let Some(connection) = connections.recv().await {
            let (mut reader, mut writer) = split(connection);
            let mut rest = BytesMut::new();
            let greeted = if is_client {
                let hello = Hello { received: session.received(), is_new: ends.is_empty(), ..HELLO };
                greet(&mut session, hello, &mut reader, &mut writer, &mut rest).await
            } else {
                match read_hello(&mut reader, &mut rest).await {
                    Ok(hello) => welcome(&mut session, &hello, &mut writer).await,
                    Err(error) => Err(error),
                }
            };
            if let Err(error) = greeted {
                ends.push(error.to_string());
                continue;
            }
            let ended = pump(&mut session, &mut local, &mut reader, &mut writer, &mut rest).await;
            let is_over = !ended.is_resumable();
            ends.push(ended.to_string());
            if is_over {
                break;
            }
        }
        ends
    })
}

/// Copies between two ends until this number of bytes has passed, then drops both: a connection cut in the middle of a
/// record.
async fn copy_until_cut(mut one: DuplexStream, mut other: DuplexStream, most: usize) {
    let (mut there, mut back) = (vec![0; 4096], vec![0; 4096]);
    let mut passed = 0;
    while passed < most {
        tokio::select! {
            read = one.read(&mut there) => match read {
                Ok(count @ 1..) if other.write_all(&there[..count.min(most - passed)]).await.is_ok() => passed += count,
                _ => return,
            },
            read = other.read(&mut back) => match read {
                Ok(count @ 1..) if one.write_all(&back[..count.min(most - passed)]).await.is_ok() => passed += count,
                _ => return,
            },
        }
    }
}

#[tokio::test]
async fn stream_continues_across_cuts_at_any_byte() {
    let (mut ours, local) = duplex(1 << 16);
    let (mut theirs, remote) = duplex(1 << 16);
    let (to_client, client_connections) = mpsc::channel(1);
    let (to_server, server_connections) = mpsc::channel(1);
    let client = run_side(local, true, client_connections);
    let server = run_side(remote, false, server_connections);
    let cutter = tokio::spawn(async move {
        for cut in 0.. {
            let ((client_end, one), (server_end, other)) = (duplex(1 << 14), duplex(1 << 14));
            if to_client.send(client_end).await.is_err() || to_server.send(server_end).await.is_err() {
                return cut;
            }
            // Cuts within the greeting, and later ones.
            copy_until_cut(one, other, if cut < 40 { cut * 7 } else { 100_000 + cut * 997 }).await;
        }
        0
    });
    // The other side returns its input in upper case.
    let echo = tokio::spawn(async move {
        let mut bytes = vec![0; 10_000];
        loop {
            let count = theirs.read(&mut bytes).await.unwrap();
            if count == 0 {
                return;
            }
            bytes[..count].make_ascii_uppercase();
            theirs.write_all(&bytes[..count]).await.unwrap();
        }
    });
    let sent: Vec<u8> =
        (0..1_200_000_u32).map(|number| b'a' + (number.wrapping_mul(2_654_435_761) >> 16) as u8 % 26).collect();
    let wanted = sent.to_ascii_uppercase();
    let mut returned = vec![0; wanted.len()];
    let (mut from, mut to) = split(ours);
    let writer = tokio::spawn(async move {
        to.write_all(&sent).await.unwrap();
        to
    });
    from.read_exact(&mut returned).await.unwrap();
    assert!(returned == wanted, "the received stream differs from the sent one");
    let to = writer.await.unwrap();
    ours = from.unsplit(to);
    drop(ours);
    let ends = client.await.unwrap();
    assert_eq!(ends.last().unwrap(), &Ended::ClosedHere.to_string());
    assert_eq!(server.await.unwrap().last().unwrap(), &Ended::ClosedThere.to_string());
    assert!(cutter.await.unwrap() > 40, "{ends:?}");
    echo.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn silent_connection_is_lost_but_a_live_one_is_not() {
    let (_ours, mut local) = duplex(64);
    let (_theirs, mut remote) = duplex(64);
    let (one, other) = duplex(64);
    let (mut here, mut there) = (Session::new(), Session::new());
    let started = tokio::time::Instant::now();
    let (mut reader, mut writer) = split(one);
    let mut rest = BytesMut::new();
    {
        let (mut far_reader, mut far_writer) = split(other);
        let mut far_rest = BytesMut::new();
        // Both are idle for an hour, and neither considers the other lost.
        let both = async {
            tokio::select! {
                ended = pump(&mut here, &mut local, &mut reader, &mut writer, &mut rest) => ended,
                ended = pump(&mut there, &mut remote, &mut far_reader, &mut far_writer, &mut far_rest) => ended,
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(3600), both).await.is_err());
        // Now the remote side stalls with its connection open.
        let ended = pump(&mut here, &mut local, &mut reader, &mut writer, &mut rest).await;
        assert!(matches!(ended, Ended::Silent), "{ended}");
    }
    assert!(started.elapsed() < Duration::from_secs(3600) + SILENCE_TIMEOUT * 2);
}

#[tokio::test]
async fn missing_session_is_refused_with_the_reason() {
    let (one, other) = duplex(64);
    let far = tokio::spawn(async move {
        let (mut reader, mut writer) = split(other);
        let hello = read_hello(&mut reader, &mut BytesMut::new()).await.unwrap();
        refuse(Refusal::Unknown, &mut writer).await.unwrap();
        hello
    });
    let (mut reader, mut writer) = split(one);
    let error = greet(&mut Session::new(), HELLO, &mut reader, &mut writer, &mut BytesMut::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "the other side does not have the session any more");
    assert_eq!(far.await.unwrap(), HELLO);
}
