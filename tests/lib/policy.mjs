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

// ---- ephemeral containers, by the policy of sandboxes

const boxes = JSON.parse(readFileSync(process.argv[2], "utf8")).find((o) => o.kind === "ValidatingAdmissionPolicy" && o.metadata.name === "muxd-sandboxes");
const good = {
    name: "muxd-visitor-0123456789-1",
    image: "registry.example/muxlet:0.1.0",
    command: ["/usr/local/bin/muxlet", "--visit", "1", "--pause"],
    targetContainerName: "main",
    securityContext: { privileged: false, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } },
};
const secure = (more) => ({ ...good, securityContext: { ...good.securityContext, ...more } });
const old = { name: "old", image: "busybox" };

function adds(user, c, before = [old], image = good.image) {
    const pod = (list) => ({ spec: list ? { ephemeralContainers: list } : {} });
    const request = { userInfo: { username: user }, subResource: "ephemeralcontainers", namespace: "boxes", name: "web" };
    const scope = { request, object: pod([...(before ?? []), c]), oldObject: pod(before) };
    return boxes.spec.validations.every((v) => evaluate(v.expression.replace("c.image == ''", `c.image == '${image}'`), scope) === true);
}

function enters(user) {
    const scope = { request: { userInfo: { username: user }, subResource: "exec", namespace: "boxes", name: "web" }, object: {}, oldObject: null };
    return boxes.spec.validations.every((v) => evaluate(v.expression, scope) === true);
}

const refusals = [
    { ...good, name: "debug" },
    { ...good, image: "busybox" },
    { ...good, command: ["sh"] },
    { ...good, command: [...good.command, "x"] },
    { ...good, args: ["x"] },
    { ...good, env: [{ name: "LD_PRELOAD", value: "/x" }] },
    { ...good, lifecycle: {} },
    { ...good, securityContext: undefined },
    secure({ privileged: true }),
    secure({ allowPrivilegeEscalation: true }),
    secure({ readOnlyRootFilesystem: false }),
    secure({ capabilities: { drop: ["ALL"], add: ["SYS_PTRACE"] } }),
    secure({ capabilities: {} }),
].map((c) => JSON.parse(JSON.stringify(c)));

let wrong = 0;
if (!adds(muxd, good) || !adds(muxd, good, null) || adds("eve", good) || adds(muxd, good, [old], "") || !enters(muxd) || enters("eve")) {
    wrong++;
    console.log("muxd's own ephemeral container, or its exec, is not what passes");
}
for (const c of refusals) {
    if (!adds(muxd, c)) continue;
    wrong++;
    console.log(`an ephemeral container passes: ${JSON.stringify(c)}`);
}
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
