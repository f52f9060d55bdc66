"""Files that a command will write: what stands in their way is told before the work, not after it."""

from __future__ import annotations

from pathlib import Path

import click


def writable(path: Path) -> Path:
    """The path. Raises click.BadParameter when it is a folder, or would be in one that is not there."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise click.BadParameter(f"{path}: {'is a folder' if path.is_dir() else 'there is no such folder'}")
    return path
