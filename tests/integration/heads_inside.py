"""heads_inside.py PORT: answers every connection once, and tells at /count how many of the bytes "smuggled" it was sent.
/fields: fields that are for a whole origin; /interim?N: N answers of 1xx before the one that counts;
/trailers: such fields behind the body."""
import re, socket, sys, threading

seen = 0
FIELDS = """Strict-Transport-Security: max-age=0
Clear-Site-Data: "*"
alt-svc: h3="evil.example:443"
Service-Worker-Allowed: /
Access-Control-Allow-Origin: *
ACCESS-CONTROL-MAX-AGE: 86400
Access-Control-Allow-Credentials: true
Timing-Allow-Origin: *
Origin-Agent-Cluster: ?0
Report-To: {}
Reporting-Endpoints: a="https://evil.example/"
NEL: {}
Public-Key-Pins: x
Expect-CT: max-age=1
Accept-CH: Sec-CH-UA-Model
Critical-CH: Sec-CH-UA-Model
Set-Login: logged-out
Use-As-Dictionary: match="/*"
No-Vary-Search: params
WWW-Authenticate: Basic realm="your password"
X-Muxd-Request-Id: mine
Set-Cookie: __Host-muxd=theirs
Set-Cookie: =__Host-muxd=theirs
Set-Cookie: muxd_x=theirs
Set-Cookie: wide=theirs; Domain=example.org
Set-Cookie: nameless
X-Kept: yes
Content-Security-Policy: default-src 'none'
""".splitlines() + ["Set-Cookie: c%d=1" % i for i in range(80)]


def serve(s):
    global seen
    data = b""
    s.settimeout(5)
    try:
        while b"\r\n\r\n" not in data:
            more = s.recv(65536)
            if not more:
                return
            data += more
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", data)
        while length and len(data.partition(b"\r\n\r\n")[2]) < int(length.group(1)):
            more = s.recv(65536)
            if not more:
                break
            data += more
        body = b"%d" % seen if data.startswith(b"GET /count") else b"fine"
        seen += data.count(b"smuggled")
        interim = re.match(rb"GET /interim\?(\d+) ", data)
        if interim:
            s.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * int(interim.group(1)))
        if data.startswith(b"GET /fields"):
            s.sendall(("HTTP/1.1 200 OK\r\n%s\r\nContent-Length: 0\r\n\r\n" % "\r\n".join(FIELDS)).encode())
            return
        if data.startswith(b"GET /trailers"):  # with the head, and behind it
            first, rest = b"4\r\nfine\r\n0\r\nSet-Cookie: __Host-", b"muxd=theirs\r\nClear-Site-Data: \"*\"\r\n\r\n"
            s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Set-Cookie\r\n\r\n" + first)
            s.sendall(rest)
            return
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    except OSError:
        pass
    finally:
        s.close()


server = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=100)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
