"""What tests of several scripts need."""

import importlib
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def script(request):
    """The script that a file of tests is about: benchmark_x for test_benchmark_x."""
    return importlib.import_module(Path(request.module.__file__).stem.removeprefix("test_"))
