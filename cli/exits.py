"""Exit codes of every command, as `mlscope help exit-codes` prints them."""

OK = 0
FAILED = 1
USAGE = 2
GATE = 3
AUTH = 4
NO_AGENT = 5
INVALID = 6
INTERRUPTED = 130

MEANINGS = {
    OK: "done",
    FAILED: "failed: an evaluation or a run failed, a service refused, or something is missing",
    USAGE: "usage: an argument or a request field is wrong, or names something unknown",
    GATE: "gate: measured, but a required limit does not hold (status: no cluster is running)",
    AUTH: "auth: the key in use does not allow this, or its cluster revoked it",
    NO_AGENT: "no agent: no known agent can run the request",
    INVALID: "invalid: measured, but batches are missing, or (--strict) there are caveats",
    INTERRUPTED: "interrupted: Ctrl-C; an evaluation that ran in the foreground is cancelled",
}
