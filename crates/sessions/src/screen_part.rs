//! Which part of a screen a reply has: all of it, or what the client has not seen.
//!
//! Of a line program, the news are the lines that were printed since the client's last look; of a full-screen program,
//! the rows that changed. The reply has the whole screen where that is shorter.

use steplatch_access::{Caller, Redactor};
use steplatch_host::HostedTerminal;
use steplatch_protocol::{CursorPosition, HighlightInfo, ScreenMode, ScreenPart};
use steplatch_terminal::{Excerpt, Limit, Part, View};

use crate::highlights::highlights;
use crate::readers::Reading;
use crate::sessions::{Sessions, excerpt_text, whole_secrets_hidden};
use crate::trouble::SessionError;

/// The most characters of news; what is between their head and tail can be read by position.
const NEWS: usize = 4000;

/// The part of a screen that a reply has.
#[derive(Debug, Default)]
pub(crate) struct ScreenShare {
    pub(crate) content: String,
    /// None for the whole screen.
    pub(crate) part: Option<ScreenPart>,
    /// Where a full-screen program has the screen.
    pub(crate) cursor: Option<CursorPosition>,
    pub(crate) alternate_screen: bool,
    pub(crate) highlighted: Vec<HighlightInfo>,
    /// Whether something was left out between head and tail.
    pub(crate) is_cut: bool,
}

impl Sessions {
    /// Returns the part of a screen that `mode` names, and notes that the client has seen it. Without an earlier look
    /// of this client, the news begin at `since`.
    pub(crate) async fn screen_share(
        &self,
        caller: &Caller,
        terminal: &HostedTerminal,
        view: &View,
        mode: ScreenMode,
        since: Option<u64>,
    ) -> Result<ScreenShare, SessionError> {
        let secrets = self.secrets.within(terminal.id());
        let screen = secrets.masked_screen(view.screen.clone());
        let reading = caller.reader().map(|reader| self.readers.of(reader, terminal.id())).unwrap_or_default();
        let mut share = match mode {
            ScreenMode::None => ScreenShare::default(),
            ScreenMode::Full => ScreenShare { content: screen.clone(), ..ScreenShare::default() },
            ScreenMode::Auto | ScreenMode::New if view.modes.alternate_screen => changed_rows(&reading, &screen),
            ScreenMode::Auto | ScreenMode::New => {
                match news(terminal, &secrets, reading.offset.or(since), view.end).await? {
                    Some(share) if mode == ScreenMode::New || share.content.len() <= screen.len() => share,
                    _ => ScreenShare { content: screen.clone(), ..ScreenShare::default() },
                }
            }
        };
        if view.modes.alternate_screen && mode != ScreenMode::None {
            share.alternate_screen = true;
            let (row, col) = (view.cursor.row, view.cursor.col);
            share.cursor = Some(CursorPosition { row, col, visible: view.cursor.visible });
            if mode != ScreenMode::Full {
                share.highlighted = highlights(&secrets.masked_picture(terminal.picture().await?));
            }
        }
        if mode != ScreenMode::None {
            self.note_seen(caller, terminal, view, &screen);
        }
        Ok(share)
    }

    /// Notes that the client has seen the whole of a screen, which has no secrets.
    pub(crate) fn note_seen(&self, caller: &Caller, terminal: &HostedTerminal, view: &View, screen: &str) {
        if let Some(reader) = caller.reader() {
            let rows = view.modes.alternate_screen.then(|| rows_of(screen));
            self.readers.note(reader, terminal.id(), |reading| {
                reading.offset = Some(view.end);
                reading.rows = rows;
            });
        }
    }
}

/// Returns what was printed since an offset. None where there is none: the client has not looked and nothing was typed.
async fn news(
    terminal: &HostedTerminal,
    secrets: &Redactor,
    from: Option<u64>,
    end: u64,
) -> Result<Option<ScreenShare>, SessionError> {
    let Some(from) = from else { return Ok(None) };
    let part = Some(ScreenPart::New);
    if from >= end {
        return Ok(Some(ScreenShare { part, ..ScreenShare::default() }));
    }
    let excerpt = terminal.read(Part::From(from), Limit::HeadAndTail(NEWS)).await?;
    let is_cut = excerpt.left_out > 0;
    let excerpt = whole_secrets_hidden(terminal, secrets, from, excerpt).await?;
    let (head, tail) = secrets.masked_cut(excerpt.head, excerpt.tail);
    let content = secrets.masked_screen(excerpt_text(Excerpt { head, tail, ..excerpt }));
    Ok(Some(ScreenShare { content, part, is_cut, ..ScreenShare::default() }))
}

fn rows_of(screen: &str) -> Vec<String> {
    screen.lines().map(str::to_owned).collect()
}

/// Returns the rows that changed since the client's last look at this full screen, or the screen where that is shorter.
fn changed_rows(seen: &Reading, screen: &str) -> ScreenShare {
    let whole = || ScreenShare { content: screen.to_owned(), ..ScreenShare::default() };
    let Some(before) = &seen.rows else { return whole() };
    let now = rows_of(screen);
    let row = |rows: &[String], index: usize| rows.get(index).cloned().unwrap_or_default();
    let changed: Vec<String> = (0..before.len().max(now.len()))
        .filter(|index| row(before, *index) != row(&now, *index))
        .map(|index| format!("{index}| {}", row(&now, index)).trim_end().to_owned())
        .collect();
    let content = changed.join("\n");
    if content.len() < screen.len() {
        ScreenShare { content, part: Some(ScreenPart::Changed), ..ScreenShare::default() }
    } else {
        whole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_that_changed_are_told_by_number_and_the_screen_where_that_is_shorter() {
        let seen = |screen: &str| Reading { rows: Some(rows_of(screen)), ..Reading::default() };
        let share = changed_rows(&seen("title\none\ntwo\nthree"), "title\none\nTWO");
        assert_eq!((share.content.as_str(), share.part), ("2| TWO\n3|", Some(ScreenPart::Changed)));
        let share = changed_rows(&seen("a\nb"), "c\nd");
        assert_eq!((share.content.as_str(), share.part), ("c\nd", None));
        assert_eq!(changed_rows(&Reading::default(), "a").part, None, "the first look");
        assert_eq!(changed_rows(&seen("a\nb"), "a\nb").content, "", "nothing changed");
    }
}
