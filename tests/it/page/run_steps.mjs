// One run: its result or error and its input first, what a function printed and emitted as steps, a filter, and two runs that did the same.

import { readFileSync } from "node:fs";

import { assert, given, isAccessible, isClean, open, play, shot, tell } from "./browser.mjs";

const TELLS = `
async def tells(ctx):
    print("first line\\nsecond line")
    ctx.emit("draft_ready", {"round": 1})
    for number in range(9):
        await ctx.run("say", f"step {number}")
    return {"answer": 42}

BashNode(id="say", session=session, command="echo said {input}")
Workflow(id="tells", session=session, fn=tells)
`;

const TICKS = `
async def ticks(ctx):
    for number in range(5000):
        ctx.emit("tick", {"number": number})

Workflow(id="ticks", session=session, fn=ticks)
`;

const REPEATS = `
async def repeats(ctx):
    for _ in range(6):
        ctx.emit("again", {"same": True})
    await ctx.run("lists")

BashNode(id="lists", session=session, command="printf 'one\\\\ntwo\\\\n'")
Workflow(id="repeats", session=session, fn=repeats)
`;

const NOTHING = `
async def nothing(ctx):
    return None

Workflow(id="nothing", session=session, fn=nothing)
`;

const BREAKS = `
async def breaks(ctx):
    await ctx.run("fails")
    await ctx.run("works")
    raise ValueError("the disk is full")

BashNode(id="fails", session=session, command="echo to no avail >&2; exit 3")
BashNode(id="works", session=session, command="true")
Workflow(id="breaks", session=session, fn=breaks)
`;

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await open(context, given.url);
  const at = (place) => page.goto(new URL(`#/${place}`, page.url()).href);
  const runs = async (name, text, ...inputs) => {
    await tell({ writes: `${name}.py`, text });
    const { run_id } = await tell({ run: ["run", `${name}.py`, "--json", ...inputs] });
    await at(`runs/${run_id}`);
    await page.getByRole("heading", { name, level: 1 }).waitFor();
  };
  const ends = page.locator(".ends");
  const step = (name) => page.locator(".step", { has: page.locator(".step-name", { hasText: new RegExp(`^${name}$`) }) });

  // The result and the input are at the top; printed texts, events and calls are rows with what they are about.
  await runs("tells", TELLS, "-i", "subject=news");
  assert.match(await ends.getByLabel("Result").textContent(), /"answer": 42/);
  assert.match(await ends.getByLabel("Parameters").textContent(), /"subject": "news"/);
  assert.match(await step("print").locator(".gist").textContent(), /^first line$/);
  assert.match(await step("draft_ready").locator(".gist").textContent(), /^round=1$/);
  assert.equal(await step("say").first().locator(".gist").textContent(), "step 0 → said step 0");
  await page.locator(".detail").getByRole("heading", { name: "say" }).waitFor();
  await isAccessible(page);
  await shot(page, "run-result");
  await step("print").click();
  assert.equal(await page.locator(".detail").getByLabel("Output").textContent(), "first line\nsecond line");

  // Steps are found by their texts.
  await page.getByLabel("Filter steps").fill("STEP 7");
  await page.getByText("1 of 11").waitFor();
  assert.equal(await step("say").count(), 1);
  await page.getByLabel("Filter steps").fill("nowhere");
  await page.getByText("No step matches.").waitFor();
  await isAccessible(page);
  // No time is cut.
  await page.getByLabel("Filter steps").fill("");
  await step("say").first().waitFor();
  assert.ok(await page.locator(".took").evaluateAll((times) => times.every((time) => {
    time.textContent = "26 min 59 s";
    return time.scrollWidth <= time.clientWidth;
  })));

  // A run that only emits has rows, and one that does nothing says so in a line.
  await runs("ticks", TICKS);
  await page.waitForFunction(() => document.querySelector(".steps").dataset.count === "5000");
  await page.locator(".step .gist", { hasText: /^number=4999$/ }).waitFor();
  // Equal steps are one row, until one wants to see each of them. A step has an address, and all of the run is a file.
  await runs("repeats", REPEATS);
  await step("lists").waitFor();
  assert.deepEqual(await page.locator(".step-name").allTextContents(), ["again × 6", "lists"]);
  await page.getByRole("button", { name: "6 equal steps again" }).click();
  await page.locator(".step").nth(6).waitFor();
  await page.getByRole("button", { name: "Equal steps again" }).click();
  await page.locator(".step").nth(2).waitFor({ state: "detached" });
  await isAccessible(page);
  await shot(page, "equal-steps");
  await step("lists").click();
  assert.equal(await page.locator(".detail").getByLabel("Output", { exact: true }).textContent(), "one\ntwo");
  await page.locator(".step", { hasText: "again × 6" }).click();
  const address = await page.getByRole("link", { name: "link to this step" }).getAttribute("href");
  const [run] = /run_\w+/.exec(address);
  await at("inbox");
  await at(address.slice(2));
  await page.locator(".detail").getByRole("heading", { name: "again" }).waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
  assert.equal(download.suggestedFilename(), `${run}.json`);
  const saved = JSON.parse(readFileSync(await download.path(), "utf8"));
  assert.equal(saved.run.run_id, run);
  assert.deepEqual(saved.events.map(({ seq }) => seq), saved.events.map((_, index) => index + 1));
  assert.match(saved.events.at(-1).event_type, /completed$/);
  await runs("nothing", NOTHING);
  await page.getByText("This run has no steps.").waitFor();
  const height = await page.locator("section[aria-label=Timeline]").evaluate((card) => card.getBoundingClientRect().height);
  assert.ok(height < 100, `an empty list of steps is ${height} pixels high`);
  assert.equal(await page.locator("section[aria-label=Step]:visible").count(), 0);
  await isAccessible(page);
  await shot(page, "run-empty");

  // A failed run shows its error, where it was raised, and the step that failed first.
  await runs("breaks", BREAKS);
  await page.locator("main > .problem", { hasText: "the disk is full" }).waitFor();
  assert.match(await ends.getByLabel("Traceback").textContent(), /line \d+, in breaks/);
  await page.locator(".detail").getByRole("heading", { name: "fails" }).waitFor();
  await isAccessible(page);

  // An ended run runs again from a step, without the steps before it; what cannot be taken back needs a second click.
  const command = (line, next) => ({ action: { tool: "run_command", params: { command: line } }, transitions: next ? [{ condition: "success", next_state: next }] : [] });
  const states = { build: command("echo built >> log", "wipe"), wipe: command("rm -rf gone; cat log", "check"), check: command("test -e route") };
  await tell({ writes: "again.json", text: JSON.stringify({ name: "again", initial_state: "build", states }) });
  const { run_id: failed } = await tell({ run: ["run", "again.json", "--json"] });
  await tell({ writes: "route", text: "" });
  await at(`runs/${failed}`);
  await step("check").click();
  await page.getByRole("button", { name: "Run again from here" }).click();
  await page.getByText(`Runs ${failed} again from check/1`).waitFor();
  await step("build").getByText("taken over").waitFor();
  assert.equal(await step("check").getByText("taken over").count(), 0);
  await page.locator(".head .chip", { hasText: /^completed$/ }).waitFor();
  await at(`runs/${failed}`);
  // The run that is left has a step of this name, too.
  await page.locator(".head .chip", { hasText: /^failed$/ }).waitFor();
  await step("wipe").click();
  await page.getByRole("button", { name: "Run again from here" }).click();
  await page.getByRole("alert").filter({ hasText: "cannot be taken back" }).waitFor();
  await isAccessible(page);
  await page.getByRole("button", { name: "Do it again all the same" }).click();
  await page.getByText(`Runs ${failed} again from wipe/1`).waitFor();
  await page.locator(".head .chip", { hasText: /^completed$/ }).waitFor();
  await step("wipe").click();
  assert.match(await page.locator(".detail").getByLabel("Output").textContent(), /"output": "built"/);
  await shot(page, "run-again");

  // Two runs of one machine with the same input, given on the command line and in the form, did the same.
  const { run_id: first } = await tell({ run: ["run", "count", "--json", "-i", "FOLDER=/dev", "-i", "SUFFIX=md"] });
  await at("workflows/count");
  await page.getByLabel("FOLDER").fill("/dev");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByRole("heading", { name: "count", level: 1 }).waitFor();
  // It is compared while it may still be at work: a step that has yet to come is no difference.
  await page.evaluate(() => {
    globalThis.marked = 0;
    const changes = new MutationObserver(() => (globalThis.marked += document.querySelectorAll("tr[data-differs]").length));
    changes.observe(document.body, { childList: true, subtree: true });
  });
  await page.getByLabel("Compare with another run").selectOption(first);
  await page.getByRole("heading", { name: "Two runs" }).waitFor();
  await page.getByRole("region", { name: "Input", exact: true }).getByText("The same in both.").waitFor();
  await page.getByRole("button", { name: "return values", exact: true }).waitFor();
  await page.locator("thead .chip", { hasText: /^completed$/ }).nth(1).waitFor();
  assert.equal(await page.locator("tr[data-differs]").count(), 0);
  await page.getByRole("button", { name: "open", exact: true }).click();
  await page.getByRole("region", { name: "Output of the step" }).getByText("The same in both, apart from ids, times and screens.").waitFor();
  await page.getByLabel("Only what differs").check();
  await page.getByText("Both did the same.").waitFor();
  assert.equal(await page.evaluate(() => globalThis.marked), 0);
  await isAccessible(page);
  await shot(page, "same-runs");
  isClean(page);
});
