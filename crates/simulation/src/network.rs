//! Connections between simulated processes: the world transfers their bytes, with delays and cuts.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::stage::Stage;

/// Maximum number of bytes in one read.
const MAX_READ_BYTES: usize = 64 << 10;

/// A connection between two processes: the world's ends of their sockets.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Number of the terminal host that serves the connection; 0 for a relay.
    pub(crate) host: usize,
    /// True if the connection leads to another computer.
    pub(crate) is_link: bool,
    client_socket: UnixStream,
    server_socket: UnixStream,
    to_server: Direction,
    to_client: Direction,
}

/// The bytes in transit in one direction.
#[derive(Debug, Default)]
struct Direction {
    /// Chunks of bytes with their times of arrival, in order.
    chunks: VecDeque<(Duration, Vec<u8>)>,
    /// True once the sender has closed the connection.
    is_ended: bool,
    /// True once the receiver's socket is shut down.
    is_shut: bool,
}

impl Connection {
    pub(crate) fn new(
        host: usize,
        is_link: bool,
        client_socket: UnixStream,
        server_socket: UnixStream,
    ) -> io::Result<Self> {
        client_socket.set_nonblocking(true)?;
        server_socket.set_nonblocking(true)?;
        let (to_server, to_client) = (Direction::default(), Direction::default());
        Ok(Self { host, is_link, client_socket, server_socket, to_server, to_client })
    }

    /// Transfers the bytes that are due. Nothing arrives before `cut_until`. Returns false after the end of the
    /// connection.
    pub(crate) fn transfer(&mut self, stage: &Stage, cut_until: Duration) -> bool {
        let max_latency_ms = if self.is_link { 120 } else { 4 };
        self.to_server.transfer(&mut self.client_socket, &mut self.server_socket, stage, max_latency_ms, cut_until);
        self.to_client.transfer(&mut self.server_socket, &mut self.client_socket, stage, max_latency_ms, cut_until);
        // The end of one direction shuts down the whole socket.
        !(self.to_server.is_shut || self.to_client.is_shut)
    }
}

impl Direction {
    fn transfer(
        &mut self,
        from: &mut UnixStream,
        to: &mut UnixStream,
        stage: &Stage,
        max_latency_ms: u64,
        cut_until: Duration,
    ) {
        let now = stage.now();
        let mut bytes = vec![0; MAX_READ_BYTES];
        while !self.is_ended {
            match from.read(&mut bytes) {
                Ok(0) => self.is_ended = true,
                Ok(count) => {
                    stage.record_activity();
                    let latency = Duration::from_millis(stage.random(|random| random.below(max_latency_ms)));
                    let due = self.chunks.back().map_or(now + latency, |(last, _)| (now + latency).max(*last));
                    self.chunks.push_back((due, bytes[..count].to_vec()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.is_ended = true,
            }
        }
        if now < cut_until {
            return;
        }
        while let Some((due, chunk)) = self.chunks.front_mut() {
            if *due > now {
                return;
            }
            stage.record_activity();
            match to.write(chunk) {
                Ok(count) if count == chunk.len() => drop(self.chunks.pop_front()),
                Ok(count) => drop(chunk.drain(..count)),
                // The receiver does not read.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.chunks.clear();
                    self.is_ended = true;
                }
            }
        }
        if self.is_ended && !self.is_shut {
            self.is_shut = true;
            stage.record_activity();
            // The receiver may have exited too.
            let _ = to.shutdown(Shutdown::Both);
        }
    }
}
