//! `steplatch open`: the page, in a browser.

use std::process::{ExitCode, Stdio};

use clap::Args;
use serde_json::json;
use steplatch_protocol::{DaemonPaths, OpenPage};

use crate::failure::Failure;
use crate::print::{self, QUIET};
use crate::{front, page_server};

/// Open the page in a browser: terminals, runs and gates
///
/// The address contains a ticket that logs one browser in, once, within a minute. Starts the server of the page in the
/// background if it is not running.
#[derive(Debug, Args)]
pub(crate) struct Open {
    /// Print the address instead of opening it
    #[arg(long)]
    print: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Open {
    pub(super) async fn run(self, place: &DaemonPaths) -> Result<ExitCode, Failure> {
        // The ticket first: a caller that gets none should start no server.
        front::ask(place, OpenPage {}).await.and_then(ticket)?;
        let server = page_server::running_or_started(place).await?;
        // The server may have taken a while to start, and a ticket lasts a minute.
        let reply = front::ask(place, OpenPage {}).await?;
        let expires = reply.expires_seconds;
        let address = format!("{}#ticket={}", server.url(), ticket(reply)?);
        if self.json {
            print::json(&json!({"success": true, "url": address, "expires_seconds": expires}))?;
            return Ok(ExitCode::SUCCESS);
        }
        if self.print {
            print::line(address)?;
            return Ok(ExitCode::SUCCESS);
        }
        if open_in_browser(&address).await {
            print::line(format!("opened {} in the browser", server.url()))?;
            print::line(format!(
                "{QUIET}the server stays in the background; end it with: steplatch serve stop{QUIET:#}"
            ))?;
        } else {
            print::note("no browser could be started here; open this address within a minute:");
            print::line(address)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn ticket(reply: steplatch_protocol::OpenPageReply) -> Result<String, Failure> {
    match reply.ticket {
        Some(ticket) => Ok(ticket.0),
        None => Err(Failure::work(reply.error.unwrap_or_else(|| "the daemon gave no ticket".to_owned()))),
    }
}

/// Opens an address in the browser of the desktop. Returns whether a program took it.
pub(super) async fn open_in_browser(address: &str) -> bool {
    // Without a desktop, xdg-open starts a browser of the terminal, which has no scripts.
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if !has_desktop && std::env::var_os("BROWSER").is_none() {
        return false;
    }
    let mut opener = tokio::process::Command::new("xdg-open");
    opener.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    opener.status().await.is_ok_and(|status| status.success())
}
