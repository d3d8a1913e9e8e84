"""The exception for a request that cannot be read."""

from __future__ import annotations


class Error(ValueError):
    """A fault in a request: which field, what was given, what is allowed.

    That nothing fits is no fault; it is an answer.

    >>> import shardwise
    >>> try:
    ...     shardwise.plan("llama-3.1-8b", "8xH100", seq_len=0, global_batch=8)
    ... except shardwise.Error as e:
    ...     print(e.field, e.code, e.allowed, sep=" | ")
    seq_len | out_of_range | a number from 1 to 1e8
    """

    field: str
    """Path of the field, as in ``layout.tensor_parallel``."""

    code: str
    """The kind of fault: ``syntax``, ``wrong_type``, ``unknown_field``, ``missing_field``,
    ``out_of_range``, ``unknown_name`` or ``conflict``."""

    given: str
    """What was given, shortened."""

    allowed: str
    """What is allowed there."""

    message: str
    """The whole in one sentence."""

    def __init__(self, fault: str) -> None:
        """Takes the fault as the core prints it, a JSON object."""
        import json

        super().__init__(fault)
        read = json.loads(fault)
        self.field = read["field"]
        self.code = read["code"]
        self.given = read["given"]
        self.allowed = read["allowed"]
        self.message = read["message"]

    def __str__(self) -> str:
        return self.message

    @classmethod
    def of(cls, field: str, code: str, given: object, allowed: str) -> Error:
        """A fault found on Python's side, in the core's words."""
        import json

        said = f"{field}: got {given}; allowed: {allowed}"
        return cls(
            json.dumps(
                {
                    "field": field,
                    "code": code,
                    "given": str(given),
                    "allowed": allowed,
                    "message": said,
                }
            )
        )
