// Calls tools of a muxd by the CLI of MCP's inspector, a process for each call: every tool of the product's catalogue, or the first
// of them; or one of a server inside.
//
//     node inspect.mjs CLI URL SANDBOX COUNT(0: each) ERA(legacy|modern)
//     node inspect.mjs CLI URL TOOL ARGUMENT=VALUE...
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";

const [cli, url, ...rest] = process.argv.slice(2);
let era = "auto";
function inspect(...args) {
  const r = spawnSync(process.execPath, [cli, "--cli", url, "--transport", "http", "--protocol-era", era, ...args], { encoding: "utf8", timeout: 60000 });
  assert([0, 5].includes(r.status), `${args.join(" ")}: ${r.stdout}${r.stderr}`);
  return JSON.parse(r.stdout); // 5: the tool's own error
}
const call = (tool, args) =>
  inspect("--method", "tools/call", "--tool-name", tool, ...Object.entries(args).flatMap(([k, v]) => ["--tool-arg", `${k}=${typeof v === "string" ? v : JSON.stringify(v)}`]));

const kept = {};
// One call of each tool, in an order in which each finds what it needs.
const calls = (session_id) => [
  ["sandbox.session.create", {}],
  ["sandbox.session.exec", { argv: ["echo", "hi"] }, (r) => { assert.equal(r.stdout, "hi\n"); }],
  ["sandbox.session.show", {}],
  ["sandbox.session.list", {}],
  ["sandbox.round.list", {}],
  ["sandbox.workspace.write_file", { path: "a.txt", content: "one" }],
  ["sandbox.workspace.apply_patch", { patch: "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch\n" }],
  ["sandbox.workspace.read_file", { path: "a.txt" }],
  ["sandbox.workspace.list", {}],
  ["sandbox.workspace.search", { pattern: "two" }],
  ["sandbox.workspace.stat", { path: "a.txt" }],
  ["sandbox.workspace.glob", { pattern: "*.txt" }],
  ["sandbox.workspace.mkdir", { path: "deep" }],
  ["sandbox.workspace.copy", { path: "a.txt", to: "deep/b.txt" }],
  ["sandbox.workspace.move", { path: "deep/b.txt", to: "deep/c.txt" }],
  ["sandbox.workspace.delete", { path: "deep", recursive: true }],
  ["sandbox.lock.take", { path: "a.txt" }, (r) => { kept.lock_id = r.id ?? r.lock_id; }],
  ["sandbox.lock.list", {}],
  ["sandbox.lock.renew", () => ({ lock_id: kept.lock_id })],
  ["sandbox.lock.release", () => ({ lock_id: kept.lock_id })],
  ["create_file", { path: `new-${process.pid}.txt`, content: "x" }],
  ["python_exec", { code: "print(6 * 7)" }, (r) => assert.equal(r.stdout, "42\n")],
  ["artifact.put", { name: "note.md", content: "# Note" }],
  ["artifact.keep", { name: "a.txt", session_id, path: "a.txt" }],
  ["artifact.get", { name: "note.md" }],
  ["artifact.list", {}],
  ["artifact.delete", { name: "note.md" }],
  ["sandbox.round.start", { command: "cat; sleep 300", stdin_open: true }, (r) => { kept.round_id = r.round_id; }],
  ["sandbox.round.stdin", () => ({ round_id: kept.round_id, data: "typed" })],
  ["sandbox.round.show", () => ({ round_id: kept.round_id })],
  ["sandbox.round.output", () => ({ round_id: kept.round_id, tail: 5 })],
  ["sandbox.round.signal", () => ({ round_id: kept.round_id, signal: "CONT" })],
  ["sandbox.round.end", () => ({ round_id: kept.round_id, reason: "done" })],
  ["sandbox.shell.list", {}],
  ["sandbox.shell.end", { shell: "none" }, undefined, "not_found"],
  ["sandbox.service.list", {}],
  ["sandbox.service.log", { service: "none" }, undefined, "not_found"],
  ["sandbox.service.restart", { service: "none" }, undefined, "not_found"],
  ["sandbox.mcp.list", {}],
  ["sandbox.mcp.request", { server: "none", method: "tools/list" }, undefined, "not_found"],
  ["sandbox.context.create", { language: "python" }, (r) => { kept.context_id = r.context_id; }],
  ["sandbox.context.execute", () => ({ context_id: kept.context_id, code: "print(5)" }), (r) => assert.equal(r.stdout, "5\n")],
  ["sandbox.context.list", {}],
  ["sandbox.context.interrupt", () => ({ context_id: kept.context_id }), undefined, "bad_state: the context is idle"],
  ["sandbox.context.reset", () => ({ context_id: kept.context_id })],
  ["sandbox.context.delete", () => ({ context_id: kept.context_id })],
  ["sandbox.terminal.start", { command: "echo here; sleep 300" }, (r) => { kept.terminal = r.round_id; }],
  ["sandbox.terminal.keys", () => ({ round_id: kept.terminal, keys: ["text:typed", "Enter"] })],
  ["sandbox.terminal.resize", () => ({ round_id: kept.terminal, cols: 100, rows: 30 })],
  ["sandbox.terminal.screen", () => ({ round_id: kept.terminal })],
  ["sandbox.session.snapshot", { reason: "story" }, (r) => { kept.snapshot_id = r.snapshot.id; }],
  ["sandbox.session.snapshots", {}],
  ["sandbox.session.restore", () => ({ snapshot_id: kept.snapshot_id, reason: "story" })],
  ["sandbox.session.fork", () => ({ snapshot_id: kept.snapshot_id, reason: "story" })],
  ["sandbox.session.end", { reason: "over" }],
];

async function every(session_id, count, of_era) {
  era = of_era;
  const { tools } = inspect("--method", "tools/list");
  const all = calls(session_id), schemas = new Map(tools.map((t) => [t.name, t.inputSchema]));
  assert.deepEqual(all.map((c) => c[0]).sort(), [...schemas.keys()].sort(), "each tool is called, and no other");
  let called = 0;
  for (const [tool, given, check, refused] of count ? all.slice(0, count) : all) {
    const { properties, required } = schemas.get(tool);
    const about = { ...(properties.task_id ? { task_id: "story" } : {}), ...(required.includes("session_id") ? { session_id } : {}) };
    const r = call(tool, { ...about, ...(typeof given === "function" ? given() : given) });
    assert(refused ? r.content[0].text.startsWith(refused) : !r.isError, `${tool}: ${r.content[0].text}`);
    check?.(r.structuredContent);
    called++;
  }
  console.log(`${called} of ${all.length} tools, ${era}`);
}

if (rest.length === 3 && /^\d+$/.test(rest[1])) await every(rest[0], Number(rest[1]), rest[2]);
else console.log(call(rest[0], Object.fromEntries(rest.slice(1).map((a) => a.split("=")))).content[0].text);
