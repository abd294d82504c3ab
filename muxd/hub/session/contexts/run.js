// One execution in a context: run.js SOCKET TIMEOUT_MS GRACE_MS BYTES MAX, with so many bytes of code on stdin.
// Its lines are what the interpreter says, and an end of its own. It looks after the time.
'use strict';
const fs = require('fs');
const net = require('net');

const [path, ...numbers] = process.argv.slice(1);
const [timeout, grace, size, most] = numbers.map(Number);
const EXITS = { done: 0, error: 1, timeout: 124, interrupted: 130, context_died: 70 };
const begun = Date.now();
let pid = 0, cause = null, message = '', ended = null, greeted = false;

// To the interpreter's group: what it runs hears it, too.
function tell(signal) {
	for (const to of [-pid, pid])
		try {
			if (pid > 1) {
				process.kill(to, signal);
				return;
			}
		} catch {
			/* it leads no group, or has gone */
		}
}

function say(line) {
	let b = Buffer.from(`${line}\n`);
	while (b.length)
		try {
			b = b.subarray(fs.writeSync(1, b));
		} catch (e) {
			if (e.code !== 'EAGAIN')
				throw e;
		}
}

function over(why, text = '') {
	say(JSON.stringify({ type: 'end', cause: why, message: text }));
	process.exit(EXITS[why]);
}

function stop(why) {
	if (cause)
		return;
	cause = why;
	tell('SIGINT');
	setTimeout(() => {
		message = `the interpreter did not stop within ${grace} ms of its interrupt, and was killed`;
		tell('SIGKILL');
		over('context_died', message);
	}, grace);
}

function gone() {
	if (ended === null)
		over('context_died', message || 'the interpreter ended during the run');
	over(ended === 'ok' ? 'done' : cause || (ended === 'interrupted' ? 'interrupted' : 'error'));
}

function took(line, conn, code) {
	if (!greeted) {
		greeted = true;
		pid = JSON.parse(line).pid;
		conn.write(`${size} ${most}\n`);
		conn.write(code);
		if (cause)
			tell('SIGINT');
		return;
	}
	if (line.startsWith('{"type":"end","status":"'))
		ended = line.slice(24, line.indexOf('"', 24));
	say(line);
}

function connect(code) {
	const conn = net.connect(path);
	let held = [], there = false;

	conn.on('connect', () => there = true);
	conn.on('error', () => {
		if (there)
			return;
		if (Date.now() - begun > 10000)
			over('context_died', 'the interpreter does not listen');
		setTimeout(connect, 10, code);
	});
	conn.on('data', (d) => {
		for (let at; (at = d.indexOf(10)) >= 0; d = d.subarray(at + 1)) {
			took(Buffer.concat([...held, d.subarray(0, at)]).toString(), conn, code);
			held = [];
		}
		held.push(d);
	});
	conn.on('close', () => there && gone());
}

function read() {
	const code = Buffer.alloc(size);
	for (let n = 0, more; n < size; n += more) {
		more = fs.readSync(0, code, n, size - n);
		if (!more)
			process.exit(EXITS.context_died);
	}
	return code;
}

process.on('SIGINT', () => stop('interrupted'));
for (const signal of ['SIGTERM', 'SIGHUP'])
	process.on(signal, () => {
		tell('SIGINT');
		process.exit(143);
	});
setTimeout(() => stop('timeout'), timeout);
connect(read());
