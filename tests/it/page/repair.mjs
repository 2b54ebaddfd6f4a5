// A repair: the person judges the patch of a captured workflow, accepts it with the passphrase, and every place says that the run is
// repaired.

import { given, isAccessible, isClean, open, play, resize, shot, tell } from "./browser.mjs";
import { proposed, REASON } from "./proposal.mjs";

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1040, height: 1010 } });
  const page = await open(context, given.url);
  const at = (place) => page.goto(new URL(`#/${place}`, page.url()).href);
  await page.getByRole("heading", { name: "Terminals" }).waitFor();
  const run = await proposed();

  // The question has the patch as a difference, the reason, and what the run saw.
  await at("gates");
  await page.getByRole("heading", { name: /proposes a patch/ }).waitFor();
  await page.locator('.judged .text-line[data-is="new"]', { hasText: "Proceed with the installation" }).waitFor();
  await page.locator('.judged .text-line[data-is="gone"]', { hasText: "Continue" }).waitFor();
  await page.getByText(REASON).first().waitFor();
  await isAccessible(page);
  await shot(page, "patch");
  await resize(page, { width: 390, height: 780 });
  await shot(page, "patch-phone");
  await resize(page, { width: 1040, height: 820 });

  // It is accepted like any other question for people.
  await page.getByLabel("Approver's passphrase").fill("correct horse");
  // A button that was drawn anew does nothing at first.
  await page.locator(".answers button:not([data-inert]):not([disabled])", { hasText: /^accept/ }).first().click();
  await page.getByText(/^Answered/).waitFor();

  // The run says so, in its view and in the list, and the library has its version.
  await at(`runs/${run}`);
  await page.getByText("completed", { exact: true }).first().waitFor();
  await page.getByText(`Repaired: ${REASON}`).waitFor();
  await page.getByRole("button", { name: "Diagram" }).click();
  await page.locator('.diagram g[data-outcome="ok"]').first().waitFor();
  await isAccessible(page);
  await shot(page, "repaired-run");
  await resize(page, { width: 390, height: 780 });
  await shot(page, "repaired-run-phone");
  await resize(page, { width: 1040, height: 820 });
  await at("runs");
  await page.getByRole("row", { name: /setup/ }).getByText("repaired", { exact: true }).waitFor();
  await isAccessible(page);
  await at("workflows/setup");
  await page.getByRole("table", { name: "Versions" }).getByText(REASON).waitFor();
  await page.locator('.text-line[data-is="new"]', { hasText: "Proceed with the installation" }).first().waitFor();
  await isAccessible(page);
  await shot(page, "repaired-workflow");
  isClean(page);
});
