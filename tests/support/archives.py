"""Extraction of archives with every Python that is supported."""

import tarfile
from pathlib import Path

__all__ = ["extract_archive"]


def extract_archive(packed: tarfile.TarFile, folder: Path) -> None:
    """Extract all files, without links and paths that lead outside where Python can refuse them (from 3.11.4 on)."""
    packed.extraction_filter = getattr(tarfile, "data_filter", None)
    packed.extractall(folder)
