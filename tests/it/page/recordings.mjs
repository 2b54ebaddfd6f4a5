// Recordings: listed, replayed at a speed with seek and pause, with marks of runs; from a step into its recording; a secret nowhere.

import { assert, given, isAccessible, isClean, open, play, resize, shot, tell } from "./browser.mjs";

const SECRET = "hunter2-and-more";

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await open(context, given.url);
  /** What the server sent of recordings. */
  const replies = [];
  page.on("response", async (response) => {
    if (response.url().includes("/recordings")) replies.push(await response.text().catch(() => ""));
  });

  // A terminal is recorded while a run and an agent work in it.
  await tell({ agent: "opens" });
  await page.getByRole("link", { name: /work/ }).first().waitFor();
  await tell("records");
  // The mark of the run shows this line only if it is recorded before the run begins. The quotes keep it out of the echo.
  await tell({ agent: "types", text: "clear; echo first-''line\n" });
  await tell({ recorded: "first-line" });
  const machine = {
    name: "build",
    initial_state: "compile",
    states: { compile: { action: { tool: "run_command", params: { session_id: "work", command: "printf '\\033[32mcompiled\\033[m %s\\n' app; sleep 3" } } } },
  };
  const { run_id: run } = await tell({ starts: machine });
  await tell({ agent: "types", text: "head -n 1 | tac; echo last-line\n" });
  await tell({ agent: "hides", text: `${SECRET}\n` });
  await tell({ agent: "waits", pattern: "^last-line" });
  await tell("ends");

  // It is listed, and its end can be sought.
  await page.getByRole("link", { name: "Terminals" }).click();
  await page.getByRole("link", { name: "Recordings" }).click();
  await isAccessible(page);
  await shot(page, "recordings");
  await page.getByRole("link", { name: "work", exact: true }).click();
  await page.getByRole("heading", { name: "work" }).waitFor();
  const rows = page.locator(".stage > .screen .row");
  const position = page.getByLabel("Time");
  const clock = () => position.inputValue().then(Number);
  const length = Number(await position.getAttribute("max"));
  assert.ok(length > 300, String(length));
  await position.focus();
  await page.keyboard.press("End");
  await rows.filter({ hasText: /^last-line/ }).waitFor();

  // The marks: where the run began, and its state. A click shows the screen of that time.
  const mark = page.locator(".marks li", { hasText: "compile" });
  await mark.getByRole("button").waitFor();
  await page.locator(".marks li", { hasText: "build began" }).waitFor();
  await shot(page, "recording");
  await isAccessible(page);
  await mark.getByRole("button").click();
  await rows.filter({ hasText: /^last-line/ }).waitFor({ state: "detached" });
  await rows.filter({ hasText: /^first-line/ }).waitFor();

  // It is played from there, paused, and goes on at another speed to the end.
  const before = await clock();
  await page.getByLabel("Speed").selectOption("0.5");
  await page.getByLabel(/Skip pauses/).uncheck();
  await page.getByRole("button", { name: "Play" }).click();
  await page.waitForFunction((before) => Number(document.querySelector('[aria-label="Time"]').value) > before + 40, before);
  await page.getByRole("button", { name: "Pause" }).click();
  const paused = await clock();
  assert.ok(paused < length, "the pause is replayed");
  await page.getByRole("button", { name: "Play" }).waitFor();
  assert.equal(await clock(), paused);
  await page.getByLabel("Speed").selectOption("16");
  await page.getByRole("button", { name: "Play" }).click();
  await rows.filter({ hasText: /^last-line/ }).waitFor();
  await page.getByRole("button", { name: "Play" }).waitFor();
  assert.equal(await clock(), length);
  assert.ok((await page.locator(".screen span", { hasText: "compiled" }).last().getAttribute("class"))?.startsWith("s"), "colours are those of the program");

  // A step of the run leads into the recording.
  await page.goto(new URL(`#/runs/${run}`, page.url()).href);
  await page.getByRole("button", { name: /compile/ }).click();
  await page.getByRole("link", { name: "Recording, from this step on" }).click();
  await page.getByRole("heading", { name: "work" }).waitFor();
  await rows.filter({ hasText: /^first-line/ }).waitFor();
  assert.ok((await clock()) > 0);
  assert.equal(await rows.filter({ hasText: /^last-line/ }).count(), 0);
  await resize(page, { width: 390, height: 780 });
  await shot(page, "recording-phone");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is wider than a phone");
  await resize(page, { width: 1280, height: 900 });

  // A damaged file is shown as far as it can be read.
  await tell("cuts");
  await page.reload();
  await page.getByText("Not all of this recording can be read: the file ends within line").waitFor();
  await page.locator(".stage > .screen .row").first().waitFor();
  await shot(page, "recording-damaged");
  await tell("breaks");
  await page.reload();
  await page.getByText("not an asciicast recording").waitFor();

  const told = replies.join("\n");
  assert.ok(told.includes("first-line") && told.includes("••••"), "frames were looked at");
  assert.ok(!told.includes(SECRET) && !(await page.content()).includes(SECRET), "the secret appears nowhere");
  page.mistakes = page.mistakes.filter((mistake) => !mistake.includes("422"));
  isClean(page);
});
