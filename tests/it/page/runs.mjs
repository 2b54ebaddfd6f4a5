// Runs: their states on the diagram, paused and cancelled, again with another input, beside each other; and a workflow's source.

import { assert, given, isAccessible, isClean, open, play, shot, tell } from "./browser.mjs";

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
  await page.locator('.diagram g[data-outcome="waiting"], .diagram g[data-outcome="running"]').waitFor();
  assert.equal(await state("work").getAttribute("data-outcome"), "ok");
  assert.equal(await state("done").getAttribute("data-outcome"), null);
  await isAccessible(page);
  await shot(page, "diagram");
  await state("work").click();
  await page.locator(".detail").getByRole("heading", { name: "work" }).waitFor();

  // It is paused and resumed, and goes on once it is answered.
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("paused", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("button", { name: "Pause" }).waitFor();
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

  // Both beside each other.
  await page.getByLabel("Compare with another run").selectOption(first);
  await page.getByRole("heading", { name: "Two runs" }).waitFor();
  await page.locator("tr[data-differs]", { hasText: "done" }).waitFor();
  await page.getByText('+     "WHO": "ann"').waitFor();
  await page.getByLabel("Only what differs").check();
  await page.locator("tbody tr", { hasText: "work" }).waitFor({ state: "detached" });
  await isAccessible(page);
  await shot(page, "two-runs");

  // A saved workflow: its diagram, its last runs, its mistakes at their lines, and what changed since the last run.
  await tell({ saves: "changing" });
  await at("workflows/changing");
  await page.locator(".diagram .name").first().waitFor();
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByText("completed", { exact: true }).waitFor();
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
  isClean(page);
});
