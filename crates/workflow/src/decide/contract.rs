//! The exchanges of a run with its shell before the first state and after the last.
//!
//! Before the first state, the run exports its initial arguments, looks up the others, and exports defaults for unset
//! ones. It exports a secret only if declared so, but looks up and checks every secret. A run that opens its own
//! terminal opens it first: its initial arguments go into the environment of that terminal, and the lookup of the
//! others follows as soon as it is open.

use std::collections::BTreeMap;

use serde_json::Value;
use steplatch_ids::StepId;

use super::{Decision, DecisionBuilder, exchanging};
use crate::contract::{Contract, HIDDEN};
use crate::event::{Continuation, Event, FailureReason, Purpose, ShellAnswer, Side};
use crate::history::{Exchange, Terminals, learned};
use crate::substitute::Lookup;

impl DecisionBuilder<'_> {
    /// Goes to the first state, by way of the arguments that are available yet.
    pub(super) fn begin_with_arguments(self, to: &str) -> Decision {
        let history = self.history;
        let comes_later = self.definition.opens_terminal();
        if history.terminals().is_empty() && !self.definition.arguments().is_empty() && !comes_later {
            // There will never be a shell to ask: the initial variables have to suffice.
            let known = self.initial_arguments();
            return self.settle_arguments(known, None, to, history.variables(), history.terminals());
        }
        self.approach(to, history.variables(), history.terminals())
    }

    /// Enters a state, after the exchange about the arguments if it is still missing and a shell is available.
    pub(super) fn approach(self, state: &str, variables: &impl Lookup, terminals: &Terminals) -> Decision {
        let is_due = !self.definition.arguments().is_empty() && !self.history.arguments_checked();
        if !is_due || terminals.current_terminal().is_none() {
            return self.enter(state, variables, terminals);
        }
        let arguments = self.initial_arguments();
        let exported = self.exported_arguments();
        if exported.is_empty() || !terminals.shell_predates_run() {
            return self.settle_arguments(arguments, Some(Purpose::ExportGiven), state, variables, terminals);
        }
        self.ask(Purpose::ExportGiven, exported, Vec::new(), Some(state), terminals)
    }

    /// Ends a run that has nothing more to do, by way of the values that it returns.
    pub(super) fn finish(self, variables: &impl Lookup, terminals: &Terminals) -> Decision {
        // The return values of a run come from before its finally state.
        if self.definition.return_values().is_empty() || self.history.finally().is_some() {
            return self.succeed(terminals);
        }
        let names: Vec<String> = self.definition.return_values().names_in_shell().map(str::to_owned).collect();
        if names.is_empty() {
            return self.settle_return_values(BTreeMap::new(), None, variables, terminals);
        }
        if terminals.current_terminal().is_none() {
            let error = "the run has no open terminal to read them from".to_owned();
            return self.settle_return_values(BTreeMap::new(), Some(error), variables, terminals);
        }
        self.ask(Purpose::ReadReturnValues, BTreeMap::new(), names, None, terminals)
    }

    /// Takes in an answer of the shell and continues.
    pub(super) fn answered(mut self, exchange: &Exchange, answer: ShellAnswer) -> Decision {
        let learned = learned(exchange, &answer);
        let error = match &answer {
            ShellAnswer::Told { .. } => None,
            ShellAnswer::Failed { error } => Some(error.clone()),
        };
        self.record(Event::VariablesTold { at: self.now, step: exchange.step.clone(), answer });
        let Exchange { purpose, read, then, .. } = exchange;
        if self.paused {
            let (purpose, read, then) = (*purpose, read.clone(), then.clone());
            return self.hold(Continuation::Contract { purpose, learned, error, read, then });
        }
        self.settle(*purpose, learned, error, read, then.as_deref())
    }

    /// Continues with the answer of the shell.
    pub(super) fn settle(
        self,
        purpose: Purpose,
        learned: BTreeMap<String, String>,
        error: Option<String>,
        read: &[String],
        then: Option<&str>,
    ) -> Decision {
        let history = self.history;
        let terminals = history.terminals();
        let mut known = history.arguments().clone();
        let to = then.unwrap_or_default();
        match (purpose, error) {
            (Purpose::ReadReturnValues, error) => {
                self.settle_return_values(learned, error, history.variables(), terminals)
            }
            (Purpose::ExportGiven | Purpose::ExportDefaults, Some(error)) => {
                let error = format!("Environment variables could not be set: {error}");
                self.refuse(Side::Arguments, known, error, terminals)
            }
            (Purpose::ReadArguments, Some(error)) if self.definition.arguments().needs(read) => {
                let error = format!("Environment variables could not be checked: {error}");
                self.refuse(Side::Arguments, known, error, terminals)
            }
            (purpose, _) => {
                known.extend(self.initial_arguments());
                known.extend(learned);
                self.settle_arguments(known, Some(purpose), to, history.variables(), terminals)
            }
        }
    }

    /// Returns the initial arguments of the run.
    pub(super) fn initial_arguments(&self) -> BTreeMap<String, String> {
        self.definition.arguments().initial_values(self.history.variables().initial())
    }

    /// Returns those of them that go into the environment of the run's terminal.
    pub(super) fn exported_arguments(&self) -> BTreeMap<String, String> {
        self.definition.arguments().exported(self.history.rules(), self.initial_arguments())
    }

    /// Continues with the arguments after `done`; `None` if there is no shell to ask.
    fn settle_arguments(
        mut self,
        mut known: BTreeMap<String, String>,
        done: Option<Purpose>,
        to: &str,
        variables: &impl Lookup,
        terminals: &Terminals,
    ) -> Decision {
        let contract = self.definition.arguments();
        if done == Some(Purpose::ExportGiven) {
            let unknown: Vec<String> =
                contract.names_in_shell().filter(|name| !known.contains_key(*name)).map(str::to_owned).collect();
            if !unknown.is_empty() {
                return self.ask(Purpose::ReadArguments, BTreeMap::new(), unknown, Some(to), terminals);
            }
        }
        let missing = contract.missing(&known);
        if !missing.is_empty() {
            let set_with: Vec<String> = missing.iter().map(|name| format!("export {name}=value")).collect();
            let (missing, set_with) = (missing.join(", "), set_with.join(", "));
            let error = format!("Missing required environment variables: {missing}. Set them with: {set_with}");
            return self.refuse(Side::Arguments, known, error, terminals);
        }
        let unfit = contract.unfit(&known);
        if !unfit.is_empty() {
            let error = format!("Environment variables are not as they must be: {}", unfit.join(", "));
            return self.refuse(Side::Arguments, known, error, terminals);
        }
        let defaults = contract.defaults(&known);
        let exported = contract.exported(self.history.rules(), defaults.clone());
        if !exported.is_empty() && done.is_some() {
            return self.ask(Purpose::ExportDefaults, exported, Vec::new(), Some(to), terminals);
        }
        known.extend(defaults);
        let mut substituted = contract.substituted(self.history.rules(), known.clone());
        substituted.retain(|name, _| !self.history.variables().initial().contains_key(name));
        let arguments = substituted.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        self.check_with(Side::Arguments, known, true, None, substituted);
        self.enter(to, &WithArguments { before: variables, arguments }, terminals)
    }

    fn settle_return_values(
        mut self,
        mut values: BTreeMap<String, String>,
        error: Option<String>,
        variables: &impl Lookup,
        terminals: &Terminals,
    ) -> Decision {
        let contract: &Contract = self.definition.return_values();
        values.extend(contract.made_of(variables));
        values.extend(contract.defaults(&values));
        let missing = contract.missing(&values);
        if !missing.is_empty() {
            let expected: Vec<&str> = contract.names().collect();
            let (missing, expected) = (missing.join(", "), expected.join(", "));
            let reason = error.map(|error| format!(". They could not be read: {error}")).unwrap_or_default();
            let error = format!(
                "Workflow failed to set required return values: {missing}. Expected variables: {expected}{reason}"
            );
            return self.refuse(Side::ReturnValues, values, error, terminals);
        }
        let unfit = contract.unfit(&values);
        if !unfit.is_empty() {
            let error = format!("Return values are not as they must be: {}", unfit.join(", "));
            return self.refuse(Side::ReturnValues, values, error, terminals);
        }
        self.check(Side::ReturnValues, values, true, error);
        self.succeed(terminals)
    }

    fn ask(
        mut self,
        purpose: Purpose,
        set: BTreeMap<String, String>,
        read: Vec<String>,
        then: Option<&str>,
        terminals: &Terminals,
    ) -> Decision {
        let place = purpose.side().place();
        let (Some(run), Some(session)) = (self.history.run(), terminals.current_terminal()) else {
            return self.lost(place, terminals);
        };
        let step =
            StepId { run: run.clone(), place: place.to_owned(), visit: self.history.exchanges().saturating_add(1) };
        let exchange =
            Exchange { step, session_id: session.to_owned(), purpose, set, read, then: then.map(str::to_owned) };
        self.decision.effects.push(exchanging(&exchange));
        let Exchange { step, session_id, purpose, set, read, then } = exchange;
        self.record(Event::VariablesAsked { at: self.now, step, session_id, purpose, set, read, then });
        self.decision
    }

    fn refuse(
        mut self,
        side: Side,
        values: BTreeMap<String, String>,
        error: String,
        terminals: &Terminals,
    ) -> Decision {
        self.check(side, values, false, Some(error.clone()));
        let reason = match side {
            Side::Arguments => FailureReason::ArgumentsInvalid,
            Side::ReturnValues => FailureReason::ReturnValuesInvalid,
        };
        self.fail(reason, error, terminals)
    }

    fn check(&mut self, side: Side, values: BTreeMap<String, String>, holds: bool, error: Option<String>) {
        self.check_with(side, values, holds, error, BTreeMap::new());
    }

    fn check_with(
        &mut self,
        side: Side,
        mut values: BTreeMap<String, String>,
        holds: bool,
        error: Option<String>,
        substituted: BTreeMap<String, String>,
    ) {
        let contract = match side {
            Side::Arguments => self.definition.arguments(),
            Side::ReturnValues => self.definition.return_values(),
        };
        // After this point nothing needs the secrets any more, and every reader of the history sees this event.
        for variable in contract.iter().filter(|variable| variable.is_secret()) {
            if let Some(value) = values.get_mut(variable.name()) {
                value.replace_range(.., HIDDEN);
            }
        }
        self.record(Event::ContractChecked { at: self.now, side, values, holds, error, substituted });
    }
}

/// Variables including the arguments without an export to the shell, after their lookup.
struct WithArguments<'a, L> {
    before: &'a L,
    arguments: BTreeMap<String, Value>,
}

impl<L: Lookup> Lookup for WithArguments<'_, L> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.before.get(name).or_else(|| self.arguments.get(name))
    }

    fn is_of_shell(&self, name: &str) -> bool {
        self.before.is_of_shell(name)
    }

    fn has_paths(&self) -> bool {
        self.before.has_paths()
    }
}
