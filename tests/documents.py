"""The documents as pydantic models: those of `reports`, and the library's own values."""

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


def schema() -> dict[str, Any]:
    """The JSON schema of all documents."""
    models = [(model_of(kind), "serialization") for kind in DOCUMENTS.values()]
    return models_json_schema(models)[1]
