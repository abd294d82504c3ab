# The interpreter of a context in Python, and of python_exec: docs/contexts.md has what it says.
# A context: kernel.py SOCKET; one run and out: kernel.py - BYTES MAX, with so many bytes of code on stdin.
import ast, base64, builtins, codecs, fcntl, importlib.abc, importlib.util, inspect, json, linecache, os, select, signal
import socket, struct, sys, threading, traceback, types

TEXT_MAX, SHOWN_MAX, RUN_MAX, FRAMES_MAX, TRACE_MAX = 65536, 2097152, 6291456, 100, 65536
PLAIN, OURS = 'text/plain', 'muxd-context'  # the name that this program is compiled by
REPRS = (('_repr_html_', 'text/html'), ('_repr_markdown_', 'text/markdown'), ('_repr_svg_', 'image/svg+xml'),
         ('_repr_png_', 'image/png'), ('_repr_jpeg_', 'image/jpeg'), ('_repr_pdf_', 'application/pdf'),
         ('_repr_latex_', 'text/latex'), ('_repr_json_', 'application/json'),
         ('_repr_javascript_', 'application/javascript'))
main = types.ModuleType('__main__')
own = [fcntl.fcntl(n, fcntl.F_DUPFD_CLOEXEC, 10) for n in (1, 2)]  # what nobody's run printed goes there
me = os.getpid()


def clean(text):
    return text.replace('\0', '\ufffd')


def cut(text, most):
    """Within so many bytes of UTF-8, at a character."""
    raw = text.encode('utf-8', 'replace')
    return raw.decode() if len(raw) <= most else raw[:most].decode('utf-8', 'ignore')


class Run:
    """The lines of one run, and the program that they go to. The lock is held for each line.

    Of a context, what that program cannot have goes where output between runs goes."""

    def __init__(self, fd, most, conn=None):
        self.fd, self.room, self.conn, self.spills = fd, most, conn, conn is not None
        self.totals, self.shown, self.lock = [0, 0], RUN_MAX, threading.RLock()
        self.decoders = [codecs.getincrementaldecoder('utf-8')() for _ in (0, 1)]
        self.held = [b'', b'']

    def say(self, **event):
        """Whether the program has it."""
        line = json.dumps(event, ensure_ascii=False).encode('utf-8', 'replace') + b'\n'
        with self.lock:
            while line and self.fd is not None:
                try:
                    line = line[os.write(self.fd, line):]
                except OSError:
                    self.fd = None
        return not line

    def printed(self, which, data, last=False):
        """Whole characters as text; a chunk that is none goes as bytes. What is past the room is counted."""
        with self.lock:
            self.totals[which] += len(data)
            data = self.held[which] + data
            self.held[which] = b''
            if not last and not self.full(which):
                part = unfinished(data)
                self.held[which], data = data[len(data) - part:], data[:len(data) - part]
            keep, rest = data[:self.room], data[self.room:]
            if rest:
                part = unfinished(keep)
                keep, rest = keep[:len(keep) - part], keep[len(keep) - part:] + rest
                self.room = len(keep)
            self.room -= len(keep)
            if keep and not self.send(which, keep):
                rest = keep + rest
            if rest and self.spills:
                spill(which, rest)

    def send(self, which, data):
        try:
            text = data.decode()
            if '\0' in text:
                raise ValueError
        except ValueError:
            return self.say(type=('stdout', 'stderr')[which], base64=base64.b64encode(data).decode())
        return self.say(type=('stdout', 'stderr')[which], text=text)

    def full(self, which):
        return self.room == 0 and not self.held[which]


def unfinished(data):
    """How many bytes at its end are the beginning of a character."""
    for n in range(1, min(4, len(data) + 1)):
        byte = data[-n]
        if byte >= 0xc0:
            return n if n < (2 if byte < 0xe0 else 3 if byte < 0xf0 else 4) and byte < 0xf8 else 0
        if byte < 0x80:
            return 0
    return 0


def spill(which, data):
    try:
        while data:
            data = data[os.write(own[which], data):]
    except OSError:
        pass


class Output:
    """The two pipes that are stdout and stderr of all that runs here, and who reads them."""

    def __init__(self):
        self.run, self.lock, self.ends = None, threading.RLock(), []
        self.wake = os.pipe()
        for fd in (1, 2):
            r, w = os.pipe()
            os.dup2(w, fd, inheritable=True)
            os.close(w)
            os.set_blocking(r, False)
            self.ends.append(fcntl.fcntl(r, fcntl.F_DUPFD_CLOEXEC, 10))
            os.close(r)
        threading.Thread(target=self.pump, daemon=True).start()

    def drain(self, which, most=None):
        with self.lock:
            while most is None or most > 0:
                try:
                    data = os.read(self.ends[which], 65536)
                except (BlockingIOError, OSError):
                    return
                most = None if most is None else most - len(data)
                if self.run:
                    self.run.printed(which, data)
                else:
                    spill(which, data)

    def pump(self):
        while True:
            conn = self.run.conn if self.run else None
            ready = select.select([*self.ends, self.wake[0]] + ([conn] if conn is not None else []), [], [])[0]
            if self.wake[0] in ready:
                os.read(self.wake[0], 64)
            for which in (0, 1):
                if self.ends[which] in ready:
                    self.drain(which, 65536)
            if conn is not None and conn in ready:  # who asked has gone
                with self.lock:
                    if self.run and self.run.conn is conn:
                        self.run.conn, self.run.fd = None, None
                        os.kill(me, signal.SIGINT)

    def give(self, run):
        with self.lock:
            self.drain(0), self.drain(1)
            self.run = run
        os.write(self.wake[1], b'x')

    def take(self):
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        # Output from before now is in the pipes; a child that goes on writing is not waited for.
        for which in (0, 1):
            n = struct.unpack('i', fcntl.ioctl(self.ends[which], 0x541B, b'\0\0\0\0'))[0]
            self.drain(which, n)
        with self.lock:
            run, self.run = self.run, None
            for which in (0, 1):
                run.printed(which, b'', last=True)
        os.write(self.wake[1], b'x')


# ---- rich results

def bundle(obj):
    """{media type: text or bytes or, of JSON, a value} of an object, as IPython asks for them."""
    found = {}
    method = getattr(obj, '_repr_mimebundle_', None)
    if callable(method) and not isinstance(obj, type):
        try:
            found = method(include=None, exclude=None)
            found = dict(found[0] if isinstance(found, tuple) else found or {})
        except Exception:
            traceback.print_exc()
            found = {}
    for name, media in REPRS:
        method = None if isinstance(obj, type) else getattr(obj, name, None)
        if media in found or not callable(method):
            continue
        try:
            value = method()
        except Exception:
            traceback.print_exc()
            continue
        value = value[0] if isinstance(value, tuple) and value else value
        if value is not None:
            found[media] = value
    if is_figure(obj) and 'image/png' not in found:
        found['image/png'] = figure_png(obj)
    if PLAIN not in found:
        found[PLAIN] = repr(obj)
    return found


def show(run, found, main_result=False):
    data, capped = {}, {}
    for media, value in found.items():
        if not isinstance(media, str) or value is None:
            continue
        if media.endswith('json') and not isinstance(value, (bytes, str)) or media == 'application/json':
            try:
                text = json.dumps(value, default=str)
            except Exception:
                continue
        elif isinstance(value, (bytes, bytearray, memoryview)):
            text = base64.b64encode(value).decode()
        else:
            text = clean(value if isinstance(value, str) else str(value))
        size = len(text.encode('utf-8', 'replace'))
        most = min(TEXT_MAX if media == PLAIN else SHOWN_MAX, run.shown)
        if size > most:
            capped[media] = size
            if media != PLAIN or not most:
                continue
            text = cut(text, most)
        run.shown -= len(text.encode('utf-8', 'replace'))
        data[media] = text
    run.say(type='result', main=main_result, data=data, capped=capped)


def display(*objs, raw=False, **ignored):
    """Show objects as results of this run; raw: each is {media type: value} already."""
    run = output.run
    for obj in objs:
        if run:
            sys.stdout.flush()
            output.drain(0)
            show(run, obj if raw and isinstance(obj, dict) else bundle(obj))


def is_figure(obj):
    figure = sys.modules.get('matplotlib.figure')
    return bool(figure) and isinstance(obj, getattr(figure, 'Figure', ()))


def figure_png(figure):
    import io
    out = io.BytesIO()
    figure.savefig(out, format='png', bbox_inches='tight')
    return out.getvalue()


def show_figures(*_, **__):
    plot = sys.modules.get('matplotlib.pyplot')
    if plot and output.run and hasattr(plot, 'get_fignums'):
        for number in plot.get_fignums():
            figure = plot.figure(number)
            show(output.run, {'image/png': figure_png(figure), PLAIN: repr(figure)})
        plot.close('all')


class PlotFinder(importlib.abc.MetaPathFinder):
    """plt.show() shows here."""

    def find_spec(self, name, path, target=None):
        if name != 'matplotlib.pyplot':
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            ran = spec.loader.exec_module

            def exec_module(module):
                ran(module)
                module.show = show_figures
            spec.loader.exec_module = exec_module
        return spec


# ---- what a run is

class Cells:
    """Sources by the names that tracebacks call them, the last hundred."""

    def __init__(self):
        self.count, self.names = 0, []

    def add(self, code):
        self.count += 1
        name = '<run %d>' % self.count
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        self.names.append(name)
        if len(self.names) > 100:
            linecache.cache.pop(self.names.pop(0), None)
        return name


def told(kind, value, tb):
    """An exception: name, value, frames (the newest last), and the text that Python prints."""
    try:
        whole = traceback.TracebackException(kind, value, tb)
        stack = [f for f in whole.stack if f.filename != OURS]
        if not any(f.filename.startswith('<run ') for f in stack):  # of what cannot even be parsed
            stack = []
        whole.stack = traceback.StackSummary.from_list(stack)
        text = ''.join(whole.format())
    except Exception:
        stack, text = [], '%s: <no text>\n' % kind.__name__
    frames = [dict(file=clean(f.filename), line=f.lineno or 0, function=clean(f.name),
                   source=cut(clean(f.line or ''), 200)) for f in stack]
    if isinstance(value, SyntaxError) and isinstance(value.filename, str):
        frames.append(dict(file=clean(value.filename), line=value.lineno or 0, function='',
                           source=cut(clean((value.text or '').rstrip('\n')), 200)))
    half = FRAMES_MAX // 2
    left = max(0, len(frames) - FRAMES_MAX)
    if left:
        frames = frames[:half] + frames[-half:]
    if len(text) > TRACE_MAX:
        text = text[:TRACE_MAX // 2] + '\n...\n' + text[-(TRACE_MAX // 2):]
    try:
        said = str(value)
    except Exception:
        said = '<no text>'
    return dict(type='error', name=clean(kind.__name__), value=cut(clean(said), TEXT_MAX // 4),
                traceback=cut(clean(text), TRACE_MAX), frames=frames, frames_left_out=left)


def evaluate(code, name):
    tree = ast.parse(code, name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    result = None
    for part, mode in ((tree, 'exec'), (last, 'eval')):
        if part is None:
            continue
        done = compile(part, name, mode, flags, dont_inherit=True)
        result = eval(done, main.__dict__)
        if done.co_flags & inspect.CO_COROUTINE:
            result = loop().run_until_complete(result)
    return result if last is not None else None


def loop():
    import asyncio
    if not state.get('loop') or state['loop'].is_closed():
        state['loop'] = asyncio.new_event_loop()
        asyncio.set_event_loop(state['loop'])
    return state['loop']


def on_interrupt(signum, frame):
    if state['running']:
        state['running'] = False
        raise KeyboardInterrupt


def run_cell(run, code):
    status, name = 'ok', cells.add(code)
    signal.signal(signal.SIGINT, on_interrupt)
    output.give(run)
    try:
        try:
            state['running'] = True
            value = evaluate(code, name)
            if os.getpid() == me and value is not None:
                main.__dict__['_'] = value
                if not is_figure(value):
                    sys.stdout.flush()
                    output.drain(0)
                    show(run, bundle(value), True)
            if os.getpid() == me:
                show_figures()
        finally:
            state['running'] = False
    except BaseException as e:
        status = 'interrupted' if isinstance(e, KeyboardInterrupt) else 'error'
        told_e = told(type(e), e, e.__traceback__)
        if os.getpid() == me:
            run.say(**told_e)
        e.__traceback__ = None
    if os.getpid() != me:  # a child that the code forked, and that came to the end of it
        os._exit(0 if status == 'ok' else 1)
    output.take()
    run.say(type='end', status=status, count=cells.count, stdout_bytes=run.totals[0], stderr_bytes=run.totals[1])
    return status


def read_exactly(fd, n):
    data = b''
    while len(data) < n:
        more = os.read(fd, min(n - len(data), 1 << 20))
        if not more:
            raise EOFError
        data += more
    return data


def serve(path):
    def leave(signum, frame):
        if os.getpid() == me:
            os.unlink(path)
        os._exit(128 + signum)

    for old in range(1, int(path.rsplit('-', 1)[1])):  # those before it that were killed
        try:
            os.unlink('%s-%d' % (path.rsplit('-', 1)[0], old))
        except OSError:
            pass
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, leave)
    listener = socket.socket(socket.AF_UNIX)
    old = os.umask(0o177)
    listener.bind(path)
    os.umask(old)
    listener.listen(4)
    sys.path.insert(0, '')
    while True:
        conn, _ = listener.accept()
        try:
            conn.settimeout(30)
            conn.sendall(b'{"type": "hello"}\n')
            head = b''
            while not head.endswith(b'\n') and len(head) < 100:
                byte = conn.recv(1)
                if not byte:
                    raise EOFError
                head += byte
            size, most = (int(n) for n in head.split())
            conn.settimeout(None)
            code = read_exactly(conn.fileno(), size)
            run_cell(Run(conn.fileno(), most, conn), code.decode('utf-8', 'replace'))
        except (OSError, ValueError, EOFError):
            pass
        except KeyboardInterrupt:
            pass
        finally:
            conn.close()


state, cells = dict(running=False), Cells()
code_once = read_exactly(0, int(sys.argv[2])) if sys.argv[1] == '-' else None
null = os.open('/dev/null', os.O_RDONLY)
os.dup2(null, 0)
os.close(null)
output = Output()
sys.stdout.reconfigure(line_buffering=True, errors='backslashreplace')
sys.stderr.reconfigure(errors='backslashreplace')
sys.modules['__main__'] = main
main.__dict__.update(display=display, __builtins__=builtins)
os.environ.setdefault('MPLBACKEND', 'Agg')
sys.meta_path.insert(0, PlotFinder())
path, most = sys.argv[1], int(sys.argv[3]) if code_once is not None else 0
sys.argv[:] = ['']
if code_once is None:
    serve(path)
sys.path.insert(0, '')
failed = run_cell(Run(own[0], most), code_once.decode('utf-8', 'replace')) != 'ok'
os._exit(1 if failed else 0)
