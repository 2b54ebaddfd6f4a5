// Runs: their states on the diagram, paused and cancelled, again with another input, beside each other; and a workflow's source.

import { assert, given, isAccessible, isClean, open, play, resize, shot, tell } from "./browser.mjs";

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await open(context, given.url);
  const at = (place) => page.goto(new URL(`#/${place}`, page.url()).href);

  // A run that waits: its states on the diagram, as they are and as they become.
  const greeting = {
    name: "greeting",
    initial_state: "work",
    states: {
      work: { action: { tool: "sleep", params: { seconds: 0 } }, transitions: [{ condition: "success", next_state: "ask" }] },
      ask: { action: { tool: "gate", params: { prompt: "Greet {WHO}?", choices: ["yes", "no"], answered_by: "anyone" } }, transitions: [{ condition: "success", next_state: "done" }] },
      done: { action: { tool: "sleep", params: { seconds: 0 } } },
    },
  };
  const { run_id: first } = await tell({ starts: greeting, variables: { WHO: "ann" } });
  await at(`runs/${first}`);
  const state = (name) => page.locator(".diagram g", { has: page.locator("text.name", { hasText: new RegExp(`^${name}$`) }) });
  // The step that waits is the chosen one, and the input is above the steps.
  await page.locator(".detail").getByRole("heading", { name: "Greet ann?" }).waitFor();
  assert.match(await page.locator(".ends").getByLabel("Input").textContent(), /"WHO": "ann"/);
  const tops = await page.locator(".ends, .steps").evaluateAll((parts) => parts.map((part) => part.getBoundingClientRect().top));
  assert.deepEqual(tops, tops.toSorted((one, other) => one - other));
  await page.getByRole("button", { name: "Diagram" }).click();
  await page.locator('.diagram g[data-outcome="waiting"], .diagram g[data-outcome="running"]').waitFor();
  assert.equal(await state("work").getAttribute("data-outcome"), "ok");
  assert.equal(await state("done").getAttribute("data-outcome"), null);
  await isAccessible(page);
  await shot(page, "diagram");
  // A state is found by its name, and the picture has any size.
  await page.getByLabel("Find a state").fill("wo");
  await page.getByText("1 of 1").waitFor();
  assert.equal(await state("work").getAttribute("data-current"), "");
  await page.getByRole("button", { name: "Smaller" }).click();
  await page.getByText("80 %").waitFor();
  await page.getByRole("button", { name: "1:1" }).click();
  await page.getByText("100 %").waitFor();
  await page.getByLabel("Find a state").fill("nowhere");
  await page.getByText("No state").waitFor();
  await page.getByLabel("Find a state").fill("");
  // A step of the diagram is shown beside it.
  await state("work").click();
  await page.locator(".detail").getByRole("heading", { name: "work" }).waitFor();

  // It is paused and resumed, and goes on once it is answered.
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await page.getByText("paused", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
  await tell({ answers: first, answer: "yes" });
  await page.getByText("completed", { exact: true }).waitFor();
  await page.locator('.diagram g[data-outcome="ok"]').nth(2).waitFor();

  // Again, with another input; then it is cancelled.
  await page.getByRole("link", { name: "Run again" }).click();
  const who = page.getByLabel("WHO");
  assert.equal(await who.inputValue(), "ann");
  await isAccessible(page);
  await who.fill("bo");
  await page.getByRole("button", { name: "Start again" }).click();
  await page.getByText("It asks: Greet bo?").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("cancelled", { exact: true }).first().waitFor();

  await page.locator('.step[data-outcome="cancelled"]').first().waitFor();
  // A cancel is no failure.
  await page.locator("main > .hint:not([hidden])", { hasText: "cancelled" }).waitFor();
  assert.equal(await page.locator("main > .problem:visible").count(), 0);
  await isAccessible(page);

  // Both beside each other.
  await page.getByLabel("Compare with another run").selectOption(first);
  await page.getByRole("heading", { name: "Two runs" }).waitFor();
  await page.locator("tr[data-differs]", { hasText: "done" }).waitFor();
  await page.getByText('+   "WHO": "ann"').waitFor();
  await page.getByLabel("Only what differs").check();
  await page.locator("tbody tr", { hasText: "work" }).waitFor({ state: "detached" });
  await isAccessible(page);
  await shot(page, "two-runs");

  // A saved workflow: its diagram, its last runs, its mistakes at their lines, and what changed since the last run.
  await tell({ saves: "changing" });
  await at("workflows/changing");
  await page.locator(".diagram .name").first().waitFor();
  // A record that was read while the run was in progress arrives after the list in which it has ended.
  const isOver = page.waitForFunction(() => document.querySelector("main .head .chip")?.textContent === "completed");
  const record = { workflow_id: "changing", state: "running", started_at: new Date().toISOString() };
  await page.route("**/record", async (route) => {
    await isOver;
    await route.fulfill({ json: { run: { ...record, run_id: route.request().url().split("/").at(-2) } } });
  });
  const late = page.waitForResponse("**/record");
  await page.getByRole("button", { name: "Start" }).click();
  await late;
  await page.unroute("**/record");
  await page.evaluate(() => new Promise((over) => requestAnimationFrame(() => requestAnimationFrame(over))));
  assert.equal(await page.locator("main .head .chip").textContent(), "completed");
  await tell({ changes: "changing" });
  await at("workflows/changing");
  await page.getByRole("heading", { name: "Changed since version 1" }).waitFor();
  await page.getByRole("table", { name: "Versions" }).getByText("version 2").waitFor();
  await page.locator('.text-line[data-is="new"]', { hasText: "seconds" }).waitFor();
  await page.locator(".mistake").first().waitFor();
  await page.getByRole("heading", { name: "Last runs" }).waitFor();
  await page.getByLabel("Compared with").selectOption("its last run");
  await page.getByRole("heading", { name: "Changed since its last run" }).waitFor();
  await page.locator('.text-line[data-is="new"]', { hasText: "seconds" }).waitFor();
  await isAccessible(page);
  await shot(page, "source");

  // It is edited: mistakes are at their lines, what was saved elsewhere is not replaced, and a new version is saved.
  await tell({ saves: "edited" });
  await at("workflows/edited");
  const editing = async () => {
    await page.getByRole("button", { name: "Edit" }).click();
    return page.getByLabel("Definition").and(page.locator("textarea"));
  };
  let text = await editing();
  const definition = JSON.parse(await text.inputValue());
  await text.fill('{\n  "name": "edited",\n  states\n}');
  await page.getByRole("button", { name: "Save as a new version" }).click();
  await page.getByRole("alert").filter({ hasText: "Line 3:" }).waitFor();
  await text.fill(JSON.stringify({ ...definition, name: "other" }));
  await page.getByRole("button", { name: "Save as a new version" }).click();
  await page.getByRole("alert").filter({ hasText: "The name stays edited" }).waitFor();
  await text.fill(JSON.stringify({ ...definition, states: { work: { action: { tool: "slep", params: {} } } } }));
  await page.getByRole("button", { name: "Save as a new version" }).click();
  await page.getByLabel("Mistakes").locator(".mistake", { hasText: "slep" }).waitFor();
  assert.match(await text.inputValue(), /\n  "states": /, "the text has the lines that are numbered");
  await isAccessible(page);
  await shot(page, "edit");
  const better = { ...definition, description: "Waits, and says why.", states: { work: { action: { tool: "sleep", params: { seconds: 0.02 } } } } };
  await text.fill(JSON.stringify(better));
  await page.getByLabel("Reason").fill("what it is for");
  await page.getByRole("button", { name: "Save as a new version" }).click();
  await page.getByRole("table", { name: "Versions" }).getByText("what it is for").waitFor();
  await page.getByText("Waits, and says why.").first().waitFor();
  // Where a passphrase is set, it is needed.
  await tell({ passphrase: "correct horse" });
  text = await editing();
  await page.getByLabel("Passphrase").waitFor();
  const best = { ...better, description: "Waits well." };
  await text.fill(JSON.stringify(best));
  await page.getByRole("button", { name: "Save as a new version" }).click();
  await page.getByRole("alert").filter({ hasText: "Type the approver's passphrase first" }).waitFor();
  await page.getByLabel("Passphrase").fill("wrong horse");
  await page.getByRole("button", { name: "Save as a new version" }).click();
  await page.getByRole("alert").filter({ hasText: "Wrong passphrase" }).waitFor();
  await isAccessible(page);
  assert.equal(await page.getByText("Waits well.").count(), 0);
  // The next attempt is checked after a pause.
  while (!(await page.getByText("Waits well.").count())) {
    await page.getByLabel("Passphrase").fill("correct horse");
    await page.getByRole("button", { name: "Save as a new version" }).click();
    await page.getByText("Waits well.").or(page.getByRole("alert")).first().waitFor();
  }
  text = await editing();
  await tell({ saves: "edited" });
  await page.getByLabel("Passphrase").fill("correct horse");
  await text.fill(JSON.stringify({ ...best, description: "Too late." }));
  await page.getByRole("button", { name: "Save as a new version" }).click();
  await page.getByRole("alert").filter({ hasText: "saved elsewhere" }).waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("button", { name: "Discard the changes?" }).click();
  await page.getByRole("button", { name: "Edit" }).waitFor();
  assert.equal(await page.getByText("Too late.").count(), 0);

  // Branches at the same time are in lanes; the steps of the runs that they started open below them.
  const branch = (seconds) => ({ workflow_definition: { name: "nap", initial_state: "sleep_well", states: { sleep_well: { action: { tool: "sleep", params: { seconds } } } } } });
  const both = { name: "both", initial_state: "naps", states: { naps: { action: { tool: "parallel", params: { workflows: { long: branch(0.6), short: branch(0.4) } } } } } };
  const { run_id: outer } = await tell({ starts: both, variables: {} });
  await at(`runs/${outer}`);
  await page.getByText("completed", { exact: true }).first().waitFor();
  await page.locator(".abreast rect").nth(1).waitFor();
  const ys = await page.locator(".abreast rect").evaluateAll((bars) => bars.map((bar) => bar.getAttribute("y")));
  assert.deepEqual([...new Set(ys)].length, 2, ys.join(" "));
  const unfold = page.getByRole("button", { name: /^Steps of long, run run_/ });
  await unfold.click();
  const within = page.getByRole("button", { name: /sleep_well/ });
  await within.click();
  await page.locator(".detail").getByRole("heading", { name: "sleep_well" }).waitFor();
  assert.equal(await unfold.getAttribute("aria-expanded"), "true");
  await isAccessible(page);
  await shot(page, "branches");
  await resize(page, { width: 390, height: 780 });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is wider than a phone");
  await shot(page, "branches-phone");
  await resize(page, { width: 1280, height: 900 });
  await unfold.click();
  await within.waitFor({ state: "detached" });

  // The list is filtered by the server, and its address has the filter. A cancel is not red, and an empty result says nothing.
  await at("runs");
  await page.getByRole("link", { name: "both" }).waitFor();
  const cancelled = page.locator("tbody tr", { hasText: "cancelled" }).first().locator("td").last();
  assert.ok((await cancelled.textContent()) && !(await cancelled.getAttribute("class")).includes("bad"));
  assert.equal(await page.getByText("{}", { exact: true }).count(), 0);
  await page.getByLabel("State").selectOption("cancelled");
  await page.getByRole("link", { name: "both" }).waitFor({ state: "detached" });
  await page.getByRole("link", { name: "greeting" }).waitFor();
  await page.getByLabel("State").selectOption("");
  await page.getByLabel("Workflow", { exact: true }).fill("nap");
  await page.getByRole("link", { name: "nap" }).nth(1).waitFor();
  await page.getByLabel("Since").selectOption("1h");
  await page.getByLabel("Text or id").fill(outer);
  await page.getByText("No run matches.").waitFor();
  await page.waitForFunction((id) => location.hash === `#/runs?workflow=nap&since=1h&text=${id}`, outer);
  await page.getByLabel("Workflow", { exact: true }).fill("");
  await page.getByRole("link", { name: "both" }).waitFor();
  await isAccessible(page);
  await shot(page, "runs-filtered");
  await page.reload();
  await page.getByRole("link", { name: "both" }).waitFor();
  assert.equal(await page.getByLabel("Text or id").inputValue(), outer);
  assert.equal(await page.locator("tbody tr").count(), 1);
  isClean(page);
});
