// Choices and files of a person: the look of the page, kept filters, several runs at once, and files to and from a terminal.

import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { assert, given, isAccessible, isClean, open, play, resize, shot, tell } from "./browser.mjs";

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await open(context, given.url);
  const at = (place) => page.goto(new URL(`#/${place}`, page.url()).href);
  await page.getByRole("heading", { name: "Inbox" }).waitFor();

  // The page needs few requests: the document, a style, an icon, a script, and what it asks the server for.
  const requests = await page.evaluate(() => performance.getEntriesByType("resource").map((one) => one.name));
  assert.ok(requests.length <= 20, requests.join("\n"));

  // The look of the page, in all tabs at once, and after a reload.
  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByRole("heading", { name: "This browser" }).waitFor();
  await isAccessible(page);
  await shot(page, "settings");
  await page.emulateMedia({ colorScheme: "light" });
  const other = await open(context, page.url());
  await other.getByRole("heading", { name: "Settings" }).waitFor();
  const look = (one) => one.evaluate(() => ({ ground: getComputedStyle(document.body).backgroundColor, text: getComputedStyle(document.body).fontSize }));
  const [usual, before] = [await look(page), await look(other)];
  assert.deepEqual(usual, before);
  await page.getByLabel("Theme").selectOption("dark");
  await page.getByLabel("Text size").selectOption("130");
  const chosen = await look(page);
  assert.notEqual(chosen.ground, usual.ground);
  assert.equal(chosen.text, `${14 * 1.3}px`);
  await other.waitForFunction((text) => getComputedStyle(document.body).fontSize === text, chosen.text);
  assert.deepEqual(await look(other), chosen);
  await page.reload();
  await page.getByRole("heading", { name: "Settings" }).waitFor();
  assert.deepEqual(await look(page), chosen);
  await page.getByLabel("Times").selectOption("utc");
  await page.getByLabel("Text size").selectOption("100");
  await page.getByLabel("Theme").selectOption("system");
  assert.deepEqual(await look(page), usual);
  isClean(other);
  await other.close();

  // The overview counts the runs of the last day.
  const fails = { initial_state: "no", states: { no: { action: { tool: "fail", params: { message: "broken pipe" } } } } };
  const waits = { initial_state: "ask", states: { ask: { action: { tool: "gate", params: { prompt: "Go on?", answered_by: "anyone" } } } } };
  for (const name of ["alpha", "beta", "gamma"]) await tell({ starts: { ...fails, name } });
  const { run_id: waiting } = await tell({ starts: { ...waits, name: "patient" } });
  await at("overview");
  const failed = page.locator("dl.facts", { has: page.getByText("Failed", { exact: true }) }).getByRole("link", { name: "3", exact: true });
  await failed.waitFor();
  await isAccessible(page);
  await shot(page, "overview");
  await failed.click();
  await page.getByRole("heading", { name: "Runs" }).waitFor();
  await page.locator("tbody tr").nth(2).waitFor();

  // The filter is kept, and leads back to it.
  await page.getByRole("button", { name: "Keep this filter" }).click();
  await at("runs");
  await page.locator("tbody tr").nth(3).waitFor();
  await page.reload();
  const kept = page.getByRole("link", { name: "failed, last 24h" });
  await kept.click();
  await page.locator("tbody tr", { hasText: "patient" }).waitFor({ state: "detached" });
  assert.equal(await kept.getAttribute("aria-current"), "true");
  await page.getByRole("button", { name: "Forget this filter" }).click();
  await kept.waitFor({ state: "detached" });

  // Several runs at once: those that have ended run again, those in progress are cancelled. A second click is needed.
  await at("runs");
  await page.locator("tbody tr").nth(3).waitFor();
  await page.getByLabel("Select all runs that are shown").check();
  await page.getByText("4 runs selected").waitFor();
  await page.getByLabel("Select gamma").uncheck();
  await page.getByText("3 runs selected").waitFor();
  await isAccessible(page);
  await shot(page, "selected-runs");
  await page.getByRole("button", { name: "Run again 2 of them" }).click();
  await page.getByRole("button", { name: /^Run 2 runs again( in .*)?, with the same input\?$/ }).click();
  await page.locator("tbody tr").nth(5).waitFor();
  await page.getByText("1 run selected").waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("button", { name: "Cancel 1 run?" }).click();
  await page.locator("tbody tr", { hasText: waiting }).getByText("cancelled", { exact: true }).waitFor();
  await page.locator(".selection").waitFor({ state: "hidden" });
  const names = await page.locator("tbody tr td:nth-child(3) a").allTextContents();
  assert.deepEqual(names.toSorted(), ["alpha", "alpha", "beta", "beta", "gamma", "patient"]);
  // A deleted record leaves the list, and its run is not found any more.
  const removed = page.locator("tbody tr", { hasText: "patient" });
  const address = await removed.locator("td:nth-child(3) a").getAttribute("href");
  await removed.getByRole("checkbox").check();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await shot(page, "delete-run");
  await page.getByRole("button", { name: "Delete the record of 1 run?" }).click();
  await removed.waitFor({ state: "detached" });
  // A new tab first receives the last known lists, and then what changed.
  await page.reload();
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 5);
  await at(address.slice(2));
  await page.getByText(/Workflow run '.*' not found/).waitFor();
  await at("runs");
  await page.locator("tbody tr").nth(4).waitFor();
  // What was refused is said, and stays selected.
  await page.route("**/api/v1/runs", (route) => (route.request().method() === "POST" ? route.fulfill({ status: 422, json: { success: false, error: "no room" } }) : route.fallback()));
  await page.getByLabel("Select gamma").check();
  await page.getByRole("button", { name: "Run again", exact: true }).click();
  await page.getByRole("button", { name: /^Run 1 run again( in .*)?, with the same input\?$/ }).click();
  await page.getByText("1 of 1 not done.").waitFor();
  await page.getByText(/gamma run_\w+: no room/).waitFor();
  await page.getByRole("button", { name: "Clear" }).click();

  // Files: dropped on a terminal, chosen in the dialog, refused where one is there, and got back.
  const { session_id: terminal } = await tell({ opens: true });
  await at(`terminals/${terminal}`);
  await page.locator(".screen .row").first().waitFor();
  const large = Buffer.alloc(5 * 1024 * 1024 + 3, "steplatch\n");
  const here = mkdtempSync(join(tmpdir(), "story-"));
  writeFileSync(join(here, "large.bin"), large);
  writeFileSync(join(here, "small.txt"), "one\n");
  await page.getByRole("button", { name: "Files" }).click();
  const dialog = page.getByRole("dialog", { name: "Files" });
  await dialog.getByLabel("Files to send").setInputFiles([join(here, "large.bin"), join(here, "small.txt")]);
  await dialog.getByText("5.2 MB").waitFor();
  await isAccessible(page);
  await shot(page, "files");
  const folder = await dialog.getByLabel("To the directory").inputValue();
  await dialog.getByRole("button", { name: "Send", exact: true }).click();
  await dialog.getByText(`written: ${folder}/large.bin`).waitFor();
  await dialog.getByText(`written: ${folder}/small.txt`).waitFor();
  assert.ok(readFileSync(join(folder, "large.bin")).equals(large));
  writeFileSync(join(folder, "small.txt"), "two\n");
  await dialog.getByRole("button", { name: "Send", exact: true }).click();
  await dialog.getByText(`was there already: ${folder}/large.bin`).waitFor();
  await dialog.locator(".files .bad").waitFor();
  assert.equal(readFileSync(join(folder, "small.txt"), "utf8"), "two\n", "a file that is there is not replaced");
  await dialog.getByLabel("Replace existing files").check();
  await dialog.getByRole("button", { name: "Send", exact: true }).click();
  await dialog.getByText(`replaced: ${folder}/small.txt`).waitFor();
  assert.equal(readFileSync(join(folder, "small.txt"), "utf8"), "one\n");
  const arriving = page.waitForEvent("download");
  await dialog.getByLabel("File to get").fill(`${folder}/large.bin`);
  await dialog.getByRole("button", { name: "Get", exact: true }).click();
  const arrived = await arriving;
  assert.equal(arrived.suggestedFilename(), "large.bin");
  assert.ok(readFileSync(await arrived.path()).equals(large));
  await dialog.getByLabel("File to get").fill(`${folder}/missing`);
  await dialog.getByRole("button", { name: "Get", exact: true }).click();
  await dialog.locator("p.bad", { hasText: "missing" }).waitFor();
  await dialog.getByRole("button", { name: "Close" }).click();
  const dropped = await page.evaluateHandle(() => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(["three\n"], "dropped.txt"));
    return transfer;
  });
  await page.locator(".stage").first().dispatchEvent("drop", { dataTransfer: dropped });
  await dialog.getByText("dropped.txt").waitFor();
  await dialog.getByRole("button", { name: "Send", exact: true }).click();
  await dialog.getByText(`written: ${folder}/dropped.txt`).waitFor();
  assert.equal(readFileSync(join(folder, "dropped.txt"), "utf8"), "three\n");
  await dialog.getByRole("button", { name: "Close" }).click();

  // The size of text in terminals: by its buttons, and kept.
  const size = () => page.locator(".screen").first().evaluate((screen) => parseFloat(getComputedStyle(screen).fontSize));
  await resize(page, { width: 1800, height: 900 });
  const text = await size();
  await page.getByRole("button", { name: "Larger text" }).click();
  await page.waitForFunction((before) => parseFloat(getComputedStyle(document.querySelector(".screen")).fontSize) > before, text);
  await page.getByRole("button", { name: "Smaller text" }).click();
  await page.waitForFunction((before) => parseFloat(getComputedStyle(document.querySelector(".screen")).fontSize) === before, text);
  isClean(page);
});
