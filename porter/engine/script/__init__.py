"""What stands in a script: its sites, where values flow, what uses a trainer, what tables fill; `Porting` holds it."""
