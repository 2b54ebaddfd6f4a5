// A captured workflow whose program asks in other words, and the patch that an agent proposes for its run.

import { tell } from "./browser.mjs";

/** What an agent says about its patch. */
export const REASON = "The installer asks in other words";

const setup = (question) => `echo Reading package lists\nprintf '${question} '\nread -r agreed\n[ "$agreed" = y ] || exit 3\necho Installed.\n`;

/** Has the agent capture a session, run it when the program has changed, and propose a patch. Returns the run. */
export async function proposed() {
  const { directory } = await tell({ writes: setup("Continue? [y/n]") });
  await tell({ calls: "open_terminal", with: { shell: "bash", name: "setup", working_directory: directory } });
  await tell({ calls: "send_input", with: { session_id: "setup", input_text: "sh setup.sh\n", until: "input" } });
  await tell({ calls: "send_input", with: { session_id: "setup", input_text: "y\n", until: "prompt" } });
  const captured = await tell({ calls: "capture_workflow", with: { session_ids: ["setup"], name: "setup", save: true } });
  const [state, { action }] = Object.entries(captured.workflow_definition.states).find(([, one]) => one.action.params.pattern);
  await tell({ writes: setup("Proceed with the installation?") });
  const { run_id: run } = await tell({ calls: "run_workflow", with: { workflow_name: "setup", wait_seconds: 20 } });
  const value = `${action.params.pattern}|^Proceed with the installation\\? *\\Z`;
  const patch = [{ op: "replace", path: `/states/${state}/action/params/pattern`, value }];
  const reply = await tell({ calls: "propose_patch", with: { run_id: run, reason: REASON, patch } });
  if (!reply.success) throw new Error(JSON.stringify(reply));
  return run;
}
