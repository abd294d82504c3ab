#!/usr/bin/python3
"""clients_canned.py SOCKET: the Python client before answers that a daemon gives rarely, or cannot be made to give: output with holes
that is cut behind one, many small chunks, a reader that pauses, a daemon that goes between two tries."""
import asyncio
import contextlib
import json
import os
import re
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "clients", "python"))
from muxd import ConnectionLost, Sandbox  # noqa: E402
from muxd.errors import AnswerLost  # noqa: E402
from muxd.execution import EVENT_MAX, CodeEvents  # noqa: E402
from muxd._head import Head  # noqa: E402
from muxd._async.files import AsyncFiles  # noqa: E402
from muxd._async.http import AsyncClient  # noqa: E402
from muxd._net.aio import Stream  # noqa: E402
from muxd._sync.commands import Follower  # noqa: E402
from muxd._sync.files import Files  # noqa: E402
from muxd._sync.http import Answer, Client  # noqa: E402
from muxd.connection import ConnectionConfig  # noqa: E402

OK = b"HTTP/1.1 200 OK\r\n"


def equal(what, expected, got):
    if expected != got:
        sys.exit(f"FAILED: {what}: expected {expected!r}, got {got!r}")
    print(f"  ok: {what}", flush=True)


class Server:
    """One answer for each connection; `asked` has their first lines."""

    def __init__(self, *answers):
        self.asked = []
        self._listener = socket.socket(socket.AF_UNIX)
        if os.path.exists(sys.argv[1]):
            os.unlink(sys.argv[1])
        self._listener.bind(sys.argv[1])
        self._listener.listen(8)
        threading.Thread(target=self._serve, args=(answers,), daemon=True).start()

    def _serve(self, answers):
        for answer in answers:
            client, _ = self._listener.accept()
            if answer is answers[-1]:
                self._listener.close()  # nobody is there the next time
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(65536)
            self.asked.append(head.split(b"\r\n")[0].decode())
            client.sendall(answer)
            client.close()


def config(**how):
    return ConnectionConfig(socket_path=sys.argv[1], token="t", **{"request_timeout": 5, "retry_for": 2, **how})


def chunks(*pieces, end=True):
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + (b"0\r\n\r\n" if end else b"")


def holes():
    head = OK + b"Transfer-Encoding: chunked\r\n"
    server = Server(head + b"Muxd-Offset: 10\r\nMuxd-Missing: bytes 0-9, 15-19\r\n\r\n" + chunks(b"abc", b"defgh", end=False),
                    head + b"Muxd-Offset: 23\r\nMuxd-Missing: bytes 25-29\r\n\r\n" + chunks(b"ij", end=False),
                    head + b"Muxd-Offset: 30\r\n\r\n" + chunks(b"k"))
    client = Client(config())
    follower = Follower(client, "r", "stdout")
    equal("output with holes, cut twice", (b"abcdefghijk", True, 31), (b"".join(follower.read()), follower.missing, follower.offset))
    equal("is asked for where it was cut", ["0", "23", "30"], [a.split("offset=")[1].split()[0] for a in server.asked])
    client.close()


def seconds(n):
    """The reading of so many chunks that have come at once."""
    answer = Answer(Client(config()), socket.socket(), Head(200, {"connection": "close"}), -1, chunks(*[b"0123456789"] * n), None)
    began = time.thread_time()
    if len(answer.read()) != 10 * n:
        sys.exit("FAILED: not all was read")
    return time.thread_time() - began


def small_chunks():
    ratio = min(seconds(16000) for _ in range(3)) / min(seconds(4000) for _ in range(3))
    equal(f"four times the chunks take {ratio:.1f} times as long", True, ratio < 8)


def a_lost_answer():
    """It was done, and only what can be said twice is."""
    about = b'{"error": {"code": "answer_lost", "message": "m", "hint": "h", "request_id": "r"}}'
    lost = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: %d\r\n\r\n%s" % (len(about), about)
    server, client = Server(lost), Client(config())
    try:
        said = str(Files(client, "a").patch("*** Begin Patch\n*** End Patch\n"))
    except AnswerLost as e:
        said = e.code
    equal("a patch whose answer is lost is made once", ("answer_lost", 1), (said, len(server.asked)))
    server = Server(lost, OK + b"Content-Length: 18\r\n\r\n{\"round_id\": \"r\"} ")
    equal("what only looks looks again", ("r", 2), (client.json("getRound", {"id": "r"}, again=True)["round_id"], len(server.asked)))
    client.close()


def feeding(events, size):
    began = time.thread_time()
    for _ in range(size >> 16):
        if events.feed(b"x" * (1 << 16)):
            sys.exit("FAILED: half a line is none")
    return time.thread_time() - began


def a_line_without_end():
    """Code in a sandbox writes where its interpreter tells events."""
    ratio = min(feeding(CodeEvents(), 16 << 20) for _ in range(3)) / min(feeding(CodeEvents(), 4 << 20) for _ in range(3))
    equal(f"a line that is four times as long takes {ratio:.1f} times as long", True, ratio < 8)
    events = CodeEvents()
    feeding(events, 4 * EVENT_MAX)
    equal("one without end is not kept", (1, 0), (events._lines.lost, len(events._lines._rest)))
    equal("and what comes behind it is heard", [{"type": "x"}], events.feed(b'\n{"type": "x"}\n[]\n' + b"[" * 100000 + b"\n"))


async def pauses():
    Server(OK + b"Content-Length: 3000000\r\n\r\n" + b"x" * 3000000)
    client = AsyncClient(config(request_timeout=0.3))
    n = 0
    async for piece in await AsyncFiles(client, "a").read("f", "stream"):
        if not n:
            await asyncio.sleep(0.7)
        n += len(piece)
    equal("its reader's pause is no silence", 3000000, n)
    await client.aclose()


async def cancelled():
    """At whatever moment: between two waits, too."""
    async def work():
        reader, writer = socket.socketpair()
        with reader:
            stream = Stream(*await asyncio.open_unix_connection(sock=writer))
            try:
                while True:
                    await stream.write(b"x", 5)
                    reader.send(reader.recv(1))
                    await stream.read(5)
            finally:
                await stream.close()
    tasks = [asyncio.ensure_future(work()) for _ in range(100)]
    for turns, task in enumerate(tasks):
        for _ in range(turns % 7):
            await asyncio.sleep(0)
        task.cancel()
    _, live = await asyncio.wait(tasks, timeout=10)
    if live:
        print(f"FAILED: {len(live)} of {len(tasks)} go on that were cancelled", flush=True)
        os._exit(1)  # else they would be waited for
    equal("whoever is cancelled ends", 100, len([t for t in tasks if t.cancelled()]))


def gone_between():
    """It may have been done by the first try, whatever became of the second."""
    body = b'{"agent": "a", "state": "running"}'
    Server(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body, b"")
    s = Sandbox("a", Client(config()))
    s.get_info()
    try:
        s.pause()
    except ConnectionLost as e:
        equal("a first try that may have been carried out counts", (True, True), (e.maybe_done, "may have been done" in e.hint))


def named_by_its_grant():
    """Whose grant names no one agent makes a name up, which the grant covers."""
    def made(granted, *given):
        told = json.dumps({"agent": granted}).encode()
        woken = b'{"agent": "a", "state": "running"}'
        answers = [OK + b"Content-Length: %d\r\n\r\n" % len(body) + body for body in ([woken] if given else [told, woken])]
        server = Server(*answers)
        with contextlib.closing(Sandbox.create(*given, connection=config())) as s:
            equal(f"a grant for {granted}: what is woken", [s.sandbox_id], re.findall(r"/v1/agents/(.*)/resume", server.asked[-1]))
            return s.sandbox_id, s._own
    for granted, name in (("*", "sbx-[0-9a-f]{16}"), ("ci-*", "ci-[0-9a-f]{16}")):
        agent, own = made(granted)
        equal(f"a grant for {granted} makes a new one of its client's own", (True, True), (bool(re.fullmatch(name, agent)), own))
    equal("a grant for one agent is for that", ("ci-7", False), made("ci-7"))
    equal("a name that was given is taken", ("ci-8", False), made("ci-*", "ci-8"))


def no_length():
    Server(OK + b"\r\nhalf of", b"")
    try:
        print(Files(Client(config(retry_for=0)), "a").read("f"))
        sys.exit("FAILED: an answer without an end")
    except ConnectionLost as e:
        equal("an answer that may have been cut is none", True, "does not say how long it is" in str(e))


a_lost_answer()
a_line_without_end()
holes()
small_chunks()
no_length()
asyncio.run(pauses())
asyncio.run(cancelled())
gone_between()
named_by_its_grant()
