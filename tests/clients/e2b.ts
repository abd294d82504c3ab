// A script as E2B's users write it. Checked against their package and against ours, and run against muxd: only the import and
// what create() is given differ ("shape" and "./connect.js" stand for them).
import { CommandExitError, FileNotFoundError, FileType, Sandbox } from "shape";
import { options, equal } from "./connect.js";

const sandbox = await Sandbox.create(options);
const out: string[] = [];
const done = await sandbox.commands.run("echo $WHO; echo oops >&2", {
  envs: { WHO: "world" },
  cwd: "/tmp",
  timeoutMs: 20_000,
  onStdout: (data) => { out.push(data); },
  onStderr: (data) => { out.push(data); },
});
equal("a command", "world\n|oops\n|0|oops\n,world\n", `${done.stdout}|${done.stderr}|${done.exitCode}|${out.sort().join(",")}`);
try {
  await sandbox.commands.run("echo before; exit 7");
  equal("a failure", "an error", "none");
} catch (e) {
  if (!(e instanceof CommandExitError)) throw e;
  equal("a failure", "7 before\n", `${e.exitCode} ${e.stdout}`);
}
const server = await sandbox.commands.run("cat; sleep 60", { background: true, stdin: true });
await sandbox.commands.sendStdin(server.pid, "hello\n");
equal("it is listed", true, (await sandbox.commands.list()).some((p) => p.pid === server.pid));
equal("and killed", true, await server.kill());

const written = await sandbox.files.write("notes/a.txt", "one\ntwo\n");
equal("a write", "a.txt", written.name);
await sandbox.files.write([{ path: "notes/b.bin", data: new Uint8Array([0, 255]).buffer }]);
equal("a read", "one\ntwo\n", await sandbox.files.read("notes/a.txt"));
const bytes: Uint8Array = await sandbox.files.read("notes/b.bin", { format: "bytes" });
equal("bytes", "0,255", bytes.join(","));
equal("a blob", 2, (await sandbox.files.read("notes/b.bin", { format: "blob" })).size);
const entries = await sandbox.files.list("notes", { depth: 1 });
equal("a list", "a.txt b.bin", entries.map((e) => e.name).join(" "));
equal("its type", true, entries.every((e) => e.type === FileType.FILE));
equal("a directory", "true false", `${await sandbox.files.makeDir("notes/more")} ${await sandbox.files.makeDir("notes/more")}`);
await sandbox.files.rename("notes/a.txt", "notes/c.txt");
equal("its information", "c.txt 8", `${(await sandbox.files.getInfo("notes/c.txt")).name} ${(await sandbox.files.getInfo("notes/c.txt")).size}`);
await sandbox.files.remove("notes");
equal("gone", false, await sandbox.files.exists("notes"));
try {
  await sandbox.files.read("notes/c.txt");
  equal("a missing file", "an error", "none");
} catch (e) {
  equal("a missing file", true, e instanceof FileNotFoundError);
}

let screen = "";
const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: (data) => { screen += new TextDecoder().decode(data); } });
await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 30 });
await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode("stty size; exit\n"));
equal("a terminal", 0, (await terminal.wait()).exitCode);
equal("its size", true, screen.includes("30 100"));

await sandbox.setTimeout(600_000);
equal("it runs", true, await sandbox.isRunning());
equal("its name", (await sandbox.getInfo()).sandboxId, sandbox.sandboxId);
await sandbox.pause();
const again = await Sandbox.connect(sandbox.sandboxId, options);
equal("paused and connected again", true, await again.isRunning());
equal("ended", true, await again.kill());
