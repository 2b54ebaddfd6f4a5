//! Part of a screen in a reply: all of it, or the part that the client has not seen.
//!
//! Of a line program, the news are the lines printed since the client's last look; of a full-screen program, the rows
//! that changed. The reply has the whole screen where that is shorter.

use std::fmt::Display;

use steplatch_access::{Caller, Redactor};
use steplatch_host::HostedTerminal;
use steplatch_protocol::{CursorPosition, HighlightInfo, OmittedOutput, ScreenMode, ScreenPart};
use steplatch_terminal::{Highlight, Limit, Part, Picture, ScreenLine, View, highlights};

use crate::readers::Reading;
use crate::sessions::{MAX_VALUE_BYTES, READ_ON, Sessions, incomplete, masked_excerpt, whole_secrets_hidden};
use crate::trouble::SessionError;

/// Maximum number of new characters for a client; a read by position returns the text between their head and tail.
const NEWS: usize = 3000;

/// The part of a screen that a reply has.
#[derive(Debug, Default)]
pub(crate) struct ScreenShare {
    pub(crate) content: String,
    /// None for the whole screen.
    pub(crate) part: Option<ScreenPart>,
    /// Position of the cursor of a full-screen program.
    pub(crate) cursor: Option<CursorPosition>,
    pub(crate) alternate_screen: bool,
    pub(crate) highlighted: Vec<HighlightInfo>,
    /// Output that the content lacks.
    pub(crate) omitted: Option<OmittedOutput>,
    /// Failure of a step of a run: the requested output is not complete.
    pub(crate) incomplete: Option<String>,
}

impl Sessions {
    /// Returns the part of a screen that `mode` names, and records that the client has seen it. Without an earlier look
    /// of this client, the news begin at `since`. Shows a terminal closed in the meantime as `view` has it: the action
    /// before was successful.
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
            // A run computes with the plain screen, without numbers of rows.
            ScreenMode::Auto | ScreenMode::New if view.modes.alternate_screen && caller.run.is_some() => {
                ScreenShare { content: screen.clone(), ..ScreenShare::default() }
            }
            ScreenMode::Auto | ScreenMode::New if view.modes.alternate_screen => {
                let share = changed_rows(&reading, &screen);
                ScreenShare { content: shortened_frames(&share.content), ..share }
            }
            ScreenMode::Auto | ScreenMode::New => {
                let is_value = caller.run.is_some();
                let seen = reading.offset.map(|offset| (offset, reading.version)).or(since);
                match news(terminal, &secrets, seen, view, is_value).await {
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
            if mode != ScreenMode::Full {
                let picture = terminal.picture().await.ok();
                share.highlighted = picture.map(|it| highlighted(&secrets.masked_picture(it))).unwrap_or_default();
            }
        }
        if mode != ScreenMode::None {
            self.record_seen(caller, terminal, view, &screen, &share.highlighted);
        }
        if share.part == Some(ScreenPart::Changed) {
            share.highlighted.retain(|part| !reading.highlighted.contains(part));
        }
        share
    }

    /// Records that the client has seen the whole of a screen, which has no secrets.
    pub(crate) fn record_seen(
        &self,
        caller: &Caller,
        terminal: &HostedTerminal,
        view: &View,
        screen: &str,
        highlighted: &[HighlightInfo],
    ) {
        if let Some(reader) = caller.reader() {
            let rows = view.modes.alternate_screen.then(|| rows_of(screen));
            self.readers.update_reading(reader, terminal.id(), |reading| {
                reading.offset = Some(view.end);
                reading.version = view.version;
                reading.rows = rows;
                reading.highlighted = highlighted.to_vec();
            });
        }
    }
}

/// Returns the content that is new since the output ended at an offset and the screen had a version. None where there
/// is no such offset: the client has not looked and there was no input.
async fn news(
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
    // A terminal host of an older version has no versions.
    if let Some(version) = version.filter(|_| !is_value) {
        return shown_since(terminal, secrets, from, version).await.map(Some);
    }
    let limit = if is_value { Limit::Head(MAX_VALUE_BYTES) } else { Limit::HeadAndTail(NEWS) };
    let excerpt = terminal.read(Part::From(from), limit).await?;
    let is_whole = excerpt.left_out == 0 && excerpt.dropped_before.is_none() && excerpt.head.len() <= MAX_VALUE_BYTES;
    if is_value && !is_whole {
        let incomplete = incomplete("what was printed", excerpt.dropped_before, READ_ON);
        return Ok(Some(ScreenShare { part, incomplete: Some(incomplete), ..ScreenShare::default() }));
    }
    let excerpt = whole_secrets_hidden(terminal, secrets, from, excerpt).await?;
    let (content, omitted) = masked_excerpt(secrets, excerpt, false);
    Ok(Some(ScreenShare { content, part, omitted, ..ScreenShare::default() }))
}

/// Returns the part of a terminal that a client has not seen: text, or the lines that changed where the program drew on
/// several.
async fn shown_since(
    terminal: &HostedTerminal,
    secrets: &Redactor,
    from: u64,
    version: u64,
) -> Result<ScreenShare, SessionError> {
    let part = Part::New { from, version, reach: secrets.reach() };
    let mut excerpt = terminal.read(part, Limit::HeadAndTail(NEWS)).await?;
    if let Some(lines) = excerpt.rows {
        return Ok(changed_lines(&lines, secrets));
    }
    let whole = format!("{}{}", excerpt.before, excerpt.head);
    excerpt.head = secrets.masked_portion(&whole, excerpt.before.len()..whole.len());
    let (content, omitted) = masked_excerpt(secrets, excerpt, false);
    Ok(ScreenShare { content, part: Some(ScreenPart::New), omitted, ..ScreenShare::default() })
}

/// Returns the lines of a screen that changed: as text where they are the last ones, else after their numbers.
fn changed_lines(lines: &[ScreenLine], secrets: &Redactor) -> ScreenShare {
    // All lines, to find a secret that several have.
    let texts = lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
    let masked = secrets.masked_screen(texts);
    let texts: Vec<&str> = masked.split('\n').collect();
    if texts.len() != lines.len() {
        // All of it is hidden.
        return ScreenShare { content: masked, part: Some(ScreenPart::New), ..ScreenShare::default() };
    }
    let Some(first) = lines.iter().position(|line| line.is_changed) else {
        return ScreenShare { part: Some(ScreenPart::New), ..ScreenShare::default() };
    };
    // Rows below that are empty now need no number.
    let end = texts.iter().rposition(|text| !text.trim().is_empty()).map_or(0, |last| last + 1);
    let (content, part) = if end > first && lines[first..end].iter().all(|line| line.is_changed) {
        (texts[first..end].iter().map(|text| text.trim_end()).collect::<Vec<_>>().join("\n"), ScreenPart::New)
    } else {
        let changed = lines.iter().zip(&texts).filter(|(line, _)| line.is_changed);
        (numbered(changed.map(|(line, text)| (line.row, *text))), ScreenPart::Changed)
    };
    ScreenShare { content, part: Some(part), ..ScreenShare::default() }
}

/// The shortest line of a frame to shorten, and the length of its rest.
const FRAME: usize = 8;
const FRAME_END: usize = 2;

/// Shortens the lines of frames, which say nothing and cost a reader much: `┌──…──┐`.
fn shortened_frames(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        let mut count = 1;
        while signs.next_if_eq(&sign).is_some() {
            count += 1;
        }
        let is_line = ('\u{2500}'..='\u{257f}').contains(&sign) && count >= FRAME;
        let end = std::iter::repeat_n(sign, if is_line { FRAME_END } else { count });
        short.extend(end.clone());
        if is_line {
            short.push('…');
            short.extend(end);
        }
    }
    short
}

fn rows_of(screen: &str) -> Vec<String> {
    screen.lines().map(str::to_owned).collect()
}

/// Returns the rows that changed since the client's last look at this full screen, or the screen where that is shorter.
fn changed_rows(seen: &Reading, screen: &str) -> ScreenShare {
    let now = rows_of(screen);
    let whole = || rows_with_text(screen, &now);
    let Some(before) = &seen.rows else { return whole() };
    let row = |rows: &[String], index: usize| rows.get(index).cloned().unwrap_or_default();
    let changed = (0..before.len().max(now.len())).filter(|index| row(before, *index) != row(&now, *index));
    let content = numbered(changed.map(|index| (index, row(&now, index))));
    if content.len() < screen.len() {
        ScreenShare { content, part: Some(ScreenPart::Changed), ..ScreenShare::default() }
    } else {
        whole()
    }
}

/// Returns the rows of a full screen that have text, or the screen where that is shorter.
fn rows_with_text(screen: &str, rows: &[String]) -> ScreenShare {
    let is_drawn = |sign: char| sign.is_whitespace() || ('\u{2500}'..='\u{259f}').contains(&sign);
    // vi marks the rows after the end of a text with a tilde.
    let has_text = |row: &str| row != "~" && !row.chars().all(is_drawn);
    let with_text = rows.iter().cloned().enumerate().filter(|(_, row)| has_text(row));
    let content = numbered(with_text);
    if content.len() < screen.len() {
        ScreenShare { content, part: Some(ScreenPart::Text), ..ScreenShare::default() }
    } else {
        ScreenShare { content: screen.to_owned(), ..ScreenShare::default() }
    }
}

/// Writes rows after their numbers, counted from 0 as the cursor's.
fn numbered(rows: impl Iterator<Item = (impl Display, impl Display)>) -> String {
    let rows = rows.map(|(index, row)| format!("{index}| {row}").trim_end().to_owned());
    rows.collect::<Vec<_>>().join("\n")
}

/// Returns the parts of a screen that stand out, from top to bottom.
pub(crate) fn highlighted(picture: &Picture) -> Vec<HighlightInfo> {
    highlights(picture).into_iter().map(|Highlight { row, text }| HighlightInfo { row, text }).collect()
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
        let share = changed_rows(&Reading::default(), "┌────┐\n│ ok │\n│    │\n└────┘\n\n");
        assert_eq!((share.content.as_str(), share.part), ("1| │ ok │", Some(ScreenPart::Text)));
        assert_eq!(shortened_frames("┌──────────┐ ----------"), "┌──…──┐ ----------");
        assert_eq!(changed_rows(&Reading::default(), "a").part, None, "the first look");
        assert_eq!(changed_rows(&seen("a\nb"), "a\nb").content, "", "nothing changed");
    }
}
