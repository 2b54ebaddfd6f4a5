//! Tasks of an outer engine: the daemon records events, then performs an effect in the same way as for its own engine.

use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use steplatch_access::Caller;
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::{ExitTerminal, PerformTask, PerformTaskReply};
use steplatch_workflow::{Child, Effect, EngineAnswer, EngineTask, FunctionTurn, Input};

use super::openings::{ended_steps, opens_own_terminal};
use super::{Registration, events_of};
use crate::child;
use crate::engine::Attempt;
use crate::engine_state::Engine;
use crate::kind::Kind;
use crate::machine::{Action, contract, perform};
use crate::runs::Runs;

/// Time limit for reading screens.
const SCREENS_TIMEOUT: Duration = Duration::from_secs(5);

/// Failure to perform a task. The engine requests it again later.
#[derive(Debug, thiserror::Error)]
enum TaskError {
    /// The worker belongs to another daemon.
    #[error("{0}")]
    Token(String),
    /// The text is not the id of a run.
    #[error("'{0}' is not the id of a run")]
    NoRun(String),
    /// The request is unreadable.
    #[error("the task cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// The run has no driver at present.
    #[error(
        "run {0} does not continue here now: it has just finished or is locked, or the daemon is starting or \
             stopping"
    )]
    NotDriven(RunId),
    /// Events are missing before the received ones.
    #[error("run {run} has {recorded} events, and the next ones begin at {from}")]
    Gap {
        /// The run.
        run: RunId,
        /// Number of events that the run has.
        recorded: u64,
        /// The number of the first event that arrived.
        from: u64,
    },
    /// The effect is not a task of a daemon.
    #[error("this effect is not performed by a daemon")]
    NotHere,
}

impl Runs {
    /// Records events of a run and performs a task for it.
    #[boxed]
    pub async fn perform_task(&self, caller: &Arc<Caller>, verb: PerformTask) -> PerformTaskReply {
        match self.try_task(caller, verb).await {
            Ok((recorded, answer)) => {
                let answer = serde_json::to_value(answer).expect("an answer is serializable");
                PerformTaskReply { success: true, recorded, answer, error: None }
            }
            Err(error) => PerformTaskReply { error: Some(error.to_string()), ..PerformTaskReply::default() },
        }
    }

    async fn try_task(&self, caller: &Arc<Caller>, verb: PerformTask) -> Result<(u64, EngineAnswer), TaskError> {
        self.admits_worker(&verb.token).map_err(TaskError::Token)?;
        let run: RunId = verb.run_id.parse().map_err(|_| TaskError::NoRun(verb.run_id))?;
        let (task, events) = (serde_json::from_value::<EngineTask>(verb.task)?, events_of(verb.events)?);
        let shared = &self.shared;
        let known = shared.outer.registration(&run);
        if matches!(task, EngineTask::Advance { .. } | EngineTask::Call { .. } | EngineTask::BeginRun { .. }) {
            return Ok((0, function_task(shared, run, task).await?));
        }
        let recorded = match &known {
            Some(_) => {
                let from = verb.from;
                let finished_steps = ended_steps(&events);
                let recorded = shared.outer.record(&run, from, events).await;
                let recorded = recorded.ok_or_else(|| TaskError::NotDriven(run.clone()))?;
                if recorded < from {
                    return Err(TaskError::Gap { run, recorded, from });
                }
                shared.outer.openings.forget_steps(&finished_steps);
                finished_steps.iter().for_each(|step| shared.sessions.settle(&step.to_string()));
                recorded
            }
            // A run that has finished here has all events. The run of another daemon is in that daemon's journal.
            None => match shared.find(&run).await {
                Ok(Some(found)) if found.state().is_over() => verb.from + events.len() as u64,
                Ok(None) => verb.from + events.len() as u64,
                Ok(Some(_)) | Err(_) => return Err(TaskError::NotDriven(run)),
            },
        };
        // The events may contain the answer of a person, an approval of this task.
        let caller = match shared.outer.registration(&run).or(known) {
            Some(Registration { caller, .. }) => caller,
            None => Arc::new(Caller { run: Some(run), ..(**caller).clone() }),
        };
        let answer = match task {
            EngineTask::Record => EngineAnswer::Done,
            EngineTask::ReadScreens { sessions } => {
                let mut screens = Vec::with_capacity(sessions.len());
                for session in &sessions {
                    let reading = tokio::time::timeout(SCREENS_TIMEOUT, shared.sessions.screen(session));
                    screens.push(reading.await.ok().flatten());
                }
                EngineAnswer::Screens { screens }
            }
            EngineTask::Perform { effect, repeated } => {
                let attempt = if repeated { Attempt::AfterRestart } else { Attempt::First };
                Box::pin(perform_effect(shared, caller, *effect, attempt)).await?
            }
            // Answered above.
            EngineTask::Advance { .. } | EngineTask::Call { .. } | EngineTask::BeginRun { .. } => EngineAnswer::Done,
        };
        Ok((recorded, answer))
    }
}

/// Passes a task to the driver of a function. Ends a run in the engine that has finished here, or that this daemon
/// does not know.
async fn function_task(shared: &Arc<Engine>, run: RunId, task: EngineTask) -> Result<EngineAnswer, TaskError> {
    let is_turn = matches!(task, EngineTask::Advance { .. });
    if shared.outer.registration(&run).is_some() {
        return shared.outer.ask(&run, task).await.ok_or(TaskError::NotDriven(run));
    }
    let outcome = match shared.find(&run).await {
        Ok(Some(found)) if found.state().is_over() && is_turn => shared.outcome_of(&found, false).await,
        Ok(Some(found)) if found.state().is_over() => return Ok(EngineAnswer::Done),
        Ok(None) => child::refused_outcome(format!("run {run} is not in the journal of this host")),
        Ok(Some(_)) | Err(_) => return Err(TaskError::NotDriven(run)),
    };
    Ok(EngineAnswer::Advanced { turn: Box::new(FunctionTurn { over: Some(outcome), ..FunctionTurn::default() }) })
}

async fn perform_effect(
    shared: &Arc<Engine>,
    caller: Arc<Caller>,
    effect: Effect,
    attempt: Attempt,
) -> Result<EngineAnswer, TaskError> {
    let input = match effect {
        Effect::Perform { step, tool, params, limit } => {
            let is_held = opens_own_terminal(&tool, &params);
            let step_name = step.to_string();
            let action = Action { tool, params, step: step_name, limit, attempt, has_requested: Arc::default() };
            let acting = perform(shared.clone(), caller, action);
            let outcome =
                if is_held { shared.outer.openings.perform_or_join(&step, acting).await } else { acting.await };
            Input::Outcome { step, outcome }
        }
        Effect::SetVariables { step, session_id, variables } => {
            let answer = contract::set(&shared.sessions, &caller, session_id, variables).await;
            Input::ShellAnswered { step, answer }
        }
        Effect::ReadVariables { step, session_id, names } => {
            let answer = contract::read(&shared.sessions, &caller, session_id, names).await;
            Input::ShellAnswered { step, answer }
        }
        Effect::StartRun { step, child, .. } => return Ok(begin_child(shared, &caller, step, *child).await),
        Effect::CloseTerminal { session_id } => {
            shared.sessions.exit(&caller, ExitTerminal { session_id, ..ExitTerminal::default() }).await;
            return Ok(EngineAnswer::Done);
        }
        Effect::CloseOpened { step } => {
            shared.sessions.exit_opened_by(&caller, &step.to_string()).await;
            return Ok(EngineAnswer::Done);
        }
        // The engine handles time, gates and other runs.
        Effect::Sleep { .. }
        | Effect::Answer { .. }
        | Effect::OpenGate { .. }
        | Effect::ExpireGate { .. }
        | Effect::PauseChild { .. }
        | Effect::ResumeChild { .. }
        | Effect::Abandon { .. }
        | Effect::ArmDeadline { .. }
        | Effect::DisarmDeadline => return Err(TaskError::NotHere),
    };
    Ok(EngineAnswer::Input { input })
}

/// Records the start of a step's run in the journal; the engine continues it. A repeated request finds the same run.
async fn begin_child(shared: &Arc<Engine>, caller: &Arc<Caller>, step: StepId, child: Child) -> EngineAnswer {
    let id = RunId::started_by(&step);
    let refusal = |error: String| EngineAnswer::Input {
        input: Input::Outcome { step: step.clone(), outcome: child::refused_outcome(error) },
    };
    if shared.outer.registration(&id).is_none()
        && let Err(error) = child::begin_for_outer_engine(shared, caller, id.clone(), step.clone(), child).await
    {
        return refusal(error.to_string());
    }
    start_answer(shared, &id).await.unwrap_or_else(|| refusal(format!("run {id} has already finished")))
}

/// Returns the engine's start input for a run that has begun here. A run of a remote workflow may have ended before its
/// start in the engine; the engine still follows the run to its end.
pub(crate) async fn start_answer(shared: &Engine, id: &RunId) -> Option<EngineAnswer> {
    if let Some(answer) = shared.outer.started_answer(id) {
        return Some(answer);
    }
    let run = shared.find(id).await.ok().flatten()?;
    let workflow = run.header.workflow.clone();
    (run.kind() == Kind::Remote).then(|| EngineAnswer::Begun { workflow, events: Vec::new(), function: true })
}
