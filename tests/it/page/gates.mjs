// Runs ask a person: the inbox shows what there is to judge, an answer needs the passphrase, and belongs to what was shown.

import { assert, given, isAccessible, isClean, open, play, shot, tell } from "./browser.mjs";

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1200, height: 820 } });
  const page = await open(context, given.url);
  await page.getByRole("link", { name: "Gates" }).click();
  await page.getByText("No run waits for an answer.").waitFor();

  // A question with choices. What a program wrote into it does not act on the page.
  const machine = (params) => ({
    name: "release", initial_state: "ask",
    states: { ask: { action: { tool: "gate", params } } },
  });
  const evil = "<img src=x onerror=alert(1)> \u202eevil\u0007";
  const { run_id: run } = await tell({ starts: machine({ prompt: `Release 1.2? ${evil}`, choices: ["release", "stop"] }) });
  await page.getByRole("heading", { name: /Release 1.2\?/ }).waitFor();
  await page.getByRole("link", { name: "Gates 1 open" }).waitFor();
  assert.match(await page.title(), /^\(1\) Gates/);
  await page.getByText("Release 1.2? <img src=x onerror=alert(1)> ⟨U+202E⟩evil⟨U+0007⟩").waitFor();
  assert.equal(await page.locator(".gate img").count(), 0);
  assert.equal(await page.evaluate(() => document.activeElement === document.body || document.activeElement.id === "main" || document.activeElement.tagName === "A"), true, "no answer has the focus");
  await isAccessible(page);
  await shot(page, "gate");

  // A click that comes with the focus of the window, or right after the question, answers nothing.
  const stop = page.getByRole("button", { name: "stop" });
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await page.evaluate(() => [...document.querySelectorAll(".answers button")].find((button) => button.textContent === "stop").click());
  await page.locator(".answers button:not([data-inert])").first().waitFor();
  assert.equal((await tell({ run: ["gates", "list", "--json"] })).gates.length, 1);
  await page.keyboard.press("Enter");
  assert.equal((await tell({ run: ["gates", "list", "--json"] })).gates.length, 1, "nothing is the default");

  // What a browser fetches ahead of a person answers nothing, whatever address of the gate it guesses.
  const [{ gate_id: gate }] = (await tell({ run: ["gates", "list", "--json"] })).gates;
  const ahead = ["/", `/#/gates/${run}`, `/api/v1/runs/${run}`, `/api/v1/runs/${run}/gates/${gate}`, `/api/v1/runs/${run}/gates/${gate}?answer=stop`, `/api/v1/runs/${run}/decide?answer=stop`];
  for (const method of ["GET", "HEAD"]) {
    for (const address of ahead) {
      const reply = await context.request.fetch(new URL(address, page.url()).href, { method, headers: { "Sec-Purpose": "prefetch;prerender" } });
      assert.ok(reply.status() < 500, `${method} ${address}: ${reply.status()}`);
    }
  }
  assert.equal((await tell({ run: ["gates", "list", "--json"] })).gates.length, 1, "what is fetched ahead answers nothing");

  // Without the passphrase, and with a wrong one, the answer is refused; with it, it is taken.
  await stop.click();
  await page.getByRole("alert").filter({ hasText: /passphrase/i }).waitFor();
  await page.getByLabel("Approver's passphrase").fill("correct horse");
  await stop.click();
  await page.getByText("Answered: the run is").waitFor();
  const answered = (await tell({ run: ["runs", "show", run, "--json"] }));
  assert.match(JSON.stringify(answered), /"answer":\s*"stop"/);

  // A form is filled in by fields. What is filled in before all of the question has arrived stays, and so does the focus.
  let goesOn;
  const held = new Promise((over) => (goesOn = over));
  await page.route("**/gates/**", async (route) => {
    if (route.request().method() === "GET") await held;
    await route.continue();
  });
  const form = { type: "object", properties: { place: { type: "string", enum: ["eu", "us"] }, count: { type: "integer" }, why: { type: "string" } }, required: ["place"] };
  const { run_id: second } = await tell({ starts: machine({ prompt: "Where to?", form }) });
  await page.getByRole("heading", { name: "Where to?" }).waitFor();
  await page.getByLabel("place").selectOption("us");
  await page.getByLabel("Approver's passphrase").fill("correct horse");
  await page.getByLabel("count").fill("3");
  goesOn();
  await page.locator(".answers button:not([data-inert]):not([disabled])").first().waitFor();
  assert.equal(await page.getByLabel("count").evaluate((field) => field === document.activeElement), true);
  await page.getByRole("button", { name: "Answer with these values" }).click();
  await page.getByText("Answered: the run is").waitFor();
  assert.match(JSON.stringify(await tell({ run: ["runs", "show", second, "--json"] })), /"us"/);

  // The runs, and one of them.
  await page.getByRole("link", { name: "Runs" }).click();
  await page.getByRole("row", { name: /release/ }).first().waitFor();
  await isAccessible(page);
  await page.getByRole("link", { name: "release" }).last().click();
  await page.getByRole("button", { name: /Release 1.2\?|ask/ }).first().waitFor();
  await isAccessible(page);
  await page.getByRole("button", { name: /ask/ }).first().click();
  await page.getByRole("heading", { name: "Input" }).waitFor();
  await shot(page, "run");

  // A failed run says first what went wrong, with a link to its terminal.
  const failing = {
    name: "failing", initial_state: "open",
    states: {
      open: { action: { tool: "open_terminal", params: { shell: "bash" } }, transitions: [{ condition: { success: true }, next_state: "wait" }] },
      wait: { action: { tool: "await_output", params: { pattern: "never printed", timeout: 1 } } },
    },
  };
  await tell({ starts: failing });
  await page.goto(new URL("#/runs", page.url()).href);
  await page.getByRole("row", { name: /failed.*failing/ }).getByRole("link").click();
  await page.locator(".detail").getByRole("heading", { name: "wait" }).waitFor();
  await page.locator(".problem:not([hidden])").waitFor();
  await isAccessible(page);
  await shot(page, "failed");
  isClean(page);
});
