//! The stage: state that all simulated processes share, and the record of their effects.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::DirEntryExt as _;
use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use steplatch_ids::{RunId, TerminalId};
use steplatch_ledger::{Effect, EffectKey};
use steplatch_terminal::{SimulatedEffect, Simulation};

use crate::random::Random;

/// A pause of a program is long with a probability of one in this number.
const LONG_PAUSE_ONE_IN: u64 = 6;

/// Maximum lengths of a long pause and of a usual one, in milliseconds.
pub(crate) const MAX_PAUSE_MS: u64 = 3000;
const MAX_USUAL_PAUSE_MS: u64 = 60;

/// Maximum number of lines of a schedule.
const MAX_LINES: usize = 20_000;

/// Shared state of all processes. They run on one thread.
#[derive(Debug)]
pub(crate) struct Stage(Mutex<State>);

#[derive(Debug)]
struct State {
    now: Duration,
    random: Random,
    /// True if an event happened in this step.
    is_active: bool,
    /// Number of events so far.
    event_count: u32,
    performed: BTreeMap<EffectKey, u32>,
    /// Open terminals of each host; true if a run opened the terminal.
    open_terminals: BTreeMap<usize, BTreeMap<String, bool>>,
    /// Terminals that have closed.
    closed_terminals: BTreeSet<String>,
    /// Inodes of the files that runs have written, by name.
    files: BTreeMap<String, u64>,
    /// The runs in the order of their first appearance. The schedule has their numbers: names differ in each execution.
    runs: Vec<String>,
    schedule: Vec<String>,
}

impl Stage {
    pub(crate) fn new(random: Random) -> Self {
        Self(Mutex::new(State {
            now: Duration::ZERO,
            random,
            is_active: false,
            event_count: 0,
            performed: BTreeMap::new(),
            open_terminals: BTreeMap::new(),
            closed_terminals: BTreeSet::new(),
            files: BTreeMap::new(),
            runs: Vec::new(),
            schedule: Vec::new(),
        }))
    }

    pub(crate) fn now(&self) -> Duration {
        self.0.lock().now
    }

    pub(crate) fn advance(&self, duration: Duration) {
        self.0.lock().now += duration;
    }

    /// Draws a random value of the schedule.
    pub(crate) fn random<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.0.lock().random)
    }

    /// Records an event.
    pub(crate) fn record_activity(&self) {
        let mut state = self.0.lock();
        state.is_active = true;
        state.event_count += 1;
    }

    /// Returns whether an event happened since the last call.
    pub(crate) fn take_activity(&self) -> bool {
        std::mem::take(&mut self.0.lock().is_active)
    }

    /// Returns the number of events so far.
    pub(crate) fn event_count(&self) -> u32 {
        self.0.lock().event_count
    }

    /// Adds a line to the schedule.
    pub(crate) fn log(&self, line: impl FnOnce() -> String) {
        let state = &mut *self.0.lock();
        if state.schedule.len() < MAX_LINES {
            let line = format!("{:>8} ms  {}", state.now.as_millis(), line());
            state.schedule.push(number_runs(&mut state.runs, &line));
        }
    }

    /// Returns the schedule so far.
    pub(crate) fn schedule(&self) -> Vec<String> {
        self.0.lock().schedule.clone()
    }

    /// Counts an effect.
    pub(crate) fn count(&self, key: EffectKey) {
        self.log(|| format!("{:?} of {} is performed", key.effect, key.step));
        self.record_activity();
        *self.0.lock().performed.entry(key).or_default() += 1;
    }

    /// Returns each effect with the number of times that it was performed.
    pub(crate) fn performed(&self) -> BTreeMap<EffectKey, u32> {
        self.0.lock().performed.clone()
    }

    /// Returns a flag for each open terminal of a host: true if a run opened it. The programs of a project's nodes stay
    /// open.
    pub(crate) fn open_terminals(&self, host: usize) -> Vec<bool> {
        self.0
            .lock()
            .open_terminals
            .get(&host)
            .into_iter()
            .flat_map(|open_terminals| open_terminals.values().copied())
            .collect()
    }

    /// Returns whether text names a terminal that has closed.
    pub(crate) fn names_closed_terminal(&self, text: &str) -> bool {
        self.0.lock().closed_terminals.iter().any(|terminal| text.contains(terminal.as_str()))
    }

    /// Counts the files in `directory` that were written since the last call.
    pub(crate) fn count_files(&self, directory: &Path) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // An unfinished copy has another name.
            let is_of_run = name.split('-').next().is_some_and(|run| run.parse::<RunId>().is_ok());
            if is_of_run && self.0.lock().files.insert(name.clone(), entry.ino()) != Some(entry.ino()) {
                self.count(EffectKey::new(Effect::Write, name));
            }
        }
    }

    /// Records that all terminals of a host have closed with it.
    pub(crate) fn lose_terminals(&self, host: usize) {
        let state = &mut *self.0.lock();
        state.closed_terminals.extend(state.open_terminals.remove(&host).unwrap_or_default().into_keys());
    }
}

/// Replaces the names of runs with their numbers.
fn number_runs(runs: &mut Vec<String>, line: &str) -> String {
    const PREFIX: &str = "run_";
    let (mut replaced, mut remaining) = (String::new(), line);
    while let Some(start) = remaining.find(PREFIX) {
        let end = remaining[start + PREFIX.len()..].find(|c: char| !c.is_ascii_alphanumeric());
        let end = end.map_or(remaining.len(), |end| start + PREFIX.len() + end);
        let name = &remaining[start..end];
        replaced.push_str(&remaining[..start]);
        if name.parse::<RunId>().is_ok() {
            let number = runs.iter().position(|run| run == name).unwrap_or_else(|| {
                runs.push(name.to_owned());
                runs.len() - 1
            });
            replaced.push_str("run");
            replaced.push_str(&number.to_string());
        } else {
            replaced.push_str(name);
        }
        remaining = &remaining[end..];
    }
    replaced + remaining
}

/// The terminals of one host.
#[derive(Debug)]
pub(crate) struct HostTerminals {
    pub(crate) stage: std::sync::Arc<Stage>,
    pub(crate) host: usize,
}

impl Simulation for HostTerminals {
    fn delay(&self) -> Duration {
        let pause = self.stage.random(|random| {
            let max = if random.one_in(LONG_PAUSE_ONE_IN) { MAX_PAUSE_MS } else { MAX_USUAL_PAUSE_MS };
            random.below(max)
        });
        Duration::from_millis(pause)
    }

    fn record(&self, effect: SimulatedEffect, terminal: &TerminalId, step: Option<&str>) {
        if effect == SimulatedEffect::Open {
            let is_of_run =
                step.and_then(|step| step.split('/').next()).is_some_and(|run| run.parse::<RunId>().is_ok());
            self.stage.0.lock().open_terminals.entry(self.host).or_default().insert(terminal.to_string(), is_of_run);
        }
        let effect = match effect {
            SimulatedEffect::Open => Effect::Open,
            SimulatedEffect::Run => Effect::Run,
            SimulatedEffect::Type => Effect::Type,
            SimulatedEffect::Close => {
                self.stage.log(|| format!("{terminal} of host {} closes", self.host));
                let state = &mut *self.stage.0.lock();
                state.open_terminals.entry(self.host).or_default().remove(terminal.as_str());
                state.closed_terminals.insert(terminal.to_string());
                return;
            }
        };
        self.stage.log(|| format!("{terminal} of host {}: {effect:?}", self.host));
        match step {
            Some(step) => self.stage.count(EffectKey::new(effect, step)),
            None => self.stage.log(|| format!("{effect:?} without a step is performed")),
        }
    }
}
