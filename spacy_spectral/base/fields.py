"""Old name of `files`."""

from .files import Array as Array
from .files import Bool as Bool
from .files import Bytes as Bytes
from .files import Field as Field
from .files import Float as Float
from .files import Format as Format
from .files import Int as Int
from .files import List as List
from .files import Map as Map
from .files import Record as Record
from .files import Scope as Scope
from .files import Size as Size
from .files import Str as Str
from .files import Strings as Strings
