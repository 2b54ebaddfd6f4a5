// An agent attacks: this program runs in a terminal that steplatch keeps, with the token of the HTTP server, the daemon's socket, every
// tool, and a browser of its own with an authenticator that verifies anyone. It ends with 0 if nothing that is a person's was granted.
//
// STORY: `origin` of the page, `token`, `run` and `gate` with the digest of a question for people, and `steplatch`, the program. It asks for a
// ticket of the person once it steals one.

import { execFileSync } from "node:child_process";

import { assert, given, open, play, tell } from "./browser.mjs";

const { origin, token, run, gate, digest, steplatch } = given;
const authorization = `Bearer ${token}`;
const ANSWER = { answer: "yes", number: 1, digest };
const GATE = `/api/v1/runs/${run}/gates/${encodeURIComponent(gate)}`;

/** Runs the program as the agent does. Returns what it says. */
function runs(words, input = "") {
  try {
    return { code: 0, said: execFileSync(steplatch, words, { encoding: "utf8", input, stdio: ["pipe", "pipe", "pipe"] }) };
  } catch (error) {
    return { code: error.status, said: `${error.stdout}${error.stderr}` };
  }
}

/** Sends a request from within the page. Returns its status and its reply. */
const sends = (page, method, path, headers, body) =>
  page.evaluate(
    async ([method, path, headers, body]) => {
      const reply = await fetch(path, { method, headers: { "content-type": "application/json", ...headers }, body: body && JSON.stringify(body) });
      const text = await reply.text();
      return { status: reply.status, text };
    },
    [method, path, headers, body],
  );

/** Fails if the reply grants something, or refuses it for another reason than expected. */
function isRefused(what, { status, text }, statuses, why) {
  assert.ok(statuses.includes(status) && why.test(text), `${what}: ${status} ${text}`);
}

/** Speaks to the socket of tabs from within the page. Returns what came until it was closed, and the code; 0 if it was not opened. */
const speaks = (page, messages) =>
  page.evaluate(
    ([messages]) =>
      new Promise((over) => {
        const came = [];
        const socket = new WebSocket(`ws://${location.host}/live`);
        let isOpen = false;
        socket.onopen = () => {
          isOpen = true;
          for (const message of messages) socket.send(JSON.stringify(message));
        };
        socket.onmessage = ({ data }) => came.push(JSON.parse(data).is);
        socket.onclose = ({ code }) => over({ code: isOpen ? code : 0, came });
      }),
    [messages],
  );

/** Has an authenticator of the agent create a passkey and sign the answer, as the page does. */
const forges = (page, ticket) =>
  page.evaluate(
    async ([ticket, gate, answer]) => {
      const hash = (text) => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
      const text = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
      const made = await navigator.credentials.create({ publicKey: {
        challenge: await hash(`steplatch passkey 1\n${ticket}`), rp: { id: "localhost", name: "x" },
        user: { id: new Uint8Array(16), name: "x", displayName: "x" }, pubKeyCredParams: [{ type: "public-key", alg: -7 }],
        authenticatorSelection: { userVerification: "required" },
      } });
      const signed = await navigator.credentials.get({ publicKey: {
        challenge: await hash(`steplatch answer 1\n${gate}\n${answer.digest}\n${answer.number}\n${answer.answer}`),
        rpId: "localhost", allowCredentials: [{ type: "public-key", id: made.rawId }], userVerification: "required",
      } });
      return {
        made: { ticket, name: "phone", client_data: text(made.response.clientDataJSON), authenticator_data: text(made.response.getAuthenticatorData()) },
        signed: {
          credential_id: text(signed.rawId), client_data: text(signed.response.clientDataJSON),
          authenticator_data: text(signed.response.authenticatorData), signature: text(signed.response.signature),
        },
      };
    },
    [ticket, gate, ANSWER],
  );

/** Answers the question in every way that a request has, with these headers. */
async function answers(page, headers, signed) {
  const posts = (body) => sends(page, "POST", GATE, headers, body);
  isRefused("an answer", await posts(ANSWER), [409], /waits for a person/);
  isRefused("an answer as a person", await posts({ ...ANSWER, person: true, proof: "terminal" }), [400], /unknown field 'person'/);
  isRefused("an answer with a guess", await posts({ ...ANSWER, passphrase: "correct horse" }), [403, 409], /passphrase|waits for a person/i);
  isRefused("an answer with a signature of another key", await posts({ ...ANSWER, passkey: signed }), [409], /waits for a person.*a terminal that steplatch keeps/);
  isRefused("a decision", await sends(page, "POST", `/api/v1/runs/${run}/decide`, headers, { answer: "yes" }), [409], /human|person/);
}

await play(async (browser) => {
  // The program itself.
  for (const words of [["open", "--print"], ["gates", "passkey", "add", "--print"], ["gates", "answer", gate, "yes"], ["approver", "set", "--stdin"]]) {
    const { code, said } = runs(words, "of an agent\n");
    assert.ok(code !== 0 && /a terminal of their own|a terminal that steplatch keeps/.test(said), `${words.join(" ")}: ${code} ${said}`);
  }

  // The page opens, and shows nothing: the browser is not logged in, and no ticket can be guessed or is given for the token.
  const context = await browser.newContext();
  const page = await open(context, `${origin}/#/gates`);
  await page.getByText("This browser is not logged in").waitFor();
  const devtools = await context.newCDPSession(page);
  await devtools.send("WebAuthn.enable");
  const options = { protocol: "ctap2", transport: "internal", hasUserVerification: true, isUserVerified: true, hasResidentKey: true, automaticPresenceSimulation: true };
  await devtools.send("WebAuthn.addVirtualAuthenticator", { options });
  for (const headers of [{}, { authorization }]) isRefused("a session", await sends(page, "POST", "/page/session", headers, { ticket: "guessed" }), [401], /invalid or expired/);
  for (const path of ["/page/tickets", "/page/session", "/approver", "/passkeys/tickets"]) {
    for (const method of ["POST", "PUT"]) isRefused(`${method} ${path}`, await sends(page, method, `/api/v1${path}`, { authorization }, { passphrase: "of an agent" }), [404, 405], /./);
  }

  // The socket of tabs wants a session, whatever cookie comes with it.
  assert.equal((await speaks(page, [])).code, 0, "no cookie opens no socket");
  await context.addCookies([{ name: `steplatch-${new URL(origin).port}-a`, value: "forged", url: origin }]);
  assert.deepEqual(await speaks(page, [{ do: "hello", half: token }]), { code: 0, came: [] }, "a forged cookie opens no socket");
  await context.clearCookies();

  // The token is a program's: it reads, and neither answers nor registers a passkey.
  assert.equal((await sends(page, "GET", "/api/v1/status", { authorization })).status, 200);
  const { made, signed } = await forges(page, "guessed");
  await answers(page, { authorization }, signed);
  isRefused("a passkey", await sends(page, "POST", "/api/v1/passkeys", { authorization }, made), [403], /logged in to the page/);

  // An MCP client that accepts its own dialog.
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } },
    "io.modelcontextprotocol/clientInfo": { name: "x", version: "1" },
  };
  const headers = { authorization, accept: "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "get_run" };
  const calls = async (more) => {
    const params = { name: "get_run", arguments: { run_id: run, wait_seconds: 1 }, _meta: meta, ...more };
    const { text } = await sends(page, "POST", "/mcp", headers, { jsonrpc: "2.0", id: 1, method: "tools/call", params });
    const line = text.split("\n").findLast((line) => line.includes('"result"'));
    assert.ok(line, text);
    return JSON.parse(line.replace(/^data: /, "")).result;
  };
  let dialog = await calls({});
  if (dialog.inputRequests) {
    const accepted = Object.fromEntries(Object.keys(dialog.inputRequests).map((key) => [key, { action: "accept", content: { decision: "yes" } }]));
    dialog = await calls({ requestState: dialog.requestState, inputResponses: accepted });
  }
  assert.equal(dialog.structuredContent.status, "waiting", JSON.stringify(dialog));

  // A session that was stolen is a program's as well.
  const { ticket: stolen, cookie, half, session_id } = await tell("steals");
  await page.goto(`${origin}/#ticket=${stolen}`);
  await page.getByText("in a terminal that steplatch keeps").waitFor();
  for (const end of [["serve", "sessions", "end", "--all"]]) assert.ok(runs(end).code !== 0, "the person's browsers stay logged in");
  await context.addCookies([{ ...cookie, url: origin }]);
  await page.evaluate((kept) => sessionStorage.setItem("steplatch", JSON.stringify(kept)), { half, session_id });
  await page.goto(`${origin}/#/terminals`);
  await page.reload();
  await page.getByRole("heading", { name: "Terminals" }).waitFor();
  const session = { "steplatch-half": half };
  assert.equal((await sends(page, "GET", "/api/v1/status", session)).status, 200);
  await answers(page, session, signed);
  isRefused("a passkey with a guessed ticket", await sends(page, "POST", "/api/v1/passkeys", session, made), [409], /ticket/i);
  const again = await forges(page, stolen);
  isRefused("a passkey with the ticket of the login", await sends(page, "POST", "/api/v1/passkeys", session, again.made), [409], /ticket/i);
  for (const message of [{ do: "answer", run, gate, ...ANSWER }, { do: "ANSWER_GATE", run_id: run, ...ANSWER }]) {
    const { code } = await speaks(page, [{ do: "hello", half }, message]);
    assert.equal(code, 4400, "the socket has no message that answers");
  }

  // Nor do the buttons of the page answer without a proof.
  await page.goto(`${origin}/#/gates`);
  await page.getByRole("heading", { name: "Release?" }).waitFor();
  await page.locator(".answers button:not([data-inert]):not([disabled])").first().waitFor();
  await page.getByRole("button", { name: "yes" }).click();
  await page.getByRole("alert").filter({ hasText: /passphrase/ }).waitFor();
  await page.getByRole("heading", { name: "Release?" }).waitFor();
});
