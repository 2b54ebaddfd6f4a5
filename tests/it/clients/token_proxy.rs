//! A proxy for clients that cannot send the token: it forwards requests to a server, adds the token, and replaces its
//! own port by the server's.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Starts a proxy for `server` and returns the proxy's address. The proxy runs as long as the process.
pub(crate) fn start_proxy(server: SocketAddr, token: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let token: Arc<str> = token.into();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let token = token.clone();
            std::thread::spawn(move || {
                // Either side may close the connection.
                let _ = forward_requests(&client, server, address, &token);
                let _ = client.shutdown(Shutdown::Both);
            });
        }
    });
    address
}

fn forward_requests(client: &TcpStream, server: SocketAddr, proxy: SocketAddr, token: &str) -> io::Result<()> {
    let mut upstream = TcpStream::connect(server)?;
    upstream.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let (mut responses, mut downstream) = (upstream.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        let _ = io::copy(&mut responses, &mut downstream);
        let _ = downstream.shutdown(Shutdown::Both);
    });
    let mut requests = BufReader::new(client);
    while forward_request(&mut requests, &mut upstream, (server, proxy), token)? {}
    upstream.shutdown(Shutdown::Both)
}

/// Forwards one request. Returns whether there was one.
fn forward_request(
    from: &mut BufReader<&TcpStream>,
    to: &mut TcpStream,
    (server, proxy): (SocketAddr, SocketAddr),
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
        head += &line.replace(&format!(":{}", proxy.port()), &format!(":{}", server.port()));
    }
    write!(to, "{head}Authorization: Bearer {token}\r\n\r\n")?;
    io::copy(&mut io::Read::take(from, length), to)?;
    Ok(true)
}
