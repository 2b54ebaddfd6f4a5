//! A proxy for clients that cannot send the token: it forwards requests to a server, adds the token, and replaces its
//! own port by the server's.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Starts a proxy of `server` and returns its address. It runs as long as the process.
pub(crate) fn opens(server: SocketAddr, token: &str) -> SocketAddr {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = door.local_addr().unwrap();
    let token: Arc<str> = token.into();
    std::thread::spawn(move || {
        for client in door.incoming().map_while(Result::ok) {
            let token = token.clone();
            std::thread::spawn(move || {
                // Either side may close the connection.
                let _ = passes_on(&client, server, address, &token);
                let _ = client.shutdown(Shutdown::Both);
            });
        }
    });
    address
}

fn passes_on(client: &TcpStream, server: SocketAddr, door: SocketAddr, token: &str) -> io::Result<()> {
    let mut onward = TcpStream::connect(server)?;
    onward.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let (mut answers, mut back) = (onward.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        let _ = io::copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut requests = BufReader::new(client);
    while request(&mut requests, &mut onward, (server, door), token)? {}
    onward.shutdown(Shutdown::Both)
}

/// Forwards one request. Returns whether there was one.
fn request(
    from: &mut BufReader<&TcpStream>,
    to: &mut TcpStream,
    (server, door): (SocketAddr, SocketAddr),
    token: &str,
) -> io::Result<bool> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        if line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
        head += &line.replace(&format!(":{}", door.port()), &format!(":{}", server.port()));
    }
    write!(to, "{head}Authorization: Bearer {token}\r\n\r\n")?;
    io::copy(&mut io::Read::take(from, length), to)?;
    Ok(true)
}
