//! Step ids: one occurrence of one part of a run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{InvalidId, RunId};

/// The name of one step of a run, equal on every replay: `run / state / visit`.
///
/// A terminal's ledger identifies a write by this name. So two different writes must never have the same name, and a
/// repeated write must keep its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepId {
    /// The run that the step belongs to.
    pub run: RunId,
    /// The state of a machine, or the node of a call.
    pub place: String,
    /// The number of the run's visit to this place, counted from 1.
    pub visit: u32,
}

impl StepId {
    /// Returns the id of a part of the step. Parts are counted from 1.
    #[must_use]
    pub fn part(&self, number: usize) -> Self {
        Self {
            run: self.run.clone(),
            place: format!("{}/{}", self.place, self.visit),
            visit: u32::try_from(number).unwrap_or(u32::MAX),
        }
    }

    /// Returns the number of this part within `step`, if it is a part of that step.
    #[must_use]
    pub fn number_within(&self, step: &Self) -> Option<usize> {
        let number = usize::try_from(self.visit).ok()?;
        (*self == step.part(number)).then_some(number)
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.run, self.place, self.visit)
    }
}

impl FromStr for StepId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid = || InvalidId::new(text, "a step id (run/place/visit)");
        let (run, place_and_visit) = text.split_once('/').ok_or_else(invalid)?;
        let (place, visit) = place_and_visit.rsplit_once('/').ok_or_else(invalid)?;
        Ok(Self {
            run: run.parse().map_err(|_| invalid())?,
            place: place.to_owned(),
            visit: visit.parse().map_err(|_| invalid())?,
        })
    }
}

impl Serialize for StepId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StepId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_round_trips_through_text() {
        let step = StepId { run: RunId::random(), place: "ask".into(), visit: 3 };
        assert_eq!(step.to_string().parse(), Ok(step));
    }

    #[test]
    fn part_of_a_step_is_identified_by_its_number() {
        let step = StepId { run: RunId::random(), place: "ask".into(), visit: 3 };
        let part = step.part(2);
        assert_eq!(part.to_string(), format!("{}/ask/3/2", step.run));
        assert_eq!(part.to_string().parse(), Ok(part.clone()));
        assert_eq!(part.number_within(&step), Some(2));
        assert_eq!(step.number_within(&step), None);
        assert_eq!(part.number_within(&StepId { visit: 4, ..step }), None);
    }
}
