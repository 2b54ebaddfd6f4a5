//! The person's own terminal as a screen: the alternate screen, and the content on it.
//!
//! A backend of `ratatui` over standard output. A whole frame goes out in one write.

use std::io::{self, Write as _};

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};
use rustix::termios::tcgetwinsize;

use crate::keyboard::{RESTORE, RawMode};

/// The alternate screen without a cursor, bracketed paste, and reports of the focus.
const BEGIN: &str = "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?1004h\x1b[2J";

/// The size if the terminal reports none.
const DEFAULT_SIZE: Size = Size { width: 80, height: 24 };

/// The person's terminal while it shows the full screen. It is restored on drop and on a panic.
#[derive(Debug)]
pub(crate) struct OwnScreen {
    /// Taken while another component or the shell has the terminal.
    raw: Option<RawMode>,
    is_coloured: bool,
    out: Vec<u8>,
}

impl OwnScreen {
    /// Takes the terminal.
    pub(crate) fn take(is_coloured: bool) -> io::Result<Self> {
        let mut screen = Self { raw: None, is_coloured, out: Vec::new() };
        screen.resume()?;
        Ok(screen)
    }

    /// Restores the terminal, until [`Self::resume`].
    pub(crate) fn suspend(&mut self) {
        self.raw = None;
    }

    /// Takes the terminal again. Its earlier content is lost.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        match &self.raw {
            Some(raw) => raw.set()?,
            None => self.raw = Some(RawMode::enter()?),
        }
        self.out.clear();
        let mut out = io::stdout().lock();
        out.write_all(BEGIN.as_bytes())?;
        out.flush()
    }
}

/// Restores the terminal before the report of a panic, which the alternate screen would hide. A panic of a task does
/// not end the full screen, so it has no report.
pub(crate) fn restore_at_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if tokio::task::try_id().is_some() {
            return;
        }
        let mut out = io::stdout().lock();
        let _ = out.write_all(RESTORE.as_bytes());
        let _ = out.flush();
        drop(out);
        report(panic);
    }));
}

impl Backend for OwnScreen {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut style = None;
        let mut next = None;
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                write!(self.out, "\x1b[{};{}H", y + 1, x + 1)?;
            }
            // A wide character may move the cursor by another number of columns.
            next = (cell.symbol().len() == 1).then(|| (x + 1, y));
            let cell_style = (cell.fg, cell.bg, cell.modifier);
            if style != Some(cell_style) {
                self.out.extend_from_slice(style_sequence(cell, self.is_coloured).as_bytes());
                style = Some(cell_style);
            }
            self.out.extend_from_slice(cell.symbol().as_bytes());
        }
        self.out.extend_from_slice(b"\x1b[m");
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.out.extend_from_slice(b"\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.out.extend_from_slice(b"\x1b[?25h");
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        // Only an inline view needs the position, and this view has the whole screen.
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        write!(self.out, "\x1b[{};{}H", y + 1, x + 1)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.out.extend_from_slice(b"\x1b[m\x1b[2J");
        Ok(())
    }

    fn clear_region(&mut self, _: ClearType) -> io::Result<()> {
        self.clear()
    }

    fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(io::stdout()).map_err(io::Error::from)?;
        let is_known = size.ws_col > 0 && size.ws_row > 0;
        Ok(if is_known { Size::new(size.ws_col, size.ws_row) } else { DEFAULT_SIZE })
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(&self.out)?;
        self.out.clear();
        out.flush()
    }
}

/// Returns the sequence that sets the style of a cell, from scratch (ECMA-48, 8.3.117, SGR).
fn style_sequence(cell: &Cell, is_coloured: bool) -> String {
    let mut words = vec!["0".to_owned()];
    let modifiers = [
        (Modifier::BOLD, "1"),
        (Modifier::DIM, "2"),
        (Modifier::ITALIC, "3"),
        (Modifier::UNDERLINED, "4"),
        (Modifier::REVERSED, "7"),
        (Modifier::HIDDEN, "8"),
        (Modifier::CROSSED_OUT, "9"),
    ];
    words.extend(
        modifiers.iter().filter(|(modifier, _)| cell.modifier.contains(*modifier)).map(|(_, word)| (*word).to_owned()),
    );
    if is_coloured {
        words.extend(colour(cell.fg, 30));
        words.extend(colour(cell.bg, 40));
    }
    format!("\x1b[{}m", words.join(";"))
}

/// Returns the parameters of a colour; `base` is 30 for text and 40 for its ground.
fn colour(colour: Color, base: u8) -> Option<String> {
    let bright = base + 60;
    let plain = |number: u8| Some((base + number).to_string());
    let light = |number: u8| Some((bright + number).to_string());
    match colour {
        Color::Reset => None,
        Color::Black => plain(0),
        Color::Red => plain(1),
        Color::Green => plain(2),
        Color::Yellow => plain(3),
        Color::Blue => plain(4),
        Color::Magenta => plain(5),
        Color::Cyan => plain(6),
        Color::Gray => plain(7),
        Color::DarkGray => light(0),
        Color::LightRed => light(1),
        Color::LightGreen => light(2),
        Color::LightYellow => light(3),
        Color::LightBlue => light(4),
        Color::LightMagenta => light(5),
        Color::LightCyan => light(6),
        Color::White => light(7),
        Color::Indexed(number @ 0..8) => plain(number),
        Color::Indexed(number @ 8..16) => light(number - 8),
        Color::Indexed(number) => Some(format!("{};5;{number}", base + 8)),
        Color::Rgb(red, green, blue) => Some(format!("{};2;{red};{green};{blue}", base + 8)),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use ratatui::style::Style;

    use super::*;

    /// Set in the process that panics.
    const PANICS: &str = "STEPLATCH_TEST_PANICS";

    #[test]
    fn a_panic_restores_the_terminal_before_its_report() {
        if std::env::var_os(PANICS).is_some() {
            restore_at_panic();
            let _screen = OwnScreen::take(false).unwrap();
            panic!("the picture cannot be drawn");
        }
        // This test again, in a separate terminal, whose output is read.
        let program = std::env::current_exe().unwrap();
        let name = "ui::own_screen::tests::a_panic_restores_the_terminal_before_its_report";
        let command = format!("'{}' --exact --nocapture {name}; stty -a", program.display());
        let mut terminal = Command::new("script");
        terminal.args(["--quiet", "--return", "--command", &command, "/dev/null"]).env(PANICS, "1");
        let shown = terminal.stdin(Stdio::null()).output().unwrap();
        let shown = String::from_utf8_lossy(&shown.stdout);
        let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("no {text:?} in {shown}"));
        assert!(at(BEGIN) < at(RESTORE) && at(RESTORE) < at("the picture cannot be drawn"), "{shown}");
        assert!(shown.rfind(BEGIN) < shown.rfind(RESTORE), "{shown}");
        assert!(shown.contains(" icanon ") && shown.contains(" echo "), "{shown}");
    }

    #[test]
    fn a_style_is_set_from_scratch_and_without_colours_where_none_are_wanted() {
        let mut cell = Cell::default();
        cell.set_style(Style::new().fg(Color::Indexed(9)).bg(Color::Rgb(1, 2, 3)).add_modifier(Modifier::BOLD));
        assert_eq!(style_sequence(&cell, true), "\x1b[0;1;91;48;2;1;2;3m");
        assert_eq!(style_sequence(&cell, false), "\x1b[0;1m");
        assert_eq!(style_sequence(&Cell::default(), true), "\x1b[0m");
    }
}
