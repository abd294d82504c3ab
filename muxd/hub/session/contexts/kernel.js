// The interpreter of a context in JavaScript: docs/contexts.md has what it says. Two processes: the first answers at
// the socket and reads what the second prints, which runs the code with node's own REPL, and is interrupted.
'use strict';
const fs = require('fs');
const net = require('net');
const { spawn } = require('child_process');
const { inspect } = require('util');

const TEXT_MAX = 65536, SHOWN_MAX = 2097152, RUN_MAX = 6291456, FRAMES_MAX = 100, TRACE_MAX = 65536;
const OURS = 'muxd-context';
const INSIDE = 'muxd-context-inside';

const clean = (s) => s.toWellFormed ? s.toWellFormed().replaceAll('\0', '\ufffd') : s.replaceAll('\0', '\ufffd');
const size = (s) => Buffer.byteLength(s);

// Within so many bytes of UTF-8, at a character.
function cut(text, most) {
	const b = Buffer.from(text);
	return b.length <= most ? text : b.subarray(0, most - unfinished(b.subarray(0, most))).toString();
}

// How many bytes at its end are the beginning of a character.
function unfinished(b) {
	for (let n = 1; n <= Math.min(3, b.length); n++) {
		const c = b[b.length - n];
		if (c >= 0xc0)
			return c < 0xf8 && n < (c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4) ? n : 0;
		if (c < 0x80)
			return 0;
	}
	return 0;
}

// ---- the first process

// The lines of one execution, and the program that they go to. Output that it cannot have goes where output between
// executions goes.
class Run {
	constructor(conn, most) {
		Object.assign(this, { conn, room: most, totals: [0, 0], held: [Buffer.alloc(0), Buffer.alloc(0)], data: 0 });
	}
	say(event, lost = () => {}) {
		if (this.conn)
			this.conn.write(`${JSON.stringify(event)}\n`, (e) => e && lost());
		else
			lost();
	}
	// Whole characters as text; a chunk that is none goes as bytes. What is past the room is counted.
	printed(which, chunk, last) {
		this.data++;
		this.totals[which] += chunk.length;
		let data = Buffer.concat([this.held[which], chunk]);
		const part = last ? 0 : unfinished(data);
		this.held[which] = data.subarray(data.length - part);
		data = data.subarray(0, data.length - part);
		let keep = data.subarray(0, this.room);
		if (keep.length < data.length) {
			keep = keep.subarray(0, keep.length - unfinished(keep));
			this.room = keep.length;
		}
		this.room -= keep.length;
		const rest = data.subarray(keep.length);
		if (!keep.length) {
			spill(which, rest);
			return;
		}
		const type = which ? 'stderr' : 'stdout';
		let text = null;
		try {
			text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(keep);
		} catch {
			/* it is no text */
		}
		this.say(text === null || text.includes('\0') ? { type, base64: keep.toString('base64') } : { type, text },
			() => spill(which, keep));
		spill(which, rest);
	}
}

function spill(which, data) {
	if (data.length)
		(which ? process.stderr : process.stdout).write(data);
}

function serve(path, program) {
	const env = { ...process.env, MUXD_CONTEXT: program };
	const boot = 'const p=process.env.MUXD_CONTEXT;delete process.env.MUXD_CONTEXT;' +
		`require('vm').runInThisContext('(function(require,program){'+p+'\\n})',{filename:'${OURS}'})(require,p)`;
	const child = spawn(process.execPath, ['-e', boot, INSIDE],
		{ env, stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'] });
	let run = null;

	const [name, generation] = [path.slice(0, path.lastIndexOf('-')), Number(path.slice(path.lastIndexOf('-') + 1))];
	for (let old = 1; old < generation; old++) // those before it that were killed
		fs.rmSync(`${name}-${old}`, { force: true });
	process.on('exit', () => fs.rmSync(path, { force: true }));
	process.on('SIGINT', () => {});
	for (const [signal, number] of [['SIGTERM', 15], ['SIGHUP', 1]])
		process.on(signal, () => process.exit(128 + number));
	child.on('exit', (code, signal) => process.exit(signal ? 1 : code));
	for (const which of [0, 1])
		child.stdio[1 + which].on('data', (d) => run ? run.printed(which, d, false) : spill(which, d));

	// Output from before its end is still on its way: the execution is over after a turn without any.
	const over = (end) => {
		const seen = run.data;
		setImmediate(() => setImmediate(() => {
			if (run && run.data !== seen) {
				over(end);
				return;
			}
			for (const which of [0, 1])
				run.printed(which, Buffer.alloc(0), true);
			run.say({ ...end, stdout_bytes: run.totals[0], stderr_bytes: run.totals[1] });
			if (run.conn)
				run.conn.end();
			run = null;
			next();
		}));
	};
	lines(child.stdio[4], (line) => {
		const event = JSON.parse(line);
		if (event.type === 'end')
			over(event);
		else if (run)
			run.say(event);
	});

	const waiting = [];
	const next = () => {
		const asked = run ? null : waiting.shift();
		if (!asked)
			return;
		run = new Run(asked.conn, asked.most);
		child.stdio[3].write(`${JSON.stringify({ code: asked.code })}\n`);
	};
	const server = net.createServer((conn) => {
		let got = Buffer.alloc(0), asked = null;
		conn.write(`{"type": "hello", "pid": ${process.pid}}\n`);
		conn.on('error', () => {});
		conn.on('data', (d) => {
			if (asked)
				return;
			got = Buffer.concat([got, d]);
			const end = got.indexOf(10);
			const [bytes, most] = end < 0 ? [] : got.subarray(0, end).toString().split(' ').map(Number);
			if (end < 0 || got.length < end + 1 + bytes)
				return;
			asked = { conn, most, code: got.subarray(end + 1, end + 1 + bytes).toString() };
			waiting.push(asked);
			next();
		});
		conn.on('close', () => { // who asked has gone
			if (waiting.includes(asked))
				waiting.splice(waiting.indexOf(asked), 1);
			if (run && run.conn === conn) {
				run.conn = null;
				child.kill('SIGINT');
			}
		});
	});
	const old = process.umask(0o177);
	server.listen(path, () => process.umask(old));
}

function lines(stream, each) {
	let held = [];
	stream.on('data', (d) => {
		for (let at; (at = d.indexOf(10)) >= 0; d = d.subarray(at + 1)) {
			const line = Buffer.concat([...held, d.subarray(0, at)]).toString();
			held = [];
			each(line);
		}
		held.push(d);
	});
}

// ---- the second

const REPRS = [['_repr_html_', 'text/html'], ['_repr_markdown_', 'text/markdown'], ['_repr_svg_', 'image/svg+xml'],
	['_repr_png_', 'image/png'], ['_repr_jpeg_', 'image/jpeg'], ['_repr_pdf_', 'application/pdf'],
	['_repr_latex_', 'text/latex'], ['_repr_json_', 'application/json'],
	['_repr_javascript_', 'application/javascript']];

function inside() {
	const { PassThrough } = require('stream');
	const sink = new PassThrough();
	let shown = 0, count = 0, finish = null;

	sink.resume();
	const say = (event) => {
		let line = Buffer.from(`${JSON.stringify(event)}\n`);
		while (line.length)
			line = line.subarray(fs.writeSync(4, line));
	};
	const server = require('repl').start({ prompt: '', input: new PassThrough(), output: sink, terminal: false,
		useGlobal: true });
	// The REPL's own way of being interrupted leaves no handler behind (v20). What an await goes on with is reached
	// by none: it is killed after the grace.
	const script = new (require('vm').Script)('globalThis[Symbol.for("muxd.begin")]()', { filename: OURS });
	const interrupted = () => Object.assign(new Error('the execution was interrupted'),
		{ name: 'Interrupted', code: 'ERR_SCRIPT_EXECUTION_INTERRUPTED', stack: 'Interrupted' });

	const bundle = (obj) => {
		const found = {};
		const rich = obj !== null && (typeof obj === 'object' || typeof obj === 'function');
		if (rich && typeof obj[Symbol.for('Jupyter.display')] === 'function')
			Object.assign(found, obj[Symbol.for('Jupyter.display')]());
		if (rich && typeof obj._repr_mimebundle_ === 'function')
			Object.assign(found, obj._repr_mimebundle_());
		for (const [name, media] of REPRS)
			if (rich && !(media in found) && typeof obj[name] === 'function')
				found[media] = obj[name]();
		if (!('text/plain' in found))
			found['text/plain'] = inspect(obj, { depth: 4, maxArrayLength: 1000, maxStringLength: 100000 });
		return found;
	};
	const show = (found, main) => {
		const data = {}, capped = {};
		for (const [media, value] of Object.entries(found)) {
			if (value === null || value === undefined)
				continue;
			let text = ArrayBuffer.isView(value) ? Buffer.from(value.buffer, value.byteOffset, value.byteLength)
				.toString('base64') : media === 'application/json' ? JSON.stringify(value) : String(value);
			text = clean(text ?? 'null');
			const n = size(text), most = Math.min(media === 'text/plain' ? TEXT_MAX : SHOWN_MAX, RUN_MAX - shown);
			if (n > most) {
				capped[media] = n;
				if (media !== 'text/plain' || !most)
					continue;
				text = cut(text, most);
			}
			shown += size(text);
			data[media] = text;
		}
		say({ type: 'result', main, data, capped });
	};
	const display = (...objs) => {
		for (const o of objs)
			show(bundle(o), false);
	};
	Object.defineProperty(globalThis, 'display', { value: display, writable: true, configurable: true });

	const told = (e) => {
		const error = e !== null && typeof e === 'object' && typeof e.stack === 'string';
		const text = error ? e.stack : `Uncaught ${inspect(e)}`;
		const kept = text.split('\n').filter((l) => !/^ {4}at .*(node:|muxd-context|REPL)/.test(l) || /<run \d+>/.test(l));
		const frames = [];
		for (const l of kept) {
			const m = /^ {4}at (?:async )?(?:(.*?) \()?(.*?):(\d+)(?::\d+)?\)?$/.exec(l);
			if (m)
				frames.unshift({ file: clean(m[2]), line: Number(m[3]), function: clean(m[1] || ''), source: '' });
		}
		const name = error ? String(e.name) : 'Uncaught', value = error ? String(e.message) : inspect(e);
		return { type: 'error', name: clean(name), value: cut(clean(value), TEXT_MAX / 4),
			traceback: cut(clean(kept.join('\n')), TRACE_MAX), frames: frames.slice(-FRAMES_MAX),
			frames_left_out: Math.max(0, frames.length - FRAMES_MAX) };
	};
	const run = (code) => {
		count++;
		shown = 0;
		finish = (e, value) => {
			let status = 'ok';
			finish = null;
			try {
				if (e && e.err instanceof Error) // it could go on, and does not
					e = e.err;
				if (!e && value !== undefined)
					show(bundle(value), true);
			} catch (other) {
				e = other;
			}
			if (e || e === null) {
				status = e && e.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? 'interrupted' : 'error';
				say(told(e));
			}
			say({ type: 'end', status, count });
		};
		const mine = finish;
		globalThis[Symbol.for('muxd.begin')] = () => {
			delete globalThis[Symbol.for('muxd.begin')];
			server.eval(`${code}\n`, server.context, `<run ${count}>`, (e, value) => {
				if (finish === mine)
					finish(e === null ? undefined : e, value);
			});
		};
		try {
			script.runInThisContext({ breakOnSigint: true });
		} catch (e) {
			if (finish === mine)
				finish(e.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? interrupted() : e);
		}
	};
	const failed = (e) => {
		if (finish)
			finish(e);
		else
			process.stderr.write(`${told(e).traceback}\n`);
	};
	if (server._domain) {
		server._domain.removeAllListeners('error');
		server._domain.on('error', failed);
	}
	process.on('uncaughtException', failed);
	process.on('unhandledRejection', failed);
	process.on('SIGINT', () => {
		if (finish)
			finish(interrupted());
	});
	lines(new net.Socket({ fd: 3 }).on('end', () => process.exit(0)), (line) => run(JSON.parse(line).code));
}

if (process.argv[1] === INSIDE) {
	process.argv.splice(1);
	inside();
} else {
	serve(process.argv[1], program);
}
