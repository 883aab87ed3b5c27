"""Annotation in the browser, and pipelines behind HTTP: the extra `spacy-spectral[serve]`."""

from importlib.util import find_spec

from ..base.errors import Errors, SpectralError


def require_extra() -> None:
    """Raise an error that says what to install if that is needed."""
    names = ("starlette", "uvicorn", "python_multipart")
    if missing := [name for name in names if find_spec(name) is None]:
        raise SpectralError(Errors.S651.format(names=", ".join(missing)))
