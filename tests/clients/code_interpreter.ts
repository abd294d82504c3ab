// A script for E2B's code interpreter. See e2b.ts.
import { Sandbox } from "shape";
import { options, equal } from "./connect.js";

const sandbox = await Sandbox.create(options);
await sandbox.files.write("main.sh", "echo $(($1 + $2))\n");
const done = await sandbox.commands.run("sh main.sh 20 22");
equal("a program", "42\n", done.stdout);
await sandbox.runCode("x = 41");
const heard: string[] = [];
const execution = await sandbox.runCode("print('hi'); x + 1", { onStdout: (message) => { heard.push(message.line); }, timeoutMs: 20_000 });
equal("code", "42", execution.text);
equal("what it printed", "hi\n", execution.logs.stdout.join(""));
equal("and as it came", "hi\n", heard.join(""));
equal("of the results one is its value", true, execution.results[0]?.isMainResult);
const failed = await sandbox.runCode("1 / 0", { onError: (error) => { heard.push(error.name); } });
equal("what it raises", "ZeroDivisionError: division by zero", `${failed.error?.name}: ${failed.error?.value}`);
equal("is told as well", "ZeroDivisionError", heard.pop());
const context = await sandbox.createCodeContext({ language: "python", cwd: "/tmp" });
equal("a context of its own", "'/tmp'", (await sandbox.runCode("import os; os.getcwd()", { context })).text);
await sandbox.restartCodeContext(context);
equal("which begins anew", "NameError", (await sandbox.runCode("os", { context })).error?.name);
await sandbox.removeCodeContext(context.id);
await sandbox.kill();
