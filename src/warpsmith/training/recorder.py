"""What a trainer writes down of each step, in an order that a kill cannot break."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from warpsmith.training.stage import Curves, StageFolder, seal
from warpsmith.training.trackers import open_tracker
from warpsmith.training.watch import Alarm, Watch, WatchSettings


class Recorder:
    """Takes up where the folder's curves end. Of several ranks, all watch and one `writes`."""

    def __init__(
        self, folder: Path, watch: WatchSettings, *, writes: bool = True, trackers: Sequence[str] = ()
    ):
        self._stage = StageFolder(folder)
        self._curves = Curves(folder)
        self._watch = Watch(watch)
        self._writes = writes
        self._tracks = [open_tracker(name, folder) for name in trackers if writes]
        for row in self._curves.rows():
            self._watch.look(int(row["step"]), row)

    def step(self, step: int, figures: Mapping[str, float], *, saved: bool) -> Alarm | None:
        """Stores a step; `saved`: its checkpoint is written. Returns why the run is to be stopped, if it is.

        The figures come before the seal, so that a checkpoint that is gone on from has its own.
        """
        look = self._watch.look(step, figures)
        if not self._writes:
            return look.stop
        self._curves.append(step, figures)
        for track in self._tracks:
            track(step, figures)
        if saved:
            seal(self._stage.checkpoint(step))
            if look.healthy:
                self._stage.mark_good(step)
        if look.stop is not None:
            self._stage.stop(step, look.stop)
        return look.stop
