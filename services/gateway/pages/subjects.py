"""What each analysis is about: its group, and the question that it answers. Pure."""

from collections.abc import Mapping
from types import MappingProxyType

GROUPS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Model": {
            "latency": "How long does a query take?",
            "latency_histogram": "How are latencies spread?",
            "blocks": "Was latency the same throughout?",
            "throughput": "How many samples a second?",
            "optimal_batch": "Which batch size is best?",
            "levels": "Where does the time of a query go?",
            "operators": "Which step of the pipeline takes longest?",
            "tail": "Why are the slow queries slow?",
            "lateness": "Were queries issued when they were due?",
            "accuracy": "Are the answers right?",
            "outputs": "What did the model answer?",
        },
        "Preparation": {
            "preparation": "What does the preparation of a sample take?",
            "pipeline_stages": "Which stage of the pipeline is the bottleneck?",
            "copies": "How long do copies to and from the device take?",
            "cold_start": "How much longer is the first query?",
            "cold_layers": "Which layers make the start slow?",
        },
        "Layers": {
            "layers": "Which layers take longest?",
            "layer_latency": "How much does the time of a layer vary?",
            "layer_memory": "Which layers take most memory?",
            "type_distribution": "Which types of layers are there?",
            "layer_types": "Which types of layers take longest?",
            "memory_by_type": "Which types of layers take most memory?",
            "work_kinds": "How much is convolution, attention and other work?",
            "stages": "Which part of the model dominates?",
            "static_work": "How much work does each layer have?",
            "roof_distance": "Which layers lose most against the roof?",
            "layer_roofline": "Are layers bound by memory or by arithmetic?",
            "layer_overheads": "What does deeper tracing cost each layer?",
            "copies_by_layer": "Which layers copy memory, and for how long?",
        },
        "Kernels": {
            "kernels": "Which kernels run in which layer?",
            "kernel_roofline": "Are kernels bound by memory or by arithmetic?",
            "kernels_by_name": "Which kernels take longest?",
            "kernels_by_layer": "How long do the kernels of each layer take?",
            "layer_counters": "How much do layers compute and move?",
            "kernel_counters": "What do the requested counters say?",
            "gpu_and_rest": "How much of a layer's time is the GPU's?",
            "kernels_by_model": "Is the model bound by memory or by arithmetic?",
            "device_use": "Is the device busy?",
        },
        "Conditions": {
            "conditions": "Under which conditions was it measured?",
            "device_conditions": "Did clocks move, was the device throttled?",
            "host_counters": "What did the host's processor count?",
            "memory": "How much memory does it take?",
            "energy": "How much energy does a sample take?",
            "failures": "Why did queries fail?",
            "attempts": "Which attempts were repeated?",
        },
    }
)
"""Names of analyses with their questions, by group, in the order of the pages."""

OTHERS = "Others"
_GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}
_QUESTIONS = {name: text for names in GROUPS.values() for name, text in names.items()}


def group_of(name: str) -> str:
    """Return the group of an analysis; `OTHERS` for one of another version."""
    return _GROUP_OF.get(name, OTHERS)


def question_of(name: str) -> str:
    """Return the question that an analysis answers, '' for one of another version."""
    return _QUESTIONS.get(name, "")
