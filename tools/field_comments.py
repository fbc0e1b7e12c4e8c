"""Lets the reference show the fields of a dataclass as a list, with the comments behind them."""

from __future__ import annotations

import re
from typing import Any

from griffe import Attribute, Class, Docstring, Extension


class FieldComments(Extension):
    """`size_bytes: int  # On the disk.` becomes an entry of the list "Attributes" of its class."""

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        fields = [
            one
            for one in cls.members.values()
            if isinstance(one, Attribute) and one.annotation is not None and one.docstring is None
        ]
        is_dataclass = any("dataclass" in str(one.value) for one in cls.decorators)
        if not is_dataclass or not fields or cls.docstring is None:
            return
        text = cls.docstring.value + "\n\nAttributes:\n"
        for field in fields:
            comment = re.search(r"  # (.*)$", field.lines[-1]) if field.lines else None
            words = field.name.replace("_", " ")
            text += f"    {field.name} ({field.annotation}): {comment[1] if comment else words}\n"
            cls.del_member(field.name)
        cls.docstring = Docstring(text, lineno=cls.docstring.lineno, parent=cls)
