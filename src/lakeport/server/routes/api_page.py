"""The API description as an HTML page, from the OpenAPI document, without scripts or external resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from html import escape
from typing import Any, TypeAlias

import msgspec

Json: TypeAlias = dict[str, Any]

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1.1rem; margin: 0; } h3 { font-size: 1rem; margin: 1rem 0 .25rem; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
details { border: 1px solid #8886; border-radius: .5rem; margin: .5rem 0; padding: .5rem 1rem; }
summary { cursor: pointer; } summary h2 { display: inline; font-weight: 600; }
.method { display: inline-block; min-width: 3.5rem; font-weight: 700; text-transform: uppercase; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; }
th, td { border-bottom: 1px solid #8884; padding: .25rem .5rem .25rem 0; vertical-align: top; }
""".strip()


@lru_cache(4)
def render_page(document: bytes) -> bytes:
    """The page as HTML."""
    described = msgspec.json.decode(document)
    schemas = described["components"]["schemas"]
    info = described["info"]
    parts = [
        f"<h1>{escape(info['title'])}</h1><p>{escape(info['description'])}</p>",
        f"<p>Requests go to <code>{escape(described['servers'][0]['url'])}</code>, with the header "
        "<code>Authorization: Bearer …</code>. <a href='openapi.json'>The same as an OpenAPI document</a>.</p>",
        *(
            _operation(method, path, operation, described["components"]["responses"])
            for path, methods in described["paths"].items()
            for method, operation in methods.items()
        ),
        "<h1>Objects</h1>",
        *(_schema(name, schema) for name, schema in sorted(schemas.items())),
    ]
    page = (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )
    return page.encode()


def _operation(method: str, path: str, operation: Json, errors: Json) -> str:
    title = f"<span class='method'>{escape(method)}</span> <code>{escape(path)}</code>"
    parts = [f"<summary><h2>{title}</h2> {escape(operation['summary'])}</summary>"]
    if operation["parameters"]:
        rows = [
            (_code(p["name"]), escape(p["in"]), _type(p["schema"]), escape(p["description"]))
            for p in operation["parameters"]
        ]
        parts.append("<h3>Parameters</h3>" + _table(("name", "in", "type", "meaning"), rows))
    if "requestBody" in operation:
        parts.append(f"<h3>Body</h3><p>{_content(operation['requestBody'])}</p>")
    answers = [
        (escape(status), escape(_resolved(answer, errors)["description"]), _content(_resolved(answer, errors)))
        for status, answer in operation["responses"].items()
    ]
    parts.append("<h3>Answers</h3>" + _table(("status", "meaning", "body"), answers))
    return f"<details id='{escape(operation['operationId'])}'>{''.join(parts)}</details>"


def _resolved(answer: Json, errors: Json) -> Json:
    reference = answer.get("$ref")
    found: Json = answer if reference is None else errors[reference.rpartition("/")[2]]
    return found


def _content(holder: Json) -> str:
    """The media types of a body, with their schemas."""
    return "; ".join(
        f"<code>{escape(media)}</code>: {_type(body['schema'])} {escape(body['schema'].get('description', ''))}"
        for media, body in holder.get("content", {}).items()
    )


def _schema(name: str, schema: Json) -> str:
    required = schema.get("required", ())
    rows = [
        (_code(key), _type(value), "required" if key in required else "")
        for key, value in schema.get("properties", {}).items()
    ]
    text = f"<p>{escape(schema['description'])}</p>" if "description" in schema else ""
    table = _table(("field", "type", ""), rows)
    return f"<details id='schema-{escape(name)}'><summary><h2>{escape(name)}</h2></summary>{text}{table}</details>"


def _type(schema: Json) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f"<a href='#schema-{name}'>{name}</a>"
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if "enum" in schema:
        return " or ".join(_code(str(value)) for value in schema["enum"])
    return escape(" ".join(filter(None, [schema.get("type", "anything"), schema.get("format")])))


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    return f"<table><tr>{head}</tr>{''.join(_rows(rows))}</table>"


def _rows(rows: Iterable[Iterable[str]]) -> Iterator[str]:
    for row in rows:
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"
