"""Memory asked for some steps before it is read: tables of features are far larger than the cache."""

cdef extern from "spacy_spectral/base/_compiler.h" nogil:
    void FETCH "SPECTRAL_PREFETCH"(const void* address)
