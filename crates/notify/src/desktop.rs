//! Notifications of the desktop, by D-Bus.
//!
//! Three calls of two interfaces need only a small part of the protocol
//! (<https://dbus.freedesktop.org/doc/dbus-specification.html>), and the protocol has been stable since 2006. So this
//! module implements that part; the maintained library `zbus` adds half a megabyte to the program. The interface
//! follows the Desktop Notifications Specification 1.2. Each message uses its own connection.

use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::board::Phase;
use crate::message::Message;

/// Time limit of a notification.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of a message from the bus.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Maximum number of messages from the bus before the answer.
const MAX_MESSAGES: usize = 100;

/// A failure to show a notification.
#[derive(Debug, thiserror::Error)]
pub enum DesktopError {
    /// The environment names no session bus.
    #[error(
        "there is no session bus of D-Bus: DBUS_SESSION_BUS_ADDRESS is not set in the environment of the daemon, and \
         the runtime directory has no bus"
    )]
    NoBus,
    /// The address has no supported form.
    #[error("the address of the session bus has no unix socket: {0}")]
    Address(String),
    /// The connection failed.
    #[error("the session bus is not reachable: {0}")]
    Connection(#[from] io::Error),
    /// The bus sent an invalid message.
    #[error("the session bus sent an invalid message")]
    Invalid,
    /// The bus or the desktop refused the call.
    #[error("the desktop does not show notifications: {0}")]
    Refused(String),
    /// The desktop did not answer.
    #[error("the desktop did not answer within {} seconds", TIMEOUT.as_secs())]
    Timeout,
}

/// Returns the address of the session bus from the environment: the variable's address, or the socket in the runtime
/// directory. A daemon that an agent started may lack the variable.
///
/// # Errors
/// If there is no bus.
pub fn bus_address() -> Result<String, DesktopError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = rustix::process::getuid().as_raw();
    let runtime = variable("XDG_RUNTIME_DIR").unwrap_or_else(|| format!("/run/user/{user}"));
    let socket = format!("unix:path={runtime}/bus");
    let has_socket = || Path::new(&runtime).join("bus").exists().then_some(socket);
    variable("DBUS_SESSION_BUS_ADDRESS").or_else(has_socket).ok_or(DesktopError::NoBus)
}

/// Shows, replaces or withdraws a notification, and returns its identifier.
pub(crate) async fn show(message: &Message) -> Result<Option<u32>, DesktopError> {
    show_at(&bus_address()?, message).await
}

async fn show_at(address: &str, message: &Message) -> Result<Option<u32>, DesktopError> {
    let call = async {
        let mut bus = Bus::connect(address).await?;
        match (message.phase, message.receipt) {
            (Phase::Withdrawn, None) => Ok(None),
            (Phase::Withdrawn, Some(id)) => {
                bus.call_notifications("CloseNotification", "u", |body| body.number(id)).await.map(|_| None)
            }
            (Phase::First | Phase::Reminder | Phase::Test, replaced) => {
                let signature = "susssasa{sv}i";
                let reply = bus.call_notifications("Notify", signature, |body| {
                    body.string("steplatch");
                    body.number(replaced.unwrap_or(0));
                    body.string("");
                    body.string(&message.title);
                    body.string(&escape_markup(&message.body_with_link()));
                    // No actions and no hints: the length of the elements, and the alignment of dictionary entries.
                    body.number(0);
                    body.number(0);
                    body.align(8);
                    // The desktop chooses the time.
                    body.number(u32::MAX);
                });
                let reply = reply.await?;
                let id = reply.get(..4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
                Ok(Some(id.ok_or(DesktopError::Invalid)?))
            }
        }
    };
    tokio::time::timeout(TIMEOUT, call).await.unwrap_or(Err(DesktopError::Timeout))
}

/// Escapes the characters of a body that would be markup.
fn escape_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A connection to a bus.
struct Bus {
    stream: UnixStream,
    serial: u32,
}

impl Bus {
    /// Connects to the first reachable socket of an address, and introduces this client.
    async fn connect(address: &str) -> Result<Self, DesktopError> {
        let mut result = Err(DesktopError::Address(address.to_owned()));
        for part in address.split(';').filter_map(|part| part.strip_prefix("unix:")) {
            let value = |key: &str| {
                part.split(',').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('=')).map(unescape_address)
            };
            // Tokio takes a path with a leading zero byte for an abstract name.
            let path = value("path").or_else(|| Some([&b"\0"[..], &value("abstract")?].concat()));
            let Some(path) = path else { continue };
            match UnixStream::connect(std::ffi::OsString::from_vec(path)).await {
                Ok(stream) => {
                    result = Ok(Self { stream, serial: 0 });
                    break;
                }
                Err(error) => result = Err(error.into()),
            }
        }
        let mut bus = result?;
        let user = rustix::process::getuid().as_raw().to_string();
        let encoded: String = user.bytes().map(|byte| format!("{byte:02x}")).collect();
        bus.stream.write_all(format!("\0AUTH EXTERNAL {encoded}\r\n").as_bytes()).await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n") {
            if answer.len() > 1_000 {
                return Err(DesktopError::Invalid);
            }
            answer.push(bus.stream.read_u8().await?);
        }
        if !answer.starts_with(b"OK") {
            return Err(DesktopError::Refused("the bus refused this user".to_owned()));
        }
        bus.stream.write_all(b"BEGIN\r\n").await?;
        const BUS: &str = "org.freedesktop.DBus";
        bus.call([BUS, "/org/freedesktop/DBus", BUS, "Hello"], "", |_| {}).await?;
        Ok(bus)
    }

    async fn call_notifications(
        &mut self,
        method: &str,
        signature: &str,
        write_body: impl FnOnce(&mut Encoder),
    ) -> Result<Vec<u8>, DesktopError> {
        const NAME: &str = "org.freedesktop.Notifications";
        self.call([NAME, "/org/freedesktop/Notifications", NAME, method], signature, write_body).await
    }

    /// Calls a method of an interface of an object at a destination, and returns the body of its answer.
    async fn call(
        &mut self,
        [destination, object, interface, method]: [&str; 4],
        signature: &str,
        write_body: impl FnOnce(&mut Encoder),
    ) -> Result<Vec<u8>, DesktopError> {
        self.serial += 1;
        let mut body = Encoder::default();
        write_body(&mut body);
        let mut fields = Encoder::default();
        for (code, kind, value) in
            [(1, "o", object), (2, "s", interface), (3, "s", method), (6, "s", destination), (8, "g", signature)]
        {
            if !value.is_empty() {
                fields.field(code, kind, value);
            }
        }
        let mut message = Encoder(vec![b'l', 1, 0, 1]);
        message.number(length(&body.0));
        message.number(self.serial);
        message.number(length(&fields.0));
        // The fields begin at a multiple of 8, so their alignment is the same here.
        message.0.extend(fields.0);
        message.align(8);
        message.0.extend(body.0);
        self.stream.write_all(&message.0).await?;
        for _ in 0..MAX_MESSAGES {
            if let Some(answer) = self.read_message().await?.answer_to(self.serial) {
                return answer;
            }
        }
        Err(DesktopError::Invalid)
    }

    async fn read_message(&mut self) -> Result<BusMessage, DesktopError> {
        let mut start = [0; 16];
        self.stream.read_exact(&mut start).await?;
        let length = message_length(&start).ok_or(DesktopError::Invalid)?;
        let mut message = start.to_vec();
        message.resize(length, 0);
        self.stream.read_exact(&mut message[16..]).await?;
        BusMessage::parse(&message).ok_or(DesktopError::Invalid)
    }
}

/// Decodes the bytes of a value in an address.
fn unescape_address(value: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = tail.get(..2).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match escaped.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a message is short")
}

/// Writes values in the wire format, with the lowest byte first.
#[derive(Default)]
struct Encoder(Vec<u8>);

impl Encoder {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, number: u32) {
        self.align(4);
        self.0.extend(number.to_le_bytes());
    }

    fn string(&mut self, text: &str) {
        self.number(length(text.as_bytes()));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    fn signature(&mut self, text: &str) {
        self.0.push(u8::try_from(text.len()).expect("a signature is short"));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    /// Writes a field of a header: its code, and a variant with a text.
    fn field(&mut self, code: u8, kind: &str, value: &str) {
        self.align(8);
        self.0.push(code);
        self.signature(kind);
        if kind == "g" { self.signature(value) } else { self.string(value) }
    }
}

/// Returns the length of the message that begins with `start`. `None` for an invalid or too long message.
fn message_length(start: &[u8; 16]) -> Option<usize> {
    let number = |at: usize| Some(u32::from_le_bytes(start.get(at..at + 4)?.try_into().ok()?) as usize);
    let (body, fields) = (number(4)?, number(12)?);
    let is_valid = start[0] == b'l' && body <= MAX_MESSAGE_BYTES && fields <= MAX_MESSAGE_BYTES;
    is_valid.then(|| (16 + fields).next_multiple_of(8) + body)
}

/// A message from the bus.
#[derive(Debug, PartialEq, Eq)]
struct BusMessage {
    /// 2: the answer of a method, 3: an error.
    kind: u8,
    reply_serial: Option<u32>,
    error_name: Option<String>,
    body: Vec<u8>,
}

impl BusMessage {
    /// Parses a whole message.
    fn parse(message: &[u8]) -> Option<Self> {
        let start: &[u8; 16] = message.first_chunk()?;
        let fields_end = 16 + u32::from_le_bytes(start[12..].try_into().ok()?) as usize;
        let body = message.get(fields_end.next_multiple_of(8)..)?.to_vec();
        let (mut reply_serial, mut error_name) = (None, None);
        let mut at = 16;
        while at < fields_end {
            // The signature of a header's field has one letter.
            let [code, 1, kind, 0] = *message.get(at..at + 4)? else { return None };
            let number = || Some(u32::from_le_bytes(message.get(at + 4..at + 8)?.try_into().ok()?));
            let end = match kind {
                b'u' => at + 8,
                b's' | b'o' => at + 8 + number()? as usize + 1,
                b'g' => at + 4 + 1 + usize::from(*message.get(at + 4)?) + 1,
                _ => return None,
            };
            match (code, kind) {
                (5, b'u') => reply_serial = number(),
                (4, b's') => error_name = Some(String::from_utf8_lossy(message.get(at + 8..end - 1)?).into_owned()),
                _ => {}
            }
            at = end.next_multiple_of(8);
        }
        Some(Self { kind: start[1], reply_serial, error_name, body })
    }

    /// Returns the answer to a call, if the message is such an answer.
    fn answer_to(self, serial: u32) -> Option<Result<Vec<u8>, DesktopError>> {
        match self.kind {
            2 if self.reply_serial == Some(serial) => Some(Ok(self.body)),
            3 if self.reply_serial == Some(serial) => {
                let name = self.error_name.unwrap_or_default();
                Some(Err(DesktopError::Refused(steplatch_remote::clean_text(&name, 200))))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_decoded() {
        assert_eq!(unescape_address("/tmp/a%20b%2c%"), b"/tmp/a b,%");
        assert_eq!(escape_markup("a <b> & c"), "a &lt;b&gt; &amp; c");
    }

    /// A desktop on a real bus. It sends the calls that it receives, and answers each with 42.
    async fn record_calls(address: String, calls: tokio::sync::mpsc::UnboundedSender<String>) {
        const BUS: &str = "org.freedesktop.DBus";
        let mut bus = Bus::connect(&address).await.unwrap();
        let request = bus.call([BUS, "/org/freedesktop/DBus", BUS, "RequestName"], "su", |body| {
            body.string("org.freedesktop.Notifications");
            body.number(0);
        });
        request.await.unwrap();
        calls.send("ready".to_owned()).unwrap();
        loop {
            let mut start = [0; 16];
            if bus.stream.read_exact(&mut start).await.is_err() {
                return;
            }
            let mut rest = vec![0; message_length(&start).unwrap() - 16];
            bus.stream.read_exact(&mut rest).await.unwrap();
            if start[1] != 1 {
                continue;
            }
            let text = String::from_utf8_lossy(&rest).into_owned();
            let sender = &text[text.find(":1.").unwrap()..].split('\0').next().unwrap();
            let mut fields = Encoder::default();
            fields.0.push(5);
            fields.signature("u");
            fields.number(u32::from_le_bytes(start[8..12].try_into().unwrap()));
            fields.field(6, "s", sender);
            fields.field(8, "g", "u");
            let mut answer = Encoder(vec![b'l', 2, 1, 1]);
            for number in [4, 100, length(&fields.0)] {
                answer.number(number);
            }
            answer.0.extend(fields.0);
            answer.align(8);
            answer.number(42);
            bus.stream.write_all(&answer.0).await.unwrap();
            calls.send(text).unwrap();
        }
    }

    fn message(phase: Phase, receipt: Option<u32>) -> Message {
        let (kind, since) = (crate::Kind::Gate, steplatch_clock::Timestamp(0));
        let occasion = crate::Occasion { kind, key: String::new(), since, subject: crate::Subject::default() };
        let (title, body) = ("release waits".to_owned(), "now & <then>".to_owned());
        let (id, thread) = (String::new(), String::new());
        Message { id, thread, phase, occasion, title, body, link: Some("http://x/".to_owned()), receipt }
    }

    #[tokio::test]
    async fn notification_is_shown_and_withdrawn_on_a_real_bus() {
        let mut daemon = tokio::process::Command::new("dbus-daemon");
        daemon.args(["--session", "--nofork", "--print-address"]).stdout(std::process::Stdio::piped());
        let Ok(mut daemon) = daemon.kill_on_drop(true).spawn() else {
            return steplatch_patience::skip_test("dbus-daemon is not installed");
        };
        let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(daemon.stdout.take().unwrap()));
        let address = lines.next_line().await.unwrap().unwrap();
        let refusal = show_at(&address, &message(Phase::First, None)).await.unwrap_err().to_string();
        assert!(
            refusal.starts_with("the desktop does not show notifications: org.freedesktop.DBus.Error."),
            "{refusal}"
        );
        let (sender, mut calls) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(record_calls(address.clone(), sender));
        assert_eq!(calls.recv().await.unwrap(), "ready");
        assert_eq!(show_at(&address, &message(Phase::First, None)).await.unwrap(), Some(42));
        let call = calls.recv().await.unwrap();
        for part in ["Notify", "susssasa{sv}i", "steplatch", "release waits", "now &amp; &lt;then&gt;\nhttp://x/"] {
            assert!(call.contains(part), "no {part:?} in {call:?}");
        }
        assert_eq!(show_at(&address, &message(Phase::Withdrawn, Some(42))).await.unwrap(), None);
        assert!(calls.recv().await.unwrap().contains("CloseNotification"));
        assert_eq!(show_at(&address, &message(Phase::Withdrawn, None)).await.unwrap(), None, "nothing was shown");
    }

    #[tokio::test]
    async fn missing_bus_is_named() {
        for (address, part) in [
            ("unix:path=/nonexistent/bus", "the session bus is not reachable: No such file or directory"),
            ("tcp:host=localhost", "has no unix socket: tcp:host=localhost"),
        ] {
            let error = show_at(address, &message(Phase::Test, None)).await.unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_bus_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(start) = bytes.first_chunk() {
                message_length(start);
            }
            BusMessage::parse(&bytes);
        }
    }
}
