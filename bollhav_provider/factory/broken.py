"""What the UI shows of a definition that cannot be built.

Airflow keeps import errors by file, and one import error stops every DAG of its file. A model that cannot be
built must not stop the others, so it becomes a DAG that says what is wrong and fails when it is run.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import DAG, AirflowFailException, BaseOperator

from bollhav_provider.factory.names import dag_id
from bollhav_provider.factory.schedule import NO_BEGIN

TAG = "definition-error"
_UNAFFECTED = (
    "What can be built has its DAG as before. What cannot keeps its table and its state, and goes on where it was once "
    "this is mended."
)


class DefinitionErrorOperator(BaseOperator):
    """Fail with what is wrong with a definition.

    Args:
        problem: the text.
    """

    ui_color = "#f5d7d7"

    def __init__(self, *, problem: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.problem = problem

    def execute(self, context: Any) -> None:
        raise AirflowFailException(self.problem)


def broken_dag(name: str, problem: str, tags: list[str]) -> Any:
    """Return the DAG that stands for a broken model or file.

    Args:
        name: the model's full name, so that the DAG keeps its history, or the file's path.
        problem: what is wrong and what to write instead.
        tags: further tags.
    """
    text = problem.strip()
    with DAG(
        dag_id(name),
        dag_display_name=f"{name}: definition error",
        description=text.splitlines()[0][:500],
        schedule=None,
        start_date=NO_BEGIN,
        catchup=False,
        is_paused_upon_creation=False,  # a paused DAG is what nobody looks at
        tags=sorted({TAG, *tags}),
        doc_md=f"### `{name}` cannot be built\n\n```\n{text}\n```\n\n{_UNAFFECTED}",
    ) as dag:
        DefinitionErrorOperator(task_id="definition_error", problem=text, retries=0)
    return dag
