"""@beacon.timed(...) → gone.

What it does: takes the decorator off; the function stays.
Why: it synchronises torch.cuda before and after each call.
Example: `@beacon.timed("rows")`
Use instead: JAX's profiler
Safety: exact, but for beacon's own timings.
"""

from porter.packs.api import remove_decorator

ID = "BEA202"
FUNCTIONS = ("beacon.timed",)


def apply(site, porting):
    remove_decorator(porting, site, "it synchronises torch.cuda")
