//! A terminal host that answers like one of an older version.
//!
//! It stands between the daemon and the real host: it calls itself older, and does not understand requests that were
//! added later. Frames are those of `steplatch_host`'s protocol: four bytes of length, eight of a number, and a body.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use steplatch_testkit::Home;

/// The version that it claims, as long as the real one: a text in MessagePack begins with its length.
const OLDER: &str = "0.0.9";

/// Requests that were added to the protocol.
const LATER: [&[u8]; 4] = [b"WatchScreen", b"WatchActivity", b"Scrollback", b"HandBack"];

/// `Err(NotUnderstood)` in MessagePack.
const NOT_UNDERSTOOD: &[u8] = b"\x81\xa3Err\xadNotUnderstood";

/// Puts an older host before the only terminal host of `home`, whose daemon is stopped meanwhile. The next command
/// starts a daemon, which finds the older one.
pub(crate) fn put_before(home: &Home) {
    let status = home.runs(&["daemon", "status", "--json"]).json();
    let runtime = Path::new(status["socket"].as_str().unwrap()).parent().unwrap().to_owned();
    home.runs(&["daemon", "stop", "--keep-terminals"]).well();
    let socket = socket_of_host(&runtime);
    let real = socket.with_extension("real");
    std::fs::rename(&socket, &real).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let host = UnixStream::connect(&real).unwrap();
            connects(client, host).unwrap();
        }
    });
}

fn socket_of_host(runtime: &Path) -> PathBuf {
    let files = std::fs::read_dir(runtime).unwrap().map(|entry| entry.unwrap().path());
    let mut sockets = files.filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("host-") && name.ends_with(".sock")
    });
    let socket = sockets.next().unwrap();
    assert!(sockets.next().is_none(), "there is one host");
    socket
}

/// Passes frames on in both directions until one side is gone.
fn connects(client: UnixStream, host: UnixStream) -> io::Result<()> {
    let (mut requests, mut to_host) = (client.try_clone()?, host.try_clone()?);
    let (mut replies, to_client) = (host, Arc::new(Mutex::new(client)));
    let answers = to_client.clone();
    std::thread::spawn(move || {
        while let Ok((number, body)) = read(&mut requests) {
            let is_later = LATER.iter().any(|name| body.windows(name.len()).any(|part| part == *name));
            let sent = match is_later {
                true => write(&mut answers.lock().unwrap(), number, NOT_UNDERSTOOD),
                false => write(&mut to_host, number, &body),
            };
            if sent.is_err() {
                break;
            }
        }
        let _ = to_host.shutdown(std::net::Shutdown::Both);
    });
    std::thread::spawn(move || {
        let mut is_greeted = false;
        while let Ok((number, mut body)) = read(&mut replies) {
            if !is_greeted && number != [0; 8] {
                is_greeted = true;
                let version = env!("CARGO_PKG_VERSION").as_bytes();
                let at = body.windows(version.len()).position(|part| part == version).unwrap();
                body[at..at + version.len()].copy_from_slice(OLDER.as_bytes());
            }
            if write(&mut to_client.lock().unwrap(), number, &body).is_err() {
                break;
            }
        }
        let _ = to_client.lock().unwrap().shutdown(std::net::Shutdown::Both);
    });
    Ok(())
}

fn read(from: &mut UnixStream) -> io::Result<([u8; 8], Vec<u8>)> {
    let (mut length, mut number) = ([0; 4], [0; 8]);
    from.read_exact(&mut length)?;
    from.read_exact(&mut number)?;
    let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap() - number.len()];
    from.read_exact(&mut body)?;
    Ok((number, body))
}

fn write(to: &mut UnixStream, number: [u8; 8], body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len() + number.len()).unwrap();
    to.write_all(&[&length.to_be_bytes(), &number[..], body].concat())
}
