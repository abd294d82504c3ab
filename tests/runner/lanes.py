"""Threads that a run waits for, also behind a signal.

An exception that a signal raises within Thread.join() makes Python 3.11 take the thread for ended, and the process ends without it:
tests went on, and a cluster stayed. An event has no such fault.
"""
import threading


class Lanes:
    def __init__(self, broke):
        """broke(work, exception): of a lane that ends so."""
        self.broke, self.ended = broke, []

    def begin(self, work, *args):
        ended = threading.Event()

        def guarded():
            try:
                work(*args)
            except Exception as e:
                self.broke(work, e)
            finally:
                ended.set()

        lane = threading.Thread(target=guarded)
        self.ended.append(ended)
        try:
            lane.start()
        except BaseException:
            if lane.ident is None:  # a signal came before it began: nobody else says that it has ended
                ended.set()
            raise

    def __len__(self):
        return len(self.ended)

    def join(self):
        while self.ended:
            self.ended[0].wait()
            self.ended.pop(0)
