#!/usr/bin/env python3
"""WebSockets and other upgrades through the router, with a client that others wrote (python3-websockets) and with bare TLS.
router_ws.py ADDRESS CERTIFICATE AGENT PORT, the token on stdin."""
import asyncio
import os
import ssl
import sys

import websockets

address, cert, agent, port = sys.argv[1:5]
token = sys.stdin.readline().strip()
context = ssl.create_default_context(cafile=cert)
fields = {"Authorization": "Bearer " + token, "X-Sandbox-ID": agent, "X-Sandbox-Port": port}


async def echo():
    async with websockets.connect("wss://%s/ws" % address, ssl=context, extra_headers=fields, max_size=None,
                                  compression=None) as ws:
        for n in (0, 1, 125, 126, 65535, 65536, 3000000):
            data = os.urandom(n)
            await ws.send(data)
            assert await ws.recv() == data, "%d bytes came back as others" % n
        await ws.send("text, too")
        assert await ws.recv() == "text, too"
        # many at once, both ways, with a reader that is slow to begin
        data = [os.urandom(50000) for _ in range(200)]

        async def send():
            for d in data:
                await ws.send(d)

        sender = asyncio.create_task(send())
        await asyncio.sleep(1)
        for d in data:
            assert await ws.recv() == d
        await sender


async def half_close():
    """The client's end goes in, and what is said after it still comes out: TLS itself has half-closes."""
    host, number = address.rsplit(":", 1)
    loop = asyncio.get_running_loop()

    def run():
        import socket
        raw = socket.create_connection((host, int(number)))
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname=host)

        def push():
            data = outgoing.read()
            if data:
                raw.sendall(data)

        def do(call, *args):
            while True:
                try:
                    r = call(*args)
                    push()
                    return r
                except ssl.SSLWantReadError:
                    push()
                    data = raw.recv(65536)
                    if data:
                        incoming.write(data)
                    else:
                        incoming.write_eof()

        do(tls.do_handshake)
        head = "GET /count HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: count\r\n"
        head += "".join("%s: %s\r\n" % kv for kv in fields.items()) + "\r\n"
        do(tls.write, head.encode())
        got = b""
        while b"\r\n\r\n" not in got:
            got += do(tls.read, 65536)
        assert got.startswith(b"HTTP/1.1 101 "), got
        assert b"\r\nUpgrade: count\r\n" in got, got
        for _ in range(100):
            do(tls.write, b"x" * 10000)
        try:
            tls.unwrap()  # sends close_notify, and would wait for the other's
        except ssl.SSLWantReadError:
            pass
        push()
        # What comes behind the other side's end cannot be read through this API once unwrapped: so the records are counted.
        total = 0
        raw.settimeout(30)
        while data := raw.recv(65536):
            total += len(data)
        assert total > 30, "nothing came after our end"
        raw.close()

    await loop.run_in_executor(None, run)


async def main():
    await asyncio.wait_for(echo(), 120)
    await asyncio.wait_for(half_close(), 60)


asyncio.run(main())
