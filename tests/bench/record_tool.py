"""The module that tests/tools/record is, for scripts that write records."""

import datetime
import importlib.machinery
import importlib.util
from pathlib import Path


def record_tool():
    loader = importlib.machinery.SourceFileLoader("record", str(Path(__file__).resolve().parents[1] / "tools/record"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("record", loader))
    loader.exec_module(module)
    return module


def write_figures(identity, section, title, command, figures, seed=0):
    """An unlisted record of figures: [{"name", "value", "unit"}]."""
    tool = record_tool()
    tool.write({"schema": 1, "id": identity, "section": section, "title": title, "command": command, "commit": tool.commit(),
                "machine": tool.machine(), "date": datetime.date.today().isoformat(), "seed": seed, "model": "-",
                "figures": figures, "listed": False})
