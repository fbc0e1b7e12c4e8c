"""A GPU with a slow link whose kernels code in no time, whatever they take in this process."""

import contextlib
import json
from collections.abc import Iterator
from unittest import mock

from fitstep.memory.profile_cache import ProfileCache


@contextlib.contextmanager
def quick_codes() -> Iterator[None]:
    """Within it, what copies cost."""
    measure_link, measure_codecs = ProfileCache.host_link, ProfileCache.codecs

    def host_link(cache: ProfileCache, size: int) -> str:
        machine = json.loads(measure_link(cache, size))
        for way in ("evict", "prefetch"):
            machine["links"][0][way] |= {"alone_bytes_per_s": 10**7, "both_bytes_per_s": 10**7}
        return json.dumps(machine)

    def codecs(cache: ProfileCache, piece_bytes: int) -> str:
        machine = json.loads(measure_codecs(cache, piece_bytes))
        own = [codec for codec in machine["codecs"] if codec.get("on_device")]
        assert [codec["name"] for codec in own] == ["zero_value"]
        own[0] |= {"encode_bytes_per_s": 10**15, "decode_bytes_per_s": 10**15}
        own[0]["compute_slowdown"] = 1.0
        return json.dumps(machine)

    with mock.patch.multiple(ProfileCache, host_link=host_link, codecs=codecs):
        yield
