"""Count shared n-grams of texts that do not fit into memory, one parquet file at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from skillcomp.errors import FrameError, literal, plural
from skillcomp.ngrams import Tokenizer, name_of_tokenizer
from skillcomp.overlap.score import Skills, score, skills_by_slug, source_files

_BATCH = 10_000  # Number of texts that a worker holds at a time.
# Metadata key of a result file; its value identifies the part and the settings of the call.
_KEY = b"skillcomp"
_UNFINISHED = ".unfinished-"
_READ = {
    *("attempt_id", "skill", "case_id", "condition", "repeat", "answer"),
    *("passage_id", "document", "level", "made_up", "text", "question"),
}
Place = str | PathLike[str]


def score_files(
    parts: Place | Sequence[Place],
    *,
    skills: Skills,
    out: Place,
    cases: pd.DataFrame | None = None,
    ngram: Iterable[int] | int = range(3, 13),
    exclude_prompt: bool = True,
    boilerplate: str | Sequence[str] = (),
    tokenizer: Tokenizer | None = None,
    tokenizer_name: str | None = None,
) -> list[Path]:
    """Count the n-grams that texts in parquet files share with their skill, part by part.

    The rows are those of :func:`score` on all parts together, bit for bit. Use this function if the
    texts do not fit into memory, or to spread the work over processes or a cluster.

    Parameters
    ----------
    parts : path, or sequence of path
        Parquet files with the columns that :func:`score` reads, or a folder of such files, which
        are taken in the order of their names.
    skills, cases, ngram, exclude_prompt, boilerplate, tokenizer, tokenizer_name
        As in :func:`score`.
    out : path
        Folder for the result, one file per part: a new or empty folder, or the folder of a stopped
        call with the same arguments, which then resumes. A cluster needs a folder that all its
        machines share. ``pandas.read_parquet(out)`` returns all rows.

    Returns
    -------
    list of pathlib.Path
        The files of the result, in the order of the parts.

    Raises
    ------
    FrameError
        If there are no parts, a part is not a parquet file, `out` holds something else, an id
        occurs twice in the parts, or as in :func:`score`; the message names the part.

    Notes
    -----
    A worker holds 10,000 texts at a time, so its memory does not grow with their number. Before
    that, the search for ids that occur twice needs 20 bytes per id. Parts are pieces of work for
    ``joblib.Parallel``, which uses one process by default. In
    ``with joblib.parallel_config(n_jobs=8):`` it uses eight; with ``backend="dask"`` and the client
    of a cluster, or with ray, it uses the workers of the cluster. Make at least as many parts as
    workers. A result file appears only when it is complete. After a crash, repeat the call with the
    same parts and arguments: it keeps the complete files.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> texts = pd.DataFrame({"passage_id": ["p1", "p2"], "skill": "s", "level": "fresh",
    ...                       "text": ["Narrow the unknown values.", "Wait."]})
    >>> with TemporaryDirectory() as folder:
    ...     texts.to_parquet(f"{folder}/texts.parquet")
    ...     files = score_files(f"{folder}/texts.parquet", skills={"s": "Narrow unknown values."},
    ...                         out=f"{folder}/shared", ngram=3)
    ...     pd.read_parquet(files[0])[["passage_id", "n", "n_shared"]]
      passage_id  n  n_shared
    0         p1  3         1
    1         p2  3      <NA>
    """
    files, folder = _part_files(parts), Path(out)
    lengths = ngram if isinstance(ngram, int) else list(ngram)
    how: dict[str, Any] = {"skills": skills, "cases": cases, "ngram": lengths}
    how |= {"exclude_prompt": exclude_prompt, "boilerplate": boilerplate}
    how |= {"tokenizer": tokenizer, "tokenizer_name": tokenizer_name}
    _require_distinct(files)
    targets = [folder / f"part-{at:06d}.parquet" for at in range(len(files))]
    missing = _missing_results(files, targets, folder, _words_of_settings(how))
    joblib.Parallel()(joblib.delayed(_score_part)(*piece, how) for piece in missing)
    return targets


def _part_files(parts: Place | Sequence[Place]) -> list[Path]:
    if isinstance(parts, str | PathLike):
        path = Path(parts)
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    else:
        files = [Path(part) for part in parts]
    if not files:
        raise FrameError(f"overlap.score_files: parts: found {parts}, with no parquet file.")
    missing = [file for file in files if not file.is_file()]
    if missing:
        n = plural(len(missing), "file")
        raise FrameError(f"overlap.score_files: parts: there is no {missing[0]} ({n} missing).")
    return files


def _require_distinct(files: Sequence[Path]) -> None:
    """Raise an error if the parts mix attempts and passages, or an id occurs twice in them."""
    hashes, kinds = [np.empty(0, np.uint64)], dict[str, Path]()
    for file in files:
        for name, ids in _ids_of_part(file):
            kinds.setdefault(name, file)
            hashes.append(_hashes(ids))
    if len(kinds) > 1:
        both = ", ".join(f"{name} in {file}" for name, file in kinds.items())
        raise FrameError(f"overlap.score_files: parts: found {both}; give either in one call.")
    ordered = np.concatenate(hashes)
    ordered.sort()
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    places: dict[str, Path] = {}
    for file in files if twice.size else ():
        for name, ids in _ids_of_part(file):
            for key in ids[np.isin(_hashes(ids), twice[:1000])]:
                if key in places:
                    where = f"{name} {literal(key)} occurs twice, in {places[key]} and in {file}"
                    raise FrameError(f"overlap.score_files: {where}; every text needs its own.")
                places[key] = file


def _ids_of_part(file: Path) -> Iterator[tuple[str, NDArray[np.object_]]]:
    with _errors_named(file), pq.ParquetFile(file) as source:
        for name in {"attempt_id", "passage_id"}.intersection(source.schema_arrow.names):
            for batch in source.iter_batches(1_000_000, columns=[name]):
                ids = batch.column(0).to_pandas().dropna()
                yield name, ids.astype(str).to_numpy(object)


def _hashes(ids: NDArray[np.object_]) -> NDArray[np.uint64]:
    return pd.util.hash_array(ids, categorize=False)


def _words_of_settings(how: dict[str, Any]) -> str:
    """Return as text the settings on which the result of a part depends."""
    documents = skills_by_slug(how["skills"])
    texts = {slug: source_files(documents, slug) for slug in documents}
    name = name_of_tokenizer(how["tokenizer"], how["tokenizer_name"])
    prompts = how["cases"].to_csv(index=False) if isinstance(how["cases"], pd.DataFrame) else ""
    rest = [how[name] for name in ("ngram", "exclude_prompt", "boilerplate")]
    return repr([version("skillcomp"), texts, prompts, name, rest])


def _missing_results(
    files: Sequence[Path], targets: Sequence[Path], folder: Path, settings: str
) -> list[tuple[Path, Path, str]]:
    """List the parts without a result, each with the file to write and the key to store in it."""
    folder.mkdir(parents=True, exist_ok=True)
    missing, others = [], set(folder.iterdir()) - set(targets)
    for part, target in zip(files, targets, strict=True):
        state = part.stat()
        words = f"{part.name} {state.st_size} {state.st_mtime_ns} {settings}"
        key = sha256(words.encode("utf-8", "backslashreplace")).hexdigest()
        if not target.exists():
            missing.append((part, target, key))
        elif _key_of_result(target) != key:
            others.add(target)
    strange = sorted(file for file in others if not file.name.startswith(_UNFINISHED))
    if strange:
        raise FrameError(
            f"overlap.score_files: out: {folder} is not empty: {strange[0].name} is no result of "
            "these parts and arguments; give a new folder."
        )
    for file in others:  # these are unfinished files of a stopped call
        file.unlink(missing_ok=True)
    return missing


def _key_of_result(file: Path) -> str:
    if not file.is_file():
        return ""
    try:
        return str((pq.read_schema(file).metadata or {}).get(_KEY, b""), "utf-8")
    except pa.ArrowException:  # not a parquet file, so not a result
        return ""


@contextmanager
def _errors_named(part: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, FrameError) as error:
        raise FrameError(f"overlap.score_files: {part}: {error}") from error


def _score_part(part: Path, target: Path, key: str, how: dict[str, Any]) -> None:
    """Score one part in batches and write its rows; the file appears when it is complete."""
    # The name is hidden, so that readers of the folder skip the file, and unique, so that no two
    # workers write the same file.
    unfinished = target.with_name(f"{_UNFINISHED}{target.stem}-{uuid4().hex}")
    try:
        with _errors_named(part), pq.ParquetFile(part) as source:
            columns = [name for name in source.schema_arrow.names if name in _READ]
            writer: pq.ParquetWriter | None = None
            batches = source.iter_batches(_BATCH, columns=columns)
            for batch in batches if source.metadata.num_rows else [source.read(columns=columns)]:
                rows = pa.Table.from_pandas(score(batch.to_pandas(), **how), preserve_index=False)
                about = {**(rows.schema.metadata or {}), _KEY: key}
                writer = writer or pq.ParquetWriter(unfinished, rows.schema.with_metadata(about))
                writer.write_table(rows.cast(writer.schema))
            assert writer is not None
            writer.close()
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
