"""All facts and commands by name: the table of contents of the contract."""

from collections.abc import Mapping
from types import MappingProxyType

from schemas.agent import (
    AgentAnnounced,
    AgentDrained,
    AgentInvited,
    AgentJoined,
    AgentLeft,
    AgentLost,
    AgentResumed,
    AgentRevoked,
)
from schemas.analysis import AnalysisCompleted, AnalysisFailed
from schemas.batch import OutputsPredicted, QueriesAnswered, TraceCaptured
from schemas.dead import LetterBuried
from schemas.evaluation import (
    EvaluationAnalyzed,
    EvaluationCancelled,
    EvaluationFailed,
    EvaluationMeasured,
    EvaluationPlanned,
    EvaluationPostponed,
    EvaluationRequested,
    RunInterrupted,
    RunIssued,
    RunStarted,
)
from schemas.exploration import Explore
from schemas.manifest import ManifestPublished, ManifestWithdrawn
from schemas.message import Command, Fact
from schemas.people import PersonAdded, PersonRefused, PersonRemoved
from schemas.price import AgentPriced, SetPrice
from schemas.publishing import PublishManifest, WithdrawManifest
from schemas.request import (
    Cancel,
    Compare,
    Evaluate,
    ListEvaluations,
    Match,
    ShowCatalog,
    ShowEvaluation,
    ShowFlow,
    ShowPredictions,
    ShowTables,
)
from schemas.run import RunCompleted, RunFailed, RunIncomplete, RunReady, RunRecorded
from schemas.trace import ShowSpan, ShowSpans, ShowTrace, ShowWindow, Watch

_FACTS: tuple[type[Fact], ...] = (
    EvaluationRequested,
    EvaluationPostponed,
    EvaluationPlanned,
    RunStarted,
    RunIssued,
    RunInterrupted,
    EvaluationMeasured,
    EvaluationAnalyzed,
    EvaluationFailed,
    EvaluationCancelled,
    RunReady,
    RunCompleted,
    RunFailed,
    RunRecorded,
    RunIncomplete,
    TraceCaptured,
    QueriesAnswered,
    OutputsPredicted,
    AnalysisCompleted,
    AnalysisFailed,
    AgentAnnounced,
    AgentLeft,
    AgentLost,
    AgentInvited,
    AgentJoined,
    AgentDrained,
    AgentResumed,
    AgentRevoked,
    AgentPriced,
    ManifestPublished,
    ManifestWithdrawn,
    LetterBuried,
    PersonAdded,
    PersonRemoved,
    PersonRefused,
)

FACTS: Mapping[str, type[Fact]] = MappingProxyType({f.schema_name(): f for f in _FACTS})
"""Facts by their name, `entity.happened`."""

COMMANDS: Mapping[str, type[Command]] = MappingProxyType(
    {
        c.verb: c
        for c in (
            Evaluate,
            Match,
            Cancel,
            ListEvaluations,
            ShowEvaluation,
            ShowCatalog,
            PublishManifest,
            WithdrawManifest,
            SetPrice,
            ShowTables,
            ShowPredictions,
            Compare,
            Explore,
            ShowSpans,
            ShowFlow,
            ShowTrace,
            ShowWindow,
            ShowSpan,
            Watch,
        )
    }
)
"""Commands that anyone may send, by verb."""
