"""`finality contracts`: look at contracts before they are applied.

`check` needs nothing but the files: no broker, no settings. It names every fault of every file, one line each, in the
form that editors and CI systems jump to (`FILE:LINE: PATH: reason; what to write instead`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from finality.cli.output import show_json
from finality.core.contract import MAX_DOCUMENT, Contract, Fault
from finality.core.contract_yaml import load_contract
from finality.core.errors import DependencyError

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Contracts: what jobs owe.")


@app.callback()
def _contracts() -> None:
    """Contracts: what jobs owe."""


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="Contract files, YAML or JSON, one contract each.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Name every fault of contract files; exit code 2 when there is any. Warnings alone do not fail.

    Example: finality contracts check nightly.yaml
    """
    checked = [(path, *_load(path)) for path in files]
    if as_json:
        show_json({"files": [_row(path, contract, faults) for path, contract, faults in checked]})
    else:
        for path, contract, faults in checked:
            for fault in faults:
                typer.echo(fault.render())
            if contract is not None:
                typer.echo(f"{path}: {contract.name} {contract.version}: {', '.join(contract.expected)}")
    if any(contract is None for _, contract, _ in checked):
        raise typer.Exit(2)


def _load(path: Path) -> tuple[Contract | None, list[Fault]]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_DOCUMENT + 1)
    except OSError as error:
        raise DependencyError(f"{path} cannot be read: {error.strerror}; name a contract file") from None
    if len(content) > MAX_DOCUMENT:
        return None, [_whole(path, f"is longer than {MAX_DOCUMENT} bytes", "no contract is so long", 1)]
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return None, [_whole(path, "is not UTF-8", "save the file as UTF-8", line)]
    return load_contract(text, str(path))


def _whole(path: Path, reason: str, suggestion: str, line: int) -> Fault:
    return Fault((), reason, suggestion, line, str(path))


def _row(path: Path, contract: Contract | None, faults: list[Fault]) -> dict[str, Any]:
    known = None
    if contract is not None:
        known = {
            "expected": contract.expected,
            "name": contract.name,
            "tenant": contract.tenant,
            "version": contract.version,
        }
    rows = [
        {
            "line": fault.line,
            "path": fault.path,
            "reason": fault.reason,
            "suggestion": fault.suggestion,
            "warning": fault.warning,
        }
        for fault in faults
    ]
    return {"contract": known, "faults": rows, "file": str(path)}
