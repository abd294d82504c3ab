// An agent's work as a model's loop has it, without the model: it finds its tools, makes a sandbox, sees tests fail, reads, patches,
// sees them pass, keeps a result and reads it, thinks better of a long run, and repeats a call whose daemon was killed.
//
//     node loop.mjs URL STATE < TOKEN
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, state] = process.argv.slice(2);
const token = readFileSync(0, "utf8").trim();
const headers = { Authorization: `Bearer ${token}` };
const about = { task_id: "story", session_id: "loop" };
const client = new Client({ name: "loop", version: "1" }, { versionNegotiation: { mode: "legacy" } });
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
await client.connect(transport);
const use = async (name, args, more) => {
  const r = await client.callTool({ name, arguments: { ...about, ...args } }, more);
  assert(!r.isError, `${name}: ${r.content[0].text}`);
  return r.structuredContent;
};
const tests = () => use("sandbox.session.exec", { argv: ["python3", "-B", "-m", "unittest", "-q", "test_sum"] });

const { tools } = await client.listTools();
assert(tools.length > 10);
await use("sandbox.session.create", {});
assert.equal((await use("sandbox.session.create", {})).state, "running"); // the same once more
await use("sandbox.workspace.write_file", { path: "sum.py", content: "def total(numbers):\n    return len(numbers)\n" });
await use("sandbox.workspace.write_file", {
  path: "test_sum.py",
  content: "import unittest\nfrom sum import total\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(total([1, 2, 5]), 8)\n",
});
assert.equal((await tests()).exit_code, 1);
const found = await use("sandbox.workspace.search", { pattern: "def total" });
assert(JSON.stringify(found).includes("sum.py"));
assert((await use("sandbox.workspace.read_file", { path: "sum.py" })).data.includes("len(numbers)"));
await use("sandbox.workspace.apply_patch",
  { patch: "--- a/sum.py\n+++ b/sum.py\n@@ -1,2 +1,2 @@\n def total(numbers):\n-    return len(numbers)\n+    return sum(numbers)\n" });
assert.equal((await tests()).exit_code, 0);
console.log("edited by a patch until the tests passed");

await client.callTool({ name: "artifact.keep", arguments: { task_id: "story", name: "sum.py", session_id: "loop", path: "sum.py" } });
const kept = await client.callTool({ name: "artifact.get", arguments: { task_id: "story", name: "sum.py" } });
assert(kept.structuredContent.data.includes("sum(numbers)"));
console.log("an artifact was kept and read");

const abort = new AbortController();
await assert.rejects(use("sandbox.session.exec", { argv: ["sh", "-c", "echo on my way; sleep 300"] },
  { signal: abort.signal, onprogress: (p) => p.message.includes("on my way") && abort.abort("enough") }));
console.log("a long run was cancelled");

// The daemon dies in the middle of a call. The same request in the same session is the same round.
const rpc = (id, name, args, meta) => ({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: { ...about, ...args }, ...meta } });
const post = async (body, more) => {
  const answer = await fetch(url, { method: "POST", body: JSON.stringify(body),
    headers: { ...headers, "Content-Type": "application/json", Accept: "application/json, text/event-stream", ...more } });
  const text = await answer.text();
  return JSON.parse(answer.headers.get("content-type").startsWith("text/event-stream") ? text.match(/^data: (.+)$/m)[1] : text);
};
const session = { "Mcp-Session-Id": transport.sessionId };
const once = rpc(900, "sandbox.session.exec", { argv: ["sh", "-c", "echo ran >>count; until [ -e go ]; do sleep 0.05; done; cat count"] });
const meta = { _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": { extensions: { "io.modelcontextprotocol/tasks": {} } } } };
const modern = (method, name) => ({ "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name });
const first = post(once, session).then(() => "answered", () => "broken off");
const task = (await post(rpc(901, "sandbox.session.exec", { argv: ["sh", "-c", "until [ -e go ]; do sleep 0.05; done; echo done"] }, meta),
  modern("tools/call", "sandbox.session.exec"))).result;
assert.equal(task.resultType, "task");
while ((await use("sandbox.session.exec", { argv: ["sh", "-c", "cat count || true"] })).stdout !== "ran\n") await pause(50);
process.kill(JSON.parse(readFileSync(`${state}/ready.json`)).pids.net, "SIGKILL");
assert.equal(await first, "broken off");
let second;
for (let tries = 0; !second; tries++) {
  assert(tries < 600, "the daemon does not come back");
  second = await post(rpc(902, "sandbox.session.exec", { argv: ["touch", "go"] }), session).catch(() => undefined);
  if (second?.error) second = undefined;
  await pause(100);
}
const again = (await post(once, session)).result.structuredContent;
assert.deepEqual([again.exit_code, again.stdout], [0, "ran\n"]);
let told;
do told = (await post({ jsonrpc: "2.0", id: 903, method: "tasks/get", params: { taskId: task.taskId, ...meta } }, modern("tasks/get", task.taskId))).result;
while (told.status === "working");
assert.deepEqual([told.status, told.result.structuredContent.stdout], ["completed", "done\n"]);
console.log("a daemon was killed: the repeat of the call ran nothing twice, and its task was found");
await use("sandbox.session.end", { reason: "the work is done" });
await client.close();
