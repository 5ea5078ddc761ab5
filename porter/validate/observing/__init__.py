"""What both observed processes share: settings, guard, clock, who calls."""
