//! The connections between simulated processes: sockets that the world joins, with delays, cuts and ends.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::stage::Stage;

/// Maximum bytes of one read.
const MAX_READ_BYTES: usize = 64 << 10;

/// A connection between two processes: the sockets whose other ends they have.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The number of the terminal host at its far end; 0 if a relay is there.
    pub(crate) host: usize,
    /// True if it leads to another machine.
    pub(crate) is_link: bool,
    near: UnixStream,
    far: UnixStream,
    to_far: Direction,
    to_near: Direction,
}

/// The bytes on their way in one direction.
#[derive(Debug, Default)]
struct Direction {
    /// Portions, with the time of their arrival.
    portions: VecDeque<(Duration, Vec<u8>)>,
    /// The sender has ended it.
    is_ended: bool,
    /// The receiver has learned of the end.
    is_shut: bool,
}

impl Connection {
    pub(crate) fn new(host: usize, is_link: bool, near: UnixStream, far: UnixStream) -> io::Result<Self> {
        near.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        let (to_far, to_near) = (Direction::default(), Direction::default());
        Ok(Self { host, is_link, near, far, to_far, to_near })
    }

    /// Carries what is due. Nothing arrives before `cut_until`. Returns false once it has ended in both directions.
    pub(crate) fn carry(&mut self, stage: &Stage, cut_until: Duration) -> bool {
        let max_latency_ms = if self.is_link { 120 } else { 4 };
        self.to_far.carry(&mut self.near, &mut self.far, stage, max_latency_ms, cut_until);
        self.to_near.carry(&mut self.far, &mut self.near, stage, max_latency_ms, cut_until);
        // A socket that has ended in one direction has ended for both of its processes.
        !(self.to_far.is_shut || self.to_near.is_shut)
    }
}

impl Direction {
    fn carry(
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
                    let due = self.portions.back().map_or(now + latency, |(last, _)| (now + latency).max(*last));
                    self.portions.push_back((due, bytes[..count].to_vec()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.is_ended = true,
            }
        }
        if now < cut_until {
            return;
        }
        while let Some((due, portion)) = self.portions.front_mut() {
            if *due > now {
                return;
            }
            stage.record_activity();
            match to.write(portion) {
                Ok(count) if count == portion.len() => drop(self.portions.pop_front()),
                Ok(count) => drop(portion.drain(..count)),
                // Its receiver does not read.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.portions.clear();
                    self.is_ended = true;
                }
            }
        }
        if self.is_ended && !self.is_shut {
            self.is_shut = true;
            stage.record_activity();
            // The receiver may have ended as well.
            let _ = to.shutdown(Shutdown::Both);
        }
    }
}
