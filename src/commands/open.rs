//! `steplatch open`: the page, in a browser.

use std::process::{ExitCode, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use serde_json::json;
use steplatch_protocol::{DaemonPaths, OpenPage, OpenPageReply, PageSecret};

use crate::failure::Failure;
use crate::print::{self, QUIET};
use crate::{daemon_client, page_server};

/// Open the page in a browser: terminals, runs and gates
///
/// The address contains a ticket that logs in one browser, once, within a minute, and this directory, whose workflows
/// the page shows. Starts the server of the page in the background if it is not running.
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
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        // Request a ticket first: if the daemon refuses it, no server should start.
        daemon_client::ask(paths, OpenPage::default()).await.and_then(|reply| reply_ticket(&reply))?;
        let server = page_server::ensure_running(paths).await?.record;
        let opens_browser = !self.print && !self.json;
        // Request a new ticket below, because a ticket expires after a minute and the server may have started slowly.
        let page = match project() {
            Some(project) => format!("{}#project={}", server.url(), URL_SAFE_NO_PAD.encode(project)),
            None => server.url(),
        };
        let (address, opened) = log_in(paths, &page, opens_browser).await?;
        if self.json {
            print::json(&json!({"success": true, "url": address, "expires_seconds": opened.expires_seconds}))?;
            return Ok(ExitCode::SUCCESS);
        }
        if self.print {
            print::line(address)?;
            return Ok(ExitCode::SUCCESS);
        }
        if opened.in_browser {
            print::line(format!("opened {} in the browser", server.url()))?;
            print::line(format!(
                "{QUIET}the server stays in the background; end it with: steplatch serve stop{QUIET:#}"
            ))?;
        } else {
            print::remark("no browser could be started here; open this address within a minute:");
            print::line(address)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the directory whose workflows the page shows first: the current directory, unless it is the home directory.
fn project() -> Option<String> {
    let directory = std::env::current_dir().ok()?;
    let is_home = std::env::var_os("HOME").is_some_and(|home| directory == std::path::Path::new(&home));
    directory.into_os_string().into_string().ok().filter(|_| !is_home)
}

/// A login of a browser.
#[derive(Debug)]
pub(super) struct BrowserLogin {
    /// True if a browser was opened.
    pub(super) in_browser: bool,
    /// Seconds until the ticket in the address expires.
    pub(super) expires_seconds: u64,
}

/// Requests a ticket for the address `page`, and opens a browser with the ticket if `opens_browser`. The address may
/// have a fragment. Returns the address with the ticket.
pub(super) async fn log_in(
    paths: &DaemonPaths,
    page: &str,
    opens_browser: bool,
) -> Result<(String, BrowserLogin), Failure> {
    let address = (opens_browser && has_browser()).then(|| PageSecret(page.to_owned()));
    let reply = daemon_client::ask(paths, OpenPage { address }).await?;
    let ticket = reply_ticket(&reply)?;
    let address = match page.split_once('#') {
        Some((page, fragment)) => format!("{page}#ticket={ticket}&{fragment}"),
        None => format!("{page}#ticket={ticket}"),
    };
    // The arguments of a process are not secret, so pass the browser the name of a file with the ticket. Older
    // daemons write no file.
    let in_browser = match &reply.file {
        Some(file) => open_in_browser(file).await,
        None => false,
    };
    Ok((address, BrowserLogin { in_browser, expires_seconds: reply.expires_seconds }))
}

fn reply_ticket(reply: &OpenPageReply) -> Result<String, Failure> {
    match &reply.ticket {
        Some(ticket) => Ok(ticket.0.clone()),
        None => Err(Failure::work(reply.error.clone().unwrap_or_else(|| "the daemon gave no ticket".to_owned()))),
    }
}

/// Returns whether a browser of a desktop can be opened.
fn has_browser() -> bool {
    // Without a desktop, xdg-open starts a text-mode browser. Such a browser does not run scripts.
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    has_desktop || std::env::var_os("BROWSER").is_some()
}

/// Opens a file in the browser of the desktop. Returns whether a program opened it.
async fn open_in_browser(file: &str) -> bool {
    let mut opener = tokio::process::Command::new("xdg-open");
    opener.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    opener.status().await.is_ok_and(|status| status.success())
}
