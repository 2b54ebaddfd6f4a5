//! A daemon: drives runs by the decisions of the product, and performs what they request of terminal hosts.

pub(crate) mod functions;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use steplatch_ids::{RunId, StepId};
use steplatch_ledger::{Effect as Kind, EffectKey, names_step};
use steplatch_python_api::Answer;
use steplatch_workflow::{
    By, ChildWorkflow, Decision, Definition, Effect, GatelessNames, History, Input, Limits, Outcome, ShellAnswer,
    Start, Status, child_outcome, decide, resume,
};

use self::functions::FunctionDriver;
use crate::functions::FunctionHistory;
use crate::host::{Ask, Reply, Terminal};
use crate::machines::{ANSWERS, REMOTE};
use crate::world::{Entry, HOSTS, Happening, Mutation, OTHER, Recorded, World};

/// End of a timer.
#[derive(Debug, Clone)]
pub(crate) enum TimerEnd {
    /// The limit of a step has passed.
    Limit(StepId),
    Outcome(StepId, Outcome),
    Answer(StepId),
    /// The answer to a call of a function.
    Answered(u64, Answer),
    /// The deadline of the run, with its number.
    Deadline(u64),
}

/// A daemon, while it lives.
pub(crate) struct Daemon {
    pub(crate) number: u64,
    /// Hosts that ended since the last daemon noted them.
    lost: [bool; HOSTS],
    /// Steps whose results each host had when it started.
    unsettled: [BTreeSet<String>; HOSTS],
    /// Unsettled steps with effects that this daemon has requested, by host.
    steps: [BTreeSet<String>; HOSTS],
    /// Steps that an earlier daemon may have performed.
    repeated: BTreeSet<StepId>,
    /// Steps that are in doubt because a host has ended, until the journal has their outcomes.
    doubted: BTreeSet<String>,
    is_ready: bool,
    runs: BTreeMap<RunId, Driver>,
    functions: BTreeMap<RunId, FunctionDriver>,
    requests: BTreeMap<u64, Request>,
    next_request: u64,
    /// Runs that wait for the start.
    waiting: Vec<(RunId, Value)>,
}

struct Driver {
    definition: Arc<Definition>,
    history: History,
    inputs: VecDeque<Input>,
    /// Effects that follow the record of the events.
    recording: Option<Vec<Effect>>,
    actions: BTreeMap<StepId, Action>,
    deadlines: u64,
    /// The step of the parent run.
    parent: Option<StepId>,
}

/// An action in progress.
#[derive(Debug, Clone)]
struct Action {
    tool: String,
    host: usize,
    /// The shell that is open for it.
    shell: Option<Terminal>,
    /// The outcome, if the run has one.
    result: Option<Outcome>,
}

struct Request {
    host: usize,
    ask: Ask,
    /// The step whose outcome follows from the reply, if one does.
    step: Option<StepId>,
}

/// Returns the id of a terminal, which names its host.
fn session_id(host: usize, terminal: Terminal) -> String {
    format!("term_{host}{terminal:0>9}")
}

fn terminal_of(session: &str) -> Option<(usize, Terminal)> {
    let (host, terminal) = session.strip_prefix("term_")?.split_at_checked(1)?;
    Some((host.parse().ok()?, terminal.parse().ok()?))
}

fn finished(fields: Value) -> Outcome {
    let Value::Object(result) = fields else { return Outcome::Unknown };
    Outcome::Finished { result }
}

/// Returns the kind of the effect that an action has in a terminal or on a file.
fn kind_of(tool: &str) -> Option<Kind> {
    match tool {
        "run_command" => Some(Kind::Run),
        "open_terminal" => Some(Kind::Open),
        "send_input" | "dialogue" => Some(Kind::Type),
        // A file that is fetched is written by the host of the daemon's machine.
        "put_file" | "get_file" => Some(Kind::Write),
        "exit_terminal" => Some(Kind::Close),
        "run_node" => Some(Kind::Call),
        _ => None,
    }
}

impl Daemon {
    pub(crate) fn new(number: u64, lost: [bool; HOSTS]) -> Self {
        Self {
            number,
            lost,
            unsettled: [BTreeSet::new(), BTreeSet::new()],
            steps: [BTreeSet::new(), BTreeSet::new()],
            repeated: BTreeSet::new(),
            doubted: BTreeSet::new(),
            is_ready: false,
            runs: BTreeMap::new(),
            functions: BTreeMap::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            waiting: Vec::new(),
        }
    }

    pub(crate) fn ask_unsettled(&mut self, world: &mut World, host: usize) {
        self.request(world, host, Ask::Unsettled, None);
    }

    /// Returns the openings that it has requested of a host and that are not over.
    pub(crate) fn openings(&self, host: usize) -> Vec<EffectKey> {
        let of_host = self.requests.values().filter(|request| request.host == host);
        let opening = |request: &Request| match &request.ask {
            Ask::Perform { key, .. } if key.effect == Kind::Open => Some(key.clone()),
            _ => None,
        };
        of_host.filter_map(opening).collect()
    }

    fn request(&mut self, world: &mut World, host: usize, ask: Ask, step: Option<StepId>) {
        self.next_request += 1;
        if let Ask::Perform { key, .. } = &ask {
            self.steps[host].insert(key.step.clone());
        }
        world.send(host, (self.number, self.next_request), ask.clone());
        self.requests.insert(self.next_request, Request { host, ask, step });
    }

    /// Sends the unanswered requests to a host once more: its link has another session.
    pub(crate) fn repeat_requests(&mut self, world: &mut World, host: usize) {
        for (number, request) in &self.requests {
            if request.host == host {
                world.send(host, (self.number, *number), request.ask.clone());
            }
        }
    }

    /// Records that a host has ended. Its effects in progress have an unknown outcome.
    pub(crate) fn host_lost(&mut self, world: &mut World, host: usize) {
        self.lost[host] = true;
        self.unsettled[host].clear();
        let (lost, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.requests).into_iter().partition(|(_, request)| request.host == host);
        self.requests = rest;
        // Also those whose results are here and not in the journal yet.
        self.doubted.append(&mut self.steps[host]);
        self.forget_lost_hosts(world);
        for step in lost.into_values().filter_map(|request| request.step) {
            self.end_action(world, &step, Outcome::Unknown);
        }
    }

    /// Resumes the runs that an earlier daemon left.
    pub(crate) fn recover(&mut self, world: &mut World) {
        self.is_ready = true;
        let left: Vec<(RunId, History)> = world
            .journal
            .iter()
            .map(|(run, events)| (run.clone(), events.iter().collect::<History>()))
            .filter(|(_, history)| !history.is_over())
            .collect();
        let functions: Vec<(RunId, FunctionHistory)> = world
            .functions
            .iter()
            .map(|(run, events)| (run.clone(), events.iter().collect::<FunctionHistory>()))
            .filter(|(_, history)| history.end.is_none())
            .collect();
        let left_functions: Vec<RunId> = functions.iter().map(|(run, _)| run.clone()).collect();
        for (run, history) in functions {
            self.adopt_function(run, history);
        }
        let mut resumed = Vec::new();
        for (run, history) in left {
            let document = history.definition().cloned().unwrap_or_default();
            let definition = World::definition(&document);
            let effects = resume(&history, world.timestamp());
            let parent = history.parent().cloned();
            self.runs.insert(run.clone(), Driver::new(definition, history, parent));
            resumed.push((run, effects));
        }
        let pending: BTreeSet<String> = resumed
            .iter()
            .flat_map(|(_, effects)| effects)
            .filter_map(|effect| match effect {
                Effect::Perform { step, .. } | Effect::CloseOpened { step } => Some(step.to_string()),
                _ => None,
            })
            .collect();
        self.doubted.extend(pending.iter().cloned());
        self.forget_lost_hosts(world);
        if !world.is_mutated(Mutation::NothingSettledAtStart) {
            let stored = self.unsettled.clone().into_iter().flatten();
            for step in stored.filter(|step| !pending.contains(step)) {
                self.settle(world, &step);
            }
        }
        for (run, effects) in resumed {
            self.perform_all(world, &run, effects, true);
        }
        for run in left_functions {
            self.resume_function(world, &run);
        }
        for (run, definition) in std::mem::take(&mut self.waiting) {
            self.begin(world, run, &definition);
        }
    }

    /// Begins a run of a client.
    pub(crate) fn begin(&mut self, world: &mut World, run: RunId, definition: &Value) {
        if !self.is_ready {
            return self.waiting.push((run, definition.clone()));
        }
        if self.runs.contains_key(&run) || self.functions.contains_key(&run) || world.is_recorded(&run) {
            return;
        }
        if !definition["stages"].is_null() {
            return self.begin_function(world, run, definition, None);
        }
        let seconds = definition["execution_timeout"].as_f64().unwrap_or(7200.0);
        let start = Start {
            run: run.clone(),
            session_id: None,
            variables: Map::new(),
            limits: Limits::new(1000, seconds).expect("they are within their bounds"),
            keep_terminals: false,
            save_on_success: false,
            parent: None,
            depth: 0,
            gateless: GatelessNames::default(),
        };
        let mut definition = definition.clone();
        definition.as_object_mut().map(|document| document.remove("execution_timeout"));
        self.start(world, run, &definition, start);
    }

    fn start(&mut self, world: &mut World, run: RunId, definition: &Value, start: Start) {
        let definition = World::definition(definition);
        let parent = start.parent.clone();
        self.runs.insert(run.clone(), Driver::new(definition, History::new(), parent));
        self.feed(world, &run, Input::Start(start));
    }

    fn feed(&mut self, world: &mut World, run: &RunId, input: Input) {
        if let Some(driver) = self.runs.get_mut(run) {
            driver.inputs.push_back(input);
            self.decide(world, run);
        }
    }

    /// Decides what follows from the inputs, up to the next write.
    fn decide(&mut self, world: &mut World, run: &RunId) {
        while let Some(driver) = self.runs.get_mut(run)
            && driver.recording.is_none()
            && let Some(input) = driver.inputs.pop_front()
        {
            let ended = match &input {
                Input::Outcome { step, .. } => {
                    let tool = driver.actions.remove(step).map(|action| action.tool);
                    Some((step.clone(), tool.unwrap_or_default()))
                }
                _ => None,
            };
            let outcome = match &input {
                Input::Outcome { outcome, .. } => Some(outcome.clone()),
                _ => None,
            };
            let Decision { events, effects } = decide(&driver.definition, &driver.history, input, world.timestamp());
            driver.history.extend(&events);
            // The next daemon performs the same effects as this one.
            let resumed = resume(&driver.history, world.timestamp());
            let differs = |effect: &&Effect| matches!(effect, Effect::Perform { .. }) && !resumed.contains(effect);
            if let Some(effect) = effects.iter().find(differs) {
                world.break_rule(|| format!("the next daemon would not perform {effect:?}, but {resumed:?}"));
            }
            if events.is_empty() {
                if let Some((step, _)) = ended {
                    self.settle(world, &step.to_string());
                }
                self.perform_all(world, run, effects, false);
                continue;
            }
            driver.recording = Some(effects);
            if let Some((step, _)) = ended.as_ref().filter(|_| world.is_mutated(Mutation::SettledBeforeRecorded)) {
                self.settle(world, &step.to_string());
            }
            let ended = ended.zip(outcome).filter(|((_, tool), _)| kind_of(tool).is_some());
            let ended = ended.map(|((step, tool), outcome)| (step.to_string(), recorded_as(&tool, &outcome)));
            world.append(self.number, Entry { run: run.clone(), events, function: Vec::new(), ended });
        }
    }

    /// Goes on after a write.
    pub(crate) fn recorded(&mut self, world: &mut World, entry: &Entry) {
        let run = &entry.run;
        if !entry.function.is_empty() {
            return self.function_recorded(world, entry);
        }
        let Some(driver) = self.runs.get_mut(run) else { return };
        let Some(effects) = driver.recording.take() else { return };
        if let Some((step, _)) = &entry.ended {
            let step = step.clone();
            self.settle(world, &step);
        }
        self.perform_all(world, run, effects, false);
        self.end_run_if_over(world, run);
        self.decide(world, run);
    }

    fn end_run_if_over(&mut self, world: &mut World, run: &RunId) {
        let Some(driver) = self.runs.get(run) else { return };
        if !driver.history.is_over() {
            return;
        }
        let (parent, outcome) = (driver.parent.clone(), outcome_of(&driver.history));
        self.settle(world, &format!("{run}/"));
        if let Some(step) = parent {
            self.end_of_child(world, step, outcome);
        }
    }

    /// Reports the end of a run to the step that started it, of a machine or of a function.
    fn end_of_child(&mut self, world: &mut World, step: StepId, outcome: Outcome) {
        let above = step.run.clone();
        if self.functions.contains_key(&above) {
            return self.answer_call(world, &above, u64::from(step.visit), functions::answer_of(outcome));
        }
        self.feed(world, &above, Input::Outcome { step, outcome });
    }

    /// Removes the notes of lost hosts once the journal has the outcome of every step that they put in doubt.
    fn forget_lost_hosts(&self, world: &mut World) {
        if world.is_mutated(Mutation::LostHostForgotten) || (self.is_ready && self.doubted.is_empty()) {
            (0..HOSTS).for_each(|host| world.forget_lost(host));
        }
    }

    /// Reports to the hosts that this daemon needs the results of a step no longer.
    fn settle(&mut self, world: &mut World, step: &str) {
        for steps in self.steps.iter_mut().chain([&mut self.doubted]) {
            steps.retain(|unsettled| !names_step(step, unsettled));
        }
        self.forget_lost_hosts(world);
        for host in 0..HOSTS {
            if world.has_host(host) {
                self.request(world, host, Ask::Settle(step.to_owned()), None);
            }
        }
    }

    fn perform_all(&mut self, world: &mut World, run: &RunId, effects: Vec<Effect>, is_repeated: bool) {
        for effect in effects {
            self.perform(world, run, effect, is_repeated);
        }
    }

    fn timer(&self, world: &mut World, run: &RunId, delay: u64, end: TimerEnd) {
        world.at(delay, Happening::Timer { daemon: self.number, run: run.clone(), end });
    }

    fn perform(&mut self, world: &mut World, run: &RunId, effect: Effect, is_repeated: bool) {
        match effect {
            Effect::Perform { step, tool, params, limit } => {
                // A command without a limit of its state has one of its own.
                let own = || Some(Duration::from_secs_f64(params.get("timeout")?.as_f64()?));
                let is_lost = is_repeated && world.is_mutated(Mutation::LimitsLostAtStart);
                if let Some(limit) = limit.or_else(own).filter(|_| !is_lost) {
                    let delay = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX / 2);
                    self.timer(world, run, delay, TimerEnd::Limit(step.clone()));
                }
                self.act(world, run, step, &tool, &params, is_repeated);
            }
            Effect::Sleep { step, until, .. } => {
                let delay = until.0.saturating_sub(world.timestamp().0).max(0) / 1000;
                let outcome = finished(json!({"success": true}));
                self.timer(world, run, delay.unsigned_abs(), TimerEnd::Outcome(step, outcome));
            }
            Effect::Answer { step, outcome } => self.timer(world, run, 0, TimerEnd::Outcome(step, outcome)),
            Effect::OpenGate { step, .. } => {
                let delay = 50 + world.random.below(3000);
                self.timer(world, run, delay, TimerEnd::Answer(step));
            }
            Effect::ExpireGate { step, at } => {
                let delay = at.0.saturating_sub(world.timestamp().0).max(0) / 1000;
                self.timer(world, run, delay.unsigned_abs(), TimerEnd::Outcome(step, Outcome::TimedOut));
            }
            Effect::StartRun { step, child, limit } => {
                let is_lost = is_repeated && world.is_mutated(Mutation::LimitsLostAtStart);
                if let Some(limit) = limit.filter(|_| !is_lost) {
                    let delay = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX / 2);
                    self.timer(world, run, delay, TimerEnd::Limit(step.clone()));
                }
                self.start_child(world, step, &child);
            }
            Effect::SetVariables { step, .. } | Effect::ReadVariables { step, .. } => {
                let answer = ShellAnswer::Told { values: BTreeMap::new() };
                self.feed(world, run, Input::ShellAnswered { step, answer });
            }
            Effect::Abandon { step } => {
                if let Some(driver) = self.runs.get_mut(run) {
                    driver.actions.remove(&step);
                }
                self.settle(world, &step.to_string());
                self.cancel_run(world, &RunId::started_by(&step));
            }
            Effect::ArmDeadline { after } => {
                let Some(driver) = self.runs.get_mut(run) else { return };
                driver.deadlines += 1;
                let (number, delay) = (driver.deadlines, u64::try_from(after.as_millis()).unwrap_or(u64::MAX / 2));
                self.timer(world, run, delay, TimerEnd::Deadline(number));
            }
            Effect::DisarmDeadline => {
                if let Some(driver) = self.runs.get_mut(run) {
                    driver.deadlines += 1;
                }
            }
            Effect::CloseTerminal { session_id } => {
                if let Some((host, terminal)) = terminal_of(&session_id).filter(|(host, _)| world.has_host(*host)) {
                    self.request(world, host, Ask::Close(terminal), None);
                }
            }
            Effect::CloseOpened { step } => {
                for host in (0..HOSTS).filter(|host| world.has_host(*host)).collect::<Vec<_>>() {
                    self.request(world, host, Ask::CloseOpened(step.to_string()), None);
                }
            }
            Effect::PauseChild { .. } | Effect::ResumeChild { .. } => {}
        }
    }

    fn start_child(&mut self, world: &mut World, step: StepId, child: &steplatch_workflow::Child) {
        let document = match &child.workflow {
            ChildWorkflow::Named(name) => return self.start_named(world, step, name.as_str()),
            ChildWorkflow::Inline(document) => document,
        };
        if self.is_started(world, &step) {
            return;
        }
        let definition = World::definition(document);
        let id = RunId::started_by(&step);
        let start = Start {
            run: id.clone(),
            session_id: child.terminal(&definition).map(str::to_owned),
            variables: child.variables.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect(),
            limits: child.limits,
            keep_terminals: child.keep_terminals,
            save_on_success: false,
            parent: Some(step.clone()),
            depth: child.depth,
            gateless: GatelessNames::default(),
        };
        self.start(world, id, document, start);
        let above = step.run.clone();
        self.feed(world, &above, Input::ChildBegan { step, workflow: "nested".to_owned() });
    }

    /// Returns whether a step has started its run before. The step learns of the end of that run.
    fn is_started(&mut self, world: &mut World, step: &StepId) -> bool {
        let id = RunId::started_by(step);
        let end = if let Some(driver) = self.runs.get(&id) {
            (driver.history.is_over() && driver.recording.is_none()).then(|| outcome_of(&driver.history))
        } else if let Some(driver) = self.functions.get(&id) {
            driver.history.end.map(functions::outcome_of)
        } else if let Some(events) = world.functions.get(&id) {
            // It had ended when the daemon started; others are driven.
            events.iter().collect::<FunctionHistory>().end.map(functions::outcome_of)
        } else if let Some(events) = world.journal.get(&id) {
            Some(outcome_of(&events.iter().collect()))
        } else {
            return false;
        };
        if let Some(outcome) = end {
            self.end_of_child(world, step.clone(), outcome);
        }
        true
    }

    /// Starts a saved workflow: a function, or a machine that a function runs.
    fn start_named(&mut self, world: &mut World, step: StepId, name: &str) {
        if self.is_started(world, &step) {
            return;
        }
        let (id, document) = (RunId::started_by(&step), world.workflows[name].clone());
        if document["stages"].is_null() {
            let start = Start {
                run: id.clone(),
                session_id: None,
                variables: Map::new(),
                limits: Limits::new(1000, 7200.0).expect("they are within their bounds"),
                keep_terminals: false,
                save_on_success: false,
                parent: Some(step),
                depth: 1,
                gateless: GatelessNames::default(),
            };
            return self.start(world, id, &document, start);
        }
        self.begin_function(world, id, &document, Some(step.clone()));
        let above = step.run.clone();
        self.feed(world, &above, Input::ChildBegan { step, workflow: name.to_owned() });
    }

    /// Performs an action.
    fn act(
        &mut self,
        world: &mut World,
        run: &RunId,
        step: StepId,
        tool: &str,
        params: &Map<String, Value>,
        is_repeated: bool,
    ) {
        if tool == "run_graph" {
            // A graph makes calls, so it becomes a run of its own, which the next daemon finds by the step.
            let action = Action { tool: tool.to_owned(), host: 0, shell: None, result: None };
            if let Some(driver) = self.runs.get_mut(run) {
                driver.actions.insert(step.clone(), action);
            }
            let name = params.get("graph_id").and_then(Value::as_str).unwrap_or_default().to_owned();
            return self.start_named(world, step, &name);
        }
        let session = params.get("session_id").and_then(Value::as_str).and_then(terminal_of);
        let named = if params.get("host").and_then(Value::as_str) == Some(REMOTE) { OTHER } else { 0 };
        let host = session.map_or(named, |(host, _)| host);
        let action = Action { tool: tool.to_owned(), host, shell: None, result: None };
        let Some(driver) = self.runs.get_mut(run) else { return };
        driver.actions.insert(step.clone(), action);
        if is_repeated {
            self.repeated.insert(step.clone());
        }
        let Some(kind) = kind_of(tool) else {
            let outcome = finished(json!({"success": true, "reason": "match"}));
            return self.timer(world, run, 5, TimerEnd::Outcome(step, outcome));
        };
        let name = step.to_string();
        if kind == Kind::Call {
            if is_repeated && !world.is_mutated(Mutation::NodesRepeated) {
                return self.end_action(world, &step, Outcome::Unknown);
            }
            let delay = world.random.below(500);
            let key = EffectKey::new(kind, name);
            return world.at(delay, Happening::CallNode { daemon: self.number, key });
        }
        if tool == "get_file" {
            if host == OTHER {
                // To read the file again does no harm.
                return self.request(world, OTHER, Ask::Read, Some(step));
            }
            return self.write_copy(world, step);
        }
        // A lost host has lost its ledger. A living host receives a request for an effect that it knows.
        let is_known = self.unsettled[host].contains(&name);
        if is_repeated && self.lost[host] && !is_known {
            return self.end_action(world, &step, Outcome::Unknown);
        }
        let is_single_command = tool == "run_command" && session.is_none();
        match (kind, session) {
            (Kind::Run, None) => {
                let key = EffectKey::new(Kind::Open, name);
                self.request(world, host, Ask::Perform { key, terminal: None, is_single_command }, Some(step));
            }
            (Kind::Type | Kind::Close, None) => {
                let outcome = finished(json!({"success": false, "error": "closed"}));
                self.timer(world, run, 1, TimerEnd::Outcome(step, outcome));
            }
            (kind, session) => {
                let typed = params.get("input_text").and_then(Value::as_str).unwrap_or_default();
                if tool == "dialogue" && typed.is_empty() {
                    return self.end_action(world, &step, turn_of(&step));
                }
                let (key, terminal) = (EffectKey::new(kind, name), session.map(|(_, terminal)| terminal));
                self.request(world, host, Ask::Perform { key, terminal, is_single_command: false }, Some(step));
            }
        }
    }

    /// Has the host of this machine write a file that was fetched.
    fn write_copy(&mut self, world: &mut World, step: StepId) {
        let key = EffectKey::new(Kind::Write, step.to_string());
        if world.is_mutated(Mutation::CopiesWrittenByDaemon) {
            let delay = world.random.below(60);
            return world.at(delay, Happening::CallNode { daemon: self.number, key });
        }
        let Some(action) = self.runs.get_mut(&step.run).and_then(|driver| driver.actions.get_mut(&step)) else {
            return;
        };
        action.host = 0;
        let is_known = self.unsettled[0].contains(&key.step);
        if self.repeated.contains(&step) && self.lost[0] && !is_known {
            return self.end_action(world, &step, Outcome::Unknown);
        }
        self.request(world, 0, Ask::Perform { key, terminal: None, is_single_command: false }, Some(step));
    }

    /// Takes the reply to a request.
    pub(crate) fn take_reply(&mut self, world: &mut World, number: u64, reply: Reply) {
        let Some(request) = self.requests.remove(&number) else { return };
        if let Reply::Steps(steps) = reply {
            if self.is_ready && !world.is_mutated(Mutation::NothingSettledAtStart) {
                // The daemon has reached the host late: the other steps settle with their runs.
                let over = |step: &&String| {
                    let run = step.split('/').next().and_then(|run| run.parse::<RunId>().ok());
                    run.and_then(|run| self.runs.get(&run)).is_none_or(|driver| driver.history.is_over())
                };
                for step in steps.iter().filter(over).cloned().collect::<Vec<_>>() {
                    self.settle(world, &step);
                }
            }
            self.unsettled[request.host].extend(steps);
            return;
        }
        let Some(step) = request.step else { return };
        if request.ask == Ask::Read {
            return self.write_copy(world, step);
        }
        let Ask::Perform { key, is_single_command, .. } = &request.ask else { return };
        let Some(action) = self.runs.get_mut(&step.run).and_then(|driver| driver.actions.get_mut(&step)) else {
            // The run has given the step up in the meantime.
            if let (Reply::Opened(terminal), false) = (&reply, is_single_command) {
                self.request(world, request.host, Ask::Close(*terminal), None);
            }
            return;
        };
        let closed = || finished(json!({"success": false, "error": "closed"}));
        let outcome = match (key.effect, reply) {
            (_, Reply::OutcomeUnknown | Reply::Steps(_)) => Outcome::Unknown,
            (_, Reply::OpenedBefore) => finished(json!({"success": false, "error": "opened before"})),
            (Kind::Close, Reply::NoTerminal) if action.shell.is_none() => finished(json!({"success": true})),
            (Kind::Close, _) if action.shell.is_some() => action.result.clone().unwrap_or(Outcome::Unknown),
            (_, Reply::NoTerminal) => closed(),
            (Kind::Open, Reply::Opened(terminal)) if *is_single_command => {
                action.shell = Some(terminal);
                let key = EffectKey::new(Kind::Run, step.to_string());
                let ask = Ask::Perform { key, terminal: Some(terminal), is_single_command: false };
                return self.request(world, request.host, ask, Some(step));
            }
            (Kind::Open, Reply::Opened(terminal)) => {
                finished(json!({"success": true, "session_id": session_id(action.host, terminal)}))
            }
            (Kind::Run, _) => {
                let outcome = finished(json!({"success": true, "exit_code": 0, "output": "done\n"}));
                if let Some(terminal) = action.shell.filter(|_| world.is_mutated(Mutation::ClosedBeforeRecorded)) {
                    action.result = Some(outcome);
                    let key = EffectKey::new(Kind::Close, step.to_string());
                    let ask = Ask::Perform { key, terminal: Some(terminal), is_single_command: false };
                    return self.request(world, request.host, ask, Some(step));
                }
                outcome
            }
            (Kind::Type, _) if action.tool == "dialogue" => turn_of(&step),
            (_, _) => finished(json!({"success": true})),
        };
        self.end_action(world, &step, outcome);
    }

    /// Takes the end of a node.
    pub(crate) fn node_called(&mut self, world: &mut World, key: &EffectKey) {
        if let Ok(step) = key.step.parse::<StepId>() {
            if self.called_by_function(world, &step) {
                return;
            }
            let delay = world.random.below(300);
            let outcome = finished(json!({"success": true, "output": "x"}));
            self.timer(world, &step.run.clone(), delay, TimerEnd::Outcome(step, outcome));
        }
    }

    pub(crate) fn timer_ended(&mut self, world: &mut World, run: &RunId, end: TimerEnd) {
        match end {
            TimerEnd::Answered(ordinal, answer) => self.answer_call(world, run, ordinal, answer),
            TimerEnd::Outcome(step, outcome) => self.feed(world, run, Input::Outcome { step, outcome }),
            TimerEnd::Limit(step) => {
                let child = RunId::started_by(&step);
                let is_acting = self.runs.get(run).is_some_and(|driver| driver.actions.contains_key(&step));
                let has_child = self.runs.get(&child).is_some_and(|driver| !driver.history.is_over())
                    || self.functions.get(&child).is_some_and(|driver| driver.history.end.is_none());
                if is_acting || has_child {
                    self.end_action(world, &step, Outcome::TimedOut);
                    self.cancel_run(world, &child);
                }
            }
            TimerEnd::Answer(step) => {
                let by =
                    By { who: "ana".to_owned(), through: None, proof: None, required: None, shown: None, signed: None };
                self.feed(world, run, Input::GateAnswered { step, choice: "yes".to_owned(), by });
            }
            TimerEnd::Deadline(number) => {
                if self.runs.get(run).is_some_and(|driver| driver.deadlines == number) {
                    self.feed(world, run, Input::DeadlinePassed);
                }
            }
        }
    }

    fn end_action(&mut self, world: &mut World, step: &StepId, outcome: Outcome) {
        self.feed(world, &step.run.clone(), Input::Outcome { step: step.clone(), outcome });
    }
}

impl Driver {
    fn new(definition: Arc<Definition>, history: History, parent: Option<StepId>) -> Self {
        Self {
            definition,
            history,
            inputs: VecDeque::new(),
            recording: None,
            actions: BTreeMap::new(),
            deadlines: 0,
            parent,
        }
    }
}

/// Returns the outcome of a turn of a dialogue: a question for the first turns, and then the prompt.
fn turn_of(step: &StepId) -> Outcome {
    if u64::from(step.visit) <= ANSWERS {
        return finished(
            json!({"success": true, "reason": "match", "matched": 0, "match_text": "sure", "groups": [], "offset": 9}),
        );
    }
    finished(json!({"success": true, "reason": "prompt"}))
}

fn outcome_of(history: &History) -> Outcome {
    let status = match history.status() {
        Status::Completed => "completed",
        Status::Failed { .. } => "failed",
        Status::Cancelled { .. } => "cancelled",
        Status::NotStarted | Status::Running | Status::Waiting => return Outcome::Unknown,
    };
    child_outcome(history, status)
}

fn recorded_as(tool: &str, outcome: &Outcome) -> Recorded {
    match outcome {
        Outcome::TimedOut => Recorded::TimedOut,
        Outcome::Unknown => Recorded::Unknown(tool.to_owned()),
        Outcome::Finished { result } if result.get("success") == Some(&Value::Bool(true)) => {
            // A turn of a dialogue may type nothing, and a terminal may have closed already.
            Recorded::Succeeded(kind_of(tool).filter(|_| !matches!(tool, "dialogue" | "exit_terminal")))
        }
        Outcome::Finished { result } => {
            Recorded::Failed(result.get("error").and_then(Value::as_str).unwrap_or_default().to_owned())
        }
    }
}
