//! `steplatch approver …`: the approver's passphrase.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use steplatch_protocol::{DaemonPaths, GetApprover, GetApproverReply, LowerRequirement, SetApprover, UnlockRuns};

use crate::failure::Failure;
use crate::passphrase::{self, Source};
use crate::question::Person;
use crate::{daemon_client, print};

#[derive(Debug, Subcommand)]
pub(crate) enum Approver {
    /// Set the approval passphrase
    Set {
        /// Read the new passphrase from the first line of standard input, and the current one from the second
        #[arg(long)]
        stdin: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove the approval passphrase
    Clear {
        /// Read the current passphrase from the first line of standard input
        #[arg(long)]
        stdin: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Unlock runs that wait for a person and are locked since a restart of the daemon
    Unlock {
        /// Read the passphrase from the first line of standard input
        #[arg(long)]
        stdin: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Apply a gates.require of the settings that is weaker than the previous one
    Lower {
        /// Read the passphrase from the first line of standard input
        #[arg(long)]
        stdin: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show whether an approval passphrase is set, and which proof gates require
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Approver {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self {
            Self::Set { stdin, json } => set(paths, stdin, json).await,
            Self::Clear { stdin, json } => clear(paths, stdin, json).await,
            Self::Unlock { stdin, json } => unlock(paths, stdin, json).await,
            Self::Lower { stdin, json } => lower(paths, stdin, json).await,
            Self::Status { json } => status(paths, json).await,
        }
    }
}

/// Returns whether an approval passphrase is set.
async fn is_set(paths: &DaemonPaths) -> Result<bool, Failure> {
    let reply = daemon_client::ask(paths, GetApprover {}).await?;
    match reply.error {
        Some(error) => Err(Failure::work(error)),
        None => Ok(reply.is_set),
    }
}

async fn set(paths: &DaemonPaths, stdin: bool, json: bool) -> Result<ExitCode, Failure> {
    let had_passphrase = is_set(paths).await?;
    let mut source = Source::select(stdin)?;
    let (new_passphrase, current) = match &mut source {
        Source::Script => {
            let new_passphrase = source.next("").await?;
            let current = if had_passphrase { Some(source.next("").await?) } else { None };
            (new_passphrase, current)
        }
        Source::Person(_) => {
            let current = if had_passphrase { Some(source.next("current passphrase:").await?) } else { None };
            let new_passphrase = source.next("new passphrase:").await?;
            if source.next("new passphrase again:").await? != new_passphrase {
                return Err(Failure::usage("the two passphrases differ; nothing was changed"));
            }
            (new_passphrase, current)
        }
    };
    change(paths, SetApprover { passphrase: Some(new_passphrase), current }, json).await
}

async fn clear(paths: &DaemonPaths, stdin: bool, json: bool) -> Result<ExitCode, Failure> {
    let current = match is_set(paths).await? {
        true => Some(Source::select(stdin)?.next("current passphrase:").await?),
        false => None,
    };
    change(paths, SetApprover { passphrase: None, current }, json).await
}

async fn change(paths: &DaemonPaths, verb: SetApprover, json: bool) -> Result<ExitCode, Failure> {
    let reply = passphrase::call_after_pauses(paths, verb, "", |reply| reply.retry_after_seconds).await?;
    if !reply.success {
        return Err(Failure::work(reply.error.as_deref().unwrap_or("nothing was changed")).with(&reply));
    }
    if json {
        print::json(&reply)?;
    } else if reply.is_set {
        print::line("passphrase set; answers to gates for people need it from now on")?;
    } else {
        print::line("passphrase removed; approvals no longer need one")?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn unlock(paths: &DaemonPaths, stdin: bool, json: bool) -> Result<ExitCode, Failure> {
    let passphrase = match is_set(paths).await? {
        true => Some(Source::select(stdin)?.next(PASSPHRASE_PROMPT).await?),
        false => None,
    };
    let reply =
        passphrase::call_after_pauses(paths, UnlockRuns { passphrase }, "", |reply| reply.retry_after_seconds).await?;
    if reply.runs > 0 && !json {
        let runs = if reply.runs == 1 { "1 run".to_owned() } else { format!("{} runs", reply.runs) };
        print::line(format!("{runs} unlocked; see: steplatch gates list"))?;
    }
    if !reply.success {
        return Err(Failure::work(reply.error.as_deref().unwrap_or("nothing was unlocked")).with(&reply));
    }
    if json {
        print::json(&reply)?;
    } else if reply.runs == 0 {
        print::remark("no run is locked");
    }
    Ok(ExitCode::SUCCESS)
}

async fn lower(paths: &DaemonPaths, stdin: bool, json: bool) -> Result<ExitCode, Failure> {
    let approver = daemon_client::ask(paths, GetApprover {}).await?;
    if approver.unconfirmed.is_none() && !json {
        let requires = approver.requires.unwrap_or_default();
        print::remark(&format!(
            "gates require '{requires}', and the setting gates.require is not weaker: there is nothing to lower"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let passphrase = match approver.is_set {
        true => Some(Source::select(stdin)?.next(PASSPHRASE_PROMPT).await?),
        false => None,
    };
    let reply =
        passphrase::call_after_pauses(paths, LowerRequirement { passphrase }, "", |reply| reply.retry_after_seconds)
            .await?;
    if !reply.success {
        return Err(Failure::work(reply.error.as_deref().unwrap_or("nothing was changed")).with(&reply));
    }
    if json {
        print::json(&reply)?;
    } else {
        let requires = reply.requires.unwrap_or_default();
        print::line(format!("gates require '{requires}' from now on; open questions keep their requirement"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The prompt for the passphrase.
const PASSPHRASE_PROMPT: &str = "the approver's passphrase:";

/// Asks a person for the passphrase until no run is locked.
pub(super) async fn unlock_with_person(paths: &DaemonPaths, person: &mut Person) -> Result<(), Failure> {
    print::remark("runs that wait for a person are locked since the daemon restarted");
    loop {
        let passphrase = Some(passphrase::ask(person, "the approver's passphrase, to unlock them:").await?);
        let reply =
            passphrase::call_after_pauses(paths, UnlockRuns { passphrase }, "", |reply| reply.retry_after_seconds)
                .await?;
        match reply.error {
            None => break,
            Some(error) if reply.passphrase_wanted => print::remark(&error),
            // The other runs are unlocked. The next request about the locked run reports its problem.
            Some(error) => {
                print::remark(&error);
                break;
            }
        }
    }
    person.end_question();
    Ok(())
}

/// Describes a setting of `gates.require` that is not in effect yet, and the command that applies it.
pub(crate) fn unconfirmed_setting(value: &str) -> String {
    format!(
        "the setting gates.require is '{value}', which is weaker and does not count yet; apply it with: steplatch approver lower"
    )
}

async fn status(paths: &DaemonPaths, json: bool) -> Result<ExitCode, Failure> {
    let reply = daemon_client::ask(paths, GetApprover {}).await?;
    if let Some(error) = &reply.error {
        return Err(Failure::work(error.clone()).with(&reply));
    }
    if json {
        let GetApproverReply { is_set, since, requires, unconfirmed, remember_minutes, .. } = reply;
        print::json(&json!({
            "is_set": is_set, "since": since, "requires": requires, "unconfirmed": unconfirmed,
            "remember_minutes": remember_minutes,
        }))?;
    } else {
        match &reply.since {
            Some(since) => print::line(format!("a passphrase is set, since {}", print::ago(since)))?,
            None => print::line("no passphrase is set; set one with: steplatch approver set")?,
        }
        if let Some(requires) = reply.requires.as_deref().filter(|requires| *requires != "none") {
            print::line(format!("gates for people require the proof '{requires}'"))?;
        }
        if let Some(minutes) = reply.remember_minutes {
            print::line(format!("a tab of the page may keep the passphrase for {minutes} min"))?;
        }
        if let Some(unconfirmed) = &reply.unconfirmed {
            print::remark(&unconfirmed_setting(unconfirmed));
        }
    }
    Ok(ExitCode::SUCCESS)
}
