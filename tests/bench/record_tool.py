"""The module that tests/tools/record is, for scripts that write records."""

import importlib.machinery
import importlib.util
from pathlib import Path


def record_tool():
    loader = importlib.machinery.SourceFileLoader("record", str(Path(__file__).resolve().parents[1] / "tools/record"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("record", loader))
    loader.exec_module(module)
    return module
