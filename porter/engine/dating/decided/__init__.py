"""What the release that a script is read as decides of code that asks for it: tests, tries, imports, keywords."""
