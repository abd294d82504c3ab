// clients.mjs PACKAGE: what the TypeScript client promises, against a daemon. As clients.py; what is safe to be cut is cut.
import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { createReadStream, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const muxd = await import(join(process.argv[2], "dist/index.js"));
const { Sandbox, CommandExitError, ConnectionLost, RequestTimeout, SandboxExecTimeout, SandboxTransferTimeout } = muxd;
const here = dirname(fileURLToPath(import.meta.url));
const { MUXD_STATE: stateDir, TMP_DIR: tmp, AGENT: agent, TOKEN_FILE: tokenFile, TASK: task, URL: url } = process.env;
const any = { stateDir, tokenFile: `${tmp}/any`, taskId: "story" };
const sum = (bytes) => createHash("sha256").update(bytes).digest("hex");
const sleep = (ms) => new Promise((go) => setTimeout(go, ms));

function equal(what, expected, got) {
  const [a, b] = [JSON.stringify(expected), JSON.stringify(got)];
  if (a !== b) {
    console.log(`FAILED: ${what}: expected ${a}, got ${b}`.slice(0, 2000));
    process.exit(1);
  }
  console.log(`  ok: typescript: ${what}`);
}

async function raises(what, kind, work, attributes = {}) {
  let got;
  try {
    got = await work();
  } catch (e) {
    if (e.constructor !== kind) {
      console.log(`FAILED: ${what}: ${e.stack ?? e}, not ${kind.name}`);
      process.exit(1);
    }
    for (const [name, expected] of Object.entries(attributes)) equal(`${what}: ${name}`, expected, e[name]);
    console.log(`  ok: typescript: ${what}: ${kind.name}`);
    return e;
  }
  equal(what, kind.name, got);
}

class Proxy {
  constructor() {
    this.path = `${tmp}/proxy-typescript.sock`;
    this.process = spawn("/usr/bin/python3", [join(here, "../lib/cutting_proxy.py"), this.path, `${stateDir}/api.sock`], { stdio: ["pipe", "pipe", "inherit"] });
    this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
  }
  async line() {
    return (await this.lines.next()).value;
  }
  async say(text) {
    this.process.stdin.write(`${text}\n`);
    return this.line();
  }
  async cut(kind, method, path, count = 1) {
    equal(`the proxy will cut ${method} ${path} (${kind})`, "ok", await this.say(`cut ${kind} ${count} ${method} ${path}`));
  }
  async seen() {
    return parseInt(await this.say("seen"), 10);
  }
  /** The name in what was cut last. */
  async madeUp() {
    return /(sbx-\w+)\/resume/.exec(await this.say("seen"))[1];
  }
  async alone() {
    for (const end = Date.now() + 20_000; (await this.say("open")) !== "0" && Date.now() < end; ) await sleep(20);
    return (await this.say("open")) === "0";
  }
}

async function commands(s) {
  let r = await s.commands.run("echo out; echo err >&2");
  equal("a command", ["out\n", "err\n", 0, "exit", false], [r.stdout, r.stderr, r.exitCode, r.cause, r.truncated]);
  equal("a program and its arguments", "a b|$HOME|", (await s.commands.run(["printf", "%s|", "a b", "$HOME"])).stdout);
  equal("cwd, envs", "/tmp 1 two\n", (await s.commands.run("echo $PWD $X $Y", { cwd: "/tmp", envs: { X: "1" } })).stdout);
  await raises("another end than 0", CommandExitError, () => s.commands.run("echo part; exit 3"), { exitCode: 3, stdout: "part\n" });
  equal("without check", 4, (await s.commands.run("exit 4", { check: false })).exitCode);
  r = await s.commands.run("kill -9 $$", { check: false });
  equal("a signal", [137, "KILL"], [r.exitCode, r.signal]);
  const failed = await raises("a program that is not there", muxd.ProgramNotFound, () => s.commands.run(["no-such-program"]), { status: 400 });
  equal("whose round is named", 36, failed.roundId.length);
  await raises("a time that is up", SandboxExecTimeout, () => s.commands.run("echo part; sleep 30", { timeoutMs: 400 }), { code: "sandbox_exec_timeout", stdout: "part\n" });
  equal("input at once", "grüß", (await s.commands.run("cat", { stdin: "grüß" })).stdout);
}

async function streams(s) {
  const out = [], err = [];
  const line = "for i in 1 2 3; do printf '\\303'; sleep 0.15; printf '\\274\\360\\237'; sleep 0.15; printf '\\230\\200\\n'; done; echo e >&2";
  let r = await s.commands.run(line, { onStdout: (t) => { out.push(t); }, onStderr: (t) => { err.push(t); } });
  equal("characters are whole at the borders of pieces", "ü😀\n".repeat(3), out.join(""));
  equal("in the result as well", ["ü😀\n".repeat(3), "e\n", ["e\n"]], [r.stdout, r.stderr, err]);
  const h = await s.commands.run("echo first; read x; echo got $x", {
    background: true, stdin: true, timeoutMs: 60_000, onStdout: async (t) => { if (t.includes("first")) await h.sendStdin("it\n"); },
  });
  equal("it comes as it is printed: the callback answers", "first\ngot it\n", (await h.wait()).stdout);
  r = await s.commands.run("printf 'a\\377b\\303'", { onStdout: () => undefined });
  equal("what is no UTF-8 is marked, and there in bytes", ["a\ufffdb\ufffd", "61ff62c3"], [r.stdout, Buffer.from(r.stdoutBytes).toString("hex")]);
  const big = "head -c 9000000 /dev/urandom | tee big; sha256sum big >&2; rm big";
  r = await s.commands.run(big);
  equal("big output is whole", [9000000, r.stderr.slice(0, 64)], [r.stdoutBytes.length, sum(r.stdoutBytes)]);
  r = await s.commands.run(big, { onStdout: () => undefined });
  equal("followed, too", [9000000, r.stderr.slice(0, 64)], [r.stdoutBytes.length, sum(r.stdoutBytes)]);
  equal("past maxOutput that is said", true, (await s.commands.run("head -c 9000000 /dev/zero", { maxOutput: 1 << 20 })).truncated);
  const began = Date.now();
  try {
    await s.commands.run("echo x; sleep 20", { onStdout: () => { throw new RangeError("enough"); } });
    equal("a callback's exception", "thrown", "lost");
  } catch (e) {
    equal("a callback's exception ends the wait", [true, true], [e instanceof RangeError, Date.now() - began < 5000]);
  }
}

async function background(s) {
  let h = await s.commands.run("cat; echo end", { background: true, stdin: true });
  equal("it is among those that run", [h.pid], (await s.commands.list()).map((p) => p.pid).filter((p) => p === h.pid));
  await h.sendStdin("ü".repeat(50000));
  await s.commands.sendStdin(h.pid, Uint8Array.of(255, 0));
  await h.sendStdin("and more"); // whose place another has written at
  await h.closeStdin();
  equal("its input came in order, and whole", sum(Buffer.concat([Buffer.from("ü".repeat(50000)), Buffer.from([255, 0]), Buffer.from("and moreend\n")])), sum((await h.wait()).stdoutBytes));
  h = await s.commands.run("trap 'echo got; exit 9' USR1; echo up; while :; do sleep 0.05; done", { background: true, check: false, onStdout: () => undefined });
  while (h.stdout !== "up\n") await sleep(20);
  equal("a signal is sent", true, await (await s.commands.connect(h.pid)).sendSignal("USR1"));
  const r = await h.wait();
  equal("its end", [9, "up\ngot\n"], [r.exitCode, r.stdout]);
  equal("a signal to one that has ended", false, await h.sendSignal("USR1"));
  h = await s.commands.run("sleep 60 & sleep 60", { background: true, check: false });
  equal("killed", [true, 137], [await s.commands.kill(h.pid), (await h.wait()).exitCode]);
}

async function files(s) {
  const f = s.files;
  const names = ["plain.txt", "with space/ü😀.txt", "per%cent&plus+?#=", "line\nend", Buffer.from("no\xffutf8", "latin1"), "-rf", "'quote\"", "$(x)`y`", "\\back\x07"];
  for (const name of names) {
    const content = randomBytes(1000);
    const w = await f.write(name, content);
    equal(`${String(name)} is written`, [1000, sum(content)], [w.size, w.sha256]);
    equal("and read", sum(content), sum(await f.read(name, { format: "bytes" })));
  }
  const listed = await f.list(".", { depth: 2 });
  equal("all are listed", [], names.filter((n) => !listed.some((e) => (typeof n === "string" ? e.path === n : e.pathBytes && Buffer.compare(Buffer.from(e.pathBytes), n) === 0))));
  equal("its type", "dir", listed.find((e) => e.path === "with space").type);
  for (const name of names) await f.remove(name);
  equal("and gone", false, await f.exists(names[3]));
  await f.write([{ path: "t.txt", data: "eins\nzwei\ndrei\n" }]);
  equal("lines", "zwei\n", (await f.readLines("t.txt", 2, 2)).data);
  equal("a part", "drei", Buffer.from(await f.readPart("t.txt", 10, 4)).toString());
  await f.append("t.txt", "vier\n");
  equal("search", [["t.txt", 4]], (await f.search("vi?er", { regex: true })).map((m) => [m.path, m.line]));
  const known = (await f.readLines("t.txt")).sha256;
  await f.edit("t.txt", "neu\n", { ifMatch: known });
  await raises("an edit of what has changed", muxd.FileChanged, () => f.edit("t.txt", "x", { ifMatch: known }), { status: 412 });
  const patch = (to) => `*** Begin Patch\n*** Update File: t.txt\n@@\n-neu\n+${to}\n*** End Patch\n`;
  await f.patch(patch("anders"));
  equal("a patch", "anders\n", await f.read("t.txt"));
  const e = await raises("one that does not fit", muxd.PatchRefused, () => f.patch(patch("x")));
  equal("and why", true, "refused" in e.details);
  equal("directories", [true, false, "dir"], [await f.makeDir("d/e"), await f.makeDir("d/e"), (await f.getInfo("d/e")).type]);
  equal("a new name", "d/moved", (await f.rename("t.txt", "d/moved")).path);
  equal("a copy", "d/e/copy", (await f.copy("d/moved", "d/e/copy")).path);
  equal("permissions", 0o750, (await f.chmod("d/moved", 0o750)).mode);
  equal("by pattern", ["d/e/copy"], (await f.glob("**/co*")).map((x) => x.path));
  await raises("one that is not there", muxd.FileNotFound, () => f.read("nowhere"), { status: 404 });
  await raises("one outside", muxd.PathOutside, () => f.getInfo("/etc/passwd"), { status: 403 });
  const size = readFileSync("/bin/bash").length;
  const w = await f.write("d/big", createReadStream("/bin/bash"), { size });
  equal("a big one from a file", sum(readFileSync("/bin/bash")), w.sha256);
  const back = createHash("sha256");
  const reader = (await f.read("d/big", { format: "stream" })).getReader();
  for (let step = await reader.read(); !step.done; step = await reader.read()) back.update(step.value);
  equal("and back in pieces", w.sha256, back.digest("hex"));
  async function* slowly() {
    for (let i = 0; i < 40; i++) {
      await sleep(50);
      yield new Uint8Array(100);
    }
  }
  async function* pieces(...texts) {
    for (const text of texts) yield Buffer.from(text);
  }
  for (const size of [5, 50]) {
    const why = await raises("a size that is not true", RangeError, () => f.write("d/size", pieces("hello ", "world"), { size }));
    equal(why.message, false, await f.exists("d/size"));
  }
  await f.write("d/size", pieces("hello ", "world"), { size: 11 });
  equal("one that is", "hello world", await f.read("d/size"));
  async function* broken() {
    yield new Uint8Array(1);
    throw new EvalError("of the caller");
  }
  await raises("what the content throws comes as it is", EvalError, () => f.write("d/broken", broken()), { message: "of the caller" });
  equal("and leaves nothing", false, await f.exists("d/broken"));
  await raises("a transfer whose time is up", SandboxTransferTimeout, () => f.write("d/slow", slowly(), { timeoutMs: 400 }), { code: "sandbox_transfer_timeout" });
  equal("it left nothing", false, await f.exists("d/slow"));
}

async function terminals(s) {
  let seen = "";
  const onData = (d) => { seen += Buffer.from(d).toString("latin1"); };
  const until = async (text) => {
    for (const end = Date.now() + 20000; !seen.includes(text); await sleep(20)) if (Date.now() > end) equal(text, "seen", seen);
    seen = "";
  };
  const p = await s.pty.create({ cols: 100, rows: 30, onData });
  await s.pty.resize(p.pid, { cols: 101, rows: 31 });
  await s.pty.sendInput(p.pid, "stty size; echo it is $((6*7))\n");
  await until("it is 42");
  await p.disconnect();
  const q = await s.pty.connect(p.pid, { onData });
  await q.sendInput("echo still $((40+4)) here\n");
  await until("still 44 here");
  equal("it is joined again, and ended", [p.pid, true], [q.pid, await s.pty.kill(q.pid)]);
  equal("which its reader is told", true, (await q.wait()).cause !== "");
}

async function roundsWithTerminals(s) {
  let got = "";
  const onData = (d) => { got += Buffer.from(d).toString("latin1"); };
  const p = await s.pty.run(["sh"], { rows: 10, cols: 40, envs: { PS1: "$ " }, onData });
  const offset = await p.sendKeys("text:tty >/dev/null && echo it is $((6*7)); stty size", "Enter");
  const shown = await p.screen({ waitMs: 20_000, after: offset + 60 });
  equal("a command with a terminal, by keys and its screen", ["it is 42", "10 40"], shown.lines.filter((line) => /^[i1]/.test(line)));
  await p.resize({ cols: 41, rows: 11 });
  await p.sendInput("stty size\n");
  for (const end = Date.now() + 20_000; !got.includes("11 41"); await sleep(20)) if (Date.now() > end) equal("11 41", "seen", got);
  const cells = await p.cells();
  equal("cells", [41, 11, true], [cells.cols, cells.rows, cells.runs.some((r) => r.text.includes("it is 42"))]);
  let all = "";
  const q = await s.pty.connect(p.pid, { onData: (d) => { all += Buffer.from(d).toString("latin1"); } });
  await q.sendKeys("text:exit 5", "Enter");
  equal("joined, to its end", [5, 5], [(await q.wait()).exitCode, (await p.wait()).exitCode]);
  equal("from its first byte", got, all);
  got = "";
  const shell = await s.pty.create({ rows: 5, cols: 20, cwd: "/tmp", envs: { Z: "dir is" }, timeoutMs: 60_000, onData });
  await s.pty.sendInput(shell.pid, "stty -echo; echo $Z $PWD; exec sleep 60\n");
  for (const end = Date.now() + 20_000; !got.includes("dir is /tmp"); await sleep(20)) if (Date.now() > end) equal("dir is", "seen", got);
  equal("a shell somewhere, killed", [true, "KILL"], [await shell.kill(), (await shell.wait()).signal]);
}

async function events(s) {
  const h = await s.commands.run("printf 'a\\303'; sleep 0.2; printf '\\274\\n'; read x; echo $x >&2; exit 3", { background: true, stdin: true, check: false });
  const seen = [];
  for await (const e of h.events()) {
    seen.push(e);
    if (e.event === "stdout" && e.output.at(-1) === 10) await h.sendStdin("in\n");
  }
  const out = (list, name) => Buffer.concat(list.filter((e) => e.event === name).map((e) => e.output)).toString();
  equal("events from its start to its end", ["started", "stdout", "stderr", "exit"], [...new Set(seen.map((e) => e.event))]);
  equal("what was printed", ["aü\n", "in\n", 3], [out(seen, "stdout"), out(seen, "stderr"), seen.at(-1).data.exit.code]);
  const rest = [];
  for await (const e of h.events("3-0")) rest.push(e);
  equal("behind an id what follows", ["\n", "in\n"], [out(rest, "stdout"), out(rest, "stderr")]);
  for await (const e of h.events(seen.at(-1).id)) equal("behind the last id", "nothing", e);
}

async function watches(s) {
  await s.files.makeDir("w/deep");
  const watch = await s.files.watchDir("w");
  await s.commands.run("cd w; echo 2 >>a; chmod 600 a; mv a b; rm b; : >deep/unseen; mkdir new");
  const seen = [];
  for await (const e of watch) {
    seen.push(`${e.type} ${e.name}`);
    if (e.name === "new") break;
  }
  const want = ["create a", "write a", "chmod a", "rename a", "create b", "remove b", "create new"];
  equal("what happens in a directory, and not below it", [want, false], [[...new Set(seen)].filter((w) => want.includes(w)), seen.some((w) => w.includes("unseen"))]);
  const told = [];
  const ended = new Promise((go) => {
    void s.files.watchDir("w", (e) => { told.push(`${e.type} ${e.name} ${e.path}`); }, { recursive: true, onExit: (e) => { go(e ?? "its end"); } })
      .then(() => s.commands.run("cd w; : >new/deep; rm -r ../w"));
  });
  equal("and the directory's end", "its end", await ended);
  equal("a callback, below it too", true, told.includes("create new/deep w/new/deep"));
  await raises("one that is not there", muxd.FileNotFound, () => s.files.watchDir("w"), { status: 404 });
}

async function trees(s) {
  const f = s.files;
  await f.write([{ path: "tree/a.txt", data: "a\n" }, { path: "tree/sub/b.bin", data: Uint8Array.of(0, 255) }]);
  const archive = await f.readTree("tree");
  equal("a directory, and back as another", [2, "00ff"], [(await f.writeTree("copied/tree", archive)).files, Buffer.from(await f.read("copied/tree/sub/b.bin", { format: "bytes" })).toString("hex")]);
  await raises("a name that is taken", muxd.FileExists, () => f.writeTree("copied/tree", archive), { status: 409 });
  await f.write("copied/tree/more", "x");
  equal("merged", [2, true], [(await f.writeTree("copied/tree", archive, { merge: true })).files, await f.exists("copied/tree/more")]);
  await f.writeTree("copied/tree", await f.readTree("tree", { format: "stream" }), { overwrite: true });
  equal("replaced, as it came", false, await f.exists("copied/tree/more"));
}

async function artifacts(s, proxy) {
  const a = s.artifacts;
  const big = randomBytes(3 << 20);
  const info = await a.put("big", big, { mediaType: "application/x-big" });
  equal("an artifact", [big.length, sum(big), "application/x-big", task], [info.size, info.sha256, info.mediaType, info.task]);
  async function* pieces() {
    for (let i = 0; i < 10; i++) yield new Uint8Array(300);
  }
  equal("of pieces", 3000, (await a.put("pieces", pieces())).size);
  await a.put("text", "grüß");
  equal("text", "grüß", await a.get("text", { format: "text" }));
  await raises("a name that is taken", muxd.Conflict, () => a.put("text", "x", { createOnly: true }), { status: 412 });
  await s.files.write("out/report", "r");
  await a.take("report", { path: "out/report" });
  equal("of a file in the sandbox", "r", await a.get("report", { format: "text" }));
  const r = await s.commands.run("echo said; echo made >made", { artifacts: { log: ":stdout", made: "made" } });
  for (const end = Date.now() + 20_000; (await a.list({ roundId: r.roundId })).length < 2 && Date.now() < end; ) await sleep(50);
  equal("what a command leaves", ["log", "made"], (await a.list({ roundId: r.roundId })).map((i) => i.name));
  await a.take("again", { roundId: r.roundId });
  equal("of its output later", "said\n", await a.get("again", { format: "text" }));
  await raises("one that is not there", muxd.NotFound, () => a.get("nothing"), { status: 404 });
  await proxy.cut("body=1000000", "GET", `/v1/tasks/${task}/artifacts/big`, 2);
  const cutOff = await Sandbox.create(agent, { socketPath: proxy.path, tokenFile });
  const back = createHash("sha256");
  for await (const piece of await cutOff.artifacts.get("big", { format: "stream" })) back.update(piece);
  equal("cut twice it is whole, and the grant says whose", [sum(big), 2], [back.digest("hex"), await proxy.seen()]);
  for (const i of await a.list()) await a.delete(i.name);
  equal("deleted", [], await a.list());
  cutOff.close();
}

async function cuts(proxy) {
  const s = await Sandbox.create(agent, { socketPath: proxy.path, tokenFile, taskId: task, retryForMs: 10_000, requestTimeoutMs: 5000 });
  const rounds = `/v1/agents/${agent}/rounds`;
  for (const kind of ["before", "answer"]) {
    await proxy.cut(kind, "POST", rounds, 3);
    equal(`cut ${kind} three times, run once`, "once\n", (await s.commands.run(`echo once >>${kind}; sleep 0.1; cat ${kind}`)).stdout);
  }
  equal("they were cut", 6, await proxy.seen());
  await proxy.cut("body=70000", "GET", "/v1/rounds/", 4);
  const got = [];
  const r = await s.commands.run("seq 60000; seq 40000 >&2", { onStdout: (t) => { got.push(t); }, onStderr: () => undefined });
  const want = Array.from({ length: 60000 }, (_, i) => `${i + 1}\n`).join("");
  equal("cut while it is followed, nothing twice and nothing missing", [true, true], [want === r.stdout, want === got.join("")]);
  equal("they were cut", 4, await proxy.seen());
  await proxy.cut("body=70000", "GET", "/v1/rounds/", 3);
  const typed = [];
  const t = await s.pty.run("stty -onlcr; seq 40000", { onData: (d) => { typed.push(Buffer.from(d)); } });
  equal("a command with a terminal, cut thrice", [0, 3], [(await t.wait()).exitCode, await proxy.seen()]);
  equal("it has lost nothing", true, Buffer.concat(typed).toString() === Array.from({ length: 40000 }, (_, i) => `${i + 1}\n`).join(""));
  await proxy.cut("body=2000", "GET", `/v1/agents/${agent}/fs/watch`, 1);
  const kinds = [];
  const watch = await s.files.watchDir(".");
  await s.commands.run("for i in $(seq 200); do : >some-$i; done");
  for await (const e of watch) {
    kinds.push(e.type);
    if (e.type === "overflow") await s.files.write("behind", "x");
    if (e.name === "behind") break;
  }
  equal("a watch that was cut goes on, and says so", [1, true], [await proxy.seen(), kinds.includes("overflow")]);
  const h = await s.commands.run("cat", { background: true, stdin: true });
  await proxy.cut("answer", "POST", `/v1/rounds/${h.pid}/stdin`, 3);
  await h.sendStdin("a\n");
  await h.sendStdin("b\n");
  await h.closeStdin();
  equal("input comes once", "a\nb\n", (await h.wait()).stdout);
  for (const kind of ["answer", "inside"]) {
    await proxy.cut(kind, "POST", `/v1/agents/${agent}/fs/append`, 1);
    const e = await raises("an append whose answer was lost", ConnectionLost, () => s.files.append(`appended-${kind}`, "x"), { maybeDone: true });
    equal("has its request's id, and a hint", [36, true], [e.requestId.length, e.hint.includes("may have been done")]);
    equal("and was not done twice", "x", await s.files.read(`appended-${kind}`));
  }
  await raises("an exec_id for something else", muxd.Conflict, async () => {
    await s.commands.run("true", { execId: "the-same" });
    await s.commands.run("false", { execId: "the-same" });
  }, { status: 409 });
  await proxy.cut("hang", "GET", `/v1/agents/${agent}`, 1);
  const quick = await Sandbox.create(agent, { socketPath: proxy.path, tokenFile, requestTimeoutMs: 500 });
  await raises("no answer in time", RequestTimeout, () => quick.getInfo(), { code: "request_timeout" });
  await proxy.seen();
  await proxy.cut("body=40000", "GET", `/v1/agents/${agent}/terminal`, 1);
  await proxy.cut("body=50000", "GET", "/v1/sessions/", 1);
  const bytes = [];
  const p = await s.pty.create({ onData: (d) => { bytes.push(Buffer.from(d)); } });
  await p.sendInput("stty -echo; PS1=; clear\n");
  await p.sendInput("seq 30000; exit 7\n");
  const end = await p.wait();
  const numbers = Buffer.concat(bytes).toString("latin1").replace(/\r/g, "").split("\n").filter((w) => /^\d+$/.test(w));
  equal("a terminal that was cut twice has lost nothing", [7, true], [end.exitCode, numbers.join("\n") === want.split("\n").slice(0, 30000).join("\n")]);
  equal("they were cut", 2, await proxy.seen());
  await left(s, proxy);
  s.close();
  await givenUp(proxy);
  proxy.process.stdin.end();
}

/** A terminal that is disconnected while it is joined again stays so. */
async function left(s, proxy) {
  await proxy.cut("body=2000", "GET", `/v1/agents/${agent}/terminal`, 1);
  await proxy.cut("late=0.6", "GET", "/v1/sessions/", 1);
  let disconnected = false;
  const p = await s.pty.create({ onData: () => { if (disconnected) equal("output behind disconnect()", "none", "some"); } });
  await p.sendInput("seq 3000; while :; do echo tick; sleep 0.1; done\n");
  for (let cut = 0, end = Date.now() + 20_000; cut < 2 && Date.now() < end; await sleep(20)) cut += await proxy.seen();
  disconnected = true;
  await p.disconnect();
  await raises("who waits is told", ConnectionLost, () => p.wait());
  await raises("who types, too", ConnectionLost, async () => p.sendInput("x"), { maybeDone: false });
  equal("and no connection is left", true, await proxy.alone());
  await s.pty.kill(p.pid);
  await proxy.cut("body=600", "GET", `/v1/agents/${agent}/fs/watch`, 1);
  await proxy.cut("late=0.6", "GET", `/v1/agents/${agent}/fs/watch`, 1);
  const watch = await s.files.watchDir(".");
  const told = (async () => {
    for await (const e of watch) if (e.type === "overflow") return "an event behind its end";
    return "its end";
  })();
  await s.commands.run("for i in $(seq 20); do : >left-$i; done");
  await sleep(300);
  await watch.stop();
  equal("a watch that is stopped while it is made anew stays so", ["its end", true], [await told, await proxy.alone()]);
}

/** create() that fails leaves no sandbox whose name nobody has. */
async function givenUp(proxy) {
  const how = { socketPath: proxy.path, tokenFile: `${tmp}/any`, taskId: "story" };
  const gone = async () => raises("what it made is gone", muxd.NotFound, async () => Sandbox.connect(await proxy.madeUp(), any));
  await proxy.cut("answer", "POST", "/v1/agents/sbx-", 1);
  await raises("the answer to create() was lost", ConnectionLost, () => Sandbox.create({ ...how, retryForMs: 0 }), { maybeDone: true });
  await gone();
  await proxy.cut("hang", "POST", "/v1/agents/sbx-", 1);
  await raises("no answer to create()", RequestTimeout, () => Sandbox.create({ ...how, createTimeoutMs: 600, requestTimeoutMs: 600 }));
  await gone();
  await proxy.cut("answer", "POST", "/v1/agents/sbx-", 1);
  const weak = { ...how, tokenFile: `${tmp}/weak`, retryForMs: 0 };
  const e = await raises("by a grant that may end none", ConnectionLost, () => Sandbox.create(weak), { maybeDone: true });
  const name = await proxy.madeUp();
  equal("the hint has its name", true, e.hint.includes(`${name} may run`));
  await (await Sandbox.connect(name, any)).kill({ wipe: true });
  const s = await Sandbox.create(how);
  const { snapshotId } = await s.createSnapshot();
  await proxy.cut("answer", "POST", `/v1/agents/${s.sandboxId}/fork`, 1);
  await raises("the answer to fork() was lost", ConnectionLost, () => s.fork({ snapshotId }), { maybeDone: true });
  const forks = async () => (await Sandbox.list({ ...any, prefix: `${s.sandboxId}-copy-` })).map((i) => i.state).filter((state) => state !== "absent");
  let left = await forks(); // in a cluster its pod and its claim take their time
  for (const end = Date.now() + 60_000; left.length && Date.now() < end; left = await forks()) await sleep(100);
  equal("the fork is gone", [], left);
  await s.kill();
}

async function life() {
  const s = await Sandbox.create(any);
  equal("a grant for all makes one with a name of its own", "sbx-", s.sandboxId.slice(0, 4));
  await s.files.write("kept", "x");
  equal("asleep", ["stopped", false], [(await s.pause()).state, await s.isRunning()]);
  equal("awake", ["running", "x"], [(await s.resume()).state, await s.files.read("kept")]);
  const { snapshotId } = await s.createSnapshot();
  await s.files.write("kept", "y");
  const fork = await s.fork({ snapshotId });
  equal("a fork has what was, and is ended", ["x", true], [await fork.files.read("kept"), await fork.kill()]);
  await s.setTimeout(3600_000);
  equal("a time to live", true, (await s.getInfo()).endAt > new Date());
  equal("it is listed", [s.sandboxId], (await Sandbox.list({ ...any, prefix: s.sandboxId })).map((i) => i.sandboxId).filter((i) => i === s.sandboxId));
  (await Sandbox.create(s.sandboxId, { ...any, appId: "js-app" })).close();
  const inPods = process.env.BOX_NAMESPACE ? { namespace: process.env.BOX_NAMESPACE } : {};
  equal("its reference", { name: s.sandboxId, ...inPods, appId: "js-app" }, (await s.getInfo()).reference);
  equal("listed by its app", [s.sandboxId], (await Sandbox.list({ ...any, appId: "js-app" })).map((i) => i.sandboxId));
  const own = await Sandbox.create(s.sandboxId, { ...any, execTimeoutMs: 500, transferTimeoutMs: 60_000 });
  await raises("its own timeout of commands", SandboxExecTimeout, () => own.commands.run("sleep 30"), { code: "sandbox_exec_timeout" });
  await own.commands.run("sleep 1", { timeoutMs: 20_000 });
  own.close();
  for (const place of [{ cluster: "none" }, { namespace: "none" }]) {
    await raises(`not here: ${JSON.stringify(place)}`, muxd.Unsupported, () => Sandbox.create(s.sandboxId, { ...any, ...place }), { status: 501 });
  }
  for (const step of ["..", ".", "", "../x", "x/.."]) {
    await raises(`no name: ${step}`, muxd.InvalidRequest, () => s.deleteSnapshot(step), { status: 0 });
    await raises(`no agent: ${step}`, muxd.InvalidRequest, () => Sandbox.create(step, any));
  }
  await raises("no terminal", muxd.InvalidRequest, () => s.pty.connect(".."), { status: 0 });
  equal("and nothing was ended", true, await s.isRunning());
  equal("ended", true, await s.kill());
  await raises("gone", muxd.NotFound, () => Sandbox.connect(s.sandboxId, any));
  const token = readFileSync(tokenFile, "utf8").trim();
  await raises("no token", muxd.Unauthenticated, () => Sandbox.create(agent, { stateDir }));
  await raises("a wrong one", muxd.TokenMalformed, () => Sandbox.create(agent, { stateDir, token: "x" }), { status: 401 });
  const e = await raises("a forged one", muxd.TokenSignature, () => Sandbox.create(agent, { stateDir, token: token.slice(0, -6) + (token.endsWith("AAAAAA") ? "BBBBBB" : "AAAAAA") }));
  equal("errors have a hint and an id", [true, 36], [e.hint !== "", e.requestId.length]);
  await raises("one that may not", muxd.Forbidden, () => Sandbox.create("another", { stateDir, tokenFile }), { status: 403 });
  await raises("a wrong certificate", ConnectionLost, () => Sandbox.create(agent, { url, token }));
  await raises("nobody there", ConnectionLost, () => Sandbox.create(agent, { url: "https://127.0.0.1:1", token }), { maybeDone: false });
  await raises("no TLS", muxd.InvalidRequest, () => Sandbox.create(agent, { url: "http://127.0.0.1:1", token }));
}

const s = await Sandbox.create(agent, { stateDir, tokenFile, taskId: task, envs: { Y: "two" } });
equal("its version", process.env.VERSION, muxd.VERSION);
const proxy = new Proxy();
equal("the proxy", "ready", await proxy.line());
for (const part of [commands, streams, background, files, terminals, roundsWithTerminals, events, watches, trees]) await part(s);
await artifacts(s, proxy);
s.close();
await cuts(proxy);
await life();
