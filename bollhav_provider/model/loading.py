"""Importing the files of users from their text."""

from __future__ import annotations

import marshal
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from types import CodeType

#: The second word of byte code that is valid for one text, whenever that was written (PEP 552).
_BY_HASH = (0b11).to_bytes(4, "little")
_HEAD = 16


class FromSource(SourceFileLoader):
    """Takes byte code that was made of this very text, else compiles it.

    Python itself trusts byte code by the second and size of its text, which an edit can leave as they were. What is
    kept here names the text's hash, and Python accepts it in its own imports, too.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        text = self.get_data(path)
        head = MAGIC_NUMBER + _BY_HASH + source_hash(text)
        try:
            kept = cache_from_source(path)
        except NotImplementedError:  # a Python that keeps no byte code
            return self.source_to_code(text, path)
        code = self._kept(kept, head, path)
        if code is None:
            code = self.source_to_code(text, path)
            if not sys.dont_write_bytecode:
                self.set_data(kept, head + marshal.dumps(code))  # says nothing where it cannot write
        return code

    def _kept(self, kept: str, head: bytes, path: str) -> CodeType | None:
        """Return the byte code that begins with ``head`` and is of ``path``; None if there is none such."""
        try:
            data = self.get_data(kept)
            code = marshal.loads(memoryview(data)[_HEAD:]) if data[:_HEAD] == head else None
        except (OSError, EOFError, ValueError, TypeError):
            return None
        return code if isinstance(code, CodeType) and code.co_filename == path else None
