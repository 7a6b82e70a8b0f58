"""Post-processes the outputs of a batch, or of each of its samples alone where the batch fails."""

from functools import partial
from typing import Any

from services.agent.errors import SAMPLE_ERRORS, CodeRaised
from services.agent.predictors import Tensors
from services.agent.worker.answers.isolate_samples import (
    IsolatedAnswers,
    Retries,
    code_argument,
    finish_code_by_sample,
    finish_steps_by_sample,
    outputs_by_sample,
)
from services.agent.worker.answers.kept_outputs import OutputAnswers
from services.agent.worker.answers.non_finite import output_named
from services.agent.worker.preparation.finishing import FinishFailed, FinishingProcess
from services.agent.worker.queries.operator_runner import OperatorRunner
from services.agent.worker.queries.pipeline import PREDICT, Pipeline, PortOperators, steps_before
from services.agent.worker.queries.query import Query


class PostProcessing:
    """The steps or the inline code after the model of one run's queries."""

    def __init__(self, pipeline: Pipeline, runner: OperatorRunner) -> None:
        self._after, self._code_after = pipeline.after, pipeline.code_after
        self._outputs_read = frozenset(pipeline.outputs_read())
        self._steps_before = steps_before(pipeline)
        self._runner = runner
        #: the queries whose samples were finished one by one, by inline code
        self.retries = Retries()
        #: processes that ended while they post-processed
        self.deaths = 0

    def answers(
        self, query: Query, outputs: Tensors, apart: FinishingProcess | None = None
    ) -> OutputAnswers | None:
        """Return the answers of a `query` after the last step of its `outputs`, by output.

        None when a step failed for all samples. With a process, `apart`, the steps run there; where
        one raises, they are repeated here.
        """
        span = query.first_span + 2 + len(query.samples) * self._steps_before
        if apart is not None:
            try:
                finished = self._finished_apart(query, outputs, span, apart)
            except FinishFailed as error:
                query.fail(f"post-processing: {error}")
                return None
            if finished is not None:
                return finished
        if self._code_after:
            return self._run_code(query, outputs, span)
        answers = []
        for port in self._after:
            name = PREDICT
            try:
                value = output_named(outputs, port.name)
                for number, operator in enumerate(port.steps):
                    name = operator.name
                    extra = [output_named(outputs, output) for output in operator.extra_outputs]
                    if operator.wants_samples:
                        extra.append(self._runner.samples(query))
                    value = self._runner.apply(query, span + number, operator, (value, *extra))
            except SAMPLE_ERRORS as error:
                value = self._run_steps_by_sample(query, port, outputs)
                if value is None:
                    query.fail(f"{name}: {error}")
                    return None
            span += len(port.steps)
            answers.append((port.name, value))
        return answers

    def _finished_apart(
        self, query: Query, outputs: Tensors, span: int, apart: FinishingProcess
    ) -> OutputAnswers | None:
        """Return the answers of the process `apart`; None where a step raises there.

        Spans of the steps begin with the id `span`. Raises FinishFailed.
        """
        is_all = "" in {port.name for port in self._after}
        read = {name: outputs[name] for name in outputs if is_all or name in self._outputs_read}
        deaths = apart.deaths
        try:
            finished = apart.finished(read)
        finally:
            self.deaths += apart.deaths - deaths
        if finished is None:
            return None
        names = [step.name for port in self._after for step in port.steps]
        if self._runner.traces_steps:
            for number, (name, times_ns) in enumerate(zip(names, finished.stamps, strict=True)):
                self._runner.record_span_until(
                    query, span + number, name, times_ns, finished.thread
                )
        return finished.answers

    def _run_code(self, query: Query, outputs: Tensors, span: int) -> OutputAnswers | None:
        """Return the answers of inline code for a batch; None when it raises for all samples."""
        value: Any = code_argument(outputs)
        name = PREDICT
        try:
            for operator in self._code_after:
                name = operator.name
                extra = [self._runner.samples(query)] if operator.wants_samples else []
                value = self._runner.apply(query, span, operator, (value, *extra))
                span += 1
        except SAMPLE_ERRORS as error:
            query.code_error = error if isinstance(error, CodeRaised) else query.code_error
            value = self._run_code_by_sample(query, outputs)
            if value is None:
                query.fail(f"{name}: {error}")
                return None
        return (("", value),)

    def _run_code_by_sample(self, query: Query, outputs: Tensors) -> list[Any] | None:
        """Return the answers of code run for each sample alone; samples that it raises for fail.

        None when outputs can't be split by sample, or it raises for none or all of them. The time
        it takes is the query's own; it has no spans.
        """
        places = query.good_places
        if len(places) < 2 or not self.retries.are_useful:
            return None
        samples = self._runner.samples(query)
        isolated = finish_code_by_sample(self._code_after, outputs, places, samples)
        has_cause = isolated is not None and bool(isolated.answers) and bool(isolated.errors)
        self.retries.note(has_cause=has_cause)
        if isolated is None or not has_cause:
            return None
        return self._answers_of_good_samples(query, isolated)

    def _run_steps_by_sample(
        self, query: Query, port: PortOperators, outputs: Tensors
    ) -> list[Any] | None:
        """Return the answers of an output's steps run for each sample alone; failing ones fail.

        None when the outputs can't be split by sample, or all of them fail. The time it takes is
        the query's own; it has no spans.
        """
        count = len(query.samples)
        names = {port.name, *(name for step in port.steps for name in step.extra_outputs)}
        values = outputs_by_sample(outputs, names, count)
        if count == 1 or values is None:
            return None
        read_sample = partial(self._runner.sample, query)
        isolated = finish_steps_by_sample(port, values, query.good_places, read_sample)
        return self._answers_of_good_samples(query, isolated) if isolated.answers else None

    def _answers_of_good_samples(self, query: Query, isolated: IsolatedAnswers) -> list[Any]:
        """Fail the samples with an error; return all answers, None for failed samples."""
        query.fail_samples(
            {
                place: self._runner.failure(query, place, operator, error)
                for place, (operator, error) in isolated.errors.items()
            }
        )
        return [isolated.answers.get(place) for place in range(len(query.samples))]
