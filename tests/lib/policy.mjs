// policy.mjs POLICY.json TABLE: the ValidatingAdmissionPolicy of nodes, evaluated. TABLE: "pass|refuse<TAB>path" a line.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const require = createRequire(new URL("../../webclient/package.json", import.meta.url));
const { evaluate } = await import(pathToFileURL(require.resolve("@marcbachmann/cel-js")).href);
const policy = JSON.parse(readFileSync(process.argv[2], "utf8")).find(
    (o) => o.kind === "ValidatingAdmissionPolicy" && o.metadata.name === "muxd-nodes",
);
const muxd = "system:serviceaccount:muxd:muxd";

// As an API server does: variables in their order, each sees those before it; then every validation has to hold.
function passes(path, user, options = path === "" ? {} : { path }) {
    const scope = { object: options, request: { userInfo: { username: user }, name: "node" }, params: { metadata: { name: "boxes" } } };
    scope.variables = {};
    for (const v of policy.spec.variables) scope.variables[v.name] = evaluate(v.expression, scope);
    return policy.spec.validations.every((v) => evaluate(v.expression, scope) === true);
}

let wrong = 0;
let refused = 0;
const rows = readFileSync(process.argv[3], "utf8").split("\n").filter(Boolean).map((l) => l.split("\t"));
for (const [verdict, path] of rows) {
    const pass = passes(path, "eve");
    refused += !pass;
    if (pass !== (verdict === "pass") || !passes(path, muxd)) {
        wrong++;
        console.log(`${path}: the webhook says ${verdict}, the policy ${pass ? "pass" : "refuse"}`);
    }
}
if (passes("", "eve", null)) {
    wrong++;
    console.log("a review without options passes");
}
if (rows.length < 2000 || refused < 1000 || refused === rows.length) wrong++;
console.log(`${rows.length} paths, ${refused} refused, by the policy and by the webhook alike`);
process.exit(wrong ? 1 : 0);
