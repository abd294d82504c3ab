"""The processes that a test left behind: those that name its directory, in their arguments or as the workspace they see.

A sandbox outlives its daemon, and knows nothing of it: its arguments name no directory, its environment is empty. What leads to
the daemon that began it is its workspace alone, a directory that is mounted or the image behind a loop device, also when both
are gone from the disk by now.
"""
import glob
import os
import signal
import time

TOLD = 200  # characters of a process' arguments


def read(path):
    """Of a process that may end meanwhile: then nothing."""
    try:
        with open(path, "rb") as f:
            return f.read().decode("utf-8", "replace")
    except OSError:
        return ""


def runs(pid):
    """Whether there is such a process that has not ended; a zombie has."""
    words = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return bool(words) and words[0] != "Z"


def loops():
    """The file behind each loop device."""
    return {f"/dev/{path.split('/')[3]}": read(path) for path in glob.glob("/sys/block/loop*/loop/backing_file")}


def below(directory):
    """Its path from where its file system is mounted: so mounts name it, and arguments and loop devices no less."""
    top = os.path.dirname(directory)
    while not os.path.ismount(top):
        top = os.path.dirname(top)
    return "/" + os.path.relpath(directory, top)


def sees(pid, path, files):
    """Whether a workspace that lies in the directory is mounted where the process looks."""
    for line in read(f"/proc/{pid}/mountinfo").splitlines():
        first, _, second = line.partition(" - ")
        root, at = first.split(" ")[3:5]
        if at.endswith("/workspace") and any(f"{path}/" in of for of in (root, files.get(second.split(" ")[1], ""))):
            return True
    return False


def arguments(pid):
    return read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()


def named(pid, path, files):
    """Its arguments, if it names the directory or sees a workspace in it; else nothing."""
    words = arguments(pid)
    return words if words and (path in words or sees(pid, path, files)) else ""


def left(directory):
    """[(pid, its arguments)], without those who ask."""
    path, files, own = below(directory), loops(), {os.getpid(), os.getppid()}
    pids = sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return [(pid, words) for pid in pids if pid not in own and (words := named(pid, path, files))]


def end(pid, directory):
    """Ends it by a descriptor, so that the number cannot be another's by now."""
    try:
        held = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if named(pid, below(directory), loops()):
            signal.pidfd_send_signal(held, signal.SIGKILL)
    except OSError:
        pass
    finally:
        os.close(held)


def settle(directory, passed):
    """Waits until none is left or `passed()`, ends those that are, and returns a line for each: what ends by itself, a moment
    later, was not left."""
    found = left(directory)
    while found and not passed():
        time.sleep(0.1)
        found = left(directory)
    for pid, _ in found:
        end(pid, directory)
    return [f"FAILED: left behind: process {pid}: {words if len(words) <= TOLD else words[:TOLD] + ' ...'}" for pid, words in found]
