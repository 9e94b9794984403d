"""Checkers: what must hold after any fault, each as a pure function from records to findings.

| name | a thing that is |
| --- | --- |
| LOST | wanted and not there |
| TWICE | there more often than wanted |
| SWAPPED | there in another order |
| FLIPPED | at its place with other content |
| TORN | at its place with only the beginning of its content |
| BEHIND | the end of what is wanted, all of it missing: so far, or for good |
| FOREIGN | there and not wanted |

No findings: all is well. What is wanted never comes from the code that is judged: the attested log is held against the
independent refold of the very input log, the input against the source records that were sent, outcomes against the
truth of the data. Used by `finality verify` and by fault tests alike. Leaves out where records come from, and waiting.
"""

from finality.checks.attested import LogReport, check_log
from finality.checks.findings import Finding, compare_sequences
from finality.checks.outcomes import check_outcomes, said_of_jobs
from finality.checks.sent import check_sent

__all__ = ["Finding", "LogReport", "check_log", "check_outcomes", "check_sent", "compare_sequences", "said_of_jobs"]
