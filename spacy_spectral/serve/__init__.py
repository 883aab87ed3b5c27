"""Annotation in the browser, and pipelines behind HTTP: the extra `spacy-spectral[serve]`."""
