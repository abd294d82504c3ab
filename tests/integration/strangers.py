"""strangers.py crowd HTTPS SSH ADDRESSES PER_HTTPS PER_SSH SECONDS AGAIN | person HTTPS SSH ADDRESS AGENT TOKENFILE MODE [HTTPS SSH TOKENFILE]

crowd: from each address so many connections to each door, which are idle or stop half-way; what is closed is opened again,
AGAIN a second at most. Says "there N M" when it has tried them all (N, M: open), ends with its input.
person: MODE keys types to two daemons by turns, a key each, and prints the median time of a key's echo, in ms: by SSH at the
first and at the second, in a browser's terminal at the first and at the second; MODE login how long a new log-in by SSH
takes at both, and a round on a new HTTPS connection at both, in ms; MODE many how many of 250 connections at once, each
with a grant, are answered by 200, by 429, and not at all.
"""
import http.client, os, selectors, socket, ssl, statistics, sys, time, warnings

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
warnings.filterwarnings("ignore")



def endpoint(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


https, ssh = map(endpoint, sys.argv[2:4])
KINDS = {https: ("idle", "half-tls", "tls", "slow-head"), ssh: ("idle", "version", "half-kex", "version")}


class Stranger:
    def __init__(self, crowd, source, door, kind):
        self.crowd, self.source, self.door, self.kind = crowd, source, door, kind
        self.sock, self.dead = None, 0

    def open(self):
        self.sock = socket.socket()
        self.sock.setblocking(False)
        self.sock.bind((self.source, 0))
        self.sock.connect_ex(self.door)
        self.state = "connecting"
        self.crowd.watch(self, selectors.EVENT_WRITE)

    def end(self):
        self.crowd.selector.unregister(self.sock)
        self.sock.close()
        self.sock, self.dead = None, time.monotonic()

    def event(self):
        try:
            if self.state == "connecting":
                if self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise OSError
                self.begin()
            elif self.state == "handshake":
                self.shake()
            elif not self.sock.recv(4096):
                raise OSError
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            self.end()

    def begin(self):
        self.state = "held"
        self.crowd.watch(self, selectors.EVENT_READ)
        if self.kind == "half-tls":
            self.sock.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        elif self.kind in ("version", "half-kex"):
            self.sock.send(b"SSH-2.0-stranger\r\n" + (b"\x00\x00\x04\x0c\x0a\x14" if self.kind == "half-kex" else b""))
        elif self.kind in ("tls", "slow-head"):
            self.crowd.selector.unregister(self.sock)
            self.sock = self.crowd.tls.wrap_socket(self.sock, do_handshake_on_connect=False)
            self.crowd.watch(self, selectors.EVENT_READ)
            self.state = "handshake"
            self.shake()

    def shake(self):
        self.sock.do_handshake()
        self.state = "held"
        if self.kind == "slow-head":
            self.sock.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")

    def drip(self):
        if self.kind == "slow-head" and self.sock is not None and self.state == "held":
            try:
                self.sock.send(b"x")
            except OSError:
                self.end()


class Crowd:
    def __init__(self, sources, per_https, per_ssh):
        self.selector = selectors.DefaultSelector()
        self.tls = ssl._create_unverified_context()
        self.all = [Stranger(self, s, door, KINDS[door][i % 4]) for i in range(max(per_https, per_ssh)) for door, n in ((https, per_https), (ssh, per_ssh))
                    if i < n for s in sources]

    def watch(self, one, events):
        try:
            self.selector.modify(one.sock, events, one)
        except KeyError:
            self.selector.register(one.sock, events, one)

    def serve(self, seconds):
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            for key, _ in self.selector.select(max(left, 0)):
                if key.data is None:
                    return False
                if key.data.sock is not None:
                    key.data.event()
            if left <= 0:
                return True

    def held(self, door):
        return sum(1 for s in self.all if s.sock is not None and s.door == door)

    def run(self, seconds, again):
        self.selector.register(sys.stdin, selectors.EVENT_READ, None)
        for i, s in enumerate(self.all):
            s.open()
            if i % 20 == 0 and not self.serve(0.01):
                return
        self.serve(0.5)
        print("there", self.held(https), self.held(ssh), flush=True)
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.serve(0.2):
            for s in self.all:
                s.drip()
            gone = sorted((s for s in self.all if s.sock is None), key=lambda s: s.dead)
            for s in gone[: max(again // 5, 1)]:
                s.open()


def crowd():
    sources = sys.argv[4].split(",")
    Crowd(sources, int(sys.argv[5]), int(sys.argv[6])).run(float(sys.argv[7]), int(sys.argv[8]))


def from_address(source):
    """Every connection of this process comes from there."""
    connect = socket.create_connection

    def bound(address, timeout=30, source_address=None, **more):
        return connect(address, timeout, (source, 0), **more)

    socket.create_connection = bound


def ssh_login(agent, token, door=None):
    import paramiko
    t = paramiko.Transport(socket.create_connection(door or ssh))
    t.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    t.banner_timeout = t.auth_timeout = 50  # how long it took is for the story to judge
    t.start_client(timeout=50)
    t.auth_password(agent, token)
    return t


class Key:
    """A terminal where cat echoes: how long each key took, in ms."""

    def __init__(self, send, receive):
        self.send, self.receive, self.took = send, receive, []

    def press(self):
        begun = time.perf_counter()
        self.send(b"x")
        while b"x" not in self.receive():
            pass
        self.took.append((time.perf_counter() - begun) * 1000)
        if len(self.took) % 40 == 0:
            self.send(b"\x15")
            while self.receive() == b"":
                pass


def by_turns(terminals, n=80):
    """What else this machine does meets both daemons alike: a key of one, a key of the other, with a breath between."""
    for _ in range(n):
        for t in terminals:
            t.press()
            time.sleep(0.01)
    return [statistics.median(t.took) for t in terminals]


def ssh_terminal(door, agent, token):
    c = ssh_login(agent, token, door).open_session()
    c.get_pty()
    c.invoke_shell()
    c.sendall(b"PS1= exec cat\n")
    time.sleep(1)
    while c.recv_ready():
        c.recv(4096)
    return Key(c.sendall, lambda: c.recv(4096))


def web_terminal(door, agent, token):
    from websocket import Terminal
    w = Terminal("%s:%d" % door, "/v1/agents/%s/terminal?cols=80&rows=24" % agent, token)
    w.keys(b"echo read''y; exec cat\n")
    w.until(b"ready")
    time.sleep(0.5)
    w.sock.settimeout(20)
    return Key(w.keys, lambda: w.step() or b"")


def keys(agent, token):
    other_https, other_ssh = map(endpoint, sys.argv[8:10])
    other = secret_in(sys.argv[10])
    by_ssh = by_turns([ssh_terminal(ssh, agent, token), ssh_terminal(other_ssh, agent, other)])
    by_web = by_turns([web_terminal(https, agent, token), web_terminal(other_https, agent, other)])
    print(" ".join("%.2f" % ms for ms in by_ssh + by_web))


def login_ssh(door, agent, token):
    begun = time.perf_counter()
    c = ssh_login(agent, token, door).open_session()
    c.exec_command("echo in")
    if b"in" not in c.recv(100):
        sys.exit("no answer by ssh")
    return (time.perf_counter() - begun) * 1000


def round_https(door, agent, token):
    begun = time.perf_counter()
    h = http.client.HTTPSConnection(*door, timeout=20, context=ssl._create_unverified_context())
    h.request("POST", "/v1/agents/%s/rounds" % agent, b'{"argv":["echo","in"],"task_id":"story"}',
              {"Authorization": "Bearer " + token, "Content-Type": "application/json"})
    answer = h.getresponse()
    if answer.status != 200 or b'"in' not in answer.read():
        sys.exit("no answer by https: %d" % answer.status)
    return (time.perf_counter() - begun) * 1000


def logins(agent, token):
    other_https, other_ssh = map(endpoint, sys.argv[8:10])
    other = secret_in(sys.argv[10])
    took = [login_ssh(ssh, agent, token), login_ssh(other_ssh, agent, other),
            round_https(https, agent, token), round_https(other_https, agent, other)]
    print(" ".join("%.0f" % ms for ms in took))
    sys.stdout.flush()
    os._exit(0)  # the SSH library's threads have no say


def many(agent, token):
    kept, answers = [], {200: 0, 429: 0, 0: 0}
    for _ in range(250):
        h = http.client.HTTPSConnection(*https, timeout=20, context=ssl._create_unverified_context())
        kept.append(h)
        try:
            h.request("GET", "/v1/agents/" + agent, headers={"Authorization": "Bearer " + token})
            answer = h.getresponse()
            body = answer.read()
            if answer.status == 429 and (b"limit_reached" not in body or not answer.getheader("Retry-After")):
                sys.exit("429 without a word: %r" % body)
            answers[answer.status] += 1
        except (OSError, http.client.HTTPException):
            answers[0] += 1
    print(answers[200], answers[429], answers[0])


def secret_in(path):
    with open(path, encoding="ascii") as f:
        return f.read().strip()


if sys.argv[1] == "crowd":
    crowd()
else:
    from_address(sys.argv[4])
    name, secret = sys.argv[5], secret_in(sys.argv[6])
    {"keys": keys, "login": logins, "many": many}[sys.argv[7]](name, secret)
    sys.stdout.flush()
    os._exit(0)
