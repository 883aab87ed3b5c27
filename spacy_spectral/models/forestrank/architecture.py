"""The registered architecture `spacy-spectral.ForestReranker.v1`."""

from ...base.learnt import architecture
from .model import ForestReranker
from .training import ForestSettings

build_forest_reranker = architecture("forest_reranker", ForestReranker, ForestSettings)
