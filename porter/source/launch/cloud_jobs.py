"""How many processes a project's own code starts a script in, on machines that it rents.

    HuggingFace(entry_point="train.py", instance_type="ml.g5.12xlarge", instance_count=2,
                distribution={"torch_distributed": {"enabled": True}})

SageMaker starts one for each GPU of each instance where a `distribution` says so, without one a single process.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

# GPUs of AWS's instances; one where a size isn't named (https://aws.amazon.com/ec2/instance-types).
GPUS = {
    "p2": {"8xlarge": 8, "16xlarge": 16},
    "p3": {"8xlarge": 4, "16xlarge": 8},
    "p3dn": {"24xlarge": 8},
    "p4d": {"24xlarge": 8},
    "p4de": {"24xlarge": 8},
    "p5": {"48xlarge": 8},
    "p5e": {"48xlarge": 8},
    "p5en": {"48xlarge": 8},
    "g4dn": {"12xlarge": 4},
    "g5": {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
    "g6": {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
    "g6e": {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
}
OF_A_HOST = "parameter_server"  # the one way that starts a process a host
MOST_DEEP = 4  # names that stand for one another


def processes_of_jobs(script: str, launchers: Iterable[tuple[str, str]]) -> Iterator[tuple[str, int]]:
    """The processes in which each of the jobs of `launchers` (name and text) starts a script of that name."""
    for where, words in launchers:
        if "instance_type" not in words:
            continue
        trees = [*_trees(words, where.endswith(".ipynb"))]
        held = {
            target.id: node.value
            for tree in trees
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for call in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
            given = _given(call, held)
            entry = _constant(given.get("entry_point") or given.get("entry_script"))
            if isinstance(entry, str) and PurePosixPath(entry).name == script and (count := _processes(given)):
                yield where, count


def _processes(given: Mapping[str, ast.expr]) -> int:
    """The processes of a job by what it is given; 0 where that isn't told."""
    instance, instances = _constant(given.get("instance_type")), _constant(given.get("instance_count"))
    family, _, size = instance.removeprefix("ml.").partition(".") if isinstance(instance, str) else ("", "", "")
    spread = given.get("distribution") or given.get("distributed")
    if family not in GPUS or spread is None or not isinstance(instances, int | None):
        return 0
    a_host: object = GPUS[family].get(size, 1)
    if isinstance(spread, ast.Call):  # Torchrun(process_count_per_node=4)
        named = {each.arg: each.value for each in spread.keywords}
        a_host = _constant(named.get("process_count_per_node")) or a_host
    else:
        ways = _constant(spread)
        if not isinstance(ways, dict):
            return 0
        mpi = ways.get("mpi")
        if isinstance(mpi, dict) and mpi.get("enabled"):
            a_host = mpi.get("processes_per_host", a_host)
        elif not any(_is_enabled(said) for way, said in ways.items() if way not in ("mpi", OF_A_HOST)):
            return 0
    return (instances or 1) * a_host if isinstance(a_host, int) else 0


def _is_enabled(said: object) -> bool:
    """`{"enabled": True}`, `{"dataparallel": {"enabled": True}}`."""
    return isinstance(said, dict) and (bool(said.get("enabled")) or any(_is_enabled(each) for each in said.values()))


def _given(call: ast.Call, held: Mapping[str, ast.expr]) -> dict[str, ast.expr]:
    """What a call is given by name, and what is given to those of its arguments that are calls themselves
    (`compute=Compute(instance_type=...)`); of a variable what it holds."""
    found: dict[str, ast.expr] = {}
    for keyword in call.keywords:
        value = keyword.value
        for _ in range(MOST_DEEP):
            value = held.get(value.id, value) if isinstance(value, ast.Name) else value
        found.setdefault(keyword.arg or "", value)
        for inner in value.keywords if isinstance(value, ast.Call) else ():
            found.setdefault(inner.arg or "", inner.value)
    return found


def _constant(node: ast.expr | None) -> object:
    try:
        return ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ""


def _trees(words: str, is_notebook: bool) -> Iterator[ast.Module]:
    texts = [words]
    if is_notebook:
        try:
            texts = ["".join(cell.get("source", ())) for cell in json.loads(words)["cells"]]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return
    for text in texts:
        try:
            yield ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
