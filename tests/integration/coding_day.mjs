// The day of coding_day.sh with the TypeScript client.
import { readFileSync, writeFileSync } from "node:fs";
import { inflateSync } from "node:zlib";
import { Sandbox, SandboxError } from "muxd";

const PLOT = String.raw`
const zlib = require("node:zlib");
const crcs = new Uint32Array(256).map((_, n) => { for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1; return n; });
const crc = (b) => { let c = ~0; for (const x of b) c = crcs[(c ^ x) & 255] ^ (c >>> 8); return ~c >>> 0; };
function chunk(kind, data) {
  const body = Buffer.concat([Buffer.from(kind), data]), out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(data.length), body.copy(out, 4), out.writeUInt32BE(crc(body), body.length + 4);
  return out;
}
function plot(values) {
  const rows = Array.from({ length: 32 }, (_, y) => Buffer.from([0, ...values.map((v) => (v * 4 > 32 - y ? 0 : 255))]));
  const head = Buffer.alloc(13);
  head.writeUInt32BE(values.length), head.writeUInt32BE(32, 4), head.writeUInt8(8, 8);
  return Buffer.concat([Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]), chunk("IHDR", head), chunk("IDAT", zlib.deflateSync(Buffer.concat(rows))), chunk("IEND", Buffer.alloc(0))]);
}
`;

function equal(what, want, got) {
  if (JSON.stringify(want) !== JSON.stringify(got)) throw new Error(`FAILED: ${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`);
  console.log(`  typescript ok: ${what}`);
}

/** Dark pixels of each column, of a grey PNG without filters. */
function dark(png) {
  if (png.toString("latin1", 1, 4) !== "PNG") throw new Error("FAILED: no PNG");
  const data = [];
  let width = 0, height = 0;
  for (let at = 8; at < png.length; ) {
    const n = png.readUInt32BE(at), kind = png.toString("latin1", at + 4, at + 8), part = png.subarray(at + 8, at + 8 + n);
    if (kind === "IHDR") (width = part.readUInt32BE(0)), (height = part.readUInt32BE(4));
    if (kind === "IDAT") data.push(part);
    at += 12 + n;
  }
  const rows = inflateSync(Buffer.concat(data));
  return Array.from({ length: width }, (_, x) => Array.from({ length: height }, (__, y) => rows[y * (width + 1) + 1 + x]).filter((p) => p === 0).length);
}

async function debugged(sandbox) {
  const pdb = await sandbox.pty.run(["python3", "-m", "pdb", "-c", "b mean.py:4", "-c", "c", "test_mean.py"], { rows: 30, cols: 100, cwd: "/workspace/project" });
  let screen = await pdb.screen({ waitMs: 10000 });
  for (const keys of [["c", "Enter"], ["c", "Enter"], ["text:p total", "Enter"]]) {
    const after = await pdb.sendKeys(...keys);
    screen = await pdb.screen({ waitMs: 10000, after });
  }
  const lines = () => screen.text.split("\n").map((line) => line.trimEnd()).filter(Boolean);
  for (let i = 0; i < 20 && !(lines().includes("(Pdb) p total") && lines().at(-1) === "(Pdb)"); i++) screen = await pdb.screen({ waitMs: 1000, after: screen.offset });
  await pdb.kill();
  return lines()[lines().indexOf("(Pdb) p total") + 1];
}

const sandbox = await Sandbox.create();
try {
  await sandbox.files.write("work.bundle", readFileSync(process.env.BUNDLE));
  await sandbox.commands.run("git clone -q work.bundle project && rm work.bundle");
  const test = ["python3", "test_mean.py"];
  const failed = await sandbox.commands.run(test, { cwd: "/workspace/project", check: false });
  equal("the test fails", [1, true], [failed.exitCode, failed.stderr.includes("AssertionError")]);
  const found = await sandbox.files.search("total = v", { path: "project" });
  equal("the place is found", [["project/mean.py", 4]], found.map((m) => [m.path, m.line]));
  equal("the debugger shows it", "2", await debugged(sandbox));
  await sandbox.files.patch("*** Begin Patch\n*** Update File: mean.py\n@@\n-        total = v\n+        total += v\n*** End Patch\n", { path: "project" });
  const turns = [];
  for (let turn = 0; turn < 3; turn++) turns.push(await sandbox.commands.run(test, { cwd: "/workspace/project", execId: `turn-${turn}`, check: false }));
  equal("the test passes, three times", Array(3).fill([0, true]), turns.map((turn) => [turn.exitCode, turn.stderr.includes("OK")]));
  await sandbox.runCode(PLOT, { language: "javascript" });
  const drawn = await sandbox.runCode('display({ _repr_png_: () => plot([1, 2, 6]) })', { language: "javascript" });
  equal("a plot, looked at", [3, 7, 23], dark(Buffer.from(drawn.results[0].png, "base64")));
  await sandbox.artifacts.export("day.patch", { git: "HEAD", path: "project" });
  writeFileSync(process.env.PATCH, await sandbox.artifacts.get("day.patch"));
  await sandbox.pause();
  equal("it sleeps", false, await sandbox.isRunning());
  await sandbox.resume();
  equal("it wakes with its work", 0, (await sandbox.commands.run(test, { cwd: "/workspace/project" })).exitCode);
  const ended = await sandbox.runCode("plot", { language: "javascript" }).catch((e) => e);
  equal("the interpreter ended with its sleep, and says so", "context_ended", ended.code);
  const fresh = await sandbox.createCodeContext({ language: "javascript" });
  equal("a fresh one goes on", "3", (await sandbox.runCode("6 / 2", { context: fresh })).text);
  const refused = await sandbox.artifacts.export("none.patch", { git: "no-such-revision", path: "project" }).catch((e) => e);
  equal("an export from nowhere is refused by name", [true, "base_unknown"], [refused instanceof SandboxError, refused.code]);
  await sandbox.artifacts.delete("day.patch");
} finally {
  await sandbox.kill({ wipe: true });
}
