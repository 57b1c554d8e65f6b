"""What goes wrong at a service, in the classes of `LLM`: the packages of OpenAI and Anthropic name failures alike."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from warpsmith.errors import ModelReplyError, ModelUnavailableError, RequestRefusedError
from warpsmith.llm.retry import AGAIN, TryAgain, retry_after

_TRANSPORT = ("httpx", "httpx2", "httpcore", "httpcore2")
"""Their errors, of a connection that breaks off inside a stream, pass through both packages."""


@contextmanager
def failures(sdk: ModuleType, key: str) -> Iterator[None]:
    """Raises TryAgain for what may pass, RequestRefusedError for what does not; `key`: where the key is read from.

    Messages never hold headers, where the key stands.
    """
    try:
        yield
    except sdk.APITimeoutError as error:
        raise TryAgain(ModelUnavailableError("the server did not answer in time")) from error
    except sdk.APIResponseValidationError as error:
        raise TryAgain(ModelReplyError("the server's answer is not of the expected form")) from error
    except sdk.APIStatusError as error:
        status = error.status_code
        # an error inside a stream may carry the status of its beginning
        if status in AGAIN or status < 400:
            unavailable = ModelUnavailableError(f"the server answered status {status}")
            raise TryAgain(unavailable, retry_after(error.response.headers)) from error
        hint = f"check {key}" if status in (401, 403) else "check --model and --endpoint"
        raise RequestRefusedError(
            f"the server refused the request with status {status}", hint=hint
        ) from error
    except sdk.APIConnectionError as error:
        raise TryAgain(ModelUnavailableError("the server cannot be reached")) from error
    except sdk.APIError as error:
        # an error that comes inside a stream
        raise TryAgain(ModelUnavailableError("the server reported an error in its answer")) from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise TryAgain(
            ModelReplyError(f"the server's answer cannot be read ({type(error).__name__})")
        ) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] in _TRANSPORT:
            raise TryAgain(ModelUnavailableError("the connection to the server broke off")) from error
        raise
