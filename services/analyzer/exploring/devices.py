"""How much faster an accelerator is than a CPU, model by model."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from mlscope.manifests.device_names import is_gpu
from schemas.analysis import Table
from services.analyzer.building.best import capitalised, estimate_text, leader
from services.analyzer.building.charts import Axis, ranked
from services.analyzer.building.margins import margin_in, ratio
from services.analyzer.building.table import estimate_columns, make_table, text_column
from services.analyzer.exploring.source import (
    Cells,
    Exploration,
    closed_loops,
    fastest_of,
    system_of,
)

_CPU = "cpu"
_NOTHING = (
    "No model was measured on a CPU and on a GPU: `mlscope run MODEL --device cpu` and "
    "`--device cuda` measure both."
)


def devices(rows: Sequence[Cells], _: Mapping[str, float]) -> Table:
    """Return each model measured on both: the highest throughput of a GPU over that of a CPU."""
    by_model: dict[str, dict[bool, list[Cells]]] = defaultdict(lambda: {True: [], False: []})
    for row in closed_loops(rows):
        device = row["device"]
        if device == _CPU or is_gpu(device):
            by_model[row["model"]][device == _CPU].append(row)
    cells = []
    for model, groups in by_model.items():
        on_cpu, on_gpu = fastest_of(groups[True]), fastest_of(groups[False])
        if on_cpu is None or on_gpu is None:
            continue
        margin = ratio(margin_in(on_gpu, "samples_per_s"), margin_in(on_cpu, "samples_per_s"))
        cells.append(
            {
                "model": model,
                "cpu": system_of(on_cpu),
                "gpu": on_gpu["accelerator"] or system_of(on_gpu),
                "cpu_evaluation": on_cpu["evaluation"],
                "gpu_evaluation": on_gpu["evaluation"],
                "cpu_samples_per_s": on_cpu["samples_per_s"],
                "gpu_samples_per_s": on_gpu["samples_per_s"],
                **margin.cells("speedup"),
            }
        )
    if not cells:
        return make_table(EXPLORATION, [], _NOTHING)
    fastest = leader(cells, "speedup")
    model, text = fastest.row["model"], estimate_text(fastest.row, "speedup", "")
    verdict = f"{model} gains the most: {text} times on a GPU."
    if doubt := fastest.doubt("which gains the most", lambda row: str(row["model"])):
        verdict = f"{capitalised(doubt)}; {model} gains about {text} times on a GPU."
    return make_table(EXPLORATION, cells, verdict)


EXPLORATION = Exploration(
    name="gpu_and_cpu",
    title="GPU and CPU",
    source=(
        "PLAT Figures 7 and 8: the highest throughput on a GPU over the highest on a CPU. The "
        "interval combines those of both rates, by logarithms (Zou and Donner 2008)."
    ),
    columns=(
        text_column("model", "The model, of any version."),
        text_column("cpu", "The fastest system without a GPU."),
        text_column("gpu", "The fastest GPU."),
        text_column("cpu_evaluation", "The evaluation on the CPU."),
        text_column("gpu_evaluation", "The evaluation on the GPU."),
        *estimate_columns("cpu_samples_per_s", "Highest throughput on a CPU.", "1/s")[:1],
        *estimate_columns("gpu_samples_per_s", "Highest throughput on a GPU.", "1/s")[:1],
        *estimate_columns("speedup", "Throughput on the GPU over that on the CPU.", "1"),
    ),
    compute=devices,
    chart=ranked(("model", "Model"), Axis("speedup", "Times the CPU"), "gpu", "cpu", facet=""),
)
