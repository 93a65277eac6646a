"""What the emulator does otherwise than AWS, corrected, without an emulator."""

from typing import Any

import pytest
from ministack.core.lambda_runtime import ProvidedInitTimeout, ProvidedRuntimeError

from local.corrections import _dies_alone


def invoked(error: Exception) -> Any:
    def invoke(worker: object) -> None:
        raise error

    return _dies_alone(None, invoke)(object())


def test_process_that_dies_while_it_starts_is_an_error_of_its_own_call() -> None:
    result = invoked(RuntimeError("bootstrap exited during init with code -9"))
    assert (result["status"], result["error_payload"]["errorType"]) == ("error", "Runtime.ExitError")
    assert "code -9" in result["error_payload"]["errorMessage"]


@pytest.mark.parametrize(
    "error", [ProvidedInitTimeout("silent"), ProvidedRuntimeError("none", "Runtime.InvalidEntrypoint")]
)
def test_fault_that_every_process_of_a_function_has_is_left_to_the_emulator(error: Exception) -> None:
    with pytest.raises(type(error)):
        invoked(error)
