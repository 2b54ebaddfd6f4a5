//! The daemon's own questions to a person.

use std::sync::Arc;

use serde_json::{Map, Value};
use steplatch_access::{Caller, TooManySecrets};
use steplatch_ids::RunId;
use steplatch_protocol::{CancelWorkflow, RunWorkflow};

use crate::run::{Run, RunState};
use crate::runs::Runs;

/// Receiver of a run's secret answers. Dropping this value discards the answers, and cancels a run that still waits.
struct AnswerTaker {
    runs: Arc<Runs>,
    run: Arc<Run>,
}

impl Drop for AnswerTaker {
    fn drop(&mut self) {
        self.runs.shared.secret_answers.values.lock().remove(&self.run.id);
        if !self.run.state().is_over() {
            let (runs, run_id) = (self.runs.clone(), self.run.id.to_string());
            tokio::spawn(async move { runs.cancel(CancelWorkflow { run_id }).await });
        }
    }
}

impl Runs {
    /// Asks a person a question of the daemon itself. Runs a machine with one gate; the gate's form or choices are the
    /// question. Returns the result of the machine, with the values of secret fields. `on_begin` receives the id of the
    /// run. `None` if the run does not complete. Dropping the returned future cancels the run.
    pub async fn ask_person(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        definition: Value,
        on_begin: impl FnOnce(&RunId),
    ) -> Option<Map<String, Value>> {
        let verb =
            RunWorkflow { workflow_definition: Some(definition), save_on_success: false, ..RunWorkflow::default() };
        let run = match self.start(caller, verb, None, None).await {
            Ok(run) => run,
            Err(reply) => {
                tracing::warn!(error = reply.error, "failed to ask a question of the daemon");
                return None;
            }
        };
        self.shared.secret_answers.values.lock().insert(run.id.clone(), Map::new());
        let taker = AnswerTaker { runs: self.clone(), run: run.clone() };
        on_begin(&run.id);
        let mut progress = run.follow();
        // The sender ends with the run.
        let _ = progress.wait_for(|progress| progress.state.is_over()).await;
        if run.state() != RunState::Completed {
            return None;
        }
        let mut answer = match self.result_of(&run).await {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let secret = self.shared.secret_answers.values.lock().remove(&run.id).unwrap_or_default();
        answer.extend(secret);
        drop(taker);
        Some(answer)
    }

    /// Conceals the secret fields of an answer and adds their texts to the secrets to redact.
    pub(crate) fn conceal(&self, run: &RunId, form: Option<&Value>, answer: String) -> Result<String, TooManySecrets> {
        let Some(form) = form else { return Ok(answer) };
        let (answer, texts) = self.shared.secret_answers.conceal(run, form, answer);
        for text in &texts {
            self.shared.secrets.add_typed(text)?;
        }
        Ok(answer)
    }
}
