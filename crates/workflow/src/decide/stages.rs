//! The order of the effects of one decision.

use super::Effect;

impl Effect {
    /// Returns whether the effect closes a terminal or abandons a step.
    #[must_use]
    pub fn closes(&self) -> bool {
        matches!(self, Self::CloseTerminal { .. } | Self::CloseOpened { .. } | Self::Abandon { .. })
    }

    /// Splits effects into stages. Effects of one stage begin at once. The next stage begins after these effects have
    /// closed their terminals and abandoned their steps. A new action or run may use those terminals, and an abandoned
    /// run may still wait at a gate.
    #[must_use]
    pub fn split_into_stages(effects: Vec<Self>) -> Vec<Vec<Self>> {
        let mut stages: Vec<Vec<Self>> = Vec::new();
        for effect in effects {
            let waits_for = |earlier: &Self| match effect {
                Self::Perform { .. } | Self::StartRun { .. } => earlier.closes(),
                Self::CloseTerminal { .. } | Self::CloseOpened { .. } => matches!(earlier, Self::Abandon { .. }),
                _ => false,
            };
            match stages.last_mut().filter(|stage| !stage.iter().any(waits_for)) {
                Some(stage) => stage.push(effect),
                None => stages.push(vec![effect]),
            }
        }
        stages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_waits_for_closing_terminals_and_abandoned_runs() {
        let step = || "run_0123456789abcdef/open/1".parse().unwrap();
        let abandon = || Effect::Abandon { step: step() };
        let close = |id: &str| Effect::CloseTerminal { session_id: id.to_owned() };
        let begin =
            || Effect::Perform { step: step(), tool: "sleep".to_owned(), params: serde_json::Map::new(), limit: None };
        let sizes = |effects| Effect::split_into_stages(effects).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(vec![abandon(), abandon(), close("a"), close("b"), begin()]), [2, 2, 1]);
        assert_eq!(sizes(vec![close("a"), abandon(), Effect::DisarmDeadline, begin(), begin()]), [3, 2]);
        assert_eq!(sizes(vec![Effect::DisarmDeadline, begin(), close("a")]), [3]);
        assert!(Effect::split_into_stages(Vec::new()).is_empty());
    }
}
