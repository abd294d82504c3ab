#!/usr/bin/python3
"""tcp_gate.py PORT_FILE [ADDRESS]: a network that can be cut. What comes to a port of the loopback, or of ADDRESS, goes on to
another one.

The port is written to PORT_FILE. Each line on stdin is a command: `to HOST:PORT` says where it goes on to, `closed` ends every
connection and takes no other, `open` takes them again. It ends with its input.
"""
import os
import socket
import sys
import threading

lock = threading.Lock()
state = {"open": True, "to": ("127.0.0.1", 0)}
live = set()


def pump(source, to):
    try:
        while data := source.recv(65536):
            to.sendall(data)
    except OSError:
        pass
    for s in (source, to):
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client):
    try:
        server = socket.create_connection(state["to"], 5)
        server.settimeout(None)
    except OSError:
        client.close()
        return
    with lock:
        live.update((client, server))
    back = threading.Thread(target=pump, args=(server, client), daemon=True)
    back.start()
    pump(client, server)
    back.join()
    with lock:
        live.difference_update((client, server))
    client.close()
    server.close()


def accept(listener):
    while True:
        client, _ = listener.accept()
        if state["open"]:
            threading.Thread(target=serve, args=(client,), daemon=True).start()
        else:
            client.close()


listener = socket.create_server((sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1", 0))
with open(sys.argv[1] + ".new", "w") as f:
    f.write(str(listener.getsockname()[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
threading.Thread(target=accept, args=(listener,), daemon=True).start()
for line in sys.stdin:
    command, *to = line.split()
    with lock:
        if command == "to":
            host, port = to[0].rsplit(":", 1)
            state["to"] = (host, int(port))
            continue
        state["open"] = command == "open"
        for s in live if not state["open"] else ():
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
