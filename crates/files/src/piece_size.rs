//! The length of a transfer's pieces. Pure.

use std::time::Duration;

use crate::request::MAX_PIECE_BYTES;

/// The length of the next piece: 64 KiB at first, then such that a piece takes 50 to 250 ms, up to [`MAX_PIECE_BYTES`].
///
/// A transfer shares its connection with terminals. A key waits for one piece at most, so pieces are short on a slow
/// connection. Pieces are long on a fast connection, where each round trip takes most of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceSize(usize);

/// The length of the first piece, in bytes.
const FIRST_PIECE_BYTES: usize = 64 << 10;

/// Minimum length of a piece, in bytes.
const MIN_PIECE_BYTES: usize = 4 << 10;

/// Minimum time of a piece. After a shorter time the next piece is longer.
const MIN_PIECE_TIME: Duration = Duration::from_millis(50);

/// Maximum time of a piece. After a longer time the next piece is shorter.
const MAX_PIECE_TIME: Duration = Duration::from_millis(250);

impl Default for PieceSize {
    fn default() -> Self {
        Self(FIRST_PIECE_BYTES)
    }
}

impl PieceSize {
    /// Returns the length, in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.0
    }

    /// Returns the length of the next piece, after this one was sent in `elapsed`.
    #[must_use]
    pub fn next(self, elapsed: Duration) -> Self {
        Self(match elapsed {
            elapsed if elapsed < MIN_PIECE_TIME => (self.0 * 2).min(MAX_PIECE_BYTES),
            elapsed if elapsed > MAX_PIECE_TIME => (self.0 / 2).max(MIN_PIECE_BYTES),
            _ => self.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the length after `pieces` pieces over a connection with this round trip and throughput.
    fn settled_length(round_trip: Duration, bytes_per_second: usize, pieces: usize) -> usize {
        let elapsed = |size: PieceSize| {
            round_trip
                + Duration::from_secs(1) * u32::try_from(size.bytes()).unwrap()
                    / u32::try_from(bytes_per_second).unwrap()
        };
        (0..pieces).fold(PieceSize::default(), |size, _| size.next(elapsed(size))).bytes()
    }

    #[test]
    fn piece_size_follows_connection_speed() {
        let ms = Duration::from_millis;
        assert_eq!(settled_length(ms(1), 500 << 20, 20), MAX_PIECE_BYTES);
        // A piece of 64 KiB over 1 MB/s takes 62 ms and the round trip.
        assert_eq!(settled_length(ms(30), 1 << 20, 20), 64 << 10);
        // A modem.
        assert_eq!(settled_length(ms(100), 4 << 10, 20), MIN_PIECE_BYTES);
    }
}
