#!/usr/bin/python3
"""cutting_proxy.py LISTEN TARGET: two Unix sockets, and what comes to the first goes to the second, but for what is to be cut.

Each line on stdin is a command, answered by a line:
    cut KIND COUNT METHOD PATH    the next COUNT requests of that method whose target begins with PATH
        before   the connection ends without the request being passed on
        answer   it is passed on whole, and the connection ends when its answer begins: done, and nobody knows
        inside   the same behind the first byte of its body
        body=N   N bytes of what comes back pass, then the connection ends (a WebSocket's messages, too)
        hang     it is passed on, and nothing comes back for as long as the client stays
        late=S   it is passed on S seconds later, and not cut
    seen                          how many requests were cut since the last time, and what they were
    open                          how many connections there are
"""
import os
import socket
import sys
import threading
import time

lock = threading.Lock()
rules, seen, connections = [], [], set()


def rule_for(head):
    method, target = head.split(b" ", 2)[:2]
    with lock:
        for r in rules:
            if r["left"] > 0 and r["method"] == method.decode() and target.decode().startswith(r["path"]):
                r["left"] -= 1
                seen.append(f"{r['kind']} {method.decode()} {target.decode()}")
                return r["kind"]
    return None


def pump(source, to, most=None):
    try:
        while most is None or most > 0:
            data = source.recv(65536 if most is None else min(65536, most))
            if not data:
                break
            to.sendall(data)
            most = None if most is None else most - len(data)
    except OSError:
        pass
    return most == 0


def end(*sockets):
    for s in sockets:
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        s.close()


def pump_up(client, server):
    """Who has left reads no answer: so has this one, then."""
    pump(client, server)
    try:
        server.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def first_byte(source):
    """The head of an answer, and a byte."""
    data = b""
    while b"\r\n\r\n" not in data[:-1]:
        more = source.recv(65536)
        if not more:
            break
        data += more
    return data[:data.find(b"\r\n\r\n") + 5]


def serve(client, target):
    connections.add(client)
    try:
        pass_on(client, target)
    finally:
        connections.discard(client)


def pass_on(client, target):
    """muxd's Unix socket has one request a connection, which makes this easy."""
    head = b""
    while b"\r\n\r\n" not in head:
        data = client.recv(65536)
        if not data:
            return client.close()
        head += data
    kind = rule_for(head)
    if kind == "before":
        return end(client)
    if kind and kind.startswith("late="):
        time.sleep(float(kind.split("=")[1]))
        kind = None
    server = socket.socket(socket.AF_UNIX)
    server.connect(target)
    server.sendall(head)
    up = threading.Thread(target=pump_up, args=(client, server), daemon=True)
    up.start()
    if kind == "answer":
        server.recv(1)
    elif kind == "inside":
        client.sendall(first_byte(server))
    elif kind == "hang":
        up.join()
    elif kind:
        pump(server, client, int(kind.split("=")[1]))
    else:
        pump(server, client)
    end(client, server)


def accept(listener, target):
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, target), daemon=True).start()


def main():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen(64)
    threading.Thread(target=accept, args=(listener, sys.argv[2]), daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        with lock:
            if words[0] == "cut":
                rules.append({"kind": words[1], "left": int(words[2]), "method": words[3], "path": words[4]})
                print("ok", flush=True)
            elif words[0] == "open":
                print(len(connections), flush=True)
            else:
                print(len(seen), "; ".join(seen), flush=True)
                seen.clear()
    os._exit(0)


main()
