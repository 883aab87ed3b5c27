# other names for parts of `_linear`, until all rooms cimport from there
from ._linear cimport Slot, find_row, first_half, mix, mixed, pair_key, rotate, second_half
