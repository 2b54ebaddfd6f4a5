//! Checks of requests whose runs start later.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use steplatch_access::Caller;
use steplatch_protocol::{RunReply, RunWorkflow};

use super::{Runs, limits};
use crate::definition_source::RunTarget;
use crate::function::choose_workflow;
use crate::machine;
use crate::source::read_definition_file;

impl Runs {
    /// Checks that a run of this request can start: its workflow exists and is valid, and, if requested, its required
    /// variables are there.
    ///
    /// # Errors
    /// If it cannot start, with the reason.
    pub async fn check_startable(
        &self,
        caller: &Arc<Caller>,
        verb: &RunWorkflow,
        checks_variables: bool,
    ) -> Result<(), String> {
        if let Some(file) = verb.workflow_file.as_deref().filter(|file| file.ends_with(".py")) {
            let path = caller.directory.join(file);
            let text = read_definition_file(path.clone()).await;
            let text = text.map_err(|error| format!("workflow file '{}' cannot be read: {error}", path.display()))?;
            let name = path.file_name().map_or_else(String::new, |name| Path::new(name).display().to_string());
            let declared = self.shared.workers.load(&name, &text).await;
            let declared = declared.map_err(|error| format!("the workflow is not valid:\n{error}"))?;
            let chosen = choose_workflow(&declared, verb.workflow_name.as_deref());
            return chosen.map(drop).map_err(|error| format!("'{}' {error}", path.display()));
        }
        let refusal = |reply: Box<RunReply>| reply.error.unwrap_or_else(|| "the workflow cannot run".to_owned());
        let RunTarget::Machine(definition, _) = self.shared.requested_target(caller, verb).await.map_err(refusal)?
        else {
            return Ok(());
        };
        let secret = definition.arguments().into_iter().filter(|argument| argument.is_secret()).find(|argument| {
            let is_given = |name: &&String| name.eq_ignore_ascii_case(argument.name());
            verb.initial_variables.iter().flatten().any(|(name, _)| is_given(&name))
        });
        if let Some(argument) = secret {
            return Err(format!(
                "the argument '{}' is a secret, which would be stored; let the workflow use {{secret:NAME}} of the \
                 settings instead: steplatch docs secrets",
                argument.name()
            ));
        }
        limits(verb).map_err(|error| error.to_string())?;
        if !checks_variables {
            return Ok(());
        }
        let variables = verb.initial_variables.clone().unwrap_or_default();
        let mut variables: Map<String, Value> = variables.into_iter().filter(|(_, value)| !value.is_null()).collect();
        machine::complete_variables(&definition, caller, &mut variables, None).map_err(|error| error.to_string())
    }
}
