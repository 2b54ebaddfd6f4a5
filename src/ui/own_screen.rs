//! The person's own terminal as a backend of `ratatui`: the alternate screen and its content.
//!
//! Writes to standard output, each frame in one write.

use std::io::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};
use rustix::termios::tcgetwinsize;

use crate::keyboard::{RESTORE_SEQUENCE, RawMode};

/// Control sequence that enables the alternate screen without a cursor, bracketed paste, and reports of the focus and of
/// the buttons of the mouse.
const ENTER_SEQUENCE: &str = "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?1004h\x1b[?1000h\x1b[?1006h\x1b[2J";

/// Size if the terminal does not report one.
const DEFAULT_SIZE: Size = Size { width: 80, height: 24 };

/// The person's terminal while it shows the full screen. Dropping this restores the terminal.
#[derive(Debug)]
pub(crate) struct OwnScreen {
    /// `None` while another component or the shell uses the terminal.
    raw_mode: Option<RawMode>,
    is_coloured: bool,
    buffered_output: Vec<u8>,
}

impl OwnScreen {
    /// Takes the terminal.
    pub(crate) fn take(is_coloured: bool) -> io::Result<Self> {
        let mut screen = Self { raw_mode: None, is_coloured, buffered_output: Vec::new() };
        screen.resume()?;
        Ok(screen)
    }

    /// Restores the terminal until [`Self::resume`].
    pub(crate) fn suspend(&mut self) {
        self.raw_mode = None;
    }

    /// Takes the terminal again. The earlier content of the screen is lost.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        match &self.raw_mode {
            Some(raw_mode) => raw_mode.set()?,
            None => self.raw_mode = Some(RawMode::enter()?),
        }
        self.buffered_output.clear();
        let mut buffered_output = io::stdout().lock();
        buffered_output.write_all(ENTER_SEQUENCE.as_bytes())?;
        buffered_output.flush()
    }
}

/// Makes a panic restore the terminal before the report, because the alternate screen would hide the report. A panic of
/// a task does not end the full screen, and is not reported.
pub(crate) fn restore_at_panic() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if tokio::task::try_id().is_some() {
            return;
        }
        let mut out = io::stdout().lock();
        let _ = out.write_all(RESTORE_SEQUENCE.as_bytes());
        let _ = out.flush();
        drop(out);
        default_hook(panic);
    }));
}

/// Has the person's terminal copy text into the clipboard (OSC 52 of xterm). Many terminals ask or refuse.
pub(crate) fn copy_to_clipboard(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "\x1b]52;c;{}\x07", STANDARD.encode(text))?;
    out.flush()
}

impl Backend for OwnScreen {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut style = None;
        let mut expected_position = None;
        for (x, y, cell) in content {
            if expected_position != Some((x, y)) {
                write!(self.buffered_output, "\x1b[{};{}H", y + 1, x + 1)?;
            }
            // A wide character may move the cursor by a different number of columns.
            expected_position = (cell.symbol().len() == 1).then(|| (x + 1, y));
            let cell_style = (cell.fg, cell.bg, cell.modifier);
            if style != Some(cell_style) {
                self.buffered_output.extend_from_slice(style_sequence(cell, self.is_coloured).as_bytes());
                style = Some(cell_style);
            }
            self.buffered_output.extend_from_slice(cell.symbol().as_bytes());
        }
        self.buffered_output.extend_from_slice(b"\x1b[m");
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.buffered_output.extend_from_slice(b"\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.buffered_output.extend_from_slice(b"\x1b[?25h");
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        // Only an inline view needs the position, and this view uses the whole screen.
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        write!(self.buffered_output, "\x1b[{};{}H", y + 1, x + 1)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.buffered_output.extend_from_slice(b"\x1b[m\x1b[2J");
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
        out.write_all(&self.buffered_output)?;
        self.buffered_output.clear();
        out.flush()
    }
}

/// Returns the sequence that resets the style and sets the style of a cell (ECMA-48, 8.3.117, SGR).
fn style_sequence(cell: &Cell, is_coloured: bool) -> String {
    let mut parameters = vec!["0".to_owned()];
    let modifiers = [
        (Modifier::BOLD, "1"),
        (Modifier::DIM, "2"),
        (Modifier::ITALIC, "3"),
        (Modifier::UNDERLINED, "4"),
        (Modifier::REVERSED, "7"),
        (Modifier::HIDDEN, "8"),
        (Modifier::CROSSED_OUT, "9"),
    ];
    parameters.extend(
        modifiers
            .iter()
            .filter(|(modifier, _)| cell.modifier.contains(*modifier))
            .map(|(_, parameter)| (*parameter).to_owned()),
    );
    if is_coloured {
        parameters.extend(colour(cell.fg, 30));
        parameters.extend(colour(cell.bg, 40));
    }
    format!("\x1b[{}m", parameters.join(";"))
}

/// Returns the parameters of a colour. `base` is 30 for the text and 40 for the background.
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

    /// Set in the panicking process.
    const PANICS: &str = "STEPLATCH_TEST_PANICS";

    #[test]
    fn panic_restores_the_terminal_before_its_report() {
        if std::env::var_os(PANICS).is_some() {
            restore_at_panic();
            let _screen = OwnScreen::take(false).unwrap();
            panic!("the picture cannot be drawn");
        }
        // Runs this test again in a separate terminal whose output is read.
        let program = std::env::current_exe().unwrap();
        let name = "ui::own_screen::tests::panic_restores_the_terminal_before_its_report";
        let command = format!("'{}' --exact --nocapture {name}; stty -a", program.display());
        let mut terminal = Command::new("script");
        terminal.args(["--quiet", "--return", "--command", &command, "/dev/null"]).env(PANICS, "1");
        let output = terminal.stdin(Stdio::null()).output().unwrap();
        let output = String::from_utf8_lossy(&output.stdout);
        let at = |text: &str| output.find(text).unwrap_or_else(|| panic!("no {text:?} in {output}"));
        assert!(
            at(ENTER_SEQUENCE) < at(RESTORE_SEQUENCE) && at(RESTORE_SEQUENCE) < at("the picture cannot be drawn"),
            "{output}"
        );
        assert!(output.rfind(ENTER_SEQUENCE) < output.rfind(RESTORE_SEQUENCE), "{output}");
        assert!(output.contains(" icanon ") && output.contains(" echo "), "{output}");
    }

    #[test]
    fn style_is_set_from_scratch_and_respects_no_colour() {
        let mut cell = Cell::default();
        cell.set_style(Style::new().fg(Color::Indexed(9)).bg(Color::Rgb(1, 2, 3)).add_modifier(Modifier::BOLD));
        assert_eq!(style_sequence(&cell, true), "\x1b[0;1;91;48;2;1;2;3m");
        assert_eq!(style_sequence(&cell, false), "\x1b[0;1m");
        assert_eq!(style_sequence(&Cell::default(), true), "\x1b[0m");
    }
}
