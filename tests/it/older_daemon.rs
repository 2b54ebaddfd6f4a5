//! A daemon that replies like an older version, without the later verbs.
//!
//! The older daemon sits between clients and the real daemon, and forwards JSON lines (the contract).

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use steplatch_testkit::Home;

/// Puts an older daemon, without the verbs `unknown_verbs`, in front of the daemon of `home`. The next daemon listens
/// directly again.
pub(crate) fn put_in_front_of(home: &Home, unknown_verbs: &'static [&'static str]) {
    let status = home.run(&["daemon", "status", "--json"]).json();
    let socket = Path::new(status["socket"].as_str().unwrap());
    let real = socket.with_extension("real");
    std::fs::rename(socket, &real).unwrap();
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            // The real daemon has exited, and so does this one.
            let Ok(daemon) = UnixStream::connect(&real) else { return };
            forward_connection(client, daemon, unknown_verbs);
        }
    });
}

/// Forwards lines in both directions until one side closes.
fn forward_connection(client: UnixStream, daemon: UnixStream, unknown_verbs: &'static [&'static str]) {
    let (requests, mut to_daemon) = (client.try_clone().unwrap(), daemon.try_clone().unwrap());
    let to_client = Arc::new(Mutex::new(client));
    let refusal_writer = to_client.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(requests).lines().map_while(Result::ok) {
            let command: Value = serde_json::from_str(&line).unwrap();
            let name = command["command_type"].as_str().unwrap_or_default();
            let result = if unknown_verbs.contains(&name) {
                let refusal = json!({
                    "type": "result", "success": false, "request_id": command["request_id"],
                    "error_code": "unknown_command", "error": format!("unknown command '{name}'"),
                });
                writeln!(refusal_writer.lock().unwrap(), "{refusal}")
            } else {
                writeln!(to_daemon, "{line}")
            };
            if result.is_err() {
                break;
            }
        }
        let _ = to_daemon.shutdown(std::net::Shutdown::Both);
    });
    std::thread::spawn(move || {
        for line in BufReader::new(daemon).lines().map_while(Result::ok) {
            if writeln!(to_client.lock().unwrap(), "{line}").is_err() {
                break;
            }
        }
        let _ = to_client.lock().unwrap().shutdown(std::net::Shutdown::Both);
    });
}
