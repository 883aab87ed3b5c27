"""Dependency trees and what every parser of them needs. Knows nothing of spaCy."""
