// A passkey is registered with a ticket, signs answers once its device has verified the person, and nothing else registers one.

import { assert, given, isAccessible, isClean, open, play, shot, tell } from "./browser.mjs";

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1000, height: 820 } });
  const { url } = await tell("passkey");
  const page = await open(context, "about:blank");
  const devtools = await context.newCDPSession(page);
  await devtools.send("WebAuthn.enable");
  const { authenticatorId } = await devtools.send("WebAuthn.addVirtualAuthenticator", {
    options: { protocol: "ctap2", transport: "internal", hasUserVerification: true, isUserVerified: true, hasResidentKey: true, automaticPresenceSimulation: true },
  });
  const verifies = (isUserVerified) => devtools.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified });

  // Without a verified person no passkey is created; with one it is, once.
  await page.goto(url);
  await page.getByRole("heading", { name: "Passkey" }).waitFor();
  assert.ok(!page.url().includes("ticket") && !page.url().includes("passkey="), page.url());
  await isAccessible(page);
  await verifies(false);
  await page.getByLabel("Name of the device").fill("Virtual key");
  await page.getByRole("button", { name: "Create the passkey" }).click();
  await page.getByRole("alert").waitFor();
  assert.equal((await tell({ run: ["gates", "passkey", "list", "--json"] })).passkeys.length, 0);
  await verifies(true);
  await page.getByRole("button", { name: "Create the passkey" }).click();
  await page.getByText("The passkey Virtual key is registered, with the fingerprint").waitFor();
  const fingerprint = await page.locator("code.whole").textContent();
  assert.equal((await tell({ run: ["gates", "passkey", "list", "--json"] })).passkeys.length, 0, "it is not confirmed");
  await tell({ confirms: fingerprint });
  const { passkeys } = await tell({ run: ["gates", "passkey", "list", "--json"] });
  assert.equal(passkeys.length, 1);
  assert.equal(passkeys[0].origin, new URL(url).origin);
  await shot(page, "passkey");

  // An answer without a verified person is none.
  await page.getByRole("link", { name: "To the gates" }).click();
  const machine = (params) => ({
    name: "release", initial_state: "ask",
    states: { ask: { action: { tool: "gate", params } } },
  });
  const { run_id: run } = await tell({ starts: machine({ prompt: "Release 1.2?", choices: ["release", "stop"] }) });
  await page.getByRole("heading", { name: "Release 1.2?" }).waitFor();
  await page.getByText("or your passkey: leave this empty").waitFor();
  // A refused answer has the question shown again first; until then its buttons are marked.
  const ready = () => page.locator(".answers button:not([data-inert]):not([disabled]):not([aria-disabled])").first().waitFor();
  await ready();
  await verifies(false);
  await page.getByRole("button", { name: "release" }).click();
  await page.getByRole("alert").filter({ hasText: "The passkey did not sign" }).waitFor();
  assert.equal((await tell({ run: ["gates", "list", "--json"] })).gates.length, 1);

  // A signature of one answer proves no other: it is refused with another choice, and for another question.
  await verifies(true);
  await page.route("**/gates/**", async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    const body = { ...route.request().postDataJSON(), answer: "stop", number: 2 };
    await route.continue({ postData: JSON.stringify(body) });
  });
  await ready();
  await page.getByRole("button", { name: "release" }).click();
  await page.getByRole("alert").filter({ hasText: "it is for another question or answer" }).waitFor();
  assert.equal((await tell({ run: ["gates", "list", "--json"] })).gates.length, 1);
  await page.unroute("**/gates/**");

  // The person signs, and the signature can be checked again.
  await ready();
  await page.getByRole("button", { name: "release" }).click();
  await page.getByText(/^Answered/).waitFor();
  const verified = await tell({ run: ["runs", "verify", run, "--json"] });
  assert.deepEqual([verified.success, verified.answers[0].holds, verified.answers[0].registered], [true, true, true]);
  assert.equal(verified.answers[0].proof, "passkey");

  // So does the answer to a form.
  await page.getByText(/^Answered/).waitFor({ state: "detached" });
  const form = { type: "object", properties: { place: { type: "string", enum: ["eu", "us"] }, count: { type: "integer" }, why: { type: "string" } }, required: ["place"] };
  const { run_id: second } = await tell({ starts: machine({ prompt: "Where to?", form }) });
  await page.getByRole("heading", { name: "Where to?" }).waitFor();
  await page.getByLabel("place").selectOption("us");
  await page.getByLabel("count").fill("3");
  await ready();
  await page.getByRole("button", { name: "Answer with these values" }).click();
  await page.getByText(/^Answered/).waitFor();
  const filled = await tell({ run: ["runs", "verify", second, "--json"] });
  assert.deepEqual([filled.answers[0].holds, filled.answers[0].error ?? null], [true, null]);

  // The ticket registers nothing more, and an agent with the token or the socket gets none.
  const again = await page.evaluate(async (ticket) => {
    const key = await navigator.credentials.create({ publicKey: {
      challenge: await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`steplatch passkey 1\n${ticket}`)),
      rp: { id: "localhost", name: "x" }, user: { id: new Uint8Array(16), name: "x", displayName: "x" },
      pubKeyCredParams: [{ type: "public-key", alg: -7 }], authenticatorSelection: { userVerification: "required" },
    } });
    const text = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    return { client_data: text(key.response.clientDataJSON), authenticator_data: text(key.response.getAuthenticatorData()) };
  }, /passkey=([\w-]+)/.exec(url)[1]);
  const refused = await tell({ registers: { ...again, ticket: /passkey=([\w-]+)/.exec(url)[1] } });
  assert.equal(refused.status, 403, JSON.stringify(refused));
  assert.match(refused.error, /logged in to the page/, "the token registers nothing, with a ticket or without");
  const post = (body) => page.evaluate(async (body) => {
    const { half } = JSON.parse(sessionStorage.getItem("steplatch"));
    const headers = { "steplatch-half": half, "content-type": "application/json" };
    const reply = await fetch("/api/v1/passkeys", { method: "POST", headers, body: JSON.stringify(body) });
    return { status: reply.status, ...(await reply.json()) };
  }, body);
  const used = await post({ ...again, ticket: /passkey=([\w-]+)/.exec(url)[1] });
  assert.equal(used.status, 409, JSON.stringify(used));
  assert.match(used.error, /used or expired/);
  const made = await post({ ...again, ticket: "made-up" });
  assert.equal(made.status, 409, JSON.stringify(made));

  // A passkey that is removed signs nothing.
  await tell("remove");
  const { run_id: third } = await tell({ starts: machine({ prompt: "Once more?", choices: ["yes", "no"] }) });
  await page.getByRole("heading", { name: "Once more?" }).waitFor();
  await ready();
  await page.getByRole("button", { name: "yes" }).click();
  await page.getByRole("alert").filter({ hasText: "passphrase" }).waitFor();
  const old = await tell({ run: ["runs", "verify", run, "--json"] });
  assert.deepEqual([old.answers[0].holds, old.answers[0].registered], [true, false], "its signatures still hold");
  assert.ok(third);
  assert.ok(given.url);
  isClean(page);
});
