"""Interpreters that have imported the large libraries once, and fork for each script that is run under an observer.

Importing torch or JAX and what belongs to them takes longer than the few steps of a tiny model. `server` is such an
interpreter, `client` starts it and asks it. Whatever such a fork can't do as a new interpreter would (a project that
has a module of a library's name, several processes of torch's launcher) is left to one: see `client.begin`.
"""
