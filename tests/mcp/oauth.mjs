// A client of the official SDK that has no grant: it is refused, finds the issuer by what the refusal names, gets itself a token there,
// and goes on. Generation 1 or 2, by the old versions or by 2026-07-28. Prints where it went, and what a program said.
//
//     node oauth.mjs GENERATION(1|2) ERA(legacy|2026-07-28) URL ISSUER CLIENT SANDBOX < SECRET
import { readFileSync } from "node:fs";

const [generation, era, url, expectedIssuer, clientId, session_id] = process.argv.slice(2);
const clientSecret = readFileSync(0, "utf8").trim();
const went = [];
async function watched(to, init) {
  const response = await fetch(to, init);
  const place = `${init?.method ?? "GET"} ${new URL(to).pathname} ${response.status}`;
  if (!went.includes(place)) went.push(place);
  return response;
}

async function parts() {
  if (generation === "2") return import("@modelcontextprotocol/client");
  return {
    ...(await import("@modelcontextprotocol/sdk/client/index.js")),
    ...(await import("@modelcontextprotocol/sdk/client/streamableHttp.js")),
    ...(await import("@modelcontextprotocol/sdk/client/auth-extensions.js")),
  };
}

const { Client, StreamableHTTPClientTransport, ClientCredentialsProvider } = await parts();
const authProvider = new ClientCredentialsProvider({ clientId, clientSecret, expectedIssuer });
const mode = era === "legacy" ? "legacy" : { pin: era };
const client = new Client({ name: "story", version: "1" }, generation === "2" ? { versionNegotiation: { mode } } : {});
await client.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider, fetch: watched }));
const { tools } = await client.listTools();
const call = { name: "sandbox.session.exec", arguments: { task_id: `mcp-${clientId}`, session_id, argv: ["echo", "hello"] } };
const result = await client.callTool(call);
console.log(JSON.stringify({ went, tools: tools.length, said: result.structuredContent?.stdout ?? result.content[0].text, token: authProvider.tokens().access_token }));
await client.close();
