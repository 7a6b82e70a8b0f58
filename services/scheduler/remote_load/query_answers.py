"""Answers to the queries of a remote load, which its reader reports to the parent."""

import msgpack
import numpy as np

from services.scheduler.remote_load.query_status import ANSWERED, FAILED
from services.scheduler.remote_load.standard_streams import write_message

REPORT_S = 0.25
_MAX_DIGITS = 11
_MOST_ERROR_CHARACTERS = 2000
"""Of one query: an agent may answer each of millions with megabytes."""


class QueryAnswers:
    """Answers that came and are not reported yet; each query of the load counts once."""

    def __init__(self, queries: int) -> None:
        """Expect answers to queries 0 to `queries` - 1."""
        self.rows: list[Row] = []
        self.missing = queries
        self._is_answered = bytearray(queries)
        self._errors: dict[int, str] = {}
        self._failed_samples: dict[int, int] = {}
        #: the first report comes with the first answer: the load may end before it goes on
        self._next_report_s = 0.0

    def add(self, subject: str, body: bytes, now_ns: int) -> None:
        """Add the answer `body` that came at `now_ns` of CLOCK_MONOTONIC.

        The last token of the `subject` is the query's number. A second answer to a query, or one
        to no query of the load, changes nothing.
        """
        number = subject.rpartition(".")[2]
        is_number = number.isascii() and number.isdecimal() and len(number) <= _MAX_DIGITS
        if not is_number or int(number) >= len(self._is_answered):
            return
        query = int(number)
        if self._is_answered[query]:
            return
        self._is_answered[query] = True
        self.missing -= 1
        row, error, failed_samples = _parse_answer(query, body, now_ns)
        self.rows.append(row)
        if error:
            self._errors[query] = error[:_MOST_ERROR_CHARACTERS]
        if failed_samples:
            self._failed_samples[query] = failed_samples

    def report_if_due(self, now_s: float) -> None:
        """Report the answers, unless the last report was just before `now_s`."""
        if self.rows and now_s >= self._next_report_s:
            self._next_report_s = now_s + REPORT_S
            self.report()

    def report(self) -> None:
        """Write the answers to the standard output as columns, one row an answer, and forget them.

        Columns are int32 `query`, int64 `ended_ns` and `service_ns`, int8 `status`; by query
        `errors` and, of those answered in part, the number of samples that `failed`.
        """
        if not self.rows:
            return
        rows = np.array(self.rows, np.int64).reshape(-1, 4)
        columns = {
            "query": rows[:, 0].astype("<i4").tobytes(),
            "ended_ns": rows[:, 1].astype("<i8").tobytes(),
            "service_ns": rows[:, 2].astype("<i8").tobytes(),
            "status": rows[:, 3].astype("<i1").tobytes(),
            "errors": self._errors,
            "failed": self._failed_samples,
        }
        write_message(msgpack.packb(columns))
        self.rows, self._errors, self._failed_samples = [], {}, {}


Row = tuple[int, int, int, int]
"""query, ended_ns, service_ns, status."""


def _parse_answer(query: int, body: bytes, now_ns: int) -> tuple[Row, str, int]:
    """Return an answer's row, its error, and the number of samples that failed in part.

    An answer that cannot be read is a failed query.
    """
    try:
        answer = msgpack.unpackb(body)
        status, service_ns = int(answer["status"]), int(answer["service_ns"])
        if status not in (ANSWERED, FAILED) or not -1 <= service_ns < 2**63:
            raise ValueError(f"status {status}, service_ns {service_ns}")
        failed_samples = int(answer.get("failed", 0)) if status == ANSWERED else 0
        if not 0 <= failed_samples < 2**31:
            raise ValueError(f"failed {failed_samples}")
        is_bad = status != ANSWERED or failed_samples > 0
        error = str(answer.get("error", "")) if is_bad else ""
        return (query, now_ns, service_ns, status), error, failed_samples
    except (ArithmeticError, ValueError, LookupError, TypeError, msgpack.UnpackException) as error:
        return (query, now_ns, -1, FAILED), f"unreadable answer: {error}", 0
