// clients_canned.mjs PACKAGE SOCKET: as clients_canned.py, for the TypeScript client.
import { existsSync, unlinkSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";

const [, , folder, path] = process.argv;
const load = (name) => import(join(folder, "dist", name));
const { AnswerLost, ConnectionLost, Sandbox } = await load("index.js");
const { Client } = await load("http.js");
const { CommandHandle } = await load("commands.js");
const { Files } = await load("files.js");
const { lines } = await load("lines.js");
const { NodeTransport } = await load("node.js");
const { BaseSandbox } = await load("sandbox.js");
const sleep = (ms) => new Promise((go) => setTimeout(go, ms));
const OK = "HTTP/1.1 200 OK\r\n";

function equal(what, expected, got) {
  const [a, b] = [JSON.stringify(expected), JSON.stringify(got)];
  if (a !== b) {
    console.log(`FAILED: ${what}: expected ${a}, got ${b}`);
    process.exit(1);
  }
  console.log(`  ok: typescript: ${what}`);
}

/** One answer for each connection: bytes, or what is done with it. Resolves once it listens; `asked` has their heads. */
function serve(...answers) {
  if (existsSync(path)) unlinkSync(path);
  const asked = [];
  const server = createServer((socket) => {
    let head = "";
    socket.on("error", () => undefined);
    socket.on("data", (data) => {
      if (head.includes("\r\n\r\n")) return;
      head += data.toString("latin1");
      if (!head.includes("\r\n\r\n")) return;
      asked.push(head);
      const answer = answers.shift();
      if (typeof answer === "function") answer(socket, server);
      else socket.end(answer);
    });
  });
  return new Promise((go) => server.listen(path, () => { go({ server, asked }); }));
}

function client(requestTimeoutMs = 5000) {
  return new Client(new NodeTransport({ socketPath: path, token: "t" }), { requestTimeoutMs, retryForMs: 2000 });
}

const chunks = (end, ...pieces) => pieces.map((p) => `${p.length.toString(16)}\r\n${p}\r\n`).join("") + (end ? "0\r\n\r\n" : "");

async function holes() {
  const head = `${OK}Transfer-Encoding: chunked\r\n`;
  const { server, asked } = await serve();
  const answers = {
    0: `Muxd-Offset: 10\r\nMuxd-Missing: bytes 0-9, 15-19\r\n\r\n${chunks(false, "abc", "defgh")}`,
    23: `Muxd-Offset: 23\r\nMuxd-Missing: bytes 25-29\r\n\r\n${chunks(false, "ij")}`,
    30: `Muxd-Offset: 30\r\n\r\n${chunks(true, "k")}`,
  };
  server.removeAllListeners("connection");
  server.on("connection", (socket) => {
    socket.once("data", (data) => {
      const line = data.toString("latin1").split("\r\n")[0];
      asked.push(line);
      if (line.includes("stdout")) socket.end(head + answers[/offset=(\d+)/.exec(line)[1]]);
      else socket.end(`${OK}Content-Length: 0\r\n\r\n`);
    });
  });
  const stream = { sha256: "", total_bytes: 31 };
  const round = { round_id: "r", exit: { cause: "exit", code: 0, signal: null }, stdout: stream, stderr: stream, duration_ms: 1 };
  const got = [];
  const r = await new CommandHandle(client(), round, { onStdout: (t) => { got.push(t); } }, true).wait();
  equal("output with holes, cut twice", ["abcdefghijk", "abcdefghijk", true], [r.stdout, got.join(""), r.truncated]);
  server.close();
}

async function pauses() {
  const size = 16 << 20;
  const { server } = await serve((socket) => {
    socket.write(`${OK}Content-Length: ${size}\r\n\r\n`);
    socket.end(Buffer.alloc(size));
  });
  let n = 0;
  for await (const piece of await new Files(client(1200), "a").read("f", { format: "stream" })) {
    if (n === 0) await sleep(2000);
    n += piece.length;
  }
  equal("its reader's pause is no silence", size, n);
  server.close();
}

/** What is taken slowly, but taken, is no silence either. */
async function slowlyTaken() {
  const size = 4 << 20;
  const { server } = await serve(async (socket) => {
    let n = 0;
    socket.on("data", (data) => {
      n += data.length;
      socket.pause();
      setTimeout(() => socket.resume(), 50);
      const body = JSON.stringify({ path: "f", size, sha256: "" });
      if (n >= size - 65536 && !socket.writableEnded) socket.end(`${OK}Content-Length: ${body.length}\r\n\r\n${body}`);
    });
  });
  const began = Date.now();
  const w = await new Files(client(1200), "a").write("f", new Uint8Array(size));
  equal("a body that is taken slowly", [size, true], [w.size, Date.now() - began > 1250]);
  server.close();
}

async function goneBetween() {
  const body = JSON.stringify({ agent: "a", state: "running" });
  const { server } = await serve(`${OK}Content-Length: ${body.length}\r\n\r\n${body}`, (socket, listener) => {
    listener.close();
    if (existsSync(path)) unlinkSync(path);
    socket.destroy();
  });
  const s = new BaseSandbox("a", client());
  await s.getInfo();
  const e = await s.pause().catch((why) => why);
  equal("a first try that may have been carried out counts", [true, true, true], [e instanceof ConnectionLost, e.maybeDone, e.hint.includes("may have been done")]);
  server.close();
}

/** Whose grant names no one agent makes a name up, which the grant covers. */
async function namedByItsGrant() {
  const ok = (body) => `${OK}Content-Length: ${JSON.stringify(body).length}\r\n\r\n${JSON.stringify(body)}`;
  const woken = { agent: "a", state: "running" };
  for (const [granted, given, name] of [["*", undefined, /^sbx-[0-9a-f]{16}$/], ["ci-*", undefined, /^ci-[0-9a-f]{16}$/], ["ci-7", undefined, /^ci-7$/], ["ci-*", "ci-8", /^ci-8$/]]) {
    const { server, asked } = await serve(...(given ? [] : [ok({ agent: granted })]), ok(woken));
    const s = await Sandbox.create({ agent: given, socketPath: path, token: "t" });
    equal(`a grant for ${granted}, asked for ${given ?? "any"}`, [true, true], [name.test(s.sandboxId), asked.at(-1).includes(`/v1/agents/${s.sandboxId}/resume `)]);
    s.close();
    server.close();
  }
}

async function noLength() {
  const { server } = await serve(...Array(40).fill(`${OK}\r\nhalf of`));
  const e = await new Files(client(), "a").read("f").catch((why) => why);
  equal("an answer that may have been cut is none", [true, true], [e instanceof ConnectionLost, String(e.message).includes("does not say how long it is")]);
  server.close();
}

/** It was done, and only what can be said twice is. */
async function lostAnswer() {
  const about = JSON.stringify({ error: { code: "answer_lost", message: "m", hint: "h", request_id: "r" } });
  const lost = `HTTP/1.1 500 Internal Server Error\r\nContent-Length: ${about.length}\r\n\r\n${about}`;
  const { server, asked } = await serve(lost, lost, `${OK}Content-Length: 16\r\n\r\n{"round_id":"r"}`);
  const e = await new Files(client(), "a").patch("*** Begin Patch\n*** End Patch\n").catch((why) => why);
  equal("a patch whose answer is lost is made once", [true, "answer_lost", 1], [e instanceof AnswerLost, e.code, asked.length]);
  const round = await client().json("getRound", { id: "r" }, { again: true });
  equal("what only looks looks again", ["r", 3], [round.round_id, asked.length]);
  server.close();
}

/** Code in a sandbox writes where its interpreter tells events. */
async function lineWithoutEnd() {
  async function* pieces() {
    for (let n = 0; n < 1024; n++) yield Buffer.alloc(1 << 16, "x");
    yield Buffer.from("\nnext\nha");
    yield Buffer.from("lf\n");
  }
  const got = [];
  let lost = 0;
  for await (const line of lines(pieces(), 1 << 20, () => { lost++; })) got.push(line);
  equal("a line without end is not kept, and what comes behind it is heard", [1, "next", "half"], [lost, ...got]);
}

for (const part of [lostAnswer, lineWithoutEnd, holes, noLength, pauses, slowlyTaken, goneBetween, namedByItsGrant]) await part();
