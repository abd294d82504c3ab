// crd_rules.mjs FILE: rules of x-kubernetes-validations, evaluated. FILE: [{"rule", "self", "oldSelf"}]; prints [true|false|"error"].
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const require = createRequire(new URL("../../webclient/package.json", import.meta.url));
const { evaluate } = await import(pathToFileURL(require.resolve("@marcbachmann/cel-js")).href);

function holds({ rule, self, oldSelf }) {
    try {
        return evaluate(rule, { self, oldSelf }) === true;
    } catch (e) {
        return String(e);
    }
}

console.log(JSON.stringify(JSON.parse(readFileSync(process.argv[2], "utf8")).map(holds)));
