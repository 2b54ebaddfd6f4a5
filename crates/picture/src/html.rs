//! The HTML form of a screen.
//!
//! One `<pre>` with its own styles, so that it looks the same in every document. Every run is as wide as its cells:
//! browsers have different fonts, and a glyph from another font must not shift the rest of the row.

use std::fmt::Write as _;

use steplatch_terminal::{CursorShape, Picture, Rgb, Underline};

use crate::look::{Look, Patch, rows};

/// Returns the screen as a `<pre>`: a whole file, or a part of any page.
#[must_use]
pub fn html(picture: &Picture) -> String {
    let Picture { foreground, background, cols, .. } = picture;
    // Line drawings connect across rows if the line height equals the height of the letters.
    let mut output = format!(
        "<meta charset=\"utf-8\">\n<pre style=\"display:inline-block;margin:0;padding:.5em;width:{cols}ch;\
         color:{foreground};background:{background};font:15px/17px 'DejaVu Sans Mono',Menlo,Consolas,monospace\">"
    );
    for (index, patches) in rows(picture).enumerate() {
        if index > 0 {
            output.push('\n');
        }
        let mut col = 0;
        for patch in &patches {
            output.extend(std::iter::repeat_n(' ', usize::from(patch.col.saturating_sub(col))));
            write_patch(&mut output, patch, picture);
            col = patch.col + patch.cols;
        }
    }
    output.push_str("</pre>\n");
    output
}

fn write_patch(output: &mut String, patch: &Patch<'_>, picture: &Picture) {
    let mut style = String::new();
    write_look(&mut style, &patch.look, picture.foreground, picture.background);
    let is_plain = patch.cells.iter().all(|(_, text)| text.is_ascii());
    if is_plain && style.is_empty() && !patch.look.hidden {
        patch.cells.iter().for_each(|(_, text)| escape(output, text));
        return;
    }
    // Writing to a String does not fail.
    let _ = write!(output, "<span style=\"display:inline-block;width:{}ch;{style}\">", patch.cols);
    for (_, text) in &patch.cells {
        if patch.look.hidden {
            output.push_str(if patch.wide { "  " } else { " " });
        } else if is_in_every_font(text) && !patch.wide {
            escape(output, text);
        } else {
            let width = if patch.wide { 2 } else { 1 };
            let _ = write!(output, "<span style=\"display:inline-block;width:{width}ch;line-height:1\">");
            escape(output, text);
            output.push_str("</span>");
        }
    }
    output.push_str("</span>");
}

/// Returns whether terminal fonts have a character at cell width: Latin, Greek, Cyrillic and lines.
fn is_in_every_font(text: &str) -> bool {
    let mut characters = text.chars();
    matches!(characters.next(), Some('\0'..='\u{52f}' | '\u{2010}'..='\u{2027}' | '\u{2500}'..='\u{259f}'))
        && characters.next().is_none()
}

fn write_look(output: &mut String, look: &Look, foreground: Rgb, background: Rgb) {
    let _ = (|| -> std::fmt::Result {
        if look.fg != foreground {
            write!(output, "color:{};", look.fg)?;
        }
        if look.bg != background {
            write!(output, "background:{};", look.bg)?;
        }
        if look.bold {
            output.write_str("font-weight:bold;")?;
        }
        if look.italic {
            output.write_str("font-style:italic;")?;
        }
        let line = match look.underline {
            Underline::None => "",
            Underline::Single => " underline",
            Underline::Double => " underline double",
            Underline::Curled => " underline wavy",
            Underline::Dotted => " underline dotted",
            Underline::Dashed => " underline dashed",
        };
        // One property for both lines, because they share a colour and a kind.
        let through = if look.strike { " line-through" } else { "" };
        if !(line.is_empty() && through.is_empty()) {
            write!(output, "text-decoration:{}", format!("{through}{line}").trim_start())?;
            if look.underline_colour != look.fg {
                write!(output, " {}", look.underline_colour)?;
            }
            output.write_str(";")?;
        }
        match look.cursor {
            Some((CursorShape::Bar, colour)) => write!(output, "box-shadow:inset .12em 0 {colour};"),
            Some((CursorShape::Underline, colour)) => write!(output, "box-shadow:inset 0 -.12em {colour};"),
            Some((CursorShape::Block, _)) | None => Ok(()),
        }
    })();
}

pub(crate) fn escape(output: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => output.push_str("&amp;"),
            '<' => output.push_str("&lt;"),
            '>' => output.push_str("&gt;"),
            '"' => output.push_str("&quot;"),
            // Neither is a character in HTML, or in XML.
            control if control.is_control() => output.push(' '),
            '\u{fffe}' | '\u{ffff}' => output.push(char::REPLACEMENT_CHARACTER),
            other => output.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use steplatch_terminal::{Colour, CursorCell, Run, Style};

    use super::*;

    fn run(col: u16, cols: u16, text: &str, style: Style) -> Run {
        Run { col, cols, wide: cols as usize == 2 * text.chars().count(), text: text.into(), style, link: None }
    }

    #[test]
    fn runs_are_escaped_coloured_and_fit_their_cells() {
        let red = Style { fg: Colour::Indexed(1), bold: true, underline: Underline::Curled, ..Style::default() };
        let picture = Picture {
            cols: 12,
            rows: vec![
                vec![run(0, 3, "<&>", Style::default()), run(5, 2, "ab", red)],
                vec![run(0, 4, "漢字", Style::default()), run(4, 1, "│", Style::default())],
                vec![run(2, 3, "key", Style { hidden: true, ..Style::default() })],
            ],
            cursor: Some(CursorCell { row: 0, col: 6, wide: false, shape: CursorShape::Bar, colour: None }),
            foreground: Rgb(220, 220, 220),
            background: Rgb(30, 30, 30),
            palette: vec![(1, Rgb(255, 0, 1))],
        };
        expect![[r#"
            <meta charset="utf-8">
            <pre style="display:inline-block;margin:0;padding:.5em;width:12ch;color:#dcdcdc;background:#1e1e1e;font:15px/17px 'DejaVu Sans Mono',Menlo,Consolas,monospace">&lt;&amp;&gt;  <span style="display:inline-block;width:1ch;color:#ff0001;font-weight:bold;text-decoration:underline wavy;">a</span><span style="display:inline-block;width:1ch;color:#ff0001;font-weight:bold;text-decoration:underline wavy;box-shadow:inset .12em 0 #ff0001;">b</span>
            <span style="display:inline-block;width:4ch;"><span style="display:inline-block;width:2ch;line-height:1">漢</span><span style="display:inline-block;width:2ch;line-height:1">字</span></span><span style="display:inline-block;width:1ch;">│</span>
              <span style="display:inline-block;width:3ch;">   </span></pre>
        "#]].assert_eq(&html(&picture));
    }
}
