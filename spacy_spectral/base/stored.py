"""Old name of `files`."""

from .files import Stored as Stored
