"""What a triggerer consists of, and its garbage collector."""

from __future__ import annotations

import gc

_spared = False


def spare_the_heap() -> None:
    """Leave what this process consists of out of the collector's passes: once, when its first gate begins to wait.

    Airflow's modules, classes and configuration are about 300,000 objects that live as long as the triggerer. Python
    walks over all of them whenever the objects that came since have grown by a quarter, which a few hundred triggers
    of any kind make them do: 0.2 s of CPU that nothing else in the process runs in, and a second on a busy machine.
    Frozen, they are not walked over any more; what comes later is collected as ever, in passes as short as it is
    small. Objects still go when the last reference to them goes; what is given up are the reference cycles among
    those that were there at that moment, which are no more than a process has that just began. Airflow does the same
    in its DAG processor.
    """
    global _spared
    if not _spared and gc.isenabled():
        gc.freeze()
        _spared = True
