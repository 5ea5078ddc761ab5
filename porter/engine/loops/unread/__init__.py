"""What trains in a file and is no trainer or loop that is read: it is named."""
