//! Waiting for output, in one terminal or in several.

use std::ops::Range;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use steplatch_access::{Caller, Redactor};
use steplatch_clock as clock;
use steplatch_host::{HostedTerminal, TerminalError, WaitRequest};
use steplatch_protocol::{
    AwaitMode, AwaitOutput, AwaitOutputReply, AwaitReason, AwaitTarget, ScreenMode, Since, TerminalWait, WaitInfo,
};
use steplatch_terminal::{Limit, Part, Reason, Target, Until, View, Waited};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::error::SessionError;
use crate::sessions::{RAN_NOTHING, Sessions, mask_divided_secrets};
use crate::wait_request::{wait_patterns, wait_request};

/// Number of characters before and after a match that the lines around it are taken from.
const MATCH_CONTEXT_CHARS: u64 = 300;

impl Sessions {
    /// Waits for output of a terminal.
    #[boxed]
    pub async fn wait(&self, caller: &Caller, verb: AwaitOutput) -> AwaitOutputReply {
        let session_id = verb.session_id.clone();
        let began = Instant::now();
        match self.try_wait(caller, verb).await {
            Ok(reply) => AwaitOutputReply { elapsed_time: began.elapsed().as_secs_f64(), ..reply },
            Err((session, error)) => AwaitOutputReply {
                error: Some(self.describe_error(&session, error).await),
                session_id,
                timestamp: clock::now_iso8601(),
                ..AwaitOutputReply::default()
            },
        }
    }

    /// Waits, and returns an error together with its session.
    async fn try_wait(&self, caller: &Caller, verb: AwaitOutput) -> Result<AwaitOutputReply, (String, SessionError)> {
        let wait = wait_request(caller, &verb).map_err(|error| (verb.session_id.clone(), error))?;
        if verb.run_ids.as_ref().is_some_and(|runs| !runs.is_empty()) {
            let error = "run_ids is for clients; a run waits for runs with the action run_workflow".to_owned();
            return Err((verb.session_id, error.into()));
        }
        let mut names = verb.session_ids.clone().unwrap_or_default();
        if !verb.session_id.is_empty() || names.is_empty() {
            names.insert(0, verb.session_id.clone());
        }
        let mut watched = Vec::with_capacity(names.len());
        for name in names {
            let terminal = self.find(&name).await.map_err(|error| (name.clone(), error))?;
            let since = match verb.since {
                Some(Since::Last) => self.last_match_offset(caller, &terminal),
                Some(Since::Offset(_) | Since::Input) => wait.since,
                None => self.unmatched_offset(caller, &terminal),
            };
            watched.push(WatchedTerminal { name, terminal, wait: WaitRequest { since, ..wait.clone() } });
        }
        let mut finished_waits = wait_for(watched, verb.mode).await?;
        let Some(last) = finished_waits.pop() else {
            return Err((verb.session_id, SessionError::Message("no terminal was named".to_owned())));
        };
        for end in finished_waits.iter().chain([&last]) {
            self.record_match(caller, end);
        }
        let session = last.terminal.id().to_string();
        let reply = self.await_reply(caller, &verb, last).await.map_err(|error| (session, error))?;
        if verb.mode == AwaitMode::Any {
            return Ok(reply);
        }
        let mut terminals: Vec<TerminalWait> = finished_waits.into_iter().map(|end| self.terminal_wait(end)).collect();
        terminals.push(TerminalWait {
            session_id: reply.session_id.clone(),
            name: reply.name.clone(),
            reason: reply.reason,
            match_text: reply.match_text.clone(),
            exit_code: reply.exit_code,
            offset: reply.offset,
            ran_nothing: reply.ran_nothing,
        });
        let timeout_occurred = terminals.iter().any(|end| end.reason == AwaitReason::Timeout);
        let ran_nothing = terminals.iter().any(|end| end.ran_nothing);
        let error = reply.error.or_else(|| ran_nothing.then(|| RAN_NOTHING.to_owned()));
        let success = reply.success && !ran_nothing;
        Ok(AwaitOutputReply { success, error, terminals, timeout_occurred, ran_nothing, ..reply })
    }

    /// Waits for the output after an input.
    pub(crate) async fn wait_after_input(
        &self,
        caller: &Caller,
        terminal: &HostedTerminal,
        wait: WaitRequest,
        (offset, line): (u64, Option<u64>),
    ) -> Result<(View, WaitInfo), SessionError> {
        let began = Instant::now();
        let (waited, view) = terminal.wait(WaitRequest { since: Some(offset), line, ..wait }).await?;
        if let Some(gave_up) = &waited.gave_up {
            return Err(format!("the input was sent; {gave_up}").into());
        }
        let end = EndedWait { terminal: terminal.clone(), waited, view, from: Some(offset) };
        self.record_match(caller, &end);
        let secrets = self.secrets.within(terminal.id());
        let (match_text, groups) = masked_match(&secrets, &end.waited);
        let info = WaitInfo {
            reason: await_reason(&end.waited),
            match_text,
            groups,
            elapsed_time: (began.elapsed().as_secs_f64() * 1e3).round() / 1e3,
            offset: end.waited.offset,
            in_echo: end.waited.found.as_ref().is_some_and(|found| found.in_echo),
            ran_nothing: end.waited.ran_nothing,
        };
        Ok((end.view, info))
    }

    /// Returns the default start offset of a wait of this client. A run searches after the last input.
    fn unmatched_offset(&self, caller: &Caller, terminal: &HostedTerminal) -> Option<u64> {
        self.readers.reading(caller.reader()?, terminal.id()).unmatched_offset()
    }

    /// Records an input of a caller at the end of the output, `offset`, with its last line, if it has one.
    pub(crate) fn record_typed(
        &self,
        caller: &Caller,
        terminal: &HostedTerminal,
        offset: u64,
        typed_line: Option<String>,
    ) {
        if let Some(reader) = caller.reader() {
            self.readers.update_reading(reader, terminal.id(), |reading| {
                reading.typed = reading.typed.max(Some(offset));
                reading.typed_line = typed_line.or(reading.typed_line.take());
            });
        }
    }

    /// Returns the range of an earlier match since the last input, for a wait that began at `from` after the last match
    /// of this client.
    async fn matched_before(
        &self,
        caller: &Caller,
        terminal: &HostedTerminal,
        verb: &AwaitOutput,
        from: Option<u64>,
    ) -> Option<Range<u64>> {
        let matched = self.readers.reading(caller.reader()?, terminal.id()).matched;
        let is_behind_match = verb.since.is_none() && verb.target == AwaitTarget::Output && matched == from;
        let (patterns, from) = (wait_patterns(verb), from.filter(|_| is_behind_match)?);
        let request = WaitRequest {
            patterns,
            target: Target::Output,
            since: None,
            until: Until::Match,
            input: None,
            timeout: Duration::ZERO,
            by: None,
            ..WaitRequest::default()
        };
        let (waited, _) = terminal.wait(request).await.ok()?;
        waited.found.filter(|found| !found.in_echo)?.range.filter(|range| range.end <= from)
    }

    /// Returns the end of the last match of this client, or of its last read.
    fn last_match_offset(&self, caller: &Caller, terminal: &HostedTerminal) -> Option<u64> {
        let reading = self.readers.reading(caller.reader()?, terminal.id());
        reading.matched.or(reading.offset)
    }

    /// Records the end of the match of a wait.
    fn record_match(&self, caller: &Caller, end: &EndedWait) {
        let is_match = end.waited.found.as_ref().is_some_and(|found| !found.in_echo && found.range.is_some());
        if let Some(reader) = caller.reader().filter(|_| is_match) {
            self.readers.update_reading(reader, end.terminal.id(), |reading| reading.matched = Some(end.waited.offset));
        }
    }

    fn terminal_wait(&self, end: EndedWait) -> TerminalWait {
        let secrets = self.secrets.within(end.terminal.id());
        let reason = await_reason(&end.waited);
        TerminalWait {
            session_id: end.terminal.id().to_string(),
            reason,
            match_text: masked_match(&secrets, &end.waited).0,
            exit_code: exit_code(reason, &end),
            offset: end.waited.offset,
            ran_nothing: end.waited.ran_nothing,
            name: end.view.name,
        }
    }

    async fn await_reply(
        &self,
        caller: &Caller,
        verb: &AwaitOutput,
        end: EndedWait,
    ) -> Result<AwaitOutputReply, SessionError> {
        let handed_back = self.take_absence_report(caller, &end.terminal, &end.view).await;
        let mode = verb.screen.unwrap_or_default();
        let share = self.screen_share(caller, &end.terminal, &end.view, mode, None).await;
        let reason = await_reason(&end.waited);
        let exit_code = exit_code(reason, &end);
        let EndedWait { terminal, waited, view, from } = end;
        let earlier_match = match reason {
            AwaitReason::Timeout => self.matched_before(caller, &terminal, verb, from).await,
            _ => None,
        };
        let echoed = waited.found.as_ref().filter(|found| found.in_echo);
        let echo = echoed
            .map(|_| "nothing that was printed matches: the pattern matches only the text that was typed".to_owned());
        let error = match (&waited.gave_up, waited.missed_before) {
            (Some(gave_up), _) => Some(gave_up.to_string()),
            (None, Some(begins)) => {
                Some(format!("output before offset {begins} is no longer held and was not searched"))
            }
            (None, None) => match (&waited.replaced_by, earlier_match) {
                (Some(program), _) => Some(format!(
                    "{program} replaced the shell, so no prompt of the shell follows; wait until: \"input\", or for \
                     output of {program}"
                )),
                (None, Some(earlier_match)) => Some(format!(
                    "no new output matched. The pattern matches at offset {}, before the start of this wait, which \
                     searches after your last match; since: \"input\" searches there again",
                    earlier_match.start
                )),
                (None, None) => echo,
            },
        };
        let in_echo = echoed.is_some();
        let secrets = self.secrets.within(terminal.id());
        let (match_text, groups) = masked_match(&secrets, &waited);
        let found = waited.found.filter(|found| !found.in_echo);
        let match_context = match (&found, mode) {
            (Some(found), ScreenMode::Auto | ScreenMode::New) if share.omitted.is_some() => {
                lines_around(&terminal, &secrets, found.range.clone()).await?
            }
            _ => None,
        };
        let sources = wait_patterns(verb);
        let error = error.or_else(|| waited.ran_nothing.then(|| RAN_NOTHING.to_owned()));
        let success = waited.gave_up.is_none() && share.incomplete.is_none() && !waited.ran_nothing;
        Ok(AwaitOutputReply {
            run: None,
            success,
            session_id: terminal.id().to_string(),
            handed_back,
            match_text,
            screen_content: share.content,
            omitted: share.omitted,
            elapsed_time: 0.0,
            timestamp: clock::now_iso8601(),
            error: share.incomplete.or(error),
            groups,
            reason: if waited.gave_up.is_some() { AwaitReason::Error } else { reason },
            offset: waited.offset,
            exit_code,
            timeout_occurred: reason == AwaitReason::Timeout && waited.gave_up.is_none(),
            pattern: found.as_ref().filter(|_| sources.len() > 1).and_then(|found| sources.get(found.pattern).cloned()),
            name: view.name,
            terminals: Vec::new(),
            match_context,
            screen_part: share.part,
            cursor: share.cursor,
            alternate_screen: share.alternate_screen,
            highlighted: share.highlighted,
            typed: secrets.masked_if(view.typed),
            ran_nothing: waited.ran_nothing,
            awaiting_input: view.awaiting_input,
            password: view.password,
            in_echo,
        })
    }
}

/// A terminal and the wait in it.
struct WatchedTerminal {
    /// The name that the caller uses for it.
    name: String,
    terminal: HostedTerminal,
    wait: WaitRequest,
}

/// A wait that ended.
struct EndedWait {
    terminal: HostedTerminal,
    waited: Waited,
    view: View,
    /// Start offset of the search; `None` for the last input.
    from: Option<u64>,
}

pub(crate) fn await_reason(waited: &Waited) -> AwaitReason {
    let is_in_echo = waited.found.as_ref().is_some_and(|found| found.in_echo);
    match waited.reason {
        // A host of an older version reports the echo as a match at the end of the wait.
        Reason::Match if is_in_echo && waited.exit.is_some() => AwaitReason::Exit,
        Reason::Match if is_in_echo => AwaitReason::Timeout,
        Reason::Exit if waited.replaced_by.is_some() => AwaitReason::Replaced,
        Reason::Match => AwaitReason::Match,
        Reason::Prompt => AwaitReason::Prompt,
        Reason::Exit => AwaitReason::Exit,
        Reason::Quiet => AwaitReason::Quiet,
        Reason::Input => AwaitReason::Input,
        Reason::Timeout => AwaitReason::Timeout,
    }
}

/// Returns the exit code after a wait: the exit code of the last command at a prompt, or of the program.
fn exit_code(reason: AwaitReason, end: &EndedWait) -> Option<i32> {
    match reason {
        AwaitReason::Exit | AwaitReason::Prompt => end.view.exit_code,
        _ => end.waited.exit.map(|exit| exit.code),
    }
}

/// Returns the match of a wait and its groups, with secrets masked. The echo of the input is not a match.
pub(crate) fn masked_match(secrets: &Redactor, waited: &Waited) -> (Option<String>, Vec<Option<String>>) {
    let Some(found) = waited.found.as_ref().filter(|found| !found.in_echo) else { return (None, Vec::new()) };
    let groups = found.groups.iter().map(|group| secrets.masked_group(group.clone(), &found.text)).collect();
    (Some(secrets.masked(found.text.clone())), groups)
}

/// Returns the lines around a match in the output.
async fn lines_around(
    terminal: &HostedTerminal,
    secrets: &Redactor,
    range: Option<Range<u64>>,
) -> Result<Option<String>, SessionError> {
    let Some(range) = range else { return Ok(None) };
    let from = range.start.saturating_sub(MATCH_CONTEXT_CHARS);
    let max_chars = usize::try_from(range.end - from + MATCH_CONTEXT_CHARS).unwrap_or(usize::MAX).min(2000);
    let excerpt = terminal.read(Part::From(from), Limit::Head(max_chars)).await?;
    let excerpt = mask_divided_secrets(terminal, secrets, from, excerpt).await?;
    // Remove the first and the last line if they are cut.
    let head =
        if from == 0 { excerpt.head.as_str() } else { excerpt.head.split_once('\n').map_or("", |(_, lines)| lines) };
    let text = if excerpt.left_out > 0 { head.rsplit_once('\n').map_or(head, |(lines, _)| lines) } else { head };
    Ok(Some(secrets.masked(text.trim_end().to_owned())).filter(|text| !text.is_empty()))
}

/// Waits in all terminals. With [`AwaitMode::Any`], the last element is the first satisfied wait, or else the last wait
/// that ended. With [`AwaitMode::All`], there is an element for each wait.
async fn wait_for(watched: Vec<WatchedTerminal>, mode: AwaitMode) -> Result<Vec<EndedWait>, (String, SessionError)> {
    let mut waits = JoinSet::new();
    for WatchedTerminal { name, terminal, wait } in watched {
        waits.spawn(async move {
            let (until, from) = (wait.until, wait.since);
            let waited = terminal.wait(wait).await;
            (name, terminal, until, from, waited)
        });
    }
    let mut finished_waits = Vec::new();
    let mut last_error = None;
    while let Some(result) = waits.join_next().await {
        let Ok((name, terminal, until, from, waited)) = result else { continue };
        match waited {
            Ok((waited, view)) => {
                let is_satisfied =
                    matches!(waited.reason, Reason::Match | Reason::Prompt | Reason::Quiet | Reason::Input)
                        || until == Until::Exit && waited.reason == Reason::Exit;
                finished_waits.push(EndedWait { terminal, waited, view, from });
                if is_satisfied && mode == AwaitMode::Any {
                    break;
                }
            }
            // A pattern that is invalid for one terminal is invalid for all.
            Err(error @ TerminalError::Refused(_)) => return Err((name, error.into())),
            Err(TerminalError::HostRequest(error)) => last_error = Some((name, error)),
        }
    }
    match last_error {
        Some((name, error)) if finished_waits.is_empty() || mode == AwaitMode::All => Err((name, error.into())),
        _ => Ok(finished_waits),
    }
}
