"""Steps of porting: declared beside the functions that take them, found by folder, put in order by what they need."""
