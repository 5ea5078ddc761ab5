"""Made-up datasets and files: which columns are read, and rows for them."""
