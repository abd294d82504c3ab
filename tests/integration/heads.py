"""heads.py ADDRESS AGENT COUNT SEED [SOCKET], token on stdin: malformed heads from a grammar, at the API and at the router;
by the Unix socket where one is named."""
import json, random, re, socket, ssl, sys
from concurrent.futures import ThreadPoolExecutor

address, agent, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
token = sys.stdin.readline().strip()
host, port = address.rsplit(":", 1)
unix = sys.argv[5] if len(sys.argv) > 5 else None
context = ssl._create_unverified_context()
SMUGGLED = "GET /v1/sessions?smuggled HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n" % (address, token)
TEXT = "abcXYZ019-_. ()/;=\"'*&%\x80\xe9\xff\t"

# What is wrong with it -> the answers that it may get at the API and at the router; 200 and 401 stand where the fault is none
# of that door's business.
BAD = ((400,), (400,))
LONG = ((431,), (431,))


def blanks(r):
    return r.choice([" ", "\t", "  ", " \t", "\x0b", "\x0c", "\x00", "\x1f", "\x7f", "\xa0"])


def case(r, s):
    return "".join(r.choice([c.upper(), c.lower()]) for c in s)


def noise(r):
    """Fields that are fine."""
    fields = ["X-%s%d: %s" % (case(r, "fine"), i, "".join(r.choices(TEXT, k=r.randrange(20)))) for i in range(r.randrange(4))]
    return fields + r.sample(["Accept: */*", "User-Agent: grammar", "Accept-Encoding: gzip", "Cookie: a=b; c=d"], r.randrange(4))


class Head:
    def __init__(self, r, router):
        self.r, self.router = r, router
        self.method = r.choice(["GET", "POST", "PUT", "DELETE"]) if router else r.choice(["GET", "POST", "HEAD"])
        self.target = r.choice(["/", "/a/b?c=d"]) if router else r.choice(["/healthz", "/v1/sessions", "/v1/agents/%s/rounds" % agent])
        self.version = "HTTP/1.1"
        self.host = ["Host: " + address]
        self.auth = ["Authorization: Bearer " + token]
        self.more = ["X-Sandbox-ID: " + agent, "X-Sandbox-Port: 8000"] if router else []
        self.fault = []
        self.end = "\r\n"
        self.before = ""
        self.body = ""
        self.behind = SMUGGLED
        self.expect = BAD

    def framed(self, name, value):
        """A length, or chunks, that one reader sees and another does not: the body is a request for that one."""
        self.fault = [name + value]
        self.method = self.r.choice(["GET", "POST"])

    def text(self):
        lines = self.host + self.auth + self.more + noise(self.r)
        self.r.shuffle(lines)
        at = self.r.randrange(len(lines) + 1)
        lines[at:at] = self.fault
        line = "%s %s %s" % (self.method, self.target, self.version) if self.version is not None else self.method + " " + self.target
        return self.before + self.end.join([line] + lines) + self.end * 2 + self.body + self.behind


def length(r):
    return r.choice([str(len(SMUGGLED)), str(len(SMUGGLED)), "5", "0"])


def f_length_blank(h):
    h.framed(case(h.r, "Content-Length"), blanks(h.r) + ": " + length(h.r))


def f_coding_blank(h):
    h.framed(case(h.r, "Transfer-Encoding"), blanks(h.r) + ": chunked")
    h.body = h.r.choice(["", "0\r\n\r\n"])


def f_name_before(h):
    h.framed(blanks(h.r) + case(h.r, "Content-Length"), ": " + length(h.r))


def f_bare_cr(h):
    h.framed("X: y\r" + case(h.r, h.r.choice(["Content-Length", "Transfer-Encoding"])), ": " + h.r.choice([length(h.r), "chunked"]))


def f_bare_lf(h):
    """A line that ends with LF alone, or all of them."""
    if h.r.random() < 0.5:
        h.end = "\n"
    else:
        h.framed("X: y\nContent-Length", ": " + length(h.r))


def f_folded(h):
    h.framed(h.r.choice(["Content-Length:", "Transfer-Encoding:", "X: y"]),
             "\r\n" + h.r.choice([" ", "\t", "   "]) + h.r.choice([length(h.r), "chunked", "Content-Length: " + length(h.r)]))


def f_no_host(h):
    h.host = []


def f_hosts(h):
    h.host = ["Host: " + address, "Host: " + h.r.choice([address, "other"])]


def f_host(h):
    h.host = ["Host:" + h.r.choice(["", " ", " a, b", " a b", " a/b", " u@a", " a\\b", " \xe9", " a\"", " a?b", " a#b"])]


def f_version(h):
    h.version = h.r.choice(["HTTP/1.9", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1 ", "HTTP/1.10", "HTTP/11", "HTTP/1,1", " HTTP/1.1",
                            "HTTP/1.1\t", "HTTQ/1.1", "HTTP/1.1\x00", "HTTP/3", "HTTP/-1.1", "", None])


def f_both(h):
    h.fault = ["Content-Length: " + length(h.r), "Transfer-Encoding: chunked"]
    h.r.shuffle(h.fault)
    h.body = h.r.choice(["", "0\r\n\r\n"])


def f_lengths(h):
    a, b = h.r.choice([("5", "5"), ("5", "6"), ("0", length(h.r)), (length(h.r), "0")])
    h.fault = h.r.choice([["Content-Length: " + a, case(h.r, "Content-Length: ") + b], ["Content-Length: %s, %s" % (a, b)]])


def f_length(h):
    h.fault = ["Content-Length:" + h.r.choice(["", " ", " +5", " -5", " 0x5", " 5 5", " 5a", " 5;", " \"5\"", " 5.0", " 1e1", " 99999999999999999999",
                                               " 9223372036854775808", " \xb2", " 5\x00", " 5,", " ,5"])]


def f_coding(h):
    h.fault = h.r.choice([["Transfer-Encoding: " + v] for v in ("gzip, chunked", "chunked, chunked", "xchunked", "chunkedx", "chunked;q=1", "identity",
                         "chunked,", ", chunked", "\"chunked\"", "chunked\x00", "chun ked", "", "chunked gzip", "\xc4hunked")]
                         + [["Transfer-Encoding: chunked"] * 2, ["Transfer-Encoding: identity", "Transfer-Encoding: chunked"]])
    h.body = h.r.choice(["", "0\r\n\r\n"])


def f_coding_old(h):
    h.version, h.fault, h.body = "HTTP/1.0", ["Transfer-Encoding: chunked"], "0\r\n\r\n"


def f_token(h):
    h.auth = ["Authorization: Bearer " + token + h.r.choice(["\x00", "\x01", "\x0b", "\r", "\x7f", "\x00\x00"]) + h.r.choice(["", "junk"])]


def f_token_word(h):
    h.auth = ["Authorization: Bearer " + token + h.r.choice([" junk", ",", ", Bearer x", "=", ".", "\xe9", "\"", ";a=b", "\tjunk"])]
    h.target, h.method = h.r.choice(["/v1/sessions", "/v1/agents/%s/rounds" % agent]) if not h.router else "/", "DELETE" if h.router else "GET"
    h.expect, h.behind = ((401, 405), (401,)), ""  # the head itself is fine, and so would be another behind it
    h.fault = ["Connection: close"]


def f_tokens(h):
    h.auth = ["Authorization: Bearer " + token, "Authorization: " + h.r.choice(["Bearer " + token, "Bearer x", "Basic eDp5"])]


def f_name(h):
    c = h.r.choice("\x00\x01\x0b\x1f\x7f \"(),/;<=>?@[\\]{}\x80\xe9")
    at = h.r.randrange(4)
    h.fault = [h.r.choice(["X-Na"[:at] + c + "X-Na"[at:] + "me: v", ": v", "nothing", c + ": v"])]


def f_value(h):
    h.fault = ["X-Name: a" + h.r.choice("\x00\x01\x08\x0b\x0c\x0e\x1b\x1f\x7f\r") + "b"]


def f_method(h):
    h.method = h.r.choice(["G\x00T", "GE T", "G\x01T", "GET\t", "G(T", "", "\"GET\"", "G\xc9T", "GET\x00", "G/T", "@", "GET:", "{GET}"])


def f_unknown(h):
    h.method = h.r.choice(["get", "Get", "PROPFIND", "TRACE", "GETT", "GE", "POST1", "X-OWN", "M-SEARCH", "PRI", "post"])
    h.expect = ((405,), None)


def f_target(h):
    whole = "http://%s/" % address  # which is fine at the router: whole_address()
    h.target = h.r.choice([("http://u@%s/" % address) if h.router else whole, whole + "#x" if not h.router else "https://%s#x" % address, "https://other/", "other:80", "*", "healthz", "", "?a", "/a b", "/a\tb", "/\x00", "/\x01", "/\x7f",
                           "//\xe9", "/\xc3\xa9", "/a?\xff", "\\", "%2fhealthz", "file:///etc/passwd", "/a\rb", "/a\nb", "/a\x0bb"])


def f_percent(h):
    h.target = "/healthz" + h.r.choice(["%", "%4", "%zz", "%4z", "%%20", "?a=%", "?a=%u0041", "%00", "?a=%00", "%0d%0aX:y", "%0a", "?a=%0D", "%-1", "?%%"])
    h.expect = (BAD[0], None)


def f_blank_line(h):
    h.before = h.r.choice(["\r\n", "\n", " ", "\r", "\x00", "\r\n\r\n", "\t", "\xef\xbb\xbf", "\x16\x03", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])


def f_first_line(h):
    h.fault = []
    h.version = "HTTP/1.1\r\n" + h.r.choice([" ", "\t"]) + "X-First: folded"


def f_long(h):
    h.fault = h.r.choice([["X-Long: " + "a" * 45000], ["X-%d: %s" % (i, "b" * 400) for i in range(100)], ["X-%d: c" % i for i in range(300)]])
    h.expect = LONG


def f_upgrade(h):
    h.method, h.fault = "GET", h.r.choice([["Upgrade: h2c"], ["Upgrade: TLS/1.0"], ["Upgrade: websocket, h2c"], ["Upgrade: websocket\x00"], ["Upgrade: x", "Upgrade: websocket"]])
    h.fault += ["Connection: Upgrade", "HTTP2-Settings: AAMAAABkAAQAAP__"]
    h.expect = ((400, 501), (400, 502) if "\x00" in h.fault[0] else None)


def f_websocket_body(h):
    h.method, h.target = "GET", "/v1/agents/%s/terminal" % agent
    h.fault = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: muxd.v1"]
    h.fault += h.r.choice([["Content-Length: 10"], ["Transfer-Encoding: chunked"], []])
    h.expect = (BAD[0], None)


def f_chunks(h):
    """The head is fine, its body's chunks are not."""
    h.method = "POST"
    h.target = "/" if h.router else "/v1/agents/%s/rounds" % agent
    h.fault = ["Transfer-Encoding: chunked"]
    h.body = h.r.choice(["zz\r\n", "-1\r\n", "+1\r\na\r\n", "0x1\r\na\r\n", "\r\n", " 1\r\na\r\n", "1\na\r\n", "1;a\nb\r\na\r\n", "1\ra\r\n", "1\r\nab\r\n", "1\r\na\n0\r\n\r\n",
                         "11111111111111111\r\n", "1 x\r\na\r\n", "1;\x00\r\na\r\n", "1;a\rb\r\na\r\n", "1,1\r\na\r\n", "1\x00\r\na\r\n", "0\r\nX: y\n\r\n", "0\r\nX: \x00\r\n\r\n", "0\r\nX: y\rz\r\n\r\n",
                         "1;" + "a" * 20000 + "\r\na\r\n", "\xb9\r\na\r\n", "1\x0b\r\na\r\n", "g\r\n", "1\r\na0\r\n\r\n"])


FAULTS = [v for k, v in sorted(globals().items()) if k.startswith("f_")]


def make(n, router):
    r = random.Random("%d %d %d" % (seed, n, router))
    while True:
        h = Head(r, router)
        fault = FAULTS[n % len(FAULTS)] if n < 2 * len(FAULTS) else r.choice(FAULTS)
        fault(h)
        if h.expect[router] is not None:
            break
        n = r.randrange(1 << 30) + 2 * len(FAULTS)
    data = h.text().encode("latin-1")
    cuts = sorted(r.sample(range(1, len(data)), r.choice([0, 0, 1, 2, 5])))
    return fault.__name__[2:], [data[a:b] for a, b in zip([0] + cuts, cuts + [len(data)])], h.expect[router]


def talk(pieces):
    """All that is answered until the connection ends; and whether it did."""
    if unix:
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(30)
        s.connect(unix)
    else:
        plain = socket.create_connection((host, int(port)), timeout=30)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s = context.wrap_socket(plain)
    got, ended = b"", False
    try:
        for p in pieces:
            s.sendall(p)
    except OSError:
        pass  # it had heard enough
    s.settimeout(4)
    try:
        while True:
            more = s.recv(65536)
            if not more:
                ended = True
                break
            got += more
    except TimeoutError:
        pass
    except OSError:
        ended = True
    s.close()
    return got, ended


def verdict(n, router):
    name, pieces, expect = make(n, router)
    got, ended = talk(pieces)
    answers = [int(x) for x in re.findall(rb"(?m)^HTTP/1\.[01] (\d\d\d)", got)]
    wrong = None
    if len(answers) != 1:
        wrong = "%d answers: %s" % (len(answers), answers)
    elif answers[0] not in expect:
        wrong = "answered %d, not %s" % (answers[0], " or ".join(map(str, expect)))
    elif not ended:
        wrong = "the connection stays"
    elif b"Connection: close" not in got:
        wrong = "no word that the connection ends"
    else:
        body = got.partition(b"\r\n\r\n")[2]
        try:
            if not json.loads(body)["error"]["message"]:
                wrong = "no message"
        except (ValueError, KeyError, TypeError):
            wrong = "no error envelope: %r" % body[:100]
    return name, pieces, len(answers), wrong


def inside():
    got, _ = talk([("GET /count HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nX-Sandbox-ID: %s\r\nX-Sandbox-Port: 8000\r\nConnection: close\r\n\r\n"
                    % (token, agent)).encode()])
    return int(got.rpartition(b"\r\n\r\n")[2])


def whole_address():
    """The target as a client of a proxy says it: the server inside gets its path, when Host names the same."""
    faults = []
    for scheme, name, status in (("http", address, 200), ("HTTPS", address, 200), ("https", "other:1", 400)):
        got, _ = talk([("GET %s://%s/count HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nX-Sandbox-ID: %s\r\nX-Sandbox-Port: 8000\r\nConnection: close\r\n\r\n"
                        % (scheme, name, address, token, agent)).encode()])
        if not re.match(rb"HTTP/1\.1 %d " % status, got) or (status == 200 and not got.rpartition(b"\r\n\r\n")[2].isdigit()):
            faults.append("%s://%s: %r" % (scheme, name, got[:200]))
    return faults


failed = 0
for fault in whole_address():
    print("  FAILED: a whole address as target: " + fault)
    failed += 1
for router in (0, 1):
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: verdict(n, router), range(count)))
    where = "router" if router else "API"
    bad = [(name, pieces, wrong) for name, pieces, _, wrong in results if wrong]
    double = sum(answers > 1 for _, _, answers, _ in results)
    for name, pieces, wrong in bad[:12]:
        print("  %s: %s: %s\n    %r" % (where, name, wrong, b"|".join(pieces)[:300].replace(token.encode(), b"TOKEN")))
    print("  %s: %s: %d malformed heads of %d kinds, %d double answers, %d otherwise wrong (seed %d)"
          % ("ok" if not bad else "FAILED", where, count, len({r[0] for r in results}), double, len(bad) - double, seed), flush=True)
    failed += len(bad)
smuggled = inside()
if smuggled:
    print("  FAILED: what stood behind them reached the server inside %d times" % smuggled)
sys.exit(bool(failed or smuggled))
