import numpy as np
import pytest

from spacy_spectral.base.cache import zeros_in_large_pages


@pytest.mark.parametrize("shape", [(0,), (3, 16), (1 << 19, 2)])
def test_zeros_begin_with_a_line_of_memory(shape):
    array = zeros_in_large_pages(shape, np.uint32)
    assert array.shape == shape
    assert array.dtype == np.uint32
    assert not array.any()
    assert array.ctypes.data % 64 == 0 or not array.size
    array[...] = 7  # it can be written, and is nobody else's
    assert not zeros_in_large_pages(shape, np.uint32).any()


def test_structured_rows():
    array = zeros_in_large_pages((5,), [("weight", "<i2"), ("output", "<u2")])
    assert array["output"].tolist() == [0] * 5
