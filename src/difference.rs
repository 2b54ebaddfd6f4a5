//! Differences between what runs did, for a person.

use steplatch_protocol::RunDifference;

use crate::failure::Failure;
use crate::print::{self, BAD, STRONG, visible};

/// The most lines of an output that a difference shows.
const LINES: usize = 20;

/// Prints differences, the first one first.
pub(crate) fn show_differences(differences: &[RunDifference]) -> Result<(), Failure> {
    for RunDifference { state, what, recorded, observed } in differences {
        print::line(format!("{BAD}✗{BAD:#} {STRONG}{}{STRONG:#}: another {}", visible(state), what.replace('_', " ")))?;
        for (sign, text) in [("-", recorded), ("+", observed)] {
            for line in text.trim_end().lines().take(LINES) {
                print::line(format!("    {sign} {}", visible(line)))?;
            }
        }
    }
    Ok(())
}
