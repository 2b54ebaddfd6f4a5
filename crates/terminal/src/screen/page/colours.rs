//! Colours that a program sets, queries and resets.
//!
//! OSC 4 (the palette), 5 (special colours) and 10 to 19 (dynamic colours), and the same numbers plus 100 to reset
//! them, as in xterm's ctlseqs. Colours have the forms of Xlib's XParseColor, without names and device-independent
//! spaces. Cells of the screen contain the index of a colour, so a change of the palette does not change them.

use std::collections::BTreeMap;

use alacritty_terminal::vte::ansi::Rgb;

/// Index of the special colours (bold, underline, blink, reverse, italic), after the palette.
const FIRST_SPECIAL: u16 = 256;

/// Number of special colours.
const SPECIAL_COUNT: u16 = 5;

/// First index of the dynamic colours. The number of the command is added to it.
const FIRST_DYNAMIC: u16 = 1000;

const FOREGROUND: Rgb = Rgb { r: 220, g: 220, b: 220 };
const BACKGROUND: Rgb = Rgb { r: 30, g: 30, b: 30 };

/// The changed colours, by their index.
#[derive(Debug, Default)]
pub(in crate::screen) struct Palette(BTreeMap<u16, Rgb>);

impl Palette {
    /// Performs a command and returns the answer.
    pub(super) fn perform(&mut self, params: &[Vec<u8>], ends_with_bell: bool) -> Vec<u8> {
        let Some((command, rest)) = params.split_first() else { return Vec::new() };
        let Some(command) = parse_number(command) else { return Vec::new() };
        let mut replies = Vec::new();
        let terminator = if ends_with_bell { "\x07" } else { "\x1b\\" };
        let mut answer = |name: String, colour: Rgb| {
            let Rgb { r, g, b } = colour;
            replies.extend(format!("\x1b]{name};rgb:{r:02x}{r:02x}/{g:02x}{g:02x}/{b:02x}{b:02x}{terminator}").bytes());
        };
        match command {
            4 | 5 => {
                for pair in rest.chunks_exact(2) {
                    let Some(index) = parse_number(&pair[0]) else { continue };
                    let key = if command == 5 { index.saturating_add(FIRST_SPECIAL) } else { index };
                    if key >= FIRST_SPECIAL + SPECIAL_COUNT {
                        continue;
                    }
                    match pair[1].as_slice() {
                        b"?" => answer(format!("{command};{index}"), self.get(key)),
                        spec => self.set(key, spec),
                    }
                }
            }
            // Each further parameter applies to the next colour.
            10..=19 => {
                for (code, spec) in (command..=19).zip(rest) {
                    match spec.as_slice() {
                        b"?" => answer(code.to_string(), self.get(FIRST_DYNAMIC + code)),
                        spec => self.set(FIRST_DYNAMIC + code, spec),
                    }
                }
            }
            // The special colours also have indices in the palette. Without an index, the command resets all colours.
            104 | 105 => {
                let first = if command == 104 { 0 } else { FIRST_SPECIAL };
                let indices: Vec<u16> = rest.iter().filter_map(|index| parse_number(index)).collect();
                self.0.retain(|key, _| {
                    let is_in_range = (first..FIRST_SPECIAL + SPECIAL_COUNT).contains(key);
                    !(is_in_range && (indices.is_empty() || indices.contains(&(key - first))))
                });
            }
            110..=119 => drop(self.0.remove(&(FIRST_DYNAMIC + command - 100))),
            _ => {}
        }
        replies
    }

    /// Returns whether all colours have their defaults.
    pub(in crate::screen) fn is_default(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the changed colours of the palette, with their indices.
    pub(in crate::screen) fn changed(&self) -> impl Iterator<Item = (u8, Rgb)> {
        self.0.iter().filter_map(|(key, colour)| Some((u8::try_from(*key).ok()?, *colour)))
    }

    /// Returns the default colour of text.
    pub(in crate::screen) fn foreground(&self) -> Rgb {
        self.get(FIRST_DYNAMIC + 10)
    }

    /// Returns the default background.
    pub(in crate::screen) fn background(&self) -> Rgb {
        self.get(FIRST_DYNAMIC + 11)
    }

    /// Returns the colour of the cursor, if a program has set it.
    pub(in crate::screen) fn cursor(&self) -> Option<Rgb> {
        self.0.get(&(FIRST_DYNAMIC + 12)).copied()
    }

    fn get(&self, key: u16) -> Rgb {
        self.0.get(&key).copied().unwrap_or_else(|| default_colour(key))
    }

    /// Sets a colour. Ignores an invalid colour.
    fn set(&mut self, key: u16, spec: &[u8]) {
        if let Some(colour) = colour(spec) {
            self.0.insert(key, colour);
        }
    }
}

fn parse_number(digits: &[u8]) -> Option<u16> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Parses `#rgb` or `rgb:r/g/b`, with one to four digits for each colour. The digits of `#rgb` are the most significant
/// ones; the digits of `rgb:` are scaled to the full range.
fn colour(spec: &[u8]) -> Option<Rgb> {
    let spec = std::str::from_utf8(spec).ok()?;
    let hex = |digits: &str| {
        let valid = (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        valid.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
    };
    if let Some(digits) = spec.strip_prefix('#') {
        let width = digits.len() / 3;
        if digits.len() != 3 * width || !digits.is_ascii() {
            return None;
        }
        let part = |index: usize| {
            let value = hex(digits.get(index * width..(index + 1) * width)?)?;
            Some(((value << (16 - 4 * width)) >> 8) as u8)
        };
        return Some(Rgb { r: part(0)?, g: part(1)?, b: part(2)? });
    }
    let mut parts = spec.strip_prefix("rgb:")?.split('/').map(|digits| {
        let max_value = 16u32.pow(digits.len().min(4) as u32) - 1;
        hex(digits).map(|value| (value * 255 / max_value.max(1)) as u8)
    });
    let colour = Rgb { r: parts.next()??, g: parts.next()??, b: parts.next()?? };
    parts.next().is_none().then_some(colour)
}

/// Returns the default of a colour: light text on a dark background, and the palette of xterm.
pub(in crate::screen) fn default_colour(key: u16) -> Rgb {
    const BASE: [(u8, u8, u8); 16] = [
        (0, 0, 0),
        (205, 0, 0),
        (0, 205, 0),
        (205, 205, 0),
        (0, 0, 238),
        (205, 0, 205),
        (0, 205, 205),
        (229, 229, 229),
        (127, 127, 127),
        (255, 0, 0),
        (0, 255, 0),
        (255, 255, 0),
        (92, 92, 255),
        (255, 0, 255),
        (0, 255, 255),
        (255, 255, 255),
    ];
    let level = |step: u16| if step == 0 { 0 } else { (step * 40 + 55) as u8 };
    let (r, g, b) = match key {
        0..=15 => BASE[usize::from(key)],
        16..=231 => (level((key - 16) / 36), level((key - 16) / 6 % 6), level((key - 16) % 6)),
        232..=255 => {
            let grey = ((key - 232) * 10 + 8) as u8;
            (grey, grey, grey)
        }
        // The background of text, of the pointer, of Tektronix windows, and of the selection.
        key if [11, 14, 16, 17].contains(&key.wrapping_sub(FIRST_DYNAMIC)) => return BACKGROUND,
        _ => return FOREGROUND,
    };
    Rgb { r, g, b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(commands: &[&str]) -> String {
        let mut palette = Palette::default();
        let replies = commands.iter().flat_map(|command| {
            let params: Vec<_> = command.split(';').map(|param| param.as_bytes().to_vec()).collect();
            palette.perform(&params, true)
        });
        String::from_utf8(replies.collect()).expect("answers are ASCII").replace(['\x1b', '\x07'], "|")
    }

    #[test]
    fn colours_are_parsed_in_all_forms() {
        let cases = [
            ("#fff", "f0f0/f0f0/f0f0"),
            ("#12aB00", "1212/abab/0000"),
            ("#123456789", "1212/4545/7878"),
            ("#111122223333", "1111/2222/3333"),
            ("rgb:f/80/0", "ffff/8080/0000"),
            ("rgb:ffff/8080/0123", "ffff/8080/0101"),
        ];
        for (spec, expected) in cases {
            assert_eq!(answers(&[&format!("4;7;{spec}"), "4;7;?"]), format!("|]4;7;rgb:{expected}|"), "{spec}");
        }
        for spec in ["", "#", "#12", "#12345", "rgb:1/2", "rgb:1/2/3/4", "rgb://", "rgb:12345/0/0", "#ééé", "red"] {
            assert_eq!(answers(&[&format!("11;{spec}"), "11;?"]), "|]11;rgb:1e1e/1e1e/1e1e|", "{spec}");
        }
    }

    #[test]
    fn colours_are_set_together_and_reset() {
        let set = ["4;1;#111;2;#222;256;#333", "10;#444;#555", "5;1;#666"];
        let with = |more: &[&'static str]| answers(&[&set, more].concat());
        assert_eq!(with(&["4;1;?;2;?"]), "|]4;1;rgb:1010/1010/1010||]4;2;rgb:2020/2020/2020|");
        assert_eq!(with(&["5;0;?"]), "|]5;0;rgb:3030/3030/3030|");
        assert_eq!(with(&["10;?;?"]), "|]10;rgb:4040/4040/4040||]11;rgb:5050/5050/5050|");
        assert_eq!(with(&["104;1", "4;1;?;2;?"]), "|]4;1;rgb:cdcd/0000/0000||]4;2;rgb:2020/2020/2020|");
        assert_eq!(with(&["104", "4;2;?"]), "|]4;2;rgb:0000/cdcd/0000|");
        assert_eq!(with(&["110", "10;?"]), "|]10;rgb:dcdc/dcdc/dcdc|");
        assert_eq!(with(&["105;0", "5;0;?;1;?"]), "|]5;0;rgb:dcdc/dcdc/dcdc||]5;1;rgb:6060/6060/6060|");
    }

    #[test]
    fn palette_has_a_bounded_number_of_colours() {
        let mut palette = Palette::default();
        for index in 0..=u16::MAX {
            let _ = palette.perform(&[b"4".to_vec(), index.to_string().into_bytes(), b"#fff".to_vec()], true);
            let _ = palette.perform(&[b"5".to_vec(), index.to_string().into_bytes(), b"#fff".to_vec()], true);
        }
        assert_eq!(palette.0.len(), usize::from(FIRST_SPECIAL + SPECIAL_COUNT));
    }
}
