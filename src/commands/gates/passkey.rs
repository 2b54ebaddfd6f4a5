//! `steplatch gates passkey …`: keys on a person's device that sign answers on the page.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use steplatch_protocol::{
    AddPasskey, AddPasskeyReply, AwaitPasskey, ConfirmPasskey, ConfirmPasskeyReply, DaemonPaths, ListPasskeys,
    PageSecret, PasskeyInfo, RemovePasskey,
};

use crate::commands::open::log_in;
use crate::failure::Failure;
use crate::print::{self, STRONG, visible};
use crate::question::Person;
use crate::{daemon_client, page_server, passphrase};

/// Register, list and remove passkeys, which sign answers on the page
#[derive(Debug, Subcommand)]
pub(crate) enum PasskeyRequest {
    /// Register a passkey on the page, where the browser asks for the device
    ///
    /// The address contains a ticket that registers one passkey, once, within 5 minutes. Only a person in a separate
    /// terminal gets a ticket, with the approver's passphrase if it is set. After the registration, this command and
    /// the page show the fingerprint of the passkey. The passkey signs answers once you have compared the two.
    Add {
        /// Print the address instead of opening it
        #[arg(long)]
        print: bool,
        /// Print the address as JSON and do not wait; confirm the passkey later
        #[arg(long)]
        json: bool,
    },
    /// Confirm a registered passkey, which then signs answers
    Confirm {
        /// Fingerprint of the passkey, as the page shows it
        #[arg(value_name = "FINGERPRINT", num_args = 1.., required = true)]
        fingerprint: Vec<String>,
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
    /// Remove a passkey, which then signs no more answers
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
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self {
            Self::Add { print, json } => add(paths, print, json).await,
            Self::Confirm { fingerprint, json } => confirm(paths, &fingerprint.concat(), json).await,
            Self::List { json } => list(paths, json).await,
            Self::Remove { passkey, json } => remove(paths, passkey, json).await,
        }
    }
}

/// Requests a ticket, with the approver's passphrase if the daemon requires it.
async fn request_ticket(paths: &DaemonPaths) -> Result<AddPasskeyReply, Failure> {
    let mut verb = AddPasskey::default();
    let mut person = None;
    loop {
        let reply = daemon_client::ask(paths, verb.clone()).await?;
        if reply.success {
            return Ok(reply);
        }
        let error = reply.error.unwrap_or_else(|| "the daemon gave no ticket".to_owned());
        let current_person = match person.take() {
            Some(person) => Some(person),
            None => Person::at_terminal(),
        };
        match current_person.filter(|_| reply.passphrase_wanted) {
            Some(mut here) => {
                if verb.passphrase.is_some() {
                    print::remark(&error);
                }
                verb.passphrase = Some(passphrase::ask(&mut here, "the approver's passphrase:").await?);
                here.end_question();
                person = Some(here);
            }
            None => return Err(Failure::work(error)),
        }
    }
}

async fn add(paths: &DaemonPaths, print: bool, json: bool) -> Result<ExitCode, Failure> {
    let reply = request_ticket(paths).await?;
    let server = page_server::ensure_running(paths).await?.record;
    let Some(ticket) = reply.ticket else {
        return Err(Failure::work("the daemon gave no ticket for a passkey"));
    };
    let page = format!("{}#passkey={}", server.url(), ticket.0);
    let (address, opened) = log_in(paths, &page, !print && !json).await?;
    if json {
        print::json(&json!({"success": true, "url": address, "expires_seconds": reply.expires_seconds}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if opened.in_browser {
        print::line(format!("opened {} in the browser; it asks for the device with the passkey", server.url()))?;
    } else {
        print::remark("open this address within a minute, on the computer with the browser:");
        print::line(address)?;
    }
    confirm_registered(paths, ticket).await
}

/// Waits until the browser has registered the passkey and asks the person to compare its fingerprint.
async fn confirm_registered(paths: &DaemonPaths, ticket: PageSecret) -> Result<ExitCode, Failure> {
    let registration = daemon_client::ask(paths, AwaitPasskey { ticket }).await?;
    let Some(passkey) = registration.passkey else {
        return Err(Failure::work(registration.error.unwrap_or_else(|| "no passkey was registered".to_owned())));
    };
    let passkey_id = passkey.passkey_id.clone();
    print::line(format!("a browser has registered {}, with the fingerprint", visible(&passkey.name)))?;
    print::line(format!("  {STRONG}{}{STRONG:#}", group_digits(&passkey_id)))?;
    let Some(mut person) = Person::at_terminal() else {
        print::remark(&format!("confirm it with: steplatch gates passkey confirm {passkey_id}"));
        return Ok(ExitCode::SUCCESS);
    };
    loop {
        person.listen();
        print::ask("Does the page show the same fingerprint? (yes or no)")?;
        let discard = match person.line().await.as_deref().map(str::trim) {
            Some("yes" | "y") => false,
            Some("no" | "n") => true,
            Some(_) => continue,
            None => {
                return Err(Failure::work(format!("there was no answer; {} is not confirmed", visible(&passkey.name))));
            }
        };
        let confirmed = daemon_client::ask(paths, ConfirmPasskey { passkey_id: passkey_id.clone(), discard }).await?;
        let confirmed = confirmed_passkey(confirmed)?;
        if discard {
            let error = "the passkey was removed, because another program has used the ticket; end the sessions of the page with: \
                         steplatch serve sessions end --all";
            return Err(Failure::work(error));
        }
        print::line(confirmation_text(&confirmed))?;
        return Ok(ExitCode::SUCCESS);
    }
}

/// Returns a fingerprint in groups of digits, for comparison by people.
fn group_digits(fingerprint: &str) -> String {
    fingerprint.as_bytes().chunks(4).map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ")
}

fn confirmed_passkey(reply: ConfirmPasskeyReply) -> Result<PasskeyInfo, Failure> {
    match reply.passkey {
        Some(passkey) => Ok(passkey),
        None => Err(Failure::work(reply.error.unwrap_or_else(|| "the daemon gave no reason".to_owned()))),
    }
}

fn confirmation_text(passkey: &PasskeyInfo) -> String {
    format!("{} {} signs answers from now on", passkey.passkey_id, visible(&passkey.name))
}

async fn confirm(paths: &DaemonPaths, fingerprint: &str, json: bool) -> Result<ExitCode, Failure> {
    let passkey_id = fingerprint.to_ascii_lowercase();
    let reply = daemon_client::ask(paths, ConfirmPasskey { passkey_id, discard: false }).await?;
    if json && reply.success {
        print::json(&reply)?;
    } else {
        print::line(confirmation_text(&confirmed_passkey(reply)?))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(paths: &DaemonPaths, json: bool) -> Result<ExitCode, Failure> {
    let reply = daemon_client::ask(paths, ListPasskeys {}).await?;
    if json {
        print::json(&reply)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(error) = reply.error {
        return Err(Failure::work(error));
    }
    if reply.passkeys.is_empty() {
        print::remark("no passkey is registered; register one with: steplatch gates passkey add");
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

async fn remove(paths: &DaemonPaths, passkey_id: String, json: bool) -> Result<ExitCode, Failure> {
    let reply = daemon_client::ask(paths, RemovePasskey { passkey_id }).await?;
    let Some(removed) = &reply.passkey else {
        return Err(Failure::work(reply.error.as_deref().unwrap_or("the daemon gave no reason")).with(&reply));
    };
    if json {
        print::json(&reply)?;
    } else {
        print::line(format!("removed {} {}", removed.passkey_id, visible(&removed.name)))?;
    }
    Ok(ExitCode::SUCCESS)
}
