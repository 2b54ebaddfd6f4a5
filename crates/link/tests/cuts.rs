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

/// Runs one side of a session over each of the connections. Returns the reasons for the ends of the connections.
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
            let mut unread = BytesMut::new();
            let greeting = if is_client {
                let hello = Hello { received: session.received(), is_new: ends.is_empty(), ..HELLO };
                greet(&mut session, hello, &mut reader, &mut writer, &mut unread).await
            } else {
                match read_hello(&mut reader, &mut unread).await {
                    Ok(hello) => welcome(&mut session, &hello, &mut writer).await,
                    Err(error) => Err(error),
                }
            };
            if let Err(error) = greeting {
                ends.push(error.to_string());
                continue;
            }
            let end = pump(&mut session, &mut local, &mut reader, &mut writer, &mut unread).await;
            let can_resume = end.is_resumable();
            ends.push(end.to_string());
            if !can_resume {
                break;
            }
        }
        ends
    })
}

/// Copies between two streams until this number of bytes has passed, then drops both. This cuts a connection at any
/// byte, possibly within a record.
async fn copy_until_cut(mut client: DuplexStream, mut server: DuplexStream, max_bytes: usize) {
    let (mut from_client, mut from_server) = (vec![0; 4096], vec![0; 4096]);
    let mut passed = 0;
    while passed < max_bytes {
        tokio::select! {
            read = client.read(&mut from_client) => match read {
                Ok(count @ 1..) if server.write_all(&from_client[..count.min(max_bytes - passed)]).await.is_ok() => passed += count,
                _ => return,
            },
            read = server.read(&mut from_server) => match read {
                Ok(count @ 1..) if client.write_all(&from_server[..count.min(max_bytes - passed)]).await.is_ok() => passed += count,
                _ => return,
            },
        }
    }
}

#[tokio::test]
async fn stream_continues_across_cuts_at_any_byte() {
    let (client_program, local) = duplex(1 << 16);
    let (mut server_program, remote) = duplex(1 << 16);
    let (to_client, client_connections) = mpsc::channel(1);
    let (to_server, server_connections) = mpsc::channel(1);
    let client = run_side(local, true, client_connections);
    let server = run_side(remote, false, server_connections);
    let cutter = tokio::spawn(async move {
        for cut in 0.. {
            let ((client_end, client_copy), (server_end, server_copy)) = (duplex(1 << 14), duplex(1 << 14));
            if to_client.send(client_end).await.is_err() || to_server.send(server_end).await.is_err() {
                return cut;
            }
            // First cut within the greeting, then later.
            copy_until_cut(client_copy, server_copy, if cut < 40 { cut * 7 } else { 100_000 + cut * 997 }).await;
        }
        0
    });
    // The other side returns its input in upper case.
    let echo = tokio::spawn(async move {
        let mut bytes = vec![0; 10_000];
        loop {
            let count = server_program.read(&mut bytes).await.unwrap();
            if count == 0 {
                return;
            }
            bytes[..count].make_ascii_uppercase();
            server_program.write_all(&bytes[..count]).await.unwrap();
        }
    });
    let sent: Vec<u8> =
        (0..1_200_000_u32).map(|number| b'a' + (number.wrapping_mul(2_654_435_761) >> 16) as u8 % 26).collect();
    let expected = sent.to_ascii_uppercase();
    let mut returned = vec![0; expected.len()];
    let (mut reader, mut writer) = split(client_program);
    let write_task = tokio::spawn(async move {
        writer.write_all(&sent).await.unwrap();
        writer
    });
    reader.read_exact(&mut returned).await.unwrap();
    assert!(returned == expected, "the received stream differs from the sent one");
    let writer = write_task.await.unwrap();
    drop(reader.unsplit(writer));
    let ends = client.await.unwrap();
    assert_eq!(ends.last().unwrap(), &Ended::ClosedHere.to_string());
    assert_eq!(server.await.unwrap().last().unwrap(), &Ended::ClosedThere.to_string());
    assert!(cutter.await.unwrap() > 40, "{ends:?}");
    echo.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_silent_connection_is_considered_lost() {
    let (_client_program, mut local) = duplex(64);
    let (_server_program, mut remote) = duplex(64);
    let (client_end, server_end) = duplex(64);
    let (mut client, mut server) = (Session::new(), Session::new());
    let started = tokio::time::Instant::now();
    let (mut reader, mut writer) = split(client_end);
    let mut unread = BytesMut::new();
    {
        let (mut server_reader, mut server_writer) = split(server_end);
        let mut server_unread = BytesMut::new();
        // Both sides are idle for an hour, and neither considers the connection lost.
        let both_sides = async {
            tokio::select! {
                end = pump(&mut client, &mut local, &mut reader, &mut writer, &mut unread) => end,
                end = pump(&mut server, &mut remote, &mut server_reader, &mut server_writer, &mut server_unread) => end,
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(3600), both_sides).await.is_err());
        // Now the server stalls while its connection stays open.
        let end = pump(&mut client, &mut local, &mut reader, &mut writer, &mut unread).await;
        assert!(matches!(end, Ended::Silent), "{end}");
    }
    assert!(started.elapsed() < Duration::from_secs(3600) + SILENCE_TIMEOUT * 2);
}

#[tokio::test]
async fn unknown_session_is_refused_with_a_reason() {
    let (client_end, server_end) = duplex(64);
    let server = tokio::spawn(async move {
        let (mut reader, mut writer) = split(server_end);
        let hello = read_hello(&mut reader, &mut BytesMut::new()).await.unwrap();
        refuse(Refusal::Unknown, &mut writer).await.unwrap();
        hello
    });
    let (mut reader, mut writer) = split(client_end);
    let error = greet(&mut Session::new(), HELLO, &mut reader, &mut writer, &mut BytesMut::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "the other side no longer has the session");
    assert_eq!(server.await.unwrap(), HELLO);
}
