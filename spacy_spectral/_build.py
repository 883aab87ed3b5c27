"""How kernels are compiled. Only the build uses this module: pyproject.toml names it."""

from pathlib import Path

from setuptools import Extension
from setuptools.command.build_ext import build_ext

_SHARED = "spacy_spectral.base._cython"
_FLAGS = ["-O3", "-g0", "-fno-trapping-math"]


class BuildKernels(build_ext):
    """Cython's `build_ext`, for every .pyx file of the package.

    There is no `parallel`: with two threads Cython once took a class of a .pyx for one of a .pxd.
    """

    def initialize_options(self) -> None:
        super().initialize_options()
        # memoryviews are compiled once, not once an extension: a quarter of the time
        self.shared_utility_qualified_name = _SHARED

    def finalize_options(self) -> None:
        self.distribution.ext_modules = extensions()
        super().finalize_options()

    def build_extensions(self) -> None:
        # GCC and Clang know the flags; MSVC does not, and optimizes as Python was built
        flags = [] if self.compiler.compiler_type == "msvc" else _FLAGS
        for extension in self.extensions:
            extension.extra_compile_args = flags
        super().build_extensions()


def extensions() -> list[Extension]:
    """What all share, whose C file Cython writes, then one for every .pyx file."""
    package = Path("spacy_spectral")
    headers = sorted(path.as_posix() for path in package.rglob("*.h"))
    sources = [f"{_SHARED.replace('.', '/')}.c"]
    sources += sorted(path.as_posix() for path in package.rglob("*.pyx"))
    return [
        Extension(
            source.rpartition(".")[0].replace("/", "."),
            [source],
            include_dirs=["."],  # for #include "spacy_spectral/base/_compiler.h"
            depends=headers,
        )
        for source in sources
    ]
