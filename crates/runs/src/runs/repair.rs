//! Patches of machines whose runs stopped at an unknown screen.

use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use steplatch_access::Caller;
use steplatch_capture::irreversible_inputs;
use steplatch_ids::{RunId, StepId};
use steplatch_project::{RecordingCheck, RecordingError};
use steplatch_protocol::{EngineKind, ProposePatch, ProposePatchReply};
use steplatch_sessions::TerminalTools;
use steplatch_workflow::{Definition, Input, PatchError, Proposal, asks_about_patch, line_diff, patched, weakenings};

use crate::definition_source::DefinitionSource;
use crate::lookup::RunLookupError;
use crate::run::{Disposition, Run, RunState};
use crate::runs::Runs;

/// Time limit for a driver to store a proposal.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum characters of a reason.
const MAX_REASON_CHARS: usize = 1000;

/// Failure to propose a patch to a person.
#[derive(Debug, thiserror::Error)]
enum ProposalError {
    /// There is no such run.
    #[error(transparent)]
    Run(#[from] RunLookupError),
    /// The run does not wait at a gate that a patch answers.
    #[error(
        "the run is {} and asks nowhere how to go on after a screen that its workflow does not know (a state with \"on_unknown\": \
         \"ask\"), so there is nothing to repair; change the saved workflow with create_workflow", .state.name()
    )]
    NotStopped {
        /// The state of the run.
        state: RunState,
    },
    /// The run is on Temporal, where workers use only the first definition of a run.
    #[error(
        "run {run} is on Temporal, and such a run keeps its first workflow; answer its gate with decide, change the \
         saved workflow with create_workflow for later runs, or run it with --on sqlite, where a patch is possible"
    )]
    OnTemporal {
        /// The run.
        run: RunId,
    },
    /// Another patch already waits for a person.
    #[error(
        "a patch of this run is already proposed, and a person must decide about it first: gate {gate}; get_run with wait_seconds waits for it"
    )]
    Pending {
        /// Gate of the proposal.
        gate: StepId,
    },
    /// Several descendants of the named run wait.
    #[error("several runs wait; name one of them: {}", .0.join(", "))]
    Several(Vec<String>),
    /// The reason is missing or too long.
    #[error("reason is required: a sentence for the person who decides, at most {MAX_REASON_CHARS} characters")]
    NoReason,
    /// The patch is refused.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// A recording does not pass with the patch.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The patch would store the value of a secret in the library, in plain text.
    #[error("the patch contains the value of a secret; replace it with the argument, such as {{secret:password}}")]
    Secret,
    /// The run continued in the meantime, or its journal refused the proposal.
    #[error("the run no longer waits at that gate; look with get_run")]
    Meanwhile,
}

impl Runs {
    /// Checks a patch of the machine of a run and proposes it to a person. A refused patch changes nothing.
    #[boxed]
    pub async fn propose_patch(&self, caller: &Caller, verb: ProposePatch) -> ProposePatchReply {
        let run_id = verb.run_id.clone();
        let mut reply = ProposePatchReply { run_id, ..ProposePatchReply::default() };
        match self.propose(caller, verb, &mut reply).await {
            Ok(gate) => {
                reply.success = true;
                let (id, digits) = (gate.to_string(), reply.run_id.clone());
                reply.next_step = Some(format!(
                    "a person accepts or declines it: steplatch gates answer {id}, or on the page; get_run with run_id {digits} and wait_seconds waits for it"
                ));
                reply.gate_id = Some(id);
            }
            Err(error) => reply.error = Some(error.to_string()),
        }
        self.mask(&mut reply);
        reply
    }

    fn mask(&self, reply: &mut ProposePatchReply) {
        let secrets = &self.shared.secrets;
        let ProposePatchReply { difference, weakens, checked, error, .. } = reply;
        for text in [difference].into_iter().chain(weakens).chain(checked).chain(error) {
            *text = secrets.masked(std::mem::take(text));
        }
    }

    async fn propose(
        &self,
        caller: &Caller,
        verb: ProposePatch,
        reply: &mut ProposePatchReply,
    ) -> Result<StepId, ProposalError> {
        let reason = verb.reason.trim();
        if reason.is_empty() || reason.chars().count() > MAX_REASON_CHARS {
            return Err(ProposalError::NoReason);
        }
        let mut masked = verb.patch.clone();
        self.shared.secrets.mask_in(&mut masked);
        if masked != verb.patch {
            return Err(ProposalError::Secret);
        }
        let (run, step, before) = self.find_stopped(&verb.run_id).await?;
        reply.run_id = run.id.to_string();
        let after = patched(&before, &step.place, &verb.patch, &TerminalTools)?;
        reply.difference = difference(&before, &after);
        let RecordingCheck { checked, lines } = self.check_recordings(&run, &before, &after).await?;
        // List irreversible changes first, so that a long list does not hide them.
        let mut weakened = irreversible_inputs(&before, &after);
        weakened.extend(weakenings(&before, &after, &lines));
        reply.weakens = weakened.iter().map(ToString::to_string).collect();
        reply.checked.clone_from(&checked);
        let reason_and_author = (reason.trim_end_matches('.').to_owned(), caller.display_name().await);
        let differs = reply.difference.clone();
        let proposal = Proposal::new(&after, &step.place, verb.patch, reason_and_author, differs, (&weakened, checked));
        let input = Input::PatchProposed { step, proposal: Box::new(proposal) };
        match run.request(input, STORE_TIMEOUT).await {
            Some(Disposition::Recorded) => {}
            Some(Disposition::Ignored) | None => return Err(ProposalError::Meanwhile),
        }
        let gates = run.progress().gates;
        gates.first().map(|gate| gate.step.clone()).ok_or(ProposalError::Meanwhile)
    }

    /// Returns the stopped run (the named run or a descendant), with its gate and its machine.
    async fn find_stopped(&self, id: &str) -> Result<(Arc<Run>, StepId, Arc<Definition>), ProposalError> {
        let named_run = self.find_by_text(id).await?;
        let stopped_at = |run: Arc<Run>| run.progress().repairable.map(|(step, machine)| (run.clone(), step, machine));
        let mut all: Vec<_> = self.family(&named_run).into_iter().filter_map(stopped_at).collect();
        match (all.pop(), all.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) => {
                let waits_on_temporal =
                    |run: &Arc<Run>| run.header.engine != EngineKind::Sqlite && !run.progress().gates.is_empty();
                if let Some(run) = self.family(&named_run).into_iter().find(waits_on_temporal) {
                    return Err(ProposalError::OnTemporal { run: run.id.clone() });
                }
                let mut open = self.family(&named_run).into_iter().flat_map(|run| run.progress().gates);
                let pending = open.find(|gate| asks_about_patch(&gate.step));
                Err(match pending {
                    Some(gate) => ProposalError::Pending { gate: gate.step },
                    None => ProposalError::NotStopped { state: named_run.state() },
                })
            }
            (Some(last), false) => {
                let runs = all.iter().chain([&last]).map(|(run, ..)| run.id.to_string()).collect();
                Err(ProposalError::Several(runs))
            }
        }
    }

    async fn check_recordings(
        &self,
        run: &Run,
        before: &Definition,
        after: &Definition,
    ) -> Result<RecordingCheck, RecordingError> {
        match &run.header.source {
            DefinitionSource::Saved { directory, name } => {
                self.shared.workflows.check_recordings(directory, name, before, after).await
            }
            _ => {
                let sentence =
                    "It is not saved in a library, so there is no recording of it; the patch applies only to this run";
                Ok(RecordingCheck { checked: vec![sentence.to_owned()], lines: Vec::new() })
            }
        }
    }
}

/// Returns the difference between two definitions, line by line.
fn difference(before: &Definition, after: &Definition) -> String {
    let text = |definition: &Definition| format!("{:#}\n", definition.document());
    let name = before.name().map_or("workflow", |name| name.as_str());
    line_diff::diff_named((name, &text(before)), (&format!("{name} (patched)"), &text(after)))
}
