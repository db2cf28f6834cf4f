"""Answers each line of standard input: "clocks" by its clocks, anything else by "done" once 200 ms are over."""

import sys
import threading
import time

for line in sys.stdin:
    if line == "clocks\n":
        print(time.time_ns(), time.monotonic_ns(), flush=True)
        continue
    if line == "sleep\n":
        time.sleep(0.2)
    else:
        threading.Event().wait(0.2)
    print("done", flush=True)
