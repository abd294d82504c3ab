// visible_pages.mjs VISIBLE.TS TABLE.H: is the pages' rule that of base/visible.c? Every code point, and texts with marks.
// A newer Unicode may have given meaning to what the table calls unassigned, or width to a mark (Mc); how often is said.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { transformSync } = createRequire(new URL("../../webclient/", import.meta.url))("esbuild");
const [source, table] = process.argv.slice(2);
const code = transformSync(readFileSync(source, "utf8"), { loader: "ts", format: "esm" }).code;
const { visible } = await import(`data:text/javascript;base64,${Buffer.from(code).toString("base64")}`);

const ranges = {};
for (const [, name, body] of readFileSync(table, "utf8").matchAll(/visible_range (\w+)\[\] = \{([^;]*)\};/g))
  ranges[name] = [...body.matchAll(/\{0x([0-9a-f]+), 0x([0-9a-f]+)\}/g)].map((m) => [parseInt(m[1], 16), parseInt(m[2], 16)]);
const within = (name) => {
  const is = new Uint8Array(0x110000);
  for (const [a, b] of ranges[name]) is.fill(1, a, b + 1);
  return is;
};
const hidden = within("visible_hidden"), marks = within("visible_marks");

let late = 0;
const wrong = [];
for (let cp = 0; cp < 0x110000; cp++) {
  const c = String.fromCodePoint(cp);
  const shown = visible(`a${c}`) === `a${c}`;
  if (shown !== !hidden[cp]) (shown && /\P{Cn}/u.test(c) ? (late++, 0) : wrong.push(cp));
  else if (shown && (visible(c) !== c) !== !!marks[cp]) (/\p{Mc}/u.test(c) ? late++ : wrong.push(cp));
}
const cases = [
  ["a\u001b[2J\u007f\tb\r\n", "a\\x1b[2J\\x7f\\tb\\r\\n"],
  ["\u202egnp.exe \u009b", "\\u{202e}gnp.exe \\u{9b}"],
  ["\ud800 \u{e0041}\u{f0000}", "\\u{d800} \\u{e0041}\\u{f0000}"],
  ["z" + "\u0301".repeat(6), "z" + "\u0301".repeat(4) + "\\u{301}".repeat(2)],
  ["\u0301x\u001b\u0301", "\\u{301}x\\x1b\\u{301}"],
  ["back\\slash 漢字 😀 café", "back\\slash 漢字 😀 café"],
];
for (const [text, want] of cases) if (visible(text) !== want) wrong.push(`${JSON.stringify(text)} is shown as ${visible(text)}`);
if (visible("a\tb\nc\r", true) !== "a\tb\nc\\r") wrong.push("lines");
if (wrong.length) console.error("visible: the pages differ from the table:", wrong.slice(0, 20).map((w) => (typeof w === "number" ? `U+${w.toString(16)}` : w)).join(", "));
else console.log(`visible: the pages and the table are one rule; ${late} characters are other in its newer Unicode`);
process.exit(wrong.length ? 1 : 0);
