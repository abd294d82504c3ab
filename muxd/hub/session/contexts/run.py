# One run in a context: run.py SOCKET TIMEOUT_MS GRACE_MS BYTES MAX, with so many bytes of code on stdin.
# Its lines are what the interpreter says, and an end of its own where that says none. It looks after the time.
import os, select, signal, socket, struct, sys, time

path, timeout, grace, size, most = sys.argv[1], *(int(a) for a in sys.argv[2:6])
EXITS = dict(done=0, error=1, timeout=124, interrupted=130, context_died=70)
wake_r, wake_w = os.pipe()
os.set_blocking(wake_w, False)
pid, cause, message, deadline, ended = 0, None, '', time.monotonic() + timeout / 1000, None


def tell(signum):
    """To the interpreter's group: what it runs hears it, too."""
    try:
        if pid > 1:
            os.killpg(os.getpgid(pid), signum)
    except OSError:
        pass


def stop(why):
    global cause, deadline
    if cause is None:
        cause, deadline = why, time.monotonic() + grace / 1000
        tell(signal.SIGINT)


def on_signal(signum, frame):
    if signum != signal.SIGINT:
        tell(signal.SIGINT)
        os._exit(128 + signum)
    stop('interrupted')


def say(text):
    text = text if isinstance(text, bytes) else text.encode()
    while text:
        text = text[os.write(1, text):]


def over(why, text=''):
    say('{"type": "end", "cause": "%s", "message": "%s"}\n' % (why, text))
    os._exit(EXITS[why])


def died():
    over('context_died', message or 'the interpreter ended during the run')


def connect():
    s, until = socket.socket(socket.AF_UNIX), time.monotonic() + 10
    while True:
        try:
            s.connect(path)
            return s
        except OSError:
            if time.monotonic() > until:
                over('context_died', 'the interpreter does not listen')
            time.sleep(0.01)


def wait(s):
    """For something to read; the time may be over, or somebody interrupts, meanwhile."""
    global deadline, message
    while True:
        now = time.monotonic()
        if now >= deadline:
            if cause:
                message = 'the interpreter did not stop within %d ms of its interrupt, and was killed' % grace
                tell(signal.SIGKILL)
                died()
            stop('timeout')
        if s in select.select([s, wake_r], [], [], max(0, deadline - now))[0]:
            return
        if select.select([wake_r], [], [], 0)[0]:
            os.read(wake_r, 64)


code = b''
while len(code) < size:
    more = os.read(0, size - len(code))
    if not more:
        os._exit(EXITS['context_died'])
    code += more
signal.set_wakeup_fd(wake_w)
for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(signum, on_signal)
sock = connect()
pid = struct.unpack('3i', sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
if cause:
    tell(signal.SIGINT)
line, sent = b'', False
while True:
    wait(sock)
    try:
        data = sock.recv(65536)
    except OSError:
        data = b''
    if not data:
        break
    line += data
    end = line.rfind(b'\n') + 1
    whole, line = line[:end], line[end:]
    if whole and not sent:
        whole, sent = whole[whole.find(b'\n') + 1:], True
        try:
            sock.sendall(b'%d %d\n' % (size, most) + code)
        except OSError:
            died()
    last = whole[whole.rfind(b'\n', 0, -1) + 1:]
    if last.startswith(b'{"type": "end", "status": "'):
        ended = last[27:].split(b'"')[0].decode('ascii', 'replace')
    say(whole)
if ended is None:
    died()
why = 'done' if ended == 'ok' else cause or ('interrupted' if ended == 'interrupted' else 'error')
over(why)
