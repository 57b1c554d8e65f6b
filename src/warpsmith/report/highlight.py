"""Source text as HTML with its words marked; everything in it is escaped first of all."""

import html
import re

_WORDS = (
    "False None True and as assert async auto await bool break case char class const constexpr continue def del "
    "do double elif else enum except extern finally float for from global if import in inline int is lambda "
    "long namespace not or pass raise return short sizeof static struct switch template try typename uint32_t "
    "unsigned using void volatile while with yield __device__ __forceinline__ __global__ __host__ "
    "__launch_bounds__ __restrict__ __shared__ __syncthreads"
)
_TOKEN = re.compile(
    r"(?P<co>//[^\n]*|/\*.*?\*/|(?<!\S)#(?!include|define|if|endif|pragma|else|undef)[^\n]*)"
    r'|(?P<st>"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
    r"|(?P<kw>\b(?:" + "|".join(_WORDS.split()) + r")\b)"
    r"|(?P<nu>\b\d[\w.]*)",
    re.DOTALL,
)
MAX_CHARS = 60_000


def highlighted(text: str) -> str:
    """Escaped HTML of Python or CUDA source; text beyond `MAX_CHARS` is cut off, and that is said."""
    shown, parts, end = text[:MAX_CHARS], [], 0
    for found in _TOKEN.finditer(shown):
        parts.append(html.escape(shown[end : found.start()]))
        parts.append(f'<span class="{found.lastgroup}">{html.escape(found.group())}</span>')
        end = found.end()
    parts.append(html.escape(shown[end:]))
    if len(text) > MAX_CHARS:
        parts.append(f"\n[… {len(text) - MAX_CHARS} more characters]")
    return "".join(parts)
