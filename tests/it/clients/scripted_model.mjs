// A model that is a script, in the protocols of four vendors: it calls the tool that the prompt names after
// "please-call", without arguments, and then repeats the result. Prints its port.

import { createServer } from "node:http";

/** Returns the tools of a request as pairs of a name and what identifies the tool in a call. */
function offeredTools(request) {
  const named = (name) => ({ name });
  return (request.tools ?? []).flatMap((tool) => {
    if (tool.functionDeclarations) return tool.functionDeclarations.map(({ name }) => named(name));
    if (tool.type === "namespace") return tool.tools.map(({ name }) => ({ name, namespace: tool.name }));
    return [named(tool.function?.name ?? tool.name)];
  });
}

/** Returns the results of calls in a request: the messages or items that have one. */
function toolResults(request) {
  const content = (message) => (Array.isArray(message.content) ? message.content : []);
  return [
    ...(request.messages ?? []).filter(({ role }) => role === "tool"),
    ...(request.messages ?? []).flatMap(content).filter(({ type }) => type === "tool_result"),
    ...(Array.isArray(request.input) ? request.input : []).filter(({ type }) => type === "function_call_output"),
    ...(request.contents ?? []).flatMap(({ parts }) => parts ?? []).filter((part) => part.functionResponse),
  ];
}

/** Returns the next step: a tool to call, or a text. */
function decide(body, request) {
  const results = toolResults(request);
  if (results.length > 0) return { text: `result of the tool: ${JSON.stringify(results)}` };
  const wanted = body.match(/please-call ([a-z_]+)/)?.[1];
  const tool = offeredTools(request).find(({ name }) => wanted && new RegExp(`(^|[-_])${wanted}$`).test(name ?? ""));
  return tool ? { tool } : { text: `no tool: ${wanted}` };
}

/** The events of a streamed answer, by the end of the path. */
const protocols = {
  "/messages": ({ tool, text }) => [
    {
      type: "message_start",
      message: {
        id: "m", type: "message", role: "assistant", model: "m", content: [], stop_reason: null,
        usage: { input_tokens: 1, output_tokens: 1 },
      },
    },
    {
      type: "content_block_start", index: 0,
      content_block: tool ? { type: "tool_use", id: "t", name: tool.name, input: {} } : { type: "text", text: "" },
    },
    {
      type: "content_block_delta", index: 0,
      delta: tool ? { type: "input_json_delta", partial_json: "{}" } : { type: "text_delta", text },
    },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: tool ? "tool_use" : "end_turn" }, usage: { output_tokens: 1 } },
    { type: "message_stop" },
  ],
  "/responses": ({ tool, text }) => [
    { type: "response.created", response: { id: "r" } },
    {
      type: "response.output_item.done", output_index: 0,
      item: tool
        ? { type: "function_call", id: "f", call_id: "c", arguments: "{}", ...tool }
        : { type: "message", id: "m", role: "assistant", content: [{ type: "output_text", text }] },
    },
    {
      type: "response.completed",
      response: { id: "r", usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } },
    },
  ],
  "/chat/completions": ({ tool, text }) => {
    const chunk = (delta, finish_reason) => ({
      id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason }],
    });
    const call = (name) => [{ index: 0, id: "t", type: "function", function: { name, arguments: "{}" } }];
    const delta = tool ? { tool_calls: call(tool.name) } : { content: text };
    return [chunk({ role: "assistant", ...delta }, null), chunk({}, tool ? "tool_calls" : "stop")];
  },
  ":streamGenerateContent": ({ tool, text }) => [
    {
      candidates: [
        {
          content: { role: "model", parts: [tool ? { functionCall: { name: tool.name, args: {} } } : { text }] },
          finishReason: "STOP", index: 0,
        },
      ],
      usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
    },
  ],
};

const server = createServer(async (request, response) => {
  let body = "";
  for await (const part of request) body += part;
  const path = request.url.split("?")[0];
  const protocol = Object.keys(protocols).find((end) => path.endsWith(end));
  if (!protocol || !body) {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ data: [], models: [] }));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const event of protocols[protocol](decide(body, JSON.parse(body)))) {
    if (event.type) response.write(`event: ${event.type}\n`);
    response.write(`data: ${JSON.stringify(event)}\n\n`);
  }
  response.end(protocol === "/chat/completions" ? "data: [DONE]\n\n" : undefined);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
