"""One clear error if a framework is missing, or is a version without what an adapter needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from roocontext.errors import FrameworkMissing


@contextmanager
def framework(package: str, *, works: str, extra: str) -> Iterator[None]:
    """Import a framework in here: what cannot be imported becomes FrameworkMissing.

    `works` are the versions that the adapter works with, `extra` is what installs them.
    """
    try:
        yield
    except (ImportError, AttributeError) as error:
        try:
            found = version(package)
        except PackageNotFoundError:
            fact = f"This adapter needs {package} ({works}), which is not installed."
            found = None
        else:
            fact = f"This adapter works with {package} {works}. Version {found} lacks what it uses."
        raise FrameworkMissing(
            fact,
            advice=f"Install the extra: pip install 'roocontext[{extra}]'.",
            package=package,
            works=works,
            found=found,
        ) from error
