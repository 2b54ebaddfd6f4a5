//! Waiting for output, in one terminal or in several.

use std::time::Duration;

use steplatch_pattern::Pattern;
use steplatch_protocol::{AwaitOutput, AwaitOutputReply, AwaitReason, AwaitTarget, AwaitUntil};
use steplatch_terminal::{Quiet, Reason, Target, Terminal, Until, View, Wait, Waited};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Sessions;
use crate::moment;

/// Silence that ends a wait for quiet.
const QUIET: Duration = Duration::from_millis(500);

/// The longest wait.
const LONGEST: f64 = 3600.0;

impl Sessions {
    pub(crate) async fn wait(&self, verb: AwaitOutput) -> AwaitOutputReply {
        let session_id = verb.session_id.clone();
        let began = Instant::now();
        match self.try_wait(verb).await {
            Ok(reply) => AwaitOutputReply { elapsed_time: began.elapsed().as_secs_f64(), ..reply },
            Err(error) => AwaitOutputReply {
                session_id,
                error: Some(error),
                timestamp: moment::now_told(),
                ..AwaitOutputReply::default()
            },
        }
    }

    async fn try_wait(&self, verb: AwaitOutput) -> Result<AwaitOutputReply, String> {
        let sources: Vec<String> = std::iter::once(verb.pattern)
            .chain(verb.patterns.unwrap_or_default())
            .filter(|pattern| !pattern.is_empty())
            .collect();
        if sources.is_empty() && verb.until == AwaitUntil::Match {
            return Err("pattern is required, unless until is prompt, exit or quiet".to_owned());
        }
        if !(0.0..=LONGEST).contains(&verb.timeout) {
            return Err(format!("timeout must be between 0 and {LONGEST} seconds, not {}", verb.timeout));
        }
        let patterns = sources
            .iter()
            .map(|source| Pattern::new(source).map_err(|error| error.to_string()))
            .collect::<Result<Vec<_>, _>>()?;
        let wait = Wait {
            patterns,
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
            names.insert(0, verb.session_id);
        }
        let mut terminals = Vec::with_capacity(names.len());
        for name in &names {
            terminals.push(self.find(name).await?);
        }
        let (terminal, waited, view) = match terminals.as_slice() {
            [terminal] => {
                let (waited, view) = terminal.wait(wait).await.map_err(|gone| gone.to_string())?;
                (terminal.clone(), waited, view)
            }
            _ => first_of(terminals, wait).await?,
        };
        Ok(self.waited(&terminal, waited, view, &sources))
    }

    fn waited(&self, terminal: &Terminal, waited: Waited, view: View, sources: &[String]) -> AwaitOutputReply {
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
            (None, None) => None,
        };
        let found = waited.found;
        AwaitOutputReply {
            success: waited.gave_up.is_none(),
            session_id: terminal.id().to_string(),
            match_text: self.secrets.masked_if(found.as_ref().map(|found| found.text.clone())),
            screen_content: self.secrets.masked_screen(view.screen),
            elapsed_time: 0.0,
            timestamp: moment::now_told(),
            error,
            groups: found
                .iter()
                .flat_map(|found| {
                    found.groups.iter().map(|group| self.secrets.masked_group(group.clone(), &found.text))
                })
                .collect(),
            reason,
            offset: waited.offset,
            exit_code: match reason {
                AwaitReason::Exit | AwaitReason::Prompt => view.exit_code,
                AwaitReason::Match | AwaitReason::Quiet | AwaitReason::Timeout => waited.exit.map(|exit| exit.code),
            },
            timeout_occurred: reason == AwaitReason::Timeout,
            pattern: found.as_ref().filter(|_| sources.len() > 1).and_then(|found| sources.get(found.pattern).cloned()),
            in_echo: found.is_some_and(|found| found.in_echo),
        }
    }
}

/// Waits in several terminals: for the first that finds something, else for the last one to end.
async fn first_of(terminals: Vec<Terminal>, wait: Wait) -> Result<(Terminal, Waited, View), String> {
    let mut waits = JoinSet::new();
    for terminal in terminals {
        let wait = wait.clone();
        waits.spawn(async move {
            let waited = terminal.wait(wait).await;
            (terminal, waited)
        });
    }
    let mut last = Err("no terminal was named".to_owned());
    while let Some(ended) = waits.join_next().await {
        let Ok((terminal, waited)) = ended else { continue };
        match waited {
            Ok((waited, view)) => {
                let over = matches!(waited.reason, Reason::Match | Reason::Prompt | Reason::Quiet)
                    || wait.until == Until::Exit && waited.reason == Reason::Exit;
                last = Ok((terminal, waited, view));
                if over {
                    break;
                }
            }
            Err(gone) if last.is_err() => last = Err(gone.to_string()),
            Err(_) => {}
        }
    }
    last
}
