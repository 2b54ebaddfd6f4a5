//! Foreign text in a form that is safe to show to people.

use unicode_width::UnicodeWidthChar as _;

/// Maximum number of combining marks on one character; more marks would cover the rows above and below. Hebrew with
/// points has three, Vietnamese and Thai two.
const MAX_MARKS: usize = 3;

/// Returns `text` on one line without control or invisible characters. ASCII control characters become their symbols
/// (U+2400 and following; ⏎ for a line end, ⇥ for a tab). A dot replaces characters without a visible form, marks that
/// strike through or enclose other characters, marks on nothing, and marks beyond [`MAX_MARKS`].
#[must_use]
pub fn visible(text: &str) -> String {
    // Number of marks on the last character; `None` if it cannot carry marks.
    let mut marks = None;
    let mut replace = |character: char| {
        let replacement = match character {
            '\n' | '\r' => '⏎',
            '\t' => '⇥',
            '\u{7f}' => '␡',
            control if control < ' ' => char::from_u32(0x2400 + u32::from(control)).unwrap_or('␀'),
            other if other.is_control() || is_format(other) || is_overlay(other) => '·',
            mark if mark.width() == Some(0) => match &mut marks {
                Some(count) if *count < MAX_MARKS => {
                    *count += 1;
                    return mark;
                }
                _ => return '·',
            },
            other => {
                marks = Some(0);
                return other;
            }
        };
        marks = None;
        replacement
    };
    text.chars().map(&mut replace).collect()
}

/// Minimum number of consecutive blanks that a count replaces.
const MIN_COUNTED_BLANKS: usize = 40;

/// Minimum number of line ends among consecutive blanks that a count replaces.
const MIN_COUNTED_LINE_ENDS: usize = 5;

/// Replaces long runs of blanks and empty lines with a count; they would push the text after them out of sight.
#[must_use]
pub fn with_collapsed_blanks(text: &str) -> String {
    let (mut compact, mut rest) = (String::with_capacity(text.len()), text);
    while !rest.is_empty() {
        let word_bytes = rest.find(is_blank).unwrap_or(rest.len());
        compact.push_str(&rest[..word_bytes]);
        rest = &rest[word_bytes..];
        let blanks = &rest[..rest.len() - rest.trim_start_matches(is_blank).len()];
        let (count, line_ends) = (blanks.chars().count(), blanks.matches('\n').count());
        match count >= MIN_COUNTED_BLANKS || line_ends >= MIN_COUNTED_LINE_ENDS {
            true => compact.push_str(&format!("[{count} blanks]")),
            false => compact.push_str(blanks),
        }
        rest = &rest[blanks.len()..];
    }
    compact
}

fn is_blank(character: char) -> bool {
    character.is_whitespace() || is_format(character)
}

/// Returns whether a mark strikes through or encloses the preceding character (general category Me and overlays with
/// the combining class 1).
fn is_overlay(character: char) -> bool {
    matches!(character,
        '\u{334}'..='\u{338}' | '\u{488}'..='\u{489}' | '\u{1abe}' | '\u{1cd4}' | '\u{1ce2}'..='\u{1ce8}' | '\u{20d2}'..='\u{20d3}'
        | '\u{20d8}'..='\u{20da}' | '\u{20dd}'..='\u{20e0}' | '\u{20e2}'..='\u{20e6}' | '\u{20ea}'..='\u{20eb}'
        | '\u{a670}'..='\u{a672}' | '\u{10a39}' | '\u{16af0}'..='\u{16af4}' | '\u{1bc9e}' | '\u{1d167}'..='\u{1d169}')
}

/// Returns whether a character is invisible, or only changes the display of others: the general category Cf and the
/// property Default_Ignorable_Code_Point of Unicode 16, line separators, blanks other than the space, and letters that
/// have no glyph. `yes` with such a character in it looks like `yes`.
#[must_use]
pub fn is_format(character: char) -> bool {
    matches!(character,
        '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
        | '\u{115f}'..='\u{1160}' | '\u{1680}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{205f}'..='\u{206f}'
        | '\u{2800}' | '\u{2d7f}' | '\u{3000}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1107f}' | '\u{110bd}' | '\u{110cd}'
        | '\u{13430}'..='\u{1343f}' | '\u{16fe4}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d159}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_invisible_characters_are_replaced() {
        assert_eq!(visible("a\x1b]52;c;x\x07\u{9b}2J\n\tb\u{7f}"), "a␛]52;c;x␇·2J⏎⇥b␡");
        assert_eq!(visible("\u{202e}yes \u{200b}yes\u{e0041}"), "·yes ·yes·");
        assert_eq!(visible("y\u{1d159}es\u{fff0} ye\u{16fe4}s\u{2d7f}\u{1107f}"), "y·es· ye·s··");
        assert_eq!(visible("yes\u{fe0f} y\u{a0}es\u{2800} ye\u{34f}s\u{e0100}"), "yes· y·es· ye·s·");
        assert_eq!(visible("grün 日本 ✓"), "grün 日本 ✓");
    }

    #[test]
    fn long_runs_of_blanks_are_counted() {
        for (text, expected) in [
            ("Release?".to_owned(), "Release?"),
            (format!("Release?{}It deletes all.", " ".repeat(300)), "Release?[300 blanks]It deletes all."),
            (format!("Release?{}It deletes all.", "\u{a0}\t".repeat(30)), "Release?[60 blanks]It deletes all."),
            (format!("Release?{}It deletes all.", "\u{3164}".repeat(90)), "Release?[90 blanks]It deletes all."),
            (format!("Release?{}It deletes all.", " \n".repeat(5)), "Release?[10 blanks]It deletes all."),
            ("web1        ok\n\nweb2    failed".to_owned(), "web1        ok\n\nweb2    failed"),
        ] {
            assert_eq!(with_collapsed_blanks(&text), expected);
        }
    }

    #[test]
    fn marks_cannot_strike_text_or_reach_other_rows() {
        // In order: decomposed accents, pointed Hebrew, Thai, decomposed Hangul.
        for text in ["gru\u{308}n Vie\u{323}\u{302}t", "ש\u{5c1}\u{5bc}\u{5b8}", "ที่", "\u{1112}\u{1161}\u{11ab}"]
        {
            assert_eq!(visible(text), text);
        }
        assert_eq!(visible("n\u{336}o\u{336}"), "n·o·", "overlays strike through characters");
        assert_eq!(visible("yes\u{20dd} no\u{20e0}"), "yes· no·", "marks enclose characters");
        let stacked = format!("e{}", "\u{301}".repeat(40));
        assert_eq!(visible(&stacked), format!("e{}{}", "\u{301}".repeat(3), "·".repeat(37)));
        assert_eq!(visible("\u{301}a\t\u{301}\u{200b}\u{301}"), "·a⇥···", "marks have no base character");
    }
}
