//! The exchanges of a run with its shell before the first state and after the last.
//!
//! Before the first state, the run exports its initial arguments, reads the other arguments, and exports defaults for
//! unset arguments. The run exports a secret only if the secret's declaration requires that, but reads and checks every
//! secret. A run that opens its own terminal opens it first: the initial arguments go into the environment of that
//! terminal, and the other arguments are read once the terminal is open.

use std::collections::BTreeMap;

use serde_json::Value;
use steplatch_ids::StepId;

use super::{Decision, DecisionBuilder, exchange_effect};
use crate::contract::{Contract, HIDDEN};
use crate::event::{Continuation, Event, FailureReason, Purpose, ShellAnswer, Side};
use crate::history::{Exchange, Terminals, known_values};
use crate::substitute::Lookup;

impl DecisionBuilder<'_> {
    /// Begins the run: settles the arguments, and enters the first state.
    pub(super) fn begin_with_arguments(self, to: &str) -> Decision {
        let history = self.history;
        let opens_terminal_later = self.definition.opens_terminal();
        if history.terminals().is_empty() && !self.definition.arguments().is_empty() && !opens_terminal_later {
            // No shell will be available to read from, so the initial variables must suffice.
            let known = self.initial_arguments();
            return self.settle_arguments(known, None, to, history.variables(), history.terminals());
        }
        self.approach(to, history.variables(), history.terminals())
    }

    /// Enters a state. Exchanges the arguments first, if they are not settled and a shell is available.
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
        self.begin_exchange(Purpose::ExportGiven, exported, Vec::new(), Some(state), terminals)
    }

    /// Ends a run that has completed its states, after its return values are settled.
    pub(super) fn finish(self, variables: &impl Lookup, terminals: &Terminals) -> Decision {
        // The return values are read before the finally state.
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
        self.begin_exchange(Purpose::ReadReturnValues, BTreeMap::new(), names, None, terminals)
    }

    /// Records an answer of the shell, and continues.
    pub(super) fn handle_shell_answer(mut self, exchange: &Exchange, answer: ShellAnswer) -> Decision {
        let learned = known_values(exchange, &answer);
        let error = match &answer {
            ShellAnswer::Told { .. } => None,
            ShellAnswer::Failed { error } => Some(error.clone()),
        };
        self.record(Event::VariablesTold { at: self.now, step: exchange.step.clone(), answer });
        let Exchange { purpose, read, then, .. } = exchange;
        if self.paused {
            let (purpose, read, then) = (*purpose, read.clone(), then.clone());
            return self.defer(Continuation::Contract { purpose, learned, error, read, then });
        }
        self.settle(*purpose, learned, error, read, then.as_deref())
    }

    /// Continues after an exchange with the shell.
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
                self.fail_check(Side::Arguments, known, error, terminals)
            }
            (Purpose::ReadArguments, Some(error)) if self.definition.arguments().needs(read) => {
                let error = format!("Environment variables could not be checked: {error}");
                self.fail_check(Side::Arguments, known, error, terminals)
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

    /// Returns the initial arguments that go into the environment of the run's terminal.
    pub(super) fn exported_arguments(&self) -> BTreeMap<String, String> {
        self.definition.arguments().exported(self.history.rules(), self.initial_arguments())
    }

    /// Continues with the arguments after the exchange `done`; `None` if no shell is available.
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
                return self.begin_exchange(Purpose::ReadArguments, BTreeMap::new(), unknown, Some(to), terminals);
            }
        }
        let missing = contract.missing(&known);
        if !missing.is_empty() {
            let set_with: Vec<String> = missing.iter().map(|name| format!("export {name}=value")).collect();
            let (missing, set_with) = (missing.join(", "), set_with.join(", "));
            let error = format!("Missing required environment variables: {missing}. Set them with: {set_with}");
            return self.fail_check(Side::Arguments, known, error, terminals);
        }
        let problems = contract.schema_problems(&known);
        if !problems.is_empty() {
            let error = format!("Environment variables are not as they must be: {}", problems.join(", "));
            return self.fail_check(Side::Arguments, known, error, terminals);
        }
        let defaults = contract.defaults(&known);
        let exported = contract.exported(self.history.rules(), defaults.clone());
        if !exported.is_empty() && done.is_some() {
            return self.begin_exchange(Purpose::ExportDefaults, exported, Vec::new(), Some(to), terminals);
        }
        known.extend(defaults);
        let mut substituted = contract.substituted(self.history.rules(), known.clone());
        substituted.retain(|name, _| !self.history.variables().initial().contains_key(name));
        let arguments = substituted.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        self.record_check_with(Side::Arguments, known, true, None, substituted);
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
        values.extend(contract.derived_values(variables));
        values.extend(contract.defaults(&values));
        let missing = contract.missing(&values);
        if !missing.is_empty() {
            let expected: Vec<&str> = contract.names().collect();
            let (missing, expected) = (missing.join(", "), expected.join(", "));
            let reason = error.map(|error| format!(". They could not be read: {error}")).unwrap_or_default();
            let error = format!(
                "Workflow failed to set required return values: {missing}. Expected variables: {expected}{reason}"
            );
            return self.fail_check(Side::ReturnValues, values, error, terminals);
        }
        let problems = contract.schema_problems(&values);
        if !problems.is_empty() {
            let error = format!("Return values are not as they must be: {}", problems.join(", "));
            return self.fail_check(Side::ReturnValues, values, error, terminals);
        }
        self.record_check(Side::ReturnValues, values, true, error);
        self.succeed(terminals)
    }

    fn begin_exchange(
        mut self,
        purpose: Purpose,
        set: BTreeMap<String, String>,
        read: Vec<String>,
        then: Option<&str>,
        terminals: &Terminals,
    ) -> Decision {
        let place = purpose.side().place();
        let (Some(run), Some(session)) = (self.history.run(), terminals.current_terminal()) else {
            return self.fail_unknown_state(place, terminals);
        };
        let step =
            StepId { run: run.clone(), place: place.to_owned(), visit: self.history.exchanges().saturating_add(1) };
        let exchange =
            Exchange { step, session_id: session.to_owned(), purpose, set, read, then: then.map(str::to_owned) };
        self.decision.effects.push(exchange_effect(&exchange));
        let Exchange { step, session_id, purpose, set, read, then } = exchange;
        self.record(Event::VariablesAsked { at: self.now, step, session_id, purpose, set, read, then });
        self.decision
    }

    fn fail_check(
        mut self,
        side: Side,
        values: BTreeMap<String, String>,
        error: String,
        terminals: &Terminals,
    ) -> Decision {
        self.record_check(side, values, false, Some(error.clone()));
        let reason = match side {
            Side::Arguments => FailureReason::ArgumentsInvalid,
            Side::ReturnValues => FailureReason::ReturnValuesInvalid,
        };
        self.fail(reason, error, terminals)
    }

    fn record_check(&mut self, side: Side, values: BTreeMap<String, String>, holds: bool, error: Option<String>) {
        self.record_check_with(side, values, holds, error, BTreeMap::new());
    }

    fn record_check_with(
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
        // Secrets are no longer needed, and every reader of the history sees this event.
        for variable in contract.iter().filter(|variable| variable.is_secret()) {
            if let Some(value) = values.get_mut(variable.name()) {
                value.replace_range(.., HIDDEN);
            }
        }
        self.record(Event::ContractChecked { at: self.now, side, values, holds, error, substituted });
    }
}

/// The earlier variables, and the arguments whose values replace `{NAME}`.
struct WithArguments<'a, L> {
    before: &'a L,
    arguments: BTreeMap<String, Value>,
}

impl<L: Lookup> Lookup for WithArguments<'_, L> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.before.get(name).or_else(|| self.arguments.get(name))
    }

    fn belongs_to_shell(&self, name: &str) -> bool {
        self.before.belongs_to_shell(name)
    }

    fn has_paths(&self) -> bool {
        self.before.has_paths()
    }
}
