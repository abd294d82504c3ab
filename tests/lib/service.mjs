// A Node server for the stories: `service.mjs PORT NAME` serves HTTP and says who it is.
//
// /workspace/NAME.cycles has a line for each begin and each end by TERM, with the time: so the workspace tells in which order.
import {closeSync, fsyncSync, openSync, writeSync} from "node:fs";
import http from "node:http";

const [port, name] = process.argv.slice(2);

function tell(word) {
	const fd = openSync(`/workspace/${name}.cycles`, "a");
	writeSync(fd, `${word} ${process.hrtime.bigint()}\n`);
	fsyncSync(fd);
	closeSync(fd);
}

const server = http.createServer((request, response) => {
	response.end(`${name} ${process.pid} ${request.url} node\n`);
});

process.on("SIGTERM", () => {
	tell("ended");
	process.exit(0);
});
server.listen(Number(port), "127.0.0.1", () => {
	tell("begun");
	console.log(name, "serves");
});
