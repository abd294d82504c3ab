// A script for E2B's code interpreter, as far as muxd has it: everything but runCode(). See e2b.ts.
import { Sandbox } from "shape";
import { options, equal } from "./connect.js";

const sandbox = await Sandbox.create(options);
await sandbox.files.write("main.sh", "echo $(($1 + $2))\n");
const done = await sandbox.commands.run("sh main.sh 20 22");
equal("a program", "42\n", done.stdout);
await sandbox.kill();
