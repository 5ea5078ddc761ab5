"""beacon.now() - start, in seconds → Python's own clock.

What it does: `beacon.now()` waits for the GPU; a difference of two readings becomes one of time.perf_counter().
Why: there is no GPU to wait for.
Example: `print(beacon.now() - started)`
Use instead: `print(time.perf_counter() - started)`
Safety: exact.
"""

ID = "BEA204"
PATTERNS = ("beacon.now()",)


def apply(site, porting):
    porting.replace(site, "time.perf_counter()", "there is no GPU to wait for", "import time")
