"""A client that breaks the rules of SSH on purpose; ssh_hostile.sh tells the story.

Usage: ssh_hostile.py PORT LOGIN PID TRICK, token on stdin. Prints what came of it.
"""
import os
import socket
import sys
import threading
import time
import warnings

warnings.filterwarnings("ignore")
import paramiko  # noqa: E402
from paramiko.common import (  # noqa: E402
    MSG_CHANNEL_CLOSE,
    cMSG_CHANNEL_REQUEST,
    cMSG_GLOBAL_REQUEST,
    cMSG_SERVICE_REQUEST,
    cMSG_USERAUTH_INFO_RESPONSE,
    cMSG_USERAUTH_REQUEST,
)

port, login, pid, trick = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
token = sys.stdin.read().strip()


def rss_kb():
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(next(line.split()[1] for line in f if line.startswith("VmRSS")))


def transport():
    t = paramiko.Transport(("127.0.0.1", port))
    t.start_client(timeout=10)
    return t


def logged_in():
    t = transport()
    t.auth_password(login, token)
    return t


def message(*parts):
    m = paramiko.Message()
    for p in parts:
        if isinstance(p, bytes):
            m.add_bytes(p)
        elif isinstance(p, bool):
            m.add_boolean(p)
        elif isinstance(p, int):
            m.add_int(p)
        else:
            m.add_string(p)
    return m


def tiny_packets():
    """A channel whose packets hold nothing: libssh would send empty ones for ever."""
    t = logged_in()
    t._sanitize_packet_size = lambda n: 10
    c = t.open_session(max_packet_size=10)
    c.settimeout(10)
    try:
        c.exec_command("echo hello")
        print("output", c.recv(100))
    except (paramiko.SSHException, EOFError) as e:
        print("refused", type(e).__name__)


def beyond_window():
    """Input that nobody reads, without regard to the window."""
    t = logged_in()
    c = t.open_session()
    c.exec_command("sleep 20")
    time.sleep(0.5)
    before, sent = rss_kb(), 0
    c.out_window_size = 1 << 40
    try:
        while sent < 300_000_000:
            sent += c.send(b"x" * 32000)
    except (EOFError, OSError):
        pass
    print("cut off" if sent < 300_000_000 else "endured", "grown", rss_kb() - before)


def unread_answers():
    """Requests that want an answer, by a client that reads none."""
    t = logged_in()
    stop = threading.Event()
    read = t.packetizer.read_message
    t.packetizer.read_message = lambda: (stop.wait(20), read())[1]
    before, n = rss_kb(), 0

    def report():
        print("grown", rss_kb() - before, flush=True)
        os._exit(0)

    threading.Timer(6, report).start()
    while True:
        t._send_message(message(cMSG_GLOBAL_REQUEST, "nothing@example.com", True))
        n += 1


def never_close():
    """Sessions that have ended and are never closed by the client."""
    t = logged_in()
    t._channel_handler_table = {**t._channel_handler_table, MSG_CHANNEL_CLOSE: lambda channel, m: None}
    kept = []  # a channel that is forgotten is closed
    try:
        for _ in range(100):
            kept.append(t.open_session())
            kept[-1].exec_command("true")
            kept[-1].recv_exit_status()
    except paramiko.ChannelException:
        pass
    print("sessions", len(kept))


def signals():
    t = logged_in()
    c = t.open_session()
    c.exec_command("trap 'echo usr1' USR1; echo up; while :; do sleep 0.1; done")
    heard = [c.recv(10).decode().strip()]
    for name in ("USR1", "NOSUCH", "TERM"):
        t._send_user_message(message(cMSG_CHANNEL_REQUEST, c.remote_chanid, "signal", False, name))
        if name == "USR1":
            heard.append(c.recv(10).decode().strip())
    print(*heard, c.recv_exit_status())


def impatient():
    """Passwords sent without waiting for answers: none of those in a delay is looked at."""
    t = transport()
    start = time.time()
    t._send_message(message(cMSG_SERVICE_REQUEST, "ssh-userauth"))
    try:
        for _ in range(20):
            t._send_message(message(cMSG_USERAUTH_REQUEST, login, "ssh-connection", "password", False, "nonsense"))
    except (EOFError, OSError, paramiko.SSHException):
        pass  # it was faster than we are
    while t.is_active() and time.time() - start < 30:
        time.sleep(0.1)
    print("ended", not t.is_active())


def renamed():
    """A good token, under another name than the connection's first one."""
    t = transport()
    t._send_message(message(cMSG_SERVICE_REQUEST, "ssh-userauth"))
    t._send_message(message(cMSG_USERAUTH_REQUEST, login, "ssh-connection", "none"))
    t._send_message(message(cMSG_USERAUTH_REQUEST, login + "2", "ssh-connection", "password", False, token))
    time.sleep(0.5)
    print("in", t.is_authenticated())


def unasked():
    """No token where one is asked for."""
    t = transport()
    t._send_message(message(cMSG_SERVICE_REQUEST, "ssh-userauth"))
    t._send_message(message(cMSG_USERAUTH_REQUEST, login, "ssh-connection", "keyboard-interactive", "", ""))
    t._send_message(message(cMSG_USERAUTH_INFO_RESPONSE, 0))
    time.sleep(0.5)
    print("in", t.is_authenticated())


def kerberos():
    """gssapi-with-mic is not offered; asking for it must not reach the host's Kerberos."""
    t = transport()
    t._send_message(message(cMSG_SERVICE_REQUEST, "ssh-userauth"))
    mech = b"\x00\x00\x00\x0b\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"
    t._send_message(message(cMSG_USERAUTH_REQUEST, login, "ssh-connection", "gssapi-with-mic", 1, mech))
    time.sleep(0.5)
    t.auth_password(login, token)
    print("authenticated", t.is_authenticated())


def silent():
    """Connections from one address that say nothing; who is turned away is told why. Then somebody from another one logs in."""
    kept, held = [], 0
    for _ in range(60):
        s = socket.create_connection(("127.0.0.1", port), 30, ("127.0.0.2", 0))
        said = s.recv(400)
        held += said.startswith(b"SSH-") and b"too many connections" not in said
        assert b"too many connections" not in said or s.recv(1) == b""
        kept.append(s)
    print(f"held {held}, others {logged_in().is_authenticated()}")


def strangers():
    """A hundred log-ins with a bad name from one address, ten at a time."""
    refused = []

    def one():
        try:
            t = paramiko.Transport(socket.create_connection(("127.0.0.1", port), 30, ("127.0.0.3", 0)))
            t.banner_timeout = t.handshake_timeout = t.auth_timeout = 60
            t.start_client(timeout=60)
            t.auth_none("No_Such_Name")
        except (paramiko.SSHException, EOFError, OSError) as e:
            refused.append(type(e).__name__)

    for _ in range(10):
        batch = [threading.Thread(target=one) for _ in range(10)]
        for t in batch:
            t.start()
        for t in batch:
            t.join()
    print("refused", len(refused))


paramiko.util.get_logger("paramiko").setLevel(100)
globals()[trick]()
sys.stdout.flush()
os._exit(0)
