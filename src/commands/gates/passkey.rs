//! `steplatch gates passkey …`: keys on a person's device that sign answers on the page.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use steplatch_protocol::{
    AddPasskey, AddPasskeyReply, DaemonPaths, ListPasskeys, OpenPage, PasskeyInfo, RemovePasskey,
};

use crate::commands::open::open_in_browser;
use crate::failure::Failure;
use crate::print::{self, visible};
use crate::question::Person;
use crate::{front, page_server, passphrase};

/// Register, list and remove passkeys, which sign answers on the page
#[derive(Debug, Subcommand)]
pub(crate) enum PasskeyRequest {
    /// Register a passkey: opens the page, on which the browser asks for the device
    ///
    /// The address contains a ticket that registers one passkey, once, within 5 minutes. Only a person in a terminal of their own
    /// gets one, with the approver's passphrase if that is set.
    Add {
        /// Print the address instead of opening it
        #[arg(long)]
        print: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the passkeys
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a passkey: it signs no more answers
    Remove {
        /// Passkey: its id or the beginning of it, or its name
        #[arg(value_name = "PASSKEY")]
        passkey: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl PasskeyRequest {
    pub(super) async fn run(self, place: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self {
            Self::Add { print, json } => add(place, print, json).await,
            Self::List { json } => list(place, json).await,
            Self::Remove { passkey, json } => remove(place, passkey, json).await,
        }
    }
}

/// Gets a ticket, and asks for the passphrase where one is needed.
async fn ticket(place: &DaemonPaths) -> Result<AddPasskeyReply, Failure> {
    let mut verb = AddPasskey::default();
    let mut person = None;
    loop {
        let reply = front::ask(place, verb.clone()).await?;
        if reply.success {
            return Ok(reply);
        }
        let error = reply.error.unwrap_or_else(|| "the daemon gave no ticket".to_owned());
        let asked = match person.take() {
            Some(person) => Some(person),
            None => Person::here(),
        };
        match asked.filter(|_| reply.passphrase_wanted) {
            Some(mut here) => {
                if verb.passphrase.is_some() {
                    print::note(&error);
                }
                verb.passphrase = Some(passphrase::ask(&mut here, "the approver's passphrase:").await?);
                here.end_question();
                person = Some(here);
            }
            None => return Err(Failure::work(error)),
        }
    }
}

async fn add(place: &DaemonPaths, print: bool, json: bool) -> Result<ExitCode, Failure> {
    let reply = ticket(place).await?;
    let server = page_server::running_or_started(place).await?;
    let (Some(login), Some(ticket)) = (front::ask(place, OpenPage {}).await?.ticket, reply.ticket) else {
        return Err(Failure::work("the daemon gave no ticket for the page"));
    };
    let address = format!("{}#ticket={}&passkey={}", server.url(), login.0, ticket.0);
    if json {
        print::json(&json!({"success": true, "url": address, "expires_seconds": reply.expires_seconds}))?;
    } else if !print && open_in_browser(&address).await {
        print::line(format!("opened {} in the browser; it asks for the device with the passkey", server.url()))?;
    } else {
        print::note("open this address within a minute, on the machine with the browser:");
        print::line(address)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(place: &DaemonPaths, json: bool) -> Result<ExitCode, Failure> {
    let reply = front::ask(place, ListPasskeys {}).await?;
    if json {
        print::json(&reply)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(error) = reply.error {
        return Err(Failure::work(error));
    }
    if reply.passkeys.is_empty() {
        print::note("no passkey is registered; register one with: steplatch gates passkey add");
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["ID", "NAME", "PAGE", "ADDED"].map(str::to_owned).to_vec();
    let row = |passkey: &PasskeyInfo| {
        vec![passkey.passkey_id.clone(), visible(&passkey.name), visible(&passkey.origin), print::ago(&passkey.added)]
    };
    let rows: Vec<_> = std::iter::once(head).chain(reply.passkeys.iter().map(row)).collect();
    print::table(&rows).lines().try_for_each(print::line)?;
    Ok(ExitCode::SUCCESS)
}

async fn remove(place: &DaemonPaths, passkey_id: String, json: bool) -> Result<ExitCode, Failure> {
    let reply = front::ask(place, RemovePasskey { passkey_id }).await?;
    let Some(removed) = &reply.passkey else {
        let error = reply.error.clone().unwrap_or_else(|| "the daemon gave no reason".to_owned());
        return Err(Failure::work(error).with(&reply));
    };
    if json {
        print::json(&reply)?;
    } else {
        print::line(format!("removed {} {}", removed.passkey_id, visible(&removed.name)))?;
    }
    Ok(ExitCode::SUCCESS)
}
