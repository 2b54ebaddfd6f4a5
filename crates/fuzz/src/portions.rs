//! An input as a reader receives it: in portions.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::random::Random;

/// Cuts an input into portions of 1 to 64 bytes, most of them short. The same input is always cut in the same places,
/// so that an input of a corpus fails again.
#[must_use]
pub fn split_into_portions(input: &[u8]) -> Vec<&[u8]> {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let mut random = Random::new(hasher.finish());
    let mut portions = Vec::new();
    let mut rest = input;
    while !rest.is_empty() {
        let max_length = *random.pick(&[1, 3, 8, 64]);
        let (portion, remainder) = rest.split_at(rest.len().min(1 + random.below(max_length)));
        portions.push(portion);
        rest = remainder;
    }
    portions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_are_the_input_in_order() {
        let input: Vec<u8> = (0..=255).collect();
        let cut = split_into_portions(&input);
        assert!(cut.len() > 3 && cut.iter().all(|portion| (1..=64).contains(&portion.len())));
        assert_eq!(cut.concat(), input);
        assert_eq!(cut, split_into_portions(&input));
        assert!(split_into_portions(b"").is_empty());
    }
}
