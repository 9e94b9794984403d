"""Contract documents that the tests of this folder share."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from finality.core.canonical import encode
from finality.core.contract import Contract, compile_contract

# The same examples on every run, however slow the machine is.
STEADY = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

HEAD = "apiVersion: finality.dev/v1alpha1\nkind: StatefulJob\nmetadata: {name: x}\nspec:\n"

# Without y and n, which PyYAML writes without quotes although YAML 1.1 takes them for truth values.
WORDS = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,8}", fullmatch=True).filter(lambda word: word.lower() not in "yn")
DURATIONS = st.builds(
    lambda count, unit: f"{count}{unit}", st.integers(1, 999), st.sampled_from(["ms", "s", "m", "h", "d"])
)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=3).map(
    lambda value: format(value, "f")
)
BOUNDS = st.builds(
    lambda comparator, number, unit: f"{comparator}{number} {unit}",
    st.sampled_from(["<", "<=", ">", ">=", "==", "!=", "≤", "≥", "≠"]),
    DECIMALS,
    st.sampled_from(["", "%", "req/s", "B", "KiB", "MiB", "GiB", "ms", "s", "m", "h", "d"]),
)
PREDICATES = st.sampled_from(
    [
        "rows_out > 0",
        "attempts <= 2 && phase == 'SUCCEEDED'",
        "has(metrics.a) ? metrics.a >= 1 : true",
        "run_time_ms < 5",
    ]
)
ENDED = st.sampled_from(["SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED", "INCONCLUSIVE", "CONTINUED"])
SPECS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "targetState": st.fixed_dictionaries(
            {}, optional={"phase": ENDED, "metrics": st.dictionaries(WORDS, BOUNDS, max_size=4)}
        ),
        "limits": st.fixed_dictionaries(
            {}, optional={"runTime": DURATIONS, "latency": DURATIONS, "retries": st.integers(0, 9)}
        ),
        "deadline": DURATIONS,
        "settle": st.one_of(st.just("none"), DURATIONS),
        "reconcilePolicy": st.sampled_from(["eventual", "strict"]),
        "stages": st.lists(WORDS, max_size=4, unique=True),
        "follow": st.sampled_from(["pinned", "latest"]),
        "predicates": st.lists(
            st.fixed_dictionaries({"name": WORDS, "cel": PREDICATES}), max_size=2, unique_by=lambda row: row["name"]
        ),
        "selector": st.fixed_dictionaries(
            {}, optional={"source": WORDS, "kind": WORDS, "job": st.text("ab*?[]!-.", min_size=1, max_size=8)}
        ),
    },
)


def sample(name: str) -> str:
    """Text of a contract that ships with the package."""
    return (files("finality") / "data" / "contracts" / name).read_text(encoding="utf-8")


def tree(spec: dict[str, Any], name: str = "x") -> dict[str, Any]:
    """A document around a spec."""
    return {
        "apiVersion": "finality.dev/v1alpha1",
        "kind": "StatefulJob",
        "metadata": {"name": name},
        "spec": spec,
    }


def contract(spec: dict[str, Any], name: str = "x") -> Contract:
    """The compiled contract of a spec."""
    return compile_contract(encode(tree(spec, name)))
