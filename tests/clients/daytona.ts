// A script as Daytona's users write it. See e2b.ts.
import { Daytona } from "shape";
import { options, equal } from "./connect.js";

const daytona = new Daytona(options);
const sandbox = await daytona.create({ envVars: { WHO: "world" }, autoStopInterval: 15 }, { timeout: 60 });
const done = await sandbox.process.executeCommand("echo $WHO $X; echo oops >&2; exit 3", "/tmp", { X: "1" }, 20);
equal("a command", "3 world 1\noops\n", `${done.exitCode} ${done.result}`);
await sandbox.fs.createFolder("project", "755");
await sandbox.fs.uploadFile(Buffer.from("TODO: one\n"), "project/a.txt");
await sandbox.fs.uploadFiles([{ source: Buffer.from("two\n"), destination: "project/b.txt" }]);
equal("a file", "TODO: one\n", (await sandbox.fs.downloadFile("project/a.txt")).toString());
equal("a list", "a.txt b.txt", (await sandbox.fs.listFiles("project")).map((f) => f.name).join(" "));
const found = await sandbox.fs.findFiles("project", "TODO");
equal("what is found", "1 TODO: one", found.map((m) => `${m.line} ${m.content}`).join());
equal("by name", 2, (await sandbox.fs.searchFiles("project", "*.txt")).files.length);
await sandbox.fs.setFilePermissions("project/a.txt", { mode: "600" });
await sandbox.fs.moveFiles("project/a.txt", "project/c.txt");
const info = await sandbox.fs.getFileDetails("project/c.txt");
equal("its details", "c.txt 10 false", `${info.name} ${info.size} ${info.isDir}`);
await sandbox.fs.deleteFile("project", true);
await sandbox.stop();
await sandbox.start();
equal("stopped and started", "started", sandbox.state);
equal("it is found again", sandbox.id, (await daytona.get(sandbox.id)).id);
await sandbox.delete();
