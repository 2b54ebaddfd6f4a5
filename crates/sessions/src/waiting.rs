//! Waiting for output, in one terminal or in several.

use std::time::Duration;

use steplatch_access::Caller;
use steplatch_clock as clock;
use steplatch_host::{HostedTerminal, TerminalError, WaitRequest};
use steplatch_protocol::{AwaitOutput, AwaitOutputReply, AwaitReason, AwaitTarget, AwaitUntil};
use steplatch_terminal::{Quiet, Reason, Target, Until, View, Waited};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::trouble::SessionError;
use crate::sessions::Sessions;

/// Silence that ends a wait for quiet.
const QUIET: Duration = Duration::from_millis(500);

/// The longest wait.
const LONGEST: f64 = 3600.0;

impl Sessions {
    /// Waits for output of a terminal.
    pub async fn wait(&self, caller: &Caller, verb: AwaitOutput) -> AwaitOutputReply {
        let session_id = verb.session_id.clone();
        let began = Instant::now();
        match self.try_wait(caller, verb).await {
            Ok(reply) => AwaitOutputReply { elapsed_time: began.elapsed().as_secs_f64(), ..reply },
            Err((session, trouble)) => AwaitOutputReply {
                error: Some(self.words(&session, trouble).await),
                session_id,
                timestamp: clock::now_iso8601(),
                ..AwaitOutputReply::default()
            },
        }
    }

    /// Waits, and returns an error together with its session.
    async fn try_wait(&self, caller: &Caller, verb: AwaitOutput) -> Result<AwaitOutputReply, (String, SessionError)> {
        let words = |words: String| (verb.session_id.clone(), SessionError::Words(words));
        let sources: Vec<String> = std::iter::once(verb.pattern)
            .chain(verb.patterns.unwrap_or_default())
            .filter(|pattern| !pattern.is_empty())
            .collect();
        if sources.is_empty() && verb.until == AwaitUntil::Match {
            return Err(words("pattern is required, unless until is prompt, exit or quiet".to_owned()));
        }
        if !(0.0..=LONGEST).contains(&verb.timeout) {
            return Err(words(format!("timeout must be between 0 and {LONGEST} seconds, not {}", verb.timeout)));
        }
        let wait = WaitRequest {
            patterns: sources.clone(),
            target: match verb.target {
                AwaitTarget::Output => Target::Output,
                AwaitTarget::Screen => Target::Screen,
            },
            since: verb.since,
            until: match verb.until {
                AwaitUntil::Match => Until::Match,
                AwaitUntil::Prompt => Until::Prompt,
                AwaitUntil::Exit => Until::Exit,
                AwaitUntil::Quiet => Until::Quiet(Quiet::of(QUIET)),
            },
            timeout: Duration::from_secs_f64(verb.timeout),
        };
        let mut names = verb.session_ids.unwrap_or_default();
        if !verb.session_id.is_empty() || names.is_empty() {
            names.insert(0, verb.session_id.clone());
        }
        let mut terminals = Vec::with_capacity(names.len());
        for name in &names {
            terminals.push((name.clone(), self.find(name).await.map_err(|trouble| (name.clone(), trouble))?));
        }
        let (terminal, waited, view) = match terminals.as_slice() {
            [(name, terminal)] => {
                let (waited, view) = terminal.wait(wait).await.map_err(|error| (name.clone(), error.into()))?;
                (terminal.clone(), waited, view)
            }
            _ => first_of(terminals, wait).await?,
        };
        let handed_back = self.absence(caller, &terminal, &view).await;
        Ok(AwaitOutputReply { handed_back, ..self.waited(&terminal, waited, view, &sources) })
    }

    fn waited(&self, terminal: &HostedTerminal, waited: Waited, view: View, sources: &[String]) -> AwaitOutputReply {
        let reason = match waited.reason {
            Reason::Match => AwaitReason::Match,
            Reason::Prompt => AwaitReason::Prompt,
            Reason::Exit => AwaitReason::Exit,
            Reason::Quiet => AwaitReason::Quiet,
            Reason::Timeout => AwaitReason::Timeout,
        };
        let error = match (&waited.gave_up, waited.missed_before) {
            (Some(gave_up), _) => Some(gave_up.to_string()),
            (None, Some(begins)) => {
                Some(format!("output before offset {begins} is no longer held and was not searched"))
            }
            (None, None) => waited.replaced_by.as_ref().map(|program| {
                format!("{program} took the place of the shell, which told its prompts; wait for what it prints")
            }),
        };
        let found = waited.found;
        let secrets = self.secrets.within(terminal.id());
        AwaitOutputReply {
            success: waited.gave_up.is_none(),
            session_id: terminal.id().to_string(),
            handed_back: None,
            match_text: secrets.masked_if(found.as_ref().map(|found| found.text.clone())),
            screen_content: secrets.masked_screen(view.screen),
            elapsed_time: 0.0,
            timestamp: clock::now_iso8601(),
            error,
            groups: found
                .iter()
                .flat_map(|found| found.groups.iter().map(|group| secrets.masked_group(group.clone(), &found.text)))
                .collect(),
            reason,
            offset: waited.offset,
            exit_code: match reason {
                AwaitReason::Exit | AwaitReason::Prompt => view.exit_code,
                AwaitReason::Match | AwaitReason::Quiet | AwaitReason::Timeout => waited.exit.map(|exit| exit.code),
            },
            timeout_occurred: reason == AwaitReason::Timeout,
            pattern: found.as_ref().filter(|_| sources.len() > 1).and_then(|found| sources.get(found.pattern).cloned()),
            awaiting_input: view.awaiting_input,
            password: view.password,
            in_echo: found.is_some_and(|found| found.in_echo),
        }
    }
}

/// Waits in several terminals: for the first match, else for the last one to end.
async fn first_of(
    terminals: Vec<(String, HostedTerminal)>,
    wait: WaitRequest,
) -> Result<(HostedTerminal, Waited, View), (String, SessionError)> {
    let mut waits = JoinSet::new();
    for (name, terminal) in terminals {
        let wait = wait.clone();
        waits.spawn(async move {
            let waited = terminal.wait(wait).await;
            (name, terminal, waited)
        });
    }
    let mut last = Err((String::new(), SessionError::Words("no terminal was named".to_owned())));
    while let Some(ended) = waits.join_next().await {
        let Ok((name, terminal, waited)) = ended else { continue };
        match waited {
            Ok((waited, view)) => {
                let over = matches!(waited.reason, Reason::Match | Reason::Prompt | Reason::Quiet)
                    || wait.until == Until::Exit && waited.reason == Reason::Exit;
                last = Ok((terminal, waited, view));
                if over {
                    break;
                }
            }
            // A pattern that is invalid for one terminal is invalid for all.
            Err(error @ TerminalError::Refused(_)) => return Err((name, error.into())),
            Err(TerminalError::Ask(error)) if last.is_err() => last = Err((name, error.into())),
            Err(TerminalError::Ask(_)) => {}
        }
    }
    last
}
