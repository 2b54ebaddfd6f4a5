//! Differences between runs, printed for a person.

use steplatch_protocol::RunDifference;

use crate::failure::Failure;
use crate::print::{self, BAD, STRONG, visible};

/// Maximum number of shown lines per output of a difference.
const MAX_LINES: usize = 20;

/// Prints differences in the given order.
pub(crate) fn show_differences(differences: &[RunDifference]) -> Result<(), Failure> {
    for RunDifference { state, what, recorded, observed } in differences {
        print::line(format!("{BAD}✗{BAD:#} {STRONG}{}{STRONG:#}: another {}", visible(state), what.replace('_', " ")))?;
        for (sign, text) in [("-", recorded), ("+", observed)] {
            for line in text.trim_end().lines().take(MAX_LINES) {
                print::line(format!("    {sign} {}", visible(line)))?;
            }
        }
    }
    Ok(())
}
