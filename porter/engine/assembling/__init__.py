"""The port put together, file by file: imports, TODO comments, installs, a last look at names."""
