"""The front doors: a script or a folder from source to port, its writing to disk, a project's own settings."""
