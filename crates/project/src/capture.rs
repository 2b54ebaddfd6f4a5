//! Capture of workflows from terminals: reads the logs, builds a machine, validates it and saves it.

use std::ffi::OsStr;

use async_recursion::async_recursion as boxed;
use steplatch_access::Caller;
use steplatch_capture::{CaptureRequest, CapturedMachine, Golden, ImportedRecording, KnownFacts, capture};
use steplatch_ids::WorkflowName;
use steplatch_library::Library;
use steplatch_protocol::{CaptureGuess, CaptureOmission, CaptureWorkflow, CaptureWorkflowReply, CreateWorkflow};
use steplatch_sessions::{CaptureRange, Sessions, TerminalTools};
use steplatch_workflow::Definition;

use crate::directories::LibrarySearch;
use crate::error::with_causes;
use crate::workflows::Workflows;

impl Workflows {
    /// Builds a workflow from the commands typed in terminals and saves it on request.
    #[boxed]
    pub async fn capture(&self, caller: &Caller, sessions: &Sessions, verb: CaptureWorkflow) -> CaptureWorkflowReply {
        let refusal = |error: String| CaptureWorkflowReply { error: Some(error), ..CaptureWorkflowReply::default() };
        if verb.session_ids.is_empty() && verb.imported.is_empty() {
            return refusal(
                "name the terminals to capture in session_ids; list_terminal_sessions lists them".to_owned(),
            );
        }
        if let Err(error) = verb.name.parse::<WorkflowName>() {
            return refusal(format!("'{}' is not a valid workflow name: {error}", verb.name));
        }
        let range = CaptureRange { from: verb.from, to: verb.to, since: verb.since.clone(), last: verb.last_commands };
        let mut logs = Vec::with_capacity(verb.session_ids.len());
        for session_id in &verb.session_ids {
            match sessions.session_log(session_id, range.clone()).await {
                Ok(log) => logs.push(log),
                Err(error) => return refusal(error),
            }
        }
        if !verb.compare_with.is_empty() && verb.compare_with.len() != logs.len() + verb.imported.len() {
            return refusal(format!(
                "against names {} terminals for a capture of {}: name as many, in the same order",
                verb.compare_with.len(),
                logs.len() + verb.imported.len()
            ));
        }
        let mut comparison_logs = Vec::with_capacity(verb.compare_with.len());
        for session_id in &verb.compare_with {
            if verb.session_ids.contains(session_id) {
                return refusal(format!(
                    "'{session_id}' is captured and compared with: name another terminal in against"
                ));
            }
            match sessions.session_log(session_id, CaptureRange::default()).await {
                Ok(log) if log.moments.is_empty() => {
                    return refusal(format!("nothing was typed into '{session_id}', which against names"));
                }
                Ok(log) => comparison_logs.push(log),
                Err(error) => return refusal(error),
            }
        }
        let (mut omitted_inputs, mut undecided) = (Vec::new(), Vec::new());
        for recording in &verb.imported {
            match serde_json::from_value::<ImportedRecording>(recording.clone()) {
                Ok(imported) => {
                    logs.push(imported.log);
                    omitted_inputs.extend(imported.omitted_inputs);
                    undecided.extend(imported.undecided);
                }
                Err(error) => return refusal(format!("imported has a log that cannot be read: {error}")),
            }
        }
        if logs.iter().all(|log| log.moments.is_empty()) && !verb.imported.is_empty() {
            let notes = undecided.iter().map(|sentence| format!("; {sentence}")).collect::<String>();
            return refusal(format!("the recording has no input from which to build a workflow{notes}"));
        }
        if logs.iter().all(|log| log.moments.is_empty()) {
            return refusal(
                "nothing was typed into it; `steplatch terminal inputs` lists the entries of its log".to_owned(),
            );
        }
        let sources: Vec<String> = logs.iter().map(|log| log.terminal.clone()).collect();
        let request = CaptureRequest {
            description: verb.description.clone().or_else(|| Some(format!("Captured from {}", sources.join(", ")))),
            name: Some(verb.name.clone()),
            argument_values: verb.inputs.clone().into_iter().collect(),
            keep_read_only_commands: verb.keep_read_only_commands,
            expected_files: verb.expect.clone(),
            compare_with: comparison_logs,
        };
        let facts = known_facts(caller);
        let result = tokio::task::spawn_blocking(move || capture(&logs, &facts, &request)).await;
        let Ok(mut captured) = result else {
            return refusal("the capture failed; steplatch doctor reports why".to_owned());
        };
        captured.omitted_inputs.extend(omitted_inputs);
        captured.undecided.extend(undecided);
        self.save_captured(caller, verb, sources, captured).await
    }

    /// Validates a captured machine, saves it if the request wants that, and builds the reply.
    async fn save_captured(
        &self,
        caller: &Caller,
        verb: CaptureWorkflow,
        sources: Vec<String>,
        captured: CapturedMachine,
    ) -> CaptureWorkflowReply {
        let guesses = captured.guesses.iter();
        let omissions = captured.omitted_inputs.iter();
        let mut reply = CaptureWorkflowReply {
            success: true,
            workflow_definition: captured.definition.clone(),
            guesses: guesses
                .map(|captured| CaptureGuess {
                    state: captured.state.clone(),
                    guess: captured.guess.clone(),
                    reason: captured.reason.clone(),
                })
                .collect(),
            left_out: omissions
                .map(|omission| CaptureOmission { input: omission.input.clone(), reason: omission.reason.clone() })
                .collect(),
            undecided: captured.undecided.clone(),
            ..CaptureWorkflowReply::default()
        };
        match Definition::parse(&captured.definition, &TerminalTools) {
            Ok(definition) => reply.warnings = definition.warnings().iter().map(ToString::to_string).collect(),
            Err(problems) => {
                let error = format!(
                    "the captured workflow is not valid; correct it and save it with create_workflow:\n{problems}"
                );
                return CaptureWorkflowReply { success: false, error: Some(error), ..reply };
            }
        }
        if verb.save && captured.is_incomplete {
            let error = "the workflow was not saved, because it is incomplete: undecided lists what is missing; correct it and \
                         save it with create_workflow";
            return CaptureWorkflowReply { success: false, error: Some(error.to_owned()), ..reply };
        }
        if !verb.save {
            reply.next_step = Some("save it with save: true, or edit it and save it with create_workflow".to_owned());
            return reply;
        }
        let create = CreateWorkflow {
            workflow_definition: captured.definition.clone(),
            overwrite_existing: verb.overwrite_existing,
            reason: Some(format!("captured from {}", sources.join(", "))),
        };
        let created = self.create(caller, create).await;
        let Some(path) = created.path.filter(|_| created.success) else {
            return CaptureWorkflowReply { success: false, error: created.error, ..reply };
        };
        reply.path = Some(path);
        let (library_search, text) = (
            LibrarySearch::for_caller(caller),
            Golden::from_captured(&captured, &verb.name, &steplatch_clock::now_iso8601()).text(),
        );
        let name = verb.name.clone();
        let saved = self.disk.run_write(move || {
            let name: WorkflowName = name.parse().map_err(|error| format!("{error}"))?;
            Library::open(&library_search.directories().first)
                .put_golden(&name, &text)
                .map_err(|error| with_causes(&error))
        });
        match saved.await {
            Ok(Ok(file)) => reply.golden_path = Some(file.display().to_string()),
            Ok(Err(error)) => reply.warnings.push(format!("its golden transcript was not saved: {error}")),
            Err(error) => reply.warnings.push(format!("its golden transcript was not saved: {error}")),
        }
        let next = format!(
            "steplatch workflow test {0} plays it against its log; steplatch workflow prove {0} runs it twice",
            verb.name
        );
        reply.next_step = Some(next);
        reply
    }
}

/// Returns the known facts about this computer and the caller.
fn known_facts(caller: &Caller) -> KnownFacts {
    let variable = |name: &str| {
        let found = caller.environment.iter().find(|(known, _)| known == OsStr::new(name));
        found.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default()
    };
    KnownFacts {
        home: variable("HOME"),
        directory: caller.directory.display().to_string(),
        user: variable("USER"),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        ..KnownFacts::default()
    }
}
