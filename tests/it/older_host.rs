//! A terminal host that replies like an older version.
//!
//! The older host sits between the daemon and the real host, reports an older version, and does not understand later
//! requests. Frames follow `steplatch_host`'s protocol: four bytes of length, eight bytes of a number, and a body.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use steplatch_protocol::{ScreenEvent, WatchScreen};
use steplatch_testkit::Home;
use tokio::time::timeout;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Exceeded only by a hanging operation.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The reported version. It is as long as the real version, because a MessagePack string begins with its length.
const OLDER_VERSION: &str = "0.0.9";

/// Requests that the previous version does not understand.
pub(crate) const UNKNOWN_TO_PREVIOUS: Requests = &["WatchRows"];

/// Requests that the first versions do not understand.
pub(crate) const UNKNOWN_TO_FIRST: Requests = &["WatchRows", "WatchScreen", "WatchActivity", "Scrollback", "HandBack"];

/// Names of requests.
pub(crate) type Requests = &'static [&'static str];

/// Later requests that a host has received, each with `true` if the host refused it.
pub(crate) type Received = Arc<Mutex<BTreeSet<(&'static str, bool)>>>;

/// `Err(NotUnderstood)` in MessagePack.
const NOT_UNDERSTOOD: &[u8] = b"\x81\xa3Err\xadNotUnderstood";

/// Puts a host that does not understand these requests in front of the only terminal host of `home`. Stops the daemon
/// of `home` first. The next command starts a daemon, and that daemon finds the older host.
///
/// Returns the later requests that arrive, each with `true` if it was refused.
pub(crate) fn put_in_front_of(home: &Home, unknown_requests: Requests) -> Received {
    let status = home.run(&["daemon", "status", "--json"]).json();
    let runtime = Path::new(status["socket"].as_str().unwrap()).parent().unwrap().to_owned();
    home.run(&["daemon", "stop", "--keep-terminals"]).expect_success();
    let socket = find_host_socket(&runtime);
    let real = socket.with_extension("real");
    std::fs::rename(&socket, &real).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let received = Received::default();
    let recorded = received.clone();
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let host = UnixStream::connect(&real).unwrap();
            forward_connection(client, host, unknown_requests, recorded.clone()).unwrap();
        }
    });
    received
}

fn find_host_socket(runtime: &Path) -> PathBuf {
    let files = std::fs::read_dir(runtime).unwrap().map(|entry| entry.unwrap().path());
    let mut sockets = files.filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("host-") && name.ends_with(".sock")
    });
    let socket = sockets.next().unwrap();
    assert!(sockets.next().is_none(), "there is one host");
    socket
}

/// Forwards frames in both directions until one side closes.
fn forward_connection(
    client: UnixStream,
    host: UnixStream,
    unknown_requests: Requests,
    received: Received,
) -> io::Result<()> {
    let (mut requests, mut to_host) = (client.try_clone()?, host.try_clone()?);
    let (mut replies, to_client) = (host, Arc::new(Mutex::new(client)));
    let refusal_writer = to_client.clone();
    std::thread::spawn(move || {
        while let Ok((number, body)) = read_frame(&mut requests) {
            let is_present = |name: &&str| body.windows(name.len()).any(|part| part == name.as_bytes());
            let is_refused = unknown_requests.iter().any(is_present);
            if let Some(name) = UNKNOWN_TO_FIRST.iter().copied().find(is_present) {
                received.lock().unwrap().insert((name, is_refused));
            }
            let result = match is_refused {
                true => write_frame(&mut refusal_writer.lock().unwrap(), number, NOT_UNDERSTOOD),
                false => write_frame(&mut to_host, number, &body),
            };
            if result.is_err() {
                break;
            }
        }
        let _ = to_host.shutdown(std::net::Shutdown::Both);
    });
    std::thread::spawn(move || {
        let mut is_greeted = false;
        while let Ok((number, mut body)) = read_frame(&mut replies) {
            if !is_greeted && number != [0; 8] {
                is_greeted = true;
                let version = env!("CARGO_PKG_VERSION").as_bytes();
                let position = body.windows(version.len()).position(|part| part == version).unwrap();
                body[position..position + version.len()].copy_from_slice(OLDER_VERSION.as_bytes());
            }
            if write_frame(&mut to_client.lock().unwrap(), number, &body).is_err() {
                break;
            }
        }
        let _ = to_client.lock().unwrap().shutdown(std::net::Shutdown::Both);
    });
    Ok(())
}

fn read_frame(from: &mut UnixStream) -> io::Result<([u8; 8], Vec<u8>)> {
    let (mut length, mut number) = ([0; 4], [0; 8]);
    from.read_exact(&mut length)?;
    from.read_exact(&mut number)?;
    let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap() - number.len()];
    from.read_exact(&mut body)?;
    Ok((number, body))
}

fn write_frame(to: &mut UnixStream, number: [u8; 8], body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len() + number.len()).unwrap();
    to.write_all(&[&length.to_be_bytes(), &number[..], body].concat())
}

/// Screens are followed on hosts of all versions, whatever requests they understand.
#[tokio::test]
async fn screens_of_older_hosts_are_followed() {
    let versions: [(Requests, &[(&str, bool)]); 3] = [
        (&[], &[("WatchRows", false)]),
        (UNKNOWN_TO_PREVIOUS, &[("WatchRows", true), ("WatchScreen", false)]),
        (UNKNOWN_TO_FIRST, &[("WatchRows", true), ("WatchScreen", true)]),
    ];
    for (unknown_requests, expected) in versions {
        let home = Home::new(STEPLATCH);
        home.run(&["terminal", "open", "--name", "work", "--", "bash", "--norc"]).expect_success();
        home.run(&["terminal", "send", "work", "-e", "echo from before"]).expect_success();
        let received = put_in_front_of(&home, unknown_requests);
        home.run(&["daemon", "start"]).expect_success();
        let client = home.connect("viewer").await;
        let watch = WatchScreen { session_id: "work".to_owned(), interval_ms: 0 };
        let (reply, mut events) = client.subscribe(watch).await.unwrap();
        assert!(reply.success, "{reply:?}");
        let mut is_first = true;
        for (command, expected_text) in
            [("", "from before"), ("echo typed-$((40+2))", "typed-42"), ("echo again-$((40+2))", "again-42")]
        {
            if !command.is_empty() {
                home.run(&["terminal", "send", "work", "-e", command]).expect_success();
            }
            loop {
                let event = timeout(EVENT_TIMEOUT, events.next())
                    .await
                    .unwrap_or_else(|_| panic!("{expected_text} does not appear"));
                let ScreenEvent::ScreenChanged(change) = serde_json::from_value(event.unwrap()).unwrap() else {
                    panic!("the terminal was closed");
                };
                assert_eq!(change.whole, is_first, "only the first event has all rows: {change:?}");
                is_first = false;
                if change.changed.iter().flat_map(|row| &row.runs).any(|run| run.2.contains(expected_text)) {
                    break;
                }
            }
        }
        let received = received.lock().unwrap().clone();
        let is_screen_request = |(name, _): &(&str, bool)| ["WatchRows", "WatchScreen"].contains(name);
        let screens: Vec<_> = received.into_iter().filter(is_screen_request).collect();
        assert_eq!(screens, expected);
    }
}
