//! Parts of secrets on a screen, which shows a part of its text: the rest of a secret may not be printed yet, or be
//! scrolled away, erased, or beyond an edge.

use std::ops::Range;

use super::MIN_SECRET_CHARS;
use super::words::is_short_word;

/// Minimum length of a part that is hidden anywhere, in characters. It is also at least half of the secret: a shorter
/// part, such as the host of an address, occurs in other text as well.
const MIN_PART_CHARS: usize = 8;

/// The places at which a screen may cut a secret.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// True if text before the first character may be missing.
    pub(super) at_start: bool,
    /// The byte offsets at which text may be missing, in order.
    pub(super) ends: Vec<usize>,
}

/// Returns the ranges of `text` with a long part of `secret`, and of those that begin or end at a cut.
pub(super) fn part_ranges(text: &str, secret: &str, cuts: &Cuts) -> Vec<Range<usize>> {
    let length = secret.chars().count();
    if length <= MIN_SECRET_CHARS || is_short_word(secret) {
        return Vec::new();
    }
    let is_long = |part: &str| {
        let chars = part.chars().count();
        chars >= MIN_PART_CHARS && 2 * chars >= length
    };
    let boundary = |chars: usize| secret.char_indices().nth(chars).map_or(secret.len(), |(offset, _)| offset);
    let first = &secret[..boundary(MIN_SECRET_CHARS)];
    let last = &secret[boundary(length - MIN_SECRET_CHARS)..];
    let beginnings = text.match_indices(first).filter_map(|(start, _)| {
        let end = start + common_prefix_bytes(&text[start..], secret);
        (is_long(&text[start..end]) || cuts.ends.binary_search(&end).is_ok()).then_some(start..end)
    });
    let endings = text.match_indices(last).filter_map(|(start, _)| {
        let end = start + last.len();
        let start = end - common_suffix_bytes(&text[..end], secret);
        (is_long(&text[start..end]) || (cuts.at_start && start == 0)).then_some(start..end)
    });
    beginnings.chain(endings).collect()
}

/// Returns the length of the longest common beginning, in bytes.
fn common_prefix_bytes(text: &str, other: &str) -> usize {
    let same = text.chars().zip(other.chars()).take_while(|(a, b)| a == b);
    same.map(|(character, _)| character.len_utf8()).sum()
}

/// Returns the length of the longest common end, in bytes.
fn common_suffix_bytes(text: &str, other: &str) -> usize {
    let same = text.chars().rev().zip(other.chars().rev()).take_while(|(a, b)| a == b);
    same.map(|(character, _)| character.len_utf8()).sum()
}
