// Uses a server of MCP inside a sandbox as if it were the client's own: by the official SDK, its generation before (1) or the
// present one (2), by the old versions of the protocol or by 2026-07-28.
//
//     node through.mjs GENERATION(1|2) ERA(legacy|2026-07-28) URL everything|filesystem|asleep < TOKEN
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const [generation, era, url, what] = process.argv.slice(2);
const token = readFileSync(0, "utf8").trim();
const options = { requestInit: { headers: { Authorization: `Bearer ${token}` } } };

async function connect() {
  if (generation === "1") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const client = new Client({ name: "story", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(new URL(url), options));
    return [client, (name, args, more) => client.callTool({ name, arguments: args }, undefined, more)];
  }
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const client = new Client({ name: "story", version: "1" }, { versionNegotiation: { mode: era === "legacy" ? "legacy" : { pin: era } } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), options));
  return [client, (name, args, more) => client.callTool({ name, arguments: args }, more)];
}

const text = (r) => r.content[0].text;

const stories = {
  async everything(client, call) {
    const names = (await client.listTools()).tools.map((t) => t.name);
    for (const name of ["echo", "get-sum", "trigger-long-running-operation"]) assert(names.includes(name), `${name} is not among ${names}`);
    assert.equal(text(await call("echo", { message: "hello" })), "Echo: hello");
    assert.match(text(await call("get-sum", { a: 40, b: 2 })), /42/);
    const steps = [];
    await call("trigger-long-running-operation", { duration: 0.5, steps: 2 }, { onprogress: (p) => steps.push(p.progress), timeout: 20000 });
    assert.deepEqual(steps, [1, 2]);
    const structured = await call("get-structured-content", { location: "Chicago" });
    assert(structured.structuredContent.temperature, "no structured content");
    const broken = await call("get-sum", { a: "x" }).catch((e) => e);
    assert(broken instanceof Error || broken.isError, "arguments that are no numbers pass");
    const { prompts } = await client.listPrompts();
    assert(prompts.length > 0);
    const { resources } = await client.listResources();
    const { contents } = await client.readResource({ uri: resources[0].uri });
    assert.equal(contents[0].uri, resources[0].uri);
  },

  async filesystem(client, call) {
    const path = `/workspace/by-${generation}.txt`;
    await call("write_file", { path, content: "written inside\n" });
    assert.equal(text(await call("read_text_file", { path })), "written inside\n");
    const outside = await call("read_text_file", { path: "/etc/passwd" });
    assert(outside.isError && /Access denied/.test(text(outside)), "it reads outside its directory");
  },

  async asleep(client) {
    const { tools } = await client.listTools();
    assert(tools.some((t) => t.name === "echo"));
  },
};

const [client, call] = await connect();
assert.equal(client.getServerVersion() !== undefined, true);
await stories[what](client, call);
await client.close();
console.log(`${what} by ${generation} ${era}: done`);
