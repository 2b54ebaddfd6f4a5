//! Shorter inputs that still fail.

use std::time::{Duration, Instant};

/// Maximum time of shrinking.
const MAX_SHRINK_TIME: Duration = Duration::from_secs(30);

/// Removes parts of an input as long as `fails` holds, first large ones.
pub(crate) fn shrink(input: &[u8], fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let deadline = Instant::now() + MAX_SHRINK_TIME;
    let mut input = input.to_vec();
    let mut part = input.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut is_shorter = false;
        while at < input.len() {
            let end = (at + part).min(input.len());
            let shortened = [&input[..at], &input[end..]].concat();
            if fails(&shortened) {
                input = shortened;
                is_shorter = true;
            } else {
                at = end;
            }
            if Instant::now() >= deadline {
                return input;
            }
        }
        match part {
            1 if !is_shorter => return input,
            1 => {}
            _ => part = part.div_ceil(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrunk_input_is_the_failing_part() {
        let fails = |input: &[u8]| input.contains(&b'x') && input.contains(&b'y');
        assert_eq!(shrink(b"abcxdefghijklmnopyqrst", fails), b"xy");
        assert_eq!(shrink(b"", |_| true), b"");
    }
}
