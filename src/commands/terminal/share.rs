//! `steplatch terminal share`: a read-only link to a terminal.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use steplatch_protocol::{DaemonPaths, ShareTerminal};

use crate::failure::Failure;
use crate::print::{self, QUIET};
use crate::{completion, daemon_client, page_server};

/// Print a link with which another person sees a terminal and nothing else
///
/// The link shows the screen in a browser, and types nothing. Several browsers may use it until it expires or is
/// ended with 'steplatch serve sessions end'. Starts the server of the page in the background if it is not running.
#[derive(Debug, Args)]
pub(crate) struct Share {
    /// Id or name of the terminal
    #[arg(value_name = "TERMINAL", add = completion::terminals())]
    id: String,
    /// Time until the link expires, such as 30m, 8h or 2d
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = parse_lifetime)]
    seconds: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn parse_lifetime(text: &str) -> Result<u64, String> {
    let invalid = || "a time is a number with s, m, h or d, such as 30m".to_owned();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(invalid)?;
    let unit_seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(invalid()),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_seconds));
    seconds.filter(|seconds| *seconds > 0).ok_or_else(invalid)
}

impl Share {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        // The server starts first, because a link without it would be of no use.
        let server = page_server::ensure_running(paths).await?.record;
        let verb = ShareTerminal { session_id: self.id, seconds: Some(self.seconds) };
        let reply = daemon_client::ask(paths, verb).await?;
        let (true, Some(ticket), Some(share), Some(terminal), Some(expires)) =
            (reply.success, &reply.ticket, &reply.share_id, &reply.session_id, &reply.expires)
        else {
            return Err(Failure::work(reply.error.unwrap_or_else(|| "the daemon gave no link".to_owned())));
        };
        let address = format!("{}#share={}", server.url(), ticket.0);
        if self.json {
            let fields = json!({
                "success": true, "url": address, "share_id": share, "session_id": terminal, "expires": expires,
            });
            print::json(&fields)?;
            return Ok(ExitCode::SUCCESS);
        }
        print::line(address)?;
        print::remark(&format!(
            "{QUIET}it shows {terminal} until {expires}; end it with: steplatch serve sessions end {share}{QUIET:#}"
        ));
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetime_requires_a_unit() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("8h", 28_800), ("2d", 172_800)] {
            assert_eq!(parse_lifetime(text), Ok(seconds), "{text}");
        }
        for text in ["", "h", "1", "0h", "-1h", "1.5h", "1w", "1µ", "99999999999999999999d", "999999999999999999d"] {
            assert!(parse_lifetime(text).is_err(), "{text}");
        }
    }
}
