"""Which failures are worth another try. Only for Airflow 3.3 and later, which asks."""

from __future__ import annotations

from typing import Any

from airflow.sdk.definitions.retry_policy import RetryDecision, RetryPolicy

from bollhav_provider.exceptions import BollhavError


class BollhavRetryPolicy(RetryPolicy):
    """Fail at once on definition and contract errors; leave everything else to the task's ``retries``."""

    def evaluate(self, exception: BaseException, try_number: int, max_tries: int, context: Any = None) -> RetryDecision:
        if isinstance(exception, BollhavError) and not exception.retryable:
            return RetryDecision.fail(f"{type(exception).__name__}: trying again cannot help")
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        return {}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> BollhavRetryPolicy:
        return cls()
