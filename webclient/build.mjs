// Bundles src/ into ../build/web, compresses it, and writes the table that muxd links in (muxd/doors/https/assets.h).
import { build, transform } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "../build/web");
const files = join(out, "files");
const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml" };

rmSync(files, { recursive: true, force: true });
mkdirSync(files, { recursive: true });
const result = await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.ts" },
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["chrome100", "firefox100", "safari15"],
  minify: true,
  outdir: files,
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  assetNames: "[name]-[hash]",
  metafile: true,
  legalComments: "none",
  logLevel: "warning",
});
const entry = Object.entries(result.metafile.outputs).find(([, o]) => o.entryPoint === "src/main.ts");
const script = entry[0].split("/").pop();
const style = entry[1].cssBundle.split("/").pop();
const icon = readFileSync(join(here, "src/icon.svg"));
const iconName = `icon-${createHash("sha256").update(icon).digest("hex").slice(0, 8)}.svg`;
writeFileSync(join(files, iconName), icon);
const page = readFileSync(join(here, "src/index.html"), "utf8");
const boot = (await transform(readFileSync(join(here, "src/boot.js"), "utf8"), { minify: true, target: "chrome100" })).code.trim();
const bootDigest = `sha256-${createHash("sha256").update(boot).digest("base64")}`;
writeFileSync(join(files, "index.html"), page.replace("{{boot}}", () => boot).replace("{{script}}", script).replace("{{style}}", style).replace("{{icon}}", iconName));

const rows = [];
const arrays = [];
let first = 0;
for (const name of readdirSync(files).sort()) {
  const bytes = readFileSync(join(files, name));
  const gzip = gzipSync(bytes, { level: 9 });
  const tag = createHash("sha256").update(bytes).digest("hex").slice(0, 32);
  const type = types[name.slice(name.lastIndexOf("."))];
  if (!type) throw new Error(`${name}: of what type is it?`);
  first += gzip.length;
  arrays.push(`static const uint8_t file_${rows.length}[] = {${gzip.join(",")}};`);
  rows.push(`    {${JSON.stringify(name)}, ${JSON.stringify(type)}, "\\"${tag}\\"", ${name !== "index.html"}, file_${rows.length}, sizeof(file_${rows.length}), ${bytes.length}},`);
}
// Whatever page comes first, it loads less than all of them.
if (first > 250_000) throw new Error(`the pages have ${first} bytes compressed; a first load may have 250,000`);
writeFileSync(join(out, "assets.c"), `/* Made by webclient/build.mjs from webclient/src. */
#include "muxd/doors/https/assets.h"

${arrays.join("\n")}

const struct web_asset web_assets[] = {
${rows.join("\n")}
};
const size_t web_assets_count = sizeof(web_assets) / sizeof(web_assets[0]);
const char web_boot_digest[] = "${bootDigest}";
`);
console.log(`  web   ${first} bytes compressed, ${rows.length} files`);
