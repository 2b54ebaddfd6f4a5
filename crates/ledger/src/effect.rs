//! The key of an entry.

/// Kind of an effect. One step may have several effects, at most one of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Opens a terminal.
    Open,
    /// Runs a command.
    Run,
    /// Types text or keys.
    Type,
    /// Moves a written file into place.
    Write,
    /// Closes a terminal.
    Close,
    /// Calls a node.
    Call,
}

/// One effect of one step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectKey {
    /// Name of the step. A `/` separates a step from its parts.
    pub step: String,
    /// Kind of the effect.
    pub effect: Effect,
}

/// Returns whether `steps` names a step: it is the step itself, or ends with `/` and begins the name. So `run_…/` names
/// all steps of a run, and `run_…/build/1` names one step, and not the steps of a state with the name `build/1`.
#[must_use]
pub fn names_step(steps: &str, step: &str) -> bool {
    if steps.ends_with('/') { step.starts_with(steps) } else { step == steps }
}

impl EffectKey {
    /// Returns the key of an effect of this step.
    #[must_use]
    pub fn new(effect: Effect, step: impl Into<String>) -> Self {
        Self { step: step.into(), effect }
    }
}
