"""Old name of `files`."""

from .files import MAGIC as MAGIC
from .files import append_line as append_line
from .files import loading as loading
from .files import output_path as output_path
from .files import pack as pack
from .files import read_header as read_header
from .files import remove_leftovers as remove_leftovers
from .files import require_writable as require_writable
from .files import unpack as unpack
from .files import write_atomically as write_atomically
from .files import write_directory as write_directory
