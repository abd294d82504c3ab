// Lists and calls every tool of a muxd, as a client of the official SDK does: its generation before (1), and the present one
// (2) by the old versions of the protocol or by 2026-07-28. Each result is held against its output schema by the SDK itself.
//
//     node clients.mjs GENERATION(1|2) ERA(legacy|2026-07-28) URL SANDBOX < TOKEN
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const [generation, era, url, session_id] = process.argv.slice(2);
const token = readFileSync(0, "utf8").trim();
const options = { requestInit: { headers: { Authorization: `Bearer ${token}` } } };

// Over HTTPS, or as "stdio:PROGRAM ARGUMENT...", which is started and talked to by its standard input and output.
async function transport_of(Http, stdio) {
  if (!url.startsWith("stdio:")) return new Http(new URL(url), options);
  const [command, ...args] = url.slice(6).split(" ");
  const { StdioClientTransport } = await import(stdio);
  return new StdioClientTransport({ command, args, stderr: "inherit" });
}

async function connect() {
  if (generation === "1") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const client = new Client({ name: "story", version: "1" });
    const transport = await transport_of(StreamableHTTPClientTransport, "@modelcontextprotocol/sdk/client/stdio.js");
    await client.connect(transport);
    return [client, transport, (request, more) => client.callTool(request, undefined, more)];
  }
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const mode = era === "legacy" ? "legacy" : { pin: era };
  const client = new Client({ name: "story", version: "1" }, { versionNegotiation: { mode } });
  const transport = await transport_of(StreamableHTTPClientTransport, "@modelcontextprotocol/client/stdio");
  await client.connect(transport);
  return [client, transport, (request, more) => client.callTool(request, more)];
}

const task_id = "story";
const name = `note-${generation}-${era}.md`;
const kept = {};
const patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch\n";
// One call of each tool, in an order in which each finds what it needs: arguments, and what has to be in the result.
const calls = [
  ["sandbox.session.create", { constraints: { idle_ttl: "1h", ttl: "8h", timeout_ms: 60000, exec_timeout_ms: 600000, transfer_timeout_ms: 600000, workdir: "/workspace", env: { COLOUR: "blue" }, labels: { of: "story" }, resources: { pids: 500 } } },
    (r) => assert.deepEqual([r.state, r.idle_ttl ?? r.idle_ttl_ms !== undefined, r.labels?.of ?? "story"], ["running", r.idle_ttl ?? true, "story"])],
  ["sandbox.session.exec", { argv: ["sh", "-c", "echo out; echo err >&2; exit 3"] }, (r) => {
    assert.deepEqual([r.exit_code, r.stdout, r.stderr, r.stdout_truncated], [3, "out\n", "err\n", false]);
    kept.round = r.round_id;
  }],
  ["sandbox.session.show", {}, (r) => assert.deepEqual([r.agent, r.state], [session_id, "running"])],
  ["sandbox.session.list", { prefix: session_id }, (r) => assert(r.agents.some((a) => a.agent === session_id))],
  ["sandbox.round.list", { limit: 10 }, (r) => assert(r.sessions.some((s) => s.session_id === kept.round || s.id === kept.round), JSON.stringify(r).slice(0, 300))],
  ["sandbox.workspace.write_file", { path: "a.txt", content: "one\n" }, (r) => assert.equal(r.size ?? 4, 4)],
  ["sandbox.workspace.apply_patch", { patch }, () => undefined],
  ["sandbox.workspace.read_file", { path: "a.txt" }, (r) => assert.equal(r.data, "two\n")],
  ["sandbox.workspace.list", {}, (r) => assert(r.entries.some((e) => e.path === "a.txt"))],
  ["sandbox.workspace.search", { pattern: "two" }, (r) => assert(JSON.stringify(r).includes("a.txt"))],
  ["sandbox.workspace.stat", { path: "a.txt", sha256: true }, (r) => assert.equal(JSON.stringify(r).includes("sha256"), true)],
  ["sandbox.workspace.mkdir", { path: "deep/down" }, () => undefined],
  ["sandbox.workspace.copy", { path: "a.txt", to: "deep/b.txt" }, () => undefined],
  ["sandbox.workspace.move", { path: "deep/b.txt", to: "deep/down/c.txt" }, () => undefined],
  ["sandbox.workspace.glob", { pattern: "**/*.txt" }, (r) => assert(JSON.stringify(r).includes("deep/down/c.txt"))],
  ["sandbox.lock.take", { path: "deep", label: "tidying" }, (r) => { kept.lock = r.id ?? r.lock_id; }],
  ["sandbox.lock.list", {}, (r) => assert(JSON.stringify(r).includes("tidying"))],
  ["sandbox.lock.renew", () => ({ lock_id: kept.lock, ttl_ms: 60000 }), () => undefined],
  ["sandbox.lock.release", () => ({ lock_id: kept.lock }), () => undefined],
  ["sandbox.workspace.delete", { path: "deep", recursive: true }, () => undefined],
  ["create_file", { path: `new-${process.pid}.txt`, content: "x" }, () => undefined],
  ["python_exec", { code: "print(6 * 7)" }, (r) => assert.equal(r.stdout, "42\n")],
  ["artifact.put", { name, content: "# Note\n", media_type: "text/markdown" }, (r) => assert.equal(r.size, 7)],
  ["artifact.keep", { name: `kept-${name}`, session_id, path: "a.txt" }, (r) => assert.equal(r.size, 4)],
  ["artifact.get", { name, offset: 2, length: 4 }, (r) => assert.deepEqual([r.data, r.total_bytes, r.truncated], ["Note", 7, true])],
  ["artifact.list", {}, (r) => assert(r.artifacts.some((a) => a.name === name))],
  ["artifact.delete", { name: `kept-${name}` }, () => undefined],
  ["sandbox.round.start", { command: "cat; echo got it", stdin_open: true }, (r) => {
    assert.equal(r.exit_code, null);
    kept.cat = r.round_id;
  }],
  ["sandbox.round.stdin", () => ({ round_id: kept.cat, data: "typed\n", eof: true }), (r) => assert.equal(r.taken, 6)],
  ["sandbox.round.show", () => ({ round_id: kept.cat, wait_ms: 10000 }), (r) => assert.equal(r.stdout, "typed\ngot it\n")],
  ["sandbox.round.output", () => ({ round_id: kept.cat, tail: 7 }), (r) => assert.equal(r.data, "got it\n")],
  ["sandbox.shell.list", {}, (r) => assert.deepEqual(r.shells, [])],
  ["sandbox.shell.end", async () => {
    const begun = await call({ name: "sandbox.round.start", arguments: { task_id, session_id, command: "x=1", shell: "build" } });
    await call({ name: "sandbox.round.show", arguments: { task_id, round_id: begun.structuredContent.round_id, wait_ms: 20000 } });
    return { shell: "build" };
  }, () => undefined],
  ["sandbox.service.list", {}, (r) => assert.deepEqual(r.services.map((s) => s.name), ["web"])],
  ["sandbox.service.restart", { service: "web" }, () => undefined],
  ["sandbox.service.log", { service: "web" }, (r) => assert.equal(r.service, "web")],
  ["sandbox.port.list", {}, (r) => assert.deepEqual([r.ports[0].port, r.ports[0].headers["X-Sandbox-ID"], r.ports[0].headers["X-Sandbox-Port"]], [8765, session_id, "8765"])],
  ["sandbox.mcp.list", {}, (r) => assert.deepEqual(r.servers.map((s) => s.name), ["echo"])],
  ["sandbox.mcp.request", { server: "echo", method: "tools/list" }, (r) => assert.equal(r.result.tools[0].name, "say")],
  ["sandbox.context.create", { language: "python" }, (r) => { kept.context = r.context_id; }],
  ["sandbox.context.execute", () => ({ context_id: kept.context, code: "x = 5\nprint(x)" }), (r) => assert.equal(r.stdout, "5\n")],
  ["sandbox.context.list", {}, (r) => assert.equal(r.contexts.length, 1)],
  ["sandbox.context.interrupt", async () => {
    const code = "import time\nprint('begun', flush=True)\ntime.sleep(300)";
    await new Promise((begun) => {
      kept.running = call({ name: "sandbox.context.execute", arguments: { task_id, session_id, context_id: kept.context, code } },
        { onprogress: (p) => p.message.includes("begun") && begun() });
    });
    return { context_id: kept.context };
  }, async () => assert.equal((await kept.running).structuredContent.cause, "interrupted")],
  ["sandbox.context.reset", () => ({ context_id: kept.context }), () => undefined],
  ["sandbox.context.delete", () => ({ context_id: kept.context }), () => undefined],
  ["sandbox.terminal.start", { command: "echo here; sleep 300" }, (r) => { kept.terminal = r.round_id; }],
  ["sandbox.terminal.keys", () => ({ round_id: kept.terminal, keys: ["text:typed", "Enter"] }), () => undefined],
  ["sandbox.terminal.resize", () => ({ round_id: kept.terminal, cols: 100, rows: 30 }), (r) => assert.equal(r.cols, 100)],
  ["sandbox.terminal.screen", () => ({ round_id: kept.terminal, wait_ms: 3000 }), (r) => assert(JSON.stringify(r).includes("here"))],
  ["sandbox.round.signal", () => ({ round_id: kept.terminal, signal: "CONT" }), () => undefined],
  ["sandbox.round.end", () => ({ round_id: kept.terminal, reason: "done" }), () => undefined],
  ["sandbox.session.snapshot", { reason: "story" }, (r) => { kept.snapshot = r.snapshot.id; }],
  ["sandbox.session.snapshots", {}, (r) => assert(r.snapshots.some((s) => s.id === kept.snapshot))],
  ["sandbox.session.restore", () => ({ snapshot_id: kept.snapshot, reason: "story" }), () => undefined],
  ["sandbox.session.fork", () => ({ snapshot_id: kept.snapshot, reason: "story" }), () => undefined],
  ["sandbox.session.end", { reason: "the story is over" }, () => undefined],
];

const about = (tool) => (tool.properties.session_id && tool.required.includes("session_id") ? { session_id } : {});

const [client, transport, call] = await connect();
const { tools } = await client.listTools();
const schemas = new Map(tools.map((t) => [t.name, t.inputSchema]));
assert.deepEqual(calls.map((c) => c[0]).sort(), [...schemas.keys()].sort(), "each tool is called, and no other");

for (const [tool, given, check] of calls) {
  const schema = schemas.get(tool);
  const args = { ...(schema.properties.task_id ? { task_id } : {}), ...about(schema), ...(typeof given === "function" ? await given() : given) };
  // By its other name, too: some models' interfaces refuse dots.
  const result = await call({ name: generation === "1" ? tool : tool.replaceAll(".", "_"), arguments: args });
  assert(!result.isError, `${tool}: ${result.content[0]?.text}`);
  assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent, tool);
  await check(result.structuredContent);
}
console.log(`${calls.length} tools`);

const { resources } = await client.listResources();
const artifact = resources.find((r) => r.name === name);
assert.equal((await client.readResource({ uri: artifact.uri })).contents[0].text, "# Note\n");
assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 3);
await assert.rejects(client.readResource({ uri: "muxd://artifacts/story/none" }));
console.log("resources");

// Errors that an agent can act on are results; a tool that is not there is an error of the protocol.
const refused = async (tool, args, text) => {
  const r = await call({ name: tool, arguments: args });
  assert(r.isError && r.content[0].text.includes(text), `${tool}: ${JSON.stringify(r)}`);
};
await refused("sandbox.session.exec", { session_id, argv: ["true"] }, "task_required");
await refused("sandbox.session.exec", { task_id: "other", session_id, argv: ["true"] }, "task_mismatch");
await refused("sandbox.session.exec", { task_id, session_id, argv: ["no-such-program"] }, "program_not_found");
await refused("sandbox.session.exec", { task_id, session_id, argv: "true" }, "argv must be a list");
await refused("sandbox.session.exec", { task_id, session_id, argv: ["true"], nice: 3 }, 'no argument "nice"');
await refused("sandbox.session.exec", { task_id, session_id: "other", argv: ["true"] }, "forbidden");
await refused("sandbox.session.exec", { task_id, session_id: `${session_id}/rounds`, argv: ["true"] }, "forbidden");
await refused("sandbox.session.create", { task_id, session_id, constraints: { network: "none" } }, '"network" cannot be applied');
await refused("sandbox.session.create", { task_id, session_id, image_ref: "debian" }, "image_not_allowed");
await refused("sandbox.workspace.read_file", { task_id, session_id, path: "../etc/passwd" }, "path_outside");
await refused("artifact.get", { task_id, name: "none" }, "not_found");
await assert.rejects(call({ name: "no.such.tool", arguments: {} }), /unknown tool/);
console.log("errors that say what to do");

// How far it is, and the end of the output; a time that is up is a result.
const progress = [];
const slow = await call({ name: "sandbox.session.exec", arguments: { task_id, session_id, argv: ["sh", "-c", "echo so far; sleep 30"], timeout_ms: 2500 } },
  { onprogress: (p) => progress.push(p) });
assert.deepEqual([slow.structuredContent.timed_out, slow.structuredContent.stdout], [true, "so far\n"]);
assert(progress.length >= 1 && progress[0].message.includes("so far"), JSON.stringify(progress));
console.log("progress");

// Cancelled: the whole tree is killed.
const abort = new AbortController();
const long = call({ name: "sandbox.session.exec", arguments: { task_id, session_id, argv: ["sh", "-c", "sleep 987 & echo started; sleep 987"] } },
  { signal: abort.signal, onprogress: () => abort.abort("enough") });
await assert.rejects(long);
for (let tries = 0; ; tries++) {
  const r = await call({ name: "sandbox.session.exec", arguments: { task_id, session_id, argv: ["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep [9]87'"] } });
  if (r.structuredContent.stdout === "0\n") break;
  assert(tries < 200, "the tree lives on");
}
console.log("cancelled");
if (era === "legacy" && transport.terminateSession) await transport.terminateSession();
await client.close();
