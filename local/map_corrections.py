"""What ministack's Map Runs do otherwise than AWS, corrected as in `corrections`."""

from typing import Any

from local.state_corrections import replace

_FIELDS = ("ItemReader", "MaxConcurrency", "ToleratedFailureCount", "ToleratedFailurePercentage")


def correct_map_runs() -> None:
    """Make a Map in distributed mode read what its definition says."""
    from ministack.services import stepfunctions

    replace(stepfunctions, "_run_distributed_map", _with_evaluated_fields)


def _with_evaluated_fields(module: Any, run_map: Any) -> Any:
    """It takes JSONata in a Map Run's fields for plain text, ignores its `Output`, and gives what its writer returns.

    Nothing is written: the function that finishes a batch reads the record alone.
    """

    def run_distributed_map(
        state: dict[str, Any], given: Any, effective: Any, iterator: dict[str, Any], execution: Any, context: Any
    ) -> Any:
        fields = {name: state[name] for name in _FIELDS if name in state}
        evaluated = module._apply_jsonata_template(fields, given, context)
        plain = {name: value for name, value in state.items() if name not in ("Output", "ResultWriter")}
        result, following = run_map({**plain, **evaluated}, given, effective, iterator, execution, context)
        return module._apply_jsonata_output(state, given, context, result=result, default=result), following

    return run_distributed_map
