//! The branches of a `parallel`: its child runs.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{Decision, DecisionBuilder, Effect, Entering, params, start_run_effect};
use crate::child;
use crate::definition::State;
use crate::event::{ChildEnd, Event, Outcome};
use crate::history::{CurrentStep, History, Terminals};
use crate::items::{ForEach, ForEachParallel, ItemsError};
use crate::parallel::{Branches, FAIL_FAST, ITEMS, MAX_PARALLEL, Parallel, WORKFLOWS, kept_result, left_open};
use crate::substitute::Lookup;

/// Reason a state with items cannot be entered.
pub(super) enum EntryError {
    /// The placeholder with this name has no value.
    Unresolved(String),
    /// The list of items is invalid.
    Items(ItemsError),
}

/// Returns the parameters of the `parallel` that runs the workflow of a state once for each item.
pub(super) fn item_loop_params(
    state: &State,
    for_each: &ForEach,
    parallel_loop: ForEachParallel,
    entering: &Entering<'_, impl Lookup>,
    refuses_unresolved: bool,
) -> Result<Map<String, Value>, EntryError> {
    let items = for_each.resolve(entering).map_err(EntryError::Items)?;
    let mut branches = Vec::with_capacity(items.len());
    let mut shared_definition = None;
    for item in &items {
        let item = Some((for_each.name.clone(), item.clone()));
        let variables = Entering { before: entering.before, visits: entering.visits.clone(), item };
        if let Some(unresolved) = state.unresolved(&variables).filter(|_| refuses_unresolved) {
            return Err(EntryError::Unresolved(unresolved.to_owned()));
        }
        // Pass no terminal, because several runs would type into it at once.
        let mut branch = params(state, &variables, &Terminals::default());
        // The placeholders of the definition belong to the child, so all branches share one definition.
        shared_definition = branch.shift_remove(child::DEFINITION);
        branches.push(Value::Object(branch));
    }
    let shared_definition = shared_definition.map(|definition| (child::DEFINITION, definition));
    let fields = [
        (WORKFLOWS, branches.into()),
        (ITEMS, items.into()),
        (MAX_PARALLEL, parallel_loop.max_parallel.into()),
        (FAIL_FAST, parallel_loop.fail_fast.into()),
    ];
    Ok(fields.into_iter().chain(shared_definition).map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Returns the effects that produce the outcomes of the branches in progress. If the action has ended, returns the
/// effect that produces its outcome.
pub(super) fn branch_effects(current: &CurrentStep, branches: &Branches, history: &History) -> Vec<Effect> {
    let answer = |outcome| vec![Effect::Answer { step: current.step.clone(), outcome }];
    match Parallel::read(&current.params) {
        Err(error) => answer(child::refused(error.to_string())),
        Ok(parallel) if parallel.is_over(branches) => {
            answer(parallel.outcome(&current.step, branches, history.rules()))
        }
        Ok(parallel) => {
            let effect = |number| branch_effect(current, &parallel, number, current.limit, history);
            branches.open().filter_map(effect).collect()
        }
    }
}

fn branch_effect(
    current: &CurrentStep,
    parallel: &Parallel<'_>,
    number: usize,
    limit: Option<Duration>,
    history: &History,
) -> Option<Effect> {
    Some(start_run_effect(current.step.part(number), &parallel.branch(number)?, limit, history))
}

impl DecisionBuilder<'_> {
    /// Enters a state whose action is a `parallel`.
    pub(super) fn enter_parallel(mut self, entered: CurrentStep) -> Decision {
        let CurrentStep { step, tool, params, limit, entered_at: at } = entered.clone();
        self.record(Event::StateEntered { at, step, tool, params, limit });
        let mut branches = Branches::default();
        match Parallel::read(&entered.params) {
            Ok(parallel) if !parallel.is_over(&branches) => self.begin_branches(&entered, &parallel, &mut branches),
            _ => {
                let answer = branch_effects(&entered, &branches, self.history);
                self.decision.effects.extend(answer);
            }
        }
        self.decision
    }

    /// Handles the outcome of a branch: begins the next branches, or ends the state.
    pub(super) fn end_branch(mut self, current: &CurrentStep, number: usize, outcome: Outcome) -> Decision {
        let step = current.step.part(number);
        let others_wait = self.history.waiting_children().any(|waiting| *waiting != step);
        self.record_child_end(&step, &outcome);
        let mut branches = self.history.branches().cloned().unwrap_or_default();
        let Ok(parallel) = Parallel::read(&current.params) else { return self.decision };
        let Some(result) = kept_result(outcome) else {
            branches.end(number, Map::new());
            self.abandon_branches(current, &branches);
            return self.complete(current, Outcome::TimedOut);
        };
        let (at, name) = (self.now, parallel.name(number));
        self.record(Event::BranchEnded { at, step: step.clone(), name, result: result.clone() });
        if !parallel.keeps_terminals(number) {
            // No other run uses these terminals.
            let close = |session: &str| Effect::CloseTerminal { session_id: session.to_owned() };
            self.decision.effects.extend(left_open(&result).map(close));
        }
        branches.end(number, result);
        let is_over = parallel.is_over(&branches);
        if is_over {
            self.abandon_branches(current, &branches);
            // The outcome of the state must arrive as an input, because its conditions may need the screen.
            let (step, outcome) =
                (current.step.clone(), parallel.outcome(&current.step, &branches, self.history.rules()));
            self.decision.effects.push(Effect::Answer { step, outcome });
        }
        if self.history.child_waits() && (is_over || !others_wait) {
            // The last waiting branch ended at a gate, so the deadline applies again.
            self.arm_deadline();
        }
        if !self.paused {
            self.begin_branches(current, &parallel, &mut branches);
        }
        self.decision
    }

    /// Begins the branches that became due during a pause.
    pub(super) fn begin_due_branches(&mut self) {
        let history = self.history;
        if let (Some(current), Some(branches)) = (history.current(), history.branches())
            && let Ok(parallel) = Parallel::read(&current.params)
        {
            self.begin_branches(current, &parallel, &mut branches.clone());
        }
    }

    /// Begins the branches that are due and starts their runs.
    fn begin_branches(&mut self, current: &CurrentStep, parallel: &Parallel<'_>, branches: &mut Branches) {
        let limit = current.limit_left(self.now);
        for number in parallel.due(branches) {
            branches.begin(number);
            let (at, name) = (self.now, parallel.name(number));
            self.record(Event::BranchBegan { at, step: current.step.part(number), name });
            let effect = branch_effect(current, parallel, number, limit, self.history);
            self.decision.effects.extend(effect);
        }
    }

    /// Cancels the branches that are in progress.
    fn abandon_branches(&mut self, current: &CurrentStep, branches: &Branches) {
        for step in branches.open().map(|number| current.step.part(number)) {
            if let Some(workflow) = self.history.child_of(&step).map(str::to_owned) {
                let (at, step) = (self.now, step.clone());
                self.record(Event::ChildEnded { at, step, workflow, end: ChildEnd::Cancelled, error: None });
            }
            self.decision.effects.push(Effect::Abandon { step });
        }
    }
}
