//! The parser of definitions. It reports all problems of a document at once.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use steplatch_ids::{InvalidId, WorkflowName};

use super::document::{Diagnostics, JsonPath, Object, hint, kind, meant_key, suggestion, suggestion_or_known};
use super::needs::{self, NeededVariable};
use super::shape::{
    ACTION_KEYS, DIALOGUE_KEYS, DOCUMENT_KEYS, FAIL_KEYS, FOR_EACH_KEYS, GATE_KEYS, MAX_DESCRIPTION_CHARS,
    MAX_NAME_CHARS, MAX_STATES, MAX_TRANSITIONS, PARALLEL_KEYS, RETURN_KEYS, RULE_KEYS, RUN_WORKFLOW_KEYS, SLEEP_KEYS,
    STATE_KEYS, TRANSITION_KEYS,
};
use super::{
    Action, Definition, Problem, Problems, Severity, State, ToolCatalog, Transition, entering, reach, returns, stale,
    waits,
};
use crate::child::{self, MAX_LEVELS};
use crate::condition::Condition;
use crate::items::{ForEach, ForEachParallel};
use crate::parallel::{self, InvalidParallel, Parallel};
use crate::variables::{STANDARD_NAMES, may_be_named};
use crate::{dialogue, items, question, tool};

/// Maximum number of states to check in a machine with too many states.
const MAX_CHECKED_STATES: usize = 2 * MAX_STATES;
/// Allowed time limits of a state. The maximum is the maximum of a run.
const TIMEOUT_SECONDS: std::ops::RangeInclusive<f64> = 0.1..=7200.0;
/// Allowed values of `max_visits`. The maximum is the maximum number of states of a run.
const MAX_VISITS_RANGE: std::ops::RangeInclusive<u64> = 1..=1000;

/// Maximum size of a document, in bytes of JSON without white space. The largest sensible machine has a tenth of this
/// size.
pub const MAX_DOCUMENT_BYTES: usize = 1 << 20;

/// Reads a whole document.
pub(super) fn parse(document: &Value, tools: &dyn ToolCatalog) -> Result<Definition, Problems> {
    let bytes = json_length(document);
    if bytes > MAX_DOCUMENT_BYTES {
        // Report no other problems, because there could be as many as bytes.
        let message = format!("the definition takes {bytes} bytes, more than the maximum of {MAX_DOCUMENT_BYTES}");
        return Err(Problems::new(vec![Problem::error("", message)]));
    }
    parse_at(document, tools, 0)
}

/// Returns the number of bytes of a document as JSON, without storing the JSON.
fn json_length(document: &Value) -> usize {
    struct Counter(usize);

    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, document).expect("the counter accepts all bytes");
    counter.0
}

/// Returns whether a string or a key in a value contains this word.
fn mentions(value: &Value, word: &str) -> bool {
    match value {
        Value::String(text) => text.contains(word),
        Value::Array(items) => items.iter().any(|item| mentions(item, word)),
        Value::Object(fields) => fields.iter().any(|(key, field)| key.contains(word) || mentions(field, word)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Reads a document that is nested in `level` other documents.
fn parse_at(document: &Value, tools: &dyn ToolCatalog, level: u32) -> Result<Definition, Problems> {
    let mut reader = Reader { tools, diagnostics: Diagnostics::default(), level };
    let definition = reader.document(document);
    let problems = reader.diagnostics.problems;
    let failed = problems.iter().any(|problem| problem.severity == Severity::Error);
    match definition {
        Some(mut definition) if !failed => {
            definition.warnings = problems;
            Ok(definition)
        }
        _ => Err(Problems::new(problems)),
    }
}

struct Reader<'a> {
    tools: &'a dyn ToolCatalog,
    diagnostics: Diagnostics,
    /// Number of documents around this one.
    level: u32,
}

impl Reader<'_> {
    fn document(&mut self, document: &Value) -> Option<Definition> {
        let field = JsonPath { value: document, pointer: String::new() };
        let object = self.diagnostics.read_object(&field, "a workflow definition", &DOCUMENT_KEYS)?;
        let name = object.get("name").and_then(|field| self.read_name(&field));
        let description = object.get("description").and_then(|field| self.read_description(&field));
        let arguments = self.diagnostics.read_contract(&object, "arguments");
        let return_values = self.diagnostics.read_contract(&object, "return_values");
        self.diagnostics.check_disjoint(&object, &arguments, &return_values);
        let initial = self.diagnostics.read_required(&object, "initial_state");
        let initial_name = initial.as_ref().and_then(|field| self.diagnostics.read_text(field, "'initial_state'"));
        let states = self.diagnostics.read_required(&object, "states");
        let states = states.and_then(|field| self.diagnostics.read_free_object(&field, "'states'"))?;
        if states.fields.is_empty() || states.fields.len() > MAX_STATES {
            let count = states.fields.len();
            self.diagnostics
                .error(&states.pointer, format!("a workflow must have 1 to {MAX_STATES} states, not {count}"));
        }
        if states.fields.len() > MAX_CHECKED_STATES {
            // The search for a similar key for each state would take too long.
            return None;
        }
        if let (Some(field), Some(name)) = (&initial, initial_name)
            && !states.fields.contains_key(name)
        {
            let hint = suggestion(name, states.fields.keys().map(String::as_str));
            self.diagnostics.error(&field.pointer, format!("Initial state '{name}' not found in states{hint}"));
        }
        let all_states = states.clone();
        let finally_state = object.get("finally").and_then(|field| {
            let name = self.diagnostics.read_text(&field, "'finally'")?;
            if !all_states.fields.contains_key(name) {
                let hint = suggestion(name, all_states.fields.keys().map(String::as_str));
                self.diagnostics.error(&field.pointer, format!("the finally state '{name}' is not in states{hint}"));
            }
            Some(name.to_owned())
        });
        let host = object.get("host").and_then(|field| self.read_host(&field));
        let states = states.iter().map(|(name, field)| self.read_state(name, &field, &all_states, host.as_deref()));
        let states: Vec<_> = states.collect();
        // Without the targets of an unreadable state, other states would look unreachable.
        let states = states.into_iter().collect::<Option<Vec<State>>>()?;
        self.diagnostics.warn_unused_secrets(&object, &arguments, &states);
        let initial_state = initial_name?.to_owned();
        self.diagnostics.problems.extend(returns::warnings(&return_values, &initial_state, &states));
        if all_states.fields.contains_key(&initial_state) {
            self.diagnostics.problems.extend(reach::warnings(&initial_state, finally_state.as_deref(), &states));
        }
        let document = Arc::new(document.clone());
        let warnings = Vec::new();
        self.diagnostics.problems.extend(waits::warnings(&states));
        self.diagnostics.problems.extend(stale::warnings(&states));
        self.diagnostics.problems.extend(entering::warnings(&states));
        let needs = needs::collect_needs(self.tools, &arguments, &return_values, &states);
        self.diagnostics.problems.extend(needs.iter().map(NeededVariable::warning));
        Some(Definition {
            name,
            description,
            reads_raw_output: mentions(&document, tool::RAW_OUTPUT),
            document,
            secrets: needs::collect_secrets(&arguments, &return_values, &states),
            arguments,
            return_values,
            initial_state,
            finally_state,
            states,
            needs,
            warnings,
        })
    }

    fn read_name(&mut self, field: &JsonPath<'_>) -> Option<WorkflowName> {
        let name = self.diagnostics.read_text(field, "'name'")?;
        match name.parse() {
            Ok(name) => Some(name),
            Err(error) => {
                let error: InvalidId = error;
                self.diagnostics.error(&field.pointer, error.to_string());
                None
            }
        }
    }

    fn read_description(&mut self, field: &JsonPath<'_>) -> Option<String> {
        let description = self.diagnostics.read_text(field, "'description'")?;
        let length = description.chars().count();
        if length > MAX_DESCRIPTION_CHARS {
            let message = format!("'description' has {length} characters, at most {MAX_DESCRIPTION_CHARS} are allowed");
            self.diagnostics.error(&field.pointer, message);
        }
        Some(description.to_owned())
    }

    /// Reads the name of a host, possibly with placeholders.
    fn read_host(&mut self, field: &JsonPath<'_>) -> Option<String> {
        let host = self.diagnostics.read_text(field, "'host'")?;
        if host.trim().is_empty() {
            self.diagnostics.error(&field.pointer, "'host' must not be empty; omit it for this computer");
        }
        Some(host.to_owned())
    }

    /// Adds the host to an action that opens a terminal or moves a file. `default_host` is the host of the workflow.
    /// Returns whether the state has its own host.
    fn set_host(&mut self, object: &Object<'_>, action: &mut Action, default_host: Option<&str>) -> bool {
        let own_host = object.get("host");
        let host = own_host.as_ref().and_then(|field| self.read_host(field));
        let has_session = action.params.get("session_id").is_some_and(|session| !session.is_null());
        let takes_host = matches!(action.tool.as_str(), tool::OPEN_TERMINAL | tool::PUT_FILE | tool::GET_FILE)
            || (action.tool == tool::RUN_COMMAND && !has_session);
        match (own_host, host.as_deref().or(default_host)) {
            (Some(field), _) if !takes_host => {
                let message = "'host' is for a state that opens a terminal or moves a file: open_terminal, run_command without session_id, put_file and get_file";
                self.diagnostics.error(&field.pointer, message);
            }
            (_, Some(host)) if takes_host && action.params.get("host").is_none() => {
                action.params.insert("host".to_owned(), host.into());
            }
            _ => {}
        }
        object.get("host").is_some()
    }

    fn read_state(
        &mut self,
        name: &str,
        field: &JsonPath<'_>,
        known: &Object<'_>,
        host: Option<&str>,
    ) -> Option<State> {
        let well_formed = (1..=MAX_NAME_CHARS).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !well_formed {
            let message = format!("'{name}' is not a valid state name (1 to {MAX_NAME_CHARS} letters, digits or '_')");
            self.diagnostics.error(&field.pointer, message);
        }
        let object = self.diagnostics.read_object(field, "a state", &STATE_KEYS)?;
        let mut action = self.diagnostics.read_required(&object, "action").and_then(|field| self.read_action(&field));
        let has_own_host = action.as_mut().is_some_and(|action| self.set_host(&object, action, host));
        let transitions = object.get("transitions").map(|field| self.read_transitions(name, &field, known));
        let timeout = self.timeout(&object);
        let on_timeout = object.get("on_timeout").and_then(|field| self.read_target(name, "on_timeout", &field, known));
        let max_visits = self.max_visits(&object);
        let on_exhausted = object.get("on_exhausted").and_then(|field| {
            if max_visits.is_none() {
                self.diagnostics.error(&field.pointer, "'on_exhausted' needs 'max_visits' beside it");
            }
            self.read_target(name, "on_exhausted", &field, known)
        });
        let asks_when_unknown = object.get("on_unknown").is_some_and(|field| self.read_on_unknown(&field));
        let for_each = object.get("for_each").and_then(|field| self.read_for_each(&field, action.as_ref()));
        let transitions = transitions.unwrap_or_default().into_iter().collect::<Option<Vec<_>>>()?;
        if action.as_ref().is_some_and(|action| action.tool == tool::RETURN)
            && let Some(field) = object.get("transitions").filter(|_| !transitions.is_empty())
        {
            self.diagnostics.error(&field.pointer, "a return ends the run, so it has no transitions");
        }
        Some(State {
            name: name.to_owned(),
            action: action?,
            transitions,
            timeout,
            has_own_host,
            on_timeout,
            max_visits,
            on_exhausted,
            asks_when_unknown,
            for_each,
        })
    }

    /// Reads the `on_unknown` of a state.
    fn read_on_unknown(&mut self, field: &JsonPath<'_>) -> bool {
        let word = self.diagnostics.read_text(field, "'on_unknown'");
        if word.is_some_and(|word| !matches!(word, "ask" | "fail")) {
            self.diagnostics.error(&field.pointer, "'on_unknown' is \"ask\" or \"fail\"");
        }
        word == Some("ask")
    }

    /// Reads the items of a state: an object, or the items alone.
    fn read_for_each(&mut self, field: &JsonPath<'_>, action: Option<&Action>) -> Option<ForEach> {
        if let Some(action) = action.filter(|action| items::UNREPEATABLE_TOOLS.contains(&action.tool.as_str())) {
            self.diagnostics.error(&field.pointer, format!("a {} cannot be repeated for several items", action.tool));
        }
        let with_defaults = |items: &Value| ForEach {
            items: items.clone(),
            name: items::DEFAULT_ITEM_NAME.to_owned(),
            max_items: items::DEFAULT_MAX_ITEMS,
            parallel: None,
        };
        let for_each = match field.value {
            Value::String(_) | Value::Array(_) => with_defaults(field.value),
            _ => {
                let object = self.diagnostics.read_object(field, "'for_each'", &FOR_EACH_KEYS)?;
                let items = self.diagnostics.read_required(&object, "items")?;
                if !matches!(items.value, Value::String(_) | Value::Array(_)) {
                    let message = format!("'items' must be a list, or text with lines, not {}", kind(items.value));
                    self.diagnostics.error(&items.pointer, message);
                }
                let name = object.get("as").and_then(|field| self.read_item_name(&field));
                let max_items = object.get("max_items").and_then(|field| self.read_max_items(&field));
                let parallel = self.for_each_parallel(&object, action);
                let defaults = with_defaults(items.value);
                ForEach {
                    name: name.unwrap_or(defaults.name),
                    max_items: max_items.unwrap_or(defaults.max_items),
                    parallel,
                    ..defaults
                }
            }
        };
        if let Value::Array(items) = &for_each.items
            && items.len() > for_each.max_items as usize
        {
            let message = format!("{} items exceed the max_items of {}", items.len(), for_each.max_items);
            self.diagnostics.error(&field.pointer, message);
        }
        Some(for_each)
    }

    /// Reads the settings for parallel child runs of a list.
    fn for_each_parallel(&mut self, for_each: &Object<'_>, action: Option<&Action>) -> Option<ForEachParallel> {
        let fail_fast = for_each.get(parallel::FAIL_FAST);
        let Some(field) = for_each.get(parallel::MAX_PARALLEL) else {
            if let Some(field) = fail_fast {
                self.diagnostics.error(&field.pointer, "'fail_fast' needs 'max_parallel' beside it");
            }
            return None;
        };
        if action.is_some_and(|action| action.tool != tool::RUN_WORKFLOW) {
            let message = "only a run_workflow can process several items at once: put the states into a workflow of their \
                           own, which gets a terminal for each item";
            self.diagnostics.error(&field.pointer, message);
        }
        let max_parallel = parallel::read_max_parallel(Some(field.value));
        if let Err(error) = &max_parallel {
            self.diagnostics.error(&field.pointer, error.to_string());
        }
        let is_fail_fast = match fail_fast.as_ref().map(|field| (field, field.value.as_bool())) {
            None => false,
            Some((_, Some(value))) => value,
            Some((field, None)) => {
                self.diagnostics.error(&field.pointer, InvalidParallel::FailFast.to_string());
                false
            }
        };
        Some(ForEachParallel { max_parallel: max_parallel.ok()?, fail_fast: is_fail_fast })
    }

    fn read_item_name(&mut self, field: &JsonPath<'_>) -> Option<String> {
        let name = self.diagnostics.read_text(field, "'as'")?;
        let is_name = !name.is_empty()
            && name.len() <= MAX_NAME_CHARS
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !STANDARD_NAMES.contains(&name);
        if !is_name {
            let message =
                format!("'{name}' is not a valid item name: use letters, digits or '_', and no standard variable");
            self.diagnostics.error(&field.pointer, message);
        }
        Some(name.to_owned())
    }

    fn read_max_items(&mut self, field: &JsonPath<'_>) -> Option<u32> {
        let max_items = field.value.as_u64().and_then(|max_items| u32::try_from(max_items).ok());
        let max_items = max_items.filter(|max_items| (1..=items::MAX_ITEMS).contains(max_items));
        if max_items.is_none() {
            let message =
                format!("'max_items' must be a whole number from 1 to {}, not {}", items::MAX_ITEMS, kind(field.value));
            self.diagnostics.error(&field.pointer, message);
        }
        max_items
    }

    /// Reads the target state of a key, such as `on_timeout`.
    fn read_target(&mut self, state: &str, key: &str, field: &JsonPath<'_>, known: &Object<'_>) -> Option<String> {
        let target = self.diagnostics.read_text(field, &format!("'{key}'"))?;
        if !known.fields.contains_key(target) {
            let (hint, cause) =
                (suggestion(target, known.fields.keys().map(String::as_str)), key.trim_start_matches("on_"));
            self.diagnostics
                .error(&field.pointer, format!("State '{state}' {cause} target '{target}' not found{hint}"));
        }
        Some(target.to_owned())
    }

    fn max_visits(&mut self, state: &Object<'_>) -> Option<u32> {
        let field = state.get("max_visits")?;
        let visits = field.value.as_u64().filter(|visits| MAX_VISITS_RANGE.contains(visits));
        if visits.is_none() {
            let (min, max) = (MAX_VISITS_RANGE.start(), MAX_VISITS_RANGE.end());
            let message = format!("'max_visits' must be a whole number from {min} to {max}, not {}", kind(field.value));
            self.diagnostics.error(&field.pointer, message);
        }
        visits.and_then(|visits| u32::try_from(visits).ok())
    }

    fn timeout(&mut self, state: &Object<'_>) -> Option<Duration> {
        let (long, short) = (state.get("timeout_seconds"), state.get("timeout"));
        if let (Some(field), Some(_)) = (&long, &short) {
            let message = "'timeout' and 'timeout_seconds' are the same key, give one of them";
            self.diagnostics.error(&field.pointer, message);
        }
        let field = short.or(long)?;
        let seconds = field.value.as_f64().filter(|seconds| TIMEOUT_SECONDS.contains(seconds));
        if seconds.is_none() {
            let message = format!(
                "a timeout must be a number of seconds from {} to {}, not {}",
                TIMEOUT_SECONDS.start(),
                TIMEOUT_SECONDS.end(),
                kind(field.value)
            );
            self.diagnostics.error(&field.pointer, message);
        }
        seconds.map(Duration::from_secs_f64)
    }

    fn read_action(&mut self, field: &JsonPath<'_>) -> Option<Action> {
        let object = self.diagnostics.read_object(field, "an action", &ACTION_KEYS)?;
        let params = match object.get("params") {
            Some(params) => self.diagnostics.read_free_object(&params, "'params'")?.fields.clone(),
            None => Map::new(),
        };
        let field = self.diagnostics.read_required(&object, "tool")?;
        let tool = self.diagnostics.read_text(&field, "'tool'")?;
        let mut known_tools = self.tools.tools();
        known_tools.extend(tool::MACHINE_TOOLS.iter().map(ToString::to_string));
        if !known_tools.iter().any(|known| known == tool) {
            let hint = suggestion_or_known(tool, known_tools.iter().map(String::as_str));
            self.diagnostics.error(&field.pointer, format!("unknown tool '{tool}'{hint}"));
            return None;
        }
        let problems = match tool {
            tool::DIALOGUE => check_dialogue(&params),
            tool::SLEEP => check_sleep(&params),
            tool::SET => check_set(&params),
            tool::RETURN => unknown_keys(&params, "a return", &RETURN_KEYS),
            tool::FAIL => check_fail(&params),
            tool::GATE => check_gate(&params),
            tool::RUN_WORKFLOW => self.check_child(&params),
            tool::PARALLEL => self.check_parallel(&params),
            _ => self.tools.check(tool, &params),
        };
        self.diagnostics.problems.extend(
            problems
                .into_iter()
                .map(|problem| Problem { pointer: format!("{}/params{}", object.pointer, problem.pointer), ..problem }),
        );
        let text_params = params.keys().filter(|param| self.tools.takes_text(tool, param)).cloned().collect();
        let takes_session = match tool {
            tool::SLEEP | tool::SET | tool::RETURN | tool::FAIL | tool::GATE | tool::PARALLEL => false,
            tool::RUN_WORKFLOW | tool::DIALOGUE => true,
            _ => self.tools.takes_session(tool),
        };
        Some(Action { tool: tool.to_owned(), params, takes_session, text_params })
    }

    /// Checks the parameters of a `parallel`, including its workflows.
    fn check_parallel(&self, params: &Map<String, Value>) -> Vec<Problem> {
        let mut problems = unknown_keys(params, "a parallel", &PARALLEL_KEYS);
        let is_open = |name: &str| params.get(name).is_some_and(|value| value.to_string().contains('{'));
        let literal_params = params.iter().filter(|(name, _)| *name == parallel::WORKFLOWS || !is_open(name));
        let literal_params: Map<String, Value> =
            literal_params.map(|(name, value)| (name.clone(), value.clone())).collect();
        if let Err(error) = Parallel::read(&literal_params) {
            let pointer =
                if params.contains_key(error.param()) { format!("/{}", error.param()) } else { String::new() };
            problems.push(Problem::error(pointer, error.to_string()));
        }
        let mut sessions = Vec::new();
        for (key, entry) in parallel::entries(params).unwrap_or_default() {
            let Some(branch) = entry.as_object() else { continue };
            let pointer = format!("/{}/{}", parallel::WORKFLOWS, super::document::escaped(&key));
            let branch_problems = self.check_child(branch);
            problems.extend(
                branch_problems
                    .into_iter()
                    .map(|problem| Problem { pointer: format!("{pointer}{}", problem.pointer), ..problem }),
            );
            if let Some(session) = branch.get("session_id").and_then(Value::as_str) {
                if sessions.contains(&session) {
                    let message =
                        format!("two workflows work in the terminal {session:?} at once; their inputs may be mixed");
                    problems.push(Problem::warning(format!("{pointer}/session_id"), message));
                }
                sessions.push(session);
            }
        }
        problems
    }

    fn check_child(&self, params: &Map<String, Value>) -> Vec<Problem> {
        let mut problems = unknown_keys(params, "a run_workflow", &RUN_WORKFLOW_KEYS);
        let child_problems = child::problems(params, |value| value.to_string().contains('{'));
        problems.extend(child_problems.into_iter().map(|problem| {
            // The pointer of a missing parameter is the pointer of all parameters.
            let param = problem.param();
            let pointer = if params.contains_key(param) { format!("/{param}") } else { String::new() };
            Problem::error(pointer, problem.to_string())
        }));
        match params.get(child::DEFINITION) {
            Some(document) if document.is_object() && self.level >= MAX_LEVELS => {
                let message = format!("workflows are nested at most {MAX_LEVELS} levels deep");
                problems.push(Problem::error(format!("/{}", child::DEFINITION), message));
            }
            Some(document) if document.is_object() => {
                let nested_problems = match parse_at(document, self.tools, self.level + 1) {
                    Ok(definition) => definition.warnings_with(params.get("initial_variables")),
                    Err(problems) => problems.into_iter().collect(),
                };
                problems.extend(nested_problems.into_iter().map(|problem| {
                    let pointer = format!("/{}{}", child::DEFINITION, problem.pointer);
                    Problem { pointer, ..problem }
                }));
            }
            _ => {}
        }
        problems
    }

    fn read_transitions(&mut self, state: &str, field: &JsonPath<'_>, known: &Object<'_>) -> Vec<Option<Transition>> {
        let items = self.diagnostics.read_list(field, "'transitions'");
        if items.len() > MAX_TRANSITIONS {
            let count = items.len();
            let message = format!("a state has at most {MAX_TRANSITIONS} transitions, not {count}");
            self.diagnostics.error(&field.pointer, message);
        }
        let transitions: Vec<_> = items.iter().map(|item| self.read_transition(state, item, known)).collect();
        self.report_ambiguous_choices(field, &transitions);
        transitions
    }

    fn read_transition(&mut self, state: &str, field: &JsonPath<'_>, known: &Object<'_>) -> Option<Transition> {
        let object = self.diagnostics.read_object(field, "a transition", &TRANSITION_KEYS)?;
        let condition = match object.get("condition") {
            None => {
                self.diagnostics.report_missing(&object, "condition", "; write {} for one that always holds");
                None
            }
            Some(field) => Condition::read(&mut self.diagnostics, self.tools, &field, object.get("pattern").as_ref()),
        };
        let next_state_place = self.diagnostics.read_required(&object, "next_state")?;
        let next_state = self.diagnostics.read_text(&next_state_place, "'next_state'")?;
        if !known.fields.contains_key(next_state) {
            let hint = suggestion(next_state, known.fields.keys().map(String::as_str));
            let message = format!("State '{state}' references non-existent state '{next_state}'{hint}");
            self.diagnostics.error(&next_state_place.pointer, message);
        }
        Some(Transition { condition: condition?, next_state: next_state.to_owned() })
    }

    /// Reports transitions of a state with the same description, because a gate could not distinguish them.
    fn report_ambiguous_choices(&mut self, field: &JsonPath<'_>, transitions: &[Option<Transition>]) {
        let description = |transition: &Option<Transition>| transition.as_ref()?.condition.description.clone();
        let descriptions: Vec<_> = transitions.iter().map(description).collect();
        for (index, description) in descriptions.iter().enumerate() {
            if description.is_some() && descriptions[..index].contains(description) {
                let pointer = format!("{}/{index}/condition/description", field.pointer);
                self.diagnostics.error(&pointer, "another transition of this state has the same description");
            }
        }
    }
}

fn check_dialogue(params: &Map<String, Value>) -> Vec<Problem> {
    let mut problems = unknown_keys(params, "a dialogue", &DIALOGUE_KEYS);
    let rules = params.get(dialogue::RULES).and_then(Value::as_array).into_iter().flatten().enumerate();
    for (index, keys) in rules.filter_map(|(index, rule)| Some((index, rule.as_object()?))) {
        let with_pointer =
            |problem: Problem| Problem { pointer: format!("/rules/{index}{}", problem.pointer), ..problem };
        problems.extend(unknown_keys(keys, "a rule", &RULE_KEYS).into_iter().map(with_pointer));
    }
    let rule_problems = dialogue::problems(params);
    problems.extend(rule_problems.into_iter().map(|problem| Problem::error(problem.pointer, problem.message)));
    problems
}

fn check_gate(params: &Map<String, Value>) -> Vec<Problem> {
    let mut problems = unknown_keys(params, "a gate", &GATE_KEYS);
    let question_problems = question::problems(params, |value| value.to_string().contains('{'));
    problems.extend(question_problems.into_iter().map(|problem| {
        let param = problem.param();
        let pointer = if param.is_empty() { String::new() } else { format!("/{param}") };
        Problem::error(pointer, problem.to_string())
    }));
    problems
}

fn check_set(params: &Map<String, Value>) -> Vec<Problem> {
    if params.is_empty() {
        return vec![Problem::error("", "a set must name the variables: {\"name\": value, …}")];
    }
    let is_start = |character: char| character.is_alphabetic() || character == '_';
    let is_part = |character: char| character.is_alphanumeric() || "_-".contains(character);
    let well_formed = |name: &str| name.starts_with(is_start) && name.chars().all(is_part);
    let problem = |name: &String| {
        let message = if !well_formed(name) {
            format!(
                "'{name}' is not a valid variable name: use letters, digits, '_' and '-', with a letter or '_' first"
            )
        } else if !may_be_named(name) {
            format!("'{name}' is reserved for results of actions; choose another name")
        } else {
            return None;
        };
        Some(Problem::error(format!("/{}", super::document::escaped(name)), message))
    };
    params.keys().filter_map(problem).collect()
}

fn check_fail(params: &Map<String, Value>) -> Vec<Problem> {
    let mut problems = unknown_keys(params, "a fail", &FAIL_KEYS);
    if params.get("message").and_then(Value::as_str).is_none_or(|message| message.trim().is_empty()) {
        problems.push(Problem::error("", "'message' must say what went wrong"));
    }
    problems
}

fn check_sleep(params: &Map<String, Value>) -> Vec<Problem> {
    let mut problems = unknown_keys(params, "a sleep", &SLEEP_KEYS);
    let is_open = params.get("seconds").and_then(Value::as_str).is_some_and(|text| text.contains('{'));
    if !is_open && let Err(error) = tool::sleep_duration(params) {
        let pointer = if params.contains_key("seconds") { "/seconds" } else { "" };
        problems.push(Problem::error(pointer, error.to_string()));
    }
    problems
}

fn unknown_keys(params: &Map<String, Value>, what: &str, known: &[String]) -> Vec<Problem> {
    let unknown = params.keys().filter(|key| !known.contains(key));
    let problem = |key: &String| {
        let message = format!("unknown key '{key}' in {what}{}", hint(key, meant_key(key, known), known));
        Problem::error(format!("/{}", super::document::escaped(key)), message)
    };
    unknown.map(problem).collect()
}
