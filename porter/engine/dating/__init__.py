"""Which release of a library a script was written for, and how that is known.

`evidence` is what the script itself tells: what it uses, and its last day. `asked` is what it and its project ask for,
or have run on. `release.py` dates one library by both, `versions.py` all of them together, as on one machine. `told` is
what the report says of that; `decided` what the release decides of the code that asks for it.
"""
