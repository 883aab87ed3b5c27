"""The registered architecture `spacy-spectral.Reranker.v1`."""

from ...base.learnt import architecture
from .model import Reranker
from .training import Settings

build_reranker = architecture("reranker", Reranker, Settings, ask="rank")
