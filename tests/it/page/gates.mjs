// Runs ask a person: the inbox shows what there is to judge, an answer needs the passphrase, and belongs to what was shown.

import { assert, given, isAccessible, isClean, open, play, shot, tell } from "./browser.mjs";

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1200, height: 820 } });
  const page = await open(context, given.url);
  await page.getByRole("link", { name: "Inbox" }).click();
  await page.getByText("Nothing waits for you.").waitFor();

  // A question with choices. What a program wrote into it does not act on the page.
  const machine = (params) => ({
    name: "release", initial_state: "ask",
    states: { ask: { action: { tool: "gate", params } } },
  });
  const evil = "<img src=x onerror=alert(1)> \u202eevil\u0007";
  const { run_id: run } = await tell({ starts: machine({ prompt: `Release 1.2? ${evil}`, choices: ["release", "stop"] }) });
  await page.getByRole("heading", { name: /Release 1.2\?/ }).waitFor();
  await page.getByRole("link", { name: "Inbox 1 open" }).waitFor();
  assert.match(await page.title(), /^\(1\) Inbox/);
  const safe = "Release 1.2? <img src=x onerror=alert(1)> ⟨U+202E⟩evil⟨U+0007⟩";
  await page.locator(".gate").getByText(safe, { exact: true }).waitFor();
  assert.equal(await page.locator("#polite").textContent(), `A question waits: ${safe}`);
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
  await page.getByLabel("Reason").fill("the notes are missing");
  // The list may lose the question before the reply to its answer arrives; the result is shown nevertheless.
  await page.route("**/gates/*", async (route) => {
    const response = await route.fetch();
    if (route.request().method() === "POST") await page.waitForFunction(() => !document.title.startsWith("("));
    await route.fulfill({ response });
  });
  await stop.click();
  await page.getByText(/^Answered/).waitFor();
  await page.unroute("**/gates/*");
  const answered = (await tell({ run: ["runs", "show", run, "--json"] }));
  assert.match(JSON.stringify(answered), /"answer":\s*"stop"/);
  assert.equal(answered.decided, "stop, because the notes are missing");

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
  // The result of the first answer may still be shown.
  await page.getByRole("heading", { name: "Where to?" }).waitFor({ state: "detached" });
  await page.getByText(/^Answered/).last().waitFor();
  assert.match(JSON.stringify(await tell({ run: ["runs", "show", second, "--json"] })), /"place":\s*"us"/);

  // Fields have the control of their type, and say what they take. What is wrong is said at its field, which gets the focus.
  await page.unroute("**/gates/**");
  const types = {
    type: "object",
    properties: {
      region: { enum: ["one", "two"], enumNames: ["Region one, primary", "Region two"] },
      area: { type: "string", oneOf: [{ const: "eu", title: "Europe" }, { const: "us", title: "America" }] },
      amount: { type: "integer", minimum: 1, maximum: 9 },
      day: { type: "string", format: "date" },
      at: { type: "string", format: "date-time", title: "Begin at" },
      urgent: { type: "boolean" },
      notify: { type: "boolean", default: true },
      version: { type: "string", minLength: 3, maxLength: 8 },
    },
    required: ["region", "amount", "urgent"],
  };
  // The question ends in two days.
  const { run_id: typed } = await tell({ starts: machine({ prompt: "Which ones?", form: types, timeout: 2 * 86_400 }) });
  await page.getByRole("heading", { name: "Which ones?" }).waitFor();
  const ready = () => page.locator(".answers button:not([data-inert]):not([disabled])").first().waitFor();
  await ready();
  assert.match(await page.locator(".asked", { hasText: "until" }).textContent(), /until [A-Z][a-z]{2}, .*\d:\d\d/, "an end has its day");
  assert.deepEqual(await page.getByLabel("region").locator("option").allTextContents(), ["–", "Region one, primary (one)", "Region two (two)"]);
  assert.deepEqual(await page.getByLabel("area").locator("option").allTextContents(), ["–", "Europe (eu)", "America (us)"]);
  await page.getByText("a whole number from 1 to 9").waitFor();
  await page.getByText("3 to 8 characters").waitFor();
  assert.deepEqual(await Promise.all(["day", "Begin at"].map((label) => page.getByLabel(label).getAttribute("type"))), ["date", "datetime-local"]);
  assert.equal(await page.getByRole("switch", { name: "notify" }).isChecked(), true);
  assert.equal(await page.getByRole("radio", { checked: true }).count(), 0);
  assert.equal(await page.locator(".needed").count(), 3);
  await isAccessible(page);
  await shot(page, "form");
  const answer = page.getByRole("button", { name: "Answer with these values" });
  const isFocused = (locator) => locator.evaluate((field) => field === document.activeElement);
  await answer.click();
  assert.equal(await page.locator('[aria-invalid="true"]').count(), 3);
  assert.ok(await isFocused(page.getByLabel("region")));
  await isAccessible(page);
  await page.getByLabel("region").selectOption("Region one, primary (one)");
  await page.getByRole("radio", { name: "No" }).check();
  await page.getByLabel("amount").fill("12");
  await page.getByLabel("day").fill("2026-01-31");
  await answer.click();
  await page.getByText("This must be a whole number from 1 to 9.").waitFor();
  assert.ok(await isFocused(page.getByLabel("amount")));
  assert.equal(await page.locator('[aria-invalid="true"]').count(), 1);
  await page.getByLabel("amount").fill("3");
  await answer.click();
  const passphrase = page.getByLabel("Approver's passphrase");
  assert.ok(await passphrase.evaluate(async (field) => {
    for (let tries = 0; tries < 100 && field !== document.activeElement; tries += 1) await new Promise((over) => setTimeout(over, 50));
    return field === document.activeElement && field.getAttribute("aria-invalid") === "true";
  }));
  await passphrase.fill("correct horse");

  // What the server refuses is said at its field as well.
  await page.route("**/gates/**", async (route) => {
    if (route.request().method() !== "POST") return route.fallback();
    const body = route.request().postDataJSON();
    await route.continue({ postData: JSON.stringify({ ...body, form: { ...body.form, amount: 99 } }) });
  });
  await answer.click();
  await page.locator(".fault", { hasText: "must be from 1 to 9, not 99" }).waitFor();
  assert.ok(await isFocused(page.getByLabel("amount")));
  await page.unroute("**/gates/**");
  await page.getByLabel("amount").fill("4");
  await answer.click();
  await page.getByRole("heading", { name: "Which ones?" }).waitFor({ state: "detached" });
  const values = JSON.stringify(await tell({ run: ["runs", "show", typed, "--json"] }));
  for (const value of [/region\W+one/, /amount\W+4/, /day\W+2026-01-31/, /urgent\W+false/, /notify\W+true/]) assert.match(values, value);

  // A tab keeps the passphrase only after the person has ticked the box.
  const keeps = page.getByRole("checkbox", { name: "keep it in this tab for 5 min" });
  const kept = page.getByText(/^Your passphrase is kept in this tab until/);
  const asks = async (prompt) => {
    await tell({ starts: machine({ prompt, choices: ["yes", "no"] }) });
    await page.getByRole("heading", { name: prompt }).waitFor();
    await ready();
  };
  const isAnswered = async (prompt) => {
    await page.getByRole("button", { name: "yes" }).click();
    await page.getByRole("heading", { name: prompt }).waitFor({ state: "detached" });
  };
  await asks("First?");
  assert.equal(await keeps.isChecked(), false, "only a person turns it on");
  await passphrase.fill("correct horse");
  await isAnswered("First?");
  await asks("Second?");
  assert.equal(await kept.count(), 0);
  await passphrase.fill("correct horse");
  await keeps.check();
  await isAnswered("Second?");
  await asks("Third?");
  await kept.waitFor();
  await isAccessible(page);
  await shot(page, "kept-passphrase");
  await isAnswered("Third?");
  await asks("Fourth?");
  await page.getByRole("button", { name: "Forget it" }).click();
  await ready();
  await page.getByRole("button", { name: "yes" }).click();
  await page.getByRole("alert").filter({ hasText: /passphrase/ }).waitFor();
  await passphrase.fill("correct horse");
  await keeps.check();
  await isAnswered("Fourth?");
  await asks("Fifth?");
  await kept.waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Fifth?" }).waitFor();
  await ready();
  assert.deepEqual([await kept.count(), await passphrase.inputValue()], [0, ""], "a reload forgets it");
  await passphrase.fill("correct horse");
  await isAnswered("Fifth?");

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
