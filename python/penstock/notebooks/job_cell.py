"""Notebook cell that shows a job's progress until it ends, with a button that stops it.

The button needs ipywidgets; without it the cell shows the call.
"""

from __future__ import annotations

import threading
from html import escape
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from penstock.common.job_client import JobClient

INTERVAL_S: Final = 1.0
THREAD_NAME: Final = "job cell"


class _Update(Protocol):
    def __call__(self, html: str, *, is_over: bool) -> None:
        """Replace the displayed content."""


def show(client: JobClient) -> None:
    """Show a job in the notebook's current cell until it ends; in a terminal, once.

    Args:
        client: The job.
    """
    from IPython.core.getipython import get_ipython

    if getattr(get_ipython(), "kernel", None) is None:
        print(repr(client))  # a terminal's prompt: output there cannot be updated
        return
    update = _shown_with_button(client) or _shown(client)
    ended = threading.Event()
    client.handle.add_done_callback(lambda _: ended.set())

    def run() -> None:
        while not ended.wait(INTERVAL_S):
            update(job_html(client), is_over=False)
        update(job_html(client), is_over=True)

    threading.Thread(target=run, name=THREAD_NAME, daemon=True).start()


def job_html(client: JobClient) -> str:
    """Return a job's progress as HTML."""
    progress, error = client.get_progress(), client.handle.exception()
    bar = "" if progress.share is None else f'<progress value="{progress.share:.3f}"></progress> '
    said = "" if error is None else f"<pre>{escape(f'{type(error).__name__}: {error}')}</pre>"
    return f"<div>{bar}<code>{escape(progress.text())}</code>{said}</div>"


def _shown_with_button(client: JobClient) -> _Update | None:
    try:
        import ipywidgets
    except ImportError:
        return None
    from IPython.display import display

    text = ipywidgets.HTML(job_html(client))
    button = ipywidgets.Button(description="Stop", tooltip="Cancel the job", icon="stop")
    button.on_click(lambda _: client.cancel())
    display(ipywidgets.VBox([text, button]))

    def update(html: str, *, is_over: bool) -> None:
        text.value = html
        button.disabled = is_over

    return update


def _shown(client: JobClient) -> _Update:
    from IPython.display import HTML, display

    hint = "<div>To stop it, call <code>cancel()</code> of its JobClient.</div>"
    shown: Any = display(HTML(job_html(client) + hint), display_id=True)

    def update(html: str, *, is_over: bool) -> None:
        shown.update(HTML(html if is_over else html + hint))

    return update
