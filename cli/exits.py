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
    FAILED: "failed: an evaluation or a run of it failed, a service refused, something is missing",
    USAGE: "usage: an argument or a field of the request is wrong, or names what is not known",
    GATE: "gate: measured, but a limit that was asked for does not hold (status: not running)",
    AUTH: "auth: the key in use may not do that",
    NO_AGENT: "no agent: none that is known can run the request",
    INVALID: "invalid: measured, but batches are missing, or (--strict) with a caveat",
    INTERRUPTED: "interrupted: Ctrl-C; an evaluation that ran in the foreground is cancelled",
}
