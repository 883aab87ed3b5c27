"""What is saved as a whole, in a format of its own."""

from typing import Any, ClassVar, TypeVar

from .fields import Format

Kind = TypeVar("Kind", bound="Stored")


class Stored:
    """Something that can be saved. Its class has the format, what is written, and how it is made of what was
    read."""

    FORMAT: ClassVar[Format]

    def to_payload(self) -> dict[str, Any]:
        """The fields of the format."""
        raise NotImplementedError

    @classmethod
    def from_payload(cls: type[Kind], read: dict[str, Any]) -> Kind:
        """Make it of fields that are each as the format has them. What they do not fit together in is a
        ValueError.
        """
        return cls(**read)

    def to_bytes(self) -> bytes:
        """The serialised form; what is equal gives equal bytes."""
        return self.FORMAT.pack(self.to_payload())

    @classmethod
    def from_bytes(cls: type[Kind], data: bytes) -> Kind:
        """Read what `to_bytes` wrote, or raise a ValueError that says what is wrong."""
        return cls.from_payload(cls.FORMAT.unpack(data))

    def __reduce__(self) -> tuple[Any, ...]:
        # through the same bytes: compiled parts and caches do not travel to other processes
        return type(self).from_bytes, (self.to_bytes(),)
