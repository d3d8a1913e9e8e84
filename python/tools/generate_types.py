"""Writes ``shardwise/answers.py`` and ``shardwise/requests.py`` from ``schema/*.json``.

The core's types are the only declaration; what Python sees is made from the JSON Schema that
``cargo xtask schema`` prints from them. Run it after the schema changes::

    python tools/generate_types.py            # writes the two modules
    python tools/generate_types.py --check    # exit status 1 when they are out of date
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCHEMA = HERE.parents[1] / "schema"
PACKAGE = HERE.parent / "shardwise"
WIDTH = 100

ANSWERS = '''"""What the core answers, as frozen dataclasses.

Made from ``schema/`` by ``tools/generate_types.py``; change the core's types instead.
Amounts are in base units: bytes, seconds, FLOPs, US dollars.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias
'''

REQUESTS = '''"""What may be asked, as typed dictionaries: the keywords of the verbs.

Made from ``schema/`` by ``tools/generate_types.py``; change the core's types instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Required
'''

Schema = dict[str, Any]


def load(folder: Path, kind: str) -> dict[str, Schema]:
    """Every definition of the files of one kind (``request`` or ``answer``), by name."""
    out: dict[str, Schema] = {}
    for path in sorted(folder.glob(f"*{kind}*.json")):
        document = json.loads(path.read_text())
        definitions = document.pop("$defs", {})
        out.setdefault(document["title"], document)
        for name, definition in definitions.items():
            out.setdefault(name, definition)
    return out


def words(schema: Schema) -> list[str] | None:
    """The values of a closed vocabulary, if the schema is one."""
    options = schema.get("oneOf", [])
    if options and all("const" in o for o in options):
        return [o["const"] for o in options]
    return schema.get("enum") if schema.get("type") == "string" else None


class Names:
    """Python's names for schema definitions; equal ones (``Term``, ``Term2``) become one."""

    def __init__(self, definitions: dict[str, Schema], *, lists: str) -> None:
        self.definitions = definitions
        self.lists = lists
        self.alias: dict[str, str] = {}
        for name in sorted(definitions):
            base = re.sub(r"\d$", "", name)
            same = base != name and base in definitions
            self.alias[name] = base if same and self._alike(name, base) else name

    def _alike(self, a: str, b: str) -> bool:
        fields = [self.definitions[n].get("properties", {}) for n in (a, b)]
        return {k: self.python(v) for k, v in fields[0].items()} == {
            k: self.python(v) for k, v in fields[1].items()
        }

    def is_float(self, name: str) -> bool:
        """Whether a definition is a plain number: a quantity, which Python holds as a float."""
        return self.definitions.get(name, {}).get("type") == "number"

    def python(self, schema: Schema | bool) -> str:
        """The Python type of a schema."""
        if isinstance(schema, bool):
            return "Any"
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            return "float" if self.is_float(name) else self.alias.get(name, name)
        if "anyOf" in schema:
            return " | ".join(dict.fromkeys(self.python(s) for s in schema["anyOf"]))
        if (values := words(schema)) is not None:
            return f"Literal[{', '.join(json.dumps(v) for v in values)}]"
        kind = schema.get("type")
        if isinstance(kind, list):
            return " | ".join(self.python({**schema, "type": k}) for k in kind)
        if kind == "array":
            item = self.python(schema.get("items", True))
            return f"{self.lists}[{item}{', ...' if self.lists == 'tuple' else ''}]"
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return f"Mapping[str, {self.python(schema['additionalProperties'])}]"
        plain = {
            "string": "str",
            "integer": "int",
            "number": "float",
            "boolean": "bool",
            "null": "None",
            "object": "Mapping[str, Any]",
        }
        return plain.get(str(kind), "Any")


def prose(text: str) -> str:
    """A Rust doc comment without its example, links as plain words."""
    text = text.split("\n```")[0].split("\n\n#")[0].strip()
    return re.sub(r"\[(`[^`]*`)\](\([^)]*\))?", r"\1", text).replace("\\", "\\\\")


def docstring(text: str, indent: str) -> str:
    """A docstring: the first sentence, then the rest."""
    body = " ".join(prose(text).split()) or "No description."
    summary, _, rest = re.sub(r"(?<=[a-z)`][.;:])\s+(?=\S)", "\n", body, count=1).partition("\n")
    if len(summary) + len(indent) + 6 > WIDTH:
        summary, rest = body[: body.rindex(" ", 0, WIDTH - 6 - len(indent))], ""
        rest = body[len(summary) :].strip()
    if len(body) + len(indent) + 6 <= WIDTH:
        return f'{indent}"""{body}"""\n'
    lines = textwrap.wrap(rest, WIDTH - len(indent))
    said = f"\n{indent}".join(lines)
    return f'{indent}"""{summary}\n\n{indent}{said}\n{indent}"""\n'


def ordered(schema: Schema) -> list[str]:
    """Fields in order: those that are required as declared, then the rest."""
    required = schema.get("required", [])
    return [*required, *(k for k in schema.get("properties", {}) if k not in required)]


def default(python: str, field: Schema) -> str:
    value = field.get("default")
    if python.startswith("tuple["):
        return "()"
    return "None" if value is None else repr(value)


def answers(definitions: dict[str, Schema]) -> str:
    """Frozen dataclasses."""
    names = Names(definitions, lists="tuple")
    out = [ANSWERS]
    made = {
        n: d
        for n, d in sorted(definitions.items())
        if names.alias[n] == n and not names.is_float(n)
    }
    out.append(f"\n__all__ = {json.dumps(sorted(made), indent=4)}\n")
    for name, schema in made.items():
        if words(schema) is not None:
            out.append(
                f"\n{name}: TypeAlias = {names.python(schema)}\n"
                f"{docstring(schema.get('description', ''), '')}"
            )
            continue
        out.append("\n\n@dataclass(frozen=True, kw_only=True)\n" + f"class {name}:\n")
        out.append(docstring(schema.get("description", ""), "    "))
        for key in ordered(schema):
            field = schema["properties"][key]
            python = names.python(field)
            optional = key not in schema.get("required", [])
            if optional and not python.startswith("tuple[") and field.get("default") is None:
                python = python if "None" in python else f"{python} | None"
            value = f" = {default(python, field)}" if optional else ""
            out.append(f"\n    {key}: {python}{value}\n")
            out.append(docstring(field.get("description", ""), "    "))
    return "".join(out)


def requests(definitions: dict[str, Schema]) -> str:
    """Typed dictionaries."""
    names = Names(definitions, lists="Sequence")
    out = [REQUESTS]
    made = {
        n: d
        for n, d in sorted(definitions.items())
        if names.alias[n] == n and not names.is_float(n)
    }
    out.append(f"\n__all__ = {json.dumps(sorted(made), indent=4)}\n")
    for name, schema in made.items():
        if "properties" not in schema:
            python = names.python(schema)
            quoted = f'"{python}"' if "|" in python else python
            out.append(
                f"\n{name}: TypeAlias = {quoted}\n{docstring(schema.get('description', ''), '')}"
            )
            continue
        out.append(f"\n\nclass {name}(TypedDict, total=False):\n")
        out.append(docstring(schema.get("description", ""), "    "))
        for key in ordered(schema):
            field = schema["properties"][key]
            python = names.python(field)
            python = f"Required[{python}]" if key in schema.get("required", []) else python
            out.append(f"\n    {key}: {python}\n")
            out.append(docstring(field.get("description", ""), "    "))
    return "".join(out)


def formatted(text: str) -> str:
    """The text as ruff lays it out."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "format",
        "--stdin-filename",
        str(PACKAGE / "answers.py"),
        "-",
    ]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=True).stdout


def modules(folder: Path = SCHEMA) -> dict[Path, str]:
    """The generated modules, by path."""
    return {
        PACKAGE / "answers.py": formatted(answers(load(folder, "answer"))),
        PACKAGE / "requests.py": formatted(requests(load(folder, "request"))),
    }


def main() -> int:
    """Writes the modules, or says which are out of date."""
    parser = argparse.ArgumentParser(description="Python types from the JSON Schema of the core.")
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--schema", type=Path, default=SCHEMA, help="folder of the schema files")
    given = parser.parse_args()
    stale = {p: t for p, t in modules(given.schema).items() if not p.exists() or p.read_text() != t}
    for path, text in stale.items():
        print(f"{'out of date' if given.check else 'written'}: {path.name}")
        if not given.check:
            path.write_text(text)
    return int(bool(stale) and given.check)


if __name__ == "__main__":
    sys.exit(main())
