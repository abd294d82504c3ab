"""failed_logins.py HTTPS N < tokens, one a line: N calls with each, on 40 connections at once. Prints how many were refused by 401, and how many by 403 where there were any."""
import http.client, ssl, sys, threading

host, port = sys.argv[1].rsplit(":", 1)
tokens, n, refused = sys.stdin.read().split(), int(sys.argv[2]), []
todo = [t for t in tokens for _ in range(n)]
lock = threading.Lock()


def work():
    h = http.client.HTTPSConnection(host, int(port), timeout=30, context=ssl._create_unverified_context())
    while True:
        with lock:
            if not todo:
                return
            token = todo.pop()
        h.request("GET", "/v1/agents/demo", headers={"Authorization": "Bearer " + token})
        answer = h.getresponse()
        answer.read()
        refused.append(answer.status)


threads = [threading.Thread(target=work) for _ in range(40)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(*[refused.count(status) for status in (401, 403) if status in refused])
