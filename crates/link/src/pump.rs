//! Transport of a session over one connection, between a local stream and the other host.

use std::io;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;

use crate::record::{BadRecord, Record, write_data};
use crate::session::{Received, Session, Violation};

/// Maximum time without data before a connection is considered lost.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(15);

/// Interval of a side's records, so that its connection is not considered lost.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of encoded bytes; further bytes remain in the session.
const MAX_ENCODED_BYTES: usize = 128 << 10;

/// Maximum number of bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// Reason why a connection no longer carries the session.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The connection was lost. The session can continue over another one.
    #[error("the connection was lost: {0}")]
    Lost(io::Error),
    /// Nothing arrived for [`SILENCE_TIMEOUT`]. The session can continue over another connection.
    #[error("the other side sent nothing for {} s", SILENCE_TIMEOUT.as_secs())]
    Silent,
    /// The local stream has ended, and the other side was informed. The session has ended.
    #[error("the session was closed")]
    ClosedHere,
    /// The other side has ended the session.
    #[error("the other side has closed the session")]
    ClosedThere,
    /// The other side contradicts the protocol. The session has ended.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The other side sends something other than records. The session has ended.
    #[error(transparent)]
    Record(#[from] BadRecord),
}

impl Ended {
    /// Returns whether the other side has violated the protocol, so that another connection would not help.
    #[must_use]
    pub fn is_violation(&self) -> bool {
        matches!(self, Self::Violation(_) | Self::Record(_))
    }

    /// Returns whether the session can continue over another connection.
    #[must_use]
    pub fn is_resumable(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Silent)
    }
}

/// The next event of a connection.
enum Step {
    /// The connection delivered bytes, or ended.
    Arrived(io::Result<usize>),
    /// The connection accepted bytes.
    Written(io::Result<usize>),
    /// The local stream provided bytes, or ended.
    Queued(io::Result<usize>),
    /// The local stream accepted bytes.
    Delivered(io::Result<usize>),
    /// A heartbeat is due.
    HeartbeatDue,
    /// The other side was silent for too long.
    Silent,
}

/// Carries `session` between `local` and the connection of `reader` and `writer`, until either ends. `unread` contains
/// the bytes that were read after the greeting.
///
/// At the end of `local`, sends its last bytes and closes the session. Dropping the future has the same effect as
/// the loss of the connection.
pub async fn pump(
    session: &mut Session,
    local: &mut (impl AsyncRead + AsyncWrite + Unpin),
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    unread: &mut BytesMut,
) -> Ended {
    let (mut local_reader, mut local_writer) = tokio::io::split(local);
    let mut output = BytesMut::new();
    // End of the report in `output`; 0 if it contains none.
    let mut report_end = 0_usize;
    let mut buffer = vec![0; READ_BYTES];
    let (mut last_arrival, mut last_write) = (Instant::now(), Instant::now());
    let mut closing = Closing::No;
    loop {
        loop {
            match Record::read(unread).map(|record| record.map(|record| session.take(record))) {
                Ok(Some(Ok(Received::More))) => {}
                Ok(Some(Ok(Received::Close))) => {
                    // Ignore the error, because a closed local stream does not need the last bytes.
                    let _ = local_writer.write_all(session.incoming()).await;
                    return Ended::ClosedThere;
                }
                Ok(Some(Err(violation))) => return violation.into(),
                Ok(None) => break,
                Err(error) => return error.into(),
            }
        }
        // A connection that accepts no bytes has only one report in `output`, however many bytes arrive.
        if session.owes_report() && report_end == 0 {
            session.report().write(&mut output);
            report_end = output.len();
        }
        while output.len() < MAX_ENCODED_BYTES {
            let Some(data) = session.next_data() else { break };
            write_data(&mut output, data);
        }
        if closing == Closing::Requested && session.is_sent() {
            Record::Close.write(&mut output);
            closing = Closing::Announced;
        }
        if closing == Closing::Announced && output.is_empty() {
            // Ignore the error, because the connection may end before it has sent the last bytes.
            let _ = writer.flush().await;
            return Ended::ClosedHere;
        }
        let room = if closing == Closing::No { session.room().min(READ_BYTES) } else { 0 };
        let step = tokio::select! {
            // Writing keystrokes has priority over reading a flood, and reading records over checking for silence.
            biased;
            written = writer.write(&output), if !output.is_empty() => Step::Written(written),
            queued = local_reader.read(&mut buffer[..room]), if room > 0 => Step::Queued(queued),
            // Always read: the window limits incoming bytes, and reports of the other side make room for outgoing
            // bytes.
            arrived = reader.read_buf(unread) => Step::Arrived(arrived),
            delivered = local_writer.write(session.incoming()), if !session.incoming().is_empty() => {
                Step::Delivered(delivered)
            }
            () = tokio::time::sleep_until(last_write + HEARTBEAT_INTERVAL) => Step::HeartbeatDue,
            () = tokio::time::sleep_until(last_arrival + SILENCE_TIMEOUT) => Step::Silent,
        };
        match step {
            Step::Arrived(Ok(1..)) => last_arrival = Instant::now(),
            Step::Arrived(Ok(0)) | Step::Written(Ok(0)) => return Ended::Lost(io::ErrorKind::UnexpectedEof.into()),
            Step::Arrived(Err(error)) | Step::Written(Err(error)) => return Ended::Lost(error),
            Step::Written(Ok(count)) => {
                output.advance(count);
                report_end = report_end.saturating_sub(count);
                last_write = Instant::now();
            }
            Step::Queued(Ok(count @ 1..)) => session.push(&buffer[..count]),
            Step::Queued(Ok(0) | Err(_)) => closing = closing.requested(),
            Step::Delivered(Ok(count @ 1..)) => session.deliver(count),
            Step::Delivered(Ok(0) | Err(_)) => {
                // The local stream no longer reads.
                session.deliver(session.incoming().len());
                closing = closing.requested();
            }
            Step::HeartbeatDue => {
                // A connection that accepts no bytes receives no more reports.
                last_write = Instant::now();
                if output.is_empty() {
                    session.report().write(&mut output);
                }
            }
            Step::Silent => return Ended::Silent,
        }
    }
}

/// Progress of closing the session after the end of the local stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    No,
    Requested,
    Announced,
}

impl Closing {
    const fn requested(self) -> Self {
        match self {
            Self::No => Self::Requested,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{duplex, sink};

    use super::*;
    use crate::record::MAX_DATA_BYTES;

    #[tokio::test(start_paused = true)]
    async fn flooded_connection_sends_few_reports() {
        const FLOOD_BYTES: usize = 8 << 20;
        let (mut local, mut program) = duplex(1 << 20);
        let (mut reader, mut flood) = duplex(1 << 20);
        let (mut writer, mut slow_reader) = duplex(4);
        let pump_task = tokio::spawn(async move {
            pump(&mut Session::new(), &mut local, &mut reader, &mut writer, &mut BytesMut::new()).await
        });
        let mut data = BytesMut::new();
        write_data(&mut data, &[0; MAX_DATA_BYTES]);
        let write_flood = async {
            for _ in 0..FLOOD_BYTES / MAX_DATA_BYTES {
                flood.write_all(&data).await.unwrap();
            }
        };
        let read_all =
            async { tokio::io::copy(&mut (&mut program).take(FLOOD_BYTES as u64), &mut sink()).await.unwrap() };
        tokio::join!(write_flood, read_all);
        let (mut sent, mut reports) = (BytesMut::new(), Vec::new());
        while reports.last() != Some(&Record::Consumed(FLOOD_BYTES as u64)) {
            slow_reader.read_buf(&mut sent).await.unwrap();
            reports.extend(Record::read(&mut sent).unwrap());
        }
        assert!(reports.len() <= 3, "{reports:?}");
        pump_task.abort();
    }
}
