// clients_code.mjs PACKAGE: runCode() and contexts of the TypeScript client, against a daemon. As clients_code.py.
import { join } from "node:path";

const { Sandbox, SandboxExecTimeout, ContextEnded } = await import(join(process.argv[2], "dist/index.js"));
const { MUXD_STATE: stateDir, AGENT: agent, TOKEN_FILE: tokenFile } = process.env;

function equal(what, expected, got) {
  const [a, b] = [JSON.stringify(expected), JSON.stringify(got)];
  if (a !== b) {
    console.log(`FAILED: ${what}: expected ${a}, got ${b}`.slice(0, 2000));
    process.exit(1);
  }
  console.log(`  ok: typescript: ${what}`);
}

const caught = async (work, kind) => {
  try {
    await work();
  } catch (e) {
    if (e instanceof kind) return e;
    throw e;
  }
};

const s = await Sandbox.create(`${agent}-typescript`, { stateDir, tokenFile, taskId: "story" });
await s.runCode("x = 41");
let done = await s.runCode("print('hi'); x + 1");
equal("a value, and what was printed", ["42", ["hi\n"], true, 2], [done.text, done.logs.stdout, done.error === undefined, done.executionCount]);
done = await s.runCode("1 / 0");
equal("what is raised is told", ["ZeroDivisionError", "division by zero", "<run 3>"], [done.error.name, done.error.value, done.error.frames.at(-1).file]);
const out = [], shown = [], raised = [];
done = await s.runCode("for i in range(3): print('né', i)\ndisplay(1)\n{'a': 1}['b']", {
  onStdout: (m) => out.push(m.line), onResult: (r) => shown.push(r.text), onError: (e) => raised.push(e.name),
});
equal("callbacks", ["né 0\nné 1\nné 2\n", ["1"], ["KeyError"]], [out.join(""), shown, raised]);
equal("and the whole besides", [out.join(""), "KeyError"], [done.logs.stdout.join(""), done.error.name]);
const [r] = (await s.runCode("class P:\n    def _repr_png_(self): return b'\\x89PNG'\n    def _repr_json_(self): return {'a': 1}\nP()")).results;
equal("a picture", [["text", "png", "json"], "iVBORw==", { a: 1 }, true], [r.formats(), r.png, r.data["application/json"], r.isMainResult]);
const late = await caught(() => s.runCode("import time; print('in', flush=True); time.sleep(60)", { timeoutMs: 400 }), SandboxExecTimeout);
equal("its time was up", "in\n", late?.stdout);
const other = await s.createCodeContext({ language: "bash", cwd: "/tmp" });
const heard = [];
done = await s.runCode("pwd; exit 3", { context: other, onStdout: (m) => heard.push(m.line) });
equal("bash", ["/tmp\n", "/tmp\n", 3], [heard.join(""), done.logs.stdout.join(""), done.exitCode]);
equal("contexts are listed", ["bash", "python"], (await s.listCodeContexts()).map((c) => c.language).sort());
await s.restartCodeContext(other);
await s.removeCodeContext(other);
equal("one is removed", 1, (await s.listCodeContexts()).length);
equal("one that dies says so", "context_died", (await s.runCode("import os; os._exit(1)")).error.name);
let ended;
while (!ended) ended = await caught(() => s.runCode("x"), ContextEnded); // its end may be on its way yet
equal("and ended it is; the next call begins another", ["context_ended", "NameError"], [ended.code, (await s.runCode("x")).error.name]);
equal("Python once", "7", (await s.runPython("3 + 4")).text);
s.close();
