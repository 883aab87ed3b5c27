"""The sides of a head, as numbers of rows in tables."""


cdef enum:
    LEFT = 0
    RIGHT = 1
