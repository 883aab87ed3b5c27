# other names for parts of `_linear`, until all rooms cimport from there
from ._linear cimport Slope, average, climb, new_slopes
