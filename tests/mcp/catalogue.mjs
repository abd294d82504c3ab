// The catalogue that the referee of MCP wants (tools, prompts and resources of its scenarios), as a server of the official SDK on
// stdio: it runs inside a sandbox, and the referee looks at it through muxd. It speaks the old era only, so what 2026-07-28 asks
// for besides is muxd's. A question's key in inputRequests is what its _meta says.
//
//     node catalogue.mjs
import { setTimeout as pause } from "node:timers/promises";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import * as t from "@modelcontextprotocol/sdk/types.js";

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const wav = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";
const server = new Server({ name: "referee-catalogue", version: "1" },
  { capabilities: { tools: {}, prompts: {}, resources: { subscribe: true }, completions: {}, logging: {} }, enforceStrictCapabilities: false });
const text = (words) => ({ type: "text", text: words });
const say = (...content) => ({ content });
const object = (properties = {}, required = Object.keys(properties)) => ({ type: "object", properties, required });
const string = { type: "string" };

// Questions to the client, each under a key of its own.
const ask = (schema, method, key, params) => server.request({ method, params: { ...params, _meta: { "muxd/key": key } } }, schema);
const elicit = (key, message, requestedSchema) => ask(t.ElicitResultSchema, "elicitation/create", key, { message, requestedSchema });
const sample = (key, words, maxTokens) =>
  ask(t.CreateMessageResultSchema, "sampling/createMessage", key, { messages: [{ role: "user", content: text(words) }], maxTokens });
const roots = (key) => ask(t.ListRootsResultSchema, "roots/list", key, {});
const completed = (r) => say(text(`Elicitation completed: action=${r.action}, content=${JSON.stringify(r.content)}`));
const confirm = async (words) => {
  await elicit("confirm", "Please confirm", object({ ok: { type: "boolean" } }));
  return say(text(words));
};
const log = (data) => server.sendLoggingMessage({ level: "info", logger: "catalogue", data });
const titled = (key, ...names) => names.map((title, i) => ({ [key]: `value${i + 1}`, title }));
const options = ["option1", "option2", "option3"];

const tools = {
  test_simple_text: [object(), () => say(text("This is a simple text response for testing."))],
  test_image_content: [object(), () => say({ type: "image", data: png, mimeType: "image/png" })],
  test_audio_content: [object(), () => say({ type: "audio", data: wav, mimeType: "audio/wav" })],
  test_embedded_resource: [object(), () =>
    say({ type: "resource", resource: { uri: "test://embedded-resource", mimeType: "text/plain", text: "This is an embedded resource content." } })],
  test_multiple_content_types: [object(), () => say(text("Multiple content types test:"), { type: "image", data: png, mimeType: "image/png" },
    { type: "resource", resource: { uri: "test://mixed-content-resource", mimeType: "application/json", text: '{"test":"data","value":123}' } })],
  test_tool_with_logging: [object(), async () => {
    await log("Tool execution started");
    await pause(50);
    await log("Tool processing data");
    await pause(50);
    await log("Tool execution completed");
    return say(text("it is logged"));
  }],
  test_logging_tool: [object(), async () => {
    await log("nobody asked for it");
    return say(text("it is logged"));
  }],
  test_error_handling: [object(), () => {
    throw new Error("This tool intentionally returns an error for testing");
  }],
  test_tool_with_progress: [object(), async (_, token) => {
    for (const progress of [0, 50, 100]) {
      if (token !== undefined) await server.notification({ method: "notifications/progress", params: { progressToken: token, progress, total: 100 } });
      await pause(50);
    }
    return say(text("done"));
  }],
  test_sampling: [object({ prompt: string }), async ({ prompt }) => say(text(`LLM response: ${(await sample("answer", prompt, 100)).content.text}`))],
  test_elicitation: [object({ message: string }), async ({ message }) => {
    const r = await elicit("user", message, object({ username: { ...string, description: "User's response" }, email: { ...string, description: "User's email address" } }));
    return say(text(`User response: ${JSON.stringify(r)}`));
  }],
  test_elicitation_sep1034_defaults: [object(), async () => completed(await elicit("defaults", "Please review the defaults", object({
    name: { ...string, default: "John Doe" }, age: { type: "integer", default: 30 }, score: { type: "number", default: 95.5 },
    status: { ...string, enum: ["active", "inactive", "pending"], default: "active" }, verified: { type: "boolean", default: true },
  }, [])))],
  test_elicitation_sep1330_enums: [object(), async () => completed(await elicit("enums", "Please choose", object({
    untitledSingle: { ...string, enum: options },
    titledSingle: { ...string, oneOf: titled("const", "First Option", "Second Option", "Third Option") },
    legacyEnum: { ...string, enum: ["opt1", "opt2", "opt3"], enumNames: ["Option One", "Option Two", "Option Three"] },
    untitledMulti: { type: "array", items: { ...string, enum: options } },
    titledMulti: { type: "array", items: { anyOf: titled("const", "First Choice", "Second Choice", "Third Choice") } },
  }, [])))],
  test_streaming_elicitation: [object(), async () => completed(await elicit("stream", "Go on?", object({ ok: { type: "boolean" } })))],
  test_missing_capability: [object(), async () => say(text((await sample("needed", "Who are you?", 10)).content.text))],
  test_input_required_result_elicitation: [object(), async () => {
    const r = await elicit("user_name", "What is your name?", object({ name: string }));
    return say(text(`Hello, ${r.content?.name}!`));
  }],
  test_input_required_result_sampling: [object(), async () => say((await sample("capital_question", "What is the capital of France?", 100)).content)],
  test_input_required_result_list_roots: [object(), async () => say(text((await roots("client_roots")).roots.map((r) => r.uri).join(" ")))],
  test_input_required_result_request_state: [object(), () => confirm("state-ok")],
  test_input_required_result_tampered_state: [object(), () => confirm("state-ok")],
  test_input_required_result_multiple_inputs: [object(), async () => {
    const [who, greeting, where] = await Promise.all([elicit("user_name", "What is your name?", object({ name: string })),
      sample("greeting", "Generate a greeting", 50), roots("client_roots")]);
    return say(text(`${greeting.content.text} ${who.content?.name} at ${where.roots[0].uri}`));
  }],
  test_input_required_result_multi_round: [object(), async () => {
    const one = await elicit("step1", "Step 1: What is your name?", object({ name: string }));
    const two = await elicit("step2", "Step 2: What is your favorite color?", object({ color: string }));
    return say(text(`${one.content?.name} likes ${two.content?.color}`));
  }],
  // What the client has not declared is refused at once; what else it can do is asked for.
  test_input_required_result_capabilities: [object(), async () => {
    const all = await Promise.allSettled([elicit("who", "Who are you?", object({ name: string })), sample("what", "What is it?", 20)]);
    return say(text(all.map((r) => r.status).join(" ")));
  }],
  json_schema_2020_12_tool: [{
    $schema: "https://json-schema.org/draft/2020-12/schema", type: "object",
    $defs: { address: { $anchor: "addressDef", type: "object", properties: { street: string, city: string } } },
    properties: { name: string, address: { $ref: "#/$defs/address" }, contactMethod: { ...string, enum: ["phone", "email"] }, phone: string, email: string },
    allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
    if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] }, then: { required: ["phone"] }, else: { required: ["email"] },
    additionalProperties: false,
  }, (args) => say(text(JSON.stringify(args)))],
};

const user = (content) => ({ role: "user", content });
const argument = (name) => ({ name, description: name, required: true });
const prompts = {
  test_simple_prompt: [[], () => [user(text("This is a simple prompt for testing."))]],
  test_prompt_with_arguments: [[argument("arg1"), argument("arg2")], ({ arg1, arg2 }) => [user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))]],
  test_prompt_with_embedded_resource: [[argument("resourceUri")], ({ resourceUri }) =>
    [user({ type: "resource", resource: { uri: resourceUri, mimeType: "text/plain", text: "Embedded resource content for testing." } }), user(text("Please process it."))]],
  test_prompt_with_image: [[], () => [user({ type: "image", data: png, mimeType: "image/png" }), user(text("Please analyze the image above."))]],
  test_input_required_result_prompt: [[], async () => {
    const r = await elicit("user_context", "What context should the prompt use?", object({ context: string }));
    return [user(text(`Context: ${r.content?.context}`))];
  }],
};

const resources = {
  "test://static-text": ["text/plain", { text: "This is the content of the static text resource." }],
  "test://static-binary": ["image/png", { blob: png }],
  "test://watched-resource": ["text/plain", { text: "Watched resource content" }],
};
function read(uri) {
  if (resources[uri]) return { uri, mimeType: resources[uri][0], ...resources[uri][1] };
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  if (id) return { uri, mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
  throw new t.McpError(-32002, "Resource not found", { uri });
}

server.setRequestHandler(t.ListToolsRequestSchema, () =>
  ({ tools: Object.entries(tools).map(([name, [inputSchema]]) => ({ name, description: name.replaceAll("_", " "), inputSchema })) }));
server.setRequestHandler(t.CallToolRequestSchema, async ({ params }) => {
  if (!tools[params.name]) throw new t.McpError(t.ErrorCode.InvalidParams, `no tool ${params.name}`);
  try {
    return await tools[params.name][1](params.arguments ?? {}, params._meta?.progressToken);
  } catch (e) {
    return { ...say(text(e.message)), isError: true };
  }
});
server.setRequestHandler(t.ListPromptsRequestSchema, () =>
  ({ prompts: Object.entries(prompts).map(([name, [args]]) => ({ name, description: name.replaceAll("_", " "), arguments: args })) }));
server.setRequestHandler(t.GetPromptRequestSchema, async ({ params }) => ({ messages: await prompts[params.name][1](params.arguments ?? {}) }));
server.setRequestHandler(t.ListResourcesRequestSchema, () =>
  ({ resources: Object.entries(resources).map(([uri, [mimeType]]) => ({ uri, name: uri.slice(7), description: uri, mimeType })) }));
server.setRequestHandler(t.ListResourceTemplatesRequestSchema, () =>
  ({ resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template", mimeType: "application/json" }] }));
server.setRequestHandler(t.ReadResourceRequestSchema, ({ params }) => ({ contents: [read(params.uri)] }));
// A resource that is watched changes once, as soon as somebody watches it.
server.setRequestHandler(t.SubscribeRequestSchema, ({ params }) => {
  setTimeout(() => server.sendResourceUpdated({ uri: params.uri }), 100);
  return {};
});
server.setRequestHandler(t.UnsubscribeRequestSchema, () => ({}));
server.setRequestHandler(t.CompleteRequestSchema, ({ params }) =>
  ({ completion: { values: ["testing", "tested"].filter((v) => v.startsWith(params.argument.value)), total: 2, hasMore: false } }));
await server.connect(new StdioServerTransport());
