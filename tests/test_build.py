"""How kernels are compiled."""

from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("setuptools", reason="not needed once the package is built")
from setuptools import Distribution
from setuptools.command.build_ext import build_ext

from spacy_spectral._build import BuildKernels

ROOT = Path(__file__).parents[1]


@pytest.fixture
def build(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(build_ext, "build_extensions", lambda self: None)
    build = BuildKernels(Distribution())
    build.finalize_options()
    return build


@pytest.mark.parametrize("compiler, is_told", [("unix", True), ("mingw32", True), ("msvc", False)])
def test_only_compilers_that_know_them_get_flags(build, compiler, is_told):
    build.compiler = SimpleNamespace(compiler_type=compiler)
    build.build_extensions()
    assert {"-O3" in extension.extra_compile_args for extension in build.extensions} == {is_told}
    assert is_told or not any(extension.extra_compile_args for extension in build.extensions)


def test_every_kernel_is_compiled(build):
    sources = {source for extension in build.extensions for source in extension.sources}
    kernels = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("spacy_spectral/**/*.pyx")}
    assert sources == kernels | {"spacy_spectral/base/_cython.c"}
    assert all(
        "spacy_spectral/base/_compiler.h" in extension.depends for extension in build.extensions
    )
