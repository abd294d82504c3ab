// Adds a grant to each request and hands it on to a muxd, bytes and fields as they are (Host and Origin, too): for clients that
// have no option for credentials.   node forward.mjs URL < TOKEN    prints its own address
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";

const to = new URL(process.argv[2]);
const token = readFileSync(0, "utf8").trim();
const agent = new https.Agent({ keepAlive: true, checkServerIdentity: () => undefined });
const server = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  const on = https.request({ host: to.hostname, port: to.port, path: request.url, method: request.method, headers, agent }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    response.flushHeaders();
    answer.pipe(response);
    answer.on("error", () => response.destroy());
  });
  on.on("error", () => response.destroy());
  response.on("close", () => on.destroy());
  request.pipe(on);
});
server.listen(0, "127.0.0.1", () => console.log(`http://localhost:${server.address().port}${to.pathname}`));
