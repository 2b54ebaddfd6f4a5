// The look-only app in the extension's own host (`AppBridge`): a terminal, a run at a gate, and an app that tries to answer.

import { pathToFileURL } from "node:url";

import { assert, given, isAccessible, play, shot, tell } from "./browser.mjs";

const modules = `${process.env.MODULES}/mcp-inspector/node_modules/@modelcontextprotocol`;
const load = (path) => import(pathToFileURL(`${modules}/${path}`).href);
const { AppBridge, getToolUiResourceUri } = await load("ext-apps/dist/src/app-bridge.js");
const { Client } = await load("client/dist/index.mjs");
const { StdioClientTransport } = await load("client/dist/stdio.mjs");

/** A client of the server that shows apps. */
async function connect() {
  const extensions = { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } };
  const client = new Client({ name: "host", version: "1" }, { capabilities: { extensions } });
  await client.connect(new StdioClientTransport({ command: given.program, args: ["mcp"], env: { ...process.env }, stderr: "ignore" }));
  return client;
}

/** Shows the app for the result of a call, in a frame without an origin. Returns the frame, and what it asked of its host. */
async function showApp(browser, client, html, call, result, theme, width) {
  const page = await browser.newPage({ viewport: { width, height: 620 }, colorScheme: theme });
  const opened = [];
  const transport = {
    async start() {},
    async close() {},
    async send(message) {
      await page.evaluate((message) => document.querySelector("iframe").contentWindow.postMessage(message, "*"), message);
    },
  };
  await page.exposeFunction("fromApp", (message) => transport.onmessage?.(message));
  const bridge = new AppBridge(client, { name: "host", version: "1" }, { openLinks: {}, serverTools: {} }, { hostContext: { theme } });
  bridge.onopenlink = async ({ url }) => (opened.push(url), {});
  bridge.oninitialized = async () => {
    await bridge.sendToolInput({ arguments: call });
    await bridge.sendToolResult(result);
  };
  await bridge.connect(transport);
  await page.setContent("<body style='margin:0'></body>");
  await page.evaluate((html) => {
    window.addEventListener("message", (event) => window.fromApp(event.data));
    const frame = document.createElement("iframe");
    frame.sandbox.add("allow-scripts");
    frame.style = "width:100%;height:600px;border:0";
    const policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'";
    frame.srcdoc = html.replace("<head>", `<head><meta http-equiv="Content-Security-Policy" content="${policy}">`);
    document.body.append(frame);
  }, html);
  return { page, bridge, opened, app: page.frameLocator("iframe"), frame: () => page.frames().find((frame) => frame.parentFrame()) };
}

await play(async (browser) => {
  const client = await connect();
  const { tools } = await client.listTools();
  const tool = (name) => tools.find((tool) => tool.name === name);
  const address = getToolUiResourceUri(tool("open_terminal"));
  assert.equal(getToolUiResourceUri(tool("run_workflow")), address);
  assert.deepEqual(tool("look")._meta.ui.visibility, ["app"]);
  for (const { name, _meta } of tools) if (name !== "look") assert.deepEqual(_meta.ui.visibility, ["model"], name);
  const { contents } = await client.readResource({ uri: address });
  assert.equal(contents[0].mimeType, "text/html;profile=mcp-app");
  const html = contents[0].text;

  // The live screen, with foreign text as text.
  const opened = await client.callTool({ name: "open_terminal", arguments: { shell: "bash", name: "work" } });
  const { session_id } = opened.structuredContent;
  const type = (text) => client.callTool({ name: "send_input", arguments: { session_id, input_text: text } });
  await type("printf '\\e[1;32mgreen\\e[m <b>not bold</b> <script>x</script>\\n'\n");
  for (const [theme, width] of [["dark", 800], ["light", 400]]) {
    const { page, bridge, app } = await showApp(browser, client, html, {}, opened, theme, width);
    await app.locator("#screen", { hasText: "<b>not bold</b> <script>x</script>" }).waitFor();
    await app.getByText("work", { exact: true }).waitFor();
    assert.equal(await app.locator("#screen b, #screen script").count(), 0);
    await type(`echo later in ${theme}\n`);
    await app.locator("#screen", { hasText: `\nlater in ${theme}` }).waitFor();
    await shot(page, `app-terminal-${theme}`);
    await bridge.teardownResource({});
    await page.close();
  }
  // What the app has shown is news for the model nevertheless.
  await type("echo for the model\n");
  const { page: watching, app: watched } = await showApp(browser, client, html, {}, opened, "dark", 800);
  await watched.locator("#screen", { hasText: "\nfor the model" }).waitFor();
  const output = await client.callTool({ name: "await_output", arguments: { session_id, pattern: "(?m)^for the model", timeout: 5 } });
  assert.equal(output.structuredContent.match_text, "for the model", JSON.stringify(output.structuredContent));
  await watching.close();

  // A run at a gate: the question, its choices, a link, and no way to answer.
  const gate = { tool: "gate", params: { prompt: "Publish <i>1.2</i>?", choices: ["yes", "no"], answered_by: "human" } };
  const states = {
    build: { action: { tool: "sleep", params: { seconds: 0 } }, transitions: [{ condition: "success", next_state: "ask" }] },
    ask: { action: gate },
  };
  const definition = { name: "publish", initial_state: "build", states };
  const run = await client.callTool({ name: "run_workflow", arguments: { workflow_definition: definition, wait_seconds: 2, save_on_success: false } });
  const { run_id } = run.structuredContent;
  const { page, app, frame, opened: links } = await showApp(browser, client, html, {}, run, "light", 800);
  await app.getByText("Publish <i>1.2</i>?").waitFor();
  await app.locator("#steps li", { hasText: "build" }).waitFor();
  await app.getByText("steplatch gates answer, or open the page: steplatch open").waitFor();
  assert.equal(await app.locator("button, a, input").count(), 0);
  await tell({ serves: "work" });
  await app.getByRole("button").waitFor();
  assert.deepEqual(await app.locator("button, a, input").allTextContents(), ["Open the page to answer"]);
  await app.getByRole("button").click();
  await shot(page, "app-run");
  assert.match(links[0], new RegExp(`^http://localhost:\\d+/#/runs/${run_id}$`));

  // The app, or anything in its frame, answers nothing.
  const tries = [{ run_id, answer: "yes" }, { run_id, answer: "yes", answered_by: "human" }, { run_id, gate_id: "ask", answer: 1 }];
  for (const answer of tries) {
    const reply = await frame().evaluate(
      (answer) =>
        new Promise((resolve) => {
          const id = Math.floor(Math.random() * 1e9);
          window.addEventListener("message", ({ data }) => data.id === id && resolve(data));
          window.parent.postMessage({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "decide", arguments: answer } }, "*");
        }),
      answer,
    );
    assert.ok(reply.error || reply.result.isError || reply.result.structuredContent.success === false, JSON.stringify(reply));
  }
  const later = await client.callTool({ name: "get_run", arguments: { run_id } });
  assert.equal(later.structuredContent.status, "waiting", JSON.stringify(later.structuredContent));
  await client.callTool({ name: "cancel_run", arguments: { run_id } });
  await app.locator("#state", { hasText: "cancelled" }).waitFor();
  await page.close();

  const alone = await browser.newPage();
  await alone.setContent(html);
  await isAccessible(alone);
  await client.close();
});
