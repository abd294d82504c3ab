"""events_client.py STATE TOKEN ROUND CUTS: reads a round's events as EventSource does, drops the connection at random and comes
back with the last id. Prints the SHA-256 of stdout and of stderr; fails where an offset is not the one that is expected."""
import base64, hashlib, json, os, random, socket, ssl, sys, time

state, token, number, cuts = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
seed = int(os.environ.get("SEED", random.randrange(1 << 30)))
print("seed", seed, flush=True)
dice = random.Random(seed)
context = ssl.create_default_context(cafile=os.path.join(state, "keys/tls.crt"))
context.check_hostname = False
got, last, until = {"stdout": b"", "stderr": b""}, None, time.monotonic() + 60


def events(stream):
    """(event, id or None, data) of a chunked answer."""
    body = b""
    while True:
        size = int(stream.readline(), 16)
        body += stream.read(size)
        stream.readline()
        while b"\n\n" in body:
            block, body = body.split(b"\n\n", 1)
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if not line.startswith(b":") and b": " in line)
            if b"event" in fields:
                yield fields[b"event"].decode(), fields.get(b"id", b"").decode() or None, json.loads(fields[b"data"])
        if not size:
            return


def read(left):
    """Up to so many events; True at the round's end."""
    global last
    host, port = json.load(open(os.path.join(state, "ready.json")))["https"].rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as plain, context.wrap_socket(plain, server_hostname=host) as s:
        lines = ["GET /v1/rounds/%s/events HTTP/1.1" % number, "Host: x", "Authorization: Bearer " + token, "Accept: text/event-stream"]
        s.sendall("\r\n".join(lines + (["Last-Event-ID: " + last] if last else []) + ["", ""]).encode())
        stream = s.makefile("rb")
        status = stream.readline()
        if b" 200 " not in status:
            raise ConnectionError(status)
        while stream.readline() not in (b"\r\n", b""):
            pass
        for name, number_, data in events(stream):
            if name in got:
                assert data["offset"] == len(got[name]), (name, data["offset"], len(got[name]))
                got[name] += data["data"].encode() if data["encoding"] == "utf-8" else base64.b64decode(data["data"])
            if number_:
                last = number_
            if name == "exit":
                return True
            left -= 1
            if left == 0:
                return False
    return False


while time.monotonic() < until:
    try:
        if read(dice.randrange(1, 30) if cuts > 0 else -1):
            break
        cuts -= 1
    except (OSError, ValueError) as e:
        print("again:", e, flush=True)
        time.sleep(0.1)
else:
    sys.exit("no end within a minute")
print(hashlib.sha256(got["stdout"]).hexdigest(), hashlib.sha256(got["stderr"]).hexdigest())
