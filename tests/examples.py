"""How many examples hypothesis tries: a quick run (``pytest --sample``) takes fewer, ``make soak`` more."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, Phase, settings

QUICK_SHARE = 5
"""A quick run takes one example of so many."""

_quick = False


def take_few() -> None:
    """For a quick run. Before test modules are imported, for their decorators are read then."""
    global _quick
    _quick = True
    settings.register_profile("quick", settings.get_profile("lakeport"), max_examples=scaled(100))
    settings.load_profile("quick")


def scaled(count: int) -> int:
    return max(1, count // QUICK_SHARE) if _quick else count


def examples(count: int, **more: Any) -> settings:
    """Settings for as many examples in a full run."""
    return settings(max_examples=scaled(count), **more)


def histories(count: int, **more: Any) -> settings:
    """Settings for as many random histories in a full run; `LAKEPORT_STATEFUL_EXAMPLES` replaces the number. They are
    too slow to make a failure small, too."""
    return settings(
        max_examples=int(os.environ.get("LAKEPORT_STATEFUL_EXAMPLES", scaled(count))),
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
        **more,
    )
