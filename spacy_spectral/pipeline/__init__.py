"""The components of a spaCy pipeline, and all that reads or writes a Doc."""
