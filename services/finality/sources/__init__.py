"""Foreign job-state formats to canonical events, one file per source."""
