"""As tests/engine: ports of texts that stand nowhere."""

from tests.engine.conftest import empty, nothing_lies_around

__all__ = ["empty", "nothing_lies_around"]
