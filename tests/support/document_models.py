"""The documents as pydantic models: those of `reports`, and the library's own values."""

import json
import re
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.json_schema import models_json_schema

from roocontext.reports.catalogue import DOCUMENTS


def model_of(kind: type) -> type[BaseModel]:
    """The model of a document; of a value of the library, one that has its fields."""
    if issubclass(kind, BaseModel):
        return kind
    fields: dict[str, Any] = {name: (hint, ...) for name, hint in get_type_hints(kind).items()}
    return create_model(
        kind.__name__, __config__=ConfigDict(extra="forbid"), __doc__=kind.__doc__, **fields
    )


def schema() -> Any:
    """The JSON schema of all documents: names and types, not the prose."""
    models = [(model_of(kind), "serialization") for kind in DOCUMENTS.values()]
    found = json.dumps(bare(models_json_schema(models)[1]))
    # pydantic 2.12 puts the module before a name that a value and the model made of it share.
    return json.loads(re.sub(r"\b(?:[a-z_]+__)+(?=[A-Z])", "", found))


def bare(part: Any) -> Any:
    """A part of a schema without titles and descriptions; a property may be called so."""
    if isinstance(part, list):
        return [bare(one) for one in part]
    if not isinstance(part, dict):
        return part
    prose = [key for key in ("title", "description") if isinstance(part.get(key), str)]
    return {key: bare(value) for key, value in part.items() if key not in prose}
