"""Reads damaged files with pyarrow and with the decoder, in subprocesses, and reports the outcome.

Run as a program: it reads paths from standard input and prints one line of JSON for each. Facts are
reported one by one, so that those before a crash show which reader crashed.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lazydelta._arrow import from_mask
from lazydelta.errors import DeltaError
from tests.native.support import opened, plain, read, read_chosen, watched

REPOSITORY = Path(__file__).parents[2]
LIMIT = 64 << 20
_SECONDS = 60


def judged(paths):
    """Return a verdict for each file: see `_verdict`."""
    done = subprocess.run(
        [sys.executable, __file__],
        input="".join(f"{path}\n" for path in paths),
        env=os.environ | {"PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'src'}"},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def _verdict(path, report):
    """Read a file with pyarrow and with the decoder, and compare the rows.

    Facts: `plain` and `views` (`rows`, or the error), `taken` (whether the decoder read it), `same`,
    `valid` (whether the views are valid), and `grown`, the peak memory of the decoder beyond
    pyarrow's, in kilobytes. `strings` is the outcome of the decoder without views and without every
    third row; `strings_same` and `strings_valid` are as above. `alike` is the outcome with the file
    template of the valid file beside it, if there is one; `alike_same` and `alike_valid` are as above.
    """
    expected, outcome = _outcome(path, views=False)
    report(plain=outcome)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with watched() as taken:
        found, outcome = _outcome(path, views=True)
    strings, strings_outcome = _strings(path)
    alike, alike_outcome = _alike(path)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    report(views=outcome, taken=all(taken) and bool(taken), grown=grown)
    report(strings=strings_outcome, alike=alike_outcome)
    if alike is not None:
        report(alike_valid=_is_sound(alike))
    if alike is not None and expected is not None:
        report(alike_same=_are_same(_as_bytes(alike), _as_bytes(expected[0])))
    if found is not None:
        report(valid=_is_sound(found[0]))
    if strings_outcome == "rows":
        # Invalid UTF-8 is read by pyarrow, and stays invalid.
        report(strings_valid=_is_sound(strings) or not (expected is None or _is_sound(expected[0])))
    if strings_outcome == "rows" and expected is not None:
        report(strings_same=_are_same(strings, _left(*expected)))
    if expected is not None and found is not None:
        report(same=found[1] == expected[1] and _are_same(found[0], expected[0]))


def _outcome(path, *, views):
    return _tried(path, lambda: read(path, views=views, batch_rows=97, limit=LIMIT))


def _strings(path):
    def kept(start, length):
        return from_mask(np.arange(start, start + length) % 3 != 0)

    return _tried(path, lambda: read_chosen(path, kept, views=False, batch_rows=97, limit=LIMIT))


def _alike(path):
    """Return the rows of a file, read with the template of the valid file beside it."""
    sound = path.with_suffix(".sound")
    if not sound.exists():
        return None, "there is no sound one"
    with closing(opened(sound, LIMIT)) as file:
        alike = file.template(file.schema.names, views=True)
    file = None if alike is None else alike.open(str(path))
    if file is None:
        return None, "it is not opened"
    try:
        return pa.Table.from_batches(list(file.batches(97, None))), "rows"
    except (pa.ArrowException, ValueError) as error:
        return None, str(error)


def _left(rows, places):
    mask = pa.array(np.array(places, np.int64) % 3 != 0)
    return None if rows is None else rows.filter(mask)


def _as_bytes(rows):
    """Return rows with strings as binary.

    An unusual string annotation in the footer is a string for parquet-rs and binary for pyarrow.
    """
    if rows is None:
        return None
    rows = plain(rows)
    kinds = [pa.binary() if pt.is_string(kind) else kind for kind in rows.schema.types]
    return rows.cast(pa.schema(zip(rows.schema.names, kinds, strict=True)))


def _are_same(some, others):
    if some is None or others is None:
        return not any(rows is not None and rows.num_rows for rows in (some, others))
    return plain(some).equals(plain(others))


def _tried(path, reading):
    try:
        return reading(), "rows"
    except DeltaError as error:
        assert path.name in str(error), error
        return None, str(error)
    except pa.ArrowException as error:  # pyarrow returned indices that are not in their dictionary
        return None, str(error)


def _is_sound(rows):
    """Whether reading the rows is safe; a decimal may be too long for its type, as in pyarrow."""
    try:
        for column in () if rows is None else rows.columns:
            column.validate(full=not pt.is_decimal(column.type))
    except pa.ArrowInvalid:
        return False
    return True


def _in_a_process(path):
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(_SECONDS)
        with os.fdopen(into, "w") as lines:
            _verdict(path, lambda **facts: print(json.dumps(facts), file=lines, flush=True))
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as lines:
        facts = [json.loads(line) for line in lines]
    _, status = os.waitpid(child, 0)
    found = {"path": str(path), "died": os.waitstatus_to_exitcode(status)}
    for fact in facts:
        found |= fact
    return found


if __name__ == "__main__":
    for line in sys.stdin.read().splitlines():
        sys.stdout.write(json.dumps(_in_a_process(Path(line))) + "\n")
        sys.stdout.flush()
