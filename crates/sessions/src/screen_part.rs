//! The screen in a reply: all of it, or the part that the client has not seen.
//!
//! The new part of a line program is the text printed since the client's last read; the new part of a full-screen
//! program is its changed rows. The reply has the whole screen if that is shorter.

use std::fmt::Display;

use steplatch_access::{Caller, Redactor};
use steplatch_host::HostedTerminal;
use steplatch_protocol::{CursorPosition, HighlightInfo, OmittedOutput, ScreenMode, ScreenPart};
use steplatch_terminal::{Limit, Part, ScreenLine, View};

use crate::error::SessionError;
use crate::readers::Reading;
use crate::sessions::{
    MAX_VALUE_BYTES, READ_IN_PARTS_ADVICE, Sessions, highlighted, incomplete_text, mask_divided_secrets,
    masked_excerpt, shows_highlights,
};

/// Maximum number of characters of new output in a reply; a read by offset returns the omitted middle.
const MAX_NEW_CHARS: usize = 3000;

/// The part of a screen in a reply.
#[derive(Debug, Default)]
pub(crate) struct ScreenShare {
    pub(crate) content: String,
    /// `None` for the whole screen.
    pub(crate) part: Option<ScreenPart>,
    /// Position of the cursor of a full-screen program.
    pub(crate) cursor: Option<CursorPosition>,
    pub(crate) alternate_screen: bool,
    pub(crate) highlighted: Vec<HighlightInfo>,
    /// Output that the content omits.
    pub(crate) omitted: Option<OmittedOutput>,
    /// Error of a step of a run whose requested output is incomplete.
    pub(crate) incomplete: Option<String>,
}

impl Sessions {
    /// Returns the part of a screen for `mode` and records that the client has seen it. Without an earlier read by
    /// this client, the new part begins at `since`. If the terminal has closed meanwhile, returns the screen of `view`,
    /// because the preceding action succeeded.
    pub(crate) async fn screen_share(
        &self,
        caller: &Caller,
        terminal: &HostedTerminal,
        view: &View,
        mode: ScreenMode,
        since: Option<(u64, Option<u64>)>,
    ) -> ScreenShare {
        let secrets = self.secrets.within(terminal.id());
        let screen = secrets.masked_screen(view.screen.clone());
        let reading = caller.reader().map(|reader| self.readers.reading(reader, terminal.id())).unwrap_or_default();
        let mut share = match mode {
            ScreenMode::None => ScreenShare::default(),
            ScreenMode::Full => ScreenShare { content: screen.clone(), ..ScreenShare::default() },
            // Runs compute with the plain screen, without row numbers.
            ScreenMode::Auto | ScreenMode::New if view.modes.alternate_screen && caller.run.is_some() => {
                ScreenShare { content: screen.clone(), ..ScreenShare::default() }
            }
            ScreenMode::Auto | ScreenMode::New if view.modes.alternate_screen => {
                let share = changed_rows(&reading, &screen);
                ScreenShare { content: shorten_frames(&share.content), ..share }
            }
            ScreenMode::Auto | ScreenMode::New => {
                let is_value = caller.run.is_some();
                let last_read = reading.offset.map(|offset| (offset, reading.version)).or(since);
                match new_content(terminal, &secrets, last_read, view, is_value).await {
                    Ok(Some(share)) if is_value && mode == ScreenMode::Auto && share.incomplete.is_some() => {
                        ScreenShare { content: screen.clone(), ..ScreenShare::default() }
                    }
                    Ok(Some(share)) if mode == ScreenMode::New || share.content.len() <= screen.len() => share,
                    _ => ScreenShare { content: screen.clone(), ..ScreenShare::default() },
                }
            }
        };
        if view.modes.alternate_screen && mode != ScreenMode::None {
            share.alternate_screen = true;
            let (row, col) = (view.cursor.row, view.cursor.col);
            share.cursor = Some(CursorPosition { row, col, visible: view.cursor.visible });
        }
        if mode != ScreenMode::Full && mode != ScreenMode::None && shows_highlights(view) {
            let picture = terminal.picture().await.ok();
            let typed_line = reading.typed_line.as_deref();
            share.highlighted = picture
                .map(|picture| highlighted(view, &secrets.masked_picture(picture), typed_line))
                .unwrap_or_default();
        }
        if mode != ScreenMode::None {
            self.record_seen(caller, terminal, view, &screen, &share.highlighted);
        }
        if share.part == Some(ScreenPart::Changed) {
            share.highlighted.retain(|part| !reading.highlighted.contains(part));
        }
        share
    }

    /// Records that the client has seen a whole screen, with masked secrets.
    pub(crate) fn record_seen(
        &self,
        caller: &Caller,
        terminal: &HostedTerminal,
        view: &View,
        screen: &str,
        highlighted: &[HighlightInfo],
    ) {
        if let Some(reader) = caller.reader() {
            let rows = view.modes.alternate_screen.then(|| to_rows(screen));
            self.readers.update_reading(reader, terminal.id(), |reading| {
                reading.offset = Some(view.end);
                reading.version = view.version;
                reading.rows = rows;
                reading.highlighted = highlighted.to_vec();
            });
        }
    }
}

/// Returns the content after an offset of the output and a version of the screen. `None` if the client has neither read
/// the terminal nor typed into it.
async fn new_content(
    terminal: &HostedTerminal,
    secrets: &Redactor,
    seen: Option<(u64, Option<u64>)>,
    view: &View,
    is_value: bool,
) -> Result<Option<ScreenShare>, SessionError> {
    let Some((from, version)) = seen else { return Ok(None) };
    let part = Some(ScreenPart::New);
    if from >= view.end && (is_value || version == view.version) {
        return Ok(Some(ScreenShare { part, ..ScreenShare::default() }));
    }
    // Terminal hosts of older versions report no versions of screens.
    if let Some(version) = version.filter(|_| !is_value) {
        return unseen_content(terminal, secrets, from, version).await.map(Some);
    }
    let limit = if is_value { Limit::Head(MAX_VALUE_BYTES) } else { Limit::HeadAndTail(MAX_NEW_CHARS) };
    let excerpt = terminal.read(Part::From(from), limit).await?;
    let is_whole = excerpt.left_out == 0 && excerpt.dropped_before.is_none() && excerpt.head.len() <= MAX_VALUE_BYTES;
    if is_value && !is_whole {
        let incomplete = incomplete_text("the printed text", excerpt.dropped_before, READ_IN_PARTS_ADVICE);
        return Ok(Some(ScreenShare { part, incomplete: Some(incomplete), ..ScreenShare::default() }));
    }
    let excerpt = mask_divided_secrets(terminal, secrets, from, excerpt).await?;
    let (content, omitted) = masked_excerpt(secrets, excerpt, false);
    Ok(Some(ScreenShare { content, part, omitted, ..ScreenShare::default() }))
}

/// Returns the content that a client has not seen: text, or the changed lines if the program drew on several lines.
async fn unseen_content(
    terminal: &HostedTerminal,
    secrets: &Redactor,
    from: u64,
    version: u64,
) -> Result<ScreenShare, SessionError> {
    let part = Part::New { from, version, reach: secrets.reach() };
    let mut excerpt = terminal.read(part, Limit::HeadAndTail(MAX_NEW_CHARS)).await?;
    if let Some(lines) = excerpt.rows {
        return Ok(changed_lines(&lines, secrets));
    }
    let text = format!("{}{}", excerpt.before, excerpt.head);
    excerpt.head = secrets.masked_portion(&text, excerpt.before.len()..text.len());
    let (content, omitted) = masked_excerpt(secrets, excerpt, false);
    Ok(ScreenShare { content, part: Some(ScreenPart::New), omitted, ..ScreenShare::default() })
}

/// Returns the changed lines of a screen: as text if they are the last lines, otherwise with their numbers.
fn changed_lines(lines: &[ScreenLine], secrets: &Redactor) -> ScreenShare {
    // Mask all lines together, because a secret may extend over several.
    let texts = lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
    let masked = secrets.masked_screen(texts);
    let texts: Vec<&str> = masked.split('\n').collect();
    if texts.len() != lines.len() {
        // Masking has hidden the whole text.
        return ScreenShare { content: masked, part: Some(ScreenPart::New), ..ScreenShare::default() };
    }
    let Some(first) = lines.iter().position(|line| line.is_changed) else {
        return ScreenShare { part: Some(ScreenPart::New), ..ScreenShare::default() };
    };
    // Empty rows at the end need no number.
    let end = texts.iter().rposition(|text| !text.trim().is_empty()).map_or(0, |last| last + 1);
    let (content, part) = if end > first && lines[first..end].iter().all(|line| line.is_changed) {
        (texts[first..end].iter().map(|text| text.trim_end()).collect::<Vec<_>>().join("\n"), ScreenPart::New)
    } else {
        let changed = lines.iter().zip(&texts).filter(|(line, _)| line.is_changed);
        (number_rows(changed.map(|(line, text)| (line.row, *text))), ScreenPart::Changed)
    };
    ScreenShare { content, part: Some(part), ..ScreenShare::default() }
}

/// Minimum length of a frame line that is shortened.
const MIN_FRAME_CHARS: usize = 8;

/// Length of each remaining end of a shortened frame line.
const FRAME_END_CHARS: usize = 2;

/// Shortens the lines of frames, because they cost many tokens and carry no information: `┌──…──┐`.
fn shorten_frames(text: &str) -> String {
    let mut shortened = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let mut count = 1;
        while characters.next_if_eq(&character).is_some() {
            count += 1;
        }
        let is_line = ('\u{2500}'..='\u{257f}').contains(&character) && count >= MIN_FRAME_CHARS;
        let end = std::iter::repeat_n(character, if is_line { FRAME_END_CHARS } else { count });
        shortened.extend(end.clone());
        if is_line {
            shortened.push('…');
            shortened.extend(end);
        }
    }
    shortened
}

fn to_rows(screen: &str) -> Vec<String> {
    screen.lines().map(str::to_owned).collect()
}

/// Returns the rows that changed since the client's last read of this full screen, or the screen if that is shorter.
fn changed_rows(seen: &Reading, screen: &str) -> ScreenShare {
    let current_rows = to_rows(screen);
    let rows_or_screen = || rows_with_text(screen, &current_rows);
    let Some(previous_rows) = &seen.rows else { return rows_or_screen() };
    let row = |rows: &[String], index: usize| rows.get(index).cloned().unwrap_or_default();
    let changed = (0..previous_rows.len().max(current_rows.len()))
        .filter(|index| row(previous_rows, *index) != row(&current_rows, *index));
    let content = number_rows(changed.map(|index| (index, row(&current_rows, index))));
    if content.len() < screen.len() {
        ScreenShare { content, part: Some(ScreenPart::Changed), ..ScreenShare::default() }
    } else {
        rows_or_screen()
    }
}

/// Returns the rows of a full screen that have text, or the screen if that is shorter.
fn rows_with_text(screen: &str, rows: &[String]) -> ScreenShare {
    let is_drawn = |character: char| character.is_whitespace() || ('\u{2500}'..='\u{259f}').contains(&character);
    // vi marks the rows after the end of the text with a tilde.
    let has_text = |row: &str| row != "~" && !row.chars().all(is_drawn);
    let with_text = rows.iter().cloned().enumerate().filter(|(_, row)| has_text(row));
    let content = number_rows(with_text);
    if content.len() < screen.len() {
        ScreenShare { content, part: Some(ScreenPart::Text), ..ScreenShare::default() }
    } else {
        ScreenShare { content: screen.to_owned(), ..ScreenShare::default() }
    }
}

/// Prefixes rows with their numbers. The numbers start at 0, like the cursor's row.
fn number_rows(rows: impl Iterator<Item = (impl Display, impl Display)>) -> String {
    let rows = rows.map(|(index, row)| format!("{index}| {row}").trim_end().to_owned());
    rows.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_rows_are_numbered_unless_the_screen_is_shorter() {
        let reading = |screen: &str| Reading { rows: Some(to_rows(screen)), ..Reading::default() };
        let share = changed_rows(&reading("title\none\ntwo\nthree"), "title\none\nTWO");
        assert_eq!((share.content.as_str(), share.part), ("2| TWO\n3|", Some(ScreenPart::Changed)));
        let share = changed_rows(&reading("a\nb"), "c\nd");
        assert_eq!((share.content.as_str(), share.part), ("c\nd", None));
        let share = changed_rows(&Reading::default(), "┌────┐\n│ ok │\n│    │\n└────┘\n\n");
        assert_eq!((share.content.as_str(), share.part), ("1| │ ok │", Some(ScreenPart::Text)));
        assert_eq!(shorten_frames("┌──────────┐ ----------"), "┌──…──┐ ----------");
        assert_eq!(changed_rows(&Reading::default(), "a").part, None, "the first read returns the whole screen");
        assert_eq!(changed_rows(&reading("a\nb"), "a\nb").content, "", "an unchanged screen has no new rows");
    }
}
