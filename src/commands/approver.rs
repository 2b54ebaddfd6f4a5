//! `steplatch approver …`

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use steplatch_protocol::{GetApprover, Place, SetApprover};

use crate::failure::Failure;
use crate::passphrase::Source;
use crate::{front, print};

#[derive(Debug, Subcommand)]
pub(crate) enum Approver {
    /// Set the passphrase that every answer to a question for people needs from now on
    Set {
        /// Read it from the first line of standard input; one that is set before, from the second
        #[arg(long)]
        stdin: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take the passphrase away: answers need none any more
    Clear {
        /// Read the one that is set from the first line of standard input
        #[arg(long)]
        stdin: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Tell whether a passphrase is set
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Approver {
    pub(super) async fn run(self, place: &Place) -> Result<ExitCode, Failure> {
        match self {
            Self::Set { stdin, json } => set(place, stdin, json).await,
            Self::Clear { stdin, json } => clear(place, stdin, json).await,
            Self::Status { json } => status(place, json).await,
        }
    }
}

/// Tells whether a passphrase is set.
async fn is_set(place: &Place) -> Result<bool, Failure> {
    let told = front::ask(place, GetApprover {}).await?;
    match told.error {
        Some(error) => Err(Failure::work(error)),
        None => Ok(told.is_set),
    }
}

async fn set(place: &Place, stdin: bool, json: bool) -> Result<ExitCode, Failure> {
    let replaces = is_set(place).await?;
    let mut source = Source::here(stdin)?;
    let (new, current) = match &mut source {
        Source::Script => {
            let new = source.next("").await?;
            let current = if replaces { Some(source.next("").await?) } else { None };
            (new, current)
        }
        Source::Person(_) => {
            let current = if replaces { Some(source.next("the passphrase that is set:").await?) } else { None };
            let new = source.next("a new passphrase:").await?;
            if source.next("the same again:").await? != new {
                return Err(Failure::usage("these were two different ones, and nothing was changed"));
            }
            (new, current)
        }
    };
    change(place, SetApprover { passphrase: Some(new), current }, json).await
}

async fn clear(place: &Place, stdin: bool, json: bool) -> Result<ExitCode, Failure> {
    let current = match is_set(place).await? {
        true => Some(Source::here(stdin)?.next("the passphrase that is set:").await?),
        false => None,
    };
    change(place, SetApprover { passphrase: None, current }, json).await
}

async fn change(place: &Place, verb: SetApprover, json: bool) -> Result<ExitCode, Failure> {
    let reply = front::ask(place, verb).await?;
    if !reply.success {
        let error = reply.error.clone().unwrap_or_else(|| "nothing was changed".to_owned());
        return Err(Failure::work(error).with(&reply));
    }
    if json {
        print::json(&reply)?;
    } else if reply.is_set {
        print::line("a passphrase is set: answers to questions for people need it from now on")?;
    } else {
        print::line("no passphrase is set: answers need none")?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn status(place: &Place, json: bool) -> Result<ExitCode, Failure> {
    let told = front::ask(place, GetApprover {}).await?;
    if let Some(error) = &told.error {
        return Err(Failure::work(error.clone()).with(&told));
    }
    if json {
        print::json(&json!({ "is_set": told.is_set, "since": told.since }))?;
    } else {
        match told.since {
            Some(since) => print::line(format!("a passphrase is set, since {}", print::ago(&since)))?,
            None => print::line("no passphrase is set; set one with: steplatch approver set")?,
        }
    }
    Ok(ExitCode::SUCCESS)
}
