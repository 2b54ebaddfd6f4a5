//! New inputs derived from old ones.

use std::ops::Range;

use crate::random::Random;

/// Maximum number of changes to one input.
const MAX_CHANGES: usize = 8;

/// Numbers that often reveal errors, as text.
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "2",
    "127",
    "255",
    "256",
    "1000",
    "65535",
    "65536",
    "2147483648",
    "18446744073709551615",
    "1e999",
    "0.5",
];

/// Bytes that often reveal errors.
const BYTES: [u8; 9] = [0, 1, 0x1b, 0x20, 0x7f, 0x80, 0xc0, 0xfe, 0xff];

/// Makes new inputs from the inputs of a pool.
#[derive(Debug)]
pub(crate) struct Mutator<'a> {
    /// The pool. Never empty.
    pub(crate) inputs: &'a [Vec<u8>],
    pub(crate) dictionary: &'a [&'a str],
    /// Maximum length of the result, in bytes.
    pub(crate) max_bytes: usize,
}

impl Mutator<'_> {
    /// Returns an input of the pool with 1 to [`MAX_CHANGES`] changes, few more often than many.
    pub(crate) fn mutate(&self, random: &mut Random) -> Vec<u8> {
        let mut input = random.pick(self.inputs).clone();
        let max_changes = 1 + random.below(MAX_CHANGES);
        for _ in 0..=random.below(max_changes) {
            self.change(&mut input, random);
            input.truncate(self.max_bytes);
        }
        input
    }

    fn change(&self, input: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(input.len() + 1);
        let range = short_range(input, random);
        match random.below(12) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            1 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = if random.below(2) == 0 { *random.pick(&BYTES) } else { random.byte() };
                }
            }
            2 => drop(input.drain(range)),
            3 => {
                let repetition = input[range.clone()].repeat(1 + random.below(4));
                insert(input, range.end, &repetition);
            }
            4 => {
                let bytes: Vec<u8> = (0..=random.below(4)).map(|_| random.byte()).collect();
                insert(input, at, &bytes);
            }
            5 | 6 if !self.dictionary.is_empty() => {
                let word = *random.pick(self.dictionary);
                insert(input, at, word.as_bytes());
            }
            7 if !self.dictionary.is_empty() => {
                let word = *random.pick(self.dictionary);
                input.splice(range, word.bytes());
            }
            8 => {
                let number = *random.pick(&NUMBERS);
                input.splice(number_at(input, at), number.bytes());
            }
            9 => {
                let donor = random.pick(self.inputs);
                input.truncate(at);
                input.extend_from_slice(&donor[random.below(donor.len() + 1)..]);
            }
            10 => {
                let donor = random.pick(self.inputs);
                let copied_range = short_range(donor, random);
                insert(input, at, &donor[copied_range]);
            }
            _ => {
                let donor = random.pick(self.inputs);
                if let (Some(old), Some(new)) = (block(input, random), block(donor, random)) {
                    input.splice(old, donor[new].iter().copied());
                }
            }
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}

/// Returns a range of at most 32 bytes, or rarely of any length.
fn short_range(input: &[u8], random: &mut Random) -> Range<usize> {
    let begin = random.below(input.len() + 1);
    let max_length = if random.below(8) == 0 { input.len() } else { 32 };
    begin..begin + random.below(max_length.min(input.len() - begin) + 1)
}

/// Returns the digits at a position, or the next digits after it; an empty range at the end if there are none.
fn number_at(input: &[u8], at: usize) -> Range<usize> {
    let begin = input[at..].iter().position(u8::is_ascii_digit).map_or(input.len(), |digit| at + digit);
    let length = input[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    begin..begin + length
}

/// Returns a complete part of text with brackets: from a bracket to its closing bracket, or a quoted string.
fn block(input: &[u8], random: &mut Random) -> Option<Range<usize>> {
    let is_opening = |byte: u8| matches!(byte, b'{' | b'[' | b'(' | b'"');
    let openings: Vec<usize> = (0..input.len()).filter(|&at| is_opening(input[at])).collect();
    if openings.is_empty() {
        return None;
    }
    let begin = *random.pick(&openings);
    if input[begin] == b'"' {
        let end = input[begin + 1..].iter().position(|&byte| byte == b'"')?;
        return Some(begin..begin + end + 2);
    }
    let mut depth = 0_usize;
    for (at, byte) in input.iter().enumerate().skip(begin) {
        match byte {
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(begin..at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_differ_stay_bounded_and_repeat_with_their_seed() {
        let inputs = [b"{\"a\": [1, 22, {}], \"b\": (x)}".to_vec(), Vec::new()];
        let mutator = Mutator { inputs: &inputs, dictionary: &["word"], max_bytes: 60 };
        let mutations = |seed| {
            let mut random = Random::new(seed);
            (0..2_000).map(|_| mutator.mutate(&mut random)).collect::<Vec<_>>()
        };
        let mutated = mutations(1);
        assert!(mutated.iter().all(|input| input.len() <= 60));
        let different: std::collections::HashSet<&Vec<u8>> = mutated.iter().collect();
        assert!(different.len() > 1_000, "{}", different.len());
        assert_eq!(mutated, mutations(1));
        assert_ne!(mutated, mutations(2));
    }

    #[test]
    fn block_ends_at_its_own_bracket() {
        let blocks = |input: &str| -> std::collections::BTreeSet<String> {
            let found = (0..50).filter_map(|seed| block(input.as_bytes(), &mut Random::new(seed)));
            found.map(|range| input[range].to_owned()).collect()
        };
        assert_eq!(blocks("x (a [b] c) y").into_iter().collect::<Vec<_>>(), ["(a [b] c)", "[b]"]);
        assert_eq!(blocks("-\"two\"-").into_iter().collect::<Vec<_>>(), ["\"two\""]);
        assert!(blocks("no brackets").is_empty() && blocks("never closed (").is_empty());
    }

    #[test]
    fn number_range_covers_all_digits() {
        assert_eq!(number_at(b"a 120 b", 0), 2..5);
        assert_eq!(number_at(b"a 120 b", 3), 3..5);
        assert_eq!(number_at(b"a", 1), 1..1);
    }
}
