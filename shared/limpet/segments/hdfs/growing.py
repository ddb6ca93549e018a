"""One segment open for appending on HDFS."""

from collections.abc import Sequence

from limpet.clock.port import Clock
from limpet.model.errors import CannotGoOn
from limpet.runtime.executor import Runner
from limpet.segments.hdfs.cluster import Hdfs, HdfsFault, HdfsFile, LeaseLost
from limpet.segments.hdfs.files import POLL_SECONDS, seal_file
from limpet.segments.hdfs.group import GroupWrite, Written
from limpet.segments.hdfs.hints import Hints
from limpet.segments.hdfs.places import places_of
from limpet.segments.hdfs.settings import Alert, HdfsSettings
from limpet.segments.port import Appendable, Location, SegmentFailed, SegmentsUnavailable
from limpet.warc import WarcError, index_line, index_of


class GrowingSegment:
    """Grows by whole groups: write, hsync, then ask the NameNode how many replicas there are.

    The driver repairs its pipeline without saying so, and goes on with a single DataNode if it must. So nothing counts
    before the NameNode has named enough replicas of every block that the group touched, after the sync: the pipeline's
    list is brought up to date before a repaired pipeline acknowledges anything. `size_bytes` is what counts.
    """

    def __init__(
        self,
        hdfs: Hdfs,
        settings: HdfsSettings,
        *,
        clock: Clock,
        alert: Alert,
        runner: Runner,
        name: str,
        warcinfo: bytes,
    ) -> None:
        self.name = name
        self._places = places_of(settings.root, name)
        self.path = self._places.growing
        self.size_bytes = 0
        self.captures = 0
        self.usable = True  # False: nothing more may be appended, recovery decides what is good
        self.created = False  # there may be a file
        self._hdfs = hdfs
        self._settings = settings
        self._clock = clock
        self._alert = alert
        self._runner = runner
        self._warcinfo = warcinfo
        self._file: HdfsFile | None = None
        self._hints = Hints(hdfs, self._places.settled)

    @property
    def next_offset(self) -> int:
        """Where the next capture will start."""
        return self.size_bytes or len(self._warcinfo)

    async def commit(self, captures: Sequence[Sequence[Appendable]]) -> list[list[Location]]:
        """Append a group; where each member is. `SegmentsUnavailable`: nothing was written. `SegmentFailed`: who knows.

        After either the segment is not usable; the second may leave whole captures, for recovery to adopt.
        `CannotGoOn`: the file was taken from us, or a stream cannot be read.
        """
        offset = self.next_offset
        try:
            if self._file is None:
                await self._create()
            written = await self._write(captures)
        except BaseException:
            self.drop()
            raise
        self.captures += len(captures)
        located: list[list[Location]] = []
        for capture in written:
            places: list[Location] = []
            for member in capture:
                places.append(Location(self.name, offset, member.size_bytes))
                offset += member.size_bytes
                self._index(member.start, places[-1])
            located.append(places)
        return located

    async def check(self) -> None:
        """Sync nothing, and count replicas. Raises as `commit` does; the segment is not usable after that.

        HDFS makes up for lost replicas of closed blocks only. So an idle segment that lost some has to be given up
        before it loses the rest.
        """
        if self._file is None:
            return
        try:
            await self._file.hsync()
            await self._confirm(max(0, self.size_bytes - 1), self.size_bytes)
        except (HdfsFault, FileNotFoundError, FileExistsError) as error:
            self.drop()
            raise await self._failed(error) from error
        except BaseException:
            self.drop()
            raise

    async def settle(self, offset: int) -> None:
        """Leave a hint for recovery: everything before `offset` is settled."""
        if self.usable and offset <= self.size_bytes:
            await self._hints.advance(offset)

    async def leave(self, offset: int) -> None:
        """Nothing more is appended: a hint says where recovery goes on. The file is to be given back."""
        await self.settle(offset)
        await self._hints.close()
        self.usable = False

    async def seal(self) -> None:
        """Complete the file, store the index, drop `.open`. `HdfsFault`: recovery can do it; safe to repeat there."""
        file, usable = self._file, self.usable
        self.usable, self._file = False, None
        if file is None or not usable or not self.size_bytes:
            return
        await self._hints.close()
        try:
            await file.close()
        except BaseException:
            file.drop()
            raise
        found = await self._hdfs.size(self.path)
        if found != self.size_bytes:
            raise HdfsFault(f"{self.path} has {found} bytes, not {self.size_bytes}")
        await seal_file(self._hdfs, self._places, index_of(self._hints.written.lines))

    def drop(self) -> None:
        """Let go of it. What was acknowledged stays."""
        self.usable = False
        self._hints.drop()
        file, self._file = self._file, None
        if file is not None:
            file.drop()

    async def _create(self) -> None:
        try:
            self.created = True
            self._file = await self._hdfs.create(self.path)
        except (HdfsFault, FileExistsError) as error:
            raise SegmentsUnavailable(f"cannot open segment {self.name}: {error}") from error

    async def _write(self, captures: Sequence[Sequence[Appendable]]) -> list[list[Written]]:
        """Write, sync, count replicas."""
        assert self._file is not None
        head = b"" if self.size_bytes else self._warcinfo
        group = GroupWrite(self._file, self._runner)
        try:
            written = await group.write(head, captures)
            await self._file.hsync()
            await self._confirm(self.size_bytes, self.size_bytes + group.size_bytes)
        except OSError as error:
            if not isinstance(error, (FileNotFoundError, FileExistsError)):
                raise CannotGoOn(f"a body that waits on the disk cannot be read: {error}") from error
            raise await self._failed(error) from error
        except HdfsFault as error:
            raise await self._failed(error) from error
        self.size_bytes += group.size_bytes
        return written

    async def _failed(self, error: Exception) -> SegmentFailed | CannotGoOn:
        if isinstance(error, LeaseLost) or await self._was_taken():
            return CannotGoOn(
                f"segment {self.name} was taken by another process: this one was held for dead, start it again"
            )
        return SegmentFailed(f"segment {self.name} cannot be trusted any more: {error}")

    async def _was_taken(self) -> bool:
        """Whether somebody closed the file that we have not closed."""
        try:
            return not (await self._hdfs.blocks(self.path, 0, 1)).growing
        except HdfsFault:
            return False
        except FileNotFoundError:
            return True

    async def _confirm(self, start: int, end: int) -> None:
        """Enough replicas of every byte from `start` to `end`, or `HdfsFault`.

        A block that was just closed has its replicas reported one by one, a moment later; a growing one has those of
        its pipeline.
        """
        settings = self._settings
        deadline = self._clock.monotonic() + settings.replicas_seconds_max
        while True:
            found = await self._hdfs.blocks(self.path, start, end - start)
            if not found.growing:
                raise LeaseLost("the file is closed")
            if found.size_bytes < end:
                raise HdfsFault(f"the NameNode knows of {found.size_bytes} bytes, not {end}")
            short = [block for block in found.within(start, end - start) if len(block.replicas) < settings.replicas_min]
            if not short:
                return
            if not all(block.complete for block in short) or self._clock.monotonic() > deadline:
                replicas = min(len(block.replicas) for block in short)
                detail = f"{replicas} replicas of {self.name}, {settings.replicas_min} are required"
                self._alert("replicas_short", detail)
                raise HdfsFault(detail)
            await self._clock.sleep(POLL_SECONDS)

    def _index(self, start: bytes, place: Location) -> None:
        try:
            line = index_line(start, self.name, place.offset, place.length)
        except WarcError:  # no line; telling so is the business of verification
            return
        if line is not None:
            self._hints.written.add(line, place.offset + place.length)
