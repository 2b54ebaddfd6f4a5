//! The greeting of a connection: its session, and the positions of both sides.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::record::{BadRecord, Record, SessionId};
use crate::session::{Session, Violation};

/// The first record of a connection, from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Id of the client. A new session of a client ends its earlier sessions.
    pub client: SessionId,
    /// Id of the session.
    pub session: SessionId,
    /// Number of bytes of the session that the client has received.
    pub received: u64,
    /// True if the session begins with this connection.
    pub is_new: bool,
}

/// Reason why a server refuses a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The server does not have the session: the session or its process has ended, the session had no connection for
    /// too long, or another session replaced it.
    #[error("the other side no longer has the session")]
    Unknown,
    /// The server accepts no session, for a reason that is unknown to this version.
    #[error("the other side accepts no session")]
    Other,
}

impl Refusal {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Other => 0,
            Self::Unknown => 1,
        }
    }

    pub(crate) const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Unknown,
            _ => Self::Other,
        }
    }
}

/// Reason why a greeting failed.
#[derive(Debug, thiserror::Error)]
pub enum GreetError {
    /// The connection was lost.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The other side is another program.
    #[error(transparent)]
    Record(#[from] BadRecord),
    /// The server refused the session.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The other side contradicts the session.
    #[error(transparent)]
    Violation(#[from] Violation),
}

/// Greets as the client. `unread` receives the bytes after the welcome, for [`crate::pump`].
///
/// # Errors
/// If the server refuses, or the connection does not carry a link.
pub async fn greet(
    session: &mut Session,
    hello: Hello,
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    unread: &mut BytesMut,
) -> Result<(), GreetError> {
    write_record(&Record::Hello(hello), writer).await?;
    match read_first_record(reader, unread).await? {
        Record::Welcome(received) => Ok(session.resume(received)?),
        Record::Refused(refusal) => Err(refusal.into()),
        _ => Err(BadRecord.into()),
    }
}

/// Reads the greeting of a client. `unread` receives the bytes after the greeting.
///
/// # Errors
/// If the connection ends first, or does not carry a link.
pub async fn read_hello(reader: &mut (impl AsyncRead + Unpin), unread: &mut BytesMut) -> Result<Hello, GreetError> {
    match read_first_record(reader, unread).await? {
        Record::Hello(hello) => Ok(hello),
        _ => Err(BadRecord.into()),
    }
}

/// Welcomes a client to its session.
///
/// # Errors
/// If the connection ends, or the client contradicts the session.
pub async fn welcome(
    session: &mut Session,
    hello: &Hello,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<(), GreetError> {
    session.resume(hello.received)?;
    write_record(&Record::Welcome(session.received()), writer).await?;
    Ok(())
}

/// Refuses a client.
///
/// # Errors
/// If the connection is lost.
pub async fn refuse(refusal: Refusal, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    write_record(&Record::Refused(refusal), writer).await
}

async fn write_record(record: &Record, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let mut output = BytesMut::new();
    record.write(&mut output);
    writer.write_all(&output).await?;
    writer.flush().await
}

async fn read_first_record(reader: &mut (impl AsyncRead + Unpin), bytes: &mut BytesMut) -> Result<Record, GreetError> {
    loop {
        if let Some(record) = Record::read(bytes)? {
            return Ok(record);
        }
        if reader.read_buf(bytes).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}
