"""The exit statuses of `ensemble-deid`, as docs/cli.md lists them. Argument errors exit 2, too: argparse does so."""

DIFFERENCES = 1
PROBLEMS = 1
BAD_INPUT = 2
NOTES_WITHHELD = 3
UNFORESEEN = 70
INTERRUPTED = 130
READER_GONE = 141
TERMINATED = 143
