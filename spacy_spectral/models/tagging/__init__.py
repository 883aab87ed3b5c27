"""Taggers that say how likely everything is: a neural one, and products of unlike taggers."""
