"""heads_inside.py PORT: answers every connection once, and tells at /count how many of the bytes "smuggled" it was sent."""
import re, socket, sys, threading

seen = 0


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
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    except OSError:
        pass
    finally:
        s.close()


server = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=100)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
